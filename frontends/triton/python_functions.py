"""Python on values that are known while a kernel is compiled: which functions are called, and how
large what they give may be.

A kernel is text that the compiler reads. Compiling it must neither change anything outside, nor
take time or memory without bound. Functions of Python are therefore called only if they are known
to compute a value, or are marked `constexpr_function`.
"""

from __future__ import annotations

import builtins
import operator
import re
from collections.abc import Callable, Sized
from contextlib import suppress
from enum import Enum
from fractions import Fraction
from types import BuiltinMethodType, MethodDescriptorType, ModuleType
from typing import Any, cast

import numpy as np

from tileir.frontends.triton.errors import KernelError

MOST_BITS = 4096
"""Bits of a whole number."""
MOST_ITEMS = 1 << 16
"""Items of a tuple, characters of a text."""

_BUILTINS: tuple[Any, ...] = (
    abs, all, any, ascii, bin, bool, chr, complex, dict, divmod, enumerate, filter, float, format,
    frozenset, getattr, hasattr, hash, hex, id, int, isinstance, issubclass, iter, len, list, map,
    max, min, next, oct, ord, pow, range, repr, reversed, round, set, slice, sorted, str, sum,
    tuple, type, zip,
)  # fmt: skip
_MODULE_NAMES = (
    "cmath collections dataclasses enum fractions functools itertools math _operator numbers "
    "operator statistics string textwrap typing _functools _collections"
)
_MODULES = frozenset(_MODULE_NAMES.split())
"""Modules of the standard library whose functions compute a value, but those of `_LONG`."""
_CHANGES_NAMES = (
    "append extend insert remove pop clear sort reverse update setdefault popitem add discard"
)
_CHANGES = frozenset(_CHANGES_NAMES.split())
"""Methods that change what they belong to."""
_LONG = frozenset({"factorial", "comb", "perm", "repeat", "cycle", "count", "product", "pow"})
"""The functions of these modules that may take long; integers passed to them must be small."""
_SMALL = 64
_REACHING = frozenset({"methodcaller", "attrgetter", "make_dataclass"})
"""Functions of these modules that reach others by their names, or evaluate texts."""
_OF_NUMPY = frozenset({"prod", "sum", "amax", "amin", "max", "min", "finfo", "iinfo", "dtype"})
_OWN = ("tileir.frontends.triton.", "triton.")
_WIDTH = re.compile(r"[0-9]{5}")


def constexpr_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a Python function that computes with compile-time constants."""
    with suppress(AttributeError):  # of functions of C, which are known or refused
        function.__constexpr_function__ = True  # type: ignore[attr-defined]
    return function


def check_attribute(value: Any, name: str) -> None:
    """Raise KernelError where `name` is one of Python's own attributes, which reach everything."""
    if name.startswith("__") and name != "__name__":
        raise KernelError(f"a kernel has no access to the attribute {name}", "TIR1002")


def check_call(function: Any, arguments: list[Any], named: dict[str, Any]) -> None:
    """Raise KernelError where `function` is not known to compute a value of bounded size."""
    name = str(getattr(function, "__name__", type(function).__name__))
    if not _computes(function):
        message = (
            f"{name} is a function of Python, which is not called while compiling: decorate it "
            "with @triton.constexpr_function if it computes a value, or with @triton.jit"
        )
        raise KernelError(message, "TIR1003")
    if function in (builtins.getattr, builtins.hasattr) and len(arguments) > 1:
        check_attribute(arguments[0], str(arguments[1]))
    if getattr(function, "__constexpr_function__", False) is True:
        return
    values = [*arguments, *named.values()]
    for value in values:
        if callable(value) and not isinstance(value, type):
            check_call(value, [], {})  # which `function` may call
    _check_operands(function, values)
    if isinstance(function, (BuiltinMethodType, MethodDescriptorType)):
        _check_method(function, values)
    if name in _LONG and any(isinstance(v, int) and abs(v) > _SMALL for v in values):
        raise KernelError(f"{name}: numbers up to {_SMALL} are taken while compiling")


