"""Integers and addresses of the form `base + step * lane`, which arithmetic keeps in that form."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from tileir.backend.cpu.lane_values import (
    WIDTH,
    AffineValue,
    Lanes,
    VectorValue,
    number,
    scalar_type,
    stored_type,
    vector_type,
)
from tileir.backend.cpu.values import Values, lane_mask
from tileir.types import I32, I64, Element, Pointer

_FOLDED: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "shl": lambda a, b: a << b if 0 <= b < 64 else 0,
}  # fmt: skip
_ORDER: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_LAST = WIDTH - 1


class Integers(Values):
    """Arithmetic on values that are linear in the lane."""

    def linear(self, name: str, element: Element, a: Lanes, b: Lanes, flags: str) -> Lanes | None:
        """The result of `name` on `a` and `b` if it is linear in the lane or uniform; None if it is
        neither, or if an instruction computes it faster."""
        if element not in (I32, I64) or isinstance(a, VectorValue) or isinstance(b, VectorValue):
            return None
        if isinstance(a, str) and isinstance(b, str):
            return self._fold(name, element, a, b)
        if name in ("and", "lshr"):
            return _of_lane(name, a, b)
        x, y = self._as_linear(element, a), self._as_linear(element, b)
        step = _step(name, x, y)
        if step is None:
            return None
        base = self.uniform_op(name, element, x.base, y.base)
        long = ""
        if x.long and y.long and ("nsw" in flags or _are_numbers(x.long, y.long)):
            long = self.uniform_op(name, I64, x.long, y.long)
            if "nsw" not in flags and not _fits_i32(long, step):
                long = ""
        term = self.conjunction(x.condition or None, y.condition or None)
        slow: Callable[[], str] | None = None
        if term is not None:
            slow = lambda: self._slowly(name, element, x, y)  # noqa: E731
        if step == 0 and term is None:
            return base
        return AffineValue(base, step, long, str(term or ""), slow)

    def _fold(self, name: str, element: Element, a: str, b: str) -> str | None:
        x, y = number(a), number(b)
        if name in _FOLDED and x is not None and y is not None:
            return _wrap(_FOLDED[name](x, y), element.bits)
        if name in ("add", "sub", "shl") and y == 0:
            return a
        if name == "add" and x == 0:
            return b
        if name == "mul" and 1 in (x, y):
            return b if x == 1 else a
        return None

    def uniform_op(self, name: str, element: Element, a: str, b: str) -> str:
        """The result of `name` on two uniform operands."""
        shared = self._fold(name, element, a, b)
        return (
            shared if shared is not None else self.emit(f"{name} {scalar_type(element)} {a}, {b}")
        )

    def _as_linear(self, element: Element, x: str | AffineValue) -> AffineValue:
        if isinstance(x, AffineValue):
            return x
        if number(x) is not None or element is I64:
            return AffineValue(x, 0, x)
        return AffineValue(x, 0, self.emit(f"sext i32 {x} to i64"))

    def _slowly(self, name: str, element: Element, x: AffineValue, y: AffineValue) -> str:
        kind = vector_type(element)
        return self.emit(f"{name} {kind} {self.wide(element, x)}, {self.wide(element, y)}")

    def linear_cast(
        self, name: str, source: Element, target: Element, a: AffineValue
    ) -> Lanes | None:
        """A linear integer converted to another width; None if the result is not linear."""
        if (source, target) == (I64, I32) and name == "trunc":
            base = number(a.base)
            short = self.emit(f"trunc i64 {a.base} to i32") if base is None else _wrap(base, 32)
            slow = (lambda: self._cast_slowly(name, I64, I32, a)) if a.condition else None
            return AffineValue(short, a.step, "", a.condition, slow)
        if (source, target) != (I32, I64) or name not in ("sext", "zext"):
            return None
        constant = number(a.long) if a.long else None
        if name == "zext" and (constant is None or constant < 0 or constant + _LAST * a.step < 0):
            return None
        if a.long:
            slow = (lambda: self._cast_slowly(name, I32, I64, a)) if a.condition else None
            return AffineValue(a.long, a.step, a.long, a.condition, slow)
        fits = self.conjunction(self._fits(a), a.condition or None)
        long = self.emit(f"sext i32 {a.base} to i64")
        return AffineValue(
            long, a.step, long, str(fits), lambda: self._cast_slowly(name, I32, I64, a)
        )

    def _fits(self, a: AffineValue) -> str:
        """The condition that no lane of an i32 wraps."""
        reach = a.step * _LAST
        if abs(reach) >= 1 << 32:
            return self.emit(f"icmp sgt i32 {a.base}, {(1 << 31) - 1}")  # never
        if reach >= 0:
            return self.emit(f"icmp sle i32 {a.base}, {max((1 << 31) - 1 - reach, -(1 << 31))}")
        return self.emit(f"icmp sge i32 {a.base}, {min(-(1 << 31) - reach, (1 << 31) - 1)}")

    def _cast_slowly(self, name: str, source: Element, target: Element, a: AffineValue) -> str:
        old, new = vector_type(source), vector_type(target)
        return self.emit(f"{name} {old} {self.wide(source, a)} to {new}")

    def fold_comparison(self, predicate: str, element: Element, a: Lanes, b: Lanes) -> Lanes | None:
        """A comparison whose result is known now, of literals, or of the lane index with a literal;
        None for others."""
        if element not in (I32, I64) or isinstance(a, VectorValue) or isinstance(b, VectorValue):
            return None
        parts: list[tuple[int, int]] = []
        for x in (a, b):
            base = number(x) if isinstance(x, str) else number(x.base)
            if base is None or (isinstance(x, AffineValue) and x.condition):
                return None
            parts.append((base, 0 if isinstance(x, str) else x.step))
        signed = predicate[0] != "u"
        ones = frozenset(
            lane for lane in range(WIDTH)
            if _ORDER[predicate[-2:]](*(_at(p, lane, element.bits, signed) for p in parts))
        )  # fmt: skip
        if len(ones) in (0, WIDTH):
            return "true" if ones else "false"
        return lane_mask(ones)

    # Addresses ----------------------------------------------------------------------------------

    def advance(self, kind: Pointer, pointer: Lanes, index: Lanes, width: Element) -> Lanes:
        """The pointer advanced by `index` elements."""
        moved = index if width is I64 else self.convert("sext", width, I64, index)
        if isinstance(moved, str) and number(moved) == 0:
            return pointer
        return self.offset_pointer(
            kind, pointer, moved, stored_type(kind.pointee), kind.pointee.bytes
        )

    def convert(self, name: str, source: Element, target: Element, a: Lanes) -> Lanes:
        """Convert as the thread interface defines."""
        raise NotImplementedError

    def offset_pointer(
        self, kind: Pointer, pointer: Lanes, index: Lanes, unit: str, size: int
    ) -> Lanes:
        """`pointer` advanced by `index` (i64) units of `size` bytes."""
        if isinstance(pointer, VectorValue) or isinstance(index, VectorValue):
            return VectorValue(self._offset_pointer_slowly(kind, pointer, index, unit))
        start, by = self._as_linear(I64, pointer), self._as_linear(I64, index)
        text = f"getelementptr {unit}, {scalar_type(kind)} {start.base}, i64 {by.base}"
        base = start.base if number(by.base) == 0 else self.emit(text)
        step, term = (
            start.step + size * by.step,
            self.conjunction(start.condition or None, by.condition or None),
        )
        if step == 0 and term is None:
            return base
        slow = (lambda: self._offset_pointer_slowly(kind, pointer, index, unit)) if term else None
        return AffineValue(base, step, "", str(term or ""), slow)

    def _offset_pointer_slowly(self, kind: Pointer, pointer: Lanes, index: Lanes, unit: str) -> str:
        start, by = f"{scalar_type(kind)} {pointer}", f"i64 {index}"
        if not isinstance(pointer, str):
            start = f"{vector_type(kind)} {self.wide(kind, pointer)}"
        if not isinstance(index, str):
            by = f"{vector_type(I64)} {self.wide(I64, index)}"
        if isinstance(pointer, str) and isinstance(index, str):
            by = f"{vector_type(I64)} {self.wide(I64, index)}"
        return self.emit(f"getelementptr {unit}, {start}, {by}")


def _are_numbers(*words: str) -> bool:
    return all(number(word) is not None for word in words)


def _fits_i32(long: str, step: int) -> bool:
    """Whether all lanes of `long + step * lane` are in the range of i32; `long` is a literal."""
    first = number(long)
    if first is None:
        return False
    last = first + _LAST * step
    return -(1 << 31) <= min(first, last) and max(first, last) < 1 << 31


def _step(name: str, x: AffineValue, y: AffineValue) -> int | None:
    """The step of the result of `name` on both; None if the result is not linear."""
    if name in ("add", "sub"):
        return x.step + y.step if name == "add" else x.step - y.step
    left, right = number(x.base), number(y.base)
    if name == "mul" and y.step == 0 and right is not None:
        return x.step * right
    if name == "mul" and x.step == 0 and left is not None:
        return y.step * left
    if name == "shl" and y.step == 0 and right is not None and 0 <= right < 31:
        return x.step << right
    return None


def _of_lane(name: str, a: Lanes, b: Lanes) -> Lanes | None:
    """A bit field of the lane index that is the whole index or 0; else None."""
    if not isinstance(a, AffineValue) or not isinstance(b, str) or a.condition:
        return None
    field = number(b)
    if (a.base, a.step) != ("0", 1) or field is None:
        return None
    if name == "and" and field & _LAST in (0, _LAST):
        return a if field & _LAST else "0"
    return "0" if name == "lshr" and field >= 5 else None


def _at(part: tuple[int, int], lane: int, bits: int, signed: bool) -> int:
    value = int(_wrap(part[0] + part[1] * lane, bits))
    return value if signed or value >= 0 else value + (1 << bits)


def _wrap(value: int, bits: int) -> str:
    half = 1 << (bits - 1)
    return str((value + half) % (2 * half) - half)
