"""Transposes that follow casts to narrower elements."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import tileir
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.backend.transforms.sink_transposes import sink_transposes
from tileir.builder import BF16, F16, F32, I8, Builder, arg, pointer
from tileir.types import element_of


def module_of(body: Any, element: Any = F32) -> tileir.Module:
    """`y[i, j] = body(builder, x[i, j])`, of 64 x 64 elements."""
    b = Builder()
    kinds = {"x": arg(pointer(element), aligned=16), "y": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        i = b.arange(64)
        place = i[:, None] * 64 + i[None, :]
        (y + place).store(body(b, (x + place).load()))
    return b.module()


def transpose(b: Builder, value: Any) -> Any:
    return b.trans(value, order=[1, 0])


CASES = {
    "narrow": (lambda b, x: transpose(b, x).to(BF16).to(F32), F32, [BF16]),
    "twice": (lambda b, x: transpose(b, x).to(F16).to(F32).to(BF16).to(F32), F32, [F16]),
    "integer": (lambda b, x: transpose(b, x).to(I8).to(F32), F32, [I8]),
    "wide": (lambda b, x: transpose(b, x).to(F32), BF16, [BF16]),
    "as wide": (lambda b, x: transpose(b, x).exp(), F32, [F32]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_transpose_follows_a_cast_to_fewer_bits(case: str) -> None:
    body, element, expected = CASES[case]
    function = sink_transposes(module_of(body, element).kernel())
    moved = [op for op in function.ops if op.mnemonic == "trans"]
    assert [element_of(op.results[0].type) for op in moved] == expected


def test_a_transpose_with_other_readers_stays() -> None:
    def body(b: Builder, x: Any) -> Any:
        t = transpose(b, x)
        return t.to(BF16).to(F32) + t

    function = module_of(body).kernel()
    assert sink_transposes(function) is function


@pytest.mark.parametrize("machine", ["sm_80", "sm_90a"])
def test_operands_move_as_they_are_multiplied(machine: str) -> None:
    """`x^T x` in bf16 is the operand of another dot: no conversion moves elements of f32."""

    def body(b: Builder, x: Any) -> Any:
        p = b.dot(x, transpose(b, x), b.zeros((64, 64)))
        return b.dot(transpose(b, p * 0.5).to(BF16), x, b.zeros((64, 64)))

    module = module_of(body, BF16)
    done = run_pipeline(module, target(machine), Options(num_warps=4, warp_specialize=False), None)
    function = done.stages["layouts"].functions[done.kernel]
    last = [op for op in function.ops if op.mnemonic in ("dot", "gpu.wgmma")][-1]
    ops = list(function.ops)
    before = [op for op in ops[: ops.index(last)] if op.mnemonic == "gpu.convert_layout"]
    assert all(element_of(op.results[0].type) is BF16 for op in before)
    rng = np.random.default_rng(3)
    array = rng.integers(-2, 3, 4096).astype(bfloat16)
    result, expected = (np.zeros(4096, np.float32) for _ in range(2))
    SimtExecutor(target(machine)).launch(module, None, 1, [array, result], num_warps=4)
    tileir.interpret(module, None, 1, [array, expected])
    assert np.array_equal(result, expected)
    assert expected.any()
