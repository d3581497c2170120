"""Models of GPUs for the cost models."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.backend.target import Target, target


@attrs.frozen
class GpuModel:
    """A GPU with `processors` multiprocessors of `clock` hertz. `matmul_rates` are operations per
    cycle and processor of dense matmuls by the bits of their operands (negative: without tensor
    cores). Bandwidths of memory and of the L2 are in bytes per second."""

    target: Target
    processors: int
    clock: float
    matmul_rates: Mapping[int, float]
    memory: float
    cache: float
    arithmetic: float = 128.0
    """Elements a cycle and processor."""
    hidden: float = 0.25
    """The part of the time of a block that waits, and that other resident blocks hide."""
    exposed: float = 5.0
    """The wait for memory: part of the time for each register that all warps of a block have loads
    in flight for."""

    def waiting(self, blocks: int, words: int) -> float:
        """The logarithm of the part of a kernel's time that depends on the number of `blocks`
        resident on a multiprocessor, and on the `words` of 128 bytes that loads of a block have in
        flight together (docs/explanation/tuning.md, "Registers and loads in flight")."""
        return self.hidden / blocks + self.exposed / words


def machine_of(name: str, processors: int | None = None) -> GpuModel:
    """The model of target `name`, with the number of `processors` of the device if it is not None.
    Raises `CompileError` (TIR0702)."""
    model = _MACHINES.get(name.removesuffix("a")) or _MACHINES["sm_90"]
    machine = attrs.evolve(model, target=target(name))
    return machine if processors is None else attrs.evolve(machine, processors=processors)


def _matmul_rates(sixteen: float, double: float) -> dict[int, float]:
    """Operations per cycle by bits of operands, derived from those of 16 and of 64 bits."""
    return {4: sixteen * 2, 8: sixteen * 2, 16: sixteen, 32: sixteen / 2, 64: double, -32: 256.0}


_MACHINES = {
    "sm_80": GpuModel(target("sm_80"), 108, 1.41e9, _matmul_rates(2048, 128), 1.9e12, 5.0e12),
    "sm_86": GpuModel(target("sm_86"), 84, 1.70e9, _matmul_rates(1024, 4), 0.76e12, 3.0e12),
    "sm_89": GpuModel(target("sm_89"), 128, 2.52e9, _matmul_rates(1024, 4), 1.0e12, 5.0e12),
    "sm_90": GpuModel(target("sm_90"), 132, 1.755e9, _matmul_rates(4096, 512), 4.2e12, 10.0e12),
    "sm_100": GpuModel(target("sm_100"), 148, 1.9e9, _matmul_rates(8192, 256), 7.0e12, 18.0e12),
    "sm_120": GpuModel(target("sm_120"), 170, 2.4e9, _matmul_rates(1024, 4), 1.6e12, 8.0e12),
}
"""NVIDIA's architecture whitepapers: A100, GA102, AD102, H200, B200, GB202."""
