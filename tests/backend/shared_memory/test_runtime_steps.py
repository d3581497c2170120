"""Steps that are known at run time: those of numbers in loops, multiples of them, and the
comparison with what is accessed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

from tests.sizes import few_or_all, for_each
from tileir.analysis.affine_mod32 import AffineMod32, addresses
from tileir.analysis.uses import definitions
from tileir.backend.shared_memory.runtime_steps import LoopProgress, RuntimeStep, any_shorter
from tileir.interp import interpret
from tileir.machine import Machine, Tensor
from tileir.op import Op
from tileir.textual import parse
from tileir.types import I32, I64
from tileir.values import Constant, Value

SCALARS = (Value(I32), Value(I64), Value(I32))


def step(choose: random.Random) -> RuntimeStep:
    """The sum of multiples of scalars, of two of them multiplied, and of 1."""
    monomials = [(a,) for a in SCALARS] + [(SCALARS[0], SCALARS[1]), ()]
    chosen = [SCALARS[:1], *choose.sample(monomials[1:], choose.randint(0, 3))]
    return RuntimeStep(tuple((m, choose.choice((1, 4, 8, 12, -4, -128, 256))) for m in chosen))


@for_each("seed", range(100))
def test_a_distance_is_a_number_of_steps_and_a_rest(seed: int) -> None:
    choose = random.Random(seed)
    one, times, rest = step(choose), choose.randint(-3, 3), choose.choice((0, 0, 4, -4, 1))
    distance = {monomial: times * by for monomial, by in one.monomials if times}
    distance[()] = distance.get((), 0) + rest
    if not distance[()]:
        del distance[()]
    assert one.multiple_in(distance) == (times, rest)
    assert one.multiple_in({**distance, (SCALARS[2], SCALARS[2]): 4}) is None


def evaluate(operand: Any, values: dict[Any, Any]) -> Any:
    if isinstance(operand, Constant):
        return Tensor(np.asarray(operand.value, np.int32))
    return values[operand]


@for_each("seed", range(100))
def test_steps_that_are_shorter_than_what_is_accessed(seed: int) -> None:
    """In either direction."""
    choose = random.Random(seed)
    steps = {step(choose): choose.choice((1, 4, 64, 512)) for _ in range(choose.randint(1, 2))}
    result = any_shorter(steps, lambda value: value in SCALARS, {})
    assert result is not None
    ops, condition = result
    for _ in range(20):
        numbers = {v: choose.choice((0, 0, 1, 2, -1, 16, 127, 128, -128)) for v in SCALARS}
        values = {
            v: Tensor(np.asarray(n, np.int64 if v.type is I64 else np.int32))
            for v, n in numbers.items()
        }
        for op in ops:
            computed: Any = op.evaluate(Machine(), *(evaluate(v, values) for v in op.inputs))
            several = computed if isinstance(computed, tuple) else (computed,)
            values.update(zip(op.results, several, strict=True))
        lengths = {
            one: abs(sum(by * prod(numbers[v] for v in m) for m, by in one.monomials))
            for one in steps
        }
        expected = any(lengths[one] < span for one, span in steps.items())
        assert bool(values[condition].data) == expected


# Numbers in loops ------------------------------------------------------------------------------

LOOP = """tir 1.0

