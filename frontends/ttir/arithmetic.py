"""Ops on elements: `arith`, `math`, conversions, functions of libdevice."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import attrs

from tileir.builder import Builder, Expr
from tileir.builder.ops import method_name
from tileir.frontends.triton import dtypes
from tileir.frontends.triton.building import contraction_attributes
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.tensor import Tensor
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.frontends.ttir.frame import RULES, RegionReader, rule
from tileir.frontends.ttir.nodes import Operation
from tileir.frontends.ttir.op_names import ADDRESS_CASTS, CASTS, ELEMENTWISE
from tileir.op import lookup
from tileir.ops.arith import Wrapping
from tileir.types import (
    F8E4M3,
    F8E5M2,
    F32,
    I1,
    I8,
    Element,
    Pointer,
    Scalar,
    Tile,
    Type,
    element_of,
    shape_of,
    tile,
    with_element,
)
from tileir.values import Constant, Operand, encode

_SAME = {
    **ELEMENTWISE, "arith.divf": "fdiv", "arith.negf": "fneg", "tt.precise_divf": "fdiv",
    "tt.approx_divf": "fdiv", "tt.precise_sqrt": "sqrt",
    "math.roundeven": "frint", "math.round": "fround", "math.trunc": "ftrunc",
    "math.powf": "pow", "math.ctpop": "ctpop", "math.ctlz": "clz", "math.copysign": "copysign",
    **{f"math.{name}": name for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
        "sqrt", "rsqrt", "cbrt",
    )},
}  # fmt: skip
"""Ops that are an op of the IR on the same operands."""

_ROUNDED = {
    "arith.ceildivsi": ("sdiv", "ceil"), "arith.ceildivui": ("udiv", "ceil"),
    "arith.floordivsi": ("sdiv", "floor"),
}  # fmt: skip

_CAST = {**CASTS, **ADDRESS_CASTS}

_OVERFLOW: dict[tuple[str, ...], str] = {
    ("nsw",): "nsw", ("nuw",): "nuw", ("nsw", "nuw"): "nsw_nuw",
}  # fmt: skip


_APPROXIMATE = frozenset(
    {"arith.divf", "tt.approx_divf", "math.exp", "math.exp2", "math.sqrt", "math.rsqrt"}
)
"""Ops that Triton compiles to the target's approximate instructions in f32."""

_CONTRACTED = frozenset({"arith.addf", "arith.subf", "arith.mulf"})


def _numerics(f: RegionReader, s: Operation) -> dict[str, Any]:
    """The freedom that Triton's compiler has with an op."""
    if s.name in _APPROXIMATE and element_of(s.result) is F32:
        return {"fast": "approx"}
    return contraction_attributes(f.b) if s.name in _CONTRACTED else {}


_DECIDED_BY = {"arith.andi": False, "arith.ori": True}
"""The value of a condition that determines a conjunction or disjunction, whatever the other one
is."""


def _conditions(f: RegionReader, s: Operation) -> Expr | None:
    """A conjunction or disjunction of a defined condition and one that may be undefined becomes a
    `select` by the first: it is defined where the first one determines it, as in Triton's compiler.
    None for all other ops."""
    if s.name not in _DECIDED_BY or element_of(s.result) is not I1:
        return None
    first, second = f.operands(s)
    if f.may_be_undefined(first) == f.may_be_undefined(second):
        return None
    condition, other = (second, first) if f.may_be_undefined(first) else (first, second)
    decided = f.b.constant(s.result, _DECIDED_BY[s.name])
    arms = (decided, other) if _DECIDED_BY[s.name] else (other, decided)
    return f.b.select(condition, *arms)


def _same(f: RegionReader, s: Operation) -> Expr:
    conditions = _conditions(f, s)
    if conditions is not None:
        return conditions
    options = _numerics(f, s)
    words = s.words
    promises = set(words[1:]) if "overflow" in words else set[str]()
    if s.exact:
        promises.add("nsw")
    if promises and _may_promise(_SAME[s.name]):
        options["overflow"] = _OVERFLOW[tuple(sorted(promises))]
    result = getattr(f.b, method_name(_SAME[s.name]))(*f.operands(s), **options)
    if result.type is not s.result:
        raise UnsupportedStatement(
            f"{s.name} has type {result.type}, but the text states {s.result}"
        )
    return result


