"""Where barriers stand: programs with the barriers that they need and no others.

A line `!block` or `!warp` is a barrier that the pass puts there; the others are the program's.
"""

from __future__ import annotations

import re

import pytest

from tileir import Function
from tileir.backend.memory.scratch import Plan
from tileir.backend.memory.sync import place_barriers
from tileir.ops.gpu import Barrier
from tileir.passmanager import run
from tileir.textual import parse

HEAD = """tir 1.0
stage "allocated"
#a = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[32]])
#s = layout(rank = 1, lane = [[1], [2], [4], [8], [0]], warp = [[16]])
#f = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 0]], warp = [[0, 16]])
#c = layout(rank = 1, lane = [[1], [2], [4], [8], [16]], warp = [[0]])
#e = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[0, 0]])
#r = layout(rank = 2, lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 0]])
#g = layout(rank = 2, register = [[0, 8], [4, 0], [0, 1]], lane = [[1, 0], [0, 2], [2, 0], [0, 16], [0, 4]], warp = [[0, 32]])
#w = layout(rank = 2, register = [[0, 1], [0, 9], [4, 9]], lane = [[0, 16], [0, 18], [0, 22], [2, 0], [3, 0]], warp = [[0, 40]])
#z = layout(rank = 2, lane = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8]], warp = [[0, 16]])

define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, f32** %pp, i32* %flag, i32 %n, i32 %m, i1 %c, i1 %d) {num_warps = 2, shared = 65536} {
entry:
  %i = make_range i32<64, #a>
  %last = splat i32<64, #a> 63
  %j = sub i32<64, #a> %last, %i
  %xs = splat f32*<64, #a> %x
  %ys = splat f32*<64, #a> %y
  %p = getelementptr f32*<64, #a> %xs, %i
  %q = getelementptr f32*<64, #a> %xs, %j
  %yp = getelementptr f32*<64, #a> %ys, %i
  %v = splat f32<64, #a> 1.0
  %i2 = reshape i32<2, 32, #r> %i
  %g0 = make_range i32<32, #c>
  %g1 = expand_dims i32<1, 32, #e> %g0 {axis = 0}
  %g2 = broadcast i32<2, 32, #r> %g1
  %g3 = add i32<2, 32, #r> %g2, %g2
  %rest = splat i32<2, 32, #r> 31
  %g4 = sub i32<2, 32, #r> %rest, %g3
  %turned = add i32<2, 32, #r> %i2, %g4
  %xr = splat f32*<2, 32, #r> %x
  %pr = getelementptr f32*<2, 32, #r> %xr, %i2
  %qr = getelementptr f32*<2, 32, #r> %xr, %turned
  %vr = splat f32<2, 32, #r> 1.0
  %is = make_range i32<32, #s>
  %xss = splat f32*<32, #s> %x
  %yss = splat f32*<32, #s> %y
  %ps = getelementptr f32*<32, #s> %xss, %is
  %ysp = getelementptr f32*<32, #s> %yss, %is
  %vs = splat f32<32, #s> 1.0
  %vg = splat f32<8, 64, #g> 1.0
"""  # noqa: E501
"""`%p` goes up, `%q` down; `%pr` has a row for each warp, of which `%qr` goes backwards; of `%ps`
two lanes of a warp hold each element."""

_BARRIER = re.compile(r"^ *(?:!(block|warp)|gpu\.barrier( \{warp = true\})?)$")
_NO_OP = re.compile(r"^ *(;.*|\w+:|%\w+ = phi .*)?$")


def scene(body: str) -> list[str]:
    """The lines of `body`, a `ret` behind where there is none."""
    lines = body.rstrip().splitlines()
    return lines if any(line.strip() == "ret" for line in lines) else [*lines, "  ret"]


def kernel(body: str) -> Function:
    """The program without its marks, and with the barriers that it needs."""
    lines = [line for line in scene(body) if not line.strip().startswith("!")]
    return run(parse(HEAD + "\n".join(lines) + "\n}\n"), "barriers").module.kernel()


def expected(body: str) -> list[tuple[str, int]]:
    """The barriers of `body`, marks included: kind, and how many ops come before."""
    found: list[tuple[str, int]] = []
    count = 0
    for line in [*HEAD.partition("entry:\n")[2].splitlines(), *scene(body)]:
        if barrier := _BARRIER.match(line):
            found.append((barrier[1] or ("warp" if barrier[2] else "block"), count))
        else:
            count += not _NO_OP.match(line)
    return found


