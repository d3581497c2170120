"""The properties of the machine for host code next to Triton's kernels: `triton.runtime.driver`."""

from __future__ import annotations

import importlib
from typing import Any

import attrs

_WITHOUT = {
    "multiprocessor_count": 108, "max_num_regs": 65536, "max_shared_mem": 166912, "warpSize": 32,
}  # fmt: skip
"""The properties without a GPU: those of compute capability 8.0."""


@attrs.frozen
class GPUTarget:
    """The target of kernels; `arch` is the compute capability, 90 for 9.0."""

    backend: str
    arch: int
    warp_size: int


class Utils:
    """`triton.runtime.driver.active.utils`."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Multiprocessors of a GPU, registers of each, bytes of shared memory that a block can
        have, lanes of a warp; those of compute capability 8.0 where there is no GPU."""
        cuda = _torch().cuda
        if not cuda.is_available():
            return dict(_WITHOUT)
        device_properties = cuda.get_device_properties(device)
        return {
            "multiprocessor_count": device_properties.multi_processor_count,
            "max_num_regs": device_properties.regs_per_multiprocessor,
            "max_shared_mem": device_properties.shared_memory_per_block_optin,
            "warpSize": device_properties.warp_size,
        }


class Active:
    """`triton.runtime.driver.active`, implemented by torch, which is the library of the host code's
    tensors. Without a GPU, kernels run on this machine, and the device is torch's `cpu`."""

    utils = Utils()

    def get_active_torch_device(self) -> Any:
        """The device on which tensors for kernels are allocated."""
        torch = _torch()
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", torch.cuda.current_device())

    def get_current_device(self) -> int:
        """The number of the GPU; 0 where there is none."""
        cuda = _torch().cuda
        return int(cuda.current_device()) if cuda.is_available() else 0

    def get_current_target(self) -> GPUTarget:
        """The target of kernels; compute capability 8.0 if there is no GPU."""
        cuda = _torch().cuda
        major, minor = cuda.get_device_capability() if cuda.is_available() else (8, 0)
        return GPUTarget("cuda", 10 * major + minor, 32)


class Driver:
    """`triton.runtime.driver`."""

    active = Active()


driver = Driver()


def _torch() -> Any:
    return importlib.import_module("torch")
