"""A process of its own generates code: its end is an error, and the next compilation works."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zlib

import numpy as np
import pytest

from tileir import limits
from tileir.backend import compile as compile_kernel, isolation, worker_pool
from tileir.backend.isolation import Task
from tileir.backend.runtime.cache import Cache
from tileir.errors import DefectError, InfeasibleError
from tileir.executor import executor
from tileir.process import default_isolation
from tileir.textual import parse
from tileir.tools.opt import main as opt

TEXT = """tir 1.0
define kernel void @k(f32* %x, f32 %f) {
entry:
  %v = fadd f32 %f, 1.0
  store %x, %v
  ret
}
"""
ABORTS = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k() {
  call void asm sideeffect "$x", ""()
  ret void
}
"""
"""LLVM ends the process on the text of this assembly, which no program can write."""


@pytest.fixture
def aborting(monkeypatch):
    """LLVM IR on which LLVM aborts, in place of what is emitted."""
    module = sys.modules["tileir.backend.compile"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "join_kernels", lambda parts: ABORTS)
        yield


def test_the_code_is_the_same():
    module = parse(TEXT)
    plain, isolated = compile_kernel(module, isolate=False), compile_kernel(module, isolate=True)
    assert plain.ptx == isolated.ptx and plain.cubin == isolated.cubin
    assert plain.optimized_llvm == isolated.optimized_llvm


@pytest.mark.slow
def test_an_abort_of_llvm_is_an_error_and_the_next_compilation_works(aborting):
    with pytest.raises(DefectError) as caught:
        compile_kernel(parse(TEXT, "k.tir"), isolate=True)
    error = caught.value
    assert error.code == "TIR0720" and error.line == 2
    assert "@k: code generation" in str(error) and "Bad $ operand number" in str(error)


@pytest.mark.slow
def test_the_next_compilation_works():
    task = Task("k", "assembly")
    for _ in range(2):
        with pytest.raises(DefectError, match="@k: assembly ended its process by SIGABRT"):
            isolation.run(task, os.abort)
        assert isolation.run(task, os.path.join, "a", "b") == os.path.join("a", "b")
        assert compile_kernel(parse(TEXT), isolate=True).cubin
    with pytest.raises(DefectError, match="with status 3"):
        isolation.run(task, os._exit, 3)


def test_errors_of_the_function_are_raised_here():
    with pytest.raises(ZeroDivisionError):
        isolation.run(Task("k", "a stage"), divmod, 1, 0)


def test_a_time_limit_ends_what_hangs():
    isolation.run(Task("k", "a stage"), abs, 1)  # started
    with limits.limits(seconds=1), pytest.raises(InfeasibleError) as caught:
        isolation.run(Task("k", "assembly"), time.sleep, 600)
    assert caught.value.code == "TIR1601" and "longer than 1 s" in str(caught.value)
    assert isolation.run(Task("k", "a stage"), abs, -1) == 1


