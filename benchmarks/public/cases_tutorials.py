"""Kernels for stock Triton that are part of this repository:
`benchmarks/triton_backend_kernels.py`."""
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import sys
from pathlib import Path

from cases import Step, add

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from triton_backend_kernels import CASES  # type: ignore[import-not-found]


def _case(name, make):
    def build(device):
        start, _ = make(device, True)
        return Step(lambda: _tensors(start))

    add(f"tutorials/{name}", build)


def _tensors(start):
    """The tensors that are arguments of a launch, after the launch."""
    start()
    values = [c.cell_contents for c in start.__closure__ or ()]
    return [t for t in values if hasattr(t, "data_ptr") and t.is_floating_point()]


for name, make in CASES.items():
    _case(name, make)
