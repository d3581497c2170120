"""Accesses outside of arrays: found before they are made, and named."""

import re
from typing import Any

import numpy as np
import pytest

from tileir.backend.cpu.executor import CpuExecutor
from tileir.builder import F16, F32, I8, I32, I64, Builder, pointer, tile
from tileir.errors import LaunchError, TileirError
from tileir.executor import executor
from tileir.ir import Module
from tileir.machine import dtype_of


def build_kernel(body: Any, **arguments: Any) -> Module:
    b = Builder()
    with b.kernel("k", **arguments) as inputs:
        body(b, *inputs)
    return b.module()


def copies(b: Builder, x: Any, y: Any, n: Any) -> None:
    place = b.program_id(axis=0) * 64 + b.arange(64)
    (y + place).store((x + place).load(place < n, 0.0), place < n)


def gathers(b: Builder, x: Any, y: Any, at: Any) -> None:
    lanes = b.arange(8)
    (y + lanes).store((x + (at + lanes).load()).load())


def adds(b: Builder, x: Any, at: Any) -> None:
    b.atomic_rmw(x + at, 1, op="add")


COPIES = build_kernel(copies, x=pointer(F32), y=pointer(F32), n=I32)
GATHERS = build_kernel(gathers, x=pointer(F32), y=pointer(F32), at=pointer(I32))
ADDS = build_kernel(adds, x=pointer(I32), at=I32)


def launch(module: Module, grid: int, *arguments: Any, **options: Any) -> None:
    CpuExecutor().launch(module, None, grid, list(arguments), **options)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 100])
def test_masked_ends_are_inside(size: int) -> None:
    x, y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    launch(COPIES, 2, x, y, size)
    assert (x == y).all()


def test_the_first_access_outside_is_named() -> None:
    x, y = np.ones(100, np.float32), np.ones(128, np.float32)
    place = r"test_bounds_checks.py:\d+:\d+"
    match = place + r": .*\(1, 0, 0\) load of 4 bytes at byte 400 of x, which has 400"
    with pytest.raises(LaunchError, match=match) as caught:
        launch(COPIES, 2, x, y, 128)
    assert caught.value.code == "TIR0501"
    with pytest.raises(LaunchError, match="store of 4 bytes at byte 256 of y, which has 256"):
        launch(COPIES, 2, np.ones(128, np.float32), np.ones(64, np.float32), 128)


@pytest.mark.parametrize("bad", [-1, 16, 1 << 28, -(1 << 28)])
def test_gathered_addresses_are_each_looked_at(bad: int) -> None:
    x, y, at = np.arange(16, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.int32)
    launch(GATHERS, 1, x, y, at)
    at[5] = bad
    with pytest.raises(LaunchError, match=f"load of 4 bytes at byte {4 * bad} of x, which has 64"):
        launch(GATHERS, 1, x, y, at)
    assert (y == 0).all()


def test_atomics_are_looked_at() -> None:
    x = np.zeros(4, np.int32)
    launch(ADDS, 3, x, 3)
    assert x.tolist() == [0, 0, 0, 3]
    with pytest.raises(LaunchError, match="atomic_rmw of 4 bytes at byte 16 of x"):
        launch(ADDS, 3, x, 4)


ATOMICS: dict[str, Any] = {
    "atomic_load": lambda b, x, y: y.store(b.atomic_load(x)),
    "atomic_store": lambda b, x, y: b.atomic_store(x, y.load()),
    "atomic_cas": lambda b, x, y: y.store(b.atomic_cas(x, 0, 7)),
}


@pytest.mark.parametrize("name", ATOMICS)
def test_each_kind_of_atomic_is_looked_at(name: str) -> None:
    def body(b: Builder, x: Any, y: Any, at: Any) -> None:
        ATOMICS[name](b, x + at, y)

    module = build_kernel(body, x=pointer(I32), y=pointer(I32), at=I32)
    launch(module, 1, np.zeros(4, np.int32), np.zeros(1, np.int32), 3)
    with pytest.raises(LaunchError, match=f"{name} of 4 bytes at byte 16 of x, which has 16"):
        launch(module, 1, np.zeros(4, np.int32), np.zeros(1, np.int32), 4)


def test_one_address_is_looked_at_as_far_as_its_element() -> None:
    """Lanes that share an address all access the same four bytes."""
    kernel: Any = CpuExecutor().launch(ADDS, None, 1, [np.zeros(4, np.int32), 0])
    ends = re.findall(r"usub\.sat\.i64\(i64 %\S+, i64 (\d+)\)", kernel.llvm)
    assert ends == ["3"]


def test_one_address_that_only_later_lanes_access_is_named() -> None:
    def reads(b: Builder, x: Any, y: Any, at: Any) -> None:
        lanes = b.arange(32)
        (y + lanes).store((x + at + lanes * 0).load(lanes >= 5, 0.0))

    module = build_kernel(reads, x=pointer(F32), y=pointer(F32), at=I32)
    x, y = np.ones(4, np.float32), np.zeros(32, np.float32)
    launch(module, 1, x, y, 3)
    assert (y == (np.arange(32) >= 5)).all()
    with pytest.raises(LaunchError, match="load of 4 bytes at byte 16 of x, which has 16"):
        launch(module, 1, x, y, 4)


def test_strided_arrays_end_where_their_elements_do() -> None:
    whole = np.arange(64, dtype=np.float32)
    y = np.zeros(64, np.float32)
    launch(COPIES, 1, whole[::-1][63:], y, 1)
    assert y[0] == 0
    with pytest.raises(LaunchError, match="at byte 4 of x, which has 4"):
        launch(COPIES, 1, whole[:1], y, 2)


