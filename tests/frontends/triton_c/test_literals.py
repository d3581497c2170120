"""Literals: converted to every type, and combined, as variables of their types are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton_c import parse

TYPES = {
    "bool": np.bool_, "char": np.int8, "unsigned char": np.uint8, "short": np.int16,
    "unsigned short": np.uint16, "int": np.int32, "unsigned int": np.uint32, "long": np.int64,
    "unsigned long": np.uint64, "half": np.float16, "float": np.float32, "double": np.float64,
}  # fmt: skip
INTEGERS = (
    "0", "1", "2", "3", "-1", "-2", "127", "128", "254", "255", "256", "-129", "65535", "65536",
    "2147483647", "2147483648", "4294967295", "4294967296", "-2147483648", "-2147483649",
)  # fmt: skip
FLOATS = ("0.0", "-0.0", "0.25", "0.5", "1.0", "1.5", "2.0", "2.5", "100.0")


def converted_value(literal: str, name: str) -> float:
    """The literal converted to a type of C and then to long or double: bool is whether it is not 0,
    integers wrap."""
    number = float(literal) if "." in literal else int(literal)
    if name == "bool":
        return int(number != 0)
    kind = np.dtype(TYPES[name])
    if kind.kind == "f":
        return float(np.float64(number).astype(kind))
    bits = 8 * kind.itemsize
    low = int(number) & ((1 << bits) - 1)
    is_negative = low >> (bits - 1) and (kind.kind == "i" or bits == 64)
    return low - (1 << bits) if is_negative else low


@pytest.mark.parametrize("name", TYPES)
def test_literals_are_converted_to_every_type(name: str) -> None:
    """By an initializer, and by a cast."""
    is_float = np.dtype(TYPES[name]).kind == "f"
    literals = [n for n in (*INTEGERS, *FLOATS) if name != "half" or abs(float(n)) < 60000]
    wide = "double" if is_float else "long"
    body = " ".join(
        f"{name} v{i} = {n}; *(out + {2 * i}) = ({wide})v{i}; *(out + {2 * i + 1}) = ({name})({n});"
        for i, n in enumerate(literals)
    )
    out = np.zeros(2 * len(literals), np.float64 if is_float else np.int64)
    parse(f"kernel void k({wide}* out) {{ {body} }}").kernel()[(1,)](out, on="interpreter")
    assert out[::2].tolist() == out[1::2].tolist() == [converted_value(n, name) for n in literals]


VALUES = {
    "true": "bool", "false": "bool", "(2 < 3)": "bool", "(!5)": "bool", "5": "int", "(-7)": "int",
    "2147483648": "long", "(-2147483649)": "long", "2.5": "float", "(-0.0)": "float",
}  # fmt: skip
"""Literals, and the type of each."""

OF_NUMBERS = (
    "-{0}", "!{0}", "+{0}", "{0} - 7 > 0", "{0} + n", "{0} * {0}", "{0} ? n : 3", "n ? {0} : n",
    "{0} && n", "{0} || n", "abs({0})", "max({0}, n)", "min({0}, {0})", "{0} < n", "{0} == n",
    "exp({0})", "(unsigned int)n < {0}",
)  # fmt: skip
OF_INTEGERS = ("~{0}", "{0} << 3", "{0} >> 1", "{0} & 6", "*(x + 1 + ({0} & 1))")
OF_SOME = ("bitcast({0})",)
"""Expressions with a literal: of any, of one that is an integer, of one of a type with 32 bits."""


def outcome(expressions: list[str], head: str = "") -> object:
    """The results of expressions, or the code of an error."""
    out = np.zeros(len(expressions), np.float64)
    body = " ".join(f"*(out + {i}) = (double)({e});" for i, e in enumerate(expressions))
    try:
        program = parse(f"kernel void k(int n, int* x, double* out) {{ {head} {body} }}").kernel()
        program[(1,)](3, np.arange(8, dtype=np.int32), out, on="interpreter")
    except TileirError as error:
        return error.code
    return [repr(x) for x in out.tolist()]


@pytest.mark.parametrize("literal", VALUES)
def test_literals_are_used_as_variables_of_their_types(literal: str) -> None:
    head = f"{VALUES[literal]} v = {literal};"
    is_float = VALUES[literal] == "float"
    together = (*OF_NUMBERS, *OF_INTEGERS)[: len(OF_NUMBERS) if is_float else None]
    for uses in (together, *((use,) for use in (*OF_SOME, *OF_INTEGERS[:2]))):
        literals, variables = ([use.format(x) for use in uses] for x in (literal, "v"))
        assert outcome(literals) == outcome(variables, head), uses
    assert isinstance(outcome([use.format("v") for use in together], head), list)


SIGNS = ("+", "-", "*", "/", "%", "&&", "||", "<", "<=", ">", ">=", "==", "!=")
SIGNS_OF_INTEGERS = (*SIGNS, "&", "|", "^", "<<", ">>")
OPERANDS = {"long": ("0", "1", "2", "5", "(-1)", "(-7)"), "double": ("0.0", "1.5", "(-2.5)")}


def is_defined(sign: str, x: float, y: float) -> bool:
    """Whether C defines the result of an operator."""
    if sign in ("<<", ">>"):
        return x >= 0 and y >= 0
    return sign not in ("/", "%") or y != 0


@pytest.mark.parametrize("name", OPERANDS)
def test_operators_of_literals_agree_with_those_of_variables(name: str) -> None:
    """Operators of two numbers are computed by the frontend, those of variables by the kernel."""
    signs, operands = SIGNS if name == "double" else SIGNS_OF_INTEGERS, OPERANDS[name]
    numbers = [float(x.strip("()")) for x in operands]
    cases = [
        (sign, i, k)
        for sign in signs for i, x in enumerate(numbers) for k, y in enumerate(numbers)
        if is_defined(sign, x, y)
    ]  # fmt: skip
    head = " ".join(f"{name} v{i} = {x};" for i, x in enumerate(operands))
    folded = [f"{operands[i]} {sign} {operands[k]}" for sign, i, k in cases]
    assert outcome(folded) == outcome([f"v{i} {sign} v{k}" for sign, i, k in cases], head)
    unary = [f"{sign}{x}" for sign in ("-", "+", "!") for x in operands]
    variables = [f"{sign}v{i}" for sign in ("-", "+", "!") for i in range(len(operands))]
    assert outcome(unary) == outcome(variables, head)


@pytest.mark.parametrize("name", [n for n in TYPES if np.dtype(TYPES[n]).kind in "iu"])
def test_literals_are_shifted_in_their_type_or_a_wider_one(name: str) -> None:
    """An int by the bits of an int, and by those of a long if the count is one."""
    bits = 64 if "long" in name else 32
    number, out = 1 << bits - 1, np.zeros(4, np.int64)
    body = f"""{name} n = {bits - 1}; {name} two = 2;
        *out = 1 << n; *(out + 1) = 5 << two; *(out + 2) = -7 >> two;
        *(out + 3) = 3000000000 >> two;"""
    parse(f"kernel void k(long* out) {{ {body} }}").kernel()[(1,)](out, on="interpreter")
    assert out.tolist() == [-number, 20, -2, 750000000]


@for_each(("name", "by"), product((n for n in TYPES if np.dtype(TYPES[n]).kind in "iu"), repeat=2))
def test_variables_are_shifted_in_their_own_promoted_type(name: str, by: str) -> None:
    """Whatever the type of the count."""
    kind = np.dtype(TYPES[name]) if np.dtype(TYPES[name]).itemsize > 4 else np.dtype(np.int32)
    kind = np.dtype(np.uint32) if name == "unsigned int" else kind
    bits, out = 8 * kind.itemsize, np.zeros(6, np.int64)
    body = f"""{name} x = 5; {name} y = -7; {by} n = {bits - 1}; {by} two = 2;
        *out = x << n; *(out + 1) = x >> two; *(out + 2) = y >> two; *(out + 3) = y << two;
        x <<= two; y >>= two; *(out + 4) = x; *(out + 5) = y;"""
    parse(f"kernel void k(long* out) {{ {body} }}").kernel()[(1,)](out, on="interpreter")
    x, y = np.array([5]).astype(TYPES[name]), np.array([-7]).astype(TYPES[name])
    wide, low = x.astype(kind), y.astype(kind)
    expected = [wide << bits - 1, wide >> 2, low >> 2, low << 2]
    expected += [(wide << 2).astype(TYPES[name]), (low >> 2).astype(TYPES[name])]
    assert out.tolist() == [int(n.astype(np.int64)[0]) for n in expected]


@for_each("name", [n for n in TYPES if np.dtype(TYPES[n]).kind in "biu"])
def test_unary_operators_are_of_the_promoted_type(name: str) -> None:
    """At the ends of every type: what is stored as a long shows their width and sign."""
    kind, ends = np.dtype(TYPES[name]), [0, 1]
    if kind.kind != "b":
        ends += [5, np.iinfo(kind).max, np.iinfo(kind).max - 1, np.iinfo(kind).min + 1]
    x, out = np.resize(np.array(ends, kind), 8), np.zeros(32, np.int64)
    body = " ".join(f"*(out + {8 * i} + i) = {s}*(x + i);" for i, s in enumerate("-+~!"))
    text = f"kernel void k({name}* x, long* out) {{ int i[8] = 0 ... 8; {body} }}"
    parse(text).kernel()[(1,)](x, out, on="interpreter")
    wide = x.astype(np.promote_types(kind, np.int32) if kind.itemsize < 4 else kind)
    for row, expected in zip(out.reshape(4, 8), (-wide, wide, ~wide, wide == 0), strict=True):
        assert row.tolist() == expected.astype(np.int64).tolist()


def test_casts_fill_tiles() -> None:
    out = np.zeros((4, 8), np.int32)
    body = """int i[8] = 0 ... 8; int r[4] = 0 ... 4;
        int a[4, 8] = (int[4, 8])(r[:, newaxis] * 8);
        int s[8] = sum((int[4, 8])a + (int[4, 8])i[newaxis, :], 0);
        *(out + r[:, newaxis] * 8 + i[newaxis, :]) = s[newaxis, :] + sum((short[8])3, 0);"""
    parse(f"kernel void k(int* out) {{ {body} }}").kernel()[(1,)](out, on="interpreter")
    expected = 8 * 6 + 4 * np.arange(8) + 24
    assert (out == expected).all()


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("18446744073709551615", True), ("18446744073709551616", False),
        ("-9223372036854775807 - 1", True), ("-9223372036854775807 - 2", False),
        ("0xFFFFFFFFFFFFFFFF", True), ("0x10000000000000000", False),
        ("1 << 63", True), ("2 << 63", False),
    ],
)  # fmt: skip
def test_numbers_have_64_bits(text: str, fits: bool) -> None:
    program = parse(f"kernel void k(bool* out) {{ *out = {text}; }}")
    if fits:
        program.module()
        return
    with pytest.raises(TileirError, match="64 bits") as caught:
        program.module()
    assert caught.value.code == "TIR1003"


@for_each("name", [n for n in TYPES if np.dtype(TYPES[n]).kind == "f"])
@for_each("literal", ["0.1", "3", "-2.5", "100003"])
def test_literals_next_to_floats_have_their_type(name: str, literal: str) -> None:
    kind, number = TYPES[name], float(literal)
    if name == "half" and abs(number) > 60000:
        return
    x, out = np.array([1.7], kind), np.zeros(4, np.float64)
    body = f"""{name} v = *x; *out = (double)(v + {literal}); *(out + 1) = (double)({literal} * v);
        *(out + 2) = (double)max(v, {literal}); *(out + 3) = v < {literal};"""
    parse(f"kernel void k({name}* x, double* out) {{ {body} }}").kernel()[(1,)](
        x, out, on="interpreter"
    )
    a, b = x[0], kind(number)
    assert out.tolist() == [a + b, a * b, max(a, b), a < b]


ENDS = [(1 << bits) + d for bits in (1, 7, 8, 15, 16, 31, 32, 62) for d in (-1, 0)]


@for_each("name", TYPES)
@for_each("number", ["true", "2.5", *(str(n) for n in ENDS)])
def test_a_number_chosen_instead_of_a_load_is_of_the_type_of_both(name: str, number: str) -> None:
    """The load gives it where its type has the number. Lanes at and around the condition's end."""
    kind, is_float = np.dtype(TYPES[name]), number == "2.5" or np.dtype(TYPES[name]).kind == "f"
    if name == "half" and float(number.replace("true", "1")) > 60000:
        return
    wide = "double" if is_float else "long"
    text = f"""kernel void k({name}* x, {wide}* out, int n) {{ int i[8] = 0 ... 8;
        *(out + i) = i < n ? *(x + i) : {number};
        {name} v[8] = *(x + i); *(out + 8 + i) = i < n ? v : {number}; }}"""
    x = np.array([0, 1, -3, 127, -128, 5, 6, 7] if kind.kind in "if" else range(8), kind)
    out = np.zeros(16, np.float64 if is_float else np.int64)
    parse(text).kernel()[(1,)](x, out, 5, on="interpreter")
    other = 1 if number == "true" else float(number) if is_float else int(number)
    expected = [float(n) if is_float else int(n) for n in x[:5]] + [other] * 3
    if name == "float" or (is_float and kind.kind in "biu"):
        expected = np.float32(expected).tolist()
    elif name == "half":
        expected = np.float16(expected).tolist()
    assert out[:8].tolist() == out[8:].tolist() == expected


