"""The checks of a campaign: the next programs of several passes, in several processes.

Programs are assigned in runs of consecutive numbers, to the pass that has used the least of its
share of the time. The result of a run is counted when all runs before it are complete, so that
totals always cover programs 0 to n. If a process dies, its runs are repeated with one process per
program, and the program that ends its process is an open failure. SIGTERM and SIGINT stop a
campaign; the results counted so far are kept.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import attrs

from tileir.testing.checking import CPU, EXECUTORS, TEXT, PassCase, Verdict, case, check, text_of
from tileir.testing.fuzz_text import well_formed
from tileir.testing.policies import GPU
from tileir.testing.shrinking import shrink

_MOST_OPEN = 5
"""Open failures of a pass after which its campaign stops."""
_RUN_LENGTH, _RUN_LENGTHS = 25, {TEXT: 500, CPU: 5, EXECUTORS: 5}
"""Programs of a run."""
_SHARES = {TEXT: 30, **dict.fromkeys(GPU, 3)}
"""Shares of the time, where a target has more than one. Texts are many and take little time."""
_TIME_LIMIT = 60
"""Seconds of the processor that one program may take."""
_WAITING = 10
"""How many times as long it may wait, where other processes have the processors."""
_LONGEST_RUN = 3 * _TIME_LIMIT
"""Seconds after the end that a run may still take: a failing program is checked, reduced, and
checked again. A run that takes longer hangs in native code, and is not counted."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SAVE_INTERVAL = 10.0
"""Seconds between two saves of the totals."""
_POLL_INTERVAL = 0.2
"""Seconds after which the end, a signal and the next save are looked at again."""


@attrs.define
class Total:
    """The results for one pass.

    `fired` of the `programs` were changed (texts: rejected) and compared; `discarded` ones are
    undefined. `open` maps the numbers of failing programs to the failures. `first` is the number of
    the first program; `seconds` are processor time. `closed` are open failures of totals before
    `first` that have passed since.
    """

    programs: int = 0
    fired: int = 0
    discarded: int = 0
    seconds: float = 0.0
    open: dict[str, str] = attrs.field(factory=dict[str, str])
    first: int = 0
    closed: list[str] = attrs.field(factory=list[str])

    def count(self, seed: int, verdict: Verdict) -> None:
        """Count one more program."""
        self.programs += 1
        self.fired += verdict.fired and not verdict.discarded
        self.discarded += verdict.discarded
        if verdict.failure is not None:
            self.open[str(seed)] = (verdict.failure.splitlines() or [""])[0][:200]

    def add(self, more: Total) -> None:
        """Count the programs that follow."""
        self.programs += more.programs
        self.fired += more.fired
        self.discarded += more.discarded
        self.seconds += more.seconds
        for number in more.closed:
            self.open.pop(number, None)
        self.open.update(more.open)


