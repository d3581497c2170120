"""Affine addresses: a uniform base plus a step per dimension of the tile.

Addresses are computed modulo 2^32 bytes: addition, multiplication and changes of width preserve the
residue modulo 2^32 even where they wrap, and addresses with different residues are different. Only
integers of at least 32 bits are analysed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any, TypeAlias

import attrs

from tileir.analysis import memoize
from tileir.analysis.cfg import cfg
from tileir.effects import Effects
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, Scalar, Tile, Type, element_of, shape_of
from tileir.values import Constant, Operand, Value

_MODULUS = 1 << 32

Terms: TypeAlias = "frozenset[tuple[Value, int]]"
Labels: TypeAlias = "frozenset[str]"


@attrs.frozen
class AffineMod32:
    """The value at coordinates `x`, modulo 2^32: the sum of `terms` (uniform values with their
    coefficients), plus `start`, plus `strides` times `x`."""

    terms: Terms
    start: int
    strides: tuple[int, ...] = ()

    def plus_multiple(self, other: AffineMod32, times: int) -> AffineMod32:
        """This plus `times` times `other`."""
        coefficients = dict(self.terms)
        for value, by in other.terms:
            coefficients[value] = _to_signed(coefficients.get(value, 0) + by * times)
        pairs = zip(self.strides, other.strides, strict=True)
        strides = tuple(_to_signed(a + b * times) for a, b in pairs)
        terms = frozenset((v, by) for v, by in coefficients.items() if by)
        return AffineMod32(terms, _to_signed(self.start + other.start * times), strides)

    def interval(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The least and the greatest value over a tile of `shape`, without `terms`."""
        ends = [step * (n - 1) for step, n in zip(self.strides, shape, strict=True)]
        low, high = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)
        return self.start + low, self.start + high


@attrs.frozen
class AddressForms:
    """`forms` are the affine forms of integers and pointers. `changes` are, for each term, the
    labels of the blocks that change its value when they run."""

    forms: Mapping[Value, AffineMod32]
    changes: Mapping[Value, Labels]

    def of(self, operand: Operand) -> AffineMod32 | None:
        """The affine form of `operand`; None if it has none."""
        return self.forms.get(operand) if isinstance(operand, Value) else None

    def stays(self, form: AffineMod32, label: str) -> bool:
        """Whether `form` has the same value after block `label` runs once more."""
        return not any(label in self.changes[value] for value, _ in form.terms)


@memoize
def addresses(function: Function) -> AddressForms:
    """The affine addresses of `function`. A loop-carried tile is affine if every iteration adds the
    same number to all elements."""
    broken: set[Value] = set()
    while True:
        walk = _Walk(function, broken)
        wrong = walk.wrong()
        if not wrong:
            return AddressForms(walk.forms, walk.changes)
        broken |= wrong


