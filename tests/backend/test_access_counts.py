"""What each method of a thread adds to the counts of an op, next to what it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from tests.sizes import for_each
from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.backend.simt.counts import Counted, Counts, OpCounters
from tileir.backend.simt.machine import ThreadValues
from tileir.types import F16, F32, I8, I32, I64

THREADS = 96
PLAIN = (
    "shuffle_xor", "shuffle_index", "transpose_matrix", "barrier", "binary", "intrinsic", "convert",
    "negate", "compare", "select", "mma", "load_matrix", "atomic",
)  # fmt: skip
"""Methods that are counted, whatever their operands."""
ACCESSES = (
    "load_global",
    "store_global",
    "copy_async",
    "load_shared",
    "store_shared",
    "store_matrix",
)


def echo(name: str) -> Any:
    """A method that returns its name and its operands."""
    return lambda self, *operands, **options: (name, operands, options)


Echo: Any = type("Echo", (), {n: echo(n) for n in (*PLAIN, *ACCESSES, "when")})


class EchoThread(Counted, Echo):
    """Threads that count and do nothing."""

    def __init__(self, active: Any) -> None:
        self.op, self.counts, self.threads = object(), Counts(), THREADS  # type: ignore[assignment]
        self.active = active

    def _active_under(self, condition: Any) -> Any:
        return self.active if condition is None else self.active & condition.array


def warps(active: Any) -> Iterator[range]:
    for first in range(0, THREADS, 32):
        if active[first : first + 32].any():
            yield range(first, first + 32)


def expect_global(tally: OpCounters, addresses: Any, size: int, active: Any) -> None:
    for warp in warps(active):
        touched = {int(addresses[i]) + b for i in warp if active[i] for b in range(size)}
        tally.accesses += 1
        tally.sectors += len({b // 32 for b in touched})
        tally.lines += len({b // 128 for b in touched})
        tally.ideal += -(-len(touched) // 32)


def expect_shared(tally: OpCounters, offsets: Any, size: int, active: Any) -> None:
    for warp in warps(active):
        at = [int(offsets[i]) if active[i] else None for i in warp]
        tally.shared += 1
        tally.wavefronts += wavefronts(at, size)
        tally.conflicts += conflicts(at, size)


def count_instruction(tally: OpCounters, kind: str) -> None:
    tally.instructions.setdefault(kind, 0)
    tally.instructions[kind] += 1


def test_an_op_that_has_not_run_has_no_counts() -> None:
    numbers = attrs.asdict(Counts().of(object()))  # type: ignore[arg-type]
    assert numbers.pop("instructions") == {}
    assert set(numbers.values()) == {0}


def some(rng: np.random.Generator) -> Any:
    """Some threads, all or none of some warps."""
    parts = np.repeat(rng.choice((0.0, 0.03, 0.5, 1.0), THREADS // 32), 32)
    ends = np.isin(np.arange(THREADS) % 32, (0, 31)) & (rng.random(THREADS) < 0.2)
    return (rng.random(THREADS) < parts) | ends


def access(name: str, rng: np.random.Generator, tally: OpCounters, active: Any) -> list[Any]:
    """Operands of an access; what it adds is added to `tally`."""
    element = (I8, F16, I32, I64)[rng.integers(4)]
    count = int(rng.choice([n for n in (1, 2, 4, 8) if n * element.bytes <= 16]))
    size, values = element.bytes * count, [ThreadValues(np.zeros(THREADS))] * count
    mask = None if rng.random() < 0.3 else ThreadValues(some(rng))
    doing = active if mask is None else active & mask.array
    first = (1 << 40) + int(rng.choice((0, 3)))
    pointer = ThreadValues(first + size * rng.integers(0, 99, THREADS))
    offset = ThreadValues((size * rng.integers(0, 99, THREADS)).astype(np.int32))
    constant = 16 * int(rng.integers(0, 9))
    if name == "copy_async":
        source = [None, "true", ThreadValues(some(rng))][rng.integers(3)]
        reading = doing & source.array if isinstance(source, ThreadValues) else doing
        expect_global(tally, pointer.array, size, reading)
        expect_shared(tally, offset.array + constant, size, doing)
        return [size, offset, constant, pointer, source, mask]
    if name in ("load_global", "store_global"):
        expect_global(tally, pointer.array, size, doing)
        what = [count, pointer] if name == "load_global" else [pointer, values]
        return [element, *what, mask, None]
    if name == "store_matrix":
        matrices = int(rng.choice((1, 2, 4)))
        element = (I8, F16, F32)[rng.integers(3)]
        rows = ThreadValues(16 * rng.integers(0, 99, THREADS))
        expect_shared(tally, rows.array + constant, 16, np.arange(THREADS) % 32 < 8 * matrices)
        count_instruction(tally, "store_matrix")
        return [element, True, rows, constant, values[:1] * (matrices * 4 // element.bytes)]
    expect_shared(tally, offset.array, size, active)
    return [element, count, offset] if name == "load_shared" else [element, offset, values]


@for_each("name", (*PLAIN, *ACCESSES, "when"))
@for_each("seed", range(12))
def test_what_is_counted_is_done(name: str, seed: int) -> None:
    """Twice the same, with the operands that were given."""
    rng = np.random.default_rng(seed)
    active = some(rng)
    thread, expected = EchoThread(active), OpCounters()
    for _ in range(2):
        operands: list[Any] = ["kind", object(), object()]
        if name in ACCESSES:
            operands = access(name, rng, expected, active)
        elif name == "when":
            condition = ThreadValues(some(rng))
            doing = active & condition.array
            expected.divergent += sum(not doing[list(w)].all() for w in warps(doing))
            operands = [condition, (), object(), object()]
        elif name == "barrier":
            operands = []
            expected.barriers += 1
        elif name in ("shuffle_xor", "shuffle_index", "transpose_matrix"):
            operands = operands[: 1 if name[0] == "t" else 3]
            expected.shuffles += 1
        else:
            kind = "kind" if name in ("binary", "intrinsic", "convert") else name
            count_instruction(expected, kind)
        result = getattr(thread, name)(*operands)
        assert result is None if name == "barrier" else result == (name, tuple(operands), {})
    assert attrs.asdict(thread.tally) == attrs.asdict(expected)
