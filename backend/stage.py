"""Stages: the rows of a pipeline's table, and their application to a kernel and its roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, cast

import attrs

from tileir.analysis import memoize
from tileir.errors import Diagnostic
from tileir.ir import Function, Module
from tileir.passmanager.registry import PassResult

_C = TypeVar("_C")


class Scope(Enum):
    """The unit to which a stage is applied."""

    MODULE = "module"
    KERNEL = "kernel"
    ROLES = "roles"
    """Each function that the kernel starts as a role."""
    EACH = "each"
    """The kernel, then each role."""


def no_roles(context: Any) -> tuple[str, ...]:
    """The roles of a context that has none."""
    return ()


def always(subject: Any, context: Any) -> bool:
    """The condition of a stage that applies to every kernel."""
    return True


@attrs.frozen(eq=False, repr=False)
class Stage:
    """One row of a table of stages.

    - `apply(subject, context)` returns the new function or module, a `PassResult`, or a
      `PassResult` and the context for the next stages. It imports the pass, so a kernel that does
      not need the stage does not load it.
    - `applies(subject, context)` returns whether the subject needs the stage.
    - `snapshot` names the module after the stage.
    - `marker` is the `stage` line of the module from then on.
    """

    name: str
    apply: Callable[[Any, Any], Any]
    applies: Callable[[Any, Any], bool] = always
    scope: Scope = Scope.KERNEL
    snapshot: str = ""
    marker: str = ""


class StageRun(Generic[_C]):
    """The application of tables of stages to a module.

    `roles` are the functions that the kernel starts as roles; `roles_of` returns those that the
    context names, which a stage may change. `recorder`, a `tileir.passmanager.Recorder`, verifies,
    times and reports every stage; without a recorder this costs nothing.
    """

    def __init__(
        self, module: Module, kernel: str, context: _C, roles: Sequence[str] = (),
        recorder: Any = None, roles_of: Callable[[_C], Iterable[str]] = no_roles,
    ) -> None:  # fmt: skip
        self.module, self.kernel, self.context = module, kernel, context
        self.roles, self.recorder, self.roles_of = roles, recorder, roles_of
        self.remarks: list[Diagnostic] = []
        self.snapshots: dict[str, Module] = {}

    def through(self, stages: Iterable[Stage]) -> None:
        """Run `stages` in order. Exceptions of stages pass through; with a recorder, `PassError` is
        raised for a defect of a stage."""
        for stage in stages:
            for name in self._subjects(stage.scope):
                subject = self.module if name is None else self.module.functions[name]
                if stage.applies(subject, self.context):
                    self._apply(stage, name, subject)
            if stage.marker and stage.marker != self.module.stage:
                self.module = self.module.evolve(stage=stage.marker)
            if stage.snapshot:
                self.snapshots[stage.snapshot] = self.module

    @property
    def function(self) -> Function:
        """The kernel in its current form."""
        return self.module.functions[self.kernel]

    def _subjects(self, scope: Scope) -> Sequence[str | None]:
        if scope is Scope.MODULE:
            return (None,)
        kernel = () if scope is Scope.ROLES else (self.kernel,)
        roles = self.roles or self.roles_of(self.context)
        return kernel if scope is Scope.KERNEL else (*kernel, *roles)

    def _apply(self, stage: Stage, name: str | None, subject: Any) -> None:
        def change() -> PassResult:
            outcome, self.context = _result_and_context(
                stage.apply(subject, self.context), self.context
            )
            return outcome

        if self.recorder is not None:
            before, module = len(self.recorder.remarks), self.module
            if stage.marker and module.stage is None:
                module = module.evolve(stage=stage.marker)  # so that the ops that follow are legal
            self.module = self.recorder.apply(module, _node(stage.name), name, change)
            self.remarks += self.recorder.remarks[before:]
            return
        outcome = change()
        self.remarks += outcome.remarks
        ir = outcome.ir
        self.module = ir if isinstance(ir, Module) else with_function(self.module, ir)


def with_function(module: Module, function: Function) -> Module:
    """`module` with `function` in place of the function of the same name."""
    if module.functions[function.name] is function:
        return module
    return module.with_functions({**module.functions, function.name: function})


def with_attributes(function: Function, attributes: Mapping[str, Any]) -> Function:
    """`function` with `attributes` in addition to its own."""
    return function.evolve(attributes={**function.attributes, **attributes})


def has_op(function: Function, *mnemonics: str) -> bool:
    """Whether `function` contains an op with one of these mnemonics."""
    return not _mnemonics(function).isdisjoint(mnemonics)


@memoize
def _mnemonics(function: Function) -> frozenset[str]:
    return frozenset([op.mnemonic for op in function.ops])


def _result_and_context(answer: Any, context: Any) -> tuple[PassResult, Any]:
    if isinstance(answer, tuple):
        return cast(tuple[PassResult, Any], answer)
    return (answer if isinstance(answer, PassResult) else PassResult(answer)), context


def _node(name: str) -> Any:
    """The stage as a node of a pipeline, for observers and records."""
    from tileir.passmanager.find_passes import Pass
    from tileir.passmanager.pipeline import PipelineNode

    return PipelineNode(name, {}, Pass(name, lambda ir: ir, "function", ()))
