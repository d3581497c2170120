"""Atomic accumulation by bulk reductions: blocks that divide K add their accumulators to memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run
from tileir.textual import parse, print_module

Array = np.ndarray[Any, Any]
FOUND = Path(__file__).parents[2] / "corpus" / "found"
FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"


def shared_depth(
    bm: int, bn: int, bk: int, steps: int, *, element: Any = F32, extra: str = "",
    kind: str = "fadd", **how: Any,
) -> Module:  # fmt: skip
    """`total(a, b, c, m, n, k)`: every block adds the matmul of `steps` * `bk` columns of a and
    rows of b to c, on a grid of blocks of rows, of columns, and of these. `extra`: what else is
    done to c. `kind`: what is done in place of an addition."""
    b = Builder()
    kinds = {x: arg(pointer(F16), aligned=16, noalias=True) for x in "ab"}
    kinds["c"] = arg(pointer(element), aligned=16, noalias=True)
    if extra.endswith("for another array"):
        kinds["e"] = arg(pointer(element), aligned=16, noalias=True)
    with b.kernel("total", **kinds, m=I32, n=I32, k=I32) as (x, y, c, *others, m, n, k):
        first, second, part = (b.program_id(axis=i) for i in range(3))
        rows, columns = b.arange(bm) + first * bm, b.arange(bn) + second * bn
        inside = (rows < m)[:, None].broadcast_to(bm, bn) & (columns < n)[None, :].broadcast_to(
            bm, bn
        )
        state = b.var(b.full((bm, bn), 0.0, F32))
        with b.for_(part * (steps * bk), b.smin(k, (part + 1) * (steps * bk)), bk) as at:
            depth = b.arange(bk) + at
            there = (depth < k)[None, :].broadcast_to(bm, bk)
            there = there & (rows < m)[:, None].broadcast_to(bm, bk)
            left = (x + (rows[:, None] * k + depth[None, :])).load(there, 0.0)
            there = (depth < k)[:, None].broadcast_to(bk, bn)
            there = there & (columns < n)[None, :].broadcast_to(bk, bn)
            right = (y + (depth[:, None] * n + columns[None, :])).load(there, 0.0)
            state.set(b.dot(left, right, state.get()))
        place = c + (rows[:, None] * n + columns[None, :])
        how.setdefault("sem", "relaxed")
        before = place.atomic(kind, state.get().to(element), inside, **how)
        match extra:
            case "old numbers":
                (place + m * n).store(before, inside)
            case "stores":
                place.store(b.full((bm, bn), 0.0, element), inside)
            case "loads":
                (place + m * n).store(place.load(inside, 0.0), inside)
            case "loads for another array":
                (others[0] + (rows[:, None] * n + columns[None, :])).store(place.load(inside, 0.0))
            case "old numbers for another array":
                (others[0] + (rows[:, None] * n + columns[None, :])).store(before, inside)
            case "a fence":
                b.fence(sem="release")
            case _:
                assert not extra
    return b.module()


def problem(m: int, n: int, k: int) -> list[Any]:
    """Small whole numbers, whose sums no order changes; c holds some before."""
    random = np.random.default_rng(m + n + k)
    a, b = (random.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    return [a, b, random.integers(-9, 10, (m, n)).astype(np.float32), m, n, k]


def expected_c(arguments: list[Any]) -> Array:
    a, b, c = arguments[:3]
    return c + a.astype(np.float32) @ b.astype(np.float32)


SIZES = ((64, 64, 64), (130, 72, 200), (1, 8, 8), (70, 104, 144))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "pipeline", ("warp-specialize", "persist,warp-specialize,defer-wgmma-waits")
)
def test_interpreted(size: tuple[int, int, int], pipeline: str) -> None:
    m, n, k = size
    module = run(shared_depth(64, 64, 32, 2), f"{FRONT},{pipeline}").module
    assert "{add = true}" in print_module(module) and module.stage == "warp_specialized"
    arguments, grid = problem(*size), (-(-m // 64), -(-n // 64), -(-k // 64))
    reference = expected_c(arguments)
    more = grid if "persist" in pipeline else ()
    interpret(module, None, (2,) if more else grid, [*arguments, *more], seed=1)
    np.testing.assert_array_equal(arguments[2], reference)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile", ((64, 64), (128, 40), (128, 192)), ids=str)
@pytest.mark.parametrize("size", (*SIZES, (66, 75, 77)), ids=str)
def test_by_threads(size: tuple[int, int, int], tile: tuple[int, int]) -> None:
    """Where no map can, threads add."""
    arguments = problem(*size)
    reference = expected_c(arguments)
    grid = (-(-size[0] // tile[0]), -(-size[1] // tile[1]), -(-size[2] // 64))
    module = shared_depth(*tile, 32, 2)
    SimtExecutor().launch(module, None, grid, arguments, target="sm_90a", seed=2)
    np.testing.assert_array_equal(arguments[2], reference)


def test_code() -> None:
    compiled = compile_(shared_depth(128, 128, 64, 4), "sm_90a")
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group" in compiled.ptx
    assert not re.search(r"\b(atom|red)\.", compiled.ptx.replace("shared", ""))
    machine_code = compiled.machine_code
    assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())


@pytest.mark.parametrize(
    "how",
    ({"sem": "acq_rel"}, {"scope": "sys"}, {"element": F16}, {"kind": "fmax"}, {"kind": "xchg"},
     *({"extra": x} for x in (
         "old numbers", "old numbers for another array", "stores", "loads",
         "loads for another array", "a fence"))),
    ids=str,
)  # fmt: skip
def test_what_copies_do_not_add(how: dict[str, Any]) -> None:
    """In an order, for others than the GPU's threads, another type or operation; what this kernel
    has to find there, or lets others find, and what finds or changes what was there."""
    text = print_module(run(shared_depth(64, 64, 32, 2, **how), f"{FRONT},warp-specialize").module)
    assert "atomic_rmw" in text and "gpu.wgmma" in text
    assert "descriptor_reduce" not in text and "add = true" not in text


def test_copies_do_not_add_under_a_predicate() -> None:
    text = print_module(shared_depth(64, 64, 32, 2))
    test = "  %some, _ = icmp (i1, i1) %m, 9 {predicate = sgt}\n"
    (line,) = (line for line in text.splitlines(keepends=True) if "atomic_rmw" in line)
    module = parse(text.replace(line, f"{test}  @%some {line.strip()}\n"))
    changed = print_module(run(module, FRONT).module)
    assert "atomic_rmw" in changed and "descriptor_load" in changed
    assert "descriptor_reduce" not in changed


@pytest.mark.parametrize("ordered", (False, True))
def test_descriptors_that_add(ordered: bool) -> None:
    """What descriptors add, copies do, but where the kernel orders it."""
    text = print_module(run(shared_depth(64, 64, 32, 2), FRONT).module)
    assert "descriptor_reduce" in text
    if ordered:
        text = text.replace("  descriptor_reduce", "  fence {sem = release}\n  descriptor_reduce")
    printed = print_module(run(parse(text), "warp-specialize").module)
    assert ("add = true" in printed, "descriptor_reduce" in printed) == (not ordered, ordered)


@pytest.mark.parametrize(("order", "copied"), [("release", False), ("relaxed", True)])
def test_results_that_are_released(order: str, copied: bool) -> None:
    """What a release orders, threads write: copies would come later."""
    text = (FOUND / "released_result.tir").read_text().replace("sem = release", f"sem = {order}")
    printed = print_module(run(parse(text), f"{FRONT},warp-specialize").module)
    assert "gpu.wgmma" in printed and ("gpu.tma_store" in printed) is copied
