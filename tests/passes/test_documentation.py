"""Every pass shows a program before and after it; these texts are run here."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

from tileir.compare import structurally_equal
from tileir.ir import Function
from tileir.passmanager import Pass, all_passes, run
from tileir.passmanager.find_passes import lookup
from tileir.passmanager.registry import pass_
from tileir.textual import parse, print_module

HEADER = "tir 1.0\n\n"
SHOWN = [each_pass for each_pass in all_passes() if each_pass.level != "pipeline"]
"""Pipelines are made of stages, most of them passes that show what they do."""


def example_of(result: Pass) -> tuple[str, str, str]:
    """The options that a pass's docstring shows it with, and the programs."""
    text = inspect.getdoc(result.function) or ""
    _, options, rest = re.split(r"before ?({.*})?:\n", text, maxsplit=1)
    before, _, after = rest.partition("after:\n")
    return options or "", textwrap.dedent(before), textwrap.dedent(after)


@pytest.mark.parametrize("actual", SHOWN, ids=lambda result: result.name)
def test_before_and_after(actual: Pass) -> None:
    options, before, after = example_of(actual)
    assert before and after, f"{actual.name} shows no program before and after"
    result = run(parse(HEADER + before), actual.name + options)
    expected = parse(HEADER + after)
    assert structurally_equal(result.module, expected), print_module(result.module)


@pytest.mark.parametrize("name", ["cse", "Another", "no name"])
def test_a_pass_needs_a_name_of_its_own(name: str) -> None:
    cse = lookup("cse")
    with pytest.raises(TypeError, match=f"pass {name} needs a docstring and a name of its own"):

        @pass_(name)
        def another(function: Function) -> Function:
            """Nothing."""
            return function

    assert lookup("cse") is cse


def test_a_pass_needs_a_docstring() -> None:
    with pytest.raises(TypeError, match="needs a docstring"):

        @pass_("undocumented")
        def undocumented_pass(function: Function) -> Function:
            return function
