"""Kernels of tileir in JAX functions: `jax_call(module, x, RESULT, 4, result=..., grid=...)`.

    python examples/jax_operator.py            needs an NVIDIA GPU: compares with JAX
    python examples/jax_operator.py --lower    needs none: prints the custom calls of JAX's module

needs JAX 0.11 or newer with its CUDA plugin, which launches PTX from within a compiled function. It
needs neither Triton nor jax-triton. XLA allocates the result, and orders the launch among its own
operators.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
from jaxlib import gpu_triton
from softmax_builder import softmax

import tileir.backend
from tileir.ir import Module

RESULT: Final = object()
"""Stands for the result among the arguments."""

_KINDS = {"i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f32": "fp32"}
_KINDS |= {"f64": "fp64"}
"""What JAX calls the types of numbers."""


def jax_call(
    module: Module, *arguments: Any, result: Any, grid: tuple[int, int, int],
    capability: int | None = None, **options: Any,
) -> Any:  # fmt: skip
    """Launch the kernel of `module` within a function that JAX compiles.

    `arguments` are those of the kernel: arrays, numbers, and `RESULT` after all arrays for the
    memory of the result, whose shape and type `result` has (`jax.ShapeDtypeStruct`). `options` are
    those of `tileir.backend.compile`; `capability` is 90 for sm_90, and None asks the GPU.

    Raises `ValueError` if the kernel needs what only tileir's launcher prepares.
    """
    if capability is None:
        capability = int(gpu_triton.get_compute_capability(0))
    target = f"sm_{capability}a" if f"sm_{capability}a" in tileir.backend.TARGETS else None
    settings = {"warp_specialize": False, **options}
    compiled = tileir.backend.compile(module, target or f"sm_{capability}", options=settings)
    plan = compiled.metadata
    if compiled.host is not None or plan.cluster != (1, 1, 1):
        raise ValueError(f"{plan.kernel} has tensor maps or clusters")
    kernel = gpu_triton.TritonKernel(
        plan.symbol, plan.num_warps, 1, plan.shared if plan.dynamic else 0, compiled.ptx, "",
        capability,
    )  # fmt: skip
    arrays, parameters = list[Any](), list[Any]()
    for argument, parameter in zip(arguments, plan.parameters, strict=True):
        if parameter.type.endswith("*"):
            if argument is not RESULT:
                arrays.append(argument)
            parameters.append(gpu_triton.create_array_parameter(0, parameter.aligned))
        else:
            parameters.append(
                gpu_triton.create_scalar_parameter(argument, _KINDS[parameter.words[0]])
            )
    call = gpu_triton.TritonKernelCall(kernel, *grid, parameters)
    proto = call.to_proto(plan.kernel, b"")
    launch = jax.ffi.ffi_call("triton_kernel_call_ffi", result)
    return launch(*arrays, opaque=zlib.compress(proto))


def softmax_rows(x: Any, capability: int | None = None) -> Any:
    """The softmax of each row of x: f32 [rows, n], by the kernel of `softmax_builder.py`."""
    rows, n = x.shape
    columns = 1 << (n - 1).bit_length()
    return jax_call(
        softmax(columns), x, RESULT, n, n, result=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(rows, 1, 1), capability=capability,
    )  # fmt: skip


def function(x: Any, capability: int | None = None) -> Any:
    """The kernel between operators that XLA compiles."""
    return softmax_rows(jnp.sin(x) * 3, capability).T + 1


def text_of_module(capability: int = 90) -> str:
    """The module that JAX makes of `function` for a GPU."""
    x = jax.ShapeDtypeStruct((300, 1000), jnp.float32)
    traced = jax.jit(partial(function, capability=capability)).trace(x)
    return str(traced.lower(lowering_platforms=("cuda",)).as_text())


def difference() -> float:
    """The largest difference to what JAX computes."""
    x = jax.random.normal(jax.random.key(0), (300, 1000))
    expected = jax.nn.softmax(jnp.sin(x) * 3, axis=-1).T + 1
    return float(jnp.abs(jax.jit(function)(x) - expected).max())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lower", action="store_true", help="compile, and launch nothing")
    if parser.parse_args().lower:
        calls = [line.strip() for line in text_of_module().splitlines() if "custom_call" in line]
        print("\n".join(line[:100] for line in calls))
    else:
        print(f"largest difference: {difference():.2e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
