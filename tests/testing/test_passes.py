"""Passes keep what generated programs mean, one at a time and in random pipelines."""

import random

import pytest

from tileir.passmanager import all_passes, run as optimise
from tileir.testing import difference, run, sample
from tileir.textual import print_module

PASSES = tuple(found.name for found in all_passes())
PROGRAMS, PIPELINES = 300, 500


@pytest.mark.parametrize("name", [*PASSES, "default"])
def test_a_pass_keeps_the_meaning_of_programs(name):
    fired = 0
    for seed in range(10_000, 10_000 + PROGRAMS):
        program = sample(seed, 30)
        changed = optimise(program.module, name).module  # verified after the pass
        fired += changed is not program.module
        assert difference(run(program.with_module(changed)), run(program)) is None, seed
    assert fired >= PROGRAMS // 20, f"{name} changed {fired} programs only"


@pytest.mark.parametrize("batch", range(5))
def test_random_pipelines_keep_the_meaning_of_programs(batch):
    chance = random.Random(batch)
    for _ in range(PIPELINES // 5):
        program = sample(chance.randrange(10**9), 25)
        pipeline = ",".join(chance.choices(PASSES, k=chance.randrange(2, 7)))
        changed = optimise(program.module, pipeline).module
        assert difference(run(program.with_module(changed)), run(program)) is None, pipeline


@pytest.mark.parametrize("name", [*PASSES, "default"])
def test_a_pass_is_deterministic(name):
    for seed in range(20):
        module = sample(seed, 30).module
        first, second = (print_module(optimise(module, name).module) for _ in range(2))
        assert first == second, seed
