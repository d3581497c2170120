"""The engine of local rewriting: what becomes of an op's results, place and comments."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.errors import Location, PassError
from tileir.ir import Function
from tileir.ops.arith import Add, Mul, Sub
from tileir.rewrite import MAX_CHAIN, Replace, Rule, rewrite
from tileir.textual import parse
from tileir.values import constant

TEXT = """\
tir 1.0

define i32 @f(i32 %n) {
entry:
  ; about x
  %x = add i32 %n, 1 loc("k.py":3:5)
  %y = sub i32 %x, %n
  ret %y
}
"""
ELSEWHERE = Location("other.py", 9, 9)


def on_add(make: Any) -> tuple[Function, Function]:
    """The function, and it rewritten by what `make` makes of the add of literal 1."""
    function = parse(TEXT).functions["f"]

    def rule(op: Any, walk: object) -> Any:
        mine = op.mnemonic == "add" and op.rhs == constant(op.rhs.type, 1)
        return make(op) if mine else op

    return function, rewrite(function, rule)


def test_what_changes_nothing_is_the_same_function() -> None:
    before, after = on_add(lambda op: op)
    assert after is before


def test_an_op_in_the_place_of_another_takes_over_all_of_it() -> None:
    before, after = on_add(lambda op: Mul(op.lhs, constant(op.lhs.type, 3)))
    old, new = before.entry.ops[0], after.entry.ops[0]
    assert new.mnemonic == "mul"
    assert new.results == old.results
    assert (new.location, new.comments) == (old.location, old.comments) != (None, ())
    assert after.entry.ops[1] is before.entry.ops[1]


def test_an_op_keeps_a_place_and_comments_of_its_own() -> None:
    _, after = on_add(
        lambda op: Mul(op.lhs, op.lhs, location=ELSEWHERE, comments=("; of its own",))
    )
    new = after.entry.ops[0]
    assert (new.location, new.comments) == (ELSEWHERE, ("; of its own",))


def test_the_last_of_several_takes_over_and_the_others_get_the_place() -> None:
    def three(op: Any) -> Any:
        one = Mul(op.lhs, op.lhs)
        two = Sub(one.result, op.lhs, location=ELSEWHERE)
        return [one, two, Add(two.result, one.result)]

    before, after = on_add(three)
    old, ops = before.entry.ops[0], after.entry.ops
    assert [op.mnemonic for op in ops] == ["mul", "sub", "add", "sub", "ret"]
    assert [op.location for op in ops[:3]] == [old.location, ELSEWHERE, old.location]
    assert [op.comments for op in ops[:3]] == [(), (), old.comments]
    assert ops[2].results == old.results and ops[2].inputs == (ops[1].result, ops[0].result)


@pytest.mark.parametrize("answer", ["operand", "replace"])
def test_an_operand_stands_for_the_result(answer: str) -> None:
    before, after = on_add(
        lambda op: op.lhs if answer == "operand" else Replace((op.lhs,), (Mul(op.lhs, op.lhs),))
    )
    n = before.parameters[0].value
    assert [op.mnemonic for op in after.entry.ops] == [
        *(["mul"] if answer == "replace" else []), "sub", "ret",
    ]  # fmt: skip
    assert after.entry.ops[-2].inputs == (n, n)
    assert all(op.location is not None for op in after.entry.ops[:-2])


def counting(last: int) -> Rule:
    """Rewrites the add of k to that of k + 1 as long as k is less than `last`."""

    def rule(op: Any, walk: object) -> Any:
        if op.mnemonic != "add" or op.rhs.value >= last:
            return op
        return Add(op.lhs, constant(op.rhs.type, op.rhs.value + 1))

    return rule


def test_a_chain_of_rewrites_ends_or_is_an_error() -> None:
    function = parse(TEXT).functions["f"]
    done: Any = rewrite(function, counting(1 + MAX_CHAIN)).entry.ops[0]
    assert done.rhs.value == 1 + MAX_CHAIN
    with pytest.raises(PassError) as caught:
        rewrite(function, counting(2 + MAX_CHAIN))
    assert caught.value.code == "TIR0608" and caught.value.line == 3


def test_what_is_put_in_reads_what_was_put_in_before_it() -> None:
    """An op that is put in and is itself replaced by an operand is not read any more."""
    function = parse(TEXT).functions["f"]

    def rule(op: Any, walk: object) -> Any:
        if op.mnemonic == "mul":
            return op.lhs
        if op.mnemonic == "add":
            product = Mul(op.lhs, op.rhs)
            return [product, Sub(product.result, product.result)]
        return op

    n = function.parameters[0].value
    ops = rewrite(function, rule).entry.ops
    assert [op.mnemonic for op in ops] == ["sub", "sub", "ret"]
    assert ops[0].inputs == (n, n)


def test_an_op_without_results_is_taken_out_by_nothing() -> None:
    text = "tir 1.0\n\ndefine void @f(f32* %p) {\nentry:\n  store %p, 1.0\n  ret\n}\n"
    after = rewrite(parse(text).functions["f"], {"store": lambda op, walk: ()})
    assert [op.mnemonic for op in after.ops] == ["ret"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "add: a rule answers with ops, a value or Replace, not None"),
        (7, "not 7"),
        ((), "add: a rule answers with 0 values for 1 results"),
        (Replace(()), "0 values for 1 results"),
    ],
)
def test_an_answer_that_is_none_names_the_op(answer: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        on_add(lambda op: answer)
