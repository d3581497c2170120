"""Bounds checks before accesses: against the array or global that a pointer is derived from, or, if
that is unknown, against all memory of the launch.

Lanes with neighbouring addresses are checked by one comparison. If it fails, as at a masked end,
every active lane is checked (`checks`). If one is out of bounds, the kernel reports it, and the
instance ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tileir.backend.codegen.thread_operands import AccessAttributes, AtomicOrder
from tileir.backend.cpu.atomics import Atomics
from tileir.backend.cpu.checks import RECORD
from tileir.backend.cpu.host_callbacks import (
    Array,
    CallbackLog,
    CallbackSite,
    HostCallbacks,
    instance_of,
)
from tileir.backend.cpu.lane_values import (
    WIDTH,
    AffineValue,
    Lanes,
    VectorValue,
    scalar_type,
    vector_type,
)
from tileir.backend.cpu.launch import WORDS
from tileir.errors import Location
from tileir.types import I1, I8, I64, AddressSpace, Element, Pointer


@attrs.frozen
class BoundsGuard:
    """The memory that an op may access: the number of the record of a parameter or global, None for
    any memory of the launch; and the name of the op."""

    record: int | None
    op: str
    location: Location | None


class BoundsChecked(Atomics, HostCallbacks):
    """Accesses to the memory of the program, checked by `guard`."""

    guard: BoundsGuard | None = None

    def load_global(
        self, element: Element, count: int, pointer: Lanes, mask: Lanes | None,
        other: Sequence[Lanes] | None, access: AccessAttributes, space: int = 1,
    ) -> list[Lanes]:  # fmt: skip
        self._check(element.bytes * count, pointer, mask, space)
        return super().load_global(element, count, pointer, mask, other, access, space)

    def store_global(
        self, element: Element, pointer: Lanes, values: Sequence[Lanes], mask: Lanes | None,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        self._check(element.bytes * len(values), pointer, mask, space, writes=True)
        super().store_global(element, pointer, values, mask, access, space)

    def atomic(
        self, name: str, element: Element, pointer: Lanes, value: Lanes, order: AtomicOrder
    ) -> Lanes:
        self._check(element.bytes, pointer, None, order.space, writes=True)
        return super().atomic(name, element, pointer, value, order)

    def compare_exchange(
        self, element: Element, pointer: Lanes, expected: Lanes, desired: Lanes, order: AtomicOrder
    ) -> Lanes:
        self._check(element.bytes, pointer, None, order.space, writes=True)
        return super().compare_exchange(element, pointer, expected, desired, order)

    def load_atomic(self, element: Element, pointer: Lanes, order: AtomicOrder) -> Lanes:
        self._check(element.bytes, pointer, None, order.space)
        return super().load_atomic(element, pointer, order)

    def store_atomic(
        self, element: Element, pointer: Lanes, value: Lanes, order: AtomicOrder
    ) -> None:
        self._check(element.bytes, pointer, None, order.space, writes=True)
        super().store_atomic(element, pointer, value, order)

    # Checking -----------------------------------------------------------------------------------

    def _check(
        self, size: int, pointer: Lanes, mask: Lanes | None, space: int, *, writes: bool = False
    ) -> None:
        guard = self.guard
        if guard is None or space == AddressSpace.SHARED or mask == "false":
            return
        after, kind = self.fresh_label("inside"), Pointer(I8, AddressSpace(space))
        near = self._near(guard, size, pointer, kind, writes)
        if near:
            out_of_bounds = self.fresh_label("apart")
            self.line(f"br i1 {near}, label %{after}, label %{out_of_bounds}")
            self.start(out_of_bounds)
        if isinstance(pointer, VectorValue) or (
            isinstance(pointer, AffineValue) and pointer.condition
        ):
            places = self._number(vector_type(kind), self.wide(kind, pointer), vector_type(I64))
            name, at = "each", f"{vector_type(I64)} {places}"
        else:
            base, step = (pointer, 0) if isinstance(pointer, str) else (pointer.base, pointer.step)
            low = self._number(scalar_type(kind), base, "i64")
            name, at = "row", f"i64 {low}, i64 {step}"
        beyond = self._beyond(name, at, guard, size, self.active_under(mask), writes)
        report = self.fresh_label("outside")
        self.line(f"br i1 {beyond}, label %{report}, label %{after}")
        self.start(report)
        self.line(self.leave)
        self.start(after)

    def _number(self, kind: str, pointer: str, number: str) -> str:
        return self.emit(f"ptrtoint {kind} {pointer} to {number}")

    def _near(
        self, guard: BoundsGuard, size: int, pointer: Lanes, kind: Pointer, writes: bool
    ) -> str:  # fmt: skip
        """The condition that all lanes access memory in bounds; '' if each lane must be checked."""
        if guard.record is None or isinstance(pointer, VectorValue):
            return ""
        base, step, offset = (pointer, 0, "") if isinstance(pointer, str) else (
            pointer.base, pointer.step, pointer.condition)  # fmt: skip
        low, reach = self._number(scalar_type(kind), base, "i64"), abs(step) * (WIDTH - 1)
        if step < 0:
            low = self.emit(f"sub i64 {low}, {reach}")
        first = self._bound(guard.record, 0)
        extent = self._bound(guard.record, 2 if writes else 1)
        self.declare("declare i64 @llvm.usub.sat.i64(i64, i64)")
        starts = self.emit(f"call i64 @llvm.usub.sat.i64(i64 {extent}, i64 {reach + size - 1})")
        inside = self.emit(f"icmp ult i64 {self.emit(f'sub i64 {low}, {first}')}, {starts}")
        return self.emit(f"and i1 {inside}, {offset}") if offset else inside

    def _bound(self, record: int, word: int) -> str:
        """A word of a record, loaded at the start of the function."""
        return self._at_entry(f"bound {record} {word}", "load i64, ptr", [
            (f"getelementptr i64, ptr {self._records()}, i64 {record * RECORD + word}")
        ])  # fmt: skip

    def _records(self) -> str:
        place = f"getelementptr i64, ptr %launch, i64 {WORDS['records']}"
        return self._at_entry("records", "load ptr, ptr", [place])

    def _at_entry(self, key: str, load: str, place: Sequence[str]) -> str:
        """The value that `load` reads at `place`, loaded once, at the start of the function."""
        if key not in self.entry_faults:
            at, fault = self.fresh(), self.fresh()
            self.at_entry.append(f"  {at} = {place[0]}")
            self.at_entry.append(f"  {fault} = {load} {at}, align 8, !invariant.load !0")
            self.entry_faults[key] = fault
        return self.entry_faults[key]

    def _record(self, guard: BoundsGuard) -> str:
        """The address of the record of the memory that may be accessed."""
        if guard.record is None:
            place = f"getelementptr i64, ptr %launch, i64 {WORDS['all']}"
            return self._at_entry("all", "load ptr, ptr", [place])
        return self.emit(f"getelementptr i64, ptr {self._records()}, i64 {guard.record * RECORD}")

    def _beyond(
        self, name: str, at: str, guard: BoundsGuard, size: int, active: Lanes | None, writes: bool
    ) -> str:
        """Whether a lane of `active` is out of bounds. If so, it is reported."""
        thread: Any = self
        lanes = "-1" if active is None else self.emit(
            f"bitcast {vector_type(I1)} {self.mask(active)} to i32")  # fmt: skip
        ids = ", ".join(f"i32 {thread.program_id(axis)}" for axis in range(3))
        number = len(self.sites)
        self.sites.append(_site(guard, size, writes))
        return self.emit(
            f"call i1 @beyond.{name}({at}, i64 {size}, ptr {self._record(guard)}, i32 {lanes}, "
            f"i1 {str(writes).lower()}, i64 {number}, ptr %launch, {ids})"
        )


def _site(guard: BoundsGuard, size: int, writes: bool) -> CallbackSite:
    def answer(calls: CallbackLog, inputs: list[Array], active: Array) -> None:
        at = int(inputs[0][active[0]]) & (1 << 64) - 1
        assert calls.bounds is not None
        code, where = calls.bounds.fault(guard.record, at, size, writes)
        calls.fail(
            f"{instance_of(inputs[1:])} {guard.op} of {size} bytes at {where}", code, guard.location
        )

    return CallbackSite((*["int64"], *["int32"] * 3), answer)
