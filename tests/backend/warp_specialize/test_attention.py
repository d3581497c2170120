"""Attention of every head size and type as roles: as numpy has it, in any order, without spills."""

from __future__ import annotations

from math import log
from typing import Any

import attrs
import ml_dtypes
import numpy as np
import pytest

import tileir.backend
from tileir.backend.compile import run_pipeline
from tileir.backend.options import Options
from tileir.backend.shared_memory.requirements import is_warp_local
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.builder import BF16, F8E4M3, F16
from tileir.interp import interpret
from tileir.ops.gpu import BlockBarrier
from tileir.testing.attention import LSE_PADDING, attention

DTYPES = {F16: np.float16, BF16: ml_dtypes.bfloat16, F8E4M3: ml_dtypes.float8_e4m3fn}
FAR = {F16: 4e-3, BF16: 3e-2, F8E4M3: 0.15}
"""How far results may be from those of exact weights."""


@attrs.frozen
class Case:
    """A tile of `bm` rows by `bn` keys, heads of `d`, sequences of `t`; `group` heads of queries
    share keys and values."""

    bm: int
    bn: int
    d: int
    t: int
    operand: Any = F16
    causal: bool = False
    group: int = 1
    biased: bool = False

    @property
    def has_transposed_values(self) -> bool:
        """Whether values are [d, t]."""
        return self.operand.bits == 8

    def module(self, slack: float = 8.0) -> Any:
        result = BF16 if self.has_transposed_values else None
        return attention(
            self.bm, self.bn, self.d, self.operand, result, causal=self.causal,
            grouped=self.group > 1, v_transposed=self.has_transposed_values, slack=slack,
            biased=self.biased, save_lse=self.biased,
        )  # fmt: skip

    def arguments(self) -> tuple[list[Any], Any]:
        """What a launch is given, and what it is to give."""
        random, heads = np.random.default_rng(self.t), 2 * self.group
        q, k, v = (
            (2 * random.standard_normal((n, self.t, self.d))).astype(DTYPES[self.operand])
            for n in (heads, 2, 2)
        )
        actual = np.full_like(
            q, np.nan, DTYPES[BF16 if self.has_transposed_values else self.operand]
        )
        scale = 0.5 / self.d**0.5
        more: list[Any] = [self.group] if self.group > 1 else []
        bias = np.zeros(())
        if self.biased:
            bias = random.standard_normal((heads, self.t, self.t)).astype(DTYPES[self.operand])
            more = [np.full(heads * LSE_PADDING, np.nan, np.float32), *more, bias]
        values = np.ascontiguousarray(v.transpose(0, 2, 1)) if self.has_transposed_values else v
        arguments = [q, k, values, actual, self.t, scale, *more]
        return arguments, self.reference(q, k, v, scale, bias.astype(np.float64))

    def reference(self, q: Any, k: Any, v: Any, scale: float, bias: Any) -> Any:
        k, v = (np.repeat(x.astype(np.float64), self.group, 0) for x in (k, v))
        scores = scale * log(2) * (q.astype(np.float64) @ k.transpose(0, 2, 1) + bias)
        if self.causal:
            scores = np.where(np.tril(np.ones((self.t, self.t), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    @property
    def grid(self) -> tuple[int, int, int]:
        return -(-self.t // self.bm), 2 * self.group, 1

    def __str__(self) -> str:
        way = "causal" if self.causal else "full"
        bias = "-bias" if self.biased else ""
        return f"{self.bm}x{self.bn}x{self.d}-t{self.t}-{self.operand}-{way}-g{self.group}{bias}"


CASES = (
    Case(192, 32, 64, 99), Case(128, 32, 64, 77, BF16, True), Case(128, 32, 64, 65, F16, True, 2),
    Case(128, 32, 96, 45, BF16), Case(128, 16, 128, 33, F16, True), Case(128, 16, 256, 19, BF16),
    Case(128, 64, 64, 144, F8E4M3), Case(128, 32, 64, 80, F8E4M3, True, 2),
    Case(128, 32, 64, 72, BF16, False, 2, True),
    Case(64, 16, 32, 1), Case(64, 16, 32, 130, BF16, True),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_roles_in_any_order(case: Case) -> None:
    machine = target("sm_90a")
    done = run_pipeline(case.module(), machine, Options(), None)
    last = done.stages["barriers"]
    mnemonics = [op.mnemonic for op in last.functions["attention.consumer"].ops]
    assert (
        mnemonics.count("gpu.named_barrier_sync") == mnemonics.count("gpu.conditional_scale") == 1
    )
    arguments, expected = case.arguments()
    far = FAR[case.operand]
    for seed in range(2):
        arguments[3].fill(np.nan)
        values = [*arguments, *case.grid]
        simt.run(
            last, done.kernel, (2, 1, 1), values, machine, done.memory, done.num_warps, seed=seed
        )
        np.testing.assert_allclose(arguments[3].astype(np.float64), expected, rtol=far, atol=far)


def test_a_bias_is_loaded_before_the_matmuls_and_stays_within_warps() -> None:
    """No warp of an iteration waits for those of the other warpgroup, although there are stores of
    threads after the loop."""
    case = Case(128, 32, 64, 72, BF16, biased=True)
    last = run_pipeline(case.module(), target("sm_90a"), Options(), None).stages["barriers"]
    consumer = last.functions["attention.consumer"]
    assert all(is_warp_local(op) for op in consumer.ops if op.mnemonic == "gpu.convert_layout")
    barriers = [op for op in consumer.ops if isinstance(op, BlockBarrier)]
    assert all(op.warp or op.warpgroup for op in barriers)
    block = next(x for x in consumer.blocks.values() if any(map(_is_ordering_barrier, x.ops)))
    seen = [op.mnemonic for op in block.ops]
    assert seen.index("load") < seen.index("gpu.mbarrier_wait")
    arrival, wait = seen.index("gpu.named_barrier_arrive"), seen.index("gpu.wgmma_wait")
    assert arrival < seen.index("gpu.convert_layout") < wait


def _is_ordering_barrier(op: Any) -> bool:
    return op.mnemonic == "gpu.named_barrier_sync"


@pytest.mark.parametrize("slack", (0.0, 8.0))
@pytest.mark.parametrize("case", CASES[-2:], ids=str)
def test_levels_that_lag(case: Case, slack: float) -> None:
    """Interpreted: results are the same whether accumulators are rescaled at once or not."""
    arguments, expected = case.arguments()
    interpret(case.module(slack), None, case.grid, arguments)
    far = FAR[case.operand]
    np.testing.assert_allclose(arguments[3].astype(np.float64), expected, rtol=far, atol=far)


COMPILED = (
    (Case(192, 128, 64, 0, BF16), 128), (Case(128, 96, 96, 0, BF16, True), 168),
    (Case(128, 128, 128, 0, BF16, True, 4), 168), (Case(128, 64, 256, 0, F16), 168),
    (Case(128, 128, 128, 0, F8E4M3), 168), (Case(192, 64, 64, 0, F8E4M3, True), 128),
)  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case, registers", COMPILED, ids=str)
def test_nothing_is_spilled(case: Case, registers: int) -> None:
    compiled = tileir.backend.compile(case.module(), "sm_90a")
    assert compiled.host is not None
    used = compiled.metadata
    assert (used.registers, used.spills, used.stack) == (registers, 0, 0)
