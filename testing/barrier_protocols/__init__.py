"""Tests of the barrier protocols of warp-specialized kernels, on the SIMT simulator.

The kernels run in many schedules, and again with each wait, fence and arrival removed.

    python -m tileir.testing.barrier_protocols --schedules 500 --jobs 16

A removal must cause a race, a deadlock or a wrong result in one of a few schedules. Ops whose
removal has no effect are printed, either with the reason why they are redundant or as survivors.
"""

from tileir.testing.barrier_protocols.cases import (
    ODD_SHAPE,
    PIPELINES,
    SINK_WAITS,
    TWO_RESULTS,
    ProtocolCase,
    attention_case,
    cases,
    generated_case,
    gradient_case,
    matmul_case,
)
from tileir.testing.barrier_protocols.op_removal import RemovalSite, Runner, sites, without

__all__ = [
    "ODD_SHAPE",
    "PIPELINES",
    "SINK_WAITS",
    "TWO_RESULTS",
    "ProtocolCase",
    "RemovalSite",
    "Runner",
    "attention_case",
    "cases",
    "generated_case",
    "gradient_case",
    "matmul_case",
    "sites",
    "without",
]
