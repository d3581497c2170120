"""The standard library: linked at the types declared, against numpy and published answers."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tileir import LinkError, VerifyError, interpret, link, verify
from tileir.builder import F32, Builder, pointer
from tileir.std import function, names
from tileir.textual import parse

from .programs import module, run

RELU = """
declare i32<8> @get_global_range(i32 %axis)
declare i32<16> @get_global_range.wide(i32 %axis)

define kernel void @relu(f32* %A, i32 %M, i32 %N) {
entry:
  %rm = call i32<8> @get_global_range, i32 0
  %rn = call i32<16> @get_global_range.wide, i32 1
  %column = reshape i32<8, 1> %rm
  %i = broadcast i32<8, 16> %column
  %row = reshape i32<1, 16> %rn
  %j = broadcast i32<8, 16> %row
  %ms = splat i32<8, 16> %M
  %ns = splat i32<8, 16> %N
  %pm, _ = icmp (i1<8, 16>, i1<8, 16>) %i, %ms {predicate = slt}
  %pn, _ = icmp (i1<8, 16>, i1<8, 16>) %j, %ns {predicate = slt}
  %inside = and i1<8, 16> %pm, %pn
  %down = mul i32<8, 16> %j, %ms
  %at = add i32<8, 16> %down, %i
  %As = splat f32*<8, 16> %A
  %p = getelementptr f32*<8, 16> %As, %at
  %a = load f32<8, 16> %p, %inside
  %r = fmaximum f32<8, 16> %a, 0.0
  store %p, %r, %inside
  ret
}
"""


def test_get_global_range_is_linked_at_the_size_declared() -> None:
    x = np.random.default_rng(5).standard_normal((20, 30)).astype(np.float32)
    expected = np.maximum(x, 0).T.reshape(-1)
    flat = np.ascontiguousarray(x.T).reshape(-1)
    run(RELU, (3, 2), flat, 20, 30)
    assert (flat == expected).all()


def combine(name: str, elements: str, operands: int) -> str:
    """A kernel that reduces arrays of 13 by a function of the library."""
    types = [t.strip() for t in elements.split(",")]
    pointers = ", ".join(f"{t}* %x{n}" for n, t in enumerate(types))
    outs = ", ".join(f"{t}* %y{n}" for n, t in enumerate(types))
    declared = ", ".join(f"{t} %p{n}" for n, t in enumerate(types * 2))
    lines = [f"declare ({elements}) @{name}({declared})", "", "define kernel void "]
    lines[-1] += f"@k({pointers}, {outs}) {{\nentry:\n  %i = make_range i32<13> {{start = 0}}"
    for n, t in enumerate(types):
        lines.append(f"  %s{n} = splat {t}*<13> %x{n}")
        lines.append(f"  %p{n} = getelementptr {t}*<13> %s{n}, %i")
        lines.append(f"  %v{n} = load {t}<13> %p{n}")
    results = ", ".join(f"%r{n}" for n in range(operands))
    values = ", ".join(f"%v{n}" for n in range(operands))
    lines.append(f"  {results} = reduce ({elements}) {values} {{axis = 0, combiner = @{name}}}")
    lines += [f"  store %y{n}, %r{n}" for n in range(operands)]
    return "\n".join([*lines, "  ret", "}", ""])


@pytest.mark.parametrize(("name", "pick"), [("argmax", np.argmax), ("argmin", np.argmin)])
@pytest.mark.parametrize("nan", [False, True])
def test_argmax_and_argmin_of_the_library(name: str, pick: object, nan: bool) -> None:
    noise = np.random.default_rng(6)
    for _ in range(8):
        x, index = noise.integers(-3, 3, 13).astype(np.float32), np.arange(13, dtype=np.int32)
        if nan:
            x[noise.integers(13, size=2)] = np.nan
        value, at = np.zeros(1, np.float32), np.zeros(1, np.int32)
        run(combine(name, "f32, i32", 2), 1, x, index, value, at)
        assert at[0] == pick(x)  # type: ignore[operator]


def test_welford_of_the_library() -> None:
    x = np.random.default_rng(7).standard_normal(13) * 3 + 50
    zero, one = np.zeros(13), np.ones(13)
    out = [np.zeros(1) for _ in range(3)]
    run(combine("welford", "f64, f64, f64", 3), 1, x, zero, one, *out)
    mean, squares, count = (float(v[0]) for v in out)
    assert count == 13
    assert mean == pytest.approx(x.mean(), rel=1e-14)
    assert squares / 13 == pytest.approx(x.var(), rel=1e-12)


def test_online_softmax_of_the_library() -> None:
    x = np.random.default_rng(8).standard_normal(13) * 20
    x[3] = -math.inf
    top, total = np.zeros(1), np.zeros(1)
    run(combine("online_softmax", "f64, f64", 2), 1, x, np.ones(13), top, total)
    assert top[0] == x.max()
    assert total[0] == pytest.approx(np.exp(x - x.max()).sum(), rel=1e-13)


PHILOX = """
declare (i32, i32, i32, i32) @philox(i32 %a, i32 %b, i32 %c, i32 %d, i32 %k, i32 %l)

define kernel void @k(i32* %out, i32 %a, i32 %b, i32 %c, i32 %d, i32 %k, i32 %l) {
entry:
  %w, %x, %y, %z = call (i32, i32, i32, i32) @philox, %a, %b, %c, %d, %k, %l
  store %out, %w
  %p1 = getelementptr i32* %out, i32 1
  store %p1, %x
  %p2 = getelementptr i32* %out, i32 2
  store %p2, %y
  %p3 = getelementptr i32* %out, i32 3
  store %p3, %z
  ret
}
"""


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_answers(
    counter: list[int], key: list[int], expected: list[int]
) -> None:
    out = np.zeros(4, np.int32)
    run(PHILOX, 1, out, *counter, *key)
    assert out.view(np.uint32).tolist() == expected


ELEMENTWISE = """
declare TYPE @FUNCTION(TYPE %a, TYPE %b)

