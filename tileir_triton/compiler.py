"""The entry point `tileir`: a backend for no target. Loading it lets tileir compile kernels for
Triton's CUDA backend, where TILEIR_IN_TRITON asks for that."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend

from tileir_triton.hook import install_where_asked


class TileirBackend(BaseBackend):
    """Takes no target: kernels keep Triton's target `cuda`, whose backend calls tileir."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        """None."""
        return False

    def hash(self) -> str:
        """Of no kernel."""
        return "tileir"

    def parse_options(self, options: Any) -> Any:
        """Never asked for."""
        raise NotImplementedError

    def add_stages(self, stages: Any, options: Any, language: Any = None) -> None:
        """Never asked for."""
        raise NotImplementedError

    def load_dialects(self, context: Any) -> None:
        """None."""

    def get_module_map(self) -> dict[str, Any]:
        """Nothing."""
        return {}


# A release whose base class has more abstract methods finds a class nonetheless: Triton refuses to
# be imported where an entry point has none.
TileirBackend.__abstractmethods__ = frozenset()

install_where_asked()
