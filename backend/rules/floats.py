"""Float arithmetic. LLVM's instructions round once, to nearest even; other modes are PTX
instructions (PTX ISA, "Floating-Point Instructions")."""

from __future__ import annotations

from typing import Any

from tileir.backend.lower.lowering import Rule, scalar_of
from tileir.backend.lower.thread import Handle, Thread
from tileir.backend.rules.elementwise import each
from tileir.types import F32, F64, Element
from tileir.values import Constant

_FLAGS = {"none": "", "contract": "contract", "approx": "arcp", "fast": "contract arcp reassoc"}
_EXTREMES = {
    "fminimum": "minimum", "fmaximum": "maximum",
    "fminnum": "minimumnum", "fmaxnum": "maximumnum",
}  # fmt: skip


def _rounded(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    element, name = _element(op), op.mnemonic[1:]
    approximate = op.fast.value in ("approx", "fast")
    if name == "div" and approximate and element is F32:
        if op.ftz and _is_one(op.lhs):
            return t.instruction("rcp.approx.ftz.f32 $0, $1;", F32, [(F32, b)])
        ftz = ".ftz" if op.ftz else ""
        return t.instruction(f"div.full{ftz}.f32 $0, $1, $2;", F32, [(F32, a), (F32, b)])
    if op.rounding.value == "rn" and not op.ftz:
        return t.binary(op.mnemonic, element, a, b, _FLAGS[op.fast.value])
    return _ptx(t, name, op, element, a, b)


def _is_one(value: Any) -> bool:
    """Whether a float, or every element of a tile, is the number one."""
    return isinstance(value, Constant) and value.bits == 0x3F800000


def _ptx(t: Thread, name: str, op: Any, element: Element, *operands: Handle) -> Handle:
    ftz = ".ftz" if op.ftz else ""
    names = ", ".join(f"${i}" for i in range(len(operands) + 1))
    text = f"{name}.{op.rounding.value}{ftz}.f{element.bits} {names};"
    return t.instruction(text, element, [(element, x) for x in operands])


def _fma(t: Thread, op: Any, a: Handle, b: Handle, c: Handle) -> Handle:
    element = _element(op)
    if op.rounding.value == "rn" and not op.ftz:
        return t.intrinsic("fma", element, a, b, c)
    return _ptx(t, "fma", op, element, a, b, c)


def _remainder(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    from tileir.backend.functions.formula import Term  # few kernels divide so
    from tileir.backend.functions.remainder import remainder

    element = _element(op)
    if element in (F32, F64):
        return remainder(Term(t, element, a), Term(t, element, b)).handle
    wide = (Term(t, element, x).cast("fpext", F32) for x in (a, b))
    return remainder(*wide).cast("fptrunc", element).handle


def _negation(t: Thread, op: Any, a: Handle) -> Handle:
    return t.negate(_element(op), a)


def _absolute(t: Thread, op: Any, a: Handle) -> Handle:
    return t.intrinsic("fabs", _element(op), a)


def _sign(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return t.intrinsic("copysign", _element(op), a, b)


def _extreme(t: Thread, op: Any, a: Handle, b: Handle) -> Handle:
    return extreme(t, op.mnemonic, _element(op), a, b)


def extreme(t: Thread, name: str, element: Element, a: Handle, b: Handle) -> Handle:
    """`fminimum`, `fmaximum`, `fminnum` or `fmaxnum` of two floats."""
    if element is F64 and name in ("fminimum", "fmaximum"):
        number = t.intrinsic(_EXTREMES[name] + "num", F64, a, b)
        unordered = t.compare("uno", F64, a, b)
        return t.select(F64, unordered, t.constant(F64, 0x7FF8 << 48), number)
    return t.intrinsic(_EXTREMES[name], element, a, b)


def _clamp(t: Thread, op: Any, x: Handle, low: Handle, high: Handle) -> Handle:
    element = _element(op)
    raised = extreme(t, "fmaxnum", element, x, low)
    held = extreme(t, "fminnum", element, raised, high)
    if op.nan.value == "none":
        return held
    return t.select(element, t.compare("uno", element, x, x), x, held)


def _element(op: Any) -> Element:
    return scalar_of(op.result.type)


RULES: dict[str, Rule] = {
    **{name: each(_rounded) for name in ("fadd", "fsub", "fmul", "fdiv")},
    **{name: each(_extreme) for name in _EXTREMES},
    "fma": each(_fma),
    "frem": each(_remainder),
    "fneg": each(_negation),
    "fabs": each(_absolute),
    "copysign": each(_sign),
    "clampf": each(_clamp),
}