def _may_promise(mnemonic: str) -> bool:
    """Whether an op of the IR can state that it does not wrap, which MLIR states of shifts, too."""
    kind = lookup(mnemonic)
    return kind is not None and issubclass(kind, Wrapping)


def _with_rounding(f: RegionReader, s: Operation) -> Expr:
    name, rounding = _ROUNDED[s.name]
    return getattr(f.b, name)(*f.operands(s), rounding=rounding)


def _cast(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return getattr(f.b, _CAST[s.name])(x, s.result)


RULES.update(dict.fromkeys(_SAME, _same))
RULES.update(dict.fromkeys(_ROUNDED, _with_rounding))
RULES.update(dict.fromkeys(_CAST, _cast))


@rule("math.absf", "arith.negf")
def _sign(f: RegionReader, s: Operation) -> Expr:
    """Absolute value and negation. Of 8-bit floats, which have no arithmetic, they are operations
    on the sign bit."""
    (x,) = f.operands(s)
    if element_of(x.type) not in (F8E4M3, F8E5M2):
        return _same(f, s)
    bits = f.b.bitcast(x, with_element(x.type, I8))
    bits = bits & 0x7F if s.name == "math.absf" else bits ^ 0x80
    return f.b.bitcast(bits, x.type)


@rule("arith.constant")
def _constant(f: RegionReader, s: Operation) -> Expr:
    written = [t.text for t in s.head if t.kind == "number" or t.text in ("true", "false")]
    type = s.result if s.result_types else I1
    if any(t.text == "[" for t in s.head):
        return _dense_constant(f.b, type, written)
    if len(written) != 1:
        raise UnsupportedStatement("a constant is a value or a list of values")
    return _literal(f.b, type, written[0])


_MOST_LISTED = 256
"""Elements of a constant that is a list."""


def _dense_constant(b: Builder, type: Type, written: list[str]) -> Expr:
    """A tile whose elements are listed, in row-major order: each value is selected at its places
    instead of the most frequent one."""
    if not isinstance(type, Tile) or type.size != len(written):
        raise UnsupportedStatement(f"{len(written)} values do not fill a {type}")
    if len(written) > _MOST_LISTED:
        raise UnsupportedStatement(
            f"a constant is a value or a list of at most {_MOST_LISTED} values"
        )
    flat = tile(type.element, (type.size,))
    places: dict[str, list[int]] = {}
    for place, text in enumerate(written):
        places.setdefault(text, []).append(place)
    first, *minor = sorted(places, key=lambda text: -len(places[text]))
    result, index = _literal(b, flat, first), b.arange(0, type.size)
    for text in minor:
        here: Expr | None = None
        for place in places[text]:
            one = b.icmp(index, b.constant(index.type, place), predicate="eq")[0]
            here = one if here is None else b.or_(here, one)
        assert here is not None
        result = b.select(here, _literal(b, flat, text), result)
    return result.reshape(*type.shape)


def _literal(b: Builder, type: Type, text: str) -> Expr:
    element = element_of(type)
    floating = isinstance(element, Scalar) and element.is_float
    if text in ("true", "false"):
        return b.constant(type, text == "true")
    if floating and text.startswith("0x"):
        return b.wrap(Constant(type, int(text, 16)))
    if floating:
        return b.constant(type, float(text))
    return b.constant(type, int(text, 0))


@rule("ub.poison")
def _poison(f: RegionReader, s: Operation) -> Expr:
    return f.b.undef(s.result)


@rule("arith.cmpi")
def _cmpi(f: RegionReader, s: Operation) -> Expr:
    relation: Any = s.words[0]
    return f.b.icmp(*f.operands(s), predicate=relation)[0]


@rule("arith.cmpf")
def _cmpf(f: RegionReader, s: Operation) -> Expr:
    relation: Any = s.words[0]
    return f.b.fcmp(*f.operands(s), predicate=relation)[0]


@rule("arith.select")
def _select(f: RegionReader, s: Operation) -> Expr:
    condition, then, otherwise = f.operands(s)
    shape = shape_of(then.type)
    if shape and not shape_of(condition.type):
        condition = f.b.splat(condition, tile(I1, shape))
    return f.b.select(condition, then, otherwise)


@rule("tt.clampf")
def _clampf(f: RegionReader, s: Operation) -> Expr:
    x, low, high = f.operands(s)
    nan = s.options.get("propagateNan", "none")
    if nan == "none" and _are_opposite(low.value, high.value):  # a NaN is not defined there
        return f.b.copysign(f.b.fminnum(f.b.fabs(x), high), x)
    return f.b.clampf(x, low, high, nan=nan)


def _are_opposite(low: Operand, high: Operand) -> bool:
    """Whether the first of two numbers is negative, and the second the same without its sign."""
    if not isinstance(low, Constant) or not isinstance(high, Constant):
        return False
    element = cast(Element, element_of(high.type))
    return 0 < high.bits == low.bits ^ (1 << (element.bits - 1)) <= encode(element, float("inf"))


_MODES = {"rtne": "rn", "rtz": "rz", "to_nearest_even": "rn", "toward_zero": "rz"}


@rule("arith.truncf", "arith.extf", "tt.fp_to_fp")
def _float_cast(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    rounding = s.options.get("rounding") or next((w for w in s.words if w in _MODES), "rtne")
    if rounding not in _MODES:
        raise UnsupportedStatement(f"rounding {rounding} is not supported")
    to = cast(Element, element_of(s.result))
    options: dict[str, Any] = {} if _MODES[rounding] == "rn" else {"rounding": _MODES[rounding]}
    if to in (F8E4M3, F8E5M2) and not options:
        options["saturate"] = True
    return x.to(to, **options)


@rule("tt.bitcast", "arith.bitcast")
def _bitcast(f: RegionReader, s: Operation) -> Expr:
    (x,) = f.operands(s)
    return x if x.type is s.result else f.b.bitcast(x, s.result)


# Functions of libdevice -----------------------------------------------------------------------


@attrs.frozen
class _Scope:
    """The scope in which functions of `tl` are called."""

    b: Builder

    def call(self, *_: Any) -> Any:
        """Not called: these functions call no functions of the user."""
        raise NotImplementedError


@rule("tt.extern_elementwise")
def _extern(f: RegionReader, s: Operation) -> Expr:
    """The formula of the function for these operands, if there is one, else a call by its
    symbol."""
    from tileir.frontends.ttir.libdevice import function_of  # all formulas of Triton's language

    symbol, values = str(s.options.get("symbol", "")), f.operands(s)
    function = function_of(symbol)
    if function is not None:
        operands = (Tensor(x, _kind(x.type, function.unsigned)) for x in values)
        with suppress(KernelError):
            result = function.formula.apply(_Scope(f.b), *operands)
            return result.expr.to(element_of(s.result))
    pure = bool(s.options.get("pure", True))
    library = str(s.options.get("libname") or "libdevice")
    return f.b.extern_elementwise(s.result, values, symbol=symbol, library=library, pure=pure)


_KINDS: dict[Scalar, Any] = {
    k.element: k
    for k in (
        dtypes.int1, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float16,
        dtypes.bfloat16, dtypes.float32, dtypes.float64,
    )
}  # fmt: skip


_UNSIGNED: dict[Scalar, Any] = {
    k.element: k for k in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
}


def _kind(type: Type, unsigned: bool) -> Any:
    element = element_of(type)
    if isinstance(element, Pointer) or element not in _KINDS:
        raise UnsupportedStatement(f"a function of libdevice takes numbers, not {element}")
    return _UNSIGNED.get(element, _KINDS[element]) if unsigned else _KINDS[element]
