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

    def constant(self, element: Element, bits: int) -> Handle:
        """The literal whose representation is `bits`."""
        ...

    def integer(self, number: int) -> Handle:
        """An i32."""
        ...

    def binary(self, name: str, element: Element, a: Handle, b: Handle, flags: str = "") -> Handle:
        """Instruction `name` of two operands of `element`."""
        ...

    def intrinsic(self, name: str, element: Element, *operands: Handle, flags: str = "") -> Handle:
        """Intrinsic `name`, overloaded on `element` alone, of operands of `element`."""
        ...

    def negate(self, element: Element, a: Handle) -> Handle:
        """`a` with its sign bit flipped."""
        ...

    def scale_by_power(self, element: Element, a: Handle, power: Handle) -> Handle | None:
        """`a` times 2 to the power of an i32, rounded once; None where no one instruction does
        that."""
        ...

    def compare(self, predicate: str, element: Element, a: Handle, b: Handle) -> Handle:
        """`icmp` or `fcmp` by the type of `element`; an i1."""
        ...

    def select(self, element: Element, condition: Handle, a: Handle, b: Handle) -> Handle:
        """`a` where `condition`, else `b`."""
        ...

    def convert(self, name: str, source: Element, target: Element, a: Handle) -> Handle:
        """Cast instruction `name`; the identity where both types are one machine type. `fptosi.sat`
        and `fptoui.sat` clamp the result to the range; NaN becomes 0."""
        ...

    def instruction(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        """A pure PTX instruction: `$0` is the result, `$1` ... the operands."""
        ...

    def pack(self, element: Element, values: Sequence[Handle]) -> Handle:
        """An i32 of values of one or two bytes that fill it, the first lowest."""
        ...

    def unpack(self, element: Element, word: Handle) -> list[Handle]:
        """The values of which `pack` made `word`."""
        ...

    def in_one_word(self, element: Element, values: Sequence[Handle]) -> bool:
        """Whether `pack` takes no instruction, or one, for `values`."""
        ...

    def call(
        self, name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Handle]]
    ) -> list[Handle]:
        """Results of the module's scalar function `name`."""
        ...

    def advance(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        """`pointer`, of type `kind`, moved by `index` elements, a signed integer of `width`."""
        ...

    def advance_here(self, kind: Pointer, pointer: Handle, index: Handle, width: Element) -> Handle:
        """Advance a pointer as `advance` does, but at this point: no part is computed before a
        loop, where it would take registers throughout."""
        ...

    def once(self, key: Hashable, make: Callable[[], Handle]) -> Handle:
        """The code that `make` emits at the beginning of the function, on the first call with
        `key`; '' for none."""
        ...

    def effect(
        self, text: str, result: Element, operands: Sequence[tuple[Element, Handle]]
    ) -> Handle:
        """A PTX instruction that is neither removed nor merged, as `instruction` otherwise."""
        ...

    def thread(self) -> Handle:
        """Index of the thread among those that run the function, an i32."""
        ...

    def lane(self) -> Handle:
        """Index of the lane in its warp, an i32."""
        ...

    def warp(self) -> Handle:
        """Index of the warp in its block, a uniform i32."""
        ...

    def recomputing(self) -> AbstractContextManager[None]:
        """While the context is active, positions are rematerialized from the thread index, so that
        no register holds them before or after."""
        ...

    def keeping(self) -> AbstractContextManager[None]:
        """While the context is active, positions stay in registers."""
        ...

    def program_id(self, axis: int) -> Handle:
        """Index of the program instance along `axis`, an i32."""
        ...

    def program_count(self, axis: int) -> Handle:
        """Number of program instances along `axis`, an i32."""
        ...

    def shuffle_xor(self, element: Element, a: Handle, mask: int) -> Handle:
        """`a` of the lane whose index differs by `mask`; all lanes take part."""
        ...

    def shuffle_index(self, element: Element, a: Handle, lane: Handle) -> Handle:
        """`a` of lane `lane`; all lanes take part."""
        ...

    def reduce_lanes(self, element: Element, combiner: str, a: Handle) -> Handle | None:
        """The integers `a` of all lanes combined by the named `combiner`, in each lane; None where
        there is no instruction for that."""
        ...

    def load_global(
        self, element: Element, count: int, pointer: Handle, mask: Handle | None,
        other: Sequence[Handle] | None, access: AccessAttributes, space: int = 1,
    ) -> list[Handle]:  # fmt: skip
        """`count` neighbours from `pointer`, aligned to all of them, of the address space `space`;
        `other` where not `mask`."""
        ...

    def store_global(
        self, element: Element, pointer: Handle, values: Sequence[Handle], mask: Handle | None,
        access: AccessAttributes, space: int = 1,
    ) -> None:  # fmt: skip
        """Neighbours to `pointer`, aligned to all of them, of the address space `space`, where
        `mask`."""
        ...

    def atomic(
        self, name: str, element: Element, pointer: Handle, value: Handle, order: AtomicOrder
    ) -> Handle:
        """Read-modify-write `name` (LLVM's `atomicrmw`); the old value."""
        ...

    def add_vector(
        self, element: Element, pointer: Handle, values: Sequence[Handle], order: AtomicOrder
    ) -> list[Handle]:
        """Add floats to neighbours in global memory, aligned to all of them, each atomically; the
        old values."""
        ...

    def compare_exchange(
        self,
        element: Element,
        pointer: Handle,
        expected: Handle,
        desired: Handle,
        order: AtomicOrder,
    ) -> Handle:
        """Write `desired` where memory contains `expected`; return the old value."""
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
        """Order this thread's accesses around it."""
        ...

    def fence_accesses(self, order: AtomicOrder) -> None:
        """Order this thread's accesses by the op `order.fenced` with those before and after it, for
        the scope `order.scope`."""
        ...

    def add_shared(self, offset: Handle, value: Handle) -> None:
        """Add to the i32 at byte `offset` of shared memory, atomically within the block."""
        ...

    def load_shared(self, element: Element, count: int, offset: Handle) -> list[Handle]:
        """`count` neighbours from byte `offset` of shared memory, aligned to all of them."""
        ...

    def store_shared(self, element: Element, offset: Handle, values: Sequence[Handle]) -> None:
        """Neighbours to byte `offset` of shared memory, aligned to all of them."""
        ...

    def store_shared_if(
        self, condition: Handle, element: Element, offset: Handle, values: Sequence[Handle]
    ) -> None:
        """`store_shared` by the threads for which `condition`, an i1, is true, without a branch."""
        ...

    def allot_private(self, element: Element, count: int) -> Handle:
        """Private memory for `count` elements of this thread, uninitialized."""
        ...

    def load_private(
        self, element: Element, count: int, place: Handle, index: Handle
    ) -> list[Handle]:
        """`count` neighbours from element `index`, an i32 that `count` divides, of `place`."""
        ...

    def store_private(
        self, element: Element, place: Handle, index: Handle, values: Sequence[Handle]
    ) -> None:
        """Neighbours to element `index`, which their number divides, of `place`."""
        ...

    def load_matrix(
        self, element: Element, count: int, transposed: bool, offset: Handle, constant: int
    ) -> list[Handle]:
        """`count` (1, 2 or 4) matrices of 8 rows of 16 bytes from shared memory, by the whole
        warp. Lane 8 j + i names row i of matrix j, at byte `offset` + `constant`; lane 4 r + t
        gets of each matrix the 4 bytes t of row r. `transposed`, for 2-byte elements: of column r
        the rows 2 t and 2 t + 1."""
        ...

    def store_matrix(
        self, element: Element, transposed: bool, offset: Handle, constant: int,
        values: Sequence[Handle],
    ) -> None:  # fmt: skip
        """Store `values`, as `load_matrix` would return them, to shared memory, by the whole
        warp."""
        ...

    def mma(
        self, kind: MmaInstruction, a: Sequence[Handle], b: Sequence[Handle], c: Sequence[Handle],
        signed: tuple[bool, bool],
    ) -> list[Handle]:  # fmt: skip
        """The matrix instruction `kind`, by the whole warp; elements of fragments in order.
        `signed` applies to integer operands."""
        ...

    def round_tf32(self, a: Handle) -> Handle:
        """An f32 rounded to 10 bits after the point, ties away from zero."""
        ...

    def copy_async(
        self, size: int, offset: Handle, constant: int, pointer: Handle, mask: Handle | None,
        predicate: Handle | None,
    ) -> None:  # fmt: skip
        """Begin to copy `size` (4, 8 or 16) bytes from global `pointer` to byte `offset` +
        `constant` of shared memory, zeros where not `mask`; nothing where not `predicate`."""
        ...

    def commit_copies(self) -> None:
        """End a group of copies that this thread began."""
        ...

    def wait_copies(self, pending: int) -> None:
        """Wait until at most `pending` of this thread's newest groups are under way. What landed
        is seen by this thread, and by others after a barrier."""
        ...

    def barrier(self) -> None:
        """Wait for every thread of the block; the barrier orders their memory accesses."""
        ...

    def warp_barrier(self) -> None:
        """Wait for every thread of the warp; the barrier orders their memory accesses."""
        ...

    def when(
        self, condition: Handle, elements: Sequence[Element],
        body: Callable[[], Sequence[Handle]], otherwise: Sequence[Handle] = (),
    ) -> list[Handle]:  # fmt: skip
        """Results of `body` in threads where `condition`, `otherwise` in others, zeros where that
        is empty."""
        ...

    def loop(
        self, count: int, elements: Sequence[Element], initial: Sequence[Handle],
        body: Callable[[Handle, list[Handle]], Sequence[Handle]],
    ) -> list[Handle]:  # fmt: skip
        """The carried values after `count` iterations (1 or more) of `body`, which takes the
        iteration number, an i32, and the carried values."""
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
        """End the kernel with an error that has the location and the message."""
        ...

    def assembly(
        self, text: str, constraints: str, results: Sequence[Element],
        operands: Sequence[tuple[Element, Sequence[Handle]]], *, pack: int, pure: bool,
    ) -> list[list[Handle]]:  # fmt: skip
        """PTX as written by the program, under LLVM's constraints, on `pack` elements of every
        operand, those narrower than 32 bits sharing registers; as many of every result."""
        ...

    def external(
        self, symbol: str, result: Element, operands: Sequence[tuple[Element, Handle]], *,
        pure: bool,
    ) -> Handle:  # fmt: skip
        """The function `symbol` of a library that is linked in."""
        ...
