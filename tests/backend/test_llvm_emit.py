"""A kernel and what it calls as one module of LLVM IR."""

from __future__ import annotations

import random
import re

import attrs
import pytest

from tileir.backend import Options, compile as compile_kernel
from tileir.backend.nvptx.emit import KernelUnit, emit, reachable_functions
from tileir.backend.nvptx.role_branches import KernelWithRoles
from tileir.backend.nvptx.text import depth_first
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.ir import Module
from tileir.textual import parse

CALLS = """tir 1.0

declare i32 @elsewhere(i32 %a)

define i32 @inner(i32 %a) {
entry:
  %r = mul i32 %a, 3
  ret %r
}

define i32 @outer(i32 %a) {
entry:
  %s = call i32 @inner, %a
  %r = call i32 @inner, %s
  ret %r
}

define kernel void @k(i32* %x) {
entry:
  %v = load i32 %x
  %r = call i32 @outer, %v
  store %x, %r
  ret
}
"""


def unit(module: Module, warps: int) -> KernelUnit:
    function = module.kernel()
    return KernelUnit(module, function.name, SharedMemoryPlan.of(function), warps)


def test_what_is_called_by_what_is_called_is_defined_once() -> None:
    module = parse(CALLS)
    assert [f.name for f in reachable_functions(module, module.kernel())] == ["outer", "inner"]
    text = emit(unit(module, 1), target("sm_80"))
    assert text.count("define ") == 3


def test_a_function_without_a_body_is_named_where_it_is_called() -> None:
    module = parse(CALLS.replace("mul i32 %a, 3", "call i32 @elsewhere, %a"))
    with pytest.raises(CompileError, match="@elsewhere cannot be compiled: it has no body") as info:
        list(reachable_functions(module, module.kernel()))
    assert (info.value.code, info.value.location and info.value.location.line) == ("TIR0706", 7)


BARRIER = """tir 1.0
stage "barriers"

define kernel void @k(i32* %x) {num_warps = WARPS} {
entry:
  gpu.barrier
  ret
}
"""


@pytest.mark.parametrize(("warps", "block"), [(1, False), (2, True)])
def test_the_lanes_of_one_warp_need_no_barrier_of_the_block(warps: int, block: bool) -> None:
    text = emit(unit(parse(BARRIER.replace("WARPS", str(warps))), warps), target("sm_80"))
    assert ("call void @llvm.nvvm.barrier.cta.sync" in text) == block
    assert ("call void @llvm.nvvm.bar.warp.sync" in text) == (not block)


def test_a_barrier_of_a_warp_is_none_of_the_block() -> None:
    module = parse(
        BARRIER.replace("WARPS", "4").replace("gpu.barrier", "gpu.barrier {warp = true}")
    )
    text = emit(unit(module, 4), target("sm_80"))
    assert text.count("call void @llvm.nvvm.bar.warp.sync(i32 -1)") == 1
    assert "call void @llvm.nvvm.barrier.cta" not in text


@pytest.mark.parametrize("eviction", ["normal", "first", "last"])
def test_what_caches_keep(eviction: str) -> None:
    """Said of loads and stores that do not leave it to the caches."""
    load, store = "load i32 %x", "store %x, %r"
    attributes = f" {{eviction = {eviction}}}"
    module = parse(CALLS.replace(load, load + attributes).replace(store, store + attributes))
    text = emit(unit(module, 1), target("sm_80"))
    assert text.count("evict") == text.count(f"evict_{eviction}")
    assert ("ld.global" in text and "st.global" in text) == (eviction != "normal")


def test_an_assertion_without_a_place_is_at_line_0() -> None:
    module = parse("""tir 1.0
define kernel void @k(i1 %c) {
entry:
  assert %c {message = "no"}
  ret
}
""")
    function = module.kernel()
    (block,) = function.blocks.values()
    ops = [attrs.evolve(op, location=None) for op in block.ops]
    bare = function.with_blocks({block.label: attrs.evolve(block, ops=tuple(ops))})
    for each, line in ((function, 4), (bare, 0)):
        program = unit(module.with_functions({each.name: each}), 1)
        text = emit(program, target("sm_80"))
        (call,) = (x for x in text.splitlines() if "call void @__assertfail" in x)
        assert f", i32 {line}, " in call


RANK = """tir 1.0
stage "split_k"

define kernel void @k(i32* %x) {cluster = BLOCKS} {
entry:
  %r = gpu.cluster_rank i32
  store %x, %r
  ret
}
"""


