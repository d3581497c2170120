"""Checking passes on generated programs for as long as it is given, and adding up the totals.

    python -m tileir.testing.campaign PASS|all [--minutes 1] [--file docs/campaigns.json]
                                      [--failures build/failures]

Every pass has its own numbered programs; a campaign goes on where the last one in FILE ended, so
totals add up and no program is counted twice. `simt` runs programs by the backend's threads,
`random` sends them through random pipelines, `default` through the default one; `all` shares the
time among everything. A failing program is made smaller and written as `.tir` to FAILURES, and
its number stays in FILE until `--retry` finds it mended. The exit code is 1 while one is open.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import attrs

from tileir.passmanager import all_passes
from tileir.testing.checking import RANDOM, SIMT, Case, Verdict, case, check
from tileir.testing.shrinking import shrink

_MOST_OPEN = 5
"""Open failures of a pass after which its campaign stops."""


@attrs.define
class Total:
    """What is known of one pass; `open` maps numbers of failing programs to what was wrong."""

    programs: int = 0
    fired: int = 0
    discarded: int = 0
    seconds: float = 0.0
    open: dict[str, str] = attrs.field(factory=dict[str, str])

    def add(self, made: Case, verdict: Verdict) -> None:
        """Count one more program."""
        self.programs += 1
        self.fired += verdict.fired
        self.discarded += verdict.discarded
        if verdict.failure is not None:
            self.open[str(made.seed)] = verdict.failure.splitlines()[0][:200]


def main() -> int:
    """Run what the command line asks for; 1 where a failure is open."""
    options = _options()
    totals = read(options.file)
    names = targets() if options.target == "all" else [options.target]
    for name in names:
        total = totals.setdefault(name, Total())
        if options.retry:
            _retry(name, total)
        explore(name, total, 60 * options.minutes / len(names), options.failures)
        write(options.file, totals)
        sys.stdout.write(line(name, total) + "\n")
    return int(any(totals[name].open for name in names))


def targets() -> list[str]:
    """Everything a campaign can be about."""
    importlib.import_module("tileir.backend")  # registers its passes
    return [*[p.name for p in all_passes()], "default", RANDOM, SIMT]


def explore(name: str, total: Total, seconds: float, failures: Path) -> None:
    """Check the next programs of `name` until the time is over or too many have failed."""
    start = monotonic()
    while monotonic() - start < seconds and len(total.open) < _MOST_OPEN:
        made = case(name, total.programs)
        verdict = check(made)
        total.add(made, verdict)
        if verdict.failure is not None:
            _keep(made, failures)
    total.seconds = round(total.seconds + monotonic() - start, 1)


def _keep(made: Case, failures: Path) -> None:
    """Write a small program that fails."""
    from tileir.textual import print_module

    def fails(statements: Any) -> bool:
        return check(attrs.evolve(made, statements=tuple(statements))).failure is not None

    small = attrs.evolve(made, statements=tuple(shrink(list(made.statements), fails)))
    text = f"; {made.name}, program {made.seed}: {check(small).failure}".splitlines()[0]
    failures.mkdir(parents=True, exist_ok=True)
    path = failures / f"{made.name}-{made.seed}.tir"
    path.write_text(f"{text}\n{print_module(small.program.module)}")
    sys.stdout.write(f"{path}: {text[2:]}\n")


def _retry(name: str, total: Total) -> None:
    """Check again what failed; forget what no longer does."""
    for number in list(total.open):
        if check(case(name, int(number))).failure is None:
            del total.open[number]


def read(path: Path) -> dict[str, Total]:
    """Totals by pass, none where there is no file."""
    known = json.loads(path.read_text()) if path.exists() else {}
    return {name: Total(**fields) for name, fields in known.items()}


def write(path: Path, totals: dict[str, Total]) -> None:
    """Keep the totals, in the order of their names."""
    made = {name: attrs.asdict(total) for name, total in sorted(totals.items())}
    path.write_text(json.dumps(made, indent=1) + "\n")


def line(name: str, total: Total) -> str:
    """A pass's totals in words."""
    share = total.fired / max(1, total.programs)
    return (
        f"{name:18}{total.programs:9,} programs, fired on {share:4.0%}, "
        f"{total.discarded} discarded, {len(total.open)} open, {total.seconds:,.0f} s"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", help="a pass, `default`, `random`, `simt`, or `all`")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--file", type=Path, default=Path("docs/campaigns.json"))
    parser.add_argument("--failures", type=Path, default=Path("build/failures"))
    parser.add_argument("--retry", action="store_true", help="check open failures again first")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
