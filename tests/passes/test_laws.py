"""Every law, as it stands in the table, through the machine that the interpreter runs on.

One-operand laws see every i8 and every f16, two-operand ones every pair of i8; the rest corner
cases and random bits. Wherever the left side is defined, the right side is, with the same bits; any
NaN stands for any other.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from tileir.errors import InterpretError, VerifyError
from tileir.field import READING, SEVERAL, FieldKind
from tileir.machine import Machine, Tensor, constant, dtype_of, undef
from tileir.op import Op, lookup
from tileir.passes.laws.integers import log2
from tileir.passes.laws.law import PERMISSIONS, Law, LawBuilder
from tileir.passes.laws.terms import ApplyTerm, Name, NumberTerm, Term, names
from tileir.passes.simplify import LAWS
from tileir.types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Element,
    Pointer,
    element_of,
    pointer,
    tile,
)  # fmt: skip
from tileir.values import Constant, Operand, Undef, Value

ELEMENTS: tuple[Element, ...] = (I8, I1, I32, F16, F32, BF16, F64, pointer(F32))
INNER: tuple[Element, ...] = (I8, I32, I64, F32, F64, I16, F16, I1, pointer(F32, 0))
ROOTS: tuple[Element, ...] = (I8, I16, I32, I64, F16, F32, I1, F64, pointer(F32), pointer(I32))
LANES = 4096
LITERALS = 12


@attrs.frozen
class Instance:
    """A law with types: what its names stand for, and the ops of its left side."""

    bound: dict[str, Operand]
    ops: tuple[Op, ...]
    root: Op


@pytest.mark.sampled(8)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.text.replace(" ", ""))
def test_law(law: Law) -> None:
    tried = 0
    for element, root, inner in _typings(law):
        for literals in _literals(law, element):
            for attributes in _attributes(law.left):
                op = _instance(law, element, root, inner, literals, attributes)
                if op is None or (law.where and not law.where(dict(op.bound))):
                    continue
                right = law.build(op.root, dict(op.bound), _Definitions(op.ops))
                if right is not None:
                    _compare(law, op, right.ops, right.values)
                    tried += 1
    assert tried, "no types, or no literals, for which the law could be tried"


@pytest.mark.parametrize(
    "wrong",
    [
        Law("fadd(x, 0.0) = x"),
        Law("fadd(x, -0.0){rounding = *} = x"),
        Law("fmul(x, 1.0){ftz = *} = x"),
        Law("fsub(x, x) = 0.0"),
        Law("fmul(x, 0.0) = 0.0"),
        Law("fminnum(x, inf) = x"),
        Law("fcmp(x, x){predicate = oeq} = true, false"),
        Law("select(p, q, false) = and(p, q)"),
        Law("sdiv(x, C) = ashr(x, K)", let={"K": lambda b: log2(b["C"])}),
        Law("udiv(udiv(x, C), D) = udiv(x, mul(C, D))"),
        Law("shl(shl(x, C), D) = shl(x, add(C, D))"),
        Law("add(add(x, y), z) = add(x, y)"),
        Law("fdiv(x, C) = fmul(x, R)", let={"R": lambda b: _inexact(b["C"])}),
    ],
    ids=lambda law: law.text.replace(" ", ""),
)
def test_wrong_laws_are_caught(wrong: Law) -> None:
    with pytest.raises((AssertionError, InterpretError), match=r"lane|undefined|shift"):
        test_law(wrong)


def _inexact(divisor: Any) -> float | None:
    return 1 / divisor.value if divisor.value else None


@attrs.frozen
class _Definitions:
    """Stands for the walk: what defines a value."""

    ops: tuple[Op, ...]

    def definition(self, operand: Operand | None) -> Op | None:
        return next((op for op in self.ops if any(r is operand for r in op.results)), None)


class _Typed(LawBuilder):
    """Builds the left side, giving every op inside it that states its result the type `inner`."""

    inner: Any = None
    chosen: dict[str, Any]
    shape: tuple[int, ...]

    def attributes(self, term: ApplyTerm, cls: Any) -> dict[str, Any]:
        chosen = {
            f.name: self.chosen[f.name]
            for f in cls.fields(FieldKind.ATTRIBUTE)
            if f.name in self.chosen and _free(term, f)
        }
        return {**super().attributes(term, cls), **chosen}

    def operand(self, term: Term, type: Any) -> Operand:
        if isinstance(term, NumberTerm) and type is None:
            type = tile(I32, self.shape)
        return super().operand(term, type)

    def _apply(self, term: ApplyTerm, type: Any) -> Op:
        cls: Any = lookup(term.mnemonic)
        if type is None and cls.fields(FieldKind.RESULT_TYPE):
            type = self.inner
        return super()._apply(term, type)


def _free(term: ApplyTerm, field: Any) -> bool:
    stated = term.attributes.get(field.spelling, "")
    required = stated == "" and field.default is attrs.NOTHING
    return field.name in PERMISSIONS or stated is None or required


def _typings(law: Law) -> Iterator[tuple[Element, Element | None, Element | None]]:
    """Element types of operands, of the root and of inner ops, where these are stated."""
    stated = [_states(term) for term in _applies(law.left)]
    roots = ROOTS if stated[0] else (None, I1)
    inners = INNER if any(stated[1:]) else (None,)
    return itertools.product(ELEMENTS, roots, inners)


def _states(term: ApplyTerm) -> bool:
    cls: Any = lookup(term.mnemonic)
    return bool(cls.fields(FieldKind.RESULT_TYPE))


def _applies(term: Term) -> Iterator[ApplyTerm]:
    if isinstance(term, ApplyTerm):
        yield term
        for argument in term.arguments:
            yield from _applies(argument)


def _attributes(left: ApplyTerm) -> Iterator[dict[str, Any]]:
    """Default attributes, then each value of each attribute that a law leaves open."""
    yield {}
    for term in _applies(left):
        cls: Any = lookup(term.mnemonic)
        for field in cls.fields(FieldKind.ATTRIBUTE):
            if _free(term, field):
                for member in field.attribute.enum or (False, True):
                    if member != field.default:
                        yield {field.name: member}


def _literals(law: Law, element: Element) -> Iterator[dict[str, Constant]]:
    expected = sorted({n.name for n in names(law.left) if n.literal})
    if isinstance(element, Pointer):
        element = I32
    generator = random.Random(law.text)
    bits = element.bits
    corners = [0, 1, 2, 3, 4, 7, 8, 16, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    corners = [c % (1 << bits) for c in corners]
    if element.is_float:
        corners = [int(b) for b in _special(element)]
    pool = [*corners, *(generator.getrandbits(bits) for _ in range(8))]
    if not expected:
        yield {}
        return
    for _ in range(LITERALS * len(expected)):
        yield {name: Constant(element, generator.choice(pool)) for name in expected}


def _instance(
    law: Law,
    element: Element,
    root: Element | None,
    inner: Element | None,
    literals: dict[str, Constant],
    attributes: dict[str, Any],
) -> Instance | None:
    """The left side with types, or None where no ops have them."""
    free = sorted({n.name for n in names(law.left)} - set(literals) - _attribute_names(law.left))
    lanes = _lane_count(element, len(free))
    shape = (lanes,)
    bound: dict[str, Operand] = {}
    for name, literal in literals.items():
        bound[name] = Constant(tile(element_of(literal.type), shape), literal.bits)  # type: ignore[arg-type]
    for name in free:
        bound[name] = Value(tile(I1 if name in "pq" else element, shape), name)
    builder = _Typed(bound, _Definitions(()).definition)
    builder.inner = None if inner is None else tile(inner, shape)
    builder.chosen, builder.shape = attributes, shape
    builder.definition = lambda v: _Definitions(tuple(builder.ops)).definition(v)  # type: ignore[method-assign]
    try:
        builder.operand(law.left, None if root is None else tile(root, shape))
    except (VerifyError, TypeError, AttributeError, OverflowError):
        return None
    return Instance(builder.bound, tuple(builder.ops), builder.ops[-1])


def _attribute_names(term: Term) -> set[str]:
    return {a.name for a in _applies(term) if a.name is not None}


def _lane_count(element: Element, variables: int) -> int:
    if element is I8 and variables <= 2:
        return 256**variables if variables else 1
    return 65536 if element is F16 and variables == 1 else LANES


def _compare(
    law: Law, instance: Instance, ops: tuple[Op, ...], values: tuple[Operand, ...]
) -> None:
    generator = np.random.default_rng(zlib.crc32(law.text.encode()))
    for with_undef in (False, True):
        inputs = _inputs(instance, generator, with_undef)
        machine, env = Machine(), dict(inputs)
        lanes = next(iter(_shape(v) for v in instance.root.results))
        active = np.ones(lanes, bool)
        for op in instance.ops:
            active &= ~_trapping(op, env)
        machine.active = active
        with np.errstate(all="ignore"):
            _run(instance.ops, env, machine)
            expected = [env[r] for r in instance.root.results]
            _run(ops, env, machine)
            actual = [_value(v, env) for v in values]
        for left, right in zip(expected, actual, strict=True):
            _check(left, right, active, law.text)


def _check(left: Tensor, right: Tensor, active: Any, text: str) -> None:
    defined = active if left.undef is None else active & ~left.undef
    if right.undef is not None:
        assert not (right.undef & defined).any(), f"{text}: the right side is undefined"
    same = _bits(left) == _bits(right)
    if left.data.dtype.kind not in "biu":
        same = same | (_nan(left) & _nan(right))
    wrong = defined & ~same
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise AssertionError(f"{text}: {left.data[lane]} and {right.data[lane]} at lane {lane}")


def _nan(tensor: Tensor) -> Any:
    with np.errstate(invalid="ignore"):
        return np.isnan(np.asarray(tensor.data).astype(np.float64))


def _run(ops: tuple[Op, ...], env: dict[Value, Tensor], machine: Machine) -> None:
    for op in ops:
        arguments: list[Any] = []
        for field in op.fields(*READING):
            inputs = getattr(op, field.name)
            several = field.kind in SEVERAL
            arguments.append(
                tuple(_value(v, env) for v in inputs) if several
                else None if inputs is None else _value(inputs, env)
            )  # fmt: skip
        answer = op.evaluate(machine, *arguments)
        answers = answer if isinstance(answer, tuple) else (answer,)
        env.update(zip(op.results, answers, strict=True))


def _value(operand: Operand, env: dict[Value, Tensor]) -> Tensor:
    if isinstance(operand, Value):
        return env[operand]
    return undef(operand.type) if isinstance(operand, Undef) else constant(operand)


def _trapping(op: Op, env: dict[Value, Tensor]) -> Any:
    """Lanes in which `op`, whose operands are inputs or literals, has no meaning."""
    if op.mnemonic in ("sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr"):
        divisor = op.inputs[1]
        if isinstance(divisor, Value) and divisor not in env:
            return np.zeros(_shape(divisor), bool)
        count = _bits(_value(divisor, env))
        if op.mnemonic in ("shl", "lshr", "ashr"):
            return count >= element_of(divisor.type).bits  # type: ignore[union-attr]
        return count == 0
    return np.zeros(_shape(op.results[0]), bool)


def _shape(value: Operand) -> Any:
    return value.type.shape  # type: ignore[union-attr]


def _bits(tensor: Tensor) -> Any:
    data = np.ascontiguousarray(tensor.data)
    return data.view(f"u{data.dtype.itemsize}")


def _inputs(instance: Instance, generator: Any, with_undef: bool) -> dict[Value, Tensor]:
    values = [v for v in instance.bound.values() if isinstance(v, Value)]
    free = [v for v in values if not any(v in op.results for op in instance.ops)]
    by_value: dict[Value, Tensor] = {}
    for position, value in enumerate(free):
        data = _lanes(value, position, len(free), generator)
        missing = generator.random(data.shape) < 0.25 if with_undef else None
        by_value[value] = Tensor(data, missing)
    return by_value


def _lanes(value: Value, position: int, count: int, generator: Any) -> Any:
    element, (lanes,) = element_of(value.type), _shape(value)
    dtype = dtype_of(value.type)
    if element is I1:
        return (np.arange(lanes) >> position & 1).astype(bool) ^ (generator.random(lanes) < 0.3)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if element is I8 and count <= 2:
        return ((np.arange(lanes) >> (8 * position)) & 255).astype(unsigned).view(dtype)
    if element is F16 and count == 1:
        return np.arange(65536, dtype=np.uint16).view(dtype)
    bits = generator.integers(0, 1 << 63, lanes, np.uint64) * 2 + generator.integers(0, 2, lanes)
    bits = bits.astype(np.uint64)
    special = _special(element)  # type: ignore[arg-type]
    pick = generator.integers(0, len(special), lanes)
    mixed = np.where(generator.random(lanes) < 0.5, np.array(special, np.uint64)[pick], bits)
    return mixed.astype(unsigned).view(dtype)


def _special(element: Element) -> list[int]:
    """Bits of corner cases: zeros, ones, infinities, NaNs, subnormals, extremes, small powers."""
    bits = 64 if isinstance(element, Pointer) else element.bits
    if not element.is_float:
        low = 1 << (bits - 1)
        return [n % (1 << bits) for n in (0, 1, 2, 3, 8, -1, -2, low, low - 1)]
    from tileir.values import encode

    numbers = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.25, -4.0, 3.0, 1e30, -1e30, 1e-40, 6e-8, 1e-310)
    results = [encode(element, n) for n in numbers]
    results += [encode(element, float("inf")), encode(element, float("-inf"))]
    quiet = encode(element, float("nan"))
    return [*results, quiet, quiet | 1, quiet | 1 << (bits - 1), 1, 1 << (bits - 1) | 1]


def test_names_are_bound() -> None:
    for law in LAWS:
        bound = {n.name for n in names(law.left)} | _attribute_names(law.left) | set(law.let)
        for term in law.right:
            bound |= _attribute_names(term)
            assert {n.name for n in names(term)} <= bound, law.text


def test_no_law_grows() -> None:
    """The right side has at most as many ops as the left, ops of literals apart: they fold."""
    for law in LAWS:
        left = sum(1 for _ in _applies(law.left))
        right = sum(1 for t in law.right for a in _applies(t) if not _of_literals(a))
        assert right <= left, law.text


def _of_literals(term: ApplyTerm) -> bool:
    return all(
        (isinstance(a, Name) and a.literal) or (isinstance(a, ApplyTerm) and _of_literals(a))
        or not isinstance(a, (Name, ApplyTerm))
        for a in term.arguments
    )  # fmt: skip
