"""Which buffers in shared memory are needed, and which are being copied to, op by op."""

from __future__ import annotations

import re

import pytest

from tests.backend.shared_memory.barrier_cases import HEAD
from tileir import Function
from tileir.analysis.shared_buffers import accessed_buffers, alive
from tileir.textual import parse

ALLOT = "gpu.shared_alloc f32 addrspace(3)* {shape = [1, 2, 32]}"


def kernel(body: str) -> Function:
    lines = [line.partition(";")[0] for line in body.splitlines()]
    return parse(HEAD + "\n".join(lines) + "\n}\n").kernel()


def needed_buffers(function: Function) -> list[str]:
    """Of every op of the body the buffers needed, and after a stroke those copied to."""
    liveness = alive(function)
    first = HEAD.partition("entry:\n")[2].count("\n")
    return [
        " ".join(sorted(v.name or "" for v in liveness.needed[op]))
        + "|"
        + " ".join(sorted(v.name or "" for v in liveness.copying[op]))
        for op in list(function.ops)[first:]
    ]


def comments_of_ops(body: str) -> list[str]:
    """What stands after `;` in every line with an op."""
    lines = [line for line in body.splitlines() if line.strip()]
    return [
        line.partition(";")[2].strip() or "|"
        for line in lines
        if not re.match(r"\w+:|.*= phi", line.strip())
    ]


SCENES = {
    "from the first store to the last load": f"""
  %b = {ALLOT}
  %n1 = add i32 %n, 1
  gpu.local_store %vr, %b, 0               ; b|
  gpu.barrier                              ; b|
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  %n2 = add i32 %n, 1                      ; b|
  %d2 = gpu.local_load f32<2, 32, #r> %b, 0; b|
  ret
""",
    "what no op reads, and what no op wrote": f"""
  %b = {ALLOT}
  %e = {ALLOT}
  gpu.local_store %vr, %b, 0               ; b|
  gpu.barrier
  %a = gpu.local_load f32<2, 32, #r> %e, 0 ; e|
  ret
""",
    "to allot it again is to start over": f"""
  br loop
loop:
  %n0 = add i32 %n, 1
  %b = {ALLOT}
  gpu.local_store %vr, %b, 0               ; b|
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  %n1 = add i32 %n, 1
  cond_br %c, loop, done
done:
  ret
""",
    "to store all of it is to start over": f"""
  %b = {ALLOT}
  br loop
loop:
  %n0 = add i32 %n, 1
  gpu.local_store %vr, %b, 0               ; b|
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  %n1 = add i32 %n, 1
  cond_br %c, loop, done
done:
  ret
""",
    "to store one of two stages is not": f"""
  %b = {ALLOT.replace("[1, 2", "[2, 2")}
  br loop
loop:
  %n0 = add i32 %n, 1                      ; b|
  gpu.local_store %vr, %b, 0               ; b|
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  %n1 = add i32 %n, 1                      ; b|
  cond_br %c, loop, done                   ; b|
done:
  ret
""",
    "around a loop": f"""
  %b = {ALLOT}
  br loop
loop:
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  gpu.local_store %vr, %b, 0               ; b|
  cond_br %c, loop, done                   ; b|
done:
  ret
""",
    "on one of two ways": f"""
  %b = {ALLOT}
  cond_br %c, left, right
left:
  gpu.local_store %vr, %b, 0               ; b|
  br both                                  ; b|
right:
  %n1 = add i32 %n, 1
  br both
both:
  %n2 = add i32 %n, 1                      ; b|
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|
  ret
""",
    "copies until their group was waited for": f"""
  %b = {ALLOT}
  %e = {ALLOT}
  gpu.async_copy %pr, %b, 0                ; b|b
  gpu.async_commit                         ; b|b
  gpu.async_copy %pr, %e, 0                ; b e|b e
  gpu.async_commit                         ; b|b e
  gpu.async_wait {{pending = 1}}             ; b|b e
  %a = gpu.local_load f32<2, 32, #r> %b, 0 ; b|e
  gpu.async_wait                           ; |e
  %n1 = add i32 %n, 1
  ret
""",
    "a copy without a group of its own": f"""
  %b = {ALLOT}
  gpu.async_copy %pr, %b, 0                ; b|b
  gpu.async_wait {{pending = 1}}             ; |b
  gpu.async_commit                         ; |b
  gpu.async_wait {{pending = 1}}             ; |b
  gpu.async_commit                         ; |b
  gpu.async_wait {{pending = 1}}             ; |b
  %n1 = add i32 %n, 1
  ret
""",
    "the newest copy counts, of either way": f"""
  %b = {ALLOT}
  gpu.async_copy %pr, %b, 0                ; b|b
  gpu.async_commit                         ; |b
  cond_br %c, left, right                  ; |b
left:
  gpu.async_copy %pr, %b, 0                ; b|b
  br both                                  ; |b
right:
  gpu.async_commit                         ; |b
  gpu.async_commit                         ; |b
  br both                                  ; |b
both:
  gpu.async_wait {{pending = 1}}             ; |b
  gpu.async_wait {{pending = 0}}             ; |b
  gpu.async_commit                         ; |b
  gpu.async_wait                           ; |b
  %n1 = add i32 %n, 1
  ret
""",
    "a copy on one of two ways is as old as it is": f"""
  %b = {ALLOT}
  cond_br %c, left, right
left:
  gpu.async_copy %pr, %b, 0                ; b|b
  gpu.async_commit                         ; |b
  br both                                  ; |b
right:
  br both
both:
  gpu.async_wait                           ; |b
  %n1 = add i32 %n, 1
  ret
""",
    "in the hands of another op it is needed everywhere": f"""
  %b = {ALLOT}                             ; b|
  %n1 = add i32 %n, 1                      ; b|
  %same, _ = icmp (i1, i1) %b, %b {{predicate = eq}} ; b|
  ret                                      ; b|
""",
}


@pytest.mark.parametrize("name", SCENES)
def test_buffers_alive(name: str) -> None:
    assert needed_buffers(kernel(SCENES[name])) == comments_of_ops(SCENES[name])


def test_ops_that_stand_nowhere_have_neither() -> None:
    function = kernel(f"  %b = {ALLOT}\n  gpu.local_store %vr, %b, 0\n  ret")
    liveness = alive(function)
    other = next(op for op in kernel("  %n1 = add i32 %n, 1\n  ret").ops)
    store = list(function.ops)[-2]
    assert not liveness.at(other) and accessed_buffers(store) == liveness.at(store)
    assert not accessed_buffers(other)


def test_without_buffers_nothing_is_alive() -> None:
    liveness = alive(kernel("  gpu.async_commit\n  ret"))
    assert not liveness.needed and not liveness.copying
