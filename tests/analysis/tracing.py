"""Running a function op by op on the machine of numbers, keeping every value it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.effects import Effects
from tileir.errors import TileirError
from tileir.ir import Function
from tileir.machine import Machine, Tensor, dtype_of
from tileir.op import FieldKind, Op, Successor
from tileir.types import Pointer, Scalar, Type, element_of, shape_of
from tileir.values import Constant, Operand, Undef, Value

_MANY = (FieldKind.VARIADIC, FieldKind.PAIRS)
_READ = (FieldKind.OPERAND, FieldKind.OPTIONAL, *_MANY)


@attrs.frozen
class Event:
    """`value` was defined in block `label` as `data`, `scalars` being the scalars known then and
    `iterations` how often each loop header had been re-entered."""

    value: Value
    label: str
    data: np.ndarray[Any, Any]
    defined: np.ndarray[Any, Any]
    iterations: Mapping[str, int]
    scalars: Mapping[Value, int]
    pid: Sequence[int]


class _Machine(Machine):
    def __init__(self, pid: Sequence[int], seed: int) -> None:
        super().__init__()
        self.pid, self.random = pid, np.random.default_rng(seed)

    def program_id(self, axis: int) -> Tensor:
        return Tensor(np.asarray(np.int32(self.pid[axis])))

    def num_programs(self, axis: int) -> Tensor:
        return Tensor(np.asarray(np.int32(self.pid[axis] + 1)))

    def load(self, pointer: Tensor, mask: Any, other: Any, op: Op) -> Tensor:
        """Numbers that depend on the address alone."""
        hashed = (pointer.data * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        data_read = np.asarray(hashed.astype(np.int64).astype(dtype_of(op.results[0].type)))
        if mask is None:
            return Tensor(data_read)
        filled = data_read if other is None else np.where(mask.data, data_read, other.data)
        return Tensor(np.asarray(filled), ~mask.data if other is None else None)

    def truth(self, condition: Tensor) -> bool:
        return bool(condition.data)

    def hint(self, kind: str, value: Tensor, values: tuple[int, ...], op: Op) -> Tensor:
        return value


@attrs.frozen
class Trace:
    """What a run computed, and the ops that wrapped at least once."""

    pid: Sequence[int]
    events: list[Event] = attrs.field(factory=list)
    wrapped: set[Op] = attrs.field(factory=set)
    finished: bool = False


def trace(
    function: Function, arguments: Sequence[int], pid: Sequence[int] = (0, 0, 0), *,
    seed: int = 0, most: int = 200,
) -> Trace:  # fmt: skip
    """Run `function` for up to `most` blocks, or until an op has no meaning."""
    machine, record = _Machine(pid, seed), Trace(pid)
    env: dict[Value, Tensor] = {}
    iterations: dict[str, int] = {}
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        env[parameter.value] = Tensor(np.asarray(argument).astype(dtype_of(parameter.type)))
        _record(record, parameter.value, function.entry.label, env, iterations)
    block, came = function.entry, ""
    for _ in range(most):
        for op in block.ops:
            try:
                result = _evaluate(machine, op, env)
            except TileirError:
                return record
            if isinstance(result, Successor):
                arguments_ = [_fetch(machine, a, env) for a in result.arguments]
                came, block = block.label, function.blocks[result.label]
                _count(function, iterations, came, block.label)
                for parameter, argument_ in zip(block.parameters, arguments_, strict=True):
                    env[parameter] = argument_
                    _record(record, parameter, block.label, env, iterations)
                break
            if Effects.CONTROL in op.effects_:
                return attrs.evolve(record, finished=True)
            _wraps(record, op, env)
            for value, tensor in zip(op.results, _several(op, result), strict=True):
                env[value] = tensor
                _record(record, value, block.label, env, iterations)
    return record


def _several(op: Op, result: Any) -> Sequence[Tensor]:
    return result if len(op.results) > 1 else (result,) if op.results else ()


def _count(function: Function, iterations: dict[str, int], source: str, target: str) -> None:
    from tileir.analysis.loops import loops

    loop = loops(function).by_header.get(target)
    if loop is not None:
        iterations[target] = iterations[target] + 1 if source in loop.blocks else 0


def _evaluate(machine: _Machine, op: Op, env: Mapping[Value, Tensor]) -> Any:
    values: list[Any] = []
    for field in op.fields(*_READ):
        operand = getattr(op, field.name)
        if field.kind in _MANY:
            values.append(tuple(_fetch(machine, v, env) for v in operand))
        else:
            values.append(None if operand is None else _fetch(machine, operand, env))
    if op.predicate is None:
        return op.evaluate(machine, *values)
    predicate = _fetch(machine, op.predicate, env).data
    machine.active = np.broadcast_to(predicate, shape_of(op.results[0].type))
    try:
        results = _several(op, op.evaluate(machine, *values))
    finally:
        active, machine.active = machine.active, None
    limited = [machine.restrict(v, active) for v in results]
    return limited if len(limited) > 1 else limited[0]


def _fetch(machine: _Machine, operand: Operand, env: Mapping[Value, Tensor]) -> Tensor:
    if isinstance(operand, Value):
        return env[operand]
    if isinstance(operand, Undef):
        return machine.undef(operand.type)
    return machine.constant(operand)


def as_signed(data: np.ndarray[Any, Any], type: Type) -> np.ndarray[Any, Any]:
    """Elements as Python integers, the true i1 being -1; addresses unsigned."""
    element = element_of(type)
    sign = -1 if isinstance(element, Scalar) and element.bits == 1 else 1
    numbers = np.empty(data.shape, object)
    for index in np.ndindex(data.shape):
        numbers[index] = sign * int(data[index])
    return numbers


def _is_whole(type: Type) -> bool:
    element = element_of(type)
    return isinstance(element, Pointer) or (isinstance(element, Scalar) and element.is_integer)


def _record(
    record: Trace, value: Value, label: str, env: Mapping[Value, Tensor],
    iterations: Mapping[str, int],
) -> None:  # fmt: skip
    if not _is_whole(value.type):
        return
    tensor = env[value]
    defined = np.ones(tensor.data.shape, bool) if tensor.undef is None else ~tensor.undef
    scalars = {v: int(t.data) for v, t in env.items() if t.data.ndim == 0 and _is_whole(v.type)}
    data = as_signed(tensor.data, value.type)
    record.events.append(Event(value, label, data, defined, dict(iterations), scalars, record.pid))


_EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b, "neg": lambda a: -a, "trunc": lambda a: a,
}  # fmt: skip


def _wraps(record: Trace, op: Op, env: Mapping[Value, Tensor]) -> None:
    """Note `op` if its result as a true integer does not fit."""
    exact = _EXACT.get(op.mnemonic)
    if exact is None:
        return
    machine = Machine()
    inputs = [
        as_signed((env[v] if isinstance(v, Value) else _literal(machine, v)).data, v.type)
        for v in op.inputs
    ]
    element: Any = element_of(op.results[0].type)
    half = 1 << (element.bits - 1)
    true = np.asarray(exact(*inputs))
    if ((true < -half) | (true >= half)).any():
        record.wrapped.add(op)


def _literal(machine: Machine, operand: Operand) -> Tensor:
    return (
        machine.constant(operand) if isinstance(operand, Constant) else machine.undef(operand.type)
    )
