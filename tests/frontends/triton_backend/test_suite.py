"""Outcomes of Triton's own tests: how they are told apart, and the table of the documentation."""

import json

import pytest


@pytest.fixture(scope="module")
def suite(benchmarks):
    return benchmarks("triton_suite")


def failed_outcome(error, case="test_core.py::test_add[1]"):
    return {"case": case, "outcome": "failed", "error": error}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ({"case": "c", "outcome": "passed"}, "passed"),
        ({"case": "c", "outcome": "skipped"}, "skipped"),
        ({"case": "c", "outcome": "began"}, "failed"),
        (failed_outcome("KeyError: \"Unknown key: 'ttgir'\""), "GPU"),
        (failed_outcome("AssertionError: Torch not compiled with CUDA enabled"), "GPU"),
        (failed_outcome("assert False", "test_subprocess.py::test_print[print-int32]"), "printed"),
        (failed_outcome("tileir.CompilationError: k.ttir:1:2: error[TIR1003]: ..."), "refused"),
        (failed_outcome("AssertionError: Not equal to tolerance rtol=0.01"), "wrong"),
        (failed_outcome("assert 1 <= 0"), "wrong"),
        (failed_outcome("AttributeError: no such thing"), "failed"),
    ],
)
def test_kinds_of_outcomes(suite, line, kind):
    assert suite.kind_of(line) == kind


def test_the_last_line_of_a_case_counts(suite, tmp_path):
    lines = [
        {"case": "unit/test_a.py::f[1]", "outcome": "began"},
        {"case": "unit/test_a.py::f[1]", "outcome": "passed"},
        {"case": "unit/test_b.py::g", "outcome": "began"},
    ]
    (tmp_path / "log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = suite.read(tmp_path / "log")
    counts = suite.summary(outcomes)
    assert (counts["test_a.py"]["passed"], counts["test_b.py"]["failed"]) == (1, 1)
    assert list(suite.errors(outcomes).values()) == [["unit/test_b.py::g"]]
    assert list(suite.rows(counts))[-1][:3] == ("all", "2", "1")


def test_the_documentation_has_what_was_found(suite):
    record = json.loads(suite.RESULTS.read_text())
    table = suite.markdown(suite.rows(record))
    assert f"{suite.mark(suite.NAME)}\n\n{table}\n\n{suite.END}" in suite.PAGE.read_text()
    assert not any(counts["wrong"] + counts["failed"] for counts in record.values())
