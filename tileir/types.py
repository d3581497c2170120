"""Types: scalars, pointers, tiles, and the opaque types of the machine.

Types are interned: two equal types are one object, so `is`, `==` and hashing are a pointer
compare. `str(type)` is its syntax in `.tir`.

    i32   f32*   f32 addrspace(3)*   f32<64, 128>   f32*<64, 128>   tensor_desc<f16<64, 32>>
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from tileir.process import LockLevel, hold_at_fork


class Kind(Enum):
    """The kind of a scalar type. Integers are signless: an op determines the sign."""

    INTEGER = "integer"
    FLOAT = "float"


class AddressSpace(IntEnum):
    """Address spaces, numbered as in LLVM's NVPTX target."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 3
    CONSTANT = 4
    LOCAL = 5


_lock = threading.Lock()
hold_at_fork(_lock, LockLevel.TYPES)
_T = TypeVar("_T", bound="_Interned")
_E = TypeVar("_E")


class _Interned:
    """Base of the types: one object per distinct content, immutable, compared by identity."""

    __slots__ = ("__weakref__", "_text")
    _pool: ClassVar[WeakValueDictionary[tuple[Any, ...], Any]] = WeakValueDictionary()
    _text: str

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<type {self._text}>"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"types are immutable: cannot set {name}")

    @classmethod
    def _intern(cls: type[_T], key: tuple[Any, ...], fill: Callable[[_T], None]) -> _T:
        """The one object of `cls` with `key`, made by `fill` when it is new."""
        pool = cls._pool
        result = pool.get((cls, *key))
        if result is not None:
            return result
        with _lock:
            result = pool.get((cls, *key))
            if result is None:
                result = object.__new__(cls)
                fill(result)
                pool[(cls, *key)] = result
            return result