def explore(
    totals: Mapping[str, Total],
    seconds: float,
    failures: Path,
    most: int | Mapping[str, int] | None = None,
    jobs: int = 1,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Add to `totals` until the time is over, a signal requests a stop, or every pass has `most`
    programs (for each pass, or by name) or too many open failures. `keep` is called from time to
    time, and at the end."""
    work = [_Work(name, total, _goal(name, most)) for name, total in totals.items()]
    if any(w.name == TEXT for w in work):
        well_formed()  # loaded here once, not by every process
    ends, saved = monotonic() + seconds, -math.inf
    running: dict[Future[Total], tuple[_Work, int, int]] = {}
    others = multiprocessing.active_children()
    with _signals() as stop:
        pool = _executor(jobs)
        try:
            while not stop and monotonic() < ends + _LONGEST_RUN:
                while len(running) < 2 * jobs - 1 and monotonic() < ends and not stop:
                    chosen = _neediest(work)
                    if chosen is None:
                        break
                    first, count = chosen.take()
                    future = _submit(pool, chosen.name, first, count, failures)
                    running[future] = (chosen, first, count)
                if not running:
                    break
                broken = False
                done = wait(running, _POLL_INTERVAL, return_when=FIRST_COMPLETED).done
                for future in done:
                    broken |= isinstance(future.exception(), BrokenProcessPool)
                    if not broken:
                        running.pop(future)[0].finish(future.result())
                if broken and not stop:
                    pool.shutdown()
                    pool = _executor(jobs)
                    for chosen, first, count in running.values():
                        if not stop and monotonic() < ends:
                            chosen.finish(run_in_processes(chosen.name, first, count, failures))
                    running.clear()
                if monotonic() - saved > _SAVE_INTERVAL:
                    keep()
                    saved = monotonic()
            keep()
        finally:
            if running:  # the time is over
                for process in multiprocessing.active_children():
                    if process not in others:
                        process.kill()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _signals() -> Generator[list[int], None, None]:
    """The signals so far that requested this process to stop."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may handle signals
        return
    before = {s: signal.signal(s, lambda number, _: received.append(number)) for s in _STOP_SIGNALS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handle_signals_by_default() -> None:
    """Restore the default of SIGTERM, which ends the process, in a process of the pool."""
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _submit(pool: Executor, name: str, first: int, count: int, failures: Path) -> Future[Total]:
    """Start the run in `pool`. If a process of the pool has died, the result is a future that has
    failed."""
    try:
        return pool.submit(run, name, first, count, failures)
    except BrokenProcessPool as error:
        future: Future[Total] = Future()
        future.set_exception(error)
        return future


def run_in_processes(name: str, first: int, count: int, failures: Path) -> Total:
    """Check programs as `run` does, with one process per program. A program whose process dies
    fails."""
    total, context = Total(first=first), multiprocessing.get_context("fork")
    for number in range(first, first + count):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run_one, args=(sender, name, number, failures))
        process.start()
        sender.close()
        try:
            total.add(receiver.recv())
        except EOFError:
            process.join()
            reason = f"the process ends with {process.exitcode}"
            total.count(number, Verdict(True, reason))
            _write_as_it_is(case(name, number), reason, failures)
        process.join()
        receiver.close()
        if len(total.open) >= _MOST_OPEN:
            break
    return total


def _run_one(sender: Any, name: str, number: int, failures: Path) -> None:
    _handle_signals_by_default()
    sender.send(run(name, number, 1, failures))


def run(name: str, first: int, count: int, failures: Path) -> Total:
    """Check `count` programs for the pass `name`. Failing programs are reduced and written to
    `failures`."""
    total, start = Total(first=first), process_time()
    for number in range(first, first + count):
        result = case(name, number)
        verdict = _verdict(result)
        total.count(number, verdict)
        if verdict.failure is not None:
            _write(result, failures)
        if len(total.open) >= _MOST_OPEN:
            break
    total.seconds = process_time() - start
    return total


@attrs.define(eq=False)
class _Work:
    """The programs of one pass. Those below `next` have been assigned; `done` are complete runs
    that wait for an earlier one."""

    name: str
    total: Total
    goal: float
    next: int = attrs.field(init=False)
    done: dict[int, Total] = attrs.field(init=False, factory=dict)
    begun: int = attrs.field(init=False, default=0)
    finished: int = attrs.field(init=False, default=0)
    seconds: float = attrs.field(init=False, default=0.0)
    """The seconds of the runs that are finished."""

    def __attrs_post_init__(self) -> None:
        self.next = self.total.first + self.total.programs

    def take(self) -> tuple[int, int]:
        """Assign the next run: its first number and the number of programs."""
        first = self.next
        count = int(min(_RUN_LENGTHS.get(self.name, _RUN_LENGTH), self.goal - first))
        self.next += count
        self.begun += 1
        return first, count

    def spent(self) -> tuple[float, int]:
        """The seconds of all assigned runs, estimated for incomplete ones, relative to the share of
        the pass; and the number of assigned runs."""
        mean = self.seconds / max(1, self.finished)
        return mean * self.begun / _SHARES.get(self.name, 1), self.begun

    def finish(self, part: Total) -> None:
        """Count a complete run, and later runs that were waiting for it."""
        self.finished += 1
        self.seconds += part.seconds
        self.done[part.first] = part
        while (more := self.done.pop(self.total.first + self.total.programs, None)) is not None:
            self.total.add(more)


def _neediest(work: Iterable[_Work]) -> _Work | None:
    """The incomplete pass that has used the least of its share of the time."""
    unfinished = [w for w in work if w.next < w.goal and len(w.total.open) < _MOST_OPEN]
    return min(unfinished, key=_Work.spent, default=None)


def _goal(name: str, most: int | Mapping[str, int] | None) -> float:
    if most is None:
        return math.inf
    return most if isinstance(most, int) else most[name]


def _verdict(test_case: PassCase) -> Verdict:
    try:
        with _at_most(_TIME_LIMIT):
            return check(test_case)
    except Exception as error:
        return Verdict(True, f"{type(error).__name__}: {error}")


@contextmanager
def _at_most(seconds: float) -> Generator[None, None, None]:
    """Raises TimeoutError if the body takes longer, or waits for a multiple of it."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"over {seconds} s")

    limits = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, _WAITING * seconds),
    }
    before = {number: signal.signal(number, stop) for number in limits}
    for timer, limit in limits.values():
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _ in limits.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(test_case: PassCase, failures: Path) -> None:
    """Write a failing program, reduced for at most the time limit of a program."""
    ends = monotonic() + _TIME_LIMIT

    def fails(statements: Any) -> bool:
        return (
            monotonic() < ends
            and _verdict(attrs.evolve(test_case, statements=tuple(statements))).failure is not None
        )

    small = test_case
    if test_case.name != TEXT:
        small = attrs.evolve(test_case, statements=tuple(shrink(list(test_case.statements), fails)))
    _write_as_it_is(small, _verdict(small).failure, failures)


def _write_as_it_is(test_case: PassCase, failure: str | None, failures: Path) -> None:
    reason = f"{test_case.name}, program {test_case.seed}: {failure}".splitlines()[0]
    failures.mkdir(parents=True, exist_ok=True)
    path = failures / f"{test_case.name}-{test_case.seed}.tir"
    path.write_text(f"; {reason}\n{text_of(test_case)}", errors="surrogateescape")
    sys.stdout.write(f"{path}: {reason}\n")


def _executor(jobs: int) -> Executor:
    if jobs == 1:
        return _ImmediateExecutor()
    return ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("fork"),
        initializer=_handle_signals_by_default,
    )


class _ImmediateExecutor(Executor):
    """Runs a submitted function immediately, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
