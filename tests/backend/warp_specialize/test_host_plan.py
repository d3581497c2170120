"""The host plan computes what the kernel's entry means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tileir.backend import compile as compile_
from tileir.backend.runtime.format import dumps, loads
from tileir.backend.tma.host_plan import (
    NON_TMA_ALIGNMENTS,
    HostPlan,
    MapRecipe,
    parameter_of,
    row_alignment,
)
from tileir.ir import Function
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul
from tileir.textual import parse
from tileir.values import Undef

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


def unit(base: int, rows: int, columns: int, stride: int, inner: int) -> int:
    """The largest power of two, at most 16, that divides the addresses of what threads copy: rows
    of 2-byte elements and their ends, or single elements if these are no neighbours."""
    if inner == 1:
        starts = [base + 2 * row * stride for row in range(rows)]
        places = [*starts, *(start + 2 * columns for start in starts)]
    else:
        places = [base + 2 * column for column in range(columns)]
    return max(n for n in (1, 2, 4, 8, 16) if all(place % n == 0 for place in places))


TENSORS = [
    (base, 10, columns, stride, inner)
    for base in (4096, 4104, 4100, 4098, 4097)
    for columns, stride in ((64, 64), (60, 64), (64, 60), (61, 64), (62, 62), (64, 65))
    for inner in (1, 2)
]
"""Base, rows, columns and strides of tensors of f16."""


@pytest.mark.parametrize("parameters", [(0, 5), (5, 0), (0, 0)])
def test_rows_are_compiled_for_what_divides_all_of_a_parameter(parameters: tuple[int, int]) -> None:
    """Of two tensors: those that a map can have do not count."""
    names = [f"a{i}" for i in range(10)]
    recipes = [
        MapRecipe("f16", 2, (64, 32), 2, "zero", b, (rows, columns), (stride, inner), parameter)
        for (b, rows, columns, stride, inner), parameter in zip(
            (names[:5], names[5:]), parameters, strict=True
        )
    ]
    plan = HostPlan(10, (), (), tuple(recipes))
    seen = set()
    for number, first in enumerate(TENSORS):
        for second in (first, TENSORS[0], TENSORS[(7 * number) % len(TENSORS)]):
            units = [0] * 10
            for parameter, numbers in zip(parameters, (first, second), strict=True):
                base, _, _, stride, inner = numbers
                if base % 16 or stride % 8 or inner != 1:
                    units[parameter] = min(units[parameter] or 16, unit(*numbers))
            expected = tuple(units) if any(units) else None
            assert plan.non_tma_alignments((*first, *second)) == expected, (first, second)
            seen |= {expected and max(expected)}
    assert seen == {None, 1, 2, 4, 8}


def test_rows_of_parameters_are_aligned_as_the_kernel_says() -> None:
    """Threads access them; tensor maps access those of 0, and what is derived otherwise."""
    kernel = parse("""tir 1.0

define kernel void @k(f16* %x, f16* %y, i32 %n, f16* %z) {
entry:
  %y1 = getelementptr f16* %y, %n
  %y2 = getelementptr f16* %y1, i32 8
  %c, _ = icmp (i1, i1) %n, 0 {predicate = slt}
  %e = select f16* %c, %x, %y
  %e1 = getelementptr f16* %e, i32 8
  ret
}
""").kernel()
    names: dict[str, object] = {str(p.value.name): p.value for p in kernel.parameters}
    names |= {str(v.name): v for op in kernel.ops for v in op.results}
    names["undef"] = Undef(kernel.parameters[0].type)
    parameters = {"x": 0, "y": 1, "n": 2, "z": 3, "y1": 1, "y2": 1, "e": -1, "e1": -1, "undef": -1}
    for name, parameter in parameters.items():
        assert parameter_of(kernel, names[name]) == parameter
        for units in ((16, 8, 0, 2), (16, 8, 0), (4,), (), None):
            attributes = {} if units is None else {NON_TMA_ALIGNMENTS: units}
            expected = units[parameter] if units and 0 <= parameter < len(units) else 0
            assert row_alignment(kernel.evolve(attributes=attributes), names[name]) == expected


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


def operand_places(fields: Any) -> Iterator[tuple[Any, Any]]:
    """Lists and dictionaries of the fields of a plan, and where in them an operand is."""
    yield from (
        (step["operands"], i) for step in fields["steps"] for i in range(len(step["operands"]))
    )
    yield from ((fields["guards"], i) for i in range(len(fields["guards"])))
    for recipe in fields["maps"]:
        yield recipe, "base"
        for name in ("extents", "strides"):
            yield from ((recipe[name], i) for i in range(len(recipe[name])))


def test_every_operand_is_a_number_or_the_name_of_one() -> None:
    """Texts of plans become Python: no other name and no other value gets there."""
    fields = json.loads(plan(matmul(64, 64, 32)).to_text())
    places = [*operand_places(fields)]
    places += [(step, name) for step in fields["steps"] for name in ("bits", "source", "size")]
    others = ("__import__", "a6", f"v{len(fields['steps'])}", True, 1.5, None)
    for place, key in places:
        old = place[key]
        for other in others:
            place[key] = other
            with pytest.raises((TypeError, ValueError)):
                HostPlan.from_text(json.dumps(fields))
        place[key] = old
    for step in fields["steps"]:
        for word in ("sge;", "_", "x y\n", "A"):
            with pytest.raises(ValueError, match="no step"):
                step["word"], old = word, step["word"]
                HostPlan.from_text(json.dumps(fields))
            step["word"] = old
    assert HostPlan.from_text(json.dumps(fields)) == plan(matmul(64, 64, 32))


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
