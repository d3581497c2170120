"""Masks of all lanes in every form, both at once; and choices that need no instruction."""

import itertools

import numpy as np
import pytest

from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.cpu.lane_values import AffineValue, VectorValue
from tileir.backend.cpu.thread import CpuThread
from tileir.types import F32, I1, I32

from .native import address, native

LANES = np.arange(32)


def uniform_condition(thread, base, at):
    """A condition that all lanes share, and that only the code knows: whether a number is not 0."""
    far = address(thread, I32, base, thread.integer(at))
    (value,) = thread.load_global(I32, 1, far, None, None, AccessAttributes())
    return thread.compare("ne", I32, value, thread.integer(0))


def odd(thread, base):
    """A condition of each lane."""
    (value,) = thread.load_global(
        I32, 1, address(thread, I32, base, thread.lane()), None, None, AccessAttributes()
    )
    return thread.compare("ne", I32, thread.binary("and", I32, value, thread.integer(1)),
                          thread.integer(0))  # fmt: skip


MASKS = {
    "none": (lambda t, base: None, LANES >= 0),
    "true": (lambda t, base: t.constant(I1, 1), LANES >= 0),
    "holds": (lambda t, base: uniform_condition(t, base, 40), LANES >= 0),
    "fails": (lambda t, base: uniform_condition(t, base, 41), LANES < 0),
    "known": (lambda t, base: t.compare("slt", I32, t.lane(), t.integer(20)), LANES < 20),
    "high": (lambda t, base: t.compare("sge", I32, t.lane(), t.integer(9)), LANES >= 9),
    "odd": (odd, LANES % 2 == 1),
}


@pytest.mark.sampled(25)
@pytest.mark.parametrize(("first", "second"), list(itertools.product(MASKS, MASKS)))
def test_lanes_in_both(first, second):
    def body(thread, base):
        both = thread.conjunction(MASKS[first][0](thread, base), MASKS[second][0](thread, base))
        to = address(thread, I32, base, thread.integer(64))
        mask = None if both == "true" else both
        thread.store_global(I32, address(thread, I32, to, thread.lane()), [thread.integer(7)], mask,
                            AccessAttributes())  # fmt: skip

    buffer = np.zeros(128, np.int32)
    buffer[:32], buffer[40] = LANES, 5
    native(body, buffer)
    assert ((buffer[64:96] == 7) == (MASKS[first][1] & MASKS[second][1])).all()


@pytest.fixture
def thread():
    thread = CpuThread()
    thread.sites = []
    thread.start("bb0")
    return thread


@pytest.mark.parametrize("value", ["%x", AffineValue("%b", 2, "0"), VectorValue("%w")])
def test_choices_that_need_no_instruction(thread, value):
    other = "%y"
    before = len(thread.lines)
    for condition in ("%c", VectorValue("%k")):
        assert thread.select(I32, condition, value, value) is value
    assert thread.select(I32, "true", value, other) is value
    assert thread.select(I32, "false", other, value) is value
    assert thread.conjunction(None, value) is value and thread.conjunction("true", value) is value
    assert thread.conjunction(value, None) is value and thread.conjunction(value, "true") is value
    assert thread.when("true", (I32,), lambda: [value]) == [value]
    assert len(thread.lines) == before
    assert thread.select(F32, "%c", "%x", "%y") not in ("%x", "%y")
    assert len(thread.lines) == before + 1


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("add", "3", "4", "7"),
        ("add", "2147483647", "1", "-2147483648"),
        ("add", "0", "%x", "%x"),
        ("sub", "%x", "0", "%x"),
        ("mul", "1", "%x", "%x"),
        ("mul", "%x", "1", "%x"),
        ("shl", "5", "2", "20"),
    ],
)
def test_additions_and_multiplications_that_need_no_instruction(thread, name, a, b, expected):
    before = len(thread.lines)
    assert thread.binary(name, I32, a, b) == expected
    assert len(thread.lines) == before
