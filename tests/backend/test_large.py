"""Kernels so large that LLVM does less: they still compile, to code that does the same."""

import re

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.llvm import optimise
from tileir.builder import F32, Builder, pointer
from tileir.ir import Module


def kernel() -> Module:
    """A reduction by a function, after a loop with an invariant in it."""
    b = Builder()
    with b.kernel("k", x=pointer(F32), y=pointer(F32)) as (x, y):
        place = b.arange(128)
        total = b.var((x + place).load(), name="total")
        with b.for_(0, 8):
            total.set(total * 0.5 + (x + place + 128).load())
        (y + place).store(total + total.get().reduce(0, lambda p, q: p + q * 0.5))
    return b.module()


def kinds(ptx: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in re.findall(r"^\t(?:@%\w+ )?(\w+)", ptx, re.MULTILINE):
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("optimize", [0, 1, 3])
def test_large_kernels_have_the_same_instructions(monkeypatch, optimize):
    usual = compile_kernel(kernel(), "sm_90", {"optimize": optimize}).ptx
    monkeypatch.setattr(optimise, "_LARGE", 1)
    large = compile_kernel(kernel(), "sm_90", {"optimize": optimize})
    assert large.cubin
    for name in ("ld", "st", "fma", "bar"):
        assert kinds(large.ptx).get(name) == kinds(usual).get(name)
