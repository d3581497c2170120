"""Measurements kept, exported, merged; files that are none."""

import sqlite3

import attrs
import numpy as np
import pytest

from tileir.backend.measurement.arguments import shape_class, shape_of
from tileir.backend.tuning import CandidateOutcome, Database, Family, Status, TuneError
from tileir.backend.tuning.problem import content_of

FAMILY = Family("mm", "c0ffee", "a=float16[64,64]", "a=float16[~64,~64]", "H200", "13.0", "0.1")


def outcome(m=64, seconds=1e-3, launches=20, **rest):
    point = {"M": m, "wide": True, "way": "x", "none": None}
    candidate_outcome = CandidateOutcome(
        point, Status.MEASURED, launches, seconds, (seconds, seconds * 1.1)
    )
    return attrs.evolve(candidate_outcome, **rest)


def test_outcomes_come_back_as_they_were():
    kept = outcome(code="", predicted=2e-3, registers=128, spills=4, shared=1024, digest="ab")
    failed = CandidateOutcome({"M": 1}, Status.INFEASIBLE, code="TIR0708", message="too\nmuch")
    database = Database()
    for each in (kept, failed):
        database.record(FAMILY, each)
    assert sorted(database.outcomes(FAMILY), key=lambda o: o.name) == sorted(
        [kept, failed], key=lambda o: o.name
    )


@pytest.mark.parametrize("field", ["content", "shape", "device", "driver", "compiler"])
def test_families_are_separate(field):
    database = Database()
    database.record(FAMILY, outcome())
    other = attrs.evolve(FAMILY, **{field: "other"})
    assert not database.outcomes(other)
    database.record(other, outcome(seconds=2e-3))
    assert [o.seconds for o in database.outcomes(FAMILY)] == [1e-3]


def test_measurements_by_more_launches_are_next_to_others():
    database = Database()
    database.record(FAMILY, outcome(launches=3))
    database.record(FAMILY, outcome(launches=60))
    database.record(FAMILY, outcome(launches=60, seconds=5e-3))
    assert [(o.launches, o.seconds) for o in database.outcomes(FAMILY)] == [(3, 1e-3), (60, 5e-3)]


def test_databases_are_exported_and_merged():
    one, two = Database(), Database()
    one.record(FAMILY, outcome(16))
    one.record(FAMILY, outcome(32, seconds=9e-3))
    two.record(FAMILY, outcome(32, seconds=1e-3))
    two.record(attrs.evolve(FAMILY, device="A100"), outcome(16))
    assert one.merge(two.export()) == 2
    assert [o.seconds for o in one.outcomes(FAMILY) if o.point["M"] == 32] == [1e-3]
    assert len(one.families()) == 2
    assert one.merge(two.export()) == 0
    assert two.merge(one.export()) == 1
    assert one.export()["families"] == two.export()["families"]


def test_an_older_measurement_does_not_replace_a_later_one():
    one, two = Database(), Database()
    one.record(FAMILY, outcome(seconds=1e-3))
    two.record(FAMILY, outcome(seconds=2e-3))
    two.merge(one.export())
    assert two.outcomes(FAMILY)[0].seconds == 2e-3


@pytest.mark.parametrize("bad", [{}, {"version": 1, "families": [{}]}, {"version": 9}])
def test_what_is_no_export_is_refused_and_changes_nothing(bad):
    database = Database()
    with pytest.raises(TuneError) as error:
        database.merge(bad)
    assert error.value.code == "TIR1103"
    assert not database.families()


def test_the_best_of_a_class_is_found_for_other_shapes():
    database = Database()
    database.record(FAMILY, outcome(16, seconds=3e-3))
    database.record(FAMILY, outcome(32, seconds=2e-3))
    schedule = database.best("c0ffee", FAMILY.shape_class, "H200")
    assert schedule is not None and schedule.point["M"] == 32
    assert database.best("c0ffee", FAMILY.shape_class, "A100") is None


def test_files_that_are_no_database_are_refused(tmp_path):
    text = tmp_path / "text.db"
    text.write_text("not a database, however long this text may be" * 100)
    newer = tmp_path / "newer.db"
    with sqlite3.connect(newer) as connection:
        connection.execute("pragma user_version = 99")
    for path in (text, newer, tmp_path):
        with pytest.raises(TuneError) as error:
            Database(path)
        assert error.value.code == "TIR1103"


def test_shapes_and_their_classes():
    inputs = {"n": 4000, "k": 4096, "a": np.zeros((3, 100), np.float16), "x": 1.5, "odd": 4001}
    assert shape_of(inputs) == "a=float16[3,100] k=4096 n=4000 odd=4001"
    assert shape_class(inputs) == "a=float16[3,~128] k=~4096/16 n=~4096/16 odd=~4096"


def test_content_distinguishes_texts_and_functions():
    assert content_of("a", "b") != content_of("ab")
    assert content_of(outcome) == content_of(outcome) != content_of(content_of)


@pytest.mark.parametrize(
    "column, value",
    [("choices", "[1]"), ("choices", "[" * 100000), ("choices", b"\xff"), ("samples", "5"),
     ("samples", '["x"]'), ("status", "odd"), ("samples", "{"), ("choices", "null")],
)  # fmt: skip
def test_rows_of_others_are_refused(tmp_path, column, value):
    database = Database(tmp_path / "t.db")
    database.record(FAMILY, outcome())
    database._connection.execute(f"update outcome set {column} = ?", (value,))
    with pytest.raises(TuneError) as caught:
        database.outcomes(FAMILY)
    assert caught.value.code == "TIR1103"


@pytest.mark.parametrize(
    "exported",
    [[], None, 5, {}, {"version": "x"}, {"version": 1}, {"version": 1, "families": 5},
     {"version": 1, "families": [5]}, {"version": 1, "families": [{"family": {"x": 1}}]},
     {"version": 1, "families": [{"family": dict.fromkeys(
         ["kernel", "content", "shape", "shape_class", "device", "driver", "compiler"], 10**30),
         "outcomes": []}]}],
)  # fmt: skip
def test_what_is_no_export_is_refused(exported):
    with pytest.raises(TuneError) as caught:
        Database().merge(exported)
    assert caught.value.code == "TIR1103"
