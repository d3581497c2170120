"""`tileir-opt bisect`: find the pass of a pipeline that changes a result.

    tileir-opt bisect kernel.tir -p default
    tileir-opt bisect kernel.tir -p default --command 'sh check.sh {}'

Without a command, the kernel runs in the interpreter on the inputs that the metadata of the module
describes. A module is correct if its buffers equal those of the original module after the run.
Floats may differ by `--within`, since passes may change the order of additions. With a command,
`{}` is replaced by the path of a module, and the module is correct if the command exits with 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tileir.errors import InterpretError
from tileir.ir import Module
from tileir.passmanager import bisect
from tileir.textual import print_module
from tileir.tools.files import read_module, write_file
from tileir.tools.numbers import amount, natural
from tileir.tools.predicate_command import by_command
from tileir.types import Pointer, Scalar


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    result = argparse.ArgumentParser(
        prog="tileir-opt bisect",
        description="Find the pass of a pipeline that changes the result of a kernel. The kernel "
        "runs in the interpreter on the inputs that its metadata describes.",
    )
    add = result.add_argument
    add("file", metavar="FILE", help=".tir file, or - for standard input")
    add("-p", "--pipeline", default="default", help="passes to search (default: default)")
    add("--command", metavar="CMD", help="instead of the interpreter: a command that exits with 0 "
        "if a module is right; {} is replaced by the path of the module")  # fmt: skip
    add("--within", type=amount, metavar="ERROR", help="largest error of floats, absolute up to 1 "
        "and relative above (default: 16 times the spacing of the type at 1)")  # fmt: skip
    add("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")
    add("-o", "--output", help="file to write the module before the pass to")
    return result


def main(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`; returns 0 if a pass was found."""
    options = parser().parse_args(arguments)
    module = read_module(options.file)
    if options.command is not None:
        is_good = by_command(options.command)
    else:
        is_good = _by_result(module, options.seed, options.within)
    culprit = bisect(module, options.pipeline, is_good)
    sys.stdout.write(f"{culprit.step.title} changes the result ({culprit.tried} modules tried)\n")
    if options.output:
        write_file(options.output, print_module(culprit.step.before).encode())
    return 0


def _by_result(module: Module, seed: int, within: float | None) -> Callable[[Module], bool]:
    expected = _result(module, seed)
    return lambda changed: _same(_result(changed, seed), expected, within)


def _result(module: Module, seed: int) -> dict[str, tuple[Any, float]] | str:
    """The buffers after a run, each with the spacing of its type; or the code of the error that
    ended the run."""
    from tileir.interp import interpret
    from tileir.tools.arrays import spacing_of
    from tileir.tools.inputs import draw, recipe

    described = recipe(module)
    arguments = draw(described, seed)
    try:
        interpret(module, described.kernel.name, described.grid, arguments)
    except InterpretError as error:
        return error.code
    kinds = {str(p.name): p.type for p in described.kernel.parameters}
    pointees = {n: t.pointee for n, t in kinds.items() if isinstance(t, Pointer)}
    return {
        name: (arguments[name], spacing_of(t) if isinstance(t, Scalar) else 0.0)
        for name, t in pointees.items()
    }


def _same(actual: Any, expected: Any, within: float | None) -> bool:
    if isinstance(actual, str) or isinstance(expected, str):
        return bool(actual == expected)
    return all(
        _close(actual[name][0], value, 16 * spacing if within is None else within)
        if spacing else bool((actual[name][0] == value).all())
        for name, (value, spacing) in expected.items()
    )  # fmt: skip


def _close(actual: Any, expected: Any, within: float) -> bool:
    from tileir.tools.check import largest_error

    return largest_error(actual, expected) <= within
