"""Planted bugs of barrier placement, race detection and access counts."""

from __future__ import annotations

from tileir.testing.mutation.bug import Bug, bugs_in

_BARRIERS = (
    "tests/backend/shared_memory/test_barriers.py",
    "tests/backend/shared_memory/test_moving_accesses.py",
)
_RACES = ("tests/interp/test_races.py",)
_SIMT = ("tests/backend/test_simt.py", "tests/backend/test_simt_threads.py")
_SIMT_ASYNC_UNITS = ("tests/backend/test_simt_async_units.py",)
_THREAD_CONFLICTS = ("tests/backend/shared_memory/test_thread_conflicts.py",)
_RUNTIME_STEPS = (
    "tests/backend/shared_memory/test_runtime_steps.py",
    "tests/backend/shared_memory/test_moving_accesses.py",
)
_MASK_EXTENTS = ("tests/backend/shared_memory/test_mask_extents.py",)

BUGS_OF_SYNCHRONIZATION: tuple[Bug, ...] = (
    *bugs_in("backend/shared_memory/hazards.py", _BARRIERS,
        ("a fence on another path is no new access", "            + self.fenced\n", ""),
        ("an address that moved by two steps moved by the last",
         "if step is not None and entry.step not in (0, step):",
         "if step is not None and entry.step is None:"),
        ("a counter's step is not scaled",
         "step += form.start * coefficient", "step += form.start"),
        ("the last length of accesses at a step counts",
         "self.assumed[step] = max(length, self.assumed.get(step, 0))",
         "self.assumed[step] = length"),
        ("only release releases", '"value", "") != "relaxed"', '"value", "") == "release"'),
    ),
    *bugs_in("tileir/interp/races.py", _RACES,
        ("an atomic write conflicts with the last reader only",
         "Touch.ATOMIC_WRITE: (written, *read),", "Touch.ATOMIC_WRITE: (written, read[0]),"),
    ),
    *bugs_in("tileir/interp/clocks.py", _RACES,
        ("a plain atomic write continues a release sequence",
         "old = self.published.get(address) if rmw else None", "old = self.published.get(address)"),
        ("relaxed reads forget what earlier ones read",
         "clock.seen = result | clock.seen", "clock.seen = result"),
    ),
    *bugs_in("backend/simt/counts.py", _SIMT,
        ("the end of an access is one byte too far",
         "(addresses + size - 1) // unit", "(addresses + size) // unit"),
        ("masked copies are counted",
         "self.tally.touch_global(pointer.array, size, reading)",
         "self.tally.touch_global(pointer.array, size, doing)"),
    ),
    *bugs_in("backend/simt/happens_before.py", _SIMT_ASYNC_UNITS,
        ("writes of threads are ordered by what orders copies",
         "view.before_copies if copy else view.clocks", "view.before_copies"),
    ),
    *bugs_in("backend/shared_memory/thread_conflicts.py", _THREAD_CONFLICTS,
        ("an access that has not yet reached the other has passed it",
         "return spans_disjoint(a, b) and (_span(b) > _span(a)) is (step > 0)",
         "return spans_disjoint(a, b)"),
        ("only the strides of one access shift elements",
         "steps = (a.place.start - b.place.start, *a.place.strides, *b.place.strides)",
         "steps = (a.place.start - b.place.start, *a.place.strides)"),
    ),
    *bugs_in("backend/shared_memory/runtime_steps.py", _RUNTIME_STEPS,
        ("a step of one byte less than the span is long enough",
         "bound = Constant(I32, 2 * span - 1)", "bound = Constant(I32, 2 * span - 2)"),
        ("a counter may grow by what the loop changes",
         "            if not all(self._is_constant(v, loop) for v, _ in terms):\n"
         "                return None\n",
         ""),
    ),
    *bugs_in("backend/shared_memory/mask_extents.py", _MASK_EXTENTS,
        ("extents of indices that fall",
         "if start < 0 or step < 0 or start + step", "if start < 0 or start + step"),
    ),
)  # fmt: skip
