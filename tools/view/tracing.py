"""Traces of the memory accesses of one program instance, by thread, as the SIMT simulator executes
the lowering of a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.executors import planned_launch
from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.backend.simt import machine as simt
from tileir.backend.simt.counts import LINE, SECTOR, Counted, Counts
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.target import target
from tileir.errors import Diagnostic, ToolError
from tileir.op import Op
from tileir.tools.inputs import draw, recipe
from tileir.tools.view.input import Subject

Array: TypeAlias = np.ndarray[Any, Any]

WARP = 32
"""Lanes of a warp."""


@attrs.frozen(eq=False)
class TracedAccess:
    """One instruction of all threads. The threads that are `active` access `size` bytes at
    `addresses` [thread]. `kind` is load, store, copy, atomic or matrix; `shared` states whether it
    accesses shared memory."""

    kind: str
    shared: bool
    size: int
    addresses: Array
    active: Array

    def warp(self, number: int) -> list[int | None]:
        """The addresses of a warp by lane; None for inactive lanes."""
        lanes = range(number * WARP, (number + 1) * WARP)
        return [int(self.addresses[i]) if self.active[i] else None for i in lanes]

    @property
    def warps(self) -> list[int]:
        """The warps with an active lane."""
        return [int(w) for w in np.flatnonzero(self.active.reshape(-1, WARP).any(axis=1))]


@attrs.frozen
class Usage:
    """The cost of accesses of one warp to global memory: the numbers of sectors and of 128-byte
    lines, and the smallest number of sectors for as many bytes."""

    sectors: int
    fewest: int
    lines: int


def usage(addresses: Sequence[int | None], size: int) -> Usage:
    """The cost of one instruction of a warp, counted as `tileir.backend.simt.counts` does."""
    starts = {a for a in addresses if a is not None}
    units = [{b // unit for a in starts for b in (a, a + size - 1)} for unit in (SECTOR, LINE)]
    return Usage(len(units[0]), -(-len(starts) * size // SECTOR), len(units[1]))


def bank_cost(accesses: Sequence[TracedAccess]) -> tuple[int, int, int]:
    """The numbers of warp accesses to shared memory, of their wavefronts, and of wavefronts caused
    by bank conflicts."""
    sides = [(a.warp(w), a.size) for a in accesses for w in a.warps]
    total = sum(wavefronts(at, size) for at, size in sides)
    return len(sides), total, sum(conflicts(at, size) for at, size in sides)


@attrs.define(eq=False)
class Trace:
    """The accesses of each op in its first execution that made any, and counts of the whole run."""

    accesses: dict[Op, list[TracedAccess]] = attrs.field(factory=dict)
    counts: Counts = attrs.field(factory=Counts)
    regions: list[tuple[int, int, str]] = attrs.field(factory=list)
    """The beginning and the end of buffers, and the parameter of each."""
    _runs: dict[Op, int] = attrs.field(init=False, factory=dict)

    def note(self, op: Op, run: int, access: TracedAccess) -> None:
        """Record an access by execution number `run` of `op`."""
        last_run = self._runs.get(op)
        empty = not any(a.active.any() for a in self.accesses.get(op, ()))
        if last_run != run and not empty:
            return
        if last_run != run:
            self._runs[op], self.accesses[op] = run, []
        self.accesses[op].append(access)

    def where(self, address: int) -> tuple[str, int]:
        """The parameter whose buffer contains `address`, and the offset in bytes."""
        for start, end, name in self.regions:
            if start <= address < end:
                return name, address - start
        return "", address


def run_and_trace(subject: Subject) -> tuple[Trace, Subject]:
    """Run program instance `subject.program` on the inputs that the module's metadata describes.
    Returns its accesses, and the subject as it is compiled for these inputs.

    Raises ToolError: TIR0902 and TIR0903 if metadata is missing or invalid, TIR0913 if the instance
    is outside the grid or its execution fails.
    """
    plan = recipe(subject.module, subject.function.name)
    _check_program(subject, plan.grid)
    arguments, trace = draw(plan, 0), Trace()
    values = [arguments[str(p.name)] for p in subject.function.parameters]
    machine, blocks = target(subject.target), prod(plan.grid)
    done, grid, passed = planned_launch(
        subject.module,
        machine,
        subject.lowered_kernel,
        dict(subject.options),
        plan.grid,
        values,
        blocks,
    )
    subject = subject.compiled_as(done)
    names = [str(p.name) for p, v in zip(subject.function.parameters, values, strict=True)
             if isinstance(v, np.ndarray)]  # fmt: skip

    def make(threads: int, program: Sequence[int], grid: Sequence[int], memory: SimtMemory) -> Any:
        trace.regions[:] = _regions(memory, names)
        return _Traced(trace, threads, program, grid, memory)

    try:
        simt.run(
            done.stages["barriers"], done.kernel, grid, passed, machine, done.memory,
            done.num_warps, None, make, _block(subject.program, plan.grid, grid),
        )  # fmt: skip
    except AssertionError as error:
        message = f"instance {list(subject.program)} of {subject.name} fails: {error}"
        raise ToolError(Diagnostic("TIR0913", message, subject.function.location)) from None
    return trace, subject


def _block(program: Sequence[int], grid: Sequence[int], launched: Sequence[int]) -> tuple[int, ...]:
    """The block, in the grid `launched`, that runs instance `program` of `grid`. In a persistent
    kernel, a block runs several instances, which are distributed in the order of the grid."""
    if tuple(launched) == tuple(grid):
        return tuple(program)
    (x, y, z), (width, height, _) = (*program, 0, 0)[:3], (*grid, 1, 1)[:3]
    return ((x + width * (y + height * z)) % prod(launched),)


def _check_program(subject: Subject, grid: Sequence[int]) -> None:
    program = subject.program
    if len(program) > len(grid) or any(not 0 <= i < n for i, n in zip(program, grid, strict=False)):
        message = f"instance {list(program)} is not in the grid {list(grid)} of {subject.name}"
        raise ToolError(Diagnostic("TIR0913", message, subject.function.location))


def _regions(memory: SimtMemory, names: Sequence[str]) -> list[tuple[int, int, str]]:
    """The address ranges of buffers with their names. Buffers of globals come first, then those of
    arguments."""
    every = [*memory.globals, *(f"%{n}" for n in names)]
    return [
        (base + span.offset, base + len(span.data), name)
        for (base, span), name in zip(memory.buffers, every, strict=True)
    ]


class _Traced(Counted, simt.SimtThread):
    """Threads that record their memory accesses."""

    def __init__(self, trace: Trace, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.trace, self.counts = trace, trace.counts

    def note(self, kind: str, shared: bool, size: int, at: Array, active: Array) -> None:
        """Record an access of the op that is being executed."""
        assert self.op is not None
        access = TracedAccess(kind, shared, size, at.astype(np.int64), active.copy())
        self.trace.note(self.op, self.runs, access)

    def load_global(
        self, element: Any, count: int, pointer: Any, mask: Any, *positional: Any, **more: Any
    ) -> Any:
        self.note("load", False, element.bytes * count, pointer.array, self._active_under(mask))
        return super().load_global(element, count, pointer, mask, *positional, **more)

    def store_global(
        self, element: Any, pointer: Any, values: Any, mask: Any, *positional: Any, **more: Any
    ) -> Any:
        active = self._active_under(mask)
        self.note("store", False, element.bytes * len(values), pointer.array, active)
        return super().store_global(element, pointer, values, mask, *positional, **more)

    def copy_async(
        self, size: int, offset: Any, constant: int, pointer: Any, mask: Any, predicate: Any
    ) -> Any:
        doing = self._active_under(predicate)
        reading = doing if mask is None or isinstance(mask, str) else doing & mask.array
        self.note("copy", False, size, pointer.array, reading)
        self.note("copy", True, size, offset.array.astype(np.int64) + constant, doing)
        return super().copy_async(size, offset, constant, pointer, mask, predicate)

    def load_shared(self, element: Any, count: int, offset: Any) -> Any:
        self.note("load", True, element.bytes * count, offset.array, self.active)
        return super().load_shared(element, count, offset)

    def store_shared(self, element: Any, offset: Any, values: Any) -> Any:
        self.note("store", True, element.bytes * len(values), offset.array, self.active)
        return super().store_shared(element, offset, values)

    def load_matrix(
        self, element: Any, count: int, transposed: bool, offset: Any, constant: int
    ) -> Any:
        naming = self.active & (np.arange(self.threads) % WARP < 8 * count)
        self.note("matrix", True, 16, offset.array.astype(np.int64) + constant, naming)
        return super().load_matrix(element, count, transposed, offset, constant)  # type: ignore[attr-defined]

    def store_matrix(
        self, element: Any, transposed: bool, offset: Any, constant: int, values: Any
    ) -> None:
        rows = 8 * len(values) * element.bytes // 4
        naming = self.active & (np.arange(self.threads) % WARP < rows)
        self.note("matrix", True, 16, offset.array.astype(np.int64) + constant, naming)
        super().store_matrix(element, transposed, offset, constant, values)

    def add_shared(self, offset: Any, value: Any) -> None:
        self.note("atomic", True, 4, offset.array, self.active)
        super().add_shared(offset, value)


def _atomically(name: str, pointer_at: int) -> Any:
    """A method for an atomic operation that records it and then executes it. `add_vector` is
    recorded as single atomic operations."""

    def method(self: Any, *operands: Any, **options: Any) -> Any:
        element = operands[pointer_at - 1]
        self.note("atomic", False, element.bytes, operands[pointer_at].array, self.active)
        return getattr(super(_Traced, self), name)(*operands, **options)

    method.__name__ = name
    return method


for _name, _at in (
    ("atomic", 2), ("compare_exchange", 1), ("load_atomic", 1), ("store_atomic", 1),
):  # fmt: skip
    setattr(_Traced, _name, _atomically(_name, _at))


def accesses_by_op(trace: Trace, shared: bool) -> Mapping[Op, list[TracedAccess]]:
    """The accesses of each op to shared memory, or to global memory if not `shared`. Ops without
    accesses are left out."""
    result = {
        op: [a for a in accesses if a.shared == shared and a.active.any()]
        for op, accesses in trace.accesses.items()
    }
    return {op: accesses for op, accesses in result.items() if accesses}
