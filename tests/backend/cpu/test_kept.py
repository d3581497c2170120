"""Machine code for the CPU that is kept for other processes."""

from pathlib import Path

import numpy as np
import pytest

from tileir.backend.cpu import jit
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.runtime.disk_store import DiskStore
from tileir.builder import F32, Builder, pointer
from tileir.errors import LaunchError


def module(scale=2.0):
    b = Builder()
    with b.kernel("k", x=pointer(F32)) as (x,):
        place = x + b.program_id(axis=0)
        value = place.load() * scale
        b.assert_(value < 100.0, message="too large")
        place.store(value)
    return b.module()


@pytest.fixture
def optimizations(monkeypatch):
    """How often LLVM has optimised a module."""
    counted, own = [], jit._optimize

    def count(*args):
        counted.append(args)
        return own(*args)

    monkeypatch.setattr(jit, "_optimize", count)
    return counted


def test_code_is_made_once(tmp_path, optimizations):
    for _ in range(3):
        x = np.arange(4, dtype=np.float32)
        compile_kernel(module(), store=DiskStore(tmp_path))(4, [x])
        assert x.tolist() == [0, 2, 4, 6]
    assert len(optimizations) == 1


def test_code_that_is_kept_answers_python_too(tmp_path, optimizations):
    for _ in range(2):
        with pytest.raises(LaunchError, match="too large"):
            compile_kernel(module(), store=DiskStore(tmp_path))(1, [np.full(1, 99, np.float32)])
        with pytest.raises(LaunchError, match="TIR0501"):
            compile_kernel(module(), store=DiskStore(tmp_path))(2, [np.zeros(1, np.float32)])
    assert len(optimizations) == 1


def test_other_programs_and_levels_are_other_code(tmp_path, optimizations):
    for options in ({}, {"opt_level": 1}, {"checked": False}):
        compile_kernel(module(), store=DiskStore(tmp_path), **options)(1, [np.zeros(1, np.float32)])
    compile_kernel(module(3.0), store=DiskStore(tmp_path))(1, [np.zeros(1, np.float32)])
    assert len(optimizations) == 4


def test_a_folder_that_cannot_be_written_fails_no_launch():
    x = np.ones(1, np.float32)
    compile_kernel(module(), store=DiskStore(Path("/dev/null/kept")))(1, [x])
    assert x[0] == 2


def test_the_optimised_text_is_there_for_kept_code(tmp_path):
    for _ in range(2):
        program = compile_kernel(module(), store=DiskStore(tmp_path))
        assert "define" in program.optimized_llvm
