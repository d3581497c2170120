"""The gradient of attention: the kernels are right, and stay so as roles and by mma."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

from tests.backend.warp_specialize.gradients import Array, Case, Gradients, case, gradients
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.interp import interpret
from tileir.machine import dtype_of
from tileir.ops.gpu import SharedAlloc
from tileir.passmanager import run
from tileir.testing.kernels import attention
from tileir.testing.kernels_backward import (
    attention_delta,
    attention_keys,
    attention_queries,
    attention_scaled,
)
from tileir.types import BF16, F16

Launch = Callable[[Any, tuple[int, int], list[Any]], None]

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
D = 32
CASES = (
    case(1, D), case(64, D), case(150, D, causal=True), case(97, D, group=2),
    case(130, D, heads=2, group=2, causal=True),
)  # fmt: skip


def by(pipeline: str) -> Launch:
    """Interpreted after passes; on two blocks where they work for all instances."""

    def launch(module: Any, grid: tuple[int, int], arguments: list[Any]) -> None:
        changed = run(module, pipeline).module if pipeline else module
        assert (changed.stage == "warp_specialized") is bool(pipeline)
        more = len(changed.kernel(None).parameters) - len(arguments)
        extents = [*grid, 1][:more]
        interpret(changed, None, (2,) if more else grid, [*arguments, *extents])

    return launch


def machine(target: str, seed: int) -> Launch:
    """By the SIMT simulator, in the order drawn from `seed`."""

    def launch(module: Any, grid: tuple[int, int], arguments: list[Any]) -> None:
        SimtExecutor().launch(module, None, grid, arguments, target=target, seed=seed)

    return launch


def keys(
    launch: Launch, arguments: Case, reference: Gradients, bm: int, bn: int
) -> tuple[Array, Array]:
    """The gradients of k and v."""
    kind = BF16 if arguments.k.dtype == dtype_of(BF16) else F16
    out = np.full_like(arguments.k, np.nan), np.full_like(arguments.k, np.nan)
    module = attention_keys(bm, bn, arguments.q.shape[2], kind, causal=arguments.causal)
    arrays = [arguments.q, arguments.k, arguments.v, arguments.g, arguments.pad_rows(reference.lse)]
    arrays += [arguments.pad_rows(reference.delta), *out]
    numbers = [arguments.t, arguments.group, arguments.scale]
    launch(module, (-(-arguments.t // bn), len(arguments.k)), [*arrays, *numbers])
    return out


def queries(launch: Launch, arguments: Case, reference: Gradients, bm: int, bn: int) -> Array:
    """The gradient of q."""
    kind = BF16 if arguments.k.dtype == dtype_of(BF16) else F16
    out = np.full_like(arguments.q, np.nan)
    module = attention_queries(bm, bn, arguments.q.shape[2], kind, causal=arguments.causal)
    arrays = [arguments.q, arguments.k, arguments.v, arguments.g, arguments.pad_rows(reference.lse)]
    arrays += [arguments.pad_rows(reference.delta), out]
    numbers = [arguments.t, arguments.group, arguments.scale]
    launch(module, (-(-arguments.t // bm), arguments.heads), [*arrays, *numbers])
    return out


def fused_gradients(
    launch: Launch, arguments: Case, reference: Gradients, bm: int, bn: int
) -> tuple[Array, Array, Array]:
    """All three gradients: that of q as the kernel of keys adds it up, scaled."""
    kind = BF16 if arguments.k.dtype == dtype_of(BF16) else F16
    heads, t, d = arguments.q.shape
    out = tuple(np.full_like(like, np.nan) for like in (arguments.k, arguments.v, arguments.q))
    total = np.zeros(arguments.q.shape, np.float32)
    module = attention_keys(bm, bn, d, kind, causal=arguments.causal, fused=True)
    arrays = [arguments.q, arguments.k, arguments.v, arguments.g, arguments.pad_rows(reference.lse)]
    arrays += [arguments.pad_rows(reference.delta), *out[:2], total]
    launch(module, (-(-t // bn), len(arguments.k)), [*arrays, t, arguments.group, arguments.scale])
    module = attention_scaled(16, d, kind)
    interpret(module, None, (-(-t // 16), heads), [total, out[2], t, arguments.scale])
    return out[0], out[1], out[2]


def check(launch: Launch, arguments: Case, shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    """Both kernels against double precision."""
    reference = gradients(arguments)
    of_k, of_v = keys(launch, arguments, reference, *shapes[0])
    of_q = queries(launch, arguments, reference, *shapes[1])
    near((of_k, of_v, of_q), arguments, reference)


def near(results: tuple[Array, Array, Array], arguments: Case, reference: Gradients) -> None:
    """The gradients of k, v and q against double precision."""
    unit = 2.0**-8 if arguments.q.dtype != np.float16 else 2.0**-11
    for result, expected in zip(results, (reference.k, reference.v, reference.q), strict=True):
        close = 8 * unit * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=close)


SHAPES = ((32, 64), (64, 32)), ((64, 32), (32, 64)), ((24, 64), (48, 32))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("arguments", CASES, ids=str)
def test_formulas(arguments: Case, shapes: Any) -> None:
    check(by(""), arguments, shapes)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", ((32, 64), (64, 32), (24, 64)), ids=str)
@pytest.mark.parametrize("arguments", CASES, ids=str)
def test_formulas_of_all_gradients(arguments: Case, shape: tuple[int, int]) -> None:
    reference = gradients(arguments)
    near(fused_gradients(by(""), arguments, reference, *shape), arguments, reference)


def test_keys_that_are_not_there_have_no_weight() -> None:
    """Where all scores are low a score of 0 would have an infinite weight."""
    drawn = case(40, D, heads=1)
    inputs = attrs.evolve(drawn, q=np.full_like(drawn.q, 8.0), k=np.full_like(drawn.k, -2.0))
    reference = gradients(inputs)
    assert reference.lse.max() < -128
    near(fused_gradients(by(""), inputs, reference, 32, 64), inputs, reference)


def test_formulas_of_bf16() -> None:
    check(by(""), case(150, 64, kind=dtype_of(BF16), causal=True), ((64, 64), (64, 64)))


@pytest.mark.parametrize("kind", (np.float16, dtype_of(BF16)), ids=str)
def test_what_goes_before(kind: Any) -> None:
    """The forward kernel keeps the log-sum-exp, another one makes those of rows, and zeros."""
    inputs = case(77, D, causal=True, kind=kind)
    reference, element = gradients(inputs), F16 if kind is np.float16 else BF16
    o, lse, delta = (
        np.full_like(inputs.q, np.nan),
        inputs.pad_rows(reference.lse),
        inputs.pad_rows(0.0),
    )
    lse[:, : inputs.t] = np.nan
    arrays = [inputs.q, inputs.k, inputs.v, o]
    module = attention(64, 32, D, element, causal=True, save_lse=True)
    interpret(module, None, (2, 4), [*arrays, inputs.t, inputs.scale, lse])
    np.testing.assert_allclose(lse[:, : inputs.t], reference.lse, atol=1e-4)
    module, total = (
        attention_delta(16, D, element, fused=True),
        np.full(o.shape, np.nan, np.float32),
    )
    interpret(module, None, (5, 4), [o, inputs.g, delta, total, inputs.t])
    assert not total.any()
    recomputed = np.full_like(delta, np.nan)
    interpret(attention_delta(16, D, element), None, (5, 4), [o, inputs.g, recomputed, inputs.t])
    np.testing.assert_array_equal(recomputed, delta)
    close = 0.1 if element is BF16 else 0.01
    np.testing.assert_allclose(delta[:, : inputs.t], reference.delta, atol=close)
    assert np.isnan(lse[:, inputs.t :]).all() and np.isnan(delta[:, inputs.t :]).all()


ROLES = (
    f"{FRONT},warp-specialize",
    f"{FRONT},persist,warp-specialize,defer-wgmma-waits,pipeline-chained-matmuls,sink-wgmma-waits",
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pipeline", ROLES)
@pytest.mark.parametrize("arguments", CASES, ids=str)
def test_roles_interpreted(arguments: Case, pipeline: str) -> None:
    check(by(pipeline), arguments, ((32, 64), (64, 32)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pipeline", ROLES)
@pytest.mark.parametrize("arguments", CASES, ids=str)
def test_all_gradients_as_roles(arguments: Case, pipeline: str) -> None:
    reference = gradients(arguments)
    near(fused_gradients(by(pipeline), arguments, reference, 64, 64), arguments, reference)


SMALL = case(72, D, heads=2, group=2), case(100, D, heads=1, causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("arguments", SMALL, ids=str)
def test_roles_in_any_order(arguments: Case, seed: int) -> None:
    check(machine("sm_90a", seed), arguments, ((32, 64), (64, 32)))


WHOLE = (
    (case(100, D, heads=2, group=2), (64, 64)), (case(72, D, heads=1, causal=True), (128, 128)),
    (case(100, 128, heads=1, causal=True), (64, 128)), (case(140, 128, heads=1), (64, 128)),
    (case(150, 64, heads=1, causal=True), (64, 128)),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("arguments", "shape"), WHOLE, ids=str)
def test_all_gradients_in_any_order(arguments: Case, shape: tuple[int, int], seed: int) -> None:
    """By one warpgroup, by two that share the rows of matmuls, and by two that share the columns
    of those for queries."""
    reference = gradients(arguments)
    near(
        fused_gradients(machine("sm_90a", seed), arguments, reference, *shape), arguments, reference
    )


@pytest.mark.slow
@pytest.mark.parametrize("arguments", SMALL, ids=str)
def test_by_mma(arguments: Case) -> None:
    check(machine("sm_80", 0), arguments, ((32, 64), (64, 32)))


@pytest.mark.slow
def test_all_gradients_by_mma() -> None:
    inputs = case(100, D, heads=1, causal=True)
    reference = gradients(inputs)
    near(fused_gradients(machine("sm_80", 0), inputs, reference, 32, 64), inputs, reference)


@pytest.mark.slow
@pytest.mark.parametrize("d", (64, 128))
@pytest.mark.parametrize("causal", (False, True))
def test_code(causal: bool, d: int) -> None:
    """Registers suffice, and the two results of keys pass through one buffer."""
    for module in (attention_keys(64, 128, d, BF16, causal=causal),
                   attention_queries(128, 64, d, BF16, causal=causal)):  # fmt: skip
        result = compile_kernel(module, "sm_90a")
        machine_code = result.machine_code
        assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
        kernel = result.stages["barriers"].kernel(None)
        buffers = [op for op in kernel.ops if op.mnemonic == "gpu.shared_alloc"]
        assert len(buffers) == (7 if "keys" in kernel.name else 5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("d", (64, 128))
@pytest.mark.parametrize("causal", (False, True))
def test_code_of_all_gradients(causal: bool, d: int) -> None:
    """Two warpgroups multiply, five times an iteration, and what queries get leaves by copies; the
    buffer of the operand that they write is one for both loops."""
    kernel = compile_kernel(attention_keys(64, 128, d, BF16, causal=causal, fused=True), "sm_90a")
    machine_code = kernel.machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
    assert "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add" in kernel.ptx
    math = kernel.stages["barriers"].functions["attention_keys.consumer"]
    assert math.attributes["num_warps"] == 8
    for block in math.blocks.values():
        wgmmas = [op for op in block.ops if op.mnemonic == "gpu.wgmma"]
        assert len(wgmmas) in (0, 5)
        assert [op.trans_a for op in wgmmas] == [False] * 3 * bool(wgmmas) + (  # type: ignore[attr-defined]
            [True, False] if wgmmas else []
        )
    written = {op.a for op in math.ops if op.mnemonic == "gpu.wgmma" and op.trans_a}  # type: ignore[attr-defined]
    assert len(written) == 1


@pytest.mark.parametrize(("d", "panels"), ((64, {32, 64}), (128, {64})))
def test_panels_of_what_columns_are_shared_of(d: int, panels: set[int]) -> None:
    """Each warpgroup has whole panels of the keys, of which half the columns are no wider."""
    kernel = run(
        attention_keys(64, 128, d, BF16, fused=True), f"{FRONT},warp-specialize"
    ).module.kernel()
    buffers = [op for op in kernel.ops if isinstance(op, SharedAlloc) and op.shape[1:] == (128, d)]
    assert {op.panel for op in buffers} == panels
    alone = run(attention_keys(64, 128, d, BF16), f"{FRONT},warp-specialize").module.kernel()
    buffers = [op for op in alone.ops if isinstance(op, SharedAlloc) and op.shape[1:] == (128, d)]
    assert {op.panel for op in buffers} == {64}
