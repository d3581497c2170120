"""The driver of warp specialization: the passes from a kernel of pointers, masks and dots to its
producer and consumers."""

from __future__ import annotations

from typing import Any

import attrs

from tileir.analysis.clusters import ATTRIBUTE
from tileir.analysis.loops import Loop, loops
from tileir.backend.legalize.link_inline import linked_and_inlined
from tileir.backend.stage import Scope, Stage, StageRun, with_attributes
from tileir.backend.tma.infer_descriptors import infer_kernel_descriptors
from tileir.backend.tma.modulo_to_mask import modulo_to_mask
from tileir.backend.transforms.scalarize_pointer_steps import scalarize_pointer_steps
from tileir.backend.transforms.unsigned_division import unsigned_divisions
from tileir.backend.warp_specialize.defer_wgmma_waits import defer_wgmma_waits
from tileir.backend.warp_specialize.multicast import multicast
from tileir.backend.warp_specialize.options import WarpSpecializeOptions, WarpSpecializeResult
from tileir.backend.warp_specialize.partition import SHARED, partition_kernel
from tileir.backend.warp_specialize.peel import peel_first_iteration
from tileir.backend.warp_specialize.persistent import make_persistent
from tileir.backend.warp_specialize.pingpong import buffer_bytes, pingpong
from tileir.backend.warp_specialize.pipeline_chained_matmuls import pipeline_chained_matmuls
from tileir.backend.warp_specialize.prefetch_register_operands import prefetch_register_operands
from tileir.backend.warp_specialize.sink_wgmma_waits import sink_wgmma_waits
from tileir.backend.warp_specialize.swap_operands import swap_operands
from tileir.backend.warp_specialize.swizzle_panels import pad_to_swizzle_panels
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.ops.dot import Dot, DotScaled
from tileir.ops.memory import Load
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passes.licm import licm
from tileir.passes.peephole import peephole
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.passmanager.registry import PassResult
from tileir.refusal import Refusal
from tileir.types import shape_of

_DOTS = (Dot, DotScaled)


def warp_specialize(
    module: Module, name: str, options: WarpSpecializeOptions, recorder: Any = None
) -> WarpSpecializeResult:
    """`module` with kernel `name` warp-specialized where its dots allow it; `recorder` as for
    `StageRun`. Raises LinkError and PassError."""
    return _Driver(module, name, recorder).multicast(options)


# The stages, and the condition of each. Their context is the options. ---------------------------


def _link_and_inline(module: Module, options: WarpSpecializeOptions) -> Module:
    return linked_and_inlined(module)


def _expand_scaled_dots(function: Function, options: WarpSpecializeOptions) -> Function:
    from tileir.backend.legalize.scaled_dots import expand_scaled  # few kernels have scaled dots

    return expand_scaled(function)


def _has_scaled_dots(function: Function, options: WarpSpecializeOptions) -> bool:
    return any(isinstance(op, DotScaled) for op in function.ops)


def _has_loops(function: Function, options: WarpSpecializeOptions) -> bool:
    return len(function.blocks) > 1


def _merge_congruent_counters(function: Function, options: WarpSpecializeOptions) -> Function:
    from tileir.backend.transforms.congruent_counters import merge_congruent_counters  # few need it

    merged = merge_congruent_counters(function)
    return merged if merged is function else cse(merged)


def _load_scalars(function: Function, options: WarpSpecializeOptions) -> Function:
    """Load a scalar in place of a vector whose elements have one address, in loops with dots."""
    dots = (loop for loop in loops(function).by_header.values() if _multiplies(function, loop))
    labels = {label for loop in dots for label in loop.blocks}
    loads = (op for x in labels for op in function.blocks[x].ops if isinstance(op, Load))
    if not any(len(shape_of(op.results[0].type)) == 1 for op in loads):
        return function
    from tileir.backend.software_pipeline.uniform_loads import load_scalars  # few need it

    return load_scalars(function, sorted(labels))


def _divides(function: Function, options: WarpSpecializeOptions) -> bool:
    return len(function.blocks) > 1 and any(op.divides for op in function.ops)


