"""Targets of this package."""

from __future__ import annotations

from tileir.backend.target import Target

ORIN = Target(
    name="sm_87",
    ptx=80,
    shared_bytes=163 << 10,
    shared_per_processor=164 << 10,
    threads_per_processor=1536,
    blocks_per_processor=16,
    bf16_arithmetic=False,
    f8_conversion=False,
)
"""Jetson AGX Orin (CUDA C++ Programming Guide, "Compute Capabilities": 8.7)."""
