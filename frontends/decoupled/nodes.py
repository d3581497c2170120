"""The tree of a kernel definition. Nodes that mean the same are equal, wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from tileir import Location


@attrs.frozen
class Node:
    """A part of a tensor expression; `place` is where it was written."""

    place: Location | None = attrs.field(default=None, eq=False, kw_only=True)

    @property
    def operands(self) -> tuple[Node, ...]:
        """The expressions it is made of."""
        return ()


@attrs.frozen(cache_hash=True)
class Number(Node):
    """A literal."""

    value: int | float


@attrs.frozen(cache_hash=True)
class ScalarInput(Node):
    """The value of a `SIn`."""

    name: str


@attrs.frozen(cache_hash=True)
class Label(Node):
    """The position along a dimension, as a number."""

    name: str


@attrs.frozen(cache_hash=True)
class Access(Node):
    """A tensor at positions: `A[x, y]`."""

    name: str
    labels: tuple[str, ...]


@attrs.frozen(cache_hash=True)
class Unary(Node):
    """`+x` and `-x`."""

    op: str
    value: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.value,)


@attrs.frozen(cache_hash=True)
class Binary(Node):
    """An operator between two expressions."""

    op: str
    left: Node
    right: Node

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.left, self.right


@attrs.frozen(cache_hash=True)
class Call(Node):
    """A function applied elementwise."""

    name: str
    arguments: tuple[Node, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.arguments


@attrs.frozen(cache_hash=True)
class ReductionPart:
    """The part of a reduction that one block works on: `size` positions from `size` times the
    position along `label`."""

    label: str
    size: int


@attrs.frozen(cache_hash=True)
class Reduction(Node):
    """`rsum(value, k)`, `rmax`, `rmin`; and `rdot(left, right, k)`, of two values."""

    op: str
    values: tuple[Node, ...]
    label: str
    part: ReductionPart | None = None

    @property
    def operands(self) -> tuple[Node, ...]:
        return self.values


@attrs.frozen(cache_hash=True)
class Length(Node):
    """`len(x)`: the size of a dimension."""

    label: str


@attrs.frozen(cache_hash=True)
class Reshape(Node):
    """`reshape(value, x, 1)`; None is an extent of one."""

    value: Node
    shape: tuple[str | None, ...]

    @property
    def operands(self) -> tuple[Node, ...]:
        return (self.value,)


@attrs.frozen(cache_hash=True)
class ProgramId(Node):
    """`program_id()`: which program instance computes this."""


Shape: TypeAlias = tuple["str | None", ...]
"""Labels of the dimensions; None is an extent of one."""


# Statements -------------------------------------------------------------------------------------


@attrs.frozen
class Declaration:
    """`Func f, g;`."""

    kind: str
    names: tuple[tuple[str, Location], ...]


@attrs.frozen
class Definition:
    """`f[x, y] = expression;`."""

    name: str
    labels: tuple[str, ...]
    value: Node
    place: Location


@attrs.frozen
class Argument:
    """An argument of a directive: `x`, `8`, `x:8` or `x:xi/8`."""

    name: str | None
    number: int | None
    inner: str | None
    place: Location


@attrs.frozen
class Directive:
    """`f.primitive(arguments);`."""

    name: str
    primitive: str
    arguments: tuple[Argument, ...]
    place: Location


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, each as often as it stands there."""
    yield node
    for operand in node.operands:
        yield from walk(operand)


def accesses(node: Node) -> Iterator[Access]:
    """The accesses in `node`."""
    return (access for access in walk(node) if isinstance(access, Access))
