"""One method per op, derived from its schema on first use: `b.add(x, y)`, `b.load(p, mask)`.

The arguments are the op's fields in their order; attributes by keyword, enums by their words.
Python numbers become literals of the type the signature gives them. Besides its fields every
method takes `result` (a name, or a tuple of names, for what it computes), `when` (the predicate
`@%p`) and `location`. The method returns an Expr, a tuple where there are several results, None
where there is none. Names that Python reserves end in `_`: `b.and_`.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import attrs

from tileir.builder.arguments import MethodSignature, plan_of
from tileir.builder.builder_value import Wrapped
from tileir.builder.errors import at_caller, known_place, mistake
from tileir.builder.expr import Expr
from tileir.effects import Effects
from tileir.errors import TileirError
from tileir.field import FieldKind
from tileir.op import Op, all_ops, lookup
from tileir.types import I1
from tileir.values import Constant, Operand, Undef, Value, constant

if TYPE_CHECKING:
    from inspect import Signature

    from tileir.builder.builder import Builder


_INTERNALS = frozenset({
    "abandon", "building", "caller", "combiner", "current", "end_block", "enter_block", "fixed",
    "fork", "here", "insert", "insert_all", "insertion", "jump", "places", "refuse_duplicate",
    "tracking",
})  # fmt: skip
"""Methods of a builder for internal use, which `dir` does not show."""


def _names_for_users(names: Iterable[str]) -> list[str]:
    """The names for `dir`: public names, and a method for every op except those that only the
    backend creates."""
    ops = {method_name(k.mnemonic) for k in all_ops() if Effects.CONTROL not in k.effects_}
    shown = (n for n in names if n not in _INTERNALS and (n[:1] != "_" or n[:2] == "__"))
    return sorted(name for name in {*shown, *ops} if not name.startswith("gpu_"))


def _suggestion(name: str, names: list[str]) -> str:
    from difflib import get_close_matches  # for errors

    near = get_close_matches(name[:60], names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


class _Listing(type):
    """A class whose `dir` shows the methods for ops, which are made when they are first used."""

    def __dir__(cls) -> list[str]:
        return _names_for_users(super().__dir__())


class DerivedOps(metaclass=_Listing):
    """Base that gives a builder a method for every op."""

    def __dir__(self) -> list[str]:
        return _names_for_users(super().__dir__())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The method of the op called `name`; made once, then found as any method is."""
            kind = None if name.startswith("_") else _op_of(name)
            if kind is None or Effects.CONTROL in kind.effects_:
                near = "" if name.startswith("_") else _suggestion(name, dir(self))
                raise AttributeError(f"a builder has no op or method {name!r}{near}")
            setattr(DerivedOps, method_name(kind.mnemonic), _method(kind))
            return getattr(self, name)


_getframe = sys._getframe  # pyright: ignore[reportPrivateUsage]


