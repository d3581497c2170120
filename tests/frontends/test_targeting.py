"""The page a compiler author reads first: its language is whole, and runs as printed."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "targeting-tileir.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_the_page_runs(tmp_path: Path) -> None:
    program = tmp_path / "rows.py"
    program.write_text("\n".join(BLOCKS))
    runpy.run_path(str(program))


def test_the_language_needs_the_library_and_the_builder_alone() -> None:
    """Its compiler; what looks at modules and errors afterwards stands further down."""
    compiler = "\n".join(BLOCKS[:4])
    imported = {
        node.module
        for node in ast.walk(ast.parse(compiler))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tileir")
    }
    assert imported == {"tileir", "tileir.builder", "tileir.errors", "tileir.executor"}
