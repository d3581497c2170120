"""Every op on every type: the lowering rules, executed by threads, against the interpreter; and a
sample assembled for two targets."""

import numpy as np
import pytest

import tileir
from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.testing.op_cases import cells, dot_cells, elementwise_cells, shape_cells

SHAPES = [(), (1,), (7,), (16,), (3, 5), (130,), (4, 8, 16)]
TABLE = {cell.name: cell for cell in cells(SHAPES)}
INEXACT = ("exp", "rsqrt")
REDUCTIONS = ("reduce fadd", "scan fadd", "dot")
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-51}


def same(cell, expected, actual):
    """Equal bits (any NaN for a NaN), within 2 ulp for inexact functions, and within the length
    of the total in half-ulps for reductions."""
    if expected.dtype.kind in "biu":
        return np.array_equal(expected, actual)
    bits = [a.view(f"u{a.itemsize}") for a in (expected, actual)]
    wide = [a.astype(np.float64) for a in (expected, actual)]
    ok = (bits[0] == bits[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    unit = ULP.get(expected.dtype.name, 0.0)
    with np.errstate(invalid="ignore"):
        off = np.abs(wide[0] - wide[1])
    if cell.name.startswith(INEXACT):
        ok |= off <= 2 * unit * np.abs(wide[0])
    if cell.name.startswith(REDUCTIONS):
        length = max(a.size for a in cell.arguments(0)[: len(cell.inputs)])
        ok |= off <= length * unit * 16
    return bool(ok.all())


def run(cell, executor, seed, **options):
    arguments = cell.arguments(seed)
    executor(cell.module(), arguments, **options)
    return arguments[len(cell.inputs) :]


def run_interpreter(module, arguments):
    tileir.interpret(module, "cell", (1,), arguments, allow_undef=True)


def run_simulator(module, arguments, **options):
    SimtExecutor().launch(module, "cell", 1, arguments, **options)


SAMPLE = sorted(TABLE)[:: max(1, len(TABLE) // 450)]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("name", SAMPLE)
def test_threads_agree_with_the_interpreter(name):
    cell, seed = TABLE[name], len(name)
    expected = run(cell, run_interpreter, seed)
    result = run(cell, run_simulator, seed, num_warps=1 + 3 * (seed % 2))
    for a, b in zip(expected, result, strict=True):
        assert same(cell, a, b), (a, b)


OPS = {
    c.name.split()[0]: c for c in (*elementwise_cells((16,)), *shape_cells((3, 5)), *dot_cells())
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", sorted(OPS))
def test_ops_assemble(name, target):
    compiled = compile_kernel(OPS[name].module(), target)
    assert len(compiled.cubin) > 0 and compiled.metadata.spills == 0
