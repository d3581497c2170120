"""Every listing of the thesis gives what numpy does, whatever its schedule; odd sizes included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileir.frontends.decoupled import parse

from . import definitions as d

CASES: list[tuple[str, str, str, tuple[dict[str, int], ...]]] = [
    ("3.1", d.ADD, "", ({"x": 2, "y": 512}, {"x": 3, "y": 517})),
    ("3.3", d.SOFTMAX, "", ({"x": 8, "y": 128}, {"x": 7, "y": 131})),
    ("3.4", d.RMS_NORM, "", ({"x": 2, "y": 5},)),

        ("3.4 tensorized", d.RMS_NORM,
     "rms_norm_out.block(x:2); rms_norm_out.tensorize(x:0, y:32, k:0);",
     ({"x": 5, "y": 65},)),
    ("3.5", d.RELU, "", ({"x": 3, "y": 5},)),
    ("3.8", d.RELU, "relu_out.block(x:16, y:64);", ({"x": 17, "y": 65},)),
    ("3.9", d.RELU, "relu_out.tensorize(x:64, y:0);", ({"x": 128, "y": 32}, {"x": 67, "y": 33})),
    ("3.10", d.RELU, "relu_out.block(x:4, y:128); relu_out.tensorize(x:0, y:16);",
     ({"x": 8, "y": 128}, {"x": 5, "y": 131})),
    ("3.11", d.RELU, "relu_out.block(x:8, y:16); relu_out.map(x:xi/4, y, xi);",
     ({"x": 32, "y": 32}, {"x": 41, "y": 17})),
    ("3.12", d.SWISH, "", ({"x": 3, "y": 5},)),
    ("3.13", d.SWISH, "tmp.fuse_at(swish_out, y);", ({"x": 3, "y": 5},)),
    ("3.14", d.SWISH, "tmp.fuse_at(swish_out, x);", ({"x": 3, "y": 5},)),
    ("3.15", d.SWISH, "swish_out.tensorize(y:0); tmp.fuse_at(swish_out, x);",
     ({"x": 3, "y": 16}, {"x": 2, "y": 13})),
    ("3.16", d.RELU, "relu_out.num_warps(8); relu_out.num_stages(4);", ({"x": 3, "y": 5},)),
    ("3.17", d.SUM, "", ({"x": 3, "k": 7},)),
    ("3.19", d.SUM, "sum_out.tensorize(k:16);", ({"x": 3, "k": 64}, {"x": 2, "k": 37})),
    ("3.20", d.SUM, "sum_out.block(k:32);", ({"x": 3, "k": 64}, {"x": 2, "k": 75})),
    ("4.1", d.GEGLU, "", ({"x": 2, "y": 1024}, {"x": 3, "y": 517})),
    ("4.2", d.FUSED_SOFTMAX, "", ({"x": 8, "y": 512}, {"x": 5, "y": 600})),
    ("4.3", d.TWO_PRODUCTS, "",
     ({"m": 32, "n": 128, "k": 32, "l": 32}, {"m": 17, "n": 65, "k": 33, "l": 20})),
    ("4.4", d.ATTENTION, "",
     ({"m": 32, "n": 64, "k": 64, "l": 64}, {"m": 17, "n": 65, "k": 19, "l": 33})),
    ("DyT", d.DYT, "dyt.block(x:2, y:32); dyt.tensorize(x:0, y:0);", ({"x": 5, "y": 65},)),
    ("SwiGLU", d.SWIGLU, "swiglu.block(y:64); swiglu.tensorize(y:0);", ({"x": 3, "y": 65},)),
    ("TVD", d.TVD, "tvd.block(x:2); tvd.tensorize(x:0, y:32);", ({"x": 5, "y": 65},)),
    ("KL", d.KL, "kl.block(x:2); kl.tensorize(x:0, y:32);", ({"x": 5, "y": 65},)),

        ("matmul", d.MATMUL,
     "matmul.block(m:16, n:32); matmul.tensorize(m:0, n:0, k:16); matmul.map(n:ni/2, m, ni);",
     ({"m": 32, "n": 64, "k": 32}, {"m": 17, "n": 70, "k": 21})),
    ("mmsigmoid", d.MMSIGMOID, "mmsigmoid.block(m:16, n:16); mmsigmoid.tensorize(m:0, n:0, k:16);",
     ({"m": 17, "n": 20, "k": 21},)),
    ("2mm inner", d.INNER_2MM, "_2mm.block(m:16, n:32); _2mm.tensorize(m:0, n:0, k:0, l:16);",
     ({"m": 17, "n": 33, "k": 19, "l": 40},)),
    ("flash", d.FLASH, d.FLASH_SCHEDULE, ({"h": 2, "m": 17, "n": 16, "k": 16, "l": 50},)),
]  # fmt: skip
ALL = pytest.mark.parametrize(
    ("source", "schedule", "sizes"),
    [pytest.param(c[1], c[2], s, id=f"{c[0]}-{i}") for c in CASES for i, s in enumerate(c[3])],
)


@ALL
def test_in_the_interpreter(source: str, schedule: str, sizes: dict[str, int]) -> None:
    parse(source).scheduled(schedule).function().test(**sizes)()


@pytest.mark.parametrize("on", ["simt", "cpu"])
@pytest.mark.parametrize(
    ("source", "schedule", "sizes"),
    [pytest.param(c[1], c[2], c[3][-1], id=c[0]) for c in CASES],
)
def test_where_it_is_lowered(source: str, schedule: str, sizes: dict[str, int], on: str) -> None:
    parse(source).scheduled(schedule).function().test(on, **sizes)()


def launches(source: str, schedule: str = "", **sizes: int) -> list[int]:
    """Program instances of each kernel."""
    return [launch.instances for launch in planned(source, schedule, **sizes).launches]


def planned(source: str, schedule: str, **sizes: int) -> Any:
    function = parse(source).scheduled(schedule).function()
    shapes = {
        "A": [n for n in ("x", "y", "k") if n in sizes],
    }
    arrays = [np.ones([sizes[n] for n in shapes["A"]], np.float32)] * len(function.tensors)
    return function.plan(*arrays, *[1.0 for _ in function.scalars])


def test_grids_are_those_of_the_wrapper_functions() -> None:
    assert launches(d.ADD, x=6, y=512) == [12]  # Listing 3.2, line 37
    assert launches(d.RELU, x=6, y=5) == [1]
    assert launches(d.RELU, "relu_out.block(x:16, y:64);", x=32, y=256) == [8]
    assert launches(d.SOFTMAX, x=8, y=128) == [1, 1, 1]  # Listing 3.7: three kernels
    assert launches(d.SUM, "sum_out.block(k:32);", x=3, k=64) == [2, 1]  # Listing 3.21
    assert launches(d.GEGLU, x=4, y=1024) == [8]


def test_only_what_is_not_whole_passes_through_memory() -> None:
    assert not planned(d.SWISH, "tmp.fuse_at(swish_out, y);", x=3, y=8).scratch
    stored = planned(d.SWISH, "tmp.fuse_at(swish_out, x);", x=3, y=8)  # Listing 3.14
    assert [stored.tensors[n].shape for n in stored.scratch] == [(3, 8)]
    whole = "swish_out.tensorize(y:0); tmp.fuse_at(swish_out, x);"  # Listing 3.15
    assert not planned(d.SWISH, whole, x=3, y=8).scratch
    split = planned(d.SUM, "sum_out.block(k:32);", x=3, k=64)  # Listing 3.20
    assert [split.tensors[n].shape for n in split.scratch] == [(2, 3)]


def numbers(schedule: str, x: int = 4, y: int = 4) -> Any:
    """The program instance that computes each element."""
    source = f"Func out; In A; Var x, y; out[x, y] = 0 * A[x, y] + program_id(); {schedule}"
    found = parse(source).function()(np.zeros((x, y), np.float32))
    return found.astype(int).tolist()


def test_blocks_and_their_order() -> None:
    """Figures 3.3 and 3.5; the order without `map` is that of Listing 3.8."""
    assert numbers("out.block(x:2, y:2); out.compile();") == [
        [0, 0, 2, 2], [0, 0, 2, 2], [1, 1, 3, 3], [1, 1, 3, 3],
    ]  # fmt: skip
    unit = "out.block(x:1, y:1); out.compile();"
    assert numbers(f"{unit} out.map(x, y);")[1] == [4, 5, 6, 7]
    assert numbers(f"{unit} out.map(y, x);")[1] == [1, 5, 9, 13]
    assert numbers(f"{unit} out.map(y:yi/2, x, yi);") == [
        [0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15],
    ]  # fmt: skip
    assert numbers(f"{unit} out.map(y:yi/2, x:xi/2, yi, xi);") == [
        [0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15],
    ]  # fmt: skip


def test_splits_that_do_not_divide_leave_instances_without_work() -> None:
    found = numbers("out.block(x:1, y:1); out.map(x:xi/4, y, xi:xj/3, xj); out.compile();", 5, 2)
    assert len({n for row in found for n in row}) == 10
    assert max(map(max, found)) < 2 * 2 * 6
