"""The command `python -m tileir.testing.litmus`."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tileir.errors import TileirError
from tileir.executor import Executor, executor
from tileir.testing import litmus

LOCKS = "locks"
"""The name of the table of rows accumulated under locks."""
GPU_GROUPS = 256
"""Groups of a launch on a GPU: of two to four program instances each, which run at the same time
on an H100 or H200."""


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        word = "allowed" if row["allowed"] else "forbidden"
        mark = "  <-- must not occur" if row["count"] and not row["allowed"] else ""
        print(
            f"{row['program']:20} {row['outcome']:12} {row['count']:>12,}  {word}{mark}", flush=True
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tileir.testing.litmus")
    parser.add_argument("--on", default="gpu", help="an executor: gpu, interpreter, simt, cpu")
    parser.add_argument("--runs", type=int, default=1_000_000, help="of every test, at least")
    parser.add_argument("--groups", type=int, help="of instances in one launch")
    parser.add_argument(
        "--launches", type=int, default=litmus.LAUNCHES, help="of the kernel with locks"
    )
    parser.add_argument("--only", default="", help="names of tests, between commas")
    parser.add_argument("--out", type=Path, help="a JSON file for the table, which is continued")
    parser.add_argument("--fresh", action="store_true", help="run what is in that file, too")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="after which no more test begins"
    )
    return parser


@attrs.define
class LitmusTable:
    """Rows by test, in the order of the tests, and the seconds that each test took."""

    on: str
    runs: int
    rows: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict[str, list[dict[str, Any]]])
    seconds: dict[str, float] = attrs.field(factory=dict[str, float])

    def read(self, path: Path) -> None:
        """Reuse the tests of a file that have as many runs on the same executor."""
        stored = json.loads(path.read_text())
        if stored["on"] != self.on or stored.get("runs", 0) < self.runs:
            return
        for row in stored["rows"]:
            self.rows.setdefault(row["program"], []).append(row)
        self.seconds.update(stored.get("seconds", {}))

    def write(self, path: Path) -> None:
        """Replace the file."""
        rows = [row for name in sorted(self.rows) for row in self.rows[name]]
        table = {"on": self.on, "runs": self.runs, "seconds": self.seconds, "rows": rows}
        part = path.with_suffix(".part")
        part.write_text(json.dumps(table, indent=1) + "\n")
        part.replace(path)

    @property
    def any_forbidden(self) -> bool:
        """Whether a forbidden outcome occurred."""
        every = (row for rows in self.rows.values() for row in rows)
        return any(row["count"] and not row["allowed"] for row in every)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; the exit status."""
    args = _parser().parse_args(arguments)
    only = [x for x in args.only.split(",") if x]
    unknown = set(only) - {p.stem for p in litmus.FOLDER.glob("*.tir")} - {LOCKS}
    problem = _missing(args.on)
    if unknown or args.runs < 1 or (args.groups or 1) < 1 or args.launches < 0:
        problem = f"no test {', '.join(sorted(unknown))}" if unknown else "counts are positive"
    if problem is not None:
        print(f"litmus: {problem}", file=sys.stderr)
        return 2
    table = LitmusTable(args.on, args.runs)
    if args.out and args.out.exists() and not args.fresh:
        table.read(args.out)
    machine = executor(args.on)
    groups = args.groups or (GPU_GROUPS if args.on == "gpu" else 2)
    print(f"{'program':20} {'outcome':12} {'count':>12}")
    ends, left = time.monotonic() + args.seconds, 0
    try:
        for name, work in _tests(only, args, machine, groups):
            if name in table.rows:
                continue
            if time.monotonic() > ends:
                left += 1
                continue
            start = time.monotonic()
            table.rows[name] = work()
            table.seconds[name] = round(time.monotonic() - start, 2)
            _print_rows(table.rows[name])
            if args.out:
                table.write(args.out)
    except TileirError as error:
        print(f"litmus: {error}", file=sys.stderr)
        return 1
    if left:
        print(f"litmus: the time is over, {left} left", file=sys.stderr)
    return 1 if table.any_forbidden else 3 if left else 0


def _tests(
    only: Sequence[str], args: argparse.Namespace, machine: Executor, groups: int
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Yield the requested tests by name, each with a function that returns its rows."""
    for test in litmus.tests(only=only) if only != [LOCKS] else ():
        run = partial(litmus.outcomes, test, machine, args.runs, groups)
        yield test.name, lambda test=test, run=run: litmus.table(test, run())
    if args.launches and (not only or LOCKS in only):
        yield LOCKS, partial(_lock_rows, machine, args.launches)


def _lock_rows(machine: Executor, launches: int) -> list[dict[str, Any]]:
    total, wrong = litmus.locked_accumulation(machine, launches)
    return [
        litmus.row(LOCKS, "all right", total - wrong, True),
        litmus.row(LOCKS, "wrong", wrong, False),
    ]


def _missing(name: str) -> str | None:
    """The reason why the executor called `name` cannot run here; None if it can."""
    if name == "gpu":
        from tileir.backend.driver.device import available  # needs the CUDA driver

        return available()
    try:
        executor(name)
    except (TileirError, KeyError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
