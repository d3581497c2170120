"""The part of the thread interface for clusters: what the blocks of one do with each other.

Offsets are bytes of shared memory, ranks i32 numbers of blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from tileir.types import Element

Handle: TypeAlias = Any


class ClusterOps(Protocol):
    """The interface of rules for the other blocks of the cluster."""

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
        """Wait until every thread of the cluster has arrived. A rule may wait in its midst."""
        ...

    def load_remote(
        self, element: Element, count: int, offset: Handle, rank: Handle
    ) -> Sequence[Handle]:
        """`count` neighbours from byte `offset` of the shared memory of block `rank`, aligned to
        all of them. The block must have begun, and may not end before."""
        ...

    def store_remote(
        self, element: Element, offset: Handle, rank: Handle, values: Sequence[Handle],
        barrier: Handle,
    ) -> None:  # fmt: skip
        """Begin to store neighbours of 4, 8 or 16 bytes to byte `offset` of the shared memory of
        block `rank`, aligned to all of them; its barrier at `barrier` counts the bytes. The block
        must have begun, and may not end before."""
        ...

    def arrive_remote(self, offset: Handle, rank: Handle, when: Handle | None) -> None:
        """The thread arrives at the mbarrier at `offset` in block `rank` where the i1 `when` holds.
        The writes it has observed are visible after `remote_wait`."""
        ...

    def arrive_everywhere(self, offset: Handle, when: Handle | None) -> None:
        """Arrive as `mbarrier_arrive` does, at the mbarrier at `offset` of every block.

        Copies that threads of those blocks issue after a wait for the phase are ordered after the
        reads of the warp only.
        """
        ...

    def tma_multicast(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        """Load as `tma_load` does, to `offset` of every block; the bytes count at the barrier of
        each."""
        ...

    def cluster_mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        """Wait until the phase of that parity has ended, and come after what all did that arrived,
        in any block."""
        ...
