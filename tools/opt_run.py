"""Execution of a pipeline for `tileir-opt`, with the requested output about passes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from tileir.errors import PassError
from tileir.ir import Module
from tileir.passmanager import CrashError, Observer, StepRecord, lookup, run
from tileir.passmanager.printing import Printing
from tileir.passmanager.reproducer import Reproducing
from tileir.textual import print_module
from tileir.tools.files import write_file
from tileir.tools.json_output import write_json
from tileir.tools.remarks import render_remarks


def run_pipeline(
    module: Module, pipeline: str, options: argparse.Namespace
) -> tuple[Module, list[object]]:
    """Run `pipeline` on `module`; return the result and the remarks, and print what `options`
    request."""
    try:
        result = run(
            module, pipeline, verify=not options.no_verify, observers=observers_of(options)
        )
    except CrashError:
        if not options.reproducer:
            sys.stderr.write("--reproducer FILE writes the module and the pass that failed on it\n")
        raise
    report(result.records, options)
    if options.remarks:
        sys.stderr.write(render_remarks(result.remarks))
    return result.module, list(result.remarks)


def report(records: Sequence[StepRecord], options: argparse.Namespace) -> None:
    """Print the tables of `records` that `options` request."""
    if options.timing:
        sys.stderr.write(timing(records))
    if options.stats:
        sys.stderr.write(statistics(records))
    tables: dict[str, Any] = {}
    if options.timing:
        tables["timing"] = [
            {"pass": name, "seconds": seconds, "verifying": verifying}
            for name, (seconds, verifying) in _seconds(records)
        ]
    if options.stats:
        tables["statistics"] = [
            {"pass": name, "counted": what, "count": number}
            for (name, what), number in _counts(records).items()
        ]
    write_json(options.json, tables)


def _seconds(records: Sequence[StepRecord]) -> list[tuple[str, list[float]]]:
    """The seconds per pass, for the pass itself and for verifying its result; the slowest pass
    first."""
    spent: dict[str, list[float]] = {}
    for record in records:
        row = spent.setdefault(str(record.step.node), [0.0, 0.0])
        row[0] += record.seconds
        row[1] += record.verifying
    return sorted(spent.items(), key=lambda item: -item[1][0])


def timing(records: Sequence[StepRecord]) -> str:
    """A table of milliseconds per pass, the slowest first."""
    spent = _seconds(records)
    total = sum(sum(pair) for _, pair in spent)
    lines = [f"{'ms':>9} {'verify':>9}  pass"]
    for name, (seconds, verifying) in spent:
        lines.append(f"{seconds * 1e3:9.2f} {verifying * 1e3:9.2f}  {name}")
    return "\n".join([*lines, f"{total * 1e3:9.2f} {'':9}  all", ""])


def _counts(records: Sequence[StepRecord]) -> dict[tuple[str, str], int]:
    """The statistics of passes by pass and name, summed over functions."""
    counts: dict[tuple[str, str], int] = {}
    for record in records:
        for what, number in record.statistics.items():
            key = (str(record.step.node), what)
            counts[key] = counts.get(key, 0) + number
    return counts


def statistics(records: Sequence[StepRecord]) -> str:
    """The statistics of passes, summed over functions, as text."""
    counts = _counts(records).items()
    return "".join(f"{number:8} {name}: {what}\n" for (name, what), number in counts)


def observers_of(options: argparse.Namespace) -> Sequence[Observer]:
    """The observers that print modules, and those that save modules on which a pass fails, as
    `options` request. Raises PassError for an unknown pass."""
    observers: list[Observer] = []
    for name in (*options.print_before, *options.print_after):
        _check_pass(name)
    before = None if options.print_before_all else frozenset(options.print_before)
    after = None if options.print_after_all else frozenset(options.print_after)
    if before != frozenset() or after != frozenset() or options.print_changed:
        write: Any = sys.stderr.write
        observers.append(Printing(print_module, write, before, after, options.print_changed))
    if options.reproducer:
        observers.append(Reproducing(lambda module: _save(module, options.reproducer)))
    return observers


def _check_pass(name: str) -> None:
    try:
        lookup(name)
    except PassError:
        from tileir.backend.pipeline_passes import stage_names

        if name not in stage_names():
            raise


def _save(module: Module, path: str) -> None:
    write_file(path, print_module(module).encode())
    sys.stderr.write(f"wrote {path}; replay it with: tileir-opt --run-reproducer {path}\n")
