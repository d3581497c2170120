"""Records: classes made of annotated fields, with slots.

    @records.frozen
    class Edge:
        label: str
        arguments: tuple[Value, ...] = records.field(default=(), converter=tuple)

    edge = Edge("done")
    records.evolve(edge, label="exit")

`frozen` and `define` give what attrs gives: a constructor that takes the fields in order and calls
`__post_init__` last, `==` and `hash` by fields unless `eq=False`, a repr, copies and pickles. What
a class defines itself stays as it is. A subclass has its bases' fields first.

Making such a class costs a tenth of what attrs takes, which is most of what loading the library
would: a constructor is written out and compiled once its class has been constructed a few times,
and all else reads the list of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, cast, dataclass_transform, overload

NOTHING: Any = type("Nothing", (), {"__repr__": lambda self: "NOTHING"})()
"""The default of a field that has none."""

_T = TypeVar("_T")
_Class = TypeVar("_Class", bound=type)
_setattr = object.__setattr__


class FrozenError(AttributeError):
    """A field of a frozen record was assigned or deleted."""


class Field:
    """One field of a record class, as `field` declares it."""

    __slots__ = (
        "converter", "default", "eq", "factory", "hash", "init", "kw_only", "metadata", "name",
        "repr",
    )  # fmt: skip

    def __init__(self, default: Any = NOTHING, **more: Any) -> None:
        self.name = ""
        self.default = default
        self.factory: Callable[[], Any] | None = more.get("factory")
        self.converter: Callable[[Any], Any] | None = more.get("converter")
        self.init: bool = more.get("init", True)
        self.kw_only: bool = more.get("kw_only", False)
        self.repr: bool = more.get("repr", True)
        self.eq: bool = more.get("eq", True)
        self.hash: bool = more.get("hash", self.eq)
        self.metadata: Mapping[str, Any] = more.get("metadata", {})

    @property
    def required(self) -> bool:
        return self.default is NOTHING and self.factory is None


@overload
def field(
    *, default: _T, init: bool = True, kw_only: bool = False, repr: bool = True, eq: bool = True,
    hash: bool = True, converter: Callable[[Any], Any] = ..., metadata: Mapping[str, Any] = ...,
) -> _T: ...  # fmt: skip
@overload
def field(
    *, factory: Callable[[], _T], init: bool = True, kw_only: bool = False, repr: bool = True,
    eq: bool = True, hash: bool = True, converter: Callable[[Any], Any] = ...,
    metadata: Mapping[str, Any] = ...,
) -> _T: ...  # fmt: skip
@overload
def field(
    *, init: bool = True, kw_only: bool = False, repr: bool = True, eq: bool = True,
    hash: bool = True, converter: Callable[[Any], Any] = ..., metadata: Mapping[str, Any] = ...,
) -> Any: ...  # fmt: skip
def field(**stated: Any) -> Any:
    """A field that needs more than an annotation.

    `default`, or `factory`, which makes one for each record. `init=False`: not taken by the
    constructor. `kw_only`: taken by name. `converter` is applied to what the constructor takes.
    `repr`, `eq`, `hash`: whether these look at it. `metadata` is for whoever reads `fields`.
    """
    return Field(**stated)


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: _Class) -> _Class: ...
@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    *, eq: bool = True, repr: bool = True, slots: bool = True, weakref_slot: bool = True,
    cache_hash: bool = False,
) -> Callable[[_Class], _Class]: ...  # fmt: skip
def frozen(cls: type | None = None, **stated: Any) -> Any:
    """Make `cls` a record whose fields cannot be assigned (FrozenError).

    `slots=False` gives instances a dictionary, which `functools.cached_property` needs;
    `weakref_slot=False` saves a word where nobody refers weakly. `cache_hash`: computed once.
    """
    return _decorated(cls, frozen=True, **stated)


@overload
@dataclass_transform(field_specifiers=(field,))
def define(cls: _Class) -> _Class: ...
@overload
@dataclass_transform(field_specifiers=(field,))
def define(
    *, eq: bool = True, repr: bool = True, slots: bool = True, weakref_slot: bool = True
) -> Callable[[_Class], _Class]: ...
def define(cls: type | None = None, **stated: Any) -> Any:
    """Make `cls` a record whose fields can be assigned; unless `eq=False`, it cannot be hashed."""
    return _decorated(cls, frozen=False, **stated)


def fields(cls: type) -> tuple[Field, ...]:
    """The fields of a record class, its bases' first. Raises TypeError for any other class."""
    try:
        return cast(Any, cls).__record_fields__
    except AttributeError:
        raise TypeError(f"{cls.__name__} is no record") from None


