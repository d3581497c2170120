"""Allocations in shared memory that are wrong, and, without a marker, some that are right."""

from __future__ import annotations

STAGE = 'stage "allocated"\n\n'
HEADER = "define kernel void @k(f16* %x, i32 %n, i1 %c) {shared = 1024} {\nentry:\n"
A = "  %a = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 8, 16], shared = [0, 512]}\n"
TAKE = "  %t = gpu.local_load f16<8, 16> %a, 0\n"
COPY = "  %xs = splat f16*<8, 16> %x\n  gpu.async_copy %xs, %a, 0\n  gpu.async_commit\n"
HERE = "  %s = splat f16<8, 16> 0.0\n  gpu.local_store %s, %a, 0\n"


def other(offset: int, mark: str = "«") -> str:
    """A second buffer, of 512 bytes."""
    allocation = f"shared = [{offset}, 512]"
    return f"  {mark}%b = gpu.shared_alloc f16 addrspace(3)* {{shape = [2, 8, 16], {allocation}}}\n"


def scratch(offset: int, mark: str = "«") -> str:
    """An op with an allocation of 16 bytes."""
    return f"  {mark}%u = unsplat f16 f16<1> 1.0 {{shared = [{offset}, 16]}}\n"


def malformed_allocation(allocation: str) -> str:
    """The same with something else for an allocation."""
    return f"  %u = unsplat f16 f16<1> 1.0 {{«shared = {allocation}}}\n"


THERE = "  gpu.local_store %s, %b, 0\n  %v = gpu.local_load f16<8, 16> %b, 0\n"
LOOP = "  br loop\nloop:\n"
BACK = "  cond_br %c, loop, out\nout:\n"

_OVERLAPPING = [
    A + HERE + scratch(496) + TAKE,  # an op between a write and a read
    A + other(256) + HERE + THERE + TAKE,  # two buffers
    A + COPY + scratch(0),  # a copy that no thread waits for
    A + COPY + "  gpu.async_wait {pending = 1}\n" + scratch(0),  # or that may be pending
    A + HERE + LOOP + TAKE + scratch(0) + BACK,  # read again in the next iteration
    A + LOOP + HERE + BACK + scratch(0) + TAKE,  # written in a loop, read after it
    A + "  cond_br %c, l, r\nl:\n" + HERE + "  br out\nr:\n  br out\nout:\n" + scratch(8) + TAKE,
]
_DISJOINT = [
    A + HERE + scratch(512) + TAKE,
    A + scratch(0) + HERE + TAKE,
    A + HERE + TAKE + scratch(0),
    A + HERE + TAKE + other(0) + THERE,
    A + COPY + "  gpu.async_wait\n" + scratch(0),
    A + COPY + "  gpu.async_commit\n  gpu.async_wait {pending = 1}\n" + scratch(0),
    LOOP + A + HERE + TAKE + scratch(0) + BACK,  # allocated in every iteration
    A + HERE + LOOP + scratch(0) + BACK,  # never read again
]


def _module(text: str) -> str:
    return STAGE + HEADER + text + "  ret\n}\n"


WRONG = [
    *(("TIR0228", _module(text)) for text in _OVERLAPPING),
    ("TIR0227", _module(scratch(1016))),
    ("TIR0227", _module(scratch(0)).replace("{shared = 1024}", "")),
    *(
        ("TIR0106", _module(malformed_allocation(allocation)))
        for allocation in ("[-16, 16]", "[0, 0]", "[0]", "[]")
    ),
    ("TIR0222", _module(scratch(0, "")).replace("define", "«define").replace("1024", "-1")),
    ("TIR0222", _module(scratch(0, "")).replace("define", "«define").replace("1024", "true")),
    ("TIR0224", _module(scratch(0)).replace(STAGE, "")),
]
RIGHT = [_module(text).replace("«", "") for text in _DISJOINT]
