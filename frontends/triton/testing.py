"""`triton.testing`: timing, comparing, and tables of measurements."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.errors import TileirError
from tileir.executor import Dispatching, executor, executors
from tileir.frontends.triton import plots


def do_bench(
    fn: Callable[[], Any], warmup: float = 25, rep: float = 100, quantiles: Any = None,
    return_mode: str = "mean", grad_to_none: Sequence[Any] | None = None, **_: Any,
) -> Any:  # fmt: skip
    """Milliseconds of `fn`: called for about `warmup` ms, then for about `rep` ms, before each call
    the gradients of `grad_to_none` taken away. With `quantiles` a list of those (a number for one),
    else the mean, median, min, max or all. Raises ValueError for another `return_mode`."""
    if return_mode not in _SUMMARIES:
        raise ValueError(f"return_mode is {', '.join(_SUMMARIES)}, not {return_mode!r}")
    wait = _waiting()
    fn()
    wait()
    each = max(1e-6, _milliseconds(fn, wait))
    for _i in range(int(warmup / each)):
        fn()
    wait()
    times: list[float] = []
    for _i in range(max(1, int(rep / each))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        times.append(_milliseconds(fn, wait))
    if quantiles is not None:
        result = [float(q) for q in np.quantile(times, np.atleast_1d(quantiles))]
        return result[0] if len(result) == 1 else result
    return _SUMMARIES[return_mode](times)


_SUMMARIES: dict[str, Callable[[list[float]], Any]] = {
    "mean": statistics.mean, "median": statistics.median, "min": min, "max": max, "all": list,
}  # fmt: skip


def do_bench_cudagraph(
    fn: Callable[[], Any], rep: float = 20, grad_to_none: Sequence[Any] | None = None,
    quantiles: Any = None, return_mode: str = "mean",
) -> Any:  # fmt: skip
    """Measure as `do_bench` does: launches are not captured into a graph."""
    return do_bench(fn, 0, rep, quantiles, return_mode, grad_to_none)


def _milliseconds(fn: Callable[[], Any], wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    fn()
    wait()
    return (time.perf_counter() - start) * 1000


def _waiting() -> Callable[[], None]:
    """The function that waits for launches on a GPU, which return at once; no function without a
    GPU."""
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


@attrs.frozen
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

    def __init__(self, fn: Callable[..., Any], benchmarks: Any) -> None:
        self.fn = fn
        self.single = not isinstance(benchmarks, (list, tuple))
        self.benchmarks: Sequence[Benchmark] = [benchmarks] if self.single else benchmarks

    def run(
        self, show_plots: bool = False, print_data: bool = False, save_path: str = "",
        return_df: bool = False, **arguments: Any,
    ) -> Any:  # fmt: skip
        """Measure every table. `print_data` prints it; `save_path` is a folder for the tables as
        CSV, and where matplotlib is installed for plots, which `show_plots` shows. With `return_df`
        the table (tables of several benchmarks), of pandas where that is installed, else rows.
        Keywords besides are the function's."""
        tables = [self._table(one, print_data, arguments) for one in self.benchmarks]
        for one, rows in zip(self.benchmarks, tables, strict=True):
            plots.save_or_show(one, rows, show_plots, save_path)
        if not return_df:
            return None
        result = [plots.frame(one, rows) for one, rows in zip(self.benchmarks, tables, strict=True)]
        return result[0] if self.single else result

    def _table(self, one: Benchmark, shown: bool, arguments: dict[str, Any]) -> list[list[Any]]:
        rows: list[list[Any]] = []
        for x in one.x_vals:
            places = tuple(x) if isinstance(x, (tuple, list)) else (x,) * len(one.x_names)
            named = {**dict(zip(one.x_names, places, strict=True)), **one.args, **arguments}
            result = [self.fn(**named, **{one.line_arg: line}) for line in one.line_vals]
            rows.append([*places, *(f[0] if isinstance(f, (tuple, list)) else f for f in result)])
        if shown:
            sys.stdout.write(_format_table(one, rows))
        return rows


def _format_table(one: Benchmark, rows: list[list[Any]]) -> str:
    lines = [f"{one.plot_name}:", "".join(f"{head:>16}" for head in plots.heads(one))]
    lines += ["".join(f"{cell:>16.6g}" for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def perf_report(benchmarks: Any) -> Any:
    """Measure the decorated function for a `Benchmark`, or several."""
    return lambda fn: Mark(fn, benchmarks)