def is_record(cls: type) -> bool:
    """Whether `frozen` or `define` made `cls`, or a base of it."""
    return hasattr(cls, "__record_fields__")


def evolve(record: _T, /, **changes: Any) -> _T:
    """A record like `record` but for `changes`, made by its constructor."""
    cls = type(record)
    for name in cast(Any, cls).__record_given__:
        if name not in changes:
            changes[name] = getattr(record, name)
    return cls(**changes)


def asdict(record: Any) -> dict[str, Any]:
    """The fields by name; records within are dictionaries too, and tuples and lists lists."""
    return {f.name: _plain(getattr(record, f.name)) for f in fields(type(record))}


def _plain(value: Any) -> Any:
    if is_record(type(value)):
        return asdict(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in cast(tuple[Any, ...], value)]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in cast(dict[Any, Any], value).items()}
    return value


# Making classes ----------------------------------------------------------------------------


def _decorated(cls: Any, **stated: Any) -> Any:
    return _made(cls, **stated) if cls is not None else lambda cls: _made(cls, **stated)


def _made(
    cls: Any, frozen: bool, eq: bool = True, repr: bool = True, slots: bool = True,
    weakref_slot: bool = True, cache_hash: bool = False,
) -> Any:  # fmt: skip
    own = [_declared(cls, name) for name, kind in cls.__annotations__.items() if _of_record(kind)]
    found = _with_inherited(cls, own)
    frozen = frozen or cls.__setattr__ is _refuse_setattr
    space: dict[str, Any] = {
        "__qualname__": cls.__qualname__,
        "__record_fields__": found,
        "__record_given__": tuple([f.name for f in found if f.init]),
        "__match_args__": tuple([f.name for f in found if f.init and not f.kw_only]),
    }
    if frozen:
        space |= {"__setattr__": _refuse_setattr, "__delattr__": _refuse_delattr}
    if repr:
        space["__repr__"] = _repr
    if eq and "__eq__" not in cls.__dict__:
        hashing = _hashing(cls, found, cache_hash) if frozen else None
        space |= {"__eq__": _equality(found), "__hash__": hashing}
    if slots:
        space["__slots__"] = _slots(cls, own, weakref_slot, cache_hash)
    if slots or cache_hash:
        space |= {"__getstate__": _getstate, "__setstate__": _setstate}
    left_out = {"__dict__", "__weakref__", *(f.name for f in own)}
    space |= {name: item for name, item in cls.__dict__.items() if name not in left_out}
    made = type(cls)(cls.__name__, cls.__bases__, space)
    _rebind(cls, made)
    if "__init__" not in space and not _constructed_by_base(cls, found, frozen):
        made.__init__ = _first_constructor(made, frozen)
    return made


def _of_record(kind: Any) -> bool:
    """Whether the annotation `kind` makes a field."""
    return not str(kind).startswith(("ClassVar", "typing.ClassVar"))


def _declared(cls: Any, name: str) -> Field:
    stated = cls.__dict__.get(name, NOTHING)
    found = stated if isinstance(stated, Field) else Field(stated)
    found.name = name
    return found


def _with_inherited(cls: Any, own: list[Field]) -> tuple[Field, ...]:
    """The fields of all bases that `own` does not state anew, then `own`."""
    found: dict[str, Field] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= {f.name: f for f in base.__dict__.get("__record_fields__", ())}
    for f in own:
        found.pop(f.name, None)
    whole = (*found.values(), *own)
    positional = [f.required for f in whole if f.init and not f.kw_only]
    if sorted(positional, reverse=True) != positional:
        raise TypeError(f"{cls.__name__}: a field without default follows one that has one")
    return whole


def _slots(cls: Any, own: list[Field], weakref_slot: bool, cache_hash: bool) -> tuple[str, ...]:
    """Names of slots that no base has."""
    names = [f.name for f in own] + ["__record_hash__"] * cache_hash
    if weakref_slot and not any(base.__weakrefoffset__ for base in cls.__bases__):
        names.append("__weakref__")
    return tuple([name for name in names if name == "__weakref__" or not _is_slot(cls, name)])


def _is_slot(cls: Any, name: str) -> bool:
    return any(name in base.__dict__.get("__slots__", ()) for base in cls.__mro__[1:])


def _rebind(old: Any, new: Any) -> None:
    """Let `super()` in the methods of `old` mean `new`, which takes its place."""
    for item in new.__dict__.values():
        for cell in getattr(getattr(item, "__func__", item), "__closure__", None) or ():
            if cell.cell_contents is old:
                cell.cell_contents = new


