"""Branches, loops and conversions of Triton-C against what C computes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.frontends.triton_c import CompilationError, host, parse


def left(body: str, n: int, **options: Any) -> list[int]:
    """What `k(int n, int* out)` with this body leaves in eight elements that were -1."""
    out = np.full(8, -1, np.int32)
    program = parse(f"kernel void k(int n, int* out) {{ {body} }}")
    program.kernel()[(1,)](n, out, **options)
    return out.tolist()


BRANCHES: dict[str, Callable[[int], Any]] = {
    "if (n > 2) *out = 1; else *out = 2;": lambda n: [1 if n > 2 else 2],
    "if (n > 2) { *out = 1; } else if (n > 0) { *out = 2; } else { *out = 3; } *(out + 1) = 9;":
        lambda n: [1 if n > 2 else 2 if n > 0 else 3, 9],
    "if (n > 2) return; else *out = 2; *(out + 1) = 9;": lambda n: [-1, -1] if n > 2 else [2, 9],
    "if (n > 2) *out = 1; else return; *(out + 1) = 9;": lambda n: [1, 9] if n > 2 else [-1, -1],
    "if (n > 2) return; else return;": lambda n: [-1],
    "if (1 > 2) *out = 1; else *out = n;": lambda n: [n],
    "if (2 > 1) *out = n; else *out = 2;": lambda n: [n],
    "int a = 5; if (n > 2) a = 6; else a = a + n; *out = a;": lambda n: [6 if n > 2 else 5 + n],
    "int a = 5; if (n > 2) a++; *out = a;": lambda n: [6 if n > 2 else 5],
    "int s = 0; for (int i = 0; i < 6; i++) { if (i == n) continue; else s += i; if (i > 4) break; "
    "else s += 10; } *out = s;":
        lambda n: [sum(i + (0 if i > 4 else 10) for i in range(6) if i != n)],
    "int i = n; do { i++; } while (i < 3); *out = i;": lambda n: [max(n + 1, 3)],
    "int i = n; while (i < 3) { i++; } *out = i;": lambda n: [max(n, 3)],
    "*out = n++; *(out + 1) = n; *(out + 2) = ++n; *(out + 3) = n--;":
        lambda n: [n, n + 1, n + 2, n + 2],
    "*out = n > 2 ? n * 2 : n - 5;": lambda n: [n * 2 if n > 2 else n - 5],
    "*(out + 1) = 7; *out = n > 2 ? *(out + 1) : n;": lambda n: [7 if n > 2 else n, 7],
}  # fmt: skip


LOOPS = {
    "for": ("for (;;) {", "}"),
    "while": ("while (1) {", "}"),
    "do": ("do {", "} while (1);"),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("order", ["break first", "continue first", "break between"])
def test_an_endless_loop_is_left_wherever_its_break_is(loop: str, order: str) -> None:
    """Whatever other jumps it has."""
    leaves, goes_on = "if (i > 6) break;", "if (i == 3) continue;"
    jumps = {
        "break first": (leaves, goes_on), "continue first": (goes_on, leaves),
        "break between": (goes_on, leaves, goes_on),
    }[order]  # fmt: skip
    head, end = LOOPS[loop]
    body = (
        f"int i = n, s = 0; {head} i++; {' '.join(jumps)} s += i; {end} *out = s; *(out + 1) = i;"
    )
    i, s = 0, 0
    while True:
        i += 1
        if i == 3:
            continue
        if i > 6:
            break
        s += i
    assert left(body, 0, on="interpreter")[:2] == [s, i]


@for_each(("body", "n"), product(BRANCHES, range(-1, 5)))
def test_control_takes_the_way_of_c(body: str, n: int) -> None:
    expected = BRANCHES[body](n)
    assert left(body, n, on="interpreter")[: len(expected)] == expected


@pytest.mark.parametrize("body", BRANCHES)
@pytest.mark.sampled(1)
def test_control_takes_the_way_of_c_on_the_default_executor(body: str) -> None:
    for n in range(-1, 5):
        expected = BRANCHES[body](n)
        assert left(body, n)[: len(expected)] == expected


SIGNS = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=")


@for_each("sign", SIGNS)
def test_literals_are_computed_with_as_values_are(sign: str) -> None:
    """What the frontend computes itself, and what the kernel does."""
    second = (0, 1, 5, 31) if sign in ("<<", ">>") else (-7, -2, -1, 1, 2, 7, 100)
    pairs = [(x, y) for x in (-100, -7, -2, 0, 1, 7, 100) for y in second if x >= 0 or sign != "<<"]
    literals = " ".join(f"*(out + {i}) = {x} {sign} {y};" for i, (x, y) in enumerate(pairs))
    values = f"int i[64] = 0 ... 64; *(to + i) = *(x + i) {sign} *(y + i);"
    source = f"kernel void k(int* x, int* y, int* out, int* to) {{ {literals} {values} }}"
    x, y = (np.ones(64, np.int32) for _ in range(2))
    x[: len(pairs)], y[: len(pairs)] = np.array(pairs, np.int32).T
    out, to = (np.zeros(64, np.int32) for _ in range(2))
    parse(source).kernel()[(1,)](x, y, out, to, on="interpreter")
    assert out[: len(pairs)].tolist() == to[: len(pairs)].tolist()


@for_each(
    "name", ["char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long"]
)
def test_pointers_move_by_integers_of_every_type(name: str) -> None:
    """Forwards and back, by a number of a type and by its opposite."""
    source = f"""kernel void k(int* x, int* out, {name} n) {{
        *out = *(x + n); *(out + 1) = *(x + 9 - n); *(out + 2) = *(n + x);
        x -= n; *(out + 3) = *(x + 9); }}"""
    out = np.zeros(4, np.int32)
    parse(source).kernel()[(1,)](np.arange(10, 26, dtype=np.int32), out, 3, on="interpreter")
    assert out.tolist() == [13, 16, 13, 16]


@pytest.mark.parametrize("n", [-1, 3, 40])
def test_the_alternative_of_a_tile_is_computed_where_the_condition_does_not_hold(n: int) -> None:
    """Lanes of both alternatives are loaded where they are chosen, and nowhere else: what the
    others would read is outside."""
    body = """int i[16] = 0 ... 16;
      bool low[16] = i < n;
      int a[16] = low ? *(x + i) : *(y + i - 8);
      *(out + i) = a;"""
    source = f"kernel void k(int n, int* x, int* y, int* out) {{ {body} }}"
    x, y = np.arange(100, 116, dtype=np.int32), np.arange(200, 216, dtype=np.int32)
    i, out = np.arange(16), np.zeros(16, np.int32)
    if n < 8:
        source = source.replace("*(y + i - 8)", "*(y + i)")
        expected = np.where(i < n, x, y)
    else:
        expected = np.where(i < n, x, 0)
    parse(source).kernel()[(1,)](n, x, y, out)
    assert out.tolist() == expected.tolist()


TYPES = {"char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16,
         "int": np.int32, "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64,
         "float": np.float32, "double": np.float64}  # fmt: skip


@for_each("name", TYPES)
def test_values_are_converted_by_the_sign_of_their_own_type(name: str) -> None:
    """To each type, by a cast and where a variable is initialized."""
    check_conversions(name, "interpreter")


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.slow
def test_values_are_converted_on_the_default_executor(name: str) -> None:
    check_conversions(name, None)


def check_conversions(name: str, on: str | None) -> None:
    kind: Any = TYPES[name]
    x = np.array([0, 1, 100, 127, 255, 128, 77, 200]).astype(np.uint8).astype(kind)
    if kind in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
        x[1] = -1
    x = np.clip(x, -128, 127).astype(kind)
    if np.issubdtype(kind, np.integer):
        x[-2:] = np.iinfo(kind).max, np.iinfo(kind).min
    is_defined = np.issubdtype(kind, np.integer)
    targets = [
        t for t, to in TYPES.items() if is_defined or not np.issubdtype(to, np.unsignedinteger)
    ]
    parameters = ", ".join(f"{target}* out{n}" for n, target in enumerate(targets))
    body = "\n".join(
        f"*(out{n} + i) = ({target})v; {target} w{n}[8] = v; *(out{n} + 8 + i) = w{n};"
        for n, target in enumerate(targets)
    )
    source = f"""kernel void k({name}* x, {parameters}) {{
        int i[8] = 0 ... 8; {name} v[8] = *(x + i); {body} }}"""
    results = [np.zeros(16, TYPES[target]) for target in targets]
    parse(source).kernel()[(1,)](x, *results, on=on)
    for target, result in zip(targets, results, strict=True):
        assert result.tolist() == [*x.astype(TYPES[target]).tolist()] * 2, target


INTEGER_TYPES = [n for n in TYPES if n not in ("float", "double")]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]


@for_each("name", INTEGER_TYPES)
@for_each("sign", COMPARISONS)
def test_comparisons_follow_the_sign_after_promotion(name: str, sign: str) -> None:
    check_comparison(name, sign, "interpreter")


@pytest.mark.parametrize("name", INTEGER_TYPES)
@pytest.mark.parametrize("sign", COMPARISONS)
@pytest.mark.sampled(3)
def test_comparisons_on_the_default_executor(name: str, sign: str) -> None:
    check_comparison(name, sign, None)


def check_comparison(name: str, sign: str, on: str | None) -> None:
    kind: Any = TYPES[name]
    bounds = np.iinfo(kind)
    x = np.array([bounds.min, bounds.max, 0, 1, bounds.max // 2 + 1, 5, bounds.max, 0], kind)
    y = x[::-1].copy()
    out = np.zeros(8, np.int32)
    source = f"""kernel void k({name}* x, {name}* y, int* out) {{
        int i[8] = 0 ... 8; {name} a[8] = *(x + i); {name} b[8] = *(y + i);
        *(out + i) = a {sign} b; }}"""
    parse(source).kernel()[(1,)](x, y, out, on=on)
    assert out.tolist() == [int(v) for v in eval(f"x {sign} y", {"x": x, "y": y})]


@pytest.mark.parametrize("where", ["if (n > 2) return;", "if (n > 2) return; else n++;", ""])
def test_a_function_without_a_value_returns_early(where: str) -> None:
    for n in (1, 5):
        text = f"void put(int n, int* p) {{ *p = 7; {where} *p = n; {'' if n > 2 else 'return;'} }}"
        out = np.full(2, -1, np.int32)
        program = parse(f"{text} kernel void k(int n, int* o) {{ put(n, o); *(o + 1) = 3; }}")
        program.kernel()[(1,)](n, out, on="interpreter")
        left = 7 if where and n > 2 else n + ("else" in where)
        assert out.tolist() == [left, 3]


ON_HOST: dict[str, list[int]] = {
    "d[0] = i++; d[1] = i;": [3, 4], "d[0] = ++i; d[1] = i;": [4, 4],
    "d[0] = i--; d[1] = i;": [3, 2], "d[0] = --i; d[1] = i;": [2, 2],
    "d[0] = 5; d[1] = d[0]++; d[2] = ++d[0];": [7, 5, 7],
    "d[0] = (i += 2); d[1] = i -= 3;": [5, 2],
    "for (int k = 0; k < 9; k++) { if (k == 2) continue; if (k == 4) break; d[k] = k + 1; }":
        [1, 2, 0, 4],
    "while (i > 0) { i--; if (i == 1) continue; d[i] = i + 5; }": [5, 0, 7],
    "do { d[i--] = 1; } while (i > 1);": [0, 0, 1, 1], "do { d[0] += i; } while (i > 3);": [3],
    "do { d[0]++; if (i > 2) continue; d[1] = 9; } while (d[0] < 2 && i-- > 2);": [2, 9],
    "for (int k = 0; k < 2; k++) for (int l = 0;; l++) { if (l > k) break; d[2 * k + l] = 9; }":
        [9, 0, 9, 9],
    "d[0] = i > 2 ? 1 : 2; d[1] = (i = 7, i + 1); d[2] = (int) 2.7 + (char) 300;": [1, 8, 46],
}  # fmt: skip
"""Statements of the host, on i = 3 and an array d of zeros, and the first elements then."""
NO_LOOP = ("for (int k = 0; k < 3; k++) { }", "while (i > 0) i--;", "do i--; while (i > 0);",
           "for (;;) break;", "while (true) { if (i > 5) break; i++; continue; }", "")  # fmt: skip


@for_each("statements", ON_HOST)
def test_the_host_computes_as_c_does(statements: str) -> None:
    source = f"""__constant__ int* d = alloc_const int[4]; int i = 3; {statements}
    kernel void k(int* out) {{ int j[4] = 0 ... 4; *(out + j) = *(d + j); }}"""
    out, expected = np.full(4, -1, np.int32), ON_HOST[statements]
    parse(source).kernel()[(1,)](out, on="interpreter")
    assert out.tolist() == [*expected, *[0] * (4 - len(expected))]


@for_each(("loop", "passes"), [
    ("for (; i < {n}; i++) {{ }}", 16), ("while (i < {n}) i++;", 16),
    ("do i++; while (i < {n});", 16), ("for (; i < {n}; i++) for (int k = 0; k < 3; k++) {{ }}", 4),
    ("for (; i < {n}; i++) {{ }} while (i > 0) i--;", 8),
])  # fmt: skip
def test_iterations_of_the_host_are_bounded(loop: str, passes: int) -> None:
    """Those of all loops together."""
    for more in (0, 1):
        text = f"int i = 0; {loop.format(n=passes + more)}\nkernel void k(int* out) {{ *out = 1; }}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host, "_MOST_ITERATIONS", 16)
            if not more:
                parse(text).module()
                continue
            with pytest.raises(CompilationError, match="more than 16 iterations") as caught:
                parse(text).module()
        assert (caught.value.code, caught.value.line) == ("TIR1001", 1)


@for_each("before", NO_LOOP)
@for_each("jump", ("break", "continue"))
def test_a_jump_of_the_host_is_in_a_loop(before: str, jump: str) -> None:
    """Whatever loops have ended before."""
    source = f"int i = 3; {before}\n{jump};\nkernel void k(int* out) {{ *out = 1; }}"
    with pytest.raises(CompilationError) as caught:
        parse(source).module()
    assert (caught.value.code, caught.value.line) == ("TIR1001", 2)


@pytest.mark.parametrize("name", ["a", "n", "out", "i", "N", "table"])
def test_functions_see_their_parameters_and_what_stands_outside_of_functions(name: str) -> None:
    """They do not see the variables and parameters of their caller."""
    source = f"""const tunable int N = {{4}};
    __constant__ int* table = alloc_const int[2];
    int f(int x) {{ return x + ({"*table" if name == "table" else name} == 0); }}
    kernel void k(int n, int* out) {{ int a = n; for (int i = 0; i < 2; i++) *out = f(a); }}"""
    if name in ("N", "table"):
        out = np.zeros(1, np.int32)
        parse(source).kernel()[(1,)](3, out, on="interpreter")
        assert out[0] == 3 + (name == "table")
        return
    with pytest.raises(CompilationError, match=f"{name} is not declared") as caught:
        parse(source).module()
    assert (caught.value.code, caught.value.line) == ("TIR1002", 3)


AFTER_JUMPS: dict[str, list[int]] = {
    "*p = 1; return; *p = 2;": [1, -1], "*p = 1; return; int q = 3; while (1) { *p = q; }": [1, -1],
    "*p = 1; if (n) return; else return; *p = 2;": [1, -1], "*p = 1; { return; } *p = 2;": [1, -1],
    "*p = 1; for (;;) { return; } *p = 2;": [1, -1],
    "*p = 1; while (1) { *p = 3; break; *p = 2; } *(p + 1) = 7;": [3, 7],
    "*p = 1; while (1) { *p += 3; if (*p > 20) return; continue; *p = 2; } *p = 7;": [22, -1],
    "*p = 1; do { *p += 3; continue; *p = 2; } while (*p < 20); *(p + 1) = 7;": [22, 7],
    "*p = 1; for (int k = 0; k < 3; k++) { *p += 3; continue; *p = 2; } *(p + 1) = 7;": [10, 7],
}  # fmt: skip
"""Statements after those that leave a loop or a function, and what is left in two numbers."""


@for_each("body", AFTER_JUMPS)
def test_what_follows_a_jump_does_nothing(body: str) -> None:
    """In a kernel, and in a function, after whose call the kernel goes on."""
    text = f"""void f(int* p, int n) {{ {body} }} kernel void k(int n, int* p) {{ {body} }}
    kernel void l(int n, int* p) {{ f(p, n); *(p + 2) = 5; }}"""
    for kernel, end in (("k", -1), ("l", 5)):
        out = np.full(3, -1, np.int32)
        parse(text).kernel(kernel)[(1,)](1, out, on="interpreter")
        assert out.tolist() == [*AFTER_JUMPS[body], end], kernel
