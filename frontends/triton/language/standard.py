"""`triton.language.standard`: the names of `triton.language`."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from tileir.frontends.triton import language  # which imports this

    return getattr(language, name)
