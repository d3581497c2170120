"""`nsw` on index arithmetic.

Integers of Triton wrap. Its compiler nevertheless derives contiguity and divisibility of offsets
(`AxisInfo`) as if they did not. So `add`, `sub` and `mul` get `nsw` where they only place accesses:

- operands come from parameters, program indices, ranges and literals, and not from memory, from
  bits (`xor`, `bitcast`, shifts) or from unsigned arithmetic;
- every use ends as the offset of a pointer, as a coordinate, extent or stride of a descriptor, or
  in a comparison that decides a mask or a branch;
- the op is on no cycle of a loop. Counters may pass the bound of a loop by a step, and recurrences
  may be random numbers;
- where only a division, a minimum or a comparison reads the result, no literal is as large as those
  of hashes: `(i * 1103515245) % n` wraps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import attrs

from tileir import Module
from tileir.analysis.components import strong_components
from tileir.analysis.uses import arguments, definitions
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Overflow
from tileir.rewrite import Walk, rewrite
from tileir.types import I1, Scalar, Type, element_of
from tileir.values import Constant, Operand, Undef, Value

_ARITHMETIC = frozenset({"add", "sub", "mul"})
_SOURCES = frozenset({"program_id", "num_programs", "make_range"})
_MOVES = frozenset({
    "splat", "broadcast", "reshape", "expand_dims", "trans", "unsplat", "multiple_of",
    "contiguous", "constant_run",
})  # fmt: skip
_LINEAR = _ARITHMETIC | _MOVES | {"neg", "sext"}
"""Results that are linear in each operand."""
_BENT = frozenset({"sdiv", "srem", "smin", "smax", "select"})
_LOGIC = frozenset({"and", "or", "xor"})
"""Ops on conditions only."""
_SIGNED = frozenset({"slt", "sle", "sgt", "sge", "eq", "ne"})
_ENDS: Mapping[str, tuple[str, ...]] = {
    "load": ("mask",), "store": ("mask",), "atomic_rmw": ("mask",), "atomic_cas": ("mask",),
    "atomic_load": ("mask",), "atomic_store": ("mask",), "cond_br": ("condition",),
    "getelementptr": ("index",), "make_descriptor": ("dimensions",),
    "descriptor_load": ("indices",), "descriptor_store": ("indices",),
    "descriptor_reduce": ("indices",), "descriptor_gather": ("index", "column"),
    "descriptor_scatter": ("index", "column"),
}  # fmt: skip
"""Operands that place an access or decide whether it is made."""
_NARROWEST = 32
_LARGEST_MULTIPLIER = 1 << 16
_LARGEST_TERM = 1 << 30
"""Literals beyond these may be those of hashes and random numbers."""


def mark_index_nsw(module: Module, wrapping: Set[Value] = frozenset()) -> Module:
    """`module`, in whose kernels index arithmetic is `nsw`. Nothing that `wrapping` values are
    part of is."""
    functions = {
        name: _mark(function, wrapping) if function.kernel and function.blocks else function
        for name, function in module.functions.items()
    }
    return module.with_functions(functions)


def _mark(function: Function, wrapping: Set[Value]) -> Function:
    if not any(op.mnemonic in _ARITHMETIC for op in function.ops):
        return function
    nsw = _non_wrapping(function, wrapping)

    def mark(op: Any, _: Walk) -> Any:
        # An op is offered again once it is rewritten.
        fresh = op.results[0] in nsw and op.overflow is Overflow.NONE
        return op.evolve(overflow=Overflow.NSW) if fresh else op

    return rewrite(function, dict.fromkeys(_ARITHMETIC, mark)) if nsw else function


@attrs.define
class _IndexFlow:
    """Def-use edges between integers and conditions, and the values where chains begin and end."""

    operands: dict[Value, list[Value]] = attrs.field(factory=dict[Value, list[Value]])
    """The operands of each value."""
    users: dict[Value, list[Value]] = attrs.field(factory=dict[Value, list[Value]])
    """The values that each one is an operand of."""
    linear: dict[Value, list[Value]] = attrs.field(factory=dict[Value, list[Value]])
    """`operands`, where the result is linear in the operand."""
    offsets: set[Value] = attrs.field(factory=set[Value])
    placing: set[Value] = attrs.field(factory=set[Value])
    """Operands of `_ENDS`, offsets among them."""
    compared: set[Value] = attrs.field(factory=set[Value])
    """Operands of `_BENT` and of comparisons."""
    data: set[Value] = attrs.field(factory=set[Value])
    """Operands of all other ops."""
    foreign: set[Value] = attrs.field(factory=set[Value])
    """Results of all other ops."""
    varying: set[Value] = attrs.field(factory=set[Value])

    def connect(self, operand: Operand, result: Value, linear: bool) -> None:
        """Record that `result` is computed from `operand`."""
        if isinstance(operand, Undef):
            self.foreign.add(result)
        if not isinstance(operand, Value):
            return
        self.operands.setdefault(result, []).append(operand)
        self.users.setdefault(operand, []).append(result)
        if linear:
            self.linear.setdefault(result, []).append(operand)
        else:
            self.compared.add(operand)


def _non_wrapping(function: Function, wrapping: Set[Value]) -> set[Value]:
    """The results that do not wrap."""
    flow = _flow(function)
    data = _closure(flow.data, flow.operands)
    placing = _closure(flow.placing, flow.operands) - data
    direct = _closure(flow.offsets, flow.linear)
    compared = _closure(flow.compared, flow.operands)
    varying = _closure(flow.varying, flow.users)
    cyclic = _cyclic(flow)
    defined = definitions(function)
    doubtful = {
        value
        for op in function.ops
        if op.mnemonic in _ARITHMETIC
        for value in op.results
        if (value in compared and value not in direct and _hashes(op, varying, defined))
        or (value in cyclic and op.mnemonic == "mul")
    }
    foreign = _closure(flow.foreign | doubtful | wrapping, flow.users)
    return {
        op.results[0]
        for op in function.ops
        if op.mnemonic in _ARITHMETIC
        and _bits(op.results[0].type) >= _NARROWEST
        and op.results[0] in placing
        and op.results[0] not in foreign
        and op.results[0] not in cyclic
        and not any(isinstance(v, Undef) for v in op.inputs)
    }


def _cyclic(flow: _IndexFlow) -> set[Value]:
    """The values that an iteration of a loop computes from their own values in the previous one."""
    component = strong_components(flow.users)
    sizes = Counter(component.values())
    return {v for v, number in component.items() if sizes[number] > 1 or v in flow.users[v]}


def _flow(function: Function) -> _IndexFlow:
    flow = _IndexFlow()
    for op in function.ops:
        _follow(op, flow)
    for parameter, incoming in arguments(function).items():
        if _bits(parameter.type):
            for operand in incoming:
                flow.connect(operand, parameter, linear=True)
    return flow


def _follow(op: Op, flow: _IndexFlow) -> None:
    name = op.mnemonic
    results = [v for v in op.results if _bits(v.type)]
    if name in _SOURCES:
        flow.varying.update(results if name != "num_programs" else ())
    elif _passes(op):
        linear = name in _LINEAR or name in _LOGIC
        for operand in op.inputs:
            for result in results:
                flow.connect(operand, result, linear)
    elif name != "assume":
        flow.foreign.update(results)
        ends = set(_values(op, _ENDS.get(name, ())))
        flow.placing |= ends
        flow.offsets |= ends if name == "getelementptr" else set()
        flow.data.update(v for v in op.inputs if isinstance(v, Value) and v not in ends)
    if isinstance(op.predicate, Value):
        flow.placing.add(op.predicate)


def _passes(op: Any) -> bool:
    """Whether a result that is index arithmetic makes its operands so."""
    name = op.mnemonic
    if name == "icmp":
        return op.predicate_.value in _SIGNED and _bits(op.inputs[0].type) > 0
    if not op.results or not _bits(op.results[0].type):
        return False
    if name in _LOGIC:
        return element_of(op.results[0].type) is I1
    return name in _LINEAR or name in _BENT


def _values(op: Op, names: Iterable[str]) -> Iterator[Value]:
    for name in names:
        incoming: Any = getattr(op, name)
        for value in incoming if isinstance(incoming, tuple) else (incoming,):
            if isinstance(value, Value):
                yield value


def _hashes(op: Op, varying: Set[Value], defined: Mapping[Value, Op]) -> bool:
    """Whether an op whose result is not part of an offset may be meant to wrap."""
    numbers = [n for v in op.inputs if (n := _literal(v, defined)) is not None]
    if op.mnemonic == "mul":
        if numbers:
            return max(map(abs, numbers)) > _LARGEST_MULTIPLIER
        return any(v in varying for v in op.inputs)
    return any(abs(n) > _LARGEST_TERM for n in numbers)


def _literal(operand: Operand, defined: Mapping[Value, Op]) -> int | None:
    """The signed number that `operand` is everywhere, if it is a literal."""
    while isinstance(operand, Value):
        op = defined.get(operand)
        if op is None or op.mnemonic not in _MOVES:
            return None
        operand = op.inputs[0]
    if not isinstance(operand, Constant):
        return None
    half = 1 << (_bits(operand.type) - 1)
    return operand.bits if operand.bits < half else operand.bits - 2 * half


def _closure(seeds: Iterable[Value], edges: Mapping[Value, Iterable[Value]]) -> set[Value]:
    """`seeds` and all that `edges` lead to."""
    result, pending = set(seeds), list(seeds)
    while pending:
        for value in edges.get(pending.pop(), ()):
            if value not in result:
                result.add(value)
                pending.append(value)
    return result


def _bits(type: Type) -> int:
    """Bits of an integer's element; 0 of anything else."""
    element = element_of(type)
    return element.bits if isinstance(element, Scalar) and element.is_integer else 0
