"""From a function whose tiles have layouts to the code of all lanes of its one warp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tileir import records
from tileir.analysis.cfg import cfg
from tileir.backend.cpu.bounds import Guard
from tileir.backend.cpu.lanes import WIDTH, Lanes, Wide, scalar_type, vector_type
from tileir.backend.cpu.thread import CpuThread
from tileir.backend.layouts.contiguity import Contiguity
from tileir.backend.lower.lowering import Fragment, Lowering, registers, scalar_of
from tileir.backend.memory.roots import roots
from tileir.effects import Effects
from tileir.field import Successor
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.types import I1, Tile, Type


@records.define
class CpuLowering(Lowering):
    """A lowering whose tiles are vectors, and whose scalars all lanes share. `checked`: accesses
    through parameters are looked at before they are made."""

    checked: bool = records.field(default=False, kw_only=True)

    def lower(self, op: Op) -> list[Fragment]:
        machine: Any = self.thread
        machine.guard = self._guard(op) if self.checked else None
        found = super().lower(op)
        machine.guard = None
        return [
            fragment if isinstance(value.type, Tile)
            else [machine.shared_by_all(scalar_of(value.type), x) for x in fragment]
            for value, fragment in zip(op.results, found, strict=True)
        ]  # fmt: skip

    def _guard(self, op: Op) -> Guard | None:
        """The array of the parameter through which `op` accesses memory."""
        if not op.effects & (Effects.READ | Effects.WRITE) or not op.inputs:
            return None
        root = roots(self.function).get(op.inputs[0])  # type: ignore[arg-type]
        for i, parameter in enumerate(self.function.parameters):
            if parameter.value is root:
                return Guard(*ends_of(i), op.mnemonic, parameter.name or str(i), op.location)
        return None

    def body(self) -> None:
        blocks = [self.function.blocks[label] for label in cfg(self.function).order]
        for index, block in enumerate(blocks):
            self._labels[block.label] = f"bb{index}"
            for parameter in block.parameters:
                names: list[Any] = [self.thread.fresh() for _ in range(registers(parameter.type))]
                tiled = isinstance(parameter.type, Tile)
                fragment: list[Any] = [Wide(n) for n in names] if tiled else names
                self.values[parameter] = fragment
        places = {block.label: self._block(block) for block in blocks}
        for block in blocks:
            self.thread.lines[places[block.label]] = "\n".join(self._phis(block))

    def edge(self, successor: Successor) -> str:
        machine: Any = self.thread
        handles: list[str] = []
        for argument in successor.arguments:
            kind, fragment = argument.type, self.fragment(argument)
            tiled = isinstance(kind, Tile)
            handles += [machine.wide(scalar_of(kind), x) if tiled else x for x in fragment]
        self._edges.setdefault(successor.label, []).append((self.thread.label, handles))
        return f"label %{self._labels[successor.label]}"

    def _phis(self, block: Block) -> list[str]:
        edges = self._edges.get(block.label, [])
        lines: list[str] = []
        names = [(p, h) for p in block.parameters for h in self.values[p]]
        for index, (parameter, name) in enumerate(names):
            tiled = isinstance(parameter.type, Tile)
            kind = (vector_type if tiled else scalar_type)(scalar_of(parameter.type))
            sources = ", ".join(f"[ {handles[index]}, %{label} ]" for label, handles in edges)
            lines.append(f"  {name} = phi {kind} {sources}")
        return lines


def caller(outer: CpuLowering) -> Callable[..., list[Lanes]]:
    """How functions of scalars are called: one of a single block on the values of all lanes, others
    lane by lane where lanes differ."""
    machine: Any = outer.thread

    def call(
        name: str, results: Sequence[Type], operands: Sequence[tuple[Type, Lanes]]
    ) -> list[Lanes]:
        function = outer.module.functions[name.removeprefix("f.")]
        if len(function.blocks) == 1:
            return _inlined(outer, function, [x for _, x in operands])
        if all(isinstance(x, str) for _, x in operands):
            given: Any = [(t, x) for t, x in operands]
            return list(_called(machine, function, results, given))
        return _lane_by_lane(machine, function, results, operands)

    return call


def _inlined(outer: CpuLowering, function: Function, operands: Sequence[Lanes]) -> list[Lanes]:
    machine: Any = outer.thread
    inner = CpuLowering(
        outer.module, function, outer.target, machine, Contiguity.of(function), {}, outer.rules
    )
    for parameter, x in zip(function.parameters, operands, strict=True):
        inner.values[parameter.value] = [x]  # type: ignore[list-item]
    block = function.entry
    for op in block.ops[:-1]:
        for value, fragment in zip(op.results, Lowering.lower(inner, op), strict=True):
            inner.values[value] = fragment
    return [inner.scalar(v) for v in block.terminator.inputs]


def _called(
    machine: CpuThread, function: Function, results: Sequence[Type],
    operands: Sequence[tuple[Type, str]],
) -> list[str]:  # fmt: skip
    kinds = [scalar_type(t) for t in results]
    kind = "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
    arguments = ", ".join([*(f"{scalar_type(t)} {x}" for t, x in operands), *PLACES])
    text = f"call {kind} @f.{function.name}({arguments})"
    if not kinds:
        machine.line(text)
        return []
    whole = machine.emit(text)
    if len(kinds) == 1:
        return [whole]
    return [machine.emit(f"extractvalue {kind} {whole}, {i}") for i in range(len(kinds))]


PLACES = ("i32 %px", "i32 %py", "i32 %pz", "i32 %gx", "i32 %gy", "i32 %gz")
"""What every function is told of the grid."""


def _lane_by_lane(
    machine: CpuThread, function: Function, results: Sequence[Type],
    operands: Sequence[tuple[Type, Lanes]],
) -> list[Lanes]:  # fmt: skip
    elements = [scalar_of(t) for t in results]
    wide = [(scalar_of(t), Wide(machine.wide(scalar_of(t), x))) for t, x in operands]
    mask = machine.mask(machine.active)
    found = [(e, Wide("zeroinitializer")) for e in elements]
    runs = [(I1, Wide(mask))]

    def step(lane: Any, carried: list[Any]) -> list[Any]:
        given: Any = [
            (t, machine.lane_of(e, x, lane)) for (t, _), (e, x) in zip(operands, wide, strict=True)
        ]
        held = machine.lane_of(I1, runs[0][1], lane)
        made = machine.when(
            held, elements, lambda: list(_called(machine, function, results, given))
        )
        return [
            Wide(machine.emit(
                f"insertelement {vector_type(e)} {c}, {scalar_type(e)} {x}, i32 {lane}"
            ))
            for e, c, x in zip(elements, carried, made, strict=True)
        ]  # fmt: skip

    return machine.loop(WIDTH, elements, [x for _, x in found], step)


def ends_of(index: int) -> tuple[str, str]:
    """Names of the first byte of the array of a parameter, and of the one behind its last."""
    return f"%first{index}", f"%end{index}"


def parameters_of(function: Function) -> Mapping[str, str]:
    """LLVM types of parameters by their names in the code."""
    return {f"%a{i}": scalar_type(p.type) for i, p in enumerate(function.parameters)}
