"""The edits of a reduction, and functions that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.ir import Function, Module
from tileir.op import Op
from tileir.rewrite import rewrite
from tileir.types import Pointer, Scalar, Type, element_of
from tileir.values import Constant, Operand, Undef, Value

Place: TypeAlias = tuple[Any, ...]
"""Names and indices that identify a part of a module."""


@attrs.frozen
class Edit:
    """A kind of edit: the `places` of a module at which it applies, and `apply`, which makes it at
    some of them. It no longer applies at a place at which it has been made."""

    name: str
    places: Callable[[Module], Sequence[Place]]
    apply: Callable[[Module, Sequence[Place]], Module]


def op_places(module: Module) -> Iterator[tuple[Place, Op]]:
    """Yield every op with its place: function, label, index."""
    for function in module.functions.values():
        for label, block in function.blocks.items():
            for index, op in enumerate(block.ops):
                yield (function.name, label, index), op


def zero(type: Type) -> Operand:
    """The literal 0 of `type`, or `undef` if there is none."""
    has_zero = isinstance(element_of(type), (Scalar, Pointer))
    return Constant(type, 0) if has_zero else Undef(type)


def with_functions(module: Module, changed: Mapping[str, Function]) -> Module:
    """`module` with functions replaced by those of the same name in `changed`."""
    return module.with_functions({**module.functions, **changed})


def with_ops(
    module: Module, places: Iterable[Place], change: Callable[[Op, Function], Op | None]
) -> Module:
    """`module` with `change` applied to the ops at `places`. If it returns None, the op is removed;
    its results must be unused."""
    expected = set(places)
    changed: dict[str, Function] = {}
    for name in dict.fromkeys(place[0] for place in places):
        function = module.functions[name]
        blocks = dict(function.blocks)
        for label, block in blocks.items():
            result = [
                change(op, function) if (name, label, index) in expected else op
                for index, op in enumerate(block.ops)
            ]
            blocks[label] = attrs.evolve(block, ops=[op for op in result if op is not None])
        changed[name] = function.with_blocks(blocks)
    return with_functions(module, changed)


def substitute(function: Function, env: Mapping[Value, Operand]) -> Function:
    """`function` with values replaced. Chains of replacements are followed to their ends."""
    ends: dict[Value, Operand] = {}
    for value in env:
        end, seen = env[value], {value}
        while type(end) is Value and end in env and end not in seen:
            seen.add(end)
            end = env[end]
        ends[value] = zero(value.type) if type(end) is Value and end in env else end
    return rewrite(function, {}, replaced=ends)


def can_end(function: Function) -> bool:
    """Whether every block reaches a block without successors. Otherwise the function would run
    forever."""
    before: dict[str, list[str]] = {label: [] for label in function.blocks}
    pending: list[str] = []
    for label, block in function.blocks.items():
        if not block.successors:
            pending.append(label)
        for edge in block.successors:
            before[edge.label].append(label)
    ending = set(pending)
    while pending:
        fresh = [label for label in before[pending.pop()] if label not in ending]
        ending.update(fresh)
        pending.extend(fresh)
    return len(ending) == len(function.blocks)
