"""The execution of a kernel by the SIMT simulator, op by op along the control flow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from tileir.analysis.loops import loops
from tileir.backend.codegen.lowering import Lowering
from tileir.backend.simt.faults import at_op
from tileir.backend.simt.scheduler import WaitingError
from tileir.field import Successor
from tileir.ir import Block
from tileir.op import Op
from tileir.types import I64, Pointer, Type
from tileir.values import encode


class _PartedError(AssertionError):
    """A branch with a divergent condition, which is allowed in functions of scalars but not in
    kernels."""

    def __init__(self, selected: Any) -> None:
        super().__init__("a branch on which threads differ")
        self.slice_threads = selected


class Execution(Lowering):
    """A lowering that executes blocks along the control flow."""

    last: Any = None
    waiting: WaitingError | None = None

    def bind(self, arguments: Sequence[Any]) -> None:
        """Bind a kernel's parameters to `arguments`: numbers and addresses."""
        thread: Any = self.thread
        for parameter, value in zip(self.function.parameters, arguments, strict=True):
            bound: Any = _argument(thread, parameter.type, value)
            self.values[parameter.value] = [bound]

    def execute(self, arguments: Sequence[Any]) -> list[Any]:
        """The results of a function that does not wait."""
        for parameter, argument in zip(self.function.parameters, arguments, strict=True):
            self.values[parameter.value] = [argument]
        thread = cast(Any, self.thread)
        outer, results = thread.active, list[Any]()
        parts = [(self.function.entry, self.values, outer)]
        while parts:
            block, self.values, thread.active = parts.pop()
            try:
                deque(self.steps(block), maxlen=0)
            except _PartedError as parted:
                parts += self._parts(parted.slice_threads)
                continue
            returned: list[Any] = [self.scalar(v) for v in self.last.inputs]
            results = [
                thread.handle(np.where(thread.active, new.array, old.array))
                for new, old in zip(returned, results or returned, strict=True)
            ]
        thread.active = outer
        return results

    def _parts(self, condition: Any) -> list[tuple[Block, dict[Any, Any], Any]]:
        """The continuations of threads that diverge at a branch: the block, its values, and the
        threads."""
        thread, parts = cast(Any, self.thread), list[Any]()
        for edge, mask in zip(self.last.successors, (condition, ~condition), strict=True):
            block, values = self._enter(edge)
            parts.append((block, values, thread.active & mask))
        return parts

    def _enter(self, edge: Successor) -> tuple[Block, dict[Any, Any]]:
        """The target block of `edge`, and the values of its parameters."""
        incoming = [self.fragment(a) for a in edge.arguments]
        block = self.function.blocks[edge.label]
        return block, self.values | dict(zip(block.parameters, incoming, strict=True))

    def steps(self, block: Block | None = None) -> Iterator[WaitingError | None]:
        """Run op by op, from `block` or the beginning. Yields the reason whenever an op has to
        wait."""
        block, thread = block or self.function.entry, cast(Any, self.thread)
        while True:
            for op in block.ops[:-1]:
                thread.memory.check_time(op)
                while (outcome := self._try(op)) is None:
                    yield self.waiting
                for value, fragment in zip(op.results, outcome, strict=True):
                    self.values[value] = fragment
                yield None
            self.last = last = block.terminator
            thread.memory.check_time(last)
            if not last.successors:
                return
            edge = last.successors[self._taken_edge(last)]
            if thread.role_state is not None and self._is_back(block.label, edge.label):
                thread.role_state.next_iteration()
            incoming = [self.fragment(a) for a in edge.arguments]
            block = self.function.blocks[edge.label]
            self.values.update(zip(block.parameters, incoming, strict=True))

    def _is_back(self, source: str, target: str) -> bool:
        """Whether an edge leads back to the header of a loop."""
        loop = loops(self.function).by_header.get(target)
        return loop is not None and source in loop.blocks

    def _try(self, op: Op) -> list[Any] | None:
        """The results of the rule of `op`; None if it has to wait."""
        try:
            return self._done(op)
        except WaitingError as waiting:
            self.waiting = waiting
            return None

    def _done(self, op: Op) -> list[Any]:
        """The results of the rule of `op`; an error that it raises gets the location of `op`."""
        machine: Any = self.thread
        try:
            with machine.running(self, op):
                return self.lower(op)
        except AssertionError as error:
            raise at_op(error, op.mnemonic, op.location) from error

    def _taken_edge(self, last: Any) -> int:
        if last.mnemonic == "br":
            return 0
        condition: Any = self.scalar(last.condition)
        values, active = condition.array, cast(Any, self.thread).active
        chosen = values[active] if active.any() else values[:1]
        if chosen.min() != chosen.max():
            raise _PartedError(values)
        return 0 if chosen[0] else 1


def _argument(thread: Any, kind: Type, value: Any) -> Any:
    if isinstance(kind, Pointer):
        return thread.as_handle(value, I64)
    assert not isinstance(kind, Pointer)
    return thread.constant(kind, encode(kind, value))  # type: ignore[arg-type]
