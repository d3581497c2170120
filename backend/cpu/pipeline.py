"""The pipeline for the CPU: a table of stages, like `tileir.backend.pipeline` for GPUs."""

from __future__ import annotations

from tileir.backend.pipeline import (
    Context,
    has_branches,
    has_large_tiles,
    legalize_kernel,
    scalarize_steps,
    strip_mine_kernel,
)
from tileir.backend.stage import Scope, Stage
from tileir.ir import Function, Module
from tileir.passmanager.registry import PassResult


def _legalize(module: Module, context: Context) -> Module:
    from tileir.backend.cpu.memory_limits import check_memory
    from tileir.backend.legal import check_globals

    legal, reached = legalize_kernel(module, context)
    check_globals(reached)
    check_memory(reached)
    return legal


def _strip_mine(module: Module, context: Context) -> PassResult:
    """Strip-mine as for GPUs, except that chunks of values in buffers are slices of the buffers,
    and that a math function that two loops need is computed once."""
    from tileir.backend.cpu.dots import buffered_tiles

    sliced = buffered_tiles(module.functions[context.kernel])
    return strip_mine_kernel(
        module, context.kernel, warps=context.num_warps, sliced=sliced, functions=True
    )


def _infer_nsw(function: Function, context: Context) -> Function:
    from tileir.backend.cpu.infer_nsw import infer_nsw

    return infer_nsw(function)


def _version_full_tiles(function: Function, context: Context) -> PassResult:
    from tileir.backend.transforms.full_tiles import version_full_tiles

    return version_full_tiles(function)


def _allocate_on_stack(function: Function, context: Context) -> Function:
    from tileir.backend.shared_memory.allocate import allocate_function

    return allocate_function(function)


def _free_dot_layouts(function: Function, context: Context) -> Function:
    from tileir.backend.cpu.dots import direct_slices, layout_free_dots

    return direct_slices(layout_free_dots(function))


def _assign_layouts(function: Function, context: Context) -> Function:
    from tileir.backend.layouts.access_widths import OneByOne
    from tileir.backend.layouts.anchors import AnchorLayouts
    from tileir.backend.layouts.assign_layouts import assign_layouts

    return assign_layouts(function, AnchorLayouts(function, OneByOne(function), context.num_warps))


STAGES = (
    Stage("legalize", _legalize, scope=Scope.MODULE),
    Stage("strip-mine", _strip_mine, has_large_tiles, Scope.MODULE),
    Stage("infer-nsw", _infer_nsw),
    Stage("scalarize-pointer-steps", scalarize_steps, has_branches),
    Stage("version-full-tiles", _version_full_tiles),
    Stage("free-dot-layouts", _free_dot_layouts),
    Stage("assign-layouts", _assign_layouts, marker="layouts"),
    Stage("allocate-shared", _allocate_on_stack, marker="allocated"),
)
"""The stages from a module to one with layouts. One warp in lockstep runs an instance: no copies
are issued ahead, nothing is staged, and there are no barriers."""
