"""Finding the first pass of a pipeline that changes a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from tileir.errors import Diagnostic, PassError
from tileir.ir import Module
from tileir.passmanager.manager import Step, run
from tileir.passmanager.pipeline import PipelineNode


@attrs.frozen
class Culprit:
    """The first step after which the module is wrong, and the module that the step returned."""

    step: Step
    after: Module
    tried: int
    """The number of modules that were tested."""


def bisect(
    module: Module, pipeline: str | Sequence[PipelineNode], is_good: Callable[[Module], bool]
) -> Culprit:
    """Find the step of `pipeline` before which `is_good` is true and after which it is false.

    The search is binary, so it finds one of several wrong passes. Raises PassError (TIR0609) if
    `is_good` is false for `module` or true at the end, and the errors of the pipeline.
    """
    outcome = run(module, pipeline)
    changes = [record.step for record in outcome.records if record.changed]
    states = [*(step.before for step in changes), outcome.module]
    if not is_good(states[0]):
        raise _nothing("the module is wrong before the first pass")
    if len(states) == 1 or is_good(states[-1]):
        raise _nothing("the module is right after the whole pipeline")
    good, bad, tried = 0, len(states) - 1, 2
    while bad - good > 1:
        middle = (good + bad) // 2
        tried += 1
        if is_good(states[middle]):
            good = middle
        else:
            bad = middle
    return Culprit(changes[good], states[bad], tried)


def _nothing(message: str) -> PassError:
    return PassError(Diagnostic("TIR0609", message))
