"""Basic blocks by hand: for front ends that already have a control-flow graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tileir.builder.errors import mistake
from tileir.builder.promotion import convert, operand_of
from tileir.builder.ssa import OpenBlock
from tileir.types import element_of
from tileir.values import Operand

if TYPE_CHECKING:
    from tileir.builder.expr import Expr


@attrs.frozen(eq=False)
class BlockRef:
    """A block of the function under construction; a call with arguments makes a branch target."""

    block: OpenBlock
    parameters: tuple[Expr, ...]

    @property
    def label(self) -> str:
        """The label of the block in the text."""
        return self.block.label

    def __call__(self, *arguments: Any) -> BranchTarget:
        return BranchTarget(self, arguments)


@attrs.frozen(eq=False)
class BranchTarget:
    """The target of a branch: a block, and one argument per parameter of the block."""

    to: BlockRef
    arguments: tuple[Any, ...] = ()


def known_block(block_ref: Any) -> BlockRef:
    """`block_ref`, which `b.block` returned. Raises BuildError for anything else."""
    if not isinstance(block_ref, BlockRef):
        raise mistake("TIR0806", f"expected a block made by b.block, not {block_ref!r}")
    return block_ref


def target_of(destination: BlockRef | BranchTarget) -> tuple[OpenBlock, tuple[Operand, ...]]:
    """Block and operands of a branch. Raises BuildError where they do not fit."""
    target = (
        destination
        if isinstance(destination, BranchTarget)
        else BranchTarget(known_block(destination))
    )
    block, result = target.to.block, [operand_of(a) for a in target.arguments]
    if len(result) != len(block.parameters):
        message = f"{block.label} takes {len(block.parameters)} arguments, not {len(result)}"
        raise mistake("TIR0806", message)
    operands: list[Operand] = []
    for number, (parameter, item) in enumerate(zip(target.to.parameters, result, strict=True)):
        operand = _convert_number(parameter, item)
        if operand.type is not parameter.type:
            found_type = f"not {operand.type}"
            message = f"argument {number} of {block.label} must be {parameter.type}, {found_type}"
            raise mistake("TIR0806", message)
        operands.append(operand)
    return block, tuple(operands)


def _convert_number(parameter: Expr, item: Operand | float) -> Operand:
    if not isinstance(item, (int, float)):
        return item
    return convert(parameter.builder, item, element_of(parameter.type))  # type: ignore[arg-type]
