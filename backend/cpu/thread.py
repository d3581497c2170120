"""The thread interface for a CPU: the 32 lanes of a warp in lockstep. A block consists of one
warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileir.backend.codegen.emit.packing import side_by_side, unpack_word
from tileir.backend.cpu.bounds_checks import BoundsChecked
from tileir.backend.cpu.lane_values import (
    WIDTH,
    AffineValue,
    Lanes,
    VectorValue,
    scalar_type,
    stored_type,
    vector_type,
)
from tileir.backend.cpu.private import PrivateMemoryOps
from tileir.backend.nvptx.text import global_name
from tileir.types import F32, I1, I32, AddressSpace, Element, Pointer, Type

Called = Callable[[str, Sequence[Type], Sequence[tuple[Type, Lanes]]], list[Lanes]]


class CpuThread(BoundsChecked, PrivateMemoryOps):
    """Writes LLVM IR for all lanes of one program instance."""

    f8_conversion = False
    slow_conversions = False
    approximates = False
    divides_all = False
    adds_wide_multiples = False
    inlined_ops = 0
    """Ops of functions of scalars that stand in place of calls."""
    inline: Called | None = None
    """Calls a scalar function of the module."""
    calls = False
    """Whether functions marked `noinline` stay functions, of one block, too."""

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Lanes]]
    ) -> list[Lanes]:
        assert self.inline is not None
        return self.inline(name, results, operands)

    no_structure = "poison"

    def returned_type(self, type: Type) -> str:
        return scalar_type(type)

    def pack(self, element: Element, values: Sequence[Lanes]) -> Lanes:
        return side_by_side(self, element, values)

    def in_one_word(self, element: Element, values: Sequence[Lanes]) -> bool:
        return False

    def unpack(self, element: Element, word: Lanes) -> list[Lanes]:
        return unpack_word(self, element, word, 32 // element.bits)

    # Position of the lanes -----------------------------------------------------------------------

    def lane(self) -> Lanes:
        return AffineValue("0", 1, "0")

    def warp(self) -> Lanes:
        return "0"

    def thread(self) -> Lanes:
        """The index of the lane in its block."""
        return self.lane()

    def program_id(self, axis: int) -> Lanes:
        return f"%p{'xyz'[axis]}"

    def program_count(self, axis: int) -> Lanes:
        return f"%g{'xyz'[axis]}"

    def global_address(self, kind: Pointer, name: str) -> Lanes:
        return f"@{global_name(name)}"

    # Synchronization ----------------------------------------------------------------------------

    def shuffle_xor(self, element: Element, a: Lanes, mask: int) -> Lanes:
        if isinstance(a, str):
            return a
        vector = self.wide(element, a)
        lanes = [lane ^ mask for lane in range(WIDTH)]
        return VectorValue(self._shufflevector(vector_type(element), vector, vector, lanes))

    def reduce_lanes(self, element: Element, combiner: str, a: Lanes) -> Lanes | None:
        return None

    def shuffle_index(self, element: Element, a: Lanes, lane: Lanes) -> Lanes:
        if isinstance(a, str) or isinstance(lane, str):
            index = lane if isinstance(lane, str) else "0"
            return self.lane_of(element, a, str(self.binary("and", I32, index, "31")))
        if element is I1:
            return self._select_bits(a, lane)
        kind, place = f"<{WIDTH} x {stored_type(element)}>", self.fresh()
        generic = Pointer(element, AddressSpace.GENERIC)
        self.at_entry.append(f"  {place} = alloca {kind}, align 64")
        self.line(f"store {kind} {self.to_memory(element, a)}, ptr {place}, align 64")
        at = self.advance(generic, place, self.binary("and", I32, lane, "31"), I32)
        (value,) = self._load(element, 1, at, None, 0, False)
        return value

    def _select_bits(self, a: Lanes, lane: Lanes) -> Lanes:
        """The bits of a mask, as an i1 per lane."""
        bits = self.emit(f"bitcast {vector_type(I1)} {self.wide(I1, a)} to i{WIDTH}")
        shifted = self.binary("lshr", I32, bits, self.binary("and", I32, lane, "31"))
        return self.cast("trunc", "i32", "i1", I32, shifted)

    def warp_barrier(self) -> None:
        """Do nothing: lanes are in lockstep."""
        self.barrier()

    def barrier(self) -> None:
        """Do nothing: lanes are in lockstep."""

    def reconverge(self) -> None:
        """Do nothing: lanes are in lockstep."""

    # Control flow -------------------------------------------------------------------------------

    def when(
        self, condition: Lanes, elements: Sequence[Element], body: Callable[[], Sequence[Lanes]],
        otherwise: Sequence[Lanes] = (),
    ) -> list[Lanes]:  # fmt: skip
        if condition == "true":
            return list(body())
        defaults = otherwise or [self.constant(e, 0) for e in elements]
        if isinstance(condition, str):
            results = self._branch(condition, elements, body)
            if not otherwise:
                return results
            return [
                self.select(e, condition, x, other)
                for e, x, other in zip(elements, results, defaults, strict=True)
            ]
        outer = self.active
        self.active = self.conjunction(outer, condition)
        assert self.active is not None
        constant = isinstance(condition, VectorValue) and condition.ones is not None
        if constant and outer is None:
            results = list(body())
        else:
            results = self._branch(self.any_of(self.active), elements, body)
        self.active = outer
        return [
            self.select(e, condition, x, other)
            for e, x, other in zip(elements, results, defaults, strict=True)
        ]

    def _branch(
        self, condition: str, elements: Sequence[Element], body: Callable[[], Sequence[Lanes]]
    ) -> list[Lanes]:
        """The results of `body` if `condition`, which is uniform over the lanes, is true; else
        zeros."""
        kinds, outcome = list[str](), list[list[Lanes]]()
        before, inside, after = self.label, self.fresh_label("then"), self.fresh_label("after")
        self.line(f"br i1 {condition}, label %{inside}, label %{after}")
        self.start(inside)
        outcome.append(list(body()))
        single = [isinstance(x, str) for x in outcome[0]]
        raw = [
            str(x) if one else self.wide(e, x)
            for e, x, one in zip(elements, outcome[0], single, strict=True)
        ]
        kinds = [
            scalar_type(e) if one else vector_type(e)
            for e, one in zip(elements, single, strict=True)
        ]
        last = self.label
        self.line(f"br label %{after}")
        self.start(after)
        results: list[Lanes] = []
        for element, kind, x, one in zip(elements, kinds, raw, single, strict=True):
            zero = self.constant(element, 0) if one else "zeroinitializer"
            joined = self.emit(f"phi {kind} [ {x}, %{last} ], [ {zero}, %{before} ]")
            results.append(joined if one else VectorValue(joined))
        return results

    def loop(
        self, count: int, elements: Sequence[Element], initial: Sequence[Lanes],
        body: Callable[[Lanes, list[Lanes]], Sequence[Lanes]],
    ) -> list[Lanes]:  # fmt: skip
        head, exit_ = self.fresh_label("loop"), self.fresh_label("done")
        first = [self.wide(e, x) for e, x in zip(elements, initial, strict=True)]
        before, index = self.label, self.fresh()
        carried = [self.fresh() for _ in initial]
        self.line(f"br label %{head}")
        self.start(head)
        place = len(self.lines)
        self.lines.append("")
        results = list(body(index, [VectorValue(x) for x in carried]))
        last = [self.wide(e, x) for e, x in zip(elements, results, strict=True)]
        following = self.emit(f"add nuw nsw i32 {index}, 1")
        more = self.emit(f"icmp ult i32 {following}, {count}")
        phis = [f"  {index} = phi i32 [ 0, %{before} ], [ {following}, %{self.label} ]"]
        for name, element, a, b in zip(carried, elements, first, last, strict=True):
            kind = vector_type(element)
            phis.append(f"  {name} = phi {kind} [ {a}, %{before} ], [ {b}, %{self.label} ]")
        self.lines[place] = "\n".join(phis)
        self.line(f"br i1 {more}, label %{head}, label %{exit_}")
        self.start(exit_)
        return [VectorValue(x) for x in last]

    # Operations that are GPU instructions ---------------------------------------------------------

    def copy_async(
        self, size: int, offset: Lanes, constant: int, pointer: Lanes, mask: Lanes | None,
        predicate: Lanes | None,
    ) -> None:  # fmt: skip
        self._check(size, pointer, self.conjunction(mask, predicate), AddressSpace.GLOBAL)
        words = size // 4
        copied = self._load(
            F32, words, pointer, self.active_under(self.conjunction(mask, predicate)), 1, False
        )
        place = self.binary("add", I32, offset, self.integer(constant), "nsw")
        self._store(F32, self._place(place), copied, self.active_under(predicate), 0, False)

    def commit_copies(self) -> None:
        """Do nothing: copies are synchronous."""

    def wait_copies(self, pending: int) -> None:
        """Do nothing: copies are synchronous."""
