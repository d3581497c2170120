"""Executors: what runs a kernel of a module, found by name.

A frontend or tool that launches does so through an `Executor`, and so depends on no backend.
The interpreter is the executor `interpreter`; others are entry points of the group
`tileir.executors`, each an object (or a callable without arguments giving one) with `launch`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol, cast, runtime_checkable

from tileir.errors import Diagnostic, LaunchError
from tileir.ir import Module

GROUP = "tileir.executors"
"""The entry point group."""


@runtime_checkable
class Executor(Protocol):
    """Runs kernels of modules."""

    @property
    def name(self) -> str:
        """How it is asked for."""
        ...

    def launch(
        self,
        module: Module,
        kernel: str | None,
        grid: int | Sequence[int],
        arguments: Sequence[Any] | Mapping[str, Any],
        **options: Any,
    ) -> Any:
        """Run `kernel` (None: the only one) once per instance of `grid` and wait for its end.

        Arrays among `arguments` are changed in place. What comes back is the executor's own
        report. Raises TileirError.
        """
        ...


def executors() -> Iterator[str]:
    """Names of the installed executors, the interpreter first."""
    yield "interpreter"
    yield from sorted({e.name for e in entry_points(group=GROUP)} - {"interpreter"})


def executor(name: str = "interpreter") -> Executor:
    """The executor called `name`. Raises LaunchError where there is none or it does not load."""
    if name == "interpreter":
        from tileir.interp import Interpreter  # numpy, which launching elsewhere may not need

        return Interpreter()
    for entry in entry_points(group=GROUP, name=name):
        return _load(entry)
    known = ", ".join(executors())
    raise LaunchError(Diagnostic("TIR0539", f"no executor {name}; there are: {known}"))


def on_host(module: Module, kernel: str | None = None) -> str:
    """The name of the executor for arrays of the host: `cpu`, native code, where it is installed
    and takes the kernel, else the interpreter. Two calls for one module compile it once."""
    if "cpu" not in executors():
        return "interpreter"
    native: Any = executor("cpu")
    return "cpu" if native.takes(module, kernel) else "interpreter"


def _load(entry: Any) -> Executor:
    try:
        found = entry.load()
    except ImportError as error:
        message = f"executor {entry.name} does not load: {error}"
        raise LaunchError(Diagnostic("TIR0539", message)) from error
    made = found if isinstance(found, Executor) and not isinstance(found, type) else found()
    return cast(Executor, made)
