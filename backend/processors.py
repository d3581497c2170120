"""The PTX version that each processor and feature requires, for checks of targets.

The source is PTX ISA, "Release Notes". LLVM ends the process if a processor is too new for its PTX
version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tileir.backend.target import Target

MAX_REGISTERS = 255
"""Registers of 32 bits of one thread (CUDA C++ Programming Guide, "Technical Specifications")."""

OLDEST = {
    "sm_70": 60, "sm_72": 61, "sm_75": 63, "sm_80": 70, "sm_86": 71, "sm_87": 74, "sm_89": 78,
    "sm_90": 78, "sm_90a": 80, "sm_100": 86, "sm_100a": 86, "sm_100f": 88, "sm_101": 86,
    "sm_101a": 86, "sm_101f": 88, "sm_103": 88, "sm_103a": 88, "sm_103f": 88, "sm_110": 90,
    "sm_110a": 90, "sm_110f": 90, "sm_120": 87, "sm_120a": 87, "sm_120f": 88, "sm_121": 88,
    "sm_121a": 88, "sm_121f": 88,
}  # fmt: skip
"""The processors that LLVM makes code for, with the oldest PTX version of each."""

VERSIONS = frozenset({*range(60, 66), *range(70, 79), *range(80, 89), 90})
"""The PTX versions that LLVM writes."""

_FEATURES = {
    "ldmatrix": (75, 65), "cp_async": (80, 70), "redux": (80, 70), "bf16_arithmetic": (90, 78),
    "f8_conversion": (89, 81), "stmatrix": (90, 78), "bf16_atomics": (90, 78),
    "vector_atomics": (90, 81), "clusters": (90, 78), "tma": (90, 80),
}  # fmt: skip
"""The least processor and PTX version of an instruction."""

_SPECIFIC = {"wgmma": {"sm_90a"}}
"""Processors of instructions that later ones lack."""


def faults(target: Target) -> Iterator[str]:
    """Yield the errors of `target`. A target of PTX version 0 is not a GPU and has none."""
    if target.ptx == 0:
        return
    oldest = OLDEST.get(target.processor)
    if oldest is None:
        yield f"LLVM has no processor {target.processor}; it has {', '.join(OLDEST)}"
        return
    if target.ptx not in VERSIONS:
        version = _version_text(oldest)
        yield f"LLVM writes no PTX {target.ptx!r}: {target.processor} needs version {version}"
    elif target.ptx < oldest:
        versions = f"{_version_text(oldest)}, not {_version_text(target.ptx)}"
        yield f"{target.processor} needs PTX version {versions}"
    number = int("".join(filter(str.isdigit, target.processor)))
    for name, (least, version) in _FEATURES.items():
        if getattr(target, name) and (number < least or target.ptx < version):
            yield f"{name} needs sm_{least} and PTX version {_version_text(version)}"
    for name, processors in _SPECIFIC.items():
        if getattr(target, name) and target.processor not in processors:
            yield f"{name} needs {' or '.join(sorted(processors))}"
    yield from _sizes(target)


def _sizes(target: Target) -> Iterator[str]:
    if target.lanes != 32:
        yield f"a warp has 32 lanes, not {target.lanes!r}"
    if not 32 <= target.max_threads <= 1024 or target.max_threads % 32:
        yield f"max_threads is a multiple of 32 up to 1024, not {target.max_threads!r}"
    if not 32 <= target.max_registers <= MAX_REGISTERS:
        yield f"max_registers is in 32 to {MAX_REGISTERS}, not {target.max_registers!r}"


def _version_text(version: int) -> str:
    return f"{version // 10}.{version % 10}"
