"""Conversions of loaded values, against numpy; of numbers that are known while compiling, against
loaded ones; of pointers, against their addresses. In the interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tests.frontends.triton.sources import kernel_of
from tileir import TileirError

INTEGERS = tuple(f"{s}int{n}" for n in (8, 16, 32, 64) for s in ("", "u"))
FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float8e4nv", "float8e5")
KNOWN_EVERY = 3
"""Of so many numbers of a type, one is known while compiling."""
TARGETS = ("int1", *INTEGERS, *FLOATS, *NARROW)


def kind_of(name: str) -> np.dtype[Any]:
    """The type of an array for elements of a type of Triton: of int8 for int1."""
    if name in NARROW:
        return np.dtype(np.float32)
    return np.dtype({"int1": np.int8, "bfloat16": ml_dtypes.bfloat16}.get(name, name))


def numbers(name: str) -> list[Any]:
    """Numbers of a type: its ends and small ones. Floats are within the range of int8."""
    if name == "int1":
        return [False, True]
    if name in INTEGERS:
        ends = np.iinfo(name)
        few = (ends.min, ends.min + 1, ends.max - 1, ends.max, 0, 1, 2, 100)
        return [int(n) for n in few]
    return [-100.0, -2.5, -0.0, 0.25, 0.5, 1.0, 2.5, 127.0]


def unsigned_floats(name: str, to: str) -> bool:
    """Whether floats become unsigned integers, which is defined where they are not negative."""
    return name in FLOATS and to.startswith("uint")


def convert_numbers(name: str) -> dict[str, np.ndarray[Any, Any]]:
    """`numbers(name)` converted to every type: a row of loaded ones, and a row of known ones."""
    literals = numbers(name)
    lines = [
        f"def k(x, {', '.join(f'to_{t}' for t in TARGETS)}):",
        f"    i = tl.arange(0, {len(literals)})",
        f"    v = tl.load(x + i){' != 0' if name == 'int1' else ''}",
    ]
    for to in TARGETS:
        value = "tl.abs(v)" if unsigned_floats(name, to) else "v"
        end = ".to(tl.float32)" if to in NARROW else ".to(tl.int8)" if to == "int1" else ""
        lines.append(f"    tl.store(to_{to} + i, {value}.to(tl.{to}){end})")
        for j, number in enumerate(literals[::KNOWN_EVERY], len(literals)):
            item = abs(number) if unsigned_floats(name, to) else number
            item = f"tl.full([], {item}, tl.{name}).to(tl.{to})"
            lines.append(f"    tl.store(to_{to} + {j}, {item}{end})")
    outputs = {t: np.zeros((2, len(literals)), kind_of(t)) for t in TARGETS}
    kernel = kernel_of("\n".join(lines))
    kernel[(1,)](np.array(literals, kind_of(name)), *outputs.values(), on="interpreter")
    return outputs


def reference(name: str, to: str) -> np.ndarray[Any, Any]:
    x = np.array(numbers(name), kind_of(name))
    x = np.abs(x) if unsigned_floats(name, to) else x
    if to == "int1":
        return (x != 0).astype(np.int8)
    with np.errstate(over="ignore"):
        wide = x.astype(np.float32) if to == "bfloat16" else x
        return wide.astype(kind_of(to))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ("int1", *INTEGERS, *FLOATS))
def test_conversions_to_every_type(name: str) -> None:
    """An integer is widened by its own sign, and a float becomes an integer by the sign of that.
    Wide integers are rounded to narrow floats once or twice."""
    for to, (loaded, literals) in convert_numbers(name).items():
        few = loaded[::KNOWN_EVERY]
        np.testing.assert_array_equal(few, literals[: few.size], f"{to} of known numbers")
        if to in NARROW:
            continue
        values = reference(name, to)
        close = name in INTEGERS and to in FLOATS
        if close:
            loaded, values = loaded.astype(np.float64), values.astype(np.float64)
        np.testing.assert_allclose(loaded, values, 2**-7 if close else 0, err_msg=to)


@triton.jit
def pointers(x, y, conditions, addresses, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(tl.pointer_type(tl.float32))
    b = tl.load(y + i).to(tl.pointer_type(tl.float32))
    tl.store(conditions + i, a.to(tl.int1).to(tl.int8))
    tl.store(conditions + N + i, (a == b).to(tl.int8))
    tl.store(conditions + 2 * N + i, (a != b).to(tl.int8))
    tl.store(conditions + 3 * N + i, (a < b).to(tl.int8))
    tl.store(conditions + 4 * N + i, (a >= b).to(tl.int8))
    tl.store(addresses + i, a.to(tl.int64))
    tl.store(addresses + N + i, a.to(tl.uint8).to(tl.int64))
    tl.store(addresses + 2 * N + i, a.to(tl.int32).to(tl.int64))
    tl.store(addresses + 3 * N + i, a.to(tl.uint64, bitcast=True).to(tl.int64))
    tl.store(addresses + 4 * N + i, tl.where(a == b, a + 1, b - 2).to(tl.int64))
    tl.store(addresses + 5 * N + i, a.to(tl.pointer_type(tl.int8)).to(tl.int64))
    tl.store(addresses + 6 * N + i, (a.to(tl.pointer_type(tl.int16)) + 3).to(tl.int64))


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "uint32", "int16", "uint8"])
def test_pointers_are_converted_by_their_addresses(kind: str) -> None:
    """Which are unsigned integers of 64 bits."""
    ends = np.iinfo(kind)
    few = (0, 1, int(ends.max), ends.max // 2 + 1, int(ends.min), 1 << (ends.bits // 2), 7, 96)
    x = np.array([n for n in few for _ in few], kind)
    y = np.array([n for _ in few for n in few], kind)
    conditions, addresses = np.zeros((5, x.size), np.int8), np.zeros((7, x.size), np.int64)
    pointers[(1,)](x, y, conditions, addresses, N=x.size, on="interpreter")
    a, b = (v.astype(np.int64).view(np.uint64) for v in (x, y))
    rows = [a != 0, a == b, a != b, a < b, a >= b]
    np.testing.assert_array_equal(conditions, np.array(rows).astype(np.int8))
    signed = a.view(np.int64)
    moved = np.where(a == b, a + np.uint64(4), b - np.uint64(8)).view(np.int64)
    narrow = [signed, a.astype(np.uint8), a.astype(np.int32), signed, moved, signed, signed + 6]
    np.testing.assert_array_equal(addresses, np.array([n.astype(np.int64) for n in narrow]))


OF_WIDTH = {
    8: ("int8", "uint8", "float8e4nv", "float8e5"), 16: ("int16", "uint16", "float16", "bfloat16"),
    32: ("int32", "uint32", "float32"), 64: ("int64", "uint64", "float64"),
}  # fmt: skip


@pytest.mark.parametrize("bits", OF_WIDTH)
def test_the_bits_of_a_type_are_those_of_another(bits: int) -> None:
    """To every type of the same width and back to integers, in two ways; to none of another."""
    x = np.random.default_rng(bits).integers(0, 256, 16 * bits // 8, np.uint8).view(f"u{bits // 8}")
    names = OF_WIDTH[bits]
    lines = [
        "def k(x, out):",
        "    i = tl.arange(0, 16)",
        f"    v = tl.load(x + i).to(tl.int{bits})",
    ]
    pairs = [(a, b) for a in names for b in names]
    for row, (first, second) in enumerate(pairs):
        item = f"v.to(tl.{first}, bitcast=True).to(tl.{second}, bitcast=True)"
        lines.append(
            f"    tl.store(out + {16 * row} + i, tl.cast({item}, tl.int{bits}, bitcast=True))"
        )
    out = np.zeros((len(pairs), 16), f"i{bits // 8}")
    kernel_of("\n".join(lines))[(1,)](x, out, on="interpreter")
    np.testing.assert_array_equal(out.view(x.dtype), np.broadcast_to(x, out.shape))
    for other in (name for width, each in OF_WIDTH.items() if width != bits for name in each):
        lines[3:] = [f"    tl.store(out + i, v.to(tl.{other}, bitcast=True))"]
        with pytest.raises(TileirError, match="bits of"):
            kernel_of("\n".join(lines))[(1,)](x, out, on="interpreter")


NUMBERS = (True, 3, -2, 200, 40000, 3000000000, 0.5, 1e30, float("inf"), 2.0**-126, 1e-40, 1e300)
SIGNS = ("-", "/", "//", "%", "&", "<<", "<")
"""A sign of every rule for the type."""


def own_name(number: float) -> str:
    """The type of a number alone."""
    if isinstance(number, bool):
        return "int1"
    if isinstance(number, float):
        normal = number == float("inf") or 2.0**-126 <= abs(number) < 2.0**128
        return "float32" if normal else "float64"
    return "int32" if -(1 << 31) <= number < 1 << 31 else "uint32"


def rank(name: str) -> int:
    """Of int1, integers and floats."""
    return 0 if name == "int1" else 1 if name in INTEGERS else 2


def in_common(name: str, number: float, sign: str) -> str | None:
    """The type in which a tensor of `name` and a number are combined; None if it cannot represent
    the number. A number takes the type of a tensor of its rank or a higher one, but is compared
    with its own type."""
    own = own_name(number)
    if sign == "<":
        return compared_as(name, own)
    if rank(own) > rank(name):
        return own
    if rank(name) == 1 and not np.iinfo(name).min <= number <= np.iinfo(name).max:
        return None
    narrow = name in ("float16", "bfloat16") and sign in ("/", "%")
    return "float32" if narrow or (sign == "/" and rank(name) < 2) else name


def compared_as(name: str, own: str) -> str:
    """The type in which tensors of two types are compared."""
    if rank(own) != rank(name):
        return max(own, name, key=rank)
    if rank(own) == 2:
        return "float64" if "float64" in (name, own) else "float32"
    bits, own_bits = (8 * kind_of(n).itemsize for n in (name, own))
    if bits == own_bits and own != name:
        return f"uint{bits}"
    return own if own_bits > bits else name


def operations_of(name: str) -> list[tuple[str, str, str]]:
    """Operations that are defined for a tensor `v` of type `name`: one with a number, the type
    that both have in common, and the operation on two tensors of that type."""
    result: list[tuple[str, str, str]] = []
    for sign in SIGNS:
        for number in NUMBERS:
            kind = in_common(name, number, sign)
            no_bools = kind == "int1" and sign not in ("&", "<")
            no_floats = kind not in INTEGERS and sign in ("&", "<<", "//")
            too_large = abs(number) > 30000 and (sign == "%" or (rank(name) == 2 and sign != "<"))
            unsuited = (sign == "<<" and number != 3) or (
                sign in ("//", "%") and rank(own_name(number)) > rank(name)
            )
            if kind is None or no_bools or no_floats or too_large or unsuited:
                continue
            first = own_name(number) if sign == "<" else kind
            text = f"float('{number}')" if number == float("inf") else str(number)
            literals = f"tl.full([8], {text}, tl.{first}).to(tl.{kind})"
            result.append((f"v {sign} {text}", kind, f"v.to(tl.{kind}) {sign} {literals}"))
            if sign not in ("/", "//", "%", "<<"):
                result.append((f"{text} {sign} v", kind, f"{literals} {sign} v.to(tl.{kind})"))
    return result


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ("int1", *INTEGERS, *FLOATS))
def test_numbers_take_part_as_tensors_of_the_type_in_common(name: str) -> None:
    cases = operations_of(name)
    lines = ["def k(x, out):", "    i = tl.arange(0, 8)"]
    lines.append(f"    v = tl.load(x + i){' != 0' if name == 'int1' else ''}")
    for row, (with_number, kind, with_tensor) in enumerate(cases):
        lines.append(f"    a, b = {with_number}, {with_tensor}")
        lines.append(f'    tl.static_assert(a.dtype == b.dtype, "{with_number} {kind}")')
        lines.append(f"    tl.store(out + {8 * row} + i, (a == b).to(tl.int8))")
    x = np.resize(np.array(numbers(name), kind_of(name)), 8)
    x = x if name in ("float64", "int1") or rank(name) == 1 else np.clip(x, -4, 4).astype(x.dtype)
    out = np.zeros((len(cases), 8), np.int8)
    kernel_of("\n".join(lines))[(1,)](x, out, on="interpreter")
    wrong = [cases[row] for row in range(len(cases)) if not out[row].all()]
    assert len(cases) > 20 and not wrong, wrong


@pytest.mark.parametrize("name", INTEGERS)
def test_numbers_out_of_the_range_of_a_type_are_errors(name: str) -> None:
    ends = np.iinfo(name)
    for number in (int(ends.max) + 1, int(ends.min) - 1):
        for text in (f"v + {number}", f"{number} * v", f"tl.where(v > 0, v, {number})"):
            source = f"def k(x, out):\n    v = tl.load(x)\n    tl.store(out, {text})"
            with pytest.raises(TileirError):
                kernel_of(source)[(1,)](np.ones(1, name), np.ones(1, name), on="interpreter")


@pytest.mark.parametrize("sign", ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "<", "=="))
def test_operations_on_tiles_of_known_numbers_are_tiles(sign: str) -> None:
    source = f"""def k(x, out):
    i = tl.arange(0, 4)[:, None] * 2 + tl.arange(0, 2)[None, :]
    literals = tl.full([4, 2], 7, tl.int32) {sign} tl.full([4, 2], 2, tl.int32)
    tl.store(out + i, literals.to(tl.int32))
    tl.store(out + 8 + tl.arange(0, 4), tl.sum(literals.to(tl.int32), 1))
    tl.store(out + 12 + i, (tl.load(x + i) {sign} 2).to(tl.int32))"""
    out = np.zeros(20, np.int32)
    kernel_of(source)[(1,)](np.full(8, 7, np.int32), out, on="interpreter")
    assert out[:8].tolist() == out[12:].tolist() and out[8:12].tolist() == [2 * out[0]] * 4


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 1), (1, 2), (2, 1), (1, 1, 1), (1, 1, 4)])
def test_a_branch_is_taken_by_one_element(shape: tuple[int, ...]) -> None:
    source = f"""def k(out, n):
    if tl.full({list(shape)}, 0, tl.int32) + n > 3:
        tl.store(out, 1)"""
    for n in (3, 4):
        out = np.zeros(1, np.int32)
        if any(extent > 1 for extent in shape):
            with pytest.raises(TileirError, match="condition"):
                kernel_of(source)[(1,)](out, n, on="interpreter")
            continue
        kernel_of(source)[(1,)](out, n, on="interpreter")
        assert out[0] == (n > 3)


@pytest.mark.parametrize("kind", ("int1", *INTEGERS))
def test_pointers_move_by_integers_of_every_type(kind: str) -> None:
    """Up and down, by tiles and by scalars, as far as the type reaches within 300 elements."""
    of_bool = " != 0" if kind == "int1" else ""
    source = f"""def k(x, moves, out):
    i = tl.arange(0, 4)
    n, one = tl.load(moves + i){of_bool}, tl.load(moves + 3){of_bool}
    tl.store(out + i, tl.load(x + 300 + n))
    tl.store(out + 4 + i, tl.load(n + (x + 300)))
    tl.store(out + 8 + i, tl.load(x + 300 - n))
    tl.store(out + 12, tl.load(x + 300 + one))
    tl.store(out + 13, tl.load(x + 300 - one))"""
    ends = np.iinfo(kind_of(kind))
    reach = (0, 1, 0, 1) if kind == "int1" else (0, 1, max(ends.min, -300), min(ends.max, 300))
    moves = np.array(reach, kind_of(kind))
    out = np.zeros(14, np.int32)
    x = np.arange(-300, 301, dtype=np.int32)
    kernel_of(source)[(1,)](x, moves, out, on="interpreter")
    back = [-n for n in reach]
    assert out.tolist() == [*reach, *reach, *back, reach[3], back[3]]
