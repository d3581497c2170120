"""Kernels of roles whose protocols are looked at."""

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
from tileir.testing.matmul_programs.features import Digits, Traits
from tileir.testing.matmul_programs.kernels import program

Array: TypeAlias = np.ndarray[Any, Any]
How: TypeAlias = str | WarpSpecializeOptions
"""A pipeline, or what is asked of all passes that make roles, as the compiler runs them."""

_FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
_RING = f"{_FRONT},warp-specialize{{num-stages=2}}"
PIPELINES = {
    "warp-specialize": f"{_RING}",
    "defer-wgmma-waits": f"{_RING},defer-wgmma-waits",
    "persist": f"{_FRONT},persist,warp-specialize{{num-stages=3}},defer-wgmma-waits",
    "pipeline-chained-matmuls": f"{_RING},pipeline-chained-matmuls",
    "turns": f"{_FRONT},persist,warp-specialize{{num-stages=6}},pipeline-chained-matmuls",
    "split-k": f"{_FRONT},persist,split-k{{ranks=2}},warp-specialize{{num-stages=2}},"
    "defer-wgmma-waits",
    "pingpong": f"{_FRONT},persist,warp-specialize{{num-stages=3,warps=4}},"
    "defer-wgmma-waits,pingpong",
    "multicast": f"{_FRONT},cluster-instances{{ranks=2}},warp-specialize{{num-stages=2}},"
    "defer-wgmma-waits,multicast",
    "multicast by four": f"{_FRONT},cluster-instances{{ranks=4}},warp-specialize{{num-stages=3}},"
    "defer-wgmma-waits,multicast",
    "multicast in turns": (
        f"{_FRONT},cluster-instances{{ranks=2}},warp-specialize{{num-stages=3,warps=4}},defer-wgmma-waits,pingpong,multicast"
    ),
}


@attrs.frozen(eq=False)
class Case:
    """A kernel with roles and arguments for it; it writes those with the numbers `places`."""

    name: str
    module: Module
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    places: tuple[int, ...]
    tolerance: float = 2e-3
    added: tuple[int, ...] = ()
    """The numbers of those that it adds to."""

    def expected(self) -> list[Array]:
        """What the interpreter makes of it."""
        given = self.given()
        interpret(self.module, None, self.grid, given)
        return self.written(given)

    def given(self) -> list[Any]:
        """The arguments, with NaN in what is written, and zeros in what is added to."""
        values = {place: 0.0 if place in self.added else np.nan for place in self.places}
        nowhere = {n: np.full_like(self.arguments[n], value) for n, value in values.items()}
        return [nowhere.get(place, value) for place, value in enumerate(self.arguments)]

    def written(self, given: list[Any]) -> list[Array]:
        """Those of the arguments that are written."""
        return [given[place] for place in self.places]


USUAL, WIDE = (72, 264, 200), (72, 520, 72)
"""Rows, columns and depth of a product; of one with so many tiles that each of two warpgroups of a
cluster's blocks writes several."""
ODD = (72, 263, 200)
"""Rows, columns and depth of a product whose rows no tensor map has, but for those of the first
factor."""
LATE = f"{_FRONT},persist,warp-specialize{{num-stages=2}},sink-wgmma-waits"
TWO_RESULTS = {"shape": (3, 2, 2), "epilogue": (3, 2, 0), "output": (5, 0, 0)}
BY_TABLE = {"prologue": (4, 0, 0), "made": (5, 0, 0)}
"""Traits of products: one that is written twice, one whose first factor threads look up."""


