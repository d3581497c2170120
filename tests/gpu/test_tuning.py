"""Tuning on the GPU: a small space from beginning to end, a candidate that crashes its process,
and measurements that are found again."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tuning"))

from matmuls import problem

from tileir.backend.tuning import Database, GpuMeter, Halving, Local, tune

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("search", [Halving(launches=10), Local(launches=10)])
def test_a_product_is_tuned(tmp_path, search):
    with Database(tmp_path / "tuning.db") as database:
        meter = GpuMeter.here()
        first = tune(problem(512), meter, search=search, database=database)
        assert not [o for o in first.outcomes if not o.good]
        assert 1e-6 < first.best.seconds < 1e-3
        again = tune(problem(512), meter, search=search, database=database)
        assert again.reused == len(again.outcomes)
        assert again.best.name == first.best.name
