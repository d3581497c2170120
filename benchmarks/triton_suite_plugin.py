"""A pytest plugin for `triton_suite.py`. It selects the cases, and writes a line of JSON for each
outcome.

Reads TRITON_SUITE_LOG, the file of outcomes, whose cases are not run again; TRITON_SUITE_EVERY, of
how many cases of a function one runs; and TRITON_SUITE_LIMIT, the seconds of a processor that a
case may take.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_LOG = Path(os.environ["TRITON_SUITE_LOG"])
_EVERY = int(os.environ.get("TRITON_SUITE_EVERY", "1"))
_LIMIT = int(os.environ.get("TRITON_SUITE_LIMIT", "60"))


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep every N-th case of each function, the first included, without those of the log."""
    lines = _LOG.read_text().splitlines() if _LOG.exists() else []
    logged = {json.loads(line)["case"] for line in lines}
    seen: Counter[str] = Counter()
    selected: list[Any] = []
    for item in items:
        function = item.nodeid.partition("[")[0]
        if seen[function] % _EVERY == 0 and item.nodeid not in logged:
            selected.append(item)
        seen[function] += 1
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Log that a case begins. If the process ends during the case, this is its last line."""
    _write({"case": item.nodeid, "outcome": "began"})
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_runtest_logreport(report: Any) -> None:
    """Log the outcome of a case: of its call, or of what was skipped or failed around it."""
    if report.when == "call" or report.outcome != "passed":
        line = {"case": report.nodeid, "outcome": report.outcome, "seconds": report.duration}
        if report.outcome == "failed":
            line["error"] = _error(report)
        _write(line)


def _error(report: Any) -> str:
    """The lines of the error itself, without the source around it."""
    text = str(report.longrepr)
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
    return "\n".join(lines or text.splitlines()[-3:])[:2000]


def _write(line: dict[str, Any]) -> None:
    with _LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _stop(number: int, frame: Any) -> None:
    raise TimeoutError(f"the case took more than {_LIMIT} seconds of a processor")
