"""Lowering of predicated ops and `psi` to masks and selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Select
from tileir.passes.defined_lanes import DefinedLanes, emit, spread
from tileir.passmanager.registry import PassResult, pass_, remark
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import I1, Type, element_of, with_element
from tileir.values import Constant, Operand, constant


@pass_("lower-predicates")
def lower_predicates(function: Function) -> PassResult:
    """Replace predicates (`@%p`) and `psi` by masks and selects.

    - An op that only computes runs in all lanes: its result is undefined anyway where `%p` is
      false.
    - An op that may trap, such as a division, gets an operand that does not trap where `%p` is
      false.
    - The mask of an op becomes `mask and %p`.
    - A reduction or scan gets the identity of its combiner where `%p` is false.
    - The condition of `assume` and `assert` becomes `condition or not %p`.
    - `psi` becomes a chain of selects in which later values win. Complementary predicates need one
      select.

    A predicate that was computed under `@%q` is false where `%q` is false. Nested predicates are
    therefore combined by `select %q, %p, false`, which does not read `%p` where it is undefined.
    Predicates that elementwise ops, shape ops and reductions compute from undefined lanes are
    treated in the same way (`DefinedLanes`). An op without a mask, a harmless operand or an
    identity (a call, a print, a combiner function) keeps its predicate, with a remark.

    before:
        define void @f(f32*<8> %q, i32<8> %x, i32<8> %y) {
        entry:
          %pt, %pf = icmp (i1<8>, i1<8>) %x, 5 {predicate = slt}
          @%pt %a = add i32<8> %y, 1
          @%pf %b = sub i32<8> %y, 1
          %c = psi i32<8> [%pt, %a], [%pf, %b]
          %z = sitofp f32<8> %c
          @%pt store %q, %z
          ret
        }
    after:
        define void @f(f32*<8> %q, i32<8> %x, i32<8> %y) {
        entry:
          %pt, %pf = icmp (i1<8>, i1<8>) %x, 5 {predicate = slt}
          %a = add i32<8> %y, 1
          %b = sub i32<8> %y, 1
          %c = select i32<8> %pt, %a, %b
          %z = sitofp f32<8> %c
          store %q, %z, %pt
          ret
        }
    """
    lowering = _Lowering(DefinedLanes.of(function))
    lowered = rewrite(function, lowering.visit)
    return PassResult(lowered, tuple(lowering.remarks))


CLAIMS = ("assume", "assert")
"""Ops whose condition must be true."""


def _lowest(bits: int) -> int:
    return 1 << (bits - 1)


IDENTITIES: dict[str, Callable[[int], int] | float] = {
    "add": lambda bits: 0, "mul": lambda bits: 1, "and": lambda bits: (1 << bits) - 1,
    "or": lambda bits: 0, "xor": lambda bits: 0,
    "smin": lambda bits: _lowest(bits) - 1, "smax": _lowest,
    "umin": lambda bits: (1 << bits) - 1, "umax": lambda bits: 0,
    "fadd": -0.0, "fmul": 1.0, "fminimum": float("inf"), "fmaximum": float("-inf"),
    "fminnum": float("nan"), "fmaxnum": float("nan"),
}  # fmt: skip
"""The identity of a named combiner: the bits of an integer of n bits, or a float."""


class _Lowering:
    """The rule, with what it remembers of predicates computed under predicates."""

    def __init__(self, lanes: DefinedLanes) -> None:
        self.lanes = lanes
        self.remarks: list[Diagnostic] = []

    def visit(self, op: Op, walk: Walk) -> Answer:
        noted = self.lanes.note(op)
        answer = self._answer(op)
        if not noted:
            return answer
        if isinstance(answer, (Op, list)):
            return [*noted, *(answer if isinstance(answer, list) else [answer])]
        return Replace((answer,), tuple(noted))

    def _answer(self, op: Op) -> Op | list[Op] | Operand:
        if op.mnemonic == "psi":
            return self._psi(op)
        if op.predicate is None:
            return op
        lowered = self._lower(op, op.predicate)
        if lowered is None:
            message = f"{op.mnemonic} keeps its predicate: it has neither mask nor harmless operand"
            self.remarks.append(remark("TIR0652", message, op.location))
            return self._guarded_by_itself(op, op.predicate)
        return lowered

    def _guarded_by_itself(self, op: Op, predicate: Operand) -> Op | list[Op]:
        """`op` with its predicate, which is false where it was undefined."""
        ops: list[Op] = []
        guarded = self.lanes.mask(predicate, predicate.type, ops)
        return op if guarded is predicate else [*ops, attrs.evolve(op, predicate=guarded)]

    def _lower(self, op: Any, predicate: Operand) -> list[Op] | None:
        bare = attrs.evolve(op, predicate=None)
        if _has(op, "mask"):
            return self._add_mask(bare, predicate)
        if op.harmless is not None:
            name, number = op.harmless
            return self._guard(bare, predicate, name, number)
        if op.mnemonic in CLAIMS:
            return self._weaken(bare, predicate)
        if op.predicate_follows_operand:
            return self._fold(bare, predicate)
        return [bare] if op.effects is Effects.PURE else None

    def _add_mask(self, op: Any, predicate: Operand) -> list[Op]:
        """Add the predicate to the mask."""
        ops: list[Op] = []
        mask = self.lanes.mask(predicate, with_element(op.inputs[0].type, I1), ops)
        if op.mask is not None:
            mask = emit(ops, Select(mask, op.mask, constant(mask.type, False)))
        return [*ops, op.evolve(mask=mask)]

    def _guard(self, op: Any, predicate: Operand, name: str, number: int) -> list[Op]:
        """Replace the operand `name` by the harmless `number` where the predicate is false."""
        ops: list[Op] = []
        operand = getattr(op, name)
        if isinstance(operand, Constant) and operand.bits == number:
            return [op]
        mask = self.lanes.mask(predicate, with_element(operand.type, I1), ops)
        safe = emit(ops, Select(mask, operand, constant(operand.type, number)))
        return [*ops, op.evolve(**{name: safe})]

    def _weaken(self, op: Any, predicate: Operand) -> list[Op]:
        """Make the condition of an assumption or assertion true where the predicate is false."""
        ops: list[Op] = []
        mask = self.lanes.mask(predicate, op.condition.type, ops)
        condition = emit(ops, Select(mask, op.condition, constant(mask.type, True)))
        return [*ops, op.evolve(condition=condition)]

    def _fold(self, op: Any, predicate: Operand) -> list[Op] | None:
        """Give a reduction or scan the identity of its combiner where the predicate is false."""
        combiner = getattr(op, "combiner", None)
        identity = IDENTITIES.get(getattr(combiner, "value", ""))
        if identity is None:
            return None
        ops: list[Op] = []
        (value,) = op.values
        mask = self.lanes.mask(predicate, with_element(value.type, I1), ops)
        neutral = _literal(value.type, identity)
        selected = emit(ops, Select(mask, value, neutral))
        return [*ops, op.evolve(values=(selected,))]

    def _psi(self, op: Op) -> list[Op] | Operand:
        """Lower a `psi` to a chain of selects."""
        arms = list(zip(op.inputs[::2], op.inputs[1::2], strict=True))
        if len(arms) == 2 and self.lanes.complementary(arms[0][0], arms[1][0]):
            arms.reverse()
        ops: list[Op] = []
        value = arms[0][1]
        for predicate, other in arms[1:]:
            mask = self.lanes.mask(predicate, with_element(other.type, I1), ops)
            value = emit(ops, Select(mask, other, value))
        lanes = self.lanes.where.get(op.results[0])
        if not ops and lanes is not None:  # the value itself is defined elsewhere, too
            mask = spread(lanes, with_element(value.type, I1), ops)
            emit(ops, Select(mask, value, value))
        return ops or value


def _has(op: Op, name: str) -> bool:
    return any(f.name == name for f in op.fields(FieldKind.OPTIONAL))


def _literal(type: Type, identity: Callable[[int], int] | float) -> Constant:
    if isinstance(identity, float):
        return constant(type, identity)
    return Constant(type, identity(element_of(type).bits))  # type: ignore[union-attr]
