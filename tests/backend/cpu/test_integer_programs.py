"""Generated programs of integers near the ends of their types: the interpreter and the CPU."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.sizes import few_or_all
from tileir.executor import executor
from tileir.interp import interpret
from tileir.textual import parse

NUMBERS = (
    0, 1, -1, 2, 31, 32, 2**30, -(2**30), 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1,
    2**32, 2**32 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63),
)  # fmt: skip
TYPES = ("i64", "i64", "i32", "i32", "i32", "i16", "i8")
BINARY = (
    "add", "sub", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax", "smulhi", "umulhi",
)  # fmt: skip
RELATIONS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
EXTENSIONS = ("sext", "zext")
CASTS = (("i64", "i32"), ("i32", "i64"), ("i32", "i64"), ("i16", "i64"), ("i8", "i32"),
         ("i64", "i8"), ("i32", "i16"))  # fmt: skip


def wrap(number: int, kind: str) -> int:
    """`number` as a signed number of the type."""
    half = 1 << (int(kind[1:]) - 1)
    return (number + half) % (2 * half) - half


class Program:
    """A program of `size` lanes that stores the last value of each type, and a multiple of the
    lane."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.size = self.choose.choice((1, 3, 31, 32, 33, 64))
        self.lines: list[str] = []
        self.values: dict[str, list[str]] = {kind: [] for kind in TYPES}

    def add(self, kind: str, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.values[kind].append(name)
        return name

    def literal(self, kind: str) -> int:
        return wrap(self.choose.choice(NUMBERS), kind)

    def step(self) -> None:
        """One op on values so far and literals."""
        choose, n = self.choose, self.size
        kind = choose.choice(TYPES)
        first = choose.choice(self.values[kind])
        second = choose.choice((*self.values[kind], self.literal(kind), self.literal(kind)))
        match choose.randrange(8):
            case 0 | 1 | 2:
                self.add(kind, f"{choose.choice(BINARY)} {kind}<{n}> {first}, {second}")
            case 3:
                count = choose.randrange(int(kind[1:]))
                op = choose.choice(("shl", "shl", "lshr", "ashr"))
                self.add(kind, f"{op} {kind}<{n}> {first}, {count}")
            case 4:
                divisor = self.literal(kind)
                divisor = 3 if divisor in (0, -1) else divisor
                op = choose.choice(("sdiv", "udiv", "srem", "urem"))
                self.add(kind, f"{op} {kind}<{n}> {first}, {divisor}")
            case 5 | 6:
                source, kind = choose.choice(CASTS)
                widths = int(source[1:]), int(kind[1:])
                op = "trunc" if widths[0] > widths[1] else choose.choice(EXTENSIONS)
                self.add(kind, f"{op} {kind}<{n}> {choose.choice(self.values[source])}")
            case _:
                number = len(self.lines)
                relation = choose.choice(RELATIONS)
                self.lines.append(
                    f"  %c{number}, _ = icmp (i1<{n}>, i1<{n}>) {first}, {second} "
                    f"{{predicate = {relation}}}"
                )
                other = choose.choice(self.values[kind])
                self.add(kind, f"select {kind}<{n}> %c{number}, {second}, {other}")

    def text(self) -> str:
        n = self.size
        lane = self.add("i32", f"make_range i32<{n}>")
        self.add("i64", f"sext i64<{n}> {lane}")
        for kind in dict.fromkeys(TYPES):
            self.add(kind, f"splat {kind}<{n}> %{kind}")
        for _ in range(self.choose.randint(4, 14)):
            self.step()
        results = [self.values[kind][-1] for kind in dict.fromkeys(TYPES)]
        kinds = [*dict.fromkeys(TYPES), "i32"]
        op = self.choose.choice(("mul", "shl", "sub"))
        count = self.choose.randrange(32) if op == "shl" else self.literal("i32")
        results.append(self.add("i32", f"{op} i32<{n}> {lane}, {count}"))
        for number, (kind, value) in enumerate(zip(kinds, results, strict=True)):
            if kind != "i64":
                value = self.add("i64", f"{self.choose.choice(EXTENSIONS)} i64<{n}> {value}")
            self.lines += [
                f"  %o{number} = add i32<{n}> {lane}, {number * n}",
                f"  %ys{number} = splat i64*<{n}> %y",
                f"  %p{number} = getelementptr i64*<{n}> %ys{number}, %o{number}",
                f"  store %p{number}, {value}",
            ]
        names = ", ".join(f"{kind} %{kind}" for kind in dict.fromkeys(TYPES))
        body = "\n".join(self.lines)
        return f"tir 1.0\ndefine kernel void @k(i64* %y, {names}) {{\nentry:\n{body}\n  ret\n}}\n"


@pytest.mark.parametrize("count", few_or_all(12, 800))
def test_integers_wrap_and_widen_alike(count: int) -> None:
    for seed in range(count):
        program = Program(seed)
        module = parse(program.text())
        numbers = [program.literal(kind) for kind in dict.fromkeys(TYPES)]
        results = []
        for run in (interpret, executor("cpu").launch):
            results.append(np.full(5 * program.size, -7, np.int64))
            run(module, None, 1, [results[-1], *numbers])
        np.testing.assert_array_equal(*results, err_msg=f"seed {seed}")
