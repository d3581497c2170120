"""Kernels of which LLVM does less, large ones and products: they still compile, to code that does
the same."""

import re

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.llvm import optimise
from tileir.builder import F16, F32, Builder, pointer
from tileir.ir import Module
from tileir.testing.kernels import attention, matmul


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


@pytest.mark.parametrize("result", [F16, F32])
def test_plain_products_have_the_same_instructions(monkeypatch, result):
    plain = compile_kernel(matmul(128, 128, 64, result=result), "sm_90a", {"roles": True}).ptx
    monkeypatch.setattr(optimise, "_is_plain_product", lambda text: False)
    whole = compile_kernel(matmul(128, 128, 64, result=result), "sm_90a", {"roles": True}).ptx
    assert kinds(plain) == kinds(whole)


def test_plain_products_alone_are_optimised_by_functions(monkeypatch):
    done: list[str] = []
    for name in ("_optimize", "_optimize_functions"):
        usual = getattr(optimise, name)
        monkeypatch.setattr(
            optimise, name, lambda *given, n=name, f=usual: (done.append(n), f(*given))
        )
    roles = {"roles": True}
    compile_kernel(matmul(128, 128, 64), "sm_90a", roles)
    compile_kernel(attention(64, 64, 64), "sm_90a", roles)  # whose weights are in registers
    compile_kernel(kernel(), "sm_90a")
    assert done == ["_optimize_functions", "_optimize", "_optimize"]


def test_plain_products_without_optimisation_compile():
    found = compile_kernel(matmul(128, 128, 64), "sm_90a", {"roles": True, "optimize": 0})
    assert "wgmma" in found.ptx and found.cubin