def _assume_block_sizes(function: Function, options: WarpSpecializeOptions) -> Function:
    from tileir.backend.warp_specialize.assume_block_sizes import assume_block_sizes

    return assume_block_sizes(function)


def _multiplies(function: Function, loop: Loop) -> bool:
    return any(isinstance(op, Dot) for label in loop.blocks for op in function.blocks[label].ops)


def _cluster_instances(function: Function, options: WarpSpecializeOptions) -> PassResult:
    from tileir.backend.warp_specialize.cluster_instances import cluster_kernel

    why = "split-K is on" if options.split_k > 1 else "the kernel is not persistent"
    clustered = (
        cluster_kernel(function, options.multicast) if _is_persistent(options) else Refusal(why)
    )
    if isinstance(clustered, Function):
        return PassResult(clustered)
    reason = clustered.remark("TIR0655", "no multicast", function.location)
    return PassResult(make_persistent(function) if options.persistent else function, (reason,))


def _split_k(function: Function, options: WarpSpecializeOptions) -> PassResult:
    from tileir.backend.warp_specialize.split_k import split_kernel

    split = split_kernel(function, options.split_k)
    if isinstance(split, Function):
        return PassResult(split)
    return PassResult(
        function, (split.remark("TIR0654", "split-K not applied", function.location),)
    )


def _exclude_from_maps(function: Function, options: WarpSpecializeOptions) -> Function:
    from tileir.backend.tma.host_plan import NON_TMA_ALIGNMENTS

    return with_attributes(function, {NON_TMA_ALIGNMENTS: options.non_tma_alignments})


def _is_persistent(options: WarpSpecializeOptions) -> bool:
    return options.persistent and options.split_k < 2


BEFORE = (
    Stage("link-and-inline", _link_and_inline, scope=Scope.MODULE),
    Stage("expand-scaled-dots", _expand_scaled_dots, _has_scaled_dots),
    Stage("cse", lambda f, _: cse(f)),
    Stage("licm", lambda f, _: licm(f)),
    Stage("merge-congruent-counters", _merge_congruent_counters, _has_loops),
    Stage("scalarize-pointer-steps", lambda f, _: scalarize_pointer_steps(f)),
    Stage("assume-block-sizes", _assume_block_sizes, _divides),
    Stage("modulo-to-mask", lambda f, _: modulo_to_mask(f), marker="descriptors"),
    Stage("load-scalars", _load_scalars, _has_loops),
    Stage("swap-operands", lambda f, _: swap_operands(f)),
    Stage("infer-descriptors", lambda f, _: infer_kernel_descriptors(f)),
    Stage("pad-to-swizzle-panels", lambda f, _: pad_to_swizzle_panels(f)),
    Stage("cluster-instances", _cluster_instances, lambda _, w: w.multicast > 1),
    Stage(
        "persist", lambda f, _: make_persistent(f), lambda _, w: w.multicast < 2 and w.persistent
    ),
    Stage("split-k", _split_k, lambda _, w: w.split_k > 1),
    Stage("exclude-from-tensor-maps", _exclude_from_maps, lambda _, w: bool(w.non_tma_alignments)),
)
"""The passes before a kernel is partitioned."""

CONSUMER = (
    Stage("defer-wgmma-waits", lambda f, _: defer_wgmma_waits(f)),
    Stage(
        "pipeline-chained-matmuls",
        lambda f, w: pipeline_chained_matmuls(f, ordered_softmax=w.ordered_softmax),
    ),
    Stage("peephole", lambda f, _: peephole(f)),
    Stage("dce", lambda f, _: dce(f)),
    Stage("simplify-cfg", lambda f, _: simplify_cfg(f)),
    Stage("sink-wgmma-waits", lambda f, _: sink_wgmma_waits(f)),
    Stage("prefetch-register-operands", lambda f, _: prefetch_register_operands(f)),
)
"""The passes on the consumer."""

