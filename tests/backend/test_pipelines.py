"""The tables of the backend: their order, and what observers are told of them."""

import sys
from pathlib import Path

import pytest

import tileir
from tests.backend import test_refilled_vectors
from tileir.backend import compile as compile_kernel
from tileir.backend.cpu.pipeline import STAGES as CPU
from tileir.backend.options import Options
from tileir.backend.pipeline import GPU, ORDER, Context
from tileir.backend.pipeline_passes import stage_names
from tileir.backend.stage import Scope, Stage, StageRun
from tileir.backend.target import target
from tileir.backend.warp_specialize.driver import BEFORE, TABLES
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import CrashError, Recorder, all_passes, bisect, run
from tileir.passmanager.reproducer import Failure, Reproducing, reproducer_of
from tileir.testing.workloads import matmuls
from tileir.testing.workloads.matmuls import TileShape
from tileir.textual import parse, print_module

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.tir"))


def matmul():
    data, b = arg(pointer(F16), aligned=16), Builder()
    with b.kernel("matmul", x=data, y=data, z=pointer(F32), n=I32) as (x, y, z, n):
        i, step, acc = b.arange(64), b.arange(64), b.var(b.zeros((64, 64)), name="acc")
        with b.for_(0, n, 64) as start:
            left = (x + i[:, None] * 4096 + (start + step)).load()
            acc.set(left.dot((y + (start + step)[:, None] * 64 + i).load(), acc))
        (z + i[:, None] * 64 + i).store(acc)
    return b.module()


def test_the_tables_keep_the_order_that_is_stated():
    names = [stage.name for stage in GPU]
    for before, after, why in ORDER:
        assert names.index(before) < len(names) - 1 - names[::-1].index(after), why


def test_a_stage_that_is_a_pass_has_the_name_of_the_pass():
    passes = {each_pass.name for each_pass in all_passes()}
    assert {"strip-mine", "async-pipeline", "rotate", "cse", "licm"} <= passes & stage_names()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("pipeline", ["gpu-pipeline{target=sm_80}", "gpu-pipeline", "cpu-pipeline"])
def test_every_stage_leaves_a_valid_module(path, pipeline):
    done = run(parse(path.read_text()), pipeline)
    assert {record.step.node.name for record in done.records} <= stage_names()
    assert done.module.stage is not None


def test_warp_specialization_is_seen_stage_by_stage():
    recorder = Recorder()
    observed = compile_kernel(matmul(), "sm_90a", recorder=recorder)
    seen = [record.step.node.name for record in recorder.records]
    expected = ["infer-descriptors", "persist", "sink-wgmma-waits", "peel-first-iteration",
              "legalize", "assign-layouts", "insert-barriers", "plan-host"]  # fmt: skip
    assert [name for name in seen if name in expected][:3] == expected[:3]
    assert set(expected) <= set(seen)
    assert observed.ptx == compile_kernel(matmul(), "sm_90a").ptx
    roles = {r.step.function for r in recorder.records if r.step.node.name == "assign-layouts"}
    assert roles == {"matmul", "matmul.producer", "matmul.consumer"}


