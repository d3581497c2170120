"""Every op at every legal element type and ten shapes, against a second statement of its meaning.

`TILEIR_MATRIX=all` runs every cell; otherwise a fixed tenth, spread over types and shapes.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.errors import InterpretError
from tileir.machine import Machine, Tensor, dtype_of
from tileir.op import FieldKind, Op, all_ops
from tileir.ops.matrix import SHAPES, SKIPPED, cells
from tileir.types import element_of, shape_of

from .ops_inputs import tensor
from .ops_oracle import MATH, ORACLES

ELSEWHERE = {
    "load", "store", "atomic_rmw", "atomic_cas", "atomic_load", "atomic_store", "fence", "barrier",
    "global_address", "program_id", "num_programs", "clock", "globaltimer", "print", "assert",
    "assume", "make_descriptor", "descriptor_load", "descriptor_store", "descriptor_reduce",
    "descriptor_gather", "descriptor_scatter",
}  # fmt: skip
"""Ops that need memory or a grid: tests/interp."""
BY_HAND = {"reduce", "scan", "fptrunc", "fpcast", "dot_scaled", "extern_elementwise"}
"""Ops with tests of their own next to this file."""

MACHINE = Machine()
NAMES = [o.mnemonic for o in all_ops() if not o.mnemonic.startswith("gpu.")]


def is_sampled(op: Op, number: int) -> bool:
    if os.environ.get("TILEIR_MATRIX") == "all":
        return True
    return zlib.crc32(f"{op.mnemonic} {number}".encode()) % 10 == 0 or number < 3


def operands(op: Op, seed: int) -> list[Any]:
    results: list[Any] = []
    for field in op.fields():
        value = getattr(op, field.name)
        if field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS):
            results.append(tuple([tensor(v.type, seed + i) for i, v in enumerate(value)]))
        elif field.kind in (FieldKind.OPERAND, FieldKind.OPTIONAL):
            result = None if value is None else tensor(value.type, seed + 17 * len(results))
            results.append(result)
    return tame(op, results)


def tame(op: Op, tensors: list[Any]) -> list[Any]:
    """Operands on which the op has a meaning."""
    name = op.mnemonic
    if name in ("sdiv", "udiv", "srem", "urem"):
        one = np.ones((), tensors[1].data.dtype)
        tensors[1] = Tensor(np.where(tensors[1].data == 0, one, tensors[1].data))
    if name in ("shl", "lshr", "ashr"):
        bits = element_of(op.inputs[0].type).bits  # type: ignore[union-attr]
        count = tensors[1].data.astype(np.int64) % bits
        tensors[1] = Tensor(count.astype(tensors[1].data.dtype))
    if name == "gather":
        extent = tensors[0].data.shape[op.axis]  # type: ignore[attr-defined]
        limit = min(extent, 127)
        tensors[1] = Tensor(
            (tensors[1].data.astype(np.int64) % limit).astype(tensors[1].data.dtype)
        )
    if name in ("extract_slice", "insert_slice"):
        tensors[-1] = tuple([Tensor(np.array(i % 1, np.int32)) for i in range(len(tensors[-1]))])
    return tensors


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple([plain(v) for v in value])
    return None if value is None else value.data


def agree(op: Op, got: Tensor, expected: Any) -> None:
    data, lanes = expected if isinstance(expected, tuple) else (expected, None)
    shape = np.shape(data)
    undef = np.zeros(shape, bool) if got.undef is None else got.undef
    assert got.data.shape == shape
    np.testing.assert_array_equal(
        undef, np.zeros(shape, bool) if lanes is None else ~np.asarray(lanes)
    )
    mine, theirs = got.data[~undef], np.asarray(data)[~undef]
    if op.mnemonic in MATH:
        close(op, mine, theirs)
        return
    assert mine.dtype == theirs.dtype
    mine, theirs = _comparable(mine), _comparable(theirs)
    np.testing.assert_array_equal(mine, theirs)
    if mine.dtype.kind == "f":
        numbers = ~np.isnan(mine)
        np.testing.assert_array_equal(np.signbit(mine)[numbers], np.signbit(theirs)[numbers])


def _comparable(data: Any) -> Any:
    """Small formats as f64, which numpy compares."""
    return data.astype(np.float64) if data.dtype.kind == "V" or data.dtype.itemsize < 4 else data


def close(op: Op, mine: Any, theirs: Any) -> None:
    """Narrow types: the real result rounded once; f64: within the op's bound and the oracle's."""
    wide = mine.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(theirs))
    with np.errstate(all="ignore"):
        rounded = theirs.astype(mine.dtype).astype(np.float64)
        step = np.abs(np.nextafter(np.abs(mine), mine.dtype.type(np.inf)).astype(np.float64)
                      - np.abs(wide))  # fmt: skip
        bound = 0.5001 if mine.dtype != np.float64 else (op.numerics.ulp or 64) + 1
        off = np.abs(wide - theirs) / step
    fine = (wide == rounded) | (off <= bound) | np.isnan(wide)
    assert fine.all(), (off[~fine][:4], wide[~fine][:4], theirs[~fine][:4])


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [n for n in NAMES if n not in SKIPPED | ELSEWHERE | BY_HAND])
def test_op_means_what_the_oracle_says(name: str) -> None:
    kind = next(o for o in all_ops() if o.mnemonic == name)
    oracle, ran, number = ORACLES[name], 0, 0
    for shape in SHAPES:
        for op in cells(kind, shape):
            number += 1
            if not is_sampled(op, number):
                continue
            inputs = operands(op, number)
            got = op.evaluate(MACHINE, *inputs)
            with np.errstate(all="ignore"):
                expected = oracle(op, *plain(tuple(inputs)))
            if expected is NotImplemented:
                continue
            ran += 1
            compare(op, got, expected)
    assert ran >= min(number, 3)


def compare(op: Op, got: Any, expected: Any) -> None:
    check_types(op, got)
    if len(op.results) == 1:
        agree(op, got, expected)
        return
    for one, other in zip(got, expected, strict=True):
        agree(op, one, other)


def check_types(op: Op, got: Any) -> None:
    """Values have the types that the op infers."""
    results = got if isinstance(got, tuple) else (got,)
    for tensor_, result in zip(results, op.results, strict=True):
        assert tensor_.data.shape == shape_of(result.type)
        assert tensor_.data.dtype == dtype_of(result.type)


def test_every_op_has_an_oracle_or_its_own_tests() -> None:
    covered = set(ORACLES) | SKIPPED | ELSEWHERE | BY_HAND
    assert {n for n in NAMES if n not in covered} == set()


@pytest.mark.parametrize(
    ("name", "attributes", "right", "code"),
    [
        ("sdiv", {}, 0, "TIR0550"),
        ("urem", {}, 0, "TIR0550"),
        ("shl", {}, 32, "TIR0551"),
        ("ashr", {}, -1, "TIR0551"),
    ],
)
def test_operands_without_meaning_are_reported_where_lanes_run(
    name: str, attributes: dict[str, Any], right: int, code: str
) -> None:
    kind = next(o for o in all_ops() if o.mnemonic == name)
    op = next(o for o in cells(kind, (7,)) if element_of(o.result.type).bits == 32)  # type: ignore[union-attr]
    left = Tensor(np.arange(7, dtype=np.int32))
    bad = np.ones(7, np.int32)
    bad[4] = right
    with pytest.raises(InterpretError) as caught:
        op.evaluate(MACHINE, left, Tensor(bad))
    assert caught.value.code == code and "element 4" in str(caught.value)
    machine = Machine()
    machine.active = np.arange(7) != 4
    assert op.evaluate(machine, left, Tensor(bad)).data.shape == (7,)
    undefined = Tensor(bad, np.arange(7) == 4)
    assert (
        op.evaluate(MACHINE, left, undefined).undef.tolist() == [False] * 4 + [True] + [False] * 2
    )


@for_each("name", [n for n in NAMES if n not in SKIPPED])
def test_every_op_has_cells(name: str) -> None:
    kind = next(o for o in all_ops() if o.mnemonic == name)
    assert any(True for shape in SHAPES for _ in cells(kind, shape))


def test_cells_are_every_type_the_signature_allows() -> None:
    add, cast = (next(o for o in all_ops() if o.mnemonic == n) for n in ("add", "fpcast"))
    assert {str(o.result.type) for o in cells(add, (7,))} == {
        "i1<7>", "i8<7>", "i16<7>", "i32<7>", "i64<7>"
    }  # fmt: skip
    pairs = {(o.inputs[0].type, o.result.type) for o in cells(cast, ())}
    assert len(pairs) == 8 * 7
    assert len(list(cells(add, (7,)))) == 5 * 4


@pytest.mark.parametrize("name", ["extract_slice", "insert_slice"])
def test_parts_of_tiles_are_strided_where_there_are_enough_elements(name: str) -> None:
    kind = next(o for o in all_ops() if o.mnemonic == name)
    for shape in ((7,), (1,), (4, 1), (3, 5)):
        strides = {o.attributes["strides"] for o in cells(kind, shape)}
        assert len(strides) == 2
        assert tuple(2 if n > 1 else 1 for n in shape) in strides
