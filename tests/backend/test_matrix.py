"""A fixed tenth of the op by type by shape matrix through the lowering rules: threads agree with
the interpreter, and every cell assembles for two targets.

`python -m tileir.testing.matrix --all` runs every cell; its table is
`benchmarks/results/matrix.json`.
"""

import numpy as np
import pytest

from tileir.op import all_ops
from tileir.testing.matrix import BATCH, TARGETS, Tally, assemble, cases, check, warps_of

NAMES = [o.mnemonic for o in all_ops() if not o.mnemonic.startswith("gpu.")]
WITHOUT_CELLS = {"br", "cond_br", "ret", "unreachable", "call", "inline_asm"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_CELLS))
def test_cells_agree_and_assemble(name):
    tally, found = Tally(), list(cases([name], every=False))
    with np.errstate(all="ignore"):
        for case in found:
            check(case, tally, (warps_of(case),))
    for start in range(0, len(found), BATCH):
        for target in TARGETS:
            assemble(found[start : start + BATCH], {name: tally}, target)
    assert not tally.failures
    assert tally.agree == tally.cells == len(found) > 0
    assert tally.assembled == dict.fromkeys(TARGETS, len(found))
