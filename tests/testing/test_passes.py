"""Passes keep what generated programs mean, one at a time and in random pipelines; so do the
threads of the backend."""

import pytest

import tileir.backend  # noqa: F401 - registers its passes
from tests.sizes import few_or_all
from tileir.passmanager import all_passes, run as optimise
from tileir.testing import case, check
from tileir.testing.checking import RANDOM, SIMT
from tileir.testing.matmul_programs.checking import COPIES, MATMUL_PASSES, SIMT as ROLES
from tileir.textual import print_module

PASSES = tuple(each_pass.name for each_pass in all_passes())
PROGRAMS, PIPELINES, THREADS = 50, 100, 100
BATCH = 10
FIRST = 1_000_000
"""Campaigns begin at 0: what runs here is new. It is the same in each run, and finds what a change
breaks; campaigns find what has always been wrong, in 20,000 programs and more of a pass."""


@pytest.mark.parametrize("share", few_or_all(0, 1))
@pytest.mark.parametrize("name", [*PASSES, "default", ROLES, COPIES])
def test_a_pass_keeps_the_meaning_of_programs(name, share):
    fired, programs = 0, max(share * PROGRAMS, 2 if name in MATMUL_PASSES else 6)
    for seed in range(FIRST, FIRST + programs):
        verdict = check(case(name, seed))
        assert verdict.failure is None, seed
        fired += verdict.fired and not verdict.discarded
    assert fired >= 0.3 * programs, f"{name} changed {fired} programs only"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + PIPELINES, BATCH))
def test_random_pipelines_keep_the_meaning_of_programs(first):
    for seed in range(first, first + BATCH):
        assert check(case(RANDOM, seed)).failure is None, seed


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(FIRST, FIRST + THREADS, BATCH))
def test_threads_compute_what_programs_mean(first):
    for seed in range(first, first + BATCH):
        assert check(case(SIMT, seed)).failure is None, seed


@pytest.mark.parametrize("programs", few_or_all(1, 5))
@pytest.mark.parametrize("name", sorted({*MATMUL_PASSES} & {*PASSES}))
def test_a_pass_on_matmuls_is_deterministic(name, programs):
    """Of other passes `check` repeats every 16th run."""
    for seed in range(programs):
        module = case(name, seed).program.module
        first, second = (print_module(optimise(module, name).module) for _ in range(2))
        assert first == second, seed
