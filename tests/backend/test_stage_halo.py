"""The pass `stage-halo`: overlapping windows are staged once with their halo, and mean what
they meant."""

from __future__ import annotations

import random
from itertools import cycle
from typing import Any

import numpy as np
import pytest

import tileir
from tests.backend.convolutions import Convolution
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.halo.emit_staging import parts_of
from tileir.backend.halo.footprint_masks import IndexBound, deciding_index, number
from tileir.backend.halo.stage_halo import stage_halo
from tileir.backend.simt.counts import Counts
from tileir.builder import F16, Builder, arg, pointer
from tileir.textual import parse, print_module

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def image(shape: tuple[int, int], element: str = "f32") -> np.ndarray:
    values_per_iteration = np.random.default_rng(shape[0]).integers(-8, 9, shape)
    return values_per_iteration.astype(DTYPES[element])


def stage(c: Convolution, **options: Any) -> tuple[tileir.Module, int]:
    """The convolution's module after the pass, and how many unions it staged."""
    outcome = stage_halo(parse(c.text(), "conv2d.tir"), **options)
    assert isinstance(outcome.ir, tileir.Module)
    return outcome.ir, outcome.statistics.get("footprints staged", 0)


def interpreter_result(module: tileir.Module, c: Convolution, shape: tuple[int, int]) -> np.ndarray:
    x, k = image(shape, c.element), image(c.window, c.element)
    y = np.full(c.output(shape), np.nan, x.dtype)
    tileir.interpret(module, "conv2d", c.grid(shape), c.arguments(x, k, y))
    assert (y == c.reference(x, k)).all()
    return y


def random_convolution(seed: int) -> tuple[Convolution, tuple[int, int]]:
    """A convolution, and the shape of an image for it, that is sometimes no larger than needed."""
    r = random.Random(seed)
    window = (r.randint(1, 4), r.randint(1, 5))
    padding, steps = r.choice([0, 0, 1, 2]), r.choice([(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)])
    c = Convolution(
        window=window, stride=steps[0], dilation=steps[1], padding=padding,
        block=r.choice([(4, 8), (8, 4), (2, 16), (3, 5), (1, 32)]),
        loops=r.choice(["nested", "flat", "none"]), element=r.choice(["f16", "f32", "f64"]),
        width=r.choice([None, None, 23]), other=bool(padding) or r.random() < 0.5,
        checked=not padding or r.random() < 0.5,
    )  # fmt: skip
    least = [(n - 1) * c.dilation + 1 for n in window]
    width = c.width or least[1] + r.randint(0, 20)
    return c, (least[0] + r.randint(0, 12), width)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_generated_convolutions_mean_what_they_meant(seed):
    """No element is loaded that is outside of the image: the interpreter would tell."""
    c, shape = random_convolution(seed)
    module, _ = stage(c, gain=0)
    assert (
        interpreter_result(module, c, shape) == interpreter_result(parse(c.text()), c, shape)
    ).all()


@pytest.mark.slow
def test_most_generated_convolutions_are_staged():
    """The others have gaps, or windows that threads load many bytes at a time."""
    counts = [stage(random_convolution(seed)[0], gain=0)[1] for seed in range(60)]
    assert sum(map(bool, counts)) >= 39


def test_the_pass_prints_what_parses():
    module, _ = stage(Convolution(padding=1, stride=2))
    assert print_module(parse(print_module(module))) == print_module(module)


CASES = [
    Convolution(), Convolution(loops="flat", other=False), Convolution(loops="none"),
    Convolution(padding=2, window=(5, 5), checked=False), Convolution(stride=2),
    Convolution(dilation=2, padding=2), Convolution(block=(8, 16), element="f16"),
    Convolution(block=(5, 12), padding=1, width=45), Convolution(window=(1, 7), block=(1, 128)),
]  # fmt: skip


SHAPE = (27, 45)


