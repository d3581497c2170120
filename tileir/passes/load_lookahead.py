"""Running the loads of a loop some iterations ahead of their uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.loops import Loop
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.compare import Select
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import add_preheader, copy_op, fresh, map_edges, with_arguments
from tileir.passes.loop_slice import Slice
from tileir.refusal import Refusal
from tileir.rewrite import rewrite
from tileir.types import I1, Type, with_element
from tileir.values import Constant, Operand, Value, constant


class LookaheadLoop(Slice):
    """One loop with the loads that are to run `distance` iterations ahead."""

    def __init__(self, function: Function, loop: Loop, distance: int) -> None:
        super().__init__(function, loop)
        self.distance = distance
        self.loads: list[Load] = []
        self.writers = [
            op for label in loop.order for op in function.blocks[label].ops
            if op.effects.value & (Effects.WRITE | Effects.SYNC).value
        ]  # fmt: skip

    def schedule(self, op: Load) -> Refusal | None:
        """Take a load along; why that cannot be done."""
        for writer in self.writers:
            if aliases(self.function).may_change(writer, op):
                return Refusal(
                    f"{writer.mnemonic} in the loop may change what is read", writer.location
                )
        if self.defining_blocks.get(cast(Value, op.pointer)) not in self.loop.blocks:
            return Refusal("the address is the same in every iteration")
        why = self.add(op)
        if why is None:
            self.loads.append(op)
        return why

    def apply(self) -> Function:
        """The function with the loads issued ahead."""
        function, before = self.function, self.loop.preheader
        if before is None:
            function, before = add_preheader(function, self.loop.header, self.loop.blocks)
        blocks = dict(function.blocks)
        ahead = self._before_loop(blocks, before)
        self._in_loop(blocks, ahead)
        taken = {
            load.results[0]: queue[0] for load, queue in zip(self.loads, ahead.queues, strict=True)
        }
        gone = set(self.loads)
        for label in self.loop.order:
            remaining = tuple(op for op in blocks[label].ops if op not in gone)
            blocks[label] = attrs.evolve(blocks[label], ops=remaining)
        return rewrite(function.with_blocks(blocks), {}, replaced=taken)

    def _before_loop(self, blocks: dict[str, Block], label: str) -> LookaheadState:
        """Issue the loads of the first iterations at the end of block `label`."""
        block = blocks[label]
        ops: list[Op] = list(block.ops[:-1])
        state = self.entering(block)
        valid: Operand | None = None
        loaded: list[list[Value]] = [[] for _ in self.loads]
        for iteration in range(self.distance):
            env = self.evaluate(state, ops)
            if self.tested_first:
                valid = self._both(valid, env, ops)
            for queue, load in zip(loaded, self.loads, strict=True):
                queue.append(self._issue(load, env, valid, ops))
            if iteration < self.distance - 1:
                valid = valid if self.tested_first else self._both(valid, env, ops)
                state = self.advance(env)
        ahead = LookaheadState(self, valid)
        initial = ahead.initial(state, valid, loaded)
        last = self._passing(block.terminator, initial)
        blocks[label] = attrs.evolve(block, ops=(*_read(ops, block, last), last))
        return ahead

    def _in_loop(self, blocks: dict[str, Block], ahead: LookaheadState) -> None:
        """Issue the loads of iteration i + distance at the end of the latch."""
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *ahead.parameters)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        block = blocks[self.latch]
        ops: list[Op] = list(block.ops[:-1])
        env: dict[Value, Operand] = {}
        if ahead.state is not None:
            env = self.evaluate(ahead.state, ops)
        valid = ahead.valid
        if not self.tested_first:
            valid = self._both(valid, env, ops)
        state = self.advance(env)
        env = self.evaluate(state, ops)
        if self.tested_first:
            valid = self._both(valid, env, ops)
        issued = [self._issue(load, env, valid, ops) for load in self.loads]
        last: Any = self._passing(block.terminator, ahead.following(state, valid, issued))
        last = last.evolve(stages=1)
        blocks[self.latch] = attrs.evolve(block, ops=(*_read(ops, block, last), last))

    def _passing(self, terminator: Op, arguments: Iterable[Operand]) -> Op:
        more = tuple(arguments)
        return map_edges(
            terminator, lambda e: with_arguments(e, more) if e.label == self.loop.header else e
        )

    def _both(
        self, valid: Operand | None, env: dict[Value, Operand], ops: list[Op]
    ) -> Operand | None:
        """Whether the iterations so far run and the condition in `env` holds; None is true."""
        holds = self.staying(env, ops)
        return holds if valid is None else _where(valid, holds, ops)

    def _issue(
        self, load: Load, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> Value:
        result: Any = copy_op(load, dict(env))
        if valid is not None:
            type = with_element(load.pointer.type, I1)
            mask = _spread(valid, type, ops)
            if result.mask is not None:
                mask = _where(mask, result.mask, ops)
            result = result.evolve(mask=mask)
        ops.append(result)
        return result.results[0]


class LookaheadState:
    """The parameters a pipelined loop gets: what runs ahead, and values not yet used."""

    def __init__(self, schedule: LookaheadLoop, valid: Operand | None) -> None:
        deep = schedule.distance > 1
        self.queues = [
            [fresh(load.results[0]) for _ in range(schedule.distance)] for load in schedule.loads
        ]
        self.state: dict[Value, Operand] | None = None
        self.valid: Value | None = None
        own: list[Value] = []
        if deep:
            copies = {p: fresh(p) for p in schedule.state}
            self.state = dict(copies)
            self.valid = Value(I1)
            own = [*copies.values(), self.valid]
        self.parameters = (*own, *(v for queue in self.queues for v in queue))

    def initial(
        self, state: dict[Value, Operand], valid: Operand | None, loaded: list[list[Value]]
    ) -> list[Operand]:
        """The arguments on entering the loop."""
        own = self._own(state, valid)
        return [*own, *(v for queue in loaded for v in queue)]

    def following(
        self, state: dict[Value, Operand], valid: Operand | None, issued: list[Value]
    ) -> list[Operand]:
        """The arguments of the next iteration."""
        own = self._own(state, valid)
        shifted = [
            v for queue, new in zip(self.queues, issued, strict=True) for v in (*queue[1:], new)
        ]
        return [*own, *shifted]

    def _own(self, state: dict[Value, Operand], valid: Operand | None) -> list[Operand]:
        if self.state is None:
            return []
        return [*state.values(), constant(I1, True) if valid is None else valid]


def _read(ops: list[Op], block: Block, last: Op) -> list[Op]:
    """`ops`, which begin with those of `block`, without added ops whose results are unused."""
    old = len(block.ops) - 1
    read = set(last.operands)
    needed: list[Op] = []
    for op in reversed(ops[old:]):
        if not read.isdisjoint(op.results):
            read.update(op.operands)
            needed.append(op)
    return [*ops[:old], *reversed(needed)]


def _where(valid: Operand, holds: Operand, ops: list[Op]) -> Operand:
    """Whether `valid` and `holds`, which may be undefined where `valid` is false."""
    ops.append(Select(valid, holds, constant(valid.type, False)))
    return ops[-1].results[0]


def _spread(predicate: Operand, type: Type, ops: list[Op]) -> Operand:
    if predicate.type is type:
        return predicate
    if isinstance(predicate, Constant):
        return Constant(type, predicate.bits)
    ops.append(Splat(predicate, type))
    return ops[-1].results[0]
