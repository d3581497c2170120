"""Candidates for a GPU: what is known of them before and after they are compiled, without one."""

import pickle

import pytest
from matmuls import inputs, make, problem

from tileir.backend.measurement.arguments import numbers_in
from tileir.backend.tuning import GpuMeter
from tileir.errors import CompileError

METER = GpuMeter("sm_90")
POINT = {"M": 64, "N": 64, "K": 32, "num_warps": 4, "num_stages": 3}


def test_a_survey_knows_work_needs_and_time():
    survey = METER.survey(problem(1024).job(POINT), numbers_in(inputs(1024)))
    assert survey.work is not None and survey.use is not None and survey.estimate is not None
    assert survey.work.dots == {16: 2 * 64 * 64 * 1024}
    assert survey.work.read == 2 * 64 * 1024 * 2
    assert survey.work.written == 64 * 64 * 2
    assert survey.work.steps == 32
    assert (survey.use.warps, survey.use.stages, survey.use.shared) == (4, 3, 3 * 2 * 64 * 32 * 2)
    assert 5e-6 < survey.seconds < 100e-6


def test_a_compiled_candidate_is_small_and_can_be_sent():
    pytest.importorskip("llvmlite")
    compiled = METER.compile(problem(1024).job(POINT))
    data = pickle.dumps(compiled)
    assert len(data) < 100_000
    unpickled = pickle.loads(data)
    assert unpickled.code.cubin[:4] == b"\x7fELF"
    assert [p.name for p in unpickled.code.plan.parameters] == ["a", "b", "c", "m", "n", "k"]
    assert unpickled.registers and unpickled.digest == compiled.digest
    assert METER.compile(problem(1024).job(POINT)).digest == compiled.digest


def test_kernels_of_roles_take_their_tiles_one_after_the_other():
    point = {**POINT, "M": 128, "N": 128, "K": 64, "num_warps": 8}
    survey = GpuMeter("sm_90a").survey(problem(1024).job(point), numbers_in(inputs(1024)))
    assert survey.use is not None and survey.estimate is not None
    assert survey.use.roles is not None and survey.use.roles.alone
    assert survey.use.warps == 12 and survey.use.limit == 168
    assert survey.use.roles.requests == 128 + 2 * 64
    assert survey.estimate.waves == 1.0
    slower = METER.survey(problem(1024).job(point), numbers_in(inputs(1024)))
    assert survey.seconds < slower.seconds


def test_what_needs_too_much_is_refused_before_code_is_written():
    point = {**POINT, "M": 256, "N": 256, "K": 128}
    with pytest.raises(CompileError) as error:
        METER.survey(problem(1024).job({**point, "num_stages": 5}), {})
    assert error.value.code == "TIR0708"


def test_registers_are_estimated_about_right():
    """Against what the assembler reports, for tiles that are not spilled."""
    for point in (POINT, {**POINT, "M": 128}, {**POINT, "num_warps": 8}):
        job = problem(1024).job(point)
        estimated = METER.survey(job, {}).use.registers
        real = METER.compile(job).registers
        assert 0.5 <= estimated / real <= 1.5, (point, estimated, real)


def test_factories_are_sent_by_name():
    assert pickle.loads(pickle.dumps(problem(64).job(POINT))).make is make
