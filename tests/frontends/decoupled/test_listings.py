"""What the thesis says of its listings: how many kernels and program instances there are, what goes
through memory, and in which order blocks come. What they compute is in `listings`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileir.frontends.decoupled import parse

from . import definitions as d


def launches(source: str, schedule: str = "", **sizes: int) -> list[int]:
    """Program instances of each kernel."""
    return [launch.instances for launch in plan_of(source, schedule, **sizes).launches]


def plan_of(source: str, schedule: str, **sizes: int) -> Any:
    function = parse(source).with_schedule(schedule).function()
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
    assert launches(d.ROW_TOTALS, "sum_out.block(k:32);", x=3, k=64) == [2, 1]  # Listing 3.21
    assert launches(d.GEGLU, x=4, y=1024) == [8]


def test_only_what_is_not_whole_passes_through_memory() -> None:
    assert not plan_of(d.SWISH, "tmp.fuse_at(swish_out, y);", x=3, y=8).scratch
    stored = plan_of(d.SWISH, "tmp.fuse_at(swish_out, x);", x=3, y=8)  # Listing 3.14
    assert [stored.tensors[n].shape for n in stored.scratch] == [(3, 8)]
    whole = "swish_out.tensorize(y:0); tmp.fuse_at(swish_out, x);"  # Listing 3.15
    assert not plan_of(d.SWISH, whole, x=3, y=8).scratch
    split = plan_of(d.ROW_TOTALS, "sum_out.block(k:32);", x=3, k=64)  # Listing 3.20
    assert [split.tensors[n].shape for n in split.scratch] == [(2, 3)]


def numbers(schedule: str, x: int = 4, y: int = 4) -> Any:
    """The program instance that computes each element."""
    source = f"Func out; In A; Var x, y; out[x, y] = 0 * A[x, y] + program_id(); {schedule}"
    values = parse(source).function()(np.zeros((x, y), np.float32))
    return values.astype(int).tolist()


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


def test_blocks_from_the_last_to_the_first() -> None:
    unit = "out.block(x:1, y:1); out.compile();"
    assert numbers(f"{unit} out.map(x, y); out.reverse(x);")[1] == [8, 9, 10, 11]
    split = numbers(f"{unit} out.map(y:yi/3, x, yi); out.reverse(x, y);", 2, 4)
    assert [row[::-1] for row in split[::-1]] == numbers(f"{unit} out.map(y:yi/3, x, yi);", 2, 4)


def test_splits_that_do_not_divide_leave_instances_without_work() -> None:
    result = numbers("out.block(x:1, y:1); out.map(x:xi/4, y, xi:xj/3, xj); out.compile();", 5, 2)
    assert len({n for row in result for n in row}) == 10
    assert max(map(max, result)) < 2 * 2 * 6
