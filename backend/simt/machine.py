"""The thread interface executed: every thread of a block at once, one numpy array per value.

Runs the lowering rules themselves, without a GPU. Threads advance together, op by op; branches of
the program are uniform, and `when` computes under a mask. Shared memory is one array of bytes.

    run(compiled_module, kernel, grid, arguments, num_warps)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias, cast

import numpy as np

from tileir import records
from tileir.analysis.clusters import ranks
from tileir.analysis.loops import loops
from tileir.backend.driver.spans import Span
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.lower.lowering import Lowering, Rule
from tileir.backend.lower.thread import Number
from tileir.backend.memory.scratch import Plan
from tileir.backend.rules import rules
from tileir.backend.simt.accesses import Accesses
from tileir.backend.simt.beside import BesideThreads
from tileir.backend.simt.clusters import AcrossBlocks
from tileir.backend.simt.contents import PartedError, argument, contents, instances, shown
from tileir.backend.simt.copies import Copies
from tileir.backend.simt.faults import StoppedError, at_op
from tileir.backend.simt.memory import Memory
from tileir.backend.simt.mma import Matrices
from tileir.backend.simt.numbers import Numbers
from tileir.backend.simt.private import Private
from tileir.backend.simt.roles import beside, join_roles, run_beside, start_role
from tileir.backend.simt.yard import WaitingError
from tileir.backend.target import Target
from tileir.errors import Diagnostic, LaunchError
from tileir.field import Successor
from tileir.ir import Block, Module
from tileir.op import Op
from tileir.types import I32, I64, Element, Pointer, Type

Array: TypeAlias = np.ndarray[Any, Any]


@records.frozen(eq=False)
class Lanes:
    """One value of every thread of the block. Identity is the value, as for handles of LLVM."""

    array: Array


class SimtThread(Accesses, Private, Matrices, Copies, BesideThreads, AcrossBlocks, Numbers):
    """All threads of one block of one grid."""

    slow_conversions = True

    def __init__(
        self, threads: int, program: Sequence[int], grid: Sequence[int], memory: Memory
    ) -> None:
        self.threads, self.program, self.grid, self.memory = threads, program, grid, memory
        self.active = np.ones(threads, bool)
        self.call_function: Callable[..., list[Lanes]] | None = None
        self._known: dict[str, Any] = {}
        self.handle = Lanes
        self.barriers, self.ended = 0, False
        self.op: Op | None = None
        self.runs = 0
        """The op whose rule runs, and how many ran before."""
        self.f8_conversion = False
        self.labels = ""

    # Values -----------------------------------------------------------------------------------

    def made(self, array: Any, element: Element) -> Lanes:
        """A handle for `array`, one number or one per thread."""
        whole = np.broadcast_to(np.asarray(array), (self.threads,))
        return Lanes(whole.astype(self.dtype(element), copy=False))

    def constant(self, element: Element, bits: int) -> Lanes:
        size = 1 if element.bits <= 8 else element.bits // 8
        raw = np.frombuffer(bits.to_bytes(size, "little"), self.dtype(element))
        return self.made(raw[0], element)

    def integer(self, number: int) -> Lanes:
        return self.constant(I32, number & 0xFFFFFFFF)

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        found = self._known.get(key)
        if found is None:
            outer, self.active = self.active, np.ones(self.threads, bool)
            found = self._known[key] = make()
            self.active = outer
        return found

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Lanes]]
    ) -> list[Lanes]:
        assert self.call_function is not None
        return self.call_function(name, [x for _, x in operands])

    def advance(self, kind: Pointer, pointer: Lanes, index: Lanes, width: Element) -> Lanes:
        step = index.array.astype(np.int64) * kind.pointee.bytes
        return Lanes(pointer.array + step)

    def advance_here(self, kind: Pointer, pointer: Lanes, index: Lanes, width: Element) -> Lanes:
        return self.advance(kind, pointer, index, width)

    @contextmanager
    def running(self, execution: Any, op: Op) -> Generator[None, None, None]:
        """Around the rule of `op`."""
        self.op, self.runs = op, self.runs + 1
        self.memory.begin(self.runs)
        yield

    # Where threads are, and where they meet ---------------------------------------------------

    def thread(self) -> Lanes:
        """Index of the thread in its block."""
        return self.made(np.arange(self.threads), I32)

    def lane(self) -> Lanes:
        return self.made(np.arange(self.threads) % 32, I32)

    def warp(self) -> Lanes:
        return self.made(np.arange(self.threads) // 32, I32)

    def recomputing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def keeping(self) -> AbstractContextManager[None]:
        return nullcontext()

    def program_id(self, axis: int) -> Lanes:
        return self.made(self.program[axis], I32)

    def program_count(self, axis: int) -> Lanes:
        return self.made(self.grid[axis], I32)

    def shuffle_xor(self, element: Element, a: Lanes, mask: int) -> Lanes:
        return Lanes(a.array[np.arange(self.threads) ^ mask])

    def shuffle_index(self, element: Element, a: Lanes, lane: Lanes) -> Lanes:
        threads = np.arange(self.threads)
        return Lanes(a.array[threads // 32 * 32 + lane.array % 32])

    def barrier(self) -> None:
        if not self.active.all():
            raise AssertionError("a barrier that not every thread reaches")
        self.barriers += 1
        self.memory.synchronize()

    def warp_barrier(self) -> None:
        held = self.active.reshape(-1, 32)
        if not (held.all(axis=1) | ~held.any(axis=1)).all():
            raise AssertionError("a barrier of a warp that not every lane reaches")
        self.memory.synchronize_warps()

    def group_barrier(self) -> None:
        if not self.active.all():
            raise AssertionError("a barrier of a warpgroup that not every thread reaches")
        self.memory.synchronize_groups()

    def when(
        self, condition: Any, elements: Sequence[Element], body: Callable[[], Sequence[Lanes]]
    ) -> list[Lanes]:
        outer = self.active
        held = outer if isinstance(condition, str) else outer & condition.array
        self.active = held
        found = list(body())
        self.active = outer
        return [
            self.made(np.where(held, x.array, np.zeros(1, x.array.dtype)), e)
            for e, x in zip(elements, found, strict=True)
        ]

    def loop(
        self,
        count: int,
        elements: Sequence[Element],
        initial: Sequence[Lanes],
        body: Callable[[Lanes, list[Lanes]], Sequence[Lanes]],
    ) -> list[Lanes]:
        carried = list(initial)
        for index in range(count):
            carried = list(body(self.integer(index), carried))
        return carried

    def store_shared_if(
        self, condition: Any, element: Element, offset: Lanes, values: Sequence[Lanes]
    ) -> None:
        outer, self.active = self.active, self._held(condition)
        self.store_shared(element, offset, values)
        self.active = outer

    def global_address(self, kind: Pointer, name: str) -> Lanes:
        return self.made(self.memory.globals[name], I64)

    def role(self, lowering: Any, op: Any) -> None:
        start_role(self, lowering, op)

    def join(self) -> None:
        join_roles(self)
        self.barrier()

    def say(self, parts: Sequence[str | Number]) -> None:
        for thread in np.flatnonzero(self.active).tolist():
            self.memory.printed.append("".join(shown(p, thread) for p in parts))

    def fail(self, message: str, file: str, line: int) -> None:
        if self.active.any():
            raise StoppedError(message)

    def assembly(
        self, text: str, constraints: str, results: Sequence[Element], operands: Any, *,
        pack: int, pure: bool,
    ) -> list[list[Lanes]]:  # fmt: skip
        raise LaunchError(Diagnostic("TIR0712", "inline_asm has no meaning outside a GPU"))

    def external(self, symbol: str, result: Element, operands: Any, *, pure: bool) -> Lanes:
        raise LaunchError(Diagnostic("TIR0712", f"{symbol} is known to a GPU only"))

    def trap(self) -> None:
        if self.active.any():
            raise AssertionError("trap")

    def effect(self, text: str, result: Element, operands: Any) -> Lanes:
        return self.made(0, result)


@records.define
class _Execution(Lowering):
    """A lowering whose blocks are walked as control flow goes."""

    last: Any = records.field(init=False, default=None)
    waiting: WaitingError | None = records.field(init=False, default=None)

    def bind(self, arguments: Sequence[Any]) -> None:
        """Let a kernel's parameters hold `arguments`: numbers, and addresses."""
        thread: Any = self.thread
        for parameter, value in zip(self.function.parameters, arguments, strict=True):
            held: Any = argument(thread, parameter.type, value)
            self.values[parameter.value] = [held]

    def execute(self, arguments: Sequence[Any]) -> list[Any]:
        """The function's results, for one that waits for nobody."""
        for parameter, argument in zip(self.function.parameters, arguments, strict=True):
            self.values[parameter.value] = [argument]
        thread = cast(SimtThread, self.thread)
        outer, results = thread.active, list[Any]()
        parts = [(self.function.entry, self.values, outer)]
        while parts:
            block, self.values, thread.active = parts.pop()
            try:
                deque(self.steps(block), maxlen=0)
            except PartedError as parted:
                parts += self._parts(parted.taken)
                continue
            found = [self.scalar(v) for v in self.last.inputs]
            results = [
                Lanes(np.where(thread.active, new.array, old.array))  # type: ignore[attr-defined]
                for new, old in zip(found, results or found, strict=True)
            ]
        thread.active = outer
        return results

    def _parts(self, taken: Array) -> list[tuple[Block, dict[Any, Any], Array]]:
        """Where the threads go on that a branch parts: the block, with its own values, and whose
        threads they are."""
        thread, found = cast(SimtThread, self.thread), list[Any]()
        for edge, those in zip(self.last.successors, (taken, ~taken), strict=True):
            block, values = self._entered(edge)
            found.append((block, values, thread.active & those))
        return found

    def _entered(self, edge: Successor) -> tuple[Block, dict[Any, Any]]:
        """The block that `edge` leads to, and the values there."""
        incoming = [self.fragment(a) for a in edge.arguments]
        block = self.function.blocks[edge.label]
        return block, self.values | dict(zip(block.parameters, incoming, strict=True))

    def steps(self, block: Block | None = None) -> Iterator[WaitingError | None]:
        """Run op by op, from `block` or the beginning; what an op waits for comes before it."""
        block, thread = block or self.function.entry, cast(SimtThread, self.thread)
        while True:
            for op in block.ops[:-1]:
                thread.memory.check_time(op)
                while (found := self._tried(op)) is None:
                    yield self.waiting
                for value, fragment in zip(op.results, found, strict=True):
                    self.values[value] = fragment
                yield None
            self.last = last = block.terminator
            thread.memory.check_time(last)
            if not last.successors:
                return
            edge = last.successors[self._taken(last)]
            if thread.crewman is not None and self._is_back(block.label, edge.label):
                thread.crewman.turn_back()
            incoming = [self.fragment(a) for a in edge.arguments]
            block = self.function.blocks[edge.label]
            self.values.update(zip(block.parameters, incoming, strict=True))

    def _is_back(self, source: str, target: str) -> bool:
        """Whether an edge leads to where a loop begins."""
        found = loops(self.function).by_header.get(target)
        return found is not None and source in found.blocks

    def _tried(self, op: Op) -> list[Any] | None:
        """What the rule of `op` gives; None where it has to wait."""
        try:
            return self._done(op)
        except WaitingError as waiting:
            self.waiting = waiting
            return None

    def _done(self, op: Op) -> list[Any]:
        """What the rule of `op` does; a defect is reported at its place."""
        machine: Any = self.thread
        try:
            with machine.running(self, op):
                return self.lower(op)
        except AssertionError as error:
            raise at_op(error, op.mnemonic, op.location) from error

    def _taken(self, last: Any) -> int:
        if last.mnemonic == "br":
            return 0
        condition: Any = self.scalar(last.condition)
        taken, active = condition.array, cast(SimtThread, self.thread).active
        chosen = taken[active] if active.any() else taken[:1]
        if chosen.min() != chosen.max():
            raise PartedError(taken)
        return 0 if chosen[0] else 1


