"""`constexpr`, `range` and `static_range`: names that control the compiler."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, cast

import attrs


class constexpr:  # noqa: N801 - Triton's name
    """A compile-time value: the annotation of a parameter or variable, or a wrapper. Arithmetic and
    comparisons with it return a constexpr, on the host too."""

    def __init__(self, value: Any) -> None:
        self.value: Any = unwrap(value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __str__(self) -> str:
        return str(self.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.value(*arguments, **keywords)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrap(index)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "value":
            raise AttributeError(name)
        return getattr(self.value, name)

    def __eq__(self, other: object) -> Any:
        return constexpr(self.value == unwrap(other))

    def __ne__(self, other: object) -> Any:
        return constexpr(self.value != unwrap(other))

    def logical_and(self, other: Any) -> constexpr:
        """`self and other`."""
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        """`self or other`."""
        return constexpr(self.value or unwrap(other))


def unwrap(value: Any) -> Any:
    """The value of a constexpr, in tuples and lists too; any other value unchanged."""
    if isinstance(value, constexpr):
        return unwrap(value.value)
    if isinstance(value, (tuple, list)):
        items = cast("tuple[Any, ...]", value)
        result = [unwrap(item) for item in items]
        if all(a is b for a, b in zip(result, items, strict=True)):
            return value
        return getattr(type(items), "_make", type(items))(result)
    return value


def _operators() -> None:
    """Give `constexpr` Python's operators."""

    def unary(apply: Callable[[Any], Any]) -> Callable[[constexpr], constexpr]:
        return lambda x: constexpr(apply(x.value))

    def binary(apply: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
        return lambda x, y: constexpr(apply(x.value, unwrap(y)))

    def reflected_binary(apply: Callable[[Any, Any], Any]) -> Callable[[constexpr, Any], constexpr]:
        return lambda x, y: constexpr(apply(unwrap(y), x.value))

    for name in ("neg", "pos", "invert", "abs"):
        setattr(constexpr, f"__{name}__", unary(getattr(operator, f"__{name}__")))
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
        "rshift",
    ):  # fmt: skip
        apply = getattr(operator, f"__{name}__")
        setattr(constexpr, f"__{name}__", binary(apply))
        setattr(constexpr, f"__r{name}__", reflected_binary(apply))
    for name in ("lt", "le", "gt", "ge"):
        setattr(constexpr, f"__{name}__", binary(getattr(operator, f"__{name}__")))


_operators()


@attrs.frozen
class range:  # noqa: N801
    """`range` with requests to the compiler: `num_stages` of software pipelining,
    `loop_unroll_factor`; the others are read and have no effect."""

    arg1: Any
    arg2: Any = None
    step: Any = 1
    num_stages: Any = None
    loop_unroll_factor: Any = None
    disallow_acc_multi_buffer: Any = False
    flatten: Any = False
    warp_specialize: Any = False
    disable_licm: Any = False

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        """Low, high and step."""
        return (0, self.arg1, self.step) if self.arg2 is None else (self.arg1, self.arg2, self.step)


@attrs.frozen
class static_range:  # noqa: N801
    """A `range` whose loop is unrolled at compile time."""

    arg1: Any
    arg2: Any = None
    step: Any = 1

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        """Low, high and step."""
        return (0, self.arg1, self.step) if self.arg2 is None else (self.arg1, self.arg2, self.step)
