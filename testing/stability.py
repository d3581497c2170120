"""Tests of the stability promise of a release: programs, their recorded results, and the schema of
all ops.

    python -m tileir.testing.stability record FOLDER    # for a release; files never change after
    python -m tileir.testing.stability check FOLDER

A folder has `programs.tir.gz` (modules between lines `; -----`: one for every op by attribute value
by element type, of `tileir.ops.matrix`), `language.tir` (written by hand: everything that is not an
op), `results.json.gz` for both (the arguments per module and kernel, and their contents after a run
or the code of its error), and `schema.json`. docs/reference/stability.md states the promise.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tileir.errors import TileirError
from tileir.interp import interpret
from tileir.ir import Function, Module
from tileir.machine import dtype_of
from tileir.op import all_ops
from tileir.ops.matrix import cells
from tileir.testing.matrix_kernels import UNSEEN, MatrixCase
from tileir.testing.schema import schema
from tileir.textual import parse, print_module
from tileir.types import Pointer, Scalar

Array = np.ndarray[Any, Any]
Record = dict[str, Any]

SEPARATOR = "; -----\n"
SHAPES = ((2, 3), (5,), ())
"""The first that an op takes is recorded."""

GRID = (2,)
LENGTH = 64
"""Elements of each array that a kernel of `language.tir` is given."""


def record(folder: Path) -> None:
    """Write the corpus of this release. `language.tir` must exist."""
    cases = list(programs())
    texts = [print_module(case.module()) for case in cases]
    results = {
        "programs": [[record_run(parse(t), "cell", c.arguments(), (1,))] for t, c in
                     zip(texts, cases, strict=True)],
        "language": record_language(folder),
    }  # fmt: skip
    _write(folder / "programs.tir.gz", SEPARATOR.join(texts))
    _write(folder / "results.json.gz", json.dumps(results, separators=(",", ":")))
    (folder / "schema.json").write_text(json.dumps(schema(), indent=1) + "\n")


def programs() -> Iterator[MatrixCase]:
    """A kernel for every op at every value of its attributes and every element type."""
    for cls in all_ops():
        if "." in cls.mnemonic or cls.mnemonic in UNSEEN:
            continue
        result = next((c for s in SHAPES if (c := list(cells(cls, s)))), [])
        yield from (MatrixCase(op, number) for number, op in enumerate(result))


def check(folder: Path, stride: int = 1) -> list[str]:
    """The differences between this release and the one that wrote `folder`. Every `stride`-th
    program is read, printed and run."""
    results = json.loads(_read(folder / "results.json.gz"))
    texts = programs_of(folder).split(SEPARATOR)
    wrong: list[str] = []
    programs = list(enumerate(zip(texts, results["programs"], strict=True)))
    for number, (text, runs) in programs[::stride]:
        module = parse(text)
        if print_module(module) != text:
            wrong.append(f"program {number} is printed differently")
        wrong += [f"program {number}: {w}" for run in runs for w in differences(module, run)]
    language = (folder / "language.tir").read_text()
    module = parse(language)
    if print_module(module) != language:
        wrong.append("language.tir is printed otherwise")
    wrong += [w for run in results["language"] for w in differences(module, run)]
    return wrong


def programs_of(folder: Path) -> str:
    """The text of `programs.tir.gz`."""
    return _read(folder / "programs.tir.gz")


def schema_of(folder: Path) -> dict[str, Any]:
    """The schema recorded in `folder`."""
    return json.loads((folder / "schema.json").read_text())


def record_language(folder: Path) -> list[Record]:
    """Record the results of the kernels of `language.tir`."""
    module = parse((folder / "language.tir").read_text(), "language.tir")
    kernels = [f for f in module.functions.values() if f.kernel]
    return [record_run(module, k.name, usual_arguments(k), GRID) for k in kernels]


def usual_arguments(kernel: Function) -> list[Any]:
    """Arrays of small numbers for pointers, 5 for scalars."""
    result: list[Any] = []
    for parameter in kernel.parameters:
        kind = parameter.type
        if isinstance(kind, Pointer):
            result.append(np.arange(LENGTH).astype(_dtype(kind)))
        else:
            result.append(5)
    return result


def record_run(
    module: Module, kernel: str, arguments: Sequence[Any], grid: tuple[int, ...]
) -> Record:
    """The arguments of a run, and its results."""
    hex_arguments = [_hex(a) if isinstance(a, np.ndarray) else a for a in arguments]
    outcome = run(module, kernel, hex_arguments, grid)
    return {"kernel": kernel, "grid": grid, "arguments": hex_arguments, **outcome}


def run(module: Module, kernel: str, recorded: Sequence[Any], grid: Sequence[int]) -> Record:
    """The arguments that a run changes, by position, with their new contents; or the error code if
    it fails."""
    function = module.functions[kernel]
    arguments = [
        _array(text, p.type) if isinstance(p.type, Pointer) else text
        for text, p in zip(recorded, function.parameters, strict=True)
    ]
    try:
        interpret(module, kernel, tuple(grid), arguments)
    except TileirError as error:
        return {"error": error.code}
    after = [_hex(a) if isinstance(a, np.ndarray) else a for a in arguments]
    pairs = enumerate(zip(recorded, after, strict=True))
    return {"left": {str(i): new for i, (old, new) in pairs if new != old}}


def differences(module: Module, recorded: Record) -> list[str]:
    """The differences between a run of `module` and the recorded one."""
    now = run(module, recorded["kernel"], recorded["arguments"], recorded["grid"])
    was = {key: recorded[key] for key in ("error", "left") if key in recorded}
    return [] if now == was else [f"@{recorded['kernel']}: {was} became {now}"]


def _dtype(kind: Pointer) -> Any:
    return dtype_of(kind.pointee) if isinstance(kind.pointee, Scalar) else np.dtype(np.uint64)


def _array(text: str, kind: Pointer) -> Array:
    return np.frombuffer(bytes.fromhex(text), np.uint8).copy().view(_dtype(kind))


def _hex(array: Array) -> str:
    return array.tobytes().hex()


def _write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def main(words: Sequence[str]) -> int:
    """Run the command line `words`. Returns 1 if something differs."""
    command, folder = words[0], Path(words[1])
    if command == "record":
        record(folder)
        return 0
    wrong = check(folder)
    sys.stdout.write("\n".join(wrong or ["the same"]) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
