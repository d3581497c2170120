"""A grid shared out among threads."""

from __future__ import annotations

import os
import threading
from itertools import pairwise

import pytest

from tileir.backend.cpu import thread_pool

ALLOWED = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@pytest.mark.parametrize(("total", "workers"), [(0, 3), (1, 3), (2, 3), (12, 1), (12, 3), (100, 7)])
def test_every_number_is_in_one_part(total, workers):
    parts = []
    thread_pool.parallel_for(lambda first, last: parts.append((first, last)), total, workers)
    parts.sort()
    assert [n for part in parts for n in range(*part)] == list(range(total))
    assert all(end == start for (_, end), (start, _) in pairwise(parts))


def affinities_of_threads():
    """Where each of the threads of two workers may run, the launching one first."""
    affinities, both = {}, threading.Barrier(2)

    def part(first, last):
        if first in (0, 1):
            both.wait(600)
            affinities[threading.current_thread() is not here] = os.sched_getaffinity(0)

    here = threading.current_thread()
    thread_pool.parallel_for(part, 8, 2)
    return affinities[False], affinities[True]


@pytest.mark.skipif(len(ALLOWED) < 2, reason="one processor, or the system does not say")
def test_threads_are_kept_off_the_processor_that_launches(monkeypatch):
    affinities_of_threads()  # the thread exists from now on
    for current in sorted(ALLOWED)[:3]:
        monkeypatch.setattr(thread_pool, "_current", lambda at=current: at)
        assert affinities_of_threads() == (ALLOWED, ALLOWED - {current})
    monkeypatch.setattr(thread_pool, "_current", lambda: -1)
    assert affinities_of_threads() == (ALLOWED, ALLOWED)


@pytest.mark.skipif(len(ALLOWED) < 2, reason="one processor, or the system does not say")
def test_threads_run_where_the_launching_one_may():
    one = {min(ALLOWED)}
    results = []

    def launch():
        os.sched_setaffinity(0, one)
        assert thread_pool.processors() == 1
        affinities_of_threads()
        results.append(affinities_of_threads())

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join(600)
    assert results == [(one, one)]
    assert thread_pool.processors() == len(ALLOWED)


def test_a_system_that_does_not_say_where_threads_run(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(thread_pool, "_getcpu", lambda: None)
    assert thread_pool.processors() == os.cpu_count()
    parts = []
    thread_pool.parallel_for(lambda first, last: parts.append((first, last)), 8, 2)
    assert sorted(parts) == [(n, n + 1) for n in range(8)]


@pytest.mark.parametrize("mine", [True, False])
def test_what_a_part_raises_is_raised_when_all_have_ended(mine):
    here, both, ended = threading.current_thread(), threading.Barrier(2), []

    def part(first, last):
        if first in (0, 1):
            both.wait(600)
            if (threading.current_thread() is here) is mine:
                raise ValueError("not this one")
        ended.append(first)

    with pytest.raises(ValueError, match="not this one"):
        thread_pool.parallel_for(part, 8, 2)
    assert sorted(ended)[1:] == list(range(2, 8))
