"""Type patterns: the types of the operands and results of an op.

The declaration of each operand and result has a pattern. The patterns of an op determine the check
of its operands, the type of a literal written without one, the inferred result types, its
documentation and its cells in the op matrix.

    T = Var("T", INTEGERS)
    lhs: Operand = operand(T)           same type on both sides
    mask: Operand = operand(Shaped(I1, T))   i1 at the shape of T
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Protocol, TypeAlias

from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I16,
    I32,
    I64,
    Element,
    Pointer,
    Scalar,
    Tile,
    Type,
    element_of,
    tile,
    with_element,
)

Bindings: TypeAlias = MutableMapping[str, Type]
"""The types of the type variables of a signature."""


class Elements:
    """A named set of element types."""

    def __init__(self, name: str, scalars: frozenset[Scalar], pointers: bool = False) -> None:
        self.name, self.scalars, self.pointers = name, scalars, pointers

    def __contains__(self, element: object) -> bool:
        return element in self.scalars or (self.pointers and isinstance(element, Pointer))

    def __or__(self, other: Elements) -> Elements:
        return Elements(
            f"{self.name} or {other.name}",
            self.scalars | other.scalars,
            self.pointers or other.pointers,
        )


def elements(name: str, *scalars: Scalar, pointers: bool = False) -> Elements:
    """The set of `scalars` (and every pointer), called `name` in messages."""
    return Elements(name, frozenset(scalars), pointers)


BOOL = elements("i1", I1)
INTEGERS = elements("integer", I1, I8, I16, I32, I64)
INDICES = elements("integer of 8 bits or more", I8, I16, I32, I64)
FLOATS = elements("float", F16, BF16, F32, F64)
SMALL_FLOATS = elements("8-bit float", F8E4M3, F8E5M2)
PACKED = elements("packed", I4, F4E2M1, F8E8M0)
POINTERS = elements("pointer", pointers=True)
NUMBERS = INTEGERS | FLOATS
STORABLE = elements(
    "storable", I1, I8, I16, I32, I64, F8E4M3, F8E5M2, F8E8M0, F16, BF16, F32, F64, pointers=True
)
ANY_ELEMENT = elements(
    "any element", *(I1, I4, I8, I16, I32, I64), *(F4E2M1, F8E4M3, F8E5M2, F8E8M0),
    *(F16, BF16, F32, F64), pointers=True,
)  # fmt: skip


class Pattern(Protocol):
    """A description of one type in terms of an op's type variables."""

    def match(self, type: Type, bound: Bindings) -> str | None:
        """Bind variables so that the pattern describes `type`; else what was expected."""
        ...

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        """The type the pattern describes, or None while a variable is unbound."""
        ...


class TypeVariable:
    """A scalar or tile type with an element of `allowed`; every occurrence is one type.

    `scalar` restricts it to rank 0 (True) or to tiles (False).
    """

    def __init__(self, name: str, allowed: Elements, scalar: bool | None = None) -> None:
        self.name, self.allowed, self.scalar = name, allowed, scalar

    def match(self, type: Type, bound: Bindings) -> str | None:
        binding = bound.setdefault(self.name, type)
        if binding is not type:
            return str(binding)
        if element_of(type) not in self.allowed or self.scalar is isinstance(type, Tile):
            return str(self)
        return None

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        return bound.get(self.name)

    def __str__(self) -> str:
        form = {None: "scalar or tile", True: "scalar", False: "tile"}[self.scalar]
        return f"{self.allowed.name} {form}"


class Shaped:
    """`element` at the shape (and layout) of variable `like`.

    `element` is one scalar type or another variable's name, which then binds the whole type.
    """

    def __init__(
        self, element: Scalar | Elements, like: TypeVariable, name: str | None = None
    ) -> None:
        self.element, self.like, self.name = element, like, name

    def match(self, type: Type, bound: Bindings) -> str | None:
        if self.name is not None and bound.setdefault(self.name, type) is not type:
            return str(bound[self.name])
        like, element = bound.get(self.like.name), element_of(type)
        if isinstance(self.element, Elements):
            fits = element in self.element
        else:
            fits = element is self.element
        if not fits or not isinstance(element, (Scalar, Pointer)):
            return str(self)
        if like is not None and with_element(like, element) is not type:
            return str(with_element(like, element))
        return None

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        if self.name is not None and self.name in bound:
            return bound[self.name]
        like = bound.get(self.like.name)
        if like is None or isinstance(self.element, Elements):
            return None
        return with_element(like, self.element)

    def __str__(self) -> str:
        what = self.element.name if isinstance(self.element, Elements) else str(self.element)
        return f"{what} at the shape of {self.like.name}"


class ElementOf:
    """The scalar element type of variable `like`."""

    def __init__(self, like: TypeVariable) -> None:
        self.like = like

    def match(self, type: Type, bound: Bindings) -> str | None:
        like = bound.get(self.like.name)
        return None if like is None or element_of(like) is type else str(element_of(like))

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        like = bound.get(self.like.name)
        return None if like is None else element_of(like)

    def __str__(self) -> str:
        return f"element of {self.like.name}"


class PointeeOf:
    """The pointee of the variable `like`, a pointer or tile of pointers, at the same shape."""

    def __init__(self, like: TypeVariable) -> None:
        self.like = like

    def match(self, type: Type, bound: Bindings) -> str | None:
        expected = self.build(bound)
        return None if expected is None or expected is type else str(expected)

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        like = bound.get(self.like.name)
        if like is None or not isinstance(element := element_of(like), Pointer):
            return None
        return with_element(like, element.pointee)

    def __str__(self) -> str:
        return f"pointee of {self.like.name}"


class ExactType:
    """One given type."""

    def __init__(self, type: Type) -> None:
        self.type = type

    def match(self, type: Type, bound: Bindings) -> str | None:
        return None if type is self.type else str(self.type)

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        return self.type

    def __str__(self) -> str:
        return str(self.type)


class OneOf:
    """A type of one of the classes `kinds`, e.g. any `Descriptor`; binds `name`."""

    def __init__(self, name: str, kinds: tuple[type, ...]) -> None:
        self.name, self.kinds = name, kinds

    def match(self, type: Type, bound: Bindings) -> str | None:
        binding = bound.setdefault(self.name, type)
        if binding is not type:
            return str(binding)
        return None if isinstance(type, self.kinds) else str(self)

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        return bound.get(self.name)

    def __str__(self) -> str:
        return " or ".join(k.__name__.lower() for k in self.kinds)


class Each:
    """A scalar or tile type with an element of `allowed`; occurrences may differ.

    `scalar` restricts it to rank 0 (True) or to tiles (False).
    """

    def __init__(self, allowed: Elements, scalar: bool | None = None) -> None:
        self.allowed, self.scalar = allowed, scalar

    def match(self, type: Type, bound: Bindings) -> str | None:
        fits = element_of(type) in self.allowed and self.scalar is not isinstance(type, Tile)
        return None if fits else str(self)

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        return None

    def __str__(self) -> str:
        return str(TypeVariable("", self.allowed, self.scalar))


class Anything:
    """Any type; literals must be written with theirs."""

    def match(self, type: Type, bound: Bindings) -> str | None:
        return None

    def build(self, bound: Mapping[str, Type]) -> Type | None:
        return None

    def __str__(self) -> str:
        return "any type"


ANYTHING = Anything()


def row(element: Element, *shape: int) -> Type:
    """Shorthand for a tile (or scalar) type in tests and documentation."""
    return tile(element, shape)
