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
    """Parse `text` and return the module, verified unless `verify` is False.

    `file` is the file name in locations and errors. `dialect` is one of `DIALECTS`. Raises
    ParseError or VerifyError with all errors.
    """
    return parse_with_remarks(text, file, dialect=dialect, verify=verify)[0]


def parse_with_remarks(
    text: str, file: str = "<string>", *, dialect: str = "tir", verify: bool = True
) -> tuple[Module, tuple[Diagnostic, ...]]:
    """Parse `text` as `parse` does; return the module and a remark for each unreachable block,
    which the reader drops."""
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
    """Parse a text with several modules, separated by lines `; -----`.

    Locations count lines from the start of the text. Raises the same errors as `parse`.
    """
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
    """Return the canonical text of `module`, in its own version of the language or in `version`.

    Raises VerifyError: TIR0401 for every op, attribute, value or type that `version` does not have,
    TIR0402 for an unknown version.
    """
    from tileir.textual import printer

    return printer.print_module(module, version)


def print_function(function: Function) -> str:
    """Return the canonical text of one function. Layouts are written out, without aliases."""
    from tileir.textual import function_printer

    return function_printer.print_function(function)


def print_op(op: "Op") -> str:
    """Return the canonical text of one op. Values have their own names, which may not be unique."""
    from tileir.textual import function_printer

    return function_printer.print_op(op)
