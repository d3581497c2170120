"""Benchmark of the library against xDSL: reading, printing, verifying, building, start-up and size.

    python benchmarks/library.py [--out FILE.json] [--repeats 5]

Both libraries do the same work in one run: a function of N elementwise ops on tiles, each of which
reads the results of the two ops before it, in the library's own text. Every repetition measures the
variants in random order; a figure is the median of the repetitions, a ratio the quotient of
medians. Prints a row per task with xDSL's figure, tileir's, and the ratio; writes all repetitions
as JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

Task = Callable[[], float]
OPS = 4000
LARGE = 32_000
PIPELINE = "default"
_MIX = (("fadd", "addf"), ("fmul", "mulf"), ("fsub", "subf"), ("fmaximum", "maximumf"))


def tileir_text(count: int) -> str:
    """A kernel with `count` ops as `.tir` text."""
    lines = [
        "tir 1.0", "", "define kernel void @k(f32* %p) {", "entry:",
        "  %range = make_range i32<64>", "  %ps = splat f32*<64> %p",
        "  %q = getelementptr f32*<64> %ps, %range",
        "  %a = load f32<64> %q", "  %b = fneg f32<64> %a",
    ]  # fmt: skip
    names = ["a", "b"]
    for index in range(count):
        mnemonic = _MIX[index % 4][0]
        lines.append(f"  %v{index} = {mnemonic} f32<64> %{names[-1]}, %{names[-2]}")
        names.append(f"v{index}")
    return "\n".join([*lines, f"  store %q, %{names[-1]}", "  ret", "}", ""])


def xdsl_text(count: int) -> str:
    """A function of two tensors with `count` ops as MLIR text."""
    kind = "tensor<64xf32>"
    lines = ["builtin.module {", f"func.func @k(%a: {kind}, %b: {kind}) -> {kind} {{"]
    names = ["a", "b"]
    for index in range(count):
        mnemonic = _MIX[index % 4][1]
        lines.append(f"  %v{index} = arith.{mnemonic} %{names[-1]}, %{names[-2]} : {kind}")
        names.append(f"v{index}")
    return "\n".join([*lines, f"  func.return %{names[-1]} : {kind}", "}", "}", ""])


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that `work` takes, without garbage collection."""
    gc.collect()
    start = perf_counter()
    work()
    return perf_counter() - start


def tileir_tasks() -> dict[str, Task]:
    """The tasks of tileir by name; each returns its seconds per op."""
    import tileir
    from tileir.builder import F32, Builder, pointer
    from tileir.textual import parse, print_module

    text = tileir_text(OPS)
    module = parse(text)

    def build() -> None:
        b = Builder()
        with b.kernel("k", p=pointer(F32)) as (p,):
            place = p + b.arange(64)
            before = place.load()
            last = b.fneg(before)
            methods = [getattr(b, name) for name, _ in _MIX]
            for index in range(OPS):
                before, last = last, methods[index % 4](last, before)
            place.store(last)
        b.module()

    return {
        "parse": lambda: seconds_of(lambda: parse(text)) / OPS,
        "print": lambda: seconds_of(lambda: print_module(module)) / OPS,
        "verify": lambda: seconds_of(lambda: tileir.verify(module)) / OPS,
        "build": lambda: seconds_of(build) / OPS,
    }


def xdsl_tasks() -> dict[str, Task]:
    """The same tasks for xDSL."""
    from xdsl.builder import Builder, InsertPoint
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func
    from xdsl.ir import Block
    from xdsl.parser import Parser

    context = Context()
    for dialect in (builtin.Builtin, func.Func, arith.Arith):
        context.load_dialect(dialect)
    text = xdsl_text(OPS)
    module = Parser(context, text).parse_module()
    kind = builtin.TensorType(builtin.f32, [64])
    classes = (arith.AddfOp, arith.MulfOp, arith.SubfOp, arith.MaximumfOp)

    def build() -> None:
        block = Block(arg_types=[kind, kind])
        builder = Builder(InsertPoint.at_end(block))
        before, last = block.args
        for index in range(OPS):
            before, last = last, builder.insert(classes[index % 4](last, before)).results[0]

    return {
        "parse": lambda: seconds_of(lambda: Parser(context, text).parse_module()) / OPS,
        "print": lambda: seconds_of(lambda: str(module)) / OPS,
        "verify": lambda: seconds_of(module.verify) / OPS,
        "build": lambda: seconds_of(build) / OPS,
    }


