"""The defined lanes of values that predicates depend on, as values that a pass can emit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.partial import (
    collects,
    leaves_undefined,
    mask_of_results,
    transitive_operands,
)
from tileir.analysis.uses import definitions
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.ops.reduce import Combiner, Reduce
from tileir.ops.shape import Splat
from tileir.types import I1, Type, shape_of, with_element
from tileir.values import Constant, Operand, Undef, Value, constant


@attrs.define
class DefinedLanes:
    """The defined lanes of values that predicates depend on: an i1 operand of the value's shape, or
    a scalar one.

    Values that are not in `where` are defined in all lanes. Ops are recorded in program order,
    before their predicates are removed.
    """

    values: set[Value]
    where: dict[Value, Operand] = attrs.field(factory=dict[Value, Operand])

    @classmethod
    def of(cls, function: Function) -> DefinedLanes:
        """The analysis for the predicates of `function`."""
        predicates: list[Operand | None] = []
        for op in function.ops:
            predicates.append(op.predicate)
            if op.mnemonic == "psi":
                predicates.extend(op.inputs[::2])
        return cls(transitive_operands(function, predicates))

    def note(self, op: Op) -> list[Op]:
        """Record where the results of `op` are defined. Returns the ops that compute this, to be
        inserted before `op`."""
        if len(op.results) == 2 and op.elementwise:
            self.pairs.update(dict.fromkeys(op.results, op))
        required = [v for v in op.results if v in self.values and v not in self.where]
        if not required or not self._may_be_partial(op):
            return []
        ops: list[Op] = []
        for value in required:
            parts = self._own(op, value, ops) + self._from_operands(op, value, ops)
            lanes = conjunction(parts, value.type, ops)
            if lanes is not None:
                self.where[value] = lanes
        return ops

    def _may_be_partial(self, op: Op) -> bool:
        if op.mnemonic == "psi" or op.predicate is not None or mask_of_results(op) is not None:
            return True
        return any(isinstance(v, Undef) or v in self.where for v in op.operands)

    def complementary(self, first: Operand, second: Operand) -> bool:
        """Whether two predicates are the two results of one comparison."""
        op = self.pairs.get(first) if isinstance(first, Value) else None
        return op is not None and first is not second and second in op.results

    def mask(self, predicate: Operand, to: Type, ops: list[Op]) -> Operand:
        """`predicate` as a mask of type `to`, false wherever it is undefined."""
        if isinstance(predicate, Undef):
            return constant(to, False)
        lanes = self.where.get(predicate) if isinstance(predicate, Value) else None
        if lanes is not None:
            lanes = spread(lanes, predicate.type, ops)
            predicate = emit(ops, Select(lanes, predicate, constant(predicate.type, False)))
        return spread(predicate, to, ops)

    def _own(self, op: Op, value: Value, ops: list[Op]) -> list[Operand]:
        """The lanes of the result `value` that the predicate and the mask of `op` leave defined."""
        mask = mask_of_results(op)
        parts = [] if mask is None else [mask]
        return parts + self._of_predicate(op, value, ops)

    def _of_predicate(self, op: Op, value: Value, ops: list[Op]) -> list[Operand]:
        if op.predicate is None:
            return []
        shape = shape_of(op.predicate.type)
        if not shape or not collects(op):
            guarded = self.mask(op.predicate, op.predicate.type, ops)
            return [guarded] if shape in ((), shape_of(value.type)) else []
        if op.mnemonic == "scan":
            return [self.mask(op.predicate, _flags(value.type), ops)]
        if op.mnemonic == "reduce":
            return [_along(self.mask(op.predicate, op.predicate.type, ops), op, Combiner.OR, ops)]
        return []

    def _from_operands(self, op: Any, value: Value, ops: list[Op]) -> list[Operand]:
        """The lanes of `value` that undefined lanes of the operands leave defined."""
        if op.mnemonic == "psi":
            return self._of_psi(op, ops)
        if op.mnemonic == "select":
            return self._of_select(op, ops)
        if op.elementwise:
            return [lanes for v in op.inputs if (lanes := self._lanes(v)) is not None]
        if op.moves_elements:
            lanes = self._lanes(op.inputs[0])
            return [] if lanes is None else [_as_moved(op, lanes, value, ops)]
        if op.mnemonic == "reduce":
            return self._of_reduction(op, ops)
        return []

    def _lanes(self, operand: Operand) -> Operand | None:
        """The defined lanes of `operand`; None for all."""
        if isinstance(operand, Undef):
            return constant(I1, False)
        return self.where.get(operand) if isinstance(operand, Value) else None

    def _of_select(self, op: Any, ops: list[Op]) -> list[Operand]:
        operands = [] if (lanes := self._lanes(op.condition)) is None else [lanes]
        if self._lanes(op.then) is not None or self._lanes(op.otherwise) is not None:
            operands.append(self._either(op.condition, op.then, self._lanes(op.otherwise), ops))
        return operands

    def _either(
        self, condition: Operand, then: Operand, otherwise: Operand | None, ops: list[Op]
    ) -> Operand:
        """The defined lanes of `then` where `condition` is true, else those of `otherwise`; None
        for all."""
        flags = _flags(then.type)
        lanes = self._lanes(then)
        everywhere: Operand = constant(flags, True)
        first = everywhere
        if lanes is not None and lanes is not condition:
            first = lanes
        second = everywhere if otherwise is None else otherwise
        operands: tuple[Operand, ...] = (condition, first, second)
        parts = [spread(v, flags, ops) for v in operands]
        return emit(ops, Select(*parts))

    def _of_psi(self, op: Any, ops: list[Op]) -> list[Operand]:
        """The defined lanes of a `psi`: the last predicate that is not false is true, and its value
        is defined."""
        arms = list(zip(op.inputs[::2], op.inputs[1::2], strict=True))
        plain = all(self._lanes(v) in (None, p) for p, v in arms)
        if len(arms) == 2 and plain and self.complementary(arms[0][0], arms[1][0]):
            return [mask for p, _ in arms if (mask := self._lanes(p)) is not None]
        lanes: Operand = constant(I1, False)
        for predicate, value in arms:
            lanes = self._either(predicate, value, lanes, ops)
            own = self._lanes(predicate)
            if own is not None:
                lanes = conjunction([own, lanes], value.type, ops) or lanes
        return [lanes]

    def _of_reduction(self, op: Any, ops: list[Op]) -> list[Operand]:
        """The defined lanes of a reduction: every lane that takes part is defined."""
        operands: list[Operand] = []
        for value in op.values:
            if (lanes := self._lanes(value)) is None:
                continue
            lanes = spread(lanes, _flags(value.type), ops)
            if op.predicate is not None:
                active = self.mask(op.predicate, lanes.type, ops)
                if lanes is active or lanes is op.predicate:
                    continue
                lanes = emit(ops, Select(active, lanes, constant(lanes.type, True)))
            operands.append(_along(lanes, op, Combiner.AND, ops))
        return operands

    pairs: dict[Value, Op] = attrs.field(factory=dict[Value, Op])
    """The comparison that each of its two results comes from."""


def define_predicates(function: Function, is_selected: Callable[[Op], bool]) -> Function:
    """`function` with the predicates of the selected ops false wherever they are undefined, so that
    they may be masks; itself where they are defined everywhere."""
    predicates = [op.predicate for op in function.ops if is_selected(op)]
    origin = definitions(function)
    sources = (origin[value] for value in transitive_operands(function, predicates))
    if not any(leaves_undefined(op) for op in sources):
        return function
    lanes = DefinedLanes(transitive_operands(function, predicates))
    blocks = dict(function.blocks)
    for label in cfg(function).order:
        ops: list[Op] = []
        for op in function.blocks[label].ops:
            ops += lanes.note(op)
            if is_selected(op) and op.predicate is not None:
                op = attrs.evolve(op, predicate=lanes.mask(op.predicate, op.predicate.type, ops))
            ops.append(op)
        blocks[label] = attrs.evolve(blocks[label], ops=ops)
    return function.with_blocks(blocks)


def conjunction(parts: Sequence[Operand], like: Type, ops: list[Op]) -> Operand | None:
    """The conjunction of `parts`, which are scalars or have the shape of `like`; None for all
    lanes."""
    distinct = list(dict.fromkeys(parts))
    if not distinct:
        return None
    result = distinct[0]
    for part in distinct[1:]:
        first, second = (spread(v, _flags(like), ops) for v in (result, part))
        result = emit(ops, Select(first, second, constant(first.type, False)))
    return result


def spread(flag: Operand, to: Type, ops: list[Op]) -> Operand:
    """`flag`, a scalar or of the shape of `to`, as a value of type `to`."""
    if flag.type is to:
        return flag
    if isinstance(flag, Constant):
        return Constant(to, flag.bits)
    return emit(ops, Splat(flag, to))


def emit(ops: list[Op], op: Op) -> Value:
    """The first result of `op`, which is appended to `ops`."""
    ops.append(op)
    return op.results[0]


def _flags(type: Type) -> Type:
    return with_element(type, I1)


def _along(lanes: Operand, op: Any, combiner: Combiner, ops: list[Op]) -> Operand:
    return emit(ops, Reduce((lanes,), axis=op.axis, combiner=combiner))


def _as_moved(op: Any, lanes: Operand, value: Value, ops: list[Op]) -> Operand:
    """`lanes` moved as `op` moves its operand."""
    if not shape_of(lanes.type) and op.mnemonic != "splat":
        return lanes
    stated = {f.name: _flags(value.type) for f in op.fields(FieldKind.RESULT_TYPE)}
    name = op.schema[0].name
    moved = attrs.evolve(
        op, **{name: lanes}, **stated, results=(), predicate=None, comments=(), shared=None
    )
    return emit(ops, moved)
