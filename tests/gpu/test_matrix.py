"""A fixed tenth of the op by type by shape matrix on the GPU, a hundred kernels a module, against
the interpreter. `python -m tileir.testing.matrix --on gpu --all` runs every cell."""

import pytest

from tileir.op import all_ops
from tileir.testing.matrix import BATCH, Tally, cases, on_gpu

pytestmark = pytest.mark.gpu

NAMES = [o.mnemonic for o in all_ops() if not o.mnemonic.startswith("gpu.")]
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_cells_agree_with_the_interpreter(part):
    selected = list(cases(NAMES[part::PARTS], every=False))
    tallies = {case.op.mnemonic: Tally() for case in selected}
    for start in range(0, len(selected), BATCH):
        on_gpu(selected[start : start + BATCH], tallies)
    assert not [text for tally in tallies.values() for text in tally.failures]
    assert sum(tally.on_gpu for tally in tallies.values()) == len(selected)
