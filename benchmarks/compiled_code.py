"""The code of kernels after every stage, for comparing two versions of the compiler.

    python benchmarks/compiled_code.py record FOLDER [TEXT ...]
    python benchmarks/compiled_code.py compare BEFORE AFTER

`record` compiles every example, every file of the corpus and the kernels of the benchmarks that
need neither PyTorch nor Triton, or those whose names contain one of TEXT. FOLDER then has a file
for each kernel and target: the module after each pass that changed it as `.tir`, the remarks, LLVM
IR and PTX; for the CPU, LLVM IR. The compiler is that of the Python which runs this file, so one
file records the same kernels for two checkouts:

    .venv-a/bin/python benchmarks/compiled_code.py record before
    .venv-b/bin/python benchmarks/compiled_code.py record after

`compare` prints the kernels whose code differs, each with the first stage that does and its first
lines, and exits with 1 if there are any. Needs no GPU.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parent))  # the folder, also under `python -P`

import compile_time_kernels
import memory_kernels

from tileir import textual
from tileir.backend.compile import compile as compile_for_gpu
from tileir.backend.cpu.compile import compile as compile_for_cpu
from tileir.builder import BF16, F8E4M3, F16
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.passmanager import Recorder
from tileir.testing import kernels_backward
from tileir.testing.attention import attention
from tileir.testing.workloads import convolution, matmuls, shifts, sparse

ROOT = Path(__file__).resolve().parents[1]
FILES = ("examples/*.tir", "tests/corpus/**/*.tir")
HEADING = "====== "
"""What the first line of a part of a file begins with."""
SHOWN = 3
"""Lines of a difference that are printed."""


class Kernel(NamedTuple):
    """A kernel to compile: `make` returns its module, the one called `kernel` or the only one."""

    name: str
    make: Callable[[], Module]
    target: str
    kernel: str | None = None
    options: dict[str, Any] = {}


# What is compiled ---------------------------------------------------------------------------------


def kernels() -> Iterator[Kernel]:
    """Every kernel, with a name that no other has."""
    yield from from_files()
    for name, make, options in with_dots():
        yield Kernel(f"benchmarks/{name}", make, "sm_90a", None, options)
    for name, make in memory_bound():
        for target in ("sm_90a", "cpu"):
            yield Kernel(f"benchmarks/{name} {target}", make, target)


def from_files() -> Iterator[Kernel]:
    """The kernels of files, for two GPUs and the CPU."""
    paths = sorted({path for pattern in FILES for path in ROOT.glob(pattern)})
    for path in paths:
        read = partial(parse_file, path)
        try:
            names = [f.name for f in read().functions.values() if f.kernel]
        except TileirError:
            continue  # files of errors
        for kernel in names:
            for target in ("sm_90a", "sm_80", "cpu"):
                place = path.relative_to(ROOT).with_suffix("")
                yield Kernel(f"{place}/{kernel or 'unnamed'} {target}", read, target, kernel)


def parse_file(path: Path) -> Module:
    return textual.parse(path.read_text("utf-8"), path.name)


def with_dots() -> Iterator[tuple[str, Callable[[], Module], dict[str, Any]]]:
    """Kernels with dots, with the options that benchmarks compile them with."""
    for d, m, n in ((64, 192, 128), (64, 128, 128), (96, 128, 96), (128, 128, 128), (256, 128, 64)):
        for causal in (False, True):
            make = partial(attention, m, n, d, BF16, causal=causal, arranged=causal)
            options = {"warp_specialize": True, "persistent": True}
            yield f"attention {m}x{n} {d}{' causal' if causal else ''}", make, options
    eight = partial(attention, 128, 128, 128, F8E4M3, BF16, v_transposed=True)
    yield "attention f8", eight, {"warp_specialize": True, "persistent": True}
    unordered = {"warp_specialize": True, "persistent": True, "ordered_softmax": False}
    yield "attention unordered", partial(attention, 128, 128, 128, F16), unordered
    for d, m, n in ((64, 64, 128), (128, 64, 128)):
        keys = partial(kernels_backward.attention_keys, m, n, d, BF16)
        yield f"attention keys {d}", keys, {"persistent": True}
        yield f"attention keys {d} fused", partial(keys, fused=True), {"persistent": True}
        queries = partial(kernels_backward.attention_queries, 128, 64, d, BF16, causal=True)
        yield f"attention queries {d}", queries, {"persistent": True}
    yield "attention delta", partial(kernels_backward.attention_delta, 64, 64), {}
    for size in ((128, 256, 64), (128, 128, 64), (64, 64, 64), (16, 64, 128)):
        tile, text = matmuls.TileShape(*size), "x".join(map(str, size))
        for persistent in (True, False):
            options, once = {"persistent": persistent}, "" if persistent else " once"
            for kind in ("leaky", "gelu", "sigmoid"):
                make = partial(matmuls.with_activation, tile, kind)
                yield f"matmul {kind} {text}{once}", make, options
            yield f"matmul int8 {text}{once}", partial(matmuls.int8, tile), options
        yield f"matmul slices {text}", partial(matmuls.of_slices, tile), {}
        split = {"persistent": False, "split_k": 2, "num_stages": 4}
        yield f"matmul int4 {text}", partial(matmuls.int4_weights, tile, 128), split
        yield f"matmul mxfp8 {text}", partial(matmuls.mxfp8_weights, tile), split
    for name in ("matmul", "softmax", "add"):
        yield f"compile time {name}", getattr(compile_time_kernels, name), {}
    three, one = convolution.Filter(3, 3), convolution.Filter(1, 1)
    yield "convolution boxes", partial(convolution.boxes, 16, 16, 64, 64, three), {}
    yield "convolution gemm", partial(convolution.implicit_gemm, 128, 64, 32, three), {}
    yield "convolution gemm 1x1", partial(convolution.implicit_gemm, 128, 128, 64, one), {}
    table = partial(convolution.with_increment_table, 128, 64, 32, three)
    yield "convolution table", table, {}
    yield "convolution transposition", partial(convolution.channels_last, 64, 64), {}
    for size in (128, 64):
        yield f"sparse sdd {size}", partial(sparse.sdd, size, 64), {}
        yield f"sparse sdd rows {size}", partial(sparse.sdd_rows, size, 64, 2), {}
        yield f"sparse dsd {size}", partial(sparse.dsd, size, 128, 64), {}
        yield f"sparse dds {size}", partial(sparse.dds, 128, size, 64), {}
        yield f"sparse softmax {size}", partial(sparse.softmax, size, 8, 1), {}
    yield "shift convolution", partial(shifts.shift_convolution, 64, 64, 64), {}
    yield "shift uniform", partial(shifts.uniform_shift_convolution, 16, 16, 64, 64), {}
    yield "shift", partial(shifts.shift, 1024), {}


def memory_bound() -> Iterator[tuple[str, Callable[[], Module]]]:
    """Kernels without dots."""
    by_rows = ("softmax", "rms_norm", "layer_norm", "tvd", "kl_div")
    for columns, block in ((1024, 4), (4096, 1), (1000, 3)):
        for name in by_rows:
            make = partial(getattr(memory_kernels, name), 4096, columns, block)
            yield f"{name} {columns}x{block}", make
    yield "geglu", partial(memory_kernels.geglu, 1 << 20, 1024)
    yield "swiglu", partial(memory_kernels.swiglu, 1 << 20, 1024)
    yield "dyt", partial(memory_kernels.dyt, 4096, 4096, 8, 1024)
    yield "norm looped", partial(memory_kernels.norm_looped, 64, 65536, 4096, centred=True)
    yield "group norm", partial(memory_kernels.group_norm, 512, 32, 1024)


# Recording ----------------------------------------------------------------------------------------


class Printed:
    """An observer that prints the module after each step that changed it."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []

    def before(self, step: Any) -> None:
        """The module is printed after the step only."""

    def after(self, step: Any, module: Module) -> None:
        if module is not step.before:
            where = f" of @{step.function}" if step.function else ""
            heading = f"after {step.node.name}{where}"
            self.parts.append((heading, textual.print_module(module)))

    def on_failure(self, step: Any, pipeline: Any, error: Exception) -> None:
        """The error is recorded with the code."""


