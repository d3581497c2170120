"""Programs that end their process or never end are reported; the others of their part still run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tileir.testing import isolated

WORKER = """
import json, os, sys, time
on, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(first, first + count):
    if on == "gpu" and number % 100 == 7:
        os.abort()
    if on == "gpu" and number % 100 == 60:
        time.sleep(600)
    result = f"{number % 10}" if on == "interpreter" or number % 100 != 9 else "other"
    print(json.dumps([number, None if number % 100 == 11 else result, None]), flush=True)
"""


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "WORKER", (sys.executable, "-c", WORKER))


def test_a_process_that_dies_costs_one_program(tmp_path: Path) -> None:
    file, out = tmp_path / "recorded.json", tmp_path / "result.json"
    assert isolated.main(["record", str(file), "--first", "100", "--count", "55"]) == 0
    assert json.loads(file.read_text())["digests"][9:13] == ["9", "0", None, "2"]
    command = ["run", str(file), "--on", "gpu,simt", "--out", str(out), "--jobs", "2"]
    assert isolated.main(command) == 1
    result = json.loads(out.read_text())
    assert result["wrong"]["gpu"].keys() == {"107", "109"}
    assert "ended with -6" in result["wrong"]["gpu"]["107"]
    assert result["counts"] == {"gpu": 52, "simt": 53}
    assert isolated.main(command) == 1, "nothing is run again, and what was wrong stays so"
    assert json.loads(out.read_text())["counts"] == result["counts"]


def test_what_the_time_is_too_short_for_is_left(tmp_path: Path) -> None:
    file, out = tmp_path / "recorded.json", tmp_path / "result.json"
    isolated.main(["record", str(file), "--first", "100", "--count", "5"])
    command = ["run", str(file), "--on", "simt", "--out", str(out)]
    assert isolated.main([*command, "--seconds", "0"]) == 3
    assert isolated.main(command) == 0
    assert json.loads(out.read_text())["counts"] == {"simt": 5}


@pytest.mark.slow
def test_a_program_that_never_ends_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "LONGEST", 20.0)
    outcome = isolated.explore("gpu", range(158, 163), 1, float("inf"))
    assert outcome[160] == isolated.Answer(None, "over 20 s")
    assert [outcome[n].digest for n in (158, 159, 161, 162)] == ["8", "9", "1", "2"]


def test_digests_are_of_bits_and_of_no_nan() -> None:
    import numpy as np

    one = {"o": np.float32([0.0, np.nan])}
    assert isolated.digest(one) == isolated.digest({"o": -np.float32([-0.0, np.nan])})
    assert isolated.digest(one) != isolated.digest({"o": np.float32([-0.0, np.nan])})


@pytest.mark.slow
def test_threads_and_native_code_compute_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    file, out = tmp_path / "recorded.json", tmp_path / "result.json"
    assert isolated.main(["record", str(file), "--first", "2999000", "--count", "4"]) == 0
    assert isolated.main(["run", str(file), "--on", "simt,cpu", "--out", str(out)]) == 0
