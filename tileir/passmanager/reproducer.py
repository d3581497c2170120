"""Reproducers: a module and the pipeline that goes wrong on it, in one `.tir` file.

The pipeline is module metadata, so the file is read, printed and reduced like any other:

    reproducer.pipeline = "func{name=relu}(licm{max-depth=2})"
    reproducer.error = "TIR0605"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from tileir.errors import Diagnostic, PassError, TileirError
from tileir.ir import Module
from tileir.passmanager.manager import CrashError, Step, run
from tileir.passmanager.pipeline import PipelineNode, format_pipeline

_PIPELINE, _ERROR = "reproducer.pipeline", "reproducer.error"


@attrs.frozen
class Reproducing:
    """An observer that hands the reproducer of a failing step to `save`."""

    save: Callable[[Module], object]

    def before(self, step: Step) -> None:
        pass

    def after(self, step: Step, module: Module) -> None:
        pass

    def on_failure(self, step: Step, pipeline: Sequence[PipelineNode], error: Exception) -> None:
        self.save(reproducer(step.before, pipeline, error))


def reproducer(module: Module, pipeline: Sequence[PipelineNode], error: Exception) -> Module:
    """`module` with `pipeline` and the kind of `error` in its metadata."""
    kind = error.code if isinstance(error, TileirError) else type(error).__name__
    noted = {**module.metadata, _PIPELINE: format_pipeline(pipeline), _ERROR: kind}
    return module.evolve(metadata=noted)


def read_reproducer(module: Module) -> tuple[Module, str]:
    """The module and the pipeline of a reproducer. Raises PassError (TIR0607)."""
    pipeline = module.metadata.get(_PIPELINE)
    if not isinstance(pipeline, str):
        where = module.source or "the module"
        raise PassError(
            Diagnostic("TIR0607", f"{where} is no reproducer: it has no metadata {_PIPELINE}")
        )
    metadata = {k: v for k, v in module.metadata.items() if k not in (_PIPELINE, _ERROR)}
    return module.evolve(metadata=metadata), pipeline


@attrs.frozen
class Failure:
    """The contents of a reproducer: `pipeline` fails on `module` with `kind`."""

    module: Module
    pipeline: str
    kind: str

    def fails(self, candidate: Module) -> bool:
        """Whether the pipeline fails on `candidate` with an error of the same kind."""
        try:
            run(candidate, self.pipeline)
        except CrashError as error:
            return type(error.__cause__).__name__ == self.kind
        except TileirError as error:
            return error.code == self.kind
        return False

    def around(self, module: Module) -> Module:
        """`module` as a reproducer of this failure."""
        noted = {**module.metadata, _PIPELINE: self.pipeline, _ERROR: self.kind}
        return module.evolve(metadata=noted)


def reproducer_of(module: Module) -> Failure:
    """Read the reproducer `module`. Raises PassError (TIR0607)."""
    bare, pipeline = read_reproducer(module)
    return Failure(bare, pipeline, str(module.metadata.get(_ERROR, "")))
