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
    """The first step after which a module is wrong, and what it made of the module."""

    step: Step
    after: Module
    tried: int
    """How many modules were judged."""


def bisect(
    module: Module, pipeline: str | Sequence[PipelineNode], is_good: Callable[[Module], bool]
) -> Culprit:
    """The step of `pipeline` before which `is_good` holds and after which it does not.

    Found by halving, so with several wrong passes it is one of them. Raises PassError (TIR0609)
    where `is_good` fails on `module` or holds at the end; and what running the pipeline raises.
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
