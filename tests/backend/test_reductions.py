"""Reductions of padded and predicated tiles on threads, against the interpreter."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import interpret
from tileir.backend import compile as compile_module
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.counts import Counts
from tileir.textual import parse

LARGEST = """
define (i32, i32) @largest(i32 %a, i32 %i, i32 %b, i32 %j) {
entry:
  %more, _ = icmp (i1, i1) %a, %b {predicate = sgt}
  %same, _ = icmp (i1, i1) %a, %b {predicate = eq}
  %low, _ = icmp (i1, i1) %i, %j {predicate = slt}
  %tie = and i1 %same, %low
  %first = or i1 %more, %tie
  %v = select i32 %first, %a, %b
  %at = select i32 %first, %i, %j
  ret %v, %at
}

define i32 @product(i32 %a, i32 %b) {
entry:
  %p = mul i32 %a, %b
  ret %p
}

define i32 @greater(i32 %a, i32 %b) {
entry:
  %more, _ = icmp (i1, i1) %a, %b {predicate = sgt}
  cond_br %more, first, second
first:
  ret %a
second:
  ret %b
}

define i8 @least(i8 %a, i8 %b) {
entry:
  %p = smin i8 %a, %b
  ret %p
}
"""


def strings(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def program(shape: tuple[int, ...], axis: int, combiner: str, predicate: str, warps: int) -> str:
    """Reduce `%v`, whose elements are loaded, and for a pair also their indices along the axis."""
    rest = shape[:axis] + shape[axis + 1 :]
    count, left = int(np.prod(shape)), int(np.prod(rest))
    kind, many, out = strings(shape), f"<{strings(rest)}>" if rest else "", f"<{left}>"
    element = "i8" if combiner == "@least" else "i32"
    pair = combiner == "@largest"
    load = f"  %w = load {element}<{count}> %p\n  %v = reshape {element}<{kind}> %w"
    under = {
        "": "",
        "tile": f"  %h, _ = icmp (i1<{kind}>, i1<{kind}>) %n, %m {{predicate = ne}}\n",
        "scalar": "  %h, _ = icmp (i1, i1) %which, 0 {predicate = ne}\n",
    }[predicate]
    at, way = "@%h " if predicate else "", f"{{axis = {axis}, combiner = {combiner}}}"
    lines = (
        f"  {at}%r, %s = reduce (i32{many}, i32{many}) %v, %n {way}"
        if pair
        else f"  {at}%r = reduce {element}{many} %v {way}"
    )
    stores = ""
    for n, name in enumerate(("r", "s") if pair else ("r",)):
        whole = f"reshape {element}{out} %{name}" if rest else f"splat {element}{out} %{name}"
        flat_lines = f"  %flat{n} = {whole}\n"
        stores += f"""{flat_lines}  %ys{n} = splat {element}*{out} %y
  %o{n} = add i32{out} %j, {n * left}
  %q{n} = getelementptr {element}*{out} %ys{n}, %o{n}
  {"@%h " if predicate == "scalar" else ""}store %q{n}, %flat{n}
