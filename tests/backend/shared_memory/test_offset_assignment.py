"""Where allocations are: programs with the first byte of every allocation."""

from __future__ import annotations

import re

import pytest

from tests.backend.shared_memory.barrier_cases import HEAD
from tileir import Function
from tileir.backend.shared_memory.allocate import allocate_function
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.passmanager import run
from tileir.textual import parse

BIG = """#k = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32]], repeat = [register 32 @ 0])
"""  # noqa: E501
WIDE = """
  %wide = splat f32<2048, #k> 1.0
  %places = make_range i32<2048, #k>
"""
PASS = "gpu.convert_layout f32<2, 32, #z> %vr {layout = #z}"
NEAR = "gpu.convert_layout f32<8, 64, #w> %vg {layout = #w}"
FAR = "gather f32<2048, #k> %wide, %places"
ALLOT = "gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32]}"
LARGE = "gpu.shared_alloc f32 addrspace(3)* {shape = [48, 2, 32]}"


def kernel(body: str) -> Function:
    return parse(kernel_text(body)).kernel()


def kernel_text(body: str) -> str:
    lines = [line.partition(";")[0] for line in body.splitlines()]
    head = HEAD.replace("define kernel", BIG + "define kernel", 1) + WIDE
    return head + "\n".join([*lines, "  ret", "}", ""])


def check(body: str, size: int, limit: int = 0) -> Function:
    """Allocations begin where `; @` says, and take `size` bytes together."""
    function = allocate_function(kernel(body), limit)
    expected = [int(at) for at in re.findall(r"; @(\d+)", body)]
    assert [op.shared[0] for op in function.ops if op.shared] == expected
    assert function.attributes.get("shared", 0) == size
    return function


def test_nothing_needs_nothing() -> None:
    function = check("  %n1 = add i32 %n, 1\n", 0)
    assert "shared" not in function.attributes and function.attributes["num_warps"] == 2


def test_what_has_its_allocation_stays() -> None:
    function = check(f"  %a = {PASS} ; @0\n", 256)
    assert allocate_function(function) is function
    assert function.blocks["entry"].ops[0] is next(iter(function.ops))


@pytest.mark.parametrize(("limit", "size"), [(0, 512), (512, 512), (511, 256), (256, 256)])
def test_small_allocations_are_disjoint_until_threads_synchronize(limit: int, size: int) -> None:
    """Within the second passage they synchronize, so the third may be where the first was."""
    second = 256 if size == 512 else 0
    check(f"  %a = {PASS} ; @0\n  %b = {PASS} ; @{second}\n  %e = {PASS} ; @0\n", size, limit)


def test_a_barrier_of_the_program_lets_allocations_overlap() -> None:
    check(f"  %a = {PASS} ; @0\n  gpu.barrier\n  %b = {PASS} ; @0\n", 256)


def test_warps_that_synchronized_have_not_synchronized_with_others() -> None:
    check(f"  %a = {PASS} ; @0\n  gpu.barrier {{warp = true}}\n  %b = {PASS} ; @256\n", 512)
    check(f"  %a = {NEAR} ; @0\n  %b = {NEAR} ; @2048\n  %e = {NEAR} ; @4096\n", 6144)


def test_large_allocations_are_disjoint_where_it_takes_no_more() -> None:
    check(f"  %a = {FAR} ; @0\n  %b = {FAR} ; @0\n", 8192)
    check(f"  %a = {FAR} ; @0\n  %b = {PASS} ; @8192\n  %e = {FAR} ; @0\n", 8448)
    used = f"gpu.local_store %vr, %l, 0\n  gpu.barrier\n  %u = {FAR} ; @12288\n"
    used += "  %x1 = gpu.local_load f32<2, 32, #r> %l, 0\n"
    check(f"  %l = {LARGE} ; @0\n  {used}  %a = {FAR} ; @0\n", 20480)


def inside(loop: bool) -> str:
    """Two passages while a large buffer is needed, in a loop or not."""
    head, tail = ("  br loop\nloop:\n", "  cond_br %c, loop, done\ndone:\n") if loop else ("", "")
    second = 12544 if loop else 12288
    return f"""
  %l = {LARGE} ; @0
  gpu.local_store %vr, %l, 0
  gpu.barrier
{head}
  %a = {PASS} ; @12288
  %b = {PASS} ; @{second}
  %x1 = gpu.local_load f32<2, 32, #r> %l, 0
{tail}
"""


def test_in_loops_a_barrier_is_worth_some_bytes() -> None:
    check(inside(loop=False), 12544)
    check(inside(loop=True), 12800)


@pytest.mark.parametrize(
    ("machine", "rows", "size"),
    [("sm_90a", 147, 37888), ("sm_90a", 146, 37888), ("sm_80", 147, 38144)],
    ids=["a block less", "as many", "as many of sm_80"],
)
def test_a_barrier_is_worth_no_resident_block(machine: str, rows: int, size: int) -> None:
    """sm_90a has bytes for 6 blocks of 37,888 bytes, 12 warps, and 5 of 38,144."""
    body = inside(loop=True).replace("{shape = [48,", f"{{shape = [{rows},")
    function = allocate_function(kernel(body), machine=target(machine))
    assert function.attributes["shared"] == size
    assert target(machine).resident_blocks(2, 64, size) == {"sm_90a": 6, "sm_80": 4}[machine]