WEIGHTS = {
    "int4": matmuls.int4_weights(TileShape(64, 128, 64), 128),
    "mxfp8": matmuls.mxfp8_weights(TileShape(64, 128, 64)),
    "slices": matmuls.of_slices(TileShape(64, 64, 64)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_stage_of_roles_leaves_a_valid_module(name):
    """Those before a kernel has roles, too: ops that check the conditions of descriptors."""
    compile_kernel(WEIGHTS[name], "sm_90a", recorder=Recorder())


@pytest.mark.parametrize("warps", [1, 4])
def test_stages_of_a_refilled_loop_are_valid(warps):
    """Each of the barriers before its copies is a separate op."""
    options = {**test_refilled_vectors.OPTIONS, "num_warps": warps}
    module = test_refilled_vectors.recurrence(gated=True)
    compile_kernel(module, "sm_90a", options, recorder=Recorder())


@pytest.mark.slow
def test_every_stage_leaves_a_valid_module_of_each_kernel(benchmarks):
    for name, make, machine, _, options in benchmarks("compiled_kernels").kernels():
        if name.startswith("benchmarks/") and machine != "cpu":
            compile_kernel(make(), machine, options or None, recorder=Recorder())


def test_a_stage_that_fails_leaves_a_reproducer(monkeypatch, tmp_path):
    from tileir.backend.layouts import assign_layouts

    def fail(function, anchors):
        raise KeyError("planted")

    monkeypatch.setattr(assign_layouts, "assign_layouts", fail)
    saved = []
    module = parse(EXAMPLES[0].read_text())
    with pytest.raises(CrashError, match="assign-layouts on @"):
        run(module, "gpu-pipeline{target=sm_80}", observers=[Reproducing(saved.append)])
    failure = reproducer_of(parse(print_module(saved[0])))
    assert failure == Failure(failure.module, "gpu-pipeline{target=sm_80}", "KeyError")
    assert failure.fails(failure.module)
    monkeypatch.undo()
    assert not failure.fails(failure.module)


def test_a_wrong_stage_is_found_by_bisection(monkeypatch):
    from tileir.backend import pipeline

    text = EXAMPLES[0].read_text()
    planted = Stage("stage-halo", lambda f, c: _subtract(f), marker="halo", snapshot="halo")
    wrong = tuple(planted if s.name == "stage-halo" else s for s in pipeline.UNTIL_LAYOUTS)
    monkeypatch.setattr(sys.modules["tileir.backend.compile"], "UNTIL_LAYOUTS", wrong)
    culprit = bisect(
        parse(text), "gpu-pipeline{target=sm_80}", lambda m: "fsub" not in print_module(m)
    )
    assert culprit.step.node.name == "stage-halo"


def _subtract(function):
    text = print_module(tileir.Module({function.name: function}))
    return parse(text.replace("fadd", "fsub")).functions[function.name]


def test_a_run_applies_stages_to_what_their_scope_says():
    module, seen = parse(EXAMPLES[0].read_text()), []
    name = module.kernel().name
    context = Context(target("sm_80"), Options(), name)
    note = lambda subject, c: (seen.append(subject), subject)[1]  # noqa: E731
    rows = (
        Stage("each", note, scope=Scope.EACH),
        Stage("module", note, scope=Scope.MODULE),
        Stage("never", note, lambda s, c: False),
        Stage("roles", note, scope=Scope.ROLES),
    )
    work = StageRun(module, name, context)
    work.through(rows)
    assert seen == [module.functions[name], module]
    assert work.module is module


def test_names_of_stages_are_unique_in_a_table():
    for table in (GPU, CPU, *TABLES):
        names = [stage.name for stage in table]
        assert len(set(names)) == len(names)
    assert BEFORE[0].name == "link-and-inline"


@pytest.mark.parametrize(
    ("iterations", "block", "loads"),
    [
        (2, 512, 2), (4, 512, 4), (5, 512, 5), (16, 512, 16), (17, 512, 1), (64, 512, 4),
        (13, 1024, 26), (16, 2048, 4), (5, 2048, 4),
    ],
)  # fmt: skip
def test_loops_of_few_iterations_are_unrolled(iterations, block, loads):
    """Their loads are in flight together. Longer loops stay loops, or are unrolled in part, and so
    do those that load much at a time."""
    data, b = arg(pointer(F32), aligned=16), Builder()
    with b.kernel("totals", x=data, z=data) as (x, z):
        i, acc = b.arange(block), b.var(b.zeros((block,)), name="acc")
        with b.for_(0, iterations * block, block) as start:
            acc.set(acc + (x + i + start).load())
        (z + i).store(acc)
    ptx = compile_kernel(b.module(), target="sm_90a").ptx
    assert ptx.count("ld.global") == loads
    assert ("bra" in ptx) == (iterations > loads * 512 // block)


def test_loops_that_store_stay_loops():
    """Their loads do not move over stores."""
    data, b = arg(pointer(F32), aligned=16), Builder()
    with b.kernel("copies", x=data, z=data) as (x, z):
        i = b.arange(512)
        with b.for_(0, 8 * 512, 512) as start:
            (z + i + start).store((x + i + start).load())
    ptx = compile_kernel(b.module(), target="sm_90a").ptx
    assert ptx.count("ld.global") == 1
    assert "bra" in ptx
