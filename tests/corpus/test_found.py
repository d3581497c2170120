"""Programs on which something was once wrong: every executor and pipeline agrees on them now."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tileir
from tests.sizes import few_or_all
from tileir.backend.executors import SimtExecutor
from tileir.errors import InterpretError
from tileir.executor import executor
from tileir.passmanager import run
from tileir.testing import difference
from tileir.textual import parse
from tileir.types import Descriptor, Pointer

FILES = sorted((Path(__file__).parent / "found").glob("*.tir"))
COUNT, GRID = 4096, 3
PIPELINES = {
    None: (
        "default",
        "simplify",
        "cse,licm,dce",
        "strip-mine{warps=1,limit=2,chunk=1}",
        "async-pipeline",
        "prefetch-loads{num-stages=3}",
    ),
    "layouts": ("remove-conversions", "remove-conversions,cse,licm,dce"),
}
"""Those that modules of a stage are sent through."""
DTYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def arguments(module):
    """Small numbers for every pointer and descriptor, 5 for every scalar."""
    chance = np.random.default_rng(0)
    by_name = {}
    for parameter in module.kernel().parameters:
        if isinstance(parameter.type, Pointer):
            array = chance.integers(-2, 9, COUNT).astype(DTYPES[str(parameter.type.pointee)])
            by_name[parameter.name] = array
        elif isinstance(parameter.type, Descriptor):
            block = parameter.type.block
            array = chance.integers(-2, 9, block.shape).astype(DTYPES[str(block.element)])
            by_name[parameter.name] = array
        else:
            by_name[parameter.name] = 5
    return by_name


def differ(actual, expected):
    """Where the arrays of two runs differ."""
    first, second = (
        {name: x for name, x in run.items() if isinstance(x, np.ndarray)}
        for run in (actual, expected)
    )
    return difference(first, second)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_default_pipeline_and_threads_agree(path):
    """Every file, so that a new one is run by default. LLVM does not optimise the code for the CPU
    here, which would take most of the time."""
    all_agree(path, 1, (2,), opt_level=0)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_all_agree(path):
    all_agree(path, None, (1, 4, 8), opt_level=3)


def all_agree(path, pipelines, warps_of_blocks, opt_level):
    """The interpreter after the first `pipelines` pipelines, threads on those numbers of warps, and
    the CPU by LLVM's `opt_level`, compute what the interpreter does."""
    module = parse(path.read_text(), path.name)
    expected = arguments(module)
    tileir.interpret(module, None, GRID, expected, allow_races=True)
    for pipeline in PIPELINES[module.stage][:pipelines]:
        actual = arguments(module)
        changed = run(module, pipeline).module
        tileir.interpret(changed, None, GRID, actual, allow_races=True)
        assert differ(actual, expected) is None, pipeline
    for warps in warps_of_blocks:
        actual = arguments(module)
        SimtExecutor().launch(module, None, GRID, actual, num_warps=warps, allow_races=True)
        assert differ(actual, expected) is None, warps
    if module.stage is None:
        actual = arguments(module)
        executor("cpu").launch(module, None, GRID, actual, opt_level=opt_level)
        assert differ(actual, expected) is None, "cpu"


def instances(module):
    """One, where all write the same: threads that run several report that."""
    try:
        tileir.interpret(module, None, GRID, arguments(module))
    except InterpretError:
        return 1
    return GRID


MULTIPLYING = [path for path in FILES if " = dot " in path.read_text()]


@pytest.mark.parametrize("seed", few_or_all(0, 1))
@pytest.mark.parametrize("path", MULTIPLYING, ids=lambda p: p.stem)
def test_roles_agree(path, seed):
    module = parse(path.read_text(), path.name)
    expected, actual = arguments(module), arguments(module)
    grid = instances(module)
    tileir.interpret(module, None, grid, expected)
    SimtExecutor().launch(module, None, grid, actual, target="sm_90a", seed=seed)
    assert differ(actual, expected) is None