OFFSETS = """tir 1.0

define kernel void @k(f32* %x) {
entry:
  %p = splat f32*<4096> %x
  %range = make_range i32<4096>
  %q = getelementptr f32*<4096> %p, %range
  %v = load f32<4096> %q
  %squares = mul i32<4096> %range, %range
  %r = getelementptr f32*<4096> %p, %squares
  store %r, %v
  ret
}
"""


def test_the_constant_of_an_offset_is_a_step_of_its_own() -> None:
    """A thread of 4 warps loads 32 elements, whose addresses differ by constants."""
    text = compile_kernel(parse(OFFSETS), "sm_90a", Options(num_warps=4)).llvm
    steps = re.findall(r"getelementptr float, ptr addrspace\(1\) %\w+, i\d+ (\S+)", text)
    assert sorted(map(int, filter(str.isdecimal, steps))) == [128 * i for i in range(1, 32)]
    assert len(set(steps)) == 31 + 1 + 32, "the offset of the thread, and those of the stores"


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_a_kernel_says_how_many_blocks_a_cluster_has(blocks: int) -> None:
    text = emit(unit(parse(RANK.replace("BLOCKS", str(blocks))), 4), target("sm_90a"))
    assert (f'"nvvm.cluster_dim"="{blocks}"' in text) == (blocks > 1)


def test_parts_of_a_thread_have_no_method_of_one_name() -> None:
    """One would hide the other, of another part of the interface; a class may change its base's."""
    parts = KernelWithRoles.__mro__[:-1]
    for i, first in enumerate(parts):
        for second in parts[i + 1 :]:
            if not issubclass(first, second):
                both = {n for n in vars(first) if callable(vars(first)[n])} & vars(second).keys()
                assert both <= {"__init__"}, f"{first.__name__}, {second.__name__}: {both}"


ROW = """tir 1.0

define kernel void @k(f32* %x, f32* %y) {
entry:
  %i = make_range i32<1024>
  %xs = splat f32*<1024> %x
  %p = getelementptr f32*<1024> %xs, %i
  %v = load f32<1024> %p
  %a = fmul f32<1024> %v, %v
  %b = fsub f32<1024> %v, 1.0
  %c = fmul f32<1024> %a, %b
  %s = reduce f32 %c {combiner = fadd}
  store %y, %s
  ret
}
"""


def test_instructions_come_where_they_are_first_needed() -> None:
    """A thread computes 32 terms of a sum: none waits for the squares of all others."""
    text = compile_kernel(parse(ROW), "sm_90a", Options(num_warps=1)).llvm
    lines = text.splitlines()
    squares = [n for n, x in enumerate(lines) if " fmul " in x][::2]
    additions = [n for n, x in enumerate(lines) if " fadd " in x][:16]
    assert len(squares) == 32
    assert all(n < squares[2 * i + 2] for i, n in enumerate(additions[:15]))


def test_additions_to_what_is_loaded_are_not_put_off() -> None:
    """The sum of what was loaded last is needed last: each waiting sum would keep three values."""
    count = 8
    lines = ["entry:"]
    for i in range(count):
        lines += [f"  %{name}{i} = call i32 @load()" for name in "abc"]
        lines += [f"  %p{i} = add i32 %a{i}, %b{i}", f"  %s{i} = add i32 %p{i}, %c{i}"]
    lines += [f"  call void @store(i32 %s{i})" for i in range(count)]
    lines.append("  ret void")
    movable = {f"%{name}{i}" for name in "ps" for i in range(count)}
    assert depth_first(lines, movable) == lines


def test_what_nothing_needs_keeps_no_value_alive() -> None:
    """Of the addresses of a vector's elements only the first is accessed. The others are left out,
    but for what a loop passes on, and do not delay the indices that they are computed from."""
    count = 8
    lines = ["loop:", "  %last = phi i32 [ 0, %entry ], [ %next, %loop ]"]
    lines += [f"  %i{i} = add i32 %base, {i}" for i in range(count)]
    lines += [f"  %p{i} = getelementptr i32, ptr %x, i32 %i{i}" for i in range(count)]
    lines += [f"  %d{i} = mul i32 %i{i}, %i{i}" for i in range(count)]
    lines += [f"  %e{i} = xor i32 %i{i}, %d{i}" for i in range(count)]
    lines += ["  call void @load(ptr %p0)"]
    lines += [f"  call void @store(i32 %e{i})" for i in range(count)]
    lines += ["  %next = add i32 %i0, %last", "  br label %loop"]
    movable = {f"%{name}{i}" for name in "ipde" for i in range(count)} | {"%next"}
    ordered = depth_first(lines, movable)
    assert sorted(ordered) == sorted(x for x in lines if not re.match(r"  %p[1-7] ", x))
    squares = [n for n, x in enumerate(ordered) if " mul " in x]
    stores = [n for n, x in enumerate(ordered) if "@store" in x]
    assert all(store < square for store, square in zip(stores, squares[1:], strict=False))


