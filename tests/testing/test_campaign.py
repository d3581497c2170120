"""Campaigns add up, go on where they ended, and make what fails small; refinement; policies."""

import itertools
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tileir.ops.floats import FSub
from tileir.rewrite import rewrite
from tileir.testing import (
    RunResult,
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
from tileir.testing.policies import GPU, GenerationPolicy, policy_of


@pytest.mark.slow
def test_a_campaign_goes_on_where_it_ended(tmp_path):
    file, failures = tmp_path / "totals.json", tmp_path / "failures"
    options = ["--file", str(file), "--failures", str(failures), "--seconds", "3600"]
    assert main(["dce", *options, "--programs", "30"]) == 0
    first = read(file)["dce"]
    assert (first.programs, first.fired, first.open) == (30, 30, {})
    assert main(["dce", "text", *options, "--programs", "60", "--jobs", "2"]) == 0
    again = read(file)
    assert {name: total.programs for name, total in again.items()} == {"dce": 60, "text": 60}
    assert 0 < again["text"].fired < 60


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
    found = read(file)["fold"]
    assert (found.programs, found.fired) == (40, alone["fold"].fired)
    with pytest.raises(SystemExit, match="from program 5, not from 40"):
        main(["add", str(out), "--file", str(file)])
    whole = tmp_path / "whole.json"
    write(whole, {"fold": Total(50, 30)})
    assert main(["add", str(whole), "--file", str(file)]) == 0
    assert (read(file)["fold"].programs, read(file)["fold"].fired) == (50, 30)


def test_totals_are_of_passes_that_there_are():
    known = {*targets(), *GPU}
    assert sorted(read(Path(__file__).parents[2] / "docs" / "campaigns.json").keys() - known) == []


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
    monkeypatch.setattr(explorer, "_TIME_LIMIT", 1)
    monkeypatch.setattr(explorer, "check", lambda _: time.sleep(30))
    found = explorer.run("dce", 0, 1, tmp_path)
    assert found.open == {"0": "TimeoutError: over 1 s"}


def dies_at_30(test_case):
    """In place of a check: program 30 ends its process."""
    if test_case.seed == 30:
        os.kill(os.getpid(), signal.SIGKILL)
    return Verdict(True)


def test_a_program_that_ends_its_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(explorer, "check", dies_at_30)
    totals = {"dce": Total(), "fold": Total()}
    explore(totals, 3600, tmp_path, 60, jobs=2)
    for name, total in totals.items():
        assert (total.programs, total.fired) == (60, 60)
        assert total.open == {"30": "the process ends with -9"}
        written = (tmp_path / f"{name}-30.tir").read_text()
        assert written.startswith(f"; {name}, program 30: the process ends with -9\ntir 1.0")


def test_a_target_has_its_share_of_the_time(tmp_path, monkeypatch):
    given = []

    def slow_or_fast(name, first, count, failures):
        given.append(name)
        return Total(count, seconds=3.0 if name == "simt" else 1.0, first=first)

    monkeypatch.setattr(explorer, "run", slow_or_fast)
    monkeypatch.setattr(explorer, "_neediest", limited(explorer._neediest, 188))
    explore({"simt": Total(20000), "dce": Total(), "text": Total()}, 300, tmp_path)
    assert [given.count(name) for name in ("simt", "dce", "text")] == [2, 6, 180]


def limited(function, count):
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
    def numbered(module, _):
        kernel = module.kernel()
        kernel = kernel.evolve(attributes={**kernel.attributes, "number": next(numbers)})
        return SimpleNamespace(module=module.with_functions({kernel.name: kernel}))

    monkeypatch.setattr(checking, "optimise", numbered)
    assert checking.check(checking.case("dce", 16)).failure == failure


def test_shrinking_keeps_what_fails():
    statements = [(n, 5, 6, 7) for n in range(40)]
    fails = lambda made: {s[0] for s in made} >= {3, 17}  # noqa: E731
    assert shrink(statements, fails) == [(3, 0, 0, 0), (17, 0, 0, 0)]


def test_undefined_lanes_may_become_anything_and_no_others():
    wanted = RunResult({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 0])})
    assert violation(RunResult({"o": np.int32([1, 9, 3])}), wanted) is None
    assert violation(RunResult({"o": np.int32([1, 2, 4])}), wanted).startswith("o[2]")
    lost = RunResult({"o": np.int32([1, 2, 3])}, {"o": np.bool_([0, 1, 1])})
    assert violation(lost, wanted).startswith("o[2] is undefined")


@pytest.mark.parametrize("name", names()[::7])
def test_programs_of_one_statement(name):
    run(single(name, 1))


def test_large_programs_and_policies():
    assert sum(1 for _ in sample(1, 600).module.kernel().ops) > 900
    loops = GenerationPolicy({"loop": 50}, length=30)
    headers = [len(sample(s, 30, loops).module.kernel().blocks) for s in range(5)]
    assert min(headers) > 4
    assert policy_of("nothing of this name").undef > 0
