"""Names and spellings of types and numbers, scopes of names, assignments, and what pointers are
operands of, against C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton_c import parse


def left(body: str, n: int = 3, on: str | None = "interpreter") -> list[int]:
    """What statements leave in eight numbers that were -1."""
    out = np.full(8, -1, np.int32)
    text = f"kernel void k(int n, float* x, int* out) {{ {body} }}"
    parse(text).kernel()[(1,)](n, np.arange(8, dtype=np.float32), out, on=on)
    return out.tolist()


def code_of(body: str) -> str:
    with pytest.raises(TileirError) as caught:
        left(body)
    return caught.value.code


TYPES: dict[str, Any] = {
    "int8": np.int8, "char": np.int8, "signed char": np.int8, "uint8": np.uint8,
    "unsigned char": np.uint8, "int16": np.int16, "short": np.int16, "short int": np.int16,
    "signed short": np.int16, "uint16": np.uint16, "unsigned short": np.uint16,
    "unsigned short int": np.uint16, "int32": np.int32, "int": np.int32, "signed": np.int32,
    "signed int": np.int32, "int signed": np.int32, "uint32": np.uint32, "unsigned": np.uint32,
    "unsigned int": np.uint32, "int unsigned": np.uint32, "int64": np.int64, "long": np.int64,
    "long int": np.int64, "int long": np.int64, "long long": np.int64, "long long int": np.int64,
    "long unsigned int": np.uint64, "unsigned long": np.uint64, "uint64": np.uint64,
    "unsigned long long": np.uint64, "half": np.float16, "fp16": np.float16, "float": np.float32,
    "fp32": np.float32, "double": np.float64, "fp64": np.float64,
}  # fmt: skip
"""The words of types, and numpy's types."""


def test_types_have_the_names_of_c() -> None:
    """Their bits and signs show in the double of a number that is converted to them."""
    number = -8766935214870849  # the top bit of each of its words of 8, 16, 32 and 64 bits is set
    assert all(number >> bits - 1 & 1 for bits in (8, 16, 32, 64))
    body = " ".join(
        f"*(out + {i}) = (double)({name}){2049 + 2**-20 if is_float(kind) else number};"
        for i, (name, kind) in enumerate(TYPES.items())
    )
    out = np.zeros(len(TYPES), np.float64)
    parse(f"kernel void k(double* out) {{ {body} }}").kernel()[(1,)](out, on="interpreter")
    for (name, kind), result in zip(TYPES.items(), out, strict=True):
        expected = 2049 + 2**-20 if is_float(kind) else np.int64(number)
        assert result == float(np.array(expected).astype(kind)), name


def is_float(kind: Any) -> bool:
    return np.dtype(kind).kind == "f"


@for_each("name", [
    "unsigned float", "signed double", "unsigned half", "unsigned void", "signed signed int",
    "unsigned unsigned", "long double", "short long", "long char", "short short", "int int",
    "unsigned uint8", "signed int32", "long long long", "unsigned bool", "float float",
])  # fmt: skip
def test_other_words_name_no_type(name: str) -> None:
    with pytest.raises(TileirError, match="there is no type") as caught:
        parse(f"kernel void k(int* out) {{ {name} v = 1; }}").module()
    assert caught.value.code == "TIR1003"


NUMBERS: dict[str, float] = {
    "10": 10, "10u": 10, "10UL": 10, "10ll": 10, "0": 0, "00": 0, "07": 7, "017u": 15, "0x1f": 31,
    "0X1FuL": 31, "0xF": 15, "1e2": 100, "1E+1": 10, "25e-1": 2.5, "2.": 2, ".5": 0.5, "1.5f": 1.5,
    "1.5F": 1.5, "3f": 3, "1h": 1, "2.5H": 2.5, "1.5L": 1.5, "1e1f": 10, "0.5": 0.5, "09.5": 9.5,
}  # fmt: skip