"""
    return f"""tir 1.0
{LARGEST}
define kernel void @k({element}* %x, {element}* %y, i32 %which) {{num_warps = {warps}}} {{
entry:
  %i = make_range i32<{count}>
  %n = reshape i32<{kind}> %i
  %j = make_range i32{out}
  %xs = splat {element}*<{count}> %x
  %p = getelementptr {element}*<{count}> %xs, %i
{load}
  %m = splat i32<{kind}> %which
{under}{lines}
{stores}  ret
}}
"""


SHAPES = [((5,), 0), ((100,), 0), ((3, 40), 1), ((40, 3), 0), ((6, 5, 7), 1), ((33, 64), 0)]


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("predicate", ["", "tile", "scalar"])
@pytest.mark.parametrize("combiner", ["add", "smax", "@product", "@largest", "@least", "@greater"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.sampled(5)
def test_padding_and_lanes_left_out_take_no_part(
    shape: tuple[int, ...], axis: int, combiner: str, predicate: str, warps: int
) -> None:
    check_padding(shape, axis, combiner, predicate, warps)


@for_each(("combiner", "predicate", "shape", "axis", "warps"), [
        ("@product", "", (130, 5), 0, 4), ("@largest", "tile", (130, 5), 0, 4),
        ("@least", "scalar", (5, 130), 1, 4), ("@largest", "", (33, 64), 0, 1),
    ])  # fmt: skip
def test_there_is_an_element_where_a_thread_or_a_warp_has_one(
    combiner: str, predicate: str, shape: tuple[int, ...], axis: int, warps: int
) -> None:
    """Warps, and registers of all threads, may have padding alone."""
    check_padding(shape, axis, combiner, predicate, warps)


def check_padding(
    shape: tuple[int, ...], axis: int, combiner: str, predicate: str, warps: int
) -> None:
    """Extents that are no powers of two are padded; a predicate leaves out one element, or all."""
    module = parse(program(shape, axis, combiner, predicate, warps))
    kind = np.int8 if combiner == "@least" else np.int32
    x = np.random.default_rng(len(shape)).integers(-9, 10, shape).astype(kind) | 1
    if combiner in ("smax", "@largest", "@greater"):
        x = -np.abs(x)
    if combiner == "@least":
        x = np.abs(x)
    for which in (0, 3):
        results = []
        for launch in (interpret, SimtExecutor().launch):
            y = np.full(2 * x.size, -77, kind)
            launch(module, "k", 1, [x.reshape(-1), y, which])
            results.append(y)
        np.testing.assert_array_equal(results[0], results[1])


COLUMNS = """
define kernel void @k(i32* aligned(16) %x, i32* aligned(16) %y, i32 %which) {num_warps = 8} {
entry:
  %r = make_range i32<32>
  %rows = reshape i32<32, 1> %r
  %c = make_range i32<128>
  %columns = reshape i32<1, 128> %c
  %starts = mul i32<32, 1> %rows, 128
  %many = broadcast i32<32, 128> %starts
  %within = broadcast i32<32, 128> %columns
  %n = add i32<32, 128> %many, %within
  %xs = splat i32*<32, 128> %x
  %p = getelementptr i32*<32, 128> %xs, %n
  %v = load i32<32, 128> %p
  REDUCE
  %twice = add i32<128> %s, %s
  %ys = splat i32*<128> %y
  %q = getelementptr i32*<128> %ys, %c
  store %q, %twice
  ret
}
"""
REDUCED = {
    "add": "%s = reduce i32<128> %v {axis = 0, combiner = add}",
    "@product": "%s = reduce i32<128> %v {axis = 0, combiner = @product}",
    "@largest": ("%s, %at = reduce (i32<128>, i32<128>) %v, %many {axis = 0, combiner = @largest}"),
}


@pytest.mark.parametrize("combiner", REDUCED)
def test_what_warps_exchange_is_read_where_it_is_stored(combiner: str) -> None:
    """One exchange through shared memory, in which no two lanes conflict in a bank and threads join
    the partial results of one element, not of the four that they load."""
    text = COLUMNS.replace("REDUCE", REDUCED[combiner])
    module = parse(f"tir 1.0\n{LARGEST}\n{text}")
    assert "convert_layout" not in str(compile_module(module, target="sm_90a").tir_at("barriers"))
    x = np.random.default_rng(1).integers(-9, 10, (32, 128)).astype(np.int32) | 1
    counts, results = Counts(), []
    for run in (interpret, partial(SimtExecutor().launch, counts=counts)):
        y = np.full(128, -77, np.int32)
        run(module, "k", 1, [x.reshape(-1), y, 0])
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
    tallies = counts.by_op.values()
    assert (sum(t.barriers for t in tallies), sum(t.conflicts for t in tallies)) == (1, 0)


def test_chunks_are_reduced_where_they_are_loaded() -> None:
    """A tile that exceeds the registers is reduced by a function of pairs, chunk by chunk: each is
    joined with what was reduced before in the layout in which it is loaded."""
    text = COLUMNS.replace("REDUCE", REDUCED["@largest"]).replace("<32", "<1024")
    module = parse(f"tir 1.0\n{LARGEST}\n{text}")
    final = str(compile_module(module, target="sm_90a").tir_at("barriers"))
    joins = [line for line in final.splitlines() if "= join" in line]
    assert joins and not any("shared" in line for line in joins), joins
    assert "convert_layout" not in final
    x = np.random.default_rng(1).integers(-9, 10, (1024, 128)).astype(np.int32)
    y = np.full(128, -77, np.int32)
    SimtExecutor().launch(module, "k", 1, [x.reshape(-1), y, 0])
    np.testing.assert_array_equal(y, 2 * x.max(0))


def along_rows(element: str, columns: int, combiner: str, test: str = "") -> str:
    """A kernel of one warp that reduces each of 8 rows; with `test`, whether elements differ from
    0, as numbers of one bit."""
    count, kind = 8 * columns, "i1" if test else element
    return f"""tir 1.0
