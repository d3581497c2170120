"""Packing of values into machine words, unpacking, and reuse of the words from which values were
unpacked."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.nvptx.text import Body, is_literal, literal, llvm_type, memory_type
from tileir.types import I32, Element

Handle = str

_FEW = 4
"""Values whose types are written out."""


class PackedRegisters(Body):
    """Bit casts, packing and unpacking. Handles are LLVM operands without their type."""

    def __init__(self, prefix: str = "t", scope: str = "", labels: str = "") -> None:
        super().__init__(prefix, scope, labels)
        self._sources: dict[tuple[str, Handle], Handle] = {}
        """What a value was before its bits were cast from a type."""
        self._packs: dict[tuple[Element, tuple[Handle, ...]], Handle] = {}
        """The word that elements were taken from."""
        self._pairs: dict[tuple[Handle, Handle], tuple[Handle, int]] = {}
        """The word, and which half of it, that two bytes were taken from."""
        self._reused: set[Handle] = set()
        """Words that were there when elements were to be packed."""

    def per_word(self, element: Element) -> int:
        """The number of values of `element` in a 32-bit word; 1 for values that are not whole
        bytes."""
        return 4 // element.bytes if element.bits >= 8 and element.bytes < 4 else 1

    def know_word(self, element: Element, values: tuple[Handle, ...], word: Handle) -> None:
        """Record that `word` is the concatenation of `values`."""
        self._packs[element, values] = word

    def word(self, element: Element, values: tuple[Handle, ...]) -> Handle | None:
        """The word that is the concatenation of `values`, or a literal if they are literals; None
        if unknown."""
        packed = self._packs.get((element, values))
        if packed is None and all(is_literal(x) for x in values):
            total = sum(
                _bits_of(element, x) << (8 * element.bytes * i) for i, x in enumerate(values)
            )
            return literal(I32, total)
        return packed

    def is_reused(self, word: Handle) -> bool:
        """Whether `word` was used in place of packing its elements."""
        return word in self._reused

    def pack(self, element: Element, values: Sequence[Handle]) -> Handle:
        """An i32 that consists of `values`, of one or two bytes each, the first one lowest."""
        return self._packed_word(element, tuple(values))

    def in_one_word(self, element: Element, values: Sequence[Handle]) -> bool:
        """Whether `values` are those of one word, or of two halves of words."""
        whole = (element, tuple(values)) in self._packs
        return whole or all(tuple(values[i : i + 2]) in self._pairs for i in (0, 2))

    def unpack(self, element: Element, word: Handle) -> list[Handle]:
        """The values that `pack` combined into `word`."""
        return self._unpack(element, self.per_word(element), I32, [word])

    def joining(self, element: Element, values: Sequence[Handle], word: Handle) -> list[str]:
        """Lines that define `word` from `values`."""
        kind, vector, lines = f"<{len(values)} x {memory_type(element)}>", "undef", list[str]()
        for i, x in enumerate(values):
            name = self.fresh()
            inserted = f"{kind} {vector}, {memory_type(element)} {x}, i32 {i}"
            lines.append(f"  {name} = insertelement {inserted}")
            vector = name
        return [*lines, f"  {word} = bitcast {kind} {vector} to i32"]

    def parting(self, element: Element, values: Sequence[Handle], word: Handle) -> list[str]:
        """Lines that define `values` from `word`."""
        kind, vector = f"<{len(values)} x {memory_type(element)}>", self.fresh()
        parts = (f"  {x} = extractelement {kind} {vector}, i32 {i}" for i, x in enumerate(values))
        return [f"  {vector} = bitcast i32 {word} to {kind}", *parts]

    def several(self, kind: str, count: int) -> str:
        """The LLVM type of a structure of `count` values of type `kind`. A large structure has a
        named type, since LLVM would spend most of its time on parsing a type that is repeated for
        each value."""
        structure = f"{{{', '.join([kind] * count)}}}"
        if count <= _FEW:
            return structure
        name = f"%{kind}.x{count}"
        self.declare(f"{name} = type {structure}")
        return name

    def _bits(self, element: Element, x: Handle, kind: str) -> Handle:
        return self._cast(llvm_type(element), x, kind)

    def _from_bits(self, element: Element, x: Handle, kind: str) -> Handle:
        return self._cast(kind, x, llvm_type(element))

    def _cast(self, old: str, x: Handle, new: str) -> Handle:
        """The bits of `x` as another type. Casting a result back returns the original handle."""
        if old == new:
            return x
        source = self._sources.get((new, x))
        if source is not None:
            return source
        cast = self.pure(f"bitcast {old} {x} to {new}")
        self._sources[old, cast] = x
        return cast

    def _to_memory(self, element: Element, x: Handle) -> Handle:
        """`x` as stored in memory: a value narrower than a byte takes a byte."""
        return x if element.bits >= 8 else self.pure(f"zext {llvm_type(element)} {x} to i8")

    def _from_memory(self, element: Element, x: Handle) -> Handle:
        return x if element.bits >= 8 else self.pure(f"trunc i8 {x} to {llvm_type(element)}")

    def _pack(
        self, element: Element, values: Sequence[Handle], word: Element, number: int
    ) -> list[Handle]:
        """`values`, neighbours in memory, packed into `number` machine words."""
        size = element.bytes * 8
        if size == word.bits:
            return [self._integer(element, x) for x in values]
        each = word.bits // size
        parts = (tuple(values[i * each : (i + 1) * each]) for i in range(number))
        return [self._packed_word(element, part) for part in parts]

    def _packed_word(self, element: Element, values: tuple[Handle, ...]) -> Handle:
        packed = self._packs.get((element, values))
        if packed is None:
            return self._emit_pack(element, values)
        self._reused.add(packed)
        return packed

    def _emit_pack(self, element: Element, values: Sequence[Handle]) -> Handle:
        if len(values) == 4 and element.bits == 8:
            low, high = (self._pairs.get((values[i], values[i + 1])) for i in (0, 2))
            if low and high:
                return self._of_halves(*low, *high)
        kind, stored = memory_type(element), [self._to_memory(element, x) for x in values]
        vector = self._vector(kind, stored)
        bits = element.bytes * 8 * len(values)
        return self.pure(f"bitcast <{len(values)} x {kind}> {vector} to i{bits}")

    def _of_halves(self, low: Handle, first: int, high: Handle, second: int) -> Handle:
        """A word of two halves of words, by `prmt` (PTX ISA, "prmt"), or the word itself if both
        are its halves."""
        if low == high and not first and second:
            return low
        self.declare("declare i32 @llvm.nvvm.prmt(i32, i32, i32)")
        order = (0x76 if second else 0x54) << 8 | (0x32 if first else 0x10)
        return self.pure(f"call i32 @llvm.nvvm.prmt(i32 {low}, i32 {high}, i32 {order})")

    def _unpack(
        self, element: Element, count: int, word: Element, words: list[Handle]
    ) -> list[Handle]:
        size = element.bytes * 8
        if size == word.bits:
            return [self._from_integer(element, x) for x in words]
        each, values = word.bits // size, list[Handle]()
        kind = f"<{each} x {memory_type(element)}>"
        for x in words:
            vector = self.pure(f"bitcast {llvm_type(word)} {x} to {kind}")
            parts = (self.pure(f"extractelement {kind} {vector}, i32 {i}") for i in range(each))
            elements = [self._from_memory(element, part) for part in parts]
            if element.bits >= 8:
                self._packs[element, tuple(elements)] = x
            if element.bits == 8 and each == 4:
                for half in range(2):
                    low, high = elements[2 * half : 2 * half + 2]
                    self._pairs[low, high] = x, half
            values += elements
        return values[:count]

    def _integer(self, element: Element, x: Handle) -> Handle:
        """`x` as an integer of its size in memory."""
        kind = llvm_type(element)
        if element.bits < 8:
            return self._to_memory(element, x)
        if kind.startswith("ptr"):
            return self.pure(f"ptrtoint {kind} {x} to i64")
        return self._bits(element, x, f"i{element.bits}")

    def _from_integer(self, element: Element, x: Handle) -> Handle:
        kind = llvm_type(element)
        if element.bits < 8:
            return self._from_memory(element, x)
        if kind.startswith("ptr"):
            return self.pure(f"inttoptr i64 {x} to {kind}")
        return self._from_bits(element, x, f"i{element.bits}")

    def to_words(self, element: Element, x: Handle) -> list[Handle]:
        """`x` as 32-bit words, least significant first."""
        bits, size = self._integer(element, x), element.bytes * 8
        if size == 64:
            high = self.pure(f"lshr i64 {bits}, 32")
            return [self.pure(f"trunc i64 {y} to i32") for y in (bits, high)]
        return [bits if size == 32 else self.pure(f"zext i{size} {bits} to i32")]

    def from_words(self, element: Element, words: Sequence[Handle]) -> Handle:
        """The inverse of `to_words`."""
        size = element.bytes * 8
        if size == 64:
            low, high = (self.pure(f"zext i32 {w} to i64") for w in words)
            shifted = self.pure(f"shl i64 {high}, 32")
            return self._from_integer(element, self.pure(f"or i64 {low}, {shifted}"))
        integer = words[0] if size == 32 else self.pure(f"trunc i32 {words[0]} to i{size}")
        return self._from_integer(element, integer)

    def _vector(self, kind: str, values: Sequence[Handle]) -> Handle:
        vector = "undef"
        for i, x in enumerate(values):
            text = f"insertelement <{len(values)} x {kind}> {vector}, {kind} {x}, i32 {i}"
            vector = self.pure(text)
        return vector


def _bits_of(element: Element, x: Handle) -> int:
    """The number whose literal (`text.literal`) is `x`, a literal of one or two bytes."""
    number = int(x[3:], 16) if x[:2] == "0x" else int(x)
    return number & ((1 << 8 * element.bytes) - 1)
