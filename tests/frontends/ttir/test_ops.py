"""Ops of newer releases and texts that few kernels have, as Triton 3.6 to 3.9 write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileir import InterpretError
from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.frontends.ttir import CompilationError, read

HERE = Path(__file__).parent / "ops"
RUN = ["interpreter", "simt", "cpu"]
X = np.random.default_rng(0).standard_normal(128).astype(np.float32)


def text(name):
    return (HERE / f"{name}.ttir").read_text()


def ran(source, on, *arguments, grid=1):
    """The arguments after a launch."""
    inputs = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    executor(on).launch(read(source, num_warps=4), "kernel", grid, inputs)
    return inputs


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("map_blocks", np.where(X > X + 1, X * 2, X + 1)),
        ("map_pair", X + (X + 1)),
        ("map_if", np.where(X > 0, (X + 1) * 2 + (X + 1 > 1), X)),
    ],
)
def test_functions_of_elements(name, expected, on):
    _, y, _ = ran(text(name), on, X, np.zeros(128, np.float32), 0)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def steps(x: float) -> int:
    """The result of the function of `map_loops` for one element."""
    n, total = int(x), 0
    if x < 0:
        return -1
    while n != 0:
        n, total = n // 3 if n % 3 == 0 else n - 1, total + 1
    for i in range(1, int(x)):
        total += sum((100 // i) << (j + i % 2) for j in range(3))
    return total


@pytest.mark.parametrize("on", RUN)
def test_each_element_leaves_a_loop_on_its_own(on):
    """Negative elements reach no loop: they would never leave it, and a loop begins at 0, by which
    no element divides."""
    x = (np.arange(128, dtype=np.float32) * 7) % 20 - 2.5
    _, y, _ = ran(text("map_loops"), on, x, np.zeros(128, np.float32), 0)
    assert y.tolist() == [steps(v) for v in x]


def test_a_division_that_an_element_reaches_traps():
    """The condition is that of elements which reach it: `i != 0` becomes `i != 1`."""
    source = text("map_loops").replace("cmpi ne, %i_5, %c0_i32", "cmpi ne, %i_5, %c1_i32")
    with pytest.raises(InterpretError, match="division by zero"):
        ran(source, "interpreter", X + 5, np.zeros(128, np.float32), 0)


def test_loops_of_elements_compile():
    for target in ("sm_80", "sm_90a", "sm_120"):
        assert compile_kernel(read(text("map_loops"), num_warps=4), target).ptx


@pytest.mark.parametrize("on", RUN)
@pytest.mark.parametrize(("low", "nan"), [("-1.0", "none"), ("-1.0", "all"), ("-0.5", "none")])
def test_clamps(low, nan, on):
    source = text("clamp").replace("-1.000000e+00", low).replace("none", nan)
    _, y, _ = ran(source, on, X, np.zeros(128, np.float32), 0)
    np.testing.assert_array_equal(y, np.clip(X, np.float32(low), np.float32(1)))


@pytest.mark.parametrize(("low", "nan"), [("-1.0", "all"), ("-0.5", "none")])
def test_a_clamp_to_opposite_limits_is_one_instruction(low, nan):
    """As in Triton, where a NaN need not stay one."""
    one = compile_kernel(read(text("clamp"), num_warps=4), "sm_90a").ptx
    other = text("clamp").replace("-1.000000e+00", low).replace("none", nan)
    assert "min.xorsign.abs.f32" in one and "max" not in one
    assert "xorsign" not in compile_kernel(read(other, num_warps=4), "sm_90a").ptx


@pytest.mark.parametrize("on", RUN)
def test_both_edges_of_a_branch_may_lead_to_one_block(on):
    for n, expected in ((3, (0, 0)), (6, (1, 0)), (4, (0, 2))):
        x, y, _ = ran(text("edges_to_one_block"), on, *np.zeros((2, 1), np.float32), n)
        assert (x[0], y[0]) == expected


@pytest.mark.parametrize("on", RUN)
def test_atomic_loads_and_stores(on):
    arguments = np.array([7, 1], np.int32), np.array([5, 1], np.int32)
    x, y, _ = ran(text("atomic_load_store"), on, *arguments, 0)
    assert (*x, *y) == (7, 1, 7, 1)


@pytest.mark.parametrize("on", RUN)
def test_atomic_loads_and_stores_of_floats(on):
    source = text("atomic_load_store").replace("!tt.ptr<i32>", "!tt.ptr<f32>")
    source = source.replace("i1) -> i32", "i1) -> f32")
    x, y, _ = ran(source, on, *(np.array([n], np.float32) for n in (1.5, 0)), 0)
    assert (x[0], y[0]) == (1.5, 1.5)


def test_a_poll_waits_for_another_instance():
    """The second instance writes what the first one waits for."""
    source = text("atomic_poll").replace(
        "    %0 = tt.atomic_poll",
        """\
    %true = arith.constant true
    %p = tt.get_program_id x : i32
    %c0 = arith.constant 0 : i32
    %last = arith.cmpi ne, %p, %c0 : i32
    scf.if %last {
      tt.atomic_store release, gpu, %x, %p, %last : !tt.ptr<i32>
    }
    %0 = tt.atomic_poll""",
    )
    zeros = np.zeros(1, np.int32)
    source = source.replace("tt.store %y, %c1_i32", "tt.atomic_store relaxed, gpu, %y, %c1_i32, %0")
    x, y, _ = ran(source, "interpreter", zeros, zeros, 0, grid=2)
    assert (x[0], y[0]) == (1, 1)


def test_a_poll_with_a_limit_of_time_is_refused():
    source = text("atomic_poll").replace("gpu, %x, %c1_i32 :", "gpu, %x, %c1_i32, %n :")
    with pytest.raises(CompilationError, match="a poll with a timeout"):
        read(source)


@pytest.mark.parametrize("name", ["gdc_3.7.0", "gdc_3.9.0"])
def test_kernels_wait_for_the_one_before_where_they_may_overlap(name):
    plain, overlapped = (
        compile_kernel(read(text(name), overlapped=o), "sm_90a", {"permit": ("inline_asm",)}).ptx
        for o in (False, True)
    )
    assert "griddepcontrol" not in plain
    waiting = overlapped.index("griddepcontrol.wait")
    assert waiting < overlapped.index("ld.global")


@pytest.mark.parametrize("name", ["gdc_3.7.0", "gdc_3.9.0"])
@pytest.mark.parametrize("on", RUN)
def test_launches_that_end_before_the_next_need_no_wait(name, on):
    _, y, _ = ran(text(name), on, X, np.zeros(128, np.float32), 0)
    assert (y == X).all()


def test_a_selection_may_have_hints():
    """As matmuls have them that clamp their rows to the first one."""
    ptx = compile_kernel(read(text("select_hints"), num_warps=1), "sm_90a").ptx
    assert "ld.global.v4.b32" in ptx


def test_hints_of_what_is_no_index_are_ignored():
    source = text("select_hints")
    hint = "{tt.divisibility = dense<16> : tensor<1xi32>}"
    hinted = source.replace("tt.load %x_at", f"tt.load %x_at {hint}")
    assert hinted != source
    (_, y, _) = ran(hinted, "interpreter", X, np.zeros(128, np.float32), 128)
    np.testing.assert_array_equal(y, X)


SCALED = """module {
  tt.func public @kernel(%x: f32 {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32>) {
    %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %v = tt.splat %x : f32 -> tensor<128xf32>
    %0 = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %1 = tt.addptr %0, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %1, %v : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("on", RUN)
def test_a_float_may_be_called_divisible(on):
    """As torch.compile does with a number whose name is that of a pointer: it has any value."""
    (_, y) = ran(SCALED, on, 2.5, np.zeros(128, np.float32))
    np.testing.assert_array_equal(y, 2.5)


def test_hints_that_exclude_each_other_are_hints():
    ptx = compile_kernel(read(text("cache_hints")), "sm_90a").ptx
    assert "ld.volatile.global" in ptx


GUARDED = """module {
  tt.func public @kernel(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %n: i32) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %k = tt.splat %n : i32 -> tensor<64xi32>
    %m = arith.cmpi slt, %i, %k : tensor<64xi32>
    %true = arith.constant dense<true> : tensor<64xi1>
    %off = arith.xori %m, %true : tensor<64xi1>
    %0 = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %1 = tt.addptr %0, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %at = tt.load %1, %m : tensor<64x!tt.ptr<i32>>
    %low = arith.cmpi sge, %at, %i : tensor<64xi32>
    %high = arith.cmpi slt, %at, %k : tensor<64xi32>
    %in = arith.andi %low, %high : tensor<64xi1>
    %right = arith.ori FIRST, SECOND : tensor<64xi1>
    tt.assert %right, "the index is outside" : tensor<64xi1>
    %both = arith.andi %high, %m : tensor<64xi1>
    %2 = tt.splat %y : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %3 = tt.addptr %2, %i : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    tt.store %3, %at, %both : tensor<64x!tt.ptr<i32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("places", [("%in", "%off"), ("%off", "%in")])
def test_a_condition_that_is_defined_decides(places):
    """An assertion that holds where the index was not loaded, and a mask that is false there."""
    from tileir.errors import InterpretError

    source = GUARDED.replace("FIRST", places[0]).replace("SECOND", places[1])
    module = read(source, masked_off="undefined")
    x, y = np.arange(64, dtype=np.int32), np.full(64, -1, np.int32)
    executor("interpreter").launch(module, "kernel", 1, [x, y, 40])
    assert (y == np.where(x < 40, x, -1)).all()
    x[3] = 41
    with pytest.raises(InterpretError) as caught:
        executor("interpreter").launch(module, "kernel", 1, [x, y, 40])
    assert caught.value.code == "TIR0514"
    x[3] = 3
    alone = read(source.replace("%3, %at, %both", "%3, %at, %high"), masked_off="undefined")
    with pytest.raises(InterpretError) as caught:
        executor("interpreter").launch(alone, "kernel", 1, [x, y, 40])
    assert caught.value.code == "TIR0504"


def test_what_is_masked_off_is_zero_or_undefined():
    from tileir.errors import InterpretError

    source = text("gdc_3.9.0").replace("tt.load %3 :", "tt.load %3, %m :").replace(
        "    %0 = tt.splat %y",
        "    %k = tt.splat %n : i32 -> tensor<128xi32>\n"
        "    %m = arith.cmpi slt, %i, %k : tensor<128xi32>\n    %0 = tt.splat %y",
    )  # fmt: skip
    ones, zeros = np.ones(128, np.float32), np.zeros(128, np.float32)
    _, y, _ = ran(source, "interpreter", ones, zeros, 100)
    assert y.sum() == 100
    module = read(source, masked_off="undefined")
    with pytest.raises(InterpretError) as caught:
        executor("interpreter").launch(module, "kernel", 1, [ones, zeros, 100])
    assert caught.value.code == "TIR0505"
