"""The thread interface executed: every thread of a block at once, one numpy array per value.

Runs the lowering rules themselves, without a GPU. Threads advance together, op by op; branches of
the program are uniform, and `when` computes under a mask. Shared memory is one array of bytes.

    run(compiled_module, kernel, grid, arguments, num_warps)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.analysis.clusters import ranks
from tileir.backend.array_spans import ArraySpan
from tileir.backend.codegen.lowering import Rule
from tileir.backend.codegen.rules import rules
from tileir.backend.codegen.thread_operands import PrintedNumber
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.simt.arithmetic import ArithmeticOps
from tileir.backend.simt.async_units import SimtAsyncUnits
from tileir.backend.simt.clusters import SimtClusterOps
from tileir.backend.simt.cp_async import Copies
from tileir.backend.simt.execution import Execution
from tileir.backend.simt.faults import ForeignCodeError, StoppedError
from tileir.backend.simt.instances import InstanceOrder, run_interleaved
from tileir.backend.simt.memory import SimtMemory
from tileir.backend.simt.memory_ops import MemoryOps
from tileir.backend.simt.mma import Matrices
from tileir.backend.simt.private import PrivateMemoryOps
from tileir.backend.simt.roles import has_async_units, join_roles, run_concurrently, start_role
from tileir.backend.target import Target
from tileir.interp.call_effects import pausing_functions
from tileir.interp.memory import Region
from tileir.ir import Function, Global, Module
from tileir.machine.inline_ptx import UnknownPtxError, assemble
from tileir.op import Op
from tileir.ops.roles import Role
from tileir.types import I32, I64, Element, Pointer, Type

Array: TypeAlias = np.ndarray[Any, Any]

_REDUCTIONS: Mapping[str, np.ufunc] = {
    "add": np.add, "smin": np.minimum, "smax": np.maximum, "umin": np.minimum, "umax": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
"""The operations of `redux.sync`, by combiner."""

_NO_CONTEXT = nullcontext()


@attrs.frozen(eq=False)
class ThreadValues:
    """One value of every thread of the block. Identity is the value, as for handles of LLVM."""

    array: Array


class SimtThread(
    MemoryOps, PrivateMemoryOps, Matrices, Copies, SimtAsyncUnits, SimtClusterOps, ArithmeticOps
):
    """All threads of one block of one grid."""

    slow_conversions = True
    approximates = True
    divides_all = True
    adds_wide_multiples = True

    def __init__(
        self, threads: int, program: Sequence[int], grid: Sequence[int], memory: SimtMemory
    ) -> None:
        self.threads, self.program, self.grid, self.memory = threads, program, grid, memory
        self.active = np.ones(threads, bool)
        self.call_function: Callable[..., list[ThreadValues]] | None = None
        self._once: dict[Hashable, Any] = {}
        self._constants: dict[tuple[Element, int], ThreadValues] = {}
        self.handle = ThreadValues
        self.barriers, self.ended = 0, False
        self.op: Op | None = None
        self.runs = 0
        """The op whose rule runs, and how many ran before."""
        self.f8_conversion = False
        self.labels = ""

    # Values -----------------------------------------------------------------------------------

    def as_handle(self, array: Any, element: Element) -> ThreadValues:
        """A handle for `array`, one number or one per thread."""
        values, dtype = np.asarray(array), self.dtype(element)
        if values.dtype != dtype:
            values = values.astype(dtype)
        if values.shape != (self.threads,):
            values = np.broadcast_to(values, (self.threads,))
        return ThreadValues(values)

    def constant(self, element: Element, bits: int) -> ThreadValues:
        handle = self._constants.get((element, bits))
        if handle is None:
            size = 1 if element.bits <= 8 else element.bits // 8
            raw = np.frombuffer(bits.to_bytes(size, "little"), self.dtype(element))
            handle = self._constants[element, bits] = self.as_handle(raw[0], element)
        return handle

    def integer(self, number: int) -> ThreadValues:
        return self.constant(I32, number & 0xFFFFFFFF)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        value = self._once.get(key)
        if value is None:
            outer, self.active = self.active, np.ones(self.threads, bool)
            value = self._once[key] = make()
            self.active = outer
        return value

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, ThreadValues]]
    ) -> list[ThreadValues]:
        assert self.call_function is not None
        return self.call_function(name, [x for _, x in operands])

    def advance(
        self, kind: Pointer, pointer: ThreadValues, index: ThreadValues, width: Element
    ) -> ThreadValues:
        step = index.array.astype(np.int64) * kind.pointee.bytes
        return ThreadValues(pointer.array + step)

    def advance_here(
        self, kind: Pointer, pointer: ThreadValues, index: ThreadValues, width: Element
    ) -> ThreadValues:
        return self.advance(kind, pointer, index, width)

    def running(self, execution: Any, op: Op) -> AbstractContextManager[None]:
        """Begin `op`, and return a context for its rule."""
        self.op, self.runs = op, self.runs + 1
        self.memory.begin(self.runs, op)
        return _NO_CONTEXT

    # Thread indices and synchronization -------------------------------------------------------

    def thread(self) -> ThreadValues:
        """Index of the thread in its block."""
        return self.as_handle(np.arange(self.threads), I32)

    def lane(self) -> ThreadValues:
        return self.as_handle(np.arange(self.threads) % 32, I32)

    def warp(self) -> ThreadValues:
        return self.as_handle(np.arange(self.threads) // 32, I32)

    def recomputing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def program_id(self, axis: int) -> ThreadValues:
        return self.as_handle(self.program[axis], I32)

    def program_count(self, axis: int) -> ThreadValues:
        return self.as_handle(self.grid[axis], I32)

    def shuffle_xor(self, element: Element, a: ThreadValues, mask: int) -> ThreadValues:
        self._check_converged()
        return ThreadValues(a.array[np.arange(self.threads) ^ mask])

    def shuffle_index(self, element: Element, a: ThreadValues, lane: ThreadValues) -> ThreadValues:
        self._check_converged()
        threads = np.arange(self.threads)
        return ThreadValues(a.array[threads // 32 * 32 + lane.array % 32])

    def reduce_lanes(self, element: Element, combiner: str, a: ThreadValues) -> ThreadValues | None:
        combine = _REDUCTIONS.get(combiner)
        if combine is None:
            return None
        self._check_converged()
        lanes = a.array.reshape(-1, 32)
        if combiner.startswith("u"):  # of unsigned numbers
            lanes = lanes.view(f"u{lanes.dtype.itemsize}")
        totals = combine.reduce(lanes, axis=1, dtype=lanes.dtype)
        return ThreadValues(np.repeat(totals, 32).view(a.array.dtype))

    def _check_converged(self) -> None:
        """Check that a collective operation of lanes is not after an op that may be a loop."""
        if self.has_diverged:
            raise AssertionError("lanes have diverged in an atomic op, and have not reconverged")

    def barrier(self) -> None:
        if not self.active.all():
            raise AssertionError("a barrier that not every thread reaches")
        self._check_converged()
        self.barriers += 1
        self.memory.synchronize()

    def warp_barrier(self) -> None:
        active = self.active.reshape(-1, 32)
        if not (active.all(axis=1) | ~active.any(axis=1)).all():
            raise AssertionError("a barrier of a warp that not every lane reaches")
        self.memory.synchronize_warps()

    def group_barrier(self) -> None:
        if not self.active.all():
            raise AssertionError("a barrier of a warpgroup that not every thread reaches")
        self._check_converged()
        self.memory.synchronize_groups()

    def when(
        self,
        condition: Any,
        elements: Sequence[Element],
        body: Callable[[], Sequence[ThreadValues]],
        otherwise: Sequence[ThreadValues] = (),
    ) -> list[ThreadValues]:
        outer = self.active
        active = outer if isinstance(condition, str) else outer & condition.array
        self.active = active
        results = list(body())
        self.active = outer
        zeros = [np.zeros(1, x.array.dtype) for x in results]
        defaults = [x.array for x in otherwise] or zeros
        return [
            self.as_handle(np.where(active, x.array, other), e)
            for e, x, other in zip(elements, results, defaults, strict=True)
        ]

    def loop(
        self,
        count: int,
        elements: Sequence[Element],
        initial: Sequence[ThreadValues],
        body: Callable[[ThreadValues, list[ThreadValues]], Sequence[ThreadValues]],
    ) -> list[ThreadValues]:
        carried = list(initial)
        for index in range(count):
            carried = list(body(self.integer(index), carried))
        return carried

    def store_shared_if(
        self, condition: Any, element: Element, offset: ThreadValues, values: Sequence[ThreadValues]
    ) -> None:
        outer, self.active = self.active, self._active_under(condition)
        self.store_shared(element, offset, values)
        self.active = outer

    def global_address(self, kind: Pointer, name: str) -> ThreadValues:
        return self.as_handle(self.memory.globals[name], I64)

    def role(self, lowering: Any, op: Any) -> None:
        start_role(self, lowering, op)

    def join(self) -> None:
        join_roles(self)
        self.barrier()

    def say(self, parts: Sequence[str | PrintedNumber]) -> None:
        for thread in np.flatnonzero(self.active).tolist():
            self.memory.printed.append("".join(_format(p, thread) for p in parts))

    def fail(self, message: str, file: str, line: int) -> None:
        if self.active.any():
            raise StoppedError(message)

    def assembly(
        self,
        text: str,
        constraints: str,
        results: Sequence[Element],
        operands: Any,
        *,
        pack: int,
        pure: bool,
    ) -> list[list[ThreadValues]]:
        try:
            assembly = assemble(text, constraints)
        except UnknownPtxError as error:
            raise ForeignCodeError(f"no meaning outside a GPU: {error}") from None
        columns = [[x.array for x in parts] for _, parts in operands]
        dtypes = [np.dtype(self.dtype(element)) for element in results]
        return [
            [self.as_handle(part, element) for part in parts]
            for element, parts in zip(
                results, assembly.elements(columns, dtypes, pack), strict=True
            )
        ]

    def external(self, symbol: str, result: Element, operands: Any, *, pure: bool) -> ThreadValues:
        raise ForeignCodeError(f"{symbol} is available on a GPU only")

    def trap(self) -> None:
        if self.active.any():
            raise AssertionError("trap")

    def effect(self, text: str, result: Element, operands: Any) -> ThreadValues:
        return self.as_handle(0, result)


def _format(part: str | PrintedNumber, thread: int) -> str:
    """A text, or the number of one thread, as it is printed."""
    if isinstance(part, str):
        return part
    number = part.handle.array[thread]
    if number.dtype.kind in "iu" and (part.hexadecimal or part.unsigned):
        bits = int(number) & ((1 << 8 * number.itemsize) - 1)
        return hex(bits) if part.hexadecimal else str(bits)
    return str(int(number)) if number.dtype.kind in "iub" else f"{number:.9g}"


def run(
    module: Module, kernel: str, grid: Sequence[int], arguments: Sequence[Any], target: Target,
    plan: SharedMemoryPlan, num_warps: int, output: list[str] | None = None, make: Any = SimtThread,
    only: Sequence[int] | None = None, seed: int = 0, allow_races: bool = False,
    time_limit: float | None = None, around: Sequence[Any] = (),
) -> dict[str, int]:  # fmt: skip
    """Execute `kernel` of a module at stage `barriers` for every block of `grid`, or for the block
    `only`; arrays in `arguments` are read and written in place. Blocks run one after the other,
    interleaved where they may wait for each other. Return the operation counts; printed text is
    appended to `output`, a line per text. `make` creates the threads of a block
    (`tileir.backend.simt.barrier_removal`); `seed` determines the order of roles, copies and
    blocks. With `allow_races`, unordered accesses by two instances are not reported. `time_limit`
    is in seconds. Pointers to `arguments` may reach the arrays `around` that they are parts of.
    Raises RaceError, LaunchError (TIR0725 past the time limit) and, for a defect of
    the lowering, AssertionError."""
    function = module.functions[kernel]
    extents = (*grid, 1, 1)[:3]
    memory = SimtMemory(plan.size)
    memory.set_time_limit(time_limit)
    memory.globals = {g.name: memory.place(_contents(g)) for g in module.globals.values()}
    spans = ArraySpan.each([*arguments, *around])
    names = {id(a): p.name or "" for a, p in zip(arguments, function.parameters, strict=False)}
    handles = [
        memory.map_span(spans[id(a)], names.get(id(a), "")) if id(a) in spans else a
        for a in arguments
    ]
    for memory_around in around:
        memory.map_span(spans[id(memory_around)])
    launch = _SimtLaunch(module, function, extents, handles, memory, target, plan, num_warps, make)
    x, y, z = extents
    every = ((k, j, i) for k in range(z) for j in range(y) for i in range(x))
    programs = every if only is None else iter([(*only, 0, 0)[2::-1]])
    with np.errstate(all="ignore"):  # once for all operations: GPUs trap in none
        done = {"barriers": launch.run((p[::-1] for p in programs), seed, allow_races)}
    memory.write_back()
    if output is not None:
        output += memory.printed
    return done


@attrs.define(eq=False)
class _SimtLaunch:
    """A kernel and what its blocks run on."""

    module: Module
    function: Function
    grid: tuple[int, ...]
    handles: list[Any]
    memory: SimtMemory
    target: Target
    plan: SharedMemoryPlan
    num_warps: int
    make: Any
    contiguity: AccessWidths = attrs.field(init=False)
    table: Mapping[str, Rule] = attrs.field(factory=rules)

    def __attrs_post_init__(self) -> None:
        self.contiguity = AccessWidths(self.function)

    def block(self, program: Sequence[int], memory: SimtMemory) -> Execution:
        """The block `program`, about to begin."""
        thread = self.make(self.num_warps * self.target.lanes, program, self.grid, memory)
        thread.f8_conversion = self.target.f8_conversion
        thread.call_function = _caller(self.module, self.target, thread, self.table)
        execution = Execution(
            self.module, self.function, self.target, thread, self.contiguity, self.plan.offsets,
            self.table, self.num_warps,
        )  # fmt: skip
        execution.bind(self.handles)
        return execution

    def run(self, programs: Iterator[Sequence[int]], seed: int, allow_races: bool) -> int:
        """Run the blocks `programs`; how many barriers they waited at."""
        count, memory = ranks(self.module, self.function), self.memory
        regions = [
            Region(name, 0, 0, span.data)
            for name, (_, span) in zip(memory.names, memory.buffers, strict=True)
        ]
        ordering = pausing_functions(self.module)
        roles = {op.callee for op in self.function.ops if isinstance(op, Role)}
        synchronises = self.function.name in ordering or not ordering.isdisjoint(roles)
        launch = InstanceOrder(self.grid, regions, synchronises, allow_races)
        concurrent = count > 1 or has_async_units(self.function)
        if synchronises and not concurrent:
            return self._run_interleaved(programs, launch, seed)
        barriers = 0
        for program in programs:
            memory.agent = launch.agent(program)
            memory.clear_shared()
            if concurrent:
                barriers += self._run_concurrently(program, count, seed)
            else:
                block = self.block(program, memory)
                deque(block.steps(), maxlen=0)
                barriers += block.thread.barriers  # type: ignore[attr-defined]
            memory.agent.leave()
        launch.end()
        return barriers

    def _run_concurrently(self, program: Sequence[int], count: int, seed: int) -> int:
        blocks = [
            self.block(program, self.memory.of_block() if rank else self.memory)
            for rank in range(count)
        ]
        barriers = run_concurrently(blocks, self.make, (seed, *program[::-1]))
        return barriers + sum(b.thread.barriers for b in blocks)  # type: ignore[attr-defined]

    def _run_interleaved(
        self, programs: Iterator[Sequence[int]], launch: InstanceOrder, seed: int
    ) -> int:
        memory, barriers = self.memory, 0

        def begin() -> Iterator[Execution]:
            for program in programs:
                view = memory.of_block()
                view.agent = launch.agent(program)
                yield self.block(program, view)

        def end(block: Any) -> None:
            nonlocal barriers
            block.thread.memory.agent.leave()
            barriers += block.thread.barriers

        run_interleaved(begin(), launch, seed, end)
        return barriers


def _contents(variable: Global) -> Array:
    """The initial contents of a global."""
    element: Any = variable.element
    values = [v.bits for v in variable.initial or ()] or [0]
    values = values * variable.count if len(values) == 1 else values
    raw = b"".join(v.to_bytes(element.bytes, "little") for v in values)
    return np.frombuffer(raw, np.uint8).copy()


def _caller(
    module: Module, target: Target, thread: Any, table: Mapping[str, Rule]
) -> Callable[..., list[Any]]:
    def call(name: str, operands: list[Any]) -> list[Any]:
        function = module.functions[name.removeprefix("f.")]
        inner = Execution(module, function, target, thread, AccessWidths(function), {}, table, 1)
        return inner.execute(operands)

    return call
