"""`tileir view PICTURE FILE`: pictures of a kernel as files, legible on light and dark pages. Each
picture has its own module in this package."""

from __future__ import annotations

import argparse
import importlib
from typing import Protocol, cast

from tileir.passmanager import run
from tileir.tools.compiler_options import add_compiler_options
from tileir.tools.executors import target_of
from tileir.tools.files import read_module, write_file
from tileir.tools.numbers import natural, positive
from tileir.tools.view.input import Subject

PICTURES = {
    "access": "the addresses that a warp touches at every load and store",
    "banks": "bank conflicts of shared-memory accesses",
    "cfg": "basic blocks and the branches between them",
    "defuse": "ops and the uses of their results",
    "owners": "which thread owns which element of a tile",
    "passes": "the changes of each pass, as an HTML page",
    "shared": "shared-memory allocation map and live ranges",
    "warps": "how the iterations of an op are distributed over warps and loops",
}
"""Help lines by picture. Each picture is the module of its name in `tileir.tools.view`."""

_LINES = "; ".join(f"{name}: {words}" for name, words in PICTURES.items())


class Drawing(Protocol):
    """The interface of the module of a picture."""

    def picture(self, subject: Subject) -> str:
        """The picture as text: SVG, or HTML for `passes`."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("picture", metavar="PICTURE", choices=sorted(PICTURES), help=_LINES)
    parser.add_argument("file", metavar="FILE", help=".tir file, or - for standard input")
    parser.add_argument(
        "--value", type=_value, help="show only the ops that define or use this value"
    )
    add_compiler_options(parser)
    parser.add_argument(
        "--num-warps", type=positive, metavar="N", help="the same as --option num_warps=N"
    )
    parser.add_argument(
        "--pipeline",
        metavar="PASSES",
        help="passes to run first; for `passes`, those that are shown (as for tileir-opt -p)",
    )
    parser.add_argument(
        "--program", type=_program, default=(0,), metavar="I,J",
        help="for access and banks: the program instance to simulate (default: the first)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--out", default="-", metavar="OUT", help="file to write (default: standard output)"
    )


def execute(options: argparse.Namespace) -> int:
    """Draw the picture."""
    module, pipeline = read_module(options.file), options.pipeline
    if pipeline is not None and options.picture != "passes":
        module = run(module, pipeline).module
    warps = {} if options.num_warps is None else {"num_warps": options.num_warps}
    compiler = {**dict(options.option), **warps}
    subject = Subject(
        module, options.kernel, target_of(options.target), compiler, options.value, pipeline,
        options.program,
    )  # fmt: skip
    write_file(options.out, draw_picture(options.picture, subject).encode())
    return 0


def draw_picture(name: str, subject: Subject) -> str:
    """The picture `name`, one of `PICTURES`, of `subject`. Raises TileirError if the kernel cannot
    be compiled or run, or does not contain the requested value."""
    module = importlib.import_module(f"tileir.tools.view.{name}")
    return cast(Drawing, module).picture(subject)


def _value(text: str) -> str:
    """The name of a value, with or without the percent sign."""
    return text if text.startswith("%") else f"%{text}"


def _program(text: str) -> tuple[int, ...]:
    """The indices of a program instance, one to three of them."""
    result = tuple(natural(word) for word in text.split(","))
    if not 1 <= len(result) <= 3:
        raise argparse.ArgumentTypeError(f"one to three indices, not {text}")
    return result
