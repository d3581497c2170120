"""The builder of a kernel, which knows the options that change what its ops are."""

from __future__ import annotations

from typing import Any

from tileir.builder import Builder


class KernelBuilder(Builder):
    """A builder with options of a launch: `fusion`, whether a product and a sum may become one
    operation with one rounding (`enable_fp_fusion`), and `debug`, whether assertions of the device
    are kept."""

    def __init__(self, *, fusion: bool = True, debug: bool = False) -> None:
        super().__init__()
        self.fusion, self.debug = fusion, debug


def fused(b: Builder) -> dict[str, Any]:
    """Attributes of sums and products of floats: that they may be contracted, where the kernel's
    options say so."""
    return {"fast": "contract"} if isinstance(b, KernelBuilder) and b.fusion else {}
