"""Readers of older spellings: each turns its text into canonical text, a line into a line."""

from __future__ import annotations

import re
from typing import NoReturn

import attrs

from tileir.errors import Diagnostic, Location, ParseError, TileirError
from tileir.textual.module import ModuleReader, check_text

_HEADER = re.compile(r"def void (\w+)\((.*)\)")
_PARAMETER = re.compile(r"([\w*]+)\s+(\w+)((?:\s*\.\w+(?:\(\d+\))?)*)")
_PROMISE = re.compile(r"\.(\w+)(\(\d+\))?")
_OP = re.compile(
    r"(?:(%\w+) = )?([a-z]\w*)(?:\[(\d+)(?: : \d+)?\])?(?: ([a-z]\w*\**(?:<[\d, ]+>)?))?(.*)"
)
_RESULTLESS = ("masked_store", "store", "ret")


def triton1(text: str, file: str) -> str:
    """Canonical text of the spelling of the Triton 1.0 announcement (2021).

    A broadcast of a tile to its own type is the tile; a `masked_load` whose last operand is a tile
    of `undef` has no `other`. Raises ParseError (TIR0001) for a line of another form. The result
    has an additional line, the version."""
    check_text(text, file)
    reader = _Triton1(file)
    lines = [reader.line(number, line) for number, line in enumerate(text.split("\n"), 1)]
    return "\n".join(("tir 1.0", *lines))


class Triton1Reader(ModuleReader):
    """Reads the text that `triton1` returns, with the line numbers of the original text."""

    first_line = 0


def whole_lines(error: TileirError, text: str) -> TileirError:
    """The same error about whole lines of `text`, since columns are those of other text."""
    lines = text.split("\n")

    def widen(d: Diagnostic) -> Diagnostic:
        at = d.location
        if at is None or not 0 < at.line <= len(lines):
            return d
        line = lines[at.line - 1]
        column = len(line) - len(line.lstrip()) + 1
        return attrs.evolve(
            d, location=attrs.evolve(at, column=column), length=max(1, len(line.strip())),
            notes=tuple(map(widen, d.notes)),
        )  # fmt: skip

    return type(error)(*map(widen, error.diagnostics))


class _Triton1:
    def __init__(self, file: str) -> None:
        self.file = file
        self.names: dict[str, str] = {}
        """What an operand of the text stands for: parameters, and tiles broadcast to themselves."""
        self.types: dict[str, str] = {}

    def line(self, number: int, line: str) -> str:
        text = line.strip().removesuffix(";").rstrip()
        if text.startswith("def "):
            return self._header(number, text)
        if text in ("", "{"):
            return ""
        if text == "}" or text.endswith(":"):
            return text
        result = _OP.fullmatch(text)
        return self._op(*result.groups("")) if result else self._fail(number, text)

    def _header(self, number: int, text: str) -> str:
        result = _HEADER.fullmatch(text.removesuffix("{").rstrip())
        if result is None:
            self._fail(number, text)
        parameters: list[str] = []
        for part in filter(None, map(str.strip, result[2].split(","))):
            match = _PARAMETER.fullmatch(part)
            if match is None:
                self._fail(number, part)
            self.names[match[2]] = f"%{match[2]}"
            promises = [
                name.replace("multipleof", "multiple_of") + value
                for name, value in _PROMISE.findall(match[3])
            ]
            parameters.append(" ".join((match[1], *promises, f"%{match[2]}")))
        return f"define kernel void @{result[1]}({', '.join(parameters)}) {{"

    def _op(self, result: str, mnemonic: str, first: str, type_: str, operand_text: str) -> str:
        operands = [self._operand(word) for word in operand_text.split(",") if word.strip()]
        self.types[result] = type_
        if mnemonic == "broadcast" and operands and self.types.get(operands[0]) == type_:
            self.names[result] = operands[0]
            return ""
        if mnemonic == "splat" and operands == ["undef"]:
            self.names[result] = "undef"
            return ""
        if mnemonic.startswith("icmp_"):
            predicate = mnemonic.removeprefix("icmp_")
            pair = f"{result}, _ = icmp ({type_}, {type_})"
            return f"  {pair} {', '.join(operands)} {{predicate = {predicate}}}"
        suffix = {"get_program_id": f" {{axis = {first}}}", "make_range": f" {{start = {first}}}"}
        if mnemonic == "masked_load" and operands[2:] == ["undef"]:
            operands.pop()
        name = mnemonic.removeprefix("get_").removeprefix("masked_")
        head = name if mnemonic in _RESULTLESS else f"{result} = {name} {type_}"
        return f"  {head} {', '.join(operands)}".rstrip() + suffix.get(mnemonic, "")

    def _operand(self, word: str) -> str:
        name = word.strip()
        return self.names.get(name, name)

    def _fail(self, number: int, text: str) -> NoReturn:
        message = f"`{text[:60]}` is no line of Triton 1.0's spelling"
        raise ParseError(Diagnostic("TIR0001", message, Location(self.file, number, 1, False)))