define kernel void @k(i32* %o, i32 %n, i32 %s, i32 %t, i64 %w) {{
entry:
  {entry}
  br loop
loop:
  %it = phi i32 [0, entry], [%it2, loop]
  {body}
  %it2 = add i32 %it, 1
  %more, _ = icmp (i1, i1) %it2, 4 {{predicate = slt}}
  cond_br %more, loop, done
done:
  ret
}}
"""


class Numbers:
    """A loop of random ops on numbers. Each of them is stored in every iteration, in the column of
    its number; numbers before the loop, too."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.names = ["n", "s", "t"]
        entry = [self.op(f"e{i}", self.names) for i in range(3)]
        outer, carried = [*self.names], [f"c{i}" for i in range(self.choose.randint(1, 3))]
        phis, moves = [], []
        for name in carried:
            first = self.choose.choice([*(f"%{n}" for n in outer), "0", "7"])
            phis.append(f"%{name} = phi i32 [{first}, entry], [%{name}.2, loop]")
            self.names.append(name)
        self.names.append("it")
        ops = [self.op(f"b{i}", self.names) for i in range(6)]
        for name in carried:
            by = self.choose.choice([*(f"%{n}" for n in outer), "4", f"%{self.names[-1]}"])
            sign = self.choose.choice(("add", "add", "sub"))
            moves.append(f"%{name}.2 = {sign} i32 %{name}, {by}")
            self.names.append(f"{name}.2")
        self.outer = outer
        stores = [line for row, name in enumerate(self.names) for line in self.store(row, name)]
        self.text = LOOP.format(
            entry="\n  ".join(entry), body="\n  ".join([*phis, *ops, *moves, *stores])
        )

    def op(self, name: str, names: list[str]) -> str:
        """An op of numbers in `names`, to which its result is added."""
        a, b = (f"%{self.choose.choice(names[-8:])}" for _ in range(2))
        line = self.choose.choice((
            f"add i32 {a}, {b}", f"sub i32 {a}, {b}", f"mul i32 {a}, {b}", f"mul i32 {a}, {b}",
            f"shl i32 {a}, 2", f"mul i32 {a}, -3", f"add i32 {a}, 12", f"neg i32 {a}",
            f"and i32 {a}, 15",
        ))  # fmt: skip
        names.append(name)
        return f"%{name} = {line}"

    @staticmethod
    def store(row: int, name: str) -> list[str]:
        return [
            f"%p.{row} = getelementptr i32* %o, i32 {row}", f"%far.{row} = mul i32 %it, 32",
            f"%q.{row} = getelementptr i32* %p.{row}, %far.{row}", f"store %q.{row}, %{name}",
        ]  # fmt: skip


def sum_of(polynomial: Mapping[tuple[Value, ...], int], numbers: Mapping[str, int]) -> int:
    """The sum of monomials of `numbers`, which no iteration changes."""
    return sum(
        by * prod(numbers[str(v.name)] for v in monomial) for monomial, by in polynomial.items()
    )


def check_numbers(program: Numbers) -> int:
    """Check steps and distances against the interpreter; returns how many are known."""
    module = parse(program.text)
    function = module.kernel()
    forms = addresses(function)
    progress = LoopProgress(function, forms)
    values = [*(p.value for p in function.parameters)]
    for block in function.blocks.values():
        values += [*block.parameters, *(v for op in block.ops for v in op.results)]
    by_name = {str(v.name): v for v in values}
    results = np.zeros((4, 32), np.int32)
    interpret(module, "k", 1, [results.reshape(-1), 5, -7, 1000003, 3])
    columns = {name: results[:, row].astype(int) for row, name in enumerate(program.names)}
    fixed = {name: int(c[0]) for name, c in columns.items() if len({*c}) == 1}
    count = 0
    for name, column in columns.items():
        form = forms.of(by_name[name])
        assert form is not None
        step = progress.step(form, "loop", "loop")
        if step is not None:
            count += 1
            total = sum_of(dict(step.monomials), fixed)
            assert all((b - a - total) % (1 << 32) == 0 for a, b in pairwise(column)), name
        for other, row in columns.items():
            first = forms.of(by_name[other])
            assert first is not None
            displacement = progress.between(first, form)
            if displacement is not None:
                total = sum_of(dict(displacement.monomials), fixed) + form.start - first.start
                assert not ((column - row - total) % (1 << 32)).any(), (name, other)
        for other in program.outer:
            first = forms.of(by_name[other])
            assert first is not None
            far = progress.distance(first, form)
            if far is not None:
                count += 1
                assert far[1] == step
                assert (column[0] - fixed[other] - sum_of(far[0], fixed)) % (1 << 32) == 0
    return count


@pytest.mark.parametrize("count", few_or_all(12, 200))
def test_steps_and_distances_are_those_of_the_numbers_in_a_loop(count: int) -> None:
    assert sum(check_numbers(Numbers(seed)) for seed in range(count)) > 10 * count


COUNTER = "%c = phi i32 [%t, entry], [%c2, loop]\n  "


