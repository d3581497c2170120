"""Blocks of tensors that the blocks of a cluster load for each other."""

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

_PATTERN = 8
"""Rows after which a swizzle repeats."""


@pass_("multicast")
def multicast(module: Module) -> PassResult:
    """Let the blocks of a cluster load for each other what they all need.

    Where the role that loads (`roles`) copies a block of a tensor whose place is the same for all
    of a kernel's `cluster` blocks, which a test finds out as soon as the place is known, each of
    them copies its share of the rows, into the slots of all. A slot is then empty once all blocks
    have read theirs: those that multiply arrive at the barriers of each. No block begins to load
    before all have their barriers, or ends while others still arrive there.

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
          %sum = phi f32<64, 64> [0.0, entry], [%y, loop]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %full, 0, %parity
          %x = gpu.wgmma f32<64, 64> %a, 0, %a, 0, %sum
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
          cond_br %2, loop.together, loop.alone
        loop.together:
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
          %sum = phi f32<64, 64> [0.0, entry], [%y, loop]
          %other = xor i32 %parity, 1
          gpu.mbarrier_wait %full, 0, %parity
          %x = gpu.wgmma f32<64, 64> %a, 0, %a, 0, %sum
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
        made = multicast_loads(module, kernel)
        if isinstance(made, Refusal):
            remarks.append(made.remark("TIR0655", "no multicast", kernel.location))
            continue
        module = module.evolve(functions={**module.functions, **{f.name: f for f in made}})
    return PassResult(module, tuple(remarks))


def multicast_loads(module: Module, kernel: Function) -> list[Function] | Refusal:
    """The functions of a kernel whose blocks load for each other; else why they do not."""
    from tileir.ops.cluster import ClusterArrive
    from tileir.ops.roles import Role

    started = [op for op in kernel.ops if isinstance(op, Role)]
    loading = [r for r in started if _has(module.functions[r.callee], TmaLoad)]
    if len(loading) != 1:
        return Refusal("no role of it loads by tensor maps")
    if _has(kernel, ClusterArrive):
        return Refusal("its blocks share what they compute")
    (load,) = loading
    functions = {r: module.functions[r.callee] for r in started}
    functions[load] = cast(Function, licm(functions[load]).ir)
    differing = {r: _ranked(kernel, r, f) for r, f in functions.items()}
    for role, found in differing.items():
        counted = (MBarrierWait, MBarrierArrive, MBarrierExpect)
        ops = (op for n in found.labels for op in functions[role].blocks[n].ops)
        if any(isinstance(op, counted) for op in ops):
            return Refusal("which slots are filled and read follows from the instance")
    return _Sharing(module, kernel, started, load, functions[load], differing[load]).functions()


def _has(function: Function, kind: type[Op]) -> bool:
    return any(isinstance(op, kind) for op in function.ops)


def _ranked(kernel: Function, role: Role, function: Function) -> RankDependent:
    """What differs between blocks in the function of a role."""
    from tileir.backend.warp_specialize.rank_divergence import ranked

    outside = ranked(kernel).values
    shared_memory = {v for op in kernel.ops if not op.inputs for v in op.results}
    pairs = zip(function.parameters, role.arguments, strict=True)
    differing = {p.value for p, a in pairs if a in outside and a not in shared_memory}
    return ranked(function, frozenset(differing))


@attrs.frozen(eq=False)
class _Sharing:
    module: Module
    kernel: Function
    started: list[Role]
    load: Role
    loading: Function
    differing: RankDependent

    @property
    def ranks(self) -> int:
        return cast(int, self.kernel.attributes[ATTRIBUTE])

    def functions(self) -> list[Function] | Refusal:
        """The roles and the kernel."""
        from tileir.backend.warp_specialize.uniform_copies import UniformityCheck

        old = self.loading
        agreeing = UniformityCheck(old, self.differing, self.ranks)
        parts: dict[Value, tuple[TensorMap, Value]] = {}
        for op in old.ops:
            if isinstance(op, TmaLoad) and agreeing.may(op) and op.descriptor not in parts:
                made = self._part(cast(Value, op.descriptor))
                if made is not None:
                    parts[cast(Value, op.descriptor)] = made, Value(made.to, None)
        if not parts:
            return Refusal("no two instances may need the same")
        filled = agreeing.function({v: (new, _along(m)) for v, (m, new) in parts.items()})
        parameters = (*filled.parameters, *(Parameter(new) for _, new in parts.values()))
        empty = self._emptied(old)
        loading = filled.evolve(parameters=parameters)
        others = [self._reading(r, empty) for r in self.started if r is not self.load]
        return [loading, *others, self._kernel([m for m, _ in parts.values()], empty)]

    def _part(self, descriptor: Value) -> TensorMap | None:
        """The map of a block's share of the rows of a descriptor's blocks; None where they cannot
        be shared."""
        pairs = zip(self.loading.parameters, self.load.arguments, strict=True)
        given = next((a for p, a in pairs if p.value is descriptor), None)
        maps = (op for op in self.kernel.entry.ops if isinstance(op, TensorMap))
        made = next((op for op in maps if op.result is given), None)
        if made is None:
            return None
        block = cast(Descriptor, made.to).block
        shape = multicast_slice_shape(block.shape, self.ranks)
        if shape is None:
            return None
        part = made.evolve(to=Descriptor(Tile(block.element, shape)), results=())
        return cast(TensorMap, part)

    def _emptied(self, function: Function) -> set[Operand]:
        """The kernel's barriers that the role that loads waits for."""
        waited = {op.barrier for op in function.ops if isinstance(op, MBarrierWait)}
        pairs = zip(function.parameters, self.load.arguments, strict=True)
        return {a for p, a in pairs if p.value in waited}

    def _reading(self, role: Role, empty: set[Operand]) -> Function:
        """The function of another role, which gives slots back to all blocks."""
        function = self.module.functions[role.callee]
        pairs = zip(function.parameters, role.arguments, strict=True)
        mine = {p.value for p, a in pairs if a in empty}
        blocks = {
            label: attrs.evolve(block, ops=tuple([_everywhere(op, mine) for op in block.ops]))
            for label, block in function.blocks.items()
        }
        return function.with_blocks(blocks)

    def _kernel(self, maps: list[TensorMap], empty: set[Operand]) -> Function:
        from tileir.ops.cluster import ClusterArrive, ClusterWait
        from tileir.ops.roles import JoinRoles

        ops: list[Op] = []
        last = [op for op in self.kernel.entry.ops if isinstance(op, TensorMap)][-1]
        for op in self.kernel.entry.ops:
            if op is self.started[0]:
                ops += [ClusterArrive(), ClusterWait()]
            if isinstance(op, MBarrierAlloc) and op.result in empty:
                ops.append(op.evolve(arrivals=op.arrivals * self.ranks))
            elif op is self.load:
                given = (*self.load.arguments, *(m.result for m in maps))
                ops.append(self.load.evolve(arguments=given))
            else:
                ops.append(op)
            if op is last:
                ops += maps
            if isinstance(op, JoinRoles):
                ops += [ClusterArrive(), ClusterWait()]
        return self.kernel.with_blocks(
            {self.kernel.entry.label: attrs.evolve(self.kernel.entry, ops=tuple(ops))}
        )


def _along(map: TensorMap) -> int:
    return _axis(cast(Descriptor, map.to).block.shape)


def _everywhere(op: Op, barriers: set[Value]) -> Op:
    mine = isinstance(op, MBarrierArrive) and op.barrier in barriers
    return op.evolve(cluster=True) if mine else op


def multicast_slice_shape(extents: tuple[int, ...], ranks: int) -> tuple[int, ...] | None:
    """What each of `ranks` copies of a block of `extents`: rows that follow each other, as many as
    whole patterns of swizzles; None where there is no such share."""
    axis = _axis(extents)
    rows, left = divmod(extents[axis], ranks)
    shape = (*extents[:axis], rows, *extents[axis + 1 :])
    return None if left or prod(shape[:-1]) % _PATTERN else shape


def _axis(extents: tuple[int, ...]) -> int:
    """The first dimension but the last along which there is more than one row; 0 for none."""
    return next((i for i, n in enumerate(extents[:-1]) if n > 1), 0)
