"""What few kernels need is loaded for those alone."""

import importlib.util
import subprocess
import sys

import pytest

BEGIN = """
import sys
import tileir.backend
from tileir.builder import F16, F32, I32, Builder, arg, pointer
b = Builder()
data = arg(pointer(F16), aligned=16)
"""
ADD = """
with b.kernel("k", x=pointer(F32), y=pointer(F32), n=I32) as (x, y, n):
    place = b.program_id(axis=0) * 256 + b.arange(256)
    (y + place).store((x + place).load(place < n) + 1.0, place < n)
"""
MATMUL = """
with b.kernel("k", x=data, y=data, z=pointer(F32), n=I32) as (x, y, z, n):
    i, step, acc = b.arange(64), b.arange(32), b.var(b.zeros((64, 64)), name="acc")
    with b.for_(0, n, 32) as start:
        left = (x + i[:, None] * 4096 + (start + step)).load()
        acc.set(left.dot((y + (start + step)[:, None] * 64 + i).load(), acc))
    (z + i[:, None] * 64 + i).store(acc)
"""
END = """
tileir.backend.compile(b.module(), "{target}", {{"num_warps": 4}})
print(*(p for p in {parts} if "tileir.backend." + p in sys.modules))
"""
PARTS = (
    "halo.stage_halo", "strip_mine.strip_mine", "software_pipeline.async_pipeline",
    "warp_specialize.driver", "warp_specialize.per_warpgroup_stores", "tma.infer_descriptors",
    "codegen.rules.dot", "codegen.emit.scan", "codegen.emit.conversion",
)  # fmt: skip
"""Modules of the backend that a kernel without what they are about does not need."""


def test_the_parts_are_modules() -> None:
    for part in PARTS:
        assert importlib.util.find_spec(f"tileir.backend.{part}") is not None, part


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_kernel_of_elements_loads_none_of_it(target: str) -> None:
    assert loaded_modules(ADD, target) == []


def test_a_matmul_loads_the_modules_it_needs() -> None:
    expected = {"software_pipeline.async_pipeline", "codegen.rules.dot"}
    assert expected <= set(loaded_modules(MATMUL, "sm_80"))


def loaded_modules(kernel: str, target: str) -> list[str]:
    program = BEGIN + kernel + END.format(target=target, parts=PARTS)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return ran.stdout.split()
