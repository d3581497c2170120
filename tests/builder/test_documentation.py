"""The code of docs/reference/builder.md runs, block after block, as its reader would run it."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "builder.md"


def test_the_page_runs() -> None:
    text = PAGE.read_text()
    names: dict[str, object] = {"__name__": "page"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert len(blocks) > 10
    for block in blocks:
        before = text[: block.start(1)].count("\n")
        exec(compile("\n" * before + block[1], str(PAGE), "exec"), names)
