"""Misuse is a BuildError with its code, at the line of the caller."""

from __future__ import annotations

import _thread
import math
import runpy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.builder import (
    F16,
    F32,
    I1,
    I8,
    I32,
    I64,
    Builder,
    BuildError,
    Expr,
    Location,
    pointer,
    source_name,
    tile,
)


class Given:
    """An open kernel with values of many types."""

    def __init__(self) -> None:
        self.b = Builder()
        types = {
            "i": I32, "j": I64, "f": F32, "h": F16, "flag": I1, "byte": I8, "p": pointer(F32),
            "q": pointer(F16),
        }  # fmt: skip
        self._scope = self.b.kernel("k", **types)
        parameters = self._scope.__enter__()
        self.i, self.j, self.f, self.h, self.flag, self.byte, self.p, self.q = parameters
        self.row: Expr = self.b.arange(8)
        self.square: Expr = self.b.zeros((8, 8))
        self.column: Expr = self.row[:, None]


CASES: list[tuple[str, Callable[[Given], Any]]] = [
    # an op's own rules
    ("TIR0101", lambda g: g.b.add(g.i, g.j)),
    ("TIR0101", lambda g: g.b.fadd(g.i, g.i)),
    ("TIR0101", lambda g: g.b.add(g.row, g.i)),
    ("TIR0101", lambda g: g.b.fma(g.f, g.f, g.i)),
    ("TIR0101", lambda g: g.b.fneg(g.i)),
    ("TIR0101", lambda g: g.b.load(g.p + g.row, g.flag)),
    ("TIR0101", lambda g: g.b.store(g.p, g.h)),
    ("TIR0804", lambda g: g.b.arange(1.5)),
    ("TIR0806", lambda g: g.b.while_(g.flag)),
    ("TIR0808", lambda g: g.i.to(3)),
    ("TIR0104", lambda g: g.b.add(g.i, 1, when=g.i)),
    ("TIR0106", lambda g: g.b.icmp(g.i, g.i, predicate="less")),
    ("TIR0106", lambda g: g.b.make_range(tile(I32, (4,)), start="0")),
    # literals
    ("TIR0802", lambda g: g.byte + 300),
    ("TIR0802", lambda g: g.b.add(g.i, 1.5)),
    ("TIR0802", lambda g: g.b.add(1, 2)),
    ("TIR0802", lambda g: g.b.maximum(1, 2)),
    ("TIR0802", lambda g: g.b.fneg(1.0)),
    ("TIR0802", lambda g: g.b.fma(1.0, 2.0, 3.0)),
    ("TIR0802", lambda g: g.b.constant(I8, -129)),
    ("TIR0802", lambda g: g.b.constant(I8, "1")),
    ("TIR0802", lambda g: g.flag & 2),
    # arguments
    ("TIR0803", lambda g: g.b.add(g.i)),
    ("TIR0803", lambda g: g.b.add(g.i, g.i, g.i)),
    ("TIR0803", lambda g: g.b.add(g.i, g.i, lhs=g.i)),
    ("TIR0803", lambda g: g.b.add(g.i, g.i, speed=1)),
    ("TIR0803", lambda g: g.b.add(g.i, "x")),
    ("TIR0803", lambda g: g.b.add(g.i, g.i, result=("x", "y"))),
    ("TIR0803", lambda g: g.b.icmp(g.i, g.i)),
    ("TIR0803", lambda g: g.b.add(g.i, g.i, when=1)),
    ("TIR0803", lambda g: g.b.sext(g.i, "i64")),
    ("TIR0803", lambda g: g.i + "x"),
    # indexing and axes
    ("TIR0804", lambda g: g.row[0]),
    ("TIR0804", lambda g: g.row[0:4]),
    ("TIR0804", lambda g: g.row[:, :]),
    ("TIR0804", lambda g: g.row[..., ...]),
    ("TIR0804", lambda g: g.row[g.i]),
    ("TIR0804", lambda g: list(g.row)),
    ("TIR0804", lambda g: g.row.sum(axis=1)),
    ("TIR0804", lambda g: g.square.max(axis=-3)),
    ("TIR0804", lambda g: g.b.arange(4, 4)),
    # variables
    ("TIR0805", lambda g: g.b.var(g.i).set(g.j)),
    ("TIR0802", lambda g: g.b.var(g.i).set(1.5)),
    ("TIR0807", lambda g: g.b.var(g.row).set(g.square.to(I32))),
    # control
    ("TIR0806", lambda g: g.b.break_()),
    ("TIR0806", lambda g: g.b.continue_()),
    ("TIR0806", lambda g: g.b.else_().__enter__()),
    ("TIR0806", lambda g: g.b.if_(g.row < 3)),
    ("TIR0806", lambda g: g.b.if_(g.i)),
    ("TIR0806", lambda g: g.b.for_(0, g.f).__enter__()),
    ("TIR0806", lambda g: g.b.for_(0, g.row).__enter__()),
    ("TIR0806", lambda g: g.b.for_(0, 4, 0).__enter__()),
    ("TIR0806", lambda g: g.b.enter(g.b.block("next"))),
    ("TIR0806", lambda g: g.b.br(g.b.block("next", I32))),
    ("TIR0806", lambda g: g.b.br(g.b.block("next", I32)(g.j))),
    ("TIR0806", lambda g: g.b.enter(g.b.block("next"))),
    ("TIR0806", lambda g: g.b.enter("next")),
    ("TIR0806", lambda g: g.b.br("next")),
    ("TIR0806", lambda g: g.b.cond_br(g.flag, "one", "other")),
    ("TIR0803", lambda g: g.b.for_(4, speed=1)),
    ("TIR0106", lambda g: g.b.for_(4, stages="many")),
    ("TIR0803", lambda g: g.b.function("f", None, x=3).__enter__()),
    ("TIR0803", lambda g: g.b.configure(inline="always")),
    ("TIR0803", lambda g: g.b.configure(visibility=1)),
    # what is neither a type nor a location
    ("TIR0803", lambda g: g.b.function("f", "f32").__enter__()),
    ("TIR0803", lambda g: g.b.function("f", [F32, "f32"]).__enter__()),
    ("TIR0803", lambda g: g.b.declare("f", "f32")),
    ("TIR0803", lambda g: g.b.call("f", g.i, results=3)),
    ("TIR0803", lambda g: g.b.block("next", "i32")),
    ("TIR0803", lambda g: g.b.undef("f32")),
    ("TIR0803", lambda g: g.b.constant("f32", 1)),
    ("TIR0803", lambda g: g.b.at_location("model.dsl:1:2").__enter__()),
    ("TIR0803", lambda g: g.b.add(g.i, 1, location=("model.dsl", 1, 2))),
    # shapes
    ("TIR0804", lambda g: g.square.sum((0, 1))),
    ("TIR0804", lambda g: g.square.cumsum("rows")),
    ("TIR0807", lambda g: g.b.zeros((4, 0))),
    ("TIR0807", lambda g: g.b.full(-1, 2.0)),
    ("TIR0807", lambda g: g.b.zeros(4, 8)),
    ("TIR0807", lambda g: g.row + g.b.arange(7)),
    ("TIR0807", lambda g: g.square + g.b.zeros((4, 8))),
    ("TIR0807", lambda g: g.square.broadcast_to(8)),
    ("TIR0807", lambda g: g.row.reshape(3, -1)),
    ("TIR0807", lambda g: g.row.reshape(9)),
    ("TIR0807", lambda g: g.row @ g.row),
    # element types
    ("TIR0808", lambda g: g.f & g.f),
    ("TIR0808", lambda g: g.f // 2.0),
    ("TIR0808", lambda g: g.f << 1),
    ("TIR0808", lambda g: ~g.f),
    ("TIR0808", lambda g: g.i**g.i),
    ("TIR0808", lambda g: g.p + g.p),
    ("TIR0808", lambda g: g.p * 2),
    ("TIR0808", lambda g: g.p < g.q),
    ("TIR0808", lambda g: g.p.to(I32)),
    ("TIR0808", lambda g: g.i.load()),
    ("TIR0808", lambda g: g.i.store(1)),
    ("TIR0808", lambda g: g.b.where(g.i, 1.0, g.f)),
    # truth
    ("TIR0809", lambda g: bool(g.flag)),
    ("TIR0809", lambda g: 0 < g.i < 4),
    ("TIR0809", lambda g: g.flag and g.flag),
    # numbers that Python needs
    ("TIR0809", lambda g: range(g.i)),
    ("TIR0809", lambda g: int(g.i)),
    ("TIR0809", lambda g: math.sin(g.f)),
    ("TIR0809", lambda g: g.b.zeros((g.i, 8))),
    ("TIR0804", lambda g: g.b.arange(g.i)),
    ("TIR0804", lambda g: g.b.arange(0, g.i)),
    ("TIR0804", lambda g: g.p[0]),
    # functions
    ("TIR0810", lambda g: g.b.ret(g.i)),
    ("TIR0810", lambda g: g.b.global_("k", F32, 4)),
    ("TIR0803", lambda g: g.row.reduce(0, lambda x: x)),
    ("TIR0803", lambda g: g.row.scan(0, lambda x, y, z: x)),
    ("TIR0801", lambda g: g.b.module()),
]


@for_each(("code", "wrong"), CASES)
def test_misuse_is_reported_where_it_is_written(code: str, wrong: Callable[[Given], Any]) -> None:
    results = Given()
    with pytest.raises(BuildError) as caught:
        wrong(results)
    assert caught.value.code == code
    assert caught.value.location is not None
    assert caught.value.location.file == source_name(__file__)
    assert caught.value.line == wrong.__code__.co_firstlineno


def line_of(text: str) -> int:
    """The line of this file that ends in the comment `text`."""
    with open(__file__) as lines:
        (number,) = (n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}\n"))
    return number


def test_nothing_is_inserted_outside_functions() -> None:
    b = Builder()
    with pytest.raises(BuildError) as caught:
        b.arange(4)  # outside
    assert (caught.value.code, caught.value.line) == ("TIR0801", line_of("outside"))


def test_nothing_follows_ret() -> None:
    b = Builder()
    with pytest.raises(BuildError) as caught, b.kernel("k", x=I32) as (x,):
        b.ret()
        _ = x + 1  # after ret
    assert (caught.value.code, caught.value.line) == ("TIR0801", line_of("after ret"))


@pytest.mark.parametrize("word", ["break_", "continue_"])
def test_what_stands_in_no_loop_is_named(word: str) -> None:
    b = Builder()
    with b.kernel("k"), pytest.raises(BuildError, match=f"error.TIR0806.: {word} stands in no"):
        getattr(b, word)()


def test_else_must_follow_its_if_directly() -> None:
    b = Builder()
    with pytest.raises(BuildError) as caught, b.kernel("k", x=I32, p=I1) as (x, p):
        with b.if_(p):
            pass
        _ = x + 1
        with b.else_():  # late else
            pass
    assert (caught.value.code, caught.value.line) == ("TIR0806", line_of("late else"))


def test_a_function_must_return_on_every_path() -> None:
    b = Builder()
    with pytest.raises(BuildError) as caught, b.function("f", I32, x=I32, p=I1) as (x, p):
        branch = b.if_(p)
        with branch:
            b.ret(x)
    assert caught.value.code == "TIR0810"


def test_results_and_arguments_have_the_declared_types() -> None:
    b = Builder()
    with b.function("f", I32, x=I32) as (x,):
        b.ret(x + 1)
    with b.kernel("k", y=F32) as (y,):
        with pytest.raises(BuildError) as caught:
            b.call("f", y)  # call
        assert (caught.value.code, caught.value.line) == ("TIR0810", line_of("call"))
        with pytest.raises(BuildError, match=r"f32.*i32|i32.*f32"):
            b.call("f", y)


def test_a_name_is_taken_once() -> None:
    b = Builder()
    with b.kernel("k"):
        pass
    with pytest.raises(BuildError, match="@k is already defined"), b.kernel("k"):
        pass


def test_a_variable_belongs_to_its_function() -> None:
    b = Builder()
    with b.kernel("k", x=I32) as (x,):
        v = b.var(x)
        with b.function("f", I32, y=I32) as (y,):
            with pytest.raises(BuildError) as caught:
                _ = v + y
            assert caught.value.code == "TIR0805"
            b.ret(y)


def test_a_value_that_does_not_dominate_is_found_by_the_verifier() -> None:
    b = Builder()
    with b.kernel("k", p=pointer(I32), flag=I1) as (p, flag):
        with b.if_(flag):
            inside = p.load() + 1
        p.store(inside)  # use
    with pytest.raises(BuildError) as caught:
        b.module()
    assert caught.value.code.startswith("TIR02")
    assert caught.value.line == line_of("use")


def test_blocks_by_hand_are_filled_and_ended_once() -> None:
    b = Builder()
    with pytest.raises(BuildError, match="next, which has no terminator"), b.kernel("k"):
        b.br(b.block("next"))
    with pytest.raises(BuildError, match="next has already ended"), b.kernel("k"):
        block = b.block("next")
        b.br(block)
        b.enter(block)
        b.ret()
        b.enter(block)


def test_a_failed_body_leaves_no_function() -> None:
    b = Builder()
    with pytest.raises(ZeroDivisionError), b.kernel("k"):
        _ = 1 // 0
    assert not b.module().functions
    with b.kernel("k"):
        pass
    assert list(b.module().functions) == ["k"]


def test_locations_are_the_callers_or_a_frontends_or_none() -> None:
    b = Builder()
    with b.kernel("k", x=I32) as (x,):
        here = x + 1  # here
        with b.at_location(Location("kernel.dsl", 7, 3)):
            _ = here * 2
    first, second, _ = b.module().kernel("k").ops
    assert first.location == Location(source_name(__file__), line_of("here"), 16)
    assert second.location == Location("kernel.dsl", 7, 3)
    b = Builder(locations=False)
    with b.kernel("k", x=I32) as (x,):
        _ = x + 1
        for wrong in (lambda: b.add(x, 1.5), lambda: b.fadd(x, x), lambda: b.fneg(x)):
            with pytest.raises(BuildError) as caught:
                wrong()
            assert caught.value.line == wrong.__code__.co_firstlineno
    assert [op.location for op in b.module().kernel("k").ops] == [None, None]


def test_a_thread_may_begin_with_a_method() -> None:
    """Then no code outside the builder has called it."""
    b = Builder()
    with b.kernel("k", x=I32, y=I32) as (x, y):
        _thread.start_new_thread(b.add, (x, y))
        ends = time.monotonic() + 600
        while not b.insertion and time.monotonic() < ends:
            time.sleep(0.001)
    ops, _ = b.module().kernel("k").ops
    assert ops.mnemonic == "add" and ops.location is not None


def test_an_exception_in_a_branch_or_loop_leaves_the_function_unfinished() -> None:
    def half_built(b: Builder, opened: Any) -> None:
        with pytest.raises(ZeroDivisionError), opened:
            raise ZeroDivisionError
        with pytest.raises(BuildError, match="half built") as caught:
            b.program_id(axis=0)
        assert caught.value.code == "TIR0806"

    for open_ in (
        lambda b, c: b.if_(c),
        lambda b, c: b.for_(0, 4),
        lambda b, c: b.while_(lambda: c),
    ):
        b = Builder()
        with pytest.raises(BuildError, match="half built"), b.kernel("k", c=I1) as (c,):
            half_built(b, open_(b, c))
        with b.kernel("whole") as ():
            b.program_id(axis=0)
        assert list(b.module().functions) == ["whole"]


def test_an_exception_in_an_else_leaves_the_function_unfinished() -> None:
    b = Builder()
    with pytest.raises(BuildError, match="half built"), b.kernel("k", c=I1) as (c,):
        with b.if_(c):
            pass
        with pytest.raises(ZeroDivisionError), b.else_():
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), b.kernel("k"):
        raise ZeroDivisionError
    assert not b.module().functions


