"""The command `python -m tileir.testing.mutation`."""

from __future__ import annotations

import argparse
import functools
import hashlib
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from tileir.testing.mutation.areas import AREAS, every_judge, files, judges
from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome, attempt, preload
from tileir.testing.mutation.operators import mutants
from tileir.testing.mutation.reach import Suite, reach, suites_for
from tileir.testing.mutation.results import MutationResults

_NAMES = {"seeded": "tests/mutation/seeded.tsv", "mutants": "tests/mutation/results.tsv"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested changes. Returns 0 if tests detected every one of them."""
    options = _parser().parse_args(arguments)
    if options.what == "add":
        results = MutationResults(options.results or Path(_NAMES["mutants"]))
        print(f"{sum(results.merge(Path(name)) for name in options.areas)} lines are new")
        return 0
    results = MutationResults(options.results or options.root / _NAMES[options.what], options.out)
    changes = _planted_bugs(options) if options.what == "seeded" else _mutants(options, results)
    todo = [c for c in changes if _open(c, results, options.retry)]
    print(f"{len(changes)} changes, {len(changes) - len(todo)} known", file=sys.stderr)
    if todo:
        _run(todo, results, options)
    return _report(changes, results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tileir.testing.mutation", description=__doc__)
    parser.add_argument("what", choices=("seeded", "mutants", "add"))
    parser.add_argument("areas", nargs="*", help=f"{', '.join(AREAS)}, elsewhere, or files")
    parser.add_argument("--sample", type=int, help="so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--fresh", action="store_true", help="draw from lines not in RESULTS")
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at the same time")
    parser.add_argument("--minutes", type=float, help="stop after so long; run again to go on")
    parser.add_argument("--seconds", type=float, default=300.0, help="of tests for one change")
    parser.add_argument("--retry", action="store_true", help="only what survived, by any tests")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository")
    parser.add_argument("--results", type=Path, help="default: a file in tests/mutation")
    parser.add_argument("--out", type=Path, help="write what is new here and not to RESULTS")
    parser.add_argument("--reach", type=Path, help="default: build/reach.json")
    return parser


def _open(change: Change, results: MutationResults, retry: bool) -> bool:
    """Whether to try a change: it has no result, or, with `retry`, it survived in RESULTS."""
    if retry:
        return results.before(change.key) == "survived" and not results.since(change.key)
    return change.key not in results


def _planted_bugs(options: argparse.Namespace) -> list[Change]:
    from tileir.testing.mutation.seeded import changes

    named = {f for area in options.areas for f in _files(area, options.root)}
    return [c for c in changes(options.root) if not named or c.file in named]


def _mutants(options: argparse.Namespace, results: MutationResults) -> list[Change]:
    names = [f for area in options.areas or AREAS for f in _files(area, options.root)]
    result = [c for f in names for c in mutants(f, (options.root / f).read_text())]
    if options.fresh:
        seen = {(c.file, c.line) for c in result if results.before(c.key)}
        result = [c for c in result if (c.file, c.line) not in seen]
    return sorted(result, key=lambda c: _place_in(options.seed, c))[: options.sample]


def _place_in(draw: int, change: Change) -> bytes:
    """The position of a change in a random sample. It does not depend on other changes."""
    return hashlib.sha256(f"{draw} {change.key}".encode()).digest()


def _files(area: str, root: Path) -> list[str]:
    return [area] if area.endswith(".py") else files(area, root)


def _run(todo: Sequence[Change], results: MutationResults, options: argparse.Namespace) -> None:
    preload()
    ends = time.monotonic() + 60 * options.minutes if options.minutes else None
    judging = _judging(options)
    tests = {t: None for c in todo if not c.tests for t in judging(c)}
    cache = options.reach or Path("build/reach.json")
    suites = reach(options.root, tests, options.jobs, cache, ends)
    if missing := len(tests.keys() - suites.keys()):
        print(f"{missing} tests are not watched yet: run again to go on", file=sys.stderr)
        return
    for suite in suites.values():
        if suite.tests in tests and not suite.passed:
            print(f"left out, since it fails without any change: {suite.tests}", file=sys.stderr)
    one = functools.partial(_try, root=options.root, ends=ends)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        changes: dict[Future[Outcome | None], Change] = {}
        for change in todo:
            judging_change = () if change.tests else judging(change)
            named = _tests_and_limit(change, judging_change, suites, options)
            changes[pool.submit(one, change, *named)] = change
        while changes:
            for future in wait(changes, return_when=FIRST_COMPLETED).done:
                change, outcome = changes.pop(future), future.result()
                if outcome is not None:
                    results.add(change, outcome)
                    print(
                        f"{outcome.status:8} {outcome.seconds:6.1f} s  {_place(change)}", flush=True
                    )


def _judging(options: argparse.Namespace) -> Callable[[Change], tuple[str, ...]]:
    """A function that returns the tests for a change: those of its area, or, for changes that
    survived these, all tests."""
    if options.retry:
        every = every_judge(options.root)
        return lambda change: every
    return lambda change: judges(change.file, options.root)


def _tests_and_limit(
    change: Change, judging: tuple[str, ...], suites: dict[str, Suite], options: argparse.Namespace
) -> tuple[tuple[str, ...], float]:
    """The tests for a change, as many as fit into the time for one change; and their time limit:
    three times the time that they take without a change, plus 20 seconds."""
    if change.tests:
        return change.tests, options.seconds
    names: list[str] = []
    needed = 0.0
    for suite in suites_for(change, judging, suites):
        if names and needed + suite.seconds > options.seconds:
            break
        names.append(suite.tests)
        needed += suite.seconds
    return tuple(names), 3 * needed + 20


def _try(
    change: Change, tests: Sequence[str], limit: float, root: Path, ends: float | None
) -> Outcome | None:
    if ends is not None and time.monotonic() > ends:
        return None
    return attempt(change, root, tests, limit)


def _report(changes: Sequence[Change], results: MutationResults) -> int:
    judged_changes = [c for c in changes if c.key in results]
    counts = Counter(results[c.key] for c in judged_changes)
    living = [c for c in judged_changes if results[c.key] == "survived"]
    non_equivalent = len(judged_changes) - counts["equivalent"]
    score = 100 * (non_equivalent - len(living)) / non_equivalent if non_equivalent else 0.0
    for change in living:
        print(f"survived: {_place(change)}")
    print(f"{len(judged_changes)} of {len(changes)} run: {dict(counts)}, {score:.1f} % detected")
    return 1 if living else 0


def _place(change: Change) -> str:
    return f"{change.file}:{change.line} {change.name}"


if __name__ == "__main__":
    sys.exit(main())
