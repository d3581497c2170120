"""A kernel whose dots take blocks of tensors, as warps that load and warps that multiply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import attrs

from tileir.analysis.uses import definitions
from tileir.backend.codegen.emit.shared_tile import SharedTile
from tileir.backend.codegen.lowering import REMATERIALIZED_BLOCKS
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.warp_specialize.async_hazards import (
    InstanceAccesses,
    overwrites_ring_inputs,
    producer_reads_written_memory,
    stores_through_smem,
)
from tileir.backend.warp_specialize.epilogue import (
    StorePath,
    epilogue_smem_bytes,
    fits,
    plan_stores,
    storing,
)
from tileir.backend.warp_specialize.ring_buffers import (
    LOADING,
    RingBuffers,
    group_compatible_rings,
    parts_of,
)
from tileir.backend.warp_specialize.rings import RingPlan, StagedAccess, plan_rings, stage_access
from tileir.backend.warp_specialize.stage_counts import choose_stage_counts, choose_warpgroups
from tileir.backend.warp_specialize.stored_operands import StoredOperand, narrow_b_panels, written
from tileir.effects import Effects
from tileir.ir import AttributeValue, Block, Function, Module, Parameter, Visibility
from tileir.op import Op
from tileir.ops.atomic import Order
from tileir.ops.control import Return
from tileir.ops.descriptor import (
    DescriptorLoad,
    DescriptorReduce,
    DescriptorStore,
    MakeDescriptor,
)
from tileir.ops.dot import Dot
from tileir.ops.gpu import SharedAlloc
from tileir.ops.hopper import TensorMap
from tileir.ops.program import Assume
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import shape_of
from tileir.values import Value

SHARED = 227 * 1024
"""Bytes of shared memory of a block of sm_90 (PTX ISA, "Shared State Space")."""

_SLACK = 2048
"""Bytes for barriers, and for rooms to begin where swizzling needs them to."""
_SHARED_BY_ALL = frozenset(
    {"gpu.shared_alloc", "gpu.mbarrier_alloc", "gpu.cluster_arrive", "gpu.cluster_wait"}
)
"""Ops of the entry that stay with the kernel: roles share what they make."""


@pass_("warp-specialize", choices={"num_stages": (2, 3, 4, 5, 6, 8)})
def warp_specialize(
    module: Module, *, num_stages: int = 0, warps: int = 0, shared: int = SHARED
) -> PassResult:
    """Let warps of their own copy what the dots of a kernel need, by tensor maps.

    A kernel all of whose dots are products by warpgroups of blocks of tensors (`infer-descriptors`)
    is started as two roles, each the kernel's control flow less what the other does. A ring of
    `num_stages` stages lies between them (0 for as many as `shared` bytes hold, 8 at most): one waits for
    empty slots and fills them, the other waits for full slots and multiplies, with `warps` warps (0
    to choose, and where they cannot share the rows of the products).
    What is written by descriptors goes through shared memory, too.

    before{num-stages=2}:
        define kernel void @product(f16* %a, f16* %b, f32* %c, i32 %k) {
        entry:
          %d = make_descriptor tensor_desc<f16<64, 16>> %a, [i32 64, i32 4096], [%k, i32 1]
          %e = make_descriptor tensor_desc<f16<16, 16>> %b, [%k, i32 16], [i32 16, i32 1]
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %sum = phi f32<64, 16> [0.0, entry], [%y, loop]
          %x = descriptor_load f16<64, 16> %d, 0, %i
          %z = descriptor_load f16<16, 16> %e, %i, 0
          %y = dot f32<64, 16> %x, %z, %sum
          %j = add i32 %i, 16
          %more, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %more, loop, done
        done:
          %f = make_descriptor tensor_desc<f32<64, 16>> %c, [i32 64, i32 16], [i32 16, i32 1]
          %p = program_id i32
          descriptor_store %f, %y, %p, 0
          ret
        }
    after:
        stage "warp_specialized"

        define private void @product.producer(f16* %a, f16* %b, f32* %c, i32 %k, tensor_desc<f16<64, 16>> %d, tensor_desc<f16<16, 16>> %e, tensor_desc<f32<64, 16>> %0, f16 addrspace(3)* %1, f16 addrspace(3)* %2, i64 addrspace(3)* %3, i64 addrspace(3)* %4, f32 addrspace(3)* %5) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %slot = phi i32 [0, entry], [%9, loop]
          %parity = phi i32 [0, entry], [%11, loop]
          %6 = xor i32 %parity, 1
          gpu.mbarrier_wait %4, %slot, %6
          gpu.mbarrier_expect %3, %slot {bytes = 2560}
          gpu.tma_load %d, %1, %slot, %3, %slot, 0, %i
          gpu.tma_load %e, %2, %slot, %3, %slot, %i, 0
          %7 = add i32 %slot, 1
          %8, _ = icmp (i1, i1) %7, 2 {predicate = eq}
          %9 = select i32 %8, 0, %7
          %10 = xor i32 %parity, 1
          %11 = select i32 %8, %10, %parity
          %j = add i32 %i, 16
          %more, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %more, loop, done
        done:
          ret
        }

        define private void @product.consumer(f16* %a, f16* %b, f32* %c, i32 %k, tensor_desc<f16<64, 16>> %d, tensor_desc<f16<16, 16>> %e, tensor_desc<f32<64, 16>> %0, f16 addrspace(3)* %1, f16 addrspace(3)* %2, i64 addrspace(3)* %3, i64 addrspace(3)* %4, f32 addrspace(3)* %5) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %sum = phi f32<64, 16> [0.0, entry], [%y, loop]
          %slot = phi i32 [0, entry], [%9, loop]
          %parity = phi i32 [0, entry], [%11, loop]
          gpu.mbarrier_wait %3, %slot, %parity
          %6 = gpu.wgmma f32<64, 16> %1, %slot, %2, %slot, %sum
          %y = gpu.wgmma_wait f32<64, 16> %6
          gpu.mbarrier_arrive %4, %slot
          %7 = add i32 %slot, 1
          %8, _ = icmp (i1, i1) %7, 2 {predicate = eq}
          %9 = select i32 %8, 0, %7
          %10 = xor i32 %parity, 1
          %11 = select i32 %8, %10, %parity
          %j = add i32 %i, 16
          %more, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %more, loop, done
        done:
          %f = make_descriptor tensor_desc<f32<64, 16>> %c, [i32 64, i32 16], [i32 16, i32 1]
          %p = program_id i32
          gpu.tma_wait
          gpu.barrier
          gpu.local_store %y, %5, 0 {columns = [0, 16]}
          gpu.async_fence
          gpu.barrier
          gpu.tma_store %0, %5, 0, %p, 0
          gpu.tma_wait
          ret
        }

        define kernel void @product(f16* %a, f16* %b, f32* %c, i32 %k) {num_warps = 8} {
        entry:
          %d = gpu.tensor_map tensor_desc<f16<64, 16>> %a, [i32 64, i32 4096], [%k, i32 1] {swizzle = 1}
          %e = gpu.tensor_map tensor_desc<f16<16, 16>> %b, [%k, i32 16], [i32 16, i32 1] {swizzle = 1}
          %0 = gpu.tensor_map tensor_desc<f32<64, 16>> %c, [i32 64, i32 16], [i32 16, i32 1] {swizzle = 2}
          %1 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 64, 16], swizzle = 1, panel = 16}
          %2 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 16, 16], swizzle = 1, panel = 16}
          %3 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2}
          %4 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2, arrivals = 4}
          %5 = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 64, 16], swizzle = 2, panel = 16}
          gpu.role @product.producer, %a, %b, %c, %k, %d, %e, %0, %1, %2, %3, %4, %5 {first = 4, warps = 4}
          gpu.role @product.consumer, %a, %b, %c, %k, %d, %e, %0, %1, %2, %3, %4, %5 {warps = 4}
          gpu.join
          ret
        }
    """  # noqa: E501
    remarks = []
    for name, function in module.functions.items():
        if not function.kernel or not any(isinstance(op, Dot) for op in function.ops):
            continue
        made = partition_kernel(function, num_stages=num_stages, warps=warps, shared=shared)
        if isinstance(made, Refusal):
            remarks.append(made.remark("TIR0653", "not warp-specialised", function.location))
            continue
        functions = {n: f for n, f in module.functions.items() if n != name}
        functions.update({f.name: f for f in made})
        module = module.evolve(functions=functions, stage="warp_specialized")
    return PassResult(module, tuple(remarks))


def partition_kernel(
    function: Function, *, num_stages: int = 0, warps: int = 0, shared: int = SHARED
) -> tuple[Function, Function, Function] | Refusal:
    """The role that loads, the role that multiplies and the kernel that starts them; else why
    there are none."""
    found = plan_rings(function)
    if isinstance(found, Refusal):
        return found
    instance = InstanceAccesses.of(function)
    if overwrites_ring_inputs(instance, found):
        return Refusal("what it loads may be written before it is multiplied")
    factors = written(function, found)
    found = narrow_b_panels(found, factors)
    groups = choose_warpgroups(function, warps, found, factors)
    if isinstance(groups, Refusal):
        return groups
    makers = _makers(function, found)
    if isinstance(makers, Refusal):
        return makers
    ops = () if _ordered(function) else function.ops
    stores = {op: s for op in ops if (s := _stored(function, op)) is not None}
    stores, again = stores_through_smem(instance, found, stores)
    kinds, shared = group_compatible_rings(found.rings), shared - _taken(function)
    shared -= sum(map(_bytes, {factor.buffer for factor in factors.values()}))
    counts = choose_stage_counts(
        kinds, shared - _SLACK - epilogue_smem_bytes(stores.values()), num_stages
    )
    if counts is None and stores:
        stores, counts = {}, choose_stage_counts(kinds, shared - _SLACK, num_stages)
    if counts is None:
        return Refusal("two pipeline stages do not fit in shared memory")
    parts = [parts_of(g, n, 4 * groups) for g, n in zip(kinds, counts, strict=True)]
    return _Partitioner(instance, found, parts, groups, makers, stores, again, factors).functions()


def _makers(function: Function, found: RingPlan) -> dict[Value, MakeDescriptor] | Refusal:
    """The descriptors of loads by tensor maps; what staged loads take the host has to be able to
    compute."""
    made: dict[Value, MakeDescriptor] = {}
    for ring in found.rings:
        for load in ring.loads:
            maker = _maker(function, load.op.descriptor)
            if maker is None:
                return Refusal("a descriptor is not known to the host", load.op.location)
            if not load.unit:
                made[maker.result] = maker
    return made


def _maker(function: Function, descriptor: object) -> MakeDescriptor | None:
    op = definitions(function).get(cast(Value, descriptor))
    if not isinstance(op, MakeDescriptor):
        return None
    known = host_values(function)
    return op if all(v in known for v in op.operands if isinstance(v, Value)) else None


def _stored(function: Function, op: Op) -> StagedAccess | None:
    """The block that a store writes, or that a tensor map adds, if it can pass through shared
    memory."""
    if not isinstance(op, (DescriptorStore, DescriptorReduce)) or op.predicate is not None:
        return None
    made = stage_access(function, op)
    rows = len(shape_of(op.value.type)) > 1 and fits(made)
    return made if rows and _maker(function, op.descriptor) is not None else None


def _ordered(function: Function) -> bool:
    """Whether anything orders what threads write to memory, which would not order copies."""
    ordering = (op for op in function.ops if op.effects & Effects.SYNC)
    return any(
        getattr(op, "sem", None) is not Order.RELAXED and not op.mnemonic.startswith("gpu.")
        for op in ordering
    )


def _taken(function: Function) -> int:
    """Bytes of the buffers that the kernel has besides."""
    return sum(_bytes(op) for op in function.entry.ops if isinstance(op, SharedAlloc))


def _bytes(op: SharedAlloc) -> int:
    return op.shape[0] * SharedTile.of(op).bytes


@attrs.frozen(eq=False)
class _Partitioner:
    instance: InstanceAccesses
    found: RingPlan
    parts: Sequence[RingBuffers]
    groups: int
    makers: dict[Value, MakeDescriptor]
    stores: dict[Op, StagedAccess]
    again: frozenset[Op]
    """The stores whose copies wait for those before."""
    factors: Mapping[Dot, StoredOperand]

    @property
    def function(self) -> Function:
        """The function that roles are made of."""
        return self.instance.function

    def functions(self) -> tuple[Function, Function, Function] | Refusal:
        from tileir.backend.warp_specialize.consumer import multiplying
        from tileir.backend.warp_specialize.producer import loading

        maps, outlets = self._maps(), self._outlets()
        bare = self._without(maps)
        first = loading(bare, self.found, self.parts)
        if first is None:
            return Refusal("its control flow depends on loaded or computed values")
        if producer_reads_written_memory(self.instance, self.found, first):
            return Refusal("an address the producer reads may be written by the kernel")
        second = storing(multiplying(bare, self.found, self.parts, self.factors), outlets)
        panels = [part for o in outlets.values() for part in o.parts]
        shared = [
            *maps.values(), *(part.map for part in panels if part.map is not None),
            *(op for p in self.parts for op in p.ops),
            *dict.fromkeys(part.buffer for part in panels),
            *dict.fromkeys(factor.buffer for factor in self.factors.values()),
            *(op for op in self.function.entry.ops if op.mnemonic in _SHARED_BY_ALL),
        ]  # fmt: skip
        captured = [
            *(p.value for p in self.function.parameters),
            *(v for op in shared for v in op.results),
        ]
        name = self.function.name
        loads = self._role(first, f"{name}.producer", captured)
        multiplies = self._role(second, f"{name}.consumer", captured)
        return loads, multiplies, self._kernel(shared, captured)

    def _maps(self) -> dict[Value, TensorMap]:
        """A tensor map for every descriptor that a staged load takes."""
        swizzles = {load.op.descriptor: load.swizzle for r in self.found.rings for load in r.loads}
        return {
            value: TensorMap(
                op.base, op.to, op.dimensions, padding=op.padding, swizzle=swizzles[value],
                results=op.results, location=op.location,
            )
            for value, op in self.makers.items()
        }  # fmt: skip

    def _outlets(self) -> dict[Op, StorePath]:
        """Where each store passes through shared memory."""
        found: dict[Op, tuple[StagedAccess, MakeDescriptor]] = {}
        for op, staged in self.stores.items():
            maker = _maker(self.function, cast(Any, op).descriptor)
            assert maker is not None
            found[op] = staged, maker
        return plan_stores(found, self.again)

    def _without(self, maps: Mapping[Value, TensorMap]) -> Function:
        """The function less the ops that make what is captured."""
        blocks = {
            label: attrs.evolve(block, ops=[x for op in block.ops for x in self._kept(op, maps)])
            for label, block in self.function.blocks.items()
        }
        return self.function.with_blocks(blocks)

    def _kept(self, op: Op, maps: Mapping[Value, TensorMap]) -> Sequence[Op]:
        """What stays of `op`; what threads access says how it is aligned."""
        from tileir.backend.tma.host_plan import row_alignment
        from tileir.backend.warp_specialize.cooperative_loads import with_alignment_hints

        if (op.results and op.results[0] in maps) or op.mnemonic in _SHARED_BY_ALL:
            return ()
        unit = row_alignment(self.function, op.base) if isinstance(op, MakeDescriptor) else 0
        return with_alignment_hints(cast(MakeDescriptor, op), unit) if unit else (op,)

    def _role(self, body: Function, name: str, captured: Sequence[Value]) -> Function:
        from tileir.backend.transforms.clone import clone

        promised = {p.value: p for p in self.function.parameters}
        made = body.evolve(
            name=name, kernel=False, visibility=Visibility.PRIVATE,
            parameters=tuple(promised.get(v) or Parameter(v) for v in captured),
            attributes=_again(body), comments=(),
        )  # fmt: skip
        return clone(made)

    def _kernel(self, shared: Sequence[Op], captured: Sequence[Value]) -> Function:
        from tileir.backend.warp_specialize.register_budget import registers_of
        from tileir.ops.cluster import ClusterWait
        from tileir.ops.roles import Join, Role

        entry = self.function.entry
        held = (prod(x.buffer.shape) // (128 * self.groups) for x in self.factors.values())
        fetched = any(x.unit for ring in self.found.rings for x in ring.loads)
        registers = registers_of(self.function, self.groups, fetched, max(held, default=0))
        given = tuple(captured)
        name, warps = self.function.name, 4 * self.groups
        waits = [op for op in shared if isinstance(op, ClusterWait)]
        ops = [
            *_host_ops(self.function),
            *(op for op in shared if op not in waits),
            Role(f"{name}.producer", given, first=warps, warps=LOADING, registers=registers[0]),
            *waits,
            Role(f"{name}.consumer", given, first=0, warps=warps, registers=registers[1]),
            Join(),
            Return(),
        ]
        made = self.function.with_blocks({entry.label: Block(entry.label, (), ops)})
        total = warps + LOADING
        return dce(made.evolve(attributes={**self.function.attributes, "num_warps": total}))


def _again(body: Function) -> dict[str, AttributeValue]:
    """The blocks that copy by threads, positions in which take no registers elsewhere."""
    labels = [n for n, block in body.blocks.items() if any(map(_by_threads, block.ops))]
    return {REMATERIALIZED_BLOCKS: tuple(labels)} if labels else {}


def _by_threads(op: Op) -> bool:
    return isinstance(op, (DescriptorLoad, DescriptorStore, DescriptorReduce))


def _host_ops(function: Function) -> Iterator[Op]:
    """The ops of the entry that the host can compute, and what is assumed of their results."""
    known = host_values(function)
    for op in function.entry.ops:
        if (op.results and all(v in known for v in op.results)) or (
            isinstance(op, Assume) and op.condition in known
        ):
            yield op
