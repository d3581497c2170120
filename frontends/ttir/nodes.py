"""The syntax tree of a TTIR text: statements with their regions, not interpreted yet."""

from __future__ import annotations

from typing import Any

import attrs

from tileir import Location
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.lexer import Token
from tileir.frontends.ttir.types import BlockPointerType, Stated
from tileir.types import Type


@attrs.define(eq=False)
class Operation:
    """`%a, %b = name HEAD {attributes} (regions) : TAIL`.

    `head` are the tokens between the name and the types, `options` the attributes, of the form
    `word = word` and in braces. `operand_types` and `result_types` are the types before and after
    the arrow; without an arrow `result_types` are all types. `unsigned` states whether a descriptor
    among them is of unsigned elements."""

    name: str
    results: list[tuple[str, int]]
    place: Location
    source: Location | None = None
    head: list[Token] = attrs.field(factory=list[Token])
    options: dict[str, Any] = attrs.field(factory=dict[str, Any])
    operand_types: list[Stated] = attrs.field(factory=list[Stated])
    result_types: list[Stated] = attrs.field(factory=list[Stated])
    regions: list[Region] = attrs.field(factory=list[Any])
    exact: bool = False
    unsigned: bool = False

    @property
    def operands(self) -> list[str]:
        """Names of the values in the head, in order."""
        return [t.text for t in self.head if t.kind == "value"]

    @property
    def words(self) -> list[str]:
        """Bare words of the head."""
        return [t.text for t in self.head if t.kind == "word"]

    @property
    def symbol(self) -> str:
        """The function that the head names. Raises UnsupportedStatement."""
        if not self.symbols:
            raise UnsupportedStatement(f"{self.name} names no function")
        return self.symbols[0]

    @property
    def symbols(self) -> list[str]:
        """Names of functions in the head."""
        return [t.text[1:].strip('"') for t in self.head if t.kind == "symbol"]

    @property
    def result(self) -> Type:
        """The type of the result. Raises UnsupportedStatement."""
        if not self.result_types:
            raise UnsupportedStatement(f"{self.name} states no type")
        kind = self.result_types[-1]
        if isinstance(kind, BlockPointerType):
            raise UnsupportedStatement(f"{self.name} of {kind} is not supported")
        return kind

    def integer(self, name: str, default: int | None = None) -> int:
        """The attribute `name`. Raises UnsupportedStatement."""
        option = self.options.get(name, default)
        if not isinstance(option, int):
            raise UnsupportedStatement(f"{self.name} needs an integer {name}")
        return option

    def groups(self) -> list[list[str]]:
        """Values of the head by the brackets they stand in; those outside are groups of one."""
        groups: list[list[str]] = []
        inside = False
        for token in self.head:
            if token.text == "[":
                inside = True
                groups.append([])
            elif token.text == "]":
                inside = False
            elif token.kind == "value":
                groups[-1].append(token.text) if inside else groups.append([token.text])
        return groups


@attrs.define(eq=False)
class Section:
    """A block: its label, parameters, statements."""

    label: str
    parameters: list[tuple[str, Stated]]
    statements: list[Operation] = attrs.field(factory=list[Operation])


@attrs.define(eq=False)
class Region:
    """Blocks, the first of which is entered."""

    sections: list[Section] = attrs.field(factory=list[Section])

    @property
    def statements(self) -> list[Operation]:
        """The statements of a region of one block. Raises UnsupportedStatement."""
        if len(self.sections) != 1:
            raise UnsupportedStatement("a region of several blocks is not supported")
        return self.sections[0].statements

    @property
    def parameters(self) -> list[tuple[str, Stated]]:
        """The parameters of the first block."""
        return self.sections[0].parameters


@attrs.define(eq=False)
class Function:
    """A function: name, parameters with what is promised of them, types of results, body."""

    name: str
    public: bool
    place: Location
    source: Location | None = None
    parameters: list[tuple[str, Stated, dict[str, Any]]] = attrs.field(factory=list[Any])
    results: list[Stated] = attrs.field(factory=list[Stated])
    region: Region = attrs.field(factory=Region)
