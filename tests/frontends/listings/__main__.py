"""Run every listing, and write the page about it.

    python -m tests.frontends.listings [--on interpreter,simt,cpu] [--only TEXT] [--jobs N]
    python -m tests.frontends.listings --on gpu --out FILE.json     elsewhere: only this file
    python -m tests.frontends.listings add FILE.json                and here: add what it says

From the root of a checkout, in as many processes as `--jobs` says. 1 where a listing does not give
what it has to.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from . import table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("add", nargs="*", help="`add` and files that --out wrote")
    parser.add_argument("--on", default="interpreter,simt,cpu", help="executors")
    parser.add_argument("--only", default="", help="listings with this in their name")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--out", type=Path, help="write what was found there, and nothing else")
    options = parser.parse_args(arguments)
    if options.add:
        command, *files = options.add
        if command != "add" or not files:
            parser.error(f"add FILE.json, not {' '.join(options.add)}")
        result, failed = _join([table.read(Path(f)) for f in files]), 0
    else:
        result, failed = _run(options.on.split(","), options.only, options.jobs)
    if options.out:
        table.write(result, options.out)
        return int(failed > 0)
    results = _join([table.read(), result])
    table.write(results)
    table.PAGE.write_text(table.page(results))
    return int(failed > 0)


def _run(executors: Sequence[str], only: str, jobs: int) -> tuple[table.Results, int]:
    """Cells by listing, and how many failed."""
    chosen = [i for i, listing in enumerate(table.LISTINGS) if only in listing.key]
    tasks = [(i, on) for on in executors for i in chosen]
    by_listing: table.Results = {}
    failed = 0
    # A GPU whose context is lost is lost for its process alone.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for (number, on), (text, seconds) in zip(
            tasks, pool.map(table.time_cell, tasks), strict=True
        ):
            listing = table.LISTINGS[number]
            failed += text != table.expected_text(listing, on)
            by_listing.setdefault(listing.key, {})[on] = text
            sys.stdout.write(f"{seconds:6.1f} s  {listing.key} on {on}: {text}\n")
            sys.stdout.flush()
    return by_listing, failed


def _join(parts: Sequence[table.Results]) -> table.Results:
    results: table.Results = {}
    for part in parts:
        for key, row in part.items():
            results.setdefault(key, {}).update(row)
    return results


if __name__ == "__main__":
    sys.exit(main())
