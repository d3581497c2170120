"""Programs of torch.compile by tileir and by Triton: whose fault a row is, and its ratios."""

import argparse
import json
import os
import threading
import time
import types

import pytest


@pytest.fixture
def bench(benchmarks, monkeypatch):
    monkeypatch.syspath_prepend(str(benchmarks("triton_suite").HERE / "public"))
    return __import__("torch_compile")


def row(ours, theirs, **times):
    outcomes = {"tileir": {"outcome": ours}, "triton": {"outcome": theirs}}
    for compiler, us in times.items():
        outcomes[compiler]["call_us"] = us
    return outcomes


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


@pytest.mark.parametrize(("status", "text"), [(-9, "SIGKILL"), (3, "status 3")])
def test_how_the_process_of_a_task_ended_is_noted(bench, tmp_path, status, text):
    log = tmp_path / "log"
    bench.note_status(log, status)
    done = {"task": "p default", "outcome": "right"}
    log.write_text(json.dumps(done) + "\n")
    bench.note_status(log, status)
    began = {"task": "q default", "outcome": "failed", "reason": bench.BEGAN}
    log.write_text(log.read_text() + json.dumps(began) + "\n")
    bench.note_status(log, status)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines == [done, began, {**began, "reason": f"the process ended: {text}"}]


def test_settings_of_packages_are_those_that_torch_has(bench, monkeypatch):
    monkeypatch.setenv("COMPILED_WORK", ".")
    monkeypatch.setenv("COMPILED_BY", "tileir")
    worker = __import__("torch_compile_worker")

    class Proxy:  # torch answers for names that are not in its dictionary
        def __getattr__(self, name):
            if name == "precompile_headers":
                return True
            raise AttributeError(name)

    config = types.SimpleNamespace(aot_inductor=Proxy())
    assert worker.quick_package(config) == {"precompile_headers": False}


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


class FakeTimer:
    """Answers from a list; writes down what it was asked."""

    def __init__(self, name, log, *answers):
        self.name, self.log, self.answers = name, log, list(answers)

    def ask(self, line, end):
        self.log.append((self.name, line))
        return self.answers.pop(0)

    def end(self):
        pass


def test_a_pair_is_timed_alternately_on_one_core_and_the_least_time_counts(bench):
    log = []
    timers = [
        FakeTimer("triton", log, {}, *({"call_us": us} for us in (3.0, 2.0, 2.5))),
        FakeTimer(
            "tileir",
            log,
            {},
            {"call_us": 4.0, "by": {"k": 1.0}},
            {"call_us": 5.0},
            {"call_us": 6.0},
        ),
    ]
    end = time.time() + 60
    built = bench.build_pair(timers, "p default", end)
    results = bench.measure_pair(timers, built, end, 60, [2, 3, 4, 6, 7, 8])
    assert results == [{"call_us": 2.0}, {"call_us": 4.0, "by": {"k": 1.0}}]
    assert log[2:] == [(c, f"go {core}") for core in (2, 4, 7) for c in ("triton", "tileir")]
    assert set(log[:2]) == {("triton", "p default"), ("tileir", "p default")}


def test_a_pair_is_not_timed_where_one_does_not_build_it(bench):
    log = []
    timers = [FakeTimer("triton", log, {"untimed": "x"}), FakeTimer("tileir", log, {})]
    end = time.time() + 60
    built = bench.build_pair(timers, "p default", end)
    assert bench.measure_pair(timers, built, end, 60, [0]) == [{"untimed": "x"}, {}]


def test_no_pair_of_a_gpu_is_timed_while_another_builds(bench, tmp_path):
    log = []
    names = ("a default", "b default", "c default")
    answers = [{}, *({"call_us": 1.0},) * bench.REPEATS]
    pairs = [
        ("0", [FakeTimer(f"{compiler}{i}", log, *answers * 2) for compiler in bench.COMPILERS])
        for i in range(2)
    ]
    rows = {name: {c: {"first_s": 1.0} for c in bench.COMPILERS} for name in names}
    measured = bench.Bench.__new__(bench.Bench)
    measured.options, measured.gpus = argparse.Namespace(limit=60, out=tmp_path), ["0"]
    measured.measure(list(names), rows, pairs, time.time() + 60)
    assert all(rows[name][c]["call_us"] == 1.0 for name in names for c in bench.COMPILERS)
    lines = [line for _, line in log]
    assert set(lines[:4]) == {"a default", "b default"}
    timed = lines[4 : 4 + 4 * bench.REPEATS]
    assert len(timed) == 4 * bench.REPEATS and all(line.startswith("go ") for line in timed)
    assert lines[4 + 4 * bench.REPEATS :][:2] == ["c default"] * 2


def test_the_least_times_of_two_measurements_count(bench):
    first = {"call_us": 2.0, "by": {"a": 1.0, "b": 5.0}}
    second = {"call_us": 3.0, "by": {"b": 4.0}, "other_us": 1.0}
    assert bench.least_of(first, second) == {
        "call_us": 2.0, "by": {"a": 1.0, "b": 4.0}, "other_us": 1.0,
    }  # fmt: skip


def test_what_did_not_run_is_printed(bench, capsys):
    cut = {"tileir": {"outcome": "cut"}, "triton": {"outcome": "right"}}
    bench.show({"inductor/p default": cut}, ["inductor/p default", "inductor/q package"])
    printed = capsys.readouterr().out
    assert "not run by tileir: 2 of 2: p default, q package" in printed
    assert "not run by triton: 1 of 2: q package" in printed


def test_few_candidates_are_tried_for_a_matmul(bench, monkeypatch):
    monkeypatch.setenv("COMPILED_WORK", ".")
    monkeypatch.setenv("COMPILED_BY", "tileir")
    worker = __import__("torch_compile_worker")
    for count in range(1, 20):
        kept = worker.evenly_spaced(list(range(count)), 4)
        assert len(kept) in range(min(count, 2), 5) and kept[0] == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_all_threads_of_a_process_are_timed_on_one_core(bench, monkeypatch):
    """The gradients of a step of training are computed in a thread of its own."""
    monkeypatch.setenv("COMPILED_WORK", ".")
    monkeypatch.setenv("COMPILED_BY", "tileir")
    worker = __import__("torch_compile_worker")
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        before = os.sched_getaffinity(thread.native_id)
        core = max(before)
        with worker.on_core(core):
            assert os.sched_getaffinity(thread.native_id) == os.sched_getaffinity(0) == {core}
        assert os.sched_getaffinity(thread.native_id) == os.sched_getaffinity(0) == before
    finally:
        ended.set()
        thread.join()
