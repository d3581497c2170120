"""Operations on the other blocks of a cluster (PTX ISA, "barrier.cluster", "mapa",
"ld.shared::cluster", "cp.async.bulk.tensor").

An arrival at a barrier of another block has the scope of its own block, as in CUTLASS. With cluster
scope, each arrival would wait for all global accesses of the thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.nvptx.hopper import Handle, LlvmHopper
from tileir.types import I1, I32, Element


class LlvmClusters(LlvmHopper):
    """The methods of `ClusterOps`; handles are LLVM operands."""

    cluster = 1
    """Blocks of a cluster."""

    def cluster_rank(self) -> Handle:
        if self.cluster == 1:
            return "0"
        return self.once("cluster rank", lambda: self._read("cluster.ctarank"))

    def cluster_arrive(self, *, first: bool) -> None:
        self._synchronize("arrive.relaxed" if first else "arrive")

    def cluster_wait(self) -> None:
        self._synchronize("wait")
        self._has_synchronized = True

    def _synchronize(self, what: str) -> None:
        name = f"@llvm.nvvm.barrier.cluster.{what}.aligned"
        self.declare(f"declare void {name}()")
        self.line(f"call void {name}()")

    def load_remote(
        self, element: Element, count: int, offset: Handle, rank: Handle
    ) -> list[Handle]:
        return self._load(
            element, count, f"ptr addrspace(7) {self._remote_address(offset, rank)}", False
        )

    def store_remote(
        self, element: Element, offset: Handle, rank: Handle, values: Sequence[Handle],
        barrier: Handle,
    ) -> None:  # fmt: skip
        words = self._words_to_send(element, values)
        names = ", ".join(f"${2 + i}" for i in range(len(words)))
        form, listed = (f".v{len(words)}", f"{{{names}}}") if len(words) > 1 else ("", names)
        text = (
            f"st.async.shared::cluster.mbarrier::complete_tx::bytes{form}.b32 [$0], {listed}, [$1];"
        )
        places = [
            ("r", "ptr addrspace(7)", self._remote_address(at, rank)) for at in (offset, barrier)
        ]
        self.together(text, [*places, *(("r", "i32", word) for word in words)])

    def _words_to_send(self, element: Element, values: Sequence[Handle]) -> list[Handle]:
        """The elements packed into words of 32 bits."""
        each = self.per_word(element)
        if each == 1:
            return [word for value in values for word in self.to_words(element, value)]
        return [self.pack(element, values[i : i + each]) for i in range(0, len(values), each)]

    def _remote_address(self, offset: Handle, rank: Handle) -> Handle:
        """The address of byte `offset` of the shared memory of block `rank`."""
        name = "@llvm.nvvm.mapa.shared.cluster"
        self.declare(f"declare ptr addrspace(7) {name}(ptr addrspace(3), i32)")
        base = self.pure(
            f"call ptr addrspace(7) {name}(ptr addrspace(3) @{self.scope}shared, i32 {rank})"
        )
        return self.pure(f"getelementptr i8, ptr addrspace(7) {base}, i32 {offset}")

    def arrive_remote(self, offset: Handle, rank: Handle, when: Handle | None) -> None:
        guard = "" if when in (None, "true") else "@$2 "
        text = (
            "{ .reg .b32 there; "
            f"{guard}mapa.shared::cluster.u32 there, $0, $1; "
            f"{guard}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }}"
        )
        operands = [self._at(offset), ("r", "i32", rank)]
        self.together(text, [*operands, ("b", "i1", when)] if guard and when else operands)

    def arrive_everywhere(self, offset: Handle, when: Handle | None) -> None:
        self.warp_barrier()
        lane = self.lane()
        condition = self.compare("ult", I32, lane, str(self.cluster))
        if when is not None:
            condition = self.binary("and", I1, when, condition)
        text = (
            "{ .reg .b32 there; @$2 mapa.shared::cluster.u32 there, $0, $1; "
            "@$2 mbarrier.arrive.shared::cluster.b64 _, [there]; }"
        )
        self.together(text, [self._at(offset), ("r", "i32", lane), ("b", "i1", condition)])

    def tma_multicast(
        self, map: Handle, offset: Handle, barrier: Handle, indices: Sequence[Handle],
        chosen: Handle | None,
    ) -> None:  # fmt: skip
        at, names = self._coordinates(indices, 4)
        text = (
            f"cp.async.bulk.tensor.{len(indices)}d.shared::cluster.global.tile"
            f".mbarrier::complete_tx::bytes.multicast::cluster [$0], [$1, {names}], [$2], $3;"
        )
        everyone = ("h", "i16", str((1 << self.cluster) - 1))
        operands = [self._at(offset), ("l", "ptr", map), self._at(barrier), everyone, *at]
        self._emit_predicated(text, operands, chosen)

    def cluster_mbarrier_wait(self, offset: Handle, parity: Handle) -> None:
        self.wait_at(offset, parity, ".acquire.cluster")
