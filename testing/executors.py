"""What runs generated programs, behind one interface, and when one result refines another.

Where the original leaves lanes undefined any value will do; what it defines must come out bit for
bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.testing.program import Program, difference

Executor: TypeAlias = Callable[[Program, int], "Found"]


@attrs.frozen(eq=False)
class Found:
    """Outputs of a run by buffer, and their elements that are undefined."""

    outputs: Mapping[str, Any]
    undefined: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


def interpreter(numbers: str = "ieee") -> Executor:
    """The interpreter on a machine of numbers: `ieee`, or `ring` for residues modulo a prime, in
    which sums and products are exact in any order."""

    def execute(program: Program, seed: int) -> Found:
        from tileir.interp import interpret

        arguments = program.arguments(seed)
        report = interpret(
            program.module,
            program.kernel,
            program.grid,
            arguments,
            numbers=numbers,
            allow_undef=program.undef,
        )
        return Found(_outputs(program, arguments), dict(report.undefined or {}))

    return execute


def launcher(executor: Any, **options: Any) -> Executor:
    """Any executor of `tileir.executor`: `launcher(SimtExecutor(), num_warps=2)`."""

    def execute(program: Program, seed: int) -> Found:
        arguments = program.arguments(seed)
        executor.launch(program.module, program.kernel, program.grid, arguments, **options)
        return Found(_outputs(program, arguments))

    return execute


def _outputs(program: Program, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name, buffer in program.buffers.items() if buffer.output}


def violation(found: Found, expected: Found) -> str | None:
    """Where `found` does not refine `expected`; None where it does."""
    for name, array in expected.outputs.items():
        free = _lanes(expected, name, array)
        if (_lanes(found, name, array) & ~free).any():
            at = int((_lanes(found, name, array) & ~free).argmax())
            return f"{name}[{at}] is undefined, not {array[at]!r}"
        kept = {name: np.where(free, array, found.outputs[name])}
        text = difference(kept, {name: array})
        if text is not None:
            return text
    return None


def _lanes(found: Found, name: str, array: Any) -> Any:
    lanes = found.undefined.get(name)
    return np.zeros(array.shape, np.bool_) if lanes is None else np.asarray(lanes)