def _constructed_by_base(cls: Any, found: tuple[Field, ...], frozen: bool) -> bool:
    """Whether the constructor of its base does all that that of `cls` would."""
    base = cls.__mro__[1]
    return (
        getattr(base, "__record_fields__", None) == found
        and (base.__setattr__ is _refuse_setattr) == frozen
        and getattr(base, "__post_init__", None) is getattr(cls, "__post_init__", None)
    )


def _first_constructor(owner: Any, frozen: bool) -> Callable[..., None]:
    """A constructor that does the first few calls itself, and then makes one that is compiled
    `owner`'s. What is wrong with a call, the compiled one says."""
    left, assign = _INTERPRETED, _setattr if frozen else setattr

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807
        nonlocal left
        left -= 1
        if left < 0 or not _fits(owner, given, named):
            owner.__init__ = _constructor(owner, frozen)
            owner.__init__(self, *given, **named)
            return
        named.update(zip(owner.__match_args__, given, strict=False))
        for f in owner.__record_fields__:
            if f.name in named:
                value = named[f.name]
            elif f.required:
                continue
            else:
                value = f.factory() if f.factory else f.default
            assign(self, f.name, f.converter(value) if f.converter else value)
        if hasattr(owner, "__post_init__"):
            self.__post_init__()

    return __init__


_INTERPRETED = 8
"""How often a class is constructed before its constructor is compiled, which takes as long as
twenty calls that are interpreted."""


def _fits(owner: Any, given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a constructor of `owner` can be called with these arguments."""
    first, rest = owner.__match_args__[: len(given)], owner.__record_given__
    return (
        len(first) == len(given)
        and not any(name in first or name not in rest for name in named)
        and all(
            f.name in named or f.name in first
            for f in owner.__record_fields__
            if f.init and f.required
        )
    )


def _constructor(owner: Any, frozen: bool) -> Callable[..., None]:
    space: dict[str, Any] = {"_NOTHING": NOTHING, "_bound": _setattr.__get__}
    head, named, body = ["self"], ["*"], ["_set = _bound(self)"] * frozen
    for i, f in enumerate(owner.__record_fields__):
        space |= {f"_default{i}": f.default, f"_make{i}": f.factory, f"_convert{i}": f.converter}
        value = f.name
        if f.init:
            default = "" if f.required else "=_NOTHING" if f.factory else f"=_default{i}"
            (named if f.kw_only else head).append(f"{f.name}{default}")
            if f.factory:
                body.append(f"if {f.name} is _NOTHING: {f.name} = _make{i}()")
        elif f.required:
            continue
        else:
            value = f"_make{i}()" if f.factory else f"_default{i}"
        if f.converter:
            value = f"_convert{i}({value})"
        body.append(f"_set({f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(owner, "__post_init__"):
        body.append("self.__post_init__()")
    head += named if len(named) > 1 else []
    exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(body or ["pass"]), space)
    made = space["__init__"]
    made.__qualname__, made.__module__ = f"{owner.__qualname__}.__init__", owner.__module__
    return made


# What all records do -------------------------------------------------------------------------


def _refuse_setattr(self: Any, name: str, value: Any) -> None:
    raise FrozenError(f"{type(self).__name__} is frozen: {name} cannot be assigned")


def _refuse_delattr(self: Any, name: str) -> None:
    raise FrozenError(f"{type(self).__name__} is frozen: {name} cannot be deleted")


def _getstate(self: Any) -> dict[str, Any]:
    names = (f.name for f in self.__record_fields__)
    return {name: getattr(self, name) for name in names if hasattr(self, name)}


def _setstate(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        _setattr(self, name, value)


@recursive_repr()
def _repr(self: Any) -> str:
    name = type(self).__qualname__.rsplit(">.", 1)[-1]
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in self.__record_fields__ if f.repr)
    return f"{name}({', '.join(shown)})"


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda record: ()


def _equality(found: tuple[Field, ...]) -> Callable[[Any, Any], Any]:
    values = _values_of([f.name for f in found if f.eq])

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hashing(cls: Any, found: tuple[Field, ...], cached: bool) -> Callable[[Any], int]:
    values, salt = _values_of([f.name for f in found if f.hash]), hash(cls.__qualname__)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash((salt, values(self)))

    def remembered(self: Any) -> int:
        try:
            return self.__record_hash__
        except AttributeError:
            _setattr(self, "__record_hash__", __hash__(self))
            return self.__record_hash__

    return remembered if cached else __hash__
