"""Splitting of the offsets of a tile of pointers into terms that are added one after the other: `p
+ (s + x)` becomes `(p + s) + x` if `s` is equal for several elements of a thread. Each of these
elements then takes one addition, not two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any, cast

import attrs

from tileir.analysis.uses import uses
from tileir.ir import Function
from tileir.op import Op
from tileir.ops.arith import Add, Mul
from tileir.ops.cast import SExt, ZExt
from tileir.ops.gpu import AsyncCopy
from tileir.ops.shape import Broadcast, ExpandDims, GetElementPtr, MakeRange, Reshape, Splat
from tileir.rewrite import Answer, Walk, rewrite
from tileir.types import I64, Tile, Type, element_of, with_element
from tileir.values import Operand, Value


def split_offsets(function: Function) -> Function:
    """`function`, which has layouts, with the terms of offsets added separately: a term that is a
    splat to a scalar pointer, a term of which a thread has fewer elements than of the pointers to a
    smaller tile of pointers. Of rows times strides, of pointers that are copied, the part of the
    first row is a scalar: the parts of the others do not change in a loop.

    Offsets of fewer than 64 bits are not split, since their additions wrap. Offsets that other ops
    read are not split either: they are computed only once.
    """
    readers = uses(function)
    return rewrite(function, {GetElementPtr.mnemonic: lambda op, walk: _split(op, walk, readers)})


def _split(op: Op, walk: Walk, readers: Mapping[Value, tuple[Op, ...]]) -> Answer:
    assert isinstance(op, GetElementPtr)
    base = walk.definition(op.pointer)
    if not isinstance(base, Splat) or base.predicate is not None or op.predicate is not None:
        return op
    if not isinstance(op.index.type, Tile) or element_of(op.index.type) is not I64:
        return op
    terms = _terms(op.index, walk, readers)
    scalars = [d.value for x in terms if isinstance(d := walk.definition(x), Splat)]
    varying = [x for x in terms if not isinstance(walk.definition(x), Splat)]
    ops: list[Op] = []

    def add(new: Op) -> Value:
        ops.append(new)
        return new.result

    copies = [isinstance(x, AsyncCopy) for x in readers.get(op.result, ())]
    for i, term in enumerate(varying if copies and all(copies) else ()):
        if (product := _ScaledRange.find(term, walk)) is not None:
            scalars.append(add(Mul(product.start, product.stride)))
            varying[i] = product.of_range(add)
    repeated = min(varying, key=lambda x: _registers(_source(x, walk).type), default=None)
    if repeated is None or len(scalars) + len(varying) == 1:
        return op
    pointer = base.value
    for scalar in scalars:
        pointer = add(GetElementPtr(pointer, scalar))
    source = _source(repeated, walk)
    if len(varying) > 1 and _registers(source.type) < _registers(base.to):
        few = with_element(source.type, cast(Tile, base.to).element)
        small = add(GetElementPtr(add(Splat(pointer, few)), source))
        pointers = add(Broadcast(small, base.to))
        varying.remove(repeated)
    elif scalars:
        pointers = add(Splat(pointer, base.to))
    else:
        return op
    return (*ops, *_chain(pointers, varying))


@attrs.frozen
class _ScaledRange:
    """A term `(start + range) * stride`, of two scalars and a range of numbers, in another shape.

    As `start * stride` and `range * stride` it takes one addition in an iteration of a loop that
    changes `start` alone. Both wrap, so they have the same sum."""

    start: Operand
    stride: Operand
    multiple: Mul
    numbers: Operand
    repeated: Operand
    """The stride for each number."""
    views: tuple[Op, ...]
    """The changes of shape, the last one first."""

    @classmethod
    def find(cls, term: Operand, walk: Walk) -> _ScaledRange | None:
        """`term` as such a range; None if it is none."""
        views: list[Op] = []
        while isinstance(view := walk.definition(term), (Broadcast, ExpandDims, Reshape)):
            views.append(view)
            term = view.inputs[0]
        product: Any = view
        if not isinstance(product, Mul):
            return None
        for total, repeated in permutations((product.lhs, product.rhs)):
            added, stride = walk.definition(total), walk.definition(repeated)
            if not isinstance(added, Add) or not isinstance(stride, Splat):
                continue
            for first, numbers in permutations((added.lhs, added.rhs)):
                start = walk.definition(first)
                if not isinstance(start, Splat) or not _is_range(numbers, walk):
                    continue
                if all(x.predicate is None for x in (product, added, stride, start, *views)):
                    return cls(start.value, stride.value, product, numbers, repeated, tuple(views))
        return None

    def of_range(self, add: Callable[[Op], Value]) -> Value:
        """The term of the range alone; `add` takes the ops that compute it."""
        value = add(Mul(self.numbers, self.repeated, location=self.multiple.location))
        for view in reversed(self.views):
            value = add(view.evolve(value=value, results=()))
        return value


def _is_range(numbers: Operand, walk: Walk) -> bool:
    """Whether `numbers` are consecutive from a literal on, in any shape."""
    while isinstance(op := walk.definition(numbers), (ExpandDims, Reshape, SExt, ZExt)):
        numbers = op.value
    return isinstance(op, MakeRange)


def _chain(pointers: Value, terms: list[Operand]) -> list[Op]:
    """Ops that add the sum of `terms` to `pointers`."""
    ops: list[Op] = []
    index = terms[0]
    for term in terms[1:]:
        ops.append(Add(index, term))
        index = ops[-1].result
    return [*ops, GetElementPtr(pointers, index)]


def _terms(index: Operand, walk: Walk, readers: Mapping[Value, tuple[Op, ...]]) -> list[Operand]:
    """The terms of `index`: the operands of its addition, where an operand that is itself an
    addition with no other reader is replaced by its terms."""
    definition = walk.definition(index)
    is_addition = isinstance(definition, Add) and definition.predicate is None
    if not is_addition or len(readers.get(cast(Value, index), ())) > 1:
        return [index]
    assert isinstance(definition, Add)
    operands = (definition.lhs, definition.rhs)
    return [term for operand in operands for term in _terms(operand, walk, readers)]


def _source(term: Operand, walk: Walk) -> Operand:
    """The value that `term` repeats; `term` itself if it repeats none."""
    definition = walk.definition(term)
    return definition.value if isinstance(definition, Broadcast) else term


def _registers(type: Type) -> int:
    """The number of elements of a tile of `type` that a thread owns."""
    layout: Any = cast(Tile, type).layout
    return layout.size("register")
