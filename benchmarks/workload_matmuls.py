"""Matmuls with additional work on their operands or results, for `workloads.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional
from workloads import Case, Variant

from tileir.testing.workloads import matmuls
from tileir.testing.workloads.matmuls import TileShape as Tile

LARGE = (Tile(128, 256, 64), Tile(128, 128, 64), Tile(256, 128, 64), Tile(128, 192, 64))
FEW = (Tile(16, 64, 128), Tile(16, 128, 64), Tile(32, 64, 128), Tile(64, 128, 64),
       Tile(128, 128, 64), Tile(256, 128, 64), Tile(16, 64, 256))  # fmt: skip
SHARED = (Tile(16, 64, 256), Tile(32, 64, 128), Tile(64, 64, 128), Tile(64, 128, 64),
          Tile(128, 128, 64))  # fmt: skip
"""Tiles of few rows, for split-K."""
SMALL = (Tile(64, 64, 64), Tile(64, 128, 64), Tile(128, 64, 64))
SIGMOIDS = ((256, 512, 32), (512, 1024, 32), (1024, 2048, 32), (16384, 16384, 64),
            (8192, 8192, 128), (4096, 4096, 4096))  # fmt: skip
"""Pham 2025: matmuls with a sigmoid as epilogue."""
GROUP = 128
"""Weights of 4 bits that share a scale."""


def cases(group: str) -> Iterator[Case]:
    """Yield the rows of a group."""
    if group == "epilogue":
        for kind in ("leaky", "gelu"):
            for size in ((4096, 4096, 4096), (1024, 4096, 1024)):
                yield activation_case(kind, size)
        for size in SIGMOIDS:
            yield activation_case("sigmoid", size)
        yield slice_case((4096, 4096, 4096))
        return
    for size in ((1024,) * 3, (4096,) * 3, (8192,) * 3):
        yield int8_case(size)
    for m in (1, 16, 64, 256, 4096):
        yield int4_case((m, 8192, 8192))
        yield mxfp8_case((m, 8192, 8192))


def grid_of(size: tuple[int, ...], tile: Tile) -> tuple[int]:
    return (-(-size[0] // tile.m) * -(-size[1] // tile.n),)


def half(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).half()


def each(
    tiles: tuple[Tile, ...], size: tuple[int, ...], make: Any, arguments: Any
) -> dict[str, Any]:
    """Variants for every tile, not persistent and persistent."""
    return {
        f"{t.m}x{t.n}x{t.k}{'' if persistent else ' once'}": Variant(
            lambda t=t: make(t), grid_of(size, t), arguments, {"persistent": persistent}
        )
        for t in tiles for persistent in (True, False)
    }  # fmt: skip


def weight_variants(size: tuple[int, ...], make: Any, arguments: Any) -> dict[str, Any]:
    """Variants of a matmul that decodes its weights, with and without split-K."""
    rows = max(16, 2 * size[0])
    shared = {
        f"{t.m}x{t.n}x{t.k} by {split}": Variant(
            lambda t=t: make(t), grid_of(size, t), arguments,
            {"persistent": False, "split_k": split, "num_stages": 4},
        )
        for t in SHARED if t.m <= rows for split in (2, 4)
    }  # fmt: skip
    return each(tuple(t for t in FEW if t.m <= rows), size, make, arguments) | shared


def activation_case(kind: str, size: tuple[int, int, int]) -> Case:
    """act(x y + bias); `sigmoid` without bias."""
    m, n, k = size
    acts = {
        "leaky": lambda v: functional.leaky_relu(v, 0.01),
        "gelu": lambda v: functional.gelu(v, approximate="tanh"), "sigmoid": torch.sigmoid,
    }  # fmt: skip
    act = acts[kind]

    def data() -> tuple[Any, ...]:
        z = torch.empty(m, n, device="cuda", dtype=torch.float16)
        return half(m, k, scale=k**-0.25), half(k, n, scale=k**-0.25), half(n), z

    def plain(x: Any, y: Any, bias: Any) -> Any:
        return act(x @ y if kind == "sigmoid" else torch.addmm(bias, x, y))

    fused = torch.compile(plain, mode="max-autotune-no-cudagraphs", dynamic=False)
    peers = {"torch": lambda x, y, bias, z: plain(x, y, bias),
             "compile": lambda x, y, bias, z: fused(x, y, bias)}  # fmt: skip
    tiles = SMALL if m * n <= 2048 * 1024 else LARGE
    tiles = tuple(Tile(t.m, t.n, min(t.k, k)) for t in tiles)
    ours = each(
        tiles, size, lambda t: matmuls.with_activation(t, kind),
        lambda x, y, bias, z: [x, y, bias, z, m, n, k],
    )  # fmt: skip
    target = 1.1 if kind == "sigmoid" and size != (4096,) * 3 else 1.03
    name = f"{kind} {m}x{n}x{k}"
    return Case(
        name, data, lambda x, y, bias, z: plain(x.float(), y.float(), bias.float()), 4e-3, ours,
        peers, target, 2.0 * m * n * k,
    )  # fmt: skip


def slice_case(size: tuple[int, int, int]) -> Case:
    """A matmul whose operands and result are parts of wider matrices."""
    m, n, k = size

    def data() -> tuple[Any, ...]:
        z = torch.empty(m, n, device="cuda", dtype=torch.float16)
        return half(m, 2 * k, scale=k**-0.25), half(k, 2 * n, scale=k**-0.25), z

    def cublas(x: Any, y: Any, z: Any) -> None:
        torch.mm(x[:, 64 : 64 + k], y[:, 128 : 128 + n], out=z)

    def reference(x: Any, y: Any, z: Any) -> torch.Tensor:
        return x[:, 64 : 64 + k].float() @ y[:, 128 : 128 + n].float()

    ours = each(
        LARGE, size, matmuls.of_slices,
        lambda x, y, z: [x, y, z, m, n, k, 2 * k, 2 * n, n, 64, 128],
    )  # fmt: skip
    name = f"sliced {m}x{n}x{k}"
    return Case(name, data, reference, 4e-3, ours, {"cuBLAS": cublas}, 1.0, 2.0 * m * n * k)


def int8_case(size: tuple[int, int, int]) -> Case:
    """A matmul of 8-bit operands, with a scale for every row and every column."""
    m, n, k = size

    def data() -> tuple[Any, ...]:
        x, y = (torch.randint(-128, 128, s, device="cuda", dtype=torch.int8)
                for s in ((m, k), (n, k)))  # fmt: skip
        xs, ys = (torch.rand(s, device="cuda") / math.sqrt(k) / 64 for s in (m, n))
        return x, y, xs, ys, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)

    def plain(x: Any, y: Any, xs: Any, ys: Any) -> Any:
        return (torch._int_mm(x, y.T) * xs[:, None] * ys).bfloat16()

    def reference(x: Any, y: Any, xs: Any, ys: Any, z: Any) -> torch.Tensor:
        return ((x.double() @ y.double().T) * xs[:, None] * ys).float()

    fused = torch.compile(plain, mode="max-autotune-no-cudagraphs", dynamic=False)
    peers = {"torch": lambda *d: plain(*d[:-1]), "compile": lambda *d: fused(*d[:-1])}
    tiles = tuple(Tile(t.m, t.n, 128) for t in LARGE)
    ours = each(tiles, size, matmuls.int8, lambda x, y, xs, ys, z: [x, y, xs, ys, z, m, n, k])
    return Case(f"i8 {m}x{n}x{k}", data, reference, 8e-3, ours, peers, 1.65, 2.0 * m * n * k)


def int4_case(size: tuple[int, int, int]) -> Case:
    """A matmul with 4-bit weights, against cuBLAS with 16-bit weights and against torch's own
    kernel."""
    m, n, k = size

    def data() -> tuple[Any, ...]:
        weights = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.int32)
        scales = half(n, k // GROUP, scale=k**-0.5)
        pairs = (weights[:, ::2] | weights[:, 1::2] << 4).to(torch.uint8).view(torch.int8)
        dense = ((weights - 8) * scales.float().repeat_interleave(GROUP, 1)).half()
        z = torch.empty(m, n, device="cuda", dtype=torch.float16)
        return half(m, k), pairs, scales, dense, _torch_weights(weights, scales), z

    def torch_own(x: Any, pairs: Any, scales: Any, dense: Any, theirs: Any, z: Any) -> Any:
        return torch._weight_int4pack_mm(x.bfloat16(), theirs[0], GROUP, theirs[1])

    peers = {"cuBLAS, 16 bits": lambda x, p, s, dense, t, z: torch.mm(x, dense.T, out=z),
             "torch, 4 bits": torch_own}  # fmt: skip
    ours = weight_variants(
        size, lambda t: matmuls.int4_weights(t, GROUP),
        lambda x, pairs, scales, dense, t, z: [x, pairs, scales, z, m, n, k],
    )  # fmt: skip
    return Case(
        f"4 bits {m}x{n}x{k}", data, lambda x, p, s, dense, t, z: x.float() @ dense.float().T, 2e-2,
        ours, peers, 1.0, 2.0 * m * n * k,
    )  # fmt: skip


def _torch_weights(weights: torch.Tensor, scales: torch.Tensor) -> Any:
    """The weights in the layout of torch's 4-bit matmul; None if torch has none."""
    try:
        pairs = (weights[:, ::2] << 4 | weights[:, 1::2]).to(torch.uint8)
        packed = torch._convert_weight_to_int4pack(pairs, 8)
    except (RuntimeError, AttributeError):
        return None
    both = torch.stack((scales.T, torch.zeros_like(scales.T)), -1)
    return packed, both.bfloat16().contiguous()


def mxfp8_case(size: tuple[int, int, int]) -> Case:
    """A matmul with weights in e4m3 and a power of two for every 32 of them, against cuBLAS with
    16-bit weights."""
    m, n, k = size

    def data() -> tuple[Any, ...]:
        weights = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn)
        powers = torch.randint(118, 126, (n, k // 32), device="cuda", dtype=torch.uint8)
        spread = torch.exp2(powers.float() - 127).repeat_interleave(32, 1)
        dense = (weights.float() * spread).bfloat16()
        x = torch.randn(m, k, device="cuda").bfloat16()
        z = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        return x, weights, powers, dense, z

    peers = {"cuBLAS, 16 bits": lambda x, w, p, dense, z: torch.mm(x, dense.T, out=z)}
    ours = weight_variants(
        size, matmuls.mxfp8_weights, lambda x, w, powers, dense, z: [x, w, powers, z, m, n, k]
    )
    return Case(
        f"scaled e4m3 {m}x{n}x{k}", data, lambda x, w, p, dense, z: x.float() @ dense.float().T,
        2e-2, ours, peers, 1.0, 2.0 * m * n * k,
    )  # fmt: skip
