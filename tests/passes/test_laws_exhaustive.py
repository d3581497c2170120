"""Every law of the simplifier on every value of small types: all i1 and i8, and all special values
of f16, of addresses and of the i32 that a cast needs; literals too. The table is enumerated, so a
law that no type here fits fails.

Three free operands at i8 take corner values, as do pairs of literals; at i1 they take all.
"""

import itertools

import numpy as np
import pytest

from tests.passes import test_laws as laws
from tileir.machine import dtype_of
from tileir.passes.laws.terms import names
from tileir.passes.simplify import LAWS
from tileir.types import F16, F32, I1, I8, I32, Pointer, element_of, pointer
from tileir.values import Constant

ADDRESS = pointer(F32)
CORNERS = [0, 1, 2, 3, 4, 7, 8, 15, 16, 63, 64, 127, 128, 129, 200, 254, 255]
EVERY = {I1: [0, 1], I8: list(range(256)), F16: laws._special(F16)}


def domain(element, free):
    """The bits that a free operand of `element` takes next to `free - 1` others."""
    if element is I8 and free > 2:
        return CORNERS
    return EVERY.get(element) or laws._special(element)


def lane_count(element, free):
    return len(domain(element, free)) ** free if free else 1


def lanes(value, position, count, generator):
    """Operand `position` counts through its values `position` digits up."""
    (total,) = value.type.shape
    radix = round(total ** (1 / count))
    digits = np.arange(total) // radix**position % radix
    element = element_of(value.type)
    if element is I1:
        return (digits & 1).astype(bool)
    dtype = dtype_of(value.type)
    bits = laws._special(element)
    for choice in (EVERY.get(element), CORNERS if element is I8 else None):
        if choice is not None and len(choice) == radix:
            bits = choice
    picked = np.array(bits, np.uint64)[digits % len(bits)]
    return picked.astype(f"u{dtype.itemsize}").view(dtype)


def literals(law, element):
    """All literals of `element`; corners where there are two."""
    expected = sorted({n.name for n in names(law.left) if n.literal})
    if isinstance(element, Pointer):
        element = I32
    bits = EVERY.get(element) or laws._special(element)
    if len(expected) > 1 and element is I8:
        bits = CORNERS
    for chosen in itertools.product(bits, repeat=len(expected)):
        yield {name: Constant(element, b) for name, b in zip(expected, chosen, strict=True)}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.text.replace(" ", ""))
def test_law_on_every_value(law, monkeypatch):
    monkeypatch.setattr(laws, "ELEMENTS", (I1, I8, F16, ADDRESS, I32))
    monkeypatch.setattr(laws, "_lane_count", lane_count)
    monkeypatch.setattr(laws, "_lanes", lanes)
    monkeypatch.setattr(laws, "_literals", literals)
    laws.test_law(law)  # fails where no type fits
