"""A product one round later than what it is made of, so that it runs beside the next round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import attrs

from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, uses
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch, CondBranch
from tileir.ops.hopper import MBarrierArrive, MBarrierWait, Order, Wgmma, WgmmaWait
from tileir.passes.edges import copy_op, fresh, fresh_label, map_edges
from tileir.passmanager.registry import Outcome, pass_
from tileir.types import F32, Tile
from tileir.values import Operand, Value

Env = dict[Value, Operand]


@pass_("delay")
def delay(function: Function) -> Outcome:
    """Let the last product of a round run beside what the next round does before it.

    A loop that makes the first factor of a product from another product, as attention does, keeps
    the tensor cores waiting while threads compute. Here every round begins its first product, then
    the last product of the round before, and computes while that one runs. The first round is
    written out before the loop, the last product behind it (Shah et al. 2024, "FlashAttention-3",
    section 3.2).

    before:
        stage "roles"

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry], [%j, body]
          %slot = phi i32 [0, entry], [%next, body]
          %sum = phi f32<64, 16> [0.0, entry], [%y, body]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, done
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %sum, 0.5
          gpu.mbarrier_wait %full, %slot, 0
          %z = gpu.wgmma f32<64, 16> %h, 0, %v, %slot, %c
          %y = gpu.wgmma_wait f32<64, 16> %z
          gpu.mbarrier_arrive %empty, %slot
          %next = add i32 %slot, 1
          %j = add i32 %i, 1
          br loop
        done:
          store %p, %sum
          ret
        }
    after:
        stage "roles"

        define private void @math(f16 addrspace(3)* %q, f16 addrspace(3)* %k, f16 addrspace(3)* %v, i64 addrspace(3)* %full, i64 addrspace(3)* %empty, i32 %n, f32*<64, 16> %p) {
        entry:
          br loop
        loop:
          %i = phi i32 [0, entry]
          %slot = phi i32 [0, entry]
          %sum = phi f32<64, 16> [0.0, entry]
          %more, _ = icmp (i1, i1) %i, %n {predicate = slt}
          cond_br %more, body, loop.behind
        body:
          %s = gpu.wgmma f32<64, 16> %q, 0, %k, %i, 0.0
          %x = gpu.wgmma_wait f32<64, 16> %s
          %e = exp2 f32<64, 16> %x
          %h = fptrunc f16<64, 16> %e
          %c = fmul f32<64, 16> %sum, 0.5
          %j = add i32 %i, 1
          br loop.rounds
        loop.rounds:
          %i.1 = phi i32 [%j, body], [%j.1, loop.round]
          %slot.1 = phi i32 [%slot, body], [%next, loop.round]
          %factor = phi f16<64, 16> [%h, body], [%h.1, loop.round]
          %total = phi f32<64, 16> [%c, body], [%c.1, loop.round]
          %more.1, _ = icmp (i1, i1) %i.1, %n {predicate = slt}
          cond_br %more.1, loop.round, loop.last
        loop.round:
          %s.1 = gpu.wgmma f32<64, 16> %q, 0, %k, %i.1, 0.0
          gpu.mbarrier_wait %full, %slot.1, 0
          %0 = gpu.wgmma f32<64, 16> %factor, 0, %v, %slot.1, %total
          %x.1 = gpu.wgmma_wait f32<64, 16> %s.1 {pending = 1}
          %e.1 = exp2 f32<64, 16> %x.1
          %h.1 = fptrunc f16<64, 16> %e.1
          %j.1 = add i32 %i.1, 1
          %y = gpu.wgmma_wait f32<64, 16> %0
          gpu.mbarrier_arrive %empty, %slot.1
          %next = add i32 %slot.1, 1
          %c.1 = fmul f32<64, 16> %y, 0.5
          br loop.rounds
        loop.last:
          gpu.mbarrier_wait %full, %slot.1, 0
          %1 = gpu.wgmma f32<64, 16> %factor, 0, %v, %slot.1, %total
          %y.1 = gpu.wgmma_wait f32<64, 16> %1
          gpu.mbarrier_arrive %empty, %slot.1
          %next.1 = add i32 %slot.1, 1
          br loop.behind
        loop.behind:
          %i.2 = phi i32 [%i, loop], [%i.1, loop.last]
          %slot.2 = phi i32 [%slot, loop], [%next.1, loop.last]
          %sum.1 = phi f32<64, 16> [%sum, loop], [%y.1, loop.last]
          br done
        done:
          store %p, %sum.1
          ret
        }
    """  # noqa: E501
    count = 0
    for header in tuple(loops(function).by_header) if not function.is_declaration else ():
        found = _chain(function, loops(function).by_header[header])
        if found is not None:
            function, count = _Delaying(function, found).function_(), count + 1
    return Outcome(function, (), {"products delayed": count} if count else {})


@attrs.frozen(eq=False)
class _Chain:
    """A loop of a test and a body, the wait for its first product, and its last product: the wait
    for it, the parameter that carries its sum, and all that goes with it (`late`), which moves the
    parameters `moved` on."""

    header: str
    body: str
    target: str
    first: WgmmaWait
    last: Wgmma
    wait: WgmmaWait
    total: Value
    late: tuple[Op, ...]
    moved: tuple[Value, ...]


def _chain(function: Function, loop: Loop) -> _Chain | None:
    latch = loop.latch
    if len(loop.blocks) != 2 or latch in (None, loop.header) or len(loop.exits) != 1:
        return None
    body, header = function.blocks[latch], function.blocks[loop.header]
    ((leaving, target),) = loop.exits
    products = [op for op in body.ops if isinstance(op, Wgmma)]
    if leaving != loop.header or len(products) < 2 or not isinstance(header.terminator, CondBranch):
        return None
    last, waits = products[-1], [op for op in body.ops if isinstance(op, WgmmaWait)]
    first = next((w for w in waits if w.value is products[0].result), None)
    wait = next((w for w in waits if w.value is last.result), None)
    if first is None or wait is None or not isinstance(last.a.type, Tile) or len(waits) != 2:
        return None
    if any(last.b_slot in (op.a_slot, op.b_slot) for op in products[:-1]):
        return None  # the wait for it is one for those before, too
    total = _carrying(header, body, wait.result)
    if total is None or uses(function)[wait.result] != (body.terminator,):
        return None
    moved = _moved(header, body, last)
    late = None if moved is None else _late(function, body, (last, wait), header, moved)
    if moved is None or late is None or _depends(function, products[0], total):
        return None
    inside = {*header.ops, *body.ops}
    made = {v for op in header.ops for v in op.results}
    if any(r not in inside for v in made for r in uses(function).get(v, ())):
        return None
    return _Chain(loop.header, body.label, target, first, last, wait, total, late, moved)


def _carrying(header: Block, body: Block, value: Value) -> Value | None:
    """The header's parameter that `value` is passed for, if it is one."""
    given = _back(header, body)
    found = [p for p, v in zip(header.parameters, given, strict=True) if v is value]
    return found[0] if len(found) == 1 else None


