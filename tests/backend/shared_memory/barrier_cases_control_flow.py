"""Releases and fences, and the ways that control takes."""

from __future__ import annotations

ORDER = {
    "a release comes after what others did": """
  store %p, %v
  !block
  atomic_store %flag, 1 {sem = release}
""",
    "a release after what thread 0 did": """
  store %x, 1.0
  atomic_store %flag, 1 {sem = release}
""",
    "a release of many after what thread 0 did": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  store %x, 1.0
  !block
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = release}
""",
    "a release of many after nothing": """
  %at = splat i32*<64, #a> %flag
  %pi = getelementptr i32*<64, #a> %at, %i
  %old = atomic_rmw i32<64, #a> %pi, 1 {op = add, sem = release}
""",
    "a release comes after what others read": """
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
    "the order of warpgroups and of instructions releases nothing": """
  store %p, %v
  gpu.named_barrier_sync
  gpu.named_barrier_arrive
  gpu.schedule_barrier %v
  !block
  %a = load f32<64, #a> %q
""",
    "a fence is one for all": """
  store %p, %v
  !block
  fence {sem = release}
  !block
  store %p, %v
""",
    "a fence after what thread 0 did": """
  store %x, 1.0
  !block
  fence {sem = release}
""",
    "a fence after nothing": """
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
    "warps synchronized on one of two paths": """
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
    "around a loop, from the end to the beginning": """
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
    "what a later block passes, a middle one notices": """
  br head
head:
  br middle
middle:
  !block
  %a = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  br tail
tail:
  !block
  %b = gpu.convert_layout f32<2, 32, #z> %vr {layout = #z, shared = [0, 256]}
  cond_br %c, head, done
done:
  ret
""",
    "what a later block passes within warps, a middle one notices": """
  br head
head:
  br middle
middle:
  cond_br %d, some, tail
some:
  !warp
  %a = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  br tail
tail:
  cond_br %c, head, done
done:
  ret
""",
    "a fence of a later block, and a middle one": """
  br head
head:
  br middle
middle:
  !block
  store %p, %v
  br tail
tail:
  gpu.barrier
  fence {sem = acquire}
  cond_br %c, head, done
done:
  ret
""",
    "a fence of an inner loop, and the outer one": """
  br outer
outer:
  !block
  store %p, %v
  br inner
inner:
  cond_br %d, again, next
again:
  gpu.barrier
  fence {sem = acquire}
  br inner
next:
  cond_br %c, outer, done
done:
  ret
""",
    "what an inner loop passes within warps, and the outer one": """
  %u = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32], shared = [0, 256]}
  br outer
outer:
  !block
  gpu.local_store %vr, %u, 0
  br inner
inner:
  cond_br %d, again, next
again:
  !block
  %b = gpu.convert_layout f32<8, 64, #w> %vg {layout = #w, shared = [0, 2048]}
  br inner
next:
  cond_br %c, outer, done
done:
  ret
""",
    "a barrier that later ones make needless": """
  br loop
loop:
  %a = load f32<64, #a> %q
  !block
  store %p, %a
  !block
  %b = load f32<64, #a> %q
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
