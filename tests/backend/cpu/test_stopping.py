"""Launches that end before their kernel does: by Ctrl-C, a time limit, the first failure; and
launches after a fork."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.errors import LaunchError, TileirError
from tileir.executor import executor
from tileir.textual import parse

ENDLESS = """tir 1.0
define kernel void @k(i32* %x) {
entry:
  br l
l:
  %i = phi i32 [0, entry], [%j, l]
  %j = add i32 %i, 1
  store %x, %i
  br l
}
"""
CALLS = "tir 1.0\ndefine noinline i32 @f0(i32 %x) {\nentry:\n  %y = mul i32 %x, 3\n  ret %y\n}\n"
for n in range(1, 60):
    CALLS += (
        f"define noinline i32 @f{n}(i32 %x) {{\nentry:\n  %a = call i32 @f{n - 1}, %x\n"
        f"  %b = call i32 @f{n - 1}, %a\n  ret %b\n}}\n"
    )
CALLS += (
    "define kernel void @k(i32* %x) {\nentry:\n  %n = load i32 %x\n  %r = call i32 @f59, %n\n"
    "  store %x, %r\n  ret\n}\n"
)
EMPTY = "tir 1.0\ndefine kernel void @k(i32* %x) {\nentry:\n  ret\n}\n"
PROGRAMS = {"loop": (ENDLESS, 1), "loops": (ENDLESS, 5), "calls": (CALLS, 1),
            "grid": (EMPTY, (2**31 - 1, 65535, 65535))}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_time_limit_ends_a_launch(name: str) -> None:
    text, grid = PROGRAMS[name]
    with pytest.raises(LaunchError, match=r"TIR0725.* 0\.2 s"):
        executor("cpu").launch(parse(text), "k", grid, [np.ones(1, np.int32)], time_limit=0.2)


@pytest.mark.parametrize("on", ["interpreter", "simt"])
def test_a_time_limit_ends_launches_elsewhere(on: str) -> None:
    with pytest.raises(TileirError, match=r"TIR0725.* 0\.2 s") as caught:
        executor(on).launch(parse(ENDLESS), "k", 1, [np.ones(1, np.int32)], time_limit=0.2)
    assert caught.value.diagnostics[0].location is not None


@pytest.mark.slow
def test_the_command_has_a_time_limit(tmp_path) -> None:
    path = tmp_path / "endless.tir"
    text = ENDLESS.replace("define", 'metadata {\n  run.grid = [1],\n  run.x = "i32[1]"\n}\ndefine')
    path.write_text(text)
    command = [sys.executable, "-m", "tileir.tools.main", "run", str(path), "--on", "cpu"]
    done = subprocess.run([*command, "--time-limit", "0.2"], capture_output=True, text=True)
    assert done.returncode == 1 and "TIR0725" in done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_signal_handler_ends_a_launch(name: str) -> None:
    """Whatever a handler raises comes out of the launch."""
    text, grid = PROGRAMS[name]
    kernel = compile_kernel(parse(text))
    kernel(1, [np.zeros(1, np.int32)], time_limit=60) if name == "grid" else None

    def handler(number, frame):
        raise ZeroDivisionError("as asked")

    before = signal.signal(signal.SIGUSR1, handler)
    sending = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(ZeroDivisionError, match="as asked"):
            sending.start()
            kernel(grid, [np.ones(1, np.int32)])
    finally:
        sending.join()
        signal.signal(signal.SIGUSR1, before)


FAILS = """tir 1.0
define kernel void @k(i32* %x, i32 %bad) {
entry:
  %p = program_id i32
  %c, %d = icmp (i1, i1) %p, %bad {predicate = eq}
  cond_br %c, out, in
out:
  %f = getelementptr i32* %x, i32 -1
  store %f, i32 1
  br in
in:
  %q = getelementptr i32* %x, %p
  store %q, i32 1
  ret
}
"""


@pytest.mark.parametrize("bad", [0, 7, 63])
def test_the_first_failing_instance_ends_a_launch(bad: int) -> None:
    """Those before it have run, on one thread those after it have not."""
    x = np.zeros(64, np.int32)
    kernel = compile_kernel(parse(FAILS))
    with pytest.raises(LaunchError, match=rf"TIR0501.*\({bad}, 0, 0\) store"):
        kernel(64, [x, bad], 1)
    assert x.tolist() == [1] * bad + [0] * (64 - bad)
    with pytest.raises(LaunchError, match=rf"TIR0501.*\({bad}, 0, 0\) store"):
        kernel(64, [x, bad], 4)
    assert x[:bad].all()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_launches_after_a_fork() -> None:
    """While other threads compile and launch."""
    cpu, stop = executor("cpu"), threading.Event()

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            text = FAILS.replace("i32 1\n  ret", f"i32 {number % 7}\n  ret")
            cpu.launch(parse(text), "k", 64, [np.zeros(64, np.int32), -1], opt_level=1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                y = np.zeros(64, np.int32)
                cpu.launch(parse(FAILS), "k", 64, [y, -1], threads=2)
                os._exit(0 if y.all() else 3)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
