"""Records: what classes made of annotated fields can do, and what making them costs."""

import copy
import inspect
import pickle
from functools import cached_property
from typing import Any, ClassVar
from weakref import ref

import pytest
from hypothesis import given, strategies as st

from tileir import records


@records.frozen
class Point:
    """A place."""

    x: int
    y: int = 0
    tags: tuple[str, ...] = records.field(default=(), converter=tuple)
    notes: dict[str, Any] = records.field(factory=dict, eq=False, repr=False)
    origin: ClassVar[str] = "here"


@records.frozen(cache_hash=True)
class Named(Point):
    name: str = records.field(kw_only=True)

    def shown(self):
        return f"{self.name}: {super().__repr__()}"


@records.frozen(slots=False)
class Squared:
    x: int

    @cached_property
    def square(self):
        return self.x * self.x


@records.define
class Counter:
    start: int
    value: int = records.field(init=False)
    seen: list[int] = records.field(init=False, factory=list)

    def __post_init__(self):
        self.value = self.start


@records.define(eq=False)
class Alone:
    x: int = 0


@pytest.fixture(params=[0, 20], ids=["interpreted", "compiled"])
def made(request):
    """A class like `Named` that has been constructed so often."""

    @records.frozen
    class Made(Point):
        name: str = records.field(kw_only=True)
        known: int = records.field(init=False, default=7)

    for _ in range(request.param):
        Made(1, name="n")
    return Made


def test_constructors_take_fields_in_order_and_by_name(made):
    record = made(1, y=2, tags=["a"], name="n")
    assert record == made(1, 2, ("a",), {}, name="n")
    assert (record.x, record.y, record.tags, record.notes, record.name) == (1, 2, ("a",), {}, "n")
    assert record.known == 7
    assert made(records.NOTHING, name="n").x is records.NOTHING


@pytest.mark.parametrize(
    ("given", "named", "message"),
    [
        ((), {"name": "n"}, "missing 1 required positional argument: 'x'"),
        ((1,), {}, "missing 1 required keyword-only argument: 'name'"),
        ((1,), {"name": "n", "z": 2}, "unexpected keyword argument 'z'"),
        ((1,), {"name": "n", "known": 2}, "unexpected keyword argument 'known'"),
        ((1,), {"name": "n", "x": 2}, "multiple values for argument 'x'"),
        ((1, 2, (), {}, "n"), {}, "takes from 2 to 5 positional arguments"),
    ],
)
def test_wrong_calls_of_constructors_are_refused(made, given, named, message):
    with pytest.raises(TypeError, match=message):
        made(*given, **named)


def test_constructors_are_compiled_when_they_are_called_often():
    @records.frozen
    class Often:
        x: int

    assert list(inspect.signature(Often).parameters) == ["given", "named"]
    assert [Often(n).x for n in range(20)] == list(range(20))
    assert list(inspect.signature(Often).parameters) == ["x"]


def test_factories_make_one_for_each_record():
    assert Point(1).notes is not Point(1).notes
    assert Counter(3).value == 3
    assert Counter(3).seen is not Counter(3).seen


def test_frozen_records_refuse_changes():
    for change in (lambda: setattr(Point(1), "x", 2), lambda: delattr(Point(1), "x")):
        with pytest.raises(records.FrozenError, match="Point is frozen: x"):
            change()
    with pytest.raises(AttributeError):
        object.__setattr__(Point(1), "z", 1)  # slots


@given(st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))
def test_equality_and_hash_are_those_of_compared_fields(a, b, c, d):
    left, right = Point(a, b, notes={"of": 1}), Point(c, d)
    assert (left == right) is ((a, b) == (c, d)) is not (left != right)
    assert left != right or hash(left) == hash(right)
    assert Named(a, b, name="n") != left


def test_mutable_records_are_hashed_by_identity_or_not_at_all():
    counter = Counter(1)
    counter.value = 2
    assert counter != Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    assert Alone() != Alone()
    assert len({Alone(), Alone()}) == 2


@pytest.mark.parametrize(
    "record", [Point(1, 2, ("a",)), Named(1, name="n"), Squared(3), Counter(4)], ids=repr
)
def test_copies_and_pickles_are_equal(record):
    if isinstance(record, Named):
        hash(record)
    for copied in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert copied == record
        assert type(copied) is type(record)


def test_a_hash_that_is_remembered_stays_in_its_process():
    record = Named(1, name="n")
    assert hash(record) == hash(record)
    assert not hasattr(pickle.loads(pickle.dumps(record)), "__record_hash__")


def test_what_a_class_defines_itself_stays():
    @records.frozen
    class Own:
        x: int

        def __repr__(self):
            return "own"

        def __eq__(self, other):
            return True

        __hash__ = None

    assert (repr(Own(1)), Own(1) == Own(2), Own.__hash__) == ("own", True, None)


def test_repr_names_the_fields():
    assert repr(Point(1, tags=("a",))) == "Point(x=1, y=0, tags=('a',))"
    assert Named(1, name="n").shown() == "n: Named(x=1, y=0, tags=(), name='n')"
    counter = Counter(1)
    counter.seen.append(counter)
    assert repr(counter) == "Counter(start=1, value=1, seen=[...])"


def test_evolve_makes_a_record_by_its_constructor():
    named = Named(1, 2, name="n")
    assert records.evolve(named, x=5, tags=["t"]) == Named(5, 2, ("t",), name="n")
    assert records.evolve(named).notes is named.notes
    with pytest.raises(TypeError):
        records.evolve(named, z=1)


def test_fields_are_listed_and_matched_in_order():
    assert [f.name for f in records.fields(Named)] == ["x", "y", "tags", "notes", "name"]
    assert [f.required for f in records.fields(Named)] == [True, False, False, False, True]
    with pytest.raises(TypeError, match="int is no record"):
        records.fields(int)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_asdict_gives_what_json_holds():
    found = records.asdict(Point(1, tags=("a",), notes={"inner": Squared(2)}))
    assert found == {"x": 1, "y": 0, "tags": ["a"], "notes": {"inner": {"x": 2}}}


def test_a_field_without_default_comes_before_those_with_one():
    with pytest.raises(TypeError, match="without default"):

        @records.frozen
        class Wrong:
            x: int = 0
            y: int


def test_slots_are_as_asked_for():
    assert not hasattr(Point(1), "__dict__")
    assert ref(alone := Alone())() is alone
    assert Squared(3).square == 9

    @records.frozen(weakref_slot=False)
    class Small:
        x: int

    with pytest.raises(TypeError):
        ref(Small(1))


def test_a_subclass_without_fields_has_its_base_constructor():
    @records.frozen
    class Same(Point):
        """Nothing more."""

    @records.frozen
    class Checked(Point):
        def __post_init__(self):
            raise ValueError(self.x)

    assert "__init__" not in vars(Same)
    assert (Same(1).x, Same(1) == Point(1)) == (1, False)
    with pytest.raises(ValueError, match="7"):
        Checked(7)
