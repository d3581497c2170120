"""One function being compiled, and its names in their blocks."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from tileir.builder import Builder, BuildError, Var
from tileir.errors import Diagnostic
from tileir.frontends.triton_c.ctypes import CType
from tileir.frontends.triton_c.errors import CompilationError, ProgramError, error_at
from tileir.frontends.triton_c.reading import Text
from tileir.frontends.triton_c.values import Item, TypedValue, convert, fit, select, together


@attrs.frozen(eq=False)
class DeclaredVariable:
    """A declared name: its type, its shape, and its SSA variable. Where the `predicate` of its
    declaration is false, nothing reads it."""

    kind: CType
    shape: tuple[int, ...]
    var: Var
    predicate: TypedValue | None


@attrs.define(eq=False)
class OpenLoopFrame:
    """The targets of `continue` and `break`, the predicate around the loop, and whether a `break`
    has left it."""

    continue_to: Any
    done: Any
    predicate: TypedValue | None
    left: bool = False


@attrs.define(eq=False)
class Frame:
    """A function: `functions` are those it may call, `known` the numbers known while compiling
    (tunables). `predicate` guards what is loaded, stored and assigned; `outside` is the one
    that the function is called under."""

    b: Builder
    text: Text
    functions: Mapping[str, Any]
    constant_of: Mapping[str, Any]
    result: CType | None = None
    exit: Any = None
    scopes: list[dict[str, DeclaredVariable]] = attrs.field(factory=lambda: [{}])
    loops: list[OpenLoopFrame] = attrs.field(factory=list[OpenLoopFrame])
    predicate: TypedValue | None = None
    outside: TypedValue | None = None
    expected: tuple[int, ...] | None = None
    """The shape of what is being initialized."""
    depth: int = 0

    # Names ------------------------------------------------------------------------------------

    def declare(self, name: str, kind: CType, shape: tuple[int, ...], initial: TypedValue) -> None:
        """A new name in this block. Raises ProgramError where it is taken."""
        if name in self.scopes[-1]:
            raise ProgramError(f"{name} is declared twice", "TIR1002")
        var = self.b.var(initial.expr, name=name)
        self.scopes[-1][name] = DeclaredVariable(kind, shape, var, self.predicate)

    def variable(self, name: str) -> DeclaredVariable:
        """The innermost declaration of `name`. Raises ProgramError."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise ProgramError(f"{name} is not declared", "TIR1002")

    def read(self, name: str) -> Item:
        """The current value of `name`. Raises ProgramError."""
        try:
            result = self.variable(name)
        except ProgramError:
            if name in self.constant_of:
                return self.constant_of[name]
            raise
        return TypedValue(result.var.get(), result.kind)

    def assign(self, name: str, item: Item) -> TypedValue:
        """`name = item` where the predicate is true. Raises ProgramError."""
        if name in self.constant_of and not any(name in scope for scope in self.scopes):
            raise ProgramError(f"{name} is constant", "TIR1004")
        target = self.variable(name)
        new = fit(convert(self.b, item, target.kind), target.shape)
        if self.predicate is not None and self.predicate is not target.predicate:
            old = TypedValue(target.var.get(), target.kind)
            new = fit(select(self.b, self.predicate, new, old), target.shape)
        target.var.set(new.expr)
        return new

    @contextmanager
    def block(self) -> Generator[None, None, None]:
        """Names that are declared in the body end with it."""
        self.scopes.append({})
        yield
        self.scopes.pop()

    # Predicates -----------------------------------------------------------------------------------

    @contextmanager
    def under(self, condition: TypedValue) -> Generator[None, None, None]:
        """Loads, stores and assignments of the body are executed only where `condition` is true."""
        before = self.predicate
        self.predicate = condition if before is None else self.conjunction(before, condition)
        yield
        self.predicate = before

    def conjunction(self, x: TypedValue, y: TypedValue) -> TypedValue:
        """Both conditions."""
        left, right = together(x, y)
        return TypedValue(self.b.and_(left.expr, right.expr), x.kind)

    # Places -----------------------------------------------------------------------------------

    @contextmanager
    def at(self, node: Any) -> Generator[None, None, None]:
        """Ops and errors of the body get the location of `node`."""
        meta = node.meta if hasattr(node, "meta") else node
        place = self.text.place(getattr(meta, "line", 1), getattr(meta, "column", 1))
        try:
            with self.b.at_location(place):
                yield
        except CompilationError:
            raise
        except ProgramError as error:
            raise error_at(error.message, place, error.code) from None
        except RecursionError:
            raise error_at("nested too deeply", place) from None
        except BuildError as error:
            result = (Diagnostic(d.code, d.message, place, d.severity) for d in error.diagnostics)
            raise CompilationError(*result) from None
