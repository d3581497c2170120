"""The subject of a picture: a kernel, its compiled form, and the part that is drawn."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Function, Module
from tileir.op import Op
from tileir.ops.roles import Role
from tileir.tools.view.naming import ValueNames, concerns, same
from tileir.values import Value

if TYPE_CHECKING:
    from tileir.backend.compile import LoweredKernel

_T = TypeVar("_T")


@attrs.frozen(slots=False, eq=False)
class Subject:
    """The subject of a picture: kernel `kernel` of `module`, or its only one, for `target` with
    `options` of the compiler. `value` is the name of the value that the picture is about (`%x`),
    and `program` the instance that is run if one is needed."""

    module: Module
    kernel: str | None = None
    target: str = "sm_90"
    options: Mapping[str, Any] = attrs.field(factory=dict)
    value: str | None = None
    pipeline: str | None = None
    program: tuple[int, ...] = (0,)

    @cached_property
    def function(self) -> Function:
        """The kernel as read from the file. Raises ToolError (TIR0707) if it does not exist."""
        try:
            return self.module.kernel(self.kernel)
        except KeyError as error:
            raise ToolError(Diagnostic("TIR0707", str(error.args[0]))) from None

    @cached_property
    def lowered_kernel(self) -> LoweredKernel:
        """The kernel compiled up to code generation. Raises `CompileError` as `compile` does."""
        # imports numpy, needed only to draw
        from tileir.backend.compile import Options, run_pipeline
        from tileir.backend.target import target

        machine, options = target(self.target), Options.of(dict(self.options))
        return run_pipeline(self.module, machine, options, self.function.name)

    def compiled_as(self, staged: LoweredKernel) -> Subject:
        """The subject with `staged` as its `lowered_kernel`."""
        if staged is self.lowered_kernel:
            return self
        subject = attrs.evolve(self)
        subject.__dict__["staged"] = staged
        return subject

    @cached_property
    def laid_out(self) -> Function:
        """The kernel with layouts and barriers."""
        return self.lowered_kernel.stages["barriers"].functions[self.function.name]

    @cached_property
    def laid_out_functions(self) -> tuple[Function, ...]:
        """`laid_out`, and the functions of the kernel's roles."""
        functions = self.lowered_kernel.stages["barriers"].functions
        roles = (functions[op.callee] for op in self.laid_out.ops if isinstance(op, Role))
        return tuple(dict.fromkeys((self.laid_out, *roles)))

    @cached_property
    def laid_out_names(self) -> ValueNames:
        """The names of the values of `laid_out_functions`."""
        return ValueNames(*self.laid_out_functions)

    @property
    def name(self) -> str:
        """The name of the kernel, for the heading of a picture."""
        return f"@{self.function.name}"

    def find_value(self, *functions: Function) -> Value | None:
        """The first value of `functions` that is called `value`; None if no value is requested.

        Raises ToolError (TIR0912) if there is no value of that name.
        """
        if self.value is None:
            return None
        names = ValueNames(*functions).of
        exact = (v for v, name in names.items() if name == self.value)
        copies = (v for v, name in names.items() if same(name, self.value))
        value = next(exact, None) or next(copies, None)
        if value is None:
            message = f"{self.name} has no value {self.value} where it is drawn"
            close = difflib.get_close_matches(self.value, list(names.values()), 3)
            raise self._error(message + (f"; there is {' and '.join(close)}" if close else ""))
        return value

    def about(self, ops: Iterable[_T], op_of: Callable[[_T], Op], what: str) -> Sequence[_T]:
        """The items whose op defines or uses `value`; all items if no value is requested.

        Raises ToolError (TIR0912) if there are none; `what` names the items.
        """
        if self.value is None:
            return tuple(ops)
        names = self.laid_out_names
        result = tuple(x for x in ops if concerns(op_of(x), self.value, names))
        if not result:
            self.find_value(*self.laid_out_functions)
            raise self._error(f"no {what} of @{self.function.name} is about {self.value}")
        return result

    def _error(self, message: str) -> ToolError:
        return ToolError(Diagnostic("TIR0912", message, self.function.location))
