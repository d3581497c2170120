"""Which lanes of a value are defined, where a predicate left some undefined.

A lane takes no part in a reduction, a scan or a histogram if its predicate is undefined because of
predicates, masks or `undef`. Undefined lanes of values that such a predicate depends on must
therefore stay undefined: folding and algebra do not change the ops that compute them, and lowering
computes which lanes are defined (`tileir.passes.defined_lanes`). A predicate that is undefined for
another reason (an overflow, the result of a call, a value that a loop carries) makes the result
undefined (`opaque_predicates`)."""

from __future__ import annotations

from collections.abc import Iterable

from tileir.analysis import memoize
from tileir.analysis.uses import arguments, definitions
from tileir.effects import Effects
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Tile
from tileir.values import Constant, Operand, Undef, Value


def collects(op: Op) -> bool:
    """Whether `op` combines lanes, so that its results depend on which of them take part."""
    return op.predicate_follows_operand and op.effects is Effects.PURE


def mask_of_results(op: Op) -> Operand | None:
    """The mask of `op` if its results are undefined where it is false: of a load without `other`,
    or of an atomic access."""
    if not op.results or collects(op) or getattr(op, "other", None) is not None:
        return None
    return getattr(op, "mask", None)


@memoize
def kept_undefined(function: Function) -> frozenset[Value]:
    """Values whose undefined lanes decide which lanes a reduction, scan or histogram combines:
    no pass may define more of them."""
    predicates = [op.predicate for op in function.ops if op.predicate is not None and collects(op)]
    if not predicates:
        return frozenset()
    values = transitive_operands(function, predicates)
    origin = definitions(function)
    if any(leaves_undefined(origin[value]) for value in values):
        return frozenset(values)
    return frozenset()


@memoize
def opaque_predicates(function: Function) -> frozenset[Operand]:
    """Tile predicates of reductions, scans and histograms whose lanes may be undefined for other
    reasons than those that `tileir.passes.defined_lanes` computes."""
    predicates = {op.predicate for op in function.ops if op.predicate is not None and collects(op)}
    return frozenset(
        p for p in predicates if isinstance(p.type, Tile) and _has_other_reasons(function, p)
    )


def _has_other_reasons(function: Function, predicate: Operand) -> bool:
    origin = definitions(function)
    sources = [origin[value] for value in transitive_operands(function, [predicate])]
    if any(_may_be_undefined(op) or not _passes_on(function, op) for op in sources):
        return True
    operands = {predicate, *(v for op in sources for v in op.operands)}
    passed = [v for v in operands if isinstance(v, Value) and v not in origin]
    return any(_is_partial(function, value) for value in passed)


def _is_partial(function: Function, parameter: Value) -> bool:
    """Whether lanes of the parameter of a block or a function may be undefined."""
    origin, incoming = definitions(function), arguments(function)
    visited, waiting = set[Value](), [parameter]
    while waiting:
        value = waiting.pop()
        if value in visited:
            continue
        visited.add(value)
        op = origin.get(value)
        if op is None and value not in incoming:
            if isinstance(value.type, Tile) and not function.kernel:
                return True
            continue
        if op is not None and (leaves_undefined(op) or _may_be_undefined(op)):
            return True
        operands = op.operands if op is not None else incoming[value]
        if any(isinstance(v, Undef) for v in operands):
            return True
        waiting += [v for v in operands if isinstance(v, Value)]
    return False


def _may_be_undefined(op: Op) -> bool:
    """Whether lanes of the results are undefined although those of the operands are defined."""
    stated = getattr(getattr(op, "overflow", None), "value", "none")
    return stated != "none" or (op.may_be_undefined and not getattr(op, "saturate", False))


def _passes_on(function: Function, op: Op) -> bool:
    """Whether the defined lanes of the results are computed from those of the operands."""
    if op.elementwise or op.moves_elements or op.mnemonic == "reduce":
        return True
    origin = definitions(function)
    before = (origin[value] for value in transitive_operands(function, op.inputs))
    undefined = any(isinstance(v, Undef) for v in op.inputs)
    return not undefined and not any(leaves_undefined(earlier) for earlier in before)


def leaves_undefined(op: Op) -> bool:
    """Whether lanes of the results are undefined because of predicates, a mask or `undef`."""
    if op.predicate is not None or any(isinstance(v, Undef) for v in op.inputs):
        return True
    if mask_of_results(op) is not None:
        return True
    return op.mnemonic == "psi" and not any(
        isinstance(p, Constant) and p.bits for p in op.inputs[::2]
    )


def transitive_operands(function: Function, operands: Iterable[Operand | None]) -> set[Value]:
    """The results of ops that `operands` are computed from, their own included."""
    origin, values = definitions(function), set[Value]()
    waiting = list(operands)
    while waiting:
        value = waiting.pop()
        if isinstance(value, Value) and value in origin and value not in values:
            op = origin[value]
            values.update(op.results)
            waiting.extend(op.operands)
    return values
