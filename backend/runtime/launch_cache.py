"""Cached launches: for kernels whose launch depends on the numbers of a call, as tensor maps do,
and not only on their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

Key: TypeAlias = tuple[Any, ...]

_MOST = 1024
"""Calls of a kernel that are remembered."""

_NUMBERS = frozenset((int, float, bool, str, type(None)))


@attrs.frozen(eq=False)
class CachedLaunch:
    """A repeatable launch: `launch` repeats it on a stream, `stream` returns the stream, `result`
    is the result of the call."""

    launch: Callable[[int], None]
    stream: Callable[[], int]
    result: Any = None


class LaunchCache:
    """Launches by what their calls have in common."""

    def __init__(self) -> None:
        self._launches: dict[Key, CachedLaunch] = {}

    def find(self, key: Key | None) -> CachedLaunch | None:
        """The launch of a call like this one."""
        return self._launches.get(key) if key is not None else None

    def keep(self, key: Key | None, launch: CachedLaunch) -> None:
        """Remember a launch, if its call can be told from others."""
        if key is None:
            return
        if len(self._launches) >= _MOST:
            self._launches.clear()
        self._launches[key] = launch


def key_of(grid: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Key | None:
    """What calls have in common that launch the same: equal numbers, arrays of one type at one
    address. None where that cannot be told, as of a grid that is a function."""
    if not isinstance(grid, (int, tuple, list)):
        return None
    words: list[Any] = [grid if isinstance(grid, int) else tuple(grid), *named]
    for value in (*arguments, *named.values()):
        kind = type(value)
        if kind in _NUMBERS:
            words += (kind, value)
            continue
        address = getattr(value, "data_ptr", None)
        if address is None:
            return None
        words += (address(), value.dtype, kind)
    return tuple(words)
