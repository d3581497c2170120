"""Test-suites of packages with tileir as the compiler: which cases run, and whose fault a failure
is."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def suites(benchmarks, monkeypatch):
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    yield __import__("suites")
    del sys.modules["suites"]


def failed_outcome(error, launched=("k",)):
    return {"outcome": "failed", "error": error, "kernels": [], "launched": list(launched)}


SLOW = failed_outcome("TimeoutError: the case took more than 30 seconds")
NO_KERNEL = failed_outcome("ModuleNotFoundError: No module named 'x'", ())


PASSED, BEGAN = {"outcome": "passed", "kernels": []}, {"outcome": "began", "kernels": []}


@pytest.mark.parametrize(
    ("first", "second", "triton", "kind"),
    [
        (PASSED, None, None, "passed"),
        (failed_outcome("AssertionError: Tensor-likes are not close!"), None, None, "unchecked"),
        (failed_outcome("AssertionError: Tensor-likes are not close!"), None, BEGAN, "unchecked"),
        (failed_outcome("AssertionError: Tensor-likes are not close!"), None, PASSED, "unchecked"),
        (failed_outcome("AssertionError: Tensor-likes are not close!"), BEGAN, PASSED, "wrong"),
        (failed_outcome("x"), failed_outcome("x"), failed_outcome("x"), "fails with Triton"),
        (failed_outcome("x"), PASSED, PASSED, "unsteady"),
        (failed_outcome("x"), PASSED, None, "unchecked"),
        (SLOW, PASSED, None, "passed"),
        (SLOW, SLOW, None, "unchecked"),
        (SLOW, SLOW, PASSED, "failed"),
        (SLOW, SLOW, SLOW, "fails with Triton"),
        (NO_KERNEL, None, None, "not of kernels"),
        (NO_KERNEL, None, PASSED, "unchecked"),
        (NO_KERNEL, NO_KERNEL, PASSED, "failed"),
        (BEGAN, None, None, "unchecked"),
        (failed_outcome("error[TIR0703]: k.ttir:1:2"), failed_outcome(""), PASSED, "refused"),
        (BEGAN, BEGAN, PASSED, "failed"),
    ],
)
def test_whose_fault_a_failure_is(suites, first, second, triton, kind):
    assert suites.kind_of(first, second, triton) == kind


@pytest.mark.parametrize(("filled", "kind"), [
    (None, "unsteady"), (PASSED, "unsteady"), (BEGAN, "unsteady"),
    (failed_outcome("x"), "reads unset memory"),
])  # fmt: skip
def test_a_case_that_needs_what_unset_memory_has_is_no_fault(suites, filled, kind):
    assert suites.kind_of(failed_outcome("x"), PASSED, PASSED, filled) == kind
    assert suites.kind_of(failed_outcome("x"), BEGAN, PASSED, failed_outcome("x")) == "failed"


def test_kernels_are_counted_by_text_and_warps(suites):
    rows = [
        ["f", 4, 1, "tileir"], ["f", 4, 1, "tileir"], ["f", 8, 1, "tileir"],
        ["g", 4, 2, "OutOfResources: shared memory"], ["h", 4, 3, "TileirError: no"],
    ]  # fmt: skip
    assert suites.kernels_of(rows) == {
        "kernels": {"names": 3, "texts": 4, "compiled": 2, "over the resources": 1},
        "reasons": {"h": {"TileirError: no": 1}},
    }


def test_a_case_that_the_end_of_the_time_cut_is_left_out(suites, tmp_path):
    log = tmp_path / "log"
    lines = [{"case": "a", "outcome": "began"}, {"case": "a", "outcome": "passed"}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    suites.note_cut(log)
    assert log.read_text().count("\n") == 2
    log.write_text(log.read_text() + json.dumps({"case": "b", "outcome": "began"}) + "\n")
    assert set(suites.read([log])) == {"a", "b"}
    suites.note_cut(log)
    assert set(suites.read([log])) == {"a"}


TESTS = """
import os
import pytest

