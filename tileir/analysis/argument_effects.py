"""Effects on arguments: the pointer parameters that a function reads, writes and updates
atomically."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

import attrs

from tileir.analysis import memoize
from tileir.effects import ACCESSES, Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import I1, VOID, Descriptor, Pointer, Type, element_of
from tileir.values import Operand, Value


@attrs.frozen(weakref_slot=False, repr=False)
class PointerAccess:
    """The kinds of accesses to memory through a pointer.

    `escapes`: the address is stored, passed to a call or converted to an integer, so the memory may
    be accessed in any way. `synchronises`: an access is atomic or volatile.
    """

    read: bool = False
    written: bool = False
    atomic: bool = False
    escapes: bool = False
    synchronises: bool = False

    def __or__(self, other: PointerAccess) -> PointerAccess:
        return PointerAccess(
            self.read or other.read,
            self.written or other.written,
            self.atomic or other.atomic,
            self.escapes or other.escapes,
            self.synchronises or other.synchronises,
        )


NOTHING = PointerAccess()
ANYTHING = PointerAccess(True, True, True, True, True)


class ArgumentEffects:
    """Accesses by parameter value. `elsewhere` are those through pointers that do not come from
    parameters (loaded addresses, numbers, globals); they may reach any argument."""

    def __init__(self, parameters: Mapping[Value, PointerAccess], elsewhere: PointerAccess) -> None:
        self.parameters, self.elsewhere = parameters, elsewhere

    def of(self, parameter: Value) -> PointerAccess:
        """The accesses to the memory of `parameter`, a pointer or descriptor parameter."""
        return self.parameters.get(parameter, NOTHING)


@memoize
def effects(function: Function) -> ArgumentEffects:
    """The effects of `function` on what its pointer parameters point to. Calls count as any
    access through their pointer arguments; inline them first for exact facts."""
    reached = underlying_parameters(function)
    accesses: dict[Value, PointerAccess] = {
        p.value: NOTHING for p in function.parameters if _points(p.type)
    }
    elsewhere = NOTHING
    for op in _pointer_ops(function):
        for pointer, access in _accesses(op):
            sources = reached.get(pointer, _UNKNOWN) if isinstance(pointer, Value) else _UNKNOWN
            for source in sources & accesses.keys():
                accesses[source] |= access
            if ELSEWHERE in sources:
                elsewhere |= access
    return ArgumentEffects(accesses, elsewhere)


ELSEWHERE = Value(VOID, "elsewhere")
"""Stands for memory that no pointer parameter is known to reach."""
_UNKNOWN = frozenset((ELSEWHERE,))


@lru_cache(1024)
def _points(type: Type) -> bool:
    return isinstance(element_of(type), (Pointer, Descriptor))


@memoize
def _pointer_ops(function: Function) -> list[Op]:
    """The ops that read or define pointers, in order."""
    return [
        op
        for op in function.ops
        if any([_points(v.type) for v in (*op.operands, *op.results)])  # noqa: C419 - faster
    ]


@memoize
def underlying_parameters(function: Function) -> Mapping[Value, frozenset[Value]]:
    """The pointer parameters each pointer value may be derived from, and `ELSEWHERE`."""
    values = {p.value: frozenset((p.value,)) for p in function.parameters if _points(p.type)}
    values |= dict.fromkeys(_strangers(function), _UNKNOWN)
    flows = _flows(function)
    pending = list(values)
    while pending:
        source = pending.pop()
        for target in flows.get(source, ()):
            merged = values.get(target, frozenset[Value]()) | values[source]
            if merged != values.get(target):
                values[target] = merged
                pending.append(target)
    return values


def _strangers(function: Function) -> set[Value]:
    """Pointers that may come from no parameter: loaded, made of numbers, literal."""
    strangers: set[Value] = set()
    for op in _pointer_ops(function):
        result = [v for v in op.results if _points(v.type)]
        if result:
            pointers = [v for v in op.inputs if _points(v.type)]
            derived = pointers and not op.effects & ~Effects.TRAP
            if not derived or not all(isinstance(v, Value) for v in pointers):
                strangers.update(result)
        for edge in op.successors:
            target = function.blocks[edge.label]
            for argument, parameter in zip(edge.arguments, target.parameters, strict=True):
                if not isinstance(argument, Value) and _points(parameter.type):
                    strangers.add(parameter)
    return strangers


def _flows(function: Function) -> dict[Value, list[Value]]:
    """Maps each pointer to the pointers derived from it, by ops without effects and by edges."""
    flows: dict[Value, list[Value]] = {}

    def add(sources: Iterable[Operand], targets: Iterable[Value]) -> None:
        for source in sources:
            if isinstance(source, Value) and _points(source.type):
                flows.setdefault(source, []).extend(targets)

    for op in _pointer_ops(function):
        result = [v for v in op.results if _points(v.type)]
        if result and not op.effects & ~Effects.TRAP:
            add(op.inputs, result)
        for edge in op.successors:
            target = function.blocks[edge.label]
            for argument, parameter in zip(edge.arguments, target.parameters, strict=True):
                add((argument,), (parameter,))
    return flows


def _accesses(op: Op) -> list[tuple[Operand, PointerAccess]]:
    """The addresses `op` uses, and how. The first operand of an access is its address."""
    pointers = [v for v in op.operands if _points(v.type)]
    if not pointers:
        return []
    effects_ = op.effects
    if Effects.OUTSIDE in effects_ or (Effects.CONTROL in effects_ and not op.successors):
        return [(p, ANYTHING) for p in pointers]
    if not effects_ & ACCESSES:
        result = any(_points(v.type) for v in op.results)
        reading = op.results and not result and not _compares(op)
        return [(p, PointerAccess(escapes=True)) for p in pointers] if reading else []
    access = PointerAccess(
        Effects.READ in effects_,
        Effects.WRITE in effects_,
        Effects.READ in effects_ and Effects.WRITE in effects_,
        synchronises=Effects.SYNC in effects_,
    )
    stored = [(p, ANYTHING) for p in pointers if p is not op.inputs[0]]
    return [(op.inputs[0], access), *stored]


def _compares(op: Op) -> bool:
    return all(element_of(v.type) is I1 for v in op.results)
