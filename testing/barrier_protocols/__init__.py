"""Protocols of roles in the machine of threads: right in many orders, and with every wait, fence
and arrival left out in turn.

    python -m tileir.testing.barrier_protocols --schedules 500 --jobs 16

What is left out has to be noticed, as a race, as a deadlock or by what the kernel computes, in one
of a few orders; what is not is named, with the reason why nobody needs it, or as a survivor.
"""

from tileir.testing.barrier_protocols.cases import (
    LATE,
    ODD,
    PIPELINES,
    TWO_RESULTS,
    Case,
    cases,
    generated,
    product,
    slopes,
    softmax,
)
from tileir.testing.barrier_protocols.op_removal import Runner, Site, sites, without

__all__ = [
    "LATE",
    "ODD",
    "PIPELINES",
    "TWO_RESULTS",
    "Case",
    "Runner",
    "Site",
    "cases",
    "generated",
    "product",
    "sites",
    "slopes",
    "softmax",
    "without",
]
