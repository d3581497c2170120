"""Memory accesses of the thread interface, as LLVM IR text for NVPTX.

Masked accesses, and those with a cache operator, are PTX instructions in inline assembly (PTX ISA,
"Data Movement and Conversion Instructions: ld, st"). A predicate costs nothing there, while a
branch would. All other accesses are LLVM loads and stores, which LLVM may combine.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.codegen.thread_operands import AccessAttributes
from tileir.backend.nvptx.register_packing import PackedRegisters
from tileir.backend.nvptx.text import (
    has_cache_hint,
    llvm_type,
    memory_type,
    operators,
    pointer_class,
)
from tileir.backend.target import VECTOR_BYTES
from tileir.types import I8, I16, I32, I64, Element

Handle = str

_CLASSES = {"i1": "b", "i8": "h", "i16": "h", "i32": "r", "i64": "l", "half": "h", "bfloat": "h",
            "float": "f", "double": "d"}  # fmt: skip

_UNSET = 16
"""Registers whose contents masked loads at the start of a kernel may leave unchanged, at most."""


class LlvmMemory(PackedRegisters):
    """Global, shared and private accesses; handles are LLVM operands without their type."""

    def register_class(self, element: Element) -> str:
        """The inline assembly constraint of a value of `element`."""
        return _CLASSES.get(llvm_type(element), "l")

    def load_global(
        self, element: Element, count: int, pointer: Handle, mask: Handle | None,
        other: Sequence[Handle] | None, access: AccessAttributes, space: int = 1,
    ) -> list[Handle]:  # fmt: skip
        if mask == "false" and other is not None:
            return list(other)
        if mask in (None, "true") and not (access.cache or access.eviction):
            return self._load(element, count, f"ptr addrspace({space}) {pointer}", access.volatile)
        word, number = words_of(element.bytes, count)
        masked = mask not in (None, "true")
        if masked and access.prefetched:
            mask = self.emit(f"and i1 {mask}, {self._lane_exists()}")
        if masked and other is None and not self._stays_unset(number):
            other = [self.constant(element, 0)] * count
        packed = None if other is None else self._pack(element, other, word, number)
        words = self._load_asm(word, number, pointer, mask, packed, access, space)
        return self._unpack(element, count, word, words)

    def _lane_exists(self) -> Handle:
        """A condition that holds in every lane, which ptxas does not know. It keeps what a load
        reads under it in registers of the lanes. What all lanes read at one address it would copy
        to a uniform register right after the load, and wait there."""
        return self.once("lane exists", self._is_in_its_mask)

    def _is_in_its_mask(self) -> Handle:
        lanes = self._read("lanemask.le")
        return self.emit(f"icmp ne i32 {lanes}, 0")

    _unset = 0
    """Registers that were assigned to masked loads without another value."""
    _has_synchronized = False
    """Whether the threads have passed a barrier."""

    def _stays_unset(self, number: int) -> bool:
        """Whether the `number` registers of a masked load may keep their contents where the mask is
        false. ptxas then reserves these registers from the start of the kernel. That costs nothing
        for loads at the start; later loads could otherwise reuse registers whose values are dead.
        """
        self._unset += number
        return self._unset <= _UNSET and not self._has_synchronized

    def _load(self, element: Element, count: int, operand: str, volatile: bool) -> list[Handle]:
        kind, align = memory_type(element), element.bytes * count
        word = "load volatile" if volatile else "load"
        if count == 1:
            return [
                self._from_memory(element, self.emit(f"{word} {kind}, {operand}, align {align}"))
            ]
        if kind == "i8" and count % 2 == 0:
            return self._bytes_of_words(element, count, operand, word)
        vector = self.emit(f"{word} <{count} x {kind}>, {operand}, align {align}")
        return self._elements(element, count, vector)

    def _bytes_of_words(
        self, element: Element, count: int, operand: str, load: str
    ) -> list[Handle]:
        """An even number of bytes, loaded as 32-bit words, so that ops on four bytes can use the
        words. The last two bytes may be the low half of a word."""
        size = 4 if count % 4 == 0 else 2
        number, kind = count // size, f"i{8 * size}"
        vector = self.emit(f"{load} <{number} x {kind}>, {operand}, align {count}")
        parts = [
            self.emit(f"extractelement <{number} x {kind}> {vector}, i32 {i}")
            for i in range(number)
        ]
        words = parts if size == 4 else [self.pure(f"zext {kind} {x} to i32") for x in parts]
        return [x for word in words for x in self._unpack(element, size, I32, [word])]

    def _elements(self, element: Element, count: int, vector: Handle) -> list[Handle]:
        kind = f"<{count} x {memory_type(element)}>"
        elements = [self.emit(f"extractelement {kind} {vector}, i32 {i}") for i in range(count)]
        return [self._from_memory(element, x) for x in elements]

    def _load_asm(
        self, word: Element, number: int, pointer: Handle, mask: Handle | None,
        other: list[Handle] | None, access: AccessAttributes, space: int,
    ) -> list[Handle]:  # fmt: skip
        kind, size = _register_type(word), max(word.bits, 8)
        moved = f"mov.b{max(size, 16)}"
        names = [f"${i}" for i in range(number)]
        operands = [f"ptr addrspace({space}) {pointer}"]
        constraints = [pointer_class(space)]
        text, guard = "", ""
        if mask not in (None, "true"):
            operands.append(f"i1 {mask}")
            constraints.append("b")
            guard = f"@${number + 1} "
        if guard and other:
            text = "".join(f"{moved} {names[i]}, ${number + 2 + i}; " for i in range(number))
            operands += [f"{kind} {self._in_register(word, x)}" for x in other]
            constraints += ["h" if size < 16 else self.register_class(word)] * number
        hint = self._hint(access, space, number, operands, constraints)
        vector = f".v{number}" if number > 1 else ""
        target = f"{{{', '.join(names)}}}" if number > 1 else names[0]
        address = f"[${number}]{hint}"
        text += f"{guard}ld{operators(access, space)}{vector}.b{size} {target}, {address};"
        results = ",".join(["=" + ("h" if size < 16 else self.register_class(word))] * number)
        kinds = kind if number == 1 else f"{{{', '.join([kind] * number)}}}"
        results_of_asm = self.emit(
            f'call {kinds} asm sideeffect "{text}", "{results},{",".join(constraints)}"'
            f"({', '.join(operands)}) #1"
        )
        if number == 1:
            return [
                results_of_asm
                if kind == llvm_type(word)
                else self.pure(f"trunc i16 {results_of_asm} to i8")
            ]
        return [self.emit(f"extractvalue {kinds} {results_of_asm}, {i}") for i in range(number)]

    def _hint(
        self, access: AccessAttributes, space: int, results: int, operands: list[str],
        constraints: list[str],
    ) -> str:  # fmt: skip
        """The operand that is the L2 cache policy. It is appended to the operands of an access that
        has `results` results; '' if the access has no policy."""
        if not has_cache_hint(access, space):
            return ""
        text = f"createpolicy.fractional.L2::{access.eviction}.b64 $0, 1.0;"
        policy = self.once(text, lambda: self.emit(f'call i64 asm "{text}", "=l"() #2'))
        operands.append(f"i64 {policy}")
        constraints.append("l")
        return f", ${results + len(operands) - 1}"

    def _in_register(self, word: Element, x: Handle) -> Handle:
        """`x` as an operand of inline assembly, which has no 8-bit registers."""
        return self.pure(f"zext i8 {x} to i16") if word is I8 else x

    def store_global(
        self, element: Element, pointer: Handle, values: Sequence[Handle], mask: Handle | None,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        if mask == "false":
            return
        if mask in (None, "true") and not (access.cache or access.eviction):
            self._store(element, f"ptr addrspace({space}) {pointer}", values, access.volatile)
            return
        word, number = words_of(element.bytes, len(values))
        packed = self._pack(element, values, word, number)
        size = max(word.bits, 8)
        constraint = "h" if size < 16 else self.register_class(word)
        names = [f"${i + 1}" for i in range(number)]
        source = f"{{{', '.join(names)}}}" if number > 1 else names[0]
        masked = mask not in (None, "true")
        guard = f"@${number + 1} " if masked else ""
        vector = f".v{number}" if number > 1 else ""
        operands = [
            f"ptr addrspace({space}) {pointer}",
            *(f"{_register_type(word)} {self._in_register(word, x)}" for x in packed),
        ]
        constraints = [pointer_class(space), *[constraint] * number]
        if masked:
            operands.append(f"i1 {mask}")
            constraints.append("b")
        hint = self._hint(access, space, 0, operands, constraints)
        text = f"{guard}st{operators(access, space)}{vector}.b{size} [$0], {source}{hint};"
        self.line(
            f'call void asm sideeffect "{text}", "{",".join(constraints)}"'
            f"({', '.join(operands)}) #1"
        )

    def _store(
        self, element: Element, operand: str, values: Sequence[Handle], volatile: bool
    ) -> None:
        word = "store volatile" if volatile else "store"
        kind, align = memory_type(element), element.bytes * len(values)
        stored = [self._to_memory(element, x) for x in values]
        if len(values) == 1:
            self.line(f"{word} {kind} {stored[0]}, {operand}, align {align}")
            return
        vector = self._vector(kind, stored)
        self.line(f"{word} <{len(values)} x {kind}> {vector}, {operand}, align {align}")

    # Shared memory ------------------------------------------------------------------------

    def load_shared(self, element: Element, count: int, offset: Handle) -> list[Handle]:
        return self._load(element, count, f"ptr addrspace(3) {self._shared_address(offset)}", False)

    def store_shared(self, element: Element, offset: Handle, values: Sequence[Handle]) -> None:
        self._store(element, f"ptr addrspace(3) {self._shared_address(offset)}", values, False)

    def store_shared_if(
        self, condition: Handle, element: Element, offset: Handle, values: Sequence[Handle]
    ) -> None:
        self.store_global(
            element, self._shared_address(offset), values, condition, AccessAttributes(), 3
        )

    def _shared_address(self, offset: Handle) -> Handle:
        return self.pure(f"getelementptr i8, ptr addrspace(3) @{self.scope}shared, i32 {offset}")

    # Private memory -----------------------------------------------------------

    def allot_private(self, element: Element, count: int) -> Handle:
        place = self.fresh()
        kind = f"[{count} x {memory_type(element)}]"
        self.at_entry.append(f"  {place} = alloca {kind}, align {VECTOR_BYTES}")
        self.private_bytes += count * element.bytes
        return place

    private_bytes = 0
    """Bytes that were allotted."""

    def load_private(
        self, element: Element, count: int, place: Handle, index: Handle
    ) -> list[Handle]:
        return self._load(element, count, f"ptr {self._private(element, place, index)}", False)

    def store_private(
        self, element: Element, place: Handle, index: Handle, values: Sequence[Handle]
    ) -> None:
        self._store(element, f"ptr {self._private(element, place, index)}", values, False)

    def _private(self, element: Element, place: Handle, index: Handle) -> Handle:
        return self.pure(f"getelementptr {memory_type(element)}, ptr {place}, i32 {index}")


def words_of(size: int, count: int) -> tuple[Element, int]:
    """The type of the machine word, and the number of words, of an access to `count` elements of
    `size` bytes."""
    if size == 8:
        return I64, count
    if size * count >= 8:
        return I32, size * count // 4
    return {1: I8, 2: I16, 4: I32}[size * count], 1


def _register_type(word: Element) -> str:
    return "i16" if word is I8 else llvm_type(word)
