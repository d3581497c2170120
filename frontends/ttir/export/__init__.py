"""Modules as TTIR, for Triton's compiler and for tools that read its text.

text = export(module, "3.9")
argument_effects(module.kernel())        {"x": ("read",), "y": ("write",)}
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.analysis.argument_effects import effects
from tileir.frontends.ttir.export.printer import RELEASES, ExportError, export
from tileir.ir import Function

__all__ = ["RELEASES", "ExportError", "argument_effects", "export"]


def argument_effects(function: Function) -> Mapping[str, tuple[str, ...]]:
    """The effects of `function` on the memory of each pointer or descriptor parameter: `read`,
    `write`, `atomic`, `escapes`.

    A parameter `escapes` if its address is stored, passed to a call or converted to a number.
    Accesses through addresses from elsewhere count for every parameter.
    """
    summary = effects(function)
    result: dict[str, tuple[str, ...]] = {}
    for parameter in function.parameters:
        if parameter.value in summary.parameters:
            access = summary.of(parameter.value) | summary.elsewhere
            words = {
                "read": access.read, "write": access.written, "atomic": access.atomic,
                "escapes": access.escapes,
            }  # fmt: skip
            result[str(parameter.name)] = tuple(word for word, holds in words.items() if holds)
    return result
