"""The entry point `tileir`: a backend for no target. When it is loaded, tileir compiles kernels in
place of Triton's CUDA backend if TILEIR_IN_TRITON requests that."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend

from tileir_triton.hook import install_where_asked


class TileirBackend(BaseBackend):
    """Takes no target: kernels keep Triton's target `cuda`, whose backend calls tileir."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """Return False: there is no target."""
        return False

    def hash(self) -> str:
        """Not called, since no kernel is compiled."""
        return "tileir"

    def parse_options(self, options: Any) -> Any:
        """Not called."""
        raise NotImplementedError

    def add_stages(self, stages: Any, options: Any, language: Any = None) -> None:
        """Not called."""
        raise NotImplementedError

    def load_dialects(self, context: Any) -> None:
        """Do nothing: there are no dialects."""

    def get_module_map(self) -> dict[str, Any]:
        """Nothing."""
        return {}


# A release whose base class has more abstract methods finds a class nonetheless: Triton refuses to
# be imported where an entry point has none.
TileirBackend.__abstractmethods__ = frozenset()

install_where_asked()
