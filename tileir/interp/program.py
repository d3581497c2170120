"""A function prepared for running: per block a tuple of closures over a list of value slots.

Each op becomes one closure `step(frame)` that reads its operands' slots, calls `op.evaluate` and
writes its results' slots. Values of one block share slots once they are dead, so that a long kernel
keeps only live tiles. Slot 0 is always None, an absent operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import attrs

from tileir.analysis.loops import loops
from tileir.analysis.partial import collects, opaque_predicates
from tileir.effects import Effects
from tileir.errors import Diagnostic, InterpretError, TileirError
from tileir.interp.call_effects import effects_of, synchronises
from tileir.interp.closures import Frame, Step, fixed_step, kept_step
from tileir.interp.fast_paths import quick_step
from tileir.interp.liveness import invariant_ops, last_uses, values_live_out
from tileir.ir import Block, Function
from tileir.op import FieldKind, Op, Successor
from tileir.types import Tile
from tileir.values import Constant, Operand, Undef, Value

UNIFORM_ELEMENTS = 1 << 22
"""The most elements of all tiles that are computed once and kept."""

FEW = 4
"""The number of program instances up to which quick steps cost more than they save."""


class NoInstanceError(Exception):
    """The program ids were read while no instance ran."""


_MANY = (FieldKind.VARIADIC, FieldKind.PAIRS)
_READ = (FieldKind.OPERAND, FieldKind.OPTIONAL, *_MANY)


@attrs.define(eq=False)
class CodeEdge:
    """A branch taken: the block to go on in and the slots to copy into its parameters."""

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    block: BlockCode


@attrs.frozen
class CallSite:
    """A call of a function that may pause, by slots; `predicate` is 0 where it has none."""

    callee: str
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    predicate: int
    disabled: tuple[Any, ...]
    """The results where the predicate is false."""


@attrs.define(eq=False)
class BlockCode:
    """One block: `parts` are runs of steps, each but the last ending before a synchronising op."""

    block: Block
    parts: tuple[tuple[Step, ...], ...] = ()
    pauses: tuple[tuple[Op, Step, CallSite | None], ...] = ()
    steps: tuple[Step, ...] = ()
    """All steps in order, for instances that never pause."""
    ops: tuple[Op, ...] = ()
    """The op of each step."""
    leave: Step = attrs.field(default=lambda frame: None)
    edges: dict[int, CodeEdge] = attrs.field(factory=dict[int, CodeEdge])
    """The edges, by identity of the successor that the terminator's `evaluate` returns."""
    condition: int = 0
    """Slot of the terminator's first operand."""
    runs: int = 0
    weight: int = 0
    """Ops in the block."""

    def op_of(self, step: Step) -> Op:
        """The op that `step` was made from."""
        if step is self.leave:
            return self.block.terminator
        return self.ops[self.steps.index(step)]


@attrs.define(eq=False)
class CompiledFunction:
    """A function ready to run; `template` holds its literals and is copied for each call."""

    function: Function
    template: Frame
    parameters: tuple[int, ...]
    entry: BlockCode
    blocks: tuple[BlockCode, ...]
    pauses: bool
    """Whether running it may stop at a synchronising op."""


def prepare(
    function: Function, machine: Any, pausing: set[str], arguments: Sequence[Any] = ()
) -> CompiledFunction:
    """`function` as closures that run on `machine`.

    `arguments`, if any, are those of every call. Values that depend only on them and on literals
    are computed once, here."""
    return _Preparation(function, machine, pausing, arguments).code()