def test_locations_do_not_depend_on_where_the_checkout_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """from tileir.builder import Builder
b = Builder()
with b.kernel('k'):
    b.program_id()
"""
    file = tmp_path / "inside" / "made.py"
    file.parent.mkdir()
    file.write_text(source)
    monkeypatch.chdir(tmp_path)
    kernel = runpy.run_path(str(file))["b"].module().kernel("k")
    assert str(next(kernel.ops).location) == "inside/made.py:4:5"
    monkeypatch.chdir(file.parent.parent / "inside")
    assert runpy.run_path(str(file))["b"].module().kernel("k").location.file == "made.py"


def test_what_would_help_is_stated():
    b = Builder()
    with b.kernel("k", flag=I1) as (flag,):
        with pytest.raises(BuildError, match=r"0\.5 and 2\.5; write one as b\.constant\(type, "):
            b.where(flag, 0.5, 2.5)
        with pytest.raises(BuildError, match=r"assert takes 1 arguments by position, not 2"):
            b.assert_(flag, "message")


def test_mistakes_of_beginners_name_a_remedy():
    g = Given()
    for mistake, remedy in (
        (lambda: range(g.i), r"b\.for_"),
        (lambda: g.p[g.i], r"\(p \+ i\)\.load\(\)"),
        (lambda: g.b.arange(g.i), r"b\.arange\(64\) \+ n"),
    ):
        with pytest.raises(BuildError, match=remedy):
            mistake()
    with pytest.raises(AttributeError, match="did you mean 'load'"):
        g.b.lod(g.p)