def method_name(mnemonic: str) -> str:
    """The Python name of an op's method."""
    name = mnemonic.replace(".", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def _op_of(name: str) -> type[Op] | None:
    """The op whose method is called `name`."""
    result = lookup(name)
    return result or next((k for k in all_ops() if method_name(k.mnemonic) == name), None)


def _method(kind: type[Op]) -> Callable[..., Any]:
    """The builder method for `kind`: the straight way for values alone, the long one for
    numbers, keywords and whatever else must be looked at."""
    plan = plan_of(kind)
    method = _of_two(kind, plan) if plan.simple == 2 else _of_any(kind, plan)
    method.__name__ = method.__qualname__ = method_name(kind.mnemonic)
    method.__doc__ = kind.__doc__
    method.__wrapped__ = _Signed(plan)  # type: ignore[attr-defined]
    return method


@attrs.frozen
class _Signed:
    """The attribute that `inspect.signature` reads from a derived method, whose signature it asks
    for: none is made before."""

    plan: MethodSignature

    @property
    def __signature__(self) -> Signature:
        return signature(self.plan)


def _of_any(kind: type[Op], plan: MethodSignature) -> Callable[..., Any]:
    simple, make = plan.simple, cast(Callable[..., Op], kind)

    def method(self: Builder, *arguments: Any, **keywords: Any) -> Any:
        ops = self.insertion
        if keywords or ops is None or len(arguments) != simple:
            return insert(self, plan, arguments, keywords)
        for argument in arguments:
            if type(argument) is not Expr:
                return insert(self, plan, arguments, keywords)
        location = self.places.at(_getframe().f_back) if self.tracking else self.fixed
        try:
            result = make(*[a.value for a in arguments], location=location)
        except TileirError as error:
            raise at_caller(error, location or self.caller()) from None
        ops.append(result)
        results = result.results
        return Expr(self, results[0]) if len(results) == 1 else wrap_results(self, results)

    return method


def _of_two(kind: type[Op], plan: MethodSignature) -> Callable[..., Any]:
    """The same for two operands, as most ops have, without a loop over them."""
    make = cast(Callable[..., Op], kind)

    def method(self: Builder, *arguments: Any, **keywords: Any) -> Any:
        ops = self.insertion
        if keywords or ops is None or len(arguments) != 2:
            return insert(self, plan, arguments, keywords)
        lhs, rhs = arguments
        if type(lhs) is not Expr or type(rhs) is not Expr:
            return insert(self, plan, arguments, keywords)
        location = self.places.at(_getframe().f_back) if self.tracking else self.fixed
        try:
            result = make(lhs.value, rhs.value, location=location)
        except TileirError as error:
            raise at_caller(error, location or self.caller()) from None
        ops.append(result)
        results = result.results
        return Expr(self, results[0]) if len(results) == 1 else wrap_results(self, results)

    return method


def signature(plan: MethodSignature) -> Signature:
    """The signature of a derived method, for `help` and editors."""
    from inspect import Parameter, Signature  # which programs that make modules do without

    result = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
    ahead = True
    for name, field in plan.by_keyword.items():
        is_attribute = field.kind is FieldKind.ATTRIBUTE
        ahead = ahead and not is_attribute
        form = Parameter.POSITIONAL_OR_KEYWORD if ahead else Parameter.KEYWORD_ONLY
        default = Parameter.empty if field.default is attrs.NOTHING else field.default
        result.append(Parameter(name, form, default=default))
    return Signature(result)


def insert(
    builder: Builder, plan: MethodSignature, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Make the op of a call and append it at the insertion point. Raises BuildError."""
    extras = {name: keywords.pop(name) for name in _EXTRAS if name in keywords}
    fields = plan.fields(builder, arguments, keywords)
    stated = extras.get("location")
    location = builder.here() if stated is None else known_place(stated)
    when = extras.get("when")
    if when is not None:
        fields["predicate"] = _predicate(plan, when)
    return wrap_results(
        builder, insert_fields(builder, plan.kind, fields, location, extras).results
    )


def _predicate(plan: MethodSignature, when: Any) -> Operand:
    value = when.value if isinstance(when, Wrapped) else when
    if isinstance(value, bool):
        return constant(I1, value)
    if not isinstance(value, (Value, Constant, Undef)):
        raise plan.misuse(f"needs a value for when, not {value!r}")
    return value


_EXTRAS = ("result", "when", "location")


def insert_fields(
    builder: Builder, kind: type[Op], fields: dict[str, Any], location: Any, extras: dict[str, Any]
) -> Op:
    """Append the op of `kind` with `fields`; a combiner given as a Python function becomes a
    device function first."""
    combine = fields.get("combiner")
    if combine is not None and isinstance(combine, FunctionType):
        fields["combiner"] = builder.combiner(combine, fields["values"])
    try:
        result = kind(**fields, location=location)
    except TileirError as error:
        raise at_caller(error, location or builder.caller()) from None
    if "result" in extras:
        result = _name_results(result, extras["result"])
    return builder.emit(result)


def wrap_results(builder: Builder, results: tuple[Value, ...]) -> Any:
    """The Python value of a method for the results of its op."""
    if len(results) == 1:
        return Expr(builder, results[0])
    return tuple([Expr(builder, value) for value in results]) if results else None


def _name_results(op: Op, names: Any) -> Op:
    """`op` with its results named."""
    result_names = (names,) if isinstance(names, str) else tuple(names)
    if len(result_names) != len(op.results):
        raise mistake(
            "TIR0803", f"{op.mnemonic} has {len(op.results)} results, not {len(result_names)}"
        )
    results = tuple(Value(v.type, n) for v, n in zip(op.results, result_names, strict=True))
    return op.evolve(results=results)
