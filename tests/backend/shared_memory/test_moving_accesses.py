"""Barriers of generated loops whose accesses move, with the simulator as the judge."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import pytest

from tests.backend.shared_memory.races import races_without_barriers
from tests.sizes import few_or_all, for_each
from tileir import Function, Module
from tileir.analysis.loops import loops
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.hazards import Hazards, HazardState, PendingAccess, uses_of
from tileir.backend.shared_memory.place_barriers import _leaving
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.shared_memory.runtime_steps import RuntimeStep
from tileir.backend.shared_memory.thread_conflicts import GlobalAccess
from tileir.backend.simt.counts import Counts
from tileir.backend.simt.machine import run as run_threads
from tileir.backend.target import target
from tileir.builder import F32, I32, Builder, Expr, Var, pointer
from tileir.types import Tile
from tileir.values import Constant, Operand, Value

STEPS = (0, 1, 32, 64, 128, 128, 256, -64, -128)
WIDTH, FIRST, SIZE = 128, 8192, 16384


class Program:
    """A loop, or a loop in a loop, over accesses of one array. Addresses contain multiples of
    variables, each of which moves by a step, one of two, or a step and a number that is known at
    run time, before, between or after accesses; one variable may move in the outer loop only."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.b = Builder()

    def module(self) -> Module:
        choose, b = self.choose, self.b
        with b.kernel("k", x=pointer(F32), n=I32) as (x, n):
            self.number = n
            counters = [
                (b.var(b.constant(I32, choose.choice((0, 64, 128)))), choose.choice(STEPS))
                for _ in range(choose.randint(1, 2))
            ]
            if choose.random() < 0.3:
                slow = b.var(b.constant(I32, 0))
                with b.for_(n):
                    self.accesses(x, counters, choose.randint(0, 1))
                    with b.for_(n) as i:
                        self.body(x, counters, i, [(slow, 0)] * choose.randint(0, 1))
                    slow.set(slow.get() + choose.choice(STEPS))
                    for counter, step in counters:
                        if choose.random() < 0.5:
                            counter.set(counter.get() + step + 32)
            else:
                with b.for_(n) as i:
                    self.body(x, counters, i, ())
        return b.module()

    def body(
        self, x: Expr, counters: list[tuple[Var, int]], i: Expr, fixed: Sequence[tuple[Var, int]]
    ) -> None:
        """One to three accesses, and a move of every variable that is not `fixed`."""
        moves = list(counters)
        for _ in range(self.choose.randint(1, 3)):
            self.accesses(x, [*counters, *fixed], 1)
            if moves and self.choose.random() < 0.4:
                self.move(*moves.pop(), i)
        for counter, step in moves:
            self.move(counter, step, i)

    def move(self, counter: Var, step: int, i: Expr) -> None:
        """Move by `step`, or by twice that in every other iteration, or by a number more."""
        b = self.b
        if self.choose.random() < 0.15:
            counter.set(counter.get() + self.number + step)
        elif self.choose.random() < 0.7:
            counter.set(counter.get() + step)
        elif self.choose.random() < 0.5:
            counter.set(b.select((i & 1) == 0, counter.get() + step, counter.get() + 2 * step))
        else:
            with b.if_((i & 1) == 0):
                counter.set(counter.get() + step)
            with b.else_():
                counter.set(counter.get() + 2 * step)

    def accesses(self, x: Expr, counters: list[tuple[Var, int]], count: int) -> None:
        """Loads and stores of tiles."""
        b = self.b
        for _ in range(count):
            if self.choose.random() < 0.5:
                value = self.place(x, counters).load()
                self.place(x, counters).store(value)
            else:
                self.place(x, counters).store(b.full((WIDTH,), 1.0, F32))

    def place(self, x: Expr, counters: list[tuple[Var, int]]) -> Expr:
        """Pointers to `WIDTH` elements near the middle of the array."""
        choose = self.choose
        at = FIRST + choose.choice((0, 0, 1, 64, 128, -128))
        place = self.b.arange(WIDTH) * choose.choice((1, 1, 1, -1, 2)) + at
        for counter, _ in counters:
            coefficient = choose.choice((0, 1, 1, 2, -1))
            if coefficient:
                place = place + counter.get() * coefficient
        return x + place


def run(seed: int) -> None:
    """Run the program of `seed` on four warps. Raises RaceError."""
    x = np.zeros(SIZE, np.float32)
    SimtExecutor().launch(Program(seed).module(), None, 1, [x, 3], num_warps=4)


