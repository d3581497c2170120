"""Conversions wait for the loads that follow them, unless registers are short."""

import numpy as np
import pytest

import tileir
from tests.launches import assert_equal_results
from tileir.analysis.uses import defining_blocks
from tileir.backend.executors import SimtExecutor
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.layouts.anchors import AnchorLayouts
from tileir.backend.layouts.assign_layouts import assign_layouts
from tileir.backend.layouts.sink_conversions import sink_conversions
from tileir.backend.legalize.link_inline import legalize
from tileir.builder import BF16, F16, F32, I32, Builder, arg, pointer


def transposed_reduction(extent=32, kind=F32, *, narrow=False):
    """x transposed, plus y: x is converted, with a cast before or after that."""
    b = Builder()
    types = {name: arg(pointer(kind), aligned=16) for name in "xy"}
    with b.kernel("k", **types, z=arg(pointer(F32), aligned=16)) as (x, y, z):
        i = b.arange(extent)
        row_major = i[:, None] * extent + i[None, :]
        first = (x + i[:, None] + i[None, :] * extent).load()
        first = first.to(BF16).to(F32) if narrow else first.to(F32)
        second = (y + row_major).load().to(F32)
        (z + row_major).store(first + second)
    return b.module()


def layouts_of(module, warps=4):
    function = legalize(module, "k").functions["k"]
    return assign_layouts(function, AnchorLayouts(function, AccessWidths(function), warps))


def order(function):
    expected = ("load", "gpu.convert_layout")
    return [op.mnemonic for op in function.ops if op.mnemonic in expected]


@pytest.mark.parametrize("kind", [F32, F16])
def test_loads_are_issued_before_a_conversion_waits_for_one(kind):
    function = layouts_of(transposed_reduction(kind=kind))
    assert order(function) == ["load", "gpu.convert_layout", "load"]
    moved = sink_conversions(function)
    assert order(moved) == ["load", "load", "gpu.convert_layout"]
    assert sorted(map(id, moved.ops)) == sorted(map(id, function.ops))
    assert sink_conversions(moved) is moved


def test_a_value_that_takes_more_registers_than_its_result_is_not_kept_longer():
    """The cast to fewer bits stays where it is, and the conversion with it is of fewer bits."""
    function = sink_conversions(layouts_of(transposed_reduction(narrow=True)))
    names = [op.mnemonic for op in function.ops]
    second = len(names) - 1 - names[::-1].index("load")
    assert names.index("fptrunc" if "fptrunc" in names else "fpcast") < second


def test_loads_are_not_brought_forward_where_registers_are_short():
    """3 tiles of 128 x 128 f32 on 4 warps: 128 registers of a thread each."""
    function = layouts_of(transposed_reduction(128))
    assert sink_conversions(function) is function


def test_a_tile_counts_as_a_part_of_it_is_in_registers():
    """3 tiles of 64 registers each, of which threads need a part at a time."""
    moved = sink_conversions(layouts_of(transposed_reduction(128), warps=8))
    assert order(moved) == ["load", "load", "gpu.convert_layout"]


def scaled_reduction(extent=64):
    """Half of x transposed, in f16, plus y."""
    b = Builder()
    types = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("k", **types, z=arg(pointer(F32), aligned=16), half=arg(F32)) as (x, y, z, half):
        i = b.arange(extent)
        row_major = i[:, None] * extent + i[None, :]
        first = (x + i[:, None] + i[None, :] * extent).load()
        first = (first.to(F32) * half).to(F16)
        (z + row_major).store(first.to(F32) + (y + row_major).load().to(F32))
    return b.module()


def test_a_conversion_moves_with_what_scales_its_result():
    """The multiplication by a number takes more bits, and is cast to as many as were loaded."""
    function = layouts_of(scaled_reduction())
    assert order(function) == ["load", "gpu.convert_layout", "load"]
    moved = sink_conversions(function)
    assert order(moved) == ["load", "load", "gpu.convert_layout"]


