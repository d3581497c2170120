"""Compilation of a schedule to kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tileir.builder import contraction
from tileir.builder.contraction import (
    ComputeStage,
    Program,
    Reduce,
    TensorFunction,
    TiledAxis,
    Tiling,
    fuse,
    inline,
    reads,
    tiling,
    walk,
)
from tileir.frontends.te.errors import at_location, error, here
from tileir.frontends.te.schedule import Schedule, TensorSchedule
from tileir.frontends.te.tensor import Tensor, Var
from tileir.ir import Module

LARGEST_TILE = 1 << 17
"""Elements that a tile may have."""


def build(schedule: Schedule, args: Sequence[Any]) -> TensorFunction:
    """Compile a schedule to kernels, and return them as a function.

    `args` are its placeholders and variables, in the order of the function's arguments, and its
    outputs, in the order of the function's results. Raises TensorExpressionError.
    """
    inputs, outputs = _arguments(schedule, args)
    with at_location(here()):
        stages = _attach_stages(schedule, outputs)
        tilings = {s.output: t for s in stages if (t := _tiling(schedule, s)) is not None}
        program = Program(stages, outputs, tilings, fuse=False)
        _ = program.launches
    return TensorFunction(program, inputs)


def lower(schedule: Schedule, args: Sequence[Any]) -> Module:
    """Return the module with the kernels of a schedule; `args` are those of `build`. Raises
    TensorExpressionError."""
    return build(schedule, args).module


def _arguments(
    schedule: Schedule, args: Sequence[Any]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    if not isinstance(schedule, Schedule):
        raise error("TIR1505", f"{schedule} is not a schedule: te.create_schedule({schedule})")
    if not isinstance(args, (list, tuple)):
        raise error("TIR1505", "args is a list of tensors and variables")
    tensors = [a.tensor if isinstance(a, Var) else a for a in args]
    for tensor in tensors:
        if not isinstance(tensor, Tensor) or sum(t is tensor for t in tensors) > 1:
            raise error("TIR1505", f"{tensor} is not an argument, or is one twice")
    inputs = tuple(t for t in tensors if t.term is None)
    outputs = tuple(t for t in tensors if t.term is not None)
    needed = {r for t in schedule.stages for r in t.inputs}
    missing = [t for t in needed if t not in schedule.stages and t not in inputs]
    missing += [t for t in schedule.outputs if t not in outputs]
    if missing:
        raise error("TIR1505", f"{missing[0].name} is none of the arguments")
    for tensor in outputs:
        if tensor not in schedule.stages:
            raise error("TIR1505", f"{tensor.name} is not computed in this schedule")
    return inputs, outputs


# Attachment of stages ---------------------------------------------------------------------------


def _attach_stages(schedule: Schedule, outputs: Sequence[Tensor]) -> tuple[ComputeStage, ...]:
    """The stages after those that the schedule inlines or computes at another stage; stages that it
    leaves open are fused."""
    stages = [tensor.stage for tensor in schedule.stages]
    for how in ("inline", "at"):
        for tensor, scheduled in reversed(schedule.stages.items()):
            if scheduled.attach == how:
                reader = _reader_of(schedule, scheduled)
                stages = _inline(stages, tensor, reader, tensor in outputs)
    explicit = {t for t, s in schedule.stages.items() if s.attach == "root" or s.touched}
    results: Iterable[contraction.Tensor] = {
        *outputs,
        *(s.output for s in stages if s.output in explicit),
    }
    return fuse(stages, results)


def _reader_of(schedule: Schedule, scheduled: TensorSchedule) -> Tensor | None:
    """The stage in whose tiles another is computed: its reader, or if that is computed in the tiles
    of a third stage, that one."""
    for _ in schedule.stages:
        at = None if scheduled.reader is None else schedule.stages.get(scheduled.reader)
        if at is None or at.attach != "at":
            break
        scheduled = at
    return scheduled.reader


def _inline(
    stages: list[ComputeStage], tensor: Tensor, reader: Tensor | None, is_output: bool
) -> list[ComputeStage]:
    if is_output:
        raise error("TIR1504", f"{tensor.name} is an output, which is in memory")
    (stage,) = (s for s in stages if s.output is tensor)
    readers = [s.output for s in stages if any(r.tensor is tensor for r in reads(s.term))]
    if reader is not None and any(r is not reader for r in readers):
        names = ", ".join(r.name for r in readers)
        raise error("TIR1504", f"{tensor.name} is read by {names}, and computed at one stage")
    return [inline(s, stage) for s in stages if s is not stage]


# Tiles --------------------------------------------------------------------------------------------


def _tiling(schedule: Schedule, stage: ComputeStage) -> Tiling | None:
    """The tiling that a schedule states for a stage; None if there is none."""
    (scheduled,) = (s for t, s in schedule.stages.items() if t is stage.output)
    settings = scheduled.settings
    walks = _walks(schedule, stage)
    chosen = tiling(stage)
    split = scheduled.says_tiles
    if not split and not walks and not settings:
        return None
    axes = tuple(scheduled.axes()) if split else chosen.axes
    elements = 1
    for axis in axes:
        elements *= axis.tile
    if elements > LARGEST_TILE:
        raise error("TIR1504", f"a tile of {elements} elements is more than {LARGEST_TILE}")
    return Tiling(
        axes,
        {**({} if split else chosen.walks), **walks},
        chosen.group,
        settings.get("num_warps", None if split else chosen.num_warps),
        settings.get("stages", chosen.stages),
        settings.get("unroll"),
    )


def _walks(schedule: Schedule, stage: ComputeStage) -> Mapping[Reduce, TiledAxis]:
    """The tiles of reductions, including those of inlined stages."""
    walks: dict[Reduce, TiledAxis] = {}
    for term in walk(stage.term):
        if not isinstance(term, Reduce):
            continue
        indices = {index for index, _ in term.over}
        for scheduled in schedule.stages.values():
            if indices == {a.index for a in scheduled.op.reduce_axis}:
                axis = scheduled.walk(term.over)
                if axis is not None:
                    walks[term] = axis
    return walks
