"""Kernels generated again with loads between dots issued early, and with independent dots started
together: what is computed, which ops move, and when their code is used."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

from tests.backend.test_register_limit import MACHINE, code
from tests.sizes import for_each
from tileir.backend.compile import (
    compile as compile_kernel,
    overlapping,
    registers_moved,
    run_pipeline,
)
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.nvptx.emit import KernelUnit
from tileir.backend.options import CodeVariant, Options
from tileir.backend.ptxas import ptxas
from tileir.backend.register_limit import RegisterChoice
from tileir.backend.simt.machine import run
from tileir.backend.target import target
from tileir.backend.transforms.prefetch_between_dots import prefetch_between_dots
from tileir.backend.transforms.start_dots_together import start_dots_together
from tileir.builder import F16, F32, I32, Builder, arg, pointer

SIZE = 64


def unit_of(form: str) -> KernelUnit:
    options = Options(num_warps=4, warp_specialize=False)
    done = run_pipeline(chunk(form), target("sm_90a"), options, None)
    return KernelUnit(done.stages["barriers"], done.kernel, done.memory, done.num_warps)


def chunk(form: str = "plain") -> Any:
    """out = (x y) z and, except for `chained`, more = x w: two dots with one operand in common, and
    scales z of the first one that are loaded after both."""
    b, kind = Builder(), arg(pointer(F16), aligned=16, noalias=True)
    result = arg(pointer(F32), aligned=16)
    kinds = {"x": kind, "y": kind, "w": kind, "z": result, "out": result, "more": result}
    with b.kernel("k", **kinds) as (x, y, w, z, out, more):
        i, j = b.arange(SIZE)[:, None], b.arange(SIZE)[None, :]
        at, zero = i * SIZE + j, b.full((SIZE, SIZE), 0.0, F32)
        left, right, other = ((p + at).load() for p in (x, y, w))
        if form == "stored before":
            (z + at).store((out + at).load())
        first = b.dot(left, right, zero)
        second = b.dot(left, other, first if form == "chained" else zero)
        place = (out + j * SIZE + i).load().to(I32) if form == "looked up" else at
        if form == "reduced":
            place = at + (left.to(I32) * 0).sum(axis=0)[None, :]
        scales = (z + place).load()
        (out + at).store(first * scales)
        (more + at).store(second)
    return b.module()


def mnemonics(function: Any) -> list[str]:
    return [op.mnemonic for block in function.blocks.values() for op in block.ops]


def loads_before_dots(form: str) -> tuple[int, int]:
    """How many loads precede the first dot, before and after the change."""
    function = unit_of(form).module.functions["k"]
    texts = mnemonics(function), mnemonics(prefetch_between_dots(function))
    before, after = (x[: x.index("gpu.wgmma")].count("load") for x in texts)
    return before, after


@pytest.mark.parametrize("form", ["plain", "chained", "stored before", "looked up", "reduced"])
def test_threads_compute_the_same(form: str) -> None:
    unit = unit_of(form)
    changed = overlapping(unit)
    assert changed.module != unit.module
    chance = np.random.default_rng(7)
    x, y, w = (chance.integers(-2, 3, (SIZE, SIZE)).astype(np.float16) for _ in range(3))
    z = chance.integers(-2, 3, (SIZE, SIZE)).astype(np.float32)
    results = []
    for each in (unit, changed):
        out, more = np.zeros((SIZE, SIZE), np.float32), np.zeros((SIZE, SIZE), np.float32)
        values: list[Any] = [x, y, w, z.copy(), out, more]
        run(each.module, "k", (1, 1, 1), values, target("sm_90a"), each.memory, 4)
        results.append((out, more))
    for own, other in zip(*results, strict=True):
        np.testing.assert_array_equal(own, other)
    if form == "plain":
        a, b, c = (v.astype(np.float32) for v in (x, y, w))
        np.testing.assert_array_equal(results[1][0], (a @ b) * z)
        np.testing.assert_array_equal(results[1][1], a @ c)


@for_each(("form", "moved"), [("plain", 1), ("stored before", 0), ("looked up", 1), ("reduced", 0)])
def test_loads_that_are_issued_early(form: str, moved: int) -> None:
    """Not those that an earlier store may change, nor those whose address is loaded, or is reduced
    by several warps; of those, the load of the address alone."""
    before, after = loads_before_dots(form)
    assert after - before == moved


@for_each(("form", "together"), [("plain", True), ("chained", False)])
def test_dots_that_start_together(form: str, together: bool) -> None:
    """Not a dot that adds to the result of the one before."""
    function = unit_of(form).module.functions["k"]
    changed = start_dots_together(function)
    own, other = (
        [x for x in mnemonics(f) if x in ("gpu.wgmma", "gpu.wgmma_wait")]
        for f in (function, changed)
    )
    assert own == ["gpu.wgmma", "gpu.wgmma_wait"] * 2
    assert (other == sorted(own)) is together and (changed is function) is not together


@for_each(
    ("before", "after", "is_better"),
    [
        (code(150, 8), code(160, 8), True),  # three blocks of four warps
        (code(150, 8), code(176, 8), False),  # two blocks
        (code(150, 8), code(120, 8), True),
        (code(150, 8), code(150, 8, spills=4), False),
    ],
)
def test_the_code_is_used_where_as_many_blocks_are_resident(before, after, is_better):
    choice = RegisterChoice(MACHINE, 4, 0, alone=False, dots=True)
    assert choice.better_overlapped(before, after) is (after if is_better else before)


@for_each(
    ("overlapped", "moved", "may_be"),
    [
        (code(176, 8), 8, True),  # a third block of four warps
        (code(176, 8), 4, False),
        (code(150, 8), 32, True),  # a fourth one
        (code(164, 8), 64, False),  # a fourth one for less than 0.8 of the registers
        (code(150, 8, spills=4), 0, True),
    ],
)
def test_the_other_code_may_be_smaller_by_what_has_moved(overlapped, moved, may_be):
    choice = RegisterChoice(MACHINE, 4, 0, alone=False, dots=True)
    assert choice.may_be_smaller(overlapped, moved) is may_be


@for_each(
    ("form", "moved"), [("plain", 64), ("chained", 32), ("stored before", 32), ("reduced", 32)]
)
def test_registers_that_are_alive_for_longer(form: str, moved: int) -> None:
    """Each of 128 threads has 32 elements of a tile of f32: scales that are loaded before the first
    dot, and the result of a second dot that starts before the first one is complete."""
    unit = unit_of(form)
    own, other = (u.module.functions["k"] for u in (unit, overlapping(unit)))
    assert registers_moved(own, other) == moved


@pytest.mark.skipif(ptxas() is None, reason="no ptxas")
@for_each(
    ("first", "other", "assembled"),
    [
        (code(128, 8), None, 1),  # as many blocks without
        (code(176, 8), code(150, 8), 2),
        (code(176, 8), code(170, 8), 2),
        (code(255, 8, spills=8), code(255, 8), 2),
    ],
)
def test_overlapped_code_is_assembled_first(first, other, assembled, monkeypatch):
    """The other code is generated and assembled only if it may be smaller, and is used if more
    blocks are resident with it, or nothing is spilled."""
    kernel = compile_kernel(chunk(), "sm_90a", Options(num_warps=4, warp_specialize=False))
    assert kernel.generate is not None and kernel.moved_registers == 64
    variants, texts = list[CodeVariant](), list[str]()
    own = kernel.generate
    kernel = attrs.evolve(kernel, generate=lambda v: variants.append(v) or own(v))

    def assemble(self: CompiledKernel, text: str) -> Any:
        texts.append(text)
        return other if len(texts) > 1 else first

    monkeypatch.setattr(CompiledKernel, "_assembled_from", assemble)
    monkeypatch.setattr(RegisterChoice, "best", lambda self, ptx, code, assemble: code)
    monkeypatch.setattr(RegisterChoice, "may_gain", lambda self, variant, code: False)
    is_used = other is not None and (first.spills or other.registers == 150)
    assert kernel.machine_code is (other if is_used else first)
    assert texts[0] == own(CodeVariant.OVERLAPPED)[1] == kernel.ptx
    assert texts[1:] == [own(CodeVariant.DEPTH_FIRST)[1]] * (assembled - 1)
    assert variants == [CodeVariant.DEPTH_FIRST] * (assembled - 1)
    assert own(CodeVariant.DEPTH_FIRST)[1] != kernel.ptx


@for_each(("option", "value"), [("max_registers", 128), ("warp_specialize", True), (None, None)])
def test_code_is_not_overlapped_where_registers_are_fixed(option, value) -> None:
    options = {"num_warps": 4, "warp_specialize": False, **({option: value} if option else {})}
    kernel = compile_kernel(chunk(), "sm_90a", options)
    has_roles = ".consumer" in str(kernel.tir_at("barriers"))
    assert (kernel.moved_registers is None) is (option == "max_registers" or has_roles)
