"""Names of a kernel: what each is at the point of compilation, and where paths meet.

A name assigned a tensor, or a structure of tensors, is held in SSA variables of the builder
(Braun et al., CC 2013), so that branches and loops join by themselves. What is known while
compiling (types, functions, constexprs) is held as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import attrs

from tileir import Location
from tileir.builder import Builder, Expr, Var
from tileir.frontends.triton.errors import KernelError, error_at
from tileir.frontends.triton.language.memory import BlockPointer, TensorDescriptor
from tileir.frontends.triton.tensor import Tensor, described, of

Rebuild: TypeAlias = Callable[[Sequence[Expr]], Any]


@attrs.frozen
class Structure:
    """A value taken apart: `key` is what two values must share to be held by one name, `parts`
    its expressions, `rebuild` makes the value of others in their place."""

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
        made: list[Any] = []
        for one in result:
            made.append(one.rebuild(parts[: len(one.parts)]))
            parts = parts[len(one.parts) :]
        return make(tuple(made))

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
class Slot:
    """What a name holds since `place`: variables, and how they make the value."""

    key: Any
    variables: tuple[Var, ...]
    rebuild: Rebuild
    place: Location | None

    def value(self) -> Any:
        """The value of now."""
        return self.rebuild([v.get() for v in self.variables])


@attrs.frozen(eq=False)
class InconsistentName:
    """A name that is not the same thing on every path; `why` says so."""

    why: str


@attrs.define(eq=False)
class Names:
    """The names of one function."""

    b: Builder
    held: dict[str, Slot | InconsistentName] = attrs.field(
        factory=dict[str, "Slot | InconsistentName"]
    )
    shared: list[dict[str, Slot | InconsistentName]] = attrs.field(factory=list[Any])
    """What the other branch of each `if` around made, to be held in common."""
    loops: list[dict[str, Slot]] = attrs.field(factory=list[Any])
    """What each loop around found defined."""

    def get(self, name: str) -> Any:
        """The value of `name`. Raises KeyError where it is none of this function, KernelError where
        it is not the same on every path."""
        slot = self.held[name]
        if isinstance(slot, InconsistentName):
            raise KernelError(f"{name} {slot.why}", "TIR1002")
        return slot.value()

    def set(self, name: str, value: Any) -> None:
        """From here on `name` is `value`."""
        result = structure(value)
        slot = self._fitting(name, result)
        if slot is not None:
            for variable, part in zip(slot.variables, result.parts, strict=True):
                variable.set(part)
            self.held[name] = slot
            return
        variables = tuple(self.b.var(part, name=name) for part in result.parts)
        self.held[name] = Slot(result.key, variables, result.rebuild, self.b.fixed)

    def drop(self, name: str, why: str) -> None:
        """From here on `name` is nothing."""
        self.held[name] = InconsistentName(why)

    def _fitting(self, name: str, found: Structure) -> Slot | None:
        """Where a value of this structure is already held under this name."""
        for place in (self.held, *reversed(self.shared), *reversed(self.loops)):
            slot = place.get(name)
            if isinstance(slot, Slot) and slot.key == found.key:
                return slot
        return None

    # Where paths meet -----------------------------------------------------------------------

    def branch(
        self, other: dict[str, Slot | InconsistentName] | None = None
    ) -> dict[str, Slot | InconsistentName]:
        """Enter a branch, which may hold names in common with `other`, the branch before. What
        was held is returned."""
        self.shared.append(other or {})
        return dict(self.held)

    def leave(
        self, before: dict[str, Slot | InconsistentName]
    ) -> dict[str, Slot | InconsistentName]:
        """Leave it: names are again as `before`. What they were is returned."""
        self.shared.pop()
        after, self.held = self.held, dict(before)
        return after

    def join(
        self, one: dict[str, Slot | InconsistentName], other: dict[str, Slot | InconsistentName]
    ) -> None:
        """Go on where two branches meet."""
        self.held = {}
        for name in {**one, **other}:
            a, b = one.get(name), other.get(name)
            if a is b and a is not None:
                self.held[name] = a
            else:
                why = "has another type on another path" if a and b else "is not set on every path"
                self.held[name] = InconsistentName(why)

    def enter_loop(self) -> dict[str, Slot | InconsistentName]:
        """Enter the body of a loop. What was held is returned."""
        self.loops.append({n: s for n, s in self.held.items() if isinstance(s, Slot)})
        return dict(self.held)

    def end_round(self) -> None:
        """Go back to the start of the innermost loop, or out of it. Raises CompilationError for a
        name that is not of the type there that it was before the loop; in between it may be."""
        for name, slot in self.loops[-1].items() if self.loops else ():
            now = self.held[name]
            if isinstance(now, InconsistentName):
                raise KernelError(f"{name} {now.why}, and was defined before the loop", "TIR1002")
            if now is not slot:
                was, becomes = described(slot.value()), described(now.value())
                message = f"{name} is {was} before the loop and {becomes} in it"
                raise error_at(message, now.place, "TIR1003")

    def set_variable(self, name: str, value: Any) -> bool:
        """`name` counts the loop just entered. Whether it was something else before, which it is
        not any more behind the loop."""
        slot = self.held.get(name)
        other = isinstance(slot, Slot) and slot.key != structure(value).key
        if other:
            del self.loops[-1][name]
            self.held.pop(name)
        self.set(name, value)
        return other

    def leave_loop(self, before: dict[str, Slot | InconsistentName]) -> None:
        """Leave it: what it alone defined is not defined any more."""
        self.loops.pop()
        lost = InconsistentName("is set in a loop only, which may not run")
        self.held = {n: before.get(n, lost) for n in self.held}


def to_tensors(b: Builder, value: Any) -> Any:
    """Numbers as tensors, in tuples too: what an assignment makes of them."""
    if isinstance(value, (bool, int, float)):
        return of(b, value)
    if isinstance(value, tuple):
        items = cast(tuple[Any, ...], value)
        result = [to_tensors(b, item) for item in items]
        return getattr(type(items), "_make", tuple)(result)
    return value
