"""Every op on elements, every combiner of reductions and scans and every atomic operation of TTIR,
with numbers at the ends of their types, next to Python's numbers."""

from __future__ import annotations

import math
import operator
import re
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from .programs import DTYPES, Kernel

LANES = 256


def pairs(values):
    """Two lists with every pair of `values`, and then the first pair again and again."""
    both = [(x, y) for x in values for y in values]
    both += both[:1] * (LANES - len(both))
    return [x for x, _ in both], [y for _, y in both]


# Integers -------------------------------------------------------------------------------------


def as_signed(x, bits):
    """`x` as a number of so many bits."""
    return (x + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def integers(bits):
    """Numbers at both ends, at the middle between them and 0, and around 0."""
    top = 1 << (bits - 1)
    return [-top, 1 - top, -7, -2, -1, 0, 1, 2, 3, 7, top // 2, top - 2, top - 1]


def quotient(x, y):
    return math.trunc(Fraction(x, y))


BINARY = {
    "addi": operator.add, "subi": operator.sub, "muli": operator.mul, "andi": operator.and_,
    "ori": operator.or_, "xori": operator.xor, "minsi": min, "maxsi": max, "minui": min,
    "maxui": max,
}  # fmt: skip
DIVISIONS = {
    "divsi": quotient, "divui": operator.floordiv, "remsi": lambda x, y: x - y * quotient(x, y),
    "remui": operator.mod, "floordivsi": operator.floordiv, "ceildivsi": lambda x, y: -(-x // y),
    "ceildivui": lambda x, y: -(-x // y),
}  # fmt: skip
SHIFTS = {"shli": operator.lshift, "shrsi": operator.rshift, "shrui": operator.rshift}
RELATIONS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def values_of(function, is_unsigned, bits, *columns):
    """`function` of each row of numbers of so many bits, which it takes as unsigned or signed."""
    rows = zip(*columns, strict=True)
    return [function(*(x % (1 << bits) if is_unsigned else x for x in row)) for row in rows]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integers(bits):
    kind = f"i{bits}"
    x, y = pairs(integers(bits))
    overflows = [b == 0 or (a, b) == (-(1 << (bits - 1)), -1) for a, b in zip(x, y, strict=True)]
    d = [3 if bad else b for b, bad in zip(y, overflows, strict=True)]
    n = [b % bits for b in y]
    k = Kernel(LANES, x=(kind, x), y=(kind, y), d=(kind, d), n=(kind, n))
    for table, name, second in ((BINARY, "y", y), (DIVISIONS, "d", d), (SHIFTS, "n", n)):
        for op, function in table.items():
            values = values_of(function, op.endswith("ui"), bits, x, second)
            text = f"arith.{op} %x, %{name} : {k.tensor(kind)}"
            k.add(op, kind, text, [as_signed(v, bits) for v in values])
    for relation in RELATIONS:
        k.statements.append(f"%is_{relation} = arith.cmpi {relation}, %x, %y : {k.tensor(kind)}")
        text = f"arith.extui %is_{relation} : {k.tensor('i1')} to {k.tensor('i8')}"
        values = values_of(getattr(operator, relation[-2:]), relation[0] == "u", bits, x, y)
        k.add(relation, "i8", text, values)
    for name, function in (("ctpop", int.bit_count), ("ctlz", lambda a: bits - a.bit_length())):
        k.add(name, kind, f"math.{name} %x : {k.tensor(kind)}", values_of(function, True, bits, x))
    k.add("absi", kind, f"math.absi %x : {k.tensor(kind)}", [as_signed(abs(a), bits) for a in x])
    if bits >= 32:
        values = values_of(lambda a, b: as_signed(a * b >> bits, bits), True, bits, x, y)
        k.add("mulhiui", kind, f"tt.mulhiui %x, %y : {k.tensor(kind)}", values)
    k.check()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_conversions_of_integers(bits):
    kind, x = f"i{bits}", pairs(integers(bits))[0]
    k = Kernel(LANES, x=(kind, x))
    for other in sorted({8, 16, 32, 64} - {bits}):
        for op in ("trunci",) if other < bits else ("extsi", "extui"):
            values = values_of(lambda a: as_signed(a, other), op == "extui", bits, x)  # noqa: B023
            text = f"arith.{op} %x : {k.tensor(kind)} to {k.tensor(f'i{other}')}"
            k.add(f"{op}{other}", f"i{other}", text, values)
    for op in ("sitofp", "uitofp"):
        for to in ("f32", "f64"):
            text = f"arith.{op} %x : {k.tensor(kind)} to {k.tensor(to)}"
            k.add(f"{op}{to}", to, text, values_of(lambda a: a, op == "uitofp", bits, x))
    k.check()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_floats_become_integers(bits):
    top = 1 << (bits - 1)
    near = [-top, 1 - top, -2.5, -1.5, -1, -0.5, -0.0, 0.5, 1.5, 2.5, 100, top // 2 + 0.5]
    above = [0.5, 1.5, 100, top, top + top // 2, 2 * top - (2048 if bits == 64 else 1)]
    x, y = ([*map(float, some), *[0.0] * (32 - len(some))] for some in (near, above))
    k = Kernel(32, x=("f64", x), y=("f64", y))
    kind = f"i{bits}"
    for op, name, values in (("fptosi", "x", x), ("fptoui", "y", y)):
        text = f"arith.{op} %{name} : {k.tensor('f64')} to {k.tensor(kind)}"
        k.add(op, kind, text, [as_signed(int(v), bits) for v in values])
    k.check()


@pytest.mark.parametrize("op", [*DIVISIONS, *SHIFTS])
def test_functions_of_elements(op):
    """`tt.map_elementwise`: a division by what is 0 for some elements, which do not reach it."""
    bits = 32
    x, y = pairs(integers(bits))
    n = [b % bits if op in SHIFTS else 5 if b == -1 else b for b in y]
    k = Kernel(LANES, x=("i32", x), n=("i32", n))
    i = k.tensor("i32")
    function = {**DIVISIONS, **SHIFTS}[op]
    for name, divisor in (("always", "%three"), ("where", "%b")):
        inner = f"%q = arith.{op} %a, {divisor} : i32"
        yielded = [inner, "%r = arith.addi %q, %three : i32"]
        if name == "where":
            yielded = [
                "%reached = arith.cmpi ne, %b, %zero : i32",
                "%r = scf.if %reached -> (i32) {", inner, "scf.yield %q : i32",
                "} else {", "scf.yield %three : i32", "}",
            ]  # fmt: skip
        lines = ["%zero = arith.constant 0 : i32", "%three = arith.constant 3 : i32", *yielded]
        body = "\n".join([*lines, "tt.map_elementwise.return %r : i32"])
        block = f"({{\n^bb0(%a: i32, %b: i32):\n{body}\n}})"
        text = f'"tt.map_elementwise"(%x, %n) <{{pack = 1 : i32}}> {block} : ({i}, {i}) -> {i}'
        if name == "always":
            values = [v + 3 for v in values_of(function, op.endswith("ui"), bits, x, [3] * LANES)]
        else:
            reached = [(a, b) for a, b in zip(x, n, strict=True) if b]
            results = iter(
                values_of(function, op.endswith("ui"), bits, *zip(*reached, strict=True))
            )
            values = [next(results) if b else 3 for b in n]
        k.add(name, "i32", text, [as_signed(v, bits) for v in values])
    k.check()


# Floats ---------------------------------------------------------------------------------------

FLOATS = [
    -math.inf, -1e4, -2.5, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, 1e4, math.inf, math.nan,
]  # fmt: skip
FLOAT_BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.remf": np.fmod, "math.copysign": np.copysign,
}  # fmt: skip
FLOAT_UNARY = {
    "absf": np.abs, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "roundeven": np.rint, "sqrt": np.sqrt,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip


EXTREMES = ("minimumf", "maximumf", "minnumf", "maxnumf")


def extreme(name, x, y):
    """A minimum or maximum: -0.0 is less than 0.0, NaN is the result of "imum" if either is."""
    if math.isnan(x) or math.isnan(y):
        return math.nan if "imum" in name or (x != x and y != y) else y if x != x else x
    choose = min if "min" in name else max
    return choose(x, y, key=lambda v: (v, math.copysign(1, v)))


def holds(relation, x, y):
    """Whether a relation holds: `o` and `u` begin the ones that are false and true of NaN."""
    unordered = x != x or y != y
    if relation in ("ord", "uno"):
        return unordered == (relation == "uno")
    return relation[0] == "u" if unordered else getattr(operator, relation[1:])(x, y)


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats(kind):
    x, y = (np.array(side, DTYPES[kind]) for side in pairs(FLOATS))
    k = Kernel(LANES, x=(kind, x), y=(kind, y))
    tensor = k.tensor(kind)
    for op, function in FLOAT_BINARY.items():
        k.add(op[6 if op[0] == "a" else 5 :], kind, f"{op} %x, %y : {tensor}", function(x, y))
    for op, function in FLOAT_UNARY.items():
        k.add(op, kind, f"math.{op} %x : {tensor}", function(x))
    k.add("negf", kind, f"arith.negf %x : {tensor}", np.negative(x))
    for op in EXTREMES:
        values = [extreme(op, float(a), float(b)) for a, b in zip(x, y, strict=True)]
        k.add(op, kind, f"arith.{op} %x, %y : {tensor}", values)
    relations = [order + name for name in ("eq", "ne", "lt", "le", "gt", "ge") for order in "ou"]
    for relation in (*relations, "ord", "uno"):
        k.statements.append(f"%is_{relation} = arith.cmpf {relation}, %x, %y : {tensor}")
        text = f"arith.extui %is_{relation} : {k.tensor('i1')} to {k.tensor('i8')}"
        values = [holds(relation, float(a), float(b)) for a, b in zip(x, y, strict=True)]
        k.add(relation, "i8", text, values)
    k.statements.append(f"%chosen = arith.cmpf olt, %x, %y : {tensor}")
    text = f"arith.select %chosen, %x, %y : {k.tensor('i1')}, {tensor}"
    k.add("select", kind, text, np.where(x < y, x, y))
    k.check()


def exact(value):
    """As MLIR prints floats."""
    return f"{value:.17e}"


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "i64", "f16", "f32", "f64"])
@pytest.mark.parametrize("form", ["dense<{}> : tensor<8x{}>", "{} : {}"])
def test_constants(kind, form):
    """Decimal, and of floats the words of their bits."""
    k = Kernel(8, x=("i32", range(8)))
    bits = int(kind[1:])
    if kind[0] == "i":
        values = {str(n): n for n in integers(bits)}
    else:
        word = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
        special = np.array([-0.0, math.inf, -math.inf, math.nan, 1.5, -0.1, 1e-5], DTYPES[kind])
        digits = bits // 4
        values = {exact(v): v for v in (0.0, 1.0, -2.5, 1e-3, 60000.0)}
        values |= {f"0x{int(v.view(word)):0{digits}X}": v for v in special}
    for number, (text, value) in enumerate(values.items()):
        constant = f"arith.constant {form.format(text, kind)}"
        if form[0] == "{":
            k.statements.append(f"%scalar{number} = {constant}")
            constant = f"tt.splat %scalar{number} : {kind} -> {k.tensor(kind)}"
        k.add(f"c{number}", kind, constant, [value] * 8)
    k.check()


@pytest.mark.parametrize("promises", ["", "nsw", "nuw", "nsw, nuw"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "shl"])
def test_promises_of_integers(op, promises):
    """The promises of TTIR are those of the IR, which has none of shifts."""
    k = Kernel(8, x=("i32", range(8)))
    stated = f" overflow<{promises}>" if promises else ""
    text = f"arith.{op}i %x, %x{stated} : {k.tensor('i32')}"
    k.add("y", "i32", text, np.zeros(8))
    (line,) = (row for row in str(k.read()).splitlines() if f" = {op} i32<8>" in row)
    assert [word for word in ("nsw_nuw", "nsw", "nuw") if re.search(rf"\b{word}\b", line)] == (
        [promises.replace(", ", "_")] if promises and op != "shl" else []
    )


FUNCTIONS = {
    name: getattr(math, name, None)
    for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
                 "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
                 "erfc", "sqrt", "cbrt")
}  # fmt: skip


def test_functions_of_floats():
    """Where they are defined; of others the nearest number that is in the domain."""
    x = np.linspace(0.05, 0.95, 32)
    y = x[::-1] * 3
    k = Kernel(32, x=("f64", x), y=("f64", y), above=("f64", x + 1))
    for name, function in FUNCTIONS.items():
        operand = "above" if name == "acosh" else "x"
        text = f"math.{name} %{operand} : {k.tensor('f64')}"
        k.add(name, "f64", text, [function(v) for v in k.inputs[operand]])
    for name, function in (("powf", math.pow), ("atan2", math.atan2)):
        values = [function(a, b) for a, b in zip(x, y, strict=True)]
        k.add(name, "f64", f"math.{name} %x, %y : {k.tensor('f64')}", values)
    k.add("rsqrt", "f64", f"math.rsqrt %x : {k.tensor('f64')}", x**-0.5)
    k.add("fma", "f64", f"math.fma %x, %y, %x : {k.tensor('f64')}", x * y + x)
    k.check(rtol=1e-12)


# Combiners and atomic operations --------------------------------------------------------------

COMBINERS = {
    "i32": [f"arith.{op}" for op in BINARY if op != "subi"],
    "f32": ["arith.addf", "arith.mulf", *(f"arith.{name}" for name in EXTREMES)],
}
NUMBERS = {
    "i32": [5, -7, 3, -2, 6, -1, 2, 9],
    "f32": [2.0, -0.5, 4.0, -8.0, 0.25, math.nan, -1.0, 0.5],
}


def combine(op, x, y):
    """What a combiner makes of two numbers."""
    name = op.removeprefix("arith.")
    if name in EXTREMES:
        return extreme(name, x, y)
    if name in BINARY:
        return as_signed(values_of(BINARY[name], name.endswith("ui"), 32, [x], [y])[0], 32)
    return x + y if name == "addf" else x * y


def over(k, kind, what, options, op, result):
    """A reduction or scan of `%x` by `op`."""
    block = f"^bb0(%a: {kind}, %b: {kind}):"
    last = f"tt.{what}.return %c : {kind}"
    lines = [f'"tt.{what}"(%x) <{{axis = 0 : i32{options}}}> ({{', block]
    lines += [f"%c = {op} %a, %b : {kind}", last, f"}}) : ({k.tensor(kind)}) -> {result}"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "op"), [(kind, op) for kind, ops in COMBINERS.items() for op in ops]
)
def test_combiners(kind, op):
    """A reduction, and scans from both ends."""
    numbers = NUMBERS[kind]
    k = Kernel(8, x=(kind, numbers))
    forward, backward = (
        list(accumulate(side, lambda x, y: combine(op, x, y))) for side in (numbers, numbers[::-1])
    )
    k.statements.append(f"%one = {over(k, kind, 'reduce', '', op, kind)}")
    k.add("all", kind, f"tt.splat %one : {kind} -> {k.tensor(kind)}", [forward[-1]] * 8)
    for reverse, values in (("false", forward), ("true", backward[::-1])):
        options = f", reverse = {reverse}"
        text = over(k, kind, "scan", options, op, k.tensor(kind))
        k.add(f"scan_{reverse}", kind, text, values)
    k.check()


@pytest.mark.parametrize(
    ("op", "last", "expected"),
    [
        ("addi %a, %b", "%b", "last"), ("addi %a, %b", "%a", "first"), ("addi %b, %a", "%c", "sum"),
        ("maxsi %b, %b", "%c", "last"), ("minsi %a, %a", "%c", "first"),
    ],
)  # fmt: skip
def test_combiners_that_choose(op, last, expected):
    """What a region returns is the result, not what its op makes of both numbers."""
    k = Kernel(8, x=("i32", NUMBERS["i32"]))
    text = over(k, "i32", "scan", ", reverse = false", "arith.addi", k.tensor("i32"))
    text = text.replace("addi %a, %b", op).replace("return %c", f"return {last}")
    x = k.inputs["x"]
    k.add("y", "i32", text, {"last": x, "first": [x[0]] * 8, "sum": np.cumsum(x)}[expected])
    k.check()


ATOMIC = {
    "and": "andi", "or": "ori", "xor": "xori", "add": "addi", "max": "maxsi", "min": "minsi",
    "umax": "maxui", "umin": "minui", "fadd": "addf",
}  # fmt: skip


@pytest.mark.parametrize("op", [*ATOMIC, "exch"])
def test_atomic_operations(op):
    """The number before, and the one after in memory, of elements that a mask lets through."""
    kind = "f32" if op == "fadd" else "i32"
    x, y = ([n for n in column if n == n] for column in (NUMBERS[kind], NUMBERS[kind][3:] * 2))
    x, y = x[:4] * 2, y[:8]
    k = Kernel(8, x=(kind, x), y=(kind, y), some=("i8", [1, 1, 0, 1] * 2))
    k.statements.append(f"%mask = arith.trunci %some : {k.tensor('i8')} to {k.tensor('i1')}")
    types = (
        f"({k.tensor(f'!tt.ptr<{kind}>')}, {k.tensor(kind)}, {k.tensor('i1')}) -> {k.tensor(kind)}"
    )
    k.statements.append(f"%old = tt.atomic_rmw {op}, relaxed, gpu, %p_x, %y, %mask : {types}")
    types = f"{k.tensor('i1')}, {k.tensor(kind)}"
    before = [a if at % 4 != 2 else b for at, (a, b) in enumerate(zip(x, y, strict=True))]
    k.add("before", kind, f"arith.select %mask, %old, %y : {types}", before)
    k.check()
    for at, (a, b, after) in enumerate(zip(x, y, k.inputs["x"].tolist(), strict=True)):
        new = b if op == "exch" else combine(f"arith.{ATOMIC[op]}", a, b)
        assert after == (a if at % 4 == 2 else new)


def test_compare_and_swap():
    x, y, z = [1, -2, 3, -4], [1, 2, -3, -4], [5, 6, 7, 8]
    k = Kernel(4, x=("i32", x), y=("i32", y), z=("i32", z))
    i = k.tensor("i32")
    types = f"({k.tensor('!tt.ptr<i32>')}, {i}, {i}) -> {i}"
    k.add("old", "i32", f"tt.atomic_cas acq_rel, gpu, %p_x, %y, %z : {types}", x)
    k.check()
    assert k.inputs["x"].tolist() == [5, -2, 3, 8]
