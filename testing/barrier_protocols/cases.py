"""Warp-specialized kernels whose barrier protocols are tested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.tma.host_plan import NON_TMA_ALIGNMENTS
from tileir.backend.warp_specialize.driver import warp_specialize
from tileir.backend.warp_specialize.options import WarpSpecializeOptions
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul
from tileir.testing.kernels_backward import attention_keys
from tileir.testing.matmul_programs.features import Digits, Features
from tileir.testing.matmul_programs.kernels import program

Array: TypeAlias = np.ndarray[Any, Any]
How: TypeAlias = str | WarpSpecializeOptions
"""A pipeline, or the options of all passes of warp specialization, as the compiler runs them."""

_FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
_RING = f"{_FRONT},warp-specialize{{num-stages=2}}"
PIPELINES = {
    "warp-specialize": f"{_RING}",
    "defer-wgmma-waits": f"{_RING},defer-wgmma-waits",
    "persist": f"{_FRONT},persist,warp-specialize{{num-stages=3}},defer-wgmma-waits",
    "pipeline-chained-matmuls": f"{_RING},pipeline-chained-matmuls",
    "ordered softmax": f"{_FRONT},persist,warp-specialize{{num-stages=6}},pipeline-chained-matmuls",
    "split-k": f"{_FRONT},persist,split-k{{ranks=2}},warp-specialize{{num-stages=2}},"
    "defer-wgmma-waits",
    "pingpong": f"{_FRONT},persist,warp-specialize{{num-stages=3,warps=4}},"
    "defer-wgmma-waits,pingpong",
    "multicast": f"{_FRONT},cluster-instances{{ranks=2}},warp-specialize{{num-stages=2}},"
    "defer-wgmma-waits,multicast",
    "multicast by four": f"{_FRONT},cluster-instances{{ranks=4}},warp-specialize{{num-stages=3}},"
    "defer-wgmma-waits,multicast",
    "multicast pingpong": (
        f"{_FRONT},cluster-instances{{ranks=2}},warp-specialize{{num-stages=3,warps=4}},defer-wgmma-waits,pingpong,multicast"
    ),
}


@attrs.frozen(eq=False)
class ProtocolCase:
    """A warp-specialized kernel and its arguments. The arguments with the indices `places` are
    outputs."""

    name: str
    module: Module
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    places: tuple[int, ...]
    tolerance: float = 2e-3
    accumulated: tuple[int, ...] = ()
    """The numbers of arguments that it accumulates to."""

    def reference(self) -> list[Array]:
        """The outputs computed by the interpreter."""
        arguments = self.fresh_arguments()
        interpret(self.module, None, self.grid, arguments)
        return self.outputs(arguments)

    def fresh_arguments(self) -> list[Any]:
        """New arguments. Outputs contain NaN, or zeros if the kernel accumulates to them."""
        values = {place: 0.0 if place in self.accumulated else np.nan for place in self.places}
        empty = {n: np.full_like(self.arguments[n], value) for n, value in values.items()}
        return [empty.get(place, value) for place, value in enumerate(self.arguments)]

    def outputs(self, arguments: list[Any]) -> list[Array]:
        """The outputs among the arguments."""
        return [arguments[place] for place in self.places]


SHAPE, WIDE_SHAPE = (72, 264, 200), (72, 520, 72)
"""M, N and K of a matmul; the wide one has so many tiles that each of two warpgroups of a cluster's
blocks computes several."""
ODD_SHAPE = (72, 263, 200)
"""M, N and K of a matmul for which only operand A can have a tensor map."""
SINK_WAITS = f"{_FRONT},persist,warp-specialize{{num-stages=2}},sink-wgmma-waits"
TWO_RESULTS = {"shape": (3, 2, 2), "epilogue": (3, 2, 0), "output": (5, 0, 0)}
GATHERED_A = {"prologue": (4, 0, 0), "access": (5, 0, 0)}
"""Features of matmuls: one with two outputs, one with operand A gathered by threads."""


def cases() -> Iterator[ProtocolCase]:
    """Yield matmuls, attention and its gradient, for every pipeline of warp specialization."""
    yield gradient_case("sink-wgmma-waits", SINK_WAITS)
    yield matmul_case("cooperative loads", PIPELINES["persist"], ODD_SHAPE, (2, 2, 2))
    yield matmul_case("TMA and cooperative loads", PIPELINES["persist"], ODD_SHAPE, (0, 2, 2))
    for name, pipeline in PIPELINES.items():
        if name not in ("pipeline-chained-matmuls", "ordered softmax"):
            yield matmul_case(name, pipeline, WIDE_SHAPE if name == "multicast pingpong" else SHAPE)
        if name not in ("defer-wgmma-waits", "pingpong", "split-k") and "multicast" not in name:
            yield attention_case(name, pipeline, 128 if name == "ordered softmax" else 64)
    yield matmul_case("compiled", WarpSpecializeOptions(), (136, 264, 72), tile=(128, 64, 32))
    yield matmul_case(
        "compiled split", WarpSpecializeOptions(num_stages=2, split_k=4), (130, 72, 392)
    )
    yield matmul_case("compiled pingpong", WarpSpecializeOptions(num_stages=3, pingpong=True))
    yield matmul_case("compiled multicast", WarpSpecializeOptions(multicast=2))
    yield attention_case("compiled", WarpSpecializeOptions(), 128)
    yield gradient_case("compiled", WarpSpecializeOptions(num_stages=2))
    yield generated_case("two results", WarpSpecializeOptions(num_stages=2), TWO_RESULTS)
    yield generated_case(
        "prefetch-register-operands", WarpSpecializeOptions(num_stages=2), GATHERED_A
    )


def matmul_case(
    name: str, how: How, shape: tuple[int, int, int] = SHAPE,
    units: tuple[int, ...] = (), tile: tuple[int, int, int] = (64, 64, 32),
) -> ProtocolCase:  # fmt: skip
    """A matmul with partial tiles. `units` are the alignments of parameters that no tensor map can
    describe (`tileir.backend.tma.host_plan.NON_TMA_ALIGNMENTS`)."""
    m, n, k = shape
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    module = matmul(*tile)
    kernel = module.functions["matmul"]
    marked = kernel.evolve(attributes={NON_TMA_ALIGNMENTS: units} if units else {})
    module = _warp_specialize(module.with_functions({"matmul": marked}), how)
    result, tiles = np.zeros((m, n), np.float16), -(-m // tile[0]) * -(-n // tile[1])
    return _case(f"matmul {name}", module, (tiles, 1, 1), (a, b, result, m, n, k), 2)


def attention_case(name: str, how: How, rows: int) -> ProtocolCase:
    """Causal attention with enough instances for the stages of rings to wrap around in persistent
    blocks. For 128 rows, there are two warpgroups."""
    t, heads = 150, 3
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(3))
    module = _warp_specialize(attention(rows, 32, 32, causal=True), how)
    arguments = (q, k, v, np.zeros_like(q), t, 0.25)
    return _case(f"attention {name}", module, (-(-t // rows), heads, 1), arguments, 3)


def gradient_case(name: str, how: How, *, fused: bool = False) -> ProtocolCase:
    """The gradient of keys in causal attention. The loops of the last keys have fewer iterations
    than rings have stages. With `fused`, two warpgroups also accumulate the contribution to the
    gradient of queries."""
    t, heads, padded_rows = (200, 2, 256) if fused else (80, 4, 256)
    random = np.random.default_rng(t)
    q, g = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(2))
    k, v, dk, dv = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(4))
    lse, delta = (random.uniform(2, 4, (heads, padded_rows)).astype(np.float32) for _ in range(2))
    tile = (128, 128) if fused else (32, 64)
    module = _warp_specialize(attention_keys(*tile, 32, causal=True, fused=fused), how)
    arrays = (q, k, v, g, lse, delta, dk, dv, *([np.zeros(q.shape, np.float32)] if fused else ()))
    result = _case(f"gradient {name}", module, (2, heads, 1), (*arrays, t, 1, 0.25), 6, 7)
    return attrs.evolve(result, places=(6, 7, 8), accumulated=(8,)) if fused else result


def generated_case(name: str, how: How, features: Mapping[str, Digits]) -> ProtocolCase:
    """A generated matmul with the features `features`."""
    result = program(Features(features))
    module, by_name = _warp_specialize(result.module, how), result.arguments()
    names = [p.name or "" for p in result.module.functions[result.kernel].parameters]
    places = [names.index(n) for n, buffer in result.buffers.items() if buffer.output]
    arguments = tuple(by_name[name] for name in names)
    return _case(f"matmul {name}", module, (*result.grid, 1, 1)[:3], arguments, *places)


def _warp_specialize(module: Module, how: How) -> Module:
    """The module with its kernel warp-specialized."""
    if isinstance(how, str):
        return run(module, how).module
    return warp_specialize(module, module.kernel().name, how).module


def _case(
    name: str, module: Module, grid: tuple[int, ...], arguments: tuple[Any, ...], *places: int
) -> ProtocolCase:
    """The case of a kernel. Persistent kernels get the extents of the grid as arguments."""
    kernel = next(f for f in module.functions.values() if f.kernel)
    more = len(kernel.parameters) - len(arguments)
    first, second, third = (2, 1, 1) if more else grid
    return ProtocolCase(name, module, (first, second, third), (*arguments, *grid[:more]), places)