def launch_and_count(c: Convolution, **options: Any) -> Counts:
    """What threads did; that they did it right."""
    x, k, counts = image(SHAPE, c.element), image(c.window, c.element), Counts()
    y = np.full(c.output(SHAPE), np.nan, x.dtype)
    arguments = c.arguments(x, k, y)
    grid = c.grid(SHAPE)
    SimtExecutor().launch(parse(c.text()), None, grid, arguments, counts=counts, **options)
    assert (y == c.reference(x, k)).all()
    return counts


def total(counts: Counts, what: str) -> int:
    return sum(getattr(tally, what) for tally in counts.by_op.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("c", "warps"), [*zip(CASES, cycle([1, 4]), strict=False)], ids=range(len(CASES))
)
def test_threads_agree_and_touch_fewer_sectors(c, warps):
    before, after = (launch_and_count(c, num_warps=warps, stage_halo=on) for on in (False, True))
    assert total(after, "sectors") < total(before, "sectors")
    assert total(after, "accesses") < total(before, "accesses")
    blocks = c.grid(SHAPE)[0] * c.grid(SHAPE)[1]
    assert total(after, "barriers") == blocks and total(before, "barriers") == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("block", [(16, 32), (8, 16), (16, 8)])
def test_rows_of_windows_conflict_in_no_bank(block):
    counts = launch_and_count(Convolution(block=block), num_warps=1)
    reads = [t for op, t in counts.by_op.items() if op.mnemonic == "gpu.local_gather"]
    assert reads and not any(t.conflicts for t in reads)


def test_a_loop_around_waits_for_those_who_still_read():
    """Rows in a loop of unknown length: what one iteration read the next overwrites."""
    text = Convolution(block=(4, 32)).text()
    line = "%r.more, _ = icmp (i1, i1) %r.next, 3"
    assert line in text
    unknown = text.replace(line, "%r.more, _ = icmp (i1, i1) %r.next, %KH")
    unknown = unknown.replace("i32 %OW)", "i32 %OW, i32 %KH)")
    c, counts = Convolution(block=(4, 32)), Counts()
    x, k = image(SHAPE), image(c.window)
    y = np.full(c.output(SHAPE), np.nan, x.dtype)
    arguments = [*c.arguments(x, k, y), 3]
    module = parse(unknown)
    SimtExecutor().launch(module, None, c.grid(SHAPE), arguments, counts=counts, num_warps=4)
    assert (y == c.reference(x, k)).all()
    (alone,) = {t.barriers for op, t in counts.by_op.items() if op.mnemonic == "gpu.local_gather"}
    assert alone == 0 and total(counts, "barriers") == 2 * 3 * c.grid(SHAPE)[0] * c.grid(SHAPE)[1]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("c", CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_ptx_has_one_copy_and_reads_from_shared_memory(c, target):
    compiled = compile_kernel(parse(c.text()), target)
    assert any(r.code == "TIR0758" for r in compiled.remarks)
    assert "st.shared" in compiled.ptx and "ld.shared" in compiled.ptx
    assert compiled.plan.shared > 0 and compiled.ptx.count("bar.sync") <= 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("= slt}\n  cond_br %s.more", "= ne}\n  cond_br %s.more"),  # still counted
        ("load f32<16, 32> %px", "load f32<16, 32> %px"),
    ],
)
def test_what_is_staged_however_it_is_written(old, new):
    text = Convolution().text()
    assert old in text
    assert stage_halo(parse(text.replace(old, new))).statistics == {"footprints staged": 1}


MASKED, WIDE = "%vx = load f32<16, 32> %px, %mask.1, 0.0", "i32<16, 32> %down, %across"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MASKED, f"{MASKED} {{volatile = true}}"),
        (f"{WIDE} {{overflow = nsw}}", WIDE),
        ("%s.next, 3 {predicate", "%s.next, %H {predicate"),
        ("%p.j, %size.j {predicate = slt}", "%p.j, %size.j {predicate = ult}"),
        ("%sum.next = fadd", "store %px, %vx, %inside\n  %sum.next = fadd"),
        ("%step.j = mul i32 %s, 1", "%step.j = mul i32 %s, %s"),
        (MASKED, f"%odd, _ = icmp (i1, i1) %s, 1 {{predicate = eq}}\n  @%odd {MASKED}"),
    ],
)
def test_what_stays_as_it_is(old, new):
    """Volatile loads, sums that may wrap, iterations that are not known, other comparisons, stores
    that may change what is read, windows that move by squares, loads that are not made in every
    iteration."""
    text = Convolution().text()
    assert old in text
    module = parse(text.replace(old, new))
    assert stage_halo(module, gain=3).ir is module


