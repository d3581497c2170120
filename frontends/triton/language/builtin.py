"""Functions of the language, which only kernels call, at compile time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from tileir.builder import Builder
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.tensor import Tensor, describe


class CompileScope(Protocol):
    """The scope in which a kernel is compiled."""

    b: Builder

    def call(self, function: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Result of a function of the language or of the user's."""
        ...


@attrs.frozen(eq=False)
class Builtin:
    """A function of the language. Outside of a kernel it raises an error."""

    name: str
    apply: Callable[..., Any] = attrs.field(repr=False)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(f"tl.{self.name} is called in functions under @triton.jit only")


METHODS: dict[str, Builtin] = {}
"""Functions that are methods of tensors too, by name."""


def builtin(apply: Callable[..., Any]) -> Builtin:
    """`apply(scope, ...)` as the function of the language that has its name."""
    return Builtin(apply.__name__.rstrip("_"), apply)


def method(apply: Callable[..., Any]) -> Builtin:
    """The same, and as a method of its first argument."""
    result = builtin(apply)
    METHODS[result.name] = result
    return result


def static(value: Any, what: str) -> Any:
    """A compile-time value: a constexpr, or a tensor that is a literal. Raises KernelError."""
    if isinstance(value, Tensor):
        if value.number is None or value.shape:
            message = f"{what} must be a constexpr, not {describe(value)}: annotate a parameter "
            raise KernelError(f"{message}with tl.constexpr", "TIR1004")
        return value.number
    if isinstance(value, (tuple, list)):
        return tuple(static(item, what) for item in value)
    return value


def static_integer(value: Any, what: str) -> int:
    """A compile-time integer. Raises KernelError."""
    result = static(value, what)
    if not isinstance(result, int):
        raise KernelError(f"{what} must be an integer, not {describe(result)}", "TIR1004")
    return int(result)


def extents(shape: Sequence[Any]) -> tuple[int, ...]:
    """A shape given as one tuple or as several numbers. Raises KernelError."""
    items = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return tuple(static_integer(n, "an extent") for n in items)


def axis_of(x: Tensor, axis: Any) -> int:
    """`axis` counted from the front. Raises KernelError."""
    number = static_integer(axis, "axis")
    if not -len(x.shape) <= number < len(x.shape):
        raise KernelError(f"{describe(x)} has no axis {number}")
    return number % len(x.shape)
