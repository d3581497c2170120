"""Atomic accesses and fences of the thread interface, as PTX in inline assembly.

LLVM drops the order and the scope of `atomicrmw` for NVPTX, and has no `red`. Every access
therefore states both in its PTX text (PTX ISA, "Parallel Synchronization and Communication
Instructions: atom, red" and "Data Movement and Conversion Instructions: ld, st"). An operation
without an instruction is a loop of compare-and-swap with the order of the op; the iteration that
succeeds orders memory. The assembly clobbers memory, so that LLVM moves no other access over it.

Lanes leave such a loop in different iterations. ptxas places a `YIELD` in the loop and a
convergence barrier (`BSYNC`) after it. On an H200, `YIELD` releases the lanes that wait at the
convergence barrier, and ptxas treats them as converged: `shfl.sync` and `bar.sync` of all lanes
then take place without the lanes in the loop. `bar.warp.sync` becomes `WARPSYNC`, which waits for
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs

from tileir.backend.codegen.thread_operands import AccessAttributes, AtomicOrder
from tileir.backend.nvptx.memory import LlvmMemory, words_of
from tileir.backend.nvptx.text import SPACES, pointer_class
from tileir.types import BF16, F32, AddressSpace, Element

Handle = str

_ORDERS = {"acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_SCOPES = {"cta": ' syncscope("block")', "gpu": ' syncscope("device")', "sys": ""}
_BITWISE = ("and", "or", "xor")
_SIGNED = {"add": "add.u", "max": "max.s", "min": "min.s", "umax": "max.u", "umin": "min.u"}
_COUNTING = {"uinc_wrap": "inc.u32", "udec_wrap": "dec.u32"}
_ATOMIC_ADDS = {
    "f16": "add.noftz.f16",
    "bf16": "add.noftz.bf16",
    "f32": "add.f32",
    "f64": "add.f64",
}
_EXTREMES = {"fmax": "maximumnum", "fmin": "minimumnum"}
_REGISTERS = {16: "h", 32: "r", 64: "l"}
"""Constraints of inline assembly by bits."""


class LlvmAtomics(LlvmMemory):
    """Read-modify-write, compare-and-exchange, ordered loads and stores, fences."""

    bf16_atomics = False
    """Whether the target has `atom.add.noftz.bf16`."""
    _has_diverged = False
    """Whether lanes have left a loop in different iterations since `reconverge`."""

    def atomic(
        self, name: str, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> Handle:
        operation = self._operation(name, element)
        if operation is None:
            return self._in_a_loop(name, element, pointer, value, order)
        bits = self._integer(element, value)
        if not order.read and operation != "exch" and can_reduce(order):
            text = f"red{_qualifiers(order)}.{operation} [$0], $1;"
            self._asm(text, None, pointer, [bits], element.bits, order)
            return self.constant(element, 0)
        if operation == "exch":
            operation = f"exch.b{element.bits}"
        text = f"atom{_qualifiers(order)}.{operation} $0, [$1], $2;"
        result = self._asm(text, element.bits, pointer, [bits], element.bits, order)
        return self._from_integer(element, result)

    def _operation(self, name: str, element: Element) -> str | None:
        """The operation and type of the instruction; None if there is no such instruction and a
        loop replaces it."""
        if name == "xchg":
            return None if element.bits == 16 else "exch"
        if name == "fadd":
            return None if element is BF16 and not self.bf16_atomics else _ATOMIC_ADDS[str(element)]
        if name in _EXTREMES:
            return None
        if name in _BITWISE:
            return f"{name}.b{element.bits}"
        if name == "add":
            return f"add.u{element.bits}"
        return _COUNTING.get(name) or f"{_SIGNED[name]}{element.bits}"

    def _in_a_loop(
        self, name: str, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> Handle:
        """Repeat compare-and-exchange until no other thread has intervened."""
        kind = f"i{element.bits}"
        relaxed = attrs.evolve(order, semantics="relaxed")
        first, before = self._load_ordered(element.bits, pointer, relaxed), self.label
        head, done = self.fresh_label("retry"), self.fresh_label("done")
        expected = self.fresh()
        self.line(f"br label %{head}")
        self.start(head)
        place = len(self.lines)
        self.lines.append("")
        old = self._from_integer(element, expected)
        new, thread = value, cast(Any, self)
        if name == "fadd":
            new = thread.binary("fadd", element, old, value)
        elif name in _EXTREMES:
            new = thread.intrinsic(_EXTREMES[name], element, old, value)
        new_bits = self._integer(element, new)
        loaded = self._exchange(element.bits, pointer, expected, new_bits, order)
        is_equal = self.emit(f"icmp eq {kind} {loaded}, {expected}")
        self.lines[place] = (
            f"  {expected} = phi {kind} [ {first}, %{before} ], [ {loaded}, %{self.label} ]"
        )
        self.line(f"br i1 {is_equal}, label %{done}, label %{head}")
        self.start(done)
        self._has_diverged = True
        return self._from_integer(element, loaded)

    def reconverge(self) -> None:
        if self._has_diverged:
            cast(Any, self).warp_barrier()
            self._has_diverged = False

    def add_vector(
        self, element: Element, pointer: Handle, values: Sequence[Handle], order: AtomicOrder
    ) -> list[Handle]:
        if len(values) * element.bits < 32:
            return [self.atomic("fadd", element, pointer, values[0], order)]
        word, number = words_of(element.bytes, len(values))
        packed = self._pack(element, values, word, number)
        flush = "" if element is F32 else ".noftz"
        name = f"{element}x2" if element.bits == 16 else str(element)
        vector = f".v{number}" if number > 1 else ""
        operation = f"{_qualifiers(order)}.add{flush}{vector}.{name}"
        sources = _vector_operand([f"${i}" for i in range(1, number + 1)])
        if not order.read and can_reduce(order):
            self._asm(f"red{operation} [$0], {sources};", None, pointer, packed, 32, order)
            return [self.constant(element, 0)] * len(values)
        targets = _vector_operand([f"${i}" for i in range(number)])
        sources = _vector_operand([f"${i}" for i in range(number + 1, 2 * number + 1)])
        text = f"atom{operation} {targets}, [${number}], {sources};"
        kinds = "i32" if number == 1 else f"{{{', '.join(['i32'] * number)}}}"
        structure = self._asm(text, 32, pointer, packed, 32, order, number)
        results = [structure]
        if number > 1:
            results = [self.emit(f"extractvalue {kinds} {structure}, {i}") for i in range(number)]
        return self._unpack(element, len(values), word, results)

    def compare_exchange(
        self,
        element: Element,
        pointer: Handle,
        expected: Handle,
        desired: Handle,
        order: AtomicOrder,
    ) -> Handle:
        old, new = self._integer(element, expected), self._integer(element, desired)
        loaded = self._exchange(element.bits, pointer, old, new, order)
        return self._from_integer(element, loaded)

    def _exchange(
        self, bits: int, pointer: Handle, old: Handle, new: Handle, order: AtomicOrder
    ) -> str:
        text = f"atom{_qualifiers(order)}.cas.b{bits} $0, [$1], $2, $3;"
        return self._asm(text, bits, pointer, [old, new], bits, order)

    def load_atomic(self, element: Element, pointer: Handle, order: AtomicOrder) -> Handle:
        if order.space == AddressSpace.CONSTANT:  # which is never written
            return self.load_global(
                element, 1, pointer, None, None, AccessAttributes(), order.space
            )[0]
        return self._from_integer(element, self._load_ordered(element.bits, pointer, order))

    def _load_ordered(self, bits: int, pointer: Handle, order: AtomicOrder) -> str:
        text = f"ld{_qualifiers(order)}.b{bits} $0, [$1];"
        return self._asm(text, bits, pointer, [], bits, order)

    def store_atomic(
        self, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> None:
        bits = self._integer(element, value)
        text = f"st{_qualifiers(order)}.b{element.bits} [$0], $1;"
        self._asm(text, None, pointer, [bits], element.bits, order)

    def _asm(
        self, text: str, result: int | None, pointer: Handle, values: Sequence[Handle], bits: int,
        order: AtomicOrder, number: int = 1,
    ) -> Handle:  # fmt: skip
        """Inline assembly that accesses `pointer`. It has `number` results of `result` bits, or
        none if that is None, and takes `values`, integers of `bits` bits."""
        operands = [f"ptr addrspace({order.space}) {pointer}", *(f"i{bits} {x}" for x in values)]
        inputs = [pointer_class(order.space), *[_REGISTERS[bits]] * len(values)]
        outputs = [] if result is None else [f"={_REGISTERS[result]}"] * number
        constraints = ",".join((*outputs, *inputs, "~{memory}"))
        kind = "void" if result is None else f"i{result}"
        kinds = kind if number == 1 else f"{{{', '.join([kind] * number)}}}"
        call = f'call {kinds} asm sideeffect "{text}", "{constraints}"({", ".join(operands)}) #1'
        if result is None:
            self.line(call)
            return ""
        return self.emit(call)

    def fence(self, order: AtomicOrder) -> None:
        self.line(f"fence{_SCOPES[order.scope]} {_ORDERS[order.semantics]}")

    def fence_accesses(self, order: AtomicOrder) -> None:
        self.line(f'call void asm sideeffect "fence.acq_rel.{order.scope};", "~{{memory}}"() #1')

    def add_shared(self, offset: Handle, value: Handle) -> None:
        order = AtomicOrder("relaxed", "cta", int(AddressSpace.SHARED), read=False)
        text = f"red{_qualifiers(order)}.add.u32 [$0], $1;"
        self._asm(text, None, self._shared_address(offset), [value], 32, order)


def can_reduce(order: AtomicOrder) -> bool:
    """Whether an access whose result is unused may be `red`, which has no acquire semantics."""
    return order.semantics in ("relaxed", "release")


def _qualifiers(order: AtomicOrder) -> str:
    """Order, scope and state space, as PTX suffixes of `atom`, `red`, `ld` and `st`."""
    semantics = "relaxed" if order.fenced else order.semantics
    return f".{semantics}.{order.scope}{SPACES[order.space]}"


def _vector_operand(names: Sequence[str]) -> str:
    """One operand, or a vector of them."""
    return f"{{{', '.join(names)}}}" if len(names) > 1 else names[0]