def row_of_the_next(extent=64):
    """In every iteration the difference of a row and a tile, the row by the threads that own the
    tile; and its difference to the row before, by threads that own columns of an accumulator."""
    b = Builder()
    types = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **types, s=arg(pointer(F16), aligned=16), n=arg(I32)) as (x, y, z, s, n):
        i = b.arange(extent)
        row_major = i[:, None] * extent + i[None, :]
        total = b.var(b.full((extent, extent), 0.0, F32))
        last = b.var(b.full((extent,), 0.0, F32))
        with b.for_(0, n) as step:
            row = (x + (i + step * extent)).load()
            tile = (y + (row_major + step * extent**2)).load()
            half = (row[None, :] - tile).to(F16)
            change = (row - last.get())[None, :]
            total.set(b.dot((s + row_major).load(), half, total.get() * change))
            last.set(row)
        (z + row_major).store(total.get())
    return b.module()


def test_a_row_that_is_passed_on_anyway_is_converted_after_the_loads():
    function = layouts_of(row_of_the_next())
    moved = sink_conversions(function)
    block = next(b for b in moved.blocks.values() if any(op.mnemonic == "dot" for op in b.ops))
    names = [op.mnemonic for op in block.ops]
    conversions = [op for op in block.ops if op.mnemonic == "gpu.convert_layout"]
    assert any(len(op.operands[0].type.shape) == 1 for op in conversions)
    last = len(names) - 1 - names[::-1].index("load")
    assert names.index("gpu.convert_layout") > last


def test_the_result_is_the_same():
    module = transposed_reduction()
    x, y = np.random.default_rng(0).integers(-9, 9, (2, 32 * 32)).astype(np.float32)
    actual, expected = np.zeros((2, 32 * 32), np.float32)
    SimtExecutor().launch(module, None, 1, [x, y, actual], num_warps=4)
    tileir.interpret(module, None, 1, [x, y, expected])
    np.testing.assert_array_equal(actual, expected)


def stored_twice(extent=32):
    """x, read and stored by columns in every iteration; stored by rows after the loop."""
    b = Builder()
    types = {name: arg(pointer(F32), aligned=16) for name in "xy"}
    last = {"z": arg(pointer(F32), aligned=16), "n": arg(I32)}
    with b.kernel("k", **types, **last) as (x, y, z, n):
        i = b.arange(extent)
        down, row_major = i[:, None] + i[None, :] * extent, i[:, None] * extent + i[None, :]
        value = (x + down).load()
        with b.for_(0, n) as step:
            (y + (down + step * extent**2)).store(value)
        (z + row_major).store(value)
    return b.module()


def test_a_conversion_is_done_after_the_loop_that_does_not_need_it():
    """Registers have the tile in one layout during the loop."""
    function = layouts_of(stored_twice())
    place = defining_blocks(function)
    (conversion,) = (op for op in function.ops if op.mnemonic == "gpu.convert_layout")
    user = next(op for op in function.ops if conversion.results[0] in op.operands)
    assert user not in function.blocks[place[conversion.results[0]]].ops
    moved = sink_conversions(function)
    assert user in moved.blocks[defining_blocks(moved)[conversion.results[0]]].ops
    assert sorted(map(id, moved.ops)) == sorted(map(id, function.ops))
    assert sink_conversions(moved) is moved


@pytest.mark.parametrize("n", [0, 2])
def test_values_stay_where_a_conversion_moves_after_a_loop(n):
    x = np.random.default_rng(n).standard_normal(1024).astype(np.float32)
    arrays = [x, np.zeros((n + 1) * 1024, np.float32), np.zeros(1024, np.float32), n]
    results = assert_equal_results(stored_twice(), arrays, num_warps=4)
    np.testing.assert_array_equal(results[2].reshape(32, 32), x.reshape(32, 32).T)
