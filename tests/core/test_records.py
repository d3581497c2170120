"""Records: what classes made of annotated fields can do, and what making them costs."""

import copy
import inspect
import pickle
import subprocess
import sys
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


def test_constructors_take_fields_in_order_and_by_name():
    assert Point(1, y=2, tags=["a"]) == Point(1, 2, ("a",), {})
    assert Named(1, name="n").name == "n"
    assert list(inspect.signature(Point).parameters) == ["x", "y", "tags", "notes"]
    for wrong in (lambda: Point(), lambda: Point(1, z=2), lambda: Named(1, 2, (), {}, "n")):
        with pytest.raises(TypeError):
            wrong()


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


def test_constructors_are_compiled_for_classes_that_are_constructed():
    program = (
        "import builtins; from tileir import records; made = []; old = exec\n"
        "builtins.exec = lambda text, *a: (made.append(text), old(text, *a))\n"
        "@records.frozen\nclass A:\n    x: int\n"
        "print(len(made)); A(1); A(2); print(len(made))"
    )
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["0", "1"]