@attrs.define(eq=False)
class _Preparation:
    function: Function
    machine: Any
    pausing: set[str]
    arguments: Sequence[Any] = ()
    template: Frame = attrs.field(factory=lambda: [None])
    slots: dict[Operand, int] = attrs.field(factory=dict[Operand, int])
    free: list[int] = attrs.field(factory=list[int])
    uniform: set[Value] = attrs.field(factory=set[Value])
    """Values that are the same in every call, and stand in the template."""
    often: bool = False
    """Whether steps run often enough to be made quick."""
    invariant: set[Op] = attrs.field(factory=set[Op])
    """Ops whose results are kept for the next iteration of their loop."""

    def code(self) -> CompiledFunction:
        parameters = tuple([self._define(p.value) for p in self.function.parameters])
        x, y, z = self.machine.grid
        shared = values_live_out(self.function)
        self._compute_uniform(parameters)
        self.often = x * y * z > FEW or bool(loops(self.function).by_header)
        self.invariant = invariant_ops(self.function)
        codes = {label: BlockCode(block) for label, block in self.function.blocks.items()}
        for block in self.function.blocks.values():
            for value in block.parameters:
                self._define(value)
        for value in shared:
            self._define(value)
        shared |= self.uniform
        for code in codes.values():
            self._fill(code, codes, shared)
        name = self.function.name
        blocks = tuple(codes.values())
        return CompiledFunction(
            self.function, self.template, parameters, blocks[0], blocks, name in self.pausing
        )

    def _compute_uniform(self, parameters: tuple[int, ...]) -> None:
        """Run the pure ops that read literals, arguments and results of such ops alone.

        An op that cannot be run here, because it needs an instance or has no meaning, stays.
        """
        if self.arguments:
            for slot, value in zip(parameters, self.arguments, strict=True):
                self.template[slot] = value
            self.uniform.update(p.value for p in self.function.parameters)
        budget = UNIFORM_ELEMENTS
        for op in self.function.ops:
            budget -= sum(r.type.size for r in op.results if isinstance(r.type, Tile))
            if budget > 0 and self._is_uniform(op):
                with suppress(TileirError, NotImplementedError, NoInstanceError):
                    self._plain_step(op)(self.template)
                    self.uniform.update(op.results)

    def _is_uniform(self, op: Op) -> bool:
        has_uniform_operands = all(
            not isinstance(v, Value) or v in self.uniform for v in op.operands
        )
        return has_uniform_operands and op.predicate is None and op.effects is Effects.PURE

    def _define(self, value: Value) -> int:
        slot = self.slots.get(value)
        if slot is None:
            slot = self.free.pop() if self.free else self._extend(None)
            self.slots[value] = slot
        return slot

    def _extend(self, value: Any) -> int:
        self.template.append(value)
        return len(self.template) - 1

    def _slot(self, operand: Operand | None) -> int:
        if operand is None:
            return 0
        slot = self.slots.get(operand)
        if slot is None:
            slot = self.slots[operand] = self._extend(self._literal(operand))
        return slot

    def _literal(self, operand: Operand) -> Any:
        assert isinstance(operand, (Constant, Undef))
        try:
            if isinstance(operand, Constant):
                return self.machine.constant(operand)
            return self.machine.undef(operand.type)
        except ValueError as error:  # numpy's, of a tile larger than arrays can be
            message = f"there is too little memory for a literal of {operand.type}: {error}"
            raise InterpretError(Diagnostic("TIR0522", message, self.function.location)) from None

    # One block -----------------------------------------------------------------------------

    def _fill(self, code: BlockCode, codes: Mapping[str, BlockCode], shared: set[Value]) -> None:
        dying = last_uses(code.block, shared)
        steps: list[Step] = []
        parts: list[tuple[Step, ...]] = []
        pauses: list[tuple[Op, Step, CallSite | None]] = []
        start = 0
        ops: list[Op] = []
        for number, op in enumerate(code.block.ops[:-1]):
            if op.results and op.results[0] in self.uniform:
                continue
            ops.append(op)
            step = self._step(op)
            if self._may_pause(op):
                parts.append(tuple(steps[start:]))
                pauses.append((op, step, self._call_site(op)))
                start = len(steps) + 1
            steps.append(step)
            self.free.extend(self.slots[v] for v in dying.get(number, ()))
        code.parts = (*parts, tuple(steps[start:]))
        code.pauses, code.steps, code.ops = tuple(pauses), tuple(steps), tuple(ops)
        code.weight = len(code.block.ops)
        self._end(code, codes)
        self.free.extend(self.slots[v] for v in dying.get(code.weight - 1, ()))

    def _may_pause(self, op: Op) -> bool:
        if op.mnemonic == "call":
            return cast(Any, op).callee in self.pausing and not _is_tiled(op)
        return synchronises(op)

    def _call_site(self, op: Op) -> CallSite | None:
        if op.mnemonic != "call":
            return None
        call = cast(Any, op)
        arguments = tuple([self._slot(v) for v in call.arguments])
        results = tuple([self._slot(r) for r in op.results])
        disabled = tuple([self.machine.undef(r.type) for r in op.results])
        return CallSite(call.callee, arguments, results, self._slot(op.predicate), disabled)

    def _end(self, code: BlockCode, codes: Mapping[str, BlockCode]) -> None:
        last = code.block.terminator
        for successor in last.successors:
            code.edges[id(successor)] = self._edge(successor, codes)
        read, evaluate, machine = self._reader(last), last.evaluate, self.machine
        code.condition = self._slot(last.inputs[0]) if last.inputs else 0
        edges = code.edges

        def leave(frame: Frame) -> Any:
            result = evaluate(machine, *read(frame))
            return edges[id(result)] if isinstance(result, Successor) else result

        code.leave = leave
        if len(edges) == 1 and not last.inputs:
            only = next(iter(edges.values()))
            code.leave = lambda frame: only

    def _edge(self, successor: Successor, codes: Mapping[str, BlockCode]) -> CodeEdge:
        target = codes[successor.label]
        sources = tuple([self._slot(v) for v in successor.arguments])
        targets = tuple([self._slot(v) for v in target.block.parameters])
        return CodeEdge(sources, targets, target)

    # One op --------------------------------------------------------------------------------

    def _step(self, op: Op) -> Step:
        step = self._plain_step(op)
        if op.predicate is None:
            return self._keep_step(op, step) if op in self.invariant else step
        if _is_tiled(op) and op.mnemonic == "call":
            effects = effects_of(self.machine.functions, cast(Any, op).callee)
            if effects & ~Effects.READ:
                return _raise_refusal
        return self._under_predicate(op, step)

    def _keep_step(self, op: Op, step: Step) -> Step:
        slots = [self._slot(v) for v in op.inputs]
        return kept_step(step, slots, [self._slot(r) for r in op.results])

    def _plain_step(self, op: Op) -> Step:
        fields = op.fields(*_READ)
        results = [self._define(r) for r in op.results]
        if self.often and not any(f.kind is FieldKind.PAIRS for f in fields):
            quick = quick_step(op, self.machine, self._operand_slots(op, fields), results)
            if quick is not None:
                return quick
        if len(results) not in (1, 2) or any(f.kind in _MANY for f in fields):
            return self._general_step(op)
        slots = [self._slot(getattr(op, f.name)) for f in fields]
        return fixed_step(op.evaluate, self.machine, slots, results)

    def _operand_slots(self, op: Op, fields: Any) -> list[int | tuple[int, ...]]:
        """The slot of every operand, a tuple of them where there may be several."""
        values = [getattr(op, f.name) for f in fields]
        return [
            tuple([self._slot(w) for w in v]) if f.kind is FieldKind.VARIADIC else self._slot(v)
            for f, v in zip(fields, values, strict=True)
        ]

    def _general_step(self, op: Op) -> Step:
        read, evaluate, machine = self._reader(op), op.evaluate, self.machine
        results = tuple([self._define(r) for r in op.results])

        def step(frame: Frame) -> None:
            result = evaluate(machine, *read(frame))
            if len(results) == 1 and not isinstance(result, tuple):
                result = (result,)
            for slot, value in zip(results, result or (), strict=True):
                frame[slot] = value

        return step

    def _reader(self, op: Op) -> Callable[[Frame], list[Any]]:
        """Return a function that reads the arguments of `evaluate` from a frame."""
        readers: list[Callable[[Frame], Any]] = []
        for field in op.fields(*_READ):
            value = getattr(op, field.name)
            readers.append(self._tuple_reader(value) if field.kind in _MANY else self._one(value))
        return lambda frame: [read(frame) for read in readers]

    def _one(self, operand: Operand | None) -> Callable[[Frame], Any]:
        slot = self._slot(operand)
        return lambda frame: frame[slot]

    def _tuple_reader(self, operands: tuple[Operand, ...]) -> Callable[[Frame], Any]:
        slots = [self._slot(v) for v in operands]
        return lambda frame: tuple([frame[slot] for slot in slots])

    def _under_predicate(self, op: Op, step: Step) -> Step:
        """`step` under the op's predicate: not run at all where a scalar one is false."""
        machine, slot = self.machine, self._slot(op.predicate)
        results = [(self.slots[r], machine.undef(r.type)) for r in op.results]
        tiled = _is_tiled(op)
        trim = [] if op.predicate_follows_operand else [s for s, _ in results]
        is_opaque = op.predicate in opaque_predicates(self.function) and collects(op)

        def run(frame: Frame) -> None:
            predicate = frame[slot]
            if not tiled:
                if machine.is_enabled(predicate, op):
                    step(frame)
                    return
                for result, undef in results:
                    frame[result] = undef
                return
            machine.active = machine.lanes(predicate, op)
            try:
                step(frame)
                for result in trim:
                    frame[result] = machine.restrict(frame[result], machine.active)
                if is_opaque and predicate.undef is not None and predicate.undef.any():
                    for result, undef in results:
                        frame[result] = undef
            finally:
                machine.active = None

        return run


def _is_tiled(op: Op) -> bool:
    """Whether the op's predicate is a tile."""
    return op.predicate is not None and isinstance(op.predicate.type, Tile)


def _raise_refusal(frame: Frame) -> None:
    raise NotImplementedError("a function with effects is called under a scalar predicate only")
