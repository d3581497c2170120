"""The parser of statements: MLIR's syntax, as far as all of Triton's ops share it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tileir import Location
from tileir.frontends.ttir.errors import CompilationError, UnsupportedStatement, error_at
from tileir.frontends.ttir.lexer import StatementLine, Token, string_value, tokens
from tileir.frontends.ttir.locations import Locations
from tileir.frontends.ttir.nodes import Function, Operation, Region, Section
from tileir.frontends.ttir.types import (
    BlockPointerType,
    Stated,
    parse_descriptor,
    parse_stated_type,
)
from tileir.types import Descriptor, shape_of

_OPENING = {"(": ")", "[": "]", "<": ">", "{": "}"}
_NESTED = 64
"""Regions within regions; kernels have less than ten."""


def read_functions(text: str, file: str) -> list[Function]:
    """The functions of a TTIR text. Raises CompilationError.

    Statements in the usual form are read line by line. After an error, the whole text is read token
    by token. This determines the location of the error, or that there is none: a line may be part
    of a longer construct."""
    locations = Locations(text)
    try:
        return Reader(tokens(text, file, lines=True), file, locations).module()
    except CompilationError:
        return Reader(tokens(text, file), file, locations).module()


class Reader:
    """Reads statements off tokens. Everything raises CompilationError at its place."""

    def __init__(self, tokens: Iterable[Token], file: str, locations: Locations) -> None:
        self.tokens, self.file, self.locations = list(tokens), file, locations
        self.place, self.depth = 0, 0
        self._types_of: dict[str, tuple[list[Stated], list[Stated]]] = {}

    # Tokens ---------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        """The next token."""
        return self.tokens[self.place]

    def take(self) -> Token:
        """Consume and return the next token."""
        token = self.tokens[self.place]
        if token.kind != "eof":
            self.place += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume `text` if it is the next token; returns whether it was."""
        token = self.tokens[self.place]
        if token.text != text or token.kind == "string":
            return False
        self.place += 1
        return True

    def expect(self, text: str) -> Token:
        """Consume `text`, which must be the next token."""
        if self.next.text != text:
            raise self.unexpected_token(f"{text!r} is expected")
        return self.take()

    def unexpected_token(self, why: str) -> CompilationError:
        """The error for an unexpected next token."""
        shown = "the end" if self.next.kind == "eof" else repr(self.next.text)
        return error_at(f"{shown} does not belong here: {why}", self.at(self.next))

    def at(self, token: Token) -> Location:
        """The location of a token."""
        return Location(self.file, token.line, token.column)

    def skip_ends(self) -> None:
        """Pass ends of lines."""
        while self.tokens[self.place].kind == "end":
            self.place += 1

    def bracketed_tokens(self) -> list[Token]:
        """An opening bracket and all up to the one that closes it."""
        first, tokens = self.next, []
        waiting: list[str] = []
        while True:
            token = self.take()
            if token.kind == "eof":
                raise error_at(f"{first.text!r} is never closed", self.at(first))
            tokens.append(token)
            if token.kind == "mark" and token.text in _OPENING:
                waiting.append(_OPENING[token.text])
            elif waiting and token.text == waiting[-1]:
                waiting.pop()
            if not waiting:
                return tokens

    # Types and attributes -------------------------------------------------------------------

    def type(self) -> Stated:
        """A type."""
        first = self.next
        if first.kind == "type":
            return self._parse_type(self.take().text, first)
        text = self.take().text if first.kind in ("kind", "word") else ""
        if self.next.text == "<":
            text += "".join(t.text for t in self.bracketed_tokens())
        return self._parse_type(text, first)

    def _parse_type(self, text: str, first: Token) -> Stated:
        try:
            tensor = text.startswith("<") and "x" in text
            return parse_descriptor(text) if tensor else parse_stated_type(text)
        except UnsupportedStatement as refused:
            raise error_at(refused.message, self.at(first), refused.code) from None

    def types(self) -> list[Stated]:
        """Types with commas or stars between them, in parentheses or not."""
        types: list[Stated] = []
        closed = self.accept("(")
        while (closed and self.accept(")") is False) or not closed:
            types.append(self.type())
            if self.next.text in (",", "*") and self.next.kind == "mark":
                self.take()
            elif not closed:
                break
        return types

    def attributes(self) -> dict[str, Any]:
        """`{name = value, ...}`."""
        self.expect("{")
        attributes: dict[str, Any] = {}
        self.skip_ends()
        while not self.accept("}"):
            if self.next.kind not in ("word", "string"):
                raise self.unexpected_token("a name of an attribute is expected")
            name = self.take().text.strip('"')
            attributes[name] = self.attribute() if self.accept("=") else True
            self.accept(",")
            self.skip_ends()
        return attributes

    def attribute(self) -> Any:
        """A number, string, truth value, list of numbers, or the text of anything else."""
        token = self.next
        if token.text in ("dense", "array"):
            return self._numbers()
        if token.text in ("{", "["):
            return "".join(t.text for t in self.bracketed_tokens())
        self.take()
        if token.kind == "hash":
            return token.text + self._bracketed_text()
        if self.accept(":"):
            self.type()
        return _literal(token)

    def _bracketed_text(self) -> str:
        if self.next.text != "<":
            return ""
        return " ".join(t.text for t in self.bracketed_tokens())

    def _numbers(self) -> list[Any]:
        """`dense<16> : tensor<1xi32>`, `dense<[16, 1]> : ...`, `array<i32: 1, 0>`."""
        self.take()
        inside = self.bracketed_tokens()[1:-1]
        result = [_literal(t) for t in inside if t.kind == "number" or t.text in ("true", "false")]
        kind = self.type() if self.accept(":") else None
        shape = () if kind is None or isinstance(kind, BlockPointerType) else shape_of(kind)
        return result * shape[0] if len(result) == 1 and shape else result

    # Statements -----------------------------------------------------------------------------

    def region(self) -> Region:
        """`{`, blocks, `}`."""
        start = self.expect("{")
        self.depth += 1
        if self.depth > _NESTED:
            raise error_at("nested too deeply", self.at(start))
        region = Region([Section("", [])])
        self.skip_ends()
        while not self.accept("}"):
            if self.next.kind == "block":
                self._section(region)
            else:
                region.sections[-1].statements.append(self.statement())
            self.skip_ends()
        self.depth -= 1
        return region

    def _section(self, region: Region) -> None:
        label, parameters = self.take().text, []
        if self.next.text == "(":
            parameters = self.parameters()
        self.expect(":")
        if not region.sections[0].label and not region.sections[0].statements:
            region.sections.clear()
        region.sections.append(Section(label, parameters))

    def parameters(self) -> list[tuple[str, Stated]]:
        """`(%a: type loc(...), ...)`."""
        self.expect("(")
        parameters: list[tuple[str, Stated]] = []
        while not self.accept(")"):
            name = self.take().text
            self.expect(":")
            parameters.append((name, self.type()))
            self.location()
            self.accept(",")
            self.skip_ends()
        return parameters

    def location(self) -> Location | None:
        """`loc(...)`, if it comes."""
        token = self.next
        if token.kind == "location":
            return self.locations.resolve(self.take().text[4:-1])
        if token.text != "loc":
            return None
        self.take()
        return self.locations.of(self.bracketed_tokens()[1:-1])

    def statement(self) -> Operation:
        """An op and its regions, up to the end of a line."""
        line = self.next
        if isinstance(line, StatementLine):
            return self._of_line(line)
        results = self._results()
        name = self.take()
        if name.text == "tt.func":
            raise error_at("a nested function is not supported", self.at(name))
        if name.kind not in ("word", "string"):
            self.place -= 1
            raise self.unexpected_token("a statement is expected")
        statement = Operation(name.text.strip('"'), results, self.at(name))
        while self.next.kind not in ("end", "eof") and self.next.text not in ("}",):
            self._part(statement)
        return statement

    def _of_line(self, line: StatementLine) -> Operation:
        """The statement of a line in the usual form, which is passed."""
        self.place += 1
        before, after = self._types_of.get(line.types) or self._stated_types(line)
        return Operation(
            line.name,
            [(line.result, 1)] if line.result else [],
            self.at(line),
            self.locations.resolve(line.place) if line.place else None,
            line.head_tokens(),
            line.settings() if line.options or line.attributes else {},
            list(before),
            list(after),
        )

    def _stated_types(self, line: StatementLine) -> tuple[list[Stated], list[Stated]]:
        """The types of a line before the arrow and after it; without an arrow, all are after it."""
        sides = re.split(" -> | to ", line.types) if line.types else [""]
        lists = [[self._parse_type(t, line) for t in side.split(", ") if t] for side in sides]
        types = self._types_of[line.types] = lists[0] if len(lists) > 1 else [], lists[-1]
        return types

    def function(self) -> Function:
        """`tt.func public @name(%a: type {promises} loc(...), ...) -> types attributes {...} {`."""
        start = self.expect("tt.func")
        public = self.next.text != "private"
        while self.next.kind == "word":
            self.take()
        if self.next.kind != "symbol":
            raise self.unexpected_token("the name of a function is expected")
        function = Function(self.take().text[1:].strip('"'), public, self.at(start))
        self._signature(function)
        if self.accept("->"):
            function.results = self.types()
        while self.accept("attributes"):
            self.attributes()
        function.region = self.region()
        function.source = self.location()
        return function

    def _signature(self, function: Function) -> None:
        self.expect("(")
        while not self.accept(")"):
            if self.next.kind != "value":
                raise self.unexpected_token("a parameter is expected")
            name = self.take().text
            self.expect(":")
            kind = self.type()
            promises = self.attributes() if self.next.text == "{" else {}
            self.location()
            function.parameters.append((name, kind, promises))
            self.accept(",")
            self.skip_ends()

    def module(self) -> list[Function]:
        """`module {`, functions, `}`, with entries of tables of locations around it."""
        functions: list[Function] = []
        open_ = 0
        while self.next.kind != "eof" or open_:
            if self.next.text == "tt.func":
                functions.append(self.function())
            elif self.next.text in ("module", "builtin.module"):
                self._module_header()
                open_ += 1
            elif open_ and self.accept("}"):
                open_ -= 1
                self.location()
            elif self.next.kind == "hash":
                self._entry()
            elif self.next.kind == "end":
                self.take()
            else:
                raise self.unexpected_token("a module or tt.func is expected")
        return functions

    def _entry(self) -> None:
        """An alias, `#loc1 = loc(...)`, up to the end of its line."""
        while self.next.kind not in ("end", "eof"):
            self.take()

    def _module_header(self) -> None:
        self.take()
        if self.next.kind == "symbol":
            self.take()
        if self.accept("attributes"):
            self.attributes()
        self.expect("{")

    def _results(self) -> list[tuple[str, int]]:
        results: list[tuple[str, int]] = []
        while self.next.kind == "value":
            name, count = self.take().text, 1
            if self.accept(":"):
                count = self._count()
            results.append((name, count))
            self.accept(",")
        if results:
            self.expect("=")
        return results

    def _count(self) -> int:
        if not self.next.text.isdecimal() or len(self.next.text) > 4:
            raise self.unexpected_token("a number of results is expected")
        return int(self.take().text)

    def _part(self, statement: Operation) -> None:
        """The next part of a statement."""
        token, following = self.next, self.tokens[self.place + 1]
        if token.kind == "location" or (token.text == "loc" and following.text == "("):
            statement.source = self.location()
        elif token.text == "{" and following.kind == "end":
            statement.regions.append(self.region())
        elif token.text == "(" and following.text == "{":
            self._regions(statement)
        elif token.text == "{" or (token.text == "<" and following.text == "{"):
            self._braces(statement)
        elif token.text == ":" and following.kind == "value":
            self.take()  # `tt.print "x: " {...} : %x : type`
        elif token.text == ":" or token.kind == "arrow":
            self._types(statement)
        elif token.text in ("attributes", "else", "do"):
            self.take()
        elif token.kind == "word" and following.text == "=":
            self.take()
            self.take()
            statement.options[token.text] = _literal(self.take())
        elif token.text == "dense" and following.text == "<":
            statement.head.append(token)
            self.take()
            statement.head += self.bracketed_tokens()
        else:
            statement.head.append(self.take())

    def _regions(self, statement: Operation) -> None:
        self.expect("(")
        while not self.accept(")"):
            statement.regions.append(self.region())
            self.accept(",")
            self.skip_ends()

    def _braces(self, statement: Operation) -> None:
        proper = self.accept("<")
        statement.options.update(self.attributes())
        if proper:
            self.expect(">")

    def _types(self, statement: Operation) -> None:
        """`: operand types -> result types`, of which either may be missing, `to` for the arrow."""
        first = self.place
        if self.accept(":"):
            statement.result_types = self.types()
        if any(isinstance(kind, Descriptor) for kind in statement.result_types):
            statement.unsigned = any("xui" in t.text for t in self.tokens[first : self.place])
        while self.next.kind == "arrow" or self.next.text == "to":
            self.take()
            statement.operand_types = statement.operand_types or statement.result_types
            statement.result_types = self.types()


def _literal(token: Token) -> Any:
    if token.kind == "string":
        return string_value(token.text)
    if token.text in ("true", "false"):
        return token.text == "true"
    if token.kind == "number":
        text = token.text
        if "x" in text:
            return int(text, 16)
        return float(text) if "." in text or "e" in text.lower() else int(text)
    return token.text
