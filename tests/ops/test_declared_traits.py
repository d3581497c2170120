"""What passes and analyses know of an op that they have never seen, by its traits."""

from typing import Any

import numpy as np
import pytest

import tileir
import tileir.backend
from tileir.analysis.ranges import ranges
from tileir.analysis.uses import base_pointer, definitions
from tileir.machine.tensor import Tensor
from tileir.op import OPS, Op, all_ops, op, operand
from tileir.ops.shape import T
from tileir.passmanager import run
from tileir.textual import parse, print_module
from tileir.values import Operand


@pytest.fixture
def reverse():
    """An op that reverses a tile of one dimension, for one test."""

    @op("acme.reverse")
    class Reverse(Op):
        """The elements in reverse order.

        `%r = acme.reverse f32<8> %x`
        """

        value: Operand = operand(T)
        results_ = (T,)
        moves_elements = True

        def evaluate(self, machine: Any, value: Any) -> Any:
            undef = None if value.undef is None else value.undef[::-1]
            return Tensor(value.data[::-1], undef)

    yield Reverse
    del OPS["acme.reverse"]


def test_elementwise_ops_run_before_both_operands_move(reverse):
    module = parse(
        """tir 1.0
define kernel void @f(i32* %p, i32* %q) {
entry:
  %i = make_range i32<8>
  %ps = splat i32*<8> %p
  %at = getelementptr i32*<8> %ps, %i
  %x = load i32<8> %at
  %y = mul i32<8> %x, 3
  %a = acme.reverse i32<8> %x
  %b = acme.reverse i32<8> %y
  %c = xor i32<8> %a, %b
  %qs = splat i32*<8> %q
  %to = getelementptr i32*<8> %qs, %i
  store %to, %c
  ret
}
"""
    )
    changed = run(module, "peephole,dce").module
    assert print_module(changed).count("acme.reverse") == 1
    actual, expected = (
        {"p": np.arange(8, dtype=np.int32), "q": np.zeros(8, np.int32)} for _ in range(2)
    )
    tileir.interpret(changed, None, 1, actual)
    tileir.interpret(module, None, 1, expected)
    np.testing.assert_array_equal(actual["q"], expected["q"])
    np.testing.assert_array_equal(actual["q"], (expected["p"] ^ 3 * expected["p"])[::-1])


def test_ranges_and_pointers_pass_through(reverse):
    function = parse(
        """tir 1.0
define kernel void @f(f32* %p) {
entry:
  %i = make_range i32<8>
  %j = acme.reverse i32<8> %i
  %ps = splat f32*<8> %p
  %at = getelementptr f32*<8> %ps, %j
  %back = acme.reverse f32*<8> %at
  store %back, 1.0
  ret
}
"""
    ).kernel()
    by_name = {value.name: value for x in function.ops for value in x.results}
    assert ranges(function).of(by_name["j"]) == (0, 7)
    base = base_pointer(by_name["back"], definitions(function))
    assert base is function.parameters[0].value


def test_undefined_lanes_move_with_their_predicate(reverse):
    module = parse(
        """tir 1.0
define kernel void @f(i32* %q) {
entry:
  %i = make_range i32<8>
  %low, _ = icmp (i1<8>, i1<8>) %i, 4 {predicate = slt}
  @%low %even, _ = icmp (i1<8>, i1<8>) %i, 2 {predicate = ne}
  %taking = acme.reverse i1<8> %even
  @%taking %sum = reduce i32 %i {combiner = add}
  store %q, %sum
  ret
}
"""
    )
    changed = run(module, "lower-predicates").module
    for program in (module, changed):
        out = {"q": np.zeros(1, np.int32)}
        tileir.interpret(program, None, 1, out)
        assert out["q"][0] == 4 + 6 + 7, program


def test_a_moving_op_has_one_result_of_its_operands_elements():
    for cls in all_ops():
        if cls.moves_elements or cls.is_identity:
            first = cls.schema[0]
            assert first.kind.name == "OPERAND" and len(cls.fields()) >= 1, cls.mnemonic
        assert not (cls.moves_elements and cls.elementwise), cls.mnemonic


def test_the_harmless_operand_is_one_of_the_op():
    for cls in all_ops():
        if cls.harmless is not None:
            assert cls.harmless[0] in {field.name for field in cls.schema}, cls.mnemonic