def _back(header: Block, body: Block) -> tuple[Operand, ...]:
    (edge,) = body.successors
    return edge.arguments


def _moved(header: Block, body: Block, last: Wgmma) -> tuple[Value, ...] | None:
    """The parameters that say where the last product's slot is: its number and its parity."""
    ops = body.ops[: body.ops.index(last)]
    waits = [w for w in ops if isinstance(w, MBarrierWait) and w.index is last.b_slot]
    if not waits:
        return None
    named = [v for v in (last.b_slot, waits[-1].parity) if isinstance(v, Value)]
    return tuple(named) if all(v in header.parameters for v in named) else None


def _late(
    function: Function, body: Block, product: tuple[Wgmma, WgmmaWait], header: Block,
    moved: Sequence[Value],
) -> tuple[Op, ...] | None:  # fmt: skip
    """All that goes with the last product: its waits, the arrival that gives its slot back, and
    what moves on to the next slot; None where that has another use."""
    last, wait = product
    index, made = body.ops.index(last), definitions(function)
    before = [w for w in body.ops[:index] if isinstance(w, MBarrierWait) and w.index is last.b_slot]
    after = [
        a for a in body.ops[index:] if isinstance(a, MBarrierArrive) and a.index is last.b_slot
    ]
    found: set[Op] = {last, wait, before[-1], *after}
    passed = dict(zip(header.parameters, _back(header, body), strict=True))
    waiting: list[Operand] = [passed[v] for v in moved]
    while waiting:
        value = waiting.pop()
        op = made.get(value) if isinstance(value, Value) else None
        if op is not None and op in body.ops and op not in found:
            found.add(op)
            waiting.extend(op.operands)
    readers = uses(function)
    for op in found - {wait, last}:
        for value in op.results:
            if any(r not in found and r is not body.terminator for r in readers.get(value, ())):
                return None
    return tuple(op for op in body.ops if op in found)


