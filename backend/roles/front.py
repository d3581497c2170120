"""From a kernel of pointers, masks and dots to its roles."""

from __future__ import annotations

from typing import cast

import attrs

from tileir.backend.pipeline.uniform_steps import uniform_steps
from tileir.backend.roles.delay import delay
from tileir.backend.roles.overlap import overlap
from tileir.backend.roles.persist import persistent
from tileir.backend.roles.specialise import specialised
from tileir.backend.tma.descriptors import through_descriptors
from tileir.backend.tma.wrapped import unwrap
from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.ops.dot import Dot
from tileir.passes.cse import cse
from tileir.passes.dce import dce
from tileir.passes.licm import licm
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.passmanager.registry import remark


@attrs.frozen
class Wanted:
    """What a program may ask for: slots of rings, warps that multiply, bytes of shared memory (0
    to choose), and whether a block works for many program instances."""

    slots: int = 0
    warps: int = 0
    shared: int = 0
    persistent: bool = True


def with_roles(
    kernel: Function, wanted: Wanted
) -> tuple[dict[str, Function] | None, tuple[Diagnostic, ...]]:
    """The functions that stand for `kernel`, by name, itself among them; None where it has no
    roles. And what there is to be said about it."""
    if not any(isinstance(op, Dot) for op in kernel.ops):
        return None, ()
    moved = cast(Function, uniform_steps(licm(cse(kernel))).ir)
    found = through_descriptors(unwrap(moved))
    function = cast(Function, found.ir)
    if wanted.persistent:
        function = persistent(function)
    shared = {"shared": wanted.shared} if wanted.shared else {}
    made = specialised(function, slots=wanted.slots, warps=wanted.warps, **shared)
    if isinstance(made, str):
        why = remark("TIR0653", f"no roles: {made}", kernel.location)
        return None, (*found.remarks, why)
    loading, multiplying, starting = made
    late = cast(Function, delay(cast(Function, overlap(multiplying).ir)).ir)
    whole = simplify_cfg(dce(late))
    return {f.name: f for f in (loading, whole, starting)}, found.remarks
