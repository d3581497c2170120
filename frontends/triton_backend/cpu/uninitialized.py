"""Memory of tensors that nothing was written to: `torch.empty` and its relatives fill it with a
pattern, and bytes that still have the pattern at a launch are undefined.

The word of 4 bytes number i of a tensor's storage is `_MULTIPLIER * i + _OFFSET` modulo 2^32, so a
value that was written is taken for an undefined one with probability 2^-32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_MULTIPLIER, _OFFSET = 0x9E3779B1, 0x7FA5C3D1

_FUNCTIONS = ("empty", "empty_like", "empty_strided", "empty_permuted")
_METHODS = ("new_empty", "new_empty_strided")


def fill_uninitialized(torch: Any) -> None:
    """Let the functions of `torch` that make uninitialized tensors fill those on the CPU with the
    pattern."""
    owners = [*((torch, f) for f in _FUNCTIONS), *((torch.Tensor, m) for m in _METHODS)]
    for owner, name in owners:
        own = getattr(owner, name, None)
        if own is not None and not hasattr(own, "__wrapped__"):
            setattr(owner, name, _filling(own, torch))


def _filling(make: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    @functools.wraps(make)
    def make_filled(*arguments: Any, **keywords: Any) -> Any:
        tensor = make(*arguments, **keywords)
        if not torch.compiler.is_compiling() and type(tensor) is torch.Tensor and tensor.is_cpu:
            fill_with_pattern(_memory_of(tensor))
        return tensor

    return make_filled


def _memory_of(tensor: Any) -> Bytes:
    from tileir.frontends.triton_backend.cpu.arguments import bytes_of, place_of

    return bytes_of(place_of("", tensor))


def fill_with_pattern(memory: Bytes) -> None:
    """Write the pattern to all words of `memory`."""
    words = memory[: len(memory) // 4 * 4].view(np.uint32)
    words[...] = _pattern(len(words))


def unwritten_bytes(memory: Bytes) -> Bytes | None:
    """A flag for each byte of `memory`, not zero where it has the pattern; None where none has."""
    words = memory[: len(memory) // 4 * 4].view(np.uint32)
    same = words == _pattern(len(words))
    if not same.any():
        return None
    flags = np.zeros(len(memory), np.uint8)
    flags[: 4 * len(words)] = np.repeat(same.astype(np.uint8) * 0xFF, 4)
    return flags


def _pattern(count: int) -> NDArray[np.uint32]:
    return np.arange(count, dtype=np.uint32) * np.uint32(_MULTIPLIER) + np.uint32(_OFFSET)
