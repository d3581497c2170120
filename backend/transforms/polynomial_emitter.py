"""Emission of polynomials as scalar ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import attrs

from tileir.analysis import memoize
from tileir.analysis.induction import induction_variables
from tileir.analysis.loops import loops
from tileir.analysis.polynomial import Iteration, Lane, Monomial, Polynomial, ProgramIndex, Symbol
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, Mul, Sub
from tileir.ops.cast import SExt, Trunc
from tileir.ops.division import SDiv
from tileir.ops.program import ProgramId
from tileir.types import Scalar, element_of
from tileir.values import Constant, Operand, Value, constant


@attrs.define
class PolynomialEmitter:
    """Appends to `ops` the scalar ops of type `kind` that compute polynomials."""

    function: Function
    kind: Scalar
    ops: list[Op] = attrs.field(factory=list)
    emitted: dict[Hashable, Operand] = attrs.field(factory=dict)
    """Operands that were emitted before, by key."""

    def literal(self, number: int) -> Constant:
        return constant(self.kind, number)

    def emit(self, form: Polynomial) -> Operand:
        """The value of `form`. All its symbols must be `writable`."""
        return self.once(frozenset(form.terms.items()), lambda: self._emit_terms(form))

    def once(self, key: Hashable, make: Callable[[], Operand]) -> Operand:
        """The operand of `key`. On the first call, `make` emits the ops that compute it."""
        if key not in self.emitted:
            self.emitted[key] = make()
        return self.emitted[key]

    def _emit_terms(self, form: Polynomial) -> Operand:
        total: Operand | None = None
        for monomial, coefficient in form.terms.items():
            advance, symbols, coefficient = self._divide_out_counter(monomial, coefficient)
            term = self.literal(coefficient) if advance is None else advance
            if advance is not None and coefficient != 1:
                term = self.multiply(self.literal(coefficient), advance)
            for symbol in sorted(symbols, key=self._place):
                term = self.multiply(term, self.symbol(symbol))
            total = term if total is None else self.add(total, term)
        return self.literal(0) if total is None else total

    def _place(self, symbol: Symbol) -> tuple[int, str]:
        return symbol_order(self.function, symbol)

    def _divide_out_counter(
        self, monomial: Monomial, coefficient: int
    ) -> tuple[Operand | None, Monomial, int]:
        """A monomial divided by an iteration that it contains, if the counter of that loop steps by
        a divisor of the coefficient: the advance of the counter since the loop began (or None),
        the remaining monomial, and the remaining coefficient."""
        for index, symbol in enumerate(monomial):
            counter = (
                iteration_counter(self.function, symbol.header)
                if isinstance(symbol, Iteration)
                else None
            )
            if counter is not None and coefficient % counter[2] == 0:
                value, start, step = counter
                key = ("moved", symbol)
                advance = self.emitted[key] = self.emitted.get(key) or self._from(value, start)
                return advance, (*monomial[:index], *monomial[index + 1 :]), coefficient // step
        return None, monomial, coefficient

    def _from(self, value: Value, start: int) -> Operand:
        counter = self.cast(value)
        return self.append(Sub(counter, self.literal(start))) if start else counter

    def multiply(self, a: Operand, b: Operand) -> Operand:
        """`a` * `b`."""
        return b if a == self.literal(1) else self.append(Mul(a, b))

    def add(self, a: Operand, b: Operand) -> Operand:
        """`a` + `b`."""
        return a if b == self.literal(0) else self.append(Add(a, b))

    def symbol(self, symbol: Symbol) -> Operand:
        """The value of a symbol, of type `kind`."""
        return self.once(symbol, lambda: self._symbol(symbol))

    def _symbol(self, symbol: Symbol) -> Operand:
        if isinstance(symbol, ProgramIndex):
            return self.cast(self.append(ProgramId(axis=symbol.axis)))
        if isinstance(symbol, Iteration):
            return self._iteration(symbol.header)
        assert isinstance(symbol, Value)
        return self.cast(symbol)

    def _iteration(self, header: str) -> Operand:
        counter = iteration_counter(self.function, header)
        assert counter is not None
        value, start, step = counter
        advance = self._from(value, start)
        return advance if step == 1 else self.append(SDiv(advance, self.literal(step)))

    def cast(self, value: Operand) -> Operand:
        """An integer converted to `kind`."""
        bits = element_of(value.type).bits  # type: ignore[union-attr]
        if bits == self.kind.bits:
            return value
        return self.append((SExt if bits < self.kind.bits else Trunc)(value, to=self.kind))

    def append(self, op: Op) -> Value:
        """Append `op`; returns its first result."""
        self.ops.append(op)
        return op.results[0]


def symbol_order(function: Function, symbol: Symbol) -> tuple[int, str]:
    """The sort key of a symbol: the order in which the function defines values. It is the same in
    every process."""
    if isinstance(symbol, Value):
        return _definition_order(function).get(symbol, -1), ""
    return -1, repr(symbol)


@memoize
def _definition_order(function: Function) -> dict[Value, int]:
    """The position of every value in the order of definitions."""
    values = [p.value for p in function.parameters]
    for block in function.blocks.values():
        values += block.parameters
        values += [v for op in block.ops for v in op.results]
    return {value: index for index, value in enumerate(values)}


def iteration_counter(function: Function, header: str) -> tuple[Value, int, int] | None:
    """An induction variable of a loop with a constant start and step: the value, its start and its
    step; None if there is none."""
    loop = loops(function).by_header[header]
    for variable in induction_variables(function, loop):
        start, stride = variable.start, variable.stride
        integer = isinstance(variable.value.type, Scalar)
        if integer and isinstance(start, Constant) and stride:
            return variable.value, int(start.value), stride
    return None


def writable(function: Function, symbol: Symbol, is_available: Callable[[Value], bool]) -> bool:
    """Whether `symbol` can be computed from the values for which `is_available` holds."""
    if isinstance(symbol, Lane):
        return False
    if isinstance(symbol, Iteration):
        counter = iteration_counter(function, symbol.header)
        return counter is not None and is_available(counter[0])
    return isinstance(symbol, ProgramIndex) or is_available(symbol)
