"""Mathematical functions, in f32 and f64. Functions of narrower floats are computed in f32 and
rounded once.

Errors are within the bounds that the ops state. `fast = approx` uses the target's approximate
instructions (PTX ISA, ex2, lg2, sin, cos, tanh, sqrt, rsqrt), and `fast = fast` those that flush
subnormals to zero where `approx` does not. Exponentials, logarithms and hyperbolic tangents of f16
and bf16 are approximate instructions too: their errors are fractions of an ulp of the narrow type,
that of `tanh.approx`, 2^-11, one ulp of f16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from tileir.backend.codegen.float_bounds import least
from tileir.backend.codegen.libm import (
    exponential32,
    exponential64,
    special32,
    special64,
    trigonometric32,
    trigonometric64,
)
from tileir.backend.codegen.libm.exponential32 import power_cases
from tileir.backend.codegen.libm.expression import Function, Term, where
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, scalar_of
from tileir.backend.codegen.rules.elementwise import elementwise
from tileir.errors import VerifyError
from tileir.op import Op, lookup
from tileir.types import BF16, F16, F32, F64, Element

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle, Thread

Function32: TypeAlias = "Callable[[Thread, Handle], Handle]"


def _instruction(name: str) -> Function:
    return lambda x: x.ptx(f"{name}.f32")


_ex2, _lg2 = _instruction("ex2.approx"), _instruction("lg2.approx")
_ex2_ftz, _lg2_ftz = _instruction("ex2.approx.ftz"), _instruction("lg2.approx.ftz")
_rsqrt = _instruction("rsqrt.approx")


def _fast_pow(x: Term, y: Term) -> Term:
    value = (_lg2(abs(x)) * y).ptx("ex2.approx.ftz.f32")
    return power_cases(x, y, where(x.same(0.0) & y.same(0.0), 1.0, value))


_SINGLE: Mapping[str, Function] = {
    **exponential32.FUNCTIONS,
    **trigonometric32.FUNCTIONS,
    **special32.FUNCTIONS,
    "rsqrt": _rsqrt,
}
_DOUBLE: Mapping[str, Function] = {
    **exponential64.FUNCTIONS,
    **trigonometric64.FUNCTIONS,
    **special64.FUNCTIONS,
}
_NARROW: Mapping[str, Function] = {
    "exp": lambda x: _ex2(x * 1.4426950408889634),
    "exp2": _ex2,
    "log": lambda x: _lg2(x) * 0.6931471805599453,
    "log2": _lg2,
    "log10": lambda x: _lg2(x) * 0.30102999566398120,
    "tanh": _instruction("tanh.approx"),
}
_APPROX: Mapping[str, Function] = {
    **_NARROW,
    "exp2": _ex2_ftz,
    "sin": _instruction("sin.approx"),
    "cos": _instruction("cos.approx"),
    "tan": lambda x: x.ptx("sin.approx.f32").ptx("div.full.f32", x.ptx("cos.approx.f32")),
    "rsqrt": _instruction("rsqrt.approx.ftz"),
    "sqrt": _instruction("sqrt.approx.ftz"),
    "pow": _fast_pow,
}
_FLUSHING: Mapping[str, Function] = {
    **_APPROX,
    "exp": lambda x: _ex2_ftz(x * 1.4426950408889634),
    "log": lambda x: _lg2_ftz(x) * 0.6931471805599453,
    "log2": _lg2_ftz,
    "log10": lambda x: _lg2_ftz(x) * 0.30102999566398120,
    "sin": _instruction("sin.approx.ftz"),
    "cos": _instruction("cos.approx.ftz"),
    "tan": lambda x: x.ptx("sin.approx.ftz.f32").ptx(
        "div.full.ftz.f32", x.ptx("cos.approx.ftz.f32")
    ),
}
_HALF: Mapping[str, Function] = {
    **{name: _FLUSHING[name] for name in _NARROW},
    "rsqrt": _FLUSHING["rsqrt"],
}
"""The element type in which functions of f16 are computed: its operands are normal numbers of f32,
and so are results that are not 0 in f16."""
_ALLOWED: Mapping[str, Mapping[str, Function]] = {"approx": _APPROX, "fast": _FLUSHING}
"""Formulas that are allowed by a value of `fast`."""
_ROUNDING = {
    "floor": "floor", "ceil": "ceil", "ftrunc": "trunc", "fround": "round", "frint": "rint",
}  # fmt: skip


def function(name: str, element: Element, *, fast: str = "none") -> Function:
    """The formula of function `name` for operands of type `element`. Operands narrower than f32 are
    widened to it. `fast` states which approximations the op allows."""
    if element is F64:
        return _DOUBLE[name]
    allowed = _ALLOWED.get(fast, {})
    if name in allowed:
        return allowed[name]
    narrow = {} if element is F32 else _HALF if element is F16 else _NARROW
    return narrow.get(name) or _SINGLE[name]


def _function(t: Thread, op: Any, *operands: Handle) -> Handle:
    element = scalar_of(op.result.type)
    rule = function(op.mnemonic, element, fast=op.fast.value)
    if element in (F32, F64):
        return rule(*(Term(t, element, x) for x in operands)).handle
    wide = (Term(t, element, x).cast("fpext", F32) for x in operands)
    return rule(*wide).cast("fptrunc", element).handle


_functions = elementwise(_function)


def _logarithm(lowering: Lowering, op: Any) -> list[Fragment]:
    """A logarithm, which needs no cases of subnormals and zeros of a number that is known to be
    larger, as `max(x, 1e-7)` is."""
    element = scalar_of(op.result.type)
    normal = least(op.value, lowering.origin) >= exponential32.LEAST_NORMAL
    if element is not F32 or op.fast.value in _ALLOWED or not normal:
        return _functions(lowering, op)
    return _logarithms_of_normal(lowering, op)


def _logarithm_of_normal(t: Thread, op: Any, x: Handle) -> Handle:
    return exponential32.LOGARITHMS[op.mnemonic](Term(t, F32, x), normal=True).handle


_logarithms_of_normal = elementwise(_logarithm_of_normal)


def _trigonometric(lowering: Lowering, op: Any) -> list[Fragment]:
    """Sines, cosines or tangents of all elements of a thread together. Arguments in f16 are below
    2^16."""
    element = scalar_of(op.result.type)
    if element is F64 or op.fast.value in _ALLOWED:
        return _functions(lowering, op)
    handles = lowering.fragment(op.value)
    alone = {h: Term(lowering.thread, element, h) for h in handles}
    wide = [x if element is F32 else x.cast("fpext", F32) for x in alone.values()]
    values = trigonometric32.by_reduction(op.mnemonic, wide, small=element is F16)
    if element is not F32:
        values = [x.cast("fptrunc", element) for x in values]
    results = {h: x.handle for h, x in zip(alone, values, strict=True)}
    return [[results[h] for h in handles]]


def through_f32(t: Thread, element: Element, x: Handle, rule: Function32) -> Handle:
    """Compute `rule` of `x` in f32."""
    if element is F32:
        return rule(t, x)
    wide = t.convert("fpext", element, F32, x)
    return t.convert("fptrunc", F32, element, rule(t, wide))


def _root(t: Thread, op: Any, x: Handle) -> Handle:
    element = scalar_of(op.result.type)
    if op.fast.value in _ALLOWED and element is not F64:
        return through_f32(t, element, x, lambda t, y: _APPROX["sqrt"](Term(t, F32, y)).handle)
    if element in (F16, BF16):
        return through_f32(t, element, x, lambda t, y: t.intrinsic("sqrt", F32, y))
    return t.intrinsic("sqrt", element, x)


def _round_to_integer(t: Thread, op: Any, x: Handle) -> Handle:
    element = scalar_of(op.result.type)
    name = _ROUNDING[op.mnemonic]
    if element in (F16, BF16):
        return through_f32(t, element, x, lambda t, y: t.intrinsic(name, F32, y))
    return t.intrinsic(name, element, x)


def _external(lowering: Lowering, op: Any) -> list[Fragment]:
    """A call of a libdevice function. If the function corresponds to an op, it is lowered as that
    op; otherwise it is linked in."""
    same = libdevice(op)
    if same is not None:
        return lowering.lower(attrs.evolve(same, results=op.results))
    element, kinds = scalar_of(op.result.type), [scalar_of(v.type) for v in op.values]
    columns = [lowering.fragment(v) for v in op.values]
    results: Fragment = []
    for handles in zip(*columns, strict=True):
        operands = list(zip(kinds, handles, strict=True))
        results.append(lowering.thread.external(op.symbol, element, operands, pure=op.pure))
    return [results]


def libdevice(op: Any) -> Op | None:
    """The op that corresponds to the libdevice function that `op` calls, on its operands; None if
    there is none."""
    name = op.symbol.removeprefix("__nv_")
    if name == op.symbol:
        return None
    for word in (name, name.removesuffix("f")):
        for candidate in (_LIBDEVICE.get(word, word), f"f{word}"):
            kind: Any = lookup(str(candidate))
            if kind is None or not kind.elementwise:
                continue
            try:
                call: Op = kind(*op.values)
            except (TypeError, VerifyError):
                continue
            if scalar_of(call.results[0].type) is scalar_of(op.result.type):
                return call
    return None


_LIBDEVICE: Mapping[str, str] = {
    "abs": "iabs", "popc": "ctpop", "fmod": "frem", "fmin": "fminnum", "fmax": "fmaxnum",
    "min": "smin", "max": "smax", "mulhi": "smulhi",
}  # fmt: skip
"""Names of libdevice that are not ours, without prefix and suffix."""

RULES: dict[str, Rule] = {
    "extern_elementwise": _external,
    **dict.fromkeys(_SINGLE, _functions),
    **dict.fromkeys(("sin", "cos", "tan"), _trigonometric),
    **dict.fromkeys(exponential32.LOGARITHMS, _logarithm),
    **{name: elementwise(_round_to_integer) for name in _ROUNDING},
    "sqrt": elementwise(_root),
}