def test_who_asks_for_speed_is_not_looked_at() -> None:
    kernel: Any = CpuExecutor().launch(
        COPIES, None, 1, [np.ones(64, np.float32), np.ones(64, np.float32), 64], checked=False
    )
    assert not kernel.checked and "outside" not in kernel.llvm


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", [-1, -2, 1, 3])
@pytest.mark.parametrize("kind", ["load", "store", "atomic"])
def test_rows_are_looked_at_on_both_ends(step: int, kind: str) -> None:
    """64 elements that are `step` apart, from each of the last places within and the first beyond,
    upwards and downwards."""

    def body(b: Builder, x: Any, y: Any, start: Any) -> None:
        lanes = b.arange(64)
        places = x + (start + lanes * step)
        if kind == "load":
            (y + lanes).store(places.load())
        elif kind == "store":
            places.store((y + lanes).load())
        else:
            b.atomic_rmw(places, (y + lanes).load(), op="fadd")

    module = build_kernel(body, x=pointer(F32), y=pointer(F32), start=I32)
    reach = 63 * abs(step)
    least, most = (0, 5) if step > 0 else (reach, reach + 5)
    whole = np.arange(reach + 6 + 128, dtype=np.float32)
    x = whole[64 : 64 + reach + 6]
    for start in (least, most):
        launch(module, 1, x, np.ones(64, np.float32), start)
    for start in (least - 1, most + 1, least - 60, most + 60):
        arguments, outside = x.copy(), (whole[:64].copy(), whole[-64:].copy())
        with pytest.raises(LaunchError, match=r"at byte -?[0-9]+ of x") as caught:
            launch(module, 1, arguments, np.ones(64, np.float32), start)
        assert caught.value.code == "TIR0501"
        assert (whole[:64] == outside[0]).all() and (whole[-64:] == outside[1]).all()


GUARDED = 96
"""Elements before and after the array in memory, which no access may reach."""
STEPPED: dict[str, Any] = {
    "load": lambda b, p, y: y.store(p.load()),
    "store": lambda b, p, y: p.store(y.load()),
    "atomic_rmw": lambda b, p, y: b.atomic_rmw(p, y.load(), op="add"),
}


def strided_copy(name: str, element: Any, step: int, count: int, wide: bool) -> Module:
    """Accesses of `count` elements by a step, from an index on that is given as an i32, and of
    which a number is subtracted as an i64 (`wide`) so that the index may wrap where it is not."""

    def body(b: Builder, x: Any, y: Any, start: Any, back: Any) -> None:
        lanes = b.arange(count)
        index = start + lanes * step
        if wide:
            first = b.splat(start, tile(I32, (count,)))
            index = b.add(first, lanes * step, overflow="none").to(I64) - back
        STEPPED[name](b, x + index, y + lanes)

    return build_kernel(body, x=pointer(element), y=pointer(element), start=I32, back=I64)


def outcome(runner: Any, module: Module, size: int, dtype: Any, count: int, *numbers: int) -> Any:
    """What the arrays hold after a launch, or the code and place of the error."""
    memory = np.arange(size + 2 * GUARDED).astype(dtype)
    x, y = memory[GUARDED : GUARDED + size], np.arange(1, count + 1).astype(dtype)
    try:
        executor(runner).launch(module, "k", 1, [x, y, *numbers])
    except TileirError as error:
        assert (memory[:GUARDED] == np.arange(GUARDED).astype(dtype)).all()
        return error.code, error.line
    return memory.tolist(), y.tolist()


@pytest.mark.sampled(5, by="name")
@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize(
    ("element", "step", "count"),
    [(I8, -1, 32), (I8, 3, 64), (F16, -2, 32), (F16, 1, 256), (F32, -1, 64), (F32, 2, 32),
     (F32, 1, 128), (I32, -3, 32), (I64, -1, 32), (I64, 1, 64)],
    ids=str,
)  # fmt: skip
def test_steps_of_every_length_are_looked_at_to_both_ends(
    name: str, element: Any, step: int, count: int
) -> None:
    """The lane that is farthest is inside, at the end, and one and several elements outside."""
    if name == "atomic_rmw" and element is not I32:
        return
    size, reach, dtype = 80, step * (count - 1), dtype_of(element)
    module = strided_copy(name, element, step, count, wide=False)
    lowest, highest = min(0, reach), max(0, reach)
    ends = (-lowest, size - 1 - highest)
    for start in {end + more for end in ends for more in (-9, -1, 0, 1, 9)}:
        inside = start + lowest >= 0 and start + highest < size
        result = outcome("cpu", module, size, dtype, count, start, 0)
        expected = outcome("interpreter", module, size, dtype, count, start, 0)
        assert result[0] == expected[0] and (result[0] != "TIR0501") == inside, start
        if inside:
            assert result == expected, start


@pytest.mark.parametrize("step", [1, -1, 2, -3])
@pytest.mark.parametrize("name", ["load", "store"])
def test_lanes_that_wrap_are_looked_at_where_they_are(name: str, step: int) -> None:
    """An index that wraps in 32 bits is 2^32 elements from where its lanes seem to go on."""
    module, size = strided_copy(name, F32, step, 32, wide=True), 80
    end = (1 << 31) - 1 if step > 0 else -(1 << 31)
    for more in (-1, 0, 1, 2, 20):
        start = end - 31 * step + (more if step > 0 else -more)
        numbers = start, start - (0 if step > 0 else 79)
        result = outcome("cpu", module, size, np.float32, 32, *numbers)
        expected = outcome("interpreter", module, size, np.float32, 32, *numbers)
        assert result[0] == expected[0], more
        assert (result[0] == "TIR0501") == (more > 0 or abs(31 * step) >= size), more
