"""What a warm compilation asks the system for."""

import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import llvmlite.binding
import pytest

from tileir.backend.nvptx import llvm_codegen

FAULTS = """
import resource
from tileir.backend import assembler, compile
from tileir.builder import F32, Builder, pointer

assembler.ptxas = lambda: None  # a process of its own takes pages of its own

def once():
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        lanes = b.arange(1024)
        (y + lanes).store((x + lanes).load() + (y + lanes).load())
    assert compile(b.module(), "sm_90").cubin

for _ in range(3):
    once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    once()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 4)
"""


def faults(**environment: str) -> int:
    """Page faults of a compilation in a process that has compiled."""
    command = [sys.executable, "-c", FAULTS]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return int(ran.stdout)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do otherwise")
def test_memory_stays_with_the_process():
    """But where its user has set the C library's limits, which then are as they were."""
    kept, given_back = faults(), faults(MALLOC_TRIM_THRESHOLD_="131072")
    assert kept < 200 and given_back > 800


def test_the_process_is_told_once_before_llvm_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    names = ("initialize_all_targets", "initialize_all_asmprinters", "set_option")
    parts = {name: lambda *_, name=name: done.append(name) for name in names}
    monkeypatch.setattr(llvmlite, "binding", SimpleNamespace(**parts))
    monkeypatch.setattr(llvm_codegen, "_initialised", [])
    monkeypatch.setattr(llvm_codegen, "_lock_at_forks", lambda binding: None)
    monkeypatch.setattr(llvm_codegen, "keep_freed_memory", lambda: done.append("memory"))
    for _ in range(2):
        llvm_codegen.llvm_binding()
    assert done == ["memory", *names[:2], *["set_option"] * len(llvm_codegen._OPTIONS)]
