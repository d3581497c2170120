"""Operands of the wrong type, one per op and operand at least."""

from __future__ import annotations

from typing import Any

from tileir.ops.arith import FloatPredicate, IntegerPredicate
from tileir.ops.atomic import AtomicKind
from tileir.ops.reduce import Combiner
from tileir.types import (
    BF16,
    F8E4M3,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I32,
    I64,
    Descriptor,
    Tile,
    pointer,
    tile,
)  # fmt: skip
from tileir.values import Value


def v(element: Any, *shape: int) -> Value:
    return Value(tile(element, shape))


def t(element: Any, *shape: int) -> Any:
    return tile(element, shape)


P32, PF = pointer(I32), pointer(F32)
ROW = (v(I32, 8), v(I32, 8))
FROW = (v(F32, 8), v(F32, 8))
D2 = Value(Descriptor(Tile(F16, (4, 8))))
D1 = Value(Descriptor(Tile(F16, (1, 8))))
DI = Value(Descriptor(Tile(I32, (8,))))
INDEX = v(I32)

INTEGER_OPS = ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "smulhi", "umulhi", "and", "or",
               "xor", "shl", "lshr", "ashr", "smin", "smax", "umin", "umax")  # fmt: skip
FLOAT_OPS = ("fadd", "fsub", "fmul", "fdiv", "frem", "copysign", "fminimum", "fmaximum", "fminnum",
             "fmaxnum", "pow", "atan2")  # fmt: skip
UNARY_FLOATS = ("fneg", "fabs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin",
 "cos",
                "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
                "erf", "erfc", "sqrt", "rsqrt", "cbrt", "floor", "ceil", "ftrunc", "fround",
                "frint")  # fmt: skip
UNARY_INTEGERS = ("neg", "iabs", "ctpop", "clz")

Case = tuple[str, tuple[Any, ...], dict[str, Any], str, str]

