"""Accesses that are looked at before they are made: whether they lie in the array of the parameter
that their pointer comes from.

Neighbouring lanes are two comparisons of the first and the last of them. Where these do not hold,
as at a masked end, every lane is looked at that is to access memory; where one of those lies
outside, the kernel says which, and the instance ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileir import records
from tileir.backend.cpu.atomics import Atomics
from tileir.backend.cpu.host import SLOT, Array, Calls, Hosted, Site, instance_of
from tileir.backend.cpu.lanes import WIDTH, Lanes, Linear, Wide, scalar_type, vector_type
from tileir.backend.lower.thread import Access, Order
from tileir.errors import Location
from tileir.types import I1, I8, I64, AddressSpace, Element, Pointer

_BYTES = Pointer(I8, AddressSpace.GLOBAL)


@records.frozen
class Guard:
    """The array that an op accesses: the operands for its first byte and the one behind its last;
    and how the op and the array are called."""

    first: str
    end: str
    op: str
    array: str
    location: Location | None


class Bounded(Atomics, Hosted):
    """Accesses of global memory, guarded where `guard` says by what."""

    guard: Guard | None = None

    def load_global(
        self, element: Element, count: int, pointer: Lanes, mask: Lanes | None,
        other: Sequence[Lanes] | None, access: Access, space: int = 1,
    ) -> list[Lanes]:  # fmt: skip
        self._look(element.bytes * count, pointer, mask, space)
        return super().load_global(element, count, pointer, mask, other, access, space)

    def store_global(
        self, element: Element, pointer: Lanes, values: Sequence[Lanes], mask: Lanes | None,
        access: Access, space: int = 1,
    ) -> None:  # fmt: skip
        self._look(element.bytes * len(values), pointer, mask, space)
        super().store_global(element, pointer, values, mask, access, space)

    def atomic(
        self, name: str, element: Element, pointer: Lanes, value: Lanes, order: Order
    ) -> Lanes:
        self._look(element.bytes, pointer, None, order.space)
        return super().atomic(name, element, pointer, value, order)

    def compare_exchange(
        self, element: Element, pointer: Lanes, expected: Lanes, desired: Lanes, order: Order
    ) -> Lanes:
        self._look(element.bytes, pointer, None, order.space)
        return super().compare_exchange(element, pointer, expected, desired, order)

    def load_atomic(self, element: Element, pointer: Lanes, order: Order) -> Lanes:
        self._look(element.bytes, pointer, None, order.space)
        return super().load_atomic(element, pointer, order)

    def store_atomic(self, element: Element, pointer: Lanes, value: Lanes, order: Order) -> None:
        self._look(element.bytes, pointer, None, order.space)
        super().store_atomic(element, pointer, value, order)

    # Looking ------------------------------------------------------------------------------------

    def _look(self, size: int, pointer: Lanes, mask: Lanes | None, space: int) -> None:
        guard = self.guard
        if guard is None or space != AddressSpace.GLOBAL or mask == "false":
            return
        after = self.fresh_label("inside")
        near = self._near(guard, size, pointer)
        if near:
            apart = self.fresh_label("apart")
            self.line(f"br i1 {near}, label %{after}, label %{apart}")
            self.start(apart)
        if isinstance(pointer, Wide) or (isinstance(pointer, Linear) and pointer.given):
            places = self._number(vector_type(_BYTES), self.wide(_BYTES, pointer), vector_type(I64))
            name, at = "each", f"{vector_type(I64)} {places}"
        else:
            base, step = (pointer, 0) if isinstance(pointer, str) else (pointer.base, pointer.step)
            low = self._number(scalar_type(_BYTES), base, "i64")
            name, at = "row", f"i64 {low}, i64 {step}"
        beyond = self._beyond(name, at, guard, size, self.held(mask))
        report = self.fresh_label("outside")
        self.line(f"br i1 {beyond}, label %{report}, label %{after}")
        self.start(report)
        self.line(self.leave)
        self.start(after)

    def _number(self, kind: str, pointer: str, number: str) -> str:
        return self.emit(f"ptrtoint {kind} {pointer} to {number}")

    def _near(self, guard: Guard, size: int, pointer: Lanes) -> str:
        """Whether all lanes surely access the array; '' where that takes looking at each."""
        if isinstance(pointer, Wide) or (isinstance(pointer, Linear) and pointer.step < 0):
            return ""
        base, step, given = (pointer, 0, "") if isinstance(pointer, str) else (
            pointer.base, pointer.step, pointer.given)  # fmt: skip
        low = self._number(scalar_type(_BYTES), base, "i64")
        high = self.emit(f"add i64 {low}, {step * (WIDTH - 1) + size}")
        after = self.emit(f"icmp uge i64 {low}, {guard.first}")
        before = self.emit(f"icmp ule i64 {high}, {guard.end}")
        both = self.emit(f"and i1 {after}, {before}")
        return self.emit(f"and i1 {both}, {given}") if given else both

    def _beyond(self, name: str, at: str, guard: Guard, size: int, held: Lanes | None) -> str:
        """Whether a lane of `held` accesses what is outside, which is then said."""
        thread: Any = self
        lanes = "-1" if held is None else self.emit(
            f"bitcast {vector_type(I1)} {self.mask(held)} to i32")  # fmt: skip
        ids = ", ".join(f"i32 {thread.program_id(axis)}" for axis in range(3))
        number = len(self.sites)
        self.sites.append(_site(guard, size))
        return self.emit(
            f"call i1 @beyond.{name}({at}, i64 {size}, i64 {guard.first}, i64 {guard.end}, "
            f"i32 {lanes}, i64 {number}, {ids})"
        )


def _site(guard: Guard, size: int) -> Site:
    def answer(calls: Calls, given: list[Array], held: Array) -> None:
        start, end = (int(given[i][0]) for i in (1, 2))
        at = int(given[0][held[0]]) - start
        calls.fail(
            f"{instance_of(given[3:])} {guard.op} of {size} bytes at byte {at} of {guard.array}, "
            f"which has {end - start}", "TIR0501", guard.location,
        )  # fmt: skip

    return Site((*["int64"] * 3, *["int32"] * 3), answer)


_GIVEN = "i64 %size, i64 %first, i64 %end, i32 %held, i64 %site, i32 %px, i32 %py, i32 %pz"
_STEPS = ", ".join(f"i64 {lane}" for lane in range(WIDTH))


def _spread(name: str) -> str:
    return (
        f"  %{name}.0 = insertelement <32 x i64> poison, i64 %{name}, i64 0\n"
        f"  %{name}.all = shufflevector <32 x i64> %{name}.0, <32 x i64> poison, "
        "<32 x i32> zeroinitializer"
    )


def _put(kind: str, value: str, slot: int) -> str:
    place = f"%slot{slot}"
    return (
        f"  {place} = getelementptr i8, ptr %buffer, i64 {slot * SLOT}\n"
        f"  store {kind} {value}, ptr {place}, align 8"
    )


FUNCTIONS = f"""define internal i1 @beyond.each(<32 x i64> %at, {_GIVEN}) noinline cold #0 {{
entry:
  %buffer = alloca [{7 * SLOT} x i8], align 64
{_spread("size")}
{_spread("first")}
{_spread("end")}
  %behind = add <32 x i64> %at, %size.all
  %below = icmp ult <32 x i64> %at, %first.all
  %above = icmp ugt <32 x i64> %behind, %end.all
  %out = or <32 x i1> %below, %above
  %lanes = bitcast i32 %held to <32 x i1>
  %bad = and <32 x i1> %out, %lanes
  %bits = bitcast <32 x i1> %bad to i32
  %some = icmp ne i32 %bits, 0
  br i1 %some, label %report, label %done
report:
  %bytes = zext <32 x i1> %bad to <32 x i8>
{_put("<32 x i8>", "%bytes", 0)}
{_put("<32 x i64>", "%at", 1)}
{_put("i64", "%first", 2)}
{_put("i64", "%end", 3)}
{_put("i32", "%px", 4)}
{_put("i32", "%py", 5)}
{_put("i32", "%pz", 6)}
  %host.now = load ptr, ptr @host
  call void %host.now(i64 %site, ptr %buffer)
  br label %done
done:
  ret i1 %some
}}
define internal i1 @beyond.row(i64 %low, i64 %step, {_GIVEN}) noinline cold #0 {{
entry:
{_spread("low")}
{_spread("step")}
  %far = mul <32 x i64> %step.all, <{_STEPS}>
  %at = add <32 x i64> %low.all, %far
  %some = call i1 @beyond.each(<32 x i64> %at, {_GIVEN})
  ret i1 %some
}}"""
"""What looks at every lane, given all addresses or the first and their distance; outside of the
code of kernels, which would be twice as long."""
