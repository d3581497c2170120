"""Races of generated programs against happens-before as the memory model defines it.

Three instances of one kernel each execute a list of accesses and fences, of words that all of them
use: plain, volatile and atomic ones of every order and scope, of a scalar or of two lanes under a
mask and a predicate. A reference executes the same accesses in the order in which the interpreter
resumed the instances, and keeps for each instance the set of accesses that happen before its next
one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.interp import Report, interpret, launch
from tileir.interp.races import Touch
from tileir.interp.schedule import run_coroutines

from .programs import module

WORDS = 4
ORDERS = ("relaxed", "acquire", "release", "acq_rel")
LANES = {"": (0, 1), "%even": (0,), "%odd": (1,)}
READS, WRITES = Touch.READ, Touch.WRITE
ATOMIC_READS, ATOMIC_WRITES = Touch.ATOMIC_READ, Touch.ATOMIC_WRITE
ATOMIC = (ATOMIC_READS, ATOMIC_WRITES)


@attrs.frozen
class Statement:
    """One op: its text, the `words` that it accesses, and its memory order and scope. `value` is
    the number that it writes; `expected`, of an exchange, the number that it compares with."""

    kind: str
    words: tuple[int, ...]
    text: str
    sem: str = "relaxed"
    scope: str = "gpu"
    value: int = 0
    expected: int = 0

    @property
    def is_plain(self) -> bool:
        return self.kind in ("load", "store")

    @property
    def synchronizes(self) -> bool:
        """Whether the interpreter may continue with another instance before it."""
        return not self.is_plain and self.kind != "fence"

    @property
    def acquires(self) -> bool:
        return self.sem in ("acquire", "acq_rel") and self.scope != "cta"

    @property
    def releases(self) -> bool:
        return self.sem in ("release", "acq_rel") and self.scope != "cta"


ORDERED = ("atomic_load", "atomic_store", "atomic_rmw", "atomic_cas")
PLAIN = ("load", "store")
VOLATILE = ("volatile load", "volatile store")
MIXTURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "any op at any word": tuple((k,) for k in (*PLAIN, *PLAIN, *VOLATILE, *ORDERED, "fence")),
    "mostly ordered": tuple((k,) for k in (*PLAIN, *PLAIN, *VOLATILE, *ORDERED * 3, "fence")),
    "fences": (
        *((k,) for k in PLAIN), ("fence", "atomic_store"), ("fence", "volatile store"),
        ("atomic_load", "fence"), ("volatile load", "fence"), ("fence", "atomic_rmw", "fence"),
    ),
}  # fmt: skip
"""Sequences of ops, of which programs are made. In all but the first, plain accesses are of the
first words and others of the last ones; in the last, only fences order anything."""
POSSIBLE_ORDERS = {"atomic_load": ORDERS[:2], "atomic_store": ORDERS[::2], "fence": ORDERS[1:]}


def statements(choose: random.Random, numbers: Iterator[int], mixture: str) -> list[Statement]:
    phrases = choose.choices(MIXTURES[mixture], k=choose.randint(2, 8))
    return [statement(choose, next(numbers), mixture, k) for phrase in phrases for k in phrase]


def statement(choose: random.Random, number: int, mixture: str, kind: str) -> Statement:
    sem = choose.choice(POSSIBLE_ORDERS.get(kind, ORDERS))
    scope = choose.choice(("gpu", "gpu", "sys", "cta"))
    if kind in PLAIN or kind in VOLATILE or (mixture == "fences" and kind != "fence"):
        sem, scope = "relaxed", "gpu"
    ordered = f"{{sem = {sem}, scope = {scope}}}"
    if kind == "fence":
        return Statement(kind, (), f"fence {ordered}", sem, scope)
    value, expected = choose.randrange(2), choose.randrange(2)
    first, shape, predicate, mask = choose.randrange(WORDS - 1), "", "", ""
    if mixture != "any op at any word":
        first = 0 if kind in PLAIN else 2
    words: tuple[int, ...] = (first,)
    if choose.random() < 0.5:
        shape, mask, predicate = "<2>", choose.choice([*LANES]), choose.choice(["", "", *LANES])
        words = tuple(first + n for n in LANES[mask] if n in LANES[predicate])
    pointer = f"%t{first}" if shape else f"%p{first}"
    operands = {
        "load": pointer, "volatile load": pointer, "atomic_load": pointer,
        "atomic_cas": f"{pointer}, {expected}, {value}",
    }.get(kind, f"{pointer}, {value}")  # fmt: skip
    attributes = "" if kind in PLAIN else "{volatile = true}" if kind in VOLATILE else ordered
    if kind == "atomic_rmw":
        attributes = attributes.replace("{", "{op = xchg, ")
    result = "" if "store" in kind else f"%r{number} = "
    mnemonic = kind.split()[-1] + ("" if "store" in kind else f" i32{shape}")
    text = f"{result}{mnemonic} {operands}{', ' * bool(mask)}{mask} {attributes}  ; {number}"
    under = f"@{predicate} " if predicate else ""
    return Statement(kind, words, f"{under}{text}", sem, scope, value, expected)


def kernel(programs: list[list[Statement]]) -> str:
    pointers = "".join(
        f"  %p{n} = getelementptr i32* %x, i32 {n}\n"
        f"  %s{n} = splat i32*<2> %p{n}\n  %t{n} = getelementptr i32*<2> %s{n}, %i\n"
        for n in range(WORDS - 1)
    )
    first, second, third = (
        f"is{n}:\n" + "".join(f"  {s.text}\n" for s in program) + "  ret\n"
        for n, program in enumerate(programs)
    )
    return (
        "define kernel void @k(i32* %x) {\nentry:\n"
        "  %me = program_id i32 {axis = 0}\n  %i = make_range i32<2>\n"
        "  %even, %odd = icmp (i1<2>, i1<2>) %i, 0 {predicate = eq}\n" + pointers +
        "  %a, _ = icmp (i1, i1) %me, 0 {predicate = eq}\n"
        "  %b, _ = icmp (i1, i1) %me, 1 {predicate = eq}\n"
        "  cond_br %a, is0, other\nother:\n  cond_br %b, is1, is2\n"
        + first + second + third + "}\n"
    )  # fmt: skip


Event = tuple[int, str, Touch, int]
"""Instance, text of the op, touch, word."""
Race = tuple[Event, ...]
"""Two accesses, the earlier one first."""


@attrs.define
class Reference:
    """The state of memory, and which events happen before the next one of each instance."""

    memory: list[int] = attrs.field(factory=lambda: [0] * WORDS)
    events: list[Event] = attrs.field(factory=list[Event])
    before: list[set[int]] = attrs.field(factory=lambda: [set[int]() for _ in range(3)])
    fenced: list[set[int]] = attrs.field(factory=lambda: [set[int]() for _ in range(3)])
    seen: list[set[int]] = attrs.field(factory=lambda: [set[int]() for _ in range(3)])
    published: dict[int, set[int]] = attrs.field(factory=dict[int, set[int]])
    races: list[set[Race]] = attrs.field(factory=list[set[Race]])
    """For each batch of accesses that nothing interrupts, their races with earlier ones."""
    latest: set[tuple[int, Touch, Touch]] = attrs.field(factory=set[tuple[int, Touch, Touch]])
    """Batches in which an access races with the last one of its kind to the word, and the kinds of
    both."""

    def access(self, me: int, s: Statement, touch: Touch, word: int) -> None:
        if s.scope == "cta":
            touch = READS if touch in (READS, ATOMIC_READS) else WRITES
        event, latest = (me, s.text, touch, word), set[Touch]()
        for number in reversed(range(len(self.events))):
            earlier = self.events[number]
            if earlier[3] != word:
                continue
            writes = {touch, earlier[2]} & {WRITES, ATOMIC_WRITES}
            both_atomic = touch in ATOMIC and earlier[2] in ATOMIC
            if writes and not both_atomic and earlier[0] != me and number not in self.before[me]:
                self.races[-1].add((earlier, event))
                if earlier[2] not in latest:
                    self.latest.add((len(self.races) - 1, earlier[2], touch))
            latest.add(earlier[2])
        self.before[me].add(len(self.events))
        self.events.append(event)

    def resume(self, me: int, segment: list[Statement]) -> None:
        self.races.append(set())
        for s in segment:
            self.execute(me, s)
            if not s.is_plain:
                self.races.append(set())

    def execute(self, me: int, s: Statement) -> None:
        if s.kind == "fence":
            if s.acquires:
                self.before[me] |= self.seen[me]
            if s.releases:
                self.fenced[me] = set(self.before[me])
            return
        is_update = s.kind in ("atomic_rmw", "atomic_cas")
        atomic = not s.is_plain
        written = [
            w for w in s.words
            if "load" not in s.kind and (s.kind != "atomic_cas" or self.memory[w] == s.expected)
        ]  # fmt: skip
        reads = is_update or "load" in s.kind
        for word in s.words if reads else ():
            self.access(me, s, ATOMIC_READS if atomic else READS, word)
        for word in written:
            self.access(me, s, ATOMIC_WRITES if atomic else WRITES, word)
            self.memory[word] = s.value
        if not atomic:
            return
        for word in s.words if reads else ():
            target = self.before[me] if s.acquires else self.seen[me]
            target |= self.published.get(word, set())
        for word in written:
            mine = self.before[me] if s.releases else self.fenced[me]
            kept = self.published.get(word, set()) if is_update else set()
            self.published[word] = mine | kept


def segments(program: list[Statement]) -> list[list[Statement]]:
    """What an instance executes each time that it is resumed."""
    result: list[list[Statement]] = [[]]
    for s in program:
        if s.synchronizes:
            result.append([])
        result[-1].append(s)
    return result


def run_noting_order(
    body: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Report, list[int], list[int]]:
    """The report of a run, the memory after it, and the order in which instances were resumed."""
    resumed: list[int] = []

    def run_and_note(numbers: Any, start: Any, enter: Any, *others: Any) -> None:
        def enter_next(number: int) -> None:
            resumed.append(number)
            enter(number)

        run_coroutines(numbers, start, enter_next, *others)

    monkeypatch.setattr(launch, "run_coroutines", run_and_note)
    x = np.zeros(WORDS, np.int32)
    report = interpret(module(body), None, 3, [x], seed=seed, allow_races=True)
    return report, x.tolist(), resumed


@for_each("mixture", MIXTURES)
@for_each("seed", range(80))
def test_races_are_the_accesses_that_nothing_orders(
    seed: int, mixture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every race that is reported is one; and where an access races with the last one of its kind,
    a race of the same kinds is reported for that batch of accesses."""
    choose, numbers = random.Random(seed), itertools.count()
    programs = [statements(choose, numbers, mixture) for _ in range(3)]
    if not any(s.synchronizes for each in programs for s in each):
        return
    body = kernel(programs)
    report, memory, order = run_noting_order(body, seed, monkeypatch)
    reference, waiting = Reference(), [segments(program) for program in programs]
    for instance in order:
        reference.resume(instance, waiting[instance].pop(0))
    assert not any(waiting) and memory == reference.memory
    lines = ["", "tir 1.0", *body.splitlines()]
    reported = {
        tuple(
            (entry.instance, lines[entry.op.location.line].strip(), touch, race.offset // 4)
            for entry, touch in ((race.first, race.first_touch), (race.second, race.second_touch))
        )
        for race in report.races
    }
    assert reported <= set().union(*reference.races), (order, body)
    with_reports = {
        (number, first[2], second[2])
        for number, races in enumerate(reference.races)
        for first, second in races & reported
    }
    assert reference.latest <= with_reports, (order, body)
