"""`triton.testing`: timing, comparing, and tables of measurements."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileir import records
from tileir.errors import TileirError
from tileir.executor import Dispatching, executor, executors


def do_bench(
    fn: Callable[[], Any], warmup: float = 25, rep: float = 100, quantiles: Any = None,
    return_mode: str = "mean", **_: Any,
) -> Any:  # fmt: skip
    """Milliseconds of `fn`: called for about `warmup` ms, then for about `rep` ms. With
    `quantiles` a list of those, else the mean, median, min, max or all."""
    wait = _waiting()
    fn()
    wait()
    each = max(1e-6, _milliseconds(fn, wait))
    for _i in range(int(warmup / each)):
        fn()
    wait()
    times = [_milliseconds(fn, wait) for _i in range(max(1, int(rep / each)))]
    if quantiles is not None:
        return [float(q) for q in np.quantile(times, quantiles)]
    if return_mode == "all":
        return times
    return {"min": min, "max": max, "mean": statistics.mean, "median": statistics.median}[
        return_mode
    ](times)


def _milliseconds(fn: Callable[[], Any], wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    fn()
    wait()
    return (time.perf_counter() - start) * 1000


def _waiting() -> Callable[[], None]:
    """What waits for launches on a GPU, which return at once; nothing where there is none."""
    if "gpu" in executors():
        gpu = executor("gpu")
        if isinstance(gpu, Dispatching):
            try:
                gpu.wait()
            except TileirError:
                return lambda: None
            return gpu.wait
    return lambda: None


def assert_close(x: Any, y: Any, atol: float = 1e-2, rtol: float = 1e-2, err_msg: str = "") -> None:
    """Raise AssertionError unless both agree within the tolerances."""
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), atol=atol, rtol=rtol, err_msg=err_msg)


@records.frozen
class Benchmark:
    """A table of measurements: `x_names` take each of `x_vals`, one column per `line_vals`."""

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: dict[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    styles: Any = None
    color: Any = None


class Mark:
    """A function measured for the rows and columns of benchmarks."""

    def __init__(self, fn: Callable[..., Any], benchmarks: Sequence[Benchmark]) -> None:
        self.fn, self.benchmarks = fn, benchmarks

    def run(self, print_data: bool = True, **given: Any) -> list[list[list[Any]]]:
        """Measure every table, print it, and give back its rows."""
        return [self._table(one, print_data, given) for one in self.benchmarks]

    def _table(self, one: Benchmark, shown: bool, given: dict[str, Any]) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for x in one.x_vals:
            places = tuple(x) if isinstance(x, (tuple, list)) else (x,) * len(one.x_names)
            named = {**dict(zip(one.x_names, places, strict=True)), **one.args, **given}
            found = [self.fn(**named, **{one.line_arg: line}) for line in one.line_vals]
            rows.append([*places, *(f[0] if isinstance(f, (tuple, list)) else f for f in found)])
        if shown:
            sys.stdout.write(_shown(one, rows))
        return rows


def _shown(one: Benchmark, rows: list[list[Any]]) -> str:
    heads = [*one.x_names, *one.line_names]
    lines = [f"{one.plot_name}:", "".join(f"{head:>16}" for head in heads)]
    lines += ["".join(f"{cell:>16.6g}" for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def perf_report(benchmarks: Any) -> Any:
    """Measure the decorated function for a `Benchmark`, or several."""
    several = benchmarks if isinstance(benchmarks, (list, tuple)) else [benchmarks]
    return lambda fn: Mark(fn, several)
