"""Campaigns: passes are checked on generated programs for a limited time, and the totals are added
up.

    python -m tileir.testing.campaign PASS...|all [--seconds 60] [--programs N] [--jobs N]
                                      [--file docs/campaigns.json] [--failures build/failures]
    python -m tileir.testing.campaign all --out new.json        elsewhere: leave FILE as it is,
    python -m tileir.testing.campaign add new.json              and add up here

Every pass has its own numbered programs. A campaign continues where the last one in FILE ended, so
that totals can be added and no program is counted twice. `simt` runs programs on the SIMT
simulator, `cpu` on the CPU target, `executors` on both and after the default pipeline,
`roles-simt` matmuls for sm_90a on the simulator, `gpu-1`, `gpu-4` and `gpu-8` on a GPU; `random`
runs random pipelines, `default` the default one, `text` is malformed text; `all` is everything,
including a GPU if there is one. Each target has an equal share of the time, except for malformed
text (30 shares) and each of `gpu-N` (three). `--programs N` ends a target when its total is N, the
programs of earlier campaigns included; of `all`, `cpu` and `executors` have a tenth as many. Totals
are saved every few seconds and on SIGTERM. A failing program is reduced and written as `.tir` to
FAILURES; a program that ends its process is written unreduced. Its number stays in FILE until
`--retry` passes (with `--out`, until that file is added). The exit status is 1 while a failure is
open.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from tileir.passmanager import all_passes
from tileir.testing.checking import CPU, EXECUTORS, RANDOM, SIMT, TEXT
from tileir.testing.explore import Total, explore, run_in_processes
from tileir.testing.matmul_programs.checking import COPIES, SIMT as ROLES
from tileir.testing.policies import GPU, WARPS

_SLOWER_IN_ALL = {CPU: 10, EXECUTORS: 10}
"""The divisor of `--programs` for slow targets, if it is one number for all targets."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Returns 1 if a failure is open."""
    options = _parser().parse_args(arguments)
    totals = read(options.file)
    before = {name: total.programs for name, total in totals.items()}
    if options.targets[0] == "add":
        names = sorted({n for path in options.targets[1:] for n in add(totals, Path(path))})
        write(options.file, totals)
    else:
        names = targets() if options.targets == ["all"] else options.targets
        if options.targets == ["all"] and _has_gpu():
            names += GPU
        _run(names, totals, options)
    for name in names:
        more = totals[name].programs - before.get(name, 0)
        sys.stdout.write(f"{line(name, totals[name])}, {more:,} new\n")
    return int(any(totals[name].open for name in names))


def targets() -> list[str]:
    """The targets of campaigns except those that need a GPU."""
    importlib.import_module("tileir.backend")  # the import registers its passes
    return [
        *[p.name for p in all_passes()],
        "default",
        RANDOM,
        SIMT,
        *WARPS,
        ROLES,
        COPIES,
        CPU,
        EXECUTORS,
        TEXT,
    ]


def _has_gpu() -> bool:
    """Whether kernels can be launched. Another process tests it: processes that this one forks
    could not use a driver that this one has initialized."""
    program = "from tileir.backend.driver.device import available; raise SystemExit(available())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def read(path: Path) -> dict[str, Total]:
    """The totals by pass; empty if there is no file."""
    loads = json.loads(path.read_text()) if path.exists() else {}
    return {name: Total(**fields) for name, fields in loads.items()}


def write(path: Path, totals: dict[str, Total]) -> None:
    """Replace the file by the totals, ordered by name, with rounded seconds. If the process is
    killed meanwhile, the old file remains."""
    result: dict[str, Any] = {}
    for name, total in sorted(totals.items()):
        result[name] = attrs.asdict(attrs.evolve(total, seconds=round(total.seconds, 1)))
        if not total.closed:
            del result[name]["closed"]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def add(totals: dict[str, Total], path: Path) -> list[str]:
    """Add the totals of another file, and return their names. Totals that begin with the first
    program and cover more programs replace the old ones. Raises SystemExit if `path` does not
    continue `totals`, since programs would be left out or counted twice."""
    result = read(path)
    for name, more in result.items():
        total = totals.setdefault(name, Total())
        if more.first != total.programs and not _covers(more, total):
            raise SystemExit(
                f"{path}: {name} continues from program {more.first}, not from {total.programs}"
            )
    for name, more in result.items():
        if _covers(more, totals[name]):
            totals[name] = attrs.evolve(more, closed=[])
        else:
            totals[name].add(more)
    return list(result)


def _covers(more: Total, total: Total) -> bool:
    return more.first == 0 and more.programs >= total.programs


def line(name: str, total: Total) -> str:
    """The totals of a pass as text."""
    share = total.fired / max(1, total.programs)
    return (
        f"{name:18}{total.programs:9,} programs, fired on {share:4.0%}, "
        f"{total.discarded} discarded, {len(total.open)} open, {total.seconds:,.0f} s"
    )


def _run(names: list[str], totals: dict[str, Total], options: argparse.Namespace) -> None:
    """Add programs to `totals`, and save them: all of them in the file, or only the new ones in the
    file of `--out`."""
    closed = _retry(names, totals, options.failures) if options.retry else {}
    begun = {name: totals.setdefault(name, Total()).programs for name in names}
    result = {
        name: Total(first=first, closed=closed.get(name, [])) for name, first in begun.items()
    }

    def save() -> None:
        if options.out:
            write(options.out, result)
        else:
            both = {
                name: attrs.evolve(totals[name], open=dict(totals[name].open)) for name in result
            }
            for name, more in result.items():
                both[name].add(more)
            write(options.file, {**totals, **both})

    most = None
    if options.programs is not None:
        slower = _SLOWER_IN_ALL if options.targets == ["all"] else {}
        most = {name: options.programs // slower.get(name, 1) for name in names}
    explore(result, options.seconds, options.failures, most, options.jobs, save)
    for name, more in result.items():
        totals[name].add(more)


def _retry(names: list[str], totals: dict[str, Total], failures: Path) -> dict[str, list[str]]:
    """Check the open failures again, each in a process of its own: forked processes cannot use a
    driver that this one has initialized. Those that pass are removed, and returned."""
    closed: dict[str, list[str]] = {}
    for name in names:
        for number in list(totals[name].open) if name in totals else ():
            if not run_in_processes(name, int(number), 1, failures).open:
                del totals[name].open[number]
                closed.setdefault(name, []).append(number)
    return closed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "targets", nargs="+", help="passes, default, random, simt, cpu, executors, text; all; add"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the clock, for everything together"
    )
    parser.add_argument("--programs", type=int, help="end a target that has so many in total")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--file", type=Path, default=Path("docs/campaigns.json"))
    parser.add_argument("--out", type=Path, help="write what is new here and not to FILE")
    parser.add_argument("--failures", type=Path, default=Path("build/failures"))
    parser.add_argument("--retry", action="store_true", help="check open failures again first")
    return parser


if __name__ == "__main__":
    sys.exit(main())
