"""Rows measured elsewhere into `benchmarks/results`.

    python benchmarks/merge.py COMMIT NEW.json ...

Rows of NEW.json take the place of those of the same problem in `benchmarks/results/NEW.json`, new
ones come behind; each says which COMMIT it was measured on. What stands beside the rows is NEW's.
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
"""Fields that say what a row is about."""


def merged(known: dict[str, Any], new: dict[str, Any], commit: str) -> dict[str, Any]:
    """`known` with the rows of `new`, which were measured on `commit`."""
    rows = "rows" if "rows" in new else "lines"
    found = {problem(row): row for row in known[rows]}
    before = known.get("commit") or known.get("device", {}).get("commit")
    for row in found.values():
        row.setdefault("commit", before)
    found |= {problem(row): {**row, "commit": commit} for row in new[rows]}
    return {**new, "commit": commit, rows: list(found.values())}


def problem(row: dict[str, Any]) -> str:
    """What a row is about."""
    return json.dumps({field: row[field] for field in PROBLEM if field in row})


def main() -> int:
    """Merge files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    for file in options.files:
        path, new = RESULTS / file.name, json.loads(file.read_text())
        known = json.loads(path.read_text()) if path.exists() else {**new, "rows": [], "lines": []}
        path.write_text(json.dumps(merged(known, new, options.commit), indent=1) + "\n")
        print(f"{file.name}: {len(new.get('rows', new.get('lines')))} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