@for_each(("body", "step", "distance"), [
        ("%c2 = add i32 %c, %s\n  %r = mul i32 %c, 4", "4*s", "4*t"),
        ("%c2 = add i32 %s, %c\n  %r = add i32 %c, 12", "1*s", "12 + 1*t"),
        ("%c2 = sub i32 %c, %s\n  %r = sub i32 %n, %c", "1*s", "1*n + -1*t"),
        ("%d = add i32 %c, %s\n  %c2 = add i32 %d, 8\n  %r = add i32 %d, 1",
         "8 + 1*s", "1 + 1*s + 1*t"),
        ("%c2 = add i32 %c, %k\n  %r = shl i32 %c, 3", "8*k", "8*t"),
        ("%c2 = add i32 %c, 0\n  %r = mul i32 %it, %s", "1*s", "0"),
        ("%c2 = add i32 %c, 0\n  %e = add i32 %it, 1\n  %r = mul i32 %s, %e", "1*s", "1*s"),
        ("%c2 = add i32 %c, 4\n  %r = mul i32 %s, %c", "4*s", "1*s*t"),
        ("%c2 = add i32 %c, %t\n  %h = mul i32 %c, %s\n  %r = mul i32 %n, %h",
         "1*n*s*t", "1*n*s*t"),
        ("%c2 = add i32 %c, %s\n  %h = mul i32 %it, %s\n  %r = add i32 %c, %h", "2*s", "1*t"),
        # a number, none, or another one in each iteration
        ("%c2 = add i32 %c, 8\n  %r = add i32 %c, %s", None, None),
        ("%c2 = add i32 %c, %s\n  %r = and i32 %c, %s", None, None),
        ("%c2 = add i32 %c, %s\n  %h = mul i32 %it, %s\n  %r = sub i32 %c, %h", None, None),
        ("%c2 = add i32 %c, %s\n  %r = add i32 %n, %s", None, None),
        ("%c2 = add i32 %c, %it\n  %r = mul i32 %c, 1", None, None),
        ("%c2 = mul i32 %c, 3\n  %r = add i32 %c, %s", None, None),
        ("%c2 = add i32 %s, 4\n  %r = add i32 %c, 1", None, None),
        ("%c2 = add i32 %c, 0\n  %e = add i32 %it, 1\n  %r = mul i32 %it, %e", None, None),
        ("%c2 = add i32 %c, %s\n  %r = mul i32 %c, %it", None, None),
        ("%u = phi i32 [undef, entry], [%u2, loop]\n  %c2 = add i32 %c, 1\n"
         "  %u2 = add i32 %u, %s\n  %r = add i32 %u, %s", "1*s", None),
    ])  # fmt: skip
def test_which_steps_and_distances_are_known(
    body: str, step: str | None, distance: str | None
) -> None:
    """Distances from the value 0 of a loop that begins with `%t`."""
    text = LOOP.format(entry="%k = mul i32 %n, %s", body=COUNTER + body)
    function = parse(text).kernel()
    values = {str(v.name): v for b in function.blocks.values() for op in b.ops for v in op.results}
    forms = addresses(function)
    progress, form = LoopProgress(function, forms), forms.of(values["r"])
    assert form is not None
    runtime_step = progress.step(form, "loop", "loop")
    assert (None if runtime_step is None else summands(runtime_step.monomials)) == words(step)
    far = progress.distance(AffineMod32(frozenset(), 0), form)
    assert (None if far is None else summands(far[0].items())) == words(distance)
    assert progress.step(form, "entry", "loop") is None
    assert progress.step(form, "loop", "done") is None
    both = parse(text.replace("%more, loop, done", "%more, loop, loop")).kernel()
    forms = addresses(both)
    (value,) = [v for op in both.ops for v in op.results if v.name == "r"]
    form = forms.of(value)
    assert form is not None and LoopProgress(both, forms).step(form, "loop", "loop") is None


def words(text: str | None) -> set[str] | None:
    """`8` and `4*s` of `8 + 4*s`."""
    return None if text is None else {*text.split(" + ")} - {"0"}


def summands(monomials: Iterable[tuple[tuple[Value, ...], int]]) -> set[str]:
    """The words for monomials with their coefficients."""
    return {"*".join([str(by), *(str(v.name) for v in monomial)]) for monomial, by in monomials}


