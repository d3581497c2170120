"""The language: C's types, operators, control and functions, tiles, predication, macros."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.frontends.triton_c import parse


def result(body: str, *arguments: Any, out: Any = None, head: str = "", **options: Any) -> Any:
    """What a kernel `k(int n, float* x, int* out)` with this body leaves in `out`."""
    out = np.zeros(8, np.int32) if out is None else out
    program = parse(f"{head}\nkernel void k(int n, float* x, int* out) {{ {body} }}")
    n, x = arguments or (0, np.zeros(1, np.float32))
    program.kernel()[(1,)](n, x, out, **options)
    return out


OPERATORS = [
    ("-7 / 2", -3), ("n / 2", -3), ("n % 3", -1), ("n >> 1", -4), ("(unsigned int)n >> 28", 15),
    ("n < 0 && n > -10", 1), ("!n", 0), ("~n", 6), ("n == -7 ? 3 : 4", 3), ("1 << 4 | 3", 19),
    ("2 + 3 * 4 - 1", 13), ("(char)300", 44), ("(int)2.9", 2), ("0x1F + 010", 39),
    ("max(n, 3) + min(n, 3)", -4), ("abs(n)", 7), ("(unsigned char)n", 249), ("+n", -7),
    ("true + n", -6), ("n ^ 1", -8),
]  # fmt: skip


@for_each(("expression", "value"), OPERATORS)
def test_operators_are_those_of_c(expression: str, value: int) -> None:
    x = np.zeros(1, np.float32)
    assert result(f"*out = {expression};", -7, x, on="interpreter")[0] == value


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("expression", "value"), OPERATORS)
def test_operators_are_those_of_c_on_the_default_executor(expression: str, value: int) -> None:
    assert result(f"*out = {expression};", -7, np.zeros(1, np.float32))[0] == value


C_TYPES = {
    "char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
    "int": np.int32, "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64,
}  # fmt: skip


def promoted_type(*kinds: Any) -> Any:
    """The usual arithmetic conversions of C, with a `long` of 64 bits."""
    widths = [np.dtype(k) if np.dtype(k).itemsize > 4 else np.dtype(np.int32) for k in kinds
              if np.dtype(k).itemsize != 4] + [np.dtype(k) for k in kinds
                                               if np.dtype(k).itemsize == 4]  # fmt: skip
    widest = max(w.itemsize for w in widths)
    return np.dtype(("u" if any(w.kind == "u" and w.itemsize == widest for w in widths) else "i")
                    + str(widest))  # fmt: skip


@for_each("right", C_TYPES)
@for_each("left", C_TYPES)
def test_operators_of_two_types_are_those_of_c(left: str, right: str) -> None:
    check_operators(left, right, "interpreter")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("right", C_TYPES)
@pytest.mark.parametrize("left", C_TYPES)
def test_operators_of_two_types_on_the_default_executor(left: str, right: str) -> None:
    check_operators(left, right, None)


def check_operators(left: str, right: str, on: str | None) -> None:
    """Shifts have the type of what is shifted; all others have that of both."""
    a, b = np.dtype(C_TYPES[left]), np.dtype(C_TYPES[right])
    x, y = np.iinfo(a).min // 2 - (a.kind == "u") * -5, 3
    both, own = promoted_type(a, b), promoted_type(a)
    text = f"{left} x = ({left})*in; {right} y = ({right})*(in + 1);"
    shifted, converted = np.array(x).astype(own), np.array(x).astype(both)
    ops = {
        "x >> y": shifted >> own.type(y), "x << y": shifted << own.type(y),
        "x < y": converted < both.type(y), "x + y": converted + both.type(y),
        "x / y": np.trunc(converted / both.type(y)) if both.itemsize < 8 else None,
    }  # fmt: skip
    stores = "".join(f"*(out + {i}) = {word};" for i, word in enumerate(ops))
    program = parse(f"kernel void k(long* in, long* out) {{ {text} {stores} }}")
    out = np.zeros(len(ops), np.int64)
    program.kernel()[(1,)](np.array([x, y], np.int64), out, on=on)
    for (word, expected), result in zip(ops.items(), out.tolist(), strict=True):
        assert expected is None or result == int(np.int64(expected)), (left, right, word)


@pytest.mark.parametrize("kind", C_TYPES)
def test_numbers_with_a_value_have_types_of_c(kind: str) -> None:
    """A number is an int where it fits, else a long; `x` is converted to what both have."""
    numbers = (5, 300, (1 << 31) - 1, 1 << 31, 3000000000, (1 << 32) - 1, 1 << 40)
    stores = "".join(f"*(out + {i}) = x + {n} > 0; " for i, n in enumerate(numbers))
    program = parse(f"kernel void k(long* in, long* out) {{ {kind} x = ({kind})*in; {stores} }}")
    for value in (0, 1, 100):
        out = np.zeros(len(numbers), np.int64)
        program.kernel()[(1,)](np.array([value]), out)
        own = promoted_type(C_TYPES[kind])
        for n, result in zip(numbers, out.tolist(), strict=True):
            fits = n < 1 << 31 or (own.kind == "u" and n <= np.iinfo(own).max)
            total = value + n if own.itemsize == 8 or not fits else int(
                np.array(value + n).astype(own))  # fmt: skip
            assert n == (1 << 31) - 1 or result == (total > 0), (kind, n, value)


STEPS = [
    ("unsigned int s = 1; *out = n >> s; *(out + 1) = -8 >> s;", [-4, -4]),
    ("unsigned int h = n; *out = (h * 2654435761u) >> 16;", [-7 * 2654435761 % 2**32 >> 16]),
    ("int i[8] = 0 ... 8; *out = sum(i < 5, 0); char c[8] = i * 16; *(out + 1) = sum(c, 0);",
     [5, 448]),
    ("char c = -128; *out = abs(c); unsigned int u = 3000000000; *(out + 1) = abs(u) == u;",
     [128, 1]),
    ("*out = 1.0 / 0.0 > 1e30; *(out + 1) = -5.5 % 2 < 0;", [1, 1]),
    ("int i, j; for (i = 0, j = 9; i < j; i++, j--) n += j; *out = n; *(out + 1) = (i, j);",
     [28, 4]),
    ("for (;;) { if (n > 3) break; n++; } *out = n;", [4]),
    ("(*out)++; *(out + 1) = ++*out;", [2, 2]),
]  # fmt: skip


@for_each(("body", "values"), STEPS)
def test_types_and_steps_are_those_of_c(body: str, values: list[int]) -> None:
    left = result(body, -7, np.zeros(1, np.float32), on="interpreter")
    assert list(left[: len(values)]) == values


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("body", "values"), STEPS)
def test_types_and_steps_on_the_default_executor(body: str, values: list[int]) -> None:
    assert list(result(body, -7, np.zeros(1, np.float32))[: len(values)]) == values


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("*out = n > 0 ? n++ : 3; *(out + 1) = n;", [3, -7]),
        ("*out = n > 0 ? (*(out + 1) = 4) : 3;", [3, 0]),
        ("*out = n > 0 ? atomic_add(out + 1, 5) : 3;", [3, 0]),
        ("*out = n > 0 ? put(out + 1 + (1 << 20)) : 3;", [3, 0]),
        ("*out = n > 0 ? *(out + *(out + (1 << 20))) : 3;", [3]),
        ("int i[8] = 0 ... 8; *(out + i) = (i < 2 ? *(out + i) : 0.5) * 2;", [0, 0, 1, 1]),
        ("int i[8] = 0 ... 8; @(i < 2) atomic_cas(out + i, 0, 9);", [9, 9, 0]),
        ("@(n > 0) for (int k = 0; k < 3; k++) *out += k;", [0]),
        ("int i[8] = 0 ... 8; @(i < 2) for (int k = 0; ; k++) { if (k > 2) break; four(out + k); }",
         [4, 4, 4, 0]),
    ],
)  # fmt: skip
def test_what_is_not_chosen_does_nothing(body: str, values: list[int]) -> None:
    head = """int four(int* p) { int v = 3; v++; *p = v; return v; }
              int put(int* p) { if (*p > 4) return 0; return four(p); }"""
    values_after = result(body, -7, np.zeros(1, np.float32), head=head, on="interpreter")
    assert list(values_after[: len(values)]) == values


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "loop", ["while (true) {", "for (;;) {", "do {", "while (1) { if (a == 2) continue; "]
)
def test_a_function_may_leave_an_endless_loop_with_its_value(loop: str) -> None:
    head = (
        f"int f(int a) {{ {loop} a++; if (a > 3) return a; }} {'while(1);' * (loop == 'do {')} }}"
    )
    assert (
        result(
            "*out = f(n);", 2 if "continue" not in loop else 3, np.zeros(1, np.float32), head=head
        )[0]
        == 4
    )


def test_loops_breaks_and_steps() -> None:
    body = """
      int total = 0;
      for (int i = 0; i < n; i++) { if (i == 3) continue; if (i == 7) break; total += i; }
      int steps = 0;
      while (n > 1) { if (n % 2) n = 3 * n + 1; else n /= 2; ++steps; }
      do { steps--; } while (steps > 100);
      *out = total; *(out + 1) = steps; *(out + 2) = total++; *(out + 3) = total;
    """
    out = result(body, 27, np.zeros(1, np.float32))
    assert list(out[:4]) == [0 + 1 + 2 + 4 + 5 + 6, 100, 18, 19]


def test_functions_are_inlined_with_early_returns() -> None:
    head = """
      int gcd(int a, int b) { while (b) { int t = a % b; a = b; b = t; } return a; }
      int sign(int a) { if (a < 0) return -1; if (a > 0) return 1; return 0; }
      void put(int* p, int v) { if (v == 0) return; *p = v; }
    """
    body = "*out = gcd(n, 36); *(out + 1) = sign(-n); put(out + 2, 0); put(out + 3, sign(n));"
    assert list(result(body, 48, np.zeros(1, np.float32), head=head)[:4]) == [12, -1, 0, 1]


def test_predicates_guard_stores_assignments_and_loads() -> None:
    body = """
      int i[8] = 0 ... 8;
      bool low[8] = i < n;
      int v[8] = i;
      @low v = v * 10;
      @(i < 6) { @(i > 0) *(out + i) = v; v += 1; }
      float y[8] = low ? *(x + i) : 7;
      @(i == 7) *(out + i) = sum(y, 0);
    """
    values = result(body, 3, np.arange(3, dtype=np.float32))
    assert list(values) == [0, 10, 20, 3, 4, 5, 0, 0 + 1 + 2 + 5 * 7]


def test_the_preprocessor_and_macros_carry_lines() -> None:
    source = """
    #define N 8
    #define SQUARE(a) ((a) * (a))
    #if WIDE
    typo here
    #else
    kernel void k(int* out) { int i[N] = 0 ... N; *(out + i) = SQUARE(i + START); }
    #endif
    """
    out = np.zeros(8, np.int32)
    program = parse(source, defines={"START": 2, "WIDE": 0})
    program.kernel()[(1,)](out)
    assert (out == (np.arange(8) + 2) ** 2).all()
    with pytest.raises(TileirError) as caught:
        parse(source, "shift.c", {"WIDE": 1})
    assert (caught.value.location.file, caught.value.line) == ("shift.c", 5)


def test_restrict_and_the_like_are_promises() -> None:
    source = """kernel void k(restrict read_only align(16) float* x, multiple_of(4) int n,
                              write_only float* y) { *y = *(x + n); }"""
    first, n, last = (p.attributes for p in parse(source).module().kernel("k").parameters)
    assert first.noalias and first.readonly and first.aligned == 16
    assert n.multiple_of == 4
    assert last.writeonly


def test_tunables_choose_among_their_values() -> None:
    program = parse("const tunable int N = {4, 8}; kernel void k(int* out) { int i[N] = 0 ... N; "
                    "*(out + i) = i; }")  # fmt: skip
    assert "make_range i32<4>" in _text(program.module())
    assert "make_range i32<8>" in _text(program.module(N=8))
    with pytest.raises(TileirError):
        program.module(M=3)


def test_variables_hide_tunables_in_their_block() -> None:
    """A name of a block, a parameter, or the counter of a loop, is the variable: it can be read
    and assigned. Outside of the block the tunable is read, and constant."""
    source = """const tunable int N = {{4}};
    kernel void k(int n, int* out) {{ {{ {} }} *(out + 3) = N; {} }}"""
    for body, values in (
        ("int N = n; N = N + 1; *out = N; N += 2; *(out + 1) = N;", [6, 8, 0]),
        ("for (int N = 0; N < 3; N++) *(out + N) = N + 7;", [7, 8, 9]),
        ("int N = n; { N++; int N = 1; N--; *out = N; } *(out + 1) = N;", [0, 6, 0]),
        ("int i[2] = 0 ... 2; int N[2] = i; @(i < 1) N = 5; *(out + i) = N;", [5, 1, 0]),
    ):
        out = np.zeros(4, np.int32)
        parse(source.format(body, "")).kernel()[(1,)](5, out, on="interpreter")
        assert out.tolist() == [*values, 4], body
        with pytest.raises(TileirError, match="N is constant") as caught:
            parse(source.format(body, "N = 3;")).module()
        assert caught.value.code == "TIR1004"


def _text(module: Any) -> str:
    return "\n".join(
        f"{op.mnemonic} {op.results[0].type}" for op in module.kernel().ops if op.results
    )


@for_each(
    ("body", "code", "column"),
    [
        ("*out = m;", "TIR1002", 8),
        ("n = 1.5 ... 3;", "TIR1004", 5),
        ("int i[4] = 0 ... 5;", "TIR1003", 5),
        ("int i[4] = 3 ... 3;", "TIR1003", 12),
        ("int i[4] = 3 ... 2;", "TIR1003", 12),
        ("n = n ... 8;", "TIR1004", 5),
        ("int i[4] = 0 ... 4; n = i[2];", "TIR1003", 25),
        ("int i[4] = 0 ... 4; if (i > 1) n = 1;", "TIR1003", 21),
        ("int i[n];", "TIR1004", 7),
        ("int n = 1; int n = 2;", "TIR1002", 16),
        ("*n = 1;", "TIR1003", 1),
        ("x % 2;", "TIR1003", 1),
        ("frob(n);", "TIR1002", 1),
        ("break;", "TIR1001", 1),
        ("return 1;", "TIR1001", 1),
        ("dot(n, n);", "TIR1003", 1),
        ("1 = n;", "TIR1001", 1),
        ("int i[0];", "TIR1003", 6),
        ("n + ;", "TIR1001", 5),
        ("n $ 1;", "TIR1001", 3),
        ("int i[8] = 0 ... 8; int j[4] = 0 ... 4; i + j;", "TIR1003", 41),
        ("int i[8] = 0 ... 8; i[:, :];", "TIR1003", 21),
        ("int i[8] = 0 ... 8; i[newaxis];", "TIR1003", 21),
        ("int i[4, 4] = 1; i[:];", "TIR1003", 18),
        ("n[:];", "TIR1003", 1),
        ("out[:];", "TIR1003", 1),
        ("void v;", "TIR1003", 6),
        ("x = (float*)n;", "TIR1003", 5),
        ("*out = 1 << 10000000000;", "TIR1003", 8),
        ("*out = 1e400;", "TIR1003", 1),
        ("*out = " + "9" * 400 + ";", "TIR1003", 8),
        ("trans();", "TIR1003", 1),
        ("reshape(n);", "TIR1003", 1),
        ("bitcast();", "TIR1003", 1),
        ("max(x, x);", "TIR1003", 1),
        ("*out = put(out);", "TIR1003", 8),
        ("n = x[0];", "TIR1003", 5),
        ("x[0] = 1;", "TIR1003", 1),
        ("unsigned signed int i;", "TIR1003", 1),
        ("signed float f;", "TIR1003", 1),
        ("long long long f;", "TIR1003", 1),
        ("int i[8] = 0 ... 8; @(i < 3) return;", "TIR1001", 30),
        ("for (;;) { @(n < 3) break; }", "TIR1001", 21),
        ("int* p = 5;", "TIR1003", 4),
        ("n = out == 0;", "TIR1003", 5),
        ("n = n > 2 ? *n : 4;", "TIR1003", 5),
        ("n = n > 2 ? *3 : 4;", "TIR1003", 5),
        ("n = 3[:];", "TIR1003", 5),
        ("int t[8] = 0 ... 8; n = t[0];", "TIR1003", 25),
        ("int t[8] = 0 ... 8; n = t[:, 0];", "TIR1003", 25),
        ("out = out * 3;", "TIR1003", 7),
        ("out = 3 - out;", "TIR1003", 7),
    ],
)
def test_errors_are_at_their_place(body: str, code: str, column: int) -> None:
    with pytest.raises(TileirError) as caught:
        head = "void put(int* p) { *p = 1; } kernel void k(int n, float* x, int* out) {"
        parse(f"{head}\n{body}\n}}", "bad.c").module()
    error = caught.value
    assert (error.code, error.location.file, error.line, error.column) == (code, "bad.c", 2, column)


@for_each("function", ["int f(int n) { return; }", "void f(int n) { return n; }"])
def test_functions_return_what_they_say(function: str) -> None:
    with pytest.raises(TileirError, match="this function returns") as caught:
        parse(f"{function}\nkernel void k(int n) {{ f(n); }}", "bad.c").module()
    error = caught.value
    assert (error.code, error.line, error.column) == ("TIR1003", 1, function.index("return") + 1)


def test_the_host_refuses_what_it_does_not_know() -> None:
    source = """__constant__ int* d = alloc_const int[4];
