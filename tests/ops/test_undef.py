"""Undefined lanes, inactive lanes, promises and parts of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.errors import InterpretError
from tileir.machine import Machine, Tensor
from tileir.op import lookup
from tileir.ops.hints import Contiguous, MultipleOf
from tileir.types import F32, I1, I8, I32, Tile, pointer
from tileir.values import Undef, Value, constant

MACHINE = Machine()
ROW = Tile(I32, (4,))


def ints(*numbers: int, undef: tuple[int, ...] = ()) -> Tensor:
    flags = np.isin(np.arange(len(numbers)), undef) if undef else None
    return Tensor(np.array(numbers, np.int32), flags)


def flags(tensor: Tensor) -> list[int]:
    return [] if tensor.undef is None else np.flatnonzero(tensor.undef).tolist()


def test_a_result_is_undefined_where_an_operand_is() -> None:
    got = MACHINE.elementwise("add", ints(1, 2, 3, undef=(0,)), ints(1, 2, 3, undef=(2,)))
    assert flags(got) == [0, 2] and got.data[1] == 4
    assert flags(MACHINE.compare("icmp", "slt", ints(1, 2, undef=(1,)), ints(1, 2))[1]) == [1]
    assert flags(MACHINE.convert("trunc", ints(1, 2, undef=(1,)), I8)) == [1]


def test_literals_and_undef() -> None:
    assert MACHINE.constant(constant(ROW, -3)).data.tolist() == [-3] * 4
    assert flags(MACHINE.undef(ROW)) == [0, 1, 2, 3]
    assert Undef(ROW).type is ROW


def test_promises_of_overflow_reach_to_the_ends_of_the_range() -> None:
    op: Any = lookup("add")
    low, high = -(1 << 31), (1 << 31) - 1
    instance = op(Value(ROW), Value(ROW), overflow=op.schema[2].attribute.enum("nsw"))
    result = instance.evaluate(MACHINE, ints(low + 1, low, high - 1, high), ints(-1, -1, 1, 1))
    assert flags(result) == [1, 3]


@pytest.mark.parametrize("promise", ["nsw", "nuw", "nsw_nuw"])
def test_broken_promises_of_range_are_undefined(promise: str) -> None:
    a = ints(2**31 - 1, -1, 1, 5)
    got = MACHINE.elementwise("add", a, ints(1, 1, 1, -6), overflow=promise)
    expected = {"nsw": [0], "nuw": [1], "nsw_nuw": [0, 1]}
    assert flags(got) == expected[promise]
    assert got.data.tolist() == [-(2**31), 0, 2, -1]


def test_select_is_undefined_only_where_what_it_chooses_is() -> None:
    choice = Tensor(np.array([True, False, True, False]), np.array([False, False, False, True]))
    got = MACHINE.select(choice, ints(1, 2, 3, 4, undef=(0, 1)), ints(5, 6, 7, 8, undef=(2,)))
    assert flags(got) == [0, 3] and got.data[1:3].tolist() == [6, 3]


def test_psi_takes_the_last_that_holds() -> None:
    p = Tensor(np.array([True, True, False, False]))
    q = Tensor(np.array([False, True, True, False]))
    got = MACHINE.psi((p, ints(1, 2, 3, 4), q, ints(5, 6, 7, 8, undef=(2,))))
    assert got.data[:2].tolist() == [1, 6] and flags(got) == [2, 3]
    got = MACHINE.psi((Tensor(np.array(True)), ints(1, 2), Tensor(np.array(False)), ints(3, 4)))
    assert got.data.tolist() == [1, 2] and flags(got) == []


def test_restriction_leaves_nothing_outside_the_predicate() -> None:
    lanes = np.array([True, False, True, False])
    assert flags(MACHINE.restrict(ints(1, 2, 3, 4, undef=(0,)), lanes)) == [0, 1, 3]


@for_each(
    ("name", "data", "numbers", "holds"),
    [
        ("multiple_of", [16, 17, 32, 33], (16,), True),
        ("multiple_of", [16, 18, 32, 33], (16,), False),
        ("multiple_of", [8, 9, 10, 11], (16,), False),
        ("multiple_of", [48, 48, 16, 0], (16,), True),
        ("contiguous", [3, 4, 9, 10], (2,), True),
        ("contiguous", [3, 4, 9, 10], (4,), False),
        ("constant_run", [3, 3, 9, 9], (2,), True),
        ("constant_run", [3, 3, 9, 8], (2,), False),
    ],
)
def test_promises_are_checked(name: str, data: list[int], numbers: Any, holds: bool) -> None:
    op: Any = lookup(name)(Value(ROW), values=numbers)  # type: ignore[misc,call-arg]
    if holds:
        assert op.evaluate(MACHINE, ints(*data)).data.tolist() == data
        return
    with pytest.raises(InterpretError) as caught:
        op.evaluate(MACHINE, ints(*data))
    assert caught.value.code == "TIR0554" and name in str(caught.value)


def test_promises_about_pointers_count_bytes_and_elements() -> None:
    tile = Tile(pointer(F32), (4,))
    rising = Tensor(np.array([1 << 40, (1 << 40) + 4, (1 << 40) + 8, (1 << 40) + 12], np.uint64))
    assert Contiguous(Value(tile), values=(4,)).evaluate(MACHINE, rising) is rising
    assert MultipleOf(Value(tile), values=(16,)).evaluate(MACHINE, rising) is rising
    with pytest.raises(InterpretError):
        MultipleOf(Value(tile), values=(16,)).evaluate(MACHINE, Tensor(rising.data + np.uint64(4)))


def test_promises_may_be_larger_than_the_type() -> None:
    value = Tensor(np.zeros(4, np.int8))
    assert MultipleOf(Value(Tile(I8, (4,))), values=(512,)).evaluate(MACHINE, value) is value


def test_a_false_assumption_is_reported_where_lanes_run() -> None:
    op: Any = lookup("assume")
    instance = op(Value(Tile(I1, (2,))))
    false = Tensor(np.array([True, False]))
    with pytest.raises(InterpretError) as caught:
        instance.evaluate(MACHINE, false)
    assert caught.value.code == "TIR0554"
    machine = Machine()
    machine.active = np.array([True, False])
    assert instance.evaluate(machine, false) is None


def gather(index: Tensor, machine: Machine = MACHINE) -> Tensor:
    op: Any = lookup("gather")
    instance = op(Value(ROW), Value(Tile(I32, index.data.shape)))
    return instance.evaluate(machine, ints(10, 20, 30, 40, undef=(3,)), index)


def test_gather_checks_its_indices() -> None:
    got = gather(ints(0, 3, 1, 9, undef=(3,)))
    assert got.data[[0, 2]].tolist() == [10, 20] and flags(got) == [1, 3]
    for wrong in (-1, 4):
        with pytest.raises(InterpretError) as caught:
            gather(ints(0, wrong))
        assert caught.value.code == "TIR0552"
        assert "index outside 0 to 3 in element 1" in str(caught.value)
    machine = Machine()
    machine.active = np.array([True, False])
    assert gather(ints(2, 99), machine).data[0] == 30


def extract(first: Tensor, length: int, machine: Machine = MACHINE) -> Tensor:
    op: Any = lookup("extract_slice")
    instance = op(Value(ROW), Tile(I32, (length,)), (Value(I32),))
    return instance.evaluate(machine, ints(1, 2, 3, 4, undef=(2,)), (first,))


def test_slices_check_their_offsets() -> None:
    got = extract(Tensor(np.array(1, np.int32)), 3)
    assert got.data[[0, 2]].tolist() == [2, 4] and flags(got) == [1]
    for wrong in (-1, 2):
        with pytest.raises(InterpretError) as caught:
            extract(Tensor(np.array(wrong, np.int32)), 3)
        assert caught.value.code == "TIR0553"
    unknown = Tensor(np.array(0, np.int32), np.array(True))
    assert flags(extract(unknown, 2)) == [0, 1]
    machine = Machine()
    machine.active = np.zeros(3, bool)
    assert flags(extract(Tensor(np.array(7, np.int32)), 3, machine)) == [0, 1, 2]


def test_insertion_keeps_flags_separate() -> None:
    op: Any = lookup("insert_slice")
    instance = op(Value(ROW), Value(Tile(I32, (2,))), (Value(I32),))
    first = Tensor(np.array(1, np.int32))
    got = instance.evaluate(MACHINE, ints(1, 2, 3, 4, undef=(3,)), ints(8, 9, undef=(1,)), (first,))
    assert got.data[:2].tolist() == [1, 8] and flags(got) == [2, 3]


def test_opaque_code_has_no_meaning_here() -> None:
    asm: Any = lookup("inline_asm")
    op = asm((ROW,), (Value(ROW),), text="nop;", constraints="=r,r")
    with pytest.raises(InterpretError) as caught:
        op.evaluate(MACHINE, (ints(1, 2, 3, 4),))
    assert caught.value.code == "TIR0555"


@for_each(
    ("symbol", "operand", "result"),
    [
        ("__nv_expf", 0.0, 1.0),
        ("__nv_sqrt", 9.0, 3.0),
        ("__nv_fabsf", -2.0, 2.0),
        ("__nv_truncf", -1.5, -1.0),
        ("__nv_rintf", 2.5, 2.0),
        ("__nv_floorf", -0.5, -1.0),
        ("__nv_roundf", 2.5, 3.0),
        ("__nv_exp2f", 3.0, 8.0),
    ],
)
def test_functions_of_libdevice(symbol: str, operand: float, result: float) -> None:
    extern: Any = lookup("extern_elementwise")
    function = extern(F32, (Value(F32),), symbol=symbol)
    got = function.evaluate(MACHINE, (Tensor(np.array(operand, np.float32)),))
    assert float(got.data) == result
    with pytest.raises(InterpretError) as caught:
        extern(F32, (Value(F32),), symbol="mine").evaluate(MACHINE, (got,))
    assert caught.value.code == "TIR0555"


def test_functions_of_libdevice_with_other_names() -> None:
    a, b = (Tensor(np.array(x, np.float32)) for x in (7.5, -2.0))
    extern: Any = lookup("extern_elementwise")
    for symbol, result in (("fmodf", 1.5), ("fminf", -2.0), ("fmaxf", 7.5), ("powf", 7.5**-2)):
        function = extern(F32, (Value(F32), Value(F32)), symbol="__nv_" + symbol)
        assert float(function.evaluate(MACHINE, (a, b)).data) == np.float32(result)


def test_functions_of_libdevice_on_other_types_are_reported() -> None:
    extern: Any = lookup("extern_elementwise")
    for result, values in ((I32, (Value(I32),)), (I32, (Value(F32),)), (F32, (Value(F32),) * 2)):
        function = extern(result, values, symbol="__nv_expf")
        zeros = tuple([Tensor(np.zeros((), np.float32))] * len(values))
        with pytest.raises(InterpretError) as caught:
            function.evaluate(MACHINE, zeros)
        assert caught.value.code == "TIR0555"
