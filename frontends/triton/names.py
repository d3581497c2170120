"""Names of a kernel: what each is at the point of compilation, and where paths join.

A name assigned a tensor, or a structure of tensors, is bound to SSA variables of the builder
(Braun et al., CC 2013), which insert block parameters where branches and loops join. What is known
while compiling (types, functions, constexprs) is bound as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import attrs

from tileir import Location
from tileir.builder import Builder, Expr, Var
from tileir.frontends.triton.errors import KernelError, error_at
from tileir.frontends.triton.language.memory import BlockPointer, TensorDescriptor
from tileir.frontends.triton.tensor import Tensor, describe, of

Rebuild: TypeAlias = Callable[[Sequence[Expr]], Any]


@attrs.frozen
class Structure:
    """A value taken apart: `key` is what two values must share to use the variables of one name,
    `parts` its expressions, `rebuild` makes the value of others in their place."""

    key: Any
    parts: tuple[Expr, ...]
    rebuild: Rebuild


def structure(value: Any) -> Structure:
    """`value` taken apart."""
    if isinstance(value, Tensor):
        kind = value.dtype
        return Structure((kind, value.expr.type), (value.expr,), lambda p: Tensor(p[0], kind))
    if isinstance(value, tuple):
        result: Any = type(cast(tuple[Any, ...], value))
        return _sequence(getattr(result, "_make", tuple), cast(tuple[Any, ...], value), result)
    if isinstance(value, (BlockPointer, TensorDescriptor)):
        fields = [getattr(value, f.name) for f in attrs.fields(type(value))]
        kind_ = type(value)
        return _sequence(lambda items: kind_(*items), fields, kind_)
    return Structure(("static", _Same(value)), (), lambda _: value)


def _sequence(make: Callable[[Any], Any], items: Sequence[Any], kind: Any = tuple) -> Structure:
    result = [structure(item) for item in items]

    def rebuild(parts: Sequence[Expr]) -> Any:
        values: list[Any] = []
        start = 0
        for one in result:
            end = start + len(one.parts)
            values.append(one.rebuild(parts[start:end]))
            start = end
        return make(tuple(values))

    parts = tuple(part for one in result for part in one.parts)
    return Structure((kind, *(one.key for one in result)), parts, rebuild)


@attrs.frozen(eq=False)
class _Same:
    """A value known while compiling, equal to what is equal and of one type."""

    value: Any

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, _Same) and type(self.value) is type(other.value)
        return same and (self.value is other.value or self.value == other.value)  # type: ignore[union-attr]

    __hash__ = None  # type: ignore[assignment]


@attrs.frozen(eq=False)
class Binding:
    """The binding of a name since `place`: variables, and the function that makes the value of
    them."""

    key: Any
    variables: tuple[Var, ...]
    rebuild: Rebuild
    place: Location | None

    def value(self) -> Any:
        """The value of now."""
        return self.rebuild([v.get() for v in self.variables])


@attrs.frozen(eq=False)
class InconsistentName:
    """A name that differs between paths; `why` states the difference."""

    why: str


@attrs.define(eq=False)
class Names:
    """The names of one function."""

    b: Builder
    bindings: dict[str, Binding | InconsistentName] = attrs.field(
        factory=dict[str, "Binding | InconsistentName"]
    )
    shared: list[dict[str, Binding | InconsistentName]] = attrs.field(factory=list[Any])
    """Bindings at the end of the other branch of each enclosing `if`: both branches set the same
    variables."""
    loops: list[dict[str, Binding]] = attrs.field(factory=list[Any])
    """Bindings at the start of each enclosing loop."""

    def get(self, name: str) -> Any:
        """The value of `name`. Raises KeyError where it is none of this function, KernelError where
        it is not the same on every path."""
        binding = self.bindings[name]
        if isinstance(binding, InconsistentName):
            raise KernelError(f"{name} {binding.why}", "TIR1002")
        return binding.value()

    def set(self, name: str, value: Any) -> None:
        """Bind `name` to `value` from here on."""
        result = structure(value)
        binding = self._fitting(name, result)
        if binding is not None:
            for variable, part in zip(binding.variables, result.parts, strict=True):
                variable.set(part)
            self.bindings[name] = binding
            return
        variables = tuple(self.b.var(part, name=name) for part in result.parts)
        self.bindings[name] = Binding(result.key, variables, result.rebuild, self.b.fixed)

    def drop(self, name: str, why: str) -> None:
        """Unbind `name` from here on."""
        self.bindings[name] = InconsistentName(why)

    def _fitting(self, name: str, value: Structure) -> Binding | None:
        """The binding of this name, now or on another path, whose variables fit this structure."""
        for place in (self.bindings, *reversed(self.shared), *reversed(self.loops)):
            binding = place.get(name)
            if isinstance(binding, Binding) and binding.key == value.key:
                return binding
        return None

    # Where paths join -----------------------------------------------------------------------

    def branch(
        self, other: dict[str, Binding | InconsistentName] | None = None
    ) -> dict[str, Binding | InconsistentName]:
        """Enter a branch, which may share variables with `other`, the bindings at the end of the
        branch before. Returns the bindings before it."""
        self.shared.append(other or {})
        return dict(self.bindings)

    def leave(
        self, before: dict[str, Binding | InconsistentName]
    ) -> dict[str, Binding | InconsistentName]:
        """Leave it: names are again bound as `before`. Returns the bindings at its end."""
        self.shared.pop()
        after, self.bindings = self.bindings, dict(before)
        return after

    def join(
        self,
        one: dict[str, Binding | InconsistentName],
        other: dict[str, Binding | InconsistentName],
    ) -> None:
        """Go on where two branches, with these bindings at their ends, join."""
        self.bindings = {}
        for name in {**one, **other}:
            a, b = one.get(name), other.get(name)
            if a is b and a is not None:
                self.bindings[name] = a
            else:
                why = "has another type on another path" if a and b else "is not set on every path"
                self.bindings[name] = InconsistentName(why)

    def enter_loop(self) -> dict[str, Binding | InconsistentName]:
        """Enter the body of a loop. Returns the bindings before it."""
        self.loops.append({n: s for n, s in self.bindings.items() if isinstance(s, Binding)})
        return dict(self.bindings)

    def end_iteration(self) -> None:
        """Go back to the start of the innermost loop, or out of it. Raises CompilationError for a
        name that is not of the type there that it was before the loop; in between it may be."""
        for name, binding in self.loops[-1].items() if self.loops else ():
            now = self.bindings[name]
            if isinstance(now, InconsistentName):
                raise KernelError(f"{name} {now.why}, and was defined before the loop", "TIR1002")
            if now is not binding:
                was, becomes = describe(binding.value()), describe(now.value())
                message = (
                    f"{name} is {was} before the loop and {becomes} in it: convert one of them"
                )
                raise error_at(message, now.place, "TIR1003")

    def set_variable(self, name: str, value: Any) -> bool:
        """`name` counts the loop just entered. Whether it had another type before, which it does
        not have after the loop."""
        binding = self.bindings.get(name)
        other = isinstance(binding, Binding) and binding.key != structure(value).key
        if other:
            del self.loops[-1][name]
            self.bindings.pop(name)
        self.set(name, value)
        return other

    def leave_loop(self, before: dict[str, Binding | InconsistentName]) -> None:
        """Leave it: what it alone defined is not defined any more."""
        self.loops.pop()
        lost = InconsistentName("is set in a loop only, which may not run")
        self.bindings = {n: before.get(n, lost) for n in self.bindings}


def to_tensors(b: Builder, value: Any) -> Any:
    """Numbers as tensors, in tuples too: what an assignment makes of them."""
    if isinstance(value, (bool, int, float)):
        return of(b, value)
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        result = [to_tensors(b, item) for item in items]
        return getattr(type(items), "_make", tuple)(result)
    return value
