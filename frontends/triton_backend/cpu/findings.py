"""Which kernels were checked and what they did wrong, written to the file of
TILEIR_TRITON_FINDINGS, a line of JSON each. `tileir check-triton` reads them even if a program
continues after an error."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from tileir.errors import TileirError


def record_kernel(kernel: str) -> None:
    """Append a kernel that is checked from its first launch on."""
    _append({"checked": kernel})


def record_finding(
    kernel: str, mode: str, error: TileirError, unwritten: Sequence[str] = ()
) -> None:
    """Append the error of a launch of `kernel` to the file of findings. `unwritten`: arguments of
    the launch that have elements without a value."""
    for finding in error.diagnostics[:1]:
        place = finding.location
        line = {
            "kernel": kernel, "mode": mode, "code": finding.code, "message": finding.message,
            "file": place.file if place else None, "line": place.line if place else None,
            "column": place.column if place else None,
            "notes": [*map(str, finding.notes), *_of_unwritten(finding.code, unwritten)],
            "test": os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0],
        }  # fmt: skip
        _append(line)


def _append(line: Mapping[str, Any]) -> None:
    path = os.environ.get("TILEIR_TRITON_FINDINGS", "")
    if path:
        with suppress(OSError), open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


def _of_unwritten(code: str, names: Sequence[str]) -> list[str]:
    """The possible origin of an undefined value."""
    if code not in UNDEFINED or not names:
        return []
    return [f"nothing was written to elements of {', '.join(names)} before the launch"]


UNDEFINED = ("TIR0503", "TIR0504", "TIR0505", "TIR0506")
"""Codes of errors about undefined addresses, masks, stored values and conditions."""
