"""Lowering of predicated ops and `psi` to masks and selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileir import records
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.compare import Select
from tileir.ops.shape import Splat
from tileir.passmanager.registry import Outcome, pass_, remark
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import I1, Type, element_of, with_element
from tileir.values import Constant, Operand, Value, constant


@pass_("lower-predicates")
def lower_predicates(function: Function) -> Outcome:
    """Replace `@%p` and `psi` by masks and selects.

        PURE    an op that only computes runs in all lanes: what it gives where `%p` is false is
                undefined anyway
        TRAP    division and the like get an operand, where `%p` is false, that does not trap
        MASK    an op with a mask gets `%p` and-ed to it
        FOLD    a reduction or scan gets the identity of its combiner where `%p` is false
        CLAIM   `assume` and `assert` claim that `%p` is false or their condition holds
        PSI     `psi` is a chain of selects, the later ones winning; complementary predicates
                need one select

    A predicate that was itself computed under `@%q` is false where `%q` is: nested predicates are
    and-ed by `select %q, %p, false`, which reads `%p` nowhere else. What has no mask, no harmless
    operand and no identity (calls, prints, combiner functions) keeps its predicate, with a remark.

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
    lowering = _Lowering()
    lowered = rewrite(function, lowering.visit)
    return Outcome(lowered, tuple(lowering.remarks))


HARMLESS: dict[str, tuple[str, int]] = {
    "sdiv": ("rhs", 1), "udiv": ("rhs", 1), "srem": ("rhs", 1), "urem": ("rhs", 1),
    "shl": ("rhs", 0), "lshr": ("rhs", 0), "ashr": ("rhs", 0), "gather": ("index", 0),
}  # fmt: skip
"""The operand that makes an op trap, and a value with which it does not."""

CLAIMS = ("assume", "assert")
"""Ops that demand their condition."""


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
"""What a named combiner leaves alone: bits of an integer of n bits, or a float."""


class _Lowering:
    """The rule, with what it remembers of predicates computed under predicates."""

    def __init__(self) -> None:
        self.needs: dict[Value, tuple[Operand, ...]] = {}
        self.remarks: list[Diagnostic] = []

    def visit(self, op: Op, walk: Walk) -> Answer:
        self._note(op)
        if op.mnemonic == "psi":
            return self._psi(op, walk)
        if op.predicate is None:
            return op
        lowered = self._lowered(op, op.predicate)
        if lowered is None:
            message = f"{op.mnemonic} keeps its predicate: it has neither mask nor harmless operand"
            self.remarks.append(remark("TIR0652", message, op.location))
            return op
        return lowered

    def _note(self, op: Op) -> None:
        """Remember the predicates outside which the i1 results of `op` are undefined."""
        if not op.results or element_of(op.results[0].type) is not I1:
            return
        found = {} if op.predicate is None else {op.predicate: None}
        for operand in _decisive(op):
            if type(operand) is Value:
                found.update(dict.fromkeys(self.needs.get(operand, ())))
        if found:
            self.needs.update(dict.fromkeys(op.results, tuple(found)))

    def _lowered(self, op: Any, predicate: Operand) -> list[Op] | None:
        bare = records.evolve(op, predicate=None)
        if _has(op, "mask"):
            return self._masked(bare, predicate)
        if op.mnemonic in HARMLESS:
            name, number = HARMLESS[op.mnemonic]
            return self._guarded(bare, predicate, name, number)
        if op.mnemonic in CLAIMS:
            return self._claim(bare, predicate)
        if op.predicate_follows_operand:
            return self._folded(bare, predicate)
        return [bare] if op.effects is Effects.PURE else None

    def _masked(self, op: Any, predicate: Operand) -> list[Op]:
        """MASK"""
        ops: list[Op] = []
        mask = self._mask(predicate, with_element(op.inputs[0].type, I1), ops)
        if op.mask is not None:
            mask = _emit(ops, Select(mask, op.mask, constant(mask.type, False)))
        return [*ops, op.evolve(mask=mask)]

    def _guarded(self, op: Any, predicate: Operand, name: str, number: int) -> list[Op]:
        """TRAP"""
        ops: list[Op] = []
        operand = getattr(op, name)
        if isinstance(operand, Constant) and operand.bits == number:
            return [op]
        mask = self._mask(predicate, with_element(operand.type, I1), ops)
        safe = _emit(ops, Select(mask, operand, constant(operand.type, number)))
        return [*ops, op.evolve(**{name: safe})]

    def _claim(self, op: Any, predicate: Operand) -> list[Op]:
        """CLAIM"""
        ops: list[Op] = []
        mask = self._mask(predicate, op.condition.type, ops)
        condition = _emit(ops, Select(mask, op.condition, constant(mask.type, True)))
        return [*ops, op.evolve(condition=condition)]

    def _folded(self, op: Any, predicate: Operand) -> list[Op] | None:
        """FOLD"""
        combiner = getattr(op, "combiner", None)
        identity = IDENTITIES.get(getattr(combiner, "value", ""))
        if identity is None:
            return None
        ops: list[Op] = []
        (value,) = op.values
        mask = self._mask(predicate, with_element(value.type, I1), ops)
        neutral = _literal(value.type, identity)
        kept = _emit(ops, Select(mask, value, neutral))
        return [*ops, op.evolve(values=(kept,))]

    def _psi(self, op: Op, walk: Walk) -> Answer:
        """PSI"""
        arms = list(zip(op.inputs[::2], op.inputs[1::2], strict=True))
        if len(arms) == 2 and _complementary(arms[0][0], arms[1][0], walk):
            arms.reverse()
        ops: list[Op] = []
        value = arms[0][1]
        for predicate, other in arms[1:]:
            mask = self._mask(predicate, with_element(other.type, I1), ops)
            value = _emit(ops, Select(mask, other, value))
        return ops or value

    def _mask(self, predicate: Operand, to: Type, ops: list[Op]) -> Operand:
        """`predicate` as a mask of type `to` that is false wherever it is undefined, adding what
        that takes to `ops`."""
        for needed in self.needs.get(predicate, ()) if type(predicate) is Value else ():
            guard = self._mask(needed, predicate.type, ops)
            predicate = _emit(ops, Select(guard, predicate, constant(predicate.type, False)))
        if predicate.type is to:
            return predicate
        if isinstance(predicate, Constant):
            return Constant(to, predicate.bits)
        return _emit(ops, Splat(predicate, to))


def _emit(ops: list[Op], op: Op) -> Value:
    ops.append(op)
    return op.results[0]


def _decisive(op: Op) -> tuple[Operand, ...]:
    """The operands of an elementwise op without any of which its result is undefined."""
    if op.mnemonic == "psi":
        return op.inputs[::2]
    if op.mnemonic == "select":
        return op.inputs[:1]
    return op.inputs if op.elementwise else ()


def _has(op: Op, name: str) -> bool:
    return any(f.name == name for f in op.fields(FieldKind.OPTIONAL))


def _literal(type: Type, identity: Callable[[int], int] | float) -> Constant:
    if isinstance(identity, float):
        return constant(type, identity)
    return Constant(type, identity(element_of(type).bits))  # type: ignore[union-attr]


def _complementary(first: Operand, second: Operand, walk: Walk) -> bool:
    """Whether two predicates are the two results of one comparison."""
    op = walk.definition(first)
    return (
        op is not None and op is walk.definition(second) and first is not second
        and len(op.results) == 2 and op.elementwise
    )  # fmt: skip
