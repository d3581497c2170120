"""Problems are sent to other processes by the name of their module, and time limits are over when
a process says that it hangs."""

import os
import sys
from concurrent.futures import wait
from pathlib import Path

import pytest

from tileir.backend.tuning import evaluate, workers

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))


@pytest.fixture
def over(monkeypatch, tmp_path):
    """The folder where processes that hang say so (`FormulaMeter.hung`). Whoever waits for one of
    them is told that its time is over; no other test is, however busy the machine is."""
    answer = workers._Process._answer

    def answer_or_time_out(process, limit):
        number = tmp_path / str(process._running.pid)
        while process._running.is_alive() and not process._connection.poll(0.02):
            if number.exists():
                return answer(process, 0.0)
        return answer(process, limit)

    def wait_or_time_out(futures, limit=None, return_when="ALL_COMPLETED"):
        if limit is None:
            return wait(futures, return_when=return_when)
        while True:
            done, waiting = wait(futures, 0.02, return_when)
            if done or any(tmp_path.iterdir()):
                return done, waiting

    monkeypatch.setattr(workers._Process, "_answer", answer_or_time_out)
    monkeypatch.setattr(evaluate, "wait", wait_or_time_out)
    return tmp_path
