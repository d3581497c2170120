"""The code of each frontend's page runs, as one program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference" / "frontends"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.stem not in ("listings", "index"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_page_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    assert blocks
    program = tmp_path / f"{page.stem}_page.py"
    program.write_text("\n".join(blocks))
    runpy.run_path(str(program))


def test_there_is_a_page_for_every_frontend() -> None:
    folder = PAGES[0].parents[3] / "frontends"
    names = {p.name for p in folder.iterdir() if (p / "__init__.py").exists()}
    guides = {"triton_backend": "how-to/triton-users.md"}
    assert all((FOLDER.parents[1] / guide).exists() for guide in guides.values())
    assert names == {p.stem for p in PAGES} | set(guides)
