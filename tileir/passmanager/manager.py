"""Running a pipeline: one pass after the other, verified, timed and observed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from tileir.errors import (
    Diagnostic,
    PassError,
    TileirError,
    VerifyError,
    from_signal_handler,
)
from tileir.ir import Function, Module
from tileir.limits import check_tiles
from tileir.passmanager.find_passes import Pass
from tileir.passmanager.pipeline import PipelineNode, parse_pipeline
from tileir.passmanager.registry import PassResult
from tileir.verify import verify as verify_module


@attrs.frozen
class Step:
    """An application of a pass to the function `function`, or to the whole module (None)."""

    index: int
    node: PipelineNode
    function: str | None
    before: Module

    @property
    def title(self) -> str:
        """The name of the pass and of the function, as messages show them."""
        return str(self.node) + (f" on @{self.function}" if self.function else "")


@attrs.frozen
class StepRecord:
    """The outcome of a step: its time in seconds, without verification, and its statistics."""

    step: Step
    seconds: float
    verifying: float
    changed: bool
    statistics: Mapping[str, int]


@attrs.frozen
class Run:
    """The result of a pipeline."""

    module: Module
    remarks: tuple[Diagnostic, ...]
    records: tuple[StepRecord, ...]


class CrashError(PassError):
    """A pass raised an exception that is no TileirError; `pipeline` on `module` reproduces it."""

    module: Module
    pipeline: tuple[PipelineNode, ...]


class Observer(Protocol):
    """The interface of observers, which are called before and after every step (see
    `tileir.passmanager.printing`)."""

    def before(self, step: Step) -> None:
        """Called before `step` runs on `step.before`."""
        ...

    def after(self, step: Step, module: Module) -> None:
        """Called after `step`, which returned `module`: the same object if nothing changed."""
        ...

    def on_failure(self, step: Step, pipeline: Sequence[PipelineNode], error: Exception) -> None:
        """Called when `step`, or the verifier after it, raised `error`; `pipeline` reproduces the
        failure."""
        ...


def run(
    module: Module,
    pipeline: str | Sequence[PipelineNode],
    *,
    verify: bool = True,
    observers: Iterable[Observer] = (),
) -> Run:
    """Run `pipeline`, which is text or parsed nodes, on `module` and return the result.

    With `verify` the verifier runs after every pass that changed the module. Raises PassError:
    TIR0601 to TIR0604 for the pipeline, TIR0605 if a pass raises an exception that is no
    TileirError (a CrashError with a reproducer), TIR0606 if a pass returns an invalid module,
    TIR1601 for tiles larger than the limit. Other TileirErrors of passes are raised unchanged.
    """
    nodes = parse_pipeline(pipeline) if isinstance(pipeline, str) else tuple(pipeline)
    check_tiles(module, PassError)
    recorder = Recorder(verify, observers)
    runner = _Runner(module, recorder)
    runner.nodes(nodes, None)
    return Run(runner.module, tuple(recorder.remarks), tuple(recorder.records))


class Recorder:
    """Applies passes to modules one at a time: verifies, measures time, and calls the observers.

    `records` and `remarks` collect the results of the passes. `replay` is the module and the node
    that reproduce a failure of a step that cannot run alone.
    """

    def __init__(self, verify: bool = True, observers: Iterable[Observer] = ()) -> None:
        self.verify = verify
        self.observers = tuple(observers)
        self.remarks: list[Diagnostic] = []
        self.records: list[StepRecord] = []
        self.replay: tuple[Module, PipelineNode] | None = None

    def apply(
        self,
        module: Module,
        node: PipelineNode,
        function: str | None,
        change: Callable[[], PassResult],
    ) -> Module:
        """Apply `change` to `module`, or to its `function`, as the step `node`, and return the new
        module.

        Raises the errors that `run` raises.
        """
        step = Step(len(self.records), node, function, module)
        for observer in self.observers:
            observer.before(step)
        try:
            changed = self._apply(step, change)
        except Exception as error:
            if from_signal_handler(error):
                raise
            before, replayed = self._replay(step)
            for observer in self.observers:
                observer.on_failure(attrs.evolve(step, before=before), (replayed,), error)
            if isinstance(error, TileirError):
                raise
            raise _crash(step, before, replayed, error) from error
        for observer in self.observers:
            observer.after(step, changed)
        return changed

    def _replay(self, step: Step) -> tuple[Module, PipelineNode]:
        """The module and the node that reproduce `step`."""
        if self.replay is not None:
            return self.replay
        node = step.node if step.function is None else _only(step.function, step.node)
        return step.before, node

    def _apply(self, step: Step, change: Callable[[], PassResult]) -> Module:
        start = time.perf_counter()
        subject = step.before if step.function is None else step.before.functions[step.function]
        outcome = change()
        module = _with(step.before, outcome.ir)
        seconds, changed = time.perf_counter() - start, module is not step.before
        start = time.perf_counter()
        if changed and self.verify:
            _check(step, module)
        self.remarks.extend(outcome.remarks)
        counts = _counts(subject, outcome)
        verifying = time.perf_counter() - start
        self.records.append(StepRecord(step, seconds, verifying, changed, counts))
        return module


class _Runner:
    """The state of one run: the current module, and the records so far."""

    def __init__(self, module: Module, recorder: Recorder) -> None:
        self.module = module
        self.recorder = recorder

    def nodes(self, nodes: Sequence[PipelineNode], function: str | None) -> None:
        for node in nodes:
            self.node(node, function)

    def node(self, node: PipelineNode, function: str | None) -> None:
        if node.passed is not None and node.passed.level == "pipeline":
            self.pipeline(node, node.passed)
        elif node.passed is not None:
            for name in self._subjects(node.passed, function):
                self.step(node, node.passed, name)
        elif node.name == "repeat":
            for _ in range(node.options.get("times", 8)):
                before = self.module
                self.nodes(node.children, function)
                if self.module is before:
                    break
        else:
            for name in _functions(self.module, node.options.get("name", "") or function):
                self.nodes(node.children, name)

    def pipeline(self, node: PipelineNode, passed: Pass) -> None:
        """Run a pass that is a pipeline of its own, whose steps cannot be run alone."""
        self.recorder.replay = self.module, node
        try:
            self.module = passed.function(self.module, self.recorder, **node.options)
        finally:
            self.recorder.replay = None

    def _subjects(self, passed: Pass, function: str | None) -> list[Any]:
        return [None] if passed.level == "module" else _functions(self.module, function)

    def step(self, node: PipelineNode, passed: Pass, function: str | None) -> None:
        subject = self.module if function is None else self.module.functions[function]
        self.module = self.recorder.apply(
            self.module, node, function, lambda: passed(subject, **node.options)
        )


def _functions(module: Module, name: str | None) -> list[str]:
    """Names of the functions with a body; only `name` where it is given."""
    if name and name not in module.functions:
        names = ", ".join(f"@{n}" for n in module.functions) or "none"
        raise PassError(Diagnostic("TIR0602", f"func: no function @{name}; there are: {names}"))
    return [f.name for f in module.functions.values() if f.blocks and name in (None, "", f.name)]


def _with(module: Module, ir: Function | Module) -> Module:
    if isinstance(ir, Module):
        return ir
    return module.with_functions({**module.functions, ir.name: ir})


def _only(function: str, node: PipelineNode) -> PipelineNode:
    return PipelineNode("func", {"name": function}, None, (node,))


def _check(step: Step, module: Module) -> None:
    try:
        verify_module(module)
    except VerifyError as error:
        message = f"{step.title} left an invalid module; the pass is at fault, not the input"
        first = Diagnostic("TIR0606", message, error.location, notes=error.diagnostics)
        raise PassError(first) from error


def _crash(step: Step, before: Module, node: PipelineNode, error: Exception) -> CrashError:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    crashed = CrashError(Diagnostic("TIR0605", f"{step.title} failed: {what}"))
    crashed.module, crashed.pipeline = before, (node,)
    return crashed


def _counts(subject: Function | Module, outcome: PassResult) -> Mapping[str, int]:
    """The pass's own counts, and by how many ops the IR shrank or grew."""
    if outcome.ir is subject:
        return outcome.statistics
    delta = _size(outcome.ir) - _size(subject)
    grown = {"ops added": delta} if delta > 0 else {"ops removed": -delta} if delta else {}
    return {**grown, **outcome.statistics}


def _size(ir: Function | Module) -> int:
    functions = ir.functions.values() if isinstance(ir, Module) else (ir,)
    return sum(len(block.ops) for f in functions for block in f.blocks.values())
