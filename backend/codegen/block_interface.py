"""The interface for control flow: basic blocks, their parameters, and the edges between them. A
machine that walks the blocks itself, as the SIMT simulator does, has none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from tileir.backend.codegen.thread_interface import Handle, Thread
from tileir.errors import Location
from tileir.types import Element, Type

Edges: TypeAlias = Sequence[tuple[str, Sequence[Handle]]]
"""Labels of the code that jump to a block, and the handles that each brings for the parameters
there."""


class BlockParameters(Protocol):
    """The parameters of all blocks of a function. Blocks have their labels in the IR here."""

    def add_parameter(self, label: str, element: Element, count: int) -> list[Handle]:
        """Handles for the next parameter of block `label`, `count` of `element`."""
        ...

    def write(self, places: Mapping[str, int], edges: Mapping[str, Edges]) -> None:
        """Write the parameters, after all blocks: `places` are those of `start_block`, `edges` the
        edges to each block."""
        ...


class BlockWriter(Thread, Protocol):
    """A thread whose function is written block by block."""

    labels: str
    """The prefix of labels."""

    label: str
    """The basic block that is written."""

    def start_block(self, label: str) -> int:
        """Begin block `label` of the function; the place where its parameters go."""
        ...

    def block_parameters(self) -> BlockParameters:
        """The parameters of the function's blocks, none so far."""
        ...

    def come_from(self, location: Location | None) -> None:
        """Instructions from here on are those of `location`."""
        ...

    def branch(self, label: str, unroll: int = 1) -> None:
        """Go on at `label`; where that is back to the header of a loop, `unroll` iterations of it
        run together."""
        ...

    def branch_if(self, condition: Handle, then: str, otherwise: str, unroll: int = 1) -> None:
        """Go on at the label `then` where the i1 `condition` holds, else at `otherwise`; `unroll`
        as in `branch`."""
        ...

    def return_values(self, types: Sequence[Type], handles: Sequence[Handle]) -> None:
        """Return from the function."""
        ...

    def unreachable(self) -> None:
        """Say that control does not come here."""
        ...
