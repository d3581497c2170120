"""What a listing of a source is to a test: sizes that it allows, and those that it does not."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.errors import TileirError

Size: TypeAlias = Mapping[str, int]

EXECUTORS = {"interpreter": "interpreter", "simt": "SIMT", "cpu": "CPU", "gpu": "GPU"}
"""Executors, and what a table calls them."""

UNGUARDED = ("gpu",)
"""Executors on which an access outside of all arrays is no error but somebody else's memory."""

_PLACE = re.compile(r"([^\s:]+):(\d+):\d+: ")


@attrs.frozen
class Refusal:
    """Sizes that a listing does not allow: the error `code` is where its source says `line`."""

    line: str
    sizes: tuple[Size, ...]
    code: str = "TIR0501"


@attrs.frozen
class Listing:
    """A listing of source `source`: `check(executor, **size)` raises AssertionError where it does
    not give what numpy does, and TileirError where it is refused."""

    source: str
    name: str
    computes: str
    language: str
    check: Callable[..., None]
    sizes: tuple[Size, ...]
    refused: Refusal | None = None

    @property
    def key(self) -> str:
        """A name that no other listing has."""
        return f"{self.source} {self.name} {self.language}"

    def run(self, on: str) -> tuple[int, str]:
        """How many sizes gave what numpy does on an executor, and the error at the others ("" for
        none). Raises AssertionError and TileirError."""
        for size in self.sizes:
            try:
                self.check(on, **size)
            except (AssertionError, TileirError) as error:
                error.add_note(f"{self.key} at {dict(size)}")
                raise
        refusals = [] if on in UNGUARDED else list(self._refusals(on))
        assert len(set(refusals)) <= 1
        return len(self.sizes), refusals[0] if refusals else ""

    def _refusals(self, on: str) -> Iterator[str]:
        if self.refused is None:
            return
        for size in self.refused.sizes:
            try:
                self.check(on, **size)
            except (AssertionError, TileirError) as error:
                yield self._checked_code(error, on)
            else:
                raise AssertionError(f"{self.key} at {dict(size)} is not refused by {on}")

    def _checked_code(self, error: Exception, on: str) -> str:
        """The error in short, which is where it has to be and what it has to be."""
        assert self.refused is not None
        place = _PLACE.match(str(error))
        assert place, f"no place in {error}"
        line = linecache.getline(str(_file(place[1])), int(place[2])).strip()
        assert self.refused.line in line, f"{error}\nat: {line}"
        code = error.code if isinstance(error, TileirError) else ""
        assert code == self.refused.code or (on == "simt" and "outside every buffer" in str(error))
        return self.refused.code


def _file(name: str) -> Path:
    """A file by the name that an error gives it, which may be without its folder."""
    path = Path(name)
    folders = (Path(), *Path(__file__).parents, Path(__file__).parents[1] / "triton_c" / "listings")
    return next((f / path for f in folders if (f / path).exists()), path)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    """Random numbers, the same for the same shape."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    """Random small integers, of which dots are exact."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def unset(*shape: int, dtype: Any = np.float32) -> Any:
    """An array for results: NaN, so that an element that was never written is none."""
    return np.full(shape, np.nan).astype(dtype)


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Raise AssertionError where `found` is not `expected`, to a part of it or of one."""
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def sizes(names: str, *rows: tuple[int, ...]) -> tuple[Size, ...]:
    """Sizes as rows of numbers: `sizes("M N", (1, 2), (3, 4))`."""
    return tuple(dict(zip(names.split(), row, strict=True)) for row in rows)
