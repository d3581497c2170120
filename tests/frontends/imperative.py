"""Programs over numbers and rows of i32, for languages with statements.

A program is decoded from small numbers: every list is a legal program, and smaller numbers stand
for simpler things. It is written in Triton's Python and in Triton-C, and run in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

WIDTH = 8
"""Elements of a row."""

Node: TypeAlias = tuple[Any, ...]
"""("name", n), ("number", k) or (operator, operand, ...)."""

Statement: TypeAlias = tuple[Any, ...]
"""("set", name, node), ("if", node, block, block) or ("for", name, iterations, block)."""

_BINARY = ("+", "-", "*", "&", "|", "^", "min", "max")
_BY_NUMBER = ("//", "%", "<<", ">>")
_COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
SCALARS, ROWS = ("s0", "s1"), ("r0", "r1")
"""Variables, which begin as the parameters n and m, and as rows of x."""


@attrs.frozen
class Program:
    """The statements, between loads of all variables and stores of all of them."""

    statements: tuple[Statement, ...]

    def python(self) -> str:
        """As a kernel `k(x, out, n, m)` of Triton's Python."""
        lines = ["def k(x, out, n, m):", f"    i = tl.arange(0, {WIDTH})"]
        lines += ["    s0 = n + 0", "    s1 = m + 0"]
        lines += ["    r0 = tl.load(x + i)", f"    r1 = tl.load(x + i + {WIDTH})"]
        lines += _python(self.statements, 1)
        lines += [f"    tl.store(out + i + {WIDTH * at}, {n} + tl.zeros_like(i))"
                  for at, n in enumerate((*SCALARS, *ROWS))]  # fmt: skip
        return "\n".join(lines) + "\n"

    def c(self) -> str:
        """As a kernel `k(x, out, n, m)` of Triton-C."""
        lines = ["kernel void k(int* x, int* out, int n, int m) {"]
        lines += [f"  int i[{WIDTH}] = 0 ... {WIDTH};", "  int s0 = n;", "  int s1 = m;"]
        lines += [f"  int r{at}[{WIDTH}] = *(x + i + {WIDTH * at});" for at in range(2)]
        lines += _c(self.statements, 1)
        lines += [f"  *(out + i + {WIDTH * at}) = {n} + i * 0;"
                  for at, n in enumerate((*SCALARS, *ROWS))]  # fmt: skip
        return "\n".join([*lines, "}"]) + "\n"

    def run(self, x: Any, n: int, m: int) -> Any:
        """What the kernel leaves in `out`."""
        names = {"s0": np.int32(n), "s1": np.int32(m), "r0": x[:WIDTH].copy()}
        names["r1"] = x[WIDTH:].copy()
        with np.errstate(over="ignore"):
            _run(self.statements, names)
        rows = [np.broadcast_to(names[name], (WIDTH,)) for name in (*SCALARS, *ROWS)]
        return np.concatenate(rows).astype(np.int32)


def decode(numbers: Sequence[int]) -> Program:
    """The program that `numbers` stand for."""
    return Program(tuple(_Decoder(numbers).block(2, ())))


class _Decoder:
    def __init__(self, numbers: Sequence[int]) -> None:
        self.rest, self.loops = iter(numbers), 0

    def among(self, choices: Sequence[Any]) -> Any:
        return choices[next(self.rest, 0) % len(choices)]

    def block(self, depth: int, counters: tuple[str, ...]) -> Iterator[Statement]:
        for _ in range(1 + self.among(range(3))):
            yield self.statement(depth, counters)

    def statement(self, depth: int, counters: tuple[str, ...]) -> Statement:
        kind = self.among(("set", "set", "if", "for") if depth else ("set",))
        if kind == "set":
            row = bool(self.among((1, 0)))
            name = self.among(ROWS if row else SCALARS)
            return "set", name, self.node(2, row, counters)
        if kind == "if":
            condition = self.comparison(1, False, counters)
            blocks = [tuple(self.block(depth - 1, counters)) for _ in range(2)]
            return "if", condition, blocks[0], blocks[1] if self.among((0, 1)) else ()
        counter, self.loops = f"j{self.loops}", self.loops + 1
        iterations = self.among((2, 0, 1, 3))
        return "for", counter, iterations, tuple(self.block(depth - 1, (*counters, counter)))

    def comparison(self, depth: int, row: bool, counters: tuple[str, ...]) -> Node:
        sign = self.among(_COMPARISONS)
        return sign, self.node(depth, row, counters), self.node(depth, row, counters)

    def node(self, depth: int, row: bool, counters: tuple[str, ...]) -> Node:
        kind = self.among(("name", "binary", "number", "where")) if depth else "name"
        if kind == "binary":
            sides = self.node(depth - 1, row, counters), self.node(depth - 1, False, counters)
            return self.among(_BINARY), *(sides if self.among((0, 1)) else sides[::-1])
        if kind == "number":
            sign, number = self.among(_BY_NUMBER), 1 + self.among(range(7))
            return sign, self.node(depth - 1, row, counters), ("number", number)
        if kind == "where":
            condition = self.comparison(0, row, counters)
            return "where", condition, *(self.node(depth - 1, row, counters) for _ in range(2))
        return "name", self.among(ROWS if row else (*SCALARS, *counters))


