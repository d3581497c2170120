"""The operators of memory instructions in PTX."""

from __future__ import annotations

from tileir.backend.codegen.thread_interface import Access
from tileir.types import AddressSpace

SPACES = {0: "", 1: ".global", 3: ".shared", 4: ".const"}
"""PTX's names of address spaces; nothing for generic addresses."""
_NC = ("", "ca", "cg", "cs")
"""Cache operators that go with `.nc` (PTX ISA, "ld.global.nc")."""


def operators(access: Access, space: int) -> str:
    """State space and operators of an access, in PTX's order. Constant memory has no policy."""
    if space == AddressSpace.CONSTANT:
        return ".const"
    where = SPACES[space]
    if access.volatile:
        return f".volatile{where}"
    eviction = f".L1::{access.eviction}" if access.eviction else ""
    cached = access.constant and space == AddressSpace.GLOBAL and access.cache in _NC
    cache = f".{access.cache}" if access.cache else ""
    hint = ".L2::cache_hint" if has_cache_hint(access, space) else ""
    return where + cache + (".nc" if cached else "") + eviction + hint


def has_cache_hint(access: Access, space: int) -> bool:
    """Whether an access passes its eviction priority to the L2 cache as an operand (PTX ISA,
    "Cache Eviction Priority Hints")."""
    return bool(access.eviction) and space == AddressSpace.GLOBAL and not access.volatile


def pointer_class(space: int) -> str:
    """The inline assembly constraint of a pointer: those to shared and constant memory are of 32
    bits (LLVM's option `nvptx-short-ptr`)."""
    return "l" if space in (AddressSpace.GENERIC, AddressSpace.GLOBAL) else "r"
