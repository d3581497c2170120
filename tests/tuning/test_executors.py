"""Compiling by other executors, and runs that are killed."""

import pickle
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import killed
import matmuls
import pytest
from predicting import Registers
from problems import SPACE, bowl, die, executed_count, interrupt, problem, run_until, unready

from tileir.backend.tuning import Status, TimeLimits, TuneError, Workers, tune
from tileir.backend.tuning.workers import _Process, _serve, _Start
from tileir.testing.fake_meter import FormulaMeter

BEST = "M=64,N=32,num_warps=4"
FEW = SPACE.with_choices(M=(32, 64), N=(32, 64))


def test_threads_compile():
    with ThreadPoolExecutor(4) as threads:
        assert tune(problem(FEW), FormulaMeter(bowl), executor=threads).best.name == BEST


def test_a_process_pool_that_breaks_is_replaced():
    meter = FormulaMeter(bowl, faults={"M=32,N=32,num_warps=1": "crash"})
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        result = tune(problem(FEW), meter, executor=pool, processes=1)
    assert [o.name for o in result.outcomes if o.status is Status.CRASHED] == [
        "M=32,N=32,num_warps=1"
    ]
    assert len(result.good_outcomes) == 15
    assert result.best.name == BEST


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_executor_that_hangs_is_replaced(over):
    few = FEW.with_choices(M=(64,))
    meter = FormulaMeter(bowl, faults={"M=64,N=64,num_warps=1": "hang"}, hung=str(over))
    pool = ProcessPoolExecutor(1, get_context("forkserver"))
    result = tune(
        problem(few), meter, executor=pool, processes=1, limits=TimeLimits(compile=600, measure=600)
    )
    for process in list(pool._processes.values()):
        process.kill()
    pool.shutdown()
    assert {o.name: o.status for o in result.outcomes if not o.good} == {
        "M=64,N=64,num_warps=1": Status.TIMEOUT
    }
    assert result.best.name == BEST


def test_an_exception_ends_processes_before_their_task_is_done(tmp_path):
    started, end = tmp_path / "started", tmp_path / "end"
    with pytest.raises(KeyboardInterrupt), Workers(1) as workers:
        result = workers.submit(run_until, started, end)
        while not started.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert isinstance(result.exception(), TuneError) and not end.exists()


def test_a_process_that_is_ended_while_it_starts_runs_no_task():
    process = _Process(_Start(None, {}), None)
    process.end()
    with pytest.raises(TuneError, match="its process was ended"):
        process.call((time.sleep, (600,), {}))


def test_a_process_that_dies_while_it_is_ended_is_closed_once():
    """Closing a connection twice could close a file of another thread."""
    process, closed = _Process(_Start(None, {}), None), list[int]()
    process._connection = SimpleNamespace(close=lambda: closed.append(1))
    process._running = SimpleNamespace(kill=process.end, join=lambda seconds: None)
    process.end()
    assert closed == [1]


def test_processes_ignore_interrupts():
    with Workers(1) as workers:
        assert workers.submit(interrupt).result() == "not interrupted"


OTHERS_START_FORKS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from problems import interrupt
from tileir.backend.tuning.workers import Workers
with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
    pool.submit(pow, 2, 5).result()
with Workers(1) as workers:
    print(workers.submit(interrupt).result())
"""


def test_processes_of_a_fork_server_of_others_ignore_interrupts():
    command = [sys.executable, "-c", OTHERS_START_FORKS]
    ran = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=600
    )
    assert ran.stdout == "not interrupted\n", ran.stderr


def test_an_executor_that_was_shut_down_is_replaced():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    few = FEW.with_choices(M=(64,))
    assert tune(problem(few), FormulaMeter(bowl), executor=pool, processes=1).best.name == BEST


def test_tasks_of_workers_fail_alone():
    with Workers(1, limit=600) as workers:
        assert workers.submit(pow, 2, 5).result() == 32
        with pytest.raises(ZeroDivisionError):
            workers.submit(divmod, 1, 0).result()
        with pytest.raises(TuneError, match="by signal 9") as error:
            workers.submit(die).result()
        assert error.value.code == "TIR1105"
        assert workers.submit(pow, 2, 6).result() == 64


def test_processes_are_started_as_tasks_come():
    with Workers(10**20) as workers:
        assert [workers.submit(pow, 2, n).result() for n in range(3)] == [1, 2, 4]


def test_tasks_of_processes_that_cannot_begin_tell_why():
    with Workers(1, opening=unready) as workers:
        for _ in range(2):
            with pytest.raises(ValueError, match="there is no device"):
                workers.submit(pow, 2, 5).result()


class Asking:
    """The end of a pipe that a process answers: what it is asked, and what it sent."""

    def __init__(self, *tasks):
        self.tasks, self.sent = [pickle.dumps(task) for task in tasks], []

    def recv_bytes(self):
        if not self.tasks:
            raise EOFError
        return self.tasks.pop(0)

    def send_bytes(self, data):
        self.sent.append(pickle.loads(data))


def test_a_process_answers_every_task_until_none_comes():
    asking = Asking((divmod, (7, 2), {}), (divmod, (1, 0), {}), (int, ("11",), {"base": 2}))
    _serve(asking, _Start(None, {}))
    ready, first, (good, error), last = asking.sent
    assert (ready, first, last) == ((True, None), (True, (3, 1)), (True, 3))
    assert not good and isinstance(error, ZeroDivisionError)


def test_a_run_killed_half_way_resumes_and_loses_nothing(tmp_path):
    path = tmp_path / "tuning.db"
    here = Path(__file__).parent
    command = [sys.executable, str(here / "killed.py"), str(path), str(tmp_path / "end")]
    process = subprocess.Popen(command)
    while rows(path) < 10:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "end").touch()  # lets the processes that it has left end
    kept = rows(path)
    assert 10 <= kept < len(SPACE)
    result = killed.run(path, FormulaMeter(bowl, needs_isolation=True))
    assert result.reused == kept
    assert rows(path) == len(result.outcomes) == len(SPACE)
    assert result.best.name == BEST


def rows(path):
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(path) as connection:
            return connection.execute("select count(*) from outcome").fetchone()[0]
    except sqlite3.Error:
        return 0


def test_machine_code_is_the_same_whoever_compiles():
    """Matmuls for sm_90, compiled by threads, by processes of our own, and by Dask."""
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    few = matmuls.SPACE.with_choices(
        M=(32, 64), N=(32,), K=(32,), num_warps=(2, 4), num_stages=(2,)
    )
    expected = matmuls.problem(256, few, expected=None)
    results = []
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
        ThreadPoolExecutor(2) as threads,
        Workers(2) as workers,
    ):
        for executor in (client.get_executor(), threads, workers):
            results.append(tune(expected, Registers("sm_90"), executor=executor))
        assert sum(client.run(executed_count).values()) >= 5
    assert len({tuple((o.name, o.digest) for o in r.outcomes) for r in results}) == 1
    assert len({r.best.name for r in results}) == 1
    assert all(o.good for r in results for o in r.outcomes)


def test_dask_compiles():
    """On a cluster of two workers, in processes of their own."""
    distributed = pytest.importorskip("distributed", reason="the extra `dask` is not installed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        meter = FormulaMeter(bowl, faults={"M=32,N=32,num_warps=1": "raise"})
        result = tune(problem(FEW), meter, executor=client.get_executor())
        assert sum(client.run(executed_count).values()) >= 16
    assert result.best.name == BEST
    assert len(result.good_outcomes) == 15
    assert [o.code for o in result.outcomes if not o.good] == ["TIR1108"]