def code_of(kernel: Kernel) -> str:
    """The parts of the code of `kernel`, each after a heading; the message of the error that it
    does not compile with, after the stages before it."""
    printed = Printed()
    recorder = Recorder(verify=False, observers=(printed,))
    try:
        module = kernel.make()
        if kernel.target == "cpu":
            native = compile_for_cpu(module, kernel.kernel, recorder=recorder)
            parts = [("llvm", native.llvm)]
        else:
            done = compile_for_gpu(
                module, kernel.target, kernel.options, kernel.kernel, recorder=recorder
            )
            notes = "".join(f"{note.code} {note.message}\n" for note in done.notes)
            parts = [("remarks", notes), ("llvm", done.llvm), ("ptx", done.ptx)]
    except TileirError as error:
        parts = [("error", f"{error}\n")]
    whole = (*printed.parts, *parts)
    return "".join(f"{HEADING}{heading}\n{text.rstrip()}\n" for heading, text in whole)


def record(folder: Path, texts: Sequence[str]) -> None:
    """Write the code of the kernels whose names contain one of `texts`, or of all, to `folder`."""
    begin, count = time.monotonic(), 0
    for kernel in kernels():
        if texts and not any(text in kernel.name for text in texts):
            continue
        path = folder / (kernel.name.replace(" ", "_") + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code_of(kernel), "utf-8")
        count += 1
    print(f"{count} kernels in {time.monotonic() - begin:.0f} s")


