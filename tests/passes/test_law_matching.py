"""Every law applies to its own left side, the operands of a commutative root in either order, and
to nothing that differs; how laws are written."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import attrs
import pytest

from tests.passes import test_laws as laws
from tests.sizes import few_or_all, for_each
from tileir.errors import VerifyError
from tileir.field import FieldKind
from tileir.op import Op
from tileir.ops.arith import Add, And, ICmp, IntegerPredicate, Or, Sub, Xor
from tileir.ops.floats import FAdd
from tileir.ops.memory import Load
from tileir.ops.shape import ExpandDims, GetElementPtr
from tileir.passes.laws.law import PERMISSIONS, Law, rules
from tileir.passes.laws.terms import ApplyTerm, Name, NumberTerm, names, parse_equation
from tileir.passes.simplify import LAWS
from tileir.rewrite import Replace
from tileir.types import F32, I1, I8, I32, I64, pointer, tile
from tileir.values import Constant, Value, constant

X, Y, Z = Value(I32, "x"), Value(I32, "y"), Value(I32, "z")


_MADE: dict[int, tuple[laws.Instance, ...]] = {}


def instances(law: Law) -> tuple[laws.Instance, ...]:
    """Instances of one of `LAWS` to which it applies, one for every way of giving it types."""
    if id(law) not in _MADE:
        _MADE[id(law)] = tuple(_instances(law))
    return _MADE[id(law)]


def _instances(law: Law) -> Iterator[laws.Instance]:
    for element, root, inner in laws._typings(law):
        for literals, attributes in itertools.product(
            laws._literals(law, element), list(laws._attributes(law.left))
        ):
            instance = laws._instance(law, element, root, inner, literals, attributes)
            if instance is None or (law.where and not law.where(dict(instance.bound))):
                continue
            if (
                law.build(instance.root, dict(instance.bound), laws._Definitions(instance.ops))
                is not None
            ):
                yield instance
                break


def commuted_instances(instance: laws.Instance) -> Iterator[laws.Instance]:
    """The instance with the operands of a commutative root exchanged, where no literals."""
    op = instance.root
    first, second, *_ = (*op.inputs, None, None)
    values = isinstance(first, Value) and isinstance(second, Value)
    if op.commutative and values and _made_by(instance, first) != _made_by(instance, second):
        left, right = op.schema[0].name, op.schema[1].name
        other = op.evolve(**{left: second, right: first})
        yield laws.Instance(instance.bound, (*instance.ops[:-1], other), other)


def _made_by(instance: laws.Instance, value: Value) -> Op | None:
    return laws._Definitions(instance.ops).definition(value)


@pytest.mark.parametrize("chosen", few_or_all(LAWS[::4], LAWS), ids=["some", "all"])
def test_a_law_applies_to_its_left_side(chosen: Sequence[Law]) -> None:
    for law in chosen:
        applies_to_its_left_side(law)


def applies_to_its_left_side(law: Law) -> None:
    rule, count = rules([law]), 0
    for instance in instances(law):
        for each in (instance, *commuted_instances(instance)):
            assert rule(each.root, laws._Definitions(each.ops)) is not each.root, each.ops
            assert law(each.root, laws._Definitions(each.ops)) is not None
            count += 1
    assert count


ASKING = [each for each in LAWS if "add(x, 0)" not in each.text]


@pytest.mark.parametrize("chosen", few_or_all(ASKING[1::4], ASKING), ids=["some", "all"])
def test_a_law_does_not_apply_without_what_it_asks_for(chosen: Sequence[Law]) -> None:
    for law in chosen:
        does_not_apply_without_what_it_asks_for(law)


def does_not_apply_without_what_it_asks_for(law: Law) -> None:
    """Ops inside the left side are taken away, literals made unknown, equal operands told apart."""
    instance = instances(law)[0]
    inner = [op for op in instance.ops if op is not instance.root]
    for op in inner:
        rest = tuple(other for other in instance.ops if other is not op)
        assert law(instance.root, laws._Definitions(rest)) is None
    for changed in _generalized_ops(instance.root):
        assert law(changed, laws._Definitions((*inner, changed))) is None, changed


@for_each("law", LAWS)
def test_a_law_does_not_apply_to_other_attributes(law: Law) -> None:
    for instance in instances(law):
        inner = tuple(op for op in instance.ops if op is not instance.root)
        for changed in _with_other_attributes(law, instance.root):
            assert law.match(changed, laws._Definitions((*inner, changed))) is None, changed  # type: ignore[arg-type]


def _with_other_attributes(law: Law, op: Op) -> Iterator[Op]:
    """`op` with another value of an attribute that the law states or has at its default."""
    for field in op.fields(FieldKind.ATTRIBUTE):
        kind, old = field.attribute, getattr(op, field.name)
        if field.name in PERMISSIONS or laws._free(law.left, field) or kind is None:
            continue
        others = kind.enum or ((False, True) if kind.form == "bool" else ())
        for other in others:
            if other != old:
                with contextlib.suppress(VerifyError):
                    yield op.evolve(**{field.name: other})


def test_attributes_that_a_law_states() -> None:
    def matches(law: str, op: Op) -> bool:
        return Law(law).match(op, laws._Definitions(())) is not None  # type: ignore[arg-type]

    pointer_, row = Value(pointer(F32), "p"), Value(tile(I32, (4,)), "r")
    for stated in (True, False):
        law = f"load(x){{volatile = {str(stated).lower()}}} = x"
        for volatile in (True, False):
            assert matches(law, Load(pointer_, volatile=volatile)) is (stated is volatile)
    for axis in (0, 1):
        assert matches("expand_dims(x){axis = 1} = x", ExpandDims(row, axis=axis)) is (axis == 1)
    law = "icmp(x, y){predicate = slt} = true, false"
    for word in ("slt", "sle", "eq"):
        test = ICmp(X, Y, predicate_=IntegerPredicate(word))
        assert matches(law, test) is (word == "slt")


def _generalized_ops(op: Op) -> Iterator[Op]:
    """`op` with one of its literals unknown, or one of two equal operands another value."""
    for field in op.schema:
        if field.kind is not FieldKind.OPERAND:
            continue
        old = getattr(op, field.name)
        twice = sum(other is old for other in op.inputs) > 1
        if isinstance(old, Constant) or twice:
            yield op.evolve(**{field.name: Value(old.type, "other")}, results=())


def apply_law(law: str, op: Op, *before: Op) -> object:
    return Law(law)(op, laws._Definitions(before))


def test_names_matched_twice() -> None:
    assert apply_law("sub(x, x) = 0", Sub(X, X)) == Replace((constant(I32, 0),))
    assert apply_law("sub(x, x) = 0", Sub(X, Y)) is None
    seven = constant(I32, 7)
    assert apply_law("add(C, C) = 0", Add(seven, constant(I32, 7))) is not None
    assert apply_law("add(C, C) = 0", Add(seven, constant(I32, 8))) is None
    assert apply_law("add(C, D) = 0", Add(seven, X)) is None


def test_a_law_tries_both_orders_and_forgets_the_first() -> None:
    inner = And(X, Y)
    z = inner.result
    for op in (Or(z, Y), Or(Y, z)):
        assert apply_law("or(and(x, y), y) = y", op, inner) == Replace((Y,))
    assert apply_law("or(and(x, y), y) = y", Or(z, Z), inner) is None


def test_results_by_their_number() -> None:
    test = ICmp(X, Y, predicate_=IntegerPredicate.SLT)
    first, second = test.results
    law = "and(p: icmp(x, y){predicate = *}, p#1) = false"
    assert apply_law(law, And(first, second), test) == Replace((constant(I1, False),))
    assert apply_law(law, And(first, first), test) is None
    other = ICmp(X, Y, predicate_=IntegerPredicate.SLT)
    assert apply_law(law, And(first, other.results[1]), test, other) is None
    second_alone = "xor(icmp#1(x, y){predicate = *}, true) = true"
    assert apply_law(second_alone, Xor(second, constant(I1, True)), test) is not None
    assert apply_law(second_alone, Xor(first, constant(I1, True)), test) is None


def test_literals_match_their_own_kind() -> None:
    f, p = Value(F32, "f"), Value(pointer(F32), "p")
    assert apply_law("fadd(x, 1.0) = x", FAdd(f, constant(F32, 1.0)))
    assert apply_law("fadd(x, 1) = x", FAdd(f, constant(F32, 1.0))) is None
    assert apply_law("add(x, 1.0) = x", Add(X, constant(I32, 1))) is None
    assert apply_law("and(x, true) = x", And(X, constant(I32, 1))) is None
    flag = Value(I1, "c")
    assert apply_law("and(x, true) = x", And(flag, constant(I1, True)))
    assert apply_law("add(x, 300) = x", Add(Value(I8, "b"), constant(I8, 44))) is None
    assert apply_law("getelementptr(x, 0) = x", GetElementPtr(p, constant(I64, 0)))


def test_literals_are_looked_for_on_the_right_alone() -> None:
    zero = constant(I32, 0)
    assert apply_law("add(x, 0) = x", Add(X, zero)) == Replace((X,))
    assert apply_law("add(x, 0) = x", Add(zero, X)) is None
    assert apply_law("add(x, C) = C", Add(zero, X)) is None


def test_a_null_pointer_is_zero() -> None:
    null = Constant(pointer(I32), 0)
    test = ICmp(Value(pointer(I32), "p"), null, predicate_=IntegerPredicate.EQ)
    assert apply_law("icmp(x, 0){predicate = eq} = false, true", test) is not None
    for word in ("0.0", "1", "false"):
        assert apply_law(f"icmp(x, {word}){{predicate = eq}} = false, true", test) is None
    other = ICmp(
        Value(pointer(I32), "p"), Constant(pointer(I32), 8), predicate_=IntegerPredicate.EQ
    )
    assert apply_law("icmp(x, 0){predicate = eq} = false, true", other) is None


def test_what_is_put_in_carries_the_predicate() -> None:
    flag, law = Value(I1, "c"), "sub(x, y) = add(x, neg(y))"
    assert [op.predicate for op in _ops(law, Sub(X, Y, predicate=flag))] == [flag, flag]
    assert [op.predicate for op in _ops(law, Sub(X, Y))] == [None, None]


def _ops(law: str, op: Op) -> tuple[Op, ...]:
    result = apply_law(law, op)
    assert isinstance(result, tuple)
    return result


def test_literals_on_the_right_take_the_type_of_what_is_next_to_them() -> None:
    wide = Value(tile(I8, (4,)), "t")
    (ops,) = _ops("add(x, y) = sub(3, x)", Add(wide, Value(wide.type, "u")))
    assert ops.inputs == (Constant(wide.type, 3), wide)
    (ops,) = _ops("add(x, y) = sub(x, 3)", Add(wide, Value(wide.type, "u")))
    assert ops.inputs == (wide, Constant(wide.type, 3))


@for_each(
    ("text", "message"),
    [
        ("x = y", "must be an op"),
        ("0 = y", "must be an op"),
        ("add(x, y) = x y", "unexpected 'y'"),
        ("add(x, y) = x)", r"unexpected '\)'"),
        ("add(x, $) = x", "malformed"),
        ("add(x, y)", "expected '='"),
        ("add(x, y) =", "expected None, not ''"),
        ("add(x, y", "expected None, not ''"),
        ("add#0 x = y", "expected '='|must be an op"),
        ("p: (x) = y", r"expected '\('"),
    ],
)
def test_malformed_laws(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_equation(text)


def test_the_notation() -> None:
    left, right = parse_equation("f{a = b, c = *} = x".replace("f{", "f(x, -1, 2.5, y#1, inf){"))
    arguments = (Name("x"), NumberTerm(-1), NumberTerm(2.5), Name("y", 1), NumberTerm(float("inf")))
    assert left == ApplyTerm("f", arguments, {"a": "b", "c": None}, 0, None)
    assert right == (Name("x"),)
    left, right = parse_equation("p: g#1(h(x), true) = p#1, y, 0")
    assert left == ApplyTerm("g", (ApplyTerm("h", (Name("x"),)), NumberTerm(True)), {}, 1, "p")
    assert right == (Name("p", 1), Name("y"), NumberTerm(0))
    assert [n.name for n in names(left)] == ["x"]
    assert (Name("C").literal, Name("c").literal) == (True, False)


def test_a_right_side_of_another_type_does_not_stand() -> None:
    test = ICmp(X, Y, predicate_=IntegerPredicate.EQ)
    for right in ("x, true", "true, x", "x, y"):
        assert apply_law(f"icmp(x, y){{predicate = eq}} = {right}", test) is None
    assert apply_law("icmp(x, y){predicate = eq} = true, false", test) is not None


def test_general_rules_go_first_then_those_named_then_laws() -> None:
    law = Law("sub(x, y) = x")

    def first(op: Op, _: object) -> object:
        return Y if op.inputs[0] is Z else op

    def second(op: Op, _: object) -> object:
        return Z if op.inputs[1] is Z else op

    rule = rules([law], first=(first,), by_mnemonic={"sub": second})  # type: ignore[arg-type]
    walk = laws._Definitions(())
    assert rule(Sub(Z, Z), walk) is Y
    assert rule(Sub(X, Z), walk) is Z
    assert rule(Sub(X, Y), walk) == Replace((X,))
    plain = Add(X, Y)
    assert rule(plain, walk) is plain
    assert attrs.evolve(law, where=lambda _: False)(Sub(X, Y), walk) is None
