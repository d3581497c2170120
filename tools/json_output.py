"""`--json PATH`: write the table that a command prints as JSON."""

from __future__ import annotations

from typing import Any

from tileir.tools.files import write_file


def add_json(group: Any, what: str) -> None:
    """Declare `--json`. `what` describes the value that is written."""
    group.add_argument(
        "--json", metavar="PATH", help=f"write {what} as JSON; - replaces the output by JSON"
    )


def write_json(path: str | None, value: Any) -> None:
    """Write `value` to the `path` of `--json`, if it is not None. Raises ToolError (TIR0905)."""
    if path is not None:
        import json

        write_file(path, (json.dumps(value, indent=1) + "\n").encode())
