"""Programs of torch.compile by tileir and by Triton: whose fault a row is, and its ratios."""

import json

import pytest


@pytest.fixture
def bench(benchmarks, monkeypatch):
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    return __import__("torch_compile")


def row(ours, theirs, **times):
    found = {"tileir": {"outcome": ours}, "triton": {"outcome": theirs}}
    for compiler, us in times.items():
        found[compiler]["call_us"] = us
    return found


@pytest.mark.parametrize(
    ("ours", "theirs", "fault"),
    [
        ("right", "right", False), ("wrong", "right", True), ("failed", "right", True),
        ("failed", "failed", False), ("wrong", "wrong", False), (None, "right", False),
    ],
)  # fmt: skip
def test_tileir_is_at_fault_where_triton_is_right(bench, ours, theirs, fault):
    assert bench.is_fault(row(ours, theirs)) == fault
    assert bench.show({"p default": row(ours, theirs)}) == fault


def test_a_ratio_needs_both_times(bench):
    assert bench.ratio_of(row("right", "right", tileir=2.0, triton=3.0), "call_us") == 1.5
    assert bench.ratio_of(row("right", "right", tileir=2.0), "call_us") == 0.0
    assert bench.about([2.0, 0.5]) == "2 timed, mean 1.000, below 0.95: 1, least 0.50"


def test_a_task_that_the_end_of_the_time_cut_is_no_fault(bench, tmp_path):
    log = tmp_path / "log"
    bench.note_cut(log)
    log.write_text(json.dumps({"task": "p default", "outcome": "failed", "reason": "x"}) + "\n")
    bench.note_cut(log)
    began = {"task": "q default", "outcome": "failed", "reason": bench.BEGAN}
    log.write_text(log.read_text() + json.dumps(began) + "\n")
    bench.note_cut(log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["failed", "failed", "cut"]
    assert not bench.is_fault({"tileir": lines[-1], "triton": {"outcome": "right"}})


def test_a_line_of_the_table_has_the_modes_of_a_program(bench):
    rows = {
        "inductor/p default": row("right", "right", tileir=2.0, triton=3.0),
        "inductor/p graphs": row("wrong", "right"),
        "inductor/q graphs": row("right", "right"),
    }
    assert list(bench.table_rows(rows)) == [
        ("program", "default", "graphs", "kernels"),
        ("p", "1.50", "wrong", ""), ("q", "", "right", ""),
    ]  # fmt: skip
