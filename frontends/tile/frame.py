"""Names of a function: tensors and sizes, and index expressions made of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import attrs

from tileir.builder.contraction import AffineIndex, ComputeStage, Index, Tensor, affine
from tileir.frontends.sources import Source, Wrong, truncating_quotient

LARGEST = 1 << 31
"""A tensor has fewer elements than this."""


@attrs.frozen(eq=False)
class Frame:
    """A function being compiled."""

    source: Source
    tensors: dict[str, Tensor] = attrs.field(factory=dict[str, Tensor])
    sizes: dict[str, int] = attrs.field(factory=dict[str, int])
    stages: list[ComputeStage] = attrs.field(factory=list[ComputeStage])

    def declare(self, name: str, tensor: Tensor) -> Tensor:
        """A new tensor. Raises Wrong."""
        if name in self.tensors or name in self.sizes:
            raise Wrong("TIR1302", f"{name} is defined twice")
        if prod(tensor.shape) >= LARGEST:
            raise Wrong("TIR1303", f"{name} has 2^31 elements or more")
        self.tensors[name] = tensor
        return tensor

    def tensor(self, name: str) -> Tensor:
        """The tensor of a name. Raises Wrong."""
        if name not in self.tensors:
            raise Wrong("TIR1302", f"there is no tensor {name}")
        return self.tensors[name]

    def sizes_of(self, tensor: Tensor, names: Sequence[str]) -> None:
        """Name the extents of a tensor; a repeated name states that extents are equal. Raises
        Wrong."""
        if len(names) != len(tensor.shape):
            result = f"{tensor.name} has {len(tensor.shape)} dimensions"
            raise Wrong("TIR1303", f"{result}, and the function names {len(names)}")
        for name, extent in zip(names, tensor.shape, strict=True):
            if name in self.tensors:
                raise Wrong("TIR1302", f"{name} is a tensor, and cannot be a size")
            if self.sizes.setdefault(name, extent) != extent:
                before = self.sizes[name]
                raise Wrong("TIR1303", f"{name} is {before}, and {extent} of {tensor.name}")

    # Index expressions --------------------------------------------------------------------------

    def polynomial(self, node: Any, indices: dict[str, Index]) -> AffineIndex:
        """An affine expression; names that are no sizes become `indices`. Raises Wrong."""
        parts = [self.polynomial(x, indices) for x in node.children if hasattr(x, "data")]
        match node.data:
            case "integer":
                return affine(int(node.children[0]))
            case "index":
                return self._name(str(node.children[0]), indices)
            case "minus" if len(parts) == 1:
                return -parts[0]
            case "plus" | "minus":
                return parts[0] + (parts[1] if node.data == "plus" else -parts[1])
            case "times":
                return _multiply(*parts)
            case _:
                return _divide(*parts)

    def _name(self, name: str, indices: dict[str, Index]) -> AffineIndex:
        if name in self.sizes:
            return affine(self.sizes[name])
        if name in self.tensors:
            raise Wrong("TIR1304", f"the tensor {name} cannot stand in a position")
        return affine(indices.setdefault(name, Index(name)))

    def size(self, node: Any) -> int:
        """A number made of sizes. Raises Wrong."""
        indices: dict[str, Index] = {}
        result = self.polynomial(node, indices)
        if indices:
            raise Wrong("TIR1304", f"{next(iter(indices))} is not a size")
        return result.constant


def _multiply(x: AffineIndex, y: AffineIndex) -> AffineIndex:
    if x.terms and y.terms:
        raise Wrong("TIR1304", f"({x}) * ({y}) is not affine")
    return x * y.constant if x.terms else y * x.constant


def _divide(x: AffineIndex, y: AffineIndex) -> AffineIndex:
    if x.terms or y.terms:
        raise Wrong("TIR1304", "only sizes are divided")
    if not y.constant:
        raise Wrong("TIR1304", "a size is divided by 0")
    return affine(truncating_quotient(x.constant, y.constant))
