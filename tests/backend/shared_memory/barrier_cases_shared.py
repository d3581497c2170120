"""Passages through shared memory, and buffers."""

from __future__ import annotations

SHARED = {
    "bytes that others may still read": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "bytes next to": """
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
    "threads synchronize within what passes between warps": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [256, 256]}
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "warps alone synchronize within what stays in them": """
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [256, 2048]}
  !block
  %d2 = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
""",
    "what stays in warps, over what others may read": """
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  !block
  %b = gpu.convert_layout f32<8, 64, #g> %a {layout = #g, shared = [0, 2048]}
""",
    "what stays in warps, over other bytes of the same": """
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  !block
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [1024, 2048]}
""",
    "what stays in warps, over the same": """
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  !warp
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
""",
    "what stays in warps, over the same in another layout": """
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  !block
  %b = gpu.convert_layout f32<8, 64, #uu> %vg {layout = #uu, shared = [0, 2048]}
  !block
  %d2 = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
""",
    "around a loop": """
  br loop
loop:
  !block
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  cond_br %c, loop, done
done:
  ret
""",
    "around a loop within warps": """
  br loop
loop:
  !warp
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  cond_br %c, loop, done
done:
  ret
""",
    "two that stay in warps alternate": """
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
    "threads that synchronize in a conversion have done so for global memory": """
  store %p, %v
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  %a = load f32<64, #a> %q
""",
    "warps that synchronize in a conversion have not done so with the others": """
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
    "an atomic whose old value is passed on, after others": """
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
    "another copy that has completed": """
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
    "copies from one place": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  %e = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [256, 256]}
  gpu.async_copy %pr, %b, 0
  gpu.async_copy %qr, %e, 0
  gpu.async_commit
  gpu.async_wait
  store %yp, %v
""",
    "stores after a copy": """
  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  gpu.async_copy %pr, %b, 0
  gpu.async_commit
  gpu.async_wait
  !block
  store %p, %v
""",
}
"""Through shared memory."""