def start_up(folder: str, command: str, name: str, text: str) -> Task:
    """A task that returns the seconds of `command`, in this environment, on the file `name` with
    the content `text`."""
    path = Path(folder) / name
    path.write_text(text)
    words = [str(Path(sys.executable).parent / command), str(path)]
    return lambda: seconds_of(lambda: subprocess.run(words, check=True, capture_output=True))


_LARGE_RUN = """
import resource, sys
from time import perf_counter
import tileir
from tileir.textual import parse
from tileir.passmanager import run
text = sys.stdin.read()
start = perf_counter()
module = parse(text)
parsed = perf_counter()
tileir.verify(module)
verified = perf_counter()
run(module, sys.argv[1], verify=False)
done = perf_counter()
size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(parsed - start, verified - parsed, done - verified, size / 1024)
"""


def large_kernel() -> dict[str, float]:
    """Seconds and peak megabytes for a kernel of 32,000 ops, in a separate process."""
    run = subprocess.run(
        [sys.executable, "-P", "-c", _LARGE_RUN, PIPELINE],
        input=tileir_text(LARGE), text=True, capture_output=True, check=True,
    )  # fmt: skip
    parse, verify, optimise, size = map(float, run.stdout.split())
    total = parse + verify + optimise
    return {"parse": parse, "verify": verify, "optimise": optimise, "total": total, "MB": size}


def measure(repeats: int, folder: str) -> dict[str, dict[str, list[float]]]:
    """The figures of all repetitions by task and library. Variants run in random order."""
    ours, theirs = tileir_tasks(), xdsl_tasks()
    ours["start-up"] = start_up(folder, "tileir-opt", "empty.tir", "tir 1.0\n")
    theirs["start-up"] = start_up(folder, "xdsl-opt", "empty.mlir", "builtin.module {}\n")
    figures: dict[str, dict[str, list[float]]] = {t: {"xdsl": [], "tileir": []} for t in ours}
    for name, task in ours.items():  # a warm-up for both libraries
        task(), theirs[name]()
    chance = random.Random(0)
    for _ in range(repeats):
        variants = [(n, "tileir", t) for n, t in ours.items()]
        variants += [(n, "xdsl", t) for n, t in theirs.items()]
        chance.shuffle(variants)
        for name, library, task in variants:
            figures[name][library].append(task())
    return figures


def show(figures: dict[str, dict[str, list[float]]], large: dict[str, float]) -> None:
    """Print a row per task."""
    print(f"{'task':10} {'xDSL 0.74':>16} {'tileir':>16} {'ratio':>7}")
    for name, by_library in figures.items():
        theirs, ours = (statistics.median(by_library[x]) for x in ("xdsl", "tileir"))
        cells = [f"{x * 1e3:.0f} ms" if name == "start-up" else _rate(name, x)
                 for x in (theirs, ours)]  # fmt: skip
        print(f"{name:10} {cells[0]:>16} {cells[1]:>16} {theirs / ours:>6.1f}x")
    print(
        f"\n{LARGE:,} ops: parse {large['parse']:.2f} s, verify {large['verify']:.2f} s, "
        f"{PIPELINE} {large['optimise']:.2f} s, together {large['total']:.2f} s, "
        f"peak {large['MB']:.0f} MB"
    )


def _rate(name: str, seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us/op" if name == "build" else f"{1 / seconds:,.0f} ops/s"


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/library.json")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(options.repeats, folder)
    large = large_kernel()
    show(figures, large)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "processor": platform.machine()}
    result = {"machine": machine, "ops": OPS, "seconds": figures, "large": large}
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
