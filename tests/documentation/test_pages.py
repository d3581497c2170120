"""Tutorials and how-to guides run as printed, from top to bottom."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.documentation.commands import environment
from tests.documentation.pages import Block, PageError, Reader, blocks
from tileir.backend.options import Options

NAME = re.compile(r"`(\w+)[^`]*`")
ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TUTORIALS = ("first-frontend", "first-kernel", "first-pass")
EXTENSIONS = ("add-an-op", "add-a-pass", "add-a-target", "add-a-lowering-rule")
"""Guides that change the tree: `.ci/how-to` follows them on copies of it."""
LONG = ("debug-a-wrong-result",)
GUIDES = (
    "read-a-report", "make-a-kernel-fast", "compile-ahead-of-time", "tune-a-kernel",
    "run-without-a-gpu",
)  # fmt: skip

NOT_FOLLOWED = {
    "run-the-tests",  # its commands are the tests
    "targeting-tileir",  # tests/frontends/test_targeting.py
    "triton-users",  # needs Triton
}


def follow(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Somebody who has done what `page` says, in a folder that holds the examples."""
    start = folder / "work"
    start.mkdir()
    (start / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(start)
    reader = Reader(start, environment(ROOT, folder / "user"))
    reader.read(page)
    return reader


@pytest.mark.parametrize(
    "name", [TUTORIALS[0], *(pytest.param(n, marks=pytest.mark.slow) for n in TUTORIALS[1:])]
)
def test_a_tutorial_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(DOCS / "tutorials" / f"{name}.md", tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_guide_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(DOCS / "how-to" / f"{name}.md", tmp_path, monkeypatch).commands


@pytest.mark.slow
@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(DOCS / "how-to" / f"{name}.md", tmp_path, monkeypatch).commands


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTENSIONS)
def test_a_guide_that_extends_tileir_works_on_a_copy_of_the_tree(name: str) -> None:
    run = subprocess.run(
        [sys.executable, ROOT / ".ci" / "how-to", name], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.match(rf"{name}: \d places by hand: ", run.stdout)


@pytest.mark.parametrize("name", EXTENSIONS)
def test_fragments_of_the_example_package_stand_in_its_files(name: str) -> None:
    package = ROOT / "examples" / "plugin_package"
    files = [*package.glob("acme_tileir/*.py"), package / "pyproject.toml"]
    texts = [re.sub(r"\n\n+# .*", "", path.read_text()) for path in files]
    fragments = [b for b in blocks(DOCS / "how-to" / f"{name}.md") if b.verb == "shown"]
    assert fragments
    for block in fragments:
        for part in block.text.strip().split("\n\n[project."):
            assert any(part in text for text in texts), part


def test_every_page_is_followed() -> None:
    followed = {*TUTORIALS, *LONG, *GUIDES, *EXTENSIONS}
    pages = {p.stem for f in ("tutorials", "how-to") for p in (DOCS / f).glob("*.md")}
    assert pages - followed <= NOT_FOLLOWED


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


WRONG = {
    "a command that fails": "```sh\nfalse\n```\n",
    "a command that does not fail": "<!-- fails -->\n```sh\ntrue\n```\n",
    "python that raises": "```python\nassert False\n```\n",
    "text that is no module": "```llvm\ntir 1.0\n\n\n```\n",
    "output that was not printed": "```sh\necho one\n```\n\n<!-- output -->\n```text\ntwo\n```\n",
    "output in another order": (
        "```sh\nprintf '1\\n2\\n'\n```\n\n<!-- output -->\n```text\n2\n1\n```\n"
    ),
    "an unknown comment": "<!-- wirte x -->\n```text\n\n```\n",
    "a line that is not there": "<!-- after old.txt: three -->\n```text\nx\n```\n",
    "a file that is there": "<!-- write old.txt -->\n```text\nx\n```\n",
    "an unknown language": "```fortran\nend\n```\n",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_pages_that_are_wrong_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\ntwo\n")
    reader = Reader(tmp_path, dict(os.environ))
    with pytest.raises(PageError):
        reader.read(page(tmp_path, text))


def test_edits_go_where_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("one\nthree\n")
    fence = "```text\n{}\n```\n"
    text = "".join(
        f"<!-- {comment} -->\n{fence.format(line)}\n"
        for comment, line in (
            ("append old.txt", "four"), ("after old.txt: one", "two"),
            ("before old.txt: one", "zero"), ("write folder/new.txt", "new"),
        )
    )  # fmt: skip
    reader = Reader(tmp_path, dict(os.environ))
    reader.read(page(tmp_path, text))
    assert (tmp_path / "old.txt").read_text() == "zero\none\ntwo\nthree\nfour\n"
    assert reader.touched == ["old.txt", "folder/new.txt"]


def test_a_block_knows_its_line(tmp_path: Path) -> None:
    (only,) = blocks(page(tmp_path, "# Title\n\n<!-- write a.txt -->\n```text\nhere\n```\n"))
    assert only == Block("text", "here\n", 4, "write", "a.txt", "")


def test_the_options_of_warp_specialization_exist() -> None:
    """Options and attributes of the table have the names that `Options` knows."""
    text = (DOCS / "explanation" / "warp-specialization.md").read_text()
    table = text.partition("| option | meaning | attribute |\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.split("\n")[1:]]
    named = {name for row in rows for cell in (row[0], row[-1]) for name in NAME.findall(cell)}
    assert len(rows) > 5 and named <= {field.name for field in attrs.fields(Options)}
