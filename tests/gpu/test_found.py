"""Programs on which something was once wrong agree on a GPU, too."""

from pathlib import Path

import pytest

import tileir
from tests.corpus.test_found import FILES, GRID, arguments, differ
from tileir.backend.executors import GpuExecutor, gpu_target
from tileir.textual import parse

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("warps", (1, 4))
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_agree(path: Path, warps: int) -> None:
    module = parse(path.read_text(), path.name)
    if "gpu.wgmma" in path.read_text() and gpu_target() != "sm_90a":
        pytest.skip("matmuls by warpgroups are sm_90a's")
    expected, actual = arguments(module), arguments(module)
    tileir.interpret(module, None, GRID, expected, allow_races=True)
    GpuExecutor().launch(module, None, GRID, actual, num_warps=warps)
    assert differ(actual, expected) is None