def made(body: str) -> list[tuple[str, int]]:
    """The barriers of the program of `body`, in the same way."""
    found: list[tuple[str, int]] = []
    count = 0
    for op in kernel(body).ops:
        if op.mnemonic == "gpu.barrier":
            found.append(("warp" if getattr(op, "warp", False) else "block", count))
        else:
            count += 1
    return found


GLOBAL = {
    "a load behind a store that others made": """
  store %p, %v
  !block
  %a = load f32<64, #a> %q
""",
    "a store behind a load that others made": """
  %a = load f32<64, #a> %p
  !block
  store %q, %v
""",
    "a store behind a store that others made": """
  store %p, %v
  !block
  store %q, %v
""",
    "loads alone": """
  %a = load f32<64, #a> %p
  %b = load f32<64, #a> %q
  store %yp, %b
""",
    "a thread's own": """
  store %p, %v
  %a = load f32<64, #a> %p
  store %p, %a
""",
    "of its own and of others' the others' count": """
  %a = load f32<64, #a> %p
  %b = load f32<64, #a> %q
  !block
  store %p, %v
""",
    "lanes of a warp": """
  store %pr, %vr
  !warp
  %a = load f32<2, 32, #r> %qr
""",
    "lanes of a warp, then warps": """
  store %pr, %vr
  !warp
  %a = load f32<2, 32, #r> %qr
  !block
  %b = load f32<64, #a> %q
""",
    "lanes of a warp both times": """
  store %pr, %vr
  !warp
  %a = load f32<2, 32, #r> %qr
  !warp
  store %pr, %vr
""",
    "the block has met, so warps have": """
  store %pr, %vr
  !block
  %b = load f32<64, #a> %q
  %a = load f32<2, 32, #r> %qr
""",
    "one barrier where warps and the block wait": """
  store %pr, %vr
  store %ys, %v
  !block
  %b = load f32<64, #a> %q
""",
    "warps that met by the program": """
  store %pr, %vr
  gpu.barrier {warp = true}
  %a = load f32<2, 32, #r> %qr
""",
    "threads that met by the program": """
  store %p, %v
  gpu.barrier
  %a = load f32<64, #a> %q
""",
    "threads that met by the language": """
  store %p, %v
  barrier
  %a = load f32<64, #a> %q
""",
    "several that hold an element load it": """
  %a = load f32<32, #s> %ps
  %b = expand_dims f32<1, 32, #f> %a {axis = 0}
  !warp
  store %ps, %vs
""",
    "the first alone loads what it alone stores": """
  %a = load f32<32, #s> %ps
  store %ps, %vs
  store %ysp, %a
""",
    "parameters are apart": """
  store %p, %v
  %a = load f32<64, #a> %yp
  store %yp, %a
""",
    "what nobody writes is read at any time": """
  %a = load f32<64, #a> %yp
  store %p, %a
  %b = load f32<64, #a> %yp
""",
    "a pointer from memory may be any": """
  %far = load f32* %pp
  !block
  store %far, 1.0
  !block
  %a = load f32<64, #a> %p
  !block
  store %far, 2.0
""",
    "what any may have written": """
  store %p, %v
  %far = load f32* %pp
  !block
  %a = load f32 %far
""",
    "one number by thread 0, for all": """
  store %x, 1.0
  !block
  %a = load f32 %x
""",
    "one number by thread 0 alone": """
  store %x, 1.0
  store %x, 2.0
  %old = atomic_rmw f32 %x, 1.0 {op = fadd, sem = relaxed}
""",
    "one number beside others": """
  %up = getelementptr f32* %x, i32 64
  store %p, %v
  %a = load f32 %up
""",
    "one number among others": """
  %up = getelementptr f32* %x, i32 63
  store %p, %v
  !block
  %a = load f32 %up
""",
    "what atomics made": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  %qi = getelementptr i32*<64, #a> %at, %j
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = relaxed}
  !block
  %a = load i32<64, #a> %qi
""",
    "atomics of others": """
  atomic_store %flag, 1 {sem = relaxed}
  %a = atomic_load i32 %flag {sem = relaxed}
  %b = atomic_cas i32 %flag, 1, 2 {sem = relaxed}
  %d2 = atomic_rmw i32 %flag, 2 {op = add, sem = relaxed}
""",
    "integers within bounds are apart": """
  %small = and i32 %n, 7
  %other = and i32 %m, 7
  %above = add i32 %other, 8
  %at = getelementptr f32* %x, %small
  %to = getelementptr f32* %x, %above
  store %at, 1.0
  %a = load f32 %to
