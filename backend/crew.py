"""The functions of a kernel's roles on their way to code, each like a kernel of its own warps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tileir import records
from tileir.backend.concerned import met_once, own_rows
from tileir.backend.layouts.anchors import Anchors
from tileir.backend.layouts.assignment import assign_layouts
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.layouts.running_max import running_max
from tileir.backend.memory.allocation import allotted
from tileir.backend.memory.barriers import synchronised
from tileir.backend.memory.scratch import Plan
from tileir.backend.target import Target
from tileir.backend.vectorize import vectorize
from tileir.errors import CompileError, Diagnostic
from tileir.ir import Function, Module
from tileir.op import Op

ROLE = "gpu.role"
_LINE = 1024
"""Bytes that the room of a role begins at a multiple of: what any buffer asks for."""


@records.frozen(eq=False)
class Crew:
    """Functions that a kernel starts as roles, by name, and the warps of each."""

    functions: Mapping[str, Function]
    warps: Mapping[str, int]

    @staticmethod
    def of(module: Module, kernel: Function) -> Crew:
        """The roles of `kernel`, each function of one role alone. Raises CompileError (TIR0706)."""
        warps: dict[str, int] = {}
        for op in kernel.ops:
            if op.mnemonic == ROLE:
                name = cast(Any, op).callee
                if name in warps:
                    message = f"{ROLE}: @{name} is started twice: every role needs a copy"
                    raise CompileError(Diagnostic("TIR0706", message, op.location))
                warps[name] = cast(Any, op).warps
        return Crew({name: module.functions[name] for name in warps}, warps)

    def vectorized(self, machine: Target) -> Crew:
        """Masks of whole tiles left out, as of a kernel."""
        return self._each(
            lambda f, warps: cast(Function, vectorize(f, threads=warps * machine.lanes).ir)
        )

    def laid_out(self) -> Crew:
        """Layouts by the warps of each role."""
        return self._each(_laid_out)

    def allotted(self, kernel: Function, machine: Target) -> tuple[Function, Crew]:
        """The kernel and its roles with rooms, which lie apart, since roles run side by side.
        Raises CompileError (TIR0708)."""
        limit = machine.shared_bytes
        placed = allotted(kernel, limit)
        end, made = Plan.of(placed).size, dict[str, Function]()
        for name, function in self.functions.items():
            found = allotted(function)
            if size := Plan.of(found).size:
                first = -(-end // _LINE) * _LINE
                end = first + size
                found = _moved(found, first, end)
            made[name] = found
        if end > limit:
            message = f"{end} bytes of shared memory are needed, and there are {limit}"
            raise CompileError(Diagnostic("TIR0708", message, kernel.location))
        if end > Plan.of(placed).size:
            placed = placed.evolve(attributes={**placed.attributes, "shared": end})
        return placed, records.evolve(self, functions=made)

    def synchronised(self) -> Crew:
        """Barriers where warps of one role have to meet."""
        return self._each(lambda f, _: synchronised(f))

    def plan(self, kernel: Function) -> Plan:
        """The rooms of all."""
        plans = [Plan.of(f) for f in (kernel, *self.functions.values())]
        offsets = {op: at for plan in plans for op, at in plan.offsets.items()}
        sizes = {op: size for plan in plans for op, size in plan.sizes.items()}
        return Plan(offsets, sizes, plans[0].size)

    def within(self, module: Module) -> Module:
        """`module` with these functions."""
        if not self.functions:
            return module
        return module.with_functions({**module.functions, **self.functions})

    def _each(self, change: Any) -> Crew:
        made = {name: change(f, self.warps[name]) for name, f in self.functions.items()}
        return records.evolve(self, functions=made)


def _laid_out(function: Function, warps: int) -> Function:
    made = assign_layouts(function, Anchors(function, Contiguity(function), warps))
    rows = own_rows(made.evolve(attributes={**made.attributes, "num_warps": warps}))
    return running_max(met_once(rows))


def _moved(function: Function, first: int, end: int) -> Function:
    """`function` with its rooms from byte `first` on."""
    blocks = {
        label: records.evolve(block, ops=tuple(_with_room(op, first) for op in block.ops))
        for label, block in function.blocks.items()
    }
    made = function.with_blocks(blocks)
    return made.evolve(attributes={**made.attributes, "shared": end})


def _with_room(op: Op, first: int) -> Op:
    return op if op.shared is None else op.evolve(shared=(op.shared[0] + first, op.shared[1]))
