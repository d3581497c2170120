"""The host plan computes what the kernel's entry means."""

from __future__ import annotations

import pytest

from tileir.backend import compile as compile_
from tileir.backend.runtime.format import dumps, loads
from tileir.backend.tma.host_plan import NON_TMA_ALIGNMENTS, HostPlan, MapRecipe
from tileir.ir import Function
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul

FRONT = "cse,licm,scalarize-pointer-steps,infer-descriptors"


def plan(module: object, pipeline: str = f"{FRONT},warp-specialize") -> HostPlan:
    kernel = run(module, pipeline).module.kernel(None)  # type: ignore[arg-type]
    assert isinstance(kernel, Function)
    plan = HostPlan.of(kernel)
    assert plan is not None
    return plan


def test_maps_of_a_matmul() -> None:
    host_plan = plan(matmul(64, 64, 32)).map_values((4096, 8192, 16384, 300, 304, 704))
    assert host_plan is not None
    assert [(m.address, m.extents, m.strides, m.recipe.block) for m in host_plan] == [
        (4096, (300, 704), (1408,), (64, 32)),
        (8192, (704, 304), (608,), (32, 64)),
        (16384, (300, 304), (608,), (64, 64)),
    ]


def test_maps_of_attention() -> None:
    values = plan(attention(64, 32, 64)).map_values((16, 32, 48, 64, 77, 0))
    assert values is not None
    assert values[1].extents[1:] == (77, (1 << 31) - (1 << 12))
    assert values[1].strides == (77 * 64 * 2, 128)


@pytest.mark.parametrize(
    "arguments",
    (
        (4096, 8192, 16384, 300, 301, 704),  # rows of y and z are not a multiple of 16 bytes
        (4098, 8192, 16384, 300, 304, 704),  # x is not aligned
        (4096, 8192, 16384, 300, 304, 0),  # nothing along k
        (4096, 8192, 16384, -8, 304, 704),
        (4096, 8192, 16384, 1 << 28, 304, 704),
    ),
)
def test_arguments_that_a_map_cannot_have(arguments: tuple[int, ...]) -> None:
    assert plan(matmul(64, 64, 32)).map_values(arguments) is None


@pytest.mark.parametrize(
    ("arguments", "units"),
    (
        ((4096, 8192, 16384, 300, 304, 704), None),  # maps can have them all
        ((4096, 8192, 16384, 300, 301, 704), (0, 2, 2, 0, 0, 0)),
        ((4098, 8192, 16384, 300, 304, 704), (2, 0, 0, 0, 0, 0)),
        ((4096, 8192, 16384, 300, 304, 700), (8, 0, 0, 0, 0, 0)),
    ),
)
def test_bytes_that_rows_are_multiples_of_where_threads_copy(
    arguments: tuple[int, ...], units: tuple[int, ...] | None
) -> None:
    assert plan(matmul(64, 64, 32)).non_tma_alignments(arguments) == units


@pytest.mark.parametrize(
    ("numbers", "parameter", "units"),
    [
        ((4096, 10, 24, 64), 0, None), ((4096, 10, 20, 60), 0, (8, 0, 0, 0)),
        ((4096, 10, 20, 60), -1, None), ((4096, 0, 20, 60), 0, None),
        ((4096, 10, -4, 60), 0, None),
    ],
)  # fmt: skip
def test_threads_stand_in_for_maps_of_whole_parameters_with_elements(
    numbers: tuple[int, ...], parameter: int, units: tuple[int, ...] | None
) -> None:
    """None where maps can have it, where no parameter says what to compile for, and where there is
    nothing to copy."""
    recipe = MapRecipe("f16", 2, (64, 32), 2, "zero", "a0", ("a1", "a2"), ("a3", 1), parameter)
    assert HostPlan(4, (), (), (recipe,)).non_tma_alignments(numbers) == units


def test_kernels_without_maps_have_a_plan_where_threads_stand_in_for_them() -> None:
    kernel = matmul(64, 64, 32).kernel(None)
    assert HostPlan.of(kernel) is None
    attributes = {**kernel.attributes, NON_TMA_ALIGNMENTS: (2, 2, 2, 0, 0, 0)}
    plan = HostPlan.of(kernel.evolve(attributes=attributes))
    assert plan is not None and plan.maps == () and plan.map_values((0,) * 6) == ()


def test_instances_are_counted_by_the_last_arguments() -> None:
    host_plan = plan(matmul(64, 64, 32), f"{FRONT},persist,warp-specialize")
    assert host_plan.persistent and host_plan.arguments == 9


def test_plans_are_texts() -> None:
    host_plan = plan(matmul(64, 64, 32))
    assert HostPlan.from_text(host_plan.to_text()) == host_plan


@pytest.mark.parametrize(
    ("old", "new"),
    (
        ('"a3"', '"__import__"'),
        ('"mnemonic":"and"', '"mnemonic":"exec"'),
        ('"word":"sge"', '"word":"sge;"'),
        ('"bits":1', '"bits":"1"'),
        ('"steps"', '"step"'),
        ("}", ""),
    ),
)
def test_texts_that_are_no_plans(old: str, new: str) -> None:
    text = plan(matmul(64, 64, 32)).to_text()
    assert old in text
    with pytest.raises((KeyError, TypeError, ValueError)):
        HostPlan.from_text(text.replace(old, new, 1))


def test_compiled_kernels_keep_the_one_without_maps() -> None:
    compiled = compile_(matmul(64, 64, 32), "sm_90a")
    read = loads(dumps(compiled, ()))
    assert compiled.host is not None and read.host == compiled.host
    assert read.fallback is not None and read.fallback.host is None


def test_programs_of_tensor_maps_have_no_other_kernel() -> None:
    module = run(matmul(64, 64, 32), f"{FRONT},warp-specialize").module
    compiled = compile_(module, "sm_90a")
    assert compiled.host is not None and compiled.fallback is None
    assert loads(dumps(compiled, ())).fallback is None
