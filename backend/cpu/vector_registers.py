"""The vector registers of the CPU that this process runs on."""

from __future__ import annotations

from functools import cache

import attrs

from tileir.backend.nvptx.llvm_codegen import llvm_binding


@attrs.frozen
class Registers:
    """Vector registers: how many there are, and the bytes of one."""

    count: int
    bytes: int


@cache
def registers() -> Registers:
    """The vector registers of this CPU, by the features that LLVM reports: AVX-512, AVX, or 128
    bits."""
    binding = llvm_binding()
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return Registers(32, 64)
    if features.get("avx"):
        return Registers(16, 32)
    return Registers(16 if "x86" in binding.get_process_triple() else 32, 16)