def fold(function: Callable[..., Any], *operands: Any) -> Any:
    """`function`, an operator of Python, of values known while compiling. Raises KernelError."""
    _check_operands(function, operands)
    try:
        result = function(*operands)
    except (ArithmeticError, LookupError, TypeError, ValueError, MemoryError) as error:
        raise KernelError(str(error) or type(error).__name__) from None
    check_size(result)
    return result


def check_size(value: Any) -> None:
    """Raise KernelError where a value is larger than a kernel's may be."""
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise KernelError(f"a whole number has at most {MOST_BITS} bits while compiling")
    elif isinstance(value, (tuple, list, str, bytes, dict)) and len(value) > MOST_ITEMS:
        raise _too_many(len(cast(Sized, value)))


def check_items(count: int) -> None:
    """Raise KernelError where `count` items are too many."""
    if count > MOST_ITEMS:
        raise _too_many(count)


def _too_many(count: int) -> KernelError:
    shown = f"{count:,}" if count < 10**20 else "so many"
    message = f"{shown} items known while compiling: there are {MOST_ITEMS:,} at most"
    return KernelError(message, "TIR1004")


def _computes(function: Any) -> bool:
    """Whether a call of `function` only computes a value."""
    if getattr(function, "__constexpr_function__", False) is True:
        return True
    if isinstance(function, (BuiltinMethodType, MethodDescriptorType)):
        owner = getattr(function, "__self__", None)
        if type(owner).__module__ == "builtins" and not isinstance(owner, ModuleType):
            return function.__name__ not in _CHANGES  # of a number, a text, a type: str.join
    module = getattr(function, "__module__", None) or getattr(type(function), "__module__", "")
    if module == "builtins":
        return any(function is each for each in _BUILTINS)
    if not isinstance(module, str):
        return False
    if _is_type(function, (tuple, Enum)):
        return True
    if isinstance(function, np.ufunc) or _is_type(function, np.generic):
        return True
    name = getattr(function, "__name__", "")
    if module in _MODULES:
        return name not in _REACHING
    return f"{module}.".startswith(_OWN) or (module == "numpy" and name in _OF_NUMPY)


def _is_type(value: Any, bases: Any) -> bool:
    return isinstance(value, type) and issubclass(value, bases)


def _check_operands(function: Any, operands: Any) -> None:
    numbers = [x for x in operands if isinstance(x, int)]
    if function in (operator.pow, builtins.pow) and len(operands) == 2 and numbers:
        base, exponent = operands
        bits = max(1, base.bit_length() - 1) if isinstance(base, int) else 1
        exact = isinstance(base, (int, Fraction)) and abs(base) not in (0, 1)
        if exact and isinstance(exponent, int) and bits * abs(exponent) > MOST_BITS:
            raise KernelError(f"a whole number has at most {MOST_BITS} bits while compiling")
    elif function is operator.lshift and numbers[1:] and numbers[1] > MOST_BITS:
        raise KernelError(f"a whole number has at most {MOST_BITS} bits while compiling")
    elif function is operator.mul and len(numbers) == 1:
        sizes = [len(x) for x in operands if isinstance(x, (str, bytes, tuple, list))]
        check_items(sizes[0] * numbers[0] if sizes else 0)
    elif function in (operator.mod, builtins.format):
        _check_widths(operands)


def _check_widths(operands: Any) -> None:
    if any(isinstance(x, str) and _WIDTH.search(x) for x in operands):
        raise KernelError("a width of a text has at most 4 digits while compiling")


def _check_method(function: Any, arguments: list[Any]) -> None:
    owner, name = getattr(function, "__self__", None), function.__name__
    if name in ("format", "format_map"):
        _check_widths([owner, *arguments])
    elif name in ("ljust", "rjust", "center", "zfill", "expandtabs", "to_bytes"):
        for number in arguments:
            check_items(number if isinstance(number, int) else 0)
    elif name in ("replace", "join", "translate"):
        size = 1
        for value in (owner, *arguments):
            size *= max(1, len(value)) if isinstance(value, (str, tuple, list, dict)) else 1
        check_items(size)