STRICT = os.environ["TILEIR_IN_TRITON"] == "strict"

@pytest.mark.unlisted
@pytest.mark.parametrize("i", range(6))
def test_passes(i): pass
def test_wrong(): assert not STRICT
def test_ends_the_process(): STRICT and os._exit(3)
def test_wrong_with_both(): assert False
def test_is_skipped(): pytest.skip()
"""


@pytest.mark.slow
def test_every_case_runs_and_failures_run_again(suites, tmp_path):
    """Two processes share the cases; one of them ends in a case, and another goes on. A
    configuration of pytest in a folder above is not that of the suite."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    folder = tmp_path / "suites/fla/tests/ops"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(TESTS)
    (tmp_path / "suites/fla/tests/modules").mkdir()
    command = [sys.executable, suites.__file__, str(tmp_path / "suites")]
    command += ["--out", str(tmp_path / "out"), "--seconds", "60", "--each", "2", "--suites", "fla"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "0"}
    assert subprocess.run(command, env=environment, check=False).returncode == 1
    result = json.loads((tmp_path / "out/suites.json").read_text())["fla"]
    assert result["collected"] == 10
    title, line = suites.rows({"fla": result})
    assert dict(zip(title, line, strict=True)).items() >= {
        "cases": "10", "run": "10", "passed": "6", "wrong": "1", "kernels": "0",
    }.items()  # fmt: skip
    assert {k: n for k, n in result["cases"].items() if n} == {
        "passed": 6, "skipped": 1, "wrong": 1, "failed": 1, "fails with Triton": 1,
    }  # fmt: skip
    assert sorted(result["faults"]) == [
        "tests/ops/test_a.py::test_ends_the_process", "tests/ops/test_a.py::test_wrong",
    ]  # fmt: skip


def test_processes_are_shared_by_weight(suites, monkeypatch):
    monkeypatch.setattr(suites, "SUITES", {n: suites.Suite((), w) for n, w in (("a", 3), ("b", 1))})
    places = suites.suites_of_processes(["a", "b"], 8)
    assert (places.count("a"), places.count("b")) == (6, 2)
    for count in (1, 2):
        assert suites.suites_of_processes(["a", "b"], count) == ["a", "b"]


@pytest.mark.parametrize(("files", "count"), [(17, 5), (3, 8), (1, 1), (4, 4)])
def test_every_file_is_in_a_share(suites, files, count):
    names = [f"tests/test_{i}.py" for i in range(files)]
    shares = suites.shares_of(names, count)
    assert {name for share in shares for name in share} == set(names)
    assert len(shares) == count and all(shares)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_a_suite_without_files_has_no_share(suites):
    assert suites.shares_of([], 4) == []


def test_cases_that_end_their_process_have_failed(suites, tmp_path):
    """The last line of a log is the case that is running."""
    log = tmp_path / "log"
    lines = [
        {"case": "a", "outcome": "began"}, {"collected": {"f": 3}},
        {"case": "b", "outcome": "began"}, {"case": "b", "outcome": "passed"},
        {"case": "c", "outcome": "began"},
    ]  # fmt: skip
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(suites.cases_that_ended([log], suites.read([log]))) == ["a"]
    assert suites.collection_of([log, log]) == {"collected": 3, "not_imported": {}}


@pytest.fixture
def runner(suites, tmp_path):
    result = suites.Runner.__new__(suites.Runner)
    result.work = tmp_path
    return result


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


COMPILED, LAUNCHED = {"kernels": [["k", 4, 1, "tileir"]]}, {"launched": ["k"]}