def run(
    module: Module, kernel: str, grid: Sequence[int], arguments: Sequence[Any], target: Target,
    plan: Plan, num_warps: int, output: list[str] | None = None, make: Any = SimtThread,
    only: Sequence[int] | None = None, seed: int = 0, time_limit: float | None = None,
) -> dict[str, int]:  # fmt: skip
    """Execute `kernel` of a module at stage `barriers` for every block of `grid`, one after the
    other, or for the block `only`; arrays in `arguments` are read and written in place. Counts
    what was done; what is printed is added to `output`, a line per text. `make` makes the threads
    of a block (`tileir.backend.simt.watch`); `seed` draws the order of roles and copies;
    `time_limit` is in seconds (LaunchError, TIR0725)."""
    function = module.functions[kernel]
    extents = (*grid, 1, 1)[:3]
    done = {"barriers": 0}
    contiguity, table = Contiguity(function), rules()
    memory = Memory(plan.size)
    memory.set_time_limit(time_limit)
    memory.globals = {g.name: memory.place(contents(g)) for g in module.globals.values()}
    spans = Span.each(arguments)
    handles = [memory.hold(spans[id(a)]) if id(a) in spans else a for a in arguments]
    every = instances(extents)
    count = ranks(module, function)
    for program in every if only is None else [(*only, 0, 0)[2::-1]]:
        memory.clear_shared()
        blocks: list[_Execution] = []
        for rank in range(count):
            seen = memory.of_block() if rank else memory
            thread = make(num_warps * target.lanes, program[::-1], extents, seen)
            thread.f8_conversion = target.f8_conversion
            thread.call_function = _caller(module, target, thread, table)
            made: Any = thread
            execution = _Execution(
                module, function, target, made, contiguity, plan.offsets, table, num_warps
            )
            execution.bind(handles)
            blocks.append(execution)
        if count > 1 or beside(function):
            done["barriers"] += run_beside(blocks, make, (seed, *program))
        else:
            deque(blocks[0].steps(), maxlen=0)
        done["barriers"] += sum(b.thread.barriers for b in blocks)  # type: ignore[attr-defined]
    memory.write_back()
    if output is not None:
        output += memory.printed
    return done


def _caller(
    module: Module, target: Target, thread: Any, table: Mapping[str, Rule]
) -> Callable[..., list[Any]]:
    def call(name: str, operands: list[Any]) -> list[Any]:
        function = module.functions[name.removeprefix("f.")]
        inner = _Execution(module, function, target, thread, Contiguity(function), {}, table, 1)
        return inner.execute(operands)

    return call