def cases() -> Iterator[Case]:
    """Products, attention and its gradient by every pipeline that makes roles."""
    yield slopes("sink-wgmma-waits", LATE)
    yield product("by threads", PIPELINES["persist"], ODD, (2, 2, 2))
    yield product("beside threads", PIPELINES["persist"], ODD, (0, 2, 2))
    for name, pipeline in PIPELINES.items():
        if name not in ("pipeline-chained-matmuls", "turns"):
            yield product(name, pipeline, WIDE if name == "multicast in turns" else USUAL)
        if name not in ("defer-wgmma-waits", "pingpong", "split-k") and "multicast" not in name:
            yield softmax(name, pipeline, 128 if name == "turns" else 64)
    yield product("compiled", WarpSpecializeOptions(), (136, 264, 72), tile=(128, 64, 32))
    yield product("compiled split", WarpSpecializeOptions(num_stages=2, split_k=4), (130, 72, 392))
    yield product("compiled pingpong", WarpSpecializeOptions(num_stages=3, pingpong=True))
    yield product("compiled multicast", WarpSpecializeOptions(multicast=2))
    yield softmax("compiled", WarpSpecializeOptions(), 128)
    yield slopes("compiled", WarpSpecializeOptions(num_stages=2))
    yield generated("two results", WarpSpecializeOptions(num_stages=2), TWO_RESULTS)
    yield generated("prefetch-register-operands", WarpSpecializeOptions(num_stages=2), BY_TABLE)


def product(
    name: str, how: How, shape: tuple[int, int, int] = USUAL,
    units: tuple[int, ...] = (), tile: tuple[int, int, int] = (64, 64, 32),
) -> Case:  # fmt: skip
    """A product at whose edges tiles leave the tensors; `units` says which of these no tensor map
    has (`tileir.backend.tma.host_plan.NON_TMA_ALIGNMENTS`)."""
    m, n, k = shape
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    module = matmul(*tile)
    kernel = module.functions["matmul"]
    marked = kernel.evolve(attributes={NON_TMA_ALIGNMENTS: units} if units else {})
    module = _made(module.with_functions({"matmul": marked}), how)
    result, tiles = np.zeros((m, n), np.float16), -(-m // tile[0]) * -(-n // tile[1])
    return _case(f"product {name}", module, (tiles, 1, 1), (a, b, result, m, n, k), 2)


def softmax(name: str, how: How, rows: int) -> Case:
    """Causal attention, with so many instances that slots come round where blocks stay; of 128 rows
    by two warpgroups."""
    t, heads = 150, 3
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(3))
    module = _made(attention(rows, 32, 32, causal=True), how)
    arguments = (q, k, v, np.zeros_like(q), t, 0.25)
    return _case(f"attention {name}", module, (-(-t // rows), heads, 1), arguments, 3)


def slopes(name: str, how: How, *, fused: bool = False) -> Case:
    """The gradient of keys in causal attention: the last keys have less rounds than rings have
    slots. `fused`: by two warpgroups, what they give that of queries added to it."""
    t, heads, kept = (200, 2, 256) if fused else (80, 4, 256)
    random = np.random.default_rng(t)
    q, g = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(2))
    k, v, dk, dv = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(4))
    sums, delta = (random.uniform(2, 4, (heads, kept)).astype(np.float32) for _ in range(2))
    tile = (128, 128) if fused else (32, 64)
    module = _made(attention_keys(*tile, 32, causal=True, fused=fused), how)
    arrays = (q, k, v, g, sums, delta, dk, dv, *([np.zeros(q.shape, np.float32)] if fused else ()))
    result = _case(f"gradient {name}", module, (2, heads, 1), (*arrays, t, 1, 0.25), 6, 7)
    return attrs.evolve(result, places=(6, 7, 8), added=(8,)) if fused else result


def generated(name: str, how: How, traits: Mapping[str, Digits]) -> Case:
    """A product with those traits."""
    result = program(Traits(traits))
    module, given = _made(result.module, how), result.arguments()
    names = [p.name or "" for p in result.module.functions[result.kernel].parameters]
    places = [names.index(n) for n, buffer in result.buffers.items() if buffer.output]
    arguments = tuple(given[name] for name in names)
    return _case(f"product {name}", module, (*result.grid, 1, 1)[:3], arguments, *places)


def _made(module: Module, how: How) -> Module:
    """The kernel of a module as roles."""
    if isinstance(how, str):
        return run(module, how).module
    return warp_specialize(module, module.kernel().name, how).module


def _case(
    name: str, module: Module, grid: tuple[int, ...], arguments: tuple[Any, ...], *places: int
) -> Case:
    """Kernels whose blocks work for many instances take the grid as arguments."""
    kernel = next(f for f in module.functions.values() if f.kernel)
    more = len(kernel.parameters) - len(arguments)
    first, second, third = (2, 1, 1) if more else grid
    return Case(name, module, (first, second, third), (*arguments, *grid[:more]), places)
