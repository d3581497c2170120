"""The pipeline for GPUs: a table of stages, from a legal module to one from which code is
generated.

Each row names a pass, and the condition under which a kernel needs it. The pass is imported only
then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

from tileir.analysis.uses import base_pointer, definitions
from tileir.backend.demand import check_warps, choose_warps, chosen_warps, stated_warps
from tileir.backend.options import Options
from tileir.backend.shared_memory.requirements import may_have_hazards, needs
from tileir.backend.stage import Scope, Stage, has_op, with_attributes, with_function
from tileir.backend.stage_conditions import (
    carries_integers,
    combines_wide,
    compares_wide,
    computes_functions,
    divides,
    divides_ahead,
    divides_wide,
    divides_without_dots,
    has_branches_alike,
    has_wgmma_alone,
    loads_ahead,
    multiplies_by_mma,
    multiplies_by_threads,
    nests_dots,
    wraps_indices,
)
from tileir.backend.target import Target
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.ops.shape import GetElementPtr
from tileir.passmanager.registry import PassResult
from tileir.types import I64, Tile, element_of, shape_of
from tileir.verify.declarations import RESERVED


@attrs.frozen(eq=False, repr=False)
class Context:
    """The state of the stages besides the IR.

    `num_warps` is 0 until it is chosen. `max_registers` is the maximum number of registers per
    thread (None: no limit). `roles` are the warps of each role. `prefetched` states whether
    operands are prefetched as the options request.
    """

    target: Target
    options: Options
    kernel: str
    num_warps: int = 0
    max_registers: int | None = None
    roles: Mapping[str, int] = attrs.field(factory=dict)
    prefetched: bool = False

    def warps_of(self, function: Function) -> int:
        """The warps that run `function`, the kernel or a role."""
        return self.roles.get(function.name, self.num_warps)


# Stages ---------------------------------------------------------------------------------------


def _legalize(module: Module, context: Context) -> tuple[PassResult, Context]:
    from tileir.backend.legal import check_legal

    legal, reached = legalize_kernel(module, context)
    check_legal(reached, context.kernel, context.target)
    return PassResult(legal), attrs.evolve(context, roles=_roles(legal.functions[context.kernel]))


def legalize_kernel(module: Module, context: Context) -> tuple[Module, Module]:
    """`module` with the kernel legalized, and the part of it that the kernel reaches. Raises
    `CompileError` (TIR0712) for foreign code that is not permitted."""
    from tileir.backend.legal import brings_code, needs_legalization, within

    legal = module
    if needs_legalization(module, context.kernel):
        from tileir.backend.legalize.link_inline import legalize

        legal = legalize(module, context.kernel)
    reached = within(legal, context.kernel)
    if any(brings_code(op) for function in reached.functions.values() for op in function.ops):
        from tileir.backend.permission import check_permitted

        check_permitted(reached, context.options.permit)
    return legal, reached


def _roles(kernel: Function) -> dict[str, int]:
    """The number of warps of each function that `kernel` starts as a role. Raises CompileError
    (TIR0706)."""
    warps: dict[str, int] = {}
    for op in kernel.ops:
        if op.mnemonic == "gpu.role":
            name = cast(Any, op).callee
            if name in warps:
                message = f"gpu.role: @{name} is started twice: every role needs a copy"
                raise CompileError(Diagnostic("TIR0706", message, op.location))
            warps[name] = cast(Any, op).warps
    return warps


def _merge_branches(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.merge_branches import merge_branches

    return merge_branches(function)


def _select_arms(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.select_arms import select_arms

    return select_arms(function)


def _fold_accumulators(function: Function, context: Context) -> Function:
    from tileir.backend.demand import warps_of
    from tileir.backend.transforms.fold_accumulators import fold_accumulators

    return fold_accumulators(function, 32 * warps_of(function, context.options.num_warps or 0)[0])


def _strip_mine(module: Module, context: Context) -> PassResult:
    """Strip-mine the kernel. If that would pass chunks from one loop to another through private
    memory, tiles that are computed element by element and fit the registers stay whole. Chunks of
    extended numbers are compared before the extension."""
    from tileir.backend.transforms.narrow_extremes import narrow_extremes

    warps = context.options.num_warps or 0
    narrow = with_function(module, narrow_extremes(module.functions[context.kernel]))
    result = strip_mine_kernel(narrow, context.kernel, warps=warps, shared=True)
    if not has_op(cast(Module, result.ir).functions[context.kernel], "gpu.private_alloc"):
        return result
    from tileir.backend.demand import warps_of
    from tileir.backend.strip_mine.whole_tiles import fit_element_by_element

    function = module.functions[context.kernel]
    fits = fit_element_by_element(function, 32 * warps_of(function, warps)[0])
    return PassResult(module) if fits else result


def strip_mine_kernel(module: Module, name: str, **options: Any) -> PassResult:
    """`module` with kernel `name` strip-mined under `options` of `strip_mine_function`."""
    from tileir.backend.strip_mine.strip_mine import strip_mine_function, with_stage

    outcome = strip_mine_function(module.functions[name], **options)
    return attrs.evolve(outcome, ir=with_stage(with_function(module, cast(Function, outcome.ir))))


def _unroll_dot_loops(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.unroll_dot_loops import unroll_dot_loops

    warps = context.options.num_warps if context.target.wgmma else None
    return unroll_dot_loops(function, context.target.shared_bytes, warps or 0)


def scalarize_steps(function: Function, context: Any) -> Any:
    """Replace loop-carried tiles of pointers by scalar offsets."""
    from tileir.backend.transforms.scalarize_pointer_steps import scalarize_pointer_steps

    return scalarize_pointer_steps(function)


def _hoist_quotients(function: Function, context: Any) -> Function:
    from tileir.backend.transforms.hoist_quotients import hoist_quotients

    return hoist_quotients(function)


def _casts_transposes(function: Function, context: Any) -> bool:
    """Whether dots may use a tile that is cast after it is transposed."""
    return has_op(function, "dot") and has_op(function, "trans") and has_op(function, "fptrunc")


def _sink_transposes(function: Function, context: Any) -> Function:
    from tileir.backend.transforms.sink_transposes import sink_transposes

    return sink_transposes(function)


def _modulo_to_mask(function: Function, context: Any) -> Function:
    from tileir.backend.tma.modulo_to_mask import mask_wrapped_loads

    return mask_wrapped_loads(function, is_checked=True, neighbours_only=True)


def _form_remainders(function: Function, context: Any) -> Function:
    from tileir.backend.transforms.remainders import form_remainders

    return form_remainders(function)


def _narrow_divisions(function: Function, context: Any) -> Function:
    from tileir.backend.transforms.narrow_division import narrow_divisions

    return narrow_divisions(function)


def _narrow_reductions(function: Function, context: Any) -> Function:
    from tileir.backend.transforms.narrow_reductions import narrow_reductions

    return narrow_reductions(function)


def _narrow_comparisons(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.narrow_comparisons import narrow_comparisons

    return narrow_comparisons(function, context.target.lanes * context.warps_of(function))


def _async_pipeline(function: Function, context: Context) -> tuple[PassResult, Context]:
    """Copy the operands of dots asynchronously, in half of shared memory, so that two blocks run on
    a multiprocessor. If neither `prefetch_operands` nor `max_registers` is stated, a limit of
    registers under which another block fits is preferred to prefetched operands."""
    from tileir.backend.layouts.wgmma import warpgroup_warps
    from tileir.backend.software_pipeline.async_pipeline import pipeline_function
    from tileir.backend.software_pipeline.occupancy import register_limit

    options, target = context.options, context.target
    stages, shared = options.num_stages or 0, target.shared_bytes // 2
    stated = options.num_warps or stated_warps(function)
    if target.wgmma and (warps := warpgroup_warps(function, stated)):
        outcome = pipeline_function(function, stages, shared, False, warps, machine=target)
        if has_op(cast(Function, outcome.ir), "gpu.wgmma"):
            kernel = with_attributes(cast(Function, outcome.ir), {"num_warps": warps})
            return attrs.evolve(outcome, ir=kernel), context
    warps = stated or 0
    if options.prefetch_operands is None and options.max_registers is None:
        plain = pipeline_function(function, stages, shared, False, num_warps=warps, machine=target)
        warps = warps or choose_warps(function, target)
        limit = register_limit(cast(Function, plain.ir), warps, target)
        if limit is not None:
            return plain, attrs.evolve(context, max_registers=limit)
    outcome = pipeline_function(
        function, stages, shared, options.prefetch_operands is not False, num_warps=warps,
        machine=target,
    )  # fmt: skip
    if options.prefetch_operands:  # an equal result without it tells that it was not followed
        plain = pipeline_function(function, stages, shared, False, num_warps=warps, machine=target)
        context = attrs.evolve(context, prefetched=_size(outcome) != _size(plain))
    return outcome, context


def _multiply_stored_operands(function: Function, context: Context) -> Function:
    from tileir.backend.live_registers import ThreadRegisters
    from tileir.backend.software_pipeline.stored_operands import multiply_stored_operands

    machine, copies = context.target, ThreadRegisters.of(context)
    return multiply_stored_operands(
        function, context.num_warps, machine.shared_bytes // 2, copies, machine
    )


def _stage_operands(function: Function, context: Context) -> Function:
    from tileir.backend.live_registers import ThreadRegisters
    from tileir.backend.software_pipeline.staged_operands import stage_operands

    return stage_operands(function, context.target.shared_bytes // 2, ThreadRegisters.of(context))


def _size(outcome: PassResult) -> int:
    return sum(1 for _ in cast(Function, outcome.ir).ops)


def _choose_warps(function: Function, context: Context) -> tuple[PassResult, Context]:
    stated = context.options.num_warps
    count = stated or choose_warps(function, context.target)
    check_warps(function, count, context.target.max_warps)
    _check_registers(function, context.options.max_registers, context.target)
    remarks = tuple(chosen_warps(function, count, stated))
    marked = with_attributes(function, {"num_warps": count})
    return PassResult(marked, remarks), attrs.evolve(context, num_warps=count)


_FEWEST = 32
"""The number of registers with which every instruction can be allocated."""


def _check_registers(function: Function, registers: int | None, target: Target) -> None:
    if registers is not None and not _FEWEST <= registers <= target.max_registers:
        message = f"registers must be in {_FEWEST} to {target.max_registers}, not {registers}"
        raise CompileError(Diagnostic("TIR0708", message, function.location))


def _stage_halo(function: Function, context: Context) -> PassResult:
    from tileir.backend.halo.stage_halo import stage_function_halo

    return stage_function_halo(function)


def _check_registers_suffice(function: Function, context: Context) -> Function:
    from tileir.backend.demand import check_registers

    check_registers(function, context.num_warps, context.target)
    return function


def _version_nonnegative_dividends(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.nonnegative_dividends import version_nonnegative_dividends

    threads = context.warps_of(function) * context.target.lanes
    return version_nonnegative_dividends(function, threads)


def _hoist_functions(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.hoist_functions import hoist_functions

    return hoist_functions(function)


def _version_full_tiles(function: Function, context: Context) -> PassResult:
    from tileir.backend.transforms.full_tiles import version_full_tiles

    return version_full_tiles(function, threads=context.warps_of(function) * context.target.lanes)


def _rematerialize(function: Function, context: Context) -> PassResult:
    from tileir.backend.transforms.rematerialize import rematerialize

    return rematerialize(function)


def _assign_layouts(function: Function, context: Context) -> Function:
    from tileir.backend.layouts.access_widths import AccessWidths
    from tileir.backend.layouts.anchors import AnchorLayouts
    from tileir.backend.layouts.assign_layouts import assign_layouts

    warps = context.warps_of(function)
    laid_out = assign_layouts(function, AnchorLayouts(function, AccessWidths(function), warps))
    if has_op(laid_out, "gpu.convert_layout"):
        from tileir.backend.layouts.merge_conversions import merge_conversions
        from tileir.backend.layouts.sink_conversions import sink_conversions

        if has_op(laid_out, "gpu.local_load"):
            from tileir.backend.shared_memory.reload_stages import reload_stages

            laid_out = reload_stages(laid_out)
        laid_out = sink_conversions(merge_conversions(laid_out))
    return with_attributes(laid_out, {"num_warps": warps})


def _remove_needless_barriers(function: Function, context: Context) -> Function:
    from tileir.backend.software_pipeline.private_stages import remove_needless_barriers

    return remove_needless_barriers(function)


def _per_warpgroup_stores(function: Function, context: Context) -> Function:
    from tileir.backend.warp_specialize.per_warpgroup_stores import per_warpgroup_stores

    return per_warpgroup_stores(function)


def _delay_wgmma_waits(function: Function, context: Context) -> Function:
    from tileir.backend.software_pipeline.delay_wgmma_waits import delay_wgmma_waits

    return delay_wgmma_waits(function, context.target, context.warps_of(function))


def _copy_stages(function: Function, context: Context) -> Function:
    from tileir.backend.warp_specialize.copy_stages import copy_stages

    return copy_stages(function)


def _eliminate_redundant_barriers(function: Function, context: Context) -> Function:
    from tileir.backend.warp_specialize.redundant_barriers import eliminate_redundant_barriers

    return eliminate_redundant_barriers(function)


def _conditional_row_max(function: Function, context: Context) -> Function:
    from tileir.backend.layouts.conditional_row_max import conditional_row_max

    return conditional_row_max(function)


def _reorder_offsets(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.reorder_offsets import reorder_offsets

    return reorder_offsets(function)


def _split_offsets(function: Function, context: Context) -> Function:
    from tileir.backend.transforms.split_offsets import split_offsets

    return split_offsets(function)


def _allocate_shared(module: Module, context: Context) -> Module:
    from tileir.backend.shared_memory.allocate import allocate_with_roles

    return allocate_with_roles(module, context.kernel, tuple(context.roles), context.target)


def _insert_barriers(function: Function, context: Context) -> Function:
    from tileir.backend.shared_memory.barriers import insert_barriers_into

    return insert_barriers_into(function)


def _rotate(function: Function, context: Context) -> Function:
    from tileir.analysis.loops import loops
    from tileir.passes.rotate import rotate

    return rotate(function) if len(loops(function).by_header) >= _MANY_LOOPS else function


def _plan_host(module: Module, context: Context) -> Module:
    """Write the host plan into the metadata: tensor maps, and the data for accesses of roles by
    threads. A plan of another compilation is removed."""
    kernel = module.functions[context.kernel]
    metadata = {k: v for k, v in module.metadata.items() if not k.startswith(RESERVED)}
    if has_op(kernel, "gpu.tensor_map", "gpu.role"):
        from tileir.backend.tma.host_plan import HostPlan

        plan = HostPlan.of(kernel)
        if plan is not None:
            metadata["host.plan0"] = plan.to_text()
    return module if metadata == module.metadata else module.evolve(metadata=metadata)


# Conditions of stages -------------------------------------------------------------------------

_SHORT = 8
"""The most ops of a block whose tiles may be computed without a branch."""
_MANY_LOOPS = 256
"""Loops of a kernel from which on they are rotated here: where LLVM rotates one, it visits all
blocks that the loop dominates, every later loop among them."""


def has_large_tiles(module: Module, context: Context) -> bool:
    """Whether the kernel, if the backend has not changed it yet, has tiles that exceed the register
    file."""
    from tileir.backend.demand import is_large, max_tile_words, warps_of

    function = module.functions[context.kernel]
    if any(op.mnemonic.startswith("gpu.") for op in function.ops):
        return False  # tiles that the backend created fit the registers
    warps = context.num_warps or context.options.num_warps or 0
    limit = max_tile_words(32 * warps_of(function, warps)[0])
    return any(is_large(op, limit) for op in function.ops)


def _exceeds_registers(module: Module, context: Context) -> bool:
    """Whether a kernel has large tiles that threads cannot hold whole."""
    from tileir.backend.demand import warps_of

    if not has_large_tiles(module, context):
        return False
    from tileir.backend.strip_mine.whole_tiles import fits_whole

    function = module.functions[context.kernel]
    warps = context.num_warps or context.options.num_warps or 0
    return not fits_whole(function, 32 * warps_of(function, warps)[0])


def has_branches(function: Function, context: Any) -> bool:
    """Whether a function has several blocks."""
    return len(function.blocks) > 1


def _has_short_arms(function: Function, context: Any) -> bool:
    """Whether a function without dots branches to a block of few ops that passes a tile on."""
    branches = [b.successors for b in function.blocks.values() if len(b.successors) == 2]
    sides = [function.blocks[edge.label] for edges in branches for edge in edges]
    passed = [v for s in sides if len(s.ops) <= _SHORT for e in s.successors for v in e.arguments]
    has_tiles = any(isinstance(v.type, Tile) for v in passed)
    return has_tiles and not has_op(function, "dot", "dot_scaled")


def _may_reread(function: Function, context: Context) -> bool:
    """Whether elements may be loaded repeatedly: by a loop, by several loads of one tensor, or by
    one load whose indices add several counters."""
    loads = [op for op in function.ops if op.mnemonic == "load"]
    pointers = [p for op in loads for p in op.inputs[:1] if isinstance(p.type, Tile)]
    if not context.options.stage_halo:
        return False
    if len(function.blocks) > 1 or any(len(shape_of(p.type)) > 1 for p in pointers):
        return bool(pointers)
    defs = definitions(function)
    return len({base_pointer(p, defs) for p in pointers}) < len(pointers)


def _is_register_limited(function: Function, context: Context) -> bool:
    limit = context.max_registers
    return limit is not None and limit < context.target.max_registers


def _copies_results(function: Function, context: Context) -> bool:
    return has_op(function, "gpu.tma_store")


def _copies_without_dots(function: Function, context: Context) -> bool:
    return has_op(function, "gpu.async_copy") and not has_op(function, "dot", "gpu.wgmma")


def _loads_stages(function: Function, context: Context) -> bool:
    return has_op(function, "gpu.local_store") and has_op(function, "gpu.async_commit")


def _writes_buffers(function: Function, context: Context) -> bool:
    return has_op(function, "gpu.local_store")


def _reduces(function: Function, context: Context) -> bool:
    return has_op(function, "reduce")


def _has_chained_offsets(function: Function, context: Any) -> bool:
    """Whether offsets are added to a tile of pointers one after the other."""
    tiles = [
        op for op in function.ops
        if isinstance(op, GetElementPtr) and isinstance(op.result.type, Tile)
    ]  # fmt: skip
    results = {op.result for op in tiles}
    return any(op.pointer in results for op in tiles)


def _has_wide_offsets(function: Function, context: Any) -> bool:
    """Whether a tile of pointers has offsets of 64 bits."""
    return any(
        isinstance(op.index.type, Tile) and element_of(op.index.type) is I64
        for op in function.ops
        if isinstance(op, GetElementPtr)
    )


def _needs_shared_memory(module: Module, context: Context) -> bool:
    """Whether the kernel or a role passes values through shared memory, or has an attribute that
    states so."""
    functions = [module.functions[name] for name in (context.kernel, *context.roles)]
    return any("shared" in f.attributes or needs(f) for f in functions)


UNTIL_LAYOUTS = (
    Stage("legalize", _legalize, scope=Scope.MODULE, snapshot="legal"),
    Stage("merge-branches", _merge_branches, has_branches_alike),
    Stage("select-arms", _select_arms, _has_short_arms),
    Stage("fold-accumulators", _fold_accumulators, carries_integers),
    Stage("narrow-reductions", _narrow_reductions, combines_wide),
    Stage("strip-mine", _strip_mine, _exceeds_registers, Scope.MODULE, "strip_mined"),
    Stage("unroll-dot-loops", _unroll_dot_loops, nests_dots),
    Stage("scalarize-pointer-steps", scalarize_steps, has_branches),
    Stage("hoist-quotients", _hoist_quotients, divides_ahead),
    Stage("sink-transposes", _sink_transposes, _casts_transposes),
    Stage("modulo-to-mask", _modulo_to_mask, wraps_indices, marker="pipelined"),
    Stage("async-pipeline", _async_pipeline, loads_ahead, marker="pipelined"),
    Stage("choose-num-warps", _choose_warps, snapshot="pipelined"),
    Stage("multiply-stored-operands", _multiply_stored_operands, multiplies_by_threads,
          marker="pipelined"),
    Stage("delay-wgmma-waits", _delay_wgmma_waits, has_wgmma_alone),
    Stage("stage-operands", _stage_operands, multiplies_by_mma, marker="pipelined"),
    Stage("stage-halo", _stage_halo, _may_reread, snapshot="halo", marker="halo"),
    Stage("form-remainders", _form_remainders, divides, Scope.EACH),
    Stage("narrow-divisions", _narrow_divisions, divides_wide, Scope.EACH),
    Stage("narrow-comparisons", _narrow_comparisons, compares_wide, Scope.EACH),
    Stage("version-nonnegative-dividends", _version_nonnegative_dividends, divides_without_dots,
          Scope.EACH),
    Stage("check-registers", _check_registers_suffice),
    Stage("hoist-functions", _hoist_functions, computes_functions),
    Stage("version-full-tiles", _version_full_tiles, scope=Scope.EACH, marker="full_tiles"),
    Stage("rematerialize", _rematerialize, _is_register_limited, snapshot="full_tiles"),
    Stage("assign-layouts", _assign_layouts, scope=Scope.EACH, marker="layouts"),
    Stage("remove-needless-barriers", _remove_needless_barriers, _copies_without_dots),
    Stage("copy-stages", _copy_stages, _loads_stages, Scope.ROLES),
    Stage("per-warpgroup-stores", _per_warpgroup_stores, _copies_results, Scope.ROLES),
    Stage("eliminate-redundant-barriers", _eliminate_redundant_barriers, _writes_buffers,
          Scope.ROLES),
    Stage("conditional-row-max", _conditional_row_max, _reduces, Scope.EACH, "layouts"),
    Stage("reorder-offsets", _reorder_offsets, _has_chained_offsets, Scope.EACH),
    Stage("split-offsets", _split_offsets, _has_wide_offsets, Scope.EACH, "layouts"),
)  # fmt: skip
"""The stages from a legal module, with or without roles, to one with layouts."""

AFTER_LAYOUTS = (
    Stage("allocate-shared", _allocate_shared, _needs_shared_memory, Scope.MODULE, "allocated",
          "allocated"),
    Stage("insert-barriers", _insert_barriers, may_have_hazards, Scope.EACH, marker="barriers"),
    Stage("rotate", _rotate, lambda f, _: len(f.blocks) >= 2 * _MANY_LOOPS),
    Stage("plan-host", _plan_host, scope=Scope.MODULE, snapshot="barriers"),
)  # fmt: skip
"""The stages from a module with layouts to one with shared memory and barriers."""

GPU = (*UNTIL_LAYOUTS, *AFTER_LAYOUTS)
"""All stages, in their order."""

ORDER = (
    ("legalize", "merge-branches", "branches call what is inlined"),
    ("merge-branches", "strip-mine", "a tile that both branches load is in one block"),
    ("select-arms", "strip-mine", "a tile that is selected is in one block"),
    ("legalize", "strip-mine", "calls are inlined and decomposed ops are visible"),
    ("narrow-reductions", "strip-mine", "tiles of 32 bits fit into fewer registers"),
    ("fold-accumulators", "strip-mine", "a folded accumulator fits into registers"),
    ("strip-mine", "scalarize-pointer-steps", "loops over chunks move pointers, too"),
    ("unroll-dot-loops", "async-pipeline", "the loop around is pipelined instead"),
    ("scalarize-pointer-steps", "modulo-to-mask", "the masks of the loads are in no loop"),
    ("scalarize-pointer-steps", "hoist-quotients", "it knows offsets as the loop computes them"),
    ("hoist-quotients", "modulo-to-mask", "the masks of the loads are in no loop"),
    ("hoist-quotients", "async-pipeline", "what a loop divides ahead depends on its iteration"),
    ("sink-transposes", "async-pipeline", "operands are transposed last where they are stored"),
    ("modulo-to-mask", "async-pipeline", "copies need neighbours at neighbouring addresses"),
    ("modulo-to-mask", "narrow-divisions", "it knows indices modulo an extent as they are written"),
    ("stage-halo", "form-remainders", "it knows the indices of windows as they are written"),
    ("form-remainders", "narrow-divisions", "quotients and remainders share truncated numbers"),
    ("form-remainders", "assign-layouts", "remainders tell which elements are neighbours"),
    ("form-remainders", "version-nonnegative-dividends", "remainders tell which are neighbours"),
    ("scalarize-pointer-steps", "version-nonnegative-dividends", "its scalars have signs"),
    ("version-nonnegative-dividends", "version-full-tiles", "hints about masks need no version"),
    ("scalarize-pointer-steps", "async-pipeline", "the copies need one pointer per stage"),
    ("async-pipeline", "choose-num-warps", "the tiles that are left in registers decide"),
    ("multiply-stored-operands", "stage-operands", "warpgroups compute the dots that they can"),
    ("choose-num-warps", "version-nonnegative-dividends", "a thread needs two elements"),
    ("choose-num-warps", "version-full-tiles", "tiles of one element per thread need no version"),
    ("stage-halo", "version-full-tiles", "staged tiles are loaded under the masks of windows"),
    ("strip-mine", "hoist-functions", "loops over chunks compute functions of rows, too"),
    ("hoist-functions", "version-full-tiles", "each function is hoisted once"),
    ("version-full-tiles", "assign-layouts", "masks limit the width of accesses"),
    ("rematerialize", "assign-layouts", "a recomputed value gets the layout of its use"),
    ("assign-layouts", "remove-needless-barriers", "it compares which threads copy and read"),
    ("remove-needless-barriers", "insert-barriers", "hazards in global memory may need others"),
    ("assign-layouts", "conditional-row-max", "each row has to belong to one warp"),
    ("assign-layouts", "reorder-offsets", "it knows how many elements a thread has"),
    ("reorder-offsets", "split-offsets", "it leaves pointers of which a thread has few"),
    ("assign-layouts", "split-offsets", "it knows offsets as they are written"),
    ("assign-layouts", "allocate-shared", "conversions and reductions pass through shared memory"),
    ("per-warpgroup-stores", "allocate-shared", "it changes which buffers are alive together"),
    ("allocate-shared", "insert-barriers", "hazards are those of byte ranges"),
)
"""(before, after, why): what the order of `GPU` has to keep, asserted by a test."""