# In languages ------------------------------------------------------------------------------------


def _python(block: Sequence[Statement], depth: int) -> Iterator[str]:
    pad = "    " * depth
    for kind, *parts in block:
        if kind == "set":
            yield f"{pad}{parts[0]} = {_spell(parts[1], _PYTHON)}"
        elif kind == "if":
            yield f"{pad}if {_spell(parts[0], _PYTHON)}:"
            yield from _python(parts[1], depth + 1)
            if parts[2]:
                yield f"{pad}else:"
                yield from _python(parts[2], depth + 1)
        else:
            yield f"{pad}for {parts[0]} in range({parts[1]}):"
            yield from _python(parts[2], depth + 1)


def _c(block: Sequence[Statement], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for kind, *parts in block:
        if kind == "set":
            yield f"{pad}{parts[0]} = {_spell(parts[1], _C)};"
        elif kind == "if":
            yield f"{pad}if ({_spell(parts[0], _C)}) {{"
            yield from _c(parts[1], depth + 1)
            yield f"{pad}}} else {{"
            yield from _c(parts[2], depth + 1)
            yield pad + "}"
        else:
            name, iterations, body = parts
            yield f"{pad}for (int {name} = 0; {name} < {iterations}; {name}++) {{"
            yield from _c(body, depth + 1)
            yield pad + "}"


_PYTHON = {
    "min": "tl.minimum({}, {})", "max": "tl.maximum({}, {})", "where": "tl.where({}, {}, {})",
}  # fmt: skip
_C = {"min": "min({}, {})", "max": "max({}, {})", "where": "({} ? {} : {})", "//": "({} / {})"}


def _spell(node: Node, spelling: dict[str, str]) -> str:
    kind, *parts = node
    if kind in ("name", "number"):
        return str(parts[0])
    pattern = spelling.get(kind, f"({{}} {kind} {{}})")
    return pattern.format(*(_spell(p, spelling) for p in parts))


# In numpy ----------------------------------------------------------------------------------------


def _run(block: Sequence[Statement], names: dict[str, Any]) -> None:
    for kind, *parts in block:
        if kind == "set":
            names[parts[0]] = _value(parts[1], names)
        elif kind == "if":
            _run(parts[1] if _value(parts[0], names) else parts[2], names)
        else:
            for count in range(parts[1]):
                names[parts[0]] = np.int32(count)
                _run(parts[2], names)


def _value(node: Node, names: dict[str, Any]) -> Any:
    kind, *parts = node
    if kind == "name":
        return names[parts[0]]
    if kind == "number":
        return np.int32(parts[0])
    return _FUNCTIONS[kind](*(_value(p, names) for p in parts))


def _quotient(a: Any, b: Any) -> Any:
    """Rounded to zero, as in C."""
    wide = np.abs(a.astype(np.int64)) // b * np.sign(a)
    return wide.astype(np.int32)


_FUNCTIONS: dict[str, Any] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "min": np.minimum, "max": np.maximum, "//": _quotient,
    "%": lambda a, b: (a - _quotient(a, b) * b).astype(np.int32), "<<": np.left_shift,
    ">>": np.right_shift, "where": np.where, "<": np.less, "<=": np.less_equal, "==": np.equal,
    "!=": np.not_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
