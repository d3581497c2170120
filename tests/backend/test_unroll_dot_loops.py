"""Short loops of dots, which are unrolled so that the loop around them is pipelined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.analysis.loops import loops
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.target import target
from tileir.backend.transforms.unroll_dot_loops import unroll_dot_loops
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Function, Module

ROWS, COLUMNS, STEP = 64, 32, 32
SHARED = 232448
OPTIONS = Options(num_warps=4, num_stages=3, warp_specialize=False)


def largest(
    steps: int | None = 2, *, stores: bool = False, more: str = "", stages: int | None = None,
    scaled: bool = False, same: bool = False,
) -> Module:  # fmt: skip
    """y [ROWS] = the largest score of each of ROWS rows of a [ROWS, K] with n tiles of COLUMNS
    rows of x [n COLUMNS, K], where K has `steps` steps or the number of `k`. The loop over tiles
    may also `store` what it has so far, or have `more` dots before or in another loop. The loop
    over steps may request `stages`, scale its operand A, and read the `same` operand B in all
    tiles."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ax"}
    with b.kernel("f", **kinds, y=pointer(F32), n=arg(I32), k=arg(I32)) as (a, x, y, n, k):
        depth = STEP * steps if steps is not None else k * STEP
        row, column = b.arange(ROWS), b.arange(COLUMNS)
        most = b.var(b.full((ROWS,), float("-inf"), F32))

        def product(total: Any, step: Any, tile: Any) -> Any:
            at = b.arange(STEP)[None, :] + step * STEP
            left = (a + (row[:, None] * depth + at)).load()
            if same:
                at = b.arange(STEP)[:, None] + step * STEP
                right = (x + (at + column[None, :] * depth)).load()
            else:
                right = (x + ((tile * COLUMNS + column)[:, None] * depth + at)).load()
                right = b.trans(right, order=[1, 0])
            return b.dot(left * 2.0 if scaled else left, right, total)

        with b.for_(0, n) as i:
            total = b.var(b.full((ROWS, COLUMNS), 0.0, F32))
            if more == "before":
                total.set(product(total.get(), 0, i))
            if more == "loop":
                with b.for_(0, 2) as j:
                    total.set(product(total.get(), j, i))
            with b.for_(0, k if steps is None else steps, stages=stages) as j:
                total.set(product(total.get(), j, i))
            most.set(b.maximum(most.get(), total.get().max(axis=1)))
            if stores:
                (y + row).store(most.get())
        (y + row).store(most.get())
    return b.module()


def unroll(module: Module, shared: int = SHARED, warps: int = 0) -> Function:
    return unroll_dot_loops(module.functions["f"], shared, warps)


def test_the_loop_over_tiles_is_pipelined() -> None:
    """Operand A is loaded before the loop, and stored once. Copies of operand B are under way while
    a tile is computed."""
    done = run_pipeline(largest(), target("sm_90a"), OPTIONS, None)
    function = done.stages["pipelined"].functions["f"]
    (loop,) = loops(function).by_header.values()
    inside = [op.mnemonic for label in loop.blocks for op in function.blocks[label].ops]
    every = [op.mnemonic for op in function.ops]
    assert inside.count("gpu.wgmma") == 2 and inside.count("gpu.async_copy") == 2
    assert inside.count("gpu.barrier") == 1
    assert every.count("load") == every.count("gpu.local_store") == 2
    assert "load" not in inside and "gpu.local_store" not in inside


@pytest.mark.parametrize("steps", [2, 4])
def test_short_loops_are_unrolled(steps: int) -> None:
    function = unroll(largest(steps))
    assert len(loops(function).by_header) == 1
    assert sum(op.mnemonic == "dot" for op in function.ops) == steps


@pytest.mark.parametrize(
    ("module", "shared"),
    [
        (largest(1), SHARED), (largest(5), SHARED), (largest(None), SHARED),
        (largest(stores=True), SHARED), (largest(more="before"), SHARED),
        (largest(more="loop"), SHARED), (largest(stages=2), SHARED), (largest(), 30 * 1024),
    ],
    ids=[
        "one iteration", "many iterations", "unknown number", "stores", "another dot",
        "another loop of dots", "stages are stated", "stages do not fit",
    ],
)  # fmt: skip
def test_other_loops_stay(module: Module, shared: int) -> None:
    assert unroll(module, shared) is module.functions["f"]


def test_operands_that_are_computed_are_loaded_in_the_loop() -> None:
    """They would stay in registers otherwise."""
    function = unroll(largest(scaled=True))
    (loop,) = loops(function).by_header.values()
    inside = [op.mnemonic for label in loop.blocks for op in function.blocks[label].ops]
    assert inside.count("load") == 4


@pytest.mark.parametrize(("warps", "count"), [(0, 2), (4, 0)])
def test_operands_b_are_loaded_before_the_loop_for_warpgroups(warps: int, count: int) -> None:
    """They would stay in registers otherwise."""
    function = unroll(largest(same=True), warps=warps)
    (loop,) = loops(function).by_header.values()
    inside = [op.mnemonic for label in loop.blocks for op in function.blocks[label].ops]
    assert inside.count("load") == count


def data(steps: int, tiles: int) -> list[Any]:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (ROWS, steps * STEP)).astype(np.float16)
    x = rng.integers(-3, 4, (max(1, tiles) * COLUMNS, steps * STEP)).astype(np.float16)
    return [a, x, np.zeros(ROWS, np.float32), tiles, steps]


def result_of(arguments: list[Any]) -> np.ndarray:
    a, x, _, tiles, _ = arguments
    scores = a.astype(np.float32) @ x[: tiles * COLUMNS].astype(np.float32).T
    return scores.max(axis=1, initial=-np.inf)


@pytest.mark.parametrize("tiles", [0, 1, 3])
@pytest.mark.parametrize("steps", [2, 3])
def test_the_unrolled_function_computes_the_same(steps: int, tiles: int) -> None:
    module = largest(steps)
    arguments = data(steps, tiles)
    tileir.interpret(module.with_functions({"f": unroll(module)}), "f", (1,), arguments)
    np.testing.assert_array_equal(arguments[2], result_of(arguments))


def test_nothing_is_loaded_where_the_loop_does_not_run() -> None:
    """The interpreter would report an access beyond the end of `a`."""
    module = largest()
    arguments = [np.zeros(1, np.float16), *data(2, 0)[1:]]
    tileir.interpret(module.with_functions({"f": unroll(module)}), "f", (1,), arguments)
    assert (arguments[2] == -np.inf).all()


@pytest.mark.parametrize("machine", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tiles", [0, 1, 4])
def test_results_on_threads(tiles: int, machine: str) -> None:
    arguments = data(2, tiles)
    options: dict[str, Any] = {"num_warps": 4, "target": machine, "warp_specialize": False}
    SimtExecutor().launch(largest(), "f", (1,), arguments, **options)
    np.testing.assert_array_equal(arguments[2], result_of(arguments))