AROUND = """  br images
images:
  %t = phi i32 [%OW, entry], [%t.next, between]
  %xt = getelementptr f32* %x, %t
  %xs = splat f32*<16, 32> %xt
  br rows
between:
  %t.next = add i32 %t, 7 {overflow = nsw}
  %t.more, _ = icmp (i1, i1) %t.next, 99 {predicate = slt}
  cond_br %t.more, images, done
"""


def test_images_that_begin_where_a_loop_counts_from_what_is_not_known_stay():
    text = Convolution().text()
    for old, new in (
        ("  %xs = splat f32*<16, 32> %x\n  br rows\n", AROUND),
        ("[0, entry], [%r", "[0, images], [%r"),
        ("[0.0, entry]", "[0.0, images]"),
        ("%r.more, rows, done", "%r.more, rows, between"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    module = parse(text)
    assert stage_halo(module, gain=3).ir is module


def test_a_window_that_leaves_elements_out_stays():
    """Every third column of two is none: what is between was not loaded, and is not."""
    module = parse(Convolution(window=(1, 2), stride=3, block=(4, 8)).text())
    assert stage_halo(module, gain=0).ir is module


def test_masks_that_differ_stay():
    """One tap asks less than the others: what it reads they might not."""
    text = Convolution(loops="none", window=(2, 2)).text()
    old = "%high.i.3, _ = icmp (i1<16, 1>, i1<16, 1>) %p.i.3, %size.i"
    assert old in text
    module = parse(text.replace(old, "%high.i.3, _ = icmp (i1<16, 1>, i1<16, 1>) %p.i.3, 9"))
    assert stage_halo(module).ir is module


TOEPLITZ = """tir 1.0
define kernel void @filter(f32* noalias %x, f32* noalias %k, f32* noalias %y, i32 %n) {
entry:
  %pid = program_id i32
  %first = mul i32 %pid, 64 {overflow = nsw}
  %r = make_range i32<64>
  %firsts = splat i32<64> %first
  %i = add i32<64> %firsts, %r {overflow = nsw}
  %t = make_range i32<8>
  %column = expand_dims i32<64, 1> %i {axis = 1}
  %row = expand_dims i32<1, 8> %t {axis = 0}
  %down = broadcast i32<64, 8> %column
  %across = broadcast i32<64, 8> %row
  %at = add i32<64, 8> %down, %across {overflow = nsw}
  %ns = splat i32<64, 8> %n
  %in, _ = icmp (i1<64, 8>, i1<64, 8>) %at, %ns {predicate = slt}
  %xs = splat f32*<64, 8> %x
  %px = getelementptr f32*<64, 8> %xs, %at
  %windows = load f32<64, 8> %px, %in, 0.0
  %ks = splat f32*<1, 8> %k
  %pk = getelementptr f32*<1, 8> %ks, %row
  %taps = load f32<1, 8> %pk
  %wide = broadcast f32<64, 8> %taps
  %products = fmul f32<64, 8> %windows, %wide
  %sums = reduce f32<64> %products {axis = 1, combiner = fadd}
  %ys = splat f32*<64> %y
  %py = getelementptr f32*<64> %ys, %i
  store %py, %sums
  ret
}
"""


def test_a_tile_of_windows_is_staged_as_what_it_holds_once():
    """The whole window of every output in one load: 71 elements, 64 x 8 times."""
    module, n = parse(TOEPLITZ), 150
    x, k = image((1, n))[0], image((1, 8))[0]
    expected = np.convolve(np.pad(x, (0, 200)), k[::-1], "valid")[:192]
    sectors: list[int] = []
    for windows in (False, True):
        y, counts = np.full(192, np.nan, np.float32), Counts()
        options = {"counts": counts, "num_warps": 2, "stage_halo": windows}
        SimtExecutor().launch(module, None, (3,), [x, k, y, n], **options)
        assert (y == expected).all()
        sectors.append(total(counts, "sectors"))
    assert sectors[1] < sectors[0]
    y = np.full(192, np.nan, np.float32)
    staged_ = stage_halo(module)
    assert staged_.remarks[0].message.startswith("load: 1 x 71 elements are staged")
    tileir.interpret(staged_.ir, "filter", (3,), [x, k, y, n])  # type: ignore[arg-type]
    assert (y == expected).all()


@for_each("width", range(1, 140))
def test_parts_cover_the_width(width):
    parts = list(parts_of(width))
    assert [first for first, _ in parts] == [0, parts[0][1]][: len(parts)]
    assert sum(count for _, count in parts) == width


@for_each("width", range(1, 300))
def test_parts_leave_few_lanes_without_an_element(width):
    """Of warps, or of a power of two within one: a fifth at most, but for the halo that is left."""
    first = next(parts_of(width))[1]
    lanes = -(-first // 32) * 32 if first > 32 else 1 << (first - 1).bit_length()
    assert first >= 0.8 * lanes
    together = -(-width // 32) * 32 if width > 32 else 1 << (width - 1).bit_length()
    assert (first == width) == (width >= 0.8 * together)


@for_each("step", [-2, 1])
@for_each("stride", [1, 2, 3])
@for_each("reach", [0, 2, 5])
def test_the_index_that_decides_reaches_farthest(step, stride, reach):
    """Of the indices of a tile that read a row, by other windows' offsets up to `reach`, the one
    whose comparison passes most easily."""
    last = 7
    index_bound = IndexBound(0, step, number(0), 0, stride, reach, 1, last)
    for at in range(stride * last + reach + 1):
        reaching = [i for i in range(last + 1) if 0 <= at - stride * i <= reach]
        if reaching:
            assert deciding_index(index_bound, at) == (max(reaching) if step > 0 else min(reaching))


def test_a_window_outside_of_its_stage_is_an_error():
    text = """tir 1.0
stage "halo"
define kernel void @k(i32* %x, i32 %c) {
entry:
  %b = gpu.shared_alloc i32 addrspace(3)* {shape = [1, 2, 8]}
  gpu.local_store i32<2, 8> 7, %b, 0
  %v = gpu.local_gather i32<4> %b, 0, 0, %c {rows = [0], columns = [2]}
  %i = make_range i32<4>
  %xs = splat i32*<4> %x
  %p = getelementptr i32*<4> %xs, %i
  store %p, %v
  ret
}
"""
    x = np.zeros(4, np.int32)
    tileir.interpret(parse(text), "k", (1,), [x, 1])
    assert (x == 7).all()
    with pytest.raises(tileir.InterpretError, match=r"TIR0501.*leaves a stage"):
        tileir.interpret(parse(text), "k", (1,), [x, 2])
    with pytest.raises(tileir.ParseError, match="TIR0112"):
        parse(text.replace("rows = [0]", "rows = [0, 1]"))


@pytest.mark.parametrize(("width", "count"), [(64, 0), (67, 1)])
def test_windows_that_differ_by_whole_rows_are_loaded(width: int, count: int) -> None:
    """Threads load many bytes of a row at a time, and find what they load again in the L1 cache.
    Rows of another width begin at any address: threads would load single elements."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "xy"}
    with b.kernel("column_filter", **kinds) as (x, y):
        rows, columns = b.arange(32)[:, None], b.arange(64)[None, :]
        total = b.full((32, 64), 0.0, F16)
        for tap in range(4):
            total = total + (x + ((rows + tap) * width + columns)).load()
        (y + (rows * 64 + columns)).store(total)
    outcome = stage_halo(b.module())
    assert outcome.statistics.get("footprints staged", 0) == count
