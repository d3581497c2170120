"""Memory that LLVM and the assembler give back stays with the process until the next compilation.

The GNU C library returns what is free at the end of its heap to the system beyond 128 KiB, and
each compilation would fault its pages in: 1,500 page faults for an addition, a third of its time.
Once a large block has been freed the library keeps twice as much as that block had (mallopt(3),
"M_MMAP_THRESHOLD": the threshold is dynamic), as it does in any process that has freed an array of
that size. So one is allocated, never touched, and freed. Who set the library's limits themselves
(`MALLOC_TRIM_THRESHOLD_` and the like, mallopt) has switched that off, and their limits stay.

A separate process, as `ptxas` is, faults all its pages in; large pages are fewer.
"""

from __future__ import annotations

import ctypes
import os
import sys

_BLOCK = (32 << 20) - (64 << 10)
"""Bytes: just below what the threshold grows to at most."""


def keep_freed_memory() -> None:
    """Let the C library keep up to 64 MiB that are free, for all of this process."""
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.free(library.malloc(_BLOCK))


_LARGE_PAGES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"
"""Heaps of the C library in large pages where the system lends them, which grow by 32 MiB, of which
only what is touched is taken (GNU C Library, "Memory Allocation Tunables")."""


def with_large_pages() -> dict[str, str]:
    """This process's environment for one that takes much memory and ends: a tenth of the time of
    `ptxas` is page faults otherwise. Tunables that are set stay."""
    return {"GLIBC_TUNABLES": _LARGE_PAGES, **os.environ}
