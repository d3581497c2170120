"""The `.tir` text: reader, printer and legacy readers."""

if __name__ != "tileir.textual":
    raise ImportError("import tileir.textual, not the folder " + __name__)

from tileir.errors import Diagnostic, ParseError, TileirError
from tileir.ir import Module
from tileir.textual.module import read_module, shifted, split, verified
from tileir.textual.printer import print_function, print_module, print_op

__all__ = [
    "parse", "parse_many", "parse_with_remarks", "print_function", "print_module", "print_op",
]  # fmt: skip


def parse(
    text: str, file: str = "<string>", *, dialect: str = "tir", verify: bool = True
) -> Module:
    """The module that `text` spells, verified unless `verify` is false.

    `dialect` is `tir` or `triton1`, the spelling of the Triton 1.0 announcement.

    Raises ParseError or VerifyError with every error found.
    """
    return parse_with_remarks(text, file, dialect=dialect, verify=verify)[0]


def parse_with_remarks(
    text: str, file: str = "<string>", *, dialect: str = "tir", verify: bool = True
) -> tuple[Module, tuple[Diagnostic, ...]]:
    """`parse`, and what the reader did that the text does not say: blocks it dropped."""
    canonical = _canonical(text, file, dialect)
    try:
        module, remarks = read_module(canonical, file)
        return (verified(module) if verify else module), remarks
    except TileirError as error:
        if dialect == "tir":
            raise
        raise shifted(error, -1) from None  # for the version line, which older spellings lack


def parse_many(text: str, file: str = "<string>", *, verify: bool = True) -> list[Module]:
    """The modules of a text split at lines `; -----`; places count from its start."""
    found: list[Module] = []
    for lines, part in split(text):
        try:
            found.append(parse(part, file, verify=verify))
        except TileirError as error:
            raise shifted(error, lines) from None
    return found


def _canonical(text: str, file: str, dialect: str) -> str:
    if dialect == "tir":
        return text
    from tileir.textual import legacy

    if dialect not in legacy.DIALECTS:
        known = ", ".join(("tir", *legacy.DIALECTS))
        raise ParseError(Diagnostic("TIR0023", f"there is no dialect {dialect}; known: {known}"))
    return legacy.DIALECTS[dialect](text, file)
