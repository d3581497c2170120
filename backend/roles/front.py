"""Warp specialization: from a kernel of pointers, masks and dots to its roles."""

from __future__ import annotations

from typing import Any

from tileir import records
from tileir.analysis.clusters import ATTRIBUTE
from tileir.backend.pipeline.uniform_steps import uniform_steps
from tileir.backend.prepare import whole
from tileir.backend.roles.cluster import clustered
from tileir.backend.roles.delay import delay
from tileir.backend.roles.early import early_loads
from tileir.backend.roles.late import late_waits
from tileir.backend.roles.multicast import multicast
from tileir.backend.roles.overlap import overlap
from tileir.backend.roles.peel import peel
from tileir.backend.roles.persist import persistent
from tileir.backend.roles.pingpong import buffer_bytes, pingpong
from tileir.backend.roles.specialise import SHARED, specialised
from tileir.backend.roles.split import divided
from tileir.backend.roles.swap import swap
from tileir.backend.roles.unsigned import unsigned
from tileir.backend.roles.wanted import Front, Wanted
from tileir.backend.roles.whole_panels import whole_panels
from tileir.backend.stage import Scope, Stage, StageRun, with_attributes
from tileir.backend.tma.descriptors import through_descriptors
from tileir.backend.tma.plan import UNMAPPED
from tileir.backend.tma.wrapped import unwrap
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.ops.dot import Dot, DotScaled
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passes.licm import licm
from tileir.passes.peephole import peephole
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.passmanager.registry import Outcome, remark

_DOTS = (Dot, DotScaled)


def with_roles(module: Module, name: str, wanted: Wanted, recorder: Any = None) -> Front:
    """`module` with kernel `name` as roles, where its dots allow it; `recorder` as of `StageRun`.
    Raises LinkError and PassError."""
    return _Driver(module, name, recorder).multicast(wanted)


# The stages, and when a kernel needs them. Their context is what the program asks for. ----------


def _link_and_inline(module: Module, wanted: Wanted) -> Module:
    return whole(module)


def _expand_scaled_dots(function: Function, wanted: Wanted) -> Function:
    from tileir.backend.expand.scaled import expand_scaled  # few kernels have them

    return expand_scaled(function)


def _has_scaled_dots(function: Function, wanted: Wanted) -> bool:
    return any(isinstance(op, DotScaled) for op in function.ops)


def _cluster_instances(function: Function, wanted: Wanted) -> Outcome:
    why = "its depth is shared" if wanted.split > 1 else "a block works for one instance"
    made = clustered(function, wanted.multicast) if _is_persistent(wanted) else why
    if isinstance(made, Function):
        return Outcome(made)
    reason = remark("TIR0655", f"no multicast: {made}", function.location)
    return Outcome(persistent(function) if wanted.persistent else function, (reason,))


def _split_k(function: Function, wanted: Wanted) -> Outcome:
    parted = divided(function, wanted.split)
    if isinstance(parted, Function):
        return Outcome(parted)
    return Outcome(function, (remark("TIR0654", f"not split: {parted}", function.location),))


def _exclude_from_maps(function: Function, wanted: Wanted) -> Function:
    return with_attributes(function, {UNMAPPED: wanted.unmapped})


def _is_persistent(wanted: Wanted) -> bool:
    return wanted.persistent and wanted.split < 2


BEFORE = (
    Stage("link-and-inline", _link_and_inline, scope=Scope.MODULE),
    Stage("expand-scaled-dots", _expand_scaled_dots, _has_scaled_dots),
    Stage("cse", lambda f, _: cse(f)),
    Stage("licm", lambda f, _: licm(f)),
    Stage("scalarize-pointer-steps", lambda f, _: uniform_steps(f)),
    Stage("modulo-to-mask", lambda f, _: unwrap(f)),
    Stage("swap-operands", lambda f, _: swap(f)),
    Stage("infer-descriptors", lambda f, _: through_descriptors(f)),
    Stage("pad-to-swizzle-panels", lambda f, _: whole_panels(f)),
    Stage("cluster-instances", _cluster_instances, lambda _, w: w.multicast > 1),
    Stage("persist", lambda f, _: persistent(f), lambda _, w: w.multicast < 2 and w.persistent),
    Stage("split-k", _split_k, lambda _, w: w.split > 1),
    Stage("exclude-from-tensor-maps", _exclude_from_maps, lambda _, w: bool(w.unmapped)),
)
"""What a kernel passes through before it is partitioned."""

