"""The driver of the entry point `tileir`, which is never active."""

from __future__ import annotations

from typing import Any

from triton.backends.driver import DriverBase


class TileirDriver(DriverBase):
    """Kernels keep Triton's own driver."""

    @classmethod
    def is_active(cls) -> bool:
        """Return False."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Not called."""
        raise NotImplementedError

    def get_current_target(self) -> Any:
        """Not called."""
        raise NotImplementedError

    def get_active_torch_device(self) -> Any:
        """Not called."""
        raise NotImplementedError

    def get_benchmarker(self) -> Any:
        """Not called."""
        raise NotImplementedError


TileirDriver.__abstractmethods__ = frozenset()
