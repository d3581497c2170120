"""Making a class frozen, with slots, at little cost."""

from __future__ import annotations

from inspect import get_annotations
from typing import Any

import attrs


def framed(cls: Any) -> Any:
    """`cls` frozen, with slots. What declares no field has its base's constructor, so that making
    most ops costs no code to be generated, which takes a process longer than all else in them."""
    kinds = get_annotations(cls).values()
    if all(str(kind).startswith("ClassVar") for kind in kinds):
        space = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
        made = type(cls)(cls.__name__, cls.__bases__, {**space, "__slots__": ()})
        made.__qualname__ = cls.__qualname__
        return made
    return attrs.frozen(eq=False, slots=True, weakref_slot=False, repr=False)(cls)