@pytest.mark.parametrize("warps", [1, 4, 32])
@pytest.mark.parametrize("shared", [0, 12544, 77824, 232448])
def test_bytes_with_which_enough_blocks_are_resident(warps: int, shared: int) -> None:
    """As many as before, or 12 warps; no more bytes leave as many."""
    machine = target("sm_90a")
    most = machine.shared_of_residents(warps, shared)
    blocks = machine.resident_blocks(warps, 64, most)
    assert blocks == min(machine.resident_blocks(warps, 64, shared), -(-12 // warps))
    assert machine.resident_blocks(warps, 64, most + 64) < blocks or most == machine.shared_bytes


def test_buffers_share_memory_where_one_is_dead() -> None:
    store, load = "gpu.local_store %vr, {}, 0", "gpu.local_load f32<2, 32, #r> {}, 0"
    one = f"  {store}\n  gpu.barrier\n  {{}} = {load}\n"
    first, second = one.format("%b", "%x1", "%b"), one.format("%e", "%x2", "%e")
    check(f"  %b = {ALLOT} ; @0\n  %e = {ALLOT} ; @0\n{first}{second}", 256)
    both = f"  {store}\n  {store}\n".format("%b", "%e")
    both += f"  gpu.barrier\n  %x1 = {load}\n  %x2 = {load}\n".format("%b", "%e")
    check(f"  %b = {ALLOT} ; @0\n  %e = {ALLOT} ; @256\n{both}", 512)


def test_the_largest_allocation_is_next_to_the_buffers_it_is_live_with() -> None:
    body = f"""
  %b = {ALLOT} ; @0
  gpu.local_store %vr, %b, 0
  gpu.barrier
  %a = {PASS} ; @8448
  %e = {FAR} ; @256
  %x1 = gpu.local_load f32<2, 32, #r> %b, 0
"""
    check(body, 8704)


def test_what_is_too_much_is_an_error_at_the_largest() -> None:
    body = f'  %a = {PASS}\n  %b = {FAR} loc("f.py":7:3)\n'
    with pytest.raises(CompileError) as caught:
        allocate_function(kernel(body), 8191)
    assert (caught.value.code, caught.value.line) == ("TIR0708", 7)
    assert "8192 bytes of shared memory are needed, and there are 8191" in str(caught.value)
    assert "gather needs 8192" in str(caught.value)
    with pytest.raises(CompileError):
        allocate_function(kernel(body), 1)
    assert allocate_function(kernel(body), 8192).attributes["shared"] == 8192


def test_copies_that_no_thread_waits_for_are_waited_for_where_it_saves_shared_memory() -> None:
    body = f"""
  %l = {LARGE} ; @0
  gpu.async_copy %pr, %l, 0
  gpu.async_commit
  %a = {FAR} ; @0
  %b = {FAR} ; @0
"""
    function = check(body, 12288)
    kinds = [op.mnemonic for op in function.ops]
    assert kinds.count("gpu.async_wait") == 1
    assert kinds.index("gpu.async_wait") + 1 == kinds.index("gather")


def test_where_it_saves_nothing_no_thread_waits_for_copies() -> None:
    body = f"""
  %l = {LARGE} ; @0
  gpu.local_store %vr, %l, 0
  gpu.barrier
  %u = {FAR} ; @12288
  %x1 = gpu.local_load f32<2, 32, #r> %l, 0
  gpu.barrier
  gpu.async_copy %pr, %l, 0
  gpu.async_commit
  %a = {FAR} ; @12288
"""
    assert "gpu.async_wait" not in [op.mnemonic for op in check(body, 20480).ops]


@pytest.mark.parametrize(("count", "second", "size"), [(16, 4096, 8192), (17, 0, 4352)])
def test_allocations_of_4096_bytes_are_small(count: int, second: int, size: int) -> None:
    """Rows of 64 numbers, so many, pass twice."""
    wide = f"f32<{64 * count}, layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32]], "
    wide += f"repeat = [register {count} @ 0])>"
    body = f"""
  %t = splat {wide} 1.0
  %g = splat {wide.replace("f32", "i32", 1)} 1
  %a = gather {wide} %t, %g ; @0
  %b = gather {wide} %t, %g ; @{second}
"""
    check(body, size)


@pytest.mark.parametrize(("stages", "disjoint"), [(46, True), (47, False)])
def test_small_allocations_take_a_quarter_of_what_blocks_have(stages: int, disjoint: bool) -> None:
    """A buffer of 256 bytes a stage, and two passages more, in 12288 bytes."""
    first = 256 * stages
    body = f"""
  %l = gpu.shared_alloc f32 addrspace(3)* {{shape = [{stages}, 2, 32]}} ; @0
  gpu.local_store %vr, %l, 0
  gpu.barrier
  %a = {PASS} ; @{first}
  %b = {PASS} ; @{first + 256 * disjoint}
  %x1 = gpu.local_load f32<2, 32, #r> %l, 0
"""
    check(body, 12288)


def test_functions_that_are_no_kernels_stay() -> None:
    """What they hold has no layouts before they are inlined."""
    text = kernel_text(f"  %a = {PASS}\n")
    device = """
define f32 @total(f32<64> %x) {
entry:
  %r = reduce f32 %x {combiner = fadd}
  ret %r
}
declare f32 @elsewhere(f32 %x)
"""
    module = parse(text + device)
    transformed = run(module, "allocate-shared").module
    assert transformed.functions["total"] is module.functions["total"]
    assert transformed.functions["elsewhere"] is module.functions["elsewhere"]
    assert transformed.kernel().attributes["shared"] == 256


def test_one_of_two_kernels_needs_allocations() -> None:
    idle = "define kernel void @idle(f32* %x) {\nentry:\n  ret\n}\n"
    module = parse(kernel_text(f"  %a = {PASS}\n") + idle)
    transformed = run(module, "allocate-shared").module
    assert transformed.functions["k"].attributes["shared"] == 256
    assert transformed.functions["idle"] is module.functions["idle"]