def _depends(function: Function, op: Op, value: Value) -> bool:
    """Whether `op` follows from `value`."""
    made, waiting, seen = definitions(function), [*op.operands], set[Value]()
    while waiting:
        operand = waiting.pop()
        if operand is value:
            return True
        if isinstance(operand, Value) and operand not in seen:
            seen.add(operand)
            waiting.extend(made[operand].operands if operand in made else ())
    return False


class _Delaying:
    def __init__(self, function: Function, chain: _Chain) -> None:
        self.function, self.chain = function, chain
        self.header, self.body = function.blocks[chain.header], function.blocks[chain.body]
        self.labels: dict[str, str] = {}
        for name in ("rounds", "round", "last", "behind"):
            taken = {*function.blocks, *self.labels.values()}
            self.labels[name] = fresh_label(f"{chain.header}.{name}", taken)
        self.passed = dict(zip(self.header.parameters, _back(self.header, self.body), strict=True))

    def function_(self) -> Function:
        """The function with the product delayed."""
        carried = [v for v in self.header.parameters if v is not self.chain.total]
        blocks: dict[str, Block] = {}
        for label, block in self.function.blocks.items():
            if label == self.chain.header:
                blocks[label] = self._tested(block)
            elif label == self.chain.body:
                blocks[label] = self._first(block, carried)
                blocks |= self._rounds(carried)
            else:
                blocks[label] = block
        return self._behind(self.function.with_blocks(blocks))

    def _tested(self, block: Block) -> Block:
        """The test before the first round; where there is none, go behind the loop at once."""
        behind = Successor(self.labels["behind"], self.header.parameters)
        last = map_edges(block.terminator, lambda e: behind if e.label == self.chain.target else e)
        return attrs.evolve(block, ops=(*block.ops[:-1], last))

    def _first(self, block: Block, carried: Sequence[Value]) -> Block:
        """The first round, without its last product."""
        given = [v if v in self.chain.moved else self.passed[v] for v in carried]
        last = self.chain.last
        edge = Successor(self.labels["rounds"], (*given, last.a, last.c))
        ops = [op for op in block.ops[:-1] if op not in self.chain.late]
        return attrs.evolve(block, ops=(*ops, Branch(edge)))

    def _rounds(self, carried: Sequence[Value]) -> dict[str, Block]:
        """The loop, and the last product behind it."""
        chain, labels = self.chain, self.labels
        env: Env = {v: fresh(v) for v in carried}
        factor, total = Value(chain.last.a.type, "factor"), Value(chain.last.c.type, "total")
        parameters = tuple(cast(Value, env[v]) for v in carried)
        test = [copy_op(op, env) for op in self.header.ops]
        test[-1] = self._leading(test[-1])
        head = Block(labels["rounds"], (*parameters, factor, total), test)
        inner, outer = Env(env), Env(env)
        ops = self._round(inner, factor, total)
        given = [inner.get(v, v) if isinstance(v, Value) else v
                 for v in (self.passed[p] for p in carried)]  # fmt: skip
        following = tuple(self._read(inner, v) for v in (chain.last.a, chain.last.c))
        again = Branch(Successor(labels["rounds"], (*given, *following)))
        late = [self._copied(op, outer, factor, total) for op in chain.late]
        ends = [
            self._read(outer, self.passed[p] if p in (chain.total, *chain.moved) else p)
            for p in self.header.parameters
        ]
        leave = Branch(Successor(labels["behind"], tuple(ends)))
        return {
            labels["rounds"]: head,
            labels["round"]: Block(labels["round"], (), (*ops, again)),
            labels["last"]: Block(labels["last"], (), (*late, leave)),
        }

    def _leading(self, last: Op) -> Op:
        names = {self.chain.body: "round", self.chain.target: "last"}
        return map_edges(last, lambda e: Successor(self.labels[names[e.label]]))

    def _round(self, env: Env, factor: Value, total: Value) -> list[Op]:
        """A round: its first product, the last one of the round before, what needs neither the sum
        of that one, and then what does."""
        chain = self.chain
        begin = [op for op in chain.late if not self._after(op)]
        end = [op for op in chain.late if self._after(op)]
        ops: list[Op] = []
        waiting: list[Op] = []
        late = {chain.total}
        for op in self.body.ops[:-1]:
            if op in chain.late:
                continue
            if op is chain.first:
                ops += [self._copied(x, env, factor, total) for x in begin]
                first = cast(WgmmaWait, copy_op(op, env))
                ops.append(first.evolve(pending=1))
            elif late & set(_values(op.operands)):
                late.update(op.results)
                waiting.append(op)
            else:
                ops.append(copy_op(op, env))
        ops += self._ordered(env)
        ops += [self._copied(x, env, factor, total) for x in end]
        env[chain.total] = env[chain.wait.result]
        ops += [copy_op(op, env) for op in waiting]
        return ops

    def _ordered(self, env: Env) -> list[Op]:
        """What keeps the wait for the product behind what runs beside it: the sums of rows, which
        come last."""
        passed = [v for v in self.passed.values() if isinstance(v, Value) and _is_column(v)]
        late = [env[v] for v in passed if v in env]
        return [Order(v) for v in late if isinstance(v, Value)]

    def _after(self, op: Op) -> bool:
        """Whether a late op is, or follows, the wait for the product."""
        late = self.chain.late
        return late.index(op) >= late.index(self.chain.wait)

    def _copied(self, op: Op, env: Env, factor: Value, total: Value) -> Op:
        """A late op, of the product of the round before."""
        if op is not self.chain.last:
            return copy_op(op, env)
        made = cast(Any, op).evolve(a=factor, c=total, results=())
        found = copy_op(made, env)
        env[self.chain.last.result] = found.results[0]
        return found

    def _read(self, env: Env, value: Operand) -> Operand:
        return env.get(value, value) if isinstance(value, Value) else value

    def _behind(self, function: Function) -> Function:
        """Where the loop has been left, whichever way, what it carried has one name."""
        old = self.header.parameters
        names = tuple(fresh(v) for v in old)
        env: dict[Value, Operand] = dict(zip(old, names, strict=True))
        edge = next(e for e in self.header.successors if e.label == self.chain.target)
        onward = Successor(edge.label, tuple(self._read(env, v) for v in edge.arguments))
        inside = {self.chain.header, self.chain.body, *self.labels.values()}
        blocks = {
            label: block if label in inside
            else attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
            for label, block in function.blocks.items()
        }  # fmt: skip
        label = self.labels["behind"]
        made = {label: Block(label, names, (Branch(onward),))}
        return function.with_blocks(_inserted(blocks, self.labels["last"], made))


def _is_column(value: Value) -> bool:
    """Whether a value has one f32 for each row."""
    return isinstance(value.type, Tile) and value.type.element is F32 and len(value.type.shape) == 1


def _inserted(blocks: dict[str, Block], place: str, made: dict[str, Block]) -> dict[str, Block]:
    """`blocks` with others after the one called `place`."""
    found: dict[str, Block] = {}
    for label, block in blocks.items():
        found[label] = block
        if label == place:
            found |= made
    return found


def _values(operands: Iterable[Operand]) -> Iterable[Value]:
    return (v for v in operands if isinstance(v, Value))
