"""Links of the documentation lead to pages and headings that exist; every page is in a menu."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = {"passes", "options", "errors", "commands", "api/index"}
"""Pages of docs/reference that are written when the site is built (docs/_site/generate.py)."""


def committed_pages() -> list[Path]:
    """Pages that are committed."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
    reference = DOCS / "reference"
    generated = {reference / f"{name}.md" for name in GENERATED}
    return [p for p in pages if p not in generated and p.parent != reference / "api"]


def prose(page: Path) -> str:
    """The text without fenced code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Paths and headings of links and pictures within the repository."""
    text = re.sub(r"`[^`]*`", "code", prose(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, heading = target.partition("#")
            yield path, heading


def headings(page: Path) -> set[str]:
    """Headings as hosts of repositories and MyST spell them in addresses."""
    matches = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in matches}


@pytest.mark.parametrize("page", committed_pages(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for path, heading in links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        if heading:
            assert heading in headings(target), f"{page.name}: {path}#{heading}"


def entries(page: Path) -> set[Path]:
    """Pages that the menus of a page name, with patterns filled in."""
    pages_: set[Path] = set()
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        names = [line for line in block.splitlines() if line and not line.startswith(":")]
        for name in names:
            pages_ |= set(page.parent.glob(f"{name}.md"))
            missing = not list(page.parent.glob(f"{name}.md")) and name not in GENERATED
            assert not missing, f"{page.name}: {name}"
    return pages_


def test_every_page_is_in_a_menu_but_decisions() -> None:
    listed = {DOCS / "index.md"}
    queue = list(listed)
    while queue:
        new = entries(queue.pop()) - listed
        listed |= new
        queue += new
    pages = {p for p in committed_pages() if p.is_relative_to(DOCS)}
    assert {p for p in pages - listed if p.parent.name != "decisions"} == set()
    assert not {p for p in listed if p.parent.name in ("decisions", "pictures")}


def test_the_quick_starts_of_the_entry_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "index.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "index.md", "exec"), {"__name__": "page"})


ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()


def test_the_files_of_the_map_exist() -> None:
    folders = "tileir|textual|builder|backend|frontends|tools|testing|tileir_triton"
    paths = re.findall(rf"`((?:{folders})/[\w/*.]*)`", ARCHITECTURE)
    assert len(paths) > 50
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


def module_of(name: str):
    """A module of `docs/_site`, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_site" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generate():
    return module_of("generate")


def test_generated_pages_have_every_option_pass_and_code(generate) -> None:
    from tileir.backend import Options
    from tileir.error_codes import CODES
    from tileir.passmanager.find_passes import all_passes
    from tileir.tools.main import COMMANDS

    options = generate.options()
    for name in Options().to_json():
        assert f"| `{name}` |" in options and options.count(f"`{name}`") > 1, name
    assert "_empty" not in options
    passes, errors, commands = generate.passes(), generate.errors(), generate.commands()
    assert all(f"\n## {item.name}\n" in passes for item in all_passes())
    assert all(f"**{code}: " in errors for code in CODES)
    assert all(f"\n## tileir {name}\n" in commands for name in COMMANDS)
    assert "\n## tileir-opt\n" in commands and "\n## tileir-opt bisect\n" in commands


def test_generated_pages_have_every_public_name(generate) -> None:
    import importlib

    for package in generate.PACKAGES:
        page = generate.api(package)
        for name in importlib.import_module(package).__all__:
            assert re.search(rf"(\}} |- `){name}\b", page), f"{package}.{name}"
        assert "=NOTHING" not in page, package


def test_tests_that_the_page_of_defects_names_exist() -> None:
    text = (ROOT / "docs" / "reference" / "defects.md").read_text()
    names = re.findall(r"`(tests/[\w./]+)`", text)
    assert len(names) > 50 and not [name for name in names if not (ROOT / name).exists()]


def test_programs_of_docstrings_are_code_on_the_site(generate) -> None:
    page = generate.markdown("Rotate.\n\nbefore{n=2}:\n    ret\nafter:\n    x\n\n    y")
    assert re.findall(r"^([^\n]*):\n\n```llvm\n(.*?)\n```$", page, re.M | re.S) == [
        ("Before `{n=2}`", "ret"),
        ("After", "x\n\ny"),
    ]
    assert not re.search(r"^(before|after)[^\n]*:\n {4}", generate.passes(), re.M)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("Use it.\n\n    a = 1\n\n    f(a)\n\nMore.",
         "Use it.\n\n```python\na = 1\n\nf(a)\n```\n\nMore."),
        ("Run it.\n\n    tool FILE --x\n", "Run it.\n\n    tool FILE --x\n"),
        ("See `docs/reference/ops.md`.", "See [](/reference/ops.md)."),
        ("See docs/none.md, f[0].", "See docs/none.md, f\\[0]."),
    ],
)  # fmt: skip
def test_docstrings_become_markdown(generate, text, page) -> None:
    assert generate.markdown(text) == page


def test_values_of_the_api_are_shown(generate) -> None:
    from tileir.backend import TARGETS
    from tileir.builder import BF16

    assert generate.describe_value(BF16) == "A value of type `Scalar`: `bf16`."
    assert generate.describe_value({1: "x" * 100}) == "A value of type `dict`."
    assert "\nEvery supported target by name.\n" in "\n".join(generate.entry("TARGETS", TARGETS))


def test_the_api_has_properties_fields_and_members(generate) -> None:
    from tileir import Severity
    from tileir.backend import CompiledKernel
    from tileir.passmanager import Observer
    from tileir.testing import Statement

    page = "\n".join(generate.entry("CompiledKernel", CompiledKernel))
    for name in ("metadata", "remarks", "fallback", "host", "cubin"):
        assert f"{{py:property}} {name}\n" in page, name
    assert "{py:attribute} notes\n\nRemarks of the passes.\n" in page
    page = "\n".join(generate.entry("Severity", Severity))
    assert page.startswith(":::::{py:class} Severity\n")
    assert all(f"{{py:attribute}} {member.name}\n" in page for member in Severity)
    assert next(generate.entry("Observer", Observer)) == ":::::{py:class} Observer\n"
    assert next(generate.entry("Statement", Statement)).startswith(":::::{py:data} Statement")


def test_programs_of_packages_are_code_on_the_site(generate) -> None:
    for package in generate.PACKAGES:
        page = re.sub(r"^(`{3,}|:{4,}).*?^\1$", "", generate.api(package), flags=re.M | re.S)
        for text in page.split("\n\n"):
            program = text.replace("\\", "")
            assert not _is_program(program), f"{package}: {program}"


def _is_program(text: str) -> bool:
    """Whether `text` is statements of Python that do something."""
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def test_text_is_highlighted_by_tokens_of_the_language() -> None:
    lexer = module_of("tir_lexer").TirLexer()
    text = "; a\nentry:\n  %i = make_range i32<64, #a>\n  store %p, 2.0 {x = true}\n"
    tokens = {word: str(kind).removeprefix("Token.") for kind, word in lexer.get_tokens(text)}
    assert tokens["; a"] == "Comment.Single" and tokens["entry:"] == "Name.Label"
    assert tokens["make_range"] == tokens["store"] == "Name.Builtin"
    assert tokens["%i"] == tokens["#a"] == "Name.Variable"
    assert tokens["i32"] == "Keyword.Type" and tokens["2.0"] == "Literal.Number"
    assert tokens["x"] == tokens["true"] == "Name" and not any(
        "Error" in k for k in tokens.values()
    )
