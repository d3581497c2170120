"""Kernels of JAX's Pallas as modules of tileir: `pallas_kernels(function, x, y)`.

Pallas lowers a kernel for GPUs to Triton's IR. JAX does that without a GPU, and XLA compiles the
result. Here tileir reads it, so that the kernel can be interpreted, inspected and compiled. It was
run with JAX 0.10.2. Kernels that Pallas lowers to Mosaic GPU are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax  # type: ignore[import-not-found]
from jaxlib.mlir import ir  # type: ignore[import-not-found]
from jaxlib.triton import dialect  # type: ignore[import-not-found]

from tileir.frontends import ttir
from tileir.ir import Module


class PallasKernel(NamedTuple):
    """A kernel: its name, its module, the grid, and warps and stages as Pallas asks for them. The
    parameters are the inputs of the call, then its outputs."""

    name: str
    module: Module
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int


def pallas_kernels(function: Callable[..., Any], *arguments: Any) -> list[PallasKernel]:
    """The Pallas kernels that `function` calls for `arguments`: arrays, or anything that has a
    shape and a dtype. Nothing runs. Raises TileirError for a kernel that tileir cannot read."""
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
    kernels: list[PallasKernel] = []
    for op in _ops(lowered.compiler_ir("stablehlo").operation):
        if op.name == "stablehlo.custom_call" and "triton" in str(
            op.attributes["call_target_name"]
        ):
            kernels.append(_kernel(op.attributes["mhlo.backend_config"]))
    return kernels


def _ops(parent: Any) -> Iterator[Any]:
    for region in parent.regions:
        for block in region:
            for op in block:
                yield op.operation
                yield from _ops(op.operation)


def _kernel(call: Any) -> PallasKernel:
    """The kernel of a call of XLA, whose attributes are `call`."""
    numbers = {key: ir.IntegerAttr(call[key]).value for key in ("num_warps", "num_stages")}
    grid = tuple(ir.IntegerAttr(call[f"grid_{axis}"]).value for axis in "xyz")
    bytecode, name = (ir.StringAttr(call[key]).value_bytes for key in ("ir", "name"))
    with ir.Context() as context:
        dialect.register_dialect(context)
        text = str(ir.Module.parse(bytecode))
    module = ttir.read(text, num_warps=numbers["num_warps"])
    return PallasKernel(name.decode(), module, grid, **numbers)  # type: ignore[arg-type]


def main() -> None:
    """A softmax by Pallas: interpreted, compared with numpy, and compiled for sm_90a."""
    import numpy as np
    from jax.experimental import pallas as pl  # type: ignore[import-not-found]
    from jax.experimental.pallas import triton as plgpu  # type: ignore[import-not-found]

    import tileir
    import tileir.backend

    def softmax_kernel(x: Any, y: Any) -> None:
        shifted = jax.numpy.exp(x[...] - x[...].max(-1, keepdims=True))
        y[...] = shifted / shifted.sum(-1, keepdims=True)

    def softmax(x: Any) -> Any:
        row = pl.BlockSpec((1, x.shape[1]), lambda i: (i, 0))
        return pl.pallas_call(
            softmax_kernel, jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0],),
            in_specs=[row], out_specs=row, compiler_params=plgpu.CompilerParams(num_warps=4),
        )(x)  # fmt: skip

    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    y = np.zeros_like(x)
    (kernel,) = pallas_kernels(softmax, x)
    names = [p.name for p in kernel.module.functions[kernel.name].parameters]
    tileir.interpret(
        kernel.module, kernel.name, kernel.grid, dict(zip(names, (x, y), strict=True))
    )  # fmt: skip
    expected = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(-1, keepdims=True), rtol=1e-5)
    compiled = tileir.backend.compile(kernel.module, "sm_90a")
    print(f"{kernel.name}: right; {compiled.metadata.registers} registers of a thread")


if __name__ == "__main__":
    main()
