"""Running program instances: one after the other, or as coroutines that may wait for each other.

An instance of a kernel that synchronises is a generator that stops before each atomic or volatile
access. The scheduler picks the next instance at random from a seed. An instance is stuck if it
returns to the same op with the same values while memory has not changed. If every live instance is
stuck, no schedule can continue: that is a deadlock."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import attrs

from tileir.machine.descriptors import DescriptorValue
from tileir.op import Op

Steps: TypeAlias = Generator["Pause", None, Any]

WINDOW = 64
"""The number of live instances; more are started only if all of these are stuck."""


@attrs.frozen
class Pause:
    """The point where an instance waits: its call stack, outermost call first, and the op before
    which it stopped, with the values of all frames."""

    place: tuple[Op, ...]
    frames: tuple[list[Any], ...]

    @property
    def op(self) -> Op:
        """The op that comes next."""
        return self.place[-1]


class NotReadyError(Exception):
    """An op that waits cannot go on yet; nothing happened."""


class DeadlockError(Exception):
    """Every live instance waits for an action that no instance will take."""

    def __init__(self, waiting: list[tuple[int, Op]]) -> None:
        super().__init__(waiting)
        self.waiting = waiting


@attrs.define(eq=False)
class _Live:
    """One started instance; `snapshot` is its state at `version` of memory."""

    number: int
    steps: Steps
    pause: Pause | None = None
    snapshot: tuple[tuple[Op, ...], list[Any]] | None = None
    version: int = -1
    visits: int = 0
    stuck: bool = False


def run_coroutines(
    numbers: Iterator[int],
    start: Callable[[int], Steps],
    enter: Callable[[int], None],
    version: Callable[[], int],
    seed: int,
    spawned: Callable[[], list[tuple[int, Steps]]] = list,
) -> None:
    """Run every instance of `numbers` to its end, interleaved by `seed`.

    `enter(number)` is called before an instance goes on; `version()` changes with memory and
    clocks; `spawned()` are the coroutines that the last one started, with the numbers of
    their instances. Raises DeadlockError.
    """
    choose = random.Random(seed)
    live: list[_Live] = []
    window = WINDOW
    while True:
        _fill(live, numbers, window, start)
        if not live:
            return
        at = choose.randrange(len(live))
        one = live[at]
        enter(one.number)
        one.pause = next(one.steps, None)
        live += [_Live(*begun) for begun in spawned()]
        if one.pause is None:
            live[at] = live[-1]
            live.pop()
            continue
        if _is_stuck(one, version()) and all(x.stuck and x.version == version() for x in live):
            started = len(live)
            window = _fill(live, numbers, started + WINDOW, start)
            if len(live) == started:
                raise DeadlockError([(x.number, x.pause.op) for x in live if x.pause])


def _fill(
    live: list[_Live], numbers: Iterator[int], window: int, start: Callable[[int], Steps]
) -> int:
    """Start instances until `window` are live or none is left. Returns `window`."""
    while len(live) < window:
        number = next(numbers, None)
        if number is None:
            break
        live.append(_Live(number, start(number)))
    return window


def _is_stuck(one: _Live, version: int) -> bool:
    """Whether `one` has returned to its state at the snapshot, and memory has not changed since.
    The snapshot is renewed at every power of two of visits, so that a loop is detected wherever it
    is entered (Brent)."""
    pause = one.pause
    assert pause is not None
    if one.version != version:
        one.version, one.snapshot, one.visits, one.stuck = version, None, 0, False
    if one.stuck:
        return True
    one.visits += 1
    if one.snapshot is not None and one.snapshot[0] == pause.place:
        one.stuck = _same(one.snapshot[1], _flat(pause))
    if not one.stuck and one.visits & (one.visits - 1) == 0:
        one.snapshot = (pause.place, _flat(pause))
    return one.stuck


def _flat(pause: Pause) -> list[Any]:
    return [value for frame in pause.frames for value in frame]


def _same(old: list[Any], new: list[Any]) -> bool:
    return len(old) == len(new) and all(
        a is b or _key(a) == _key(b) for a, b in zip(old, new, strict=True)
    )


def _key(value: Any) -> Any:
    """A key that identifies a value: its bits and its undefined lanes."""
    if isinstance(value, DescriptorValue):
        return tuple(map(_key, (value.base, *value.extents, *value.strides)))
    data, undef = getattr(value, "data", None), getattr(value, "undef", None)
    if data is None or not hasattr(data, "tobytes"):
        return value
    return data.tobytes(), None if undef is None else undef.tobytes()
