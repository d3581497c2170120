"""Matmuls with something done to what goes in or comes out, by warpgroups."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backend.workloads.running import agree, assembles, normal
from tileir.builder import F16, F32
from tileir.testing.workloads import matmuls
from tileir.testing.workloads.matmuls import TileShape

pytestmark = pytest.mark.sampled(1)

SHAPES = ((72, 40, 48), (1, 8, 64))


def grid(tile: TileShape, m: int, n: int) -> tuple[int]:
    return (-(-m // tile.m) * -(-n // tile.n),)


def reference(value: Any, kind: str) -> Any:
    match kind:
        case "leaky":
            return np.where(value > 0, value, 0.01 * value)
        case "gelu":
            inner = 1.5957691216057308 * (value + 0.044715 * value**3)
            return value / (1 + np.exp(-inner.clip(-80)))
        case _:
            return 1 / (1 + np.exp(-value))


@pytest.mark.parametrize("kind", ("leaky", "gelu", "sigmoid"))
@pytest.mark.parametrize("shape", SHAPES)
def test_activated(shape: tuple[int, int, int], kind: str) -> None:
    m, n, k = shape
    tile = TileShape(64, 32, 32)
    x, y, bias = normal(m, k), normal(k, n), normal(n, seed=2)
    plain = x.astype(float) @ y.astype(float) + (bias.astype(float) if kind != "sigmoid" else 0)
    arguments = [x, y, bias, np.zeros((m, n), np.float16), m, n, k]
    module = matmuls.with_activation(tile, kind)
    agree(module, grid(tile, m, n), arguments, 3, reference(plain, kind), off=2e-3, seeds=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_sliced(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    tile = TileShape(64, 32, 32)
    x, y = normal(m, k + 24), normal(k, n + 16)
    z = np.zeros((m, n + 8), np.float16)
    expected = np.full(z.shape, np.nan)
    expected[:, :n] = x[:, 8 : 8 + k].astype(float) @ y[:, 16 : 16 + n].astype(float)
    arguments = [x, y, z, m, n, k, k + 24, n + 16, n + 8, 8, 16]
    agree(matmuls.of_slices(tile), grid(tile, m, n), arguments, 2, expected, off=2e-3, seeds=1)


@pytest.mark.parametrize("shape", SHAPES)
def test_quantised(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    tile = TileShape(64, 32, 32)
    random = np.random.default_rng(k)
    x, y = (random.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (n, k)))
    xs, ys = normal(m, dtype=np.float32) ** 2 + 0.1, normal(n, dtype=np.float32) ** 2 + 0.1
    expected = (xs[:, None] * x.astype(float)) @ (ys[:, None] * y.astype(float)).T
    arguments = [x, y, xs, ys, np.zeros((m, n), np.float32), m, n, k]
    module = matmuls.int8(tile, F32)
    agree(module, grid(tile, m, n), arguments, 4, expected, off=1e-5, seeds=1)


def four_bits(n: int, k: int) -> tuple[Any, Any]:
    """Weights, and two of them in a byte."""
    weights = np.random.default_rng(n).integers(0, 16, (n, k))
    return weights - 8, (weights[:, ::2] | weights[:, 1::2] << 4).astype(np.uint8).view(np.int8)


@pytest.mark.parametrize("group", (16, 64))
@pytest.mark.parametrize("shape", ((20, 72, 128), (16, 64, 64)))
def test_packed(shape: tuple[int, int, int], group: int) -> None:
    m, n, k = shape
    tile = TileShape(16, 64, 32)
    weights, bits = four_bits(n, k)
    x, scales = normal(m, k), normal(n, k // group)
    expected = x.astype(float) @ (weights * np.repeat(scales.astype(float), group, 1)).T
    arguments = [x, bits, scales, np.zeros((m, n), np.float16), m, n, k]
    module = matmuls.int4_weights(tile, group)
    agree(module, grid(tile, m, n), arguments, 3, expected, off=4e-3)


@pytest.mark.parametrize("shape", ((20, 72, 128), (16, 64, 64)))
def test_scaled(shape: tuple[int, int, int]) -> None:
    """`dot_scaled` becomes a matmul of bf16, its operand A from registers."""
    m, n, k = shape
    tile = TileShape(16, 64, 64)
    x, weights = normal(m, k, dtype=ml_dtypes.bfloat16), normal(n, k, dtype=ml_dtypes.float8_e4m3fn)
    powers = 2.0 ** np.random.default_rng(n).integers(-4, 5, (n, k // 32))
    expected = x.astype(float) @ (weights.astype(float) * np.repeat(powers, 32, 1)).T
    stored = powers.astype(ml_dtypes.float8_e8m0fnu)
    arguments = [x, weights, stored, np.zeros((m, n), ml_dtypes.bfloat16), m, n, k]
    module = matmuls.mxfp8_weights(tile)
    agree(module, grid(tile, m, n), arguments, 3, expected, off=1e-2, roles=False)


LARGE = {
    "leaky": matmuls.with_activation(TileShape(128, 128, 64), "leaky"),
    "gelu": matmuls.with_activation(TileShape(128, 256, 64), "gelu"),
    "sigmoid": matmuls.with_activation(TileShape(128, 256, 64), "sigmoid"),
    "sliced": matmuls.of_slices(TileShape(128, 128, 64)),
    "quantised": matmuls.int8(TileShape(128, 256, 128)),
    "packed": matmuls.int4_weights(TileShape(64, 128, 64), 128),
    "scaled": matmuls.mxfp8_weights(TileShape(64, 128, 64)),
    "packed, few rows": matmuls.int4_weights(TileShape(16, 64, 128), 32, F16),
}


@pytest.mark.parametrize("name", LARGE)
def test_assembled(name: str) -> None:
    assembles(LARGE[name])


@pytest.mark.parametrize("name", ("packed", "packed, few rows", "scaled"))
def test_weights_are_unpacked_where_they_are_needed(name: str) -> None:
    """What tensor maps brought is read as matmuls want it: nothing passes between threads in the
    loop, and threads do not synchronize there."""
    compiled = assembles(LARGE[name])
    math = compiled.stages["barriers"].functions["matmul.consumer"]
    body = next(b for b in math.blocks.values() if any(o.mnemonic == "gpu.wgmma" for o in b.ops))
    names = [op.mnemonic for op in body.ops]
    assert "gpu.local_load" in names
    assert "gpu.convert_layout" not in names and "gpu.barrier" not in names
    assert all(not op.shared for op in body.ops)


def test_a_transposed_result_is_stored_from_its_own_registers() -> None:
    """`stmatrix.trans` stores fragments of `wgmma`, those of each warpgroup to its columns. A
    conversion would take the shared memory of two pipeline stages."""
    for name, tile in (("packed", 64), ("large", 256)):
        module = matmuls.mxfp8_weights(TileShape(tile, 128, 64))
        compiled = assembles(module)
        consumer = compiled.stages["barriers"].functions["matmul.consumer"]
        assert all(op.mnemonic != "gpu.convert_layout" for op in consumer.ops), name
        assert compiled.ptx.count("stmatrix.sync.aligned.m8n8.x4.trans") == tile // 8
        assert "st.shared.b16" not in compiled.ptx
    assert any("4 stages" in str(remark) for remark in compiled.remarks)


@pytest.mark.parametrize("shape", ((20, 200, 64), (70, 130, 96)))
def test_columns_of_two_warpgroups(shape: tuple[int, int, int]) -> None:
    """Each warpgroup stores 64 columns of a transposed result."""
    m, n, k = shape
    tile, group = TileShape(64, 128, 32), 32
    weights, bits = four_bits(n, k)
    x, scales = normal(m, k), normal(n, k // group)
    expected = x.astype(float) @ (weights * np.repeat(scales.astype(float), group, 1)).T
    arguments = [x, bits, scales, np.zeros((m, n), np.float16), m, n, k]
    module = matmuls.int4_weights(tile, group)
    agree(module, grid(tile, m, n), arguments, 3, expected, off=4e-3, seeds=1)
