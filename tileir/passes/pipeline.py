"""Software pipelining of loads: the paper's pre-fetching (MAPL 2019, section 5.1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop, loops
from tileir.analysis.uses import definitions, homes
from tileir.effects import Effects
from tileir.errors import Diagnostic
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import And, Xor
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.edges import add_preheader, copy_op, fresh, map_edges, with_arguments
from tileir.passmanager.registry import Outcome, pass_, remark
from tileir.rewrite import rewrite
from tileir.types import I1, Type, with_element
from tileir.values import Constant, Operand, Value, constant


@pass_("pipeline")
def pipeline(function: Function, *, stages: int = 2) -> Outcome:
    """Issue the loads of a loop `stages - 1` iterations before their values are needed.

    With d = stages - 1: before the loop, the loads of iterations 0 to d - 1 are issued; in the
    loop, the value of iteration i is a parameter, and the load of iteration i + d is issued at the
    end. Each load is masked by whether its iteration will run. What addresses, masks and the
    condition are computed from runs ahead as a copy; for d = 1 it is what the iteration computes
    for the next one.

    A loop takes part if it has one latch and leaves from there or from its header, and neither
    writes memory nor synchronises; a load, if it runs in every iteration and its address moves with
    the loop and is computed without effects. `stages` of a latch's branch wins over the option, and
    is 1 afterwards. Other loops stay as they are, with a remark at their loads. Masks that are
    always true are left to `simplify`, copies to `cse`, what nobody reads to `dce`.

    before:
        define void @f(f32*<8> %p0, f32*<8> %q, i32 %n) {
        entry:
          br loop
        loop:
          %p = phi f32*<8> [%p0, entry], [%p1, loop]
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi f32<8> [0.0, entry], [%t, loop]
          %x = load f32<8> %p
          %t = fadd f32<8> %s, %x
          %p1 = getelementptr f32*<8> %p, i32<8> 8
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          cond_br %more, loop, exit
        exit:
          store %q, %t
          ret
        }
    after:
        define void @f(f32*<8> %p0, f32*<8> %q, i32 %n) {
        entry:
          %x.1 = load f32<8> %p0
          br loop
        loop:
          %p = phi f32*<8> [%p0, entry], [%p1, loop]
          %i = phi i32 [0, entry], [%j, loop]
          %s = phi f32<8> [0.0, entry], [%t, loop]
          %x = phi f32<8> [%x.1, entry], [%x.2, loop]
          %t = fadd f32<8> %s, %x
          %p1 = getelementptr f32*<8> %p, i32<8> 8
          %j = add i32 %i, 1
          %more, _ = icmp (i1, i1) %j, %n {predicate = slt}
          %0 = splat i1<8> %more
          %x.2 = load f32<8> %p1, %0
          cond_br %more, loop, exit {stages = 1}
        exit:
          store %q, %t
          ret
        }
    """
    remarks: list[Diagnostic] = []
    count = 0
    for header in tuple(loops(function).by_header):
        changed = _pipelined(function, loops(function).by_header[header], stages, remarks)
        count += changed is not function
        function = changed
    return Outcome(function, tuple(remarks), {"loops pipelined": count} if count else {})


def _pipelined(function: Function, loop: Loop, stages: int, remarks: list[Diagnostic]) -> Function:
    loads = [op for label in loop.blocks for op in function.blocks[label].ops if _moving(op)]
    wanted = stages
    if loop.latch is not None:
        asked = getattr(function.blocks[loop.latch].terminator, "stages", None)
        wanted = stages if asked is None else asked
    if not loads or wanted < 2:
        return function
    reason = _obstacle(function, loop)
    schedule = _Schedule(function, loop, wanted - 1) if reason is None else None
    if schedule is not None:
        reason = schedule.slice_condition()
    if schedule is None or reason is not None:
        remarks.extend(remark("TIR0653", f"not pipelined: {reason}", op.location) for op in loads)
        return function
    for op in loads:
        why = schedule.add(op)
        if why is not None:
            remarks.append(remark("TIR0653", f"not pipelined: {why}", op.location))
    return schedule.apply() if schedule.loads else function


def _moving(op: Op) -> bool:
    return isinstance(op, Load) and not op.volatile and op.predicate is None


def _obstacle(function: Function, loop: Loop) -> str | None:
    """What keeps a whole loop from being pipelined."""
    if loop.latch is None:
        return "the loop has several back edges"
    if len(loop.exits) != 1 or loop.exits[0][0] not in (loop.latch, loop.header):
        return "the loop leaves from elsewhere than its header or its end"
    for label in loop.blocks:
        for op in function.blocks[label].ops:
            if op.effects.value & (Effects.WRITE | Effects.SYNC).value:
                return f"{op.mnemonic} in the loop may change what is read"
    return None


class _Schedule:
    """One loop with the loads that are to run `distance` iterations ahead."""

    def __init__(self, function: Function, loop: Loop, distance: int) -> None:
        self.function = function
        self.loop = loop
        self.distance = distance
        self.latch = cast(str, loop.latch)
        self.header = function.blocks[loop.header]
        self.origin = definitions(function)
        self.homes = homes(function)
        exiting = function.blocks[loop.exits[0][0]]
        self.tested_first = exiting.label == loop.header and exiting.label != loop.latch
        self.condition: Operand = exiting.terminator.inputs[0]
        self.stays = exiting.terminator.successors[0].label in loop.blocks
        self.loads: list[Load] = []
        self.state: dict[Value, None] = {}
        """Parameters of the header that run ahead."""
        self.slice: dict[Op, None] = {}
        """Ops of the loop that are computed ahead."""

    def slice_condition(self) -> str | None:
        """Take the loop's condition along; why that cannot be done."""
        return self._take([self.condition])

    def add(self, op: Op) -> str | None:
        """Take a load along; why that cannot be done."""
        assert isinstance(op, Load)
        home = self.homes[op.results[0]]
        if not dominance(self.function).dominates(home, self.latch):
            return "the load does not run in every iteration"
        if self.tested_first and home == self.loop.header:
            return "the load runs before the loop's test"
        before = dict(self.state), dict(self.slice)
        why = self._take(list(op.inputs))
        if why is None and not self._moves(op.pointer):
            why = "the address is the same in every iteration"
        if why is not None:
            self.state, self.slice = before
        else:
            self.loads.append(op)
        return why

    def _take(self, wanted: list[Operand]) -> str | None:
        """Add what `wanted` is computed from to the slice."""
        while wanted:
            operand = wanted.pop()
            if type(operand) is not Value or self.homes.get(operand) not in self.loop.blocks:
                continue
            op = self.origin.get(operand)
            if op is None:
                if operand not in self.header.parameters:
                    return "the address depends on control flow within the loop"
                if operand not in self.state:
                    self.state[operand] = None
                    wanted.append(self._next(operand))
            elif op not in self.slice:
                if op.effects is not Effects.PURE:
                    return f"{op.mnemonic}, which the address depends on, has effects"
                self.slice[op] = None
                wanted.extend(op.operands)
        return None

    def _moves(self, pointer: Operand) -> bool:
        return self.homes.get(cast(Value, pointer)) in self.loop.blocks

    def _edge(self, source: Block) -> Successor:
        return next(e for e in source.terminator.successors if e.label == self.loop.header)

    def _next(self, parameter: Value) -> Operand:
        index = self.header.parameters.index(parameter)
        return self._edge(self.function.blocks[self.latch]).arguments[index]

    def apply(self) -> Function:
        """The function with the loads issued ahead."""
        function, before = self.function, self.loop.preheader
        if before is None:
            function, before = add_preheader(function, self.loop.header, self.loop.blocks)
        self._order_slice()
        blocks = dict(function.blocks)
        ahead = self._before_loop(blocks, before)
        self._in_loop(blocks, ahead)
        taken = {
            load.results[0]: queue[0] for load, queue in zip(self.loads, ahead.queues, strict=True)
        }
        gone = set(self.loads)
        for label in self.loop.blocks:
            kept = tuple(op for op in blocks[label].ops if op not in gone)
            blocks[label] = attrs.evolve(blocks[label], ops=kept)
        return rewrite(function.with_blocks(blocks), {}, replaced=taken)

    def _order_slice(self) -> None:
        ordered: dict[Op, None] = {}
        for label in cfg(self.function).order:
            if label in self.loop.blocks:
                ops = self.function.blocks[label].ops
                ordered.update((op, None) for op in ops if op in self.slice)
        self.slice = ordered

    def _before_loop(self, blocks: dict[str, Block], label: str) -> _Ahead:
        """Issue the loads of the first iterations at the end of block `label`."""
        block = blocks[label]
        ops: list[Op] = list(block.ops[:-1])
        edge = self._edge(block)
        arguments = dict(zip(self.header.parameters, edge.arguments, strict=True))
        state: dict[Value, Operand] = {p: arguments[p] for p in self.state}
        valid: Operand | None = None
        loaded: list[list[Value]] = [[] for _ in self.loads]
        for iteration in range(self.distance):
            env = self._computed(state, ops)
            if self.tested_first:
                valid = self._both(valid, env, ops)
            for queue, load in zip(loaded, self.loads, strict=True):
                queue.append(self._issue(load, env, valid, ops))
            if iteration < self.distance - 1:
                valid = valid if self.tested_first else self._both(valid, env, ops)
                state = self._advanced(env)
        ahead = _Ahead(self, valid)
        given = ahead.initial(state, valid, loaded)
        last = self._passing(block.terminator, given)
        blocks[label] = attrs.evolve(block, ops=(*_read(ops, block, last), last))
        return ahead

    def _in_loop(self, blocks: dict[str, Block], ahead: _Ahead) -> None:
        """Issue the loads of iteration i + distance at the end of the latch."""
        header = blocks[self.loop.header]
        parameters = (*header.parameters, *ahead.parameters)
        blocks[self.loop.header] = attrs.evolve(header, parameters=parameters)
        block = blocks[self.latch]
        ops: list[Op] = list(block.ops[:-1])
        env: dict[Value, Operand] = {}
        if ahead.state is not None:
            env = self._computed(ahead.state, ops)
        valid = ahead.valid
        if not self.tested_first:
            valid = self._both(valid, env, ops)
        state = self._advanced(env)
        env = self._computed(state, ops)
        if self.tested_first:
            valid = self._both(valid, env, ops)
        issued = [self._issue(load, env, valid, ops) for load in self.loads]
        last: Any = self._passing(block.terminator, ahead.following(state, valid, issued))
        last = last.evolve(stages=1)
        blocks[self.latch] = attrs.evolve(block, ops=(*_read(ops, block, last), last))

    def _passing(self, terminator: Op, given: Iterable[Operand]) -> Op:
        more = tuple(given)
        return map_edges(
            terminator, lambda e: with_arguments(e, more) if e.label == self.loop.header else e
        )

    def _computed(self, state: dict[Value, Operand], ops: list[Op]) -> dict[Value, Operand]:
        """What the slice's values are in an iteration that starts with `state`."""
        env = dict(state)
        ops.extend(copy_op(op, env) for op in self.slice)
        return env

    def _advanced(self, env: dict[Value, Operand]) -> dict[Value, Operand]:
        """The state of the iteration after the one with the values `env`."""
        following = {p: self._next(p) for p in self.state}
        return {p: env.get(v, v) if type(v) is Value else v for p, v in following.items()}

    def _both(
        self, valid: Operand | None, env: dict[Value, Operand], ops: list[Op]
    ) -> Operand | None:
        """Whether the iterations so far run and the condition in `env` holds; None is true."""
        holds = self.condition
        holds = env.get(holds, holds) if type(holds) is Value else holds
        if not self.stays:
            ops.append(Xor(holds, constant(I1, True)))
            holds = ops[-1].results[0]
        if valid is None:
            return holds
        ops.append(And(valid, holds))
        return ops[-1].results[0]

    def _issue(
        self, load: Load, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> Value:
        made: Any = copy_op(load, dict(env))
        if valid is not None:
            type = with_element(load.pointer.type, I1)
            mask = _spread(valid, type, ops)
            if made.mask is not None:
                ops.append(And(made.mask, mask))
                mask = ops[-1].results[0]
            made = made.evolve(mask=mask)
        ops.append(made)
        return made.results[0]


class _Ahead:
    """The parameters a pipelined loop gets: what runs ahead, and values not yet used."""

    def __init__(self, schedule: _Schedule, valid: Operand | None) -> None:
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
    """`ops`, which begin with those of `block`, without what was added and nobody reads."""
    old = len(block.ops) - 1
    read = set(last.operands)
    kept: list[Op] = []
    for op in reversed(ops[old:]):
        if not read.isdisjoint(op.results):
            read.update(op.operands)
            kept.append(op)
    return [*ops[:old], *reversed(kept)]


def _spread(predicate: Operand, type: Type, ops: list[Op]) -> Operand:
    if predicate.type is type:
        return predicate
    if isinstance(predicate, Constant):
        return Constant(type, predicate.bits)
    ops.append(Splat(predicate, type))
    return ops[-1].results[0]
