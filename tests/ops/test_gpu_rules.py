"""The rules of the backend's own ops, each broken once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizes import for_each
from tileir.errors import VerifyError
from tileir.op import all_ops, lookup
from tileir.types import (
    F16,
    F32,
    I1,
    I32,
    I64,
    AddressSpace,
    Buffer,
    Descriptor,
    Pointer,
    Tile,
    Type,
)  # fmt: skip
from tileir.values import Value, constant

SHARED = Pointer(F16, AddressSpace.SHARED)
WHOLE = Tile(F16, (8, 16))
ZERO = constant(I32, 0)


def v(type_: Type) -> Value:
    return Value(type_)


def arguments(name: str, buffer: Type, tile: Tile) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Operands and attributes of the op `name` on `buffer` and a tile."""
    pointers = v(Tile(Pointer(tile.element), tile.shape))  # type: ignore[arg-type]
    steps = (1,) * len(tile.shape)
    return {
        "gpu.async_copy": ((pointers, v(buffer), ZERO), {}),
        "gpu.local_load": ((v(buffer), ZERO), {"type": tile}),
        "gpu.local_gather": (
            (v(buffer), ZERO, ZERO, ZERO), {"type": tile, "rows": steps, "columns": steps},
        ),
        "gpu.local_store": ((v(tile), v(buffer), ZERO), {}),
    }[name]  # fmt: skip


NAMES = ("gpu.async_copy", "gpu.local_load", "gpu.local_gather", "gpu.local_store")


