"""Accesses of global memory."""

from __future__ import annotations

GLOBAL = {
    "a load after a store that others made": """
  store %p, %v
  !block
  %a = load f32<64, #a> %q
""",
    "a store after a load that others made": """
  %a = load f32<64, #a> %p
  !block
  store %q, %v
""",
    "a store after a store that others made": """
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
    "the block has synchronized, so warps have": """
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
    "warps that the program synchronized": """
  store %pr, %vr
  gpu.barrier {warp = true}
  %a = load f32<2, 32, #r> %qr
""",
    "threads that the program synchronized": """
  store %p, %v
  gpu.barrier
  %a = load f32<64, #a> %q
""",
    "threads that the language synchronized": """
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
    "what no thread writes is read at any time": """
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
    "one number next to others": """
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
    "an address that depends on data": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  %index = load i32<64, #a> %pi
  %any = getelementptr f32*<64, #a> %xs, %index
  %a = load f32<64, #a> %any
  !block
  store %p, %v
  !block
  store %any, %a
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