# Comparing ----------------------------------------------------------------------------------------


def parts_of(text: str) -> list[tuple[str, list[str]]]:
    """The parts of a file by heading, in order."""
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith(HEADING):
            parts.append((line.removeprefix(HEADING), []))
        elif parts:
            parts[-1][1].append(line)
    return parts


def first_difference(before: str, after: str) -> str:
    """Where two texts of one kernel differ first: the part, and its first lines that differ; ''
    for equal texts."""
    for old, new in zip_longest(parts_of(before), parts_of(after)):
        if old == new:
            continue
        if old is None or new is None or old[0] != new[0]:
            names = " | ".join("nothing" if part is None else part[0] for part in (old, new))
            return f"other passes changed it: {names}"
        lines = [pair for pair in zip_longest(old[1], new[1], fillvalue="") if len({*pair}) > 1]
        shown = "".join(f"\n    - {a.strip()}\n    + {b.strip()}" for a, b in lines[:SHOWN])
        return f"{new[0]}: {len(lines)} lines{shown}"
    return ""


def compare(before: Path, after: Path) -> int:
    """Print the kernels of two folders whose code differs; how many there are."""
    names = {p.relative_to(f) for f in (before, after) for p in f.rglob("*.txt")}
    count, ptx = 0, 0
    for name in sorted(names):
        files = before / name, after / name
        missing = [str(f.parent) for f in files if not f.is_file()]
        if missing:
            count += 1
            print(f"{name}: not in {missing[0]}")
            continue
        old, new = (f.read_text("utf-8") for f in files)
        if difference := first_difference(old, new):
            count += 1
            ptx += last_part(old) != last_part(new)
            print(f"{name}: {difference}")
    print(f"{count} of {len(names)} kernels differ, {ptx} of them in generated code")
    return count


def last_part(text: str) -> list[str]:
    """The last part of a file: PTX, the LLVM IR of the CPU, or an error; without source lines."""
    parts = parts_of(text)
    return [re.sub(r"\s*//.*", "", line) for line in parts[-1][1]] if parts else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("text", nargs="*")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        record(options.folder, options.text)
        return 0
    return 1 if compare(options.before, options.after) else 0


if __name__ == "__main__":
    sys.exit(main())
