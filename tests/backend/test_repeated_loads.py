"""Loads of the word of each packed weight: each word is loaded once, and repeated in registers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.target import target
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer

N, K = 64, 64


MOST_ITERATIONS = 5


def gptq_matmul(
    rows: int, bits: int, *, masked: bool = False, element: Any = I32, transposed: bool = False
) -> Any:
    """out = x ((words >> shift) & mask) * scales: weights are packed along k, and each is loaded
    with its word; there is one row of scales for two blocks of K. With `transposed`, words are
    contiguous along k."""
    b = Builder()
    per = element.bits // bits
    elements = {"x": F16, "words": element, "scales": F16}
    kinds = {name: arg(pointer(e), aligned=16) for name, e in elements.items()}
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16), iterations=arg(I32)) as (
        x, words, scales, out, iterations,
    ):  # fmt: skip
        total = b.var(b.full((rows, N), 0.0, F32))
        k, n = b.arange(K), b.arange(N)
        with b.for_(0, iterations, stages=3) as i:
            left = (x + (b.arange(rows)[:, None] * K + k[None, :] + i * (rows * K))).load()
            if transposed:
                row_major = n[None, :] * (MOST_ITERATIONS * K // per)
                places = (k // per)[:, None] + row_major + i * (K // per)
            else:
                places = ((k + i * K) // per)[:, None] * N + n[None, :]
            if masked:
                word = (words + places).load(
                    ((k + i * K) // per < 12)[:, None].broadcast_to(K, N), 0
                )
            else:
                word = (words + places).load()
            shift = ((k % per) * bits).to(element)[:, None]
            weights = ((word >> shift.broadcast_to(K, N)) & (2**bits - 1)).to(F16)
            group = ((k + i * K) // (2 * K))[:, None] * N + n[None, :]
            right = weights * (scales + group).load()
            total.set(b.dot(left, right, total.get()))
        (out + (b.arange(rows)[:, None] * N + n[None, :])).store(total.get())
    return b.module()


def arguments(
    rows: int, bits: int, iterations: int, element: Any = I32, *, transposed: bool = False
) -> list[Any]:
    random = np.random.default_rng(iterations)
    kind = {I32: np.int32, I8: np.int8}[element]
    limits = np.iinfo(kind)
    packed = (MOST_ITERATIONS if transposed else iterations) * K // (element.bits // bits)
    return [
        random.integers(-2, 3, (iterations, rows, K)).astype(np.float16),
        random.integers(limits.min, limits.max, (packed, N), endpoint=True).astype(kind),
        random.integers(1, 4, (iterations // 2 + 1, N)).astype(np.float16),
        np.zeros((rows, N), np.float32),
        iterations,
    ]


def options(warps: int) -> dict[str, Any]:
    return {"num_warps": warps, "warp_specialize": False}


def copied_shapes(module: Any, warps: int) -> list[tuple[int, ...]]:
    """The shapes that asynchronous copies copy at a time."""
    done = run_pipeline(module, target("sm_90a"), Options(**options(warps)), None)
    function = done.stages["layouts"].functions[done.kernel]
    loop = [op for op in function.ops if op.mnemonic == "gpu.async_copy"]
    assert not any(op.mnemonic == "load" for op in function.ops), "all loads are copies"
    return sorted({op.inputs[0].type.shape for op in loop})


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_each_word_is_copied_once(rows: int, bits: int) -> None:
    """32 / bits rows of weights are one row of words, and the scales of a block are one row."""
    expected = sorted({(1, N), (K * bits // 32, N), (rows, K)})
    assert copied_shapes(gptq_matmul(rows, bits), 4) == expected


@pytest.mark.parametrize(("bits", "element"), [(4, I8), (2, I8), (8, I32)])
def test_words_that_are_contiguous_along_k_stay_so(bits: int, element: Any) -> None:
    """Bytes of one row of B are neighbours, and are copied many at a time."""
    module = gptq_matmul(64, bits, element=element, transposed=True)
    ptx = compile_kernel(module, "sm_90a", options(4)).ptx
    assert copied_shapes(module, 4)[-1] == (64, K) and (
        K * bits // element.bits,
        N,
    ) in copied_shapes(module, 4)
    assert set(re.findall(r"cp\.async\.c[ag]\S* \[\S+\], \[\S+\], (\d+)", ptx)) <= {"16", "4"}


def test_the_words_of_a_fragment_are_read_where_it_is_computed() -> None:
    """`mma.sync` takes weights from registers: threads read the words of their own elements, so
    that no weight moves."""
    done = run_pipeline(gptq_matmul(16, 4), target("sm_90a"), Options(**options(4)), None)
    moved = [
        op.result.type.shape
        for op in done.stages["layouts"].functions[done.kernel].ops
        if op.mnemonic == "gpu.convert_layout"
        and not isinstance(conversion(op.inputs[0].type, op.result.type.layout), tuple)
    ]
    assert (K, N) not in moved


def test_weights_of_one_word_are_neighbours_for_wgmma() -> None:
    """B is contiguous along K, where a thread owns 8 weights of a word: 16 bytes for one store."""
    ptx = compile_kernel(gptq_matmul(64, 4), "sm_90a", options(4)).ptx
    assert "wgmma" in ptx and set(re.findall(r"st\.shared\.(\S+)", ptx)) <= {"v4.b32", "v2.b32"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("masked", "transposed"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("iterations", [1, 2, MOST_ITERATIONS])
@pytest.mark.parametrize(("rows", "bits", "element", "warps"), [
    (16, 1, I32, 4), (16, 4, I32, 2), (32, 2, I8, 4), (64, 2, I32, 4), (64, 8, I32, 8),
    (64, 4, I8, 4),
])  # fmt: skip
def test_packed_matmuls(
    rows: int, bits: int, element: Any, warps: int, iterations: int, masked: bool, transposed: bool
) -> None:
    module = gptq_matmul(rows, bits, masked=masked, element=element, transposed=transposed)
    expected, computed = (
        arguments(rows, bits, iterations, element, transposed=transposed) for _ in range(2)
    )
    tileir.interpret(module, "k", (1,), expected)
    SimtExecutor().launch(module, "k", (1,), computed, target="sm_90a", **options(warps))
    np.testing.assert_array_equal(computed[3], expected[3])


def test_a_join_of_a_value_with_itself_repeats_it() -> None:
    """Interleaved copies of the words, of which each is shifted: nothing moves."""
    b = Builder()
    elements = {"x": F16, "words": I32}
    kinds = {name: arg(pointer(e), aligned=16) for name, e in elements.items()}
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16), iterations=arg(I32)) as (
        x, words, out, iterations,
    ):  # fmt: skip
        total = b.var(b.full((16, N), 0.0, F32))
        k, n = b.arange(K), b.arange(N)
        with b.for_(0, iterations, stages=2) as i:
            left = (x + (b.arange(16)[:, None] * K + k[None, :] + i * (16 * K))).load()
            word = (words + ((k + i * K)[:, None] * (N // 8) + b.arange(N // 8)[None, :])).load()
            for _ in range(3):
                word = b.join(word, word).reshape(K, 2 * word.shape[1])
            shift = ((n % 8) * 4)[None, :].broadcast_to(K, N)
            total.set(b.dot(left, ((word >> shift) & 15).to(F16), total.get()))
        (out + (b.arange(16)[:, None] * N + n[None, :])).store(total.get())
    module = b.module()
    assert copied_shapes(module, 4) == [(16, K), (K, N // 8)]
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-2, 3, (3, 16, K)).astype(np.float16),
        random.integers(-(2**31), 2**31, (3 * K, N // 8)).astype(np.int32),
        np.zeros((16, N), np.float32),
    ]
    assert_equal_results(module, [*arrays, 3], target="sm_90a", **options(4))
