"""What a picture shows: a kernel, how it is compiled, and which part of it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import attrs

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.tools.view.naming import Names, concerns, same
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.compile import LoweredKernel

_T = TypeVar("_T")


@attrs.frozen(slots=False, eq=False)
class Subject:
    """The kernel `kernel` of `module`, or its only one, for `target`; `value` is the name that
    the picture is about (`%x`), `program` the instance that is run where one must be."""

    module: Module
    kernel: str | None = None
    target: str = "sm_90"
    num_warps: int | None = None
    value: str | None = None
    pipeline: str | None = None
    program: tuple[int, ...] = (0,)

    @cached_property
    def function(self) -> Function:
        """The kernel as it was read. Raises ToolError (TIR0911) where it is not there."""
        try:
            return self.module.kernel(self.kernel)
        except KeyError as error:
            raise ToolError(Diagnostic("TIR0911", str(error.args[0]))) from None

    @cached_property
    def staged(self) -> LoweredKernel:
        """The kernel as compiled up to its code. Raises `CompileError` as `compile` does."""
        from tileir.backend.compile import Options, run_pipeline  # numpy, for those who draw
        from tileir.backend.target import target

        machine, options = target(self.target), Options(num_warps=self.num_warps)
        return run_pipeline(self.module, machine, options, self.function.name)

    @cached_property
    def laid_out(self) -> Function:
        """The kernel when its tiles have layouts and its barriers are in."""
        return self.staged.stages["barriers"].functions[self.function.name]

    @property
    def name(self) -> str:
        """The kernel's, as pictures are headed."""
        return f"@{self.function.name}"

    def named(self, function: Function) -> Value | None:
        """The first value of `function` that is called `value`; None where none was asked for.

        Raises ToolError (TIR0912) where there is none of that name."""
        if self.value is None:
            return None
        names = Names(function).of
        exact = (v for v, name in names.items() if name == self.value)
        copies = (v for v, name in names.items() if same(name, self.value))
        value = next(exact, None) or next(copies, None)
        if value is None:
            message = f"@{self.function.name} has no value {self.value} where it is drawn"
            close = difflib.get_close_matches(self.value, list(names.values()), 3)
            raise self._error(message + (f"; there is {' and '.join(close)}" if close else ""))
        return value

    def about(self, ops: Iterable[_T], op_of: Callable[[_T], Op], what: str) -> Sequence[_T]:
        """Those whose op defines or reads `value`, all of them where none was asked for.

        Raises ToolError (TIR0912) where none does; `what` names what is drawn."""
        if self.value is None:
            return tuple(ops)
        names = Names(self.laid_out)
        result = tuple(x for x in ops if concerns(op_of(x), self.value, names))
        if not result:
            self.named(self.laid_out)
            raise self._error(f"no {what} of @{self.function.name} is about {self.value}")
        return result

    def _error(self, message: str) -> ToolError:
        return ToolError(Diagnostic("TIR0912", message, self.function.location))
