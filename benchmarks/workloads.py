"""The programs of `tileir.testing.workloads` against their peers on one GPU, in one run.

    python benchmarks/workloads.py GROUP ... [--out FILE.json] [--only TEXT] [--seconds 540]

`--out benchmarks/results/workloads_GROUP.json` for one group is what `pictures.py` reads.

Groups: `nhwc`, `nchw` and `single` (convolutions of Table 1 of Tillet et al., MAPL 2019 against
cuDNN: f16 with channels last and first, f32 without TF32), `shift` (shifted channels against a
shift and a matmul, and against the matmul alone), `sparse` (block-sparse matrices against dense
cuBLAS), `quantised` (8 and 4 bits, scaled dots) and `epilogue` (bias and activations, parts of
matrices).

Every variant's result is checked against f32 on fresh random inputs, its output poisoned before;
wrong variants are printed and not timed (`timing.py` says how others are). `ratio` is the time of
the fastest peer in parts of our fastest; `target` is its least acceptable value.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import checks
import matmul_shapes
import timing
import torch

from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.runtime.cache import Cache
from tileir.ir import Module

GROUPS = {
    "nhwc": "workload_convolutions", "nchw": "workload_convolutions",
    "single": "workload_convolutions", "shift": "workload_shifts", "sparse": "workload_sparse",
    "quantised": "workload_matmuls", "epilogue": "workload_matmuls",
}  # fmt: skip
"""The file that has `cases(group)`."""

Call: TypeAlias = Callable[..., Any]


@attrs.frozen(eq=False)
class Variant:
    """One of our kernels: its module, grid, `arguments` from a case's data, options, and the kernel
    that is launched `before` it, if any."""

    module: Callable[[], Module]
    grid: tuple[int, ...]
    arguments: Callable[..., list[Any]]
    options: dict[str, Any] = attrs.field(factory=dict)
    before: Variant | None = None

    def kernels(self) -> list[Variant]:
        """The kernels in the order of their launches, this one last."""
        return [*(self.before.kernels() if self.before else ()), self]


@attrs.frozen(eq=False)
class Case:
    """One line: `data()` gives fresh random inputs, the output last. `expected` is their output, up
    to `off` of its elements and of their root mean square. `peers` are functions of the data,
    `target` is the target of the ratio, `flops` the number of operations."""

    name: str
    data: Callable[[], tuple[Any, ...]]
    expected: Callable[..., torch.Tensor]
    off: float
    ours: dict[str, Variant]
    peers: dict[str, Call]
    target: float = 1.0
    flops: float = 0.0


def compile_variants(case: Case) -> dict[str, Call]:
    """Functions of the data by name, each kernel compiled once for all lines. Variants that do not
    compile are printed and left out."""
    cache = Cache.usual()

    def one(item: tuple[str, Variant]) -> tuple[str, Any, str]:
        name, variant = item
        try:
            kernels = [
                cache.compile(part.module(), "sm_90a", Options(**part.options))
                for part in variant.kernels()
            ]
            used = kernels[-1].metadata
        except Exception as error:
            return name, None, f"{type(error).__name__}: {error}"[:200]
        way = "warp-specialized" if kernels[-1].host is not None else "threads"
        return name, kernels, f"{way}, {used.registers} registers, {used.spills} spilled"

    calls: dict[str, Call] = {}
    with ThreadPoolExecutor(8) as pool:
        for name, kernels, text in pool.map(one, case.ours.items()):
            print(f"  {name}: {text}", flush=True)
            if kernels is not None:
                calls[name] = launch_all(map(LoadedKernel, kernels), case.ours[name])
    return calls


def launch_all(kernels: Iterable[LoadedKernel], variant: Variant) -> Call:
    parts = variant.kernels()
    launches = [k[part.grid] for k, part in zip(kernels, parts, strict=True)]

    def call(*data: Any) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for launch, part in zip(launches, parts, strict=True):
            launch(*part.arguments(*data), stream=stream)

    return call


def wrong(case: Case, call: Call) -> str | None:
    """The error of a result on fresh inputs, or None."""
    data = case.data()
    expected = case.expected(*data)
    poison(data[-1])
    try:
        result = call(*data)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    result = data[-1] if result is None else result
    if not result.isfinite().all():
        return "elements are not written"
    some, exact = checks.some_rows(result, expected)
    return checks.fault(some, *checks.near(exact, case.off))


def poison(output: torch.Tensor) -> None:
    """Fill an output, so that elements that a kernel does not write are wrong."""
    output.fill_(math.nan if output.is_floating_point() else -77)


def line(case: Case) -> dict[str, Any]:
    """Microseconds of every variant that is right, and the ratio."""
    print(case.name, flush=True)
    mine = compile_variants(case)
    calls = {**mine, **case.peers}
    failed = {name: why for name, call in calls.items() if (why := wrong(case, call))}
    right = {name: call for name, call in calls.items() if name not in failed}
    times = timing.measure(right, case.data()) if right else {}
    ours = {n: t for n, t in times.items() if n in mine}
    peers = {n: t for n, t in times.items() if n in case.peers}
    best, peer = (min(x, key=x.__getitem__, default=None) for x in (ours, peers))
    ratio = peers[peer] / ours[best] if best and peer else None
    rate = case.flops / ours[best] / 1e6 if best else 0.0
    others = ", ".join(f"{n} {t:.1f}" for n, t in peers.items())
    shown = f"{ratio:.3f} (target {case.target:.3f})" if ratio else "-"
    figure = f"{ours[best]:.1f} us by {best}, {rate:.0f} TFLOP/s" if best else "none right"
    print(f"= {case.name}: {shown}, ours {figure}; {others}", flush=True)
    for name, why in failed.items():
        print(f"  wrong: {name}: {why}", flush=True)
    return {
        "name": case.name, "us": times, "best": best, "peer": peer, "ratio": ratio,
        "target": case.target, "flops": case.flops, "wrong": failed, "ours": sorted(mine),
    }  # fmt: skip


def cases(groups: list[str]) -> Iterator[Case]:
    """The lines of `groups`."""
    for group in groups:
        yield from importlib.import_module(GROUPS[group]).cases(group)


def main() -> int:
    """Measure and print; 1 where a kernel of ours is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("groups", nargs="+", choices=[*GROUPS])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--only", default="", help="lines whose name has this in it")
    parser.add_argument("--seconds", type=float, default=540)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    rows: list[dict[str, Any]] = []
    torch.manual_seed(0)
    for case in cases(options.groups):
        if options.only in case.name and time.monotonic() < end:
            rows.append(line(case))
            torch.cuda.empty_cache()
        if options.out:
            text = json.dumps({"device": matmul_shapes.device(), "rows": rows}, indent=1)
            Path(options.out).write_text(text)
    return int(any(name in row["ours"] for row in rows for name in row["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
