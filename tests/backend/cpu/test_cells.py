"""The op by type by shape matrix as native code: what the interpreter says."""

import numpy as np
import pytest

from tileir.backend.cpu.executor import CpuExecutor
from tileir.testing.checking import SIMT, case
from tileir.testing.executors import interpreter, launcher, violation
from tileir.testing.matrix import cases, interpreter_results
from tileir.testing.matrix_compare import differences

PARTS, STRIDE = 4, 900


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_cells(part):
    """One cell of 900; `python -m tileir.testing.matrix --on cpu --all` runs every one."""
    chosen = [c for i, c in enumerate(cases((), True)) if i % STRIDE == 7]
    assert len(chosen) > 30
    for each in chosen[part::PARTS]:
        actual = each.arguments()
        with np.errstate(all="ignore"):
            CpuExecutor().launch(each.module(), each.kernel, 1, actual, opt_level=1, threads=1)
            assert differences(each, interpreter_results(each), actual) == "", each.name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(1000, 1016))
def test_generated_programs(seed):
    program = case(SIMT, seed).program
    with np.errstate(all="ignore"):
        expected = interpreter("ieee")(program, seed)
        actual = launcher(CpuExecutor(), opt_level=1, threads=2)(program, seed)
    assert violation(actual, expected) is None
