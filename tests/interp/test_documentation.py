"""The code of docs/explanation/interpreter.md runs, block after block, as a reader runs it."""

from __future__ import annotations

import re
from pathlib import Path

from tileir.error_codes import CODES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "interpreter.md"


def test_the_page_runs() -> None:
    names: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_its_codes_exist() -> None:
    assert set(re.findall(r"TIR\d{4}", PAGE.read_text())) <= CODES.keys()
