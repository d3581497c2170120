"""The slice of a loop that can be computed iterations ahead: the ops that addresses, masks and the
loop's condition depend on."""

from __future__ import annotations

from typing import Any, cast

import attrs

from tileir.analysis.alignment import alignment
from tileir.analysis.cfg import cfg
from tileir.analysis.dominance import dominance
from tileir.analysis.loops import Loop
from tileir.analysis.uses import defining_blocks, definitions
from tileir.effects import Effects
from tileir.ir import Block, Function
from tileir.op import Op, Successor
from tileir.ops.arith import ICmp, IntegerPredicate, Select, Xor
from tileir.ops.hints import Hint
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import copy_op, fresh
from tileir.refusal import Refusal
from tileir.types import I1, Tile, Type, with_element
from tileir.values import Constant, Operand, Value, constant


class Lookahead:
    """A copy of the part of a loop that some of its values are computed from, iterations ahead:
    `slice`, its ops, and `state`, the parameters of the header that they need. The loop has one
    latch and leaves from there or from its header."""

    def __init__(self, function: Function, loop: Loop) -> None:
        self.function, self.loop = function, loop
        self.latch = cast(str, loop.latch)
        self.header = function.blocks[loop.header]
        self.origin, self.defining_blocks = definitions(function), defining_blocks(function)
        exiting = function.blocks[loop.exits[0][0]]
        self.tested_first = exiting.label == loop.header and exiting.label != loop.latch
        self.condition: Operand = exiting.terminator.inputs[0]
        self.stays = exiting.terminator.successors[0].label in loop.blocks
        self.state: dict[Value, None] = {}
        self.slice: dict[Op, None] = {}
        self._copies: dict[Value, Value] | None = None
        self._valid = Value(I1, "valid")

    @staticmethod
    def of(function: Function, loop: Loop) -> Lookahead | Refusal:
        """The lookahead of a loop whose condition can be computed ahead, or the reason why it
        cannot."""
        if loop.latch is None:
            return Refusal("the loop has several back edges")
        if len(loop.exits) != 1 or loop.exits[0][0] not in (loop.latch, loop.header):
            return Refusal("the loop leaves from elsewhere than its header or its end")
        lookahead = Lookahead(function, loop)
        return lookahead.take([lookahead.condition]) or lookahead

    # What is in it --------------------------------------------------------------------------

    def add(self, op: Load, *, reads: bool = False) -> Refusal | None:
        """Add the ops that a load depends on to the slice; returns the reason where that is not
        possible. With `reads`, other loads are added as well, which the caller has to mask, and
        hints and quotients, whose divisors the loop may change."""
        block = self.defining_blocks[op.results[0]]
        if not dominance(self.function).dominates(block, self.latch):
            return Refusal("the load does not run in every iteration")
        if self.tested_first and block == self.loop.header:
            return Refusal("the load runs before the loop's test")
        before = dict(self.state), dict(self.slice)
        why = self.take(list(op.inputs), reads)
        if why is not None:
            self.state, self.slice = before
        return why

    def take(self, operands: list[Operand], reads: bool = False) -> Refusal | None:
        """Add the ops that `operands` depend on to the slice; the reason where that fails."""
        while operands:
            operand = operands.pop()
            if (
                type(operand) is not Value
                or self.defining_blocks.get(operand) not in self.loop.blocks
            ):
                continue
            op = self.origin.get(operand)
            if op is None:
                if operand not in self.header.parameters:
                    return Refusal("the address depends on control flow within the loop")
                if operand not in self.state:
                    self.state[operand] = None
                    operands.append(self._following(operand))
            elif op not in self.slice:
                if not (op.effects is Effects.PURE or self._may_be_copied(op, reads)):
                    why = f"{op.mnemonic}, which the address depends on, has effects"
                    return Refusal(why, op.location)
                self.slice[op] = None
                operands.extend(op.operands)
        return None

    def _may_be_copied(self, op: Op, reads: bool) -> bool:
        """Whether an op with effects may be copied to an iteration that may not run; with `reads`,
        its copies are under the condition that this one runs."""
        if isinstance(op, Hint):
            return reads or self._says_nothing_new(op)
        if op.predicate is not None:
            return False
        if op.divides:
            return reads or self._divides_by_invariant(op)
        return reads and isinstance(op, Load) and not op.volatile

    def _divides_by_invariant(self, op: Op) -> bool:
        """Whether the loop does not change the divisor of a quotient or remainder."""
        return self.defining_blocks.get(cast(Any, op).rhs) not in self.loop.blocks

    def _says_nothing_new(self, hint: Hint) -> bool:
        """Whether a hint is redundant, such as `start = tl.multiple_of(start, 64)` for a start that
        is known to be a multiple of 64."""
        facts = alignment(self.function)
        with_hint, without_hint = facts.of(hint.results[0]), facts.of(hint.value)
        return attrs.evolve(with_hint, hinted=()) == attrs.evolve(without_hint, hinted=())

    def in_order(self) -> list[Op]:
        """The ops of the slice in dependence order."""
        inside = (label for label in cfg(self.function).order if label in self.loop.blocks)
        return [op for x in inside for op in self.function.blocks[x].ops if op in self.slice]

    # What it computes -----------------------------------------------------------------------

    def entering(self, block: Block) -> dict[Value, Operand]:
        """The state of the first iteration, entered from `block`."""
        arguments = dict(zip(self.header.parameters, self._edge(block).arguments, strict=True))
        return {p: arguments[p] for p in self.state}

    def evaluate(self, state: dict[Value, Operand], ops: list[Op]) -> dict[Value, Operand]:
        """The values in an iteration that starts with `state`; `ops` compute them."""
        env = dict(state)
        for op in self.in_order():
            self.compute_op(op, env, ops)
        return env

    def compute_op(self, op: Op, env: dict[Value, Operand], ops: list[Op]) -> None:
        """Append a copy of one op of the slice to `ops`. The copy may be executed for an iteration
        that does not run, so a divisor of zero is replaced by 1. A redundant hint is dropped."""
        if isinstance(op, Hint):  # redundant: others have conditional copies
            env[op.results[0]] = env.get(op.value, op.value)  # type: ignore[arg-type]
            return
        copied = copy_op(op, env)
        if op.divides and op.effects:
            divisor = cast(Any, copied).rhs
            zero, one = (Constant(divisor.type, x) for x in (0, 1))
            test = ICmp(divisor, zero, predicate_=IntegerPredicate.EQ)
            ops += [test, Select(test.results[0], one, divisor)]
            copied = attrs.evolve(cast(Any, copied), rhs=ops[-1].results[0])
        ops.append(copied)

    def advance(self, env: dict[Value, Operand]) -> dict[Value, Operand]:
        """The state of the iteration after the one with the values `env`."""
        following = {p: self._following(p) for p in self.state}
        return {p: env.get(v, v) if type(v) is Value else v for p, v in following.items()}

    def staying(self, env: dict[Value, Operand], ops: list[Op]) -> Operand:
        """Whether the loop continues, by its condition in `env`."""
        holds = self.condition
        holds = env.get(holds, holds) if type(holds) is Value else holds
        if not self.stays:
            ops.append(Xor(holds, constant(I1, True)))
            holds = ops[-1].results[0]
        return holds

    def compute_iteration(
        self, state: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> tuple[dict[Value, Operand], Operand | None]:
        """The values of the iteration that starts with `state`, and the condition that it runs, as
        far as that is known before its end; `valid` is the condition known before its start. Loads
        of values that addresses depend on are masked by that condition."""
        env, indirect = dict(state), self._indirect()
        for op in self.in_order():
            if op not in indirect:
                self.compute_op(op, env, ops)
        if self.tested_first:
            valid = self.conjunction(valid, env, ops)
        for op in indirect:
            if isinstance(op, Load):
                env[op.result] = self.load(op, env, valid, ops, zero=True)
            elif self._is_conditional(op):
                self._compute_conditionally(op, env, valid, ops)
            else:
                self.compute_op(op, env, ops)
        return env, valid

    def _compute_conditionally(
        self, op: Op, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> None:
        """A copy of a hint or a quotient for an iteration that runs if `valid`."""
        copied: Any = copy_op(op, env)
        if valid is not None and isinstance(op, Hint):
            predicate = valid if copied.predicate is None else _where(valid, copied.predicate, ops)
            copied = attrs.evolve(copied, predicate=predicate)
        elif valid is not None:
            runs = _spread(valid, with_element(copied.rhs.type, I1), ops)
            ops.append(Select(runs, copied.rhs, Constant(copied.rhs.type, 1)))
            copied = attrs.evolve(copied, rhs=ops[-1].results[0])
        ops.append(copied)

    def _is_conditional(self, op: Op) -> bool:
        """Whether a copy of `op` is valid only in iterations that run."""
        if isinstance(op, Hint):
            return not self._says_nothing_new(op)
        return op.divides and bool(op.effects) and not self._divides_by_invariant(op)

    def _indirect(self) -> list[Op]:
        """The loads of the slice, its hints and quotients that are valid only in iterations that
        run, and the ops that depend on them, in order."""
        indirect: list[Op] = []
        values = set[Operand]()
        for op in self.in_order():
            conditional = isinstance(op, Load) or self._is_conditional(op)
            if conditional or any(v in values for v in op.operands):
                indirect.append(op)
                values.update(op.results)
        return indirect

    @property
    def parameters(self) -> tuple[Value, ...]:
        """The header's additional parameters: the lookahead's state and whether its iteration
        runs."""
        return (*self.carried_state()[0].values(), self._valid)  # type: ignore[return-value]

    def carried_state(self) -> tuple[dict[Value, Operand], Operand]:
        """The lookahead's state as parameters of the header, and whether its iteration runs."""
        if self._copies is None:
            self._copies = {p: fresh(p) for p in self.state}
        return dict(self._copies), self._valid

    def header_arguments(self, state: dict[Value, Operand], valid: Operand | None) -> list[Operand]:
        """The arguments for `parameters`."""
        return [*state.values(), constant(I1, True) if valid is None else valid]

    def conjunction(
        self, valid: Operand | None, env: dict[Value, Operand], ops: list[Op]
    ) -> Operand | None:
        """Whether `valid` (None: true) and the loop's condition in `env` holds, which may be
        undefined where `valid` is false."""
        holds = self.staying(env, ops)
        return holds if valid is None else _where(valid, holds, ops)

    def load(
        self,
        op: Load,
        env: dict[Value, Operand],
        valid: Operand | None,
        ops: list[Op],
        *,
        zero: bool,
    ) -> Value:
        """A clone of the load `op` for the iteration `env`, which may not run.

        With `zero`, lanes that are masked off are zero if `op` leaves them undefined.
        """
        mask = self.mask(op, env, valid, ops)
        copied: Any = copy_op(op, dict(env))
        other = copied.other
        if zero and mask is not None and other is None:
            other = Constant(op.result.type, 0)
        ops.append(copied.evolve(mask=mask, other=other))
        return ops[-1].results[0]

    def mask(
        self, load: Load, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> Operand | None:
        """The mask of a load in the iteration `env`, which may not run."""
        own: Any = load.mask
        own = env.get(own, own) if type(own) is Value else own
        if valid is None:
            return own
        runs = _spread(valid, with_element(load.pointer.type, I1), ops)
        return runs if own is None else _where(runs, own, ops)

    def _following(self, parameter: Value) -> Operand:
        index = self.header.parameters.index(parameter)
        return self._edge(self.function.blocks[self.latch]).arguments[index]

    def _edge(self, source: Block) -> Successor:
        return next(e for e in source.terminator.successors if e.label == self.loop.header)


def _where(valid: Operand, holds: Operand, ops: list[Op]) -> Operand:
    """Whether `valid` and `holds`, which may be undefined where `valid` is false."""
    ops.append(Select(valid, holds, constant(valid.type, False)))
    return ops[-1].results[0]


def _spread(predicate: Operand, type: Type, ops: list[Op]) -> Operand:
    """`predicate` in every lane of `type`."""
    if not isinstance(type, Tile):
        return predicate
    if isinstance(predicate, Constant):
        return Constant(type, predicate.bits)
    ops.append(Splat(predicate, type))
    return ops[-1].results[0]
