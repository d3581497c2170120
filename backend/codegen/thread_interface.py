"""The thread interface: the operations that a lowering rule may emit.

A rule maps the per-thread values of an op's operands to those of its results. It is written against
this interface alone, for one thread, with warp-wide and block-wide operations where threads
synchronize. A handle stands for one value of one thread. Its representation belongs to the machine
(for LLVM, the text of an operand; for a simulator, an array over all threads).

Element types are those of the IR. Names of arithmetic are LLVM's (LangRef, "Instruction
Reference"); names of intrinsics are LLVM's without the `llvm.` prefix and the type suffix.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tileir.backend.codegen.async_interface import AsyncUnits
from tileir.backend.codegen.cluster_interface import ClusterOps
from tileir.types import Element, Pointer, Type

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_operands import AccessAttributes, AtomicOrder, PrintedNumber
    from tileir.backend.layouts.mma import MmaInstruction

Handle: TypeAlias = Any
"""One value of one thread."""


class Thread(AsyncUnits, ClusterOps, Protocol):
    """One thread of a block, as a rule sees it."""

    f8_conversion: bool
    """Whether the target has instructions that convert f8e4m3 and f8e5m2."""

    slow_conversions: bool
    """Whether conversions of integers take longer than several operations on bits."""

    approximates: bool
    """Whether `ex2.approx`, `lg2.approx`, `rcp.approx` and `rsqrt.approx` are instructions, and not
    formulas."""

    divides_all: bool
    """Whether `div` and `rem` of 16 and of 32 bits are instructions, which divide any integers: by
    zero with any result, and the smallest by -1 as integers that wrap."""

    adds_wide_multiples: bool
    """Whether one instruction multiplies an i32 by a literal and adds that to a pointer."""

    def constant(self, element: Element, bits: int) -> Handle:
        """The literal whose representation is `bits`."""
        ...

    def integer(self, number: int) -> Handle:
        """An i32."""
        ...

    def binary(self, name: str, element: Element, a: Handle, b: Handle, flags: str = "") -> Handle:
        """The result of instruction `name` on two operands of `element`."""
        ...

    def intrinsic(self, name: str, element: Element, *operands: Handle, flags: str = "") -> Handle:
        """The result of intrinsic `name`, overloaded on `element` alone, on operands of
        `element`."""
        ...

    def negate(self, element: Element, a: Handle) -> Handle:
        """`a` with its sign bit flipped."""
        ...

    def scale_by_power(self, element: Element, a: Handle, power: Handle) -> Handle | None:
        """`a` times 2 to the power of an i32, rounded once; None if no single instruction computes
        that."""
        ...

    def compare(self, predicate: str, element: Element, a: Handle, b: Handle) -> Handle:
        """An i1: `icmp` or `fcmp`, as `element` is an integer or a float."""
        ...

    def select(self, element: Element, condition: Handle, a: Handle, b: Handle) -> Handle:
        """`a` where `condition` is true, else `b`."""
        ...

    def convert(self, name: str, source: Element, target: Element, a: Handle) -> Handle:
        """Cast instruction `name`. The operand itself if both types have the same machine type.
        `fptosi.sat` and `fptoui.sat` clamp the result to the range of the type; NaN becomes 0."""
        ...

    def instruction(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        """The result of a pure PTX instruction. In `text`, `$0` is the result, `$1` ... are the
        operands."""
        ...

    def pack(self, element: Element, values: Sequence[Handle]) -> Handle:
        """An i32 that consists of `values`, of one or two bytes each, the first one lowest."""
        ...

    def unpack(self, element: Element, word: Handle) -> list[Handle]:
        """The values that `pack` combined into `word`."""
        ...

    def in_one_word(self, element: Element, values: Sequence[Handle]) -> bool:
        """Whether `pack` takes at most one instruction for `values`."""
        ...

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Handle]]
    ) -> list[Handle]:
        """The results of a call of the module's scalar function `name`."""
        ...

    def advance(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        """`pointer`, of type `kind`, moved by `index` elements; `index` is a signed integer of type
        `width`."""
        ...

    def advance_here(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        """Advance a pointer as `advance` does, but at this point: no part of the computation is
        hoisted out of a loop, where it would take registers throughout the loop."""
        ...

    def once(self, key: Hashable, make: Callable[[], Handle]) -> Handle:
        """The handle that `make` returns. On the first call with `key`, `make` emits its code at
        the function's entry; '' if it emits none."""
        ...

    def effect(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        """The result of a PTX instruction that is neither removed nor merged; otherwise as
        `instruction`."""
        ...

    def thread(self) -> Handle:
        """The index of the thread among those that run the function, an i32."""
        ...

    def lane(self) -> Handle:
        """The index of the lane in its warp, an i32."""
        ...

    def warp(self) -> Handle:
        """The index of the warp in its block, a uniform i32."""
        ...

    def recomputing(self) -> AbstractContextManager[None]:
        """Within the context, positions are recomputed from the thread index, so that they take no
        registers before and after it."""
        ...

    def keeping(self) -> AbstractContextManager[None]:
        """Within the context, positions stay in registers."""
        ...

    def program_id(self, axis: int) -> Handle:
        """The index of the program instance along `axis`, an i32."""
        ...

    def program_count(self, axis: int) -> Handle:
        """The number of program instances along `axis`, an i32."""
        ...

    def shuffle_xor(self, element: Element, a: Handle, mask: int) -> Handle:
        """`a` of the lane whose index differs from this one in the bits `mask`. All lanes take
        part."""
        ...

    def shuffle_index(self, element: Element, a: Handle, lane: Handle) -> Handle:
        """`a` of lane `lane`. All lanes take part."""
        ...

    def reduce_lanes(self, element: Element, combiner: str, a: Handle) -> Handle | None:
        """The integers `a` of all lanes combined by `combiner`, in every lane; None if there is no
        instruction for it."""
        ...

    def load_global(
        self, element: Element, count: int, pointer: Handle, mask: Handle | None,
        other: Sequence[Handle] | None, access: AccessAttributes, space: int = 1,
    ) -> list[Handle]:  # fmt: skip
        """Load `count` consecutive elements from `pointer`, in address space `space`, aligned to
        their total size. Elements are `other` where `mask` is false."""
        ...

    def store_global(
        self, element: Element, pointer: Handle, values: Sequence[Handle], mask: Handle | None,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        """Store consecutive elements to `pointer`, in address space `space`, aligned to their total
        size, where `mask` is true."""
        ...

    def atomic(
        self, name: str, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> Handle:
        """The old value of read-modify-write `name` (LLVM's `atomicrmw`). Lanes may have diverged
        until `reconverge`."""
        ...

    def add_vector(
        self, element: Element, pointer: Handle, values: Sequence[Handle], order: AtomicOrder
    ) -> list[Handle]:
        """Add floats to consecutive elements of global memory, aligned to their total size, each
        atomically. The result is the old values."""
        ...

    def compare_exchange(
        self,
        element: Element,
        pointer: Handle,
        expected: Handle,
        desired: Handle,
        order: AtomicOrder,
    ) -> Handle:
        """Store `desired` if memory contains `expected`; the result is the old value."""
        ...

    def load_atomic(self, element: Element, pointer: Handle, order: AtomicOrder) -> Handle:
        """An atomic load."""
        ...

    def store_atomic(
        self, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> None:
        """An atomic store."""
        ...

    def fence(self, order: AtomicOrder) -> None:
        """Order this thread's accesses before it and after it."""
        ...

    def fence_accesses(self, order: AtomicOrder) -> None:
        """Order the accesses of this thread that belong to the op `order.fenced` with its accesses
        before and after them, for the scope `order.scope`.
        """
        ...

    def add_shared(self, offset: Handle, value: Handle) -> None:
        """Add to the i32 at byte `offset` of shared memory, atomically within the block."""
        ...

    def load_shared(self, element: Element, count: int, offset: Handle) -> list[Handle]:
        """Load `count` consecutive elements from byte `offset` of shared memory, aligned to their
        total size."""
        ...

    def store_shared(self, element: Element, offset: Handle, values: Sequence[Handle]) -> None:
        """Store consecutive elements to byte `offset` of shared memory, aligned to their total
        size."""
        ...

    def store_shared_if(
        self, condition: Handle, element: Element, offset: Handle, values: Sequence[Handle]
    ) -> None:
        """Store as `store_shared` does, in the threads where `condition`, an i1, is true, without a
        branch."""
        ...

    def allot_private(self, element: Element, count: int) -> Handle:
        """Allocate private memory for `count` elements of this thread, uninitialized."""
        ...

    def load_private(
        self, element: Element, count: int, place: Handle, index: Handle
    ) -> list[Handle]:
        """Load `count` consecutive elements from element `index` of `place`; `index` is an i32 and
        a multiple of `count`."""
        ...

    def store_private(
        self, element: Element, place: Handle, index: Handle, values: Sequence[Handle]
    ) -> None:
        """Store consecutive elements to element `index` of `place`; `index` is a multiple of their
        number."""
        ...

    def load_matrix(
        self, element: Element, count: int, transposed: bool, offset: Handle, constant: int
    ) -> list[Handle]:
        """Load `count` (1, 2 or 4) matrices of 8 rows of 16 bytes from shared memory, by the whole
        warp. Lane 8 j + i passes the address of row i of matrix j: byte `offset` + `constant`. Of
        each matrix, lane 4 r + t receives 4-byte word t of row r. If `transposed` (2-byte elements
        only), it receives rows 2 t and 2 t + 1 of column r."""
        ...

    def store_matrix(
        self, element: Element, transposed: bool, offset: Handle, constant: int,
        values: Sequence[Handle],
    ) -> None:  # fmt: skip
        """Store `values`, in the order in which `load_matrix` would return them, to shared memory,
        by the whole warp."""
        ...

    def transpose_matrix(self, word: Handle) -> Handle:
        """Transpose a matrix of 8 by 8 elements of 16 bits that a warp has in registers: lane
        4 r + t has elements 2 t and 2 t + 1 of row r in a word, before and after."""
        ...

    def mma(
        self, kind: MmaInstruction, a: Sequence[Handle], b: Sequence[Handle], c: Sequence[Handle],
        signed: tuple[bool, bool],
    ) -> list[Handle]:  # fmt: skip
        """The result of matrix instruction `kind`, executed by the whole warp. Elements of
        fragments are in the order of the instruction. `signed` applies to integer operands A and B.
        """
        ...

    def round_tf32(self, a: Handle) -> Handle:
        """An f32 rounded to 10 bits of the fraction, ties away from zero."""
        ...

    def copy_async(
        self, size: int, offset: Handle, constant: int, pointer: Handle, mask: Handle | None,
        predicate: Handle | None,
    ) -> None:  # fmt: skip
        """Start to copy `size` (4, 8 or 16) bytes from global `pointer` to byte `offset` +
        `constant` of shared memory. Zeros are stored where `mask` is false, nothing where
        `predicate` is false."""
        ...

    def commit_copies(self) -> None:
        """Close a group of the copies that this thread has started."""
        ...

    def wait_copies(self, pending: int) -> None:
        """Wait until at most `pending` of this thread's newest groups are in flight. Completed
        copies are visible to this thread, and to others after a barrier."""
        ...

    def barrier(self) -> None:
        """Wait for every thread of the block; the barrier orders their memory accesses."""
        ...

    def warp_barrier(self) -> None:
        """Wait for every thread of the warp; the barrier orders their memory accesses."""
        ...

    def reconverge(self) -> None:
        """Reconverge the lanes of every warp, if `atomic` has made them diverge. Every thread calls
        it."""
        ...

    def when(
        self, condition: Handle, elements: Sequence[Element],
        body: Callable[[], Sequence[Handle]], otherwise: Sequence[Handle] = (),
    ) -> list[Handle]:  # fmt: skip
        """The results of `body` in threads where `condition` is true, `otherwise` in other threads
        (zeros if it is empty)."""
        ...

    def loop(
        self, count: int, elements: Sequence[Element], initial: Sequence[Handle],
        body: Callable[[Handle, list[Handle]], Sequence[Handle]],
    ) -> list[Handle]:  # fmt: skip
        """The carried values after `count` iterations (1 or more) of `body`. `body` takes the
        iteration number, an i32, and the carried values, and returns the next ones."""
        ...

    def trap(self) -> None:
        """End the kernel with an error."""
        ...

    def global_address(self, kind: Pointer, name: str) -> Handle:
        """The address of the module's global `name`."""
        ...

    def say(self, parts: Sequence[str | PrintedNumber]) -> None:
        """Print a line of texts and of numbers: integers, f32, f64, pointers."""
        ...

    def fail(self, message: str, file: str, line: int) -> None:
        """End the kernel with an error that states the location and the message."""
        ...

    def assembly(
        self, text: str, constraints: str, results: Sequence[Element],
        operands: Sequence[tuple[Element, Sequence[Handle]]], *, pack: int, pure: bool,
    ) -> list[list[Handle]]:  # fmt: skip
        """Inline assembly of the program, with LLVM's constraints. It applies to `pack` elements of
        each operand and yields as many of each result; elements narrower than 32 bits share
        registers."""
        ...

    def external(
        self, symbol: str, result: Element, operands: Sequence[tuple[Element, Handle]], *,
        pure: bool,
    ) -> Handle:  # fmt: skip
        """The result of a call of `symbol`, a function of a library that is linked in."""
        ...
