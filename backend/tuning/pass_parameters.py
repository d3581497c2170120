"""The space that the compiler's own passes declare, for one program.

The paper's tuner extracts its space "by simply concatenating meta-parameters associated with each
of the optimization passes" (section 5.3). Here a pass declares them with its options (`choices` of
`tileir.passmanager.registry.pass_`), and those that make no difference to a program are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tileir.backend.compile import Options, run_pipeline
from tileir.backend.measurement.points import Choice
from tileir.backend.target import Target, target as target_named
from tileir.backend.tuning.space import ParameterRole, Space, TuningParameter
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.passmanager.find_passes import lookup

PASSES = (
    "warp-specialize",
    "split-k",
    "pipeline-chained-matmuls",
    "async-pipeline",
    "assign-layouts",
)
"""The passes of the compiler's pipeline that have meta-parameters."""

SWITCHES = {
    "warp-specialize": "warp_specialize",
    "persist": "persistent",
    "pingpong": "pingpong",
    "stage-halo": "stage_halo",
}
"""Passes that the compiler may omit, and the options for that."""

_NAMES = {"warps": "num_warps", "ranks": "split_k"}
"""Options of passes that have another name among the compiler's options."""


def compiler_space(
    module: Module, target: str = "sm_90a", kernel: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Space:  # fmt: skip
    """Return the space of compiler options that matter for `kernel` of `module`.

    An option is included if at least two of its choices yield different programs. `options` are
    fixed and not tried. Raises `CompileError` for a missing kernel or an unknown target.
    """
    stated, machine = dict(options or {}), target_named(target)
    program = _PassProgram(module, machine, kernel, stated)
    parameters: list[TuningParameter] = []
    for parameter in declared_parameters():
        if parameter.name not in stated and program.depends_on(parameter):
            parameters.append(parameter)
    return Space(tuple(parameters))


def declared_parameters(passes: Sequence[str] = PASSES) -> Iterator[TuningParameter]:
    """The parameters of passes, and the switches of optional passes, as options of the compiler. If
    two passes declare a parameter with the same name, it has the choices of both."""
    names = {field.name for field in attrs.fields(Options)}
    parameters: dict[str, TuningParameter] = {}
    for name in passes:
        for option in lookup(name).options:
            keyword = _NAMES.get(option.keyword, option.keyword)
            if option.choices and keyword in names:
                before = parameters.get(keyword)
                joined = {*option.choices, *(before.choices if before else ())}
                choices = option.choices if before is None else tuple(sorted(joined, key=_size))
                meaning = f"{option.name} of {name}"
                parameters[keyword] = TuningParameter(
                    keyword, choices, ParameterRole.OPTION, meaning
                )
    yield from parameters.values()
    for name, keyword in SWITCHES.items():
        yield TuningParameter(keyword, (True, False), ParameterRole.OPTION, f"whether {name} runs")


def _size(choice: Any) -> float:
    return float(choice)


@attrs.frozen
class _PassProgram:
    """A kernel, and the fixed part of its compilation."""

    module: Module
    machine: Target
    kernel: str | None
    options: Mapping[str, Any]

    def depends_on(self, parameter: TuningParameter) -> bool:
        """Whether some choices yield different programs."""
        seen: set[Any] = set()
        for choice in parameter.choices:
            outline = self._outline({**self.options, parameter.name: choice})
            if outline is not None:
                seen.add(outline)
            if len(seen) > 1:
                return True
        return False

    def _outline(self, options: Mapping[str, Choice]) -> Any:
        """A description that identifies a program, except for names of values; None for one that
        does not compile."""
        try:
            done = run_pipeline(self.module, self.machine, Options.of(options), self.kernel)
        except TileirError:
            return None
        functions = done.stages["barriers"].functions.values()
        ops = tuple(
            (op.mnemonic, *(str(r.type) for r in op.results)) for f in functions for op in f.ops
        )
        return done.num_warps, done.memory.size, done.registers, ops
