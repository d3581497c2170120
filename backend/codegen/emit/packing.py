"""Packing of small elements into 32-bit words, for shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from tileir.backend.codegen.lowering import Lowering
from tileir.types import I1, I8, I16, I32, Element, Scalar


def pack_elements(lowering: Lowering, element: Element, values: Sequence[str]) -> str:
    """Pack elements into one i32, the first one lowest. A single element is returned unchanged."""
    if len(values) == 1:
        return values[0]
    if len(values) * element.bits == 32:
        return lowering.thread.pack(element, values)
    return side_by_side(lowering.thread, element, values)


def side_by_side(thread: Any, element: Element, values: Sequence[Any]) -> Any:
    """Pack `values` into an i32, each in the same number of bits, the first one lowest."""
    words, bits = [_to_integer(thread, element, x) for x in values], 32 // len(values)
    for i in range(1, len(words)):
        words[i] = thread.binary("shl", I32, words[i], thread.integer(i * bits))
    return reduce(lambda a, b: thread.binary("or", I32, a, b), words)


def unpack_elements(lowering: Lowering, element: Element, word: str, count: int) -> list[str]:
    """The `count` elements that `pack_elements` packed into `word`."""
    if count == 1:
        return [word]
    if count * element.bits == 32:
        return lowering.thread.unpack(element, word)
    return unpack_word(lowering.thread, element, word, count)


def unpack_word(thread: Any, element: Element, word: Any, count: int) -> list[Any]:
    """The values that `side_by_side` packed into `word`."""
    steps = (thread.integer(i * (32 // count)) for i in range(1, count))
    moved = [word, *(thread.binary("lshr", I32, word, n) for n in steps)]
    return [_from_integer(thread, element, x) for x in moved]


def _integer(element: Element) -> Scalar:
    return {1: I1, 8: I8, 16: I16}.get(element.bits, I8)


def _to_integer(thread: Any, element: Element, value: str) -> str:
    kind = _integer(element)
    if element is not kind and element.bits == 16:
        value = thread.convert("bitcast", element, kind, value)
    return thread.convert("zext", element if element.bits < 16 else kind, I32, value)


def _from_integer(thread: Any, element: Element, word: str) -> str:
    kind = element if element.bits < 16 else _integer(element)
    value = thread.convert("trunc", I32, kind, word)
    return thread.convert("bitcast", kind, element, value) if element is not kind else value