def test_numbers_have_the_spellings_of_c() -> None:
    """Those with a point, an exponent or a suffix of a float are floats: half of one is not 0."""
    body = " ".join(
        f"*(out + {2 * i}) = {text}; *(out + {2 * i + 1}) = {text} / 4;"
        for i, text in enumerate(NUMBERS)
    )
    out = np.zeros((len(NUMBERS), 2), np.float64)
    parse(f"kernel void k(double* out) {{ {body} }}").kernel()[(1,)](
        out.reshape(-1), on="interpreter"
    )
    for (text, number), results in zip(NUMBERS.items(), out.tolist(), strict=True):
        is_hexadecimal = text[:2].lower() == "0x"
        is_real = not is_hexadecimal and any(c in text.lower() for c in ".efh")
        assert results == [number, number / 4 if is_real else number // 4], text


@for_each("text", ["08", "0128", "1.5u.5", "0xG", "1x", "0b1", "1e", "1__0"])
def test_other_spellings_are_no_numbers(text: str) -> None:
    with pytest.raises(TileirError):
        parse(f"kernel void k(int* out) {{ *out = {text}; }}").module()


STATEMENTS: dict[str, list[int]] = {
    "*out = n = 4; *(out + 1) = n;": [4, 4], "int a, b; a = b = n + 1; *out = a + b;": [8],
    "n <<= 2; *out = n; n >>= 1; n %= 4; *(out + 1) = n; n |= 5; n ^= 1; n &= 6; *(out + 2) = n;"
    " n *= 7; n /= 3; n -= 1; *(out + 3) = n;": [12, 2, 6, 13],
    "*(out + n++) += 2; *(out + 5) = n;": [-1, -1, -1, 1, -1, 4],
    "*(out + --n) *= 7; *(out + 5) = n;": [-1, -1, -7, -1, -1, 2],
    "int* p = out; *p++ = 3; *p++ = 4; *++p = 5; p--; *p = 6;": [3, 4, 6, 5],
    "int* p = out + 4; p -= 2; *p = 1; p += 3; *p = 2; *(--p) = 3;": [-1, -1, 1, -1, 3, 2],
    "int a = 1, *p = out, t[4] = 0 ... 4, b = a + 1; *p = b; *(p + 1 + t) = t;": [2, 0, 1, 2, 3],
    "int i[8] = -4 ... 4; *(out + i + 4) = i;": [-4, -3, -2, -1, 0, 1, 2, 3],
    "float f = 1; f += 1; f++; *out = f; f /= 2; *(out + 1) = f * 2; --f; *(out + 2) = f * 2;":
        [3, 3, 1],
    "int i[8] = 0 ... 8; int v[8] = i; v++; v *= 2; *(out + i) = v;":
        [2, 4, 6, 8, 10, 12, 14, 16],
    "int i[8] = 0 ... 8; int v[8] = 3; v = n + 1; *(out + i) = v;": [4] * 8,
    "int a = 3; { int a = 4; a++; *out = a; } *(out + 1) = a;": [5, 3],
    "int a = 3; { a = 4; } for (int a = 9; a < 9;) { } *out = a;": [4],
    "if (n) { int a = 2; *out = a; } else { int a = 3; *out = a; }": [2],
    "n = 3, n = 5; *out = n;": [5], ";;*out = 2;{}": [2],
    "int s = 0; for (int i = 0; i < 4; i++) { for (int j = 0; j < 4; j++) { if (j == 2) break; if "
    "(i == 1) continue; s += 10 * i + j; } if (i == 2) break; s += 100; } *out = s;": [242],
    "int i[8] = 0 ... 8; @(i < 4) { int v[8] = 1; v = 2; @(i < 2) v = 3; *(out + i) = v; }":
        [3, 3, 2, 2, -1, -1, -1, -1],
    "int i[8] = 0 ... 8; int v[8] = 1; @(i < 6) { v = 2; @(i < 2) v = 3; @(i > 6) v = 4; } "
    "*(out + i) = v;": [3, 3, 2, 2, 2, 2, 1, 1],
    "int i[8] = 0 ... 8; @(i < 6) @(i > 1) { *(out + i) = 5; }": [-1, -1, 5, 5, 5, 5, -1, -1],
    "int i[8] = 0 ... 8; @(i < 4) if (n > 2) *(out + i) = 5; else *(out + i) = 6; @(i > 5) "
    "*(out + i) = 7;": [5, 5, 5, 5, -1, -1, 7, 7],
    "int s = 0; @(n > 5) s = 4; @(n > 2) s += 3; *out = s;": [3],
    "*out = true + true; *(out + 1) = -true; *(out + 2) = ~false; *(out + 3) = true << 3;":
        [2, -1, -1, 8],
}  # fmt: skip


@for_each("statements", STATEMENTS)
def test_statements_do_what_those_of_c_do(statements: str) -> None:
    result = left(statements)
    expected = STATEMENTS[statements]
    assert result == [*expected, *[-1] * (8 - len(expected))]


@for_each(("statements", "code"), [
    *((text, "TIR1002") for text in (
        "{ int a = 1; } *out = a;", "for (int a = 0; a < 2; a++) {} *out = a;",
        "if (n) { int a = 2; } *out = a;", "while (n > 5) { int a = 2; } *out = a;",
        "if (n) n = 2; else { int a = 3; } *out = a;", "int a = 1; int b = 2, a = 3;",
    )),
    *((text, "TIR1003") for text in (
        "-out;", "!out;", "+out;", "~out;", "~x;", "~2.5f + n;", "float y = *x; ~y;", "out && n;",
        "n || out;", "if (out) n = 1;", "while (out) n = 1;", "n = out ? 1 : 2;", "@(out) n = 2;",
        "select(out, 1, n);", "float y = 1; y << 1;", "float y = 1; n << y;", "float y = 1; y & 1;",
        "float y = 1; 2 | y;", "out & 1;", "out % 2;", "out * n;", "out - out;", "n - out;",
        "out == 1;", "out < n;", "out == x;", "x = select(n, x, out);", "out + 1.5;", "out += *x;",
        "int i[8] = 0 ... 8; @(i < 4) n = 3;", "int i[8] = 0 ... 8; n = i;", "*out = out;",
        "n = *n;", "int f = x;",
    )),
])  # fmt: skip
def test_other_statements_are_errors(statements: str, code: str) -> None:
    assert code_of(statements) == code


@pytest.mark.parametrize("on", ["interpreter", pytest.param("cpu", marks=pytest.mark.slow)])
def test_pointers_are_compared_as_places_in_an_array(on: str) -> None:
    text = """kernel void k(int n, int* out) { int i[8] = 0 ... 8; int* p[8] = out + i;
        int* q = out + n; *p = (p < q) + 2 * (p <= q) + 4 * (p > q) + 8 * (p >= q) + 16 * (p == q)
          + 32 * (p != q); *(n > 4 ? out : q) += 100; *select(n > 4, q, out) += 200; }"""
    for n in (3, 5):
        out, i = np.full(8, -1, np.int32), np.arange(8)
        parse(text).kernel()[(1,)](n, out, on=on)
        expected = (
            (i < n) + 2 * (i <= n) + 4 * (i > n) + 8 * (i >= n) + 16 * (i == n) + 32 * (i != n)
        )
        expected[0 if n > 4 else n] += 100
        expected[n if n > 4 else 0] += 200
        assert out.tolist() == expected.tolist()
