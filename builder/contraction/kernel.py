"""A stage as a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

from tileir.builder.builder import Builder
from tileir.builder.contraction.axes import AxisTile, TiledAxis, modulo, quotient
from tileir.builder.contraction.emit import Emitter
from tileir.builder.contraction.matmul import sides_of
from tileir.builder.contraction.reductions import emit_reduction
from tileir.builder.contraction.stage import ComputeStage, Tiling
from tileir.builder.contraction.terms import Reduce, Tensor, reads
from tileir.builder.contraction.tile_sizes import depth_axis, walk_of
from tileir.builder.contraction.tile_view import View, start
from tileir.builder.functions import ParameterSpec, arg
from tileir.types import pointer


def tensors_of(stage: ComputeStage) -> tuple[Tensor, ...]:
    """Return the tensors that a stage reads, each once, followed by its output."""
    tensors = dict.fromkeys(read.tensor for read in reads(stage.term))
    return (*(t for t in tensors if t is not stage.output), stage.output)


def grid_of(tiling: Tiling) -> int:
    """Return the grid of the kernel: the number of program instances per axis."""
    return prod(axis.blocks for axis in tiling.axes)


def kernel(b: Builder, name: str, stage: ComputeStage, tiling: Tiling) -> None:
    """Add the kernel of a stage to a module.

    Its parameters are `tensors_of` the stage, its grid is `grid_of` the tiling. Raises BuildError.
    """
    tensors = tensors_of(stage)
    parameters = {f"p{n}_{t.name}": _argument(t, stage) for n, t in enumerate(tensors)}
    place = nullcontext() if stage.location is None else b.at_location(stage.location)
    with place, b.kernel(name, **parameters) as arguments:
        if tiling.num_warps is not None:
            b.configure(num_warps=tiling.num_warps)
        view = start(b, _instances(b, tiling))
        emitter = _emitter(b, dict(zip(tensors, arguments, strict=True)), tiling)
        value = emitter.value(stage.term, view)
        target = emitter.address(stage.output, stage.at, view)
        shape = target.shape or view.shape
        mask = view.mask(stage.where)
        value = value.to(stage.output.element)
        target.broadcast_to(*shape).store(value, mask)


def _emitter(b: Builder, arguments: Any, tiling: Tiling) -> Emitter:
    def walks(term: Reduce, view: View) -> TiledAxis:
        if term not in tiling.walks and sides_of(term, view) is not None:
            return depth_axis(term, 32)
        return tiling.walks.get(term) or walk_of(term, view.shape)

    options = {"stages": tiling.stages, "unroll": tiling.unroll}
    loops = {name: value for name, value in options.items() if value is not None}
    return Emitter(b, arguments, walks, emit_reduction, tiling.precision, loops)


def _argument(tensor: Tensor, stage: ComputeStage) -> ParameterSpec:
    if tensor.by_value:
        return arg(tensor.element)
    readonly = tensor is not stage.output
    return arg(pointer(tensor.element), aligned=16, readonly=readonly, noalias=True)


def _instances(b: Builder, tiling: Tiling) -> list[AxisTile]:
    """The tiles of this instance."""
    if grid_of(tiling) == 1:
        return [AxisTile(b, axis, 0) for axis in tiling.axes]
    counts = [axis.blocks for axis in tiling.axes]
    numbers = _digits(b.program_id(axis=0), counts)
    if tiling.group > 1 and len(counts) > 1 and min(counts[-2:]) > 1:
        tile = b.program_id(axis=0)
        if len(counts) > 2:
            tile = modulo(tile, counts[-2] * counts[-1])
        numbers[-2:] = _grouped_tile(b, tile, counts[-2], counts[-1], tiling.group)
    return [AxisTile(b, axis, number) for axis, number in zip(tiling.axes, numbers, strict=True)]


def _digits(number: Any, counts: Sequence[int]) -> list[Any]:
    digits: list[Any] = []
    for place, count in reversed(list(enumerate(counts))):
        digits.insert(0, modulo(number, count) if place else number)
        number = quotient(number, count) if place else number
    return digits


def _grouped_tile(b: Builder, tile: Any, rows: int, columns: int, group: int) -> list[Any]:
    """Row and column of a tile, `group` rows at a time."""
    first = tile.udiv(columns * group) * group
    high = group if rows % group == 0 else b.minimum(rows - first, group)
    within = tile.urem(columns * group)
    return [first + within.urem(high), within.udiv(high)]
