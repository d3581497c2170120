"""Which candidates a search asks for first, and what it expects after some were measured."""

import pytest
from problems import SPACE, misleading_model

from tileir.backend.tuning import CandidateOutcome, Local, SearchState, Status, point_name
from tileir.backend.tuning.surrogate import Surrogate

POINTS = sorted(SPACE, key=misleading_model)
EXPECTED = {point_name(p): misleading_model(p) for p in POINTS}


def test_local_search_begins_with_what_is_expected_most_of_and_some_of_the_rest():
    first = [t.point for t in Local(starts=16).propose(SearchState(SPACE, POINTS, EXPECTED, {}))]
    assert first[:12] == POINTS[:12]
    assert len({point_name(p) for p in first}) == 16
    assert first[12:] != POINTS[12:16]


def test_where_nothing_was_measured_the_model_is_believed():
    model = Surrogate.fit(SPACE, [], EXPECTED)
    assert [model.seconds(p) for p in POINTS] == pytest.approx(list(EXPECTED.values()))


def test_what_was_measured_is_expected_of_others_that_choose_the_same():
    """Twice what the model says, by eight warps three times as much again."""

    def truth(point):
        return (6 if point["num_warps"] == 8 else 2) * misleading_model(point)

    tried = [p for p in POINTS if p["M"] in (16, 64)]
    measured = [CandidateOutcome(p, Status.MEASURED, 20, truth(p)) for p in tried]
    model = Surrogate.fit(SPACE, measured, EXPECTED)
    others = [p for p in POINTS if p["M"] == 256]
    assert [model.seconds(p) for p in others] == pytest.approx([truth(p) for p in others], rel=0.2)
