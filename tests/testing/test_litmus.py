"""Litmus tests without a GPU: only allowed outcomes, no race in the right programs, one in each
that orders less."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from tileir.backend.simt.shadow import RaceError
from tileir.errors import InterpretError, TileirError
from tileir.executor import executor
from tileir.testing import litmus
from tileir.testing.litmus.__main__ import main
from tileir.textual import parse

TESTS = {test.name: test for test in litmus.tests()}
ORDERS = re.compile(r"sem = (?:acquire|release|acq_rel)(?:, scope = sys)?|^ *fence .*$", re.M)
SILENT = {"corr", "iriw", "iriw_rmw", "lb", "sb", "sb_rmw"}
"""Tests without a payload: with less order they have other outcomes, and no race."""


def weaker_tests() -> list[Any]:
    """Each test with a payload, with each of its orders relaxed or of the scope of a block."""
    cases: list[Any] = []
    for name in sorted(TESTS.keys() - SILENT):
        text = (litmus.FOLDER / f"{name}.tir").read_text()
        for number, match in enumerate(ORDERS.finditer(text)):
            fence = "fence" in match.group()
            relaxed = "" if fence else "sem = relaxed"
            narrow = match.group().replace("}", ", scope = cta}") if fence else (
                match.group().split(",")[0] + ", scope = cta"
            )  # fmt: skip
            for how, word in (("relaxed", relaxed), ("of a block", narrow)):
                weaker_text = text[: match.start()] + word + text[match.end() :]
                cases.append(pytest.param(name, weaker_text, id=f"{name}-{number}-{how}"))
    return cases


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TESTS)
def test_outcomes_are_allowed_and_nothing_races(name: str, seed: int) -> None:
    test = TESTS[name]
    outcome = litmus.run(test, executor("interpreter"), 2, 3, seed=seed)
    assert outcome.total() == 6
    assert all(map(test.is_allowed, outcome))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", TESTS)
def test_outcomes_are_allowed_and_nothing_races_by_threads(name: str, seed: int) -> None:
    test = TESTS[name]
    outcome = litmus.run(test, executor("simt"), 1, 2, seed=seed)
    assert all(map(test.is_allowed, outcome))


def races(name: str, text: str, machine: str, repetitions: int) -> TileirError | None:
    """The race that is found in `text` with some seed."""
    test = litmus.Litmus.of(parse(text, name), name)
    for seed in range(8):
        try:
            litmus.run(test, executor(machine), 1, repetitions, seed=seed)
        except TileirError as error:
            return error
    return None


@pytest.mark.sampled(23)
@pytest.mark.parametrize(("name", "text"), weaker_tests())
def test_less_order_is_a_race(name: str, text: str) -> None:
    error = races(name, text, "interpreter", 4)
    assert isinstance(error, InterpretError) and error.code == "TIR0517"
    assert error.location is not None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "text"), weaker_tests())
def test_less_order_is_a_race_by_threads(name: str, text: str) -> None:
    error = races(name, text, "simt", 2)
    assert isinstance(error, RaceError) and error.code == "TIR0721"
    assert error.location is not None


def test_additions_under_locks() -> None:
    assert litmus.locked_accumulation(executor("interpreter"), 1) == (1, 0)


def test_additions_under_a_lock_that_is_released_relaxed_are_a_race() -> None:
    path = litmus.FOLDER / "locks" / "layer_norm_backward.tir"
    text = path.read_text().replace("%lock, 0 {op = xchg}", "%lock, 0 {op = xchg, sem = relaxed}")
    for machine, code in (("interpreter", "TIR0517"), ("simt", "TIR0721")):
        arrays = [np.zeros(256 * 8, np.float32) for _ in range(4)]
        locks = [np.zeros(8, np.int32) for _ in range(2)]
        with pytest.raises(TileirError) as caught:
            executor(machine).launch(parse(text), None, 8, [*arrays, *locks, 2])
        assert caught.value.code == code


# The runner ----------------------------------------------------------------------------------


def test_the_runner_prints_a_table_and_writes_it(tmp_path: Any, capsys: Any) -> None:
    out = tmp_path / "found.json"
    command = ["--on", "interpreter", "--runs", "4", "--only", "mp,corr", "--out", str(out)]
    assert main(command) == 0
    rows = json.loads(out.read_text())["rows"]
    assert {row["program"] for row in rows} == {"mp", "corr"}
    assert sum(row["count"] for row in rows if row["program"] == "mp") >= 4
    assert "1 0                     0  forbidden" in capsys.readouterr().out


def test_the_table_is_written_after_every_test_and_continued(
    tmp_path: Any, monkeypatch: Any
) -> None:
    out, ran = tmp_path / "found.json", []

    def outcomes(test: Any, *_: Any) -> litmus.Counter[str]:
        ran.append(test.name)
        if test.name == "sb":
            raise KeyboardInterrupt
        return litmus.Counter({test.allowed[0]: 4})

    monkeypatch.setattr(litmus, "outcomes", outcomes)
    command = ["--on", "interpreter", "--runs", "4", "--only", "mp,lb,sb", "--out", str(out)]
    with pytest.raises(KeyboardInterrupt):
        main(command)
    assert {row["program"] for row in json.loads(out.read_text())["rows"]} == {"lb", "mp"}
    monkeypatch.setattr(litmus, "outcomes", lambda test, *_: ran.append(test.name) or {})
    assert main(command) == 0
    assert ran == ["lb", "mp", "sb", "sb"]
    assert main([*command, "--fresh", "--seconds", "0"]) == 3
    assert main([*command, "--runs", "5"]) == 0, "more runs than the file has"
    assert ran[4:] == ["lb", "mp", "sb"]


def test_outcomes_are_counted() -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.integers(-1, 3, 500).astype(np.int32) for _ in range(3)]
    arrays[0][0] = -(1 << 31)
    expected = litmus.Counter(
        " ".join(map(str, row)) for row in zip(*(a.tolist() for a in arrays), strict=True)
    )
    assert litmus.count_outcomes(arrays) == expected


def test_a_forbidden_outcome_is_an_error(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(litmus, "run", lambda *a, **o: litmus.Counter({"1 0": 5}))
    assert main(["--on", "interpreter", "--runs", "4", "--only", "mp"]) == 1
    assert "must not occur" in capsys.readouterr().out


def test_an_outcome_without_a_name_is_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(litmus, "run", lambda *a, **o: litmus.Counter({"7 7": 5}))
    assert main(["--on", "interpreter", "--runs", "4", "--only", "mp"]) == 1


def test_wrong_totals_are_an_error(monkeypatch: Any) -> None:
    monkeypatch.setattr(litmus, "locked_accumulation", lambda *a, **o: (4, 1))
    assert main(["--on", "interpreter", "--only", "locks"]) == 1


def test_a_race_is_an_error(monkeypatch: Any, capsys: Any) -> None:
    weak = (litmus.FOLDER / "mp.tir").read_text().replace("sem = release", "sem = relaxed")
    test = litmus.Litmus.of(parse(weak), "mp")
    monkeypatch.setattr(litmus, "tests", lambda only=(): [test])
    assert main(["--on", "interpreter", "--runs", "40", "--launches", "0"]) == 1
    assert "TIR0517" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [(["--only", "nope"], "no test nope"), (["--on", "nope"], "no executor nope"),
     (["--on", "interpreter", "--runs", "0"], "positive")],
)  # fmt: skip
def test_what_cannot_run_is_reported(command: list[str], message: str, capsys: Any) -> None:
    assert main(["--on", "interpreter", *command]) == 2
    assert message in capsys.readouterr().err


def test_without_a_gpu_the_runner_says_so(monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr("tileir.backend.driver.device.available", lambda: "no CUDA driver")
    assert main(["--on", "gpu"]) == 2
    assert "no CUDA driver" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [("litmus.y = 32,", ""), ('"0 -1", ', '"0", '), ('["1 0"]', '["1 1"]')],
)
def test_metadata_has_to_be_whole(old: str, new: str) -> None:
    text = (litmus.FOLDER / "mp.tir").read_text().replace(old, new)
    with pytest.raises(ValueError, match="mp: "):
        litmus.Litmus.of(parse(text), "mp")
