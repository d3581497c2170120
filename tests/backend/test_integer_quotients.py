"""Quotients and remainders of neighbours by one number, of which threads compute one."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import I32, I64, Builder, arg, pointer
from tileir.ir import Module
from tileir.types import Scalar


def quotients(element: Scalar, multiple: int, signed: bool, shape: tuple[int, int]) -> Module:
    """`k(q, r, first, n)`: the quotients q and remainders r by n, a multiple of `multiple`, of the
    numbers from `first` (a multiple of 4 below 2^30) on, for a tile of `shape` whose rows follow
    each other."""
    b = Builder()
    data, rows = arg(pointer(element), aligned=16), shape[0]
    divisors = arg(element, multiple_of=multiple)
    with b.kernel("k", q=data, r=data, first=element, n=divisors) as (q, r, first, n):
        at = b.arange(rows)[:, None] * shape[1] + b.arange(shape[1])[None, :]
        i = (at if element is I32 else at.to(element)) + (first & 0x3FFFFFFC)
        quotient, rest = (b.sdiv, b.srem) if signed else (b.udiv, b.urem)
        divisor = b.splat(n, to=i.type)
        (q + at).store(quotient(i, divisor))
        (r + at).store(rest(i, divisor))
    return b.module()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("element", [I32, I64])
def test_a_thread_divides_one_of_its_neighbours(element: Scalar, signed: bool) -> None:
    """Where the divisor is a multiple of 4, four neighbours have one quotient, and consecutive
    remainders; a thread owns as many as one access reads."""
    compiled = [
        compile_(quotients(element, each, signed, (1, 512)), "sm_90a", {"num_warps": 4}).ptx
        for each in (4, 1)
    ]
    divisions = [ptx.count("div.") + ptx.count("rem.") for ptx in compiled]
    owned = 4 if element is I32 else 2
    assert divisions[0] * owned <= divisions[1], divisions


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [(1, 512), (3, 40), (64, 4)])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("n", [4, 12, 20, 64, 1000, -12])
def test_neighbours_have_their_quotients_and_remainders(
    n: int, signed: bool, shape: tuple[int, int]
) -> None:
    module = quotients(I32, 4, signed, shape)
    for first in (0, 1000, 2**30 - 4):
        result = []
        for run in (tileir.interpret, SimtExecutor().launch):
            outputs = [np.full(shape[0] * shape[1], -7, np.int32) for _ in range(2)]
            run(module, "k", 1, [*outputs, first, n])
            result.append(outputs)
        np.testing.assert_array_equal(result[0], result[1])
