"""A common interface to the executors of generated programs, and the refinement relation between
their results.

If a lane is undefined in the original, any value is correct. Defined lanes must be equal bit for
bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.testing.program import Program, difference

Executor: TypeAlias = Callable[[Program, int], "RunResult"]


@attrs.frozen(eq=False)
class RunResult:
    """The outputs of a run, by buffer, and their undefined elements."""

    outputs: Mapping[str, Any]
    undefined: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


def interpreter(numbers: str = "ieee") -> Executor:
    """Return the interpreter on a number system: `ieee`, or `ring` for residues modulo a prime,
    whose addition and multiplication are exact in any order."""

    def execute(program: Program, seed: int) -> RunResult:
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
        return RunResult(_outputs(program, arguments), dict(report.undefined or {}))

    return execute


def launcher(executor: Any, **options: Any) -> Executor:
    """Return a runner for an executor of `tileir.executor`: `launcher(SimtExecutor(),
    num_warps=2)`."""

    def execute(program: Program, seed: int) -> RunResult:
        arguments = program.arguments(seed)
        executor.launch(program.module, program.kernel, program.grid, arguments, **options)
        return RunResult(_outputs(program, arguments))

    return execute


def _outputs(program: Program, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name, buffer in program.buffers.items() if buffer.output}


def violation(result: RunResult, expected: RunResult, flushes: bool = False) -> str | None:
    """Describe where `result` does not refine `expected`; None if it does. If the executor
    `flushes`, its zeros of f32 refine subnormals."""
    for name, array in expected.outputs.items():
        free = _lanes(expected, name, array)
        if flushes and array.dtype == np.float32:
            tiny = (array != 0) & (np.abs(array) < np.finfo(np.float32).smallest_normal)
            free = free | (tiny & (result.outputs[name] == 0))
        if (_lanes(result, name, array) & ~free).any():
            at = int((_lanes(result, name, array) & ~free).argmax())
            return f"{name}[{at}] is undefined, not {array[at]!r}"
        defined = {name: np.where(free, array, result.outputs[name])}
        text = difference(defined, {name: array})
        if text is not None:
            return text
    return None


def _lanes(result: RunResult, name: str, array: Any) -> Any:
    lanes = result.undefined.get(name)
    return np.zeros(array.shape, np.bool_) if lanes is None else np.asarray(lanes)
