"""A copy of a part of a loop that runs ahead of it, and whether its iteration will run."""

from __future__ import annotations

from typing import Any

from tileir.analysis.loops import Loop
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import And
from tileir.ops.memory import Load
from tileir.ops.shape import Splat
from tileir.passes.cfg_edit import copy_op, fresh
from tileir.passes.loop_slice import Slice
from tileir.refusal import Refusal
from tileir.types import I1, Tile, with_element
from tileir.values import Constant, Operand, Value, constant


class Lookahead(Slice):
    """A copy of the part of a loop that some of its loads depend on, several iterations ahead.

    `valid` tells whether the iteration that it has reached will run.
    """

    def __init__(self, function: Function, loop: Loop) -> None:
        super().__init__(function, loop)
        self._copies: dict[Value, Value] | None = None
        self._valid = Value(I1, "valid")

    @staticmethod
    def of(function: Function, loop: Loop) -> Lookahead | Refusal:
        """For a loop with one latch that leaves from there or from its header; or why its
        condition cannot be computed ahead."""
        lookahead = Lookahead(function, loop)
        return lookahead.take([lookahead.condition]) or lookahead

    def compute_iteration(
        self, state: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> tuple[dict[Value, Operand], Operand | None]:
        """The values of the iteration that starts with `state`, and whether it runs, as far as
        that is known before its end (`valid`: before its start). What addresses are loaded from
        is read under that condition."""
        env, indirect = dict(state), self._indirect()
        for op in self.in_order():
            if op not in indirect:
                self.compute_op(op, env, ops)
        if self.tested_first:
            valid = self.both(valid, env, ops)
        for op in indirect:
            if isinstance(op, Load):
                mask = self.mask(op, env, valid, ops)
                copied: Any = copy_op(op, env)
                other = copied.other
                if mask is not None and other is None:
                    other = Constant(op.results[0].type, 0)
                ops.append(copied.evolve(mask=mask, other=other))
            else:
                self.compute_op(op, env, ops)
        return env, valid

    def _indirect(self) -> list[Op]:
        """The loads of the slice, and what depends on them, in order."""
        indirect: list[Op] = []
        values = set[Operand]()
        for op in self.in_order():
            if isinstance(op, Load) or any(v in values for v in op.operands):
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

    def both(
        self, valid: Operand | None, env: dict[Value, Operand], ops: list[Op]
    ) -> Operand | None:
        """Whether `valid` (None: true) and the loop's condition in `env` holds."""
        holds = self.staying(env, ops)
        if valid is None:
            return holds
        ops.append(And(valid, holds))
        return ops[-1].results[0]

    def mask(
        self, load: Load, env: dict[Value, Operand], valid: Operand | None, ops: list[Op]
    ) -> Operand | None:
        """The mask of a load in the iteration `env`, which may not run."""
        own: Any = load.mask
        own = env.get(own, own) if type(own) is Value else own
        if valid is None:
            return own
        kind = with_element(load.pointer.type, I1)
        if not isinstance(kind, Tile):
            all_of: Operand = valid
        elif isinstance(valid, Constant):
            all_of = Constant(kind, valid.bits)
        else:
            ops.append(Splat(valid, kind))
            all_of = ops[-1].results[0]
        if own is None:
            return all_of
        ops.append(And(own, all_of))
        return ops[-1].results[0]
