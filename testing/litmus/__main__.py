"""The command `python -m tileir.testing.litmus`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.testing import litmus


def _printed(rows: Sequence[Mapping[str, Any]]) -> None:
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
    parser.add_argument("--only", default="", help="names of tests, between commas; `sums`: locks")
    parser.add_argument("--out", type=Path, help="a JSON file for the table")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; the exit status."""
    args = _parser().parse_args(arguments)
    only = [x for x in args.only.split(",") if x]
    unknown = set(only) - {p.stem for p in litmus.FOLDER.glob("*.tir")} - {"sums"}
    problem = _missing(args.on)
    if unknown or args.runs < 1 or (args.groups or 1) < 1 or args.launches < 0:
        problem = f"no test {', '.join(sorted(unknown))}" if unknown else "counts are positive"
    if problem is not None:
        print(f"litmus: {problem}", file=sys.stderr)
        return 2
    machine = executor(args.on)
    groups = args.groups or (64 if args.on == "gpu" else 2)
    rows: list[dict[str, Any]] = []
    print(f"{'program':20} {'outcome':12} {'count':>12}")
    try:
        for test in litmus.tests(only=only) if only != ["sums"] else ():
            result = litmus.table(test, litmus.outcomes(test, machine, args.runs, groups))
            _printed(result)
            rows += result
        if args.launches and (not only or "sums" in only):
            total, wrong = litmus.sums(machine, args.launches)
            result = [
                litmus.row("sums", "all right", total - wrong, True),
                litmus.row("sums", "wrong", wrong, False),
            ]
            _printed(result)
            rows += result
    except TileirError as error:
        print(f"litmus: {error}", file=sys.stderr)
        return 1
    if args.out:
        args.out.write_text(json.dumps({"on": args.on, "rows": rows}, indent=1) + "\n")
    return int(any(row["count"] and not row["allowed"] for row in rows))


def _missing(name: str) -> str | None:
    """Why nothing runs on the executor called `name`; None where it does."""
    if name == "gpu":
        from tileir.backend.driver.device import available  # needs the driver

        return available()
    try:
        executor(name)
    except (TileirError, KeyError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main())
