"""Names of a function: the current tensors, sizes, and the indices of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.builder.contraction import AffineIndex, ComputeStage, Index, Tensor, Term
from tileir.frontends.sources import Source, Wrong

LARGEST = 1 << 31
"""A tensor has fewer elements than this."""

DEEPEST = 20
"""Calls within calls that are inlined."""


@attrs.frozen(eq=False)
class Frame:
    """A function being compiled: `functions` are those of the text. Every statement creates a new
    tensor, to which the name then refers; `fresh` are the tensors that no statement has written."""

    source: Source
    functions: Mapping[str, Any]
    outputs: tuple[str, ...]
    tensors: dict[str, Tensor] = attrs.field(factory=dict[str, Tensor])
    sizes: dict[str, int] = attrs.field(factory=dict[str, int])
    stages: list[ComputeStage] = attrs.field(factory=list[ComputeStage])
    fresh: dict[str, Tensor] = attrs.field(factory=dict[str, Tensor])
    depth: int = 0

    def tensor(self, name: str) -> Tensor:
        """The current tensor of a name. Raises Wrong."""
        if name not in self.tensors:
            raise Wrong("TIR1402", f"there is no tensor {name}")
        return self.tensors[name]

    def bind_size(self, name: str, extent: int, tensor: str) -> None:
        """A size variable of a parameter's type. Raises Wrong."""
        if self.sizes.setdefault(name, extent) != extent:
            before = self.sizes[name]
            raise Wrong("TIR1403", f"{name} is {before}, and {extent} of {tensor}")


@attrs.define(eq=False)
class Statement:
    """One statement: its indices, in the order in which they occur, those whose range a clause
    states, names that clauses define, and the reads from which ranges are inferred."""

    frame: Frame
    indices: dict[str, Index] = attrs.field(factory=dict[str, Index])
    ranges: dict[Index, range] = attrs.field(factory=dict[Index, range])
    lets: dict[str, AffineIndex | Term] = attrs.field(factory=dict[str, Any])
    uses: list[tuple[AffineIndex, int]] = attrs.field(factory=list[Any])
    """Positions and the extents they are in."""
    guarded: list[tuple[AffineIndex, int]] = attrs.field(factory=list[Any])
    """The reads in arms of a choice by a condition on indices."""

    def index(self, name: str) -> Index:
        """The index of a name."""
        return self.indices.setdefault(name, Index(name))