""",
    "integers that may be the same are not": """
  %small = and i32 %n, 7
  %other = and i32 %m, 7
  %above = add i32 %other, 7
  %at = getelementptr f32* %x, %small
  %to = getelementptr f32* %x, %above
  store %at, 1.0
  !block
  %a = load f32 %to
""",
    "integers within bounds of two parameters": """
  %small = and i32 %n, 7
  %at = getelementptr f32* %x, %small
  %far = load f32* %pp
  %to = getelementptr f32* %far, i32 8
  store %at, 1.0
  !block
  %a = load f32 %to
""",
}
"""Through global memory."""

ORDER = {
    "a release comes behind what others did": """
  store %p, %v
  !block
  atomic_store %flag, 1 {sem = release}
""",
    "a release behind what thread 0 did": """
  store %x, 1.0
  atomic_store %flag, 1 {sem = release}
""",
    "a release of many behind what thread 0 did": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  store %x, 1.0
  !block
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = release}
""",
    "a release of many behind nothing": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = release}
""",
    "a release comes behind what others read": """
  %a = load f32<64, #a> %yp
  !block
  atomic_store %flag, 1 {sem = release}
""",
    "a relaxed one need not": """
  store %p, %v
  atomic_store %flag, 1 {sem = relaxed}
""",
    "a volatile store is a release": """
  store %p, %v
  !block
  store %y, 1.0 {volatile = true}
""",
    "a fence is one for all": """
  store %p, %v
  !block
  fence {sem = release}
  !block
  store %p, %v
""",
    "a fence behind what thread 0 did": """
  store %x, 1.0
  !block
  fence {sem = release}
""",
    "a fence behind nothing": """
  fence {sem = acquire}
  !block
  %a = load f32<64, #a> %p
  store %p, %a
""",
    "two fences": """
  store %x, 1.0
  !block
  fence {sem = acquire}
  !block
  fence {sem = release}
""",
    "a fence, and nothing that it orders": """
  fence {sem = acquire}
  %a = fadd f32<64, #a> %v, %v
""",
    "a fence on one of two ways": """
  cond_br %c, left, right
left:
  fence {sem = acquire}
  br both
right:
  br both
both:
  !block
  store %p, %v
  ret
""",
    "threads that did something on one of two ways": """
  cond_br %c, left, right
left:
  store %p, %v
  br both
right:
  store %x, 1.0
  br both
both:
  !block
  atomic_store %flag, 1 {sem = release}
  ret
""",
    "thread 0 on either way": """
  cond_br %c, left, right
left:
  store %y, 1.0
  br both
right:
  store %x, 1.0
  br both
both:
  atomic_store %flag, 1 {sem = release}
  ret
""",
}
"""Releases and fences."""

PATHS = {
    "a store on one of two ways": """
  cond_br %c, left, right
left:
  store %p, %v
  br both
right:
  br both
both:
  !block
  %a = load f32<64, #a> %q
  ret
""",
    "a barrier on one of two ways": """
  store %p, %v
  cond_br %c, left, right
left:
  gpu.barrier
  br both
right:
  br both
both:
  !block
  %a = load f32<64, #a> %q
  ret
""",
    "a barrier on both": """
  store %p, %v
  cond_br %c, left, right
left:
  gpu.barrier
  br both
right:
  gpu.barrier
  br both
both:
  %a = load f32<64, #a> %q
  ret
""",
    "warps met on one of two ways": """
  store %pr, %vr
  cond_br %c, left, right
left:
  gpu.barrier {warp = true}
  br both
right:
  br both
both:
  !warp
  %a = load f32<2, 32, #r> %qr
  ret
""",
    "round a loop, from the end to the beginning": """
  br loop
loop:
  !block
  %a = load f32<64, #a> %q
  !block
  store %p, %a
  cond_br %c, loop, done
done:
  ret
""",
    "a store before a loop that reads": """
  store %p, %v
  br loop
loop:
  !block
  %a = load f32<64, #a> %q
  cond_br %c, loop, done
done:
  ret
""",
    "two loops, one within the other": """
  br outer
outer:
  !block
  store %p, %v
  br inner
inner:
  !block
  %a = load f32<64, #a> %q
  cond_br %c, inner, next
next:
  cond_br %d, outer, done
done:
  ret
