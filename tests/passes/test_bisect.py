"""Which step of a pipeline is wrong; and what the words of a pipeline stand for."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.errors import PassError
from tileir.ir import Function, Module
from tileir.ops.arith import Add
from tileir.passes import PIPELINE
from tileir.passmanager import find_passes, format_pipeline, parse_pipeline
from tileir.passmanager.bisect_pipeline import bisect
from tileir.passmanager.find_passes import Pass
from tileir.rewrite import rewrite
from tileir.textual import parse
from tileir.values import constant

TEXT = """\
tir 1.0

define i32 @f(i32 %n) {
entry:
  %x = add i32 %n, 0
  ret %x
}
"""


def number(module: Module) -> int:
    """What the function adds."""
    op: Any = module.functions["f"].entry.ops[0]
    return op.rhs.value


@pytest.fixture
def up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that adds one more."""

    def more(function: Function) -> Function:
        done: list[Any] = []

        def rule(op: Any, walk: object) -> Any:
            if op.mnemonic != "add" or op in done:
                return op
            done.append(Add(op.lhs, constant(op.rhs.type, op.rhs.value + 1), results=op.results))
            return done[0]

        return rewrite(function, lambda op, walk: op if done else rule(op, walk))

    monkeypatch.setitem(find_passes._PASSES, "up", Pass("up", more, "function", ()))


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
def test_whichever_step_is_wrong_is_found_by_halving(steps: int) -> None:
    for wrong in range(steps):
        pipeline = ",".join(["up"] * steps)
        culprit = bisect(parse(TEXT), pipeline, lambda m, most=wrong: number(m) <= most)
        assert (number(culprit.step.before), number(culprit.after)) == (wrong, wrong + 1)
        assert culprit.tried <= 2 + math.ceil(math.log2(steps))


@pytest.mark.usefixtures("up")
@pytest.mark.parametrize(("pipeline", "least"), [("up,up", 1), ("up,up", 0), ("dce", 0)])
def test_without_a_wrong_step_there_is_no_culprit(pipeline: str, least: int) -> None:
    with pytest.raises(PassError) as caught:
        bisect(parse(TEXT), pipeline, lambda m: number(m) >= least)
    assert caught.value.code == "TIR0609"


@for_each(
    ("text", "before", "after"),
    [
        ("default", [], []),
        ("cse,default", ["cse"], []),
        ("default,dce", [], ["dce"]),
        ("cse,default,dce,licm", ["cse"], ["dce", "licm"]),
    ],
)
def test_the_word_default_stands_for_passes(text: str, before: list[str], after: list[str]) -> None:
    nodes = parse_pipeline(text)
    assert [str(n) for n in nodes] == [*before, *PIPELINE, *after]
    assert parse_pipeline(format_pipeline(nodes)) == nodes
