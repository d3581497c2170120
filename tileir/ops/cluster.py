"""Ops of clusters of thread blocks (sm_90): the blocks that work for one program instance together.

A kernel with the attribute `cluster = s` whose functions use these ops runs `s` times for every
program instance, once per rank, by blocks that are there at the same time; `program_id` is the same
in all. They print and parse like any other op, and are outside the stability promise. See PTX ISA,
"Cluster of Cooperative Thread Arrays" and "barrier.cluster".
"""

from __future__ import annotations

from typing import Any

from tileir.effects import Effects
from tileir.field import INT, attribute, operand, result_type
from tileir.op import Op, op
from tileir.ops.gpu import BUFFER, T, check_buffer, check_element
from tileir.ops.hopper import BARRIER, INDEX
from tileir.signature import Bindings
from tileir.types import Type, element_of, shape_of
from tileir.values import Operand


@op("gpu.cluster_rank")
class ClusterRank(Op):
    """The number of this block in its cluster, from 0 on.

    `%r = gpu.cluster_rank i32`
    """

    results_ = (INDEX,)
    uses_cluster_rank = True

    def evaluate(self, machine: Any) -> Any:
        return machine.cluster_rank()


@op("gpu.cluster_arrive")
class ClusterArrive(Op):
    """Arrive at the cluster barrier, with all threads of the block. Earlier accesses are ordered
    before accesses of the other blocks after the matching `gpu.cluster_wait`. Only the kernel uses
    the op, and not while roles run; it may start roles before it waits.

    `gpu.cluster_arrive`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    uses_cluster_rank = True
    orders_async = True

    def evaluate(self, machine: Any) -> Any:
        return machine.cluster_arrive(self)


@op("gpu.cluster_wait")
class ClusterWait(Op):
    """Wait until every block of the cluster has reached its `gpu.cluster_arrive` or has exited.

    `gpu.cluster_wait`
    """

    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    uses_cluster_rank = True
    orders_async = True

    def evaluate(self, machine: Any) -> Any:
        return machine.cluster_wait(self)


@op("gpu.cluster_load")
class ClusterLoad(Op):
    """Load, from the shared memory of block `rank` of the cluster, the part of stage `stage` of
    `buffer` that begins in row `row` and column 0. That block must not have exited.

    `%x = gpu.cluster_load f32<16, 128> %b, %i, %r, %y`, given `f32 addrspace(3)* %b, i32 %i, i32 %r, i32 %y`
    """  # noqa: E501 - an example is one line

    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(INDEX)
    rank: Operand = operand(INDEX)
    row: Operand = operand(INDEX)
    type: Type = result_type(T)
    effects_ = Effects.READ
    predicable = False
    uses_cluster_rank = True

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.type))
        if len(shape_of(self.type)) != 2:
            raise self.fail("TIR0112", "a stage has two dimensions, and so has the result", "type")

    def infer(self, bound: Bindings) -> tuple[Type, ...]:
        return (self.type,)

    def evaluate(self, machine: Any, buffer: Any, stage: Any, rank: Any, row: Any) -> Any:
        return machine.cluster_load(self, buffer, stage, rank, row)


@op("gpu.cluster_scatter")
class ClusterScatter(Op):
    """Start asynchronous stores that scatter the rows of `value` over the `blocks` of the cluster:
    block r receives n rows from row r n on, in stage `stage` of its `buffer`. The bytes are counted
    at barrier `index` of that block, and are visible after a wait for the phase (PTX ISA,
    "st.async").

    `gpu.cluster_scatter %x, %b, %i, %m, %j {blocks = 4}`, given `f32<64, 32> %x, f32 addrspace(3)* %b, i32 %i, i64 addrspace(3)* %m, i32 %j`
    """  # noqa: E501 - an example is one line

    value: Operand = operand(T)
    buffer: Operand = operand(BUFFER)
    stage: Operand = operand(INDEX)
    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    blocks: int = attribute(INT)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    uses_cluster_rank = True

    def verify(self) -> None:
        check_buffer(self, self.buffer.type)
        check_element(self, element_of(self.value.type))
        shape = shape_of(self.value.type)
        if self.blocks < 1 or len(shape) != 2 or shape[0] % self.blocks:
            message = f"{self.blocks} blocks cannot share the rows of {self.value.type}"
            raise self.fail("TIR0112", message, "value")

    def evaluate(
        self, machine: Any, value: Any, buffer: Any, stage: Any, barrier: Any, index: Any
    ) -> Any:
        return machine.cluster_scatter(self, value, (buffer, stage), (barrier, index))


@op("gpu.cluster_mbarrier_arrive")
class ClusterMBarrierArrive(Op):
    """Synchronize the threads of the kernel or role, and arrive once at barrier `index` of every
    block of the cluster, including this block. Earlier accesses are visible to threads after
    `gpu.cluster_mbarrier_wait` for the phase.

    `gpu.cluster_mbarrier_arrive %b, %i`, given `i64 addrspace(3)* %b, i32 %i`
    """

    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    uses_cluster_rank = True
    waits_for_threads = True

    def evaluate(self, machine: Any, barrier: Any, index: Any) -> Any:
        return machine.cluster_mbarrier_arrive(self, barrier, index)


@op("gpu.cluster_mbarrier_wait")
class ClusterMBarrierWait(Op):
    """Wait as `gpu.mbarrier_wait` does, for arrivals from all blocks of the cluster.

    `gpu.cluster_mbarrier_wait %b, %i, %p`, given `i64 addrspace(3)* %b, i32 %i, i32 %p`
    """

    barrier: Operand = operand(BARRIER)
    index: Operand = operand(INDEX)
    parity: Operand = operand(INDEX)
    effects_ = Effects.WRITE | Effects.SYNC
    predicable = False
    uses_cluster_rank = True
    orders_async = True

    def evaluate(self, machine: Any, barrier: Any, index: Any, parity: Any) -> Any:
        return machine.cluster_mbarrier_wait(self, barrier, index, parity)
