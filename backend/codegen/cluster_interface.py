"""The part of the thread interface for clusters: operations of a block on the other blocks of its
cluster.

Offsets are bytes of shared memory. Ranks are i32 numbers of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from tileir.types import Element

Handle: TypeAlias = Any


class ClusterOps(Protocol):
    """The operations on other blocks of the cluster that a rule may emit."""

    cluster: int
    """Blocks of the cluster."""

    def cluster_rank(self) -> Handle:
        """The number of this block in its cluster, an i32."""
        ...

    def cluster_arrive(self, *, first: bool) -> None:
        """Arrive at the cluster barrier with every thread of the block. Earlier accesses of the
        block are ordered before accesses of any thread of the cluster after its next
        `cluster_wait`. At `first`, the block has initialized mbarriers and accessed no other
        memory."""
        ...

    def cluster_wait(self) -> None:
        """Wait until every thread of the cluster has arrived. A rule may emit other instructions
        between the arrival and the wait."""
        ...

    def load_remote(
        self, element: Element, count: int, offset: Handle, rank: Handle
    ) -> Sequence[Handle]:
        """`count` consecutive elements from byte `offset` of the shared memory of block `rank`,
        aligned to their total size. The block must have started, and may not end before the load
        completes."""
        ...

    def store_remote(
        self, element: Element, offset: Handle, rank: Handle, values: Sequence[Handle],
        barrier: Handle,
    ) -> None:  # fmt: skip
        """Start to store consecutive elements of 4, 8 or 16 bytes in total to byte `offset` of the
        shared memory of block `rank`, aligned to their total size. The mbarrier at `barrier` of
        that block counts the bytes. The block must have started, and may not end before the store
        completes."""
        ...

    def arrive_remote(self, offset: Handle, rank: Handle, when: Handle | None) -> None:
        """Arrive at the mbarrier at `offset` in block `rank`, in threads where the i1 `when` is
        true. The writes that this thread has observed are visible after `cluster_mbarrier_wait`."""
        ...

    def arrive_everywhere(self, offset: Handle, when: Handle | None) -> None:
        """Arrive as `mbarrier_arrive` does, at the mbarrier at `offset` of every block.

        Copies that threads of those blocks issue after a wait for the phase are ordered after the
        reads of this warp, and after no other accesses.
        """
        ...

    def tma_multicast(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        """Load as `tma_load` does, to `offset` of every block. The bytes count at the mbarrier of
        each block."""
        ...

    def cluster_mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        """Wait until the phase with this parity has completed. Later accesses are ordered after the
        accesses of every thread that arrived, in any block."""
        ...
