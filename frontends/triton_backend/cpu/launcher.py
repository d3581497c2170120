"""Triton's launches on the CPU: which of a call's arguments are the kernel's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any


class CpuLauncher:
    """Launches one kernel, as `launcher_cls` of Triton's drivers."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.signature: tuple[Any, ...] = tuple(source.signature.values())
        plain = all(isinstance(s, str) and not _is_descriptor(s) for s in self.signature)
        self.places = (
            [i for i, s in enumerate(self.signature) if s != "constexpr"] if plain else None
        )

    def __call__(
        self, x: Any, y: Any, z: Any, stream: Any, function: Any, packed: Any, described: Any,
        enter: Any, leave: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Run the kernel for a grid and wait for its end. Raises TileirError, and TypeError for
        extents that are no integers, as Triton's launchers do."""
        if enter is not None:
            enter(described)
        places = self.places
        values = (
            list(_flatten(self.signature, arguments))
            if places is None
            else [arguments[i] for i in places]
        )
        function.launch((index(x), index(y), index(z)), values)
        if leave is not None:
            leave(described)


def _flatten(signature: Sequence[Any], values: Sequence[Any]) -> Iterable[Any]:
    """Values of the parameters: of tuples each, of host descriptors themselves, then extents and
    strides; none for what is known as the kernel is compiled."""
    for kind, value in zip(signature, values, strict=True):
        if isinstance(kind, (tuple, list)):
            yield from _flatten(kind, tuple(value))
        elif _is_descriptor(kind):
            yield value
            yield from value.shape
            yield from value.strides
        elif kind != "constexpr":
            yield value


def _is_descriptor(kind: Any) -> bool:
    return isinstance(kind, str) and kind.startswith("tensordesc")
