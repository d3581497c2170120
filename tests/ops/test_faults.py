"""Where a program that has no meaning is said to have lost it."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.errors import InterpretError
from tileir.interp import interpret
from tileir.machine import Machine
from tileir.textual import parse

DIVISION = """tir 1.0
define kernel void @k(i32* %x) {
entry:
  %i = make_range i32<4>
  %q = sdiv i32<4> 12, %i
  ret
}
"""


def test_a_fault_is_at_its_op() -> None:
    with pytest.raises(InterpretError, match=r"sdiv: .* in element 0") as caught:
        interpret(parse(DIVISION, "division.tir"), None, 1, [np.zeros(4, np.int32)])
    place = caught.value.diagnostics[0].location
    assert place is not None and (place.file, place.line) == ("division.tir", 5)


def test_a_fault_of_no_op_has_no_place() -> None:
    diagnostic = Machine().fault("TIR0501", "outside", None).diagnostics[0]
    assert (diagnostic.code, diagnostic.message, diagnostic.location) == (
        "TIR0501",
        "outside",
        None,
    )
