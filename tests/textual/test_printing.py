"""What the printer writes where there is a choice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.sizes import for_each
from tileir.builder import F32, I32, Builder, pointer
from tileir.errors import ParseError
from tileir.field import FLOAT
from tileir.ir import Module
from tileir.op import OPS, Op, attribute, op, operand, optional, variadic
from tileir.signature import FLOATS, TypeVariable
from tileir.textual import parse, print_module
from tileir.values import Operand

FLOAT_VALUE = TypeVariable("T", FLOATS)


@pytest.fixture(scope="module")
def own_ops() -> Iterator[None]:
    op("tests.between")(Between)
    op("tests.scaled")(Scaled)
    yield
    del OPS["tests.between"], OPS["tests.scaled"]


class Between(Op):
    """Operands that may be left out before a list of others.

    `%x = tests.between f32 %a, none, %c`, given `f32 %a, f32 %c`
    """

    value: Operand = operand(FLOAT_VALUE)
    mask: Operand | None = optional(FLOAT_VALUE)
    rest: tuple[Operand, ...] = variadic(FLOAT_VALUE)
    results_ = (FLOAT_VALUE,)


class Scaled(Op):
    """A float as an attribute.

    `%x = tests.scaled f32 %a {by = 2.0}`, given `f32 %a`
    """

    value: Operand = operand(FLOAT_VALUE)
    by: float = attribute(FLOAT, default=1.0)
    results_ = (FLOAT_VALUE,)


def test_zeros_of_both_signs_are_attributes(own_ops: None) -> None:
    """They are equal, and are written apart."""
    literals = ("0.0", "-0.0", "2.5", "0.0", "nan", "-0.0")
    lines = "".join(f"  %x{i} = tests.scaled f32 %a {{by = {x}}}\n" for i, x in enumerate(literals))
    text = f"tir 1.0\n\ndefine void @f(f32 %a) {{\nentry:\n{lines}  ret\n}}\n"
    assert print_module(parse(text, verify=False)) == text
    plain = text.replace(" {by = 0.0}", "")
    assert (
        print_module(parse(plain.replace("{by = -0.0}", "{by = 1.0}"), verify=False)).count("{")
        == plain.count("{") - 2
    )


def test_a_whole_number_that_a_program_gives_for_a_float_is_written_as_one(own_ops: None) -> None:
    b = Builder(locations=False)
    with b.kernel("f", a=F32) as (a,):
        b.emit(OPS["tests.scaled"](a.value, by=3))
        b.ret()
    text = print_module(b.module())
    assert "tests.scaled f32 %a {by = 3.0}" in text
    assert print_module(parse(text, verify=False)) == text


@pytest.mark.parametrize(
    ("mnemonic", "operands"),
    [
        ("dot_scaled", "%a, %b, %c"),
        ("dot_scaled", "%a, %b, %c, %s"),
        ("dot_scaled", "%a, %b, %c, none, %s"),
        ("dot_scaled", "%a, %b, %c, %s, %s"),
        ("tests.between", "%c"),
        ("tests.between", "%c, %c"),
        ("tests.between", "%c, none, %c"),
        ("tests.between", "%c, %c, %c, %c"),
    ],
)
def test_operands_that_may_be_left_out(mnemonic: str, operands: str, own_ops: None) -> None:
    formats = " {lhs = e4m3, rhs = e4m3}" if mnemonic == "dot_scaled" else ""
    text = (
        "tir 1.0\n\ndefine void @f(f8e4m3<32, 32> %a, f8e4m3<32, 32> %b, f32<32, 32> %c, "
        f"i8<32, 1> %s) {{\nentry:\n  %x = {mnemonic} f32<32, 32> {operands}{formats}\n  ret\n}}\n"
    )
    module = parse(text, verify=False)
    assert print_module(module) == text
    names = [v.name for v in module.functions["f"].entry.ops[0].inputs]
    assert names == [name[1:] for name in operands.split(", ") if name != "none"]


STAGED = """\
tir 1.0
stage "layouts"
#l0 = layout(rank = 1, lane = [[1], [2], [4], [8], [16]])
#l1 = layout(rank = 1, register = [[1]], lane = [[2], [4], [8], [16], [0]])

define void @f(f32<32, #l0> %a, f32<32, #l1> %b, f32<32> %c) {
entry:
  ret
}
"""


def test_layouts_are_named_in_the_order_of_their_use() -> None:
    assert print_module(parse(STAGED, verify=False)) == STAGED
    other = STAGED.replace("#l1", "#a").replace("#l0", "#l1").replace("#a", "#l0")
    assert print_module(parse(other, verify=False)) == STAGED


ODD = [
    'a"b',
    '"',
    "a\\b",
    "a\\",
    "a\nb",
    "a b",
    "",
    "é",
    "\u2028",
    "none",
    "define",
    "$",
    "1a",
    "-1",
]
"""Names that need quotes where they name a symbol or a block."""


@for_each("name", ODD)
def test_symbols_and_labels_have_any_name(name: str) -> None:
    b = Builder(locations=False)
    b.global_(f"global {name}", I32, 1)
    with b.function(name, I32, x=I32) as (x,):
        block = b.block(name, I32)
        b.br(block(x))
        b.enter(block)
        b.ret(*block.parameters)
    with b.kernel("k", x=I32) as (x,):
        b.call(name, x)
        b.global_address(pointer(I32), f"global {name}")
    text = print_module(b.module())
    read = parse(text)
    assert print_module(read) == text
    assert name in read.functions and name in read.functions[name].blocks


def test_an_escape_in_a_name_that_is_none() -> None:
    with pytest.raises(ParseError, match=r"3:13: .*\\q is no character") as caught:
        parse('tir 1.0\n\ndefine void @"a\\q"() {\nentry:\n  ret\n}\n')
    assert caught.value.code == "TIR0007"


def lines_run(run: Callable[[], object]) -> int:
    """Lines of Python that run in `run`."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def test_many_values_of_one_name_take_linear_time() -> None:
    def module(count: int) -> Module:
        b = Builder()
        with b.kernel("k", x=pointer(I32)) as (x,):
            value = b.var(x.load(), name="value")
            for _ in range(count):
                with b.if_(value > 0):
                    value.set(value + 1)
            x.store(value)
        return b.module()

    few, many = (lines_run(partial(print_module, module(n))) for n in (50, 400))
    assert many <= 9 / 8 * 8 * few
