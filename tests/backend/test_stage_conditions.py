"""A stage that its condition leaves out would change nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import pytest

import tileir.backend
from tests.sizes import few_or_all
from tileir import Module, TileirError
from tileir.backend.options import Options
from tileir.backend.pipeline import AFTER_LAYOUTS
from tileir.backend.stage import always
from tileir.backend.target import target
from tileir.testing import case
from tileir.textual import parse, print_module

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples", "tests/corpus/found", "testing/litmus/programs", "tests/corpus/listings")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*.tir"))
    if ".printed" not in path.name
]
CHEAPER = {"allocate-shared", "insert-barriers"}
"""Stages whose condition only spares loading and running them; conditions of others choose."""
ALL_STAGES = tuple(
    attrs.evolve(stage, applies=always) if stage.name in CHEAPER else stage
    for stage in AFTER_LAYOUTS
)
FIRST = 3_000_000
"""Campaigns begin at 0."""


def text_of_last_stage(module: Module, kernel: str) -> str:
    """The text of the last stage, or the error before it."""
    compiling = sys.modules["tileir.backend.compile"]
    try:
        result = compiling.run_pipeline(module, target("sm_90a"), Options(), kernel)
    except TileirError as error:
        return str(error)
    return print_module(result.stages["barriers"])


def check(module: Module, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of stages that were left out for some kernel."""
    left_out = 0

    def count_refusals(condition):
        def applies(subject, context):
            nonlocal left_out
            applied = condition(subject, context)
            left_out += not applied
            return applied

        return applies

    stages = tuple(
        attrs.evolve(s, applies=count_refusals(s.applies)) if s.name in CHEAPER else s
        for s in AFTER_LAYOUTS
    )
    for kernel in [f.name for f in module.functions.values() if f.kernel]:
        texts = []
        for table in (stages, ALL_STAGES):
            monkeypatch.setattr(sys.modules["tileir.backend.compile"], "AFTER_LAYOUTS", table)
            texts.append(text_of_last_stage(module, kernel))
        assert texts[0] == texts[1], kernel
    return left_out


@pytest.mark.parametrize("paths", few_or_all(FILES[::4], FILES), ids=["some", "all"])
def test_stages_left_out_of_files_change_nothing(paths, monkeypatch):
    for path in paths:
        check(parse(path.read_text(), str(path)), monkeypatch)


@pytest.mark.parametrize("count", few_or_all(10, 200))
def test_stages_left_out_of_generated_programs_change_nothing(count, monkeypatch):
    programs = (case("simt", seed).program.module for seed in range(FIRST, FIRST + count))
    assert sum(check(module, monkeypatch) for module in programs)


def test_every_folder_has_files():
    assert [f for f in FOLDERS if not any(p.is_relative_to(ROOT / f) for p in FILES)] == []


def test_conditions_are_of_stages():
    assert {s.name for s in AFTER_LAYOUTS if s.applies is not always} >= CHEAPER
    assert tileir.backend.compile is not sys.modules["tileir.backend.compile"]
