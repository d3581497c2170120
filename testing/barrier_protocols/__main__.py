"""The command `python -m tileir.testing.barrier_protocols`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from tileir.testing.barrier_protocols.cases import cases
from tileir.testing.barrier_protocols.op_removal import Runner
from tileir.testing.barrier_protocols.redundant_ops import reason

_RUNNERS: list[Runner] = []
"""Compiled before processes are forked."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if a schedule fails or a removal survives."""
    parser = argparse.ArgumentParser(
        prog="python -m tileir.testing.barrier_protocols", description=__doc__
    )
    parser.add_argument("--schedules", type=int, default=20, help="orders of every kernel")
    parser.add_argument("--only", default="", help="part of the names of kernels")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    options = parser.parse_args(argv)
    _RUNNERS[:] = [Runner(case) for case in cases() if options.only in case.name]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        work = [_submit(pool, number, options.schedules) for number in range(len(_RUNNERS))]
        bad = [_report(runner, *w) for runner, w in zip(_RUNNERS, work, strict=True)]
    return min(sum(bad), 1)


def _submit(
    pool: ProcessPoolExecutor, number: int, schedules: int
) -> tuple[list[Future[str | None]], list[Future[bool]]]:
    orders = [pool.submit(_order, number, seed) for seed in range(schedules)]
    return orders, [
        pool.submit(_detects_removal, number, at) for at in range(len(_RUNNERS[number].sites))
    ]


def _order(number: int, seed: int) -> str | None:
    """The error of the schedule of `seed` for case `number`; None if there is none."""
    try:
        _RUNNERS[number].run(seed)
    except AssertionError as error:
        return f"order {seed}: {error}"
    return None


def _detects_removal(number: int, at: int) -> bool:
    return _RUNNERS[number].detects_removal(_RUNNERS[number].sites[at])


def _report(
    runner: Runner, orders: Sequence[Future[str | None]], removed: Sequence[Future[bool]]
) -> int:
    """Print the results of a kernel. Returns the number of failures and survivors."""
    name = runner.case.name
    wrong = [text for future in orders if (text := future.result()) is not None]
    quiet = [s for s, f in zip(runner.sites, removed, strict=True) if not f.result()]
    reasons = {site: reason(name, site.name) for site in quiet}
    survivors = [site for site, why in reasons.items() if why is None]
    lines = [
        f"{name}: right in {len(orders) - len(wrong)} of {len(orders)} orders; "
        f"{len(removed) - len(quiet)} of {len(removed)} removed ops detected, "
        f"{len(quiet) - len(survivors)} redundant",
        *wrong,
        *(f"{site.name}, {site.index}: {reasons[site] or 'not detected'}" for site in quiet),
    ]
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()
    return len(wrong) + len(survivors)


if __name__ == "__main__":
    sys.exit(main())