class _Walk:
    """One walk over a function in which `broken` parameters of blocks are not affine."""

    def __init__(self, function: Function, broken: set[Value]) -> None:
        self.function, self.broken = function, broken
        self.forms: dict[Value, AffineMod32] = {}
        self.changes: dict[Value, Labels] = {}
        self.first: dict[Any, Value] = {}
        self.same: dict[Value, Value] = {}
        self.incoming = _incoming(function)
        for parameter in function.parameters:
            self._opaque(parameter.value, frozenset())
        for label in cfg(function).order:
            for value in function.blocks[label].parameters:
                self._parameter(value, label)
            for op in function.blocks[label].ops:
                if len(op.results) == 1:
                    self._op(op, label)

    def wrong(self) -> set[Value]:
        """Loop-carried tiles that do not advance as was assumed."""
        values: set[Value] = set()
        for value, arguments in self.incoming.items():
            mine = self.forms.get(value)
            if mine is not None and shape_of(value.type):
                forms = [self.form(a) for a in arguments]
                if any(o is None or o.strides != mine.strides for o in forms):
                    values.add(value)
        return values

    def form(self, operand: Operand) -> AffineMod32 | None:
        if isinstance(operand, Value):
            return self.forms.get(operand)
        if not isinstance(operand, Constant) or not _is_tracked(operand.type):
            return None
        return AffineMod32(
            frozenset(), _to_signed(operand.bits), (0,) * len(shape_of(operand.type))
        )

    def _opaque(self, value: Value, labels: Labels, strides: tuple[int, ...] = ()) -> None:
        self.changes[value] = labels
        if _is_tracked(value.type) and len(strides) == len(shape_of(value.type)):
            self.forms[value] = AffineMod32(frozenset({(value, 1)}), 0, strides)

    def _parameter(self, value: Value, label: str) -> None:
        forms = [f for a in self.incoming.get(value, ()) if (f := self.form(a)) is not None]
        strides = forms[0].strides if forms and value not in self.broken else ()
        self._opaque(value, frozenset({label}), strides)

    def _op(self, op: Op, label: str) -> None:
        (result,) = op.results
        pure = not op.effects & ~Effects.TRAP
        inputs = [self.changes.get(v, frozenset()) for v in op.inputs if isinstance(v, Value)]
        labels: Labels = frozenset().union(*inputs) if pure else frozenset({label})
        self.changes[result] = labels
        if not _is_tracked(result.type):
            if pure and not isinstance(result.type, Tile):
                self.same[result] = self._first_like(op)
            return
        rule = RULES.get(op.mnemonic)
        form = rule(op, self.form) if rule is not None and op.predicate is None else None
        if form is not None:
            self.forms[result] = form
        elif not isinstance(result.type, Tile):
            representative = self._first_like(op) if pure else result
            self.same[result] = representative
            self.forms[result] = AffineMod32(frozenset({(representative, 1)}), 0)

    def _first_like(self, op: Op) -> Value:
        """The first value that is computed by an op equal to `op`."""
        inputs = tuple([self.same.get(v, v) if type(v) is Value else v for v in op.inputs])
        words = [getattr(op, f.name) for f in op.fields(FieldKind.ATTRIBUTE, FieldKind.SYMBOL)]
        key = (type(op), op.results[0].type, op.predicate, inputs, *words)
        return self.first.setdefault(key, op.results[0])


_Form: TypeAlias = Callable[[Operand], "AffineMod32 | None"]


def _incoming(function: Function) -> dict[Value, list[Operand]]:
    """The arguments that the edges pass, by block parameter."""
    operands: dict[Value, list[Operand]] = {}
    for label in cfg(function).order:
        for edge in function.blocks[label].successors:
            target = function.blocks[edge.label]
            for value, argument in zip(target.parameters, edge.arguments, strict=True):
                operands.setdefault(value, []).append(argument)
    return operands


def _is_tracked(type: Type) -> bool:
    element = element_of(type)
    if isinstance(element, Scalar):
        return element.is_integer and element.bits >= 32
    return isinstance(element, Pointer)


def _to_signed(number: int) -> int:
    """The representative nearest to 0."""
    residue = number % _MODULUS
    return residue - _MODULUS if residue >= _MODULUS >> 1 else residue


def _range(op: Any, form: _Form) -> AffineMod32:
    return AffineMod32(frozenset(), op.start, (1,))


def _splat(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.value)
    return source and attrs.evolve(source, strides=(0,) * len(shape_of(op.results[0].type)))


def _unsplat(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.value)
    return source and attrs.evolve(source, strides=())


def _expand_dims(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.value)
    if source is None:
        return None
    return attrs.evolve(source, strides=(*source.strides[: op.axis], 0, *source.strides[op.axis :]))


def _broadcast(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.value)
    if source is None:
        return None
    pairs = zip(source.strides, shape_of(op.value.type), strict=True)
    return attrs.evolve(source, strides=tuple(0 if n == 1 else step for step, n in pairs))


