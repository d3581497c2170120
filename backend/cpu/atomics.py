"""Atomic accesses. The active lanes make them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileir.backend.codegen.thread_operands import AtomicOrder
from tileir.backend.cpu.lane_values import (
    WIDTH,
    Lanes,
    VectorValue,
    scalar_type,
    stored_type,
    vector_type,
)
from tileir.backend.cpu.memory import MemoryOps
from tileir.types import BF16, F16, I1, I32, AddressSpace, Element, Pointer, Scalar

_ORDERS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_SMALL = {"fadd": ("binary", "fadd")}
_EXTREMES = {"fmax": ("intrinsic", "maximumnum"), "fmin": ("intrinsic", "minimumnum")}
"""LLVM's atomic ops of these names do not distinguish zeros of different signs."""


class Atomics(MemoryOps):
    """Read-modify-write, compare-and-exchange, and ordered loads and stores."""

    def atomic(
        self, name: str, element: Element, pointer: Lanes, value: Lanes, order: AtomicOrder
    ) -> Lanes:
        kind = Pointer(element, AddressSpace(order.space))

        def one(lane: str) -> str:
            place = f"{scalar_type(kind)} {self.lane_of(kind, pointer, lane)}"
            x = self.lane_of(element, value, lane)
            how = (_EXTREMES | _SMALL if element in (F16, BF16) else _EXTREMES).get(name)
            if how is not None:
                return self._retry(how, element, place, x)
            word = _ORDERS[order.semantics]
            return self.emit(f"atomicrmw {name} {place}, {scalar_type(element)} {x} {word}")

        return self._each_lane(element, one)

    def _retry(self, how: tuple[str, str], element: Element, place: str, x: str) -> str:
        """An atomic operation on floats by a compare-and-swap loop."""
        plain, bits = scalar_type(element), f"i{element.bits}"
        text = f"load atomic {bits}, {place} monotonic, align {element.bytes}"
        first, before = self.emit(text), self.label
        head, done = self.fresh_label("retry"), self.fresh_label("done")
        old, retry = self.fresh(), self.fresh()
        self.line(f"br label %{head}")
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        new = getattr(self, how[0])(how[1], element, self._as(plain, bits, old), x)
        new_bits = self._as(bits, plain, new)
        exchange = self.emit(f"cmpxchg {place}, {bits} {old}, {bits} {new_bits} acq_rel monotonic")
        self.line(f"{retry} = extractvalue {{ {bits}, i1 }} {exchange}, 0")
        succeeded = self.emit(f"extractvalue {{ {bits}, i1 }} {exchange}, 1")
        self.lines[at] = f"  {old} = phi {bits} [ {first}, %{before} ], [ {retry}, %{self.label} ]"
        self.line(f"br i1 {succeeded}, label %{done}, label %{head}")
        self.start(done)
        return self._as(plain, bits, retry)

    def _as(self, kind: str, source: str, x: str) -> str:
        """`x`, of LLVM type `source`, as a value of type `kind`, which has as many bits."""
        return x if kind == source else self.emit(f"bitcast {source} {x} to {kind}")

    def add_vector(
        self, element: Element, pointer: Lanes, values: Sequence[Lanes], order: AtomicOrder
    ) -> list[Lanes]:
        kind, results = Pointer(element, AddressSpace(order.space)), list[Lanes]()
        for i, value in enumerate(values):
            place = self.advance(kind, pointer, self.integer(i), I32)
            results.append(self.atomic("fadd", element, place, value, order))
        return results

    def compare_exchange(
        self, element: Element, pointer: Lanes, expected: Lanes, desired: Lanes, order: AtomicOrder
    ) -> Lanes:
        kind = Pointer(element, AddressSpace(order.space))
        plain = scalar_type(element)
        bits = plain if plain[0] in "ip" else f"i{element.bits}"
        word = _ORDERS[order.semantics]
        failing = {"release": "monotonic", "acq_rel": "acquire"}.get(word, word)

        def one(lane: str) -> str:
            place = f"{scalar_type(kind)} {self.lane_of(kind, pointer, lane)}"
            old, new = (
                x if bits == plain else self.emit(f"bitcast {plain} {x} to {bits}")
                for x in (self.lane_of(element, v, lane) for v in (expected, desired))
            )
            text = f"cmpxchg {place}, {bits} {old}, {bits} {new} {word} {failing}"
            loaded = self.emit(f"extractvalue {{ {bits}, i1 }} {self.emit(text)}, 0")
            return loaded if bits == plain else self.emit(f"bitcast {bits} {loaded} to {plain}")

        return self._each_lane(element, one)

    def load_atomic(self, element: Element, pointer: Lanes, order: AtomicOrder) -> Lanes:
        kind, word = Pointer(element, AddressSpace(order.space)), _ORDERS[order.semantics]

        def one(lane: str) -> str:
            place = f"{scalar_type(kind)} {self.lane_of(kind, pointer, lane)}"
            return self.emit(
                f"load atomic {stored_type(element)}, {place} {word}, align {element.bytes}"
            )

        return self._each_lane(element, one)

    def store_atomic(
        self, element: Element, pointer: Lanes, value: Lanes, order: AtomicOrder
    ) -> None:
        kind, word = Pointer(element, AddressSpace(order.space)), _ORDERS[order.semantics]

        def one(lane: str) -> str:
            place = f"{scalar_type(kind)} {self.lane_of(kind, pointer, lane)}"
            x = self.lane_of(element, value, lane)
            self.line(
                f"store atomic {stored_type(element)} {x}, {place} {word}, align {element.bytes}"
            )
            return ""

        self._each_lane(None, one)

    def fence(self, order: AtomicOrder) -> None:
        word = _ORDERS[order.semantics]
        self.line(f"fence {'acq_rel' if word == 'monotonic' else word}")

    def fence_accesses(self, order: AtomicOrder) -> None:
        """Do nothing: accesses on CPUs have the memory order of their op."""

    def add_shared(self, offset: Lanes, value: Lanes) -> None:
        place = self._place(offset)
        generic = Pointer(I32, AddressSpace.GENERIC)

        def one(lane: str) -> str:
            at, x = self.lane_of(generic, place, lane), self.lane_of(I32, value, lane)
            old = self.emit(f"load i32, ptr {at}, align 4")
            self.line(f"store i32 {self.emit(f'add i32 {old}, {x}')}, ptr {at}, align 4")
            return ""

        self._each_lane(None, one)

    def _each_lane(self, element: Scalar | Pointer | None, one: Callable[[str], str]) -> Lanes:
        """The results of `one` for every active lane, and zero for the others. `one` takes the
        number of the lane."""
        active = self.active_under(None)
        if isinstance(active, VectorValue) and active.ones is not None and len(active.ones) == 1:
            return one(str(min(active.ones)))
        kind = "i1" if element is None else scalar_type(element)
        head, inside = self.fresh_label("lanes"), self.fresh_label("lane")
        latch, done = self.fresh_label("next"), self.fresh_label("done")
        lane, carried, joined = self.fresh(), self.fresh(), self.fresh()
        mask, before = self.mask(active), self.label
        self.line(f"br label %{head}")
        self.start(head)
        at = len(self.lines)
        self.lines.append("")
        runs = self.emit(f"extractelement {vector_type(I1)} {mask}, i32 {lane}")
        self.line(f"br i1 {runs}, label %{inside}, label %{latch}")
        self.start(inside)
        x = one(lane)
        next_result = carried
        if element is not None:
            next_result = self.emit(
                f"insertelement <{WIDTH} x {kind}> {carried}, {kind} {x}, i32 {lane}"
            )
        last = self.label
        self.line(f"br label %{latch}")
        self.start(latch)
        vector = f"<{WIDTH} x {kind}>"
        self.line(f"{joined} = phi {vector} [ {carried}, %{head} ], [ {next_result}, %{last} ]")
        following = self.emit(f"add i32 {lane}, 1")
        more = self.emit(f"icmp ult i32 {following}, {WIDTH}")
        self.line(f"br i1 {more}, label %{head}, label %{done}")
        self.lines[at] = (
            f"  {lane} = phi i32 [ 0, %{before} ], [ {following}, %{latch} ]\n"
            f"  {carried} = phi {vector} [ zeroinitializer, %{before} ], [ {joined}, %{latch} ]"
        )
        self.start(done)
        return VectorValue(joined)