def build(name: str, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    kind: Any = lookup(name)
    return kind(*operands, **attributes)


def check_violation(code: str, operand: str, name: str, operands: Any, attributes: Any) -> None:
    with pytest.raises(VerifyError) as caught:
        build(name, operands, attributes)
    diagnostic = caught.value.diagnostics[0]
    assert (diagnostic.code, diagnostic.operand) == (code, operand), diagnostic


@pytest.mark.parametrize("name", NAMES)
def test_the_buffer_is_in_shared_memory_and_holds_the_element(name: str) -> None:
    build(name, *arguments(name, SHARED, WHOLE))
    for space in AddressSpace:
        if space is not AddressSpace.SHARED:
            check_violation("TIR0101", "buffer", name, *arguments(name, Pointer(F16, space), WHOLE))
    check_violation("TIR0101", "buffer", name, *arguments(name, SHARED, Tile(F32, (8, 16))))


@for_each("name", ["gpu.local_load", "gpu.local_store"])
@for_each(
    ("shape", "offsets"),
    [
        ((8, 16), (0,)),
        ((8, 16), (0, 0, 0)),
        ((8, 16), ()),
        ((8, 16), (-1, 0)),
        ((8, 16), (0, -1)),
        ((8,), (0, 0)),
        ((8, 16, 2), (0, 0)),
        ((8,), (0,)),
        ((2, 8, 16), (0, 0, 0)),
    ],
)
def test_a_part_of_a_stage_has_two_offsets(
    name: str, shape: tuple[int, ...], offsets: tuple[int, ...]
) -> None:
    operands, attributes = arguments(name, SHARED, Tile(F16, shape))
    check_violation("TIR0112", "offsets", name, operands, {**attributes, "offsets": offsets})


@for_each("name", ["rows", "columns"])
@for_each("steps", [(), (1,), (1, 1, 1), (-1, 1), (1, -1)])
def test_a_window_has_a_step_per_dimension_and_none_goes_back(
    name: str, steps: tuple[int, ...]
) -> None:
    operands, attributes = arguments("gpu.local_gather", SHARED, WHOLE)
    build("gpu.local_gather", operands, {**attributes, name: (0, 2)})
    check_violation("TIR0112", name, "gpu.local_gather", operands, {**attributes, name: steps})


@pytest.mark.parametrize("columns", [(0,), (0, 0), (-1, 2), (16, 1), (8, 9), (0, 1, 2)])
def test_columns_that_are_stored_alone_are_the_tiles(columns: tuple[int, ...]) -> None:
    operands, attributes = arguments("gpu.local_store", SHARED, WHOLE)
    for right in ((0, 16), (15, 1), (4, 8), ()):
        build("gpu.local_store", operands, {**attributes, "columns": right})
    check_violation(
        "TIR0112", "columns", "gpu.local_store", operands, {**attributes, "columns": columns}
    )


@for_each(
    ("changes", "code", "operand"),
    [
        ({"shape": (3, 8)}, "TIR0112", "shape"),
        ({"shape": (3, 8, 16, 1)}, "TIR0112", "shape"),
        ({"shape": (0, 8, 16)}, "TIR0112", "shape"),
        ({"shape": (3, 8, 0)}, "TIR0112", "shape"),
        ({"shape": (3, 0)}, "TIR0112", "shape"),
        ({"fast": 2}, "TIR0106", "fast"),
        ({"swizzle": 4}, "TIR0106", "fast"),
        ({"swizzle": -1}, "TIR0106", "fast"),
        ({"panel": -8}, "TIR0106", "panel"),
        ({"panel": 5}, "TIR0106", "panel"),
        ({"panel": 16, "fast": 0}, "TIR0106", "panel"),
        ({"type": Pointer(F16)}, "TIR0101", "buffer"),
    ],
)
def test_shared_memory_has_stages_rows_and_columns(
    changes: dict[str, Any], code: str, operand: str
) -> None:
    right = {"type": SHARED, "shape": (3, 8, 16)}
    for more in ({}, {"panel": 8}, {"panel": 8, "fast": 0}, {"swizzle": 3}):
        build("gpu.shared_alloc", (), {**right, **more})
    check_violation(code, operand, "gpu.shared_alloc", (), {**right, **changes})


BLOCK, BUFFER = Descriptor(Tile(F16, (64, 32))), v(SHARED)
BARRIERS = v(Pointer(I64, AddressSpace.SHARED))


def tensor_copy(name: str, descriptor: Type = BLOCK, buffer: Value = BUFFER, count: int = 2) -> Any:
    """Operands and attributes of a copy of blocks by tensor maps, with so many indices."""
    places = (BARRIERS, ZERO) if name == "gpu.tma_load" else ()
    return (v(descriptor), buffer, ZERO, *places, (ZERO,) * count), {}


@pytest.mark.parametrize("name", ["gpu.tma_load", "gpu.tma_store"])
def test_blocks_that_are_copied_have_an_index_per_dimension_and_fit_the_buffer(name: str) -> None:
    build(name, *tensor_copy(name))
    build(name, *tensor_copy(name, Descriptor(Tile(F16, (1, 64, 32))), count=3))
    for count in (0, 1, 3):
        check_violation("TIR0117", "indices", name, *tensor_copy(name, count=count))
    check_violation("TIR0101", "buffer", name, *tensor_copy(name, Descriptor(Tile(F32, (64, 32)))))
    check_violation("TIR0101", "buffer", name, *tensor_copy(name, buffer=v(Pointer(F16))))
    operands, _ = tensor_copy(name, Descriptor(Tile(F16, (1, 64, 32))), count=3)
    for axis in (0, 1):
        build(name, operands, {"axis": axis})
    for axis in (-1, 2, 3):
        check_violation("TIR0106", "axis", name, operands, {"axis": axis})


def test_copies_add_f32_alone() -> None:
    buffer = v(Pointer(F32, AddressSpace.SHARED))
    right, _ = tensor_copy("gpu.tma_store", Descriptor(Tile(F32, (64, 32))), buffer)
    for more in ({"add": True}, {"add": True, "warpgroup": True}, {"add": False}):
        build("gpu.tma_store", right, more)
    operands, _ = tensor_copy("gpu.tma_store")
    build("gpu.tma_store", operands, {"add": False})
    check_violation("TIR0115", "add", "gpu.tma_store", operands, {"add": True})


def test_blocks_that_are_multicast_are_one_or_more() -> None:
    operands, _ = tensor_copy("gpu.tma_load")
    for multicast in (1, 2, 8):
        build("gpu.tma_load", operands, {"multicast": multicast})
    for multicast in (0, -1):
        check_violation("TIR0106", "multicast", "gpu.tma_load", operands, {"multicast": multicast})


def test_a_is_a_tile_or_is_in_shared_memory() -> None:
    total = v(Tile(F32, (64, 8)))
    for first in (SHARED, Tile(F16, (64, 16))):
        build("gpu.wgmma", (v(first), ZERO, v(SHARED), ZERO, total), {})
    for first in (Pointer(F16), Pointer(F16, AddressSpace.CONSTANT)):
        check_violation("TIR0101", "a", "gpu.wgmma", (v(first), ZERO, v(SHARED), ZERO, total), {})
    check_violation(
        "TIR0101", "b", "gpu.wgmma", (v(SHARED), ZERO, v(Pointer(F16)), ZERO, total), {}
    )


@pytest.mark.parametrize(
    ("shape", "blocks", "allowed"),
    [
        ((64, 32), 4, True),
        ((64, 3), 4, True),
        ((64, 32), 64, True),
        ((64, 32), 3, False),
        ((3, 64), 4, False),
        ((64, 32), 0, False),
        ((64,), 4, False),
    ],
)
def test_blocks_share_whole_rows(shape: tuple[int, ...], blocks: int, allowed: bool) -> None:
    buffer = v(Pointer(F32, AddressSpace.SHARED))
    operands = (v(Tile(F32, shape)), buffer, ZERO, BARRIERS, ZERO)
    if allowed:
        build("gpu.cluster_scatter", operands, {"blocks": blocks})
    else:
        check_violation("TIR0112", "value", "gpu.cluster_scatter", operands, {"blocks": blocks})


@for_each(
    ("settings", "operand"),
    [
        ({"warps": 1}, None),
        ({"first": 5, "warps": 1}, None),
        ({"first": 4, "warps": 4, "registers": 24}, None),
        ({"first": 4, "warps": 4, "registers": 256}, None),
        ({"warps": 0}, "warps"),
        ({"first": -1, "warps": 4}, "warps"),
        ({"warps": 4, "registers": 16}, "registers"),
        ({"warps": 4, "registers": 28}, "registers"),
        ({"warps": 4, "registers": 264}, "registers"),
        ({"warps": 1, "registers": 24}, "registers"),
        ({"first": 1, "warps": 4, "registers": 24}, "registers"),
    ],
)
def test_a_role_has_a_warp_or_more_and_registers_by_warpgroups(
    settings: dict[str, int], operand: str | None
) -> None:
    if operand is None:
        build("gpu.role", ("f", ()), settings)
    else:
        check_violation("TIR0106", operand, "gpu.role", ("f", ()), settings)


def test_private_ops_are_about_private_buffers() -> None:
    tile = Tile(F32, (128,))
    private, shared = Buffer(tile, 8, "private"), Buffer(tile, 8, "shared")
    build("gpu.private_alloc", (), {"type": private})
    build("gpu.private_store", (v(private), ZERO, v(tile)), {})
    build("gpu.private_load", (v(private), ZERO), {})
    check_violation("TIR0101", "type", "gpu.private_alloc", (), {"type": shared})
    check_violation("TIR0101", "buffer", "gpu.private_store", (v(shared), ZERO, v(tile)), {})
    check_violation("TIR0101", "buffer", "gpu.private_load", (v(shared), ZERO), {})


COMPUTING = {"gpu.cluster_rank", "gpu.convert_layout", "gpu.conditional_scale"}


@for_each("kind", [o for o in all_ops() if o.mnemonic.startswith("gpu.")])
def test_ops_that_synchronize_threads_or_touch_memory_take_no_predicate(kind: Any) -> None:
    assert kind.predicable == (kind.mnemonic in COMPUTING)


@pytest.mark.parametrize(
    ("name", "operand"),
    [("gpu.schedule_barrier", v(Tile(F32, (64,)))), ("gpu.device_assert", v(I1))],
)
def test_a_check_and_an_order_hold_for_all_threads(name: str, operand: Value) -> None:
    build(name, (operand,), {})
    check_violation("TIR0103", "predicate", name, (operand,), {"predicate": v(I1)})
