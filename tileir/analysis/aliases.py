"""Alias analysis: which writes may change the memory that a read accesses."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.analysis import memoize
from tileir.analysis.argument_effects import ELSEWHERE, effects, underlying_parameters
from tileir.effects import Effects
from tileir.ir import Function, ParameterAttributes
from tileir.op import Op
from tileir.values import Value

_CHANGES_MEMORY = (Effects.WRITE | Effects.SYNC).value
_ORDERS = (Effects.SYNC | Effects.OUTSIDE).value
_NO_PROMISE = ParameterAttributes()


class Aliases:
    """Facts about the memory that the pointer parameters of a function reach.

    Two parameters may reach the same memory unless one of them is `noalias`. `constant` are the
    kernel parameters whose memory does not change while the kernel runs: nothing writes through
    them, and no written parameter reaches their memory. If the kernel acquires writes of the rest
    of the system, they are also `readonly`."""

    def __init__(self, function: Function) -> None:
        self.roots = underlying_parameters(function)
        self.promises = {p.value: p.attributes for p in function.parameters}
        self.constant = _constant(function, self.promises)

    def may_change(self, writer: Op, reader: Op) -> bool:
        """Whether `writer` may change the result of `reader`, which reads memory at its first
        operand."""
        changing = writer.effects.value
        if not changing & _CHANGES_MEMORY:
            return False
        read = self._reachable_parameters(reader)
        if read is None:
            return True
        if read <= self.constant:
            return False
        written = None if changing & _ORDERS else self._reachable_parameters(writer)
        return written is None or not all(self._are_disjoint(r, w) for r in read for w in written)

    def _reachable_parameters(self, op: Op) -> frozenset[Value] | None:
        """The parameters through which `op` may access memory; None if it may access other
        memory."""
        address = op.inputs[0] if op.inputs else None
        root = self.roots.get(address) if type(address) is Value else None
        return None if root is None or ELSEWHERE in root else root

    def _are_disjoint(self, first: Value, second: Value) -> bool:
        return _are_disjoint(first, second, self.promises)


@memoize
def aliases(function: Function) -> Aliases:
    """The aliases of `function`, from the promises about its parameters and its accesses through
    them."""
    return Aliases(function)


@memoize
def unwritten(function: Function) -> frozenset[Value]:
    """The pointer parameters of a kernel whose memory is certainly not written.

    Such a parameter is `readonly`, and it is `noalias` or no written pointer aliases it. A
    parameter with atomic accesses is excluded, since another instance may write its memory.
    """
    promises = {p.value: p.attributes for p in function.parameters if p.attributes.readonly}
    if not function.kernel or not promises:
        return frozenset()
    result = {v for v, promise in promises.items() if promise.noalias}
    if len(result) < len(promises) and any(p.attributes.noalias for p in function.parameters):
        result |= aliases(function).constant & promises.keys()
    access = effects(function).parameters
    return frozenset(v for v in result if v not in access or not access[v].synchronises)


def _constant(
    function: Function, promises: Mapping[Value, ParameterAttributes]
) -> frozenset[Value]:
    facts = effects(function)
    opaque = any(Effects.OUTSIDE in op.effects and Effects.WRITE in op.effects
                 for op in function.ops)  # fmt: skip
    if not function.kernel or opaque or facts.elsewhere.written or facts.elsewhere.escapes:
        return frozenset()
    changed = [v for v, access in facts.parameters.items() if access.written or access.escapes]
    outside = acquires_from_outside(function)
    return frozenset(
        v
        for v in facts.parameters
        if all(_are_disjoint(v, other, promises) for other in changed)
        and (not outside or promises[v].readonly)
    )


@memoize
def acquires_from_outside(function: Function) -> bool:
    """Whether an op acquires at the scope of the system. Writes of other kernels, other GPUs or the
    host are then visible to later reads."""
    return any(
        getattr(getattr(op, "scope", None), "value", "") == "sys"
        and getattr(getattr(op, "sem", None), "value", "") in ("acquire", "acq_rel")
        for op in function.ops
    )


def _are_disjoint(
    first: Value, second: Value, promises: Mapping[Value, ParameterAttributes]
) -> bool:
    """Whether two parameters reach different memory."""
    alone = (promises.get(v, _NO_PROMISE).noalias for v in (first, second))
    return first is not second and any(alone)
