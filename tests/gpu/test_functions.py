"""Mathematical functions in f32 on the GPU, over numbers of every exponent: the error in ulp
against the interpreter's f64 kernels, within the bound of each op."""

import numpy as np
import pytest

from tileir.backend.codegen.rules.math import _SINGLE
from tileir.backend.executors import GpuExecutor
from tileir.builder import F32, Builder, pointer
from tileir.machine.functions import _F64
from tileir.op import lookup

pytestmark = pytest.mark.gpu

COUNT = 1 << 20


def kernel(name, arity):
    b = Builder()
    places = {f"p{i}": pointer(F32) for i in range(arity + 1)}
    with b.kernel("k", **places) as pointers:
        at = b.program_id(axis=0) * 1024 + b.arange(1024)
        values = [(p + at).load() for p in pointers[:-1]]
        (pointers[-1] + at).store(getattr(b, name)(*values))
    return b.module()


def numbers(seed):
    """Random bits, and numbers near 0 and 1."""
    random = np.random.default_rng(seed)
    raw = random.integers(0, 1 << 32, COUNT // 2, dtype=np.uint64).astype(np.uint32)
    near = [random.uniform(-a, a, COUNT // 8) for a in (1.1, 12.0, 1e4)]
    near.append(1 + random.uniform(-0.01, 0.01, COUNT // 8))
    values = np.concatenate([raw.view(np.float32), *near]).astype(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), values)


@pytest.mark.parametrize("name", sorted(_SINGLE))
def test_f32_is_within_its_bound(name):
    arity = 2 if name in ("pow", "atan2") else 1
    operands = [numbers(seed) for seed in range(arity)]
    out = np.zeros(COUNT, np.float32)
    GpuExecutor().launch(kernel(name, arity), None, COUNT // 1024, [*operands, out])
    with np.errstate(all="ignore"):
        exact = _F64[name](*(x.astype(np.float64) for x in operands))
        near = exact.astype(np.float32)
        unit = np.spacing(np.maximum(np.abs(near), np.finfo(np.float32).tiny)).astype(np.float64)
        off = np.abs(out.astype(np.float64) - exact) / unit
    same = (near == out) | (np.isnan(near) & np.isnan(out))
    worst = float(np.nanmax(np.where(same, 0, off)))
    print(f"{name}: {worst:.2f} ulp")
    assert (same | (off <= lookup(name).numerics.ulp)).all(), worst
