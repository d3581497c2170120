"""Tuning by formulas: what is found, what failures do, what is remembered."""

import attrs
import pytest
from problems import SPACE, bowl, misleading_model, problem

from tileir.backend.tuning import (
    Database,
    Exhaustive,
    Halving,
    Local,
    ParameterRole,
    Pruning,
    Space,
    Status,
    Stop,
    TimeLimits,
    TuneError,
    TuningParameter,
    tune,
)
from tileir.backend.tuning.synchronous_executor import SynchronousExecutor
from tileir.testing.fake_meter import FormulaMeter

BEST = "M=64,N=32,num_warps=4"


def by_formula(meter=None, **rest):
    expected, meter = rest.pop("problem", problem()), meter or FormulaMeter(bowl)
    return tune(expected, meter, executor=SynchronousExecutor(), version="1", **rest)


def test_exhaustive_search_tries_everything_and_finds_the_quickest():
    result = by_formula()
    assert len(result.outcomes) == len(SPACE) == 100
    assert result.best.name == BEST
    assert result.best.seconds == 1e-3


@pytest.mark.parametrize("search", [Halving(), Local(), Exhaustive(batch=7)])
def test_every_search_finds_the_quickest_and_twice_the_same(search):
    first, second = (
        by_formula(FormulaMeter(bowl, misleading_model), search=search) for _ in range(2)
    )
    assert first.best.name == BEST
    assert [o.name for o in first.outcomes] == [o.name for o in second.outcomes]


def test_local_search_tries_a_part_of_the_space():
    result = by_formula(FormulaMeter(bowl, misleading_model), search=Local())
    assert len(result.outcomes) < 60


def test_halving_measures_few_candidates_well():
    result = by_formula(FormulaMeter(bowl), search=Halving(launches=40, first=2))
    launches = sorted(o.launches for o in result.outcomes)
    assert launches[0] == 2
    assert launches[-1] == 40
    assert launches.count(40) == 4
    assert result.best.launches == 40


def test_candidates_that_fail_are_outcomes_with_codes():
    faults = {
        "M=16,N=16,num_warps=1": "refuse", "M=16,N=16,num_warps=2": "error",
        "M=16,N=16,num_warps=4": "raise", "M=16,N=16,num_warps=8": "wrong",
    }  # fmt: skip
    result = by_formula(FormulaMeter(bowl, faults=faults))
    by_name = {
        o.name: (o.status, o.code) for o in (*result.left_out, *result.outcomes) if not o.good
    }
    assert list(by_name.values()) == [
        (Status.INFEASIBLE, "TIR0708"), (Status.FAILED, "TIR1108"),
        (Status.FAILED, "TIR1108"), (Status.WRONG, "TIR1107"),
    ]  # fmt: skip
    assert result.best.name == BEST


def test_without_a_reference_candidates_are_compared_with_the_first_that_works():
    faults = {"M=16,N=16,num_warps=1": "raise", "M=32,N=32,num_warps=8": "wrong"}
    result = by_formula(FormulaMeter(bowl, faults=faults), problem=problem(expected=None))
    assert [o.name for o in result.outcomes if o.status is Status.WRONG] == [
        "M=32,N=32,num_warps=8"
    ]


def test_crashes_and_hangs_end_their_own_process_alone(over):
    space = Space((TuningParameter("M", (16, 32, 64, 128)), TuningParameter("N", (32,)),
                   TuningParameter("num_warps", (4,), ParameterRole.OPTION)))  # fmt: skip
    faults = {
        "M=16,N=32,num_warps=4": "crash", "M=32,N=32,num_warps=4": "hang",
        "M=128,N=32,num_warps=4": "kill",
    }  # fmt: skip
    meter = FormulaMeter(bowl, faults=faults, needs_isolation=True, hung=str(over))
    limits = TimeLimits(compile=600, measure=600)
    result = tune(problem(space), meter, processes=2, limits=limits)
    by_size = {o.point["M"]: (o.status, o.code) for o in result.outcomes if not o.good}
    assert by_size == {
        16: (Status.CRASHED, "TIR1105"), 32: (Status.TIMEOUT, "TIR1106"),
        128: (Status.CRASHED, "TIR1105"),
    }  # fmt: skip
    assert result.best.name == BEST


