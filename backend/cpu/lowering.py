"""Lowering of a function whose tiles have layouts to code for all lanes of the block's only
warp."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tileir.analysis.cfg import cfg
from tileir.analysis.underlying_pointers import underlying_pointers
from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.cpu.bounds_checks import BoundsGuard
from tileir.backend.cpu.buffer_assignment import OperandForm, assign_buffers, source_of
from tileir.backend.cpu.dots import STORING, read_as
from tileir.backend.cpu.globals import globals_of
from tileir.backend.cpu.lane_values import WIDTH, Lanes, VectorValue, scalar_type, vector_type
from tileir.backend.cpu.matrix_buffers import Matrix, PackedOperand, allocate_packed
from tileir.backend.cpu.thread import CpuThread
from tileir.backend.layouts.access_widths import AccessWidths
from tileir.backend.nvptx.text import symbol
from tileir.backend.target import Target
from tileir.effects import ACCESSES
from tileir.errors import CompileError, Diagnostic
from tileir.field import Successor
from tileir.ir import Block, Function, InlineHint, Module
from tileir.op import Op
from tileir.ops.symbols import GlobalAddress
from tileir.types import I1, Pointer, Tile, Type, element_of
from tileir.values import Operand, Value, is_zero


class CpuLowering(Lowering):
    """A lowering in which tiles are vectors and scalars are uniform over the lanes. With `checked`,
    accesses are checked before they are made."""

    guards_arms = False  # the many lanes of a vector rarely agree on an arm

    def __init__(
        self, module: Module, function: Function, target: Target, thread: CpuThread,
        scratch: Mapping[Op, int], rules: Mapping[str, Rule], *, kernel: str, checked: bool,
    ) -> None:  # fmt: skip
        writer: Any = thread  # here handles are vectors
        super().__init__(module, function, target, writer, AccessWidths(function), scratch, rules)
        self.machine = thread
        self.checked = checked
        self.kernel = kernel
        """The kernel that is compiled, which the function is or is called by."""
        self._accumulators: dict[int, Matrix] = {}
        self._operand_buffers: dict[tuple[Value, OperandForm], PackedOperand] = {}
        self._waiting: list[tuple[str, Successor]] = []
        """Edges that store what they pass, each in a block of its own with a label."""

    def lower(self, op: Op) -> list[Fragment]:
        if op in assign_buffers(self.function).unread:
            return [[]]
        with self._guarding(op):
            lower = self._lower_checked(op)
        self._write_edges()
        if op.mnemonic not in STORING:
            for value, fragment in zip(op.results, lower, strict=True):
                self._settle_all(value, fragment)
        machine = self.machine
        return [
            fragment
            if isinstance(value.type, Tile)
            else [machine.shared_by_all(scalar_of(value.type), x) for x in fragment]
            for value, fragment in zip(op.results, lower, strict=True)
        ]

    def lower_inlined(self, op: Op) -> list[Fragment]:
        """The fragments of the results of an op of a scalar function, computed on the values of all
        lanes."""
        with self._guarding(op):
            return self._lower_checked(op)

    def _lower_checked(self, op: Op) -> list[Fragment]:
        """Lower the op by its rule. Raises `CompileError` (TIR0706) if the rule needs an operation
        that only GPUs have (clusters, mbarriers, TMA, ...)."""
        try:
            return super().lower(op)
        except AttributeError as error:
            if error.obj is not self.thread:
                raise
            message = f"{op.mnemonic} runs on a GPU only: compile the module before its GPU passes"
            raise CompileError(Diagnostic("TIR0706", message, op.location)) from error

    @contextmanager
    def _guarding(self, op: Op) -> Generator[None]:
        machine = self.machine
        outer = machine.guard
        machine.guard = self._guard(op) if self.checked else None
        yield
        machine.guard = outer

    def _guard(self, op: Op) -> BoundsGuard | None:
        """The memory that `op` may access, by its pointer operand."""
        if not op.effects & ACCESSES or not op.inputs:
            return None
        return BoundsGuard(self._record_of(op.inputs[0]), op.mnemonic, op.location)

    def _record_of(self, pointer: Operand) -> int | None:
        """The record number of the parameter or global from which `pointer` is derived; None if it
        is unknown, as in functions, whose arguments may vary."""
        parameters = self.function.parameters
        if not self.function.kernel:
            return self._global_of(pointer)
        root = underlying_pointers(self.function).get(pointer)  # type: ignore[arg-type]
        for i, parameter in enumerate(parameters):
            if parameter.value is root:
                return i
        return self._global_of(pointer)

    def _global_of(self, pointer: Operand) -> int | None:
        op = self.origin(pointer)
        while op is not None and not isinstance(op, GlobalAddress):
            through = [x for x in op.inputs if isinstance(element_of(x.type), Pointer)]
            moves = len(through) == 1 and not op.effects & ACCESSES
            op = self.origin(through[0]) if moves and through else None
        if op is None:
            return None
        kernel = self.module.kernel(self.kernel)
        names = [variable.name for variable in globals_of(self.module, kernel.name)]
        return len(kernel.parameters) + names.index(op.name) if op.name in names else None

    # Tiles in buffers ---------------------------------------------------------------------------

    def fragment(self, operand: Operand) -> Fragment:
        buffer = self.accumulator_buffer(operand)
        if buffer is None:
            return super().fragment(operand)
        return buffer.get(self, operand.type)  # type: ignore[arg-type]

    def accumulator_buffer(self, operand: Operand) -> Matrix | None:
        """The buffer of an accumulator; None for a value in registers."""
        number = assign_buffers(self.function).accumulators.get(operand)  # type: ignore[arg-type]
        if number is None:
            return None
        if number not in self._accumulators:
            kind: Any = operand.type
            matrix = Matrix(self.machine.fresh(), scalar_of(kind), kind.shape)
            self._accumulators[number] = matrix.allocate(self.machine)
        return self._accumulators[number]

    def operand_buffer(self, operand: Operand, form: OperandForm) -> Matrix:
        """The buffer from which dots read `operand`."""
        value, source_form = source_of(self.function, operand, form)
        if isinstance(value, Value):
            return self._place(value, source_form).read
        place = self._allocate(value, source_form)
        for register, x in enumerate(self.fragment(value)):
            self._put(place, value, source_form, register, x)
        place.finish(self.machine)
        return place.read

    def _place(self, value: Value, form: OperandForm) -> PackedOperand:
        matrix = self._operand_buffers.get((value, form))
        if matrix is None:
            matrix = self._operand_buffers[value, form] = self._allocate(value, form)
        return matrix

    def _allocate(self, operand: Operand, form: OperandForm) -> PackedOperand:
        kind: Any = operand.type
        return allocate_packed(
            self.machine, kind, form.work, panels=form.panels, turned=form.transposed
        )

    def settle(self, value: Value, register: int, x: Any) -> None:
        """Store one register of `value` to its buffers."""
        for form in assign_buffers(self.function).operand_forms.get(value, ()):
            self._put(self._place(value, form), value, form, register, x)
        buffer = self.accumulator_buffer(value)
        if buffer is not None:
            buffer.put(self, value.type, register, x)  # type: ignore[arg-type]

    def finish_operands(self, value: Value) -> None:
        """Complete the operand buffers of `value`, once all its registers are stored."""
        for form in assign_buffers(self.function).operand_forms.get(value, ()):
            self._place(value, form).finish(self.machine)

    def settle_whole(self, value: Value) -> None:
        """Store all of `value`, which is complete, to its operand buffers."""
        for form in assign_buffers(self.function).operand_forms.get(value, ()):
            place = self._place(value, form)
            for register, x in enumerate(self.fragment(value)):
                self._put(place, value, form, register, x)
            place.finish(self.machine)

    def _put(
        self, place: PackedOperand, operand: Operand, form: OperandForm, register: int, x: Any
    ) -> None:
        x = read_as(self.machine, scalar_of(operand.type), form, x)
        place.put.put(self, operand.type, register, x)  # type: ignore[arg-type]

    def _settle_all(self, value: Value, fragment: Fragment) -> None:
        buffers = assign_buffers(self.function)
        if value in buffers.operand_forms or value in buffers.accumulators:
            for register, x in enumerate(fragment):
                self.settle(value, register, x)
            self.finish_operands(value)

    # Control flow -------------------------------------------------------------------------------

    def body(self) -> None:
        blocks = [self.function.blocks[label] for label in cfg(self.function).order]
        for index, block in enumerate(blocks):
            self._labels[block.label] = f"bb{index}"
            for parameter in block.parameters:
                if self.accumulator_buffer(parameter) is not None:
                    continue
                names: list[Any] = [self.machine.fresh() for _ in range(registers(parameter.type))]
                tiled = isinstance(parameter.type, Tile)
                fragment: list[Any] = [VectorValue(n) for n in names] if tiled else names
                self.values[parameter] = fragment
        places = {block.label: self._block(block) for block in blocks}
        for block in blocks:
            self.machine.lines[places[block.label]] = "\n".join(self._phis(block))

    def _block(self, block: Block) -> int:
        place = self.thread.start_block(self._labels[block.label])
        for parameter in block.parameters:
            self.settle_whole(parameter)
        for op in block.ops:
            self.thread.come_from(op.location)
            if op is block.terminator and self._goes_back(block):
                self.machine.poll()
            for value, fragment in zip(op.results, self.lower(op), strict=True):
                self.values[value] = fragment
        return place

    def _goes_back(self, block: Block) -> bool:
        """Whether an edge leads from `block` to itself or to an earlier block."""
        order = list(self._labels)
        here = order.index(block.label)
        return any(order.index(edge.label) <= here for edge in block.successors)

    def edge(self, successor: Successor) -> str:
        if self._moving(successor):
            label = self.machine.fresh_label("edge")
            self._waiting.append((label, successor))
            return label
        return self._note_edge(successor, self._phi_operands(successor))

    def _moving(self, successor: Successor) -> list[tuple[Value, Operand]]:
        """Block parameters in buffers whose arguments are not in the same buffer, with the
        arguments."""
        parameters = self.function.blocks[successor.label].parameters
        return [
            (p, a)
            for p, a in zip(parameters, successor.arguments, strict=True)
            if self.accumulator_buffer(p) is not None
            and self.accumulator_buffer(p) is not self.accumulator_buffer(a)
        ]

    def _phi_operands(self, successor: Successor) -> list[str]:
        """The operands that an edge passes to the phis of its target block."""
        machine = self.machine
        handles: list[str] = []
        parameters = self.function.blocks[successor.label].parameters
        for parameter, argument in zip(parameters, successor.arguments, strict=True):
            if self.accumulator_buffer(parameter) is None:
                kind, fragment = argument.type, self.fragment(argument)
                tiled = isinstance(kind, Tile)
                handles += [machine.wide(scalar_of(kind), x) if tiled else x for x in fragment]
        return handles

    def _note_edge(self, successor: Successor, handles: list[str]) -> str:
        self._edges.setdefault(successor.label, []).append((self.thread.label, handles))
        return self._labels[successor.label]

    def _write_edges(self) -> None:
        """Emit the blocks of edges that store. All loads come before the first store."""
        for label, successor in self._waiting:
            self.machine.start(label)
            handles = self._phi_operands(successor)
            stored = [
                (p, None if is_zero(a) else self.fragment(a)) for p, a in self._moving(successor)
            ]
            for parameter, fragment in stored:
                buffer: Any = self.accumulator_buffer(parameter)
                if fragment is None:
                    buffer.clear(self.machine)
                else:
                    buffer.put_all(self, parameter.type, fragment)
            self.thread.branch(self._note_edge(successor, handles))
        self._waiting.clear()

    def _phis(self, block: Block) -> list[str]:
        edges = self._edges.get(block.label, [])
        lines: list[str] = []
        phi_parameters = [p for p in block.parameters if self.accumulator_buffer(p) is None]
        names = [(p, h) for p in phi_parameters for h in self.values[p]]
        for index, (parameter, name) in enumerate(names):
            tiled = isinstance(parameter.type, Tile)
            kind = (vector_type if tiled else scalar_type)(scalar_of(parameter.type))
            sources = ", ".join(f"[ {handles[index]}, %{label} ]" for label, handles in edges)
            lines.append(f"  {name} = phi {kind} {sources}")
        return lines


def caller(outer: CpuLowering) -> Callable[..., list[Lanes]]:
    """A function that calls a scalar function of the module for all lanes.

    A function with a single block is inlined on the values of all lanes, unless that would be too
    much code. Other functions are called lane by lane if lanes differ. If the operands are uniform,
    a function that calls others is called once.
    """
    machine = outer.machine

    def call(
        name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Lanes]]
    ) -> list[Lanes]:
        function = outer.module.functions[name.removeprefix("f.")]
        stays = machine.calls and function.inline is InlineHint.NEVER
        shared = all(isinstance(x, str) for _, x in operands)
        calls = any(op.mnemonic == "call" for op in function.ops)
        size = sum(1 for _ in function.ops)
        fits = machine.inlined_ops + size <= _INLINED_OPS and not stays
        if len(function.blocks) == 1 and fits and not (shared and calls):
            machine.inlined_ops += size
            return _inline(outer, function, [x for _, x in operands])
        if shared:
            inputs: Any = [(t, x) for t, x in operands]
            return list(_call(machine, function, results, inputs))
        return _lane_by_lane(machine, function, results, operands)

    return call


_INLINED_OPS = 20_000
"""Ops of functions of scalars that the code of a function has in place of calls: functions that
each call the next twice would double it otherwise, level by level."""


def _inline(outer: CpuLowering, function: Function, operands: Sequence[Lanes]) -> list[Lanes]:
    inner = CpuLowering(
        outer.module, function, outer.target, outer.machine, {}, outer.rules,
        kernel=outer.kernel, checked=outer.checked,
    )  # fmt: skip
    for parameter, x in zip(function.parameters, operands, strict=True):
        inner.values[parameter.value] = [x]  # type: ignore[list-item]
    block = function.entry
    for op in block.ops[:-1]:
        for value, fragment in zip(op.results, inner.lower_inlined(op), strict=True):
            inner.values[value] = fragment
    return [inner.scalar(v) for v in block.terminator.inputs]


def _call(
    machine: CpuThread, function: Function, results: Sequence[Type],
    operands: Sequence[tuple[Type, str]],
) -> list[str]:  # fmt: skip
    kinds = [scalar_type(t) for t in results]
    kind = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    arguments = ", ".join([*(f"{scalar_type(t)} {x}" for t, x in operands), *PLACES])
    text = f"call {kind} {own_symbol(function)}({arguments})"
    if not kinds:
        machine.line(text)
        machine.poll()
        return []
    structure = machine.emit(text)
    machine.poll()
    if len(kinds) == 1:
        return [structure]
    return [machine.emit(f"extractvalue {kind} {structure}, {i}") for i in range(len(kinds))]


def own_symbol(function: Function) -> str:
    """The symbol of `function` in the generated code, for `call` and combiners. It contains a dot,
    so that it cannot clash with names of the generated code or of the C library."""
    return symbol(f"f.{function.name}")


PLACES = (
    "i32 %px", "i32 %py", "i32 %pz", "i32 %gx", "i32 %gy", "i32 %gz", "ptr %launch", "i64 %index",
)  # fmt: skip
"""The parameters of every function: the grid, the launch, and the instance."""


def _lane_by_lane(
    machine: CpuThread, function: Function, results: Sequence[Type],
    operands: Sequence[tuple[Type, Lanes]],
) -> list[Lanes]:  # fmt: skip
    elements = [scalar_of(t) for t in results]
    wide = [(scalar_of(t), VectorValue(machine.wide(scalar_of(t), x))) for t, x in operands]
    mask = machine.mask(machine.active)
    collected = [(e, VectorValue("zeroinitializer")) for e in elements]
    runs = [(I1, VectorValue(mask))]

    def step(lane: Any, carried: list[Any]) -> list[Any]:
        inputs: Any = [
            (t, machine.lane_of(e, x, lane)) for (t, _), (e, x) in zip(operands, wide, strict=True)
        ]
        active = machine.lane_of(I1, runs[0][1], lane)
        values = machine.when(
            active, elements, lambda: list(_call(machine, function, results, inputs))
        )
        return [
            VectorValue(machine.emit(
                f"insertelement {vector_type(e)} {c}, {scalar_type(e)} {x}, i32 {lane}"
            ))
            for e, c, x in zip(elements, carried, values, strict=True)
        ]  # fmt: skip

    return machine.loop(WIDTH, elements, [x for _, x in collected], step)


def parameters_of(function: Function) -> Mapping[str, str]:
    """The LLVM types of the parameters, by their names in the generated code."""
    return {f"%a{i}": scalar_type(p.type) for i, p in enumerate(function.parameters)}
