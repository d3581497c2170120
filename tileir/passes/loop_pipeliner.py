"""The skeleton of software pipelining: a part of every iteration is issued ahead of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from tileir.analysis.loops import Loop
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.passes.cfg_edit import add_preheader, append_arguments
from tileir.passes.lookahead import Lookahead
from tileir.values import Operand


class LoopPipeliner:
    """The base class of software pipeliners: a loop that issues a part of each iteration ahead.

    `before_loop` issues this part of the first iterations at the end of the preheader, `in_loop`
    that of a later iteration in every iteration. Parameters of the header carry issued values that
    are not used yet. A subclass defines the part that is issued, and its storage: registers or
    shared memory.
    """

    def __init__(self, function: Function, loop: Loop, ahead: Lookahead) -> None:
        self.function, self.loop, self.ahead = function, loop, ahead

    def apply(self) -> Function:
        """The function with the part issued ahead."""
        function, before = self.function, self.loop.preheader
        if before is None:
            function, before = add_preheader(function, self.loop.header, self.loop.blocks)
        blocks = dict(function.blocks)
        self.before_loop(blocks, before)
        self.in_loop(blocks)
        return self.clean_up(function.with_blocks(blocks))

    def before_loop(self, blocks: dict[str, Block], label: str) -> None:
        """Issue the part of the first iterations at the end of block `label`."""
        raise NotImplementedError

    def in_loop(self, blocks: dict[str, Block]) -> None:
        """Issue the part of later iterations in the loop, and use what was issued."""
        raise NotImplementedError

    def clean_up(self, function: Function) -> Function:
        """Remove what the pipelined loop no longer needs."""
        raise NotImplementedError

    def pass_to_header(
        self, block: Block, ops: Iterable[Op], arguments: Iterable[Operand], **attributes: Any
    ) -> Block:
        """`block` with `ops` before its terminator, which passes `arguments` to the header after
        what it passes, and has `attributes`."""
        last: Any = append_arguments(block.terminator, (self.loop.header,), arguments)
        return attrs.evolve(block, ops=(*ops, last.evolve(**attributes) if attributes else last))
