"""Spaces: what they enumerate, what they refuse, how points are written."""

import pytest

from tileir.backend.tuning import (
    ParameterRole,
    Space,
    TuneError,
    TuningParameter,
    mapl19,
    point_name,
)
from tileir.backend.tuning.mapl19 import attributes_of


def space(*parameters: tuple[str, tuple[int, ...]]) -> Space:
    return Space(tuple(TuningParameter(*p) for p in parameters))


def test_the_size_of_a_space_is_that_of_its_parameters_multiplied():
    points = list(space(("A", (1, 2)), ("B", (3, 4, 5))))
    assert len(points) == 6
    assert points[:2] == [{"A": 1, "B": 3}, {"A": 1, "B": 4}]


def test_constraints_leave_points_out_and_say_why():
    narrow = space(("A", (1, 2)), ("B", (1, 2))).where(
        "A is not above B", lambda p: p["A"] <= p["B"]
    )
    assert len(narrow) == 3
    assert narrow.size == 4
    assert narrow.violation({"A": 2, "B": 1}) == "A is not above B"
    assert narrow.violation({"A": 1, "B": 1}) is None


def test_spaces_multiply_with_their_constraints():
    even = space(("A", (1, 2))).where("A is even", lambda p: p["A"] % 2 == 0)
    assert list(even * space(("B", (3,)))) == [{"A": 2, "B": 3}]


def test_neighbours_move_one_parameter_by_one_choice():
    around = space(("A", (1, 2, 4)), ("B", (8, 16))).neighbours({"A": 2, "B": 8})
    assert sorted(map(point_name, around)) == ["A=1,B=8", "A=2,B=16", "A=4,B=8"]


def test_choices_may_be_replaced():
    assert len(space(("A", (1, 2))).with_choices(A=(7,))) == 1
    with pytest.raises(TuneError, match="no parameter B; there are: A"):
        space(("A", (1, 2))).with_choices(B=(7,))


@pytest.mark.parametrize("bad", [(("A", ()),), (("A", (1,)), ("A", (2,)))])
def test_spaces_that_are_none_are_refused(bad):
    with pytest.raises(TuneError) as error:
        space(*bad)
    assert error.value.code == "TIR1101"


def test_points_are_written_alike_whatever_their_order():
    assert point_name({"b": True, "a": None, "c": 1.5}) == point_name(
        {"c": 1.5, "a": None, "b": True}
    )
    assert point_name({"b": True, "a": None}) == "a=none,b=true"


def test_points_are_split_by_who_takes_them():
    mixed = Space((TuningParameter("M", (1,)), TuningParameter("w", (2,), ParameterRole.OPTION)))
    assert mixed.split({"M": 1, "w": 2}) == {
        ParameterRole.MAKE: {"M": 1}, ParameterRole.OPTION: {"w": 2}, ParameterRole.ATTRIBUTE: {},
    }  # fmt: skip


def test_the_papers_space_is_three_powers_of_two_for_each_of_three_parameters():
    one, two = mapl19(["TM"]), mapl19(["TM", "TN"])
    assert len(one) == 27
    assert len(two) == 27 * 27
    assert [p.name for p in one.parameters] == ["TM", "micro.TM", "nano.TM"]
    assert [p.choices for p in one.parameters] == [(32, 64, 128), (8, 16, 32), (1, 2, 4)]
    assert len(mapl19(["TM", "TN"], ["TK"])) == 27 * 27 * 3
    assert all(p["nano.TM"] <= p["micro.TM"] <= p["TM"] for p in two)


def test_parts_of_a_tile_become_attributes_of_the_kernel():
    attributes = attributes_of({"micro.TM": 8, "nano.TM": 2, "micro.TN": 16, "nano.TN": 4})
    assert attributes == {"micro": (8, 16), "nano": (2, 4)}
