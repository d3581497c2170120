"""Program instances multiplied in turns by two groups of warps."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.backend.roles.carried import State, carried
from tileir.backend.roles.copies import copied
from tileir.backend.roles.parts import BARRIERS, inverse
from tileir.backend.roles.twice import twice
from tileir.ir import Block, Function, Module, Parameter
from tileir.op import Op
from tileir.ops.gpu import LocalStore, SharedAlloc
from tileir.ops.hopper import MBarrierAlloc, MBarrierArrive, MBarrierWait, Role, Wgmma
from tileir.passes.dce import dce, needed
from tileir.passes.simplify_cfg import simplify_cfg
from tileir.passmanager.registry import Outcome, pass_, remark
from tileir.types import I32, Pointer
from tileir.values import Operand, Value, constant

_WARPGROUP = 4
_REGISTERS = (40, 232)
"""Registers of a thread that loads and of one of the two warpgroups that multiply."""


@pass_("pingpong")
def pingpong(module: Module) -> Outcome:
    """Let two groups of warps take the instances of a persistent kernel in turns.

    The role that multiplies becomes two, each of as many warps: one takes the first, third, fifth
    instance of its block, the other those between, and both count the slots of all. While one
    writes its result the other multiplies; two barriers say whose turn it is to read slots, since
    a wait tells the parity of a phase alone. What is written passes through buffers of their own.

    before:
        stage "roles"

        define private void @f.load(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
        entry:
          ret
        }

        define private void @f.math(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
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
          gpu.role @f.load, %a, %full, %empty, %n, %p {first = 4, warps = 4}
          gpu.role @f.math, %a, %full, %empty, %n, %p {warps = 4}
          gpu.join
          ret
        }
    after:
        stage "roles"

        define private void @f.math.0(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %turns) {
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

        define private void @f.math.1(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p, i64 addrspace(3)* %turns) {
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

        define private void @f.load(f16 addrspace(3)* %a, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32* %p) {
        entry:
          ret
        }

        define kernel void @f(i32 %n, f32* %p) {num_warps = 12, persistent = 1} {
        entry:
          %a = gpu.shared_alloc f16 addrspace(3)* {shape = [1, 64, 64], swizzle = 3, panel = 64}
          %full = gpu.mbarrier_alloc i64 addrspace(3)*
          %empty = gpu.mbarrier_alloc i64 addrspace(3)* {arrivals = 4}
          %0 = gpu.mbarrier_alloc i64 addrspace(3)* {count = 2, arrivals = 4}
          gpu.role @f.load, %a, %full, %empty, %n, %p {first = 4, warps = 4, registers = 40}
          gpu.role @f.math.0, %a, %full, %empty, %n, %p, %0 {warps = 4, registers = 232}
          gpu.role @f.math.1, %a, %full, %empty, %n, %p, %0 {first = 8, warps = 4, registers = 232}
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
        if isinstance(made, str):
            remarks.append(remark("TIR0653", f"no turns: {made}", kernel.location))
        else:
            replaced = {found[1].callee, *(f.name for f in made)}
            others = {n: f for n, f in module.functions.items() if n not in replaced}
            module = module.evolve(functions={**others, **{f.name: f for f in made}})
    return Outcome(module, tuple(remarks))


def buffer_bytes(module: Module, kernel: Function) -> int:
    """Bytes of shared memory that `pingpong` adds to `kernel`: of the buffers of results."""
    found = _roles(module, kernel)
    return 0 if found is None else sum(map(_bytes, _written(module, kernel, found[1]).values()))


def _bytes(op: SharedAlloc) -> int:
    return prod(op.shape) * cast(Pointer, op.type).pointee.bytes


def _roles(module: Module, kernel: Function) -> tuple[Role, Role] | None:
    """The role that loads and the only one that multiplies."""
    started = [op for op in kernel.ops if isinstance(op, Role)]
    if len(started) != 2 or not kernel.attributes.get("persistent"):
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

    def functions(self) -> tuple[Function, ...] | str:
        """Both functions that multiply, and the kernel that starts them."""
        if self.math.warps != _WARPGROUP:
            return "several warpgroups share the rows of a product"
        old = self.module.functions[self.math.callee]
        names = f"{self.math.callee}.0", f"{self.math.callee}.1"
        made: list[Function] = []
        for member, name in enumerate(names):
            found = in_turns(old, member)
            if isinstance(found, str):
                return found
            made.append(found.evolve(name=name))
        if any(name in self.module.functions for name in names):
            return "its names are taken"
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
                ops += [turns, *second.values(), self.load.evolve(registers=_REGISTERS[0])]
            elif op is self.math:
                ops += self._started(names, turns, tuple(arguments), total)
            else:
                ops.append(op)
        blocks = {self.kernel.entry.label: attrs.evolve(self.kernel.entry, ops=tuple(ops))}
        attributes = {**self.kernel.attributes, "num_warps": total + self.math.warps}
        return self.kernel.with_blocks(blocks).evolve(attributes=attributes)

    def _started(
        self, names: tuple[str, str], turns: MBarrierAlloc, second: tuple[Operand, ...], total: int
    ) -> Iterator[Op]:
        for name, arguments, first in (
            (names[0], self.math.arguments, self.math.first),
            (names[1], second, total),
        ):
            yield self.math.evolve(
                callee=name, arguments=(*arguments, turns.result), first=first,
                registers=_REGISTERS[1],
            )  # fmt: skip


def in_turns(function: Function, member: int) -> Function | str:
    """The body of `function` for one of two that take turns: its loop over instances does every
    other of them, from the first (`member` 0) or second on; the last parameter has become the
    barriers of turns, of which a member waits for its own."""
    outer = _instances(function)
    if outer is None:
        return "there is no loop over instances around its products"
    found = twice(function, outer)
    if found is None:
        return "an instance hands on what it computes"
    doubled, labels = found
    own = set(outer.order) if member == 0 else set(labels.values())
    other = set(labels.values()) if member == 0 else set(outer.order)
    passed = _without_effects(doubled, other)
    if passed is None:
        return "what an instance computes decides where the next one goes"
    places = _places(passed, own)
    if places is None:
        return "there is no place for a turn to begin or end"
    turns = Value(BARRIERS, "turns")
    with_turns = _Waiting(turns, member, *places).function(passed)
    parameters = (*function.parameters, Parameter(turns))
    return copied(simplify_cfg(dce(with_turns.evolve(parameters=parameters))))


def _instances(function: Function) -> Loop | None:
    """The outermost loop around all products, if control leaves it at its head alone."""
    nest = loops(function)
    around = {label: nest.around(label) for label in _of(function, Wgmma)}
    tops: set[str] = set()
    for found in around.values():
        if found is None:
            return None
        while found.parent is not None:
            found = nest.by_header[found.parent]
        tops.add(found.header)
    if len(tops) != 1:
        return None
    loop = nest.by_header[tops.pop()]
    return loop if {label for label, _ in loop.exits} == {loop.header} else None


def _of(function: Function, kind: type[Op]) -> list[str]:
    """Blocks that hold ops of a kind."""
    return [n for n, b in function.blocks.items() if any(isinstance(op, kind) for op in b.ops)]


def _without_effects(function: Function, labels: set[str]) -> Function | None:
    """`function` whose blocks `labels` change nothing; None where control flow needs what they
    lack."""
    missing: set[Value] = set()
    blocks: dict[str, Block] = {}
    for label, block in function.blocks.items():
        blocks[label] = block
        if label in labels:
            gone = [op for op in block.ops[:-1] if needed(op)]
            missing.update(v for op in gone for v in op.results)
            kept = tuple(op for op in block.ops if op is block.terminator or not needed(op))
            blocks[label] = attrs.evolve(block, ops=kept)
    cleaned = dce(function.with_blocks(blocks))
    read = {v for op in cleaned.ops for v in op.operands if isinstance(v, Value)}
    return None if read & missing else cleaned


def _places(function: Function, own: set[str]) -> tuple[str, str] | None:
    """The blocks before whose first wait for a slot, and after whose last, a turn begins and ends;
    where they have none it begins at their end and ends at their head."""
    waits = [label for label in _of(function, MBarrierWait) if label in own]
    once, tree = _each_round(function, own), dominance(function)
    first = [n for n in once if all(tree.dominates(n, w) for w in waits)]
    last = [n for n in once if not _reaches(function, n, set(waits), own)]
    return (first[-1], last[0]) if waits and first and last else None


def _each_round(function: Function, own: set[str]) -> list[str]:
    """Blocks of an instance that every instance comes to once, in order."""
    nest, tree, graph = loops(function), dominance(function), cfg(function)
    depth = min(nest.depth(label) for label in own)
    ends = [
        n for n in own if any(t not in own and nest.depth(t) == depth for t in graph.successors[n])
    ]
    return [
        n
        for n in graph.order
        if n in own and nest.depth(n) == depth and all(tree.dominates(n, e) for e in ends)
    ]


def _reaches(function: Function, label: str, targets: set[str], own: set[str]) -> bool:
    """Whether control goes on from `label` to a target of the same instance."""
    seen: set[str] = set()
    stack = [n for n in cfg(function).successors[label] if n in own]
    while stack:
        at = stack.pop()
        if at in targets:
            return True
        if at not in seen:
            seen.add(at)
            stack += [n for n in cfg(function).successors[at] if n in own]
    return False


@attrs.frozen(eq=False)
class _Waiting:
    """A function's turns: where they begin and end. The one that is first finds its turn begun."""

    turns: Value
    member: int
    begin: str
    end: str

    def function(self, function: Function) -> Function:
        start = (constant(I32, 1 - self.member),)
        return carried(function, [(I32, "turn")], start, self._block)

    def _block(self, block: Block, state: State) -> tuple[list[Op], State]:
        ops, (parity,) = list(block.ops), state
        waits = [i for i, op in enumerate(ops) if isinstance(op, MBarrierWait)]
        if block.label == self.end:
            at = waits[-1] + 1 if waits else 0
            ops.insert(at, MBarrierArrive(self.turns, constant(I32, 1 - self.member)))
        if block.label == self.begin:
            at = waits[0] if waits else len(ops) - 1
            more: list[Op] = [MBarrierWait(self.turns, constant(I32, self.member), parity)]
            parity = inverse(parity, more)
            ops[at:at] = more
        return ops, (parity,)