def _set(obj: object, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(obj, name, value)


class Scalar(_Interned):
    """A scalar type: `bits` wide, integer or float. `i1` takes one byte in memory."""

    __slots__ = ("bits", "kind", "name")
    name: str
    kind: Kind
    bits: int

    def __new__(cls, name: str, kind: Kind, bits: int) -> Scalar:
        def fill(t: Scalar) -> None:
            _set(t, name=name, kind=kind, bits=bits, _text=name)

        return cls._intern((name,), fill)

    def __reduce__(self) -> tuple[Any, ...]:
        return scalar, (self.name,)

    @property
    def is_integer(self) -> bool:
        return self.kind is Kind.INTEGER

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def bytes(self) -> int:
        """Bytes in memory; sub-byte types take one."""
        return max(1, self.bits // 8)


I1, I4, I8, I16, I32, I64 = (Scalar(f"i{n}", Kind.INTEGER, n) for n in (1, 4, 8, 16, 32, 64))
F4E2M1 = Scalar("f4e2m1", Kind.FLOAT, 4)
F8E4M3 = Scalar("f8e4m3", Kind.FLOAT, 8)
F8E5M2 = Scalar("f8e5m2", Kind.FLOAT, 8)
F8E8M0 = Scalar("f8e8m0", Kind.FLOAT, 8)
F16 = Scalar("f16", Kind.FLOAT, 16)
BF16 = Scalar("bf16", Kind.FLOAT, 16)
F32 = Scalar("f32", Kind.FLOAT, 32)
F64 = Scalar("f64", Kind.FLOAT, 64)

SCALARS: dict[str, Scalar] = {
    s.name: s
    for s in (I1, I4, I8, I16, I32, I64, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, BF16, F32, F64)
}
"""Every scalar type by its canonical name."""

ALIASES: dict[str, Scalar] = {
    "half": F16, "float": F32, "double": F64, "fp16": F16, "fp32": F32, "fp64": F64,
}  # fmt: skip
"""Spellings that are read as, and never printed for, a scalar type."""


def scalar(name: str) -> Scalar:
    """The scalar type called `name` (canonical names only). Raises KeyError."""
    return SCALARS[name]


class Pointer(_Interned):
    """A pointer to `pointee`, a scalar or a pointer, in address space `space`."""

    __slots__ = ("pointee", "space")
    pointee: Element
    space: AddressSpace

    bits: ClassVar[int] = 64
    bytes: ClassVar[int] = 8
    is_integer: ClassVar[bool] = False
    is_float: ClassVar[bool] = False

    def __new__(cls, pointee: Element, space: int = AddressSpace.GLOBAL) -> Pointer:
        if not isinstance(pointee, (Scalar, Pointer)):
            raise TypeError(f"a pointer points to a scalar or a pointer, not {pointee!r}")
        try:
            where = AddressSpace(space)
        except ValueError:
            spaces = ", ".join(str(int(s)) for s in AddressSpace)
            message = f"an address space is one of {spaces}, not {space!r}"
            hint = "a pointer to pointers is pointer(pointer(F32))"
            raise ValueError(f"{message}; {hint}") from None

        def fill(t: Pointer) -> None:
            suffix = "" if where is AddressSpace.GLOBAL else f" addrspace({int(where)})"
            _set(t, pointee=pointee, space=where, _text=f"{pointee}{suffix}*")

        return cls._intern((pointee, where), fill)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pointer, (self.pointee, int(self.space))


Element: TypeAlias = Scalar | Pointer
"""The element types of tiles."""


class Tile(_Interned):
    """A statically shaped array of scalars or pointers; the rank and every extent are at least 1.

    `layout` states which thread owns which element; it is None before layouts are assigned. It is
    any hashable object whose `str()` is its syntax.
    """

    __slots__ = ("element", "layout", "shape", "size")
    element: Element
    shape: tuple[int, ...]
    layout: Any
    size: int

    def __new__(cls, element: Element, shape: tuple[int, ...], layout: Any = None) -> Tile:
        if not isinstance(element, (Scalar, Pointer)):
            raise TypeError(f"elements of a tile are scalars or pointers, not {element!r}")
        if not isinstance(shape, tuple):
            raise TypeError(f"tile extents are a tuple, not {shape!r}")
        if not shape or not all(isinstance(n, int) and 0 < n for n in shape):
            raise ValueError(f"tile extents are positive integers, not {shape}")

        def fill(t: Tile) -> None:
            dims = ", ".join(map(str, shape))
            suffix = "" if layout is None else f", {layout}"
            _set(t, element=element, shape=shape, layout=layout, size=math.prod(shape))
            _set(t, _text=f"{element}<{dims}{suffix}>")

        return cls._intern((element, shape, layout), fill)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tile, (self.element, self.shape, self.layout)


class Descriptor(_Interned):
    """A tensor descriptor: a strided global tensor accessed in blocks of `block`."""

    __slots__ = ("block",)
    block: Tile

    def __new__(cls, block: Tile) -> Descriptor:
        def fill(t: Descriptor) -> None:
            _set(t, block=block, _text=f"tensor_desc<{block}>")

        return cls._intern((block,), fill)

    def __reduce__(self) -> tuple[Any, ...]:
        return Descriptor, (self.block,)


class Buffer(_Interned):
    """A buffer holding `count` tiles of the shape and layout of `tile`, `space` being `shared`, by
    the threads of a block, or `private`: each thread holds the elements that the layout gives it.
    """

    __slots__ = ("count", "space", "tile")
    tile: Tile
    count: int
    space: str

    def __new__(cls, tile: Tile, count: int = 1, space: str = "shared") -> Buffer:
        if space not in BUFFER_SPACES:
            raise ValueError(f"a buffer is {' or '.join(BUFFER_SPACES)}, not {space}")

        def fill(t: Buffer) -> None:
            times = "" if count == 1 else f", {count}"
            _set(t, tile=tile, count=count, space=space, _text=f"{space}<{tile}{times}>")

        return cls._intern((tile, count, space), fill)

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffer, (self.tile, self.count, self.space)


BUFFER_SPACES = ("shared", "private")
"""The memory spaces of a `Buffer`, as its type begins."""


class Opaque(_Interned):
    """A type with nothing inside: `void`, `token`, `mbarrier`."""

    __slots__ = ()

    def __new__(cls, name: str) -> Opaque:
        return cls._intern((name,), lambda t: _set(t, _text=name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Opaque, (self._text,)


VOID = Opaque("void")
TOKEN = Opaque("token")
MBARRIER = Opaque("mbarrier")
OPAQUES: dict[str, Opaque] = {str(t): t for t in (VOID, TOKEN, MBARRIER)}

Type: TypeAlias = Scalar | Pointer | Tile | Descriptor | Buffer | Opaque


def as_tuple(items: Iterable[_E]) -> tuple[_E, ...]:
    """A converter of fields. attrs reads the signature of a converter, and Python parses that of
    `tuple` with its tokenizer."""
    return tuple(items)


def tile(element: Element, shape: tuple[int, ...], layout: Any = None) -> Type:
    """Return the tile type of `element` and `shape`, or the scalar itself for an empty shape."""
    return Tile(element, shape, layout) if shape else element


def element_of(type: Type) -> Type:
    """Element type of a tile; the type itself where it is not a tile."""
    return type.element if isinstance(type, Tile) else type


def shape_of(type: Type) -> tuple[int, ...]:
    """Shape of a tile; `()` for everything else."""
    return type.shape if isinstance(type, Tile) else ()


def with_element(type: Type, element: Element) -> Type:
    """`type` with its element replaced: same shape, same layout."""
    return Tile(element, type.shape, type.layout) if isinstance(type, Tile) else element


def pointer(pointee: Element, space: int = AddressSpace.GLOBAL) -> Pointer:
    """Return the pointer type `pointee*` in address space `space`."""
    return Pointer(pointee, space)
