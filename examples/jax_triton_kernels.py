"""Triton kernels that tileir compiles and JAX launches, by jax-triton.

    python examples/jax_triton_kernels.py            needs an NVIDIA GPU: compares with JAX
    python examples/jax_triton_kernels.py --lower    needs none: prints what JAX's module has

Both need jax, its CUDA plugin, jax-triton and Triton. jax-triton calls the stages of Triton's CUDA
backend, which tileir replaces, and gives the PTX to XLA. So a kernel is a part of a JAX function,
between operators that XLA compiles. XLA launches the version without tensor maps.
"""
# ruff: noqa: ANN001, ANN201  # the kernels

from __future__ import annotations

import argparse
import inspect
import sys
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl

import tileir.frontends.triton_backend as backend


@triton.jit
def softmax_kernel(x, y, n: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32)
    raised = tl.exp(values - tl.max(values, 0))
    result = raised / tl.sum(raised, 0)
    tl.store(y + row * n + at, result.to(y.dtype.element_ty), mask=at < n)


@triton.jit
def matmul_kernel(
    a, b, c,
    m: tl.constexpr, n: tl.constexpr, k: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    acc = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, DEPTH):
        along = start + inner
        left = tl.load(a + i[:, None] * k + along, (i[:, None] < m) & (along < k), 0.0)
        right = tl.load(b + along[:, None] * n + j, (along[:, None] < k) & (j < n), 0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * n + j, acc.to(c.dtype.element_ty), (i[:, None] < m) & (j < n))


_SIGNATURE = inspect.signature(jax_triton.triton_call)
_OUT = "out_type" if "out_type" in _SIGNATURE.parameters else "out_shape"
"""The parameter for the results: `out_type` since jax-triton 0.4."""


def softmax(x: Any, capability: int | None = None) -> Any:
    """The softmax of each row of x: [rows, n], by `softmax_kernel`. `capability` is 90 for sm_90;
    None asks the GPU."""
    rows, n = x.shape
    return jax_triton.triton_call(
        x, kernel=softmax_kernel, **{_OUT: jax.ShapeDtypeStruct(x.shape, x.dtype)}, grid=(rows,),
        compute_capability=capability, n=n, BLOCK=triton.next_power_of_2(n),
    )  # fmt: skip


def matmul(a: Any, b: Any, capability: int | None = None) -> Any:
    """a b of a: [m, k] and b: [k, n], by `matmul_kernel`."""
    (m, k), n = a.shape, b.shape[1]
    return jax_triton.triton_call(
        a, b, kernel=matmul_kernel, **{_OUT: jax.ShapeDtypeStruct((m, n), a.dtype)},
        grid=(triton.cdiv(m, 128), triton.cdiv(n, 128)), num_warps=8, num_stages=3,
        compute_capability=capability, m=m, n=n, k=k, ROWS=128, COLUMNS=128, DEPTH=64,
    )  # fmt: skip


def weights(x: Any, y: Any, capability: int | None = None) -> Any:
    """Two kernels with an operator of JAX between them."""
    return softmax(matmul(x, y, capability) * 0.125, capability)


SHAPES = (500, 192), (192, 1000)


def inputs() -> list[Any]:
    keys = jax.random.split(jax.random.key(0))
    return [jax.random.normal(k, s, jnp.float16) for k, s in zip(keys, SHAPES, strict=True)]


def text_of_module(capability: int = 90) -> str:
    """The module that JAX makes of `weights` for a GPU. It has the kernels' PTX, compressed."""
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float16) for shape in SHAPES]
    traced = jax.jit(partial(weights, capability=capability)).trace(*arguments)
    return str(traced.lower(lowering_platforms=("cuda",)).as_text())


def difference() -> float:
    """The largest difference to what JAX computes."""
    x, y = inputs()
    result = jax.jit(weights)(x, y)
    product = jnp.dot(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)
    expected = jax.nn.softmax((product * 0.125).astype(jnp.float32), axis=-1)
    return float(jnp.abs(result.astype(jnp.float32) - expected).max())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lower", action="store_true", help="compile, and launch nothing")
    options = parser.parse_args()
    backend.install("strict")
    if options.lower:
        print(f"custom calls: {text_of_module().count('stablehlo.custom_call')}")
    else:
        print(f"largest difference: {difference():.2e}")
    print(backend.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
