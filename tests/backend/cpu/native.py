"""Code written by hand for all lanes: as a CPU's code, and by the SIMT simulator."""

import ctypes

import numpy as np

from tileir.backend.cpu.jit import load
from tileir.backend.cpu.launch import HELPERS, CpuLaunch
from tileir.backend.cpu.thread import CpuThread
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.types import I32, AddressSpace, Pointer

WIDTH = 32


def address(thread, element, base, offset):
    """The address of element `offset`, an i32 that lanes share or have for themselves."""
    return thread.advance(Pointer(element, AddressSpace.GLOBAL), base, offset, I32)


def native(body, buffer):
    """Run `body` of a thread and the address of `buffer` as machine code; the text it
    became."""
    thread = CpuThread()
    thread.sites = []
    thread.start("bb0")
    body(thread, "%base")
    lines = "\n".join([*thread.at_entry, "  br label %bb0", *thread.lines])
    text = f"""{chr(10).join(thread.declarations)}
{HELPERS.replace(" #0", "")}
define void @list_globals(ptr %found) {{
  ret void
}}
define void @run(ptr %launch, ptr %arguments, i64 %index, i64 %last, i32 %gx, i32 %gy, i32 %gz) {{
entry:
  %base = load ptr addrspace(1), ptr %arguments
{lines}
  ret void
}}
"""
    packed = (ctypes.c_uint64 * 1)(buffer.ctypes.data)
    code = load(text, 1)
    code.run(CpuLaunch().words, packed, 0, 1, 1, 1, 1)
    return text


def threads(body, buffer):
    """Run `body` by the SIMT simulator."""
    memory = SimtMemory(0)
    base = memory.place(buffer)
    thread = SimtThread(WIDTH, (0, 0, 0), (1, 1, 1), memory)
    with np.errstate(all="ignore"):
        body(thread, ThreadValues(np.full(WIDTH, base, np.int64)))
    memory.write_back()


def agree(body, buffer):
    """Both leave the same in `buffer`, of any type; what they leave, and the text."""
    copy = buffer.copy()
    text = native(body, buffer)
    threads(body, copy)
    assert buffer.tobytes() == copy.tobytes()
    return buffer, text