CONSUMER = (
    Stage("defer-wgmma-waits", lambda f, _: overlap(f)),
    Stage("pipeline-chained-matmuls", lambda f, w: delay(f, turns=w.turns)),
    Stage("peephole", lambda f, _: peephole(f)),
    Stage("dce", lambda f, _: dce(f)),
    Stage("simplify-cfg", lambda f, _: simplify_cfg(f)),
    Stage("sink-wgmma-waits", lambda f, _: late_waits(f)),
    Stage("prefetch-register-operands", lambda f, _: early_loads(f)),
)
"""What the role that multiplies passes through."""

UNSIGNED = (Stage("unsigned-division", lambda f, _: unsigned(f), scope=Scope.EACH),)
PEEL = (Stage("peel-first-iteration", lambda f, _: peel(f), scope=Scope.EACH),)
PINGPONG = (Stage("pingpong", lambda m, _: pingpong(m), scope=Scope.MODULE),)
MULTICAST = (Stage("multicast", lambda m, _: multicast(m), scope=Scope.MODULE),)

TABLES = (BEFORE, CONSUMER, UNSIGNED, PEEL, PINGPONG, MULTICAST)


@records.frozen(eq=False)
class _Driver:
    """Which tables a kernel passes through, and what is tried again where a later one fails."""

    module: Module
    name: str
    recorder: Any

    def multicast(self, wanted: Wanted) -> Front:
        found = self._multicast(wanted)
        if not found.made:
            return found
        names = [f.name for f in found.module.functions.values()]
        run = StageRun(found.module, names[0], wanted, names[1:], self.recorder)
        run.through(PEEL)
        return records.evolve(found, module=run.module)

    def _multicast(self, wanted: Wanted) -> Front:
        found = self._pingpong(wanted)
        clusters = ATTRIBUTE in found.module.functions[self.name].attributes
        if not found.made or wanted.multicast < 2 or not _is_persistent(wanted) or not clusters:
            return found
        run = StageRun(found.module, self.name, wanted, recorder=self.recorder)
        run.through(MULTICAST)
        if not run.remarks:
            return records.evolve(found, module=run.module)
        plain = self._pingpong(records.evolve(wanted, multicast=1))
        return records.evolve(plain, remarks=(*plain.remarks, *run.remarks))

    def _pingpong(self, wanted: Wanted) -> Front:
        """By two groups of consumer warps, where that is asked for."""
        if not wanted.pingpong or not _is_persistent(wanted):
            return self._partitioned(wanted)
        wanted = records.evolve(wanted, warps=wanted.warps or 4)
        first = self._partitioned(wanted)
        if not first.made:
            return first
        taken = buffer_bytes(first.module, first.module.functions[self.name])
        left = records.evolve(wanted, shared=(wanted.shared or SHARED) - taken)
        roomy = self._partitioned(left) if taken else first
        run = StageRun(roomy.module, self.name, wanted, recorder=self.recorder)
        run.through(PINGPONG)
        return Front(run.module, (*first.remarks, *run.remarks), True)

    def _partitioned(self, wanted: Wanted) -> Front:
        ops = (op for function in self.module.functions.values() for op in function.ops)
        if not any(isinstance(op, _DOTS) for op in ops):
            return Front(self.module)
        run = StageRun(self.module, self.name, wanted, recorder=self.recorder)
        run.through(BEFORE)
        shared = {"shared": wanted.shared} if wanted.shared else {}
        made = specialised(run.function, slots=wanted.slots, warps=wanted.warps, **shared)
        if isinstance(made, str):
            where = self.module.functions[self.name].location
            return Front(self.module, (*run.remarks, remark("TIR0653", f"no roles: {made}", where)))
        producer, consumer, _ = made
        others = {n: f for n, f in run.module.functions.items() if n != self.name}
        functions = {**others, **{f.name: f for f in made}}
        started = run.module.evolve(functions=functions, stage="roles")
        return self._finished(started, producer.name, consumer.name, wanted, tuple(run.remarks))

    def _finished(
        self,
        module: Module,
        producer: str,
        consumer: str,
        wanted: Wanted,
        remarks: tuple[Diagnostic, ...],
    ) -> Front:
        run = StageRun(module, consumer, wanted, [producer], self.recorder)
        run.through((*CONSUMER, *UNSIGNED))
        return Front(run.module, remarks, True)