define kernel void @k({element}* aligned(16) %x, i32* aligned(16) %y) {{num_warps = 1}} {{
entry:
  %i = make_range i32<{count}>
  %xs = splat {element}*<{count}> %x
  %p = getelementptr {element}*<{count}> %xs, %i
  %w = load {element}<{count}> %p
  %u = reshape {element}<8, {columns}> %w
  {
        "%v, _ = icmp (i1<8, " + str(columns) + ">, i1<8, " + str(columns) + ">) %u, 0 " + test
        if test
        else f"%v = add {element}<8, {columns}> %u, 0"
    }
  %r = reduce {kind}<8> %v {{axis = 1, combiner = {combiner}}}
  %j = make_range i32<8>
  %ys = splat i32*<8> %y
  %q = getelementptr i32*<8> %ys, %j
  %word = {CASTS.get(kind, "zext")} i32<8> %r{", i32<8> 0" if kind == "i32" else ""}
  store %q, %word
  ret
}}
"""


CASTS = {"i32": "add", "i64": "trunc"}
REDUX = {
    "add": "add.s32", "smin": "min.s32", "smax": "max.s32", "umin": "min.u32", "umax": "max.u32",
    "and": "and.b32", "or": "or.b32", "xor": "xor.b32",
}  # fmt: skip
"""Operations of `redux.sync` (PTX ISA, "Parallel Synchronization and Communication Instructions:
redux.sync"), by combiner."""


@pytest.mark.parametrize("combiner", REDUX)
def test_a_warp_reduces_words_by_one_instruction(combiner: str) -> None:
    for element in ("i32", "i16"):
        compiled = compile_module(parse(along_rows(element, 512, combiner)), "sm_90a")
        assert f"redux.sync.{REDUX[combiner]}" in compiled.ptx
        signed = combiner[0] == "s"
        if element == "i16":
            assert ("sext i16" in compiled.llvm) == signed


@pytest.mark.parametrize(
    ("element", "columns", "combiner", "test"),
    [
        ("i32", 64, "add", ""), ("i32", 32, "smin", ""), ("i16", 128, "and", ""),
        ("i64", 256, "add", ""), ("i64", 256, "umax", ""), ("i32", 256, "mul", ""),
        ("i32", 256, "add", "{predicate = ne}"),
    ],
)  # fmt: skip
def test_other_reductions_are_by_shuffles(
    element: str, columns: int, combiner: str, test: str
) -> None:
    """Of numbers of one bit that are added, of 64 bits, and of rows that share a warp."""
    ptx = compile_module(parse(along_rows(element, columns, combiner, test)), "sm_90a").ptx
    assert "redux.sync" not in ptx
    assert "shfl.sync" in ptx


@pytest.mark.sampled(4)
@pytest.mark.parametrize("combiner", ["add", "smin", "umax", "xor"])
@pytest.mark.parametrize("columns", [16, 64, 512])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
def test_rows_are_reduced_separately(element: str, columns: int, combiner: str) -> None:
    module = parse(along_rows(element, columns, combiner))
    kind = np.dtype(element.replace("i", "int"))
    x = np.random.default_rng(columns).integers(-100, 100, 8 * columns).astype(kind)
    results = []
    for launch in (interpret, SimtExecutor().launch):
        results.append(np.zeros(8, np.int32))
        launch(module, "k", 1, [x, results[-1]])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("combiner", ["fadd", "fmul", "fmaxnum", "fminimum"])
def test_only_extrema_are_taken_before_an_extension(element: str, combiner: str) -> None:
    """A total of f16 or bf16 numbers that were extended is one of f32 numbers."""
    text = f"""tir 1.0
define kernel void @f({element}* aligned(16) %x, f32* %y) {{
entry:
  %r = make_range i32<1024>
  %xs = splat {element}*<1024> %x
  %p = getelementptr {element}*<1024> %xs, %r
  %v = load {element}<1024> %p
  %wide = fpext f32<1024> %v
  %t = reduce f32 %wide {{combiner = {combiner}}}
  store %y, %t
  ret
}}
"""
    ptx = compile_module(parse(text), "sm_90a").ptx
    narrow = re.search(rf"\b(add|mul|fma|min|max)\S*\.{element}", ptx)
    assert (narrow is not None) == combiner.startswith(("fmax", "fmin")), narrow


def count_to(decides: bool) -> str:
    """`out[i] = i` for each `i` up to the largest of 64 numbers, or to 8; then the largest."""
    bound = "%most" if decides else "8"
    return f"""tir 1.0

define kernel void @count(i32* %x, i32* %out) {{
entry:
  %i = make_range i32<64>
  %xs = splat i32*<64> %x
  %p = getelementptr i32*<64> %xs, %i
  %v = load i32<64> %p
  %most = reduce i32 %v {{axis = 0, combiner = smax}}
  br loop
loop:
  %n = phi i32 [0, entry], [%next, loop]
  %at = getelementptr i32* %out, %n
  store %at, %n
  %next = add i32 %n, 1
  %more, _ = icmp (i1, i1) %next, {bound} {{predicate = slt}}
  cond_br %more, loop, done
done:
  %last = getelementptr i32* %out, i32 63
  store %last, %most
  ret
}}
"""


@pytest.mark.parametrize("decides", [True, False])
def test_lanes_take_a_number_that_decides_a_branch_from_the_first_one(decides: bool) -> None:
    """ptxas then knows that they do not diverge."""
    module = parse(count_to(decides))
    options = {"num_warps": 4, "target": "sm_90a"}
    ptx = compile_module(module, "sm_90a", {"num_warps": 4}).ptx
    assert ("shfl.sync.idx" in ptx) == decides
    x, results = np.random.default_rng(2).integers(3, 50, 64).astype(np.int32), []
    for launch, more in ((SimtExecutor().launch, options), (interpret, {})):
        out = np.zeros(64, np.int32)
        launch(module, "count", (1,), [x, out], **more)
        results.append(out)
    assert results[0][63] == x.max()
    np.testing.assert_array_equal(*results)
