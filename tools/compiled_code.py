"""Recording of the code of kernels after every stage, to compare two versions of the compiler.

    python -P tools/compiled_code.py record FOLDER [TEXT ...]
    python -P tools/compiled_code.py compare BEFORE AFTER

`record` compiles the kernels that `benchmarks/compiled_kernels.py` lists, or those whose names
contain one of TEXT; `--kernels FILE.py` names another list. FOLDER then has a file for each kernel
and target: the module after each pass that changed it as `.tir`, the remarks, LLVM IR and PTX; for
the CPU, LLVM IR. The compiler is that of the Python which runs this file, so one file records the
same kernels for two checkouts:

    .venv-a/bin/python -P tools/compiled_code.py record before
    .venv-b/bin/python -P tools/compiled_code.py record after

`compare` prints the kernels whose code differs, each with the first stage that does and its first
lines, and exits with 1 if there are any. Needs no GPU.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tileir import textual
from tileir.backend.compile import compile as compile_for_gpu
from tileir.backend.cpu.compile import compile as compile_for_cpu
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.passmanager import Recorder

KERNELS = Path(__file__).resolve().parents[1] / "benchmarks" / "compiled_kernels.py"
HEADING = "====== "
"""The prefix of the first line of a part of a file."""
SHOWN = 3
"""Lines of a difference that are printed."""


class Kernel(NamedTuple):
    """A kernel to compile: `make` returns its module, and `kernel` is its name, None if it is the
    only one."""

    name: str
    make: Callable[[], Module]
    target: str
    kernel: str | None = None
    options: dict[str, Any] = {}


# Recording ----------------------------------------------------------------------------------------


class Printed:
    """An observer that prints the module after each step that changes it."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []

    def before(self, step: Any) -> None:
        """Do nothing: the module is printed after the step."""

    def after(self, step: Any, module: Module) -> None:
        if module is not step.before:
            where = f" of @{step.function}" if step.function else ""
            heading = f"after {step.node.name}{where}"
            self.parts.append((heading, textual.print_module(module)))

    def on_failure(self, step: Any, pipeline: Any, error: Exception) -> None:
        """Do nothing: the error is recorded with the code."""


def code_of(kernel: Kernel) -> str:
    """The parts of the code of `kernel`, each after a heading. If the kernel does not compile, the
    last part is the error message, after the stages before it."""
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
    return "".join(
        f"{HEADING}{heading}\n{text.rstrip()}\n" for heading, text in (*printed.parts, *parts)
    )


def listed_kernels(path: Path) -> Iterator[Kernel]:
    """Yield the kernels that the function `kernels` of a Python file yields as tuples of fields."""
    yield from (Kernel(*fields) for fields in runpy.run_path(str(path))["kernels"]())


def record(folder: Path, texts: Sequence[str], kernels: Iterable[Kernel]) -> None:
    """Write the code of the kernels whose names contain one of `texts`, or of all, to `folder`."""
    begin, count = time.monotonic(), 0
    for kernel in kernels:
        if texts and not any(text in kernel.name for text in texts):
            continue
        path = folder / (kernel.name.replace(" ", "_") + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code_of(kernel), "utf-8")
        count += 1
    sys.stdout.write(f"{count} kernels in {time.monotonic() - begin:.0f} s\n")


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
    """The first difference between two texts of one kernel: the part, and the first lines that
    differ; '' for equal texts."""
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
    """Print the kernels of two folders whose code differs; returns their number."""
    names = {p.relative_to(f) for f in (before, after) for p in f.rglob("*.txt")}
    count, ptx = 0, 0
    for name in sorted(names):
        files = before / name, after / name
        missing = [str(f.parent) for f in files if not f.is_file()]
        if missing:
            count += 1
            sys.stdout.write(f"{name}: not in {missing[0]}\n")
            continue
        old, new = (f.read_text("utf-8") for f in files)
        if difference := first_difference(old, new):
            count += 1
            ptx += last_part(old) != last_part(new)
            sys.stdout.write(f"{name}: {difference}\n")
    sys.stdout.write(f"{count} of {len(names)} kernels differ, {ptx} of them in generated code\n")
    return count


def last_part(text: str) -> list[str]:
    """The last part of a file, without source lines: PTX, the LLVM IR of the CPU, or an error."""
    parts = parts_of(text)
    return [re.sub(r"\s*//.*", "", line) for line in parts[-1][1]] if parts else []


def main() -> int:
    """Record or compare, by the arguments of the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("text", nargs="*")
    recording.add_argument("--kernels", type=Path, default=KERNELS, metavar="FILE.py")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        if not options.kernels.is_file():
            parser.error(f"{options.kernels} is not a file; --kernels names a list of kernels")
        record(options.folder, options.text, listed_kernels(options.kernels))
        return 0
    return 1 if compare(options.before, options.after) else 0


if __name__ == "__main__":
    sys.exit(main())