define kernel void @k(f32* %x) {
entry:
  ret
}
"""


@pytest.mark.parametrize("type_", ["i32", "i64", "i32<8>", "i16<3, 5>"])
def test_elementwise_functions_of_the_library_take_every_shape(type_: str) -> None:
    linked = link(module(ELEMENTWISE.replace("TYPE", type_).replace("FUNCTION", "cdiv")))
    verify(linked)
    assert not linked.functions["cdiv"].is_declaration
    assert [str(t) for t in function("cdiv", type_, (type_, type_)).results] == [type_]


def test_a_library_function_of_another_type_stays_undefined() -> None:
    linked = link(module(ELEMENTWISE.replace("TYPE", "f32").replace("FUNCTION", "cdiv")))
    assert linked.functions["cdiv"].is_declaration
    with pytest.raises(LinkError) as caught:
        function("cdiv", "f32", ("f32", "f32"))
    assert caught.value.code == "TIR0338"
    assert "its cdiv is ($Y, $Y) -> ($Y)" in str(caught.value)
    with pytest.raises(LinkError, match="its functions are: get_global_range"):
        function("ceil_div", "i32", ("i32", "i32"))


SORT = """
declare TYPE<N> @sort(TYPE<N> %x)

define kernel void @k(TYPE* %x) {
entry:
  %i = make_range i32<N> {start = 0}
  %xs = splat TYPE*<N> %x
  %p = getelementptr TYPE*<N> %xs, %i
  %v = load TYPE<N> %p
  %w = call TYPE<N> @sort, %v
  store %p, %w
  ret
}
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 13, 16, 48])
@pytest.mark.parametrize(("type_", "dtype"), [("i16", np.int16), ("f32", np.float32)])
def test_sort_of_the_library_takes_any_number(count: int, type_: str, dtype: type) -> None:
    noise = np.random.default_rng(count)
    for _ in range(4):
        x = noise.integers(-9, 9, count).astype(dtype)
        if type_ == "f32" and count > 3:
            x[noise.integers(count, size=2)] = [np.nan, np.inf]
        expected = np.sort(x)
        run(SORT.replace("TYPE", type_).replace("<N>", f"<{count}>"), 1, x)
        np.testing.assert_array_equal(x, expected)


SIGMOID = """
declare f32<2, 3> @sigmoid(f32<2, 3> %x)

define kernel void @k(f32* %x) {
entry:
  %i = make_range i32<6> {start = 0}
  %at = reshape i32<2, 3> %i
  %xs = splat f32*<2, 3> %x
  %p = getelementptr f32*<2, 3> %xs, %at
  %v = load f32<2, 3> %p
  %w = call f32<2, 3> @sigmoid, %v
  store %p, %w
  ret
}
"""


def test_sigmoid_of_the_library() -> None:
    x = np.array([-200, -3, -0.0, 0.5, 7, 200], np.float32)
    wide = x.astype(np.float64)
    expected = 1 / (1 + np.exp(-wide))
    run(SIGMOID, 1, x)
    np.testing.assert_allclose(x, expected, rtol=4e-7, atol=1e-38)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "std.md"


def test_every_function_is_on_its_page() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert listed == set(names())


def test_the_code_of_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(compile(code, str(PAGE), "exec"), {})


def test_the_declarations_of_the_page_are_linked() -> None:
    text = PAGE.read_text().split("```\n", 2)[1]
    linked = link(parse(f"tir 1.0\n\n{text}"))
    assert {"std.softmax", "std.topk.8"} <= linked.functions.keys()
    assert not any(f.is_declaration for f in linked.functions.values())


def test_a_function_of_the_program_is_never_taken_for_one_of_the_library() -> None:
    """Of the same name and type, called by the program and by a function of the library."""
    b = Builder()
    with b.function("sigmoid", F32, x=F32) as (x,):
        b.ret(x * 0 + 100)
    with b.kernel("k", out=pointer(F32)) as (out,):
        zero = b.constant(F32, 0.0)
        out.store(b.library("sigmoid", zero))
        (out + 1).store(b.call("sigmoid", zero))
        (out + 2).store(b.library("silu", b.constant(F32, 1.0)))
    module = b.module()
    assert {"sigmoid", "std.sigmoid", "std.silu"} <= module.functions.keys()
    output = np.zeros(3, np.float32)
    interpret(link(module), "k", (1,), {"out": output})
    np.testing.assert_allclose(output, [0.5, 100, 1 / (1 + np.exp(-1))], rtol=1e-6)


@pytest.mark.parametrize(
    "symbol", ["global f32 @std.x", "define void @std.x() {\nentry:\n  ret\n}"]
)
def test_names_of_the_library_are_its_own(symbol: str) -> None:
    with pytest.raises(VerifyError, match="names begin with std") as caught:
        parse(f"tir 1.0\n\n{symbol}\n")
    assert caught.value.code == "TIR0308"


@pytest.mark.parametrize("symbol", ["sigmoid", "sigmoid.f32", "std.sigmoid", "std.sigmoid.f32"])
def test_declarations_with_and_without_the_prefix(symbol: str) -> None:
    text = f"tir 1.0\n\ndeclare f32 @{symbol}(f32 %x)\n"
    linked = link(parse(text))
    assert not any(f.is_declaration for f in linked.functions.values())
    assert str(parse(str(linked))) == str(linked)
