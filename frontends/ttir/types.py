"""Types of TTIR as types of the IR."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TypeAlias

import attrs

from tileir import types
from tileir.frontends.ttir.errors import UnsupportedStatement
from tileir.types import Descriptor, Element, Pointer, Scalar, Tile, Type, pointer

_SCALARS: dict[str, Element] = {
    "i1": types.I1, "i8": types.I8, "i16": types.I16, "i32": types.I32, "i64": types.I64,
    "f16": types.F16, "bf16": types.BF16, "f32": types.F32, "f64": types.F64,
    "f8E4M3FN": types.F8E4M3, "f8E5M2": types.F8E5M2,
}  # fmt: skip

_TENSOR = re.compile(r"(?:tensor)?<((?:\d+x)+)(.*)>")

_DEEPEST = 32
"""Types within types that are read."""


@attrs.frozen(eq=False)
class BlockPointerType:
    """`!tt.ptr<tensor<16x32xf16>>`, up to Triton 3.7: a pointer to a block of an array in memory.
    No value of the IR has it."""

    block: Tile

    def __str__(self) -> str:
        return f"a pointer to a block of {self.block}"


Stated: TypeAlias = Type | BlockPointerType
"""A type that a text states."""


def value_type(kind: Stated) -> Type:
    """The type, where values of the IR have it. Raises UnsupportedStatement."""
    if isinstance(kind, BlockPointerType):
        raise UnsupportedStatement(f"{kind} is not supported")
    return kind


@cache
def block_pointer_type(block: Tile) -> BlockPointerType:
    """The type of pointers to such blocks, one object for each."""
    return BlockPointerType(block)


@lru_cache(1024)
def parse_stated_type(text: str) -> Stated:
    """The type written as `text`, without spaces; types of block pointers too. Raises
    UnsupportedStatement."""
    if text.startswith("!tt.ptr<tensor<") and text.endswith(">"):
        block = parse_type(text.removeprefix("!tt.ptr<")[:-1])
        if isinstance(block, Tile):
            return block_pointer_type(block)
    return parse_type(text)


def parse_type(text: str) -> Type:
    """The type written as `text`, without spaces. Raises UnsupportedStatement."""
    if text.count("<") > _DEEPEST:
        raise UnsupportedStatement(f"types are nested at most {_DEEPEST} deep")
    result = _TENSOR.fullmatch(text)
    if result:
        shape = tuple(int(n) for n in result[1][:-1].split("x"))
        if 0 in shape:
            raise UnsupportedStatement(f"{text} has no elements")
        return Tile(_element(re.sub(r",#.*", "", result[2])), shape)
    if text in _SCALARS:
        return _SCALARS[text]
    if text.startswith(("!tt.ptr<", "<")) and text.endswith(">"):
        inside = text[text.index("<") + 1 : -1]
        return pointer(_element(re.sub(r",\d+$", "", inside)))
    if text.startswith("!tt.tensordesc<"):
        return parse_descriptor(text.removeprefix("!tt.tensordesc"))
    raise UnsupportedStatement(f"type {text} is not supported")


def _element(text: str) -> Element:
    element = parse_type(text)
    if not isinstance(element, (Scalar, Pointer)):
        raise UnsupportedStatement(f"elements are numbers or pointers, not {text}")
    return element


def parse_descriptor(text: str) -> Descriptor:
    """The type of a descriptor of blocks `<16x32xf16>` or `<tensor<16x32xf16>>`. A sign of its
    element is dropped. Raises UnsupportedStatement."""
    inside = text[1:-1] if text.startswith("<tensor<") else text
    block = parse_type(re.sub(r"x[su]i(\d+)", r"xi\1", inside))
    if not isinstance(block, Tile):
        raise UnsupportedStatement(f"a descriptor describes blocks, not {text}")
    return Descriptor(block)
