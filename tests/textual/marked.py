"""Texts with `§` where an error stands; it is taken out before the text is read."""

from __future__ import annotations

import pytest

from tileir.errors import TileirError
from tileir.textual import parse


def check(code: str, marked: str, dialect: str = "tir") -> None:
    """Reading `marked` without its mark reports `code` first, at the mark."""
    before = marked.index("§")
    text = marked.replace("§", "")
    with pytest.raises(TileirError) as caught:
        parse(text, "x.tir", dialect=dialect)
    line = marked.count("\n", 0, before) + 1
    column = before - marked.rfind("\n", 0, before)
    first = caught.value
    assert (first.code, first.line, first.column) == (code, line, column), str(first)
    assert first.diagnostics[0].location is not None
    assert first.diagnostics[0].location.file == "x.tir"
