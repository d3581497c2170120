"""Generated programs are legal, whatever the numbers they come from."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tileir
from tileir.testing import decode, difference, programs, run, sample, single
from tileir.testing.elementwise import elementwise_ops


@settings(max_examples=100)
@given(programs())
def test_programs_verify(program):
    assert tileir.verify(program.module) == ()


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 4), max_size=20))
def test_every_list_of_numbers_is_a_program(statements):
    tileir.verify(decode(statements).module)


def test_programs_have_loops_branches_memory_and_predicates():
    counts = Counter(op.mnemonic for n in range(60) for op in sample(n).module.kernel().ops)
    for mnemonic in (
        "cond_br",
        "load",
        "store",
        "psi",
        "reduce",
        "scan",
        "trans",
        "select",
        "call",
        "atomic_rmw",
    ):
        assert counts[mnemonic] >= 5, mnemonic


def test_a_seed_gives_the_same_program():
    first, second = ([op.mnemonic for op in sample(11).module.kernel().ops] for _ in range(2))
    assert first == second


def test_every_pure_elementwise_op_is_generated():
    names = {cls.mnemonic for cls in elementwise_ops()}
    assert {"add", "fma", "select", "fptosi", "bitcast", "icmp"} <= names


def test_arguments_of_a_seed_are_the_same():
    program = sample(3)
    first, second = program.arguments(5), program.arguments(5)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_inputs_have_extremes_of_every_float():
    """NaNs, infinities and denormal numbers, in some arrays, and none in others."""
    arrays = [sample(3).arguments(seed)["x"] for seed in range(20)]
    assert any(np.isfinite(a).all() for a in arrays)
    values = np.concatenate([a.reshape(-1) for a in arrays]).astype(np.float64)
    smallest = np.finfo(np.float32).smallest_normal
    assert np.isnan(values).any() and {np.inf, -np.inf} <= set(values.tolist())
    assert ((values != 0) & (abs(values) < smallest)).any()


@pytest.mark.slow
@settings(max_examples=60)
@given(programs(), st.integers(0, 3))
def test_programs_have_a_meaning(program, seed):
    """No undefined lane is stored, nothing is out of bounds, no two instances conflict."""
    first, second = run(program, seed), run(program, seed)
    assert difference(first, second) is None


def test_a_difference_names_buffer_and_element():
    expected = {"o": np.float32([0.0, 1.0, np.nan])}
    assert difference({"o": np.float32([0.0, 1.0, np.nan])}, expected) is None
    assert difference({"o": np.float32([-0.0, 1.0, np.nan])}, expected).startswith("o[0]")
    assert difference({"o": np.float32([0.0, 1.0, 2.0])}, expected).startswith("o[2]")


def test_a_statement_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"no statement is called 'nope'; there are: .*fadd"):
        single("nope", seed=1)
