"""Passes of this package."""

from __future__ import annotations

from typing import Any

from acme_tileir.ops import Softsign
from tileir.ir import Function
from tileir.passmanager.registry import PassResult, pass_
from tileir.rewrite import Answer, Walk, rewrite
from tileir.values import Constant


@pass_("acme-form-softsign")
def form_softsign(function: Function) -> PassResult:
    """Replace `x / (1 + |x|)` by `acme.softsign`.

    The quotient and the sum round to nearest even and have no `ftz`, as the op does, so that the
    result has the same bits.

    before:
        define kernel void @f(f32* %p, f32 %x) {
        entry:
          %size = fabs f32 %x
          %sum = fadd f32 %size, 1.0
          %y = fdiv f32 %x, %sum
          store %p, %y
          ret
        }
    after:
        define kernel void @f(f32* %p, f32 %x) {
        entry:
          %size = fabs f32 %x
          %sum = fadd f32 %size, 1.0
          %y = acme.softsign f32 %x
          store %p, %y
          ret
        }
    """
    formed = 0

    def quotient(op: Any, walk: Walk) -> Answer:
        nonlocal formed
        divisor = walk.definition(op.rhs)
        if not (
            _is_exact(op) and divisor is not None and _is_one_plus_size_of(divisor, op.lhs, walk)
        ):
            return op
        formed += 1
        return Softsign(op.lhs, location=op.location)

    result = rewrite(function, {"fdiv": quotient})
    return PassResult(result, statistics={"formed": formed})


def _is_one_plus_size_of(op: Any, x: Any, walk: Walk) -> bool:
    """Whether `op` is `1 + |x|`, in either order."""
    if op.mnemonic != "fadd" or not _is_exact(op):
        return False
    for size, one in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        definition: Any = walk.definition(size)
        if isinstance(one, Constant) and one.value == 1 and _is_size_of(definition, x):
            return True
    return False


def _is_size_of(op: Any, x: Any) -> bool:
    return op is not None and op.mnemonic == "fabs" and op.value == x and op.predicate is None


def _is_exact(op: Any) -> bool:
    """Whether a float op rounds once, to nearest even, in every lane."""
    nearest = op.fast.value == "none" and op.rounding.value == "rn" and not op.ftz
    return nearest and op.predicate is None
