"""The report on a result that is written down here, to the letter."""

import attrs
import pytest
from problems import SPACE, problem

from tileir.backend.measurement.database import Family
from tileir.backend.measurement.meter import Survey
from tileir.backend.performance_model.cost import Estimate, ResourceUse
from tileir.backend.tuning import CandidateOutcome, Status, TuneError
from tileir.backend.tuning.report import effects, explain, rank_correlation
from tileir.backend.tuning.tune import Spent, TuningResult

SMALL = SPACE.with_choices(M=(16, 32), N=(16, 32, 64), num_warps=(4,))


def point(m, n):
    return {"M": m, "N": n, "num_warps": 4}


def measured_outcome(m, n, samples, predicted=None, **rest):
    """An outcome of as many samples, the middle one of which is its time."""
    seconds = sorted(samples)[len(samples) // 2]
    return CandidateOutcome(
        point(m, n), Status.MEASURED, len(samples), seconds, tuple(samples),
        predicted=predicted, **rest,
    )  # fmt: skip


BEST = measured_outcome(16, 32, [1.8e-3, 2e-3, 2.4e-3], 1e-3, registers=40, spills=0, shared=1024)
OTHERS = (
    measured_outcome(32, 32, [3e-3] * 3, 2e-3, registers=128, spills=12, shared=2048),
    measured_outcome(32, 16, [5e-3] * 3, 9e-4),
)
BAD = (
    CandidateOutcome(point(16, 64), Status.WRONG, code="TIR1107", message="y is off"),
    CandidateOutcome(point(32, 64), Status.WRONG, code="TIR1107", message="y is off, too"),
)
LEFT_OUT = (CandidateOutcome(point(16, 16), Status.PRUNED, code="TIR1104", message="slow"),)
MODEL = Survey(
    use=ResourceUse(4, 1024, 36, limit=168),
    estimate=Estimate(1e-3, 1.5, 3, {"reading": 4e-4, "matmuls": 6e-4}),
)

TEXT = """\
@k on a GPU, driver 1: n=64
best: M=16,N=32,num_warps=4: 2 ms
of 6 candidates 1 were left out, 3 measured, 2 failed; all were tried

                       time         spread  registers  spilled  shared  model
M=16,N=32,num_warps=4  2 ms  1.000  7.5 %   40         0        1024    1 ms
M=32,N=32,num_warps=4  3 ms  1.500  0.0 %   128        12       2048    2 ms
M=32,N=16,num_warps=4  5 ms  2.500  0.0 %   -          -        -       900 us

why: by the model it takes 1 ms, most of it matmuls
  a processor is busy with matmuls 600 us, reading 400 us
  3 blocks of 4 warps a processor, 1.50 waves; 1024 bytes shared, about 36 registers of 168
  its order agrees with the measured one by -0.50 (Spearman);
  the candidate it likes best takes 2.500 times as long as the best

one step away:
  M 16 -> 32: 1.500 times as long
  N 32 -> 16: ruled out: slow
  N 32 -> 64: wrong: y is off

the quickest with each choice, relative to the best:
  M: 16 1.000, 32 1.500
  N: 16 2.500, 32 1.000

left out or failed:
  2 wrong (TIR1107), such as M=16,N=64,num_warps=4: y is off
  1 ruled out (TIR1104), such as M=16,N=16,num_warps=4: slow

it took 12 s, of which 250 ms to look at candidates; compiling one after the other takes 3 s
2 measurements were in the database already
"""


def result(outcomes=(*OTHERS, BAD[0], BEST, BAD[1]), left_out=LEFT_OUT, reused=2, **rest):
    family = Family("k", "", "n=64", "", "a GPU", "1", "")
    return TuningResult(
        problem(SMALL, **rest), family, outcomes, left_out, {BEST.name: MODEL},
        Spent(12.0, 0.25, 3.0), reused, "all were tried",
    )  # fmt: skip


def test_the_whole_report():
    assert explain(result()) == TEXT


def test_eight_candidates_are_listed():
    many = [measured_outcome(16, 32, [1e-3 * (i + 1)] * 3) for i in range(9)]
    table = explain(result(tuple(many))).split("\n\n")[1].splitlines()
    assert len(table) == 9
    assert "8 ms" in table[-1]


def test_parts_of_nothing_are_left_out():
    text = explain(result((BEST,), left_out=(), reused=0))
    assert "left out or failed" not in text
    assert "database" not in text
    assert "Spearman" not in text
    assert "  M 16 -> 32: not tried\n" in text
    assert "  M: " not in text
    plain = attrs.evolve(result((BEST,)), surveys={})
    assert "by the model" not in explain(plain)
    unknown = {BEST.name: attrs.evolve(MODEL, use=None)}
    assert "blocks of" not in explain(attrs.evolve(result((BEST,)), surveys=unknown))


@pytest.mark.parametrize(("count", "is_doubted"), [(1, False), (2, True)])
def test_where_most_are_wrong_the_first_one_is_doubted(count, is_doubted):
    values = result((BEST, *BAD[:count]), expected=None)
    assert ("rather that one is wrong" in explain(values)) == is_doubted
    assert "rather that one is wrong" not in explain(result((BEST, *BAD)))


def test_effects():
    results = [(e.parameter, e.choice, e.seconds, e.ratio) for e in effects(result())]
    assert results == [
        ("M", 16, 2e-3, 1.0), ("M", 32, 3e-3, 1.5), ("N", 16, 5e-3, 2.5), ("N", 32, 2e-3, 1.0),
        ("num_warps", 4, 2e-3, 1.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("predicted", "agreement"),
    [((1, 2, 3, 4), 1.0), ((4, 3, 2, 1), -1.0), ((1, 1, 1, 1), None), ((1, 2, 2, 3), 0.9487),
     ((1, 2, None, 3), 1.0), ((1, 2, None, None), None)],
)  # fmt: skip
def test_how_far_the_model_correlates(predicted, agreement):
    """Spearman's correlation, equal places shared; of two candidates there is none."""
    outcomes = [measured_outcome(16, 32, [i + 1.0] * 3, p) for i, p in enumerate(predicted)]
    correlation = rank_correlation(result(tuple(outcomes)))
    assert correlation == (agreement if agreement is None else pytest.approx(agreement, abs=1e-4))


def test_spread_is_half_the_middle_half():
    samples = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert measured_outcome(16, 16, samples).spread == pytest.approx(1 / 3)
    assert measured_outcome(16, 16, [1.0, 3.0]).spread == pytest.approx(1 / 6)
    assert measured_outcome(16, 16, [2.0]).spread == 0.0
    assert CandidateOutcome(point(16, 16), Status.WRONG).spread == 0.0


def test_nothing_measured_is_no_report():
    with pytest.raises(TuneError, match="none of 2 candidates is left"):
        explain(result((BAD[0],)))