for (int i = 0; i < M; i++) d[i] = i;
kernel void k(int* out) { *out = *d; }"""
    for constants in ({}, {"M": 5}):
        with pytest.raises(TileirError) as caught:
            parse(source, "host.c").module(constants=constants)
        assert caught.value.line == 2
    out = np.zeros(1, np.int32)
    parse(source).kernel()[(1,)](out, constants={"M": 4})


def test_constants_are_filled_by_the_statements_of_c() -> None:
    source = """__constant__ int* d = alloc_const int[8];
      __constant__ unsigned char* e = alloc_const unsigned char[1];
      int i = 2.7, j;
      d[0] = i; d[1] = 7.9; d[2] = (int)2.5 + 1; d[2]++; e[0] = -1;
      do { d[3] += i; i--; } while (i > 0);
      for (i = 4, j = 0; ; i++, j = j + 2) { if (i > 6) break; if (i == 5) continue; d[i] = j; }
      char narrow = 200; d[4] = narrow; unsigned char bits = 260; d[5] = bits;
      kernel void k(int* out) { int i[8] = 0 ... 8; *(out + i) = *(d + i); *(out + 7) = *e; }"""
    out = np.zeros(8, np.int32)
    parse(source).kernel()[(1,)](out)
    assert list(out) == [2, 7, 4, 3, -56, 4, 4, 255]


HOST_STATEMENTS = """{kind} x = {a}; {kind} y = {b};
x {op}= y; d[0] = x; x = {a}; x {op}= 3; d[1] = x; x = {a}; d[2] = x {op} y; d[3] = {b};
d[3] {op}= 2; d[4] = y; d[4] = (d[4] | 64) {op} (d[3] & 15 | 1); d[5] = {a};
d[5]++; d[6] = {a}; --d[6]; d[7] = (x = y) {op} 1;
"""
"""The same on the host and in a kernel, whose elements are accessed by `*`."""


OPERATORS_OF_TWO = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")


@for_each("kind", ("char", "unsigned short", "int", "unsigned long"))
@for_each("op", OPERATORS_OF_TWO)
def test_statements_of_the_host_do_what_those_of_a_kernel_do(kind: str, op: str) -> None:
    for a, b in ((100, 7), (13, 3)):
        statements = HOST_STATEMENTS.format(kind=kind, a=a, b=b, op=op)
        own = re.sub(r"d\[(\d)\]", r"(*(out + \1))", statements)
        host = f"__constant__ {kind}* d = alloc_const {kind}[8];\n{statements}"
        read = f"kernel void k({kind}* out) {{ int i[8] = 0 ... 8; *(out + i) = *(d + i); }}"
        results = []
        for text in (f"{host}\n{read}", f"kernel void k({kind}* out) {{ {own} }}"):
            out = np.zeros(8, C_TYPES[kind])
            parse(text).kernel()[(1,)](out, on="interpreter")
            results.append(out.tolist())
        assert results[0] == results[1], (a, b)


@for_each(
    "statement",
    [
        "d[0] = d;",
        "d = 3;",
        "i = i << i;",
        "d[0] = 1e400;",
        "break;",
        "i[0] = 1;",
        "int* p;",
        "d[i] = 1;",
        "d[8] = 1;",
        "d[-1] = 1;",
        "i = d[-1];",
        "i = d[-8];",
        "i = d[1, 2];",
        "d[1, 2] = 3;",
        "i = (int*)3;",
        "i = (int[4])3;",
        "__constant__ int* f = alloc_const int[100000000000];",
        "__constant__ int* f = alloc_const int[16777217];",
        "__constant__ int* f = alloc_const int[0];",
        "__constant__ int* f = alloc_const int[-1];",
    ],
)
def test_mistakes_on_the_host_are_at_their_place(statement: str) -> None:
    source = f"""__constant__ int* d = alloc_const int[8]; int i = 99;
{statement}
kernel void k(int* out) {{ *out = *d; }}"""
    with pytest.raises(TileirError) as caught:
        parse(source, "host.c").module()
    assert (caught.value.location.file, caught.value.line) == ("host.c", 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "part", ["+".join(["n"] * 2000), "n ? 1 : " * 2000 + "0", "!" * 2000 + "n"]
)
def test_long_expressions_mean_something_or_are_nested_too_deeply(part: str) -> None:
    source = f"kernel void k(int* out, int n) {{ *out = {part}; }}"
    if "+" in part:
        out = np.zeros(1, np.int32)
        parse(source).kernel()[1](out, 3, on="interpreter")
        assert out[0] == 6000
        return
    with pytest.raises(TileirError, match="nested too deeply") as caught:
        parse(source).module()
    assert caught.value.line == 1


@pytest.mark.slow
def test_random_text_gives_errors_and_nothing_else() -> None:
    source = (
        "tunable int N = {4}; int f(int a) { return a + 1; } kernel void k(int n, float* x) { "
        "int i[4] = 0 ... 4; for (int j = 0; j < n; j++) { @(i < j) *(x + i) = f(j) ? 1 : 2.0; } }"
    )
    rng = np.random.default_rng(0)
    words = source.split(" ")
    for _ in range(300):
        changed = list(words)
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(len(changed))
            kind = rng.integers(3)
            if kind == 0:
                del changed[at]
            elif kind == 1:
                changed.insert(at, str(rng.choice(words)))
            else:
                changed[at] = changed[at][: rng.integers(len(changed[at]) + 1)]
        try:
            parse(" ".join(changed)).module()
        except TileirError as error:
            assert error.line is not None or error.code == "TIR1005"


def test_what_is_no_number_is_an_error_at_its_place() -> None:
    with pytest.raises(TileirError, match="`09` is not a number") as caught:
        parse("kernel void k(int* out) { *out = 09; }").module()
    assert (caught.value.line, caught.value.column) == (1, 34)


@pytest.mark.parametrize("directive", ["#define", "# define /* N */"])
def test_a_macro_without_a_name_is_an_error_at_its_line(directive: str) -> None:
    with pytest.raises(TileirError, match="#define has no name") as caught:
        parse(f"#if 0\n#define\n#endif\n{directive}\nkernel void k(int* x) {{ *x = 1; }}", "k.c")
    assert (caught.value.location.file, caught.value.line) == ("k.c", 4)


def test_a_program_without_kernels_says_so() -> None:
    with pytest.raises(TileirError, match="there are: none") as caught:
        parse("#define N 4\n").module()
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "directive",
    ["#undef", "#ifdef", "#pragma", "#error no", "#include <a.h>", "#bogus", "#if"],
)
def test_what_directives_say_wrong_is_at_their_line(directive: str) -> None:
    source = f"#if 0\n{directive}\n#endif\n" if directive[:3] not in ("#if", "#pr") else ""
    parse(source + "kernel void k(int* x) { *x = 1; }").module()
    with pytest.raises(TileirError, match="the preprocessor: ") as caught:
        parse(f"\n{directive}\n#endif", "k.c")
    assert (caught.value.location.file, caught.value.line) == ("k.c", 2)


@for_each(("text", "line"), [
    *((f"#define A 1\n\n{directive}\n#define B 2\n", 3) for directive in (
        "#undef", "#ifdef", "#error no", "#include <a.h>", "#bogus", "#define", "#else", "#endif",
        "#elif 1", "#define F(", "#if 1/0\n#endif", "#if A(\n#endif",
    )),
    ("#if 1\n\n#define B 2\n", 1), ("#define A 1\n#if A\n#if 2\n#endif\n", 2),
])  # fmt: skip
def test_mistakes_in_directives_are_at_their_line_among_others(text: str, line: int) -> None:
    with pytest.raises(TileirError, match="the preprocessor: ") as caught:
        parse(f"{text}kernel void k(int* x) {{ *x = 1; }}", "k.c")
    assert (caught.value.location.file, caught.value.line) == ("k.c", line)


@for_each(("text", "what", "line"), [
    ("kernel void k(int* x) {\n*x = 3", "the end", 2),
    ("kernel void k(int* x) {\n\n\n", "the end", 1),
    ("kernel void k(int* x) {\n*x = ;\n}", "`;`", 2),
    ("kernel void k(int* x) {\n*x = 3 }", "`}`", 2),
    ("kernel void k(int* x) {\n*x = 3; }\n\n}", "`}`", 4),
])  # fmt: skip
def test_what_does_not_belong_is_named_at_its_line(text: str, what: str, line: int) -> None:
    with pytest.raises(TileirError, match="does not belong here") as caught:
        parse(text, "k.c")
    assert caught.value.line == line and f"{what} does not belong" in str(caught.value)


def test_macros_that_are_given_are_any_text() -> None:
    defines = {"T": "int", "N": 8, "NEXT(a)": "a + 1", "EMPTY": ""}
    text = "kernel void k(T* out) { EMPTY T i[N] = 0 ... N; *(out + i) = 2 * NEXT(i); }"
    out = np.zeros(8, np.int32)
    parse(text, defines=defines).kernel()[(1,)](out, on="interpreter")
    assert out.tolist() == [2 * i + 1 for i in range(8)]


def test_signed_arithmetic_is_nsw_and_unsigned_wraps() -> None:
    """C's rule, of data as of indices."""
    for kind, expected in (("int", "nsw"), ("unsigned int", "none")):
        program = parse(f"kernel void k({kind} n, {kind}* out) {{ *out = n * 5; }}")
        (mul,) = (op for op in program.module("k").kernel().ops if op.mnemonic == "mul")
        assert getattr(mul, "overflow").value == expected  # noqa: B009 - `mul` has it


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("*out = 1.0 / -0.0 < 0; *(out + 1) = -1.0 / -0.0 > 0;", [1, 1]),
        ("float f = *x; *out = f != f; *(out + 1) = f == f; *(out + 2) = !(f < 1);", [1, 0, 1]),
        ("unsigned int u = n + 6; *out = u == 4294967301; *(out + 1) = u + 4294967296 > u;",
         [0, 1]),
        ("*out = (char)200; char c = 200; *(out + 1) = c; *(out + 2) = (short)40000;",
         [-56, -56, -25536]),
    ],
)  # fmt: skip
def test_numbers_are_those_of_c(body: str, values: list[int]) -> None:
    assert list(result(body, -1, np.float32([np.nan]))[: len(values)]) == values


@pytest.mark.parametrize("shift", ["0 << 64", "5 >> 64"])
def test_numbers_are_shifted_by_fewer_than_their_bits(shift: str) -> None:
    with pytest.raises(TileirError, match="numbers have 64 bits"):
        result(f"*out = {shift};")


def test_a_pointer_moves_by_an_unsigned_number_of_elements() -> None:
    with pytest.raises(TileirError, match="TIR0501"):
        result("unsigned int u = n; *(out + 1 + u) = 3;", -1, np.zeros(1, np.float32))


def test_a_number_where_a_load_is_masked_off_is_given_by_the_load() -> None:
    body = "int i[8] = 0 ... 8; *(out + i) = i < n ? *(out + i) : 5;"
    program = parse(f"kernel void k(int n, float* x, int* out) {{ {body} }}")
    ops = [op.mnemonic for op in program.kernel().module().kernel().ops]
    assert ops.count("load") == 1
    assert "select" not in ops
