"""The convolutions of Lamont et al., as `.tir`: plain as its Triton kernel, with a stride as its
CUDA kernel, padded as its kernels with shared memory, and dilated as its cuDNN descriptor.

Its document observed of Triton's PTX that every element of the window is loaded from global memory,
under predicates, by 8 loads per thread for a block of 32 x 32 outputs. By hand it staged tile and
halo in shared memory (strategy 1: threads for the output, several steps of loading; 2: threads for
the input, some idle; 3: the halo from global memory), for a tile of 16 x 16 and one window. Here
the compiler stages them, so that the figures below are its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import tileir
from tests.backend.convolutions import Convolution
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.counts import Counts
from tileir.textual import parse, print_module
from tileir.types import Tile

FOLDER = Path(__file__).parents[1] / "corpus" / "lamont_conv2d"
CASES = {
    "conv2d": Convolution(loops="flat", other=False),
    "conv2d_strided": Convolution(stride=2),
    "conv2d_padded": Convolution(window=(5, 5), padding=2, checked=False),
    "conv2d_dilated": Convolution(padding=2, dilation=2, checked=False),
}
SHAPES = [(64, 64), (61, 77), (9, 130)]


def inputs(c: Convolution, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """An image and a window of small integers, whose sums have no rounding, and an output."""
    random = np.random.default_rng(shape[1])
    x = random.integers(-8, 9, shape).astype(np.float32)
    k = random.integers(-8, 9, c.window).astype(np.float32)
    return x, k, np.full(c.output(shape), np.nan, np.float32)


def bare(text: str) -> str:
    """A module's text without the comments at its top."""
    return text[text.index("tir 1.0") :]


@pytest.mark.parametrize("name", CASES)
def test_texts_are_canonical_and_what_the_generator_writes(name):
    text = (FOLDER / f"{name}.tir").read_text()
    assert text.startswith("; Lamont et al., ") and print_module(parse(text)) == text
    assert bare(text) == CASES[name].text()
    assert sorted(p.stem for p in FOLDER.glob("*.tir")) == sorted(CASES)


def launch_and_count(c: Convolution, shape: tuple[int, int], text: str, **options: Any) -> Counts:
    x, k, y = inputs(c, shape)
    counts, arguments = Counts(), c.arguments(x, k, y)
    SimtExecutor().launch(parse(text), None, c.grid(shape), arguments, counts=counts, **options)
    assert (y == c.reference(x, k)).all()
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_results(name, shape):
    c, text = CASES[name], (FOLDER / f"{name}.tir").read_text()
    x, k, y = inputs(c, shape)
    tileir.interpret(parse(text), "conv2d", c.grid(shape), c.arguments(x, k, y))
    assert (y == c.reference(x, k)).all()
    launch_and_count(c, shape, text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("window", [(1, 1), (2, 3), (3, 3), (7, 7), (1, 9)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_other_windows(name, window):
    """An image a little larger than the window, and not square."""
    wide = {"padding": min(CASES[name].padding, min(window) - 1), "block": (4, 8)}
    c = attrs.evolve(CASES[name], window=window, **wide)
    spans = [(n - 1) * c.dilation + 1 for n in window]
    launch_and_count(c, (spans[0] + 6, spans[1] + 11), c.text())


@attrs.frozen
class Figures:
    """`loads`: instructions that warps issue to load the image; `sectors` of 32 bytes that these
    touch; `shared` bytes, and `barriers` per block."""

    loads: int
    sectors: int
    shared: int
    barriers: int


def image_loads(c: Convolution, text: str, *, stage_halo: bool) -> Figures:
    """The figures for an image of 64 x 64, 4 warps."""
    counts = launch_and_count(c, (64, 64), text, num_warps=4, stage_halo=stage_halo)
    tiles = [t for op, t in counts.by_op.items() if op.mnemonic == "load" and _is_tile(op)]
    options = {"num_warps": 4, "stage_halo": stage_halo}
    compiled = compile_kernel(parse(text), "sm_80", options)
    blocks = c.grid((64, 64))[0] * c.grid((64, 64))[1]
    barriers = sum(t.barriers for t in counts.by_op.values())
    return Figures(
        sum(t.accesses for t in tiles), sum(t.sectors for t in tiles), compiled.plan.shared,
        barriers // blocks,
    )  # fmt: skip


def _is_tile(op: Any) -> bool:
    """Whether a load is of the image; the window's elements are scalars."""
    return isinstance(op.results[0].type, Tile)


FIGURES = {
    "conv2d": (Figures(1116, 4836, 0, 0), Figures(154, 700, 2592, 1)),
    "conv2d_strided": (Figures(279, 2232, 0, 0), Figures(128, 512, 8976, 1)),
    "conv2d_padded": (Figures(3140, 13816, 0, 0), Figures(176, 912, 2880, 1)),
    "conv2d_dilated": (Figures(1128, 4888, 0, 0), Figures(176, 912, 2880, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tile_and_halo_are_loaded_once(name):
    """Before and after: as the document saw it of Triton, every window from global memory; and
    staged."""
    c, text = CASES[name], (FOLDER / f"{name}.tir").read_text()
    before, after = (image_loads(c, text, stage_halo=on) for on in (False, True))
    assert (before, after) == FIGURES[name]