def _trans(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.value)
    return source and attrs.evolve(source, strides=tuple(source.strides[d] for d in op.order))


def _reshape(op: Any, form: _Form) -> AffineMod32 | None:
    """The form of a tile whose elements have a constant stride in row-major order."""
    source, new = form(op.value), shape_of(op.results[0].type)
    if source is None:
        return None
    old = [(n, s) for n, s in zip(shape_of(op.value.type), source.strides, strict=True) if n > 1]
    step = old[-1][1] if old else 0
    below = 1
    for extent, stride in reversed(old):
        if stride != _to_signed(step * below):
            return _in_units(source, old, new)
        below *= extent
    strides = tuple(_to_signed(step * prod(new[d + 1 :])) for d in range(len(new)))
    return attrs.evolve(source, strides=strides)


def _in_units(
    source: AffineMod32, old: list[tuple[int, int]], new: tuple[int, ...]
) -> AffineMod32 | None:
    """The form of a tile that only gains and loses dimensions of extent 1."""
    if [n for n, _ in old] != [n for n in new if n > 1]:
        return None
    steps = iter([s for _, s in old])
    return attrs.evolve(source, strides=tuple(next(steps) if n > 1 else 0 for n in new))


def _same(op: Any, form: _Form) -> AffineMod32 | None:
    return form(op.inputs[0])


def _cast(op: Any, form: _Form) -> AffineMod32 | None:
    return form(op.value) if _is_tracked(op.value.type) else None


def _pointer_cast(op: Any, form: _Form) -> AffineMod32 | None:
    """The same address, whatever it points to."""
    return form(op.value) if isinstance(element_of(op.value.type), Pointer) else None


def _add_scaled(coefficient: int) -> Callable[[Any, _Form], AffineMod32 | None]:
    def rule(op: Any, form: _Form) -> AffineMod32 | None:
        a, b = (form(v) for v in op.inputs)
        return None if a is None or b is None else a.plus_multiple(b, coefficient)

    return rule


def _multiply(op: Any, form: _Form) -> AffineMod32 | None:
    for a, b in (op.inputs, reversed(op.inputs)):
        if isinstance(b, Constant) and (source := form(a)) is not None:
            return _zero(source).plus_multiple(source, b.bits)
    return None


def _shift(op: Any, form: _Form) -> AffineMod32 | None:
    value, by = op.inputs
    source = form(value)
    if source is None or not isinstance(by, Constant) or by.bits >= 32:
        return None
    return _zero(source).plus_multiple(source, 1 << by.bits)


def _negative(op: Any, form: _Form) -> AffineMod32 | None:
    source = form(op.inputs[0])
    return None if source is None else _zero(source).plus_multiple(source, -1)


def _element(op: Any, form: _Form) -> AffineMod32 | None:
    pointer, index = form(op.pointer), form(op.index)
    if pointer is None or index is None:
        return None
    return pointer.plus_multiple(index, element_of(op.pointer.type).pointee.bytes)  # type: ignore[union-attr]


def _zero(like: AffineMod32) -> AffineMod32:
    return AffineMod32(frozenset(), 0, (0,) * len(like.strides))


def _for_names(names: Iterable[str], rule: Any) -> dict[str, Any]:
    return dict.fromkeys(names, rule)


RULES: Mapping[str, Callable[[Any, _Form], AffineMod32 | None]] = {
    "make_range": _range,
    "splat": _splat,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "trans": _trans,
    "reshape": _reshape,
    "add": _add_scaled(1),
    "sub": _add_scaled(-1),
    "mul": _multiply,
    "shl": _shift,
    "neg": _negative,
    "getelementptr": _element,
    **_for_names(("sext", "zext", "trunc"), _cast),
    **_for_names(("gpu.convert_layout", "multiple_of", "contiguous", "constant_run"), _same),
    "unsplat": _unsplat,
    "bitcast": _pointer_cast,
}
"""The affine form of an op's result, by mnemonic."""
