"""Statements that consist of one elementwise op. They are derived from the declarations of the op
classes: an op that is added to the IR is generated from then on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from tileir.errors import VerifyError
from tileir.op import Effects, Field, FieldKind, Op, all_ops
from tileir.ops.arith import FCmp, FloatPredicate, Select
from tileir.ops.cast import FPCast
from tileir.signature import Pattern, TypeVariable
from tileir.testing.writer import Writer, literal
from tileir.types import F32, SCALARS, Scalar, Type, element_of, with_element
from tileir.values import Operand, constant

_TYPES = tuple(SCALARS[name] for name in (
    "i32", "f32", "i1", "i64", "f16", "i8", "bf16", "f64", "i16", "f8e5m2", "f8e4m3",
))  # fmt: skip
_READ = (FieldKind.OPERAND, FieldKind.OPTIONAL)
_PROMISES = ("overflow", "fast", "exact", "ftz")
"""Attributes left at their default: with them, equal programs may give different results."""
_NO_POINTERS = ("getelementptr", "ptrtoint", "inttoptr", "addrspacecast")
_SHIFTS = ("shl", "lshr", "ashr")


def elementwise_ops() -> tuple[type[Op], ...]:
    """The op classes that `elementwise` may write, simplest first: pure or trapping ops on numbers
    that have only enumerated and boolean attributes."""
    return _among(tuple(all_ops()))


@cache
def _among(ops: tuple[type[Op], ...]) -> tuple[type[Op], ...]:
    return tuple(sorted(filter(_usable, ops), key=_complexity))


def elementwise(
    writer: Writer, cls: type[Op], digits: tuple[int, int, int],
    put: Callable[[Op], object] | None = None,
) -> None:  # fmt: skip
    """Write one op of class `cls` on live values; nothing if its types do not match. If `put` is
    not None, the op is passed to it instead of being appended."""
    for attributes in (_attributes(cls, digits[2]), _attributes(cls, 0)):
        for target in _targets(cls, digits[1]):
            try:
                op = _build(writer, cls, digits, attributes, target)
            except VerifyError:
                continue
            (put or writer.emit)(op if writer.inexact else _without_nans(writer, op))
            return


def _without_nans(writer: Writer, op: Op) -> Op:
    """`op` with NaN operands replaced if its result depends on the bits of a NaN."""
    name = _SHOWN.get(op.mnemonic)
    value: Operand | None = None if name is None else getattr(op, name)
    if name is None or value is None or not _is_float(value.type):
        return op
    compared: Operand = value
    if _bits(value.type) < 16:
        wide = FPCast(value, with_element(value.type, F32))
        writer.append(wide)
        compared = wide.results[0]
    number = FCmp(compared, compared, predicate_=FloatPredicate.ORD)
    writer.append(number)
    number_only = writer.hide(Select(number.results[0], value, constant(value.type, 1.0)))
    return op.evolve(**{name: number_only, "results": ()})


_SHOWN = {"bitcast": "value", "copysign": "rhs"}
"""Ops whose results show the bits of a NaN in an operand, which are not defined."""


def _bits(type: Type) -> int:
    element = element_of(type)
    assert isinstance(element, Scalar)
    return element.bits


def _is_float(type: Type) -> bool:
    element = element_of(type)
    return isinstance(element, Scalar) and element.is_float


def _usable(cls: type[Op]) -> bool:
    plain = all(
        f.default is not None and f.attribute is not None and f.attribute.form in ("bool", "enum")
        for f in cls.fields(FieldKind.ATTRIBUTE)
    )
    kinds = {f.kind for f in cls.schema} <= {*_READ, FieldKind.RESULT_TYPE, FieldKind.ATTRIBUTE}
    effects = cls.effects_ & ~Effects.TRAP
    allowed = cls.mnemonic not in _NO_POINTERS and "." not in cls.mnemonic
    return cls.elementwise and plain and kinds and not effects and allowed


def _complexity(cls: type[Op]) -> tuple[int, str]:
    return len(cls.schema), cls.mnemonic


def _build(
    writer: Writer,
    cls: type[Op],
    digits: tuple[int, int, int],
    attributes: Mapping[str, Any],
    target: Scalar | None,
) -> Op:
    operands = _operands(writer, cls, digits)
    if target is not None:
        (stated,) = cls.fields(FieldKind.RESULT_TYPE)
        operands[stated.name] = with_element(next(iter(operands.values())).type, target)
    return cls(**operands, **attributes)


def _operands(writer: Writer, cls: type[Op], digits: tuple[int, int, int]) -> dict[str, Any]:
    """One operand per field. Fields that bind a type variable come first."""
    bound: dict[str, Type] = {}
    chosen: dict[str, Any] = {}
    fields = sorted(cls.fields(*_READ), key=lambda f: not isinstance(f.pattern, TypeVariable))
    for index, field in enumerate(fields):
        digit = digits[index % 2] + 16 * digits[2] + index // 2
        chosen[field.name] = _operand(writer, field, digit, bound)
    if Effects.TRAP in cls.effects_:
        last = fields[-1].name
        chosen[last] = _harmless(cls, chosen[last].type, digits[1])
    return {f.name: chosen[f.name] for f in cls.fields(*_READ)}


def _operand(writer: Writer, field: Field, digit: int, bound: dict[str, Type]) -> Operand:
    pattern = cast(Pattern, field.pattern)
    expected = pattern.build(bound)
    if expected is not None:
        return writer.of_type(expected, digit)
    value = writer.pick(digit, lambda t: _fits(pattern, t, bound))
    if value is None:
        kind = next((t for t in _TYPES if _fits(pattern, t, bound)), _TYPES[0])
        pattern.match(kind, bound)
        return literal(kind, digit)
    pattern.match(value.type, bound)
    return literal(value.type, digit // 16) if digit % 16 == 15 else value


def _fits(pattern: Pattern, type: Type, bound: Mapping[str, Type]) -> bool:
    numeric = isinstance(element_of(type), Scalar)
    return numeric and pattern.match(type, dict(bound)) is None


def _harmless(cls: type[Op], type: Type, digit: int) -> Operand:
    """A divisor that is not zero, or a shift count that is not too large."""
    bits = cast(Scalar, element_of(type)).bits
    small = digit % bits if cls.mnemonic in _SHIFTS else 1 + digit % min(7, bits)
    return constant(type, bool(small) if bits == 1 else small)


def _attributes(cls: type[Op], digit: int) -> dict[str, Any]:
    """Attribute values that `digit` selects. Attributes that are promises are left out."""
    chosen: dict[str, Any] = {}
    for field in cls.fields(FieldKind.ATTRIBUTE):
        if field.name == "saturate":
            chosen[field.name] = True
        elif field.name not in _PROMISES and field.attribute is not None:
            words = list(field.attribute.enum) if field.attribute.enum else [False, True]
            chosen[field.name] = words[digit % len(words)]
    return chosen


def _targets(cls: type[Op], digit: int) -> tuple[Scalar | None, ...]:
    """The element types to try as a stated result type, starting at `digit`; (None,) if the op
    states none."""
    if not cls.fields(FieldKind.RESULT_TYPE):
        return (None,)
    start = digit % len(_TYPES)
    return _TYPES[start:] + _TYPES[:start]
