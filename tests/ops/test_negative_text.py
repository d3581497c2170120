"""The broken rules of ops again, as text: code, line and column.

Each case of `test_negative` that text can spell is written as the line of an op, `§` before what
the error is about: an operand, the result type, or an attribute. Values that no attribute of that
kind can have are errors of the reader.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

import pytest

from tests.sizes import for_each
from tileir.errors import ParseError, VerifyError
from tileir.field import Field, FieldKind, expected_attribute
from tileir.op import Op, lookup
from tileir.textual import parse
from tileir.textual.attributes import format_symbol, format_value
from tileir.values import Value

from .test_negative import CASES, Case

NOT_TEXT = ("TIR0105",)
"""Operands that are no operands; text has none."""


class Spelling:
    """A case as a module with `§` before what is wrong."""

    def __init__(self, case: Case) -> None:
        self.name, arguments, settings, self.code, self.operand = case
        kind = lookup(self.name)
        assert kind is not None
        self.kind: type[Op] = kind
        self.spelled = self._by_field(arguments, dict(settings))
        self.values: list[Value] = []
        self.expected = self._expected_code()

    def _by_field(self, arguments: tuple[Any, ...], settings: dict[str, Any]) -> dict[str, Any]:
        many = settings.pop("_variadic", None)
        fields = [f.name for f in self.kind.schema if f.kind is not FieldKind.ATTRIBUTE]
        if many is not None:
            single = 0 if many in ("values", "arms") else 1
            settings[many] = arguments[single:]
            arguments = arguments[:single]
            fields.remove(many)
        return {**dict(zip(fields, arguments, strict=False)), **settings}

    def _expected_code(self) -> str:
        """The code: the reader's own where the value is none that the attribute can have."""
        field = next((f for f in self.kind.schema if f.name == self.operand), None)
        self.unreadable = (
            field is not None
            and field.attribute is not None
            and expected_attribute(field, self.spelled.get(field.name, field.default)) is not None
        )
        if not self.unreadable:
            return self.code
        assert field is not None and field.attribute is not None
        word = format_value(self.spelled[self.operand]).isalnum()
        return "TIR0023" if word and field.attribute.enum is not None else "TIR0001"

    def text(self) -> str:
        """The marked module."""
        line = self._line()
        parameters = ", ".join(f"{v.type} %{i}" for i, v in enumerate(self.values))
        return f"tir 1.0\n\ndefine void @f({parameters}) {{\nentry:\n  {line}\n  ret\n}}\n"

    def _line(self) -> str:
        operands = [self._field(f) for f in self.kind.schema if self._is_operand(f)]
        while operands and operands[-1] == "none":
            operands.pop()
        attributes = [self._attribute(f) for f in self.kind.schema if f.attribute is not None]
        shown = ", ".join(filter(None, attributes))
        types = self._types()
        names = ", ".join(["_"] * len(types))
        stated = types[0] if len(types) == 1 else f"({', '.join(types)})"
        mark = self._mark("results", "to")
        words = [
            self._predicate(), f"{names} =" if types else "", self._mnemonic(),
            f"{mark}{stated}" if types else "",
            ", ".join(filter(None, operands)), f"{{{shown}}}" if shown else "",
        ]  # fmt: skip
        return " ".join(filter(None, words))

    def _mark(self, *names: str) -> str:
        return "§" if self.operand in names else ""

    def _mnemonic(self) -> str:
        """The op's name, marked where what is wrong is nowhere else in the line."""
        fields = [f for f in self.kind.schema if f.name == self.operand]
        unwritten = fields and self.operand not in self.spelled
        empty = fields and self._is_operand(fields[0]) and not self.spelled.get(self.operand)
        absent = unwritten or empty
        return ("§" if absent else "") + self.name

    def _is_operand(self, field: Field) -> bool:
        return field.kind not in (FieldKind.ATTRIBUTE, FieldKind.RESULT_TYPE)

    def _value(self, value: Value) -> str:
        self.values.append(value)
        return f"%{len(self.values) - 1}"

    def _field(self, field: Field) -> str:
        entry = self.spelled.get(field.name)
        mark = self._mark(field.name) if entry else ""
        if field.kind is FieldKind.SYMBOL:
            return mark + format_symbol(entry)
        if field.kind is FieldKind.PAIRS:
            texts = [self._value(v) for v in entry or ()]
            pairs = [f"[{a}, {b}]" for a, b in zip(texts[::2], texts[1::2], strict=True)]
            return mark + ", ".join(pairs) if pairs else ""
        if field.kind is FieldKind.VARIADIC:
            return mark + ", ".join(self._value(v) for v in entry) if entry else ""
        return "none" if entry is None else mark + self._value(entry)

    def _attribute(self, field: Field) -> str:
        if field.name not in self.spelled:
            return ""
        value, mark = self.spelled[field.name], self._mark(field.name)
        if self.unreadable and mark:
            return f"{field.spelling} = {self._wrong(value)}"
        return f"{mark}{field.spelling} = {format_value(value, field.attribute)}"

    def _wrong(self, value: Any) -> str:
        if not isinstance(value, tuple):
            return "§" + format_value(value)
        return f"[{', '.join('§' * (type(v) is not int) + format_value(v) for v in value)}]"

    def _types(self) -> list[str]:
        if "results" in self.spelled:
            return [str(v.type) for v in self.spelled["results"]]
        settings = {k: v for k, v in self.spelled.items() if k != "predicate"}
        try:
            return [str(v.type) for v in cast(Any, self.kind)(**settings).results]
        except VerifyError:
            pass
        stated = [f for f in self.kind.schema if f.kind is FieldKind.RESULT_TYPE]
        if stated:
            types = self.spelled[stated[0].name]
            return list(map(str, types if isinstance(types, tuple) else (types,)))
        if self.name in ("reduce", "scan"):
            return ["f32"] * max(1, len(self.spelled.get("values", ())))
        infers = self.kind.infer is not Op.infer
        return ["f32"] * (len(self.kind.results_) or infers)

    def _predicate(self) -> str:
        entry = self.spelled.get("predicate")
        return "" if entry is None else f"@{self._mark('predicate')}{self._value(entry)}"


def spellable(case: Case) -> bool:
    """Whether text can say it: no operands that are none, no word of another attribute that this
    one happens to have too, no op without results that has one."""
    name, _, settings, code, operand = case
    kind = lookup(name)
    assert kind is not None
    field = next((f for f in kind.schema if f.name == operand), None)
    enum = field.attribute.enum if field is not None and field.attribute is not None else None
    word = settings.get(operand)
    same = isinstance(word, Enum) and enum is not None and word.value in {m.value for m in enum}
    return code not in NOT_TEXT and not (code == "TIR0106" and same)


TEXTS = [c for c in CASES if spellable(c)]


@for_each("number", range(len(TEXTS)))
def test_the_place_of_what_is_broken(number: int) -> None:
    spelling = Spelling(TEXTS[number])
    marked = spelling.text()
    line = next(n for n, text in enumerate(marked.split("\n"), 1) if "§" in text)
    column = marked.split("\n")[line - 1].index("§") + 1
    with pytest.raises(ParseError) as caught:
        parse(marked.replace("§", ""), "k.tir")
    error = caught.value
    assert (error.code, error.line, error.column) == (spelling.expected, line, column), str(error)


def test_they_are_many() -> None:
    assert len({Spelling(c).text() for c in TEXTS}) >= 300
