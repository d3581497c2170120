"""What ops need of shared memory, in bytes."""

from __future__ import annotations

import pytest

from tests.backend.shared_memory.barrier_cases import HEAD
from tileir import Function
from tileir.backend.shared_memory.barriers import insert_barriers
from tileir.backend.shared_memory.requirements import (
    SharedMemoryPlan,
    SharedRequirement,
    is_warp_local,
    needs,
)
from tileir.errors import CompileError
from tileir.textual import parse

MORE = """
  %cond = icmp (i1<64, #a>, i1<64, #a>) %i, 5 {predicate = slt}
  %flags = splat i32*<64, #a> %flag
  %pf = getelementptr i32*<64, #a> %flags, %i
  %flagss = splat i32*<32, #s> %flag
  %ps8 = getelementptr i32*<32, #s> %flagss, %is
  %one = splat f32<1, #o> 1.0
  %h = splat f16<64, #a> 1.0
  %vj = splat f32<2, 32, #r> 2.0
""".replace("%cond = icmp (i1<64, #a>, i1<64, #a>)", "%cond, _ = icmp (i1<64, #a>, i1<64, #a>)")
LAYOUTS = """#o = layout(rank = 1, lane = [[0], [0], [0], [0], [0]], warp = [[0]])
#j = layout(rank = 3, register = [[0, 0, 1]], lane = [[0, 1, 0], [0, 2, 0], [0, 4, 0], [0, 8, 0], [0, 16, 0]], warp = [[1, 0, 0]])
#jx = layout(rank = 3, lane = [[0, 0, 1], [0, 1, 0], [0, 2, 0], [0, 4, 0], [0, 8, 0]], warp = [[0, 16, 0]], repeat = [register 2 @ 0])
#p = layout(rank = 1, lane = [[1], [2], [4]], repeat = [lane 4 @ none, warp 2 @ none])
#d = layout(rank = 1, register = [[64]], lane = [[1], [2], [4], [8], [16]], warp = [[32]])
#u = layout(rank = 2, lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]])
#p2 = layout(rank = 1, lane = [[0], [0], [0], [0], [0]], warp = [[1]])
#q = layout(rank = 2, lane = [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2]], warp = [[0, 4]])
#t = layout(rank = 1, register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]])
"""  # noqa: E501


def kernel(line: str) -> Function:
    head = HEAD.replace("define kernel", LAYOUTS + "define kernel", 1)
    return parse(f"{head}{MORE}  {line}\n  ret\n}}\n").kernel()


def requirement_of(line: str) -> SharedRequirement | None:
    """What the last op of `line` needs."""
    function = kernel(line)
    needed = needs(function)
    last = [op for op in function.ops if op.mnemonic != "ret"][-1]
    assert set(needed) <= {last}
    return needed.get(last)


@pytest.mark.parametrize(
    ("line", "size", "alignment"),
    [
        ("%r = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 4, 8]}", 256, 128),
        ("%r = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 3, 8]}", 48, 128),
        ("%r = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z}", 256, 16),
        ("%r = gpu.convert_layout f32<2, 32, #r> %vr {layout = #r}", None, 16),
        ("%r = reduce f32 %v {combiner = fadd}", 16, 16),
        ("%r = reduce f32<2, #p2> %vr {axis = 1, combiner = fadd}", None, 16),
        ("%r = reshape f32<8, 8, #q> %v", 256, 16),
        ("%r = reshape f32<2, 32, #r> %v", None, 16),
        ("%r = reshape f32<64, 1, #u> %v", None, 16),
        ("%r = gather f32<64, #a> %v, %i", 256, 16),
        ("%r = gather f16<64, #a> %h, %i", 128, 16),
        ("%r = histogram i32<5, #p> %i", 32, 16),
        ("%r = unsplat f32 %one", None, 16),
        ("%r = extract_slice f32<32, #s> %v, 16", 256, 16),
        ("%r = insert_slice f32<64, #a> %v, %vs, 16", 128, 16),
        ("%r = join f32<2, 32, 2, #jx> %vr, %vj", 512, 16),
        ("%r = join f32<2, 32, 2, #j> %vr, %vj", None, 16),
        ("%r = scan f32<64, #a> %v {combiner = fadd}", 16, 16),
    ],
)  # fmt: skip
def test_allocation_of_an_op(line: str, size: int | None, alignment: int) -> None:
    assert requirement_of(line) == (None if size is None else SharedRequirement(size, alignment))


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("%r = atomic_rmw i32<64, #a> %pf, 1 {op = add}", None),
        ("%r = atomic_rmw i32<32, #s> %ps8, 1 {op = add}", 128),
        ("%r = atomic_cas i32<32, #s> %ps8, 1, 2", 128),
        ("%r = atomic_rmw i32 %flag, 1 {op = add}", 16),
        ("%r = atomic_load i32 %flag", 16),
        ("%r = atomic_cas i32 %flag, 1, 2", 16),
    ],
)
def test_old_values_pass_where_somebody_reads_them(line: str, size: int | None) -> None:
    tile = "<" in line
    place = ("%pf" if "#a" in line else "%ps8") if tile else "%flag"
    assert requirement_of(line) is None
    function = kernel(f"{line}\n  store {place}, %r")
    result = needs(function)
    assert [need.size for need in result.values()] == ([] if size is None else [size])


def test_a_tile_without_a_layout_is_an_error() -> None:
    text = HEAD + '  %t = splat f32<64> 1.0\n  %r = reduce f32 %t {combiner = fadd} loc("f":3:5)\n'
    with pytest.raises(CompileError) as caught:
        needs(parse(text + "  ret\n}\n").kernel())
    assert (caught.value.code, caught.value.line) == ("TIR0709", 3)
    assert "reduce: f32<64> has no layout" in str(caught.value)


def test_barriers_need_layouts() -> None:
    text = HEAD + "  %t = splat f32*<64> %x\n  store %t, 1.0\n  store %t, 2.0\n  ret\n}\n"
    with pytest.raises(CompileError, match=r"splat: f32\*<64> has no layout"):
        insert_barriers(parse(text))


def test_allocations_that_ops_say_they_have() -> None:
    lines = """%a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [512, 256]}
  %b = gpu.convert_layout f32<2, 32, #r> %a {layout = #r}
"""
    function = kernel(lines)
    plan = SharedMemoryPlan.of(function)
    (first,) = plan.offsets
    assert (plan.offsets[first], plan.sizes[first], plan.size) == (512, 256, 65536)
    assert (
        plan.dynamic
        and not SharedMemoryPlan({}, {}, 49152).dynamic
        and SharedMemoryPlan({}, {}, 49153).dynamic
    )
    assert plan.alignment == SharedMemoryPlan({}, {}, 0).alignment == 16
    buffer = "%b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}"
    assert SharedMemoryPlan.of(kernel(f"{buffer}\n  {lines.splitlines()[0]}")).alignment == 128
    bare = function.evolve(attributes={})
    assert SharedMemoryPlan.of(bare).size == 0
    assert SharedMemoryPlan.of(function.evolve(attributes={"shared": "many"})).size == 0


def test_what_stays_within_warps() -> None:
    function = kernel(
        "%a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w}\n"
        "  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z}\n"
        "  %d2 = reduce f32 %v {combiner = fadd}"
    )
    near, far, total = list(function.ops)[-4:-1]
    assert [is_warp_local(op) for op in (near, far, total)] == [True, False, False]
