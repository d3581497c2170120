"""Litmus tests: small programs whose outcomes show which memory orders a machine guarantees.

    python -m tileir.testing.litmus --on gpu --runs 1000000 --out FILE.json [--seconds 170]
    python -m tileir.testing.litmus --on interpreter --runs 60 --only mp,lb

A test is a `.tir` file in `programs/` with one kernel. A group of `litmus.instances` program
instances performs runs of the test. A launch has many groups, and each performs `iterations` runs,
for which its instances wait a bounded time for each other. Every run has its own memory: `litmus.x`
and so on are the numbers of elements per run of the parameter of that name, initially zero. The
results of a run are in `r0`, `r1`, ..., initially -1. Together they are its outcome, which must be
among `litmus.allowed`. `litmus.forbidden` lists outcomes that must not occur and are counted as
well. `sync` has 32 elements per group.

A second table accumulates rows under locks, as the backward pass of layer normalization does, and
checks every total. FILE is written after every test, with the seconds that each took. A second call
skips the tests that are in it, unless `--fresh` is passed. The exit status is 0 on success; 1 if an
outcome was forbidden or a total wrong; 2 if the tests cannot run here; 3 if the time is over before
the last test. The tests follow Alglave et al., "GPU Concurrency: Weak Behaviours and Programming
Assumptions" (ASPLOS 2015), and Lustig et al., "A Formal Analysis of the NVIDIA PTX Memory
Consistency Model" (ASPLOS 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.executor import Executor
from tileir.ir import Module
from tileir.textual import parse

FOLDER = Path(__file__).resolve().parent / "programs"
LAUNCHES = 10_000
"""Launches of the kernel with locks."""
_LINE = 32
"""Elements of `sync` per group: instances of other groups have other cache lines."""
_MOST_ELEMENTS = 1 << 25
"""Elements of one array: runs of one launch are so few that they fit."""
_ROWS, _COLUMNS, _LOCKS = 256, 256, 8


@attrs.frozen
class Litmus:
    """A litmus test. `sizes` are the elements per run by parameter."""

    name: str
    module: Module
    instances: int
    sizes: Mapping[str, int]
    results: tuple[str, ...]
    allowed: tuple[str, ...]
    forbidden: tuple[str, ...]

    @staticmethod
    def of(module: Module, name: str) -> Litmus:
        """The test that the metadata of `module` describes. Raises ValueError if the metadata is
        incomplete or inconsistent."""
        stated = {k.removeprefix("litmus."): v for k, v in module.metadata.items()}
        names = [p.name or "" for p in module.kernel().parameters]
        results = tuple(n for n in names if n[:1] == "r" and n[1:].isdigit())
        places = [n for n in names if n not in (*results, "sync", "iterations")]
        missing = [n for n in ("instances", "allowed", "forbidden", *places) if n not in stated]
        if missing:
            raise ValueError(f"{name}: the metadata has no {', '.join(missing)}")
        allowed, forbidden = (
            tuple(str(x) for x in _as_list(stated[k])) for k in ("allowed", "forbidden")
        )
        both = set(allowed) & set(forbidden)
        if both or any(len(x.split()) != len(results) for x in (*allowed, *forbidden)):
            raise ValueError(f"{name}: outcomes are lists of {len(results)} numbers, each once")
        sizes = {n: _number(stated[n]) for n in places}
        return Litmus(
            name, module, _number(stated["instances"]), sizes, results, allowed, forbidden
        )

    def is_allowed(self, outcome: str) -> bool:
        """Whether `outcome`, its numbers separated by spaces, may occur."""
        return outcome in self.allowed


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def tests(folder: Path = FOLDER, only: Sequence[str] = ()) -> Iterator[Litmus]:
    """Yield the tests of `folder`, or only those that `only` names, if it names any."""
    for path in sorted(folder.glob("*.tir")):
        if not only or path.stem in only:
            yield Litmus.of(parse(path.read_text(), str(path)), path.stem)


def run(
    test: Litmus, machine: Executor, groups: int, iterations: int, **options: Any
) -> Counter[str]:
    """The outcomes of `groups` times `iterations` runs in one launch. Raises the errors of the
    launch."""
    runs = groups * iterations
    arrays = {n: np.zeros(runs * size, np.int32) for n, size in test.sizes.items()}
    results = {n: np.full(runs, -1, np.int32) for n in test.results}
    sync = np.zeros(groups * _LINE, np.int32)
    arguments = {**arrays, **results, "sync": sync, "iterations": iterations}
    machine.launch(test.module, None, groups * test.instances, arguments, **options)
    return count_outcomes(list(results.values()))


def count_outcomes(results: Sequence[Any]) -> Counter[str]:
    """Count the outcomes of runs, from one array of i32 per result. Each run is encoded as one
    number, since sorting numbers is faster than sorting tuples."""
    rank, kinds = np.zeros(len(results[0]), np.int64), [""]
    for array in results:
        key = (rank << 32) | (array.astype(np.int64) + (1 << 31))
        keys, rank = np.unique(key, return_inverse=True)
        kinds = [f"{kinds[k >> 32]} {(k & 0xFFFFFFFF) - (1 << 31)}".strip() for k in keys.tolist()]
    return Counter(dict(zip(kinds, np.bincount(rank).tolist(), strict=True)))


def outcomes(
    test: Litmus, machine: Executor, runs: int, groups: int, **options: Any
) -> Counter[str]:
    """The outcomes of at least `runs` runs, in as many launches as needed."""
    most = max(1, _MOST_ELEMENTS // (groups * max(test.sizes.values(), default=1)))
    counts: Counter[str] = Counter()
    while (remaining_runs := runs - counts.total()) > 0:
        iterations = min(most, -(-remaining_runs // groups))
        counts += run(test, machine, groups, iterations, **options)
    return counts


def locked_accumulation(
    machine: Executor, launches: int, seed: int = 0, **options: Any
) -> tuple[int, int]:
    """The number of launches of the kernel with locks, and of those with a wrong total. The numbers
    are small integers, which are added exactly in any order."""
    path = FOLDER / "locks" / "layer_norm_backward.tir"
    module = parse(path.read_text(), str(path))
    draw = np.random.default_rng(seed)
    dy, x = (draw.integers(-8, 9, (_ROWS, _COLUMNS)).astype(np.float32) for _ in range(2))
    expected = [
        np.stack([part[group::_LOCKS].sum(axis=0) for group in range(_LOCKS)])
        for part in (dy * x, dy)
    ]
    wrong = 0
    for _ in range(launches):
        dw, db = (np.full((_LOCKS, _COLUMNS), 1e6, np.float32) for _ in range(2))
        locks, counts = np.zeros(_LOCKS, np.int32), np.zeros(_LOCKS, np.int32)
        arguments = [dy, x, dw, db, locks, counts, _LOCKS]
        machine.launch(module, None, _ROWS, arguments, **options)
        wrong += not all(np.array_equal(a, b) for a, b in zip((dw, db), expected, strict=True))
    return launches, wrong


def table(test: Litmus, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Rows of program, outcome, count and whether the outcome may occur, for all outcomes that the
    test lists or that occurred."""
    named = dict.fromkeys((*test.allowed, *test.forbidden, *sorted(counts)))
    return [row(test.name, o, counts.get(o, 0), test.is_allowed(o)) for o in named]


def row(program: str, outcome: str, count: int, allowed: bool) -> dict[str, Any]:
    """A row of the table."""
    return {"program": program, "outcome": outcome, "count": count, "allowed": allowed}
