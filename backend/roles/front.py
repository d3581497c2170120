"""From a kernel of pointers, masks and dots to its roles."""

from __future__ import annotations

from typing import cast

from tileir import records
from tileir.backend.pipeline.uniform_steps import uniform_steps
from tileir.backend.prepare import whole
from tileir.backend.roles.delay import delay
from tileir.backend.roles.early import early_loads
from tileir.backend.roles.late import late_waits
from tileir.backend.roles.overlap import overlap
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
    if wanted.persistent:
        function = persistent(function)
    remarks = list(found.remarks)
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
    functions = {f.name: unsigned(f) for f in (loading, late, starting)}
    others = {n: f for n, f in linked.functions.items() if n != name}
    return Front(
        linked.evolve(functions={**others, **functions}, stage="roles"), tuple(remarks), True
    )


def _with_plain_dots(function: Function) -> Function:
    """`function` with scaled products as products of what is scaled."""
    if not any(isinstance(op, DotScaled) for op in function.ops):
        return function
    from tileir.backend.expand.scaled import expand_scaled  # few kernels have them

    return expand_scaled(function)
