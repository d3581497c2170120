"""The interface for control flow: basic blocks, their parameters, and the edges between them. A
machine that walks the blocks itself, such as the SIMT simulator, does not implement it."""

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
    """The parameters of all blocks of a function. Blocks are identified by their labels in the
    IR."""

    def add_parameter(self, label: str, element: Element, count: int) -> list[Handle]:
        """Handles for the next parameter of block `label`: `count` values of type `element`."""
        ...

    def write(self, places: Mapping[str, int], edges: Mapping[str, Edges]) -> None:
        """Write the parameters of all blocks, after the last block is complete. `places` maps
        labels to the results of `start_block`, `edges` maps labels to the edges that lead to the
        block."""
        ...


class BlockWriter(Thread, Protocol):
    """A thread whose function is written block by block."""

    labels: str
    """The prefix of labels."""

    label: str
    """The basic block that is written."""

    def start_block(self, label: str) -> int:
        """Begin block `label` of the function. The result is the place where
        `BlockParameters.write` inserts the block's parameters."""
        ...

    def block_parameters(self) -> BlockParameters:
        """An empty set of block parameters for the function."""
        ...

    def come_from(self, location: Location | None) -> None:
        """Set the source location of the instructions that follow."""
        ...

    def branch(self, label: str, unroll: int = 1) -> None:
        """Branch to `label`. If that is the header of a loop, and the branch is its back edge, the
        loop is unrolled by `unroll`."""
        ...

    def branch_if(self, condition: Handle, then: str, otherwise: str, unroll: int = 1) -> None:
        """Branch to `then` where the i1 `condition` is true, else to `otherwise`; `unroll` as in
        `branch`."""
        ...

    def return_values(self, types: Sequence[Type], handles: Sequence[Handle]) -> None:
        """Return from the function."""
        ...

    def unreachable(self) -> None:
        """State that control does not reach this point."""
        ...
