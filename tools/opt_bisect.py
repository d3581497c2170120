"""`tileir-opt bisect`: which pass of a pipeline changes a result?

    tileir-opt bisect kernel.tir -p default
    tileir-opt bisect kernel.tir -p default --command 'sh check.sh {}'

Without a command the kernel runs in the interpreter on the inputs that its module describes, and
a module is right when it leaves the same buffers, bit for bit, as the module given. A command is
run with `{}` replaced by the path of a module; it is right when the command exits with 0.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tileir.errors import InterpretError
from tileir.ir import Module
from tileir.passmanager import bisect
from tileir.textual import print_module
from tileir.tools.files import read_module, write_file


def main(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`; 0 where a pass was found."""
    parser = argparse.ArgumentParser(prog="tileir-opt bisect")
    parser.add_argument("file", help="a .tir file; - is standard input")
    parser.add_argument("-p", "--pipeline", default="default")
    parser.add_argument("--command", help="judges a module by its exit status; {} is its file")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs")
    parser.add_argument("-o", "--output", help="where to write the module before the pass")
    options = parser.parse_args(arguments)
    module = read_module(options.file)
    agrees = _by_command(options.command) if options.command else _by_result(module, options.seed)
    culprit = bisect(module, options.pipeline, agrees)
    sys.stdout.write(f"{culprit.step.title} changes the result ({culprit.tried} modules tried)\n")
    if options.output:
        write_file(options.output, print_module(culprit.step.before).encode())
    return 0


def _by_command(command: str) -> Callable[[Module], bool]:
    def agrees(module: Module) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "module.tir")
            path.write_text(print_module(module))
            words = [word.replace("{}", str(path)) for word in shlex.split(command)]
            return subprocess.run(words, check=False).returncode == 0

    return agrees


def _by_result(module: Module, seed: int) -> Callable[[Module], bool]:
    expected = _result(module, seed)
    return lambda changed: _result(changed, seed) == expected


def _result(module: Module, seed: int) -> Any:
    """The bytes of every buffer after a run, or the code of what stopped it."""
    from tileir.interp import interpret
    from tileir.tools.inputs import draw, recipe

    described = recipe(module)
    arguments = draw(described, seed)
    try:
        interpret(module, described.kernel.name, described.grid, arguments)
    except InterpretError as error:
        return error.code
    return {name: _bytes(value) for name, value in arguments.items()}


def _bytes(value: Any) -> bytes:
    return value.tobytes() if hasattr(value, "tobytes") else b""