""",
}
"""Along the ways that control takes."""

SHARED = {
    "bytes that others may still read": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "bytes beside": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [512, 256]}
""",
    "bytes in part": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 272]}
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
""",
    "bytes in part, from below": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 272]}
""",
    "threads meet within what passes between warps": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "warps alone meet within what stays in them": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [256, 2048]}
  !block
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "what stays in warps, over what others may read": """
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  !block
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
""",
    "round a loop": """
  br loop
loop:
  !block
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  cond_br %c, loop, done
done:
  ret
""",
    "round a loop within warps": """
  br loop
loop:
  !warp
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  cond_br %c, loop, done
done:
  ret
""",
    "two that stay in warps take turns": """
  br loop
loop:
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  %b = gpu.convert_layout f32<8, 64, #g> %a {layout = #g, shared = [2048, 2048]}
  cond_br %c, loop, done
done:
  ret
""",
    "what stays in warps on one of two ways": """
  br loop
loop:
  cond_br %d, some, none
some:
  !warp
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  br none
none:
  cond_br %c, loop, done
done:
  ret
""",
    "on one of two ways": """
  cond_br %c, left, right
left:
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  br both
right:
  br both
both:
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  ret
""",
    "threads that meet in a passage have met for global memory": """
  store %p, %v
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %a = load f32<64, #a> %q
""",
    "warps that meet in a passage have not met the others": """
  store %p, %v
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  %d2 = load f32<2, 32, #r> %qr
  !block
  %a = load f32<64, #a> %q
""",
    "an atomic whose old value is passed on": """
  %at = splat i32*<32, #s> %flag
  %pi = getelementptr i32*<32, #s> %at, %is
  %old = atomic_rmw i32<32, #s> %pi, 1 {op = add, sem = relaxed, shared = [0, 128]}
  store %pi, %old
  %new = atomic_rmw i32<32, #s> %pi, 1 {op = add, sem = relaxed, shared = [128, 128]}
  store %pi, %new
""",
    "an atomic whose old value is passed on, behind others": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  %qi = getelementptr i32*<64, #a> %at, %j
  store %qi, %i
  !block
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = relaxed, shared = [0, 256]}
  store %qi, %old
""",
    "a buffer comes with its barriers": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.local_store %vr, %b, 0
  gpu.barrier
  %l = gpu.local_load f32<2, 32, #r> %b, 0
  gpu.local_store %vr, %b, 0
""",
    "a buffer over another": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  %e = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.local_store %vr, %b, 0
  gpu.barrier
  %l = gpu.local_load f32<2, 32, #r> %b, 0
  !block
  gpu.local_store %vr, %e, 0
  gpu.barrier
  %l2 = gpu.local_load f32<2, 32, #r> %e, 0
""",
    "a passage over a buffer": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.local_store %vr, %b, 0
  gpu.barrier
  %l = gpu.local_load f32<2, 32, #r> %b, 0
  !block
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "a buffer where something passed": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  !block
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
  gpu.local_store %vr, %b, 0
""",
    "a copy that has landed": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.async_copy %pr, %b, 0
  gpu.async_commit
  gpu.barrier
  gpu.async_wait
  !block
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "a copy that has landed beside": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [256, 256]}
  gpu.async_copy %pr, %b, 0
  gpu.async_commit
  gpu.barrier
  gpu.async_wait
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [512, 256]}
""",
    "a copy of what others stored": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  store %q, %v
  !block
  gpu.async_copy %pr, %b, 0
  gpu.async_commit
  gpu.async_wait
""",
    "stores behind a copy": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.async_copy %pr, %b, 0
  gpu.async_commit
  gpu.async_wait
  !block
  store %p, %v
""",
}
"""Through shared memory."""


@pytest.mark.parametrize("name", SHARED)
def test_through_shared_memory(name: str) -> None:
    assert made(SHARED[name]) == expected(SHARED[name])


def round_and_round(passed: str, body: str = "", first: str = "%p", mark: str = "!block") -> str:
    """Every round loads and stores at `%t`: first `first`, then `passed`."""
    return f"""
  %by64 = splat i32<64, #a> 64
  %by32 = splat i32<64, #a> 32
  %back = splat i32<64, #a> -64
  %by0 = splat i32<64, #a> 0
  %byn = splat i32<64, #a> %n
  %far = getelementptr f32*<64, #a> %p, %byn
  br loop
loop:
  %k = phi i32 [0, entry], [%k2, loop]
  %t = phi f32*<64, #a> [{first}, entry], [{passed}, loop]
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  %k2 = add i32 %k, 1
  {body}
  cond_br %c, loop, done
