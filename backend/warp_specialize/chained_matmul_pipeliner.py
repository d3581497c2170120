"""Pipelining of a loop of chained matmuls: the last matmul of an iteration is issued in the next
one. The loop becomes a first iteration, a main loop, and a last matmul after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.analysis.uses import definitions
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.control import Branch
from tileir.ops.floats import FMul, Rounding
from tileir.ops.hopper import ScheduleBarrier, WgmmaWait
from tileir.ops.memory import Load
from tileir.ops.shape import Broadcast
from tileir.passes.cfg_edit import copy_op, fresh, fresh_label, map_edges
from tileir.types import F32, Scalar, Tile, shape_of
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.backend.warp_specialize.chained_matmuls import MatmulChain

Env = dict[Value, Operand]

_ORDERED = Effects.WRITE | Effects.SYNC | Effects.OUTSIDE | Effects.TRAP
"""Effects of ops over which loads do not move."""

_MOST_BYTES_OF_A_ROW = 1280
"""Bytes of the scores of a row, their weights, its accumulator, and what is loaded before they are
multiplied: two threads hold a row, 160 registers each."""


def pipeline_chain(function: Function, chain: MatmulChain, *, ordered_softmax: bool) -> Function:
    """`function` with the last matmul of `chain` overlapped with the next iteration. With
    `ordered_softmax`, warpgroups alternate in issuing their matmuls."""
    return _ChainPipeliner(function, chain, ordered_softmax=ordered_softmax).build()


class _ChainPipeliner:
    def __init__(self, function: Function, chain: MatmulChain, *, ordered_softmax: bool) -> None:
        from tileir.backend.warp_specialize.chained_matmuls import latch_arguments

        self.function, self.chain, self.ordered_softmax = function, chain, ordered_softmax
        self.header, self.latch = function.blocks[chain.header], function.blocks[chain.latch]
        self.labels: dict[str, str] = {}
        for name in ("mainloop", "body", "last", "exit"):
            self.labels[name] = self._fresh(name)
        self.copies = {chain.body: self.labels["body"]}
        for label in chain.labels[1:]:
            self.copies[label] = self._fresh(f"body.{label}")
        self.next_values = latch_arguments(self.header, self.latch)

    def _fresh(self, name: str) -> str:
        labels = {*self.function.blocks, *self.labels.values()}
        return fresh_label(f"{self.chain.header}.{name}", labels)

    def build(self) -> Function:
        """The function with the pipelined loop."""
        carried = [v for v in self.header.parameters if v is not self.chain.accumulator]
        blocks: dict[str, Block] = {}
        for label, block in self.function.blocks.items():
            blocks[label] = self._first_header(block) if label == self.chain.header else block
            if label == self.chain.latch:
                blocks[label] = self._first_latch(block, carried)
        last = max(self.chain.labels, key=tuple(self.function.blocks).index)
        pipelined = insert_blocks(blocks, last, self._mainloop(carried))
        return self._add_exit(self.function.with_blocks(pipelined))

    def _first_header(self, block: Block) -> Block:
        """The test of the first iteration. If there is no iteration, control goes to the exit."""
        exit_ = Successor(self.labels["exit"], self.header.parameters)
        last = map_edges(block.terminator, lambda e: exit_ if e.label == self.chain.target else e)
        return attrs.evolve(block, ops=(*block.ops[:-1], last))

    def _first_latch(self, latch: Block, carried: Sequence[Value]) -> Block:
        """The latch of the first iteration, without the last matmul."""
        arguments = [v if v in self.chain.cursors else self.next_values[v] for v in carried]
        last = self.chain.last
        edge = Successor(self.labels["mainloop"], (*arguments, last.a, last.c))
        ops = [op for op in latch.ops[:-1] if op not in self.chain.delayed]
        return attrs.evolve(latch, ops=(*ops, Branch(edge)))

    def _mainloop(self, carried: Sequence[Value]) -> dict[str, Block]:
        """The main loop, and the last matmul after it."""
        chain, labels = self.chain, self.labels
        env: Env = {v: fresh(v) for v in carried}
        operand_a, accumulator = (
            Value(chain.last.a.type, "operand"),
            Value(chain.last.c.type, "acc"),
        )
        parameters = tuple(cast(Value, env[v]) for v in carried)
        test = [copy_op(op, env) for op in self.header.ops]
        test[-1] = self._test_of_mainloop(test[-1])
        head = Block(labels["mainloop"], (*parameters, operand_a, accumulator), test)
        outer = Env(env)
        blocks = self._body(Env(env), carried, (operand_a, accumulator))
        last = [self._copy_delayed(op, outer, operand_a, accumulator) for op in chain.delayed]
        ends = [
            resolve(outer, self.next_values[p] if p in (chain.accumulator, *chain.cursors) else p)
            for p in self.header.parameters
        ]
        leave = Branch(Successor(labels["exit"], tuple(ends)))
        tail = Block(labels["last"], (), (*last, leave))
        return {labels["mainloop"]: head, **blocks, labels["last"]: tail}

    def _test_of_mainloop(self, last: Op) -> Op:
        names = {self.chain.body: "body", self.chain.target: "last"}
        return map_edges(last, lambda e: Successor(self.labels[names[e.label]]))

    def _body(
        self, env: Env, carried: Sequence[Value], operands: tuple[Value, Value]
    ) -> dict[str, Block]:
        """The body of the main loop: the first matmul of an iteration, the last one of the previous
        iteration, the ops that do not depend on the latter, and then those that do."""
        chain, blocks = self.chain, dict[str, Block]()
        for label in chain.labels:
            old = self.function.blocks[label]
            parameters = tuple(fresh(v) for v in old.parameters)
            env.update(zip(old.parameters, parameters, strict=True))
            ops = self._independent_ops(old, env, operands)
            if label == chain.body:
                ops = self._with_loads_first(ops)
            if label == chain.latch:
                ops += self._dependent_ops(env, operands)
                ops.append(self._back_edge(env, carried))
            else:
                ops.append(map_edges(copy_op(old.terminator, env), self._edge_in_body))
            blocks[self.copies[label]] = Block(self.copies[label], parameters, tuple(ops))
        return blocks

    def _edge_in_body(self, edge: Successor) -> Successor:
        return Successor(self.copies[edge.label], edge.arguments)

    def _independent_ops(self, block: Block, env: Env, operands: tuple[Value, Value]) -> list[Op]:
        """The ops of a block that do not depend on the delayed matmul, which is issued just before
        the wait for the first one."""
        from tileir.ops.warpgroup import NamedBarrierArrive, NamedBarrierSync

        chain, ops = self.chain, list[Op]()
        for op in block.ops[:-1]:
            if self.ordered_softmax and op.results and op.results[0] is chain.first.value:
                ops.append(NamedBarrierSync())
            if op is chain.first:
                begin = (x for x in chain.delayed if not self._is_after_wait(x))
                ops += [self._copy_delayed(x, env, *operands) for x in begin]
                first = cast(WgmmaWait, copy_op(op, env))
                ops += [
                    *([NamedBarrierArrive()] if self.ordered_softmax else []),
                    first.evolve(pending=1),
                ]
            elif op not in chain.delayed and op not in chain.dependent:
                ops.append(copy_op(op, env))
        return ops

    def _with_loads_first(self, ops: Sequence[Op]) -> list[Op]:
        """`ops` with the loads that depend on no wait, and the arithmetic on their addresses,
        before the others: a load after a matmul would be issued only when the matmul is complete.
        Loads whose results would take too many registers meanwhile stay in place."""
        scores, last = cast(Tile, self.chain.first.value.type), self.chain.last
        tiles = (scores, cast(Tile, last.a.type), cast(Tile, last.c.type))
        free = _MOST_BYTES_OF_A_ROW * scores.shape[0] - sum(map(_bytes, tiles))
        producers = {v: op for op in ops for v in op.results}
        hoisted = set[Op]()
        for op in ops:
            if op.effects & _ORDERED and not (op.orders_async or isinstance(op, WgmmaWait)):
                break
            if not isinstance(op, Load) or op.effects is not Effects.READ:
                continue
            size, sources = _bytes(op.results[0].type), _sources(op, producers)
            if size <= free and all(x in hoisted or x.effects is Effects.PURE for x in sources):
                hoisted |= {op, *sources}
                free -= size
        return [*(x for x in ops if x in hoisted), *(x for x in ops if x not in hoisted)]

    def _dependent_ops(self, env: Env, operands: tuple[Value, Value]) -> list[Op]:
        """The wait for the delayed matmul, and the ops that need its accumulator."""
        chain, ops = self.chain, list(self._schedule_barriers(env))
        ops += [
            self._copy_delayed(x, env, *operands) for x in chain.delayed if self._is_after_wait(x)
        ]
        env[chain.accumulator] = env[chain.wait.result]
        return [*ops, *(self._copy_dependent(op, env) for op in chain.dependent)]

    def _copy_dependent(self, op: Op, env: Env) -> Op:
        """A copy of an op that needs the accumulator. A scale per row, as of online softmax,
        becomes a conditional scale, since it is 1 in most iterations."""
        from tileir.ops.warpgroup import ConditionalScale

        copied = copy_op(op, env)
        accumulator = env[self.chain.wait.result]
        if not isinstance(copied, FMul) or copied.rounding is not Rounding.NEAREST or copied.ftz:
            return copied
        scale = copied.rhs if copied.lhs is accumulator else copied.lhs
        if accumulator not in (copied.lhs, copied.rhs) or not self._is_by_row(op, env, scale):
            return copied
        return ConditionalScale(accumulator, scale, results=copied.results, location=op.location)

    def _is_by_row(self, op: Op, env: Env, scale: Operand) -> bool:
        """Whether `scale`, an operand of the copy of `op`, has one value per row."""
        old = next((v for v in _values(op.operands) if env.get(v, v) is scale), None)
        definition = None if old is None else definitions(self.function).get(old)
        return isinstance(definition, Broadcast) and shape_of(definition.value.type)[-1] == 1

    def _back_edge(self, env: Env, carried: Sequence[Value]) -> Op:
        """The branch to the next iteration."""
        arguments = [resolve(env, self.next_values[p]) for p in carried]
        operands = [resolve(env, v) for v in (self.chain.last.a, self.chain.last.c)]
        return Branch(Successor(self.labels["mainloop"], (*arguments, *operands)))

    def _schedule_barriers(self, env: Env) -> Iterable[Op]:
        """Schedule barriers that keep the wait for the delayed matmul after the ops that overlap
        it: on the row statistics that the iteration computes last."""
        from tileir.backend.warp_specialize.chained_matmuls import backward_slice

        size = cast(Tile, self.chain.accumulator.type).size
        statistics = [
            v
            for v in self.next_values.values()
            if isinstance(v, Value) and _is_row_statistic(v, size)
        ]
        producers = definitions(self.function)
        earlier = backward_slice(
            self.function, (x for v in statistics if v in producers for x in producers[v].operands)
        )
        last = [v for v in statistics if v not in earlier]
        copies = [env[v] for v in last if v in env]
        return [ScheduleBarrier(v) for v in copies if isinstance(v, Value)]

    def _is_after_wait(self, op: Op) -> bool:
        """Whether a delayed op is, or follows, the wait for the delayed matmul."""
        delayed = self.chain.delayed
        return delayed.index(op) >= delayed.index(self.chain.wait)

    def _copy_delayed(self, op: Op, env: Env, operand_a: Value, accumulator: Value) -> Op:
        """A copy of a delayed op, for the matmul of the previous iteration."""
        if op is not self.chain.last:
            return copy_op(op, env)
        wgmma = cast(Any, op).evolve(a=operand_a, c=accumulator, results=())
        copied = copy_op(wgmma, env)
        env[self.chain.last.result] = copied.results[0]
        return copied

    def _add_exit(self, function: Function) -> Function:
        """`function` with an exit block that both exits of the loop lead to."""
        old = self.header.parameters
        names = tuple(fresh(v) for v in old)
        env: Env = dict(zip(old, names, strict=True))
        edge = next(e for e in self.header.successors if e.label == self.chain.target)
        onward = Successor(edge.label, tuple(resolve(env, v) for v in edge.arguments))
        own = (*self.labels.values(), *self.copies.values(), *self.chain.labels)
        inside = {self.chain.header, *own}
        blocks = {
            label: block
            if label in inside
            else attrs.evolve(block, ops=tuple([op.remap(env) for op in block.ops]))
            for label, block in function.blocks.items()
        }
        label = self.labels["exit"]
        exit_ = {label: Block(label, names, (Branch(onward),))}
        return function.with_blocks(insert_blocks(blocks, self.labels["last"], exit_))


def _values(operands: Iterable[Operand]) -> Iterable[Value]:
    return (v for v in operands if isinstance(v, Value))


def resolve(env: Env, value: Operand) -> Operand:
    """The value that `env` maps `value` to, else `value`."""
    return env.get(value, value) if isinstance(value, Value) else value


def _is_row_statistic(value: Value, size: int) -> bool:
    """Whether a value is an f32 tile of fewer elements than `size`."""
    tile = value.type
    return isinstance(tile, Tile) and tile.element is F32 and tile.size < size


def _sources(op: Op, producers: Mapping[Value, Op]) -> set[Op]:
    """The ops of `producers` that `op` depends on."""
    sources, waiting = set[Op](), list(op.operands)
    while waiting:
        value = waiting.pop()
        source = producers.get(value) if isinstance(value, Value) else None
        if source is not None and source not in sources:
            sources.add(source)
            waiting.extend(source.operands)
    return sources


def _bytes(kind: object) -> int:
    """Bytes of the elements of a tile; 0 for other types."""
    return kind.size * cast(Scalar, kind.element).bytes if isinstance(kind, Tile) else 0


def insert_blocks(
    blocks: dict[str, Block], place: str, inserted: dict[str, Block]
) -> dict[str, Block]:
    """`blocks` with the blocks `inserted` after the one with label `place`."""
    result: dict[str, Block] = {}
    for label, block in blocks.items():
        result[label] = block
        if label == place:
            result |= inserted
    return result
