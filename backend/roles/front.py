"""From a kernel of pointers, masks and dots to its roles."""

from __future__ import annotations

from typing import cast

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
from tileir.passmanager.registry import remark

_PRODUCTS = (Dot, DotScaled)


def with_roles(module: Module, name: str, wanted: Wanted) -> Front:
    """`module` with kernel `name` as roles, where its dots allow it. Raises LinkError and
    PassError."""
    found = _perhaps_multicast(module, name, wanted)
    return records.evolve(found, module=_peeled(found.module)) if found.made else found


def _peeled(module: Module) -> Module:
    """`module` with the first rounds of products before their loops."""
    return module.with_functions(
        {n: cast(Function, peel(f).ir) for n, f in module.functions.items()}
    )


def _perhaps_multicast(module: Module, name: str, wanted: Wanted) -> Front:
    if wanted.multicast < 2:
        return _perhaps_in_turns(module, name, wanted)
    found = _perhaps_in_turns(module, name, wanted)
    clusters = _many(wanted) and ATTRIBUTE in found.module.functions[name].attributes
    if not found.made or not clusters:
        return found
    outcome = multicast(found.module)
    if not outcome.remarks:
        return records.evolve(found, module=cast(Module, outcome.ir))
    plain = _perhaps_in_turns(module, name, records.evolve(wanted, multicast=1))
    return records.evolve(plain, remarks=(*plain.remarks, *outcome.remarks))


def _perhaps_in_turns(module: Module, name: str, wanted: Wanted) -> Front:
    """The same without what blocks do for each other; by two groups of warps, where asked for."""
    if not wanted.pingpong or not wanted.persistent or wanted.split > 1:
        return _with_roles(module, name, wanted)
    wanted = records.evolve(wanted, warps=wanted.warps or 4)
    first = _with_roles(module, name, wanted)
    if not first.made:
        return first
    taken = buffer_bytes(first.module, first.module.functions[name])
    room = (wanted.shared or SHARED) - taken
    roomy = _with_roles(module, name, records.evolve(wanted, shared=room)) if taken else first
    outcome = pingpong(roomy.module)
    return Front(cast(Module, outcome.ir), (*first.remarks, *outcome.remarks), True)


def _with_roles(module: Module, name: str, wanted: Wanted) -> Front:
    if not any(isinstance(op, _PRODUCTS) for f in module.functions.values() for op in f.ops):
        return Front(module)
    linked = whole(module)
    kernel = _with_plain_dots(linked.functions[name])
    invariant = cast(Function, licm(cse(kernel)).ir)
    moved = cast(Function, uniform_steps(invariant).ir)
    found = through_descriptors(swap(unwrap(moved)))
    function = cast(Function, found.ir)
    function = whole_panels(function)
    remarks = list(found.remarks)
    function = _instances(function, wanted, remarks)
    if wanted.split > 1:
        parted = divided(function, wanted.split)
        if isinstance(parted, str):
            remarks.append(remark("TIR0654", f"not split: {parted}", kernel.location))
        else:
            function = parted
    if wanted.unmapped:
        attributes = {**function.attributes, UNMAPPED: wanted.unmapped}
        function = function.evolve(attributes=attributes)
    shared = {"shared": wanted.shared} if wanted.shared else {}
    made = specialised(function, slots=wanted.slots, warps=wanted.warps, **shared)
    if isinstance(made, str):
        why = remark("TIR0653", f"no roles: {made}", kernel.location)
        return Front(module, (*remarks, why))
    loading, multiplying, starting = made
    late = cast(Function, delay(cast(Function, overlap(multiplying).ir), turns=wanted.turns).ir)
    late = cast(Function, late_waits(simplify_cfg(dce(peephole(late)))).ir)
    late = cast(Function, early_loads(late).ir)
    functions = {f.name: f for f in (unsigned(loading), unsigned(late), starting)}
    others = {n: f for n, f in linked.functions.items() if n != name}
    return Front(
        linked.evolve(functions={**others, **functions}, stage="roles"), tuple(remarks), True
    )


def _instances(function: Function, wanted: Wanted, remarks: list[Diagnostic]) -> Function:
    """The kernel whose blocks, or clusters of them, work for many instances, if they shall."""
    if wanted.multicast > 1:
        why = "its depth is shared" if wanted.split > 1 else "a block works for one instance"
        made = clustered(function, wanted.multicast) if _many(wanted) else why
        if isinstance(made, Function):
            return made
        remarks.append(remark("TIR0655", f"no multicast: {made}", function.location))
    return persistent(function) if wanted.persistent else function


def _many(wanted: Wanted) -> bool:
    return wanted.persistent and wanted.split < 2


def _with_plain_dots(function: Function) -> Function:
    """`function` with scaled products as products of what is scaled."""
    if not any(isinstance(op, DotScaled) for op in function.ops):
        return function
    from tileir.backend.expand.scaled import expand_scaled  # few kernels have them

    return expand_scaled(function)
