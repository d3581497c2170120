"""Generated matmuls whose operands threads store to shared memory: threads compute
what the interpreter does, without races, and each barrier is needed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tileir
from tests.backend.test_stored_operands import agree
from tileir.analysis.shared_buffers import alive
from tileir.backend.executors import SimtExecutor
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.software_pipeline.stored_operands import multiply_stored_operands
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.tools.barriers import survey

INPUTS = "xyzw"


def dots(seed: int, rows: int) -> Any:
    """A kernel of 2 to 5 matmuls of tiles of `rows` x 64 or 64 x 64, which are loaded, transposed,
    sums of others or results of matmuls before; in a loop, a branch, or neither, of which the sum
    is stored."""
    chance, b = random.Random(seed), Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in INPUTS}
    with b.kernel("dots", **kinds, out=pointer(F32)) as (*inputs, out):
        places = {n: b.arange(n)[:, None] * 64 + b.arange(64)[None, :] for n in (rows, 64)}
        total = b.var(b.full((rows, 64), 0.0, F32))

        def square() -> Any:
            return (chance.choice(inputs) + places[64]).load()

        def body() -> None:
            high = [(chance.choice(inputs) + places[rows]).load() for _ in range(2)]
            low = [square() for _ in range(2)]
            for _ in range(chance.randint(2, 5)):
                way = chance.randrange(6)
                right = chance.choice(low)
                if way == 0:
                    right = b.trans(right, order=(1, 0))
                if way == 1:
                    low.append(right + chance.choice(low))
                if way == 2:
                    low.append(square())
                dot = b.dot(chance.choice(high), right, b.full((rows, 64), 0.0, F32))
                if way > 2:
                    high.append((dot * 0.015625).to(F16))
                if way == 5 and rows == 64:
                    low.append(high[-1])
                total.set(total.get() + dot)

        form = chance.choice(("loop", "nested", "branch", "plain"))
        if form == "plain":
            body()
        elif form == "branch":
            body()
            with b.if_(b.program_id(axis=0) < 1):
                body()
        else:
            with b.for_(0, 2, stages=1):
                body()
                if form == "nested":
                    with b.for_(0, 2, stages=1):
                        body()
        (out + places[rows]).store(total.get())
    return b.module()


def arguments(seed: int, rows: int) -> list[Any]:
    chance = np.random.default_rng(seed)
    tiles = [chance.integers(-2, 3, (max(rows, 64), 64)).astype(np.float16) for _ in INPUTS]
    return [*tiles, np.zeros((rows, 64), np.float32)]


CASES = [(seed, rows, warps) for seed in range(4)
         for rows, warps in ((32, 1), (32, 2), (64, 4), (128, 8))]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("seed", "rows", "warps"), CASES)
def test_threads_agree(seed: int, rows: int, warps: int) -> None:
    module = dots(seed, rows)
    agree(module, arguments(seed, rows), warps)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["sm_90", "sm_90a"])
@pytest.mark.parametrize(
    ("seed", "rows", "warps", "needless"), [(0, 32, 2, 0), (1, 64, 4, 1), (3, 32, 1, 0)]
)
def test_each_barrier_is_needed(
    seed: int, rows: int, warps: int, needless: int, machine: str
) -> None:
    """But for `needless` of sm_90, and those of sm_90a where waits for wgmma of the one warpgroup
    suffice: a proof, not the inputs, says that these order nothing."""
    module = dots(seed, rows)
    names = [*INPUTS, "out"]
    inputs = [dict(zip(names, arguments(i, rows), strict=True)) for i in range(2)]
    report = survey(module, None, (1,), inputs, warps, machine=machine)
    assert report.removed and not report.survivors, report
    assert machine == "sm_90a" or len(report.redundant) == needless


FORMS = ("after", "around", "either", "first")


def fixed_dots(seed: int, form: str) -> Any:
    """A kernel whose loops do not change some operands of their matmuls: they were loaded before
    all loops, or in an iteration of the loop around. Two loops come one `after` the other, or one
    is `around` the other, before or after whose loop dots read other operands, or of the two
    one runs, `either` this or that, or the `first` under a condition."""
    chance, b = random.Random(seed), Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in INPUTS}
    with b.kernel("dots", **kinds, out=pointer(F32), n=I32) as (*inputs, out, n):
        places = b.arange(64)[:, None] * 64 + b.arange(64)[None, :]
        zero = b.full((64, 64), 0.0, F32)
        total = b.var(zero)

        def load_operand(offset: Any = 0) -> Any:
            tile = (chance.choice(inputs) + places + offset).load()
            return b.trans(tile, order=(1, 0)) if chance.random() < 0.3 else tile

        def multiply(tiles: list[Any]) -> None:
            left = load_operand() if chance.random() < 0.5 else chance.choice(tiles)
            total.set(total.get() + b.dot(left, chance.choice(tiles), zero))

        def loop(tiles: list[Any], inside: Any = None) -> None:
            with b.for_(0, n, stages=1) as i:
                own = [*tiles, load_operand(i * 64)]
                if inside is None or chance.random() < 0.5:
                    multiply(own)
                if inside is not None:
                    inside([*own[-1:], *tiles])
                    if chance.random() < 0.5:
                        multiply(own)

        tiles = [load_operand() for _ in range(chance.randint(1, 3))]
        first = b.program_id(axis=0) < chance.randrange(2)
        if form == "around":
            loop(tiles, loop)
        elif form == "either":
            with b.if_(first):
                loop(tiles)
            with b.else_():
                loop(tiles)
        elif form == "first":
            with b.if_(first):
                loop(tiles)
            loop(tiles)
        else:
            loop(tiles)
            loop(tiles)
        (out + places).store(total.get())
    return b.module()


@pytest.mark.sampled(1, by="form")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_operands_that_loops_do_not_change(seed: int, form: str) -> None:
    random = np.random.default_rng(seed)
    tiles = [random.integers(-2, 3, 64 * 68).astype(np.float16) for _ in INPUTS]
    result = np.zeros((64, 64), np.float32)
    module = fixed_dots(seed, form)
    expected, results = ([*tiles, result.copy(), 2 + seed % 2] for _ in "ab")
    tileir.interpret(module, "dots", (1,), expected)
    options: dict[str, Any] = {"target": "sm_90a", "warp_specialize": False, "num_warps": 4}
    SimtExecutor().launch(module, "dots", (1,), results, **options)
    np.testing.assert_array_equal(results[-2], expected[-2])


def bytes_at_once(function: Any) -> int:
    """The most bytes of buffers that hold something at the same time."""
    sizes = {op.results[0]: SharedTile.of(op).bytes for op in function.ops if op.allocates_shared}
    live = alive(function)
    return max(sum(sizes[buffer] for buffer in live.at(op)) for op in function.ops)


@pytest.mark.parametrize("form", FORMS)
def test_operands_take_no_more_bytes_than_there_are(form: str) -> None:
    for seed in range(6):
        kernel = fixed_dots(seed, form).kernel()
        counts: set[int] = set()
        for shared in range(0, 57 << 10, 8 << 10):
            changed = multiply_stored_operands(kernel, 4, shared)
            assert bytes_at_once(changed) <= shared
            counts.add(sum(op.mnemonic == "gpu.wgmma" for op in changed.ops))
        assert 0 in counts and len(counts) > 1
