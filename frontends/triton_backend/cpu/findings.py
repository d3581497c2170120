"""What programs did wrong, written to the file that TILEIR_TRITON_FINDINGS names: a line of JSON
each, for `tileir check-triton`, which sees them although a program may go on."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from tileir.errors import TileirError


def record_finding(kernel: str, mode: str, error: TileirError) -> None:
    """Append the error of a launch of `kernel` to the file of findings."""
    path = os.environ.get("TILEIR_TRITON_FINDINGS", "")
    if not path:
        return
    for finding in error.diagnostics[:1]:
        place = finding.location
        line = {
            "kernel": kernel, "mode": mode, "code": finding.code, "message": finding.message,
            "file": place.file if place else None, "line": place.line if place else None,
            "column": place.column if place else None,
            "notes": [str(note) for note in finding.notes],
            "test": os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0],
        }  # fmt: skip
        with suppress(OSError), open(path, "a") as file:
            file.write(json.dumps(line) + "\n")
