"""C's operators on compile-time numbers, and on those of the host."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tileir.frontends.sources import truncating_quotient
from tileir.frontends.triton_c.errors import ProgramError


def _quotient(x: float, y: float) -> float:
    """Rounded to zero where both are integers; of floats by 0 an infinity or NaN."""
    if not isinstance(x, int) or not isinstance(y, int):
        if y == 0:
            return x * math.copysign(math.inf, y)
        return x / y
    return truncating_quotient(x, y)


def _remainder(x: float, y: float) -> float:
    integers = isinstance(x, int) and isinstance(y, int)
    return x - _quotient(x, y) * y if integers else math.fmod(x, y)


def _shift(shift: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def apply(x: int, y: int) -> int:
        if not 0 <= y < 64:
            raise ValueError("numbers have 64 bits")
        return shift(x, y)

    return apply


_BINARY: dict[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _quotient, "%": _remainder,
    "&&": lambda x, y: bool(x) and bool(y), "||": lambda x, y: bool(x) or bool(y),
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": _shift(operator.lshift),
    ">>": _shift(operator.rshift), "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip

_UNARY: dict[str, Callable[..., Any]] = {
    "-": operator.neg, "+": operator.pos, "!": operator.not_, "~": operator.invert,
}  # fmt: skip


def binary(sign: str, x: float, y: float) -> float:
    """`x sign y`. Raises ProgramError."""
    try:
        return _check_range(_BINARY[sign](x, y))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ProgramError(f"{x} {sign} {y}: {error}") from None


def unary(sign: str, x: float) -> float:
    """`sign x`. Raises ProgramError."""
    try:
        return _UNARY[sign](x)
    except TypeError as error:
        raise ProgramError(f"{sign}{x}: {error}") from None


def parse(text: str) -> float:
    """The number that C's spelling stands for. Raises ProgramError."""
    try:
        return _check_range(_parse(text.lower()))
    except ValueError:
        shown = text if len(text) < 40 else f"{text[:20]}..."
        raise ProgramError(f"`{shown}` is not a number of 64 bits") from None


def _check_range(number: float) -> float:
    """`number`. Raises ValueError if it is too large for every integer type."""
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 64:
        raise ValueError("numbers have 64 bits")
    return number


def _parse(body: str) -> float:
    if body.startswith("0x"):
        return int(body.rstrip("ul"), 16)
    if "." in body or "e" in body or body[-1] in "fh":
        return float(body.rstrip("fhl"))
    digits = body.rstrip("ul")
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits)
