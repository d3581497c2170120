"""Functions under construction: parameters, current block, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from tileir.builder.arguments import check_type
from tileir.builder.errors import mistake
from tileir.builder.ssa import Ending, Graph, OpenBlock, OpenEdge, reachable
from tileir.errors import Location
from tileir.ir import Function, Parameter, ParameterAttributes
from tileir.op import Op
from tileir.ops.control import Return
from tileir.types import Type
from tileir.values import Operand, Value

if TYPE_CHECKING:
    from tileir.builder.control import If


@attrs.frozen
class ParameterSpec:
    """The type of a parameter, and the promises of the caller about it (see `arg`)."""

    type: Type
    attributes: ParameterAttributes = attrs.field(factory=ParameterAttributes)


def arg(
    type: Type,
    *,
    aligned: int = 0,
    multiple_of: int = 0,
    readonly: bool = False,
    writeonly: bool = False,
    noalias: bool = False,
) -> ParameterSpec:
    """A parameter of `type` with promises of the caller.

    - `aligned`: the address is a multiple of this number of bytes.
    - `multiple_of`: the integer is a multiple of this number; 0 promises nothing.
    - `readonly`, `writeonly`: the kernel only loads, or only stores, through the pointer.
    - `noalias`: the memory is not accessed through another parameter.
    """
    promises = ParameterAttributes(aligned, multiple_of, readonly, writeonly, noalias)
    return ParameterSpec(type, promises)


@attrs.define(eq=False)
class OpenLoop:
    """A loop around the insertion point: where `break_` and `continue_` go."""

    exit: OpenBlock
    latch: OpenBlock | None


@attrs.define(eq=False)
class OpenFunction:
    """A function under construction."""

    header: Function
    graph: Graph = attrs.field(factory=Graph)
    block: OpenBlock | None = None
    loops: list[OpenLoop] = attrs.field(factory=list[OpenLoop])
    pending: If | None = None
    """An `if_` that an `else_` may still follow."""
    abandoned: bool = False
    """Whether an exception left one of its loops or branches half built."""
    _labels: dict[str, int] = attrs.field(factory=dict[str, int])

    def new_block(self, stem: str, parameters: tuple[Value, ...] = ()) -> OpenBlock:
        """A block labelled `stem`, with a number where that is taken."""
        count = self._labels[stem] = self._labels.get(stem, -1) + 1
        label = stem if not count else f"{stem}{count}"
        if count and label in self._labels:
            return self.new_block(stem, parameters)
        self._labels.setdefault(label, 0)
        return OpenBlock(label, parameters)

    def settle(self) -> None:
        """No `else_` follows any more: what the last `if_` leads to is complete."""
        if self.pending is not None:
            self.graph.seal(self.pending.join)
            self.pending = None

    def enter(self, block: OpenBlock) -> None:
        """Insert at the end of `block` from now on."""
        self.settle()
        if block.end is not None:
            raise mistake("TIR0806", f"block {block.label} has already ended")
        self.graph.blocks.setdefault(block)
        self.block = block

    def finish(
        self,
        kind: type[Op],
        fields: Mapping[str, Any],
        edges: Mapping[str, tuple[OpenBlock, tuple[Operand, ...]]],
        location: Location | None,
    ) -> Ending:
        """End the current block with a terminator. Raises BuildError where there is none."""
        self.settle()
        block = self.open_block()
        result = {
            name: OpenEdge(block, target, arguments) for name, (target, arguments) in edges.items()
        }
        for edge in result.values():
            if edge.target.sealed:
                message = f"block {edge.target.label} is complete: no branch can be added to it"
                raise mistake("TIR0806", message)
            edge.target.entering.append(edge)
        block.end = Ending(kind, dict(fields), result, location)
        self.block = None
        return block.end

    def open_block(self) -> OpenBlock:
        """The block ops are appended to. Raises BuildError where control has left it."""
        self.check_whole()
        if self.block is None:
            raise mistake("TIR0801", "control never comes here: the block has already ended")
        return self.block

    def abandon(self) -> None:
        """An exception leaves a loop or branch: nothing can be added to the function any more."""
        self.abandoned, self.block = True, None

    def check_whole(self) -> None:
        """Raises BuildError after an exception left a loop or branch half built."""
        if self.abandoned:
            message = "an exception left a loop or branch of this function half built"
            raise mistake("TIR0806", message)

    def close(self) -> Function:
        """The finished function. Raises BuildError where it can end without `ret`."""
        self.check_whole()
        self.settle()
        if self.block is not None:
            self._end_at(self.block)
        for block in reachable(self.graph.entry):
            if block.end is None:
                message = f"a branch leads to block {block.label}, which has no terminator"
                raise mistake("TIR0806", message)
        return self.header.with_blocks(self.graph.close())

    def _end_at(self, block: OpenBlock) -> None:
        if self.header.results and self._is_reached(block):
            raise mistake("TIR0810", f"function {self.header.name} ends without b.ret(...)")
        self.finish(Return, {"values": ()}, {}, None)
        if self.header.results:
            del self.graph.blocks[block]

    def _is_reached(self, block: OpenBlock) -> bool:
        return block is self.graph.entry or bool(block.entering)


def parameters_of(types: Mapping[str, Type | ParameterSpec], location: Location | None) -> Any:
    """Parameters by keyword: the name, and a type or an `arg(...)`."""
    parameters: list[Parameter] = []
    for name, what in types.items():
        spec = what if isinstance(what, ParameterSpec) else ParameterSpec(what)
        type_ = check_type(spec.type, f"parameter {name}")
        parameters.append(Parameter(Value(type_, name), spec.attributes, location))
    return tuple(parameters)
