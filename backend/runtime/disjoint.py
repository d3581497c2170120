"""Versions of kernels for arguments whose memory does not overlap.

A kernel that writes through one parameter and reads through another in a loop must keep the order
of its accesses, since the arrays may overlap. If the launcher finds that they do not overlap, it
launches the version whose written parameters are `noalias`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.analysis import memoize
from tileir.analysis.aliases import aliases
from tileir.analysis.argument_effects import NOTHING, effects
from tileir.analysis.cfg import cfg, reachable
from tileir.analysis.loops import loops
from tileir.effects import Effects
from tileir.ir import Function, Module
from tileir.op import Op

Span: TypeAlias = tuple[int, int]
"""The address of memory, and its bytes."""


@attrs.frozen
class Separation:
    """The test of a launcher: the memory of each parameter in `written`, given by index, must not
    overlap that of any other parameter in `pointers`."""

    written: tuple[int, ...]
    pointers: tuple[int, ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The pairs of parameters, by index, whose memory must not overlap, each pair once."""
        written = set(self.written)
        return tuple(
            (w, other)
            for w in self.written
            for other in self.pointers
            if other not in written or w < other
        )

    def decide(self, values: Sequence[Any]) -> bool | None:
        """Whether the memory of no pair overlaps, for the arguments `values`; None if the memory of
        an argument is unknown."""
        spans = {index: span(values[index]) for index in self.pointers}
        ranges = {index: each for index, each in spans.items() if each is not None}
        if len(ranges) < len(spans):
            return None
        pairs = ((ranges[i], ranges[j]) for i, j in self.pairs)
        return all(sum(a) <= b[0] or sum(b) <= a[0] for a, b in pairs)


@memoize
def separation(function: Function) -> Separation | None:
    """The test under which loads in loops of `function` may be moved across stores; None if there
    is no such load."""
    accesses = effects(function)
    if accesses.elsewhere != NOTHING:  # pointers loaded from memory may point anywhere
        return None
    parameters = function.parameters
    pointers = [i for i, p in enumerate(parameters) if accesses.of(p.value) != NOTHING]
    written = tuple(
        i
        for i in pointers
        if accesses.of(parameters[i].value).written and not parameters[i].attributes.noalias
    )
    if not written or len(pointers) < 2 or not _profits(function, with_promise(function, written)):
        return None
    return Separation(written, tuple(pointers))


def with_promise(function: Function, written: Sequence[int]) -> Function:
    """`function` in which the parameters with indices `written` are `noalias`."""
    parameters = list(function.parameters)
    for index in written:
        attributes = attrs.evolve(parameters[index].attributes, noalias=True)
        parameters[index] = attrs.evolve(parameters[index], attributes=attributes)
    return function.evolve(parameters=tuple(parameters))


def separate(module: Module, kernel: str, written: Sequence[int]) -> Module:
    """`module` in which the parameters of `kernel` with indices `written` are `noalias`."""
    function = with_promise(module.functions[kernel], written)
    return module.with_functions({**module.functions, kernel: function})


def version_for(module: Module, kernel: str | None, arguments: Mapping[str, Any]) -> Module:
    """The version of `module` that is launched for `arguments`, which are by parameter name."""
    function = module.kernel(kernel)
    compared = separation(function)
    values = [arguments.get(p.name or "") for p in function.parameters]
    if compared is None or not compared.decide(values):
        return module
    return separate(module, function.name, compared.written)


def _profits(function: Function, promised: Function) -> bool:
    """Whether a load in a loop is not moved across a store only because their parameters may
    overlap."""
    writers = [(label, op) for label, op in _ops(function, function.blocks) if _writes(op)]
    readers = [
        (label, op) for label, op in _ops(function, loops(function).innermost)
        if op.effects & Effects.READ and not _writes(op)
    ]  # fmt: skip
    before, after = aliases(function), aliases(promised)
    successors = cfg(function).successors
    following = {label: reachable(label, successors) for label in {label for label, _ in writers}}
    return any(
        label in following[source]
        and before.may_change(writer, reader)
        and not after.may_change(writer, reader)
        for source, writer in writers
        for label, reader in readers
    )


def _ops(function: Function, labels: Iterable[str]) -> Iterator[tuple[str, Op]]:
    return ((label, op) for label in labels for op in function.blocks[label].ops)


def _writes(op: Op) -> bool:
    return bool(op.effects & (Effects.WRITE | Effects.SYNC))


def span(value: Any) -> Span | None:
    """The memory that a kernel may access through an array: its whole allocation, since arrays are
    views and kernels may step out of them. None if it is unknown."""
    storage = getattr(value, "untyped_storage", None)
    if storage is None:
        return None
    allocation = storage()
    return allocation.data_ptr(), allocation.nbytes()
