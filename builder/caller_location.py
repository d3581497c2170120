"""Locations of calls of builder methods in the caller's file."""

from __future__ import annotations

import os
import sys
from itertools import islice
from types import CodeType, FrameType

import attrs

from tileir.errors import Location

_INSIDE = ("tileir.builder", "contextlib")
"""Modules whose frames are never the caller's."""


@attrs.frozen
class Places:
    """Finds the caller's location, and caches it per instruction."""

    _locations: dict[tuple[int, int], tuple[CodeType, Location]] = attrs.field(
        factory=dict[tuple[int, int], tuple[CodeType, Location]]
    )

    def at(self, frame: FrameType | None) -> Location:
        """The location of `frame`, which is usually the caller of the builder and then in the
        cache; if `frame` is inside the builder, that of its innermost caller outside. None if the
        builder's method is the first function of a thread, which has no caller."""
        if frame is None:
            return self.caller()
        cached = self._locations.get((id(frame.f_code), frame.f_lasti))
        return cached[1] if cached is not None else self.caller()

    def caller(self) -> Location:
        """File, line and column of the innermost call from outside the builder."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame.f_globals.get("__name__", "").startswith(_INSIDE):
            if frame.f_back is None:
                break
            frame = frame.f_back
        key = (id(frame.f_code), frame.f_lasti)
        cached = self._locations.get(key)
        if cached is None:
            cached = self._locations[key] = (frame.f_code, _location(frame))
        return cached[1]


def _location(frame: FrameType) -> Location:
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, column = position[0] or frame.f_lineno, position[2] or 0
    return Location(source_name(code.co_filename), line, column + 1)


def source_name(path: str) -> str:
    """Return `path` as it is written in locations: relative if it is below the working directory.

    The same program then has the same text wherever it is checked out.
    """
    here = os.getcwd() + os.sep
    return path[len(here) :] if path.startswith(here) else path
