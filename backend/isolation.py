"""Code generation and assembly in separate processes, so that no program ends this one.

    compiled = tileir.backend.compile(module, isolate=True)
    with tileir.process.default_isolation():
        ...                       calls without `isolate` are isolated here

LLVM and the assembler may abort, exit or run for hours. Requests are sent to a worker: a Python
process that is started on first use and then reused. A worker that dies is replaced; the error
states the kernel, the stage and the output of the worker. `tileir.backend.worker_pool` manages the
workers, `tileir.backend.worker` is the program of one.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import attrs

from tileir import limits
from tileir.backend.target import Target
from tileir.errors import (
    DefectError,
    Diagnostic,
    InfeasibleError,
    Location,
    from_signal_handler,
)


@attrs.frozen
class Task:
    """The task of a worker: the kernel and the stage, which errors state, and the location of the
    kernel."""

    kernel: str
    stage: str
    location: Location | None = None


@attrs.frozen
class MachineTarget:
    """The properties of a target that code generation and assembly need. The target itself may be
    of another class."""

    name: str
    processor: str
    features: str

    @staticmethod
    def of(target: Target) -> MachineTarget:
        """The properties of `target`."""
        return MachineTarget(target.name, target.processor, target.features)


def run(task: Task, function: Callable[..., Any], *arguments: Any) -> Any:
    """`function(*arguments)` in a worker; both are pickled, the function by its name.

    Raises the exceptions of the function; `DefectError` (TIR0720) if its process ends;
    `InfeasibleError` (TIR1601) if it takes longer than the limit `seconds`.
    """
    from tileir.backend.worker_pool import DiedError, workers  # needed only with isolation

    seconds = limits.current().seconds
    name = f"{function.__module__}:{function.__qualname__}"
    try:
        good, answer = workers().call(pickle.dumps((name, arguments)), seconds)
    except DiedError as died:
        message = f"@{task.kernel}: {task.stage} ended its process {died}"
        raise DefectError(Diagnostic("TIR0720", message, task.location)) from None
    except TimeoutError as error:
        if from_signal_handler(error):
            raise
        what = f"@{task.kernel}: {task.stage} took longer than {seconds} s"
        raise InfeasibleError(limits.limit_diagnostic("seconds", what, task.location)) from None
    if good:
        return answer
    raise answer
