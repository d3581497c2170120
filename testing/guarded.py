"""Ops under predicates: a statement that puts the ops of the next statement under a predicate.

Lanes that a predicate leaves undefined are replaced by a literal, by `select` or by `psi`.
"""

from __future__ import annotations

from typing import Any

import attrs

from tileir.op import Effects, Op
from tileir.ops.arith import ICmp, IntegerPredicate, Select
from tileir.ops.predicate import Psi
from tileir.ops.program import NumPrograms
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import GetElementPtr, Splat
from tileir.testing.under import predicate_for
from tileir.testing.writer import Writer, literal
from tileir.types import I1, I32, Pointer, Scalar, Type, element_of, shape_of, tile
from tileir.values import Operand, Value, constant

_FOLDING = ("reduce",)
"""Ops that combine the lanes where a tile predicate is true."""
_WHOLE = ("histogram",)
"""Ops whose result is defined whatever a tile predicate is."""


@attrs.frozen
class PredicateForm:
    """The form of the predicate of a statement's ops, selected by three digits."""

    kind: int
    digit: int
    how: int

    def value(self, writer: Writer, op: Op) -> Op:
        """Append `op` under a predicate. Its results, defined everywhere, are live."""
        appended, lanes = self._add_predicate(writer, op)
        for result in appended.results:
            defined = result
            if lanes is not None and not isinstance(element_of(result.type), Pointer):
                condition = _where(writer, appended, result, lanes)
                if condition is not None:
                    other = literal(result.type, self.digit)
                    defined = _merge(writer, condition, result, other, self.how)
            writer.live.append(defined)
        return appended

    def effect(self, writer: Writer, op: Op) -> None:
        """Append `op` under a predicate, for its effect alone."""
        self._add_predicate(writer, op)

    def address(self, writer: Writer, op: Op) -> Value:
        """Append `op`, which computes an address, under a predicate that is always true, but not as
        a literal that passes recognize."""
        fallback = _harmless(op, self.digit)
        if self.kind % 4 != 3 or fallback is None or op.predicate is not None:
            writer.append(op)
            return op.result
        programs = NumPrograms(axis=0)
        true = ICmp(programs.result, constant(I32, 0), predicate_=IntegerPredicate.SGT)
        appended = op.evolve(predicate=true.results[0], results=())
        merged = Psi((constant(I1, True), fallback, true.results[0], appended.result))
        for new in (programs, true, appended, merged):
            writer.append(new)
        return merged.result

    def _add_predicate(self, writer: Writer, op: Op) -> tuple[Op, Operand | None]:
        """`op` as it was appended, and the value that is true where its predicate is; None if it
        has no predicate."""
        if not op.predicable or op.predicate is not None:
            writer.append(op)
            return op, None
        shape = () if self.kind % 4 == 1 else op.predicate_shape()
        predicate, lanes = predicate_for(writer, shape, self.digit)
        needs_where = op.effects & ~Effects.READ or op.mnemonic in _WHOLE
        appended = op.evolve(predicate=lanes if needs_where else predicate, results=())
        writer.append(appended)
        return appended, lanes


def _where(writer: Writer, op: Op, result: Value, lanes: Operand) -> Operand | None:
    """The defined lanes of `result`, a result of `op`, which ran where `lanes` is true; None for
    all lanes."""
    shape = shape_of(result.type)
    if shape_of(lanes.type) and op.mnemonic in _WHOLE:
        return None
    if shape_of(lanes.type) and op.mnemonic in _FOLDING:
        folding: Any = op
        return writer.hide(Reduce((lanes,), axis=folding.axis, combiner=Combiner.OR))
    if shape and not shape_of(lanes.type):
        return writer.hide(Splat(lanes, tile(I1, shape)))
    return lanes


def _merge(writer: Writer, condition: Operand, value: Value, other: Operand, how: int) -> Value:
    if how % 2:
        return writer.hide(Psi((constant(I1, True), other, condition, value)))
    return writer.hide(Select(condition, value, other))


def _harmless(op: Op, digit: int) -> Operand | None:
    """The replacement for the result of `op` in lanes where it does not run; None for an op that
    must run."""
    if not op.predicable or op.effects is not Effects.PURE or len(op.results) != 1:
        return None
    if isinstance(op, GetElementPtr):
        return op.pointer
    kind: Type = op.result.type
    element = element_of(kind)
    return literal(kind, digit) if isinstance(element, Scalar) and element is not I1 else None
