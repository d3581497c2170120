"""Steps of addresses in a loop, and distances of accesses, that are only known when a kernel runs.

A loop may access a row in every iteration, and move on to the next row by a stride that is an
argument. If the stride is as long as what an iteration accesses, or longer, no iteration returns to
the bytes of another one. Barrier placement assumes that, and computes in the kernel whether it is
true. Two accesses of one iteration may be a number of rows apart in the same way.

Steps are counted modulo 2^32 bytes, as addresses are (`tileir.analysis.affine_mod32`): a step whose
residue is not small is not small itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

import attrs

from tileir.analysis.affine_mod32 import AddressForms, AffineMod32
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Mul, Or
from tileir.ops.cast import Trunc
from tileir.passes.cfg_edit import copy_op
from tileir.types import I32, Pointer, Tile
from tileir.values import Constant, Operand, Value

Monomial: TypeAlias = tuple[Value, ...]
"""Scalars that are multiplied; 1 if there are none."""
Polynomial: TypeAlias = "dict[Monomial, int]"
"""The sum of monomials, by their coefficients."""

_MODULUS = 1 << 32
_MOST_COPIED = 16
"""Ops that are repeated at a barrier to compute its condition, at most."""


@attrs.frozen
class RuntimeStep:
    """The sum of `monomials`, each with a coefficient: bytes modulo 2^32. Scalars of a monomial are
    in the order in which they are defined, and so are the monomials."""

    monomials: tuple[tuple[Monomial, int], ...]

    def multiple_in(self, distance: Polynomial) -> tuple[int, int] | None:
        """m and c such that `distance` is m times this step, plus c; None if there are none."""
        mine = {p: n for p, n in self.monomials if p}
        monomial, by = next(iter(mine.items()))
        times, rest = divmod(distance.get(monomial, 0), by)
        if rest or {p: n for p, n in distance.items() if p} != {
            p: times * n for p, n in mine.items() if times
        }:
            return None
        return times, distance.get((), 0) - times * dict(self.monomials).get((), 0)


@attrs.frozen(eq=False, repr=False)
class LoopProgress:
    """The steps of the loops of `function`, by the `forms` of its addresses."""

    function: Function
    forms: AddressForms

    @cached_property
    def _order(self) -> Mapping[Value, int]:
        values = [p.value for p in self.function.parameters]
        for block in self.function.blocks.values():
            values += [*block.parameters, *(v for op in block.ops for v in op.results)]
        return {value: number for number, value in enumerate(values)}

    def step(self, form: AffineMod32, source: str, label: str) -> RuntimeStep | None:
        """The growth of an address of `form` on the way from `source` back to `label`, a header;
        None if it is unknown, or a number."""
        loop = loops(self.function).by_header.get(label)
        if loop is None or source not in loop.blocks:
            return None
        arguments = self._arguments(source, label)
        if arguments is None:
            return None
        total = self._step_of_form(form, loop, arguments)
        return None if total is None else self._runtime_step(total)

    def between(self, first: AffineMod32, form: AffineMod32) -> RuntimeStep | None:
        """The distance from an address of form `first` to one of `form`, without the numbers of
        both, if it is the same wherever the kernel is; None if it is not, or a number."""
        total: Polynomial = {}
        for terms, sign in ((form.terms - first.terms, 1), (first.terms - form.terms, -1)):
            for value, by in terms:
                if isinstance(value.type, Pointer) or self.forms.changes[value]:
                    return None
                _add(total, (value,), sign * by)
        return self._runtime_step(total)

    def distance(
        self, first: AffineMod32, form: AffineMod32
    ) -> tuple[Polynomial, RuntimeStep] | None:
        """The distance from an address of form `first` before a loop to that of `form` in its first
        iteration, and the step of the latter; None if they are unknown."""
        changing = [self.forms.changes[value] for value, _ in form.terms - first.terms]
        labels = frozenset().union(*changing)
        loop = loops(self.function).by_header.get(next(iter(labels))) if len(labels) == 1 else None
        if loop is None or loop.preheader is None or loop.latch is None:
            return None
        if any(loop.header in self.forms.changes[value] for value, _ in first.terms):
            return None
        step = self.step(form, loop.latch, loop.header)
        arguments = self._arguments(loop.preheader, loop.header)
        if step is None or arguments is None:
            return None
        total = self._first_of_form(form, loop, arguments)
        if total is None:
            return None
        for monomial, by in _polynomial_of(first).items():
            _add(total, monomial, -by)
        return total, step

    def _arguments(self, source: str, label: str) -> dict[Value, Operand] | None:
        """The arguments from `source` for the parameters of `label`; None if several edges lead
        there."""
        edges = [e for e in self.function.blocks[source].successors if e.label == label]
        if len(edges) != 1:
            return None
        parameters = self.function.blocks[label].parameters
        return dict(zip(parameters, edges[0].arguments, strict=True))

    def _runtime_step(self, total: Polynomial) -> RuntimeStep | None:
        order = self._order
        if not any(total) or any(v not in order for monomial in total for v in monomial):
            return None
        return RuntimeStep(
            tuple(sorted(total.items(), key=lambda item: [order[v] for v in item[0]]))
        )

    def _is_constant(self, value: Operand, loop: Loop) -> bool:
        """Whether a scalar number is the same in all iterations."""
        if not isinstance(value, Value) or isinstance(value.type, (Tile, Pointer)):
            return False
        return self.forms.changes.get(value, loop.blocks).isdisjoint(loop.blocks)

    def _step_of_form(
        self, form: AffineMod32, loop: Loop, arguments: Mapping[Value, Operand]
    ) -> Polynomial | None:
        def of(value: Value) -> Polynomial | None:
            if self.forms.changes[value].isdisjoint(loop.blocks):
                return {}
            if value not in arguments:
                return self._multiply(value, loop, lambda f: self._step_of_form(f, loop, arguments))
            following = self.forms.of(arguments[value])
            if following is None or (value, 1) not in following.terms:
                return None
            terms = following.terms - {(value, 1)}
            if not all(self._is_constant(v, loop) for v, _ in terms):
                return None
            return _polynomial_of(attrs.evolve(following, terms=terms))

        return _combine(form, of, start=0)

    def _first_of_form(
        self, form: AffineMod32, loop: Loop, arguments: Mapping[Value, Operand]
    ) -> Polynomial | None:
        def of(value: Value) -> Polynomial | None:
            if self.forms.changes[value].isdisjoint(loop.blocks):
                return {(value,): 1}
            if value not in arguments:
                return self._multiply(
                    value, loop, lambda f: self._first_of_form(f, loop, arguments)
                )
            argument = arguments[value]
            if isinstance(argument, Constant):
                return {(): argument.bits}
            first = self.forms.of(argument)
            return None if first is None else _polynomial_of(first)

        return _combine(form, of, start=form.start)

    def _multiply(
        self, value: Value, loop: Loop, of: Callable[[AffineMod32], Polynomial | None]
    ) -> Polynomial | None:
        """The sum for a monomial of a number that the loop changes and one that it does not."""
        op: Any = definitions(self.function).get(value)
        if op is None or op.mnemonic != "mul":
            return None
        for changing, other in (op.inputs, reversed(op.inputs)):
            form = self.forms.of(changing)
            if form is None or not self._is_constant(other, loop):
                continue
            total = of(form)
            if total is None:
                return None
            scaled: Polynomial = {}
            for monomial, by in total.items():
                scalars = sorted((*monomial, other), key=lambda v: self._order.get(v, 0))
                _add(scaled, tuple(scalars), by)
            return scaled
        return None


def _polynomial_of(form: AffineMod32) -> Polynomial:
    total: Polynomial = {(value,): by for value, by in form.terms}
    _add(total, (), form.start)
    return total


def _combine(
    form: AffineMod32, of: Callable[[Value], Polynomial | None], start: int
) -> Polynomial | None:
    """`start`, and the terms of `form` by `of`; None if one of them is unknown."""
    total: Polynomial = {}
    _add(total, (), start)
    for value, coefficient in form.terms:
        part = of(value)
        if part is None:
            return None
        for monomial, by in part.items():
            _add(total, monomial, by * coefficient)
    return total


def _add(total: Polynomial, monomial: Monomial, by: int) -> None:
    number = (total.pop(monomial, 0) + by) % _MODULUS
    if number:
        total[monomial] = number - _MODULUS if number >= _MODULUS >> 1 else number


# The condition ----------------------------------------------------------------------------------


def any_shorter(
    steps: Mapping[RuntimeStep, int], available: Callable[[Value], bool],
    defining: Mapping[Value, Op],
) -> tuple[list[Op], Value] | None:  # fmt: skip
    """Ops that compute whether one of `steps` is shorter than the bytes that it maps to, and the
    result. They repeat the ops of scalars that are not `available`; None if these have effects, or
    are many."""
    ops: list[Op] = []
    copies: dict[Value, Operand] = {}
    shorter: list[Value] = []
    for step, span in steps.items():
        total: Operand = Constant(I32, 0)
        for monomial, by in step.monomials:
            part: Operand = Constant(I32, by % _MODULUS)
            for scalar in monomial:
                if not _provide(scalar, available, defining, copies, ops):
                    return None
                part = _append(ops, Mul(part, _word(copies.get(scalar, scalar), ops)))
            total = _append(ops, Add(total, part))
        above = _append(ops, Add(total, Constant(I32, span - 1)))
        bound = Constant(I32, 2 * span - 1)
        shorter.append(_append(ops, ICmp(above, bound, predicate_=IntegerPredicate.ULT)))
    condition = shorter[0]
    for more in shorter[1:]:
        condition = _append(ops, Or(condition, more))
    return ops, condition


def _append(ops: list[Op], op: Op) -> Value:
    ops.append(op)
    return op.results[0]


def _word(operand: Operand, ops: list[Op]) -> Operand:
    """The low 32 bits of an integer."""
    return operand if operand.type is I32 else _append(ops, Trunc(operand, I32))


def _provide(
    value: Value, available: Callable[[Value], bool], defining: Mapping[Value, Op],
    copies: dict[Value, Operand], ops: list[Op], users: int = 0,
) -> bool:  # fmt: skip
    """Copy the ops of `value` to `ops` if it is not available; whether that is possible. So many
    `users` are copied after it."""
    if value in copies or available(value):
        return True
    op = defining.get(value)
    plain = op is not None and op.effects is Effects.PURE and op.predicate is None
    if op is None or not plain or len(copies) + users >= _MOST_COPIED:
        return False
    for operand in op.operands:
        if isinstance(operand, Value) and not _provide(
            operand, available, defining, copies, ops, users + 1
        ):
            return False
    ops.append(copy_op(op, copies))
    return True
