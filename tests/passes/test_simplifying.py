"""Rules of `simplify` that are no laws: masks, predicates, arms of `psi`, literals on the right."""

from __future__ import annotations

from tests.sizes import for_each
from tileir.op import Op
from tileir.ops.arith import Add, ICmp, IntegerPredicate, Select, Sub
from tileir.ops.memory import Load, Store
from tileir.ops.predicate import Psi
from tileir.passes.simplify import (
    chosen_arm,
    known_mask,
    known_predicate,
    literal_on_the_right,
    live_arms,
)
from tileir.rewrite import Replace
from tileir.types import F32, I1, I32, pointer, tile
from tileir.values import Constant, Undef, Value, constant

X, Y, Z = Value(I32, "x"), Value(I32, "y"), Value(I32, "z")
P, Q, R = Value(I1, "p"), Value(I1, "q"), Value(I1, "r")
TRUE, FALSE = constant(I1, True), constant(I1, False)
WALK = None


def arms(*operands: object) -> object:
    """What `live_arms` makes of a `psi` of these: its arms, or what stands for it."""
    op = Psi(arms=operands)  # type: ignore[call-arg]
    live = live_arms(op, WALK)  # type: ignore[arg-type]
    return live.inputs if isinstance(live, Op) else live


@for_each(
    ("arguments", "expected"),
    [
        ((P, X, Q, Y), (P, X, Q, Y)),
        ((P, X, FALSE, Y, Q, Z), (P, X, Q, Z)),
        ((P, X, TRUE, Y, Q, Z), (TRUE, Y, Q, Z)),
        ((TRUE, X, P, Y, TRUE, Z, Q, X), (TRUE, Z, Q, X)),
        ((P, X, Q, Undef(I32), R, Z), (P, X, R, Z)),
        ((P, X, Q, X), X),
        ((P, constant(I32, 3), Q, constant(I32, 3)), constant(I32, 3)),
        ((P, constant(I32, 3), Q, constant(I32, 4)), (P, constant(I32, 3), Q, constant(I32, 4))),
        ((FALSE, X), Undef(I32)),
        ((P, Undef(I32), Q, Undef(I32)), Undef(I32)),
        ((P, X), X),
    ],
)
def test_arms_that_decide(arguments: tuple[object, ...], expected: object) -> None:
    assert arms(*arguments) == expected


def test_choices_of_what_is_undefined() -> None:
    assert chosen_arm(Select(P, Undef(I32), Y), WALK) is Y  # type: ignore[arg-type]
    assert chosen_arm(Select(P, X, Undef(I32)), WALK) is X  # type: ignore[arg-type]
    kept = Select(P, X, Y)
    assert chosen_arm(kept, WALK) is kept  # type: ignore[arg-type]


def test_predicates_that_are_known() -> None:
    def predicate_of(op: Op) -> object:
        return known_predicate(op, WALK)  # type: ignore[arg-type]

    always = predicate_of(Add(X, Y, predicate=TRUE))
    assert isinstance(always, Add) and always.predicate is None
    assert predicate_of(Add(X, Y, predicate=FALSE)) == Replace((Undef(I32),))
    test = ICmp(X, Y, predicate_=IntegerPredicate.EQ, predicate=FALSE)
    assert predicate_of(test) == Replace((Undef(I1), Undef(I1)))
    for kept in (Add(X, Y, predicate=P), Add(X, Y)):
        assert predicate_of(kept) is kept


def test_masks_that_are_known() -> None:
    rows = tile(F32, (4,))
    pointers, values = Value(tile(pointer(F32), (4,)), "p"), Value(rows, "v")
    every, none = (Constant(tile(I1, (4,)), n) for n in (1, 0))

    def mask_of(op: Op) -> object:
        return known_mask(op, WALK)  # type: ignore[arg-type]

    load = mask_of(Load(pointers, every, values))
    assert isinstance(load, Load) and (load.mask, load.other) == (None, None)
    store = mask_of(Store(pointers, values, every))
    assert isinstance(store, Store) and store.mask is None
    assert mask_of(Load(pointers, none, values)) == Replace((values,))
    assert mask_of(Load(pointers, none)) == Replace((Undef(rows),))
    assert mask_of(Store(pointers, values, none)) == Replace(())
    for kept in (
        Load(pointers),
        Load(pointers, none, values, volatile=True),
        Load(pointers, Value(every.type, "m"), values),
    ):
        assert mask_of(kept) is kept


def test_literals_go_to_the_right() -> None:
    three, four = constant(I32, 3), constant(I32, 4)
    moved = literal_on_the_right(Add(three, X), WALK)  # type: ignore[arg-type]
    assert isinstance(moved, Add) and moved.inputs == (X, three)
    for kept in (Add(X, three), Add(three, four), Sub(three, X), Add(X, Y)):
        assert literal_on_the_right(kept, WALK) is kept  # type: ignore[arg-type]
