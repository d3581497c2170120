"""Tuning on the GPU: a small space from beginning to end, a candidate that crashes its process,
and measurements that are found again."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tuning"))

from matmuls import problem

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.backend.tuning import Database, GpuMeter, Halving, Local, tune

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("search", [Halving(launches=10), Local(launches=10)])
def test_a_matmul_is_tuned(tmp_path, search):
    with Database(tmp_path / "tuning.db") as database:
        meter = GpuMeter.here()
        first = tune(problem(512), meter, search=search, database=database)
        assert not [o for o in first.outcomes if not o.good]
        assert 1e-6 < first.best.seconds < 1e-3
        outcomes_before = list(database.outcomes(first.family))
        second = tune(problem(512), meter, search=search, database=database)
        assert list(database.outcomes(first.family)) == outcomes_before
        assert second.reused >= len(second.outcomes)
        assert second.best.name == first.best.name


@triton.autotune(
    [triton.Config({"BLOCK": b}, num_warps=w) for b in (256, 1024, 4096) for w in (1, 4, 8)],
    key=["n"],
)
@triton.jit
def triple(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 3.0 * tl.load(x + i, i < n), i < n)


def test_an_autotuned_kernel_on_arrays_of_the_gpu():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    n = 1 << 22
    x = torch.randn(n, device="cuda")
    y = torch.full_like(x, float("nan"))
    triple[lambda p: (triton.cdiv(n, p["BLOCK"]),)](x, y, n)
    torch.cuda.synchronize()
    assert torch.equal(y, 3.0 * x)
    times = triple.configs_timings
    assert len(times) == 9
    assert all(5e-6 < seconds < 1e-3 for seconds in times.values())
    assert times[triple.best_config] == min(times.values())
