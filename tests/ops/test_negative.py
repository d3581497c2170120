"""Every rule of every op, broken once: the code and the operand named."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.errors import Location, VerifyError
from tileir.op import lookup
from tileir.ops.arith import DivRounding, Overflow
from tileir.ops.atomic import AtomicKind, Order
from tileir.ops.cast import CastRounding
from tileir.ops.compare import FloatPredicate, IntegerPredicate
from tileir.ops.descriptor import Padding
from tileir.ops.dot import Format, Precision
from tileir.ops.floats import Rounding
from tileir.ops.memory import Eviction, LoadCache, StoreCache
from tileir.ops.reduce import Combiner
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
    I32,
    I64,
    Descriptor,
    Tile,
    pointer,
    tile,
)  # fmt: skip
from tileir.values import Value, constant

HERE = Location("k.tir", 7, 3)


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
UNARY_FLOATS = ("fneg", "fabs", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
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
    ("dot", (v(F32, 4, 4), v(F32, 4, 4), v(BF16, 4, 4)), {}, "TIR0101", "c"),
    ("dot", (v(I32, 4, 4), v(I32, 4, 4), v(I32, 4, 4)), {}, "TIR0101", "a"),
]

RULES: list[Case] = [
    ("fadd", (v(F16), v(F16)), {"rounding": Rounding.ZERO}, "TIR0107", "rounding"),
    ("fmul", (v(BF16), v(BF16)), {"rounding": Rounding.UP}, "TIR0107", "rounding"),
    ("fsub", (v(F64), v(F64)), {"ftz": True}, "TIR0107", "ftz"),
    ("fdiv", (v(F16, 8), v(F16, 8)), {"ftz": True}, "TIR0107", "ftz"),
    ("fma", (v(F16),) * 3, {"rounding": Rounding.DOWN}, "TIR0107", "rounding"),
    ("fma", (v(F64),) * 3, {"ftz": True}, "TIR0107", "ftz"),
    ("icmp", (v(PF), v(PF)), {"predicate_": IntegerPredicate.SLT}, "TIR0108", "predicate"),
    ("icmp", (v(PF, 4), v(PF, 4)), {"predicate_": IntegerPredicate.SGE}, "TIR0108", "predicate"),
    ("trunc", (v(I32), I64), {}, "TIR0109", "to"),
    ("trunc", (v(I32), I32), {}, "TIR0109", "to"),
    ("trunc", (v(I32, 4), t(I8, 8)), {}, "TIR0101", "to"),
    ("trunc", (v(I32), F16), {}, "TIR0101", "to"),
    ("zext", (v(I32), I8), {}, "TIR0109", "to"),
    ("zext", (v(F32), I64), {}, "TIR0101", "value"),
    ("sext", (v(I32), I32), {}, "TIR0109", "to"),
    ("sext", (v(I8, 4), I32), {}, "TIR0101", "to"),
    ("fptrunc", (v(F32), F64), {}, "TIR0109", "to"),
    ("fptrunc", (v(F16), BF16), {}, "TIR0109", "to"),
    ("fptrunc", (v(F32), F8E4M3), {}, "TIR0101", "to"),
    ("fptrunc", (v(F32), F16), {"rounding": "rz"}, "TIR0106", "rounding"),
    ("fpext", (v(F32), F16), {}, "TIR0109", "to"),
    ("fpext", (v(F8E4M3), F16), {}, "TIR0101", "value"),
    ("fpcast", (v(F32), F32), {}, "TIR0109", "to"),
    ("fpcast", (v(I32), F32), {}, "TIR0101", "value"),
    ("fpcast", (v(F32), I32), {}, "TIR0101", "to"),
    ("fpcast", (v(F32), F8E5M2), {"saturate": 1}, "TIR0106", "saturate"),
    ("fpcast", (v(F32), F16), {"rounding": Rounding.ZERO}, "TIR0106", "rounding"),
    ("fptosi", (v(I32), I32), {}, "TIR0101", "value"),
    ("fptosi", (v(F32), F32), {}, "TIR0101", "to"),
    ("fptoui", (v(F32), I4), {}, "TIR0101", "to"),
    ("sitofp", (v(F32), F32), {}, "TIR0101", "value"),
    ("uitofp", (v(I32), I32), {}, "TIR0101", "to"),
    ("ptrtoint", (v(I64), I64), {}, "TIR0101", "value"),
    ("ptrtoint", (v(PF), F64), {}, "TIR0101", "to"),
    ("ptrtoint", (v(PF), I1), {}, "TIR0101", "to"),
    ("inttoptr", (v(F64), PF), {}, "TIR0101", "value"),
    ("inttoptr", (v(I64), I64), {}, "TIR0101", "to"),
    ("bitcast", (v(I32), F64), {}, "TIR0109", "to"),
    ("bitcast", (v(I64), PF), {}, "TIR0109", "to"),
    ("bitcast", (v(PF), pointer(I32, 3)), {}, "TIR0109", "to"),
    ("bitcast", (v(I32, 4), t(F32, 2, 2)), {}, "TIR0101", "to"),
    ("addrspacecast", (v(PF), pointer(I32, 0)), {}, "TIR0109", "to"),
    ("addrspacecast", (v(PF), pointer(F32, 3)), {}, "TIR0109", "to"),
    ("addrspacecast", (v(PF), PF), {}, "TIR0109", "to"),
    ("addrspacecast", (v(I64), PF), {}, "TIR0101", "value"),
    ("load", (v(PF),), {"cache": LoadCache.CG, "eviction": Eviction.FIRST}, "TIR0110", "eviction"),
    ("load", (v(PF),), {"cache": LoadCache.CA, "eviction": Eviction.LAST}, "TIR0110", "eviction"),
    ("load", (v(PF),), {"cache": LoadCache.CV, "volatile": True}, "TIR0110", "volatile"),
    ("load", (v(PF),), {"eviction": Eviction.LAST, "volatile": True}, "TIR0110", "volatile"),
    ("load", (v(PF),), {"cache": StoreCache.WB}, "TIR0106", "cache"),
    ("load", (v(PF), None, v(F32)), {}, "TIR0111", "other"),
    ("store", (v(PF), v(F32)), {"cache": StoreCache.WT, "eviction": Eviction.FIRST}, "TIR0110",
     "eviction"),
    ("store", (v(PF), v(F32)), {"cache": StoreCache.CS, "volatile": True}, "TIR0110", "volatile"),
    ("make_range", (t(I32, 4, 4),), {}, "TIR0112", "to"),
    ("make_range", (t(I8, 8),), {"start": 125}, "TIR0113", "start"),
    ("make_range", (t(I8, 8),), {"start": -129}, "TIR0113", "start"),
    ("make_range", (t(I16, 7),), {"start": True}, "TIR0106", "start"),
    ("broadcast", (v(F32, 2), t(F32, 4)), {}, "TIR0112", "to"),
    ("broadcast", (v(F32, 1), t(F32, 4, 1)), {}, "TIR0112", "to"),
    ("broadcast", (v(F32, 4, 1), t(F32, 8, 8)), {}, "TIR0112", "to"),
    ("reshape", (v(F32, 8), t(F32, 3, 3)), {}, "TIR0112", "to"),
    ("expand_dims", (v(F32, 8),), {"axis": 2}, "TIR0114", "axis"),
    ("expand_dims", (v(F32, 8),), {"axis": -1}, "TIR0114", "axis"),
    ("trans", (v(F32, 4, 8),), {"order": (0, 0)}, "TIR0114", "order"),
    ("trans", (v(F32, 4, 8),), {"order": (1,)}, "TIR0114", "order"),
    ("trans", (v(F32, 4, 8),), {"order": (1, 2)}, "TIR0114", "order"),
    ("trans", (v(F32, 4, 8),), {"order": (1, "0")}, "TIR0106", "order"),
    ("split", (v(F32, 4),), {}, "TIR0112", "value"),
    ("split", (v(F32, 2, 3),), {}, "TIR0112", "value"),
    ("cat", (v(F32, 4), v(F32, 4)), {"axis": 1}, "TIR0114", "axis"),
    ("cat", (v(F32, 4), v(F16, 4)), {}, "TIR0112", "high"),
    ("cat", (v(F32, 4, 2), v(F32, 4, 3)), {"axis": 0}, "TIR0112", "high"),
    ("cat", (v(F32, 4), v(F32, 4, 1)), {}, "TIR0112", "high"),
    ("gather", (v(F32, 4), v(I32, 4)), {"axis": 1}, "TIR0114", "axis"),
    ("gather", (v(F32, 4, 8), v(I32, 4)), {"axis": 0}, "TIR0112", "index"),
    ("gather", (v(F32, 4, 8), v(I32, 2, 4)), {"axis": 0}, "TIR0112", "index"),
    ("extract_slice", (v(F32, 4), t(F32, 2)), {"offsets": ()}, "TIR0112", "offsets"),
    ("extract_slice", (v(F32, 4), t(F16, 2)), {"offsets": (INDEX,)}, "TIR0101", "to"),
    ("extract_slice", (v(F32, 4), t(F32, 5)), {"offsets": (INDEX,)}, "TIR0112", "to"),
    ("extract_slice", (v(F32, 4), t(F32, 2, 1)), {"offsets": (INDEX,)}, "TIR0112", "to"),
    ("extract_slice", (v(F32, 4), t(F32, 2)), {"offsets": (INDEX,), "strides": (4,)}, "TIR0112",
     "to"),
    ("extract_slice", (v(F32, 4), t(F32, 2)), {"offsets": (INDEX,), "strides": (0,)}, "TIR0114",
     "strides"),
    ("extract_slice", (v(F32, 4), t(F32, 2)), {"offsets": (INDEX,), "strides": (1, 1)}, "TIR0114",
     "strides"),
    ("extract_slice", (v(F32, 4), t(F32, 2)), {"offsets": (v(I64),)}, "TIR0101", "offsets"),
    ("insert_slice", (v(F32, 4), v(F16, 2)), {"offsets": (INDEX,)}, "TIR0101", "small"),
    ("insert_slice", (v(F32, 4), v(F32, 5)), {"offsets": (INDEX,)}, "TIR0112", "small"),
    ("insert_slice", (v(F32, 4, 4), v(F32, 2, 2)), {"offsets": (INDEX,)}, "TIR0112", "offsets"),
    ("unsplat", (v(F32, 2),), {}, "TIR0112", "value"),
    ("unsplat", (v(F32),), {}, "TIR0101", "value"),
    ("reduce", (), {"combiner": Combiner.ADD}, "TIR0117", "values"),
    ("reduce", (v(I32, 4), v(I32, 4)), {"_variadic": "values", "combiner": Combiner.ADD},
     "TIR0117", "values"),
    ("reduce", (v(I32, 4), v(I32, 8)), {"_variadic": "values", "combiner": "f"}, "TIR0112",
     "values"),
    ("reduce", (v(I32, 4),), {"_variadic": "values", "combiner": Combiner.FADD}, "TIR0115",
     "combiner"),
    ("reduce", (v(F32, 4),), {"_variadic": "values", "combiner": Combiner.SMAX}, "TIR0115",
     "combiner"),
    ("reduce", (v(F8E4M3, 4),), {"_variadic": "values", "combiner": Combiner.FADD}, "TIR0115",
     "combiner"),
    ("reduce", (v(F32, 4),), {"_variadic": "values", "combiner": Combiner.FADD, "axis": 1},
     "TIR0114", "axis"),
    ("reduce", (v(F32, 4),), {"_variadic": "values", "combiner": 3}, "TIR0106", "combiner"),
    ("scan", (v(F32, 4),), {"_variadic": "values", "combiner": Combiner.XOR}, "TIR0115",
     "combiner"),
    ("scan", (v(F32, 4),), {"_variadic": "values", "combiner": Combiner.FADD, "axis": -1},
     "TIR0114", "axis"),
    ("histogram", (v(I32, 8), t(I32, 2, 2)), {}, "TIR0112", "to"),
    ("dot", (v(F32, 4), v(F32, 4), v(F32, 4)), {}, "TIR0112", "a"),
    ("dot", (v(F32, 4, 8), v(F32, 4, 8), v(F32, 4, 8)), {}, "TIR0112", "b"),
    ("dot", (v(F32, 4, 8), v(F32, 8, 4), v(F32, 4, 5)), {}, "TIR0112", "c"),
    ("dot", (v(F32, 2, 4, 8), v(F32, 8, 4), v(F32, 2, 4, 4)), {}, "TIR0112", "b"),
    ("dot", (v(F32, 2, 4, 8), v(F32, 3, 8, 4), v(F32, 2, 4, 4)), {}, "TIR0112", "b"),
    ("dot", (v(F16, 4, 8), v(BF16, 8, 4), v(F32, 4, 4)), {}, "TIR0115", "b"),
    ("dot", (v(F16, 4, 8), v(F16, 8, 4), v(I32, 4, 4)), {}, "TIR0115", "c"),
    ("dot", (v(I8, 4, 8), v(I8, 8, 4), v(F32, 4, 4)), {}, "TIR0115", "c"),
    ("dot", (v(F64, 4, 8), v(F64, 8, 4), v(F32, 4, 4)), {}, "TIR0115", "c"),
    ("dot", (v(F16, 4, 8), v(F16, 8, 4), v(F32, 4, 4)), {"precision": Precision.TF32}, "TIR0115",
     "precision"),
    ("dot", (v(F32, 4, 8), v(F32, 8, 4), v(F32, 4, 4)), {"max_imprecise": 32}, "TIR0115",
     "max_imprecise"),
    ("dot", (v(F8E4M3, 4, 8), v(F8E4M3, 8, 4), v(F32, 4, 4)), {"max_imprecise": -1}, "TIR0115",
     "max_imprecise"),
    ("dot", (v(F32, 4, 8), v(F32, 8, 4), v(F32, 4, 4)), {"lhs_signed": False}, "TIR0115",
     "lhs_signed"),
    ("dot", (v(F32, 4, 8), v(F32, 8, 4), v(F32, 4, 4)), {"rhs_signed": False}, "TIR0115",
     "rhs_signed"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F32, 4, 4)),
     {"lhs": Format.BF16, "rhs": Format.F16}, "TIR0115", "a"),
    ("dot_scaled", (v(F16, 4, 32), v(F8E5M2, 32, 4), v(F32, 4, 4)),
     {"lhs": Format.F16, "rhs": Format.E4M3}, "TIR0115", "b"),
    ("dot_scaled", (v(F4E2M1, 4, 32), v(F16, 32, 4), v(F32, 4, 4)),
     {"lhs": Format.E2M1, "rhs": Format.F16, "lhs_k_pack": False}, "TIR0115", "lhs_k_pack"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F32, 4, 4)),
     {"lhs": Format.F16, "rhs": Format.F16, "rhs_k_pack": False}, "TIR0115", "rhs_k_pack"),
    ("dot_scaled", (v(I8, 4, 32), v(F16, 32, 4), v(F32, 4, 4)),
     {"lhs": Format.E2M1, "rhs": Format.F16}, "TIR0112", "b"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F32, 4, 4), v(F8E8M0, 4, 3)),
     {"lhs": Format.F16, "rhs": Format.F16}, "TIR0112", "a_scale"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F32, 4, 4), None, v(F8E8M0, 1, 4)),
     {"lhs": Format.F16, "rhs": Format.F16}, "TIR0112", "b_scale"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F16, 4, 4)),
     {"lhs": Format.F16, "rhs": Format.F16}, "TIR0101", "c"),
    ("dot_scaled", (v(F16, 4, 32), v(F16, 32, 4), v(F32, 4, 4), v(F32, 4, 1)),
     {"lhs": Format.F16, "rhs": Format.F16}, "TIR0101", "a_scale"),
    ("atomic_rmw", (v(PF), v(F32)), {"op": AtomicKind.ADD}, "TIR0115", "op"),
    ("atomic_rmw", (v(P32), v(I32)), {"op": AtomicKind.FADD}, "TIR0115", "op"),
    ("atomic_rmw", (v(PF), v(F32)), {"op": AtomicKind.SMAX}, "TIR0115", "op"),
    ("atomic_rmw", (v(PF), v(F32)), {"op": AtomicKind.AND}, "TIR0115", "op"),
    ("atomic_rmw", (v(P32), v(I32)), {"op": AtomicKind.FMAX}, "TIR0115", "op"),
    ("atomic_rmw", (v(pointer(I64)), v(I64)), {"op": AtomicKind.INC}, "TIR0115", "op"),
    ("atomic_rmw", (v(pointer(I8)), v(I8)), {"op": AtomicKind.XCHG}, "TIR0115", "op"),
    ("atomic_rmw", (v(pointer(I16)), v(I16)), {"op": AtomicKind.ADD}, "TIR0115", "op"),
    ("atomic_rmw", (v(pointer(F8E5M2)), v(F8E5M2)), {"op": AtomicKind.FADD}, "TIR0115", "op"),
    ("atomic_cas", (v(pointer(I8)), v(I8), v(I8)), {}, "TIR0115", "pointer"),
    ("atomic_load", (v(pointer(I1)),), {}, "TIR0115", "pointer"),
    ("atomic_store", (v(pointer(F8E4M3)), v(F8E4M3)), {}, "TIR0115", "pointer"),
    ("atomic_load", (v(P32),), {"sem": Order.RELEASE}, "TIR0116", "sem"),
    ("atomic_load", (v(P32),), {"sem": Order.BOTH}, "TIR0116", "sem"),
    ("atomic_store", (v(P32), v(I32)), {"sem": Order.ACQUIRE}, "TIR0116", "sem"),
    ("atomic_store", (v(P32), v(I32)), {"sem": Order.BOTH}, "TIR0116", "sem"),
    ("fence", (), {"sem": Order.RELAXED}, "TIR0116", "sem"),
    ("barrier", (), {"predicate": v(I1)}, "TIR0103", "predicate"),
    ("program_id", (), {"axis": 3}, "TIR0114", "axis"),
    ("program_id", (), {"axis": -1}, "TIR0114", "axis"),
    ("num_programs", (), {"axis": 3}, "TIR0114", "axis"),
    ("multiple_of", (v(I32, 4, 4),), {"values": (4,)}, "TIR0117", "values"),
    ("contiguous", (v(I32, 4),), {"values": (0,)}, "TIR0113", "values"),
    ("constant_run", (v(PF, 4),), {"values": (4, 1)}, "TIR0117", "values"),
    ("multiple_of", (v(I32),), {"values": ()}, "TIR0117", "values"),
    ("psi", (), {}, "TIR0117", "arms"),
    ("psi", (v(I1), v(F32), v(I1)), {"_variadic": "arms"}, "TIR0105", "arms"),
    ("psi", (v(I1, 4), v(F32, 8)), {"_variadic": "arms"}, "TIR0104", "arms"),
    ("psi", (v(I1), v(F32), v(I1), v(F16)), {"_variadic": "arms"}, "TIR0101", "arms"),
    ("psi", (v(I8), v(F32)), {"_variadic": "arms"}, "TIR0101", "arms"),
    ("extern_elementwise", (t(F32, 4),), {"symbol": "f(", "values": (v(F32, 4),)}, "TIR0106",
     "symbol"),
    ("extern_elementwise", (t(F32, 4),), {"symbol": "", "values": (v(F32, 4),)}, "TIR0106",
     "symbol"),
    ("extern_elementwise", (t(F32, 4),), {"symbol": "f", "values": (v(F32, 8),)}, "TIR0112",
     "values"),
    ("inline_asm", ((t(F32, 4),),), {"text": "", "constraints": "", "values": (v(F32),)}, "TIR0112",
     "values"),
    ("inline_asm", ((F32,),), {"text": "", "constraints": "", "pack": 3}, "TIR0113", "pack"),
    ("inline_asm", ((),), {"text": "", "constraints": ""}, "TIR0117", "pure"),
    ("make_descriptor", (v(pointer(F32)), D1.type), {"dimensions": (INDEX,) * 4}, "TIR0101", "base"),
    ("make_descriptor", (v(pointer(F16)), D1.type), {"dimensions": (INDEX,) * 2}, "TIR0117",
     "dimensions"),
    ("make_descriptor", (v(pointer(F16)), D1.type), {"dimensions": (v(I16),) * 4}, "TIR0101",
     "dimensions"),
    ("make_descriptor", (v(pointer(I32)), DI.type),
     {"dimensions": (INDEX,) * 2, "padding": Padding.NAN}, "TIR0115", "padding"),
    ("make_descriptor", (v(pointer(F16)), t(F16, 4)), {"dimensions": (INDEX,) * 2}, "TIR0101", "to"),
    ("descriptor_load", (D2, INDEX), {"_variadic": "indices"}, "TIR0117", "indices"),
    ("descriptor_store", (D2, v(F16, 4, 4)), {"indices": (INDEX, INDEX)}, "TIR0101", "value"),
    ("descriptor_store", (D2, v(F16, 4, 8)), {"indices": (INDEX,)}, "TIR0117", "indices"),
    ("descriptor_reduce", (DI, v(I32, 8)), {"indices": (INDEX,), "op": AtomicKind.FADD}, "TIR0115",
     "op"),
    ("descriptor_reduce", (DI, v(I32, 4)), {"indices": (INDEX,), "op": AtomicKind.ADD}, "TIR0101",
     "value"),
    ("descriptor_gather", (D2, v(I32, 4), INDEX), {}, "TIR0112", "descriptor"),
    ("descriptor_gather", (D1, v(I32, 4, 4), INDEX), {}, "TIR0112", "index"),
    ("descriptor_gather", (D1, v(I64, 4), INDEX), {}, "TIR0101", "index"),
    ("descriptor_scatter", (D1, v(F16, 4, 4), v(I32, 4), INDEX), {}, "TIR0101", "value"),
    ("descriptor_scatter", (D2, v(F16, 4, 8), v(I32, 4), INDEX), {}, "TIR0112", "descriptor"),
]  # fmt: skip

GENERAL: list[Case] = [
    ("sdiv", ROW, {"rounding": "floor"}, "TIR0106", "rounding"),
    ("srem", ROW, {"rounding": DivRounding.CEIL}, "TIR0106", "rounding"),
    ("add", ROW, {"overflow": 1}, "TIR0106", "overflow"),
    ("mul", (v(I32), 3), {"overflow": Overflow.NSW}, "TIR0105", "rhs"),
    ("fptrunc", (None, F16), {"rounding": CastRounding.ZERO}, "TIR0105", "value"),
    ("load", (v(PF, 8),), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("store", (v(PF, 8), v(F32, 8)), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("store", (v(PF), v(F32)), {"predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("reduce", (v(F32, 8),), {"_variadic": "values", "combiner": Combiner.FADD,
                              "predicate": v(I1, 4)}, "TIR0104", "predicate"),
    ("fadd", FROW, {"predicate": v(I32)}, "TIR0104", "predicate"),
    ("descriptor_load", (DI,), {"indices": (INDEX,), "predicate": v(I1, 8)}, "TIR0104",
     "predicate"),
    ("exp", (v(F32, 8),), {"results": (Value(t(F32, 4)),)}, "TIR0102", "results"),
    ("split", (v(F32, 8, 2),), {"results": (Value(t(F32, 8)),)}, "TIR0102", "results"),
    ("icmp", ROW, {"predicate_": IntegerPredicate.EQ, "results": (Value(t(I1, 8)),)}, "TIR0102",
     "results"),
    ("store", (v(PF), v(F32)), {"results": (v(F32),)}, "TIR0102", "results"),
]  # fmt: skip

CASES = TYPES + RULES + GENERAL


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{n}")
def test_a_broken_rule_is_named(number: int) -> None:
    name, arguments, settings, code, operand = CASES[number]
    with pytest.raises(VerifyError) as caught:
        build(name, arguments, settings)
    found = caught.value.diagnostics[0]
    assert (found.code, found.operand) == (code, operand), found
    assert (caught.value.line, caught.value.column) == (7, 3)
    assert found.message.startswith(name)


def build(name: str, arguments: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The op; `_variadic` names the field that takes what is left of the arguments."""
    kind: Any = lookup(name)
    given = dict(settings)
    many = given.pop("_variadic", None)
    if many is not None:
        fields = [f.name for f in kind.schema if f.name != many]
        single = 0 if many in ("values", "arms") else 1
        given[many] = arguments[single:]
        given.update(zip(fields, arguments[:single], strict=False))
        arguments = ()
    return kind(*arguments, **given, location=HERE)


def test_the_cases_are_many_and_differ() -> None:
    keys = {(n, c, o, str(a), str(s)) for n, a, s, c, o in CASES}
    assert len(keys) == len(CASES) >= 150
    assert {f"TIR01{n:02}" for n in range(1, 18)} <= {c[3] for c in CASES}


def test_literals_fit_like_values() -> None:
    kind: Any = lookup("add")
    assert kind(v(I32), constant(I32, 1)).result.type is I32
