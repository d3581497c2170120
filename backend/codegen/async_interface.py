"""The part of the thread interface that sm_90 adds: asynchronous copies, mbarriers and wgmma.

Offsets are bytes of shared memory. `chosen` is an i1 that is true in exactly one of the threads
that run the function. It is None if a single thread runs the function.
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
    """A tensor map of the kernel. `number` is its index among the kernel's tensor maps. Blocks of
    type `block` are copied by boxes of `box` elements, in panels of 16 << `swizzle` bytes. Elements
    out of bounds are read as NaN if `nan`, otherwise as zero."""

    number: int
    block: Tile
    box: tuple[int, ...]
    swizzle: int
    nan: bool


@attrs.frozen
class WgmmaStep:
    """One wgmma instruction of a group: the index of its first accumulator register, and the
    offsets of its operands from those of the group, in bytes of shared memory, or in registers for
    an A in registers. If `first`, its accumulator starts at zero."""

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
        """Return the tensor map. The host encoded it from the same numbers: extents and strides
        (i32 or i64) in elements, slowest dimension first."""
        ...

    def mbarrier_init(
        self, offset: Handle, count: int, arrivals: int, chosen: Handle | None
    ) -> None:
        """Initialize `count` mbarriers from `offset` on, each with `arrivals` expected arrivals per
        phase."""
        ...

    def mbarrier_ready(self) -> None:
        """Make the mbarriers that this thread initialized visible to the asynchronous proxy."""
        ...

    def mbarrier_expect(self, offset: Handle, size: int, chosen: Handle | None) -> None:
        """Arrive at the mbarrier, and let its phase expect `size` more bytes."""
        ...

    def mbarrier_arrive(self, offset: Handle, when: Handle | None) -> None:
        """Arrive once per warp, after its lanes have synchronized, if the i1 `when` is true."""
        ...

    def mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        """Wait until the phase with this parity has completed."""
        ...

    def tma_load(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        """Start to copy the box at `indices`, slowest dimension first, to `offset`. The copied
        bytes count at the mbarrier."""
        ...

    def tma_store(
        self, map: Handle, offset: Handle, indices: Sequence[Handle], chosen: Handle | None, *,
        add: bool,
    ) -> None:  # fmt: skip
        """Start to copy from `offset` to the box at `indices`. With `add`, each f32 is added to the
        one in memory."""
        ...

    def tma_commit(self, chosen: Handle | None) -> None:
        """Close a group of copies from shared memory (PTX, `cp.async.bulk.commit_group`)."""
        ...

    def tma_wait(self, pending: int, chosen: Handle | None, *, complete: bool) -> None:
        """Wait until at most `pending` of the newest groups still read shared memory; with
        `complete`, until at most `pending` of them have not yet written their results."""
        ...

    def async_fence(self) -> None:
        """Order this thread's accesses of shared memory before those of the asynchronous proxy."""
        ...

    def shared_address(self, offset: Handle) -> Handle:
        """The shared-memory address, an i32, as matrix descriptors encode it."""
        ...

    def group(self) -> Handle:
        """The index of the warpgroup, a uniform i32."""
        ...

    def group_barrier(self) -> None:
        """Synchronize the threads of the warpgroup. The barrier orders their memory accesses."""
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
        """The results of `body` in warps where `condition` is true in at least one lane. Other
        warps skip `body` and return `values`, which `body` would return there as well."""
        ...

    def wgmma(
        self, kind: WgmmaInstruction, steps: Sequence[WgmmaStep], a: Handle | Sequence[Handle],
        b: Handle, c: Sequence[Handle] | None,
    ) -> list[Handle]:  # fmt: skip
        """Issue a group of wgmma instructions that accumulate into `c` (None for zero). `a` and `b`
        are matrix descriptors (PTX ISA, "Matrix Descriptor Format"); `a` may be registers instead.
        """
        ...

    def wgmma_wait(self, element: Element, values: Sequence[Handle], pending: int) -> list[Handle]:
        """Return the accumulators `values`, once at most `pending` of the newest groups are still
        in flight."""
        ...

    def order(self, value: Handle) -> None:
        """Keep the ops that follow from being moved before the computation of `value`, an f32."""
        ...

    def role(self, lowering: Any, op: Any) -> None:
        """Emit the branch by which the warps of `op`, a `gpu.role`, run its function."""
        ...

    def join(self) -> None:
        """Wait until all roles have ended."""
        ...
