"""Kernels of tutorials, libraries and PyTorch's compiler as Triton 3.9 has them, less locations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.sizes import for_each
from tileir.analysis.loops import loops
from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.frontends.ttir import read

HERE = Path(__file__).parent / "kernels"
F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
RUN = ["interpreter", "simt", "cpu"]


def random_array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


def launch(name: str, grid: Any, on: str, *args: Any) -> list[Any]:
    """The arguments after a launch."""
    module = read((HERE / f"{name}.ttir").read_text(), f"{name}.ttir", num_warps=4)
    executor(on).launch(module, None, grid, list(args))
    return list(args)


def close(actual: Any, expected: Any, rtol: float = 1e-4) -> None:
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=rtol, atol=rtol)


@for_each("file", sorted(HERE.glob("*.ttir")))
def test_a_text_of_others_names_its_origin_and_licence(file: Path) -> None:
    origin, project, owner, licence = file.read_text().splitlines()[:4]
    assert origin.startswith("// Compiled from ") and project.startswith("// of github.com/")
    assert owner.startswith("// Copyright ")
    match = re.fullmatch(r"// SPDX-License-Identifier: \S+ \((LICENSES/\S+\.txt)\)", licence)
    assert match and (HERE / match[1]).stat().st_size > 1000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", RUN)
def test_softmax_calls_functions_and_walks_rows(on: str) -> None:
    x = random_array(7, 200)
    out, *_ = launch("softmax", 3, on, np.zeros((7, 200), F32), x, 200, 200, 7, 200)
    close(out, np.exp(x) / np.exp(x).sum(1, keepdims=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_matmul_by_groups_with_leaky_relu(on: str) -> None:
    a, b = random_array(100, 96).astype(F16), random_array(96, 72, seed=1).astype(F16)
    c = launch("matmul", 4, on, a, b, np.zeros((100, 72), F16), 100, 72, 96, 96, 72, 72)[2]
    product = a.astype(F32) @ b.astype(F32)
    close(c, np.where(product >= 0, product, 0.01 * product), 5e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_causal_attention_by_descriptors(on: str) -> None:
    q, k, v = (random_array(2, 128, 64, seed=i).astype(F16) for i in range(3))
    row, out = np.zeros((2, 128), F32), np.zeros((2, 128, 64), F16)
    launch("attention", (2, 2), on, 0.5, row, 2, q, k, v, out, 128)
    s = np.einsum("hmd,hnd->hmn", q.astype(F32), k.astype(F32)) * 0.5
    s = np.where(np.tril(np.ones((128, 128), bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    close(out, np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), v.astype(F32)), 5e-3)
    close(row, np.log2(np.exp(s).sum(-1)), 5e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", RUN)
def test_layer_norm_backward_takes_locks(on: str) -> None:
    x, dy, w = random_array(6, 100), random_array(6, 100, seed=1), random_array(100, seed=2)
    mean, rstd = x.mean(1), 1 / x.std(1)
    dx, dw, db = np.zeros((6, 100), F32), np.zeros((2, 100), F32), np.zeros((2, 100), F32)
    lock = np.zeros(4, I32)
    launch("layer_norm_backward", 6, on, dx, dy, dw, db, x, w, mean, rstd, lock, 100, 100)
    normal, weighted = (x - mean[:, None]) * rstd[:, None], w * dy
    c1, c2 = (normal * weighted).mean(1, keepdims=True), weighted.mean(1, keepdims=True)
    close(dx, (weighted - normal * c1 - c2) * rstd[:, None])
    close(dw.sum(0), (dy * normal).sum(0))
    close(db.sum(0), dy.sum(0))
    assert lock.tolist() == [0, 0, 1, 1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", RUN)
def test_argmax_finds_nan_first(on: str) -> None:
    x = random_array(5, 64)
    x[2, 30] = x[2, 40] = np.nan
    x[1, 10] = x[1, 20] = 9
    place, most = np.zeros(5, I64), np.zeros(5, F32)
    launch("argmax", 2, on, x, place, most, 5, 64)
    assert place.tolist() == np.argmax(x, 1).tolist()
    np.testing.assert_array_equal(most, np.max(x, 1))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", RUN)
def test_a_split_scan_looks_back_at_other_blocks(on: str) -> None:
    x, out, work = random_array(250), np.zeros(250, F32), np.zeros(8, I64)
    launch("split_scan", 4, on, x, out, work, 250)
    close(out, np.cumsum(x, dtype=np.float64))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_scaled_dots(on: str) -> None:
    kind = ml_dtypes.float8_e5m2
    a, b, out = random_array(64, 128).astype(kind), random_array(128, 64, seed=1).astype(kind), None
    scales = [(np.arange(256) % n + 124).astype(np.int8).reshape(64, 4) for n in (3, 4)]
    out = np.zeros((64, 64), F32)
    launch("scaled_matmul", 1, on, a, b, out, *scales, 64, 64, 128, 4, 128, 64, 64)
    left, right = (np.exp2(s.view(np.uint8).astype(F32) - 127).repeat(32, 1) for s in scales)
    close(out, (a.astype(F32) * left) @ (b.astype(F32) * right.T), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_persistent_matmuls_by_descriptors(on: str) -> None:
    a, b = random_array(128, 96).astype(F16), random_array(128, 96, seed=1).astype(F16)
    c = np.zeros((128, 128), F16)
    launch("descriptors", 3, on, a, b, c, 128, 128, 96)
    close(c, a.astype(F32) @ b.astype(F32).T, 1e-2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("on", RUN)
def test_a_convolution_returns_early(on: str) -> None:
    x, w, bias = (random_array(*s).astype(F16) for s in ((20, 40), (40, 4), (40,)))
    starts, out = np.array([0, 7, 20], I32), np.zeros((20, 40), F16)
    launch("causal_convolution", (2, 2, 2), on, x, w, bias, starts, out, 40, 40, 4)
    for first, last in ((0, 7), (7, 20)):
        past = np.concatenate([np.zeros((3, 40)), x[first:last]])
        totals = sum(past[j : j + last - first] * w[:, j] for j in range(4)) + bias
        close(out[first:last], totals / (1 + np.exp(-totals)), 1e-2)


@pytest.mark.parametrize("on", RUN)
def test_a_recurrence_scans_pairs_backwards(on: str) -> None:
    gates, tokens, out = random_array(4, 64), random_array(4, 64, seed=1), np.zeros((4, 64), F32)
    launch("recurrence", (2, 2), on, gates, tokens, out)
    expected, state = np.zeros((4, 64)), np.zeros(4)
    for i in reversed(range(64)):
        state = expected[:, i] = gates[:, i] * state + tokens[:, i]
    close(out, expected)


@pytest.mark.parametrize("on", RUN)
def test_counts_are_added_up(on: str) -> None:
    x, counts = (np.arange(150) * 7 % 32).astype(I32), np.zeros(32, I32)
    launch("histogram", 3, on, x, counts, 150)
    assert (counts == np.bincount(x, minlength=32)).all()


@pytest.mark.parametrize("on", RUN)
def test_functions_of_libdevice_are_formulas(on: str) -> None:
    x, y = np.linspace(-1, 1, 100).astype(F32), np.zeros(100, F32)
    launch("asin", 1, on, x, y, 100)
    close(y, np.arcsin(x))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["matmul", "attention", "descriptors"])
def test_matmuls_are_those_of_warpgroups(name: str) -> None:
    module = read((HERE / f"{name}.ttir").read_text(), num_warps=4)
    assert "wgmma.mma" in compile_kernel(module, target="sm_90a").ptx


def promises(name: str, **options: int) -> list[bool]:
    """Whether each jump back to the start of a loop promises independent loads."""
    module = read((HERE / f"{name}.ttir").read_text(), **options)
    return [
        getattr(blocks[latch].terminator, "independent_loads", False)
        for f in module.functions.values()
        for blocks in [f.blocks]
        for loop in loops(f).by_header.values()
        for latch in loop.latches
    ]


def test_innermost_loops_with_stages_promise_independent_loads() -> None:
    assert promises("matmul") == [True]
    assert promises("matmul", num_stages=1) == [False]
    assert promises("softmax") == [True]
    nested = """
