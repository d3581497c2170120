"""Software pipelining through registers: the loads of a loop run iterations ahead of their uses."""

from __future__ import annotations

from typing import cast

import attrs

from tileir.analysis.aliases import aliases
from tileir.analysis.loops import Loop
from tileir.analysis.uses import defining_blocks
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.ops.memory import Load
from tileir.passes.cfg_edit import fresh
from tileir.passes.lookahead import Lookahead
from tileir.passes.loop_pipeliner import LoopPipeliner
from tileir.refusal import Refusal
from tileir.rewrite import rewrite
from tileir.values import Operand, Value


class RegisterPipeliner(LoopPipeliner):
    """One loop whose loads run `distance` iterations ahead. The header's parameters carry the
    loaded values that are not used yet."""

    def __init__(self, function: Function, loop: Loop, ahead: Lookahead, distance: int) -> None:
        super().__init__(function, loop, ahead)
        self.distance = distance
        self.loads: list[Load] = []
        self.writers = [
            op for label in loop.order for op in function.blocks[label].ops
            if op.effects.value & (Effects.WRITE | Effects.SYNC).value
        ]  # fmt: skip

    def schedule(self, op: Load) -> Refusal | None:
        """Add a load to those that are issued ahead. Returns the reason if that is impossible."""
        for writer in self.writers:
            if aliases(self.function).may_change(writer, op):
                return Refusal(
                    f"{writer.mnemonic} in the loop may change the memory that is read",
                    writer.location,
                )
        block = defining_blocks(self.function).get(cast(Value, op.pointer))
        if block not in self.loop.blocks:
            return Refusal("the address is the same in every iteration")
        why = self.ahead.add(op)
        if why is None:
            self.loads.append(op)
        return why

    def before_loop(self, blocks: dict[str, Block], label: str) -> None:
        block, ahead = blocks[label], self.ahead
        ops: list[Op] = list(block.ops[:-1])
        state = ahead.entering(block)
        valid: Operand | None = None
        loaded: list[list[Value]] = [[] for _ in self.loads]
        for iteration in range(self.distance):
            env, valid = ahead.compute_iteration(state, valid, ops)
            for queue, load in zip(loaded, self.loads, strict=True):
                queue.append(ahead.load(load, env, valid, ops, zero=False))
            if iteration < self.distance - 1:
                valid = valid if ahead.tested_first else ahead.conjunction(valid, env, ops)
                state = ahead.advance(env)
        self.carried = CarriedLoads(self)
        arguments = self.carried.initial(state, valid, loaded)
        blocks[label] = self.pass_to_header(block, _read(ops, block, arguments), arguments)

    def in_loop(self, blocks: dict[str, Block]) -> None:
        """Issue the loads of iteration i + distance at the end of the latch."""
        ahead, carried, latch = self.ahead, self.carried, cast(str, self.loop.latch)
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *carried.parameters)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        block = blocks[latch]
        ops: list[Op] = list(block.ops[:-1])
        env: dict[Value, Operand] = {}
        if carried.state is not None:
            env = ahead.evaluate(carried.state, ops)
        valid: Operand | None = carried.valid
        if not ahead.tested_first:
            valid = ahead.conjunction(valid, env, ops)
        state = ahead.advance(env)
        env, valid = ahead.compute_iteration(state, valid, ops)
        issued = [ahead.load(load, env, valid, ops, zero=False) for load in self.loads]
        arguments = carried.following(state, valid, issued)
        used = _read(ops, block, arguments)
        blocks[latch] = self.pass_to_header(block, used, arguments, stages=1)

    def clean_up(self, function: Function) -> Function:
        """Remove the loads from the loop, and use the carried values in their place."""
        queues, gone = self.carried.queues, set[Op](self.loads)
        carried = {x.result: queue[0] for x, queue in zip(self.loads, queues, strict=True)}
        blocks = dict(function.blocks)
        for label in self.loop.order:
            ops = tuple(op for op in blocks[label].ops if op not in gone)
            blocks[label] = attrs.evolve(blocks[label], ops=ops)
        return rewrite(function.with_blocks(blocks), {}, replaced=carried)


class CarriedLoads:
    """The parameters of a pipelined loop's header: the state of the iteration that runs ahead, and
    the loaded values not yet used. The state is None where the loop itself computes it."""

    def __init__(self, pipeliner: RegisterPipeliner) -> None:
        self.ahead = pipeliner.ahead
        self.queues = [
            [fresh(load.result) for _ in range(pipeliner.distance)] for load in pipeliner.loads
        ]
        self.state: dict[Value, Operand] | None = None
        self.valid: Operand | None = None
        own: list[Value] = []
        if pipeliner.distance > 1:
            self.state, self.valid = self.ahead.carried_state()
            own = [*self.ahead.parameters]
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
        return [] if self.state is None else self.ahead.header_arguments(state, valid)


def _read(ops: list[Op], block: Block, arguments: list[Operand]) -> list[Op]:
    """`ops`, which begin with those of `block`, without added ops whose results neither the
    terminator nor the additional `arguments` use."""
    old = len(block.ops) - 1
    read = {*block.terminator.operands, *arguments}
    remaining: list[Op] = []
    for op in reversed(ops[old:]):
        if not read.isdisjoint(op.results):
            read.update(op.operands)
            remaining.append(op)
    return [*ops[:old], *reversed(remaining)]
