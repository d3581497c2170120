"""Ops of TTIR that correspond to one op of the IR, for reading and writing."""

ELEMENTWISE = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.andi": "and",
    "arith.ori": "or", "arith.xori": "xor", "arith.shli": "shl", "arith.shrsi": "ashr",
    "arith.shrui": "lshr", "arith.divsi": "sdiv", "arith.divui": "udiv", "arith.remsi": "srem",
    "arith.remui": "urem", "arith.minsi": "smin", "arith.maxsi": "smax", "arith.minui": "umin",
    "arith.maxui": "umax", "tt.mulhiui": "umulhi", "arith.addf": "fadd", "arith.subf": "fsub",
    "arith.mulf": "fmul", "arith.remf": "frem", "arith.minimumf": "fminimum",
    "arith.maximumf": "fmaximum", "arith.minnumf": "fminnum", "arith.maxnumf": "fmaxnum",
    "math.absf": "fabs", "math.absi": "iabs", "math.fma": "fma", "math.floor": "floor",
    "math.ceil": "ceil",
}  # fmt: skip
"""Ops whose operands and result have one type."""

CASTS = {
    "arith.extsi": "sext", "arith.extui": "zext", "arith.trunci": "trunc",
    "arith.sitofp": "sitofp", "arith.uitofp": "uitofp", "arith.fptosi": "fptosi",
    "arith.fptoui": "fptoui",
}  # fmt: skip

ADDRESS_CASTS = {"tt.int_to_ptr": "inttoptr", "tt.ptr_to_int": "ptrtoint"}

ATOMIC_OPERATIONS = {
    "and": "and", "or": "or", "xor": "xor", "add": "add", "fadd": "fadd", "max": "smax",
    "min": "smin", "umax": "umax", "umin": "umin", "exch": "xchg",
}  # fmt: skip
"""Operations of `atomic_rmw`."""
