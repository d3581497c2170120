"""The search of a reduction: edits are tried on runs of places, until none is accepted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TypeAlias

import attrs

from tileir.errors import TileirError
from tileir.ir import Module
from tileir.testing.reduction.edit import Edit, can_end
from tileir.testing.reduction.edits import EDITS, TIDY
from tileir.textual import print_module
from tileir.verify import verify

Interesting: TypeAlias = Callable[[Module], bool]


@attrs.frozen
class Progress:
    """The progress of a search: the number of remaining ops, of tested and of accepted candidates,
    and the kind of the current edit."""

    ops: int
    tried: int
    accepted: int
    edit: str


def reduce(
    module: Module,
    interesting: Interesting,
    *,
    report: Callable[[Progress, Module], object] | None = None,
    tries: int | None = None,
    seconds: float | None = None,
) -> Module:
    """Return the smallest module found for which `interesting` is true, as it is for `module`.

    Every candidate passes the verifier. `report` is called with each accepted module. The search
    ends when no edit is accepted, after `tries` candidates, or with the first edit after `seconds`.
    Without a time limit, the result depends only on `module` and `interesting`. Raises ValueError
    if `interesting` is false for `module`, and the errors of `interesting`.
    """
    if not interesting(module):
        raise ValueError("the predicate is false for the module itself")
    return _ReductionSearch(module, interesting, report, tries, seconds).run()


def op_count(module: Module) -> int:
    """Return the number of ops of all functions, including terminators."""
    return sum(1 for function in module.functions.values() for _ in function.ops)


class _StopError(Exception):
    """The budget of the search is exhausted."""


class _ReductionSearch:
    def __init__(
        self,
        module: Module,
        interesting: Interesting,
        report: Callable[[Progress, Module], object] | None,
        tries: int | None,
        seconds: float | None,
    ) -> None:
        self.module = module
        self.interesting = interesting
        self.report = report
        self.tries = tries
        self.ends = None if seconds is None else time.monotonic() + seconds
        self.seen = {_digest(module)}
        self.tried = self.accepted = 0

    def run(self) -> Module:
        """Try every kind of edit repeatedly, until none is accepted."""
        try:
            while True:
                before = self.module
                for edit in EDITS:
                    self._runs(edit)
                if self.module is before:
                    return self.module
        except _StopError:
            return self.module

    def _runs(self, edit: Edit) -> None:
        """Try `edit` on runs of its places, halving their length."""
        size = len(edit.places(self.module))
        while size:
            start, before = 0, self.module
            while start < len(places := edit.places(self.module)):
                if not self._attempt(edit, start, size):
                    start += size
            if self.module is not before and edit is not TIDY:
                self._runs(TIDY)
            size = min(size // 2, len(places))

    def _attempt(self, edit: Edit, start: int, size: int) -> bool:
        """Try the edit at `size` places from `start` on. If the result is smaller and interesting,
        it becomes the current module; return whether it does."""
        places = edit.places(self.module)[start : start + size]
        try:
            candidate = edit.apply(self.module, places)
            if not self._new(candidate):
                return False
            verify(candidate)
        except (TileirError, AttributeError, KeyError, TypeError, ValueError):
            return False  # the edit yields no valid program
        self._spend()
        if not self.interesting(candidate):
            return False
        self.module = candidate
        self.accepted += 1
        if self.report is not None:
            progress = Progress(op_count(candidate), self.tried, self.accepted, edit.name)
            self.report(progress, candidate)
        return True

    def _new(self, candidate: Module) -> bool:
        """Whether `candidate` has not been tested yet, and can terminate."""
        if candidate is self.module or not all(map(can_end, candidate.functions.values())):
            return False
        digest = _digest(candidate)
        is_old = digest in self.seen
        self.seen.add(digest)
        return not is_old

    def _spend(self) -> None:
        is_over = self.ends is not None and time.monotonic() > self.ends
        if is_over or (self.tries is not None and self.tried >= self.tries):
            raise _StopError
        self.tried += 1


def _digest(module: Module) -> bytes:
    return hashlib.sha256(print_module(module).encode()).digest()