module {
  tt.func public @f(%p: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {
      scf.for %j = %c0 to %n step %c1  : i32 {
        tt.store %p, %j : !tt.ptr<i32>
      } {tt.num_stages = 4 : i32}
      scf.for %k = %c0 to %n step %c1  : i32 {
        tt.store %p, %k : !tt.ptr<i32>
      } {tt.num_stages = 1 : i32}
    }
    tt.return
  }
}
"""
    jumps = [op for op in read(nested).functions["f"].ops if op.mnemonic == "br"]
    assert [op.stages for op in jumps if op.independent_loads] == [4]


LOOP = """\
module {
  tt.func public @f(%p: !tt.ptr<i32>, %n: i32, %c: i1) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1  : i32 {
      tt.store %p, %i : !tt.ptr<i32>
      INSIDE
      tt.store %p, %n : !tt.ptr<i32>
    } {OPTIONS}
    tt.return
  }
}
"""


@for_each(
    ("inside", "is_innermost"),
    [
        ("%k = arith.addi %i, %i : i32", True),
        ("scf.if %c {\ntt.store %p, %n : !tt.ptr<i32>\n}", True),
        ("scf.for %k = %c0 to %n step %c1 : i32 {\n} {tt.num_stages = 1 : i32}", False),
        ("scf.while : () -> () {\nscf.condition(%c)\n} do {\nscf.yield\n}", False),
        (
            "scf.if %c {\ntt.store %p, %n : !tt.ptr<i32>\n"
            "scf.while : () -> () {\nscf.condition(%c)\n} do {\nscf.yield\n}\n}",
            False,
        ),
    ],
)
@for_each("stages", [None, 0, 1, 2])
@for_each("unroll", [None, 0, 4])
def test_requests_of_loops(
    inside: str, is_innermost: bool, stages: int | None, unroll: int | None
) -> None:
    """Independent loads are promised of an innermost `scf.for` with several stages; independent
    iterations as well where it states them. Less than one stage is one."""
    stated = {"tt.num_stages": stages, "tt.loop_unroll_factor": unroll}
    options = ", ".join(f"{name} = {n} : i32" for name, n in stated.items() if n is not None)
    text = LOOP.replace("INSIDE", inside).replace("{OPTIONS}", f"{{{options}}}" if options else "")
    f = read(text).functions["f"]
    latches = {
        header: f.blocks[label].ops[-1]
        for header, loop in loops(f).by_header.items()
        for label in loop.latches
    }
    pipelined = is_innermost and (3 if stages is None else stages) > 1
    latch = latches.pop("loop")
    assert not any(op.independent_loads for op in latches.values())
    assert latch.independent_loads == pipelined
    assert latch.independent_iterations == (pipelined and stages is not None)
    assert (latch.stages or 0) == (0 if stages is None else max(stages, 1))
    assert (latch.unroll or 0) == (0 if unroll is None else max(unroll, 1))
