"""Sums of products as ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import attrs

from tileir.analysis.cache import cached
from tileir.analysis.loops import induction_variables, loops
from tileir.analysis.polynomial import Iteration, Lane, Monomial, Polynomial, ProgramIndex, Symbol
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, Mul, SDiv, Sub
from tileir.ops.cast import SExt, Trunc
from tileir.ops.program import ProgramId
from tileir.types import Scalar, element_of
from tileir.values import Constant, Operand, Value, constant


@attrs.define
class PolynomialEmitter:
    """Writes sums of products as scalars of `kind`, in `ops`."""

    function: Function
    kind: Scalar
    ops: list[Op] = attrs.field(factory=list)
    known: dict[Hashable, Operand] = attrs.field(factory=dict)
    """What was written already."""

    def literal(self, number: int) -> Constant:
        return constant(self.kind, number)

    def write(self, form: Polynomial) -> Operand:
        """The number that `form` is; every symbol can be written (`writable`)."""
        return self.once(frozenset(form.terms.items()), lambda: self._sum(form))

    def once(self, key: Hashable, make: Callable[[], Operand]) -> Operand:
        """What `make` writes, the first time that it is asked for by `key`."""
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]

    def _sum(self, form: Polynomial) -> Operand:
        total: Operand | None = None
        for monomial, factor in form.terms.items():
            moved, rest, factor = self._moved(monomial, factor)
            term = self.literal(factor) if moved is None else moved
            if moved is not None and factor != 1:
                term = self.times(self.literal(factor), moved)
            for symbol in sorted(rest, key=self._place):
                term = self.times(term, self.symbol(symbol))
            total = term if total is None else self.plus(total, term)
        return self.literal(0) if total is None else total

    def _place(self, which: Symbol) -> tuple[int, str]:
        return place_of(self.function, which)

    def _moved(self, monomial: Monomial, factor: int) -> tuple[Operand | None, Monomial, int]:
        """How far a loop has moved its counter, where that is a part of the product, and what is
        left to multiply by."""
        for index, which in enumerate(monomial):
            found = (
                iteration_counter(self.function, which.header)
                if isinstance(which, Iteration)
                else None
            )
            if found is not None and factor % found[2] == 0:
                value, start, step = found
                key = ("moved", which)
                moved = self.known[key] = self.known.get(key) or self._from(value, start)
                return moved, (*monomial[:index], *monomial[index + 1 :]), factor // step
        return None, monomial, factor

    def _from(self, value: Value, start: int) -> Operand:
        at = self.cast(value)
        return self.made(Sub(at, self.literal(start))) if start else at

    def times(self, a: Operand, b: Operand) -> Operand:
        """The product of two of them."""
        return b if a == self.literal(1) else self.made(Mul(a, b))

    def plus(self, a: Operand, b: Operand) -> Operand:
        """The sum."""
        return a if b == self.literal(0) else self.made(Add(a, b))

    def symbol(self, which: Symbol) -> Operand:
        """A symbol as a number of `kind`."""
        return self.once(which, lambda: self._symbol(which))

    def _symbol(self, which: Symbol) -> Operand:
        if isinstance(which, ProgramIndex):
            return self.cast(self.made(ProgramId(axis=which.axis)))
        if isinstance(which, Iteration):
            return self._iteration(which.header)
        assert isinstance(which, Value)
        return self.cast(which)

    def _iteration(self, header: str) -> Operand:
        found = iteration_counter(self.function, header)
        assert found is not None
        value, start, step = found
        at = self._from(value, start)
        return at if step == 1 else self.made(SDiv(at, self.literal(step)))

    def cast(self, value: Operand) -> Operand:
        """An integer as one of `kind`."""
        bits = element_of(value.type).bits  # type: ignore[union-attr]
        if bits == self.kind.bits:
            return value
        return self.made((SExt if bits < self.kind.bits else Trunc)(value, to=self.kind))

    def made(self, op: Op) -> Value:
        """The result of `op`, which is written."""
        self.ops.append(op)
        return op.results[0]


def place_of(function: Function, which: Symbol) -> tuple[int, str]:
    """What symbols are sorted by, so that they are in the same order in every process: that in
    which the function defines them."""
    if isinstance(which, Value):
        return _places(function).get(which, -1), ""
    return -1, repr(which)


@cached
def _places(function: Function) -> dict[Value, int]:
    """Values by the order in which the function defines them."""
    values = [p.value for p in function.parameters]
    for block in function.blocks.values():
        values += block.parameters
        values += [v for op in block.ops for v in op.results]
    return {value: index for index, value in enumerate(values)}


def iteration_counter(function: Function, header: str) -> tuple[Value, int, int] | None:
    """A value that counts the rounds of a loop, with its start and step; None if none does."""
    loop = loops(function).by_header[header]
    for variable in induction_variables(function, loop):
        start, stride = variable.start, variable.stride
        integer = isinstance(variable.value.type, Scalar)
        if integer and isinstance(start, Constant) and stride:
            return variable.value, int(start.value), stride
    return None


def writable(function: Function, which: Symbol, reached: Callable[[Value], bool]) -> bool:
    """Whether `which` can be written where the values that `reached` tells of are defined."""
    if isinstance(which, Lane):
        return False
    if isinstance(which, Iteration):
        found = iteration_counter(function, which.header)
        return found is not None and reached(found[0])
    return isinstance(which, ProgramIndex) or reached(which)
