"""The builder of a kernel, which knows the options that change what its ops are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tileir.builder import Builder, Expr
from tileir.frontends.triton.errors import KernelError
from tileir.limits import current, limit_diagnostic
from tileir.values import Value


@attrs.frozen
class KernelOptions:
    """Options of a launch that change what ops a kernel is made of, by Triton's names."""

    enable_fp_fusion: bool = True
    """Whether a multiplication and an addition may become one fma, with one rounding."""
    debug: bool = False
    """Whether assertions of the device are kept."""
    sanitize_overflow: bool = True
    """Whether, in debugging, integer arithmetic is checked for overflow."""
    default_dot_input_precision: str = "tf32"
    """The precision of float32 operands of `dot`, unless the call states one."""

    @staticmethod
    def of(options: Mapping[str, Any]) -> tuple[KernelOptions, dict[str, Any]]:
        """The kernel options among `options`, and the other options."""
        names = {f.name for f in attrs.fields(KernelOptions)}
        own = {k: v for k, v in options.items() if k in names}
        return KernelOptions(**own), {k: v for k, v in options.items() if k not in names}


class KernelBuilder(Builder):
    """A builder that knows the options of a launch."""

    def __init__(self, options: KernelOptions) -> None:
        super().__init__()
        self.options = options
        self.evaluations = 0
        """Statements, expressions and items of joined tuples that were compiled."""
        self.unsigned: set[Value] = set()
        """Results of `add`, `sub` and `mul` on unsigned integers."""


def options_of(b: Builder) -> KernelOptions:
    """The options of the kernel that `b` builds; Triton's defaults where it has none."""
    return b.options if isinstance(b, KernelBuilder) else KernelOptions()


def count_evaluation(b: Builder, count: int = 1) -> None:
    """Count one more statement or expression, or the `count` items of a tuple that is joined.
    Raises KernelError (TIR1601) past the limit."""
    if isinstance(b, KernelBuilder):
        b.evaluations += count
        if b.evaluations > current().evaluations:
            what = "this is unrolled and inlined so often"
            raise KernelError(limit_diagnostic("evaluations", what, None).message, "TIR1601")


def note_unsigned(b: Builder, result: Expr) -> None:
    """Remember that `result` is arithmetic of unsigned integers, which types do not tell."""
    if isinstance(b, KernelBuilder) and isinstance(result.value, Value):
        b.unsigned.add(result.value)


def contraction_attributes(b: Builder) -> dict[str, Any]:
    """Attributes of additions and multiplications of floats: that they may be contracted, where the
    options of the kernel allow it."""
    return {"fast": "contract"} if options_of(b).enable_fp_fusion else {}
