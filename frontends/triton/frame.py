"""One function being compiled: the kernel, or a function inlined into it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.builder import Builder, BuildError
from tileir.errors import Diagnostic
from tileir.frontends.triton.building import count_evaluation
from tileir.frontends.triton.errors import CompilationError, KernelError, error_at
from tileir.frontends.triton.names import Names, Structure, structure, to_tensors
from tileir.frontends.triton.source import FunctionSource


@attrs.define(eq=False)
class Exit:
    """The target of early returns of an inlined function, with the structure that all returned
    values share."""

    block: Any
    structure: Structure


@attrs.define(eq=False)
class Frame:
    """A function, its names, and the target of its returns. Functions of the language get it as
    their `scope`."""

    b: Builder
    source: FunctionSource
    is_kernel: bool
    caller: Callable[..., Any]
    """Compiles a call; its arguments are the frame, the function, its positional and its keyword
    arguments."""
    names: Names = attrs.field(init=False)
    depth: int = 0
    """The depth of calls at which this function is inlined."""
    nested: int = 0
    """The number of open branches and loops of this function that depend on run-time values."""
    unrolled: list[tuple[int, int]] = attrs.field(factory=list[Any])
    """For each open unrolled loop: the loops and the run-time branches around it."""
    left: type[ast.stmt] | None = None
    """The statement that ended the last iteration of the innermost unrolled loop: `break` or
    `continue`."""
    exit: Exit | None = None
    result: Any = None

    def __attrs_post_init__(self) -> None:
        self.names = Names(self.b)

    def look_up(self, name: str) -> Any:
        """The value of `name` in this scope. Raises KernelError."""
        try:
            return self.names.get(name)
        except KeyError:
            pass
        try:
            return self.source.free(name)
        except KeyError:
            pass
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise KernelError(f"{name} is not defined", "TIR1002")

    def call(self, function: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Result of a function of the language or of the user's."""
        return self.caller(self, function, list(arguments), keywords)

    def give_back(self, value: Any) -> None:
        """`return value`: of a kernel, its end; of an inlined function, its result."""
        if self.is_kernel:
            if value is not None:
                raise KernelError("a kernel returns nothing", "TIR1001")
            self.b.ret()
        elif not self.nested and self.exit is None:
            self.result = value
        else:
            self._jump_out(value)

    def _jump_out(self, value: Any) -> None:
        result = structure(to_tensors(self.b, value))
        if self.exit is None:
            types = [part.type for part in result.parts]
            self.exit = Exit(self.b.block("returned", *types), result)
        elif self.exit.structure.key != result.key:
            raise KernelError("the returns of a function give values of one type", "TIR1003")
        self.b.br(self.exit.block(*result.parts))

    def finish(self, reachable: bool) -> Any:
        """Finish the function after its last statement; returns the result of an inlined function,
        merged over all paths."""
        if self.exit is None:
            return self.result
        if reachable:
            self._jump_out(self.result)
        elif self.b.current.block is not None:
            self.b.unreachable()
        self.b.enter(self.exit.block)
        return self.exit.structure.rebuild(self.exit.block.parameters)

    @contextmanager
    def at(self, node: ast.AST) -> Generator[None, None, None]:
        """Ops and errors of the body get the location of `node`."""
        place = self.source.place(node)
        try:
            count_evaluation(self.b)
            with self.b.at_location(place):
                yield
        except CompilationError:
            raise
        except KernelError as error:
            raise error_at(error.message, place, error.code) from None
        except BuildError as error:
            result = (Diagnostic(d.code, d.message, place, d.severity) for d in error.diagnostics)
            raise CompilationError(*result) from None