LENGTHS = (0, 1, 31, 64, 127, 128, 129, 256, -64, -127, -128)


def strided_program(seed: int, *, uneven: bool = False) -> Module:
    """A loop over rows whose distance is a parameter, by a counter, by the number of the iteration
    or by both, with accesses before the loop, too. With `uneven`, the counter
    may also move otherwise."""
    choose, b = random.Random(seed), Builder()

    def add_access(x: Expr, rows: list[Expr]) -> None:
        width = choose.choice((WIDTH, WIDTH, WIDTH // 4))
        at = b.arange(width) * choose.choice((1, 1, -1)) + FIRST + choose.choice((0, 0, 32, 1, 128))
        for row in rows:
            at = at + row
        if choose.random() < 0.4:
            (x + at).store((x + (FIRST + b.arange(width))).load())
        elif choose.random() < 0.5:
            (x + at).store(b.full((width,), 1.0, F32))
        else:
            kept = (x + at).load()
            (x + (at + choose.choice((0, 0, WIDTH)))).store(kept)

    with b.kernel("k", x=pointer(F32), n=I32, s=I32) as (x, n, s):
        moving = b.var(b.constant(I32, 0) if choose.random() < 0.5 else s + 0)
        if choose.random() < 0.5:
            add_access(x, [])
        by_number, by_counter, later = (choose.random() < p for p in (0.5, 0.7, 0.3))
        scale, more = choose.choice((1, 1, 2, -1)), choose.choice((0, 0, 64))
        with b.for_(n) as i:
            rows = [i * s * scale] * by_number + [moving.get()] * (by_counter or not by_number)
            for _ in range(choose.randint(1, 2)):
                add_access(x, rows if choose.random() < 0.8 else [])
            now = moving.get()
            other = choose.choice((now + i * s, s - now, now * 2, s * scale, now + n * s - 2 * s))
            is_even = not uneven or choose.random() < 0.4
            moving.set(now + s * scale + more if is_even else other)
            if later:
                add_access(x, [moving.get()])
    return b.module()


@pytest.mark.parametrize("count", few_or_all(25, 300))
def test_threads_wait_where_rows_are_nearer_than_what_is_accessed(count: int) -> None:
    """The distance of rows is known when the kernel runs: nearer rows, and overlapping ones."""
    for seed in range(count):
        module, machine = strided_program(seed, uneven=seed % 2 == 1), target("sm_90")
        done = run_pipeline(module, machine, Options(num_warps=4), None)
        for length in random.Random(seed).sample(LENGTHS, 4):
            x = np.zeros(SIZE, np.float32)
            run_threads(
                done.stages["barriers"], done.kernel, (1,), [x, 4, length], machine, done.memory, 4
            )


def test_threads_wait_seldom_where_rows_are_distant() -> None:
    """Fewer barriers are executed than where rows are near."""
    fewer = 0
    for seed in range(8):
        executed: list[int] = []
        for length in (1, 600):
            counts, x = Counts(), np.zeros(SIZE, np.float32)
            arguments = [x, 3, length]
            SimtExecutor().launch(
                strided_program(seed), None, 1, arguments, num_warps=4, counts=counts
            )
            executed.append(sum(each.barriers for each in counts.by_op.values()))
        assert executed[1] <= executed[0]
        fewer += executed[1] < executed[0]
    assert fewer >= 3


def displaced_program(seed: int) -> Module:
    """Accesses at sums of multiples of two parameters, in a loop, in a branch in it or in neither,
    with values that change in loops in some of the sums."""
    choose, b = random.Random(seed), Builder()

    def add_access(x: Expr, scalars: Sequence[Expr]) -> None:
        at = b.arange(WIDTH) * choose.choice((1, 1, -1)) + FIRST + choose.choice((0, 0, 32, 128))
        for scalar in scalars:
            at = at + scalar * choose.choice((0, 1, 1, 2, -1))
        if choose.random() < 0.6:
            (x + at).store(b.full((WIDTH,), 1.0, F32))
        else:
            (x + (at + choose.choice((0, 1)))).store((x + at).load())

    with b.kernel("k", x=pointer(F32), n=I32, s=I32, t=I32) as (x, n, s, t):
        for _ in range(choose.randint(1, 3)):
            add_access(x, (s, t))
        with b.for_(n) as i:
            scalars = choose.choice(((s, t), (s, t), (s, i * t), (s * (t & 1), t)))
            for _ in range(choose.randint(1, 3)):
                add_access(x, scalars)
            if choose.random() < 0.4:
                with b.if_((i & 1) == 0):
                    add_access(x, scalars)
                add_access(x, scalars)
        if choose.random() < 0.5:
            add_access(x, (s, t))
    return b.module()


def launch_displaced(seed: int, s: int, t: int) -> int:
    """The number of barriers of four warps. Raises RaceError."""
    counts, x = Counts(), np.zeros(SIZE, np.float32)
    arguments = [x, 3, s, t]
    SimtExecutor().launch(displaced_program(seed), None, 1, arguments, num_warps=4, counts=counts)
    return sum(each.barriers for each in counts.by_op.values())


@pytest.mark.parametrize("count", few_or_all(25, 300))
def test_threads_wait_where_displaced_accesses_conflict(count: int) -> None:
    """The distance of accesses of one iteration is known when the kernel runs."""
    for seed in range(count):
        choose = random.Random(seed)
        for _ in range(3):
            launch_displaced(seed, choose.choice(LENGTHS), choose.choice((0, 1, -1, 2, 3)))


def test_threads_wait_seldom_where_displaced_accesses_are_distant() -> None:
    fewer = 0
    for seed in range(12):
        near, far = launch_displaced(seed, 1, 2), launch_displaced(seed, 300, 701)
        assert far <= near
        fewer += far < near
    assert fewer >= 4


def test_a_distance_that_changes_after_a_barrier_is_not_compared_there() -> None:
    """The barrier of an iteration does not know the address of the load after the loop."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32, s=I32, t=I32) as (x, y, n, s, t):
        at, moving = b.arange(WIDTH), b.var(s + 0)
        with b.for_(n):
            (x + at).store(b.full((WIDTH,), 1.0, F32))
            (y + at).store((x + (at + s)).load())
            moving.set(t)
        (y + (at + WIDTH)).store((x + (at + moving.get())).load())
    x, y = np.zeros(SIZE, np.float32), np.zeros(2 * WIDTH, np.float32)
    SimtExecutor().launch(b.module(), None, 1, [x, y, 1, 4000, 64], num_warps=4)
    assert y[WIDTH : WIDTH + 64].all()


def test_displaced_accesses_race_without_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert races_without_barriers(monkeypatch, lambda seed: launch_displaced(seed, 1, 2), 10) >= 5


def executed_barriers(first: int, is_turned: bool, length: int) -> int:
    """Barriers that run where a row is stored before a loop over rows at a distance of `length`,
    which begins `first` rows after it, and whose rows are stored backward if `is_turned`."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32, s=I32) as (x, n, s):
        lane, one = b.arange(WIDTH), b.full((WIDTH,), 1.0, F32)
        (x + (FIRST + lane)).store(one)
        with b.for_(n) as i:
            column = WIDTH - 1 - lane if is_turned else lane
            (x + (FIRST + (i + first) * s + column)).store(one)
    counts, arguments = Counts(), [np.zeros(SIZE, np.float32), 3, length]
    SimtExecutor().launch(b.module(), None, 1, arguments, num_warps=4, counts=counts)
    return sum(each.barriers for each in counts.by_op.values())


@for_each(("first", "is_turned"), ((0, False), (-1, True), (0, True), (1, True)))
def test_threads_wait_in_a_loop_that_may_return_to_what_was_before_it(
    first: int, is_turned: bool
) -> None:
    """Rows of the loop are distant from the one before it, but for that of number 0, which the same
    threads store if it is not turned."""
    for length in (WIDTH - 1, WIDTH, -WIDTH):
        is_free = abs(length) >= WIDTH and (first > 0 or not is_turned)
        assert executed_barriers(first, is_turned, length) == (0 if is_free else 3), length


@for_each("is_early", (False, True))
def test_a_step_is_computed_again_where_a_barrier_needs_it_first(is_early: bool) -> None:
    """Two arguments are multiplied in the loop after the access, or before it."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), n=I32, s=I32) as (x, n, s):
        at = b.var(b.constant(I32, 0))
        with b.for_(n):
            step = s * n if is_early else None
            (x + (FIRST + at.get() + b.arange(WIDTH))).store(b.full((WIDTH,), 1.0, F32))
            at.set(at.get() + (s * n if step is None else step))
    module = b.module()
    for length, barriers in ((WIDTH // 4, 3), (WIDTH // 2, 0)):
        counts, arguments = Counts(), [np.zeros(SIZE, np.float32), 3, length]
        SimtExecutor().launch(module, None, 1, arguments, num_warps=4, counts=counts)
        assert sum(each.barriers for each in counts.by_op.values()) == barriers


@for_each("count", (1, 8, 9))
def test_at_most_eight_steps_are_compared(count: int) -> None:
    """Of more arrays whose rows move on by steps of their own threads wait wherever these are."""
    b = Builder()
    arrays, steps = (
        {f"{n}{i}": t for i in range(count)} for n, t in (("x", pointer(F32)), ("s", I32))
    )
    with b.kernel("k", n=I32, **arrays, **steps) as (n, *rest), b.for_(n) as i:
        for x, length in zip(rest[:count], rest[count:], strict=True):
            (x + (b.arange(WIDTH) + i * length)).store(b.full((WIDTH,), 1.0, F32))
    counts, memory = Counts(), [np.zeros(SIZE, np.float32) for _ in range(count)]
    arguments = [3, *memory, *[WIDTH] * count]
    SimtExecutor().launch(b.module(), None, 1, arguments, num_warps=4, counts=counts)
    barriers = sum(each.barriers for each in counts.by_op.values())
    assert (barriers == 0) == (count <= 8)


def test_rows_race_without_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(seed: int) -> None:
        arguments = [np.zeros(SIZE, np.float32), 4, 64]
        SimtExecutor().launch(strided_program(seed), None, 1, arguments, num_warps=4)

    assert races_without_barriers(monkeypatch, launch, 10) >= 5


@pytest.mark.parametrize("count", few_or_all(25, 300))
def test_threads_wait_where_accesses_of_iterations_conflict(count: int) -> None:
    for seed in range(count):
        run(seed)


def test_the_programs_race_without_barriers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert races_without_barriers(monkeypatch, run, 20) >= 10


class Walk:
    """A run of the scalars of a function, and the addresses of its accesses on the way."""

    def __init__(self, function: Function, hazards: Hazards) -> None:
        self.function, self.hazards = function, hazards
        self.values: dict[Value, int] = {}
        self.executions: list[tuple[GlobalAccess, int]] = []

    def number(self, operand: Operand) -> int:
        if isinstance(operand, Value):
            return self.values[operand]
        assert isinstance(operand, Constant)
        return int(operand.value)

    def address(self, access: GlobalAccess) -> int:
        """The address of the first element of `access`, with the values of now."""
        form = self.hazards._at(access).form
        assert form is not None
        return form.start + sum(self.values[v] * times for v, times in form.terms)

    def blocks(self, arguments: tuple[int, ...]) -> Iterator[str]:
        """The labels of the blocks, each after it ran."""
        parameters = [p.value for p in self.function.parameters]
        self.values.update(zip(parameters, arguments, strict=True))
        label = next(iter(self.function.blocks))
        while True:
            block = self.function.blocks[label]
            for op in block.ops:
                self.do(op)
            yield label
            edges, last = block.successors, cast(Any, block.terminator)
            if not edges:
                return
            edge = edges[0] if len(edges) == 1 or self.number(last.condition) else edges[1]
            incoming = [self.number(v) for v in edge.arguments]
            label = edge.label
            into = self.function.blocks[label].parameters
            self.values.update(zip(into, incoming, strict=True))

    def do(self, op: Any) -> None:
        for access in self.hazards.uses.accesses.get(op, ()):
            self.executions.append((access, self.address(access)))
        if not op.results or isinstance(op.results[0].type, Tile):
            return
        if op.mnemonic == "select":
            chosen = op.inputs[1 if self.number(op.inputs[0]) else 2]
            self.values[op.results[0]] = self.number(chosen)
            return
        a, b = (self.number(v) for v in op.inputs)
        name = op.predicate_.value if op.mnemonic == "icmp" else op.mnemonic
        results = {"add": a + b, "mul": a * b, "and": a & b, "slt": a < b, "eq": a == b}
        self.values[op.results[0]] = int(results[name])


def pending_accesses(function: Function) -> tuple[Hazards, dict[str, HazardState]]:
    """The accesses that are pending at the end of each block, if no thread ever waits."""
    uses = uses_of(function, SharedMemoryPlan.of(function))
    hazards = Hazards(function, uses, 4)
    return hazards, _leaving(function, hazards, {})


def length_of(step: int | RuntimeStep | None, walk: Walk) -> int | None:
    """The bytes of a step, with the numbers of a run."""
    if not isinstance(step, RuntimeStep):
        return step
    return sum(by * prod(walk.values[v] for v in monomial) for monomial, by in step.monomials)


def check_steps(walk: Walk, state: HazardState) -> None:
    """Check that each access of a run is an iteration's step away, or some of them, unless it is
    unknown how far."""
    for access, address in walk.executions:
        entries = (e for e in state.touched[access.base] if e.access is access)
        steps = {length_of(e.step, walk) for e in entries}
        distance = walk.address(access) - address
        assert None in steps or any(
            distance == 0 if step == 0 else distance % step == 0 and distance // step > 0
            for step in steps
            if step is not None
        )


@for_each("seed", range(60))
def test_steps_of_pending_accesses_are_those_of_their_addresses(seed: int) -> None:
    """In the state of all paths to a block, and in that of the path of a run, which is known until
    a loop starts again."""
    function = Program(seed).module().kernel()
    hazards, leaving = pending_accesses(function)
    walk = Walk(function, hazards)
    assert len(list(walk.blocks((0, 4)))) > 8
    walk.executions.clear()
    state, before = HazardState(), ""
    for label in walk.blocks((0, 4)):
        check_steps(walk, leaving[label])
        state = hazards.enter(state, before, label) if before else state
        for op in function.blocks[label].ops:
            hazards.do(op, state)
        check_steps(walk, state)
        before = label


@for_each("seed", range(20))
def test_each_step_has_a_scope_of_its_own(seed: int) -> None:
    """What is known of two accesses in one iteration is not taken to hold across iterations."""
    options = Options(num_warps=4)
    done = run_pipeline(Program(seed).module(), target("sm_90"), options, None)
    function = done.stages["allocated"].kernel()
    hazards, leaving = pending_accesses(function)
    accesses = [a for each in hazards.uses.accesses.values() for a in each]
    entries = {e for state in leaving.values() for each in state.touched.values() for e in each}
    entries |= {PendingAccess(a) for a in accesses}
    for entry in entries:
        for access in accesses:
            if entry.step is not None:
                fresh = Hazards(function, hazards.uses, 4)
                assert hazards._between(entry, access) is fresh._between(entry, access)


def changing_values(function: Function) -> set[Value]:
    """The parameters of blocks in loops, and what is computed from them."""
    labels = {label for loop in loops(function).by_header.values() for label in loop.blocks}
    blocks = [block for label, block in function.blocks.items() if label in labels]
    changing = {v for block in blocks for v in block.parameters}
    for op in (op for block in blocks for op in block.ops):
        if any(v in changing for v in op.inputs):
            changing.update(op.results)
    return changing


@for_each("seed", range(60))
def test_steps_that_are_known_at_run_time_are_equal_in_all_iterations(seed: int) -> None:
    """A step that differs from one iteration to the next tells nothing of earlier ones."""
    function = strided_program(seed, uneven=True).kernel()
    changing, (_, leaving) = changing_values(function), pending_accesses(function)
    for state in leaving.values():
        for entry in (entry for each in state.touched.values() for entry in each):
            if isinstance(entry.step, RuntimeStep):
                values = {v for monomial, _ in entry.step.monomials for v in monomial}
                assert not values & changing


@for_each("seed", range(16))
def test_steps_are_assumed_to_be_as_long_as_every_access(seed: int) -> None:
    """Whatever the order in which accesses are compared."""
    options = Options(num_warps=4)
    done = run_pipeline(strided_program(seed), target("sm_90"), options, None)
    function = done.stages["allocated"].kernel()
    hazards, leaving = pending_accesses(function)
    accesses = [a for each in hazards.uses.accesses.values() for a in each]
    entries = {e for state in leaving.values() for each in state.touched.values() for e in each}
    pairs = [(e, a) for a in accesses for e in entries if isinstance(e.step, RuntimeStep)]
    lengths: list[dict[RuntimeStep, int]] = []
    for compared in (pairs, pairs[::-1]):
        assumed: dict[RuntimeStep, int] = {}
        fresh = Hazards(function, hazards.uses, 4, assumed)
        for entry, access in compared:
            fresh._between(entry, access)
        lengths.append(assumed)
    assert lengths[0] == lengths[1]


def test_most_steps_are_known() -> None:
    count = unknown = 0
    for seed in range(60):
        _, leaving = pending_accesses(Program(seed).module().kernel())
        for state in leaving.values():
            for entries in state.touched.values():
                count += sum(bool(e.step) for e in entries)
                unknown += sum(e.step is None for e in entries)
    assert count > 100 and unknown > 50
