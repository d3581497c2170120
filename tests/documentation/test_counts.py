"""Numbers in the prose of pages are those of the code and of the files that they count."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tileir.backend import register_limit
from tileir.backend.options import CodeVariant

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FIGURES = ROOT / "tests" / "backend" / "figures"


def _prose(page: str) -> str:
    """The text of a page, each run of white space as one space."""
    return " ".join((DOCS / page).read_text().split())


def _entries(name: str) -> int:
    return len(json.loads((FIGURES / name).read_text()))


def test_the_page_on_testing_counts_the_recorded_figures() -> None:
    kernels, conversions = _entries("figures.json"), _entries("conversions.json")
    sentence = f"counts of {kernels} kernels and {conversions} layout conversions"
    assert sentence in _prose("explanation/testing.md")


def test_the_page_on_stability_counts_the_recorded_programs() -> None:
    folder = ROOT / "tests" / "corpus" / "stability" / "1.0"
    lines = gzip.decompress((folder / "programs.tir.gz").read_bytes()).decode().splitlines()
    count = sum(line.startswith("tir ") for line in lines)
    assert f"({count:,} for 1.0)" in _prose("reference/stability.md")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (register_limit._FEWEST, "at least {} % of the registers"),
        (register_limit._FEWEST_OF_DOTS, "({} % if the kernel has dots"),
        (register_limit._LEAST, "| {} % |"),
        (register_limit._LEAST_OF_LOADS, "| {} % |"),
    ],
)
def test_the_page_on_tuning_states_the_bounds_of_registers(part: float, words: str) -> None:
    assert words.format(f"{100 * part:g}") in _prose("explanation/tuning.md")


def test_the_page_on_tuning_names_every_variant_of_the_code() -> None:
    page = _prose("explanation/tuning.md")
    first = {CodeVariant.DEPTH_FIRST, CodeVariant.OVERLAPPED}
    assert [v.name for v in first if f"`{v.name}`" not in page] == []
    others = [v.name for v in CodeVariant if v not in first]
    assert [name for name in others if f"| `{name}` |" not in page] == []
