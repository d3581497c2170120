"""Ping-pong: two consumer warpgroups alternate the program instances of a block."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, cast

import attrs

from tileir.analysis.clusters import persistent_instances
from tileir.backend.warp_specialize.ring_buffers import BARRIERS
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.gpu import LocalStore, SharedAlloc
from tileir.ops.hopper import MBarrierAlloc, Wgmma
from tileir.passmanager.registry import PassResult, pass_
from tileir.refusal import Refusal
from tileir.types import Pointer
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.ops.roles import Role

_WARPGROUP = 4
_REGISTERS, _COOPERATIVE_LOADS = (40, 232), (104, 200)
"""Registers per thread of the producer and of each of the two consumer warpgroups: by default, and
where producer threads load blocks."""


@pass_("pingpong")
def pingpong(module: Module) -> PassResult:
    """Let two consumer warpgroups alternate the instances of a persistent kernel (ping-pong).

    The consumer role becomes two roles with the same number of warps. One role computes the first,
    third and fifth instance of its block, the other one the instances in between. Both count the
    stages of all instances. While one role runs its epilogue, the other one issues `wgmma`. Two
    barriers order their reads of stages, since a wait distinguishes only the parity of a phase.
    Each role has its own result buffers.

    before:
        stage "warp_specialized"

        define private void @f.producer(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
        entry:
          ret
        }

        define private void @f.consumer(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
        entry:
          br instances
        instances:
          %i = phi i32 [0, entry], [%j, instance]
          %parity = phi i32 [0, entry], [%other, instance]
          %in, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %in, instance, done
        instance:
          gpu.mbarrier_wait %full, 0, %parity
          %x = gpu.wgmma f32<64, 8> %a, 0, %a, 0, 0.0
          %y = gpu.wgmma_wait f32<64, 8> %x
          gpu.mbarrier_arrive %empty, 0
          %other = xor i32 %parity, 1
          %z = splat f32*<64, 8> %p
          store %z, %y
          %j = add i32 %i, 1
          br instances
        done:
          ret
        }

        define kernel void @f(i32 %n, f32* %p) {num_warps = 8, persistent = 1} {
        entry:
          %a = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64], swizzle = 3, panel = 64}
          %full = gpu.mbarrier_alloc i64 addrspace(3)*
          %empty = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 4}
          gpu.role @f.producer, %a, %full, %empty, %n, %p {first = 4, warps = 4}
          gpu.role @f.consumer, %a, %full, %empty, %n, %p {warps = 4}
          gpu.join
          ret
        }
    after:
        stage "warp_specialized"

        define private void @f.consumer.0(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %order) {
        entry:
          br instances
        instances:
          %i = phi i32 [0, entry], [%j.1, instance.again]
          %parity = phi i32 [0, entry], [%other.1, instance.again]
          %order_parity = phi i32 [1, entry], [%0, instance.again]
          %in, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %in, instance, done
        instance:
          gpu.mbarrier_wait %order, 0, %order_parity
          %0 = xor i32 %order_parity, 1
          gpu.mbarrier_wait %full, 0, %parity
          gpu.mbarrier_arrive %order, 1
          %x = gpu.wgmma f32<64, 8> %a, 0, %a, 0, 0.0
          %y = gpu.wgmma_wait f32<64, 8> %x
          gpu.mbarrier_arrive %empty, 0
          %other = xor i32 %parity, 1
          %z = splat f32*<64, 8> %p
          store %z, %y
          %j = add i32 %i, 1
          %in.1, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %in.1, instance.again, done
        instance.again:
          %other.1 = xor i32 %other, 1
          %j.1 = add i32 %j, 1
          br instances
        done:
          ret
        }

        define private void @f.consumer.1(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %order) {
        entry:
          br instances
        instances:
          %i = phi i32 [0, entry], [%j.1, instance.again]
          %parity = phi i32 [0, entry], [%other.1, instance.again]
          %order_parity = phi i32 [0, entry], [%0, instance.again]
          %in, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %in, instance, done
        instance:
          %other = xor i32 %parity, 1
          %j = add i32 %i, 1
          %in.1, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %in.1, instance.again, done
        instance.again:
          gpu.mbarrier_wait %order, 1, %order_parity
          %0 = xor i32 %order_parity, 1
          gpu.mbarrier_wait %full, 0, %other
          gpu.mbarrier_arrive %order, 0
          %x = gpu.wgmma f32<64, 8> %a, 0, %a, 0, 0.0
          %y = gpu.wgmma_wait f32<64, 8> %x
          gpu.mbarrier_arrive %empty, 0
          %other.1 = xor i32 %other, 1
          %z = splat f32*<64, 8> %p
          store %z, %y
          %j.1 = add i32 %j, 1
          br instances
        done:
          ret
        }

        define private void @f.producer(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
        entry:
          ret
        }

        define kernel void @f(i32 %n, f32* %p) {num_warps = 12, persistent = 1} {
        entry:
          %a = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64], swizzle = 3, panel = 64}
          %full = gpu.mbarrier_alloc i64 addrspace(3)*
          %empty = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 4}
          %0 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2, arrivals = 4}
          gpu.role @f.producer, %a, %full, %empty, %n, %p {first = 4, warps = 4, registers = 40}
          gpu.role @f.consumer.0, %a, %full, %empty, %n, %p, %0 {warps = 4, registers = 232}
          gpu.role @f.consumer.1, %a, %full, %empty, %n, %p, %0 {first = 8, warps = 4, registers = 232}
          gpu.join
          ret
        }
    """  # noqa: E501
    remarks = []
    for kernel in module.functions.values():
        pair = _roles(module, kernel)
        if pair is None:
            continue
        functions = _PingPong(module, kernel, *pair).functions()
        if isinstance(functions, Refusal):
            remarks.append(functions.remark("TIR0653", "no ping-pong", kernel.location))
        else:
            replaced = {pair[1].callee, *(f.name for f in functions)}
            other_functions = {n: f for n, f in module.functions.items() if n not in replaced}
            module = module.evolve(functions={**other_functions, **{f.name: f for f in functions}})
    return PassResult(module, tuple(remarks))


def buffer_bytes(module: Module, kernel: Function) -> int:
    """Bytes of shared memory that `pingpong` adds to `kernel`, for buffers of results."""
    pair = _roles(module, kernel)
    return (
        0 if pair is None else sum(map(_bytes, _stored_buffers(module, kernel, pair[1]).values()))
    )


def _bytes(op: SharedAlloc) -> int:
    return prod(op.shape) * cast(Pointer, op.type).pointee.bytes


def _roles(module: Module, kernel: Function) -> tuple[Role, Role] | None:
    """The producer and the only consumer."""
    from tileir.ops.roles import Role

    roles = [op for op in kernel.ops if isinstance(op, Role)]
    if len(roles) != 2 or not persistent_instances(kernel):
        return None
    by_work = sorted(roles, key=lambda r: _has_wgmma(module.functions[r.callee]))
    return (by_work[0], by_work[1]) if _has_wgmma(module.functions[by_work[1].callee]) else None


def _has_wgmma(function: Function) -> bool:
    return any(isinstance(op, Wgmma) for op in function.ops)


def _stored_buffers(module: Module, kernel: Function, role: Role) -> dict[int, SharedAlloc]:
    """The buffers of `kernel` that `role` writes, by their index among its arguments."""
    function = module.functions[role.callee]
    places = {p.value: index for index, p in enumerate(function.parameters)}
    buffers = {op.buffer for op in function.ops if isinstance(op, LocalStore)}
    allocated = {op.results[0]: op for op in kernel.ops if isinstance(op, SharedAlloc)}
    arguments = {places[b]: role.arguments[places[b]] for b in buffers if b in places}
    return {
        place: allocated[value]
        for place, value in sorted(arguments.items())
        if isinstance(value, Value) and value in allocated
    }


@attrs.frozen(eq=False)
class _PingPong:
    module: Module
    kernel: Function
    producer: Role
    consumer: Role

    def functions(self) -> tuple[Function, ...] | Refusal:
        """Both consumers, the producer, and the kernel that starts them."""
        from tileir.backend.warp_specialize.alternate_instances import alternate_instances

        if self.consumer.warps != _WARPGROUP:
            return Refusal("several warpgroups divide the rows of a matmul")
        old = self.module.functions[self.consumer.callee]
        names = f"{self.consumer.callee}.0", f"{self.consumer.callee}.1"
        consumers: list[Function] = []
        for index, name in enumerate(names):
            alternating = alternate_instances(old, index)
            if isinstance(alternating, Refusal):
                return alternating
            consumers.append(alternating.evolve(name=name))
        if any(name in self.module.functions for name in names):
            return Refusal("functions with the names of the consumers exist")
        return (*consumers, self._producer_function(), self._kernel(names))

    def _producer_function(self) -> Function:
        return self.module.functions[self.producer.callee]

    def _kernel(self, names: tuple[str, str]) -> Function:
        barriers = MBarrierAlloc(BARRIERS, count=2, arrivals=self.consumer.warps)
        stored = _stored_buffers(self.module, self.kernel, self.consumer)
        second = {place: attrs.evolve(op, results=()) for place, op in stored.items()}
        arguments = list(self.consumer.arguments)
        for place, op in second.items():
            arguments[place] = op.results[0]
        total = int(cast(int, self.kernel.attributes["num_warps"]))
        ops: list[Op] = []
        for op in self.kernel.entry.ops:
            if op is self.producer:
                ops += [
                    barriers,
                    *second.values(),
                    self.producer.evolve(registers=self._registers[0]),
                ]
            elif op is self.consumer:
                ops += self._start_consumers(names, barriers, tuple(arguments), total)
            else:
                ops.append(op)
        blocks = {self.kernel.entry.label: attrs.evolve(self.kernel.entry, ops=tuple(ops))}
        attributes = {**self.kernel.attributes, "num_warps": total + self.consumer.warps}
        return self.kernel.with_blocks(blocks).evolve(attributes=attributes)

    @property
    def _registers(self) -> tuple[int, int]:
        ops = self.module.functions[self.producer.callee].ops
        return _COOPERATIVE_LOADS if any(isinstance(op, LocalStore) for op in ops) else _REGISTERS

    def _start_consumers(
        self,
        names: tuple[str, str],
        barriers: MBarrierAlloc,
        second: tuple[Operand, ...],
        total: int,
    ) -> Iterator[Op]:
        for name, arguments, first in (
            (names[0], self.consumer.arguments, self.consumer.first),
            (names[1], second, total),
        ):
            yield self.consumer.evolve(
                callee=name, arguments=(*arguments, barriers.result), first=first,
                registers=self._registers[1],
            )  # fmt: skip
