"""How often kernels are assembled: again only where that is likely to gain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.compiled_kernel import CompiledKernel
from tileir.backend.ptxas import ptxas
from tileir.textual import parse

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.skipif(ptxas() is None, reason="no ptxas")


@pytest.fixture
def assemblies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX of each assembly."""
    texts: list[str] = []
    own = CompiledKernel._assembled_from
    monkeypatch.setattr(
        CompiledKernel, "_assembled_from", lambda self, ptx: texts.append(ptx) or own(self, ptx)
    )
    return texts


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("add", 1),
        ("layer_norm", 1),
        ("matmul", 2),  # scheduled: five blocks for three
        ("relu", 1),
        ("softmax", 1),
    ],
)
def test_examples(name: str, times: int, assemblies: list[str]) -> None:
    module = parse((EXAMPLES / f"{name}.tir").read_text("utf-8"))
    assert compile_kernel(module, "sm_90a").machine_code.registers
    assert len(assemblies) == times
