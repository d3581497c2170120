"""Contractions: `O[i, j: M, N] = +(A[i, k] * B[k, j]), k < 3;`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import attrs

from tileir.builder.contraction import (
    AffineBound,
    AffineIndex,
    Apply,
    Choose,
    ComputeStage,
    Index,
    Number,
    Read,
    Reduce,
    Tensor,
    Term,
    contraction,
    ranges_of,
    stored_kind,
)
from tileir.frontends.sources import Wrong
from tileir.frontends.tile.frame import Frame
from tileir.types import I32

_KINDS = {"+": "sum", "*": "product", ">": "max", "<": "min", "=": "assign"}


def contraction_stage(frame: Frame, node: Any) -> ComputeStage:
    """The stage of a contraction. Its points are those at which every position is in its tensor and
    every condition is true. Elements without a point are 0, or those of the default. Raises Wrong
    and BuildError."""
    name, at, sizes, aggregation, combined, conditions, default = node.children
    indices: dict[str, Index] = {}
    position = [frame.polynomial(x, indices) for x in _children(at)]
    shape = tuple(frame.size(x) for x in _children(sizes))
    _check_shape(name, position, shape)
    reads, term = _combination(frame, combined, indices)
    where = [bound for read in reads for bound in _inside(read)]
    where += [_condition(frame, x, indices) for x in conditions.children if x is not None]
    inside = [AffineBound(at, 0, size) for at, size in zip(position, shape, strict=True)]
    ranges = ranges_of(list(indices.values()), [*where, *inside])
    kind = _KINDS[str(aggregation)]
    element = stored_kind(term if kind == "assign" else Reduce(kind, (), term))
    output = Tensor(str(name), element, shape)
    place = frame.source.place(node)
    stage = contraction(output, position, kind, term, ranges, where, 0, place)
    if default is not None:
        stage = _with_default(stage, frame.tensor(str(default.children[0])))
    frame.declare(str(name), output)
    return stage


def _children(node: Any) -> list[Any]:
    return [] if node is None else node.children


def _check_shape(name: str, position: Sequence[AffineIndex], shape: Sequence[int]) -> None:
    if len(position) != len(shape):
        message = f"{name} has {len(position)} positions and {len(shape)} sizes"
        raise Wrong("TIR1303", message)
    if any(size < 0 for size in shape):
        raise Wrong("TIR1303", f"a size of {name} is negative: {min(shape)}")


def _inside(read: Read) -> list[AffineBound]:
    """The conditions that the positions of a read are within its tensor."""
    sized = zip(read.at, read.tensor.shape, strict=True)
    return [AffineBound(at, 0, size) for at, size in sized if isinstance(at, AffineIndex)]


def _condition(frame: Frame, node: Any, indices: dict[str, Index]) -> AffineBound:
    left, right = node.children
    return AffineBound(frame.polynomial(left, indices), 0, frame.size(right))


def _combination(frame: Frame, node: Any, indices: dict[str, Index]) -> tuple[list[Read], Term]:
    """The aggregated expression: an access, accesses multiplied or added, or `x == y ? z`, which is
    0 where the condition is false."""
    if node.data == "access":
        read = _access(frame, node, indices)
        return [read], read
    reads = [_access(frame, x, indices) for x in node.children]
    if node.data == "choice":
        equal = Apply("eq", (reads[0], reads[1]))
        return reads, Apply("select", (equal, reads[2], Number(0)))
    name = "mul" if node.data == "product" else "add"
    terms: list[Term] = list(reads)
    return reads, reduce(lambda x, y: Apply(name, (x, y)), terms)


def _access(frame: Frame, node: Any, indices: dict[str, Index]) -> Read:
    name, at = node.children
    with frame.source.at(node):
        tensor = frame.tensor(str(name))
        positions = tuple(frame.polynomial(x, indices) for x in _children(at))
        if len(positions) != len(tensor.shape):
            result = f"{name} has {len(tensor.shape)} dimensions"
            raise Wrong("TIR1303", f"{result}, and is read at {len(positions)} positions")
    return Read(tensor, positions)


def _with_default(stage: ComputeStage, default: Tensor) -> ComputeStage:
    """The stage with the elements without a point from another tensor."""
    if default.shape != stage.output.shape:
        result = f"{default.name} has the shape {default.shape}, not {stage.output.shape}"
        raise Wrong("TIR1303", f"the default {result}")
    term, other = stage.term, Read(default, stage.at)
    if isinstance(term, Choose):
        return attrs.evolve(stage, term=attrs.evolve(term, otherwise=other))
    if not isinstance(term, Reduce):
        return stage
    result = attrs.evolve(term, kind="max", of=Number(1, I32), empty=0)
    return attrs.evolve(stage, term=Apply("select", (result, term, other)))
