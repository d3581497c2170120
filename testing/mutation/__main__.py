"""The command."""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tileir.testing.mutation.areas import AREAS, files, judges
from tileir.testing.mutation.change import Change
from tileir.testing.mutation.fork import Outcome, attempt, preload
from tileir.testing.mutation.operators import mutants
from tileir.testing.mutation.results import Results

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the changes asked for; 0 if every one of them was noticed."""
    options = _parser().parse_args(arguments)
    changes = _seeded() if options.what == "seeded" else _mutants(options)
    name = "seeded" if options.what == "seeded" else "results"
    results = Results(ROOT / (options.results or f"tests/mutation/{name}.tsv"))
    todo = [c for c in changes if c.key not in results]
    print(f"{len(changes)} changes, {len(changes) - len(todo)} known", file=sys.stderr)
    _run(todo, results, options)
    return _report(changes, results)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tileir.testing.mutation", description=__doc__)
    parser.add_argument("what", choices=("seeded", "mutants"))
    parser.add_argument("areas", nargs="*", help=f"{', '.join(AREAS)}, elsewhere, or files")
    parser.add_argument("--sample", type=int, help="so many mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="changes tried at the same time")
    parser.add_argument("--minutes", type=float, help="stop after so long; run again to go on")
    parser.add_argument("--results", help="default: tests/mutation/seeded.tsv or results.tsv")
    return parser


def _seeded() -> list[Change]:
    from tileir.testing.mutation.seeded import changes

    return changes(ROOT)


def _mutants(options: argparse.Namespace) -> list[Change]:
    names = [f for area in options.areas or AREAS for f in _files(area)]
    found = [c for f in names for c in mutants(f, (ROOT / f).read_text())]
    if options.sample and options.sample < len(found):
        found = random.Random(options.seed).sample(found, options.sample)
    return found


def _files(area: str) -> list[str]:
    return [area] if area.endswith(".py") else files(area, ROOT)


def _run(todo: Sequence[Change], results: Results, options: argparse.Namespace) -> None:
    preload()
    ends = time.monotonic() + 60 * options.minutes if options.minutes else None
    limits = _limits({_judges(c) for c in todo})
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        one = functools.partial(_try, ends=ends, limits=limits)
        for change, outcome in zip(todo, pool.map(one, todo), strict=True):
            if outcome is not None:
                results.add(change, outcome)
                print(f"{outcome.status:8} {outcome.seconds:6.1f} s  {_place(change)}", flush=True)


def _limits(chosen: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], float]:
    """Seconds that tests may take: three times what they need without a change, and 20."""
    found: dict[tuple[str, ...], float] = {}
    for names in chosen:
        plain = attempt(None, ROOT, names, 3600)
        if plain.noticed:
            raise SystemExit(f"these tests fail without any change: {' '.join(names)}")
        found[names] = 3 * plain.seconds + 20
    return found


def _try(
    change: Change, ends: float | None, limits: dict[tuple[str, ...], float]
) -> Outcome | None:
    if ends is not None and time.monotonic() > ends:
        return None
    return attempt(change, ROOT, _judges(change), limits[_judges(change)])


def _judges(change: Change) -> tuple[str, ...]:
    return change.tests or judges(change.file)


def _report(changes: Sequence[Change], results: Results) -> int:
    known = [c for c in changes if c.key in results]
    counts = Counter(results[c.key] for c in known)
    living = [c for c in known if results[c.key] == "survived"]
    judged = len(known) - counts["equivalent"]
    score = 100 * (judged - len(living)) / judged if judged else 0.0
    for change in living:
        print(f"survived: {_place(change)}")
    print(f"{len(known)} of {len(changes)} run: {dict(counts)}, {score:.1f} % noticed")
    return 1 if living else 0


def _place(change: Change) -> str:
    return f"{change.file}:{change.line} {change.name}"


if __name__ == "__main__":
    sys.exit(main())