done:
  ret
"""


def indexed(index: str, mark: str) -> str:
    """Every round loads and stores 64 elements from `%at` on, which `index` computes."""
    return f"""
  br loop
loop:
  %k = phi i32 [0, entry], [%k2, loop]
  %l = phi i32 [%m, entry], [%l2, loop]
  %k2 = add i32 %k, 1
  %l2 = add i32 %l, 3
  {index}
  %ats = splat i32<64, #a> %at
  %t = getelementptr f32*<64, #a> %p, %ats
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  cond_br %c, loop, done
done:
  ret
"""


def latches(left: int, right: int, mark: str) -> str:
    """Two ways back to the head, that move on by so many elements."""
    return f"""
  %one = splat i32<64, #a> {left}
  %two = splat i32<64, #a> {right}
  br loop
loop:
  %t = phi f32*<64, #a> [%p, entry], [%t1, left], [%t2, right]
  {mark}
  %a = load f32<64, #a> %t
  store %t, %a
  cond_br %c, left, right
left:
  %t1 = getelementptr f32*<64, #a> %t, %one
  br loop
right:
  %t2 = getelementptr f32*<64, #a> %t, %two
  cond_br %d, loop, done
done:
  ret
"""


def moving(step: str) -> str:
    return f"%t2 = getelementptr f32*<64, #a> %t, {step}"


LOOPS = {
    "on to the next": round_and_round("%t2", moving("%by64"), mark=""),
    "back to the one before": round_and_round("%t2", moving("%back"), mark=""),
    "half of it again": round_and_round("%t2", moving("%by32")),
    "the same again": round_and_round("%t"),
    "the same again, by nothing": round_and_round("%t2", moving("%by0")),
    "by nobody knows how much": round_and_round("%t2", moving("%byn")),
    "from the beginning": round_and_round("%p"),
    "from somewhere on": round_and_round("%t2", moving("%by64"), first="%far", mark=""),
    "to where it was not": round_and_round("%far"),
    "by a number of the loop": indexed("%at = mul i32 %k, 64", ""),
    "by half a number of the loop": indexed("%at = mul i32 %k, 32", "!block"),
    "by the next number": indexed("%at = mul i32 %k2, 64", ""),
    "by a number that stays": indexed("%k64 = mul i32 %k, 64\n  %at = add i32 %k64, %n", ""),
    "by two numbers together": indexed(
        "%k16 = mul i32 %k, 16\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k16, %l16", ""
    ),
    "by two numbers together, and less": indexed(
        "%k16 = mul i32 %k, 8\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k16, %l16", "!block"
    ),
    "by two numbers against each other": indexed(
        "%k48 = mul i32 %k, -48\n  %l16 = mul i32 %l, 16\n  %at = add i32 %k48, %l16", "!block"
    ),
    "by one of two that nobody knows": indexed(
        "%k64 = mul i32 %k, 64\n  %o = load i32 %flag\n  %at = add i32 %k64, %o", "!block"
    ),
    "by what is computed anew": indexed("%at = sdiv i32 %k, 2", "!block"),
    "two ways on, alike": latches(64, 64, ""),
    "two ways on": latches(64, 128, "!block"),
    "one way on, one back": latches(64, -64, "!block"),
    "a loop within a loop": """
  %by64 = splat i32<64, #a> 64
  br outer
outer:
  %t0 = phi f32*<64, #a> [%p, entry], [%t3, next]
  br inner
inner:
  %t = phi f32*<64, #a> [%t0, outer], [%t2, inner]
  !block
  %a = load f32<64, #a> %t
  store %t, %a
  %t2 = getelementptr f32*<64, #a> %t, %by64
  cond_br %c, inner, next
next:
  !block
  %b = load f32<64, #a> %q
  %t3 = getelementptr f32*<64, #a> %t0, %by64
  cond_br %d, outer, done
done:
  ret
""",
    "a pointer of a loop, and its parameter's": """
  %by64 = splat i32<64, #a> 64
  br loop
loop:
  %t = phi f32*<64, #a> [%p, entry], [%t2, loop]
  store %t, %v
  %t2 = getelementptr f32*<64, #a> %t, %by64
  cond_br %c, loop, done
done:
  !block
  %b = load f32<64, #a> %p
  ret
