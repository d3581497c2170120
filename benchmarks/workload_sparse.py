"""Block-sparse matrices for `workloads.py`: matmul and softmax at 50, 75 and 90 % sparsity."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from timing import checks_results
from workloads import Case, Variant

from tileir.testing.workloads import sparse
from tileir.testing.workloads.tables import Blocks

SIZE = 4096
DENSITIES = (0.5, 0.25, 0.1)
BLOCKS = (128, 64)
GOOD = 0.8
"""Target, in parts of the speedup that skipping the empty blocks could give."""


def cases(group: str) -> Iterator[Case]:
    """Yield every matmul and softmax, against the dense one."""
    for size in BLOCKS:
        for density in DENSITIES:
            random = np.random.default_rng(size)
            count = SIZE // size
            blocks = Blocks(random.random((count, count)) < density)
            target = GOOD / (blocks.count / count**2)
            for make in (sdd, dsd, dds, softmax):
                yield make(f"{make.__name__} {size} {1 - density:.0%}", size, blocks, target)


def dense_of(blocks: Blocks, values: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
    """The whole matrix of blocks [count, size, size]."""
    size = values.shape[-1]
    rows, columns = blocks.mask.shape
    dense = torch.full((rows, columns, size, size), fill, device="cuda", dtype=values.dtype)
    dense[torch.from_numpy(blocks.mask).cuda()] = values
    return dense.permute(0, 2, 1, 3).reshape(rows * size, columns * size)


def blocks_of(blocks: Blocks, dense: torch.Tensor, size: int) -> torch.Tensor:
    """The blocks of a whole matrix."""
    rows, columns = blocks.mask.shape
    cut = dense.view(rows, size, columns, size).permute(0, 2, 1, 3)
    return cut[torch.from_numpy(blocks.mask).cuda()]


def normal(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * SIZE**-0.25).half()


def on_gpu(*tables: Any) -> list[torch.Tensor]:
    return [torch.from_numpy(np.ascontiguousarray(t)).cuda() for t in tables]


def sdd(name: str, size: int, blocks: Blocks, target: float) -> Case:
    """Some blocks of a matmul of dense matrices. The peer computes all of them."""
    tables, count = on_gpu(*blocks.places), blocks.count
    dense = torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16)

    def data() -> tuple[Any, ...]:
        z = torch.empty(count, size, size, device="cuda", dtype=torch.float16)
        return normal(SIZE, SIZE), normal(SIZE, SIZE), z

    def reference(x: Any, y: Any, z: Any) -> torch.Tensor:
        return blocks_of(blocks, x.float() @ y.float(), size)

    def cublas(x: Any, y: Any, z: Any) -> Any:
        torch.mm(x, y, out=dense)
        return blocks_of(blocks, dense, size) if checks_results() else None

    ours = {
        f"{bk}{'' if persistent else ' once'}": Variant(
            lambda bk=bk: sparse.sdd(size, bk), (count,),
            lambda x, y, z: [x, y, z, *tables, SIZE, SIZE, SIZE], {"persistent": persistent},
        )
        for bk in (64, 128) for persistent in (False, True)
    }  # fmt: skip
    for group, bk in ((2, 64), (2, 128), (4, 64)) if size == 64 else ((2, 64),):
        groups = on_gpu(*blocks.by_groups(group))
        ours |= {
            f"{bk} rows of {group}{'' if persistent else ' once'}": Variant(
                lambda bk=bk, group=group: sparse.sdd_rows(size, bk, group), (len(groups[0]),),
                lambda x, y, z, groups=groups: [x, y, z, *groups, SIZE, SIZE, SIZE],
                {"persistent": persistent},
            )
            for persistent in (False, True)
        }  # fmt: skip
    flops = 2.0 * count * size * size * SIZE
    return Case(name, data, reference, 4e-3, ours, {"cuBLAS, dense": cublas}, target, flops)


def dsd(name: str, size: int, blocks: Blocks, target: float) -> Case:
    """A block-sparse matrix times a dense one."""
    tables = on_gpu(blocks.longest[0], *blocks.by_row)

    def data() -> tuple[Any, ...]:
        x = normal(blocks.count, size, size)
        z = torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16)
        return x, normal(SIZE, SIZE), dense_of(blocks, x), z

    def reference(x: Any, y: Any, dense: Any, z: Any) -> torch.Tensor:
        return dense.float() @ y.float()

    ours = {
        f"{bn}x{bk}{'' if persistent else ' once'}": Variant(
            lambda bn=bn, bk=bk: sparse.dsd(size, bn, bk), (-(-SIZE // bn), SIZE // size),
            lambda x, y, dense, z: [x, y, z, *tables, SIZE], {"persistent": persistent},
        )
        for bn in (256, 128) for bk in (64, 128) if bk <= size for persistent in (False, True)
    }  # fmt: skip
    flops = 2.0 * blocks.count * size * size * SIZE
    peers = {"cuBLAS, dense": lambda x, y, dense, z: torch.mm(dense, y, out=z)}
    return Case(name, data, reference, 4e-3, ours, peers, target, flops)


def dds(name: str, size: int, blocks: Blocks, target: float) -> Case:
    """A dense matrix times a block-sparse one."""
    tables = on_gpu(blocks.longest[1], *blocks.by_column)

    def data() -> tuple[Any, ...]:
        y = normal(blocks.count, size, size)
        z = torch.empty(SIZE, SIZE, device="cuda", dtype=torch.float16)
        return normal(SIZE, SIZE), y, dense_of(blocks, y), z

    def reference(x: Any, y: Any, dense: Any, z: Any) -> torch.Tensor:
        return x.float() @ dense.float()

    ours = {
        f"{bm}x{bk}{'' if persistent else ' once'}": Variant(
            lambda bm=bm, bk=bk: sparse.dds(bm, size, bk), (-(-SIZE // bm), SIZE // size),
            lambda x, y, dense, z: [x, y, z, *tables, SIZE, SIZE, SIZE],
            {"persistent": persistent},
        )
        for bm in (256, 128) for bk in (64, 128) if bk <= size for persistent in (False, True)
    }  # fmt: skip
    flops = 2.0 * blocks.count * size * size * SIZE
    peers = {"cuBLAS, dense": lambda x, y, dense, z: torch.mm(x, dense, out=z)}
    return Case(name, data, reference, 4e-3, ours, peers, target, flops)


def softmax(name: str, size: int, blocks: Blocks, target: float) -> Case:
    """A softmax along the rows of a block-sparse matrix, against torch on the dense one."""
    starts, scale = on_gpu(blocks.by_row[0])[0], 0.125

    def data() -> tuple[Any, ...]:
        x = torch.randn(blocks.count, size, size, device="cuda").half()
        return x, dense_of(blocks, x, -math.inf), torch.empty_like(x)

    def reference(x: Any, whole: Any, y: Any) -> torch.Tensor:
        return blocks_of(blocks, torch.softmax(whole.float() * scale, -1).nan_to_num(), size)

    def dense(x: Any, whole: Any, y: Any) -> Any:
        weights = torch.softmax(whole * scale, -1)
        return blocks_of(blocks, weights.nan_to_num(), size) if checks_results() else None

    ours = {
        f"{rows} rows w{warps}": Variant(
            lambda rows=rows: sparse.softmax(size, blocks.most, rows),
            (size // rows, len(blocks.mask)),
            lambda x, whole, y: [x, y, starts, scale], {"num_warps": warps},
        )
        for rows in (1, 2, 4) for warps in (2, 4, 8)
    }  # fmt: skip
    return Case(name, data, reference, 2e-3, ours, {"torch, dense": dense}, target)