@for_each("name", [n for n in TYPES if np.dtype(TYPES[n]).kind in "iu"])
def test_a_whole_float_chosen_instead_of_a_load_is_a_float(name: str) -> None:
    """It is divided as one, and so is the number that is loaded."""
    text = f"kernel void k({name}* x, float* out, int n) {{ *out = (n > 0 ? *x : 2.0) / 4; }}"
    for n, expected in ((1, 1.75), (0, 0.5)):
        out = np.zeros(1, np.float32)
        parse(text).kernel()[(1,)](np.array([7], TYPES[name]), out, n, on="interpreter")
        assert out[0] == expected


_WHOLE = {n: np.iinfo(TYPES[n]) for n in TYPES if np.dtype(TYPES[n]).kind in "iu"}
_RESULTS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "<": lambda x, y: int(x < y), ">=": lambda x, y: int(x >= y), "==": lambda x, y: int(x == y),
}  # fmt: skip


def in_type(number: int, bits: int, is_signed: bool) -> int:
    """The number modulo 2**bits, in the range of the type."""
    number %= 1 << bits
    return number - (1 << bits) if is_signed and number >> bits - 1 else number


@pytest.mark.parametrize("first", _WHOLE)
def test_operators_of_two_integer_types_follow_c(first: str) -> None:
    """Operands of fewer bits than an int become ints; of the others the one with more bits, or the
    unsigned one, gives the type (C11 6.3.1.1, 6.3.1.8)."""
    expected, body = [], [f"{first} a;"]
    for second, other in _WHOLE.items():
        kinds = [(max(k.bits, 32), k.kind == "i" or k.bits < 32) for k in (_WHOLE[first], other)]
        bits = max(b for b, _ in kinds)
        is_signed = all(signed for b, signed in kinds if b == bits)
        body.append(f"{second} {second.replace(' ', '_')}_b;")
        for x, y in product((_WHOLE[first].min, 1, _WHOLE[first].max), (other.min, 3, other.max)):
            b = f"{second.replace(' ', '_')}_b"
            body.append(
                f"a = ({first}){in_type(x, 64, True)}; {b} = ({second}){in_type(y, 64, True)};"
            )
            left, right = (in_type(n, bits, is_signed) for n in (x, y))
            for sign, function in _RESULTS.items():
                result = function(left, right)
                if is_signed and sign in "+-*" and in_type(result, bits, True) != result:
                    continue  # undefined
                body.append(f"*(out + {len(expected)}) = (long)(a {sign} {b});")
                expected.append(in_type(in_type(result, bits, is_signed), 64, True))
    out = np.zeros(len(expected), np.int64)
    parse(f"kernel void k(long* out) {{ {' '.join(body)} }}").kernel()[(1,)](out, on="interpreter")
    assert out.tolist() == expected
