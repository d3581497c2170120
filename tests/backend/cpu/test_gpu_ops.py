"""An op that only a GPU runs is rejected at its place where code for a CPU is written."""

from pathlib import Path

import pytest

from tileir.backend.codegen.thread_interface import Thread
from tileir.backend.cpu import emit
from tileir.backend.cpu.compile import compile as compile_kernel
from tileir.backend.cpu.thread import CpuThread
from tileir.errors import CompileError
from tileir.textual import parse

CORPUS = Path(__file__).parents[2] / "corpus"
ON_A_GPU = sorted(p for p in CORPUS.rglob("*.tir") if "gpu.cluster" in p.read_text())
MISSING = sorted(
    name for name in dir(Thread)
    if name[0] != "_" and callable(getattr(Thread, name)) and not hasattr(CpuThread, name)
)  # fmt: skip
KERNEL = """tir 1.0
define kernel void @k(i32* %x) {
entry:
  %i = program_id i32
  store %x, %i
  ret
}
"""


@pytest.mark.parametrize("path", ON_A_GPU, ids=lambda p: p.stem)
def test_ops_of_clusters_are_rejected(path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        compile_kernel(parse(path.read_text()))
    assert caught.value.diagnostics[0].code == "TIR0706"
    assert caught.value.diagnostics[0].location is not None


def test_there_are_methods_that_only_the_threads_of_a_gpu_have() -> None:
    assert ON_A_GPU and {"cluster_rank", "mbarrier_init", "tma_load"} <= {*MISSING}


def test_a_conversion_stores_one_copy_of_each_element_on_a_cpu() -> None:
    """Whose source several lanes have: the store is conditional."""
    path = CORPUS / "found" / "scan_of_a_tile_that_is_joined.tir"
    assert "store_shared_if" not in MISSING and compile_kernel(parse(path.read_text()))


@pytest.mark.parametrize("method", MISSING)
def test_a_rule_that_needs_a_method_no_cpu_has(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(lowering, op):
        getattr(lowering.thread, method)()

    monkeypatch.setitem(emit.OWN, "program_id", rule)
    with pytest.raises(CompileError, match="program_id runs on a GPU only") as caught:
        compile_kernel(parse(KERNEL))
    assert caught.value.diagnostics[0].code == "TIR0706"
    assert caught.value.diagnostics[0].location.line == 4
