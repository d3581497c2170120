"""What the cost model likes best of what was measured, on results that are committed."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def matmul_tiles(benchmarks):
    return benchmarks("matmul_tiles")


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("file", "problem"),
    [("matmul_shapes.json", "f16 NN"), ("matmul_shapes_others.json", "tf32 NT")],
)
def test_favourites_take_little_longer_than_the_best(matmul_tiles, file, problem):
    """The share is bound, not each problem: times of one run wander by some percent."""
    rows = json.loads((BENCHMARKS / "results" / file).read_text())["rows"]
    predicted_bests = [
        matmul_tiles.predicted_best(row) for row in rows if row["problem"] == problem
    ]
    regrets = [each.regret for each in predicted_bests]
    assert len(predicted_bests) >= 5 and all(each.problem == problem for each in predicted_bests)
    assert sum(r <= 1.05 for r in regrets) >= 0.8 * len(regrets), predicted_bests
    assert sum(r <= 1.15 for r in regrets) >= 0.9 * len(regrets), predicted_bests
    assert min(regrets) >= 1.0


def test_every_measured_tile_is_known(matmul_tiles):
    for path in (BENCHMARKS / "results").glob("matmul_shapes*.json"):
        for row in json.loads(path.read_text())["rows"]:
            kind = matmul_tiles.problem_of(row["problem"]).kind
            tile_names = {str(tile) for tile in (*matmul_tiles.tiles_of(kind), *matmul_tiles.ODD)}
            assert set(row["us"]) - {"cublas"} <= tile_names
