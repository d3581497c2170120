"""The last product of a round one round later: the loop as its first round, the others and what
is left over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.analysis.uses import definitions
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.ops.floats import FMul, Rounding
from tileir.ops.hopper import ScheduleBarrier, WgmmaWait
from tileir.ops.shape import Broadcast
from tileir.passes.cfg_edit import copy_op, fresh, fresh_label, map_edges
from tileir.types import F32, Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.chained_matmuls import MatmulChain

Env = dict[Value, Operand]


def delayed(function: Function, chain: MatmulChain, *, ordered_softmax: bool) -> Function:
    """`function` with the last product of `chain` beside what the next round does before it, begun
    by warpgroups in turns where `ordered_softmax`."""
    return _Delaying(function, chain, ordered_softmax=ordered_softmax).function_()


class _Delaying:
    def __init__(self, function: Function, chain: MatmulChain, *, ordered_softmax: bool) -> None:
        from tileir.backend.warp_specialize.chained_matmuls import latch_arguments

        self.function, self.chain, self.ordered_softmax = function, chain, ordered_softmax
        self.header, self.latch = function.blocks[chain.header], function.blocks[chain.latch]
        self.labels: dict[str, str] = {}
        for name in ("rounds", "round", "last", "behind"):
            self.labels[name] = self._fresh(name)
        self.copies = {chain.body: self.labels["round"]}
        for label in chain.labels[1:]:
            self.copies[label] = self._fresh(f"round.{label}")
        self.passed = latch_arguments(self.header, self.latch)

    def _fresh(self, name: str) -> str:
        taken = {*self.function.blocks, *self.labels.values()}
        return fresh_label(f"{self.chain.header}.{name}", taken)

    def function_(self) -> Function:
        """The function with the product delayed."""
        carried = [v for v in self.header.parameters if v is not self.chain.total]
        blocks: dict[str, Block] = {}
        for label, block in self.function.blocks.items():
            blocks[label] = self._tested(block) if label == self.chain.header else block
            if label == self.chain.latch:
                blocks[label] = self._first(block, carried)
        last = max(self.chain.labels, key=tuple(self.function.blocks).index)
        made = inserted(blocks, last, self._rounds(carried))
        return self._behind(self.function.with_blocks(made))

    def _tested(self, block: Block) -> Block:
        """The test before the first round; where there is none, go behind the loop at once."""
        behind = Successor(self.labels["behind"], self.header.parameters)
        last = map_edges(block.terminator, lambda e: behind if e.label == self.chain.target else e)
        return attrs.evolve(block, ops=(*block.ops[:-1], last))

    def _first(self, latch: Block, carried: Sequence[Value]) -> Block:
        """The end of the first round, without its last product."""
        given = [v if v in self.chain.moved else self.passed[v] for v in carried]
        last = self.chain.last
        edge = Successor(self.labels["rounds"], (*given, last.a, last.c))
        ops = [op for op in latch.ops[:-1] if op not in self.chain.late]
        return attrs.evolve(latch, ops=(*ops, Branch(edge)))

    def _rounds(self, carried: Sequence[Value]) -> dict[str, Block]:
        """The loop, and the last product behind it."""
        chain, labels = self.chain, self.labels
        env: Env = {v: fresh(v) for v in carried}
        factor, total = Value(chain.last.a.type, "factor"), Value(chain.last.c.type, "total")
        parameters = tuple(cast(Value, env[v]) for v in carried)
        test = [copy_op(op, env) for op in self.header.ops]
        test[-1] = self._leading(test[-1])
        head = Block(labels["rounds"], (*parameters, factor, total), test)
        outer = Env(env)
        blocks = self._round(Env(env), carried, (factor, total))
        late = [self._copied(op, outer, factor, total) for op in chain.late]
        ends = [
            read(outer, self.passed[p] if p in (chain.total, *chain.moved) else p)
            for p in self.header.parameters
        ]
        leave = Branch(Successor(labels["behind"], tuple(ends)))
        tail = Block(labels["last"], (), (*late, leave))
        return {labels["rounds"]: head, **blocks, labels["last"]: tail}

    def _leading(self, last: Op) -> Op:
        names = {self.chain.body: "round", self.chain.target: "last"}
        return map_edges(last, lambda e: Successor(self.labels[names[e.label]]))

    def _round(
        self, env: Env, carried: Sequence[Value], product: tuple[Value, Value]
    ) -> dict[str, Block]:
        """A round: its first product, the last one of the round before, what needs neither the sum
        of that one, and then what does."""
        chain, blocks = self.chain, dict[str, Block]()
        for label in chain.labels:
            old = self.function.blocks[label]
            parameters = tuple(fresh(v) for v in old.parameters)
            env.update(zip(old.parameters, parameters, strict=True))
            ops = self._alike(old, env, product)
            if label == chain.latch:
                ops += self._ending(env, product)
                ops.append(self._again(env, carried))
            else:
                ops.append(map_edges(copy_op(old.terminator, env), self._inside))
            blocks[self.copies[label]] = Block(self.copies[label], parameters, tuple(ops))
        return blocks

    def _inside(self, edge: Successor) -> Successor:
        return Successor(self.copies[edge.label], edge.arguments)

    def _alike(self, block: Block, env: Env, product: tuple[Value, Value]) -> list[Op]:
        """The ops of a block of a round that do not wait for the late product, which begins where
        the first one of the round is waited for."""
        from tileir.ops.warpgroup import NamedBarrierArrive, NamedBarrierSync

        chain, ops = self.chain, list[Op]()
        for op in block.ops[:-1]:
            if self.ordered_softmax and op.results and op.results[0] is chain.first.value:
                ops.append(NamedBarrierSync())
            if op is chain.first:
                begin = (x for x in chain.late if not self._after(x))
                ops += [self._copied(x, env, *product) for x in begin]
                first = cast(WgmmaWait, copy_op(op, env))
                ops += [
                    *([NamedBarrierArrive()] if self.ordered_softmax else []),
                    first.evolve(pending=1),
                ]
            elif op not in chain.late and op not in chain.following:
                ops.append(copy_op(op, env))
        return ops

    def _ending(self, env: Env, product: tuple[Value, Value]) -> list[Op]:
        """The end of a round: the late product waited for, and what needs its sum."""
        chain, ops = self.chain, list(self._ordered(env))
        ops += [self._copied(x, env, *product) for x in chain.late if self._after(x)]
        env[chain.total] = env[chain.wait.result]
        return [*ops, *(self._follow(op, env) for op in chain.following)]

    def _follow(self, op: Op, env: Env) -> Op:
        """An op that needs the sum; where rows of it are multiplied by factors of their own, which
        are 1 but for few rounds, warps look at these first."""
        from tileir.ops.warpgroup import ConditionalScale

        copied = copy_op(op, env)
        total = env[self.chain.wait.result]
        if not isinstance(copied, FMul) or copied.rounding is not Rounding.NEAREST or copied.ftz:
            return copied
        factor = copied.rhs if copied.lhs is total else copied.lhs
        if total not in (copied.lhs, copied.rhs) or not self._is_by_row(op, env, factor):
            return copied
        return ConditionalScale(total, factor, results=copied.results, location=op.location)

    def _is_by_row(self, op: Op, env: Env, factor: Operand) -> bool:
        """Whether `factor`, an operand of the copy of `op`, is the same in each row."""
        old = next((v for v in _values(op.operands) if env.get(v, v) is factor), None)
        made = None if old is None else definitions(self.function).get(old)
        return isinstance(made, Broadcast) and shape_of(made.value.type)[-1] == 1

    def _again(self, env: Env, carried: Sequence[Value]) -> Op:
        """To the next round."""
        given = [read(env, self.passed[p]) for p in carried]
        following = [read(env, v) for v in (self.chain.last.a, self.chain.last.c)]
        return Branch(Successor(self.labels["rounds"], (*given, *following)))

    def _ordered(self, env: Env) -> Iterable[Op]:
        """What keeps the wait for the product behind what runs beside it: the sums of rows, which
        come last, but for what they are computed from."""
        from tileir.backend.warp_specialize.chained_matmuls import backward_slice

        size = cast(Tile, self.chain.total.type).size
        passed = [v for v in self.passed.values() if isinstance(v, Value) and _is_sums(v, size)]
        made = definitions(self.function)
        earlier = backward_slice(
            self.function, (x for v in passed if v in made for x in made[v].operands)
        )
        last = [v for v in passed if v not in earlier]
        late = [env[v] for v in last if v in env]
        return [ScheduleBarrier(v) for v in late if isinstance(v, Value)]

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

    def _behind(self, function: Function) -> Function:
        """Where the loop has been left, whichever way, what it carried has one name."""
        old = self.header.parameters
        names = tuple(fresh(v) for v in old)
        env: Env = dict(zip(old, names, strict=True))
        edge = next(e for e in self.header.successors if e.label == self.chain.target)
        onward = Successor(edge.label, tuple(read(env, v) for v in edge.arguments))
        own = (*self.labels.values(), *self.copies.values(), *self.chain.labels)
        inside = {self.chain.header, *own}
        blocks = {
            label: block
            if label in inside
            else attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
            for label, block in function.blocks.items()
        }
        label = self.labels["behind"]
        made = {label: Block(label, names, (Branch(onward),))}
        return function.with_blocks(inserted(blocks, self.labels["last"], made))


def _values(operands: Iterable[Operand]) -> Iterable[Value]:
    return (v for v in operands if isinstance(v, Value))


def read(env: Env, value: Operand) -> Operand:
    """What `value` is in `env`."""
    return env.get(value, value) if isinstance(value, Value) else value


def _is_sums(value: Value, size: int) -> bool:
    """Whether a value is a tile of fewer f32 than `size`."""
    tile = value.type
    return isinstance(tile, Tile) and tile.element is F32 and tile.size < size


def inserted(blocks: dict[str, Block], place: str, made: dict[str, Block]) -> dict[str, Block]:
    """`blocks` with others after the one called `place`."""
    found: dict[str, Block] = {}
    for label, block in blocks.items():
        found[label] = block
        if label == place:
            found |= made
    return found
