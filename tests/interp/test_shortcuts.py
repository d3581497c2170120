"""What the interpreter computes once or keeps changes no result: on generated programs."""

from __future__ import annotations

import pytest

from tileir.interp import program as preparation
from tileir.testing import difference, run, sample


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(60))
def test_shortcuts_change_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = sample(seed)
    monkeypatch.setattr(preparation, "FEW", 0)
    quick = run(sampled)
    monkeypatch.setattr(preparation, "UNIFORM_ELEMENTS", 0)
    monkeypatch.setattr(preparation, "quick_step", lambda *_: None)
    monkeypatch.setattr(preparation, "invariant_ops", lambda function: set())
    assert difference(quick, run(sampled)) is None