""",
    "above a number that nobody knows": """
  %o = and i32 %m, 7
  %o1 = add i32 %o, 1
  %low = getelementptr f32* %x, %n
  %high = getelementptr f32* %low, %o1
  store %low, 1.0
  %a = load f32 %high
  store %low, %a
""",
    "at or above a number that nobody knows": """
  %o = and i32 %m, 7
  %low = getelementptr f32* %x, %n
  %high = getelementptr f32* %low, %o
  store %low, 1.0
  !block
  %a = load f32 %high
""",
    "below a number that nobody knows": """
  %o = and i32 %m, 7
  %low = getelementptr f32* %x, %n
  %some = getelementptr f32* %low, %o
  %high = getelementptr f32* %low, i32 8
  store %some, 1.0
  %a = load f32 %high
  !block
  %b = load f32 %low
""",
    "numbers on both sides": """
  %o = and i32 %m, 7
  %e = and i32 %k9, 3
  %low = getelementptr f32* %x, %n
  %some = getelementptr f32* %low, %o
  %other = getelementptr f32* %low, %e
  %above = getelementptr f32* %other, i32 8
  %below = getelementptr f32* %other, i32 -4
  %near = getelementptr f32* %other, i32 7
  store %some, 1.0
  %a = load f32 %above
  %b = load f32 %below
  !block
  %d2 = load f32 %near
""".replace("%k9", "%shift").replace("  %o = and", "  %shift = lshr i32 %m, 3\n  %o = and", 1),
}
"""Round loops, and where integers are known in part."""


@pytest.mark.parametrize("name", GLOBAL)
def test_through_global_memory(name: str) -> None:
    assert made(GLOBAL[name]) == expected(GLOBAL[name])


@pytest.mark.parametrize("name", ORDER)
def test_releases_and_fences(name: str) -> None:
    assert made(ORDER[name]) == expected(ORDER[name])


@pytest.mark.parametrize("name", PATHS)
def test_along_the_ways_that_control_takes(name: str) -> None:
    assert made(PATHS[name]) == expected(PATHS[name])


@pytest.mark.parametrize("name", LOOPS)
def test_round_loops(name: str) -> None:
    assert made(LOOPS[name]) == expected(LOOPS[name])


def many(count: int, first: str, line: str, mark: str) -> str:
    """`count` accesses like `first`, each an element further, then `line` behind all of them."""
    lines = [f"  %p{i} = getelementptr f32* %x, i32 {i}\n{first.format(i)}" for i in range(count)]
    end = f"  %far = getelementptr f32* %x, i32 {count}\n  {mark}\n  {line}\n"
    return "\n".join(lines) + "\n" + end


LOADS, STORES = "  %v{0} = load f32 %p{0}", "  store %p{0}, 1.0"


def test_so_many_accesses_of_one_parameter_are_told_apart() -> None:
    for body in (
        many(64, LOADS, "store %far, 1.0", ""),
        many(65, LOADS, "store %far, 1.0", "!block"),
        many(64, STORES, "%a = load f32 %far", ""),
        many(65, STORES, "%a = load f32 %far", "!block"),
        many(65, STORES, "%a = load f32<64, #a> %yp", ""),
    ):
        assert made(body) == expected(body)


def test_without_tiles_the_number_of_warps_is_not_known() -> None:
    text = """tir 1.0
    stage "allocated"
    define kernel void @k(f32* %x) {num_warps = 1} {
    entry:
      store %x, 1.0
      %a = load f32 %x
      ret
    }
    """
    function = parse(text).kernel()
    for warps, kind in ((None, False), (1, True), (2, False)):
        ops = place_barriers(function, Plan.of(function), warps).ops
        assert [op.warp for op in ops if isinstance(op, Barrier)] == [kind]


def test_where_nothing_is_written_nobody_waits() -> None:
    function = kernel("  %a = load f32<64, #a> %p\n  %b = load f32<64, #a> %q\n")
    assert place_barriers(function, Plan.of(function)) is function
    lonely = kernel("  store %p, %v\n  %a = load f32<64, #a> %p\n")
    assert place_barriers(lonely, Plan.of(lonely)) is lonely


def test_a_barrier_stands_where_the_op_does() -> None:
    text = HEAD + '  store %p, %v\n  %a = load f32<64, #a> %q loc("f.py":7:3)\n  ret\n}\n'
    function = run(parse(text), "barriers").module.kernel()
    (barrier,) = [op for op in function.ops if isinstance(op, Barrier)]
    assert barrier.location is not None and barrier.location.line == 7
