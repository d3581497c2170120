"""Matmuls of tensors that tensor maps cannot have: threads load and store those, tensor maps the
others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend import compile as compile_
from tileir.backend.executors import SimtExecutor
from tileir.backend.tma.host_plan import HostPlan
from tileir.backend.warp_specialize.cooperative_loads import chunk_shape
from tileir.builder import BF16, F8E4M3, F16, F32, I8, I32
from tileir.interp import interpret
from tileir.ir import Module
from tileir.machine import dtype_of
from tileir.passmanager import run
from tileir.testing.kernels import convolution, matmul

FRONT = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"


def small_numbers(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def problem(m: int, n: int, k: int, transposed: bool, kinds: Any = (F16, F16)) -> list[Any]:
    """Arguments of `matmul`, the result of small numbers being exact."""
    element, result = map(dtype_of, kinds)
    a = small_numbers((m, k), element, m)
    b = small_numbers((n, k) if transposed else (k, n), element, n)
    c = np.zeros((m, n), result)
    c.view(f"u{c.itemsize}")[:] = 0x7E if c.itemsize == 1 else 0x7E7E
    return [a, b, c, m, n, k]


def check(arguments: list[Any], transposed: bool) -> None:
    a, b, c = (x.astype(np.float64) for x in arguments[:3])
    assert np.array_equal(c, a @ (b.T if transposed else b))


def with_units(module: Module, units: tuple[int, ...], passes: str = "warp-specialize") -> Module:
    """The roles of a matmul, of which `units` says what no tensor map has."""
    before = run(module, FRONT).module
    kernel = before.functions["matmul"]
    marked = kernel.evolve(attributes={**kernel.attributes, "non_tma_alignments": units})
    return run(before.with_functions({"matmul": marked}), passes).module


@pytest.mark.sampled(2)
@pytest.mark.parametrize("units", ((0, 8, 8), (2, 0, 0), (0, 0, 2), (2, 2, 2), (16, 4, 0)))
@pytest.mark.parametrize("passes", ("warp-specialize", "persist,warp-specialize,defer-wgmma-waits"))
def test_interpreted(units: tuple[int, ...], passes: str) -> None:
    module = with_units(matmul(64, 64, 32), units, passes)
    assert module.stage == "warp_specialized"
    size = (70, 68, 36) if max(units) > 2 else (70, 65, 33)
    size = (70, 80, 48) if units[0] == 16 else size
    arguments = problem(*size, False)
    extents = [4, 1, 1] if "persist" in passes else []
    interpret(module, "matmul", (2,) if extents else (4, 1, 1), [*arguments, *extents])
    check(arguments, False)


@pytest.mark.slow
@pytest.mark.parametrize("transposed", (False, True))
@pytest.mark.parametrize(
    "size",
    (
        (72, 60, 40),  # rows of y and z at multiples of 8 bytes
        (72, 62, 44),
        (66, 61, 43),  # of 2 bytes
        (66, 61, 48),  # x has a map
        (1, 1, 1),
    ),
)
def test_on_threads(size: tuple[int, int, int], transposed: bool) -> None:
    m, n, _ = size
    for seed in range(2):
        arguments = problem(*size, transposed)
        grid = (-(-m // 64) * -(-n // 64), 1, 1)
        module = matmul(64, 64, 32, transposed=transposed)
        SimtExecutor().launch(
            module, "matmul", grid, arguments, target="sm_90a", seed=seed, persistent=bool(seed)
        )
        check(arguments, transposed)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(8))
def test_few_stages_in_any_order(seed: int) -> None:
    arguments = problem(66, 61, 107, True)
    SimtExecutor().launch(
        matmul(64, 64, 16, transposed=True), "matmul", (2, 1, 1), arguments, target="sm_90a",
        seed=seed, num_stages=2,
    )  # fmt: skip
    check(arguments, True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kinds", "depth"),
    (
        ((BF16, F32, BF16), 32),
        ((I8, I32, I32), 64),
        ((F8E4M3, F32, BF16), 64),
        ((F32, F32, F32), 32),
    ),
)
def test_other_elements(kinds: tuple[Any, Any, Any], depth: int) -> None:
    precision = "tf32" if kinds[0] is F32 else "ieee"
    imprecise = 1 << 20 if kinds[0] is F8E4M3 else 0
    module = matmul(
        64, 32, depth, *kinds, precision=precision, transposed=True, max_imprecise=imprecise
    )
    arguments = problem(65, 35, 77, True, (kinds[0], kinds[2]))
    SimtExecutor().launch(module, "matmul", (4, 1, 1), arguments, target="sm_90a", seed=1)
    check(arguments, True)


def test_a_base_that_is_not_aligned() -> None:
    arguments = problem(64, 64, 64, False)
    module = matmul(64, 64, 32)
    kernel = module.functions["matmul"]
    bare = tuple(p.__class__(p.value) for p in kernel.parameters)
    whole = small_numbers((64 * 64 + 1,), np.float16, 5)
    arguments[1] = whole[1:].reshape(64, 64)
    module = module.with_functions({"matmul": kernel.evolve(parameters=bare)})
    SimtExecutor().launch(module, "matmul", (1, 1, 1), arguments, target="sm_90a", seed=1)
    check(arguments, False)


def plan() -> HostPlan:
    kernel = run(matmul(64, 64, 32), f"{FRONT},warp-specialize").module.kernel(None)
    plan = HostPlan.of(kernel)  # type: ignore[arg-type]
    assert plan is not None
    return plan


@pytest.mark.parametrize(
    ("arguments", "units"),
    (
        ((4096, 8192, 16384, 300, 304, 704), None),  # maps have them
        ((4096, 8192, 16384, 300, 700, 704), (0, 8, 8, 0, 0, 0)),
        ((4096, 8192, 16384, 300, 701, 702), (4, 2, 2, 0, 0, 0)),
        ((4098, 8192, 16384, 300, 304, 704), (2, 0, 0, 0, 0, 0)),
        ((4096, 8192, 16388, 300, 304, 704), (0, 0, 4, 0, 0, 0)),
        ((4096, 8192, 16384, 300, 304, 0), None),  # nothing along k
        ((4096, 8192, 16384, -8, 301, 704), None),
    ),
)
def test_what_maps_cannot_have(arguments: tuple[int, ...], units: Any) -> None:
    assert plan().non_tma_alignments(arguments) == units


def test_kernels_for_arguments_are_compiled_once() -> None:
    compiled = compile_(matmul(64, 64, 32), "sm_90a")
    units = (0, 8, 8, 0, 0, 0)
    variant = compiled.non_tma_variant(units)
    assert variant is not None and variant is compiled.non_tma_variant(units)
    assert [m.parameter for m in variant.host.maps] == [0]  # type: ignore[union-attr]
    assert variant.non_tma_variant(units) is None
    assert variant.tir_at("barriers").functions["matmul"].attributes["non_tma_alignments"] == units


def test_rows_of_eight_bytes_are_copied_at_once() -> None:
    compiled = compile_(matmul(64, 64, 32), "sm_90a", {"non_tma_alignments": (8, 8, 8)})
    assert re.search(r"cp\.async\S+ \[[^]]+], \[[^]]+], 8,", compiled.ptx)
    assert "st.global.v2.b32" in compiled.ptx
    assert "ld.global.b16" not in compiled.ptx and "st.global.b16" not in compiled.ptx
    machine_code = compiled.machine_code
    assert (machine_code.spills, machine_code.warnings) == (0, ())


@pytest.mark.slow
@pytest.mark.parametrize("pingpong", (False, True))
def test_threads_that_load_keep_registers(pingpong: bool) -> None:
    options = {"non_tma_alignments": (0, 2, 2), "pingpong": pingpong}
    compiled = compile_(matmul(64 if pingpong else 128, 128, 64), "sm_90a", options)
    assert "setmaxnreg.dec.sync.aligned.u32 104" in compiled.ptx
    assert "setmaxnreg.inc.sync.aligned.u32 200" in compiled.ptx


def test_blocks_of_images() -> None:
    h, w, c, k = 3, 17, 36, 20
    x, taps = small_numbers((1, h, w, c), np.float16, 1), small_numbers((1, 1, c, k), np.float16, 2)
    out = np.full((1, h, w, k), np.nan, np.float16)
    SimtExecutor().launch(
        convolution(4, 16, 32, 32, filters=1), "convolution", (2, 1, 1),
        [x, taps, out, h, w, c, k], target="sm_90a", seed=2,
    )  # fmt: skip
    assert np.array_equal(out, x.astype(np.float64) @ taps[0, 0].astype(np.float64))


@for_each(("block", "chunk"), (
        ((64, 64), (64, 64)), ((64, 256), (16, 256)), ((128, 200), (16, 200)), ((96, 64), (48, 64)),
        ((4, 16, 64), (4, 16, 64)), ((8, 16, 64), (4, 16, 64)), ((2, 128, 64), (1, 64, 64)),
        ((256, 8), (256, 8)), ((7, 1024), (1, 1024)), ((241, 17), (1, 17)),
    ))  # fmt: skip
def test_chunks(block: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    assert chunk_shape(block) == chunk


@for_each(("arguments", "extents"), [
    ((4096, 8192, 16384, 300, 304, 704), [(300, 704), (704, 304), (300, 304)]),
    ((4098, 8192, 16384, 300, 701, 702), [(300, 702), (702, 701), (300, 701)]),
    ((4096, 8192, 16384, 0, 304, 704), []), ((4096, 8192, 16384, 300, 304, 1 << 28), []),
    ((4096, 8192, 16384, 300, 304, (1 << 28) - 1),
     [(300, (1 << 28) - 1), ((1 << 28) - 1, 304), (300, 304)]),
])  # fmt: skip
def test_tensors_have_extents_also_where_no_map_can_be_made(
    arguments: tuple[int, ...], extents: list[tuple[int, ...]]
) -> None:
    """None where a guard is 0: then the kernel is not launched with maps."""
    code = plan().tensors(arguments)
    assert [numbers for _, numbers in code] == extents
    assert [recipe.parameter for recipe, _ in code] == [0, 1, 2][: len(extents)]
