"""`triton.language.core`: the names of `triton.language`."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.language.control import constexpr

CONSTEXPR_0 = constexpr(0)


def __getattr__(name: str) -> Any:
    from tileir.frontends.triton import language  # which imports this

    return getattr(language, name)
