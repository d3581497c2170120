"""What every op gets from its declaration."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.errors import Location, VerifyError
from tileir.op import OPS, Op, Successor, lookup, op
from tileir.ops.arith import IntegerPredicate
from tileir.types import F32, I1, I32, Pointer, Tile
from tileir.values import Operand, Undef, Value, constant


def make(mnemonic: str) -> type[Op]:
    entry = lookup(mnemonic)
    assert entry is not None
    return entry


ROW = Tile(I32, (64,))
A, B = Value(ROW, "a"), Value(ROW, "b")
HERE = Location("k.tir", 3, 5)


def test_results_are_inferred() -> None:
    op = make("add")(A, B)
    assert [v.type for v in op.results] == [ROW]
    assert op.inputs == op.operands == (A, B)


def test_literals_and_undef_are_operands() -> None:
    op = make("add")(A, constant(ROW, 1))
    assert op.remap({A: Undef(ROW)}).inputs == (Undef(ROW), constant(ROW, 1))


@for_each(
    ("arguments", "attributes", "code", "operand"),
    [
        ((A, Value(I32)), {}, "TIR0101", "rhs"),
        ((Value(F32), Value(F32)), {}, "TIR0101", "lhs"),
        ((A, 3), {}, "TIR0105", "rhs"),
        ((A, None), {}, "TIR0105", "rhs"),
        ((A, B), {"overflow": "nsw"}, "TIR0106", "overflow"),
        ((A, B), {"overflow": []}, "TIR0106", "overflow"),
        ((A, B), {"predicate": Value(ROW)}, "TIR0104", "predicate"),
        ((A, B), {"predicate": Value(Tile(I1, (32,)))}, "TIR0104", "predicate"),
        ((A, B), {"results": (Value(I32),)}, "TIR0102", "results"),
        ((A, B), {"results": (Value(ROW), Value(ROW))}, "TIR0102", "results"),
    ],
)
def test_construction_checks(
    arguments: tuple[object, ...], attributes: dict[str, object], code: str, operand: str
) -> None:
    with pytest.raises(VerifyError) as caught:
        make("add")(*arguments, **attributes, location=HERE)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert (caught.value.line, caught.value.column) == (3, 5)
    assert caught.value.diagnostics[0].operand == operand


def test_results_that_are_given_have_the_types_in_order() -> None:
    compare = make("icmp")
    mask = Tile(I1, (64,))
    results = (Value(mask), Value(mask))
    word = IntegerPredicate.SLT
    assert compare(A, B, predicate_=word, results=results).results == results
    for wrong in ((Value(mask), Value(I1)), (Value(I1), Value(mask)), (Value(mask),)):
        with pytest.raises(VerifyError) as caught:
            compare(A, B, predicate_=word, results=wrong)
        assert caught.value.code == "TIR0102"


def test_a_check_is_repeated_after_it_failed() -> None:
    for _ in range(2):
        with pytest.raises(VerifyError):
            make("add")(Value(F32), Value(F32))


@pytest.mark.parametrize("type_", [I1, Tile(I1, (64,))])
def test_predicates_are_scalar_or_of_the_shape(type_: Tile) -> None:
    mask = Value(type_)
    op = make("add")(A, B, predicate=mask)
    assert op.operands == (A, B, mask)
    assert make("add")(A, B).key() != op.key()


@pytest.mark.parametrize(
    ("operand", "wrong", "expected"),
    [
        (Value(I32), Value(I32), "predicate must be i1, not i32"),
        (Value(I32), Value(Tile(I1, (64,))), "predicate must be i1, not i1<64>"),
        (A, Value(I32), "predicate must be i1 or i1<64>, not i32"),
        (A, Value(Tile(I1, (32,))), "predicate must be i1 or i1<64>, not i1<32>"),
    ],
)
def test_a_wrong_predicate_is_told_what_it_may_be(
    operand: Value, wrong: Value, expected: str
) -> None:
    with pytest.raises(VerifyError, match=expected):
        make("add")(operand, operand, predicate=wrong)


def test_a_jump_goes_to_its_target_on_every_machine() -> None:
    target = Successor("x", (A,))
    assert make("br")(target).evaluate(None) is target


def test_terminators_take_no_predicate() -> None:
    with pytest.raises(VerifyError) as caught:
        make("br")(Successor("x"), predicate=Value(I1))
    assert caught.value.code == "TIR0103"


def test_remap_of_nothing_is_the_same_object() -> None:
    op = make("add")(A, B)
    assert op.remap({}) is op
    assert op.remap({Value(ROW): B}) is op


def test_remap_keeps_results_where_types_hold() -> None:
    op = make("add")(A, B)
    assert op.remap({A: B}).result is op.result
    wide = Value(Tile(I32, (8,)))
    changed = make("add")(A, A).remap({A: wide})
    assert changed.result.type is wide.type


def test_remap_reaches_edges_and_predicates() -> None:
    p, q, x = Value(I1), Value(I1), Value(I32)
    branch = make("cond_br")(p, Successor("a", (x,)), Successor("b"))
    new = branch.remap({p: q, x: constant(I32, 7)})
    assert new.operands == (q, constant(I32, 7))
    assert make("add")(A, B, predicate=p).remap({p: q}).predicate is q


def test_ops_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make("add")(A, B).lhs = B  # type: ignore[attr-defined]


def test_an_op_needs_a_docstring_and_its_own_mnemonic() -> None:
    assert lookup("add") is OPS["add"]
    with pytest.raises(TypeError, match="mnemonic"):

        @op("add")
        class Clash(Op):
            """Another add."""

    with pytest.raises(TypeError, match="docstring"):

        @op("nothing.said")
        class Silent(Op):
            pass


def test_unknown_mnemonics_are_none() -> None:
    assert lookup("no_such_op") is None


def test_operands_and_result_types_are_mapped_in_the_order_of_the_fields() -> None:
    pointer = Value(Tile(Pointer(F32), (64,)), "p")
    mask = Value(Tile(I1, (64,)), "m")
    load = make("load")(pointer, mask)
    reached: list[Operand] = []

    def narrower(operand: Operand) -> Operand:
        reached.append(operand)
        assert isinstance(operand.type, Tile)
        return Value(Tile(operand.type.element, (8,)), "n")

    changes = load.map_fields(narrower)
    assert reached == [pointer, mask]
    assert changes["other"] is None  # an absent operand stays absent
    narrow = load.with_fields(**changes, results=())
    assert [v.type for v in narrow.results] == [Tile(F32, (8,))]

    splat = make("splat")(Value(I32, "s"), ROW)
    assert splat.map_fields(lambda v: v, lambda _: Tile(I32, (8,))) == {
        "value": splat.inputs[0],
        "to": Tile(I32, (8,)),
    }
    assert make("ret")((A, B)).map_fields(lambda _: B) == {"values": (B, B)}