def test_failures_with_kernels_run_again_first(runner, tmp_path):
    """There may be no time for the others, such as cases of modules that are missing."""
    write_lines(tmp_path / "first.fla.0.log", [
        {"case": "t.py::a", "outcome": "failed", "error": "ModuleNotFoundError"},
        {"case": "t.py::b", "outcome": "failed", **COMPILED},
        {"case": "u.py::c", "outcome": "began"},
        {"case": "u.py::d", "outcome": "passed", **COMPILED},
    ])  # fmt: skip
    assert [(job.phase, job.files, job.cases) for job in runner.rerun_jobs(["fla"])] == [
        ("rerun_triton", ("t.py", "u.py"), ("t.py::b", "u.py::c")),
        ("rerun_tileir", ("t.py", "u.py"), ("t.py::b", "u.py::c")),
    ]
    assert [(job.phase, job.cases) for job in runner.jobs_without_kernels(["fla"])] == [
        ("later_triton", ("t.py::a",)), ("later_tileir", ("t.py::a",)),
    ]  # fmt: skip
    write_lines(tmp_path / "rerun_triton.fla.0.log", [{"case": "t.py::b", "outcome": "passed"}])
    reruns = [(job.phase, job.cases) for job in runner.rerun_jobs(["fla"])]
    assert reruns[0] == ("rerun_triton", ("u.py::c",)) and len(reruns) == 2


def test_cases_run_again_after_those_that_compiled_their_kernels(runner, tmp_path):
    """Of the same process, in its order; a process of pytest begins with what it collected."""
    start, other = {"collected": {"t.py": 9}}, {"kernels": [["other", 4, 1, "tileir"]]}
    write_lines(tmp_path / "first.fla.0.log", [
        start, {"case": "t.py::a", "outcome": "passed", **COMPILED},
        start, {"case": "t.py::b", "outcome": "passed", **COMPILED},
        {"case": "t.py::c", "outcome": "passed", **other},
        {"case": "t.py::d", "outcome": "passed", **LAUNCHED},
        {"case": "t.py::e", "outcome": "failed", **LAUNCHED},
        {"case": "t.py::f", "outcome": "passed", **COMPILED},
    ])  # fmt: skip
    jobs = runner.rerun_jobs(["fla"])
    assert [job.cases for job in jobs] == [("t.py::b", "t.py::e")] * 2
    assert len({job.group for job in jobs}) == 1 and all(job.group for job in jobs)


def test_cases_that_took_too_long_run_by_triton_where_tileir_fails_again(runner, tmp_path):
    lines = [{"case": f"t.py::{name}", **SLOW, **LAUNCHED} for name in "ab"]
    write_lines(tmp_path / "first.fla.0.log", lines)
    assert runner.rerun_jobs(["fla"]) == runner.slow_jobs(["fla"], "triton") == []
    (job,) = runner.slow_jobs(["fla"], "tileir")
    assert job.cases == ("t.py::a", "t.py::b") and not job.group
    second = [{"case": "t.py::a", "outcome": "passed"}, {**lines[1], "outcome": "failed"}]
    write_lines(tmp_path / "slow_tileir.fla.0.log", second)
    (job,) = runner.slow_jobs(["fla"], "triton")
    assert job.cases == ("t.py::b",)


def test_cases_that_pass_the_second_time_run_with_memory_filled(runner, tmp_path):
    """By Triton, where it passes too."""
    failed = [{"case": f"t.py::{name}", "outcome": "failed", **LAUNCHED} for name in "abc"]
    passed = [{**line, "outcome": "passed"} for line in failed]
    write_lines(tmp_path / "first.fla.0.log", failed)
    write_lines(tmp_path / "rerun_tileir.fla.0.log", [passed[0], failed[1], passed[2]])
    assert runner.filled_jobs(["fla"]) == []
    write_lines(tmp_path / "rerun_triton.fla.0.log", [passed[0], passed[1], failed[2]])
    (job,) = runner.filled_jobs(["fla"])
    assert (job.phase, job.cases) == ("filled_triton", ("t.py::a",))


def test_a_suite_whose_processes_fail_at_their_start_is_reported(runner, tmp_path):
    assert runner.not_started("fla") == "no process began"
    (tmp_path / "first.fla.0.out").write_text("Traceback\nImportError: conftest\n\n")
    assert runner.not_started("fla") == "ImportError: conftest"
    write_lines(tmp_path / "first.fla.0.log", [{"collected": {}}])
    assert runner.not_started("fla") == ""
