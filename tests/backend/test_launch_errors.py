"""What a launch is given, where it does not fit, is an error at the parameter or the kernel."""

from typing import Any

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.textual import parse

TEXT = """tir 1.0

define kernel void @k(f32* %x, i32 %n) {
entry:
  ret
}
"""
X = np.zeros(1, np.float32)


@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([X], (3, 1)),
        ({"y": X, "n": 1}, (3, 1)),
        ([X.astype(np.float64), 1], (3, 28)),
        ([X, np.zeros(2, np.int32)], (3, 36)),
        ([X, 1 << 40], (3, 36)),
    ],
)
def test_a_launch_error_has_a_place(on: str, arguments: Any, place: tuple[int, int]) -> None:
    with pytest.raises(TileirError) as caught:
        executor(on).launch(parse(TEXT, "k.tir"), "k", 1, arguments)
    error = caught.value
    assert error.code in ("TIR0510", "TIR0511", "TIR0710")
    assert error.location and error.location.file == "k.tir"
    assert (error.line, error.column) == place