@pytest.mark.parametrize("seconds", [0, 1 << 31, 1 << 63, 10**30])
def test_a_limit_beyond_what_a_timer_counts_is_none(seconds, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with limits.limits(seconds=seconds):
        assert isolation.run(Task("k", "a stage"), time.sleep, 0.05) is None
    assert not raised


def test_an_error_shows_what_the_request_that_failed_wrote():
    task = Task("k", "assembly")
    pids = {isolation.run(task, os.getpid)}
    isolation.run(task, os.write, 2, b"error: of an earlier request\n")
    pids.add(isolation.run(task, os.getpid))
    assert len(pids) == 1
    with pytest.raises(DefectError) as caught:
        isolation.run(task, os.abort)
    assert "earlier request" not in str(caught.value)


def test_the_time_limit_is_not_of_the_start(monkeypatch):
    intervals, timer = [], threading.Timer

    def record_timer(seconds, *arguments):
        intervals.append(seconds)
        return timer(600, *arguments)

    worker_pool.close()
    monkeypatch.setattr(threading, "Timer", record_timer)
    with limits.limits(seconds=2):
        for number in (1, 2):
            assert isolation.run(Task("k", "a stage"), abs, -number) == number
    first, second = intervals
    assert first >= 60 and second == 2


@pytest.mark.skipif(os.name != "posix", reason="groups of processes are of POSIX")
def test_what_a_worker_has_started_ends_with_it():
    command = "sleep 3600 >/dev/null 2>&1 </dev/null & echo $!"
    pid = isolation.run(Task("k", "assembly"), subprocess.getoutput, command)
    running = ["ps", "-o", "stat=", "-p", pid]
    assert subprocess.run(running, capture_output=True, text=True).stdout.strip()
    with pytest.raises(DefectError):
        isolation.run(Task("k", "assembly"), os.abort)
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        state = subprocess.run(running, capture_output=True, text=True).stdout.strip()
        if not state or state.startswith("Z"):
            return
        time.sleep(0.05)
    os.kill(int(pid), signal.SIGKILL)
    pytest.fail("the process still runs")


def test_a_worker_that_was_killed_while_idle_is_replaced():
    pid = isolation.run(Task("k", "a stage"), os.getpid)
    os.kill(pid, signal.SIGKILL)
    ends = time.monotonic() + 600
    while any(w.is_alive for w in worker_pool.workers().idle) and time.monotonic() < ends:
        time.sleep(0.01)
    assert isolation.run(Task("k", "a stage"), os.getpid) != pid


def test_large_requests_and_answers_pass():
    data = b"x" * (8 << 20)
    assert isolation.run(Task("k", "a stage"), zlib.crc32, data) == zlib.crc32(data)
    text = isolation.run(Task("k", "a stage"), textwrap.indent, "a", "x" * (8 << 20))
    assert len(text) == (8 << 20) + 1


def test_threads_share_workers():
    results = []
    threads = [
        threading.Thread(target=lambda i=i: results.append(isolation.run(Task("k", "s"), abs, -i)))
        for i in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(12))
    assert len(worker_pool.workers().all) <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_workers_of_its_own():
    mine = isolation.run(Task("k", "a stage"), os.getpid)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, str(isolation.run(Task("k", "a stage"), os.getpid)).encode())
            worker_pool.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = int(os.read(read, 100))
    os.close(read)
    os.close(write)
    assert theirs != mine and isolation.run(Task("k", "a stage"), os.getpid) == mine


SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may ignore it
import os, pathlib, sys
from tileir.backend import isolation
print(isolation.run(isolation.Task("k", "s"), os.getpid), flush=True)
try:
    isolation.run(isolation.Task("k", "s"), pathlib.Path.read_bytes, pathlib.Path(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", isolation.run(isolation.Task("k", "s"), abs, -1), flush=True)
"""


@pytest.mark.sampled(1)
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("killed", [False, True])
def test_an_interrupt_ends_the_worker_and_so_does_the_end_of_its_parent(killed, tmp_path):
    """The worker reads from a pipe into which nothing is written."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", SCRIPT, str(pipe)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    worker = int(process.stdout.readline())
    writing = _writing(pipe, process)
    process.send_signal(signal.SIGKILL if killed else signal.SIGINT)
    rest, _ = process.communicate(timeout=600)
    assert rest == ("" if killed else "interrupted 1\n")
    ends = time.monotonic() + 600
    while _runs(worker) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not _runs(worker)
    os.close(writing)


def _writing(pipe, process):
    """`pipe`, opened for writing once the worker of `process` has opened it for reading."""
    while process.poll() is None:
        with contextlib.suppress(OSError):
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    raise AssertionError("the process has ended")


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_cache_isolates(aborting):
    module = parse(TEXT)
    for cache, more in ((Cache(None, isolate=True), {}), (Cache(None), {"isolate": True})):
        with pytest.raises(DefectError, match="TIR0720"):
            cache.compile(module, "sm_90a", **more)


def test_the_cpu_isolates(monkeypatch):
    module = parse(TEXT)
    results = []
    for isolate in (False, True):
        x = np.zeros(1, np.float32)
        executor("cpu").launch(module, "k", 1, [x, 2.0], isolate=isolate)
        results.append(x[0])
    assert results == [3, 3]
    from tileir.backend.cpu import jit

    real = isolation.run
    monkeypatch.setattr(jit.isolation, "run", lambda task, *rest: real(task, os.abort))
    with pytest.raises(DefectError, match="@k: code generation ended its process by SIGABRT"):
        executor("cpu").launch(parse(TEXT), "k", 1, [np.zeros(1, np.float32), 2.0], isolate=True)


def test_commands_isolate(aborting, tmp_path, capsys):
    path = tmp_path / "k.tir"
    path.write_text(TEXT)
    assert opt([str(path), "--emit", "ptx"]) == 1
    assert "TIR0720" in capsys.readouterr().err


def test_what_says_nothing_is_isolated_where_that_is_the_default(aborting):
    with default_isolation(), pytest.raises(DefectError, match="TIR0720"):
        compile_kernel(parse(TEXT))