def test_stores_of_what_shares_intermediate_values_alternate() -> None:
    """A gradient stores two results, with two elements packed in a word. After all of the first,
    what the second shares with it would be alive for all elements."""
    words = [f"{i}.{j}" for i in range(8) for j in "xy"]
    elements = [f"{w}{j}" for w in words for j in "lh"]
    lines = ["entry:", *(f"  %w{i} = call i64 @load(ptr %x, i32 {i})" for i in range(8))]
    lines += [f"  %v{e} = call i32 @part{e[2:]}(i64 %w{e[0]})" for e in elements]
    lines += [f"  %s{e} = mul i32 %v{e}, %v{e}" for e in elements]
    for name, op in (("a", "add"), ("b", "xor")):
        lines += [f"  %{name}{e} = {op} i32 %s{e}, %v{e}" for e in elements]
        lines += [
            f"  %p{name}{w} = call i32 @pack(i32 %{name}{w}l, i32 %{name}{w}h)" for w in words
        ]
        lines += [f"  call void @store(i32 %p{name}{i}.x, i32 %p{name}{i}.y)" for i in range(8)]
    lines.append("  ret void")
    movable = {f"%{x}{e}" for x in "vsab" for e in elements} | {
        f"%p{x}{w}" for x in "ab" for w in words
    }
    places = dict[bool, dict[str, int]]()
    for alternating in (False, True):
        ordered = depth_first(lines, movable, alternating)
        assert sorted(ordered) == sorted(lines)
        assert [x for x in ordered if "@store" in x] == [x for x in lines if "@store" in x]
        places[alternating] = {x.split()[0]: n for n, x in enumerate(ordered)}
    assert places[True]["%pb0.x"] < places[True]["%pa0.y"] < places[True]["%pb0.y"]
    assert places[False]["%pa0.y"] < places[False]["%pb0.x"]


@pytest.mark.parametrize(("count", "moved"), [(8, False), (40, True)])
def test_a_block_with_few_values_keeps_its_order(count: int, moved: bool) -> None:
    """80 values are alive in the second block, which decides how many registers a thread takes."""
    lines = ["few:"]
    lines += [f"  %d{i} = mul i32 %a, {i}" for i in range(count)]
    lines += [f"  call void @store(i32 %d{i})" for i in range(count)]
    lines += ["  br label %many", "many:"]
    lines += [f"  %v{i} = call i32 @load()" for i in range(80)]
    lines += [f"  call void @store(i32 %v{i})" for i in range(80)]
    lines.append("  ret void")
    ordered = depth_first(lines, {f"%d{i}" for i in range(count)})
    assert (ordered != lines) == moved and sorted(ordered) == sorted(lines)


UNDER_CONDITION = """tir 1.0

define kernel void @k(f32* %x, f32* %y, i32 %n) {
entry:
  %v = load f32 %x
  %e = exp f32 %v
  %c, _ = icmp (i1, i1) %n, 3 {predicate = sgt}
  cond_br %c, some, none
some:
  store %y, %e
  br none
none:
  ret
}
"""


def test_instructions_of_ptx_move_to_the_branch_that_needs_them() -> None:
    ptx = compile_kernel(parse(UNDER_CONDITION), "sm_90a").ptx
    assert 0 < ptx.index("bra") < ptx.index("ex2.approx")


@pytest.mark.parametrize("seed", range(40))
def test_every_value_is_defined_before_its_readers_in_any_order(seed: int) -> None:
    """Three basic blocks of random instructions, half of them needed by nothing, of which some keep
    their order and others do not."""
    choose, names, lines = random.Random(seed), ["%a", "%b"], []
    for block in range(3):
        start = len(names)
        for _ in range(choose.choice((3, 30))):
            x, y = (choose.choice(names[-choose.choice((2, len(names))) :]) for _ in range(2))
            names.append(f"%t{len(names)}")
            lines.append(f"  {names[-1]} = add i32 {x}, {y}")
        read = choose.sample(names[start:], min(3, len(names) - start))
        lines += [f"  call void @use(i32 {x})" for x in read]
        lines += [f"  br label %l{block + 1}", f"l{block + 1}:"]
    lines.append("  ret void")
    defined = {"%a", "%b"}
    for line in depth_first(lines, set(names[2:])):
        matches = re.findall(r"%t\d+", line)
        result = matches[:1] if " = " in line else []
        assert defined.issuperset(matches[len(result) :]), line
        defined.update(result)
