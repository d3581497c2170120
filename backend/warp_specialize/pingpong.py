"""Program instances multiplied in turns by two groups of warps."""

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
_REGISTERS, _FETCHING = (40, 232), (104, 200)
"""Registers of a thread that loads and of one of the two warpgroups that multiply; where threads
load blocks."""


@pass_("pingpong")
def pingpong(module: Module) -> PassResult:
    """Let two groups of warps take the instances of a persistent kernel in turns.

    The role that multiplies becomes two, each of as many warps: one takes the first, third, fifth
    instance of its block, the other those between, and both count the slots of all. While one
    writes its result the other multiplies; two barriers say whose turn it is to read slots, since
    a wait tells the parity of a phase alone. What is written passes through buffers of their own.

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

        define private void @f.consumer.0(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %turns) {
        entry:
          br instances
        instances:
          %i = phi i32 [0, entry], [%j.1, instance.again]
          %parity = phi i32 [0, entry], [%other.1, instance.again]
          %turn = phi i32 [1, entry], [%0, instance.again]
          %in, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %in, instance, done
        instance:
          gpu.mbarrier_wait %turns, 0, %turn
          %0 = xor i32 %turn, 1
          gpu.mbarrier_wait %full, 0, %parity
          gpu.mbarrier_arrive %turns, 1
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

        define private void @f.consumer.1(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %turns) {
        entry:
          br instances
        instances:
          %i = phi i32 [0, entry], [%j.1, instance.again]
          %parity = phi i32 [0, entry], [%other.1, instance.again]
          %turn = phi i32 [0, entry], [%0, instance.again]
          %in, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %in, instance, done
        instance:
          %other = xor i32 %parity, 1
          %j = add i32 %i, 1
          %in.1, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %in.1, instance.again, done
        instance.again:
          gpu.mbarrier_wait %turns, 1, %turn
          %0 = xor i32 %turn, 1
          gpu.mbarrier_wait %full, 0, %other
          gpu.mbarrier_arrive %turns, 0
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
        found = _roles(module, kernel)
        if found is None:
            continue
        made = _Turns(module, kernel, *found).functions()
        if isinstance(made, Refusal):
            remarks.append(made.remark("TIR0653", "no turns", kernel.location))
        else:
            replaced = {found[1].callee, *(f.name for f in made)}
            others = {n: f for n, f in module.functions.items() if n not in replaced}
            module = module.evolve(functions={**others, **{f.name: f for f in made}})
    return PassResult(module, tuple(remarks))


def buffer_bytes(module: Module, kernel: Function) -> int:
    """Bytes of shared memory that `pingpong` adds to `kernel`: of the buffers of results."""
    found = _roles(module, kernel)
    return 0 if found is None else sum(map(_bytes, _written(module, kernel, found[1]).values()))


def _bytes(op: SharedAlloc) -> int:
    return prod(op.shape) * cast(Pointer, op.type).pointee.bytes


def _roles(module: Module, kernel: Function) -> tuple[Role, Role] | None:
    """The role that loads and the only one that multiplies."""
    from tileir.ops.roles import Role

    started = [op for op in kernel.ops if isinstance(op, Role)]
    if len(started) != 2 or not persistent_instances(kernel):
        return None
    by_work = sorted(started, key=lambda r: _multiplies(module.functions[r.callee]))
    return (by_work[0], by_work[1]) if _multiplies(module.functions[by_work[1].callee]) else None


def _multiplies(function: Function) -> bool:
    return any(isinstance(op, Wgmma) for op in function.ops)


def _written(module: Module, kernel: Function, role: Role) -> dict[int, SharedAlloc]:
    """The buffers of `kernel` that `role` writes, by their places among its arguments."""
    function = module.functions[role.callee]
    places = {p.value: index for index, p in enumerate(function.parameters)}
    buffers = {op.buffer for op in function.ops if isinstance(op, LocalStore)}
    allocated = {op.results[0]: op for op in kernel.ops if isinstance(op, SharedAlloc)}
    found = {places[b]: role.arguments[places[b]] for b in buffers if b in places}
    return {
        place: allocated[value]
        for place, value in sorted(found.items())
        if isinstance(value, Value) and value in allocated
    }


@attrs.frozen(eq=False)
class _Turns:
    module: Module
    kernel: Function
    load: Role
    math: Role

    def functions(self) -> tuple[Function, ...] | Refusal:
        """Both functions that multiply, and the kernel that starts them."""
        from tileir.backend.warp_specialize.alternate_instances import alternate_instances

        if self.math.warps != _WARPGROUP:
            return Refusal("several warpgroups share the rows of a product")
        old = self.module.functions[self.math.callee]
        names = f"{self.math.callee}.0", f"{self.math.callee}.1"
        made: list[Function] = []
        for member, name in enumerate(names):
            found = alternate_instances(old, member)
            if isinstance(found, Refusal):
                return found
            made.append(found.evolve(name=name))
        if any(name in self.module.functions for name in names):
            return Refusal("its names are taken")
        return (*made, self._loading(), self._kernel(names))

    def _loading(self) -> Function:
        return self.module.functions[self.load.callee]

    def _kernel(self, names: tuple[str, str]) -> Function:
        turns = MBarrierAlloc(BARRIERS, count=2, arrivals=self.math.warps)
        written = _written(self.module, self.kernel, self.math)
        second = {place: attrs.evolve(op, results=()) for place, op in written.items()}
        arguments = list(self.math.arguments)
        for place, op in second.items():
            arguments[place] = op.results[0]
        total = int(cast(int, self.kernel.attributes["num_warps"]))
        ops: list[Op] = []
        for op in self.kernel.entry.ops:
            if op is self.load:
                ops += [turns, *second.values(), self.load.evolve(registers=self._registers[0])]
            elif op is self.math:
                ops += self._started(names, turns, tuple(arguments), total)
            else:
                ops.append(op)
        blocks = {self.kernel.entry.label: attrs.evolve(self.kernel.entry, ops=tuple(ops))}
        attributes = {**self.kernel.attributes, "num_warps": total + self.math.warps}
        return self.kernel.with_blocks(blocks).evolve(attributes=attributes)

    @property
    def _registers(self) -> tuple[int, int]:
        ops = self.module.functions[self.load.callee].ops
        return _FETCHING if any(isinstance(op, LocalStore) for op in ops) else _REGISTERS

    def _started(
        self, names: tuple[str, str], turns: MBarrierAlloc, second: tuple[Operand, ...], total: int
    ) -> Iterator[Op]:
        for name, arguments, first in (
            (names[0], self.math.arguments, self.math.first),
            (names[1], second, total),
        ):
            yield self.math.evolve(
                callee=name, arguments=(*arguments, turns.result), first=first,
                registers=self._registers[1],
            )  # fmt: skip
