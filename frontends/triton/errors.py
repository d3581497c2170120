"""Errors in a kernel, at the line of the kernel."""

from __future__ import annotations

from tileir import Location
from tileir.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    InfeasibleError,
    LaunchError,
    TileirError,
)

TritonError = TileirError
"""The class of all errors, by Triton's name."""

PTXASError = CompileError
"""Triton's name for errors of the assembler."""

AutotunerError = LaunchError
"""Triton's name for errors of `autotune`."""


class CompilationError(BuildError):
    """The kernel is invalid or not supported; `line` and `column` are those of its source file."""


class OutOfResources(InfeasibleError):  # noqa: N818 - Triton's name
    """The kernel exceeds a resource of the target."""

    def __init__(
        self, required: object, limit: object, name: str, *diagnostics: Diagnostic
    ) -> None:
        message = f"out of resource: {name}, required: {required}, hardware limit: {limit}"
        super().__init__(*(diagnostics or (Diagnostic("TIR0708", message),)))
        self.required, self.limit, self.name = required, limit, name

    @staticmethod
    def of(error: InfeasibleError) -> OutOfResources:
        """Convert an error of the backend; its message has the required and the available
        amount."""
        return OutOfResources(None, None, error.diagnostics[0].message, *error.diagnostics)


class KernelError(Exception):
    """An error in an expression, before its location is known."""

    def __init__(self, message: str, code: str = "TIR1003") -> None:
        super().__init__(message)
        self.message, self.code = message, code


def error_at(message: str, place: Location | None, code: str = "TIR1001") -> CompilationError:
    """An error at `place`."""
    return CompilationError(Diagnostic(code, message, place))


def launch_error(message: str) -> LaunchError:
    """Arguments or a grid that a kernel cannot be launched with."""
    return LaunchError(Diagnostic("TIR1005", message))
