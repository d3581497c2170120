"""Constant folding: ops of literals are evaluated by their own meaning."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tileir.effects import Effects
from tileir.errors import InterpretError
from tileir.field import READING, SEVERAL, FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Rule, Walk, rewrite
from tileir.types import Tile, Type, element_of
from tileir.values import Constant, Operand, Undef, Value

if TYPE_CHECKING:
    from tileir.machine import Tensor

MAX_ELEMENTS = 1 << 16
"""Tiles larger than this are folded only by elementwise ops, which need one element."""


@pass_("fold")
def fold(function: Function) -> Function:
    """Fold ops whose operands are literals into literals.

    The value comes from `Op.evaluate`, which the interpreter uses as well. A literal has the same
    bits in every element, so an op whose result varies between elements is not folded. An op that
    traps is not folded either. Undefined lanes take the value of the defined ones, except for ops
    whose predicate selects the lanes that a reduction combines: these are not folded.

    before:
        define kernel void @f(f32* %p) {
        entry:
          %a = fadd f32 1.0, 2.0
          %b = fdiv f32 %a, 4.0
          store %p, %b
          ret
        }
    after:
        define kernel void @f(f32* %p) {
        entry:
          store %p, 0.75
          ret
        }
    """
    from tileir.analysis.partial import kept_undefined

    undefined = kept_undefined(function)
    return rewrite(function, unless_kept(undefined, fold_op) if undefined else fold_op)


def unless_kept(values: frozenset[Value], rule: Rule) -> Rule:
    """`rule` for all ops but those whose results are in `values` (`kept_undefined`)."""
    return lambda op, walk: op if values.intersection(op.results) else rule(op, walk)


def fold_op(op: Op, walk: Walk) -> Answer:
    """The value of `op`, if its operands are literals and its results uniform."""
    literals = evaluate(op)
    return op if literals is None else Replace(literals)


def evaluate(op: Op) -> tuple[Operand, ...] | None:
    """The results of `op` as literals; None if its operands are none, or its results are not
    uniform."""
    inputs = op.inputs
    for operand in inputs:
        if type(operand) is Value:
            return None
    return _evaluate(op) if inputs and op.results and _foldable(op) else None


def _foldable(op: Op) -> bool:
    from tileir.analysis.partial import collects

    if op.effects not in (Effects.PURE, Effects.TRAP) or op.fields(FieldKind.SYMBOL):
        return False
    if isinstance(getattr(op, "combiner", None), str):
        return False
    if op.predicate is not None and collects(op):
        return False
    return op.elementwise or all(_size(v.type) <= MAX_ELEMENTS for v in (*op.inputs, *op.results))


def _evaluate(op: Op) -> tuple[Operand, ...] | None:
    from tileir.machine import Machine  # numpy is loaded only where values are computed

    machine = Machine()
    try:
        answer = op.evaluate(machine, *_arguments(op))
    except (InterpretError, NotImplementedError):
        return None
    tensors = answer if isinstance(answer, tuple) else (answer,)
    literals = [_literal(t, r.type) for t, r in zip(tensors, op.results, strict=True)]
    if any(literal is None for literal in literals):
        return None
    return tuple(v for v in literals if v is not None)


def _arguments(op: Op) -> list[Any]:
    """One tensor per operand field; single elements where the op works element by element."""
    arguments: list[Any] = []
    for field in op.fields(*READING):
        value = getattr(op, field.name)
        if field.kind in SEVERAL:
            arguments.append(tuple(_tensor(v, scalar=op.elementwise) for v in value))
        else:
            arguments.append(None if value is None else _tensor(value, scalar=op.elementwise))
    return arguments


def _tensor(operand: Operand, *, scalar: bool) -> Tensor:
    type = element_of(operand.type) if scalar else operand.type
    return _constant(type, operand.bits if isinstance(operand, Constant) else None)


@lru_cache(4096)
def _constant(type: Type, bits: int | None) -> Tensor:
    """The tensor of a literal, of `undef` for None; evaluation writes to none."""
    from tileir.machine.tensor import constant, undef

    return undef(type) if bits is None else constant(Constant(type, bits))


def _literal(tensor: Tensor, type: Type) -> Operand | None:
    """The literal of `type` with the bits that all defined elements have; None where they
    differ."""
    from tileir.machine.tensor import raw

    defined = raw(tensor.data).ravel()
    if tensor.undef is not None:
        defined = defined[~tensor.undef.ravel()]
        if not defined.size:
            return Undef(type)
    if (defined != defined[0]).any():
        return None
    return Constant(type, int(defined[0]) & ((1 << element_of(type).bits) - 1))  # type: ignore[union-attr]


def _size(type: Type) -> int:
    return type.size if isinstance(type, Tile) else 1