UNSIGNED = (Stage("unsigned-division", lambda f, _: unsigned_divisions(f), scope=Scope.EACH),)
PEEL = (Stage("peel-first-iteration", lambda f, _: peel_first_iteration(f), scope=Scope.EACH),)
PINGPONG = (Stage("pingpong", lambda m, _: pingpong(m), scope=Scope.MODULE),)
MULTICAST = (Stage("multicast", lambda m, _: multicast(m), scope=Scope.MODULE),)

TABLES = (BEFORE, CONSUMER, UNSIGNED, PEEL, PINGPONG, MULTICAST)


@attrs.frozen(eq=False)
class _Driver:
    """The tables of stages that a kernel passes through, and the fallbacks if a later stage
    fails."""

    module: Module
    name: str
    recorder: Any

    def multicast(self, options: WarpSpecializeOptions) -> WarpSpecializeResult:
        result = self._multicast(options)
        if not result.applied:
            return result
        names = [f.name for f in result.module.functions.values()]
        run = StageRun(result.module, names[0], options, names[1:], self.recorder)
        run.through(PEEL)
        return attrs.evolve(result, module=run.module)

    def _multicast(self, options: WarpSpecializeOptions) -> WarpSpecializeResult:
        result = self._pingpong(options)
        clusters = ATTRIBUTE in result.module.functions[self.name].attributes
        if (
            not result.applied
            or options.multicast < 2
            or not _is_persistent(options)
            or not clusters
        ):
            return result
        run = StageRun(result.module, self.name, options, recorder=self.recorder)
        run.through(MULTICAST)
        if not run.remarks:
            return attrs.evolve(result, module=run.module)
        plain = self._pingpong(attrs.evolve(options, multicast=1))
        return attrs.evolve(plain, remarks=(*plain.remarks, *run.remarks))

    def _pingpong(self, options: WarpSpecializeOptions) -> WarpSpecializeResult:
        """Partition the kernel, with two consumer warpgroups that alternate instances if
        requested."""
        if not options.pingpong or not _is_persistent(options):
            return self._partition(options)
        options = attrs.evolve(options, warps=options.warps or 4)
        first = self._partition(options)
        if not first.applied:
            return first
        buffers = buffer_bytes(first.module, first.module.functions[self.name])
        reduced = attrs.evolve(options, shared=(options.shared or SHARED) - buffers)
        partitioned = self._partition(reduced) if buffers else first
        run = StageRun(partitioned.module, self.name, options, recorder=self.recorder)
        run.through(PINGPONG)
        return WarpSpecializeResult(run.module, (*first.remarks, *run.remarks), True)

    def _partition(self, options: WarpSpecializeOptions) -> WarpSpecializeResult:
        ops = (op for function in self.module.functions.values() for op in function.ops)
        if not any(isinstance(op, _DOTS) for op in ops):
            return WarpSpecializeResult(self.module)
        run = StageRun(self.module, self.name, options, recorder=self.recorder)
        run.through(BEFORE)
        shared = {"shared": options.shared} if options.shared else {}
        roles = partition_kernel(
            run.function, num_stages=options.num_stages, warps=options.warps,
            shares_processor=not options.persistent and options.split_k == 1, **shared,
        )  # fmt: skip
        if isinstance(roles, Refusal):
            where = self.module.functions[self.name].location
            return WarpSpecializeResult(
                self.module,
                (*run.remarks, roles.remark("TIR0653", "not warp-specialised", where)),
            )
        producer, consumer, _ = roles
        other_functions = {n: f for n, f in run.module.functions.items() if n != self.name}
        functions = {**other_functions, **{f.name: f for f in roles}}
        module = run.module.evolve(functions=functions, stage="warp_specialized")
        return self._optimize_roles(
            module, producer.name, consumer.name, options, tuple(run.remarks)
        )

    def _optimize_roles(
        self,
        module: Module,
        producer: str,
        consumer: str,
        options: WarpSpecializeOptions,
        remarks: tuple[Diagnostic, ...],
    ) -> WarpSpecializeResult:
        run = StageRun(module, consumer, options, [producer], self.recorder)
        run.through((*CONSUMER, *UNSIGNED))
        return WarpSpecializeResult(run.module, remarks, True)
