"""The variant of a kernel whose loops of dots by `mma` compute indices and addresses again."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

import tileir
from tests.backend.test_register_limit import code
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.assembler import Assembled
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.gpu_models import machine_of
from tileir.backend.options import CodeVariant
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import RegisterChoice
from tileir.backend.target import target
from tileir.backend.transforms.rematerialize import rematerialize
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module

RECOMPUTED = CodeVariant.RECOMPUTED


def matmul(*, dots: bool = True) -> Module:
    """`c` = `a` `b`, by steps of 32 of K, `b` with any strides; without `dots`, sums are
    multiplied. `matmul(a, b, c, n, row, column)`."""
    builder = Builder()
    data = {name: arg(pointer(F16), readonly=True) for name in "ab"}
    with builder.kernel(
        "matmul", **data, c=pointer(F32), n=I32, row=I32, column=I32
    ) as (a, b, c, n, row, column):  # fmt: skip
        k, j = builder.arange(32), builder.arange(16)
        total = builder.var(builder.zeros((16, 16)))
        with builder.for_(0, n, 32, stages=1) as i:
            left = (a + (j[:, None] * n + (i + k)[None, :])).load()
            right = (b + ((i + k)[:, None] * row + j[None, :] * column)).load()
            if dots:
                total.set(left.dot(right, total.get()))
            else:
                total += left.to(F32).sum(axis=1)[:, None] * right.to(F32).sum(axis=0)[None, :]
        (c + (j[:, None] * 16 + j[None, :])).store(total.get())
    return builder.module()


def test_the_results_are_those_of_the_interpreter() -> None:
    """Also of ops that have layouts, whose buffers are planned."""
    module, random = matmul(), np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((16, 64), (64, 16)))
    expected, actual = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    tileir.interpret(module, "matmul", (1,), [a, b, expected, 64, 16, 1])
    options = Options(num_warps=4)
    lowered = run_pipeline(module, target("sm_90"), options, None).stages["barriers"]
    result = rematerialize(lowered.functions["matmul"])
    assert result.statistics == {"blocks": 3}
    changed = lowered.with_functions({"matmul": result.ir})
    SimtExecutor().launch(changed, "matmul", (1,), [a, b, actual, 64, 16, 1], target="sm_90")
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@pytest.mark.parametrize("dots", [True, False])
def test_loops_of_dots_are_generated_again(dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compile_kernel(matmul(dots=dots), "sm_90", Options(num_warps=4))
    own, generated = kernel.generate, list[CodeVariant]()
    assert own is not None
    assert (own(RECOMPUTED)[1] == kernel.ptx) is not dots
    kernel = attrs.evolve(kernel, generate=lambda v: generated.append(v) or own(v))
    tried = lambda self, variant, code: variant is RECOMPUTED  # noqa: E731
    monkeypatch.setattr(RegisterChoice, "may_gain", tried)
    monkeypatch.setattr(RegisterChoice, "better", lambda self, code, other, variant: other)
    chosen = kernel.machine_code
    assert generated == [RECOMPUTED] * dots
    assert not dots or chosen.cubin == kernel._assembled_from(own(RECOMPUTED)[1]).cubin


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
def test_it_is_tried_where_more_blocks_would_be_resident_or_registers_are_spilled() -> None:
    kernel = compile_kernel(matmul(), "sm_90", Options(num_warps=4))
    code = kernel._assembled_from(kernel.ptx)
    machine = machine_of("sm_90")
    choice = RegisterChoice(machine, 4, 0, alone=False, dots=True)
    assert choice.may_gain(RECOMPUTED, attrs.evolve(code, registers=200))
    assert not choice.may_gain(RECOMPUTED, attrs.evolve(code, registers=32))
    assert choice.may_gain(RECOMPUTED, attrs.evolve(code, registers=255, spills=80))
    alone = RegisterChoice(machine, 4, 0, alone=True, dots=True)
    assert not alone.may_gain(RECOMPUTED, attrs.evolve(code, registers=200))


@pytest.mark.parametrize(
    ("before", "after", "is_better"),
    [
        (code(200, 8), code(102, 8), True),  # four blocks in place of two
        (code(110, 8, size=6528), code(64, 8, size=7424), False),  # an eighth more instructions
        (code(255, 8, spills=144), code(252, 8), True),
        (code(255, 8, spills=144), code(255, 8, spills=144), False),
        (code(200, 8), code(102, 8, spills=4), False),
    ],
)
def test_more_blocks_are_worth_few_instructions_and_fewer_spills_any(
    before: Assembled, after: Assembled, is_better: bool
) -> None:
    choice = RegisterChoice(machine_of("sm_90"), 4, 0, alone=False, dots=True)
    assert choice.better(before, after, RECOMPUTED) is (after if is_better else before)
