"""Partition a kernel with dots into producer warps and consumer warps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import attrs

from tileir.analysis.uses import definitions
from tileir.backend.codegen.lowering import REMATERIALIZED_BLOCKS
from tileir.backend.shared_memory.shared_tile import SharedTile
from tileir.backend.target import TARGETS
from tileir.backend.tma.host_expressions import host_values
from tileir.backend.warp_specialize.async_hazards import (
    InstanceAccesses,
    overwrites_ring_inputs,
    producer_reads_written_memory,
    stores_through_smem,
)
from tileir.backend.warp_specialize.epilogue import (
    StorePath,
    build_epilogue,
    can_stage,
    epilogue_smem_bytes,
    plan_stores,
)
from tileir.backend.warp_specialize.ring_buffers import (
    PRODUCER_WARPS,
    RingBuffers,
    allocate_buffers,
    group_compatible_rings,
)
from tileir.backend.warp_specialize.rings import (
    Ring,
    RingPlan,
    StagedAccess,
    plan_rings,
    stage_access,
)
from tileir.backend.warp_specialize.stage_counts import choose_stage_counts, choose_warpgroups
from tileir.backend.warp_specialize.stored_operands import (
    TransposedOperand,
    find_stored_operands,
    narrow_b_panels,
)
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
from tileir.ops.hints import Assume
from tileir.ops.hopper import TensorMap
from tileir.passes.dce import dce
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import shape_of
from tileir.values import Value

SHARED = TARGETS["sm_90a"].shared_bytes
"""Bytes of shared memory of a block of sm_90 (PTX ISA, "Shared State Space")."""

_SLACK = 2048
"""Bytes for barriers, and for the alignment of swizzled allocations."""
_SHARED_BY_ROLES = frozenset(
    {"gpu.shared_alloc", "gpu.mbarrier_alloc", "gpu.cluster_arrive", "gpu.cluster_wait"}
)
"""Ops of the entry that stay in the kernel, since the roles share their results."""


@pass_("warp-specialize", choices={"num_stages": (2, 3, 4, 5, 6, 8)})
def warp_specialize(
    module: Module, *, num_stages: int = 0, warps: int = 0, shared: int = SHARED
) -> PassResult:
    """Specialize warps: producer warps issue TMA loads, consumer warps issue `wgmma`.

    A kernel is partitioned if all its dots can be `wgmma` on operands loaded by descriptors
    (`infer-descriptors`). Each of the two roles has the control flow of the kernel without the work
    of the other role. They share circular buffers of `num_stages` stages; 0 is as many as fit in
    `shared` bytes, at most 8. The producer waits until a stage is empty and fills it. The consumer
    waits until it is full and multiplies. `warps` is the number of consumer warps: 0 to choose it,
    which is also done if `warps` does not divide the rows of the dots. Descriptor stores pass
    through shared memory, too.

    before{num-stages=2}:
        define kernel void @matmul(f16* %a, f16* %b, f32* %c, i32 %k) {
        entry:
          %d = make_descriptor tensor_desc<f16<64, 16>> %a, [i32 64, i32 4096], [%k, i32 1]
          %e = make_descriptor tensor_desc<f16<16, 16>> %b, [%k, i32 16], [i32 16, i32 1]
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %acc = phi f32<64, 16> [0.0, entry], [%y, loop]
          %x = descriptor_load f16<64, 16> %d, 0, %i
          %z = descriptor_load f16<16, 16> %e, %i, 0
          %y = dot f32<64, 16> %x, %z, %acc
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

        define private void @matmul.producer(f16* %a, f16* %b, f32* %c, i32 %k, tensor_desc<f16<64, 16>> %d, tensor_desc<f16<16, 16>> %e, tensor_desc<f32<64, 16>> %0, f16 addrspace(3)* %1, f16 addrspace(3)* %2, i64 addrspace(3)* %3, i64 addrspace(3)* %4, f32 addrspace(3)* %5) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %stage = phi i32 [0, entry], [%9, loop]
          %parity = phi i32 [0, entry], [%11, loop]
          %6 = xor i32 %parity, 1
          gpu.mbarrier_wait %4, %stage, %6
          gpu.mbarrier_expect %3, %stage {bytes = 2560}
          gpu.tma_load %d, %1, %stage, %3, %stage, 0, %i
          gpu.tma_load %e, %2, %stage, %3, %stage, %i, 0
          %7 = add i32 %stage, 1
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

        define private void @matmul.consumer(f16* %a, f16* %b, f32* %c, i32 %k, tensor_desc<f16<64, 16>> %d, tensor_desc<f16<16, 16>> %e, tensor_desc<f32<64, 16>> %0, f16 addrspace(3)* %1, f16 addrspace(3)* %2, i64 addrspace(3)* %3, i64 addrspace(3)* %4, f32 addrspace(3)* %5) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, loop]
          %acc = phi f32<64, 16> [0.0, entry], [%y, loop]
          %stage = phi i32 [0, entry], [%9, loop]
          %parity = phi i32 [0, entry], [%11, loop]
          gpu.mbarrier_wait %3, %stage, %parity
          %6 = gpu.wgmma f32<64, 16> %1, %stage, %2, %stage, %acc
          %y = gpu.wgmma_wait f32<64, 16> %6
          gpu.mbarrier_arrive %4, %stage
          %7 = add i32 %stage, 1
          %8, _ = icmp (i1, i1) %7, 2 {predicate = eq}
          %9 = select i32 %8, 0, %7
          %10 = xor i32 %parity, 1
          %11 = select i32 %8, %10, %parity
          %j = add i32 %i, 16
          %more, _ = icmp (i1, i1) %j, %k {predicate = slt}
          cond_br %more, loop, done
        done:
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

        define kernel void @matmul(f16* %a, f16* %b, f32* %c, i32 %k) {num_warps = 8} {
        entry:
          %d = gpu.tensor_map tensor_desc<f16<64, 16>> %a, [i32 64, i32 4096], [%k, i32 1] {swizzle = 1}
          %e = gpu.tensor_map tensor_desc<f16<16, 16>> %b, [%k, i32 16], [i32 16, i32 1] {swizzle = 1}
          %0 = gpu.tensor_map tensor_desc<f32<64, 16>> %c, [i32 64, i32 16], [i32 16, i32 1] {swizzle = 2}
          %1 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 64, 16], swizzle = 1, panel = 16}
          %2 = gpu.shared_alloc f16 addrspace(3)* {shape = [2, 16, 16], swizzle = 1, panel = 16}
          %3 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2}
          %4 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2, arrivals = 4}
          %5 = gpu.shared_alloc f32 addrspace(3)* {shape = [1, 64, 16], swizzle = 2, panel = 16}
          gpu.role @matmul.producer, %a, %b, %c, %k, %d, %e, %0, %1, %2, %3, %4, %5 {first = 4, warps = 4}
          gpu.role @matmul.consumer, %a, %b, %c, %k, %d, %e, %0, %1, %2, %3, %4, %5 {warps = 4}
          gpu.join
          ret
        }
    """  # noqa: E501
    remarks = []
    for name, function in module.functions.items():
        if not function.kernel or not any(isinstance(op, Dot) for op in function.ops):
            continue
        roles = partition_kernel(function, num_stages=num_stages, warps=warps, shared=shared)
        if isinstance(roles, Refusal):
            remarks.append(roles.remark("TIR0653", "not warp-specialised", function.location))
            continue
        functions = {n: f for n, f in module.functions.items() if n != name}
        functions.update({f.name: f for f in roles})
        module = module.evolve(functions=functions, stage="warp_specialized")
    return PassResult(module, tuple(remarks))


def partition_kernel(
    function: Function,
    *,
    num_stages: int = 0,
    warps: int = 0,
    shared: int = SHARED,
    shares_processor: bool = False,
) -> tuple[Function, Function, Function] | Refusal:
    """The producer, the consumer and the kernel that starts them; or a Refusal with the reason why
    there are none. If a block `shares_processor` with others, its producer has one warp where no
    more are needed."""
    plan = plan_rings(function)
    if isinstance(plan, Refusal):
        return plan
    instance = InstanceAccesses.of(function)
    if overwrites_ring_inputs(instance, plan):
        return Refusal("an operand may be overwritten before its dots have read it")
    stored_operands = find_stored_operands(function, plan)
    plan = narrow_b_panels(plan, stored_operands)
    groups = choose_warpgroups(function, warps, plan, stored_operands)
    if isinstance(groups, Refusal):
        return groups
    makers = _descriptor_makers(function, plan)
    if isinstance(makers, Refusal):
        return makers
    ops = () if _orders_memory(function) else function.ops
    stores = {op: s for op in ops if (s := _stage_store(function, op)) is not None}
    stores, may_overwrite = stores_through_smem(instance, plan, stores)
    kinds, shared = group_compatible_rings(plan.rings), shared - _allocated_bytes(function)
    shared -= sum(map(_bytes, {operand.buffer for operand in stored_operands.values()}))
    counts = choose_stage_counts(
        kinds, shared - _SLACK - epilogue_smem_bytes(stores.values()), num_stages
    )
    few = counts is not None and num_stages > _FEW and _fewest_stages(kinds, counts) == _FEW
    if stores and (counts is None or few):
        direct = choose_stage_counts(kinds, shared - _SLACK, num_stages)
        if direct is not None and (counts is None or _fewest_stages(kinds, direct) > _FEW):
            stores, counts = {}, direct
    if counts is None:
        return Refusal("two pipeline stages do not fit in shared memory")
    ring_buffers = [allocate_buffers(g, n, 4 * groups) for g, n in zip(kinds, counts, strict=True)]
    return _Partitioner(
        instance, plan, ring_buffers, groups, makers, stores, may_overwrite, stored_operands,
        shares_processor,
    ).functions()  # fmt: skip


_FEW = 2
"""Stages that do not hide the latency of device memory: one is read while the other is filled.
Where more are requested, results leave by registers if a third stage then fits."""


def _fewest_stages(kinds: Sequence[tuple[Ring, ...]], counts: Sequence[int]) -> int:
    """The smallest number of stages among the rings of innermost loops."""
    inner = (n for rings, n in zip(kinds, counts, strict=True) if not rings[0].is_outer)
    return min(inner, default=0)


def _descriptor_makers(function: Function, plan: RingPlan) -> dict[Value, MakeDescriptor] | Refusal:
    """The ops that make the descriptors of the TMA loads. The host must be able to compute the
    operands of each, since it encodes the tensor maps."""
    makers: dict[Value, MakeDescriptor] = {}
    for ring in plan.rings:
        for load in ring.loads:
            maker = _host_maker(function, load.op.descriptor)
            if maker is None:
                return Refusal("the host cannot compute a descriptor", load.op.location)
            if not load.unit:
                makers[maker.result] = maker
    return makers


def _host_maker(function: Function, descriptor: object) -> MakeDescriptor | None:
    op = definitions(function).get(cast(Value, descriptor))
    if not isinstance(op, MakeDescriptor):
        return None
    computable = host_values(function)
    return op if all(v in computable for v in op.operands if isinstance(v, Value)) else None


def _stage_store(function: Function, op: Op) -> StagedAccess | None:
    """The access of a descriptor store or reduction, if it can pass through shared memory."""
    if not isinstance(op, (DescriptorStore, DescriptorReduce)) or op.predicate is not None:
        return None
    access = stage_access(function, op)
    rows = len(shape_of(op.value.type)) > 1 and can_stage(access)
    return access if rows and _host_maker(function, op.descriptor) is not None else None


def _orders_memory(function: Function) -> bool:
    """Whether the function has an op that orders the memory accesses of threads. Such an op would
    not order TMA stores."""
    ordering = (op for op in function.ops if op.effects & Effects.SYNC)
    return any(
        getattr(op, "sem", None) is not Order.RELAXED and not op.mnemonic.startswith("gpu.")
        for op in ordering
    )


def _allocated_bytes(function: Function) -> int:
    """The bytes of shared memory that the kernel itself allocates."""
    return sum(_bytes(op) for op in function.entry.ops if isinstance(op, SharedAlloc))


def _bytes(op: SharedAlloc) -> int:
    return op.shape[0] * SharedTile.of(op).bytes


@attrs.frozen(eq=False)
class _Partitioner:
    instance: InstanceAccesses
    plan: RingPlan
    ring_buffers: Sequence[RingBuffers]
    groups: int
    makers: dict[Value, MakeDescriptor]
    stores: dict[Op, StagedAccess]
    may_overwrite: frozenset[Op]
    """The stores that wait until earlier TMA stores are complete."""
    stored_operands: Mapping[Dot, TransposedOperand]
    shares_processor: bool

    @property
    def function(self) -> Function:
        """The function that is partitioned."""
        return self.instance.function

    def functions(self) -> tuple[Function, Function, Function] | Refusal:
        from tileir.backend.warp_specialize.consumer import build_consumer
        from tileir.backend.warp_specialize.producer import build_producer

        maps, paths = self._maps(), self._store_paths()
        body = self._remove_shared(maps)
        producer = build_producer(body, self.plan, self.ring_buffers)
        if producer is None:
            return Refusal("its control flow depends on loaded or computed values")
        if producer_reads_written_memory(self.instance, self.plan, producer):
            return Refusal("an address the producer reads may be written by the kernel")
        consumer = build_epilogue(
            build_consumer(body, self.plan, self.ring_buffers, self.stored_operands), paths
        )
        panels = [part for o in paths.values() for part in o.parts]
        shared = [
            *maps.values(), *(part.map for part in panels if part.map is not None),
            *(op for p in self.ring_buffers for op in p.ops),
            *dict.fromkeys(part.buffer for part in panels),
            *dict.fromkeys(operand.buffer for operand in self.stored_operands.values()),
            *(op for op in self.function.entry.ops if op.mnemonic in _SHARED_BY_ROLES),
        ]  # fmt: skip
        captured = [
            *(p.value for p in self.function.parameters),
            *(v for op in shared for v in op.results),
        ]
        name = self.function.name
        producer_role = self._role(producer, f"{name}.producer", captured)
        consumer_role = self._role(consumer, f"{name}.consumer", captured)
        return producer_role, consumer_role, self._kernel(shared, captured)

    def _maps(self) -> dict[Value, TensorMap]:
        """A tensor map for every descriptor of a TMA load."""
        swizzles = {load.op.descriptor: load.swizzle for r in self.plan.rings for load in r.loads}
        return {
            value: TensorMap(
                op.base, op.to, op.dimensions, padding=op.padding, swizzle=swizzles[value],
                results=op.results, location=op.location,
            )
            for value, op in self.makers.items()
        }  # fmt: skip

    def _store_paths(self) -> dict[Op, StorePath]:
        """The path of each store through shared memory."""
        stores: dict[Op, tuple[StagedAccess, MakeDescriptor]] = {}
        for op, staged in self.stores.items():
            maker = _host_maker(self.function, cast(Any, op).descriptor)
            assert maker is not None
            stores[op] = staged, maker
        return plan_stores(stores, self.may_overwrite)

    def _remove_shared(self, maps: Mapping[Value, TensorMap]) -> Function:
        """The function without the ops whose results are passed to the roles."""
        blocks = {
            label: attrs.evolve(
                block, ops=[x for op in block.ops for x in self._rewrite_op(op, maps)]
            )
            for label, block in self.function.blocks.items()
        }
        return self.function.with_blocks(blocks)

    def _rewrite_op(self, op: Op, maps: Mapping[Value, TensorMap]) -> Sequence[Op]:
        """The ops that replace `op`: none if the kernel passes its result to the roles. Descriptors
        for accesses by threads get alignment hints."""
        from tileir.backend.tma.host_plan import row_alignment
        from tileir.backend.warp_specialize.cooperative_loads import with_alignment_hints

        if (op.results and op.results[0] in maps) or op.mnemonic in _SHARED_BY_ROLES:
            return ()
        unit = row_alignment(self.function, op.base) if isinstance(op, MakeDescriptor) else 0
        return with_alignment_hints(cast(MakeDescriptor, op), unit) if unit else (op,)

    def _role(self, body: Function, name: str, captured: Sequence[Value]) -> Function:
        from tileir.backend.transforms.clone import clone

        declared = {p.value: p for p in self.function.parameters}
        role = body.evolve(
            name=name, kernel=False, visibility=Visibility.PRIVATE,
            parameters=tuple(declared.get(v) or Parameter(v) for v in captured),
            attributes=_rematerialization(body), comments=(),
        )  # fmt: skip
        return clone(role)

    def _kernel(self, shared: Sequence[Op], captured: Sequence[Value]) -> Function:
        from tileir.backend.warp_specialize.register_budget import choose_registers
        from tileir.ops.cluster import ClusterWait
        from tileir.ops.roles import JoinRoles, Role

        entry = self.function.entry
        operand_elements = (
            prod(x.buffer.shape) // (128 * self.groups) for x in self.stored_operands.values()
        )
        cooperative_loads = any(x.unit for ring in self.plan.rings for x in ring.loads)
        registers = choose_registers(
            self.function, self.groups, cooperative_loads, max(operand_elements, default=0)
        )
        arguments = tuple(captured)
        name, warps = self.function.name, 4 * self.groups
        one = self.shares_processor and not (cooperative_loads or registers[0])
        producer_warps = 1 if one else PRODUCER_WARPS
        waits = [op for op in shared if isinstance(op, ClusterWait)]
        ops = [
            *_host_ops(self.function),
            *(op for op in shared if op not in waits),
            Role(
                f"{name}.producer",
                arguments,
                first=warps,
                warps=producer_warps,
                registers=registers[0],
            ),
            *waits,
            Role(f"{name}.consumer", arguments, first=0, warps=warps, registers=registers[1]),
            JoinRoles(),
            Return(),
        ]
        kernel = self.function.with_blocks({entry.label: Block(entry.label, (), ops)})
        total = warps + producer_warps
        return dce(kernel.evolve(attributes={**self.function.attributes, "num_warps": total}))


def _rematerialization(body: Function) -> dict[str, AttributeValue]:
    """The attribute that names the blocks that access descriptors by threads. Positions in a tile
    are recomputed in these blocks, so that they take no registers elsewhere."""
    labels = [n for n, block in body.blocks.items() if any(map(_is_descriptor_access, block.ops))]
    return {REMATERIALIZED_BLOCKS: tuple(labels)} if labels else {}


def _is_descriptor_access(op: Op) -> bool:
    return isinstance(op, (DescriptorLoad, DescriptorStore, DescriptorReduce))


def _host_ops(function: Function) -> Iterator[Op]:
    """The ops of the entry that the host can compute, and the assumptions on their results."""
    computable = host_values(function)
    for op in function.entry.ops:
        if (op.results and all(v in computable for v in op.results)) or (
            isinstance(op, Assume) and op.condition in computable
        ):
            yield op
