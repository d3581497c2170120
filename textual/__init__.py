"""The `.tir` text: reader, printer and legacy readers."""

if __name__ != "tileir.textual":
    raise ImportError("import tileir.textual, not the folder " + __name__)

from typing import TYPE_CHECKING

from tileir.errors import Diagnostic, ParseError, TileirError
from tileir.ir import Function, Module
from tileir.process import collector_paused

with collector_paused():  # what is imported stays
    from tileir.textual.module import (
        ModuleReader,
        read_module,
        shift_lines,
        split,
        verify_module,
    )

if TYPE_CHECKING:
    from tileir.op import Op

__all__ = [
    "DIALECTS", "parse", "parse_many", "parse_with_remarks", "print_function", "print_module",
    "print_op",
]  # fmt: skip


DIALECTS = ("tir", "mapl19", "triton1")
"""Spellings that are read: the canonical one; that of the MAPL 2019 paper; that of the Triton 1.0
announcement."""


def parse(
    text: str, file: str = "<string>", *, dialect: str = "tir", verify: bool = True
) -> Module:
    """Parse `text`, and verify the module unless `verify` is false.

    `file` is the name that locations and errors show. `dialect` is one of `DIALECTS`.

    Raises ParseError or VerifyError with every error found.
    """
    return parse_with_remarks(text, file, dialect=dialect, verify=verify)[0]


def parse_with_remarks(
    text: str, file: str = "<string>", *, dialect: str = "tir", verify: bool = True
) -> tuple[Module, tuple[Diagnostic, ...]]:
    """As `parse`; with the remarks of the reader, one for each unreachable block that it
    dropped."""
    canonical, reader = _reader_of(text, file, dialect)
    try:
        with collector_paused():
            module, remarks = read_module(canonical, file, reader)
            return (verify_module(module) if verify else module), remarks
    except TileirError as error:
        if dialect != "triton1":
            raise
        from tileir.textual.triton1 import whole_lines

        raise whole_lines(error, text) from None


def parse_many(text: str, file: str = "<string>", *, verify: bool = True) -> list[Module]:
    """The modules of a text that lines `; -----` separate. Locations count lines from the start of
    the text. Raises as `parse` does."""
    modules: list[Module] = []
    for lines, part in split(text):
        try:
            modules.append(parse(part, file, verify=verify))
        except TileirError as error:
            raise shift_lines(error, lines) from None
    return modules


def _reader_of(text: str, file: str, dialect: str) -> tuple[str, type[ModuleReader]]:
    """The reader of `dialect`, and the text as that reader takes it."""
    if dialect == "tir":
        return text, ModuleReader
    if dialect == "triton1":
        from tileir.textual.triton1 import Triton1Reader, triton1

        return triton1(text, file), Triton1Reader
    if dialect == "mapl19":
        from tileir.textual.mapl19 import PaperReader

        return text, PaperReader
    message = f"there is no dialect {dialect}; known: {', '.join(DIALECTS)}"
    raise ParseError(Diagnostic("TIR0023", message))


def print_module(module: Module, version: tuple[int, int] | None = None) -> str:
    """The canonical text of `module`, in its own version of the language or in `version`.

    Raises VerifyError: TIR0401 at every op that `version` does not have, or not with an attribute,
    value or type used; TIR0402 for a version that there is not.
    """
    from tileir.textual import printer

    return printer.print_module(module, version)


def print_function(function: Function) -> str:
    """The canonical text of one function. Layouts are written in place, not by aliases."""
    from tileir.textual import function_printer

    return function_printer.print_function(function)


def print_op(op: "Op") -> str:
    """The canonical text of one op. Values have their names, which may not be unique."""
    from tileir.textual import function_printer

    return function_printer.print_op(op)