def test_loops_of_several_entries_or_ends_have_no_distance() -> None:
    """And steps by numbers of tiles, which are not computed again, are unknown."""

    def are_unknown(text: str) -> tuple[bool, bool]:
        function = parse(text).kernel()
        forms = addresses(function)
        progress = LoopProgress(function, forms)
        values = [v for b in function.blocks.values() for op in b.ops for v in op.results]
        values += [v for b in function.blocks.values() for v in b.parameters]
        (form,) = [forms.of(v) for v in values if v.name == "c"]
        assert form is not None
        none = AffineMod32(frozenset(), 0, form.strides)
        return progress.step(form, "end", "loop") is None, progress.distance(none, form) is None

    assert are_unknown(ENDS.format(kind="i32", enter="br loop", into="", end="br end")) == (
        False,
        False,
    )
    two_entries = ENDS.format(
        kind="i32", enter="cond_br %c0, loop, other\nother:\n  br loop", into=", [%s, other]",
        end="br end",
    )  # fmt: skip
    assert are_unknown(two_entries) == (False, True)
    two_ends = ENDS.format(
        kind="i32", enter="br loop", into=", [%c2, loop]", end="cond_br %c0, loop, end"
    )
    assert are_unknown(two_ends) == (False, True)
    assert are_unknown(ENDS.format(kind="i32<4>", enter="br loop", into="", end="br end")) == (
        True,
        True,
    )


ENDS = """tir 1.0

define kernel void @k(i32 %n, i32 %s, i1 %c0) {{
entry:
  %first = add {kind} 0, 0
  br outer
outer:
  %o = phi i32 [0, entry], [%o2, last]
  %by = phi {kind} [%first, entry], [%by2, last]
  {enter}
loop:
  %c = phi {kind} [%by, outer], [%c2, end]{into}
  %c2 = add {kind} %c, %by
  {end}
end:
  cond_br %c0, loop, last
last:
  %o2 = add i32 %o, 1
  %by2 = add {kind} %by, 4
  cond_br %c0, outer, done
done:
  ret
}}
"""
"""A loop in a loop, which adds a number that is the same in all iterations of the inner one."""

CHAIN = """tir 1.0

define kernel void @k(i32* %x, i32 %n, i32 %m, i1 %c) {{
entry:
  %v0 = add i32 %n, %m
{ops}
  ret
}}
"""


def copies_of(ops: list[str], last: str) -> tuple[list[Op], Value] | None:
    """What computes whether `%last` is shorter than 64 bytes where parameters are available."""
    function = parse(CHAIN.format(ops="\n".join(ops))).kernel()
    values = {str(v.name): v for op in function.ops for v in op.results}
    parameters = [p.value for p in function.parameters]
    steps = {RuntimeStep((((values[last],), 1),)): 64}
    return any_shorter(steps, parameters.__contains__, definitions(function))


@for_each("length", range(20))
def test_at_most_sixteen_ops_are_repeated(length: int) -> None:
    """Each once, however often its result is used."""
    ops = [f"  %v{i + 1} = mul i32 %v{i}, %v{i}" for i in range(length)]
    result = copies_of(ops, f"v{length}")
    assert (result is None) == (length + 1 > 16)
    if result is not None:
        assert len(result[0]) == length + 5


@for_each(("op", "is_repeated"), [
        ("%v1 = add i32 %v0, 3", True), ("%v1 = sdiv i32 %v0, 3", True),
        ("%v1 = load i32 %x", False), ("@%c %v1 = add i32 %v0, 3", False),
        ("%v1 = program_id i32", True), ("%l = load i32 %x\n  %v1 = add i32 %l, 3", False),
        ("%v1 = atomic_rmw i32 %x, 1 {op = add}", False),
    ])  # fmt: skip
def test_only_what_has_no_effect_is_repeated(op: str, is_repeated: bool) -> None:
    result = copies_of([f"  {op}"], "v1")
    assert (result is not None) == is_repeated
    if result is not None:
        names = [op.mnemonic for op in result[0]]
        assert names.index("mul") < names.index("icmp") == len(names) - 1
