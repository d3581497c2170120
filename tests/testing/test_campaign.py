"""Campaigns add up, go on where they ended, and make what fails small; refinement; policies."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tileir.ops.floats import FSub
from tileir.rewrite import rewrite
from tileir.testing import (
    RunResult,
    campaign,
    checking,
    explore as explorer,
    names,
    run,
    sample,
    shrink,
    single,
    violation,
)
from tileir.testing.campaign import main, read, targets, write
from tileir.testing.checking import Verdict
from tileir.testing.explore import Total, explore
from tileir.testing.fuzz_text import well_formed
from tileir.testing.policies import GPU, GenerationPolicy, policy_of
from tileir.textual import parse


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_ended(tmp_path):
    file, failures = tmp_path / "totals.json", tmp_path / "failures"
    options = ["--file", str(file), "--failures", str(failures), "--seconds", "3600"]
    assert main(["dce", *options, "--programs", "30"]) == 0
    first = read(file)["dce"]
    assert (first.programs, first.fired, first.open) == (30, 30, {})
    assert main(["dce", "text", *options, "--programs", "60", "--jobs", "2"]) == 0
    reread = read(file)
    assert {name: total.programs for name, total in reread.items()} == {"dce": 60, "text": 60}
    assert 0 < reread["text"].fired < 60


def test_what_was_done_elsewhere_is_added_once(tmp_path):
    file, out = tmp_path / "totals.json", tmp_path / "new.json"
    options = ["--file", str(file), "--failures", str(tmp_path), "--seconds", "3600"]
    main(["fold", *options, "--programs", "5"])
    main(["fold", *options, "--programs", "40", "--jobs", "2", "--out", str(out)])
    assert read(file)["fold"].programs == 5
    assert (read(out)["fold"].first, read(out)["fold"].programs) == (5, 35)
    assert main(["add", str(out), "--file", str(file)]) == 0
    alone = {"fold": Total()}
    explore(alone, 3600, tmp_path, 40)
    record = read(file)["fold"]
    assert (record.programs, record.fired) == (40, alone["fold"].fired)
    with pytest.raises(SystemExit, match="from program 5, not from 40"):
        main(["add", str(out), "--file", str(file)])
    whole = tmp_path / "whole.json"
    write(whole, {"fold": Total(50, 30)})
    assert main(["add", str(whole), "--file", str(file)]) == 0
    assert (read(file)["fold"].programs, read(file)["fold"].fired) == (50, 30)


def test_a_failure_that_was_closed_elsewhere_is_closed_here(tmp_path):
    file, out = tmp_path / "totals.json", tmp_path / "new.json"
    options = ["--file", str(file), "--failures", str(tmp_path), "--seconds", "3600"]
    write(file, {"fold": Total(5, 3, open={"2": "a failure that was repaired"})})
    main(["fold", *options, "--programs", "8", "--retry", "--out", str(out)])
    assert list(read(file)["fold"].open) == ["2"]
    assert read(out)["fold"].closed == ["2"]
    assert main(["add", str(out), "--file", str(file)]) == 0
    record = read(file)["fold"]
    assert (record.programs, record.open, record.closed) == (8, {}, [])


def test_a_retried_program_may_end_its_process(tmp_path, monkeypatch):
    """Retried programs run in processes of their own, so that they initialize no driver in the
    process from which those of the campaign are forked."""
    file = tmp_path / "totals.json"
    write(file, {"fold": Total(5, 3, open={"2": "a failure"})})
    monkeypatch.setattr(explorer, "check", lambda test_case: os._exit(3))
    options = ["--file", str(file), "--failures", str(tmp_path), "--programs", "5", "--retry"]
    assert main(["fold", *options]) == 1
    assert list(read(file)["fold"].open) == ["2"]


def test_totals_are_of_passes_that_there_are():
    facts = {*targets(), *GPU}
    assert sorted(read(Path(__file__).parents[2] / "docs" / "campaigns.json").keys() - facts) == []


def total_without_failures(name, first, count, failures):
    """In place of a run: all of its programs agree."""
    return Total(count, count, first=first)


def test_so_many_programs_of_a_target_that_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(explorer, "run", total_without_failures)
    file, out = tmp_path / "totals.json", tmp_path / "new.json"
    write(file, {"cpu": Total(7590, 7590), "dce": Total(100, 100)})
    options = ["--file", str(file), "--failures", str(tmp_path), "--seconds", "3600"]
    assert main(["cpu", *options, "--programs", "9000", "--jobs", "3", "--out", str(out)]) == 0
    assert (read(out)["cpu"].first, read(out)["cpu"].programs) == (7590, 1410)
    assert capsys.readouterr().out.endswith(", 1,410 new\n")
    assert main(["dce", *options, "--programs", "100"]) == 0
    assert capsys.readouterr().out.endswith(", 0 new\n")


def test_all_has_a_tenth_as_many_programs_for_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "run", total_without_failures)
    monkeypatch.setattr(campaign, "targets", lambda: ["dce", "cpu"])
    monkeypatch.setattr(campaign, "_has_gpu", lambda: False)
    file = tmp_path / "totals.json"
    main(["all", "--file", str(file), "--programs", "100", "--seconds", "3600"])
    assert {name: total.programs for name, total in read(file).items()} == {"dce": 100, "cpu": 10}


def stopped_at_100(name, first, count, failures):
    """In place of a run: the campaign gets SIGTERM when program 100 begins, which never ends."""
    if first < 100:
        return Total(count, count, first=first)
    while not (failures / "saved").exists():  # earlier runs may be on their way
        time.sleep(0.01)
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(3600)
    raise AssertionError


def test_what_was_counted_before_a_signal_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "run", stopped_at_100)
    monkeypatch.setattr(explorer, "_SAVE_INTERVAL", 0.0)
    handler, totals, saved = signal.getsignal(signal.SIGTERM), {"dce": Total()}, []

    def keep():
        saved.append(totals["dce"].programs)
        if saved[-1] == 100:
            (tmp_path / "saved").touch()

    explore(totals, 7200, tmp_path, jobs=2, keep=keep)
    assert saved[-1] == totals["dce"].programs == 100
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_command_that_is_terminated_writes_its_totals(tmp_path):
    out = tmp_path / "new.json"
    options = ["--file", tmp_path / "none", "--failures", tmp_path, "--seconds", "3600"]
    command = [sys.executable, "-m", "tileir.testing.campaign", "fold", "--jobs", "2"]
    process = subprocess.Popen([*map(str, [*command, *options, "--out", out])])
    while not out.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == 0
    assert read(out)["fold"].programs % 25 == 0
    assert not out.with_name("new.json.part").exists()


def hangs_at_50(name, first, count, failures):
    """In place of a run: program 50 never ends, whatever its time limit."""
    while first >= 50:
        time.sleep(3600)
    return Total(count, count, first=first)


def test_a_run_that_hangs_does_not_hold_up_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "run", hangs_at_50)
    monkeypatch.setattr(explorer, "_LONGEST_RUN", 0)
    totals = {"dce": Total()}
    explore(totals, 1, tmp_path, 100, jobs=2)
    assert totals["dce"].programs in (0, 25, 50)


def seeds_are_read(name, first, count, failures):
    """In place of a run: it fires where the texts that are changed have been read already."""
    return Total(count, count * well_formed.cache_info().currsize, first=first)


def test_processes_do_not_reread_the_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "run", seeds_are_read)
    totals = {"text": Total()}
    well_formed.cache_clear()
    explore(totals, 3600, tmp_path, 2000, jobs=2)
    assert totals["text"].fired == 2000


def last_at_first(name, first, count, failures):
    """In place of a run: the first one ends after another."""
    if first:
        (failures / "another").touch()
    while not (failures / "another").exists():
        time.sleep(0.01)
    return Total(count, first=first)


def test_runs_that_are_done_out_of_order_count_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "run", last_at_first)
    totals = {"text": Total()}
    monkeypatch.setattr(explorer, "_RUN_LENGTHS", {"text": 10})
    explore(totals, 3600, tmp_path, 40, jobs=2)
    assert totals["text"].programs == 40


def test_a_program_that_never_ends_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "_TIME_LIMIT", 0.2)
    monkeypatch.setattr(explorer, "_WAITING", 2)
    monkeypatch.setattr(explorer, "check", lambda _: time.sleep(30))
    record = explorer.run("dce", 0, 1, tmp_path)
    assert record.open == {"0": "TimeoutError: over 0.2 s"}


def dies_at_30(test_case):
    """In place of a check: program 30 ends its process."""
    if test_case.seed == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return Verdict(True)


def test_the_limit_of_a_program_is_of_its_processor_time(tmp_path, monkeypatch):
    """Other processes may have the processors meanwhile."""
    monkeypatch.setattr(explorer, "_TIME_LIMIT", 0.05)
    monkeypatch.setattr(explorer, "_WAITING", 1000)

    def wait(_):
        time.sleep(0.2)
        return Verdict(True)

    def compute(_):
        while True:
            pass

    for check, failures in ((wait, 0), (compute, 1)):
        monkeypatch.setattr(explorer, "check", check)
        monkeypatch.setattr(explorer, "_write", lambda *_: None)
        assert len(explorer.run("dce", 0, 1, tmp_path).open) == failures


def test_a_program_that_ends_its_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "check", dies_at_30)
    monkeypatch.setattr(explorer, "_RUN_LENGTH", 10)
    totals = {"dce": Total(), "fold": Total()}
    explore(totals, 3600, tmp_path, 40, jobs=2)
    for name, total in totals.items():
        assert (total.programs, total.fired) == (40, 40)
        assert total.open == {"30": "the process ends with -9"}
        written = (tmp_path / f"{name}-30.tir").read_text()
        assert written.startswith(f"; {name}, program 30: the process ends with -9\ntir 1.0")


def test_a_target_has_its_share_of_the_time(tmp_path, monkeypatch):
    names = []

    def slow_or_fast(name, first, count, failures):
        names.append(name)
        return Total(count, seconds=3.0 if name == "simt" else 1.0, first=first)

    monkeypatch.setattr(explorer, "run", slow_or_fast)
    monkeypatch.setattr(explorer, "_neediest", limit_calls(explorer._neediest, 188))
    explore({"simt": Total(20000), "dce": Total(), "text": Total()}, 300, tmp_path)
    assert [names.count(name) for name in ("simt", "dce", "text")] == [2, 6, 180]


def limit_calls(function, count):
    """`function` for the first `count` calls, then None."""
    left = iter(range(count))
    return lambda *arguments: function(*arguments) if next(left, None) is not None else None


def wrong(module, _):
    """Turn additions of floats into subtractions: a planted bug, with which loops still end."""

    def sub(op, walk):
        return FSub(op.lhs, op.rhs) if op.location is None and op.rhs is not op.lhs else op

    kernel = rewrite(module.kernel(), {"fadd": sub})
    return SimpleNamespace(
        module=module.evolve(functions={**module.functions, kernel.name: kernel})
    )


def test_a_planted_bug_is_found_and_made_small(tmp_path, monkeypatch):
    monkeypatch.setattr(checking, "optimise", wrong)
    monkeypatch.setattr(explorer, "_TIME_LIMIT", 600)
    total = Total()
    explore({"dce": total}, 3600, tmp_path)
    assert len(total.open) == 5
    sizes = [len(p.read_text().splitlines()) for p in tmp_path.glob("*.tir")]
    assert min(sizes) < 80


@pytest.mark.parametrize(
    ("numbers", "failure"),
    [
        (itertools.count(), "a second run on the same module gives another text"),
        (itertools.repeat(1), "a second run changes what the first one left"),
    ],
)
def test_a_pass_whose_second_run_does_otherwise_is_found(monkeypatch, numbers, failure):
    def number_kernel(module, _):
        kernel = module.kernel()
        kernel = kernel.evolve(attributes={**kernel.attributes, "number": next(numbers)})
        return SimpleNamespace(module=module.with_functions({kernel.name: kernel}))

    monkeypatch.setattr(checking, "optimise", number_kernel)
    assert checking.check(checking.case("dce", 16)).failure == failure


@pytest.mark.parametrize("where", ["default", "simt", "cpu"])
def test_the_executor_that_disagrees_is_named(monkeypatch, where):
    case = checking.case("executors", 10)
    assert checking.check(case) == Verdict(True)
    if where == "default":
        monkeypatch.setattr(checking, "optimise", wrong)
    executors = checking._executor

    def launch_wrong(module, *arguments, **options):
        executors(where).launch(wrong(module, None).module, *arguments, **options)

    launchers = {where: SimpleNamespace(launch=launch_wrong)}
    monkeypatch.setattr(checking, "_executor", lambda name: launchers.get(name) or executors(name))
    assert checking.check(case).failure.startswith(f"{where}: ")


def test_shrinking_keeps_what_fails():
    statements = [(n, 5, 6, 7) for n in range(40)]
    fails = lambda results: {s[0] for s in results} >= {3, 17}  # noqa: E731
    assert shrink(statements, fails) == [(3, 0, 0, 0), (17, 0, 0, 0)]


def test_undefined_lanes_may_become_anything_and_no_others():
    expected = RunResult({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 0])})
    assert violation(RunResult({"o": np.int32([1, 9, 3])}), expected) is None
    assert violation(RunResult({"o": np.int32([1, 2, 4])}), expected).startswith("o[2]")
    lost = RunResult({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 1])})
    assert violation(lost, expected).startswith("o[2] is undefined")


def test_zeros_are_subnormals_only_of_executors_that_flush():
    tiny = np.float32([1e-45, -1e-39, -0.0, 1.0])
    expected, zeros = RunResult({"o": tiny}), RunResult({"o": np.float32([0, 0, -0.0, 1.0])})
    assert violation(zeros, expected).startswith("o[0] is np.float32(0.0)")
    assert violation(zeros, expected, flushes=True) is None
    assert violation(RunResult({"o": np.float32([0, 0, 0.0, 1.0])}), expected, True) is not None
    assert violation(RunResult({"o": np.float32([0, 1, -0.0, 1.0])}), expected, True) is not None
    halves = RunResult({"o": np.float16([6e-8])})
    assert violation(RunResult({"o": np.float16([0])}), halves, flushes=True) is not None


@pytest.mark.parametrize(("kind", "flushes"), [("f32", True), ("f16", False), ("f64", False)])
def test_additions_of_f32_in_memory_may_flush(kind, flushes):
    text = f"tir 1.0\n\ndefine kernel void @k({kind}* %x) {{\nentry:\n"
    addition = f"  %r = atomic_rmw {kind} %x, 1.0 {{op = OP}}\n"
    for op, expected in (("fadd", flushes), ("fmax", False)):
        module = parse(f"{text}{addition.replace('OP', op)}  ret\n}}\n")
        assert checking.adds_atomically(module) is expected


@pytest.mark.parametrize("name", names()[::7])
def test_programs_of_one_statement(name):
    run(single(name, 1))


def test_large_programs_and_policies():
    assert sum(1 for _ in sample(1, 600).module.kernel().ops) > 900
    loops = GenerationPolicy({"loop": 50}, length=30)
    headers = [len(sample(s, 30, loops).module.kernel().blocks) for s in range(5)]
    assert min(headers) > 4
    assert policy_of("nothing of this name").undef > 0
