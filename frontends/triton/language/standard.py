"""`triton.language.standard`: the names of `triton.language`."""

from __future__ import annotations

from typing import Any


def _log2(i: int) -> int:  # pyright: ignore[reportUnusedFunction] - kernels call it
    """The logarithm of a compile-time power of two."""
    return int(i).bit_length() - 1


def __getattr__(name: str) -> Any:
    from tileir.frontends.triton import language  # which imports this

    return getattr(language, name)
