"""The notation of a law: two sides of an equation between ops.

    add(add(x, C), D) = add(x, add(C, D))
    xor(p: icmp(x, y), true) = p#1
    srem(x, 1){rounding = *} = 0
    split(join(x, y)) = x, y

    law      = term "=" term {"," term}
    term     = literal | name ["#" index] | [name ":"] op ["#" index] "(" [term {"," term}] ")"
    [attrs] attrs    = "{" name "=" (word | "*") {"," name "=" (word | "*")} "}"

Lower-case names stand for any operand, capitals for literals. A repeated name stands for the same
operand both times; `name: op(...)` names the result of an op, `op#1` means its second result, and
`p#1` the second result of the op that defines `p`. Literals are `0`, `0.0`, `true`, `inf`, `nan`
and the like; integer, float and i1 ones match elements of that kind only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs


@attrs.frozen
class Name:
    """An operand, or result `index` of the op that defines it."""

    name: str
    index: int | None = None

    @property
    def literal(self) -> bool:
        """Whether it stands for literals only."""
        return self.name[0].isupper()


@attrs.frozen
class NumberTerm:
    """A literal."""

    value: int | float | bool


@attrs.frozen
class ApplyTerm:
    """Result `index` of op `mnemonic` on `arguments`. An attribute given as None may have any
    value, one left out has its default."""

    mnemonic: str
    arguments: tuple[Term, ...]
    attributes: dict[str, str | None] = attrs.field(factory=dict)
    index: int = 0
    name: str | None = None


Term: TypeAlias = Name | NumberTerm | ApplyTerm

_TOKEN = re.compile(r"\s*(-?\d+\.\d+|-?\d+|-?inf\b|nan\b|[A-Za-z_]\w*|[(){},=#:*])")
_WORDS: dict[str, int | float | bool] = {"true": True, "false": False}


def parse_equation(text: str) -> tuple[ApplyTerm, tuple[Term, ...]]:
    """Both sides of the law `text`. Raises ValueError where it is malformed."""
    cursor = _Cursor(text)
    left = cursor.term()
    if not isinstance(left, ApplyTerm):
        raise ValueError(f"the left side of {text!r} must be an op")
    cursor.take("=")
    right = [cursor.term()]
    while cursor.next == ",":
        cursor.take(",")
        right.append(cursor.term())
    if cursor.next:
        raise ValueError(f"unexpected {cursor.next!r} in {text!r}")
    return left, tuple(right)


def names(term: Term) -> Iterator[Name]:
    """Every name in `term`, in order, as often as it stands there."""
    if isinstance(term, Name):
        yield term
    elif isinstance(term, ApplyTerm):
        for argument in term.arguments:
            yield from names(argument)


class _Cursor:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            raise ValueError(f"malformed law {text!r}")
        self.at = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        result = self.next
        if not result or (expected is not None and result != expected):
            raise ValueError(f"expected {expected!r}, not {result!r}, in {self.text!r}")
        self.at += 1
        return result

    def accept(self, word: str) -> bool:
        result = self.next == word
        self.at += result
        return result

    def term(self) -> Term:
        word = self.take()
        number = _number(word)
        if number is not None:
            return NumberTerm(number)
        if self.next == ":":
            self.take(":")
            return attrs.evolve(self.apply(self.take()), name=word)
        return self.apply(word) if self._applies() else Name(word, self.index())

    def _applies(self) -> bool:
        return "(" in self.tokens[self.at : self.at + 3 : 2] and self.next in ("(", "#")

    def index(self) -> int | None:
        if self.next != "#":
            return None
        self.take("#")
        return int(self.take())

    def apply(self, mnemonic: str) -> ApplyTerm:
        index = self.index() or 0
        self.take("(")
        arguments: list[Term] = []
        while self.next != ")":
            arguments.append(self.term())
            self.accept(",")
        self.take(")")
        return ApplyTerm(mnemonic, tuple(arguments), self.attributes(), index)

    def attributes(self) -> dict[str, str | None]:
        attributes: dict[str, str | None] = {}
        if not self.accept("{"):
            return attributes
        while self.next != "}":
            name = self.take()
            self.take("=")
            value = self.take()
            attributes[name] = None if value == "*" else value
            if self.next == ",":
                self.take(",")
        self.take("}")
        return attributes


def _number(word: str) -> int | float | bool | None:
    if word in _WORDS:
        return _WORDS[word]
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    if re.fullmatch(r"-?\d+\.\d+|-?inf|nan", word):
        return float(word)
    return None
