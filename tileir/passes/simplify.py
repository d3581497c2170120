"""Algebraic simplification and constant folding."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs

from tileir.analysis.partial import collects, kept_undefined
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.memory import Load, Store
from tileir.passes.fold import fold_op, unless_kept
from tileir.passes.laws.floats import FLOATS
from tileir.passes.laws.integers import INTEGERS
from tileir.passes.laws.law import Law, rules
from tileir.passmanager.registry import pass_
from tileir.rewrite import Answer, Replace, Walk, rewrite
from tileir.types import shape_of
from tileir.values import Constant, Operand, Undef

LAWS: tuple[Law, ...] = (*INTEGERS, *FLOATS)
"""The table of laws; each is tested as it stands there."""


@pass_("simplify")
def simplify(function: Function) -> Function:
    """Apply algebraic laws and fold constants in one walk, until nothing changes.

    Literals move to the right of commutative ops, ops on literals are folded, predicates and masks
    that are literals are removed, and every law of `LAWS` is applied from left to right. No law
    makes a program longer, makes a result less defined, or changes a NaN, a signed zero or a
    rounding, not even for ops with `fast` attributes. Ops that become dead are left to `dce`.

    before:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          %a = add i32 3, %n
          %b = add i32 %a, 4
          %c = mul i32 %b, 1
          %d = sub i32 %c, 7
          store %p, %d
          ret
        }
    after:
        define kernel void @f(i32* %p, i32 %n) {
        entry:
          _ = add i32 %n, 3
          _ = add i32 %n, 7
          store %p, %n
          ret
        }
    """
    undefined = kept_undefined(function)
    return rewrite(function, unless_kept(undefined, RULE) if undefined else RULE)


def known_predicate(op: Op, walk: Walk) -> Answer:
    """@true op = op, and @false op has no effect and gives undef. A histogram under a tile that is
    false everywhere counts nothing, and is defined: the predicate becomes its mask."""
    if type(op.predicate) is not Constant:
        return op
    if op.predicate.bits:
        return attrs.evolve(op, predicate=None)
    if shape_of(op.predicate.type) and collects(op) and _takes_mask(type(op)):
        return op.evolve(predicate=None, mask=op.predicate)
    return Replace(tuple(Undef(v.type) for v in op.results))


def known_mask(op: Any, walk: Walk) -> Answer:
    """Remove a mask that is true everywhere. Replace a load whose mask is false everywhere by
    `other`; remove such a store."""
    if not _takes_mask(type(op)) or type(op.mask) is not Constant or op.predicate is not None:
        return op
    if op.mask.bits:
        return op.evolve(mask=None, other=None) if type(op) is Load else op.evolve(mask=None)
    if type(op) not in (Load, Store) or op.volatile:
        return op
    return Replace(tuple(op.other or Undef(v.type) for v in op.results))


@cache
def _takes_mask(cls: type[Op]) -> bool:
    return any(field.name == "mask" for field in cls.fields(FieldKind.OPTIONAL))


def literal_on_the_right(op: Op, walk: Walk) -> Answer:
    """op(C, x) = op(x, C) for every commutative op."""
    if not op.commutative:
        return op
    first, second = op.inputs[:2]
    if type(first) is Constant and type(second) is not Constant:
        left, right = op.schema[0].name, op.schema[1].name
        return op.evolve(**{left: second, right: first})
    return op


def chosen_arm(op: Op, walk: Walk) -> Answer:
    """select(p, undef, y) = y and select(p, x, undef) = x: an undefined value may be any value."""
    _, then, otherwise = op.inputs
    if type(then) is Undef:
        return otherwise
    return then if type(otherwise) is Undef else op


def live_arms(op: Op, walk: Walk) -> Answer:
    """Remove the arms of a psi that never determine its result: those with a false predicate, those
    before an arm whose predicate is always true, and those with an undefined value. A psi of one
    value is replaced by the value."""
    flat = op.inputs
    arms = [(p, v) for p, v in zip(flat[::2], flat[1::2], strict=True) if not _literal(p, 0)]
    last = max((i for i, (p, _) in enumerate(arms) if _literal(p, 1)), default=0)
    arms = [(p, v) for p, v in arms[last:] if type(v) is not Undef or len(arms) == 1]
    if not arms:
        return Undef(op.results[0].type)
    if all(v is arms[0][1] or v == arms[0][1] for _, v in arms):
        return arms[0][1]
    if 2 * len(arms) == len(flat):
        return op
    name = op.schema[0].name
    return op.evolve(**{name: tuple(operand for arm in arms for operand in arm)})


def _literal(operand: Operand, bits: int) -> bool:
    return type(operand) is Constant and operand.bits == bits


RULE = rules(
    LAWS,
    first=(known_predicate, known_mask, literal_on_the_right, fold_op),
    by_mnemonic={"select": chosen_arm, "psi": live_arms},
)