TYPES: list[Case] = [
    *((n, (v(F32, 8), v(F32, 8)), {}, "TIR0101", "lhs") for n in INTEGER_OPS),
    *((n, (v(I32, 8), v(I32, 4)), {}, "TIR0101", "rhs") for n in INTEGER_OPS),
    *((n, (v(I32, 8), v(I32, 8)), {}, "TIR0101", "lhs") for n in FLOAT_OPS),
    *((n, (v(F32, 8), v(F32)), {}, "TIR0101", "rhs") for n in FLOAT_OPS),
    *((n, (v(I32, 8),), {}, "TIR0101", "value") for n in UNARY_FLOATS),
    *((n, (v(F32, 8),), {}, "TIR0101", "value") for n in UNARY_INTEGERS),
    ("add", (v(I4), v(I4)), {}, "TIR0101", "lhs"),
    ("add", (v(PF), v(PF)), {}, "TIR0101", "lhs"),
    ("fadd", (v(F8E4M3), v(F8E4M3)), {}, "TIR0101", "lhs"),
    ("fma", (v(F32), v(F32), v(F64)), {}, "TIR0101", "c"),
    ("fma", (v(I32), v(I32), v(I32)), {}, "TIR0101", "a"),
    ("clampf", (v(F32), v(F32), v(F16)), {}, "TIR0101", "high"),
    ("icmp", FROW, {"predicate_": IntegerPredicate.EQ}, "TIR0101", "lhs"),
    ("icmp", (v(I32), v(I64)), {"predicate_": IntegerPredicate.EQ}, "TIR0101", "rhs"),
    ("icmp", ROW, {"predicate_": FloatPredicate.OEQ}, "TIR0106", "predicate_"),
    ("fcmp", ROW, {"predicate_": FloatPredicate.OEQ}, "TIR0101", "lhs"),
    ("fcmp", FROW, {"predicate_": "olt"}, "TIR0106", "predicate_"),
    ("select", (v(I1, 4), v(F32, 8), v(F32, 8)), {}, "TIR0101", "condition"),
    ("select", (v(I1), v(F32, 8), v(F32, 8)), {}, "TIR0101", "condition"),
    ("select", (v(I8), v(F32), v(F32)), {}, "TIR0101", "condition"),
    ("select", (v(I1), v(F32), v(F64)), {}, "TIR0101", "otherwise"),
    ("getelementptr", (v(I32, 8), v(I32, 8)), {}, "TIR0101", "pointer"),
    ("getelementptr", (v(PF, 8), v(F32, 8)), {}, "TIR0101", "index"),
    ("getelementptr", (v(PF, 8), v(I32, 4)), {}, "TIR0101", "index"),
    ("getelementptr", (v(PF, 8), v(I1, 8)), {}, "TIR0101", "index"),
    ("load", (v(I32, 8),), {}, "TIR0101", "pointer"),
    ("load", (v(PF, 8), v(I1, 4)), {}, "TIR0101", "mask"),
    ("load", (v(PF, 8), v(I1, 8), v(F16, 8)), {}, "TIR0101", "other"),
    ("store", (v(PF, 8), v(I32, 8)), {}, "TIR0101", "value"),
    ("store", (v(PF, 8), v(F32, 8), v(I1)), {}, "TIR0101", "mask"),
    ("store", (v(PF, 8), v(F32)), {}, "TIR0101", "value"),
    ("atomic_rmw", (v(P32), v(I64)), {"op": AtomicKind.ADD}, "TIR0101", "value"),
    ("atomic_cas", (v(P32), v(I64), v(I32)), {}, "TIR0101", "compare"),
    ("atomic_cas", (v(P32), v(I32), v(I64)), {}, "TIR0101", "value"),
    ("atomic_load", (v(I32),), {}, "TIR0101", "pointer"),
    ("atomic_store", (v(P32), v(F32)), {}, "TIR0101", "value"),
    ("assume", (v(I32),), {}, "TIR0101", "condition"),
    ("assert", (v(I8),), {}, "TIR0101", "condition"),
    ("print", (D1,), {"_variadic": "values"}, "TIR0101", "values"),
    ("multiple_of", (v(F32),), {"values": (2,)}, "TIR0101", "value"),
    ("histogram", (v(F32, 8), t(I32, 4)), {}, "TIR0101", "value"),
    ("histogram", (v(I32, 8), t(F32, 4)), {}, "TIR0101", "to"),
    ("histogram", (v(I32, 8), t(I32, 4), v(I1, 4)), {}, "TIR0101", "mask"),
    ("gather", (v(F32, 8), v(F32, 8)), {}, "TIR0101", "index"),
    ("expand_dims", (v(F32),), {"axis": 0}, "TIR0101", "value"),
    ("trans", (v(F32),), {"order": ()}, "TIR0101", "value"),
    ("split", (v(F32),), {}, "TIR0101", "value"),
    ("reduce", (v(F32),), {"_variadic": "values", "combiner": Combiner.FADD}, "TIR0101", "values"),
    ("descriptor_load", (v(PF), INDEX), {"_variadic": "indices"}, "TIR0101", "descriptor"),
    ("descriptor_load", (D1, INDEX, v(I64)), {"_variadic": "indices"}, "TIR0101", "indices"),
    ("join", (v(F32), v(F16)), {}, "TIR0101", "high"),
    ("splat", (v(F32), t(F16, 8)), {}, "TIR0101", "value"),
    ("splat", (v(F32, 8), t(F32, 8)), {}, "TIR0101", "value"),
    ("splat", (v(F32), F32), {}, "TIR0101", "to"),
    ("broadcast", (v(F32, 1), t(F16, 8)), {}, "TIR0101", "to"),
    ("reshape", (v(F32, 8), t(I32, 8)), {}, "TIR0101", "to"),
    ("make_range", (t(F32, 8),), {}, "TIR0101", "to"),
    ("make_range", (I32,), {}, "TIR0101", "to"),
    ("global_address", (F32, "x"), {}, "TIR0101", "to"),
    ("global_address", (pointer(F32, 0), "x"), {}, "TIR0101", "to"),
    ("global_address", (pointer(F32, 3), "x"), {}, "TIR0101", "to"),
    ("dot", (v(F32, 4, 4), v(F32, 4, 4), v(BF16, 4, 4)), {}, "TIR0101", "c"),
    ("dot", (v(I32, 4, 4), v(I32, 4, 4), v(I32, 4, 4)), {}, "TIR0101", "a"),
]
