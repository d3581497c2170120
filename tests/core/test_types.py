"""Types are interned, immutable, and print as their syntax."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from typing import Any

import pytest

from tests.sizes import for_each
from tileir.types import (
    BF16,
    F16,
    F32,
    I1,
    I32,
    MBARRIER,
    SCALARS,
    VOID,
    AddressSpace,
    Buffer,
    Descriptor,
    Pointer,
    Scalar,
    Tile,
    Type,
    element_of,
    shape_of,
    tile,
    with_element,
)

SPELLED: list[tuple[Type, str]] = [
    (I1, "i1"),
    (Pointer(F32), "f32*"),
    (Pointer(F32, 3), "f32 addrspace(3)*"),
    (Pointer(Pointer(F16)), "f16**"),
    (Pointer(Pointer(F16, 4)), "f16 addrspace(4)**"),
    (Tile(F32, (64, 128)), "f32<64, 128>"),
    (Tile(Pointer(BF16), (7,)), "bf16*<7>"),
    (Tile(F32, (64,), "#rows"), "f32<64, #rows>"),
    (Descriptor(Tile(F16, (64, 32))), "tensor_desc<f16<64, 32>>"),
    (Buffer(Tile(F16, (64, 32)), 3), "shared<f16<64, 32>, 3>"),
    (VOID, "void"),
    (MBARRIER, "mbarrier"),
]


@for_each(("type_", "text"), SPELLED)
def test_str_is_the_syntax(type_: Type, text: str) -> None:
    assert str(type_) == text


@for_each(("type_", "_"), SPELLED)
def test_copies_are_the_same_object(type_: Type, _: str) -> None:
    assert pickle.loads(pickle.dumps(type_)) is type_
    assert copy.deepcopy(type_) is type_


@for_each("scalar", SCALARS.values())
def test_a_scalars_name_says_its_bits(scalar: Scalar) -> None:
    named = re.match(r"(i|f|bf)(\d+)", scalar.name)
    assert named is not None and scalar.bits == int(named[2])
    assert scalar.bytes == max(1, scalar.bits // 8)
    assert scalar.is_integer == (named[1] == "i") != scalar.is_float


def test_equal_types_are_one_object() -> None:
    assert Tile(F32, (3, 5)) is Tile(F32, (3, 5))
    assert Tile(F32, (3, 5)) is not Tile(F32, (5, 3))
    assert Tile(F32, (4,), "#a") is not Tile(F32, (4,))
    assert Pointer(F32) is not Pointer(F32, AddressSpace.SHARED)


def test_interning_holds_across_threads() -> None:
    tiles: list[list[Tile]] = []

    def work() -> None:
        tiles.append([Tile(F32, (n, 77, 3)) for n in range(1, 2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(a is b for row in tiles[1:] for a, b in zip(tiles[0], row, strict=True))


def test_types_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        I32.bits = 8  # pyright: ignore


def test_a_number_that_is_no_address_space_is_refused_with_the_pointer_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"one of 0, 1, 3, 4, 5, not 2; .* pointer\(pointer\(F32"):
        Pointer(F32, 2)


@pytest.mark.parametrize("shape", [(), (0,), (-1,), (4, 0), (2.0,)])
def test_extents_are_positive(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        Tile(F32, shape)


@pytest.mark.parametrize("shape", [[4, 5], 4, "45"])
def test_extents_are_a_tuple(shape: Any) -> None:
    with pytest.raises(TypeError, match=f"tile extents are a tuple, not {re.escape(repr(shape))}"):
        tile(F32, shape)


def test_what_is_no_type_is_told_from_one() -> None:
    with pytest.raises(TypeError, match="scalars or pointers, not 'f32'"):
        tile("f32", (4,))  # pyright: ignore
    with pytest.raises(TypeError, match="a scalar or a pointer, not 'f32'"):
        Pointer("f32")  # pyright: ignore


def test_tiles_do_not_nest() -> None:
    with pytest.raises(TypeError):
        Tile(Tile(F32, (4,)), (4,))  # pyright: ignore
    with pytest.raises(TypeError):
        Pointer(Tile(F32, (4,)))  # pyright: ignore


def test_rank_zero_is_the_scalar() -> None:
    assert tile(F32, ()) is F32
    assert shape_of(F32) == ()
    assert element_of(Tile(I32, (2,))) is I32
    assert with_element(Tile(I32, (2,), "#l"), I1) is Tile(I1, (2,), "#l")


def test_bytes_in_memory() -> None:
    assert {n: s.bytes for n, s in SCALARS.items()} == {
        "i1": 1, "i4": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f4e2m1": 1, "f8e4m3": 1,
        "f8e5m2": 1, "f8e8m0": 1, "f16": 2, "bf16": 2, "f32": 4, "f64": 8,
    }  # fmt: skip
