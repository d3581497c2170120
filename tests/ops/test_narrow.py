"""Functions of f32 and narrower as they are in f64, before their one rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.machine import f32_functions


@pytest.mark.parametrize(("name", "real"), [("exp", np.exp), ("exp2", np.exp2)])
def test_they_are_good_to_38_bits(name: str, real: Any) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-690, 690, 4000), rng.uniform(-1, 1, 4000), np.arange(-99, 99)])
    got, expected = f32_functions.KERNELS[name](x.copy()), real(x)
    assert np.abs(got / expected - 1).max() < 2.0**-38


@pytest.mark.parametrize("shape", [(), (5,), (16384,), (16385,), (3, 8192), (5, 7, 911)])
def test_parts_are_the_whole(shape: tuple[int, ...]) -> None:
    """Whatever the size: each element is where its operands are."""
    x = np.arange(float(np.prod(shape))).reshape(shape)
    for operands in ((x,), (x, 2 * x + 1)):
        got = f32_functions.in_blocks(lambda *parts: sum(3 * p for p in parts), *operands)
        assert got.shape == shape
        np.testing.assert_array_equal(got, sum(3 * p for p in operands))
