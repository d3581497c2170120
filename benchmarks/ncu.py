"""Nsight Compute: runs a program under `ncu`, and parses the metrics of its kernels.

`ncu` flushes caches before every kernel and between its passes, and does not change clocks.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SECTIONS = (
    "SpeedOfLight", "Occupancy", "LaunchStats", "WarpStateStats", "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis", "SchedulerStats",
)  # fmt: skip
METRICS = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", "smsp__inst_executed.sum",
    "sm__cycles_active.avg", "sm__cycles_elapsed.max",
)  # fmt: skip
"""Metrics that the sections may lack."""
UNITS = {
    "nsecond": 1e-3, "ns": 1e-3, "usecond": 1.0, "us": 1.0, "msecond": 1e3, "ms": 1e3,
    "second": 1e6, "s": 1e6, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip
"""The value of a unit in microseconds or bytes."""


class Kernel(NamedTuple):
    """A launch: the kernel's name, and its metrics by name."""

    name: str
    metrics: dict[str, float]


class Outcome(NamedTuple):
    """The kernels in the order of their launches, the output of the program, and the error if there
    was one."""

    kernels: list[Kernel]
    printed: str
    error: str | None


def command(ncu: str, log: Path, program: Iterable[str], unknown: Iterable[str] = ()) -> list[str]:
    """The command that runs `program` under `ncu`, without the metrics that this `ncu` does not
    know."""
    sections = [word for section in SECTIONS for word in ("--section", section)]
    metrics = [metric for metric in METRICS if metric not in set(unknown)]
    return [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(log),
        "--target-processes", "application-only", "--profile-from-start", "off",
        "--clock-control", "none", "--cache-control", "all", *sections,
        *(("--metrics", ",".join(metrics)) if metrics else ()), *program,
    ]  # fmt: skip


def run(
    ncu: str, program: list[str], environment: Mapping[str, str], seconds: float, unknown: set[str]
) -> Outcome:
    """Run `program` under `ncu` for at most `seconds`. Metrics that `ncu` does not know are added
    to `unknown`, and the program is run again without them. Failures of the program or of `ncu`
    raise no exception."""
    left_out = set(unknown)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        # Among processes with the same TMPDIR, ncu profiles only one at a time.
        words = command(ncu, log, program, left_out)
        status, printed = _communicate(words, {**environment, "TMPDIR": folder}, seconds)
        text = log.read_text(errors="replace") if log.exists() else ""
    kernels = parse(text)
    missing = unknown_metrics(text + printed) - left_out
    if missing and not kernels:
        unknown.update(missing)
        return run(ncu, program, environment, seconds, unknown)
    failed = None if status == 0 and kernels else _reason(status, text, printed)
    return Outcome(kernels, printed, failed)


def _communicate(words: list[str], environment: dict[str, str], seconds: float) -> tuple[int, str]:
    """The exit status and all output of a process. It is ended with its children after the time
    limit."""
    try:
        process = subprocess.Popen(
            words, env=environment, text=True, errors="replace", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as error:
        return 127, f"{words[0]}: {error}"
    try:
        printed, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        printed += f"\nended after {seconds:.0f} s"
        return 124, printed
    return process.returncode, printed


def _reason(status: int, text: str, printed: str) -> str:
    """The error of `ncu`, and the end of the program's output."""
    complaints = [
        line for line in text.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))
    ]
    return "\n".join((f"exit status {status}", *complaints[:10], *printed.splitlines()[-12:]))


def unknown_metrics(text: str) -> set[str]:
    """The `METRICS` that `ncu` reports as unknown."""
    named = re.findall(r"Failed to find metric (?:regex:)?\^?([\w.]+)", text)
    return {metric for name in named for metric in METRICS if metric.startswith(name.rstrip("."))}


def parse(text: str) -> list[Kernel]:
    """The launches in the output of `ncu --csv`. With `--page raw` it has a line of units and a
    line per launch, with a column per metric; otherwise it has a line per launch and metric.
    Metrics without a numeric value are left out."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = [line for line in lines[start:] if line.startswith('"')]
    rows = list(csv.DictReader(table))
    if rows and "Metric Name" in rows[0]:
        return _long(rows)
    return _wide(rows)


def _wide(rows: list[dict[str, str]]) -> list[Kernel]:
    units: dict[str, str] = {}
    kernels: list[Kernel] = []
    for row in rows:
        if not row["ID"]:
            units = row
            continue
        pairs = ((name, _number(value, units.get(name))) for name, value in row.items())
        kernels.append(Kernel(row["Kernel Name"], _present(pairs)))
    return kernels


def _long(rows: list[dict[str, str]]) -> list[Kernel]:
    kernels: dict[str, Kernel] = {}
    for row in rows:
        kernel = kernels.setdefault(row["ID"], Kernel(row["Kernel Name"], {}))
        value = _number(row["Metric Value"], row["Metric Unit"])
        kernel.metrics.update(_present([(row["Metric Name"], value)]))
    return list(kernels.values())


def _present(pairs: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    return {name: value for name, value in pairs if name and value is not None and "__" in name}


def _number(text: str | None, unit: str | None) -> float | None:
    """A value in the base unit of its kind; None if it is not a number."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value * UNITS.get((unit or "").split("/")[0], 1.0)
