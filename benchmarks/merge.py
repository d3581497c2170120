"""Merge rows measured elsewhere into `benchmarks/results`.

    python benchmarks/merge.py COMMIT NEW.json ...

Rows of NEW.json replace those of the same problem in `benchmarks/results/NEW.json`, and rows of new
problems are appended. Each row names the COMMIT that it was measured on. The other fields of the
file are NEW's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PROBLEM = (
    "name", "shape", "sizes", "dtype", "type", "problem", "size", "kind", "d", "group", "causal",
    "t", "task", "row",
)  # fmt: skip
"""Fields that identify the problem of a row."""


def merge_rows(old: dict[str, Any], new: dict[str, Any], commit: str) -> dict[str, Any]:
    """`old` with the rows of `new`, which were measured on `commit`."""
    rows = "rows" if "rows" in new else "lines"
    by_problem = {problem(row): row for row in old[rows]}
    before = old.get("commit") or old.get("device", {}).get("commit")
    for row in by_problem.values():
        row.setdefault("commit", before)
    by_problem |= {problem(row): {**row, "commit": commit} for row in new[rows]}
    return {**new, "commit": commit, rows: list(by_problem.values())}


def problem(row: dict[str, Any]) -> str:
    """The problem of a row, as text."""
    return json.dumps({field: row[field] for field in PROBLEM if field in row})


def main() -> int:
    """Merge files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    for file in options.files:
        path, new = RESULTS / file.name, json.loads(file.read_text())
        old = json.loads(path.read_text()) if path.exists() else {**new, "rows": [], "lines": []}
        path.write_text(json.dumps(merge_rows(old, new, options.commit), indent=1) + "\n")
        print(f"{file.name}: {len(new.get('rows', new.get('lines')))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
