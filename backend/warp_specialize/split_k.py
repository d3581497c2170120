"""Split-K: the blocks of a cluster divide the K dimension of a matmul."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.analysis.clusters import ATTRIBUTE, SIZES, persistent_instances
from tileir.backend.shared_memory.shared_tile import full_swizzle
from tileir.backend.warp_specialize.async_hazards import has_cross_op_dependence
from tileir.backend.warp_specialize.ring_buffers import BARRIERS, flip_parity
from tileir.field import Successor
from tileir.ir import Block, Function, Module
from tileir.op import Op, lookup
from tileir.ops.arith import Mul
from tileir.ops.control import Branch, Return
from tileir.ops.dot import Dot
from tileir.ops.gpu import LocalLoad, SharedAlloc
from tileir.ops.hopper import MBarrierAlloc, MBarrierExpect
from tileir.passes.cfg_edit import fresh_label, map_edges
from tileir.passes.dce import dce
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import I32, AddressSpace, Element, Scalar, Tile, element_of, pointer, shape_of
from tileir.values import Operand, Value, constant

if TYPE_CHECKING:
    from tileir.backend.transforms.carry_state import State
    from tileir.backend.warp_specialize.k_partition import AccumulationLoop
    from tileir.backend.warp_specialize.split_k_epilogue import RowSlices

_MIN_ROWS = 8
"""The fewest rows of a slice: those of a swizzle atom."""


@pass_("split-k", choices={"ranks": (1, 2, 4, 8)})
def split_k(module: Module, *, ranks: int = 2) -> PassResult:
    """Split K over the blocks of a cluster.

    Block r of `ranks` blocks executes iterations r, r + `ranks`, ... of the loop that has all dots.
    Each block then receives a slice of the rows of every partial accumulator in its shared memory,
    adds the slices in the order of ranks, so that the result is deterministic, and runs the
    epilogue of its rows (Tillet's thesis, section 4.2, three-dimensional algorithms).

    before{ranks=2}:
        define kernel void @matmul(f32* %a, f32* %b, f32* %c, i32 %k) {
        entry:
          %d = make_descriptor tensor_desc<f32<16, 16>> %a, [i32 16, %k], [%k, i32 1]
          %e = make_descriptor tensor_desc<f32<16, 16>> %b, [%k, i32 16], [i32 16, i32 1]
          %f = make_descriptor tensor_desc<f32<16, 16>> %c, [i32 16, i32 16], [i32 16, i32 1]
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %acc = phi f32<16, 16> [0.0, entry], [%more, body]
          %test, _ = icmp (i1, i1) %i, %k {predicate = slt}
          cond_br %test, body, done
        body:
          %x = descriptor_load f32<16, 16> %d, 0, %i
          %y = descriptor_load f32<16, 16> %e, %i, 0
          %more = dot f32<16, 16> %x, %y, %acc
          %j = add i32 %i, 16
          br loop
        done:
          descriptor_store %f, %acc, 0, 0
          ret
        }
    after:
        stage "split_k"

        define kernel void @matmul(f32* %a, f32* %b, f32* %c, i32 %k) {cluster = 2} {
        entry:
          %0 = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 8, 16], swizzle = 2}
          %1 = gpu.mbarrier_alloc i64 addrspace(3)*
          gpu.cluster_arrive
          gpu.cluster_wait
          %2 = gpu.cluster_rank i32
          %d = make_descriptor tensor_desc<f32<16, 16>> %a, [i32 16, %k], [%k, i32 1]
          %e = make_descriptor tensor_desc<f32<16, 16>> %b, [%k, i32 16], [i32 16, i32 1]
          %3 = make_descriptor tensor_desc<f32<8, 16>> %c, [i32 16, i32 16], [i32 16, i32 1]
          %4, _ = icmp (i1, i1) %k, 268435456 {predicate = slt}
          assume %4
          %5 = mul i32 %2, 16
          br loop
        loop:
          %i = phi i32 [%5, entry], [%j, body]
          %acc = phi f32<16, 16> [0.0, entry], [%more, body]
          %test, _ = icmp (i1, i1) %i, %k {predicate = slt}
          cond_br %test, body, gather
        body:
          %x = descriptor_load f32<16, 16> %d, 0, %i
          %y = descriptor_load f32<16, 16> %e, %i, 0
          %more = dot f32<16, 16> %x, %y, %acc
          %j = add i32 %i, 32
          br loop
        gather:
          gpu.mbarrier_expect %1, 0 {bytes = 1024}
          gpu.cluster_scatter %acc, %0, %2, %1, 0 {blocks = 2}
          gpu.cluster_mbarrier_wait %1, 0, 0
          %6 = mul i32 %2, 8
          %7 = gpu.local_load f32<8, 16> %0, 0
          %8 = gpu.local_load f32<8, 16> %0, 1
          %acc.1 = fadd f32<8, 16> %7, %8
          descriptor_store %3, %acc.1, %6, 0
          ret
        }
    """
    remarks = []
    for name, function in module.functions.items():
        if not function.kernel or not any(isinstance(op, Dot) for op in function.ops):
            continue
        split = split_kernel(function, ranks)
        if isinstance(split, Refusal):
            remarks.append(split.remark("TIR0654", "split-K not applied", function.location))
            continue
        module = module.evolve(functions={**module.functions, name: split}, stage="split_k")
    return PassResult(module, tuple(remarks))


def split_kernel(function: Function, ranks: int) -> Function | Refusal:
    """The kernel that each of `ranks` blocks of a cluster runs; or a Refusal with the reason why
    there is none."""
    from tileir.backend.warp_specialize.k_partition import find_accumulation_loop
    from tileir.backend.warp_specialize.split_k_epilogue import UnsliceableError

    if ranks == 1:
        return function
    if ranks not in SIZES:
        return Refusal(f"clusters have {', '.join(map(str, SIZES))} blocks")
    if ATTRIBUTE in function.attributes:
        return Refusal("the kernel has a cluster already")
    accumulation = find_accumulation_loop(function)
    if isinstance(accumulation, Refusal):
        return accumulation
    if accumulation.loop.depth > 1 + (persistent_instances(function) > 0):
        return Refusal("the loop is in another loop of the instance")
    rows = {shape_of(v.type)[0] for v in accumulation.accumulators}
    if len(rows) != 1 or any(len(shape_of(v.type)) != 2 for v in accumulation.accumulators):
        return Refusal("the accumulators have different numbers of rows")
    (height,) = rows
    if height % ranks or height // ranks < _MIN_ROWS:
        return Refusal(f"{ranks} blocks cannot divide {height} rows")
    try:
        split = _KSplitter(function, accumulation, ranks, height // ranks).function()
    except UnsliceableError as error:
        return Refusal(str(error))
    return (
        Refusal("an instance accesses memory that it writes by another op")
        if has_cross_op_dependence(function)
        else split
    )


class _KSplitter:
    def __init__(self, function: Function, plan: AccumulationLoop, ranks: int, rows: int) -> None:
        from tileir.ops.cluster import ClusterRank

        self.old, self.plan, self.ranks, self.rows = function, plan, ranks, rows
        self.rank = ClusterRank()
        self.start = Mul(self.rank.result, constant(I32, rows))
        self.totals = {
            v: Value(Tile(_element(v), (rows, _columns(v))), v.name) for v in plan.accumulators
        }
        self.buffers = [self._buffer(v) for v in plan.accumulators]
        self.staged = MBarrierAlloc(BARRIERS, arrivals=1)
        self.drained = MBarrierAlloc(BARRIERS, arrivals=ranks)
        self.persistent = plan.loop.depth > 1
        self.label = fresh_label("gather", function.blocks)

    def function(self) -> Function:
        """The kernel of a rank. Raises UnsliceableError."""
        from tileir.backend.transforms.carry_state import thread_state_through
        from tileir.backend.warp_specialize.k_partition import KPartition
        from tileir.backend.warp_specialize.split_k_epilogue import UnsliceableError, slice_rows

        loop = self.plan.loop
        leaving = self.old.blocks[loop.header].successors
        exit_ = next(e for e in leaving if e.label not in loop.blocks)
        if _entries(self.old, exit_.label) != 1:
            raise UnsliceableError("the block after the loop has other predecessors")
        slices = slice_rows(self.old, loop, self.totals, self.start.result, self.rows)
        partitioned = KPartition(self.old, self.plan, self.rank.result, self.ranks).partition()
        if isinstance(partitioned, Refusal):
            raise UnsliceableError(partitioned)
        with_gather = self._add_gather(partitioned, exit_, slices)
        function = thread_state_through(
            with_gather, [(I32, "parity")], (constant(I32, 0),), self._gather_step
        )
        cleaned = simplify_cfg(dce(function))
        return cleaned.evolve(attributes={**function.attributes, ATTRIBUTE: self.ranks})

    def _buffer(self, value: Value) -> SharedAlloc:
        """The allocation for a slice of an accumulator from every rank, which each block has."""
        element, shape = _element(value), (self.rows, _columns(value))
        swizzle = full_swizzle(element, shape, 1)
        kind = pointer(element, AddressSpace.SHARED)
        return SharedAlloc(kind, shape=(self.ranks, *shape), swizzle=swizzle)

    def _add_gather(self, function: Function, exit_: Successor, slices: RowSlices) -> Function:
        """The function with a block for the reduction after its loop, and with a sliced
        epilogue."""
        header, blocks = self.plan.loop.header, dict[str, Block]()
        for label, block in function.blocks.items():
            ops: Sequence[Op] = slices.ops if label == slices.label else block.ops
            ops = [x for op in ops for x in (op, *slices.descriptors.get(op, ()))]
            if label == self.old.entry.label:
                ops = [*self._cluster_memory(), *ops]
            if label == header:
                terminator = map_edges(
                    ops[-1], lambda e: Successor(self.label) if e.label == exit_.label else e
                )
                ops[-1] = terminator
            if label == exit_.label:
                blocks[self.label] = Block(self.label, (), (Branch(exit_),))
            blocks[label] = attrs.evolve(block, ops=tuple(ops))
        return function.with_blocks(blocks)

    def _cluster_memory(self) -> list[Op]:
        """The ops at the start of the kernel: memory that all blocks of the cluster access."""
        from tileir.ops.cluster import ClusterArrive, ClusterWait

        memory: list[Op] = [*self.buffers, self.staged, *[self.drained] * self.persistent]
        return [*memory, ClusterArrive(), ClusterWait(), self.rank]

    def _gather_step(self, block: Block, state: State) -> tuple[list[Op], State]:
        """The ops of a block. The block after the loop scatters the accumulators and adds them. In
        a persistent kernel it first waits until the previous slices have been read, and the last
        block waits for that, too."""
        from tileir.ops.cluster import ClusterMBarrierWait

        (parity,), ops = state, list[Op]()
        zero = constant(I32, 0)
        if block.label == self.label:
            ops = self._gather_ops(parity)
            flipped = flip_parity(parity, ops)
            return [*ops, *block.ops], (flipped,)
        if self.persistent and isinstance(block.terminator, Return):
            before = flip_parity(parity, ops)
            waiting = ClusterMBarrierWait(self.drained.result, zero, before)
            return [*block.ops[:-1], *ops, waiting, block.terminator], state
        return list(block.ops), state

    def _gather_ops(self, parity: Operand) -> list[Op]:
        from tileir.ops.cluster import ClusterMBarrierArrive, ClusterMBarrierWait, ClusterScatter

        ops: list[Op] = []
        zero = constant(I32, 0)
        if self.plan.loop.depth > 1:
            ops.append(ClusterMBarrierWait(self.drained.result, zero, flip_parity(parity, ops)))
        staged = self.staged.result
        arriving = sum(_bytes(v) for v in self.plan.accumulators)
        ops.append(MBarrierExpect(staged, zero, bytes=arriving))
        ops += [
            ClusterScatter(v, b.result, self.rank.result, staged, zero, blocks=self.ranks)
            for v, b in zip(self.plan.accumulators, self.buffers, strict=True)
        ]
        ops += [ClusterMBarrierWait(staged, zero, parity), self.start]
        for value, buffer in zip(self.plan.accumulators, self.buffers, strict=True):
            self._emit_reduction(value, buffer, ops)
        if self.persistent:
            ops.append(ClusterMBarrierArrive(self.drained.result, zero))
        return ops

    def _emit_reduction(self, value: Value, buffer: SharedAlloc, ops: list[Op]) -> None:
        """Emit the sum over all ranks of a slice of an accumulator."""
        total = self.totals[value]
        add_op = cast(Any, lookup("add" if _element(value).is_integer else "fadd"))
        parts = [
            LocalLoad(buffer.result, constant(I32, rank), total.type) for rank in range(self.ranks)
        ]
        ops += parts
        so_far = parts[0].result
        for part in parts[1:]:
            last = part is parts[-1]
            add = add_op(so_far, part.result, results=(total,) if last else ())
            ops.append(add)
            so_far = add.result


def _element(value: Value) -> Element:
    return cast(Element, element_of(value.type))


def _bytes(value: Value) -> int:
    """Bytes of the slices of an accumulator that each block receives from all ranks."""
    kind = cast(Tile, value.type)
    return kind.size * cast(Scalar, kind.element).bytes


def _columns(value: Value) -> int:
    return shape_of(value.type)[1]


def _entries(function: Function, label: str) -> int:
    """The number of edges to a block."""
    return sum(e.label == label for b in function.blocks.values() for e in b.successors)
