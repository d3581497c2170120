"""The space that passes declare, and what of it matters to a program."""

import pytest
from matmuls import make

from tileir.backend.tuning import compiler_space
from tileir.backend.tuning.pass_parameters import SWITCHES, declared_parameters
from tileir.errors import CompileError
from tileir.ir import Function
from tileir.passmanager.find_passes import lookup
from tileir.passmanager.registry import pass_
from tileir.textual import parse

COPY = """tir 1.0
define kernel void @copy(f32* aligned(16) %x, f32* aligned(16) %y) {
entry:
  %i = make_range i32<1024>
  %xs = splat f32*<1024> %x
  %p = getelementptr f32*<1024> %xs, %i
  %v = load f32<1024> %p
  %ys = splat f32*<1024> %y
  %q = getelementptr f32*<1024> %ys, %i
  store %q, %v
  ret
}
"""


def names(*args, **options):
    return {p.name: p.choices for p in compiler_space(*args, **options).parameters}


def test_passes_declare_choices_of_their_options():
    choices = {p.name: p.choices for p in declared_parameters()}
    assert {"num_stages", "prefetch_operands", "num_warps", *SWITCHES.values()} <= choices.keys()
    by_pass = {o.keyword: o.choices for o in lookup("async-pipeline").options}
    assert set(by_pass["num_stages"]) <= set(choices["num_stages"])
    assert choices["num_warps"] == (1, 2, 4, 8, 16)


def test_what_makes_no_difference_is_left_out():
    assert names(parse(COPY)) == {"num_warps": (1, 2, 4, 8, 16)}
    product = names(make(64, 64, 64), "sm_90")
    assert "num_warps" in product and "num_stages" in product
    assert "warp_specialize" not in product
    assert "warp_specialize" in names(make(64, 64, 64), "sm_90a")


def test_what_is_given_is_not_tried():
    assert names(parse(COPY), options={"num_warps": 4}) == {}


def test_a_target_that_there_is_not_is_refused():
    with pytest.raises(CompileError) as error:
        compiler_space(parse(COPY), "sm_1")
    assert error.value.code == "TIR0702"


def test_choices_are_of_options_that_there_are():
    with pytest.raises(TypeError, match="no option missing"):

        @pass_("undeclared", choices={"missing": (1, 2)})
        def undeclared_pass(function: Function, *, bound: int = 1) -> Function:
            """Nothing."""
            return function
