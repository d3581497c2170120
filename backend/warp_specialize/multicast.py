"""TMA multicast: the blocks of a cluster load shared operands for each other."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, cast

import attrs

from tileir.analysis.clusters import ATTRIBUTE
from tileir.ir import Function, Module, Parameter
from tileir.op import Op
from tileir.ops.hopper import (
    MBarrierAlloc,
    MBarrierArrive,
    MBarrierExpect,
    MBarrierWait,
    TensorMap,
    TmaLoad,
)
from tileir.passes.licm import licm
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Descriptor, Tile
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.rank_divergence import RankDependent
    from tileir.ops.roles import Role

_SWIZZLE_ROWS = 8
"""Rows of a swizzle atom."""


@pass_("multicast")
def multicast(module: Module) -> PassResult:
    """Multicast the TMA loads that all blocks of a cluster need.

    A TMA load of the producer (`warp-specialize`) is multicast if its indices are equal in all
    blocks of the cluster. The kernel tests this as soon as the indices are computed. Each block
    then loads a slice of the rows into the shared memory of all blocks. A stage is empty when all
    blocks have read theirs, so consumers arrive at the empty barriers of all blocks. No block loads
    before all blocks have initialized their barriers, and no block exits while others may still
    arrive at its barriers.

    before:
        stage "warp_specialized"

        define private void @f.producer(tensor_desc<f16<64, 64>> %x, f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty) {
        entry:
          %rank = gpu.cluster_rank i32
          %row = lshr i32 %rank, 1
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop]
          %parity = phi i32 [0, entry], [%other, loop]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %empty, 0, %other
          gpu.mbarrier_expect %full, 0 {bytes = 8192}
          gpu.tma_load %x, %a, 0, %full, 0, %row, %k
          %next = add i32 %k, 64
          %more, _ = icmp (i1, i1) %next, 256 {predicate = slt}
          cond_br %more, loop, done
        done:
          ret
        }

        define private void @f.consumer(f32* %p, f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty) {
        entry:
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop]
          %parity = phi i32 [0, entry], [%other, loop]
          %acc = phi f32<64, 64> [0.0, entry], [%y, loop]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %full, 0, %parity
          %x = gpu.wgmma f32<64, 64> %a, 0, %a, 0, %acc
          %y = gpu.wgmma_wait f32<64, 64> %x
          gpu.mbarrier_arrive %empty, 0
          %next = add i32 %k, 64
          %more, _ = icmp (i1, i1) %next, 256 {predicate = slt}
          cond_br %more, loop, done
        done:
          %q = splat f32*<64, 64> %p
          store %q, %y
          ret
        }

        define kernel void @f(f16* %p, f32* %q) {num_warps = 8, cluster = 2} {
        entry:
          %x = gpu.tensor_map tensor_desc<f16<64, 64>> %p, [i32 4096, i32 256], [i32 256, i32 1] {swizzle = 3}
          %a = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64], swizzle = 3, panel = 64}
          %full = gpu.mbarrier_alloc i64 addrspace(3)*
          %empty = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 4}
          gpu.role @f.producer, %x, %a, %full, %empty {first = 4, warps = 4}
          gpu.role @f.consumer, %q, %a, %full, %empty {warps = 4}
          gpu.join
          ret
        }
    after:
        stage "warp_specialized"

        define private void @f.producer(tensor_desc<f16<64, 64>> %x, f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, tensor_desc<f16<32, 64>> %0) {
        entry:
          %rank = gpu.cluster_rank i32
          %row = lshr i32 %rank, 1
          %1 = xor i32 %rank, 1
          %row.1 = lshr i32 %1, 1
          %2, _ = icmp (i1, i1) %row, %row.1 {predicate = eq}
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop.copied]
          %parity = phi i32 [0, entry], [%other, loop.copied]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %empty, 0, %other
          gpu.mbarrier_expect %full, 0 {bytes = 8192}
          cond_br %2, loop.multicast, loop.alone
        loop.multicast:
          gpu.tma_load %0, %a, 0, %full, 0, %row, %k {multicast = 2}
          br loop.copied
        loop.alone:
          gpu.tma_load %x, %a, 0, %full, 0, %row, %k
          br loop.copied
        loop.copied:
          %next = add i32 %k, 64
          %more, _ = icmp (i1, i1) %next, 256 {predicate = slt}
          cond_br %more, loop, done
        done:
          ret
        }

        define private void @f.consumer(f32* %p, f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty) {
        entry:
          br loop
        loop:
          %k = phi i32 [0, entry], [%next, loop]
          %parity = phi i32 [0, entry], [%other, loop]
          %acc = phi f32<64, 64> [0.0, entry], [%y, loop]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %full, 0, %parity
          %x = gpu.wgmma f32<64, 64> %a, 0, %a, 0, %acc
          %y = gpu.wgmma_wait f32<64, 64> %x
          gpu.mbarrier_arrive %empty, 0 {cluster = true}
          %next = add i32 %k, 64
          %more, _ = icmp (i1, i1) %next, 256 {predicate = slt}
          cond_br %more, loop, done
        done:
          %q = splat f32*<64, 64> %p
          store %q, %y
          ret
        }

        define kernel void @f(f16* %p, f32* %q) {num_warps = 8, cluster = 2} {
        entry:
          %x = gpu.tensor_map tensor_desc<f16<64, 64>> %p, [i32 4096, i32 256], [i32 256, i32 1] {swizzle = 3}
          %0 = gpu.tensor_map tensor_desc<f16<32, 64>> %p, [i32 4096, i32 256], [i32 256, i32 1] {swizzle = 3}
          %a = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64], swizzle = 3, panel = 64}
          %full = gpu.mbarrier_alloc i64 addrspace(3)*
          %empty = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 8}
          gpu.cluster_arrive
          gpu.cluster_wait
          gpu.role @f.producer, %x, %a, %full, %empty, %0 {first = 4, warps = 4}
          gpu.role @f.consumer, %q, %a, %full, %empty {warps = 4}
          gpu.join
          gpu.cluster_arrive
          gpu.cluster_wait
          ret
        }
    """  # noqa: E501
    remarks = []
    for kernel in module.functions.values():
        if not kernel.kernel or ATTRIBUTE not in kernel.attributes:
            continue
        functions = multicast_loads(module, kernel)
        if isinstance(functions, Refusal):
            remarks.append(functions.remark("TIR0655", "no multicast", kernel.location))
            continue
        module = module.evolve(functions={**module.functions, **{f.name: f for f in functions}})
    return PassResult(module, tuple(remarks))


def multicast_loads(module: Module, kernel: Function) -> list[Function] | Refusal:
    """The functions of a kernel with multicast loads; or a Refusal with the reason why there are
    none."""
    from tileir.ops.cluster import ClusterArrive
    from tileir.ops.roles import Role

    roles = [op for op in kernel.ops if isinstance(op, Role)]
    candidates = [r for r in roles if _has(module.functions[r.callee], TmaLoad)]
    if len(candidates) != 1:
        return Refusal("the kernel has no producer with TMA loads")
    if _has(kernel, ClusterArrive):
        return Refusal("the blocks of the cluster exchange data already")
    (producer,) = candidates
    functions = {r: module.functions[r.callee] for r in roles}
    functions[producer] = cast(Function, licm(functions[producer]).ir)
    differing = {r: _rank_dependent(kernel, r, f) for r, f in functions.items()}
    for role, dependent in differing.items():
        barrier_ops = (MBarrierWait, MBarrierArrive, MBarrierExpect)
        ops = (op for n in dependent.labels for op in functions[role].blocks[n].ops)
        if any(isinstance(op, barrier_ops) for op in ops):
            return Refusal("the use of stages depends on the instance")
    return _Multicaster(
        module, kernel, roles, producer, functions[producer], differing[producer]
    ).functions()


def _has(function: Function, kind: type[Op]) -> bool:
    return any(isinstance(op, kind) for op in function.ops)


def _rank_dependent(kernel: Function, role: Role, function: Function) -> RankDependent:
    """The values that differ between blocks in the function of a role."""
    from tileir.backend.warp_specialize.rank_divergence import find_rank_dependent

    outside = find_rank_dependent(kernel).values
    shared_memory = {v for op in kernel.ops if not op.inputs for v in op.results}
    pairs = zip(function.parameters, role.arguments, strict=True)
    differing = {p.value for p, a in pairs if a in outside and a not in shared_memory}
    return find_rank_dependent(function, frozenset(differing))


@attrs.frozen(eq=False)
class _Multicaster:
    module: Module
    kernel: Function
    roles: list[Role]
    producer: Role
    producer_function: Function
    differing: RankDependent

    @property
    def ranks(self) -> int:
        return cast(int, self.kernel.attributes[ATTRIBUTE])

    def functions(self) -> list[Function] | Refusal:
        """The roles and the kernel."""
        from tileir.backend.warp_specialize.uniform_copies import UniformityCheck

        old = self.producer_function
        check = UniformityCheck(old, self.differing, self.ranks)
        slices: dict[Value, tuple[TensorMap, Value]] = {}
        for op in old.ops:
            if isinstance(op, TmaLoad) and check.may_be_uniform(op) and op.descriptor not in slices:
                slice_map = self._slice_map(cast(Value, op.descriptor))
                if slice_map is not None:
                    slices[cast(Value, op.descriptor)] = slice_map, Value(slice_map.to, None)
        if not slices:
            return Refusal("no two instances can share an operand")
        filled = check.function({v: (new, _slice_axis(m)) for v, (m, new) in slices.items()})
        parameters = (*filled.parameters, *(Parameter(new) for _, new in slices.values()))
        empty = self._empty_barriers(old)
        new_producer = filled.evolve(parameters=parameters)
        consumers = [
            self._consumer_function(r, empty) for r in self.roles if r is not self.producer
        ]
        return [new_producer, *consumers, self._kernel([m for m, _ in slices.values()], empty)]

    def _slice_map(self, descriptor: Value) -> TensorMap | None:
        """The tensor map for the slice of rows that each block loads; None if the rows cannot be
        divided."""
        pairs = zip(self.producer_function.parameters, self.producer.arguments, strict=True)
        argument = next((a for p, a in pairs if p.value is descriptor), None)
        maps = (op for op in self.kernel.entry.ops if isinstance(op, TensorMap))
        tensor_map = next((op for op in maps if op.result is argument), None)
        if tensor_map is None:
            return None
        block = cast(Descriptor, tensor_map.to).block
        shape = multicast_slice_shape(block.shape, self.ranks)
        if shape is None:
            return None
        sliced = tensor_map.evolve(to=Descriptor(Tile(block.element, shape)), results=())
        return cast(TensorMap, sliced)

    def _empty_barriers(self, function: Function) -> set[Operand]:
        """The barriers of the kernel that the producer waits for."""
        waited = {op.barrier for op in function.ops if isinstance(op, MBarrierWait)}
        pairs = zip(function.parameters, self.producer.arguments, strict=True)
        return {a for p, a in pairs if p.value in waited}

    def _consumer_function(self, role: Role, empty: set[Operand]) -> Function:
        """The function of a consumer, which releases stages in all blocks."""
        function = self.module.functions[role.callee]
        pairs = zip(function.parameters, role.arguments, strict=True)
        mine = {p.value for p, a in pairs if a in empty}
        blocks = {
            label: attrs.evolve(
                block, ops=tuple([_arrive_in_cluster(op, mine) for op in block.ops])
            )
            for label, block in function.blocks.items()
        }
        return function.with_blocks(blocks)

    def _kernel(self, maps: list[TensorMap], empty: set[Operand]) -> Function:
        from tileir.ops.cluster import ClusterArrive, ClusterWait
        from tileir.ops.roles import JoinRoles

        ops: list[Op] = []
        last = [op for op in self.kernel.entry.ops if isinstance(op, TensorMap)][-1]
        for op in self.kernel.entry.ops:
            if op is self.roles[0]:
                ops += [ClusterArrive(), ClusterWait()]
            if isinstance(op, MBarrierAlloc) and op.result in empty:
                ops.append(op.evolve(arrivals=op.arrivals * self.ranks))
            elif op is self.producer:
                arguments = (*self.producer.arguments, *(m.result for m in maps))
                ops.append(self.producer.evolve(arguments=arguments))
            else:
                ops.append(op)
            if op is last:
                ops += maps
            if isinstance(op, JoinRoles):
                ops += [ClusterArrive(), ClusterWait()]
        return self.kernel.with_blocks(
            {self.kernel.entry.label: attrs.evolve(self.kernel.entry, ops=tuple(ops))}
        )


def _slice_axis(map: TensorMap) -> int:
    return _axis(cast(Descriptor, map.to).block.shape)


def _arrive_in_cluster(op: Op, barriers: set[Value]) -> Op:
    mine = isinstance(op, MBarrierArrive) and op.barrier in barriers
    return op.evolve(cluster=True) if mine else op


def multicast_slice_shape(extents: tuple[int, ...], ranks: int) -> tuple[int, ...] | None:
    """The slice of a block of shape `extents` that each of `ranks` blocks loads: consecutive rows,
    whole swizzle atoms; None where there is no such slice."""
    axis = _axis(extents)
    rows, remainder = divmod(extents[axis], ranks)
    shape = (*extents[:axis], rows, *extents[axis + 1 :])
    return None if remainder or prod(shape[:-1]) % _SWIZZLE_ROWS else shape


def _axis(extents: tuple[int, ...]) -> int:
    """The first dimension except the last with an extent above 1; 0 for none."""
    return next((i for i, n in enumerate(extents[:-1]) if n > 1), 0)