def test_nothing_left_says_so():
    meter = FormulaMeter(bowl, faults={BEST: "raise"})
    one = SPACE.with_choices(M=(64,), N=(32,), num_warps=(4,))
    with pytest.raises(TuneError, match="none of 1 candidates is left; M=64") as error:
        _ = by_formula(meter, problem=problem(one)).best
    assert error.value.code == "TIR1102"


def test_what_the_model_expects_to_be_slow_is_left_out():
    result = by_formula(FormulaMeter(bowl, bowl), pruning=Pruning(slower=1.5))
    assert all(o.code == "TIR1104" for o in result.left_out)
    assert len(result.left_out) + len(result.outcomes) == 100
    assert all(bowl(o.point) <= 1.5e-3 for o in result.outcomes)
    everything = by_formula(FormulaMeter(bowl, bowl), pruning=Pruning(slower=None))
    assert not everything.left_out


def test_measurements_are_reused_and_added_to(tmp_path):
    path = tmp_path / "tuning.db"
    with Database(path) as database:
        first = by_formula(database=database, stop=Stop(trials=30), search=Exhaustive(batch=10))
        assert len(first.outcomes) == 30
    with Database(path) as database:
        second = by_formula(database=database)
    assert second.reused == 30
    assert len(second.outcomes) == 100
    with Database(path) as database:
        assert by_formula(database=database).reused == 100


def test_a_search_goes_the_same_way_whether_it_was_interrupted_or_not(tmp_path):
    meter, search = FormulaMeter(bowl, misleading_model), Local()
    with Database(tmp_path / "tuning.db") as database:
        by_formula(meter, search=search, database=database, stop=Stop(trials=20))
        resumed = by_formula(meter, search=search, database=database)
    whole = by_formula(meter, search=search)
    assert [o.name for o in resumed.outcomes] == [o.name for o in whole.outcomes]


@pytest.mark.parametrize(
    ("stop", "why"),
    [
        (Stop(trials=10), "10 candidates"), (Stop(patience=5), "in a row"),
        (Stop(seconds=0.0), "seconds are over"), (Stop(near=1.0), "within 1 times"),
    ],
)  # fmt: skip
def test_a_run_stops_when_it_is_told_to(stop, why):
    result = by_formula(FormulaMeter(bowl, bowl), stop=stop, search=Exhaustive(batch=5))
    assert why in result.stopped
    assert len(result.outcomes) < 60


def test_candidates_of_one_machine_code_are_measured_once():
    calls = []

    def count_and_predict(choices):
        calls.append(choices)
        return bowl(choices)

    class Same(FormulaMeter):
        def compile(self, job):
            return attrs.evolve(super().compile(job), digest="one")

    result = by_formula(
        Same(count_and_predict), problem=problem(SPACE.with_choices(M=(64,), N=(32,)))
    )
    assert len(result.outcomes) == 4
    assert len({o.seconds for o in result.outcomes}) == 1
    assert len(calls) == 1


def test_the_same_choice_by_several_devices():
    meter = FormulaMeter(bowl, needs_isolation=True, count=3)
    space = SPACE.with_choices(M=(32, 64), N=(32,))
    assert tune(problem(space), meter, processes=1).best.name == BEST


def test_large_spaces_are_drawn_from():
    assert len(by_formula(most=10).outcomes) == 10


def test_measurements_of_another_compiler_are_not_reused():
    database = Database()
    by_formula(database=database, stop=Stop(trials=5))
    other = tune(
        problem(),
        FormulaMeter(bowl),
        executor=SynchronousExecutor(),
        version="2",
        database=database,
    )
    assert other.reused == 0
    assert len(database.families()) == 2


def test_this_compilers_version_is_the_same_whenever_it_is_asked_for():
    tuned = tune(problem(), FormulaMeter(bowl), executor=SynchronousExecutor(), stop=Stop(trials=1))
    assert "+" in tuned.family.compiler
