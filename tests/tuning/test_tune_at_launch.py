"""Frontends that tune: through executors that measure, and through others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from problems import bowl

import tileir.frontends.triton as triton
import tileir.frontends.triton.language as tl
from tileir.backend.measurement.at_launch import measured_here
from tileir.backend.measurement.meter import Artifact
from tileir.errors import CompileError, Diagnostic, LaunchError, TileirError
from tileir.executor import executor
from tileir.frontends.triton_c import parse
from tileir.measuring import Candidate, Measuring
from tileir.testing.fake_meter import FormulaMeter
from tileir.textual import print_module

ROOT = Path(__file__).parents[2]
LISTING = (ROOT / "tests/frontends/triton_c/listings/listing1.c").read_text("utf-8")


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2.0 * tl.load(x + i, i < n), i < n)


@triton.jit
def total(x, y, n, BLOCK: tl.constexpr):
    out = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, n, BLOCK):
        out += tl.load(x + at + tl.arange(0, BLOCK))
    tl.store(y + tl.arange(0, BLOCK), out)


CONFIGS = [triton.Config({"BLOCK": b}, num_warps=1) for b in (16, 0, 64)]


def arrays(n):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


@pytest.mark.parametrize("on", ["cpu", "interpreter"])
def test_the_quickest_configuration_that_compiles_is_launched(on):
    kernel = triton.autotune(CONFIGS, key=["n"])(double)
    x, y = arrays(100)
    kernel[lambda p: (triton.cdiv(100, max(p["BLOCK"], 1)),)](x, y, 100, on=on)
    assert (y == 2 * x).all()
    assert kernel.best_config in (CONFIGS[0], CONFIGS[2])
    assert set(kernel.configs_timings) == {CONFIGS[0], CONFIGS[2]}
    assert kernel.configs_timings[kernel.best_config] == min(kernel.configs_timings.values())


def test_where_nothing_compiles_the_first_reason_is_told():
    kernel = triton.autotune([CONFIGS[1], CONFIGS[1]], key=["n"])(double)
    with pytest.raises(LaunchError, match="no configuration of double compiles"):
        kernel[(1,)](*arrays(16), 16)


def test_stages_of_a_configuration_are_asked_for_by_the_loops():
    x, y = arrays(64)
    text = print_module(total.warmup(x, y, 64, BLOCK=16, num_stages=3, grid=(1,)))
    assert text.count("stages = 3") == 2  # of the kernel, and of its loop
    assert "stages" not in print_module(total.warmup(x, y, 64, BLOCK=16, grid=(1,)))


@pytest.mark.slow
def test_tunables_that_are_quickest():
    program = parse(LISTING.replace("{16, 32, 64, 128}", "{16, 32}").replace("{8, 16}", "{8}"))
    a, b = (np.ones((16, 32), np.float32) for _ in "ab")
    c = np.zeros((32, 32), np.float32)
    kernel = program.kernel()
    result = kernel.fastest(lambda t: (32 // t["TM"], 32 // t["TN"]), a, b, c, 32, 32, 16, on="cpu")
    assert result.keys() == {"TM", "TN", "TK"}
    assert result["TM"] in (16, 32) and result["TK"] == 8
    assert not c.any()
    with pytest.raises(LaunchError, match="interpreter does not measure"):
        kernel.fastest((1, 1), a, b, c, 32, 32, 16, on="interpreter")


def test_executors_of_machines_measure():
    assert isinstance(executor("cpu"), Measuring)
    assert isinstance(executor("gpu"), Measuring)
    assert not isinstance(executor("interpreter"), Measuring)


class Counting(FormulaMeter):
    """Gives candidates with a machine code that their grid tells apart."""

    def compile(self, job):
        if job.grid == (3,):
            raise CompileError(Diagnostic("TIR0708", "too large"))
        choices = {"M": 64, "N": 32, "num_warps": job.grid[0]}
        return Artifact((choices, ""), f"code {job.grid[0]}")


def test_measurements_are_remembered_where_that_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEIR_CACHE", str(tmp_path))
    calls = []

    def count_and_predict(choices):
        calls.append(choices["num_warps"])
        return bowl(choices)

    module = double.module({"x": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": 16})
    candidates = [Candidate(module, "double", (n,)) for n in (2, 3, 4)]
    inputs = {"x": arrays(16)[0], "n": 16}
    for remember, count in ((False, 2), (True, 4), (True, 4), (False, 6)):
        timing = measured_here(Counting(count_and_predict), candidates, inputs, remember=remember)
        assert timing[0] == 1.25e-3 and timing[2] == 1e-3
        assert isinstance(timing[1], TileirError)
        assert len(calls) == count
    assert (tmp_path / "tuning.db").exists()
