"""Generated chains of integer ops and casts between widths, on tiles and scalars, whose ranges and
alignments analyses bound: the simulator and the CPU against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tileir
from tests.sizes import for_each
from tileir.executor import executor
from tileir.textual import parse

WIDTHS = (8, 16, 32, 64)
PLAIN = (
    "add",
    "sub",
    "mul",
    "and",
    "or",
    "xor",
    "smin",
    "smax",
    "umin",
    "umax",
    "smulhi",
    "umulhi",
)
DIVISIONS = ("sdiv", "srem", "udiv", "urem")
ROUNDINGS = {"sdiv": ("zero", "floor", "ceil"), "srem": ("zero", "floor"), "udiv": ("zero", "ceil")}
COUNT = 18
"""Values that a program stores."""


class Chain:
    """A program: values by their width, of tiles and of scalars."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.values: dict[tuple[int, str], list[str]] = {}
        self.value_count = 0
        self.shape = f"<{self.chance.choice((1, 32, 64, 96))}>"

    def add(self, width: int, shape: str, text: str) -> str:
        """A new value by an op; comparisons have two results."""
        name = f"%v{self.value_count}"
        self.value_count += 1
        results = f"{name}, _" if text.startswith("icmp") else name
        self.lines.append(f"  {results} = {text}")
        self.values.setdefault((width, shape), []).append(name)
        return name

    def literal(self, width: int) -> int:
        """A number near the ends of a width that this one holds."""
        near = self.chance.choice([w for w in WIDTHS if w <= width])
        end = self.chance.choice((-(1 << near - 1), (1 << near - 1) - 1, 0, 0, 1 << near - 2))
        number = end + self.chance.randint(-2, 2)
        return (number + (1 << width - 1)) % (1 << width) - (1 << width - 1)

    def operand(self, width: int, shape: str) -> str:
        """A value or, at times, a literal."""
        entry = self.values.get((width, shape), [])
        if not entry or self.chance.random() < 0.25:
            return f"i{width}{shape} {self.literal(width)}"
        return self.chance.choice(entry)

    def value(self, width: int, shape: str) -> str:
        """A value, cast from one of another width if there is none."""
        if entry := self.values.get((width, shape)):
            return self.chance.choice(entry)
        others = [w for w, s in self.values if s == shape]
        other = self.chance.choice(others)
        cast = self.chance.choice(("sext", "zext")) if other < width else "trunc"
        source = self.chance.choice(self.values[other, shape])
        return self.add(width, shape, f"{cast} i{width}{shape} {source}")

    def step(self) -> str:
        chance = self.chance
        shape, width = chance.choice((self.shape, self.shape, "")), chance.choice(WIDTHS)
        kind, x = f"i{width}{shape}", self.value(width, shape)
        way = chance.randrange(10)
        if way < 3:
            name = chance.choice(PLAIN)
            return self.add(width, shape, f"{name} {kind} {x}, {self.operand(width, shape)}")
        if way < 6:
            return self.division(width, shape, x)
        if way == 6:
            amount = self.add(width, shape, f"and {kind} {self.value(width, shape)}, {width - 1}")
            return self.add(
                width,
                shape,
                f"{chance.choice(('shl', 'lshr', 'ashr'))} {kind} {x}, "
                f"{chance.choice((amount, f'{kind} {chance.randrange(width)}'))}",
            )
        if way == 7:
            name = chance.choice(("neg", "iabs", "ctpop", "clz"))
            return self.add(width, shape, f"{name} {kind} {x}")
        if way == 8:
            name = f"%c{self.value_count}"
            relation = chance.choice(("slt", "sle", "ult", "ugt", "eq", "ne", "sge", "uge"))
            compared = f"{x}, {self.operand(width, shape)} {{predicate = {relation}}}"
            self.lines.append(f"  {name}, _ = icmp (i1{shape}, i1{shape}) {compared}")
            other = self.value(width, shape)
            return self.add(width, shape, f"select {kind} {name}, {x}, {other}")
        if shape:
            return self.add(width, shape, f"splat {kind} {self.value(width, '')}")
        to = chance.choice([w for w in WIDTHS if w != width])
        cast = chance.choice(("sext", "zext")) if to > width else "trunc"
        return self.add(to, shape, f"{cast} i{to}{shape} {x}")

    def division(self, width: int, shape: str, x: str) -> str:
        """By what is not 0, nor -1 of a signed number, which may be the least."""
        name, kind = self.chance.choice(DIVISIONS), f"i{width}{shape}"
        y = self.value(width, shape)
        if self.chance.random() < 0.3:
            low = self.chance.choice((1, 1, 2, 3))
            y = self.add(width, shape, f"smax {kind} {y}, {low}")
        elif self.chance.random() < 0.3:
            y = self.add(width, shape, f"smin {kind} {y}, -2")
        else:
            y = self.add(width, shape, f"or {kind} {y}, 1")
            if name[0] == "s":
                x = self.add(width, shape, f"smax {kind} {x}, {-(1 << width - 1) + 1}")
        rounding = self.chance.choice(ROUNDINGS.get(name, ("zero",)))
        attribute = "" if rounding == "zero" else f" {{rounding = {rounding}}}"
        return self.add(width, shape, f"{name} {kind} {x}, {y}{attribute}")

    def text(self) -> str:
        parameters = ", ".join([f"i{w}* %x{w}, i{w} %n{w}" for w in WIDTHS] + ["i64* %out"])
        head = f"tir 1.0\n\ndefine kernel void @k({parameters}) {{\nentry:\n"
        self.lines.append(f"  %r = make_range i32{self.shape}")
        for w in WIDTHS:
            self.lines += [f"  %s{w} = splat i{w}*{self.shape} %x{w}",
                           f"  %p{w} = getelementptr i{w}*{self.shape} %s{w}, %r"]  # fmt: skip
            self.add(w, self.shape, f"load i{w}{self.shape} %p{w}")
            self.values[w, ""] = [f"%n{w}"]
        self.add(32, "", "program_id i32")
        self.values[32, self.shape].append("%r")
        self.lines.append(f"  %os = splat i64*{self.shape} %out")
        extent = int(self.shape[1:-1])
        for number in range(COUNT):
            name = self.step()
            width, shape = next(k for k, v in self.values.items() if name in v)
            if width < 64:
                self.lines.append(f"  %w{number} = sext i64{shape} {name}")
                name = f"%w{number}"
            if not shape:
                self.lines.append(f"  %t{number} = splat i64{self.shape} {name}")
                name = f"%t{number}"
            self.lines += [f"  %i{number} = add i32{self.shape} %r, {number * extent}",
                           f"  %q{number} = getelementptr i64*{self.shape} %os, %i{number}",
                           f"  store %q{number}, {name}"]  # fmt: skip
        return head + "\n".join(self.lines) + "\n  ret\n}\n"

    def arguments(self, seed: int) -> list[object]:
        random_ = np.random.default_rng(seed)
        extent, arguments = int(self.shape[1:-1]), list[object]()
        for w in WIDTHS:
            dtype = np.dtype(f"i{w // 8}")
            ends = np.iinfo(dtype)
            numbers = random_.integers(ends.min, ends.max, extent, dtype, endpoint=True)
            special = np.array([ends.min, ends.min + 1, ends.max, -1, 0, 1, 2, -2], dtype)
            numbers = np.where(
                random_.random(extent) < 0.5, random_.choice(special, extent), numbers
            )
            arguments += [numbers.astype(dtype), int(random_.choice(special))]
        return [*arguments, np.zeros(COUNT * extent, np.int64)]


def disagreement(seed: int, on: str) -> str | None:
    """Where an executor differs from the interpreter on program number `seed`."""
    chain = Chain(seed)
    module = parse(chain.text())
    for draw in range(2):
        expected, values = chain.arguments(draw), chain.arguments(draw)
        tileir.interpret(module, "k", (1,), expected)
        options = {"num_warps": (1, 2, 4, 8)[seed % 4]} if on == "simt" else {}
        executor(on).launch(module, "k", 1, values, **options)
        if not np.array_equal(expected[-1], values[-1]):
            at = int(np.flatnonzero(expected[-1] != values[-1])[0])
            return f"program {seed}, value {at}: {values[-1][at]} for {expected[-1][at]}"
    return None


@for_each("seed", range(3))
def test_threads_compute_what_the_interpreter_does(seed: int) -> None:
    assert disagreement(seed, "simt") is None


@for_each("seed", range(12, 14))
def test_vectors_compute_what_the_interpreter_does(seed: int) -> None:
    assert disagreement(seed, "cpu") is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 150, 50))
def test_more_programs(first: int) -> None:
    for seed in range(first, first + 50):
        assert disagreement(seed, "simt" if seed % 4 else "cpu") is None
