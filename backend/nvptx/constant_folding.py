"""Integer arithmetic on literals while text is emitted, so that LLVM has less to parse.

Only folds without a new instruction are done here: an operation of two literals, and operations
whose result is one of the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileir.backend.nvptx.text import literal
from tileir.types import Element, Scalar


def fold_constants(name: str, element: Element, a: str, b: str) -> str | None:
    """The operand that equals `name` of `a` and `b`, one of which is a literal; None where no
    operand does. `name` is one of LLVM's binary instructions, without flags."""
    if not isinstance(element, Scalar) or not element.is_integer:
        return None
    x, y = _number(a), _number(b)
    if x is not None and y is not None:
        compute = _COMPUTED.get(name)
        return None if compute is None else _literal(element, compute(x, y))
    if y is not None:
        return _by_literal(name, element, a, y)
    return _by_literal(name, element, b, x) if x is not None and name in _COMMUTATIVE else None


def is_literal(handle: str) -> bool:
    """Whether a handle is no value and no symbol."""
    return handle[0] not in "%@"


def _by_literal(name: str, element: Scalar, a: str, y: int) -> str | None:
    """`a`, or a literal, if that is what `name` of `a` and the number `y` is."""
    if y == 0:
        return a if name in _ZERO_KEEPS else "0" if name in ("mul", "and") else None
    if y == 1 and element.bits > 1:
        return a if name in ("mul", "udiv", "sdiv") else None
    return a if y == -1 and name == "and" else None


def _number(handle: str) -> int | None:
    """The number of a literal, as it is written: negative ones for those with the highest bit."""
    return int(handle) if handle[0] in "-0123456789" and "x" not in handle else None


def _literal(element: Scalar, number: int) -> str:
    return literal(element, number & ((1 << element.bits) - 1))


_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor"})
_ZERO_KEEPS = frozenset({"add", "sub", "or", "xor", "shl", "lshr", "ashr"})
_COMPUTED: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}
