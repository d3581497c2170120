"""Support of ops by targets: a table of ops, types and targets.

    supports("fadd", BF16, "sm_80")  # EMULATED, "in f32, rounded"
    supports("inline_asm", I32, "sm_90")  # PERMITTED, "permit = ('inline_asm',)"

Every op of the IR runs on every target with the same meaning. If a target has no instruction for
it, other instructions compute the same result; `LIMITS` lists these cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TypeAlias

import attrs

from tileir.backend.target import Target, target as target_named
from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I16,
    Element,
    Pointer,
    Scalar,
)

Ask: TypeAlias = Callable[[Target], bool]


class SupportLevel(Enum):
    """The way an op runs: by one or a few instructions, by other ops with the same result, only if
    the caller permits it, or not at all."""

    NATIVE = "native"
    """One or a few instructions."""
    EMULATED = "emulated"
    """Other ops with the same result."""
    PERMITTED = "with permission"
    """Foreign code, which the option `permit` must allow."""
    NONE = "no"
    """Not on this target."""


@attrs.frozen
class Support:
    """The support of an op for one element type on one target, and the ops that replace it if the
    target has no instruction for it."""

    how: SupportLevel
    by: str = ""

    def __bool__(self) -> bool:
        return self.how is not SupportLevel.NONE


@attrs.frozen
class OpSupportRule:
    """Ops on elements for which only the targets selected by `native` have an instruction."""

    ops: frozenset[str]
    elements: frozenset[Element]
    by: str
    native: Ask = attrs.field(default=lambda _: False)
    how: SupportLevel = SupportLevel.EMULATED
    attributes: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    """The values of attributes that the rule applies to; other attributes do not matter."""


def _limit(
    ops: str, elements: Iterable[Element], by: str, native: Ask | None = None, **words_by_name: str
) -> OpSupportRule:
    words = {name: frozenset(text.split()) for name, text in words_by_name.items()}
    return OpSupportRule(
        frozenset(ops.split()), frozenset(elements), by, native or (lambda _: False),
        attributes=words,
    )  # fmt: skip


_SMALL = (F4E2M1, F8E4M3, F8E5M2, F8E8M0)
_FLOATS = (F16, BF16, F32, F64)
_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc rsqrt cbrt pow atan2"
)

LIMITS: tuple[OpSupportRule, ...] = (
    _limit("fadd fsub fmul", (BF16,), "in f32, rounded", lambda t: t.bf16_arithmetic),
    _limit("fdiv sqrt floor ceil ftrunc fround frint", (F16, BF16), "in f32, rounded"),
    _limit(_FUNCTIONS, (F16, BF16), "a formula in f32, rounded"),
    _limit(_FUNCTIONS, (F32, F64), "a formula"),
    _limit("frem", _FLOATS, "divisions in a loop"),
    _limit("fpcast", (F8E4M3, F8E5M2), "its bits", lambda t: t.f8_conversion),
    _limit("fpcast", (F4E2M1, F8E8M0), "its bits"),
    _limit("sdiv udiv srem urem", (I1, I8, I16), "in 32 bits"),
    _limit(
        "atomic_rmw descriptor_reduce",
        (BF16,),
        "compare and swap",
        lambda t: t.bf16_atomics,
        op="fadd",
    ),
    _limit("atomic_rmw descriptor_reduce", _FLOATS, "compare and swap", op="fmax fmin"),
    _limit("atomic_rmw descriptor_reduce", (I16, F16, BF16), "compare and swap", op="xchg"),
    _limit("dot", (I4,), "multiply-adds"),
    _limit("dot", (F8E4M3, F8E5M2), "f16 operands"),
    _limit("dot", (F32,), "multiply-adds", precision="ieee"),
    _limit("dot_scaled", (), "operands widened to bf16 or f32"),
    OpSupportRule(
        frozenset({"inline_asm"}),
        frozenset(),
        "permit = ('inline_asm',)",
        how=SupportLevel.PERMITTED,
    ),
    OpSupportRule(
        frozenset({"extern_elementwise"}),
        frozenset(),
        "permit = ('extern',)",
        how=SupportLevel.PERMITTED,
    ),
)
"""The rules; the first one that matches applies. A rule without elements applies to all of them."""


def supports(
    mnemonic: str, element: Element | None, target: str | Target, **attributes: str
) -> Support:
    """Return how the op `mnemonic` runs on `target`.

    `element` is the element type of its first operand; None is any type. `attributes` are
    attributes of the op by their names in the text, such as `op = "fadd"`. Raises `CompileError`
    (TIR0702) for an unknown target and `TypeError` if `element` is no element type.
    """
    from tileir.backend.codegen.lowering import third_party_rules
    from tileir.backend.codegen.rules import rules
    from tileir.backend.legal import EXPANDED_OPS  # rules are imported on the first query

    if not isinstance(element, Scalar | Pointer | None):
        raise TypeError(f"an element type is needed, as F32, not {element!r}")
    machine = target_named(target) if isinstance(target, str) else target
    for limit in LIMITS:
        if _fits(limit, mnemonic, element, attributes) and not limit.native(machine):
            return Support(limit.how, limit.by)
    if mnemonic in EXPANDED_OPS:
        return Support(SupportLevel.EMULATED, "addresses and masks")
    has_rule = mnemonic in rules() or mnemonic in third_party_rules()
    return Support(SupportLevel.NATIVE if has_rule else SupportLevel.NONE)


def _fits(
    limit: OpSupportRule, mnemonic: str, element: Element | None, attributes: Mapping[str, str]
) -> bool:
    if mnemonic not in limit.ops or (limit.elements and element not in limit.elements):
        return False
    return all(attributes.get(name) in words for name, words in limit.attributes.items())
