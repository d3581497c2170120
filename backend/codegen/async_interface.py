"""The part of the thread interface that sm_90 adds: asynchronous copies, mbarriers and wgmma.

Offsets are bytes of shared memory. `chosen` is an i1 that is true in one thread of those that run
the function, None where one thread runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from tileir.types import Element, Tile

if TYPE_CHECKING:
    from tileir.backend.layouts.wgmma import WgmmaInstruction

Handle: TypeAlias = Any


@attrs.frozen
class TensorMapHandle:
    """A tensor map: number `number` of the kernel's, of blocks of type `block`, copied by boxes of
    `box` elements in panels of 16 << `swizzle` bytes. Elements out of bounds are NaN if `nan`,
    otherwise zero."""

    number: int
    block: Tile
    box: tuple[int, ...]
    swizzle: int
    nan: bool


@attrs.frozen
class WgmmaStep:
    """One wgmma instruction: its first accumulator register, and the offsets of its operands from
    the first ones, in bytes of shared memory, or in registers for an A in registers. `first`: its
    accumulator starts at zero."""

    accumulator: int
    a: int
    b: int
    first: bool


class AsyncUnits(Protocol):
    """The operations of sm_90's asynchronous units that a rule may emit."""

    def tensor_map(
        self,
        map: TensorMapHandle,
        base: Handle,
        extents: Sequence[Handle],
        strides: Sequence[Handle],
        chosen: Handle | None,
    ) -> Handle:
        """The tensor map, which the host encoded from the same numbers: i32 or i64 extents and
        strides in elements, slowest dimension first."""
        ...

    def mbarrier_init(
        self, offset: Handle, count: int, arrivals: int, chosen: Handle | None
    ) -> None:
        """Begin the first phase of `count` barriers, from `offset` on."""
        ...

    def mbarrier_ready(self) -> None:
        """Let what copies see the barriers that this thread began."""
        ...

    def mbarrier_expect(self, offset: Handle, size: int, chosen: Handle | None) -> None:
        """Arrive, and let the phase wait for `size` more bytes."""
        ...

    def mbarrier_arrive(self, offset: Handle, when: Handle | None) -> None:
        """Arrive once per warp, after its lanes have synchronized, if the i1 `when` is true."""
        ...

    def mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        """Wait until the phase of that parity has ended."""
        ...

    def tma_load(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        """Begin to copy the box at `indices`, slowest first, to `offset`; its bytes count at the
        barrier."""
        ...

    def tma_store(
        self, map: Handle, offset: Handle, indices: Sequence[Handle], chosen: Handle | None, *,
        add: bool,
    ) -> None:  # fmt: skip
        """Begin to copy from `offset` to the box at `indices`; to `add` each f32 to it."""
        ...

    def tma_commit(self, chosen: Handle | None) -> None:
        """End a group of copies from shared memory."""
        ...

    def tma_wait(self, pending: int, chosen: Handle | None, *, complete: bool) -> None:
        """Wait until at most `pending` of the newest groups still read shared memory, or are not
        `complete`."""
        ...

    def async_fence(self) -> None:
        """Order this thread's accesses of shared memory before those of the asynchronous proxy."""
        ...

    def shared_address(self, offset: Handle) -> Handle:
        """The shared-memory address, an i32, as matrix descriptors encode it."""
        ...

    def group(self) -> Handle:
        """Index of the warpgroup, a uniform i32."""
        ...

    def group_barrier(self) -> None:
        """Threads of a warpgroup wait for each other, and see what each did to memory."""
        ...

    def named_barrier_sync(self) -> None:
        """Wait until this warpgroup may proceed in the ping-pong order."""
        ...

    def named_barrier_arrive(self, *, begin: bool) -> None:
        """Let the next warpgroup proceed; with `begin`, only the last warpgroup does so."""
        ...

    def where_any(
        self, condition: Handle, element: Element, values: Sequence[Handle],
        body: Callable[[], Sequence[Handle]],
    ) -> list[Handle]:  # fmt: skip
        """The results of `body` in warps where `condition` holds in a lane; in others `values`,
        which `body` would return there as well."""
        ...

    def wgmma(
        self, kind: WgmmaInstruction, steps: Sequence[WgmmaStep], a: Handle | Sequence[Handle],
        b: Handle, c: Sequence[Handle] | None,
    ) -> list[Handle]:  # fmt: skip
        """Issue a group of wgmma instructions that accumulate into `c` (None for zero). Operands
        are matrix descriptors (PTX ISA, "Matrix Descriptor Format"), A or its registers."""
        ...

    def wgmma_wait(self, element: Element, values: Sequence[Handle], pending: int) -> list[Handle]:
        """The accumulators `values`, after at most `pending` of the newest groups remain in
        flight."""
        ...

    def order(self, value: Handle) -> None:
        """Keep later ops after the computation of `value`, an f32."""
        ...

    def role(self, lowering: Any, op: Any) -> None:
        """Let the warps of `op`, a `gpu.role`, run its function."""
        ...

    def join(self) -> None:
        """Wait for all roles."""
        ...
