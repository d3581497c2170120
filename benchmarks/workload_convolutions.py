"""Convolutions of Table 1 of Tillet et al., MAPL 2019, for `workloads.py`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import torch
from torch.nn.functional import conv2d
from workloads import Case, Variant

from tileir.builder import F16, F32
from tileir.testing.workloads import convolution
from tileir.testing.workloads.convolution import Filter
from tileir.testing.workloads.tables import Increments

TASKS = {
    1: (112, 112, 64, 4, 128, 3, 3), 2: (56, 56, 128, 4, 256, 3, 3), 3: (28, 28, 256, 4, 512, 3, 3),
    4: (14, 14, 512, 4, 512, 3, 3), 5: (7, 7, 512, 4, 512, 3, 3), 6: (161, 700, 1, 8, 64, 5, 5),
    7: (79, 341, 32, 8, 32, 5, 10),
}  # fmt: skip
"""H, W, C, B, K, R, S, with zeros around so that outputs are as many as inputs, or one more."""

BOXES = (
    (8, 16, 128, 64), (8, 16, 256, 64), (16, 16, 128, 64), (8, 8, 64, 64), (8, 8, 128, 64),
    (4, 32, 128, 64), (2, 64, 128, 64), (8, 8, 64, 128), (8, 8, 32, 128),
)  # fmt: skip
NARROW = ((16, 16, 32, 32), (8, 16, 32, 32), (8, 32, 32, 32), (4, 32, 32, 32), (8, 8, 32, 32))
RUNS = ((128, 128, 64), (128, 256, 64), (64, 128, 64), (64, 64, 64), (128, 64, 64), (64, 32, 128))
SINGLES = (
    (128, 128, 8, 8), (128, 128, 16, 8), (128, 64, 16, 8), (64, 64, 16, 4), (64, 64, 32, 4),
    (128, 64, 8, 4), (64, 32, 16, 4), (32, 32, 32, 4),
)  # fmt: skip
"""Tiles of multiply-adds, and warps."""
TABLED = ((128, 64, 32, 4), (256, 64, 32, 8), (128, 64, 32, 8), (64, 64, 32, 4))


def cases(group: str) -> Iterator[Case]:
    """Yield a row for each task, and rows for strided convolutions."""
    for task, (h, w, c, b, k, r, s) in TASKS.items():
        yield case(
            f"{group} task {task}", group, (h, w, c, b, k), Filter(r, s, 1, (r // 2, s // 2))
        )
    for task in (1, 2, 3):
        h, w, c, b, k, r, s = TASKS[task]
        size = (h, w, c, b, k)
        yield case(f"{group} task {task} by 2", group, size, Filter(r, s, 2, (1, 1)))


def case(name: str, group: str, size: tuple[int, ...], filter: Filter) -> Case:
    """One line."""
    h, w, c, b, k = size
    oh, ow = filter.output(h, w)
    last, dtype = group == "nhwc", torch.float32 if group == "single" else torch.float16
    layout = torch.channels_last if last else torch.contiguous_format
    scale = 1 / math.sqrt(filter.taps * c)

    def data() -> tuple[Any, ...]:
        """The tensors x, the filters in the layouts of tileir and of cuDNN, and y."""
        x = torch.randn(b, c, h, w, device="cuda").to(dtype, memory_format=layout)
        taps = (torch.randn(filter.rows, filter.columns, c, k, device="cuda") * scale).to(dtype)
        theirs = taps.permute(3, 2, 0, 1).contiguous(memory_format=layout)
        y = torch.empty(b, k, oh, ow, device="cuda", dtype=dtype)
        return x, taps, theirs, y.contiguous(memory_format=layout)

    def reference(x: Any, taps: Any, theirs: Any, y: Any) -> torch.Tensor:
        torch.backends.cudnn.allow_tf32 = False
        return conv2d(x.float(), theirs.float(), None, filter.stride, filter.padding)

    def cudnn(x: Any, taps: Any, theirs: Any, y: Any) -> torch.Tensor:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        return conv2d(x, theirs, None, filter.stride, filter.padding)

    ours = dict(variants(group, size, filter))
    flops = 2.0 * b * oh * ow * c * k * filter.taps
    off = 1e-4 if group == "single" else 4e-3
    return Case(name, data, reference, off, ours, {"cudnn": cudnn}, 1.0, flops)


def variants(
    group: str, size: tuple[int, ...], filter: Filter
) -> Iterator[tuple[str, Variant]]:  # fmt: skip
    """Yield the variants of tileir by name."""
    h, w, c, _, k = size
    sizes = [h, w, *filter.output(h, w), c, k]
    if c == 1:
        yield from _table_tiles(group, size, filter)
    elif group == "nhwc":
        yield from _boxes(size, filter, sizes)
    else:
        yield from _gather_tiles(group, size, filter, sizes)
    if c > 1 and group == "nchw":
        yield from _channels_last_boxes(size, filter, sizes)


def _plain(sizes: list[int]) -> Callable[..., list[Any]]:
    return lambda x, taps, theirs, y: [x, taps, y, *sizes]


def _boxes(
    size: tuple[int, ...], filter: Filter, sizes: list[int], first: bool = False
) -> Iterator[tuple[str, Variant]]:
    b, k = size[3:]
    oh, ow = sizes[2:4]
    sizes = [n // filter.stride for n in sizes[:2]] + sizes[2:]
    for th, tw, bn, bk in NARROW if k == 32 else BOXES:
        grid = (-(-oh // th) * -(-ow // tw), -(-k // bn), b)
        for persistent in (False, True):
            name = f"{th}x{tw}x{bn}x{bk}{'' if persistent else ' once'}"
            yield name, Variant(
                lambda th=th, tw=tw, bn=bn, bk=bk: convolution.boxes(
                    th, tw, bn, bk, filter, first=first
                ),
                grid, _plain(sizes), {"persistent": persistent},
            )  # fmt: skip


def _channels_last_boxes(
    size: tuple[int, ...], filter: Filter, sizes: list[int]
) -> Iterator[tuple[str, Variant]]:
    """Yield variants that read boxes of pixels of an image with channels last, which another kernel
    produces first."""
    h, w, c, b, _ = size
    block, even = min(64, c), (math.gcd(h * w, 8), 8)
    last = functools.cache(lambda: torch.empty(b, h * w, c, device="cuda", dtype=torch.float16))
    before = Variant(
        lambda: convolution.channels_last(64, block, of=even),
        (-(-h * w // 64), c // block, b),
        lambda x, taps, theirs, y: [x, last(), h * w, c],
    )
    for name, variant in _boxes(size, filter, sizes, first=True):
        arguments = lambda x, taps, theirs, y, own=variant.arguments: own(last(), taps, theirs, y)  # noqa: E731
        yield f"turned {name}", attrs.evolve(variant, arguments=arguments, before=before)


def _gather_tiles(
    group: str, size: tuple[int, ...], filter: Filter, sizes: list[int]
) -> Iterator[tuple[str, Variant]]:
    b, k = size[3:]
    pixels = sizes[2] * sizes[3]
    element = F32 if group == "single" else F16
    tiles = SINGLES if group == "single" else tuple((*t, 0) for t in RUNS)
    if k == 32 and group != "single":
        tiles = ((128, 32, 32, 0), (64, 32, 32, 0), (192, 32, 32, 0))
    for bm, bn, bk, warps in tiles:
        grid = (-(-pixels // bm), -(-k // bn), b)
        options = {"num_warps": warps} if warps else {"persistent": False}
        yield f"{bm}x{bn}x{bk} w{warps}", Variant(
            lambda bm=bm, bn=bn, bk=bk: convolution.implicit_gemm(bm, bn, bk, filter, element),
            grid, _plain(sizes), options,
        )  # fmt: skip


def _table_tiles(
    group: str, size: tuple[int, ...], filter: Filter
) -> Iterator[tuple[str, Variant]]:  # fmt: skip
    h, w, c, b, k = size
    oh, ow = filter.output(h, w)
    last, element = group == "nhwc", F32 if group == "single" else F16
    depth = filter.taps * c
    padded = Increments.of(filter.rows, filter.columns, (c, h, w), last=last).pad_to(32)
    tables = [torch.from_numpy(t).cuda() for t in (padded.increments, padded.sides)]
    numbers = [h, w, oh, ow, c * h * w, depth, k]
    for bm, bn, bk, warps in TABLED:
        for roles in (True, False) if group != "single" else (False,):
            name = f"{bm}x{bn}x{bk} w{warps}{'' if roles else ' threads'}"
            yield (
                name,
                Variant(
                    lambda bm=bm, bn=bn, bk=bk: convolution.with_increment_table(
                        bm, bn, bk, filter, element, last=last
                    ),
                    (-(-oh * ow // bm), -(-k // bn), b),
                    lambda x, taps, theirs, y: [x, taps, y, *tables, *numbers],
                    {
                        "warp_specialize": roles,
                        "num_warps": None if roles else warps,
                        "persistent": False,
                    },
                ),
            )
