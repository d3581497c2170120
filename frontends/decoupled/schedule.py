"""Schedules: the scheduling primitives (Table 3.4) of a Func, each with its location."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from tileir import Location
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.nodes import Argument, Directive

_MOST_WARPS = 32
_PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


@attrs.frozen
class MapLevel:
    """A level of `map`: the loop over `label`; with `inner` split by `factor`, where the loop
    over the `factor` is called `inner`."""

    label: str
    inner: str | None = None
    factor: int = 1


@attrs.frozen
class Fusion:
    """`f.fuse_at(into, label)`."""

    into: str
    label: str


@attrs.frozen
class Schedule:
    """The schedule of a Func. Dimensions without a block size are not cut into blocks, those
    without a tensor size (0: all of the block) are worked through one by one."""

    blocks: Mapping[str, int] = attrs.field(factory=dict)
    tensors: Mapping[str, int] = attrs.field(factory=dict)
    order: tuple[MapLevel, ...] = ()
    fusion: Fusion | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    compiled: str | None = None
    atomic: frozenset[str] = frozenset()
    online: frozenset[str] = frozenset()
    reverse: frozenset[str] = frozenset()
    evict_first: frozenset[str] = frozenset()
    evict_last: frozenset[str] = frozenset()
    precision: str = "ieee"
    math: str = "exact"
    roles: str = "on"
    persistent: str = "on"
    places: Mapping[str, Location] = attrs.field(factory=dict, eq=False)
    """The location of each primitive; `block x` for an argument of one."""

    def place(self, primitive: str) -> Location | None:
        """The location of a primitive."""
        return self.places.get(primitive)

    def tensor(self, label: str) -> int:
        """The tensor size of a dimension, 0 for all of it."""
        return self.tensors.get(label, 1)


def apply(schedule: Schedule, directive: Directive) -> Schedule:
    """`schedule` with one more primitive. Raises CompilationError."""
    rule = _PRIMITIVES.get(directive.primitive)
    if rule is None:
        primitives = ", ".join(sorted(_PRIMITIVES))
        message = f"there is no scheduling primitive {directive.primitive}; there are: {primitives}"
        raise error_at(message, directive.place, "TIR1204")
    changed = rule(schedule, directive)
    places = {**schedule.places, **changed.places, directive.primitive: directive.place}
    return attrs.evolve(changed, places=places)


def _illegal(directive: Directive, message: str, argument: Argument | None = None) -> Exception:
    place = argument.place if argument else directive.place
    return error_at(f"{directive.primitive} {message}", place, "TIR1204")


def _pairs(directive: Directive, least: int) -> dict[str, tuple[int, Location]]:
    """The arguments `x:16` of a primitive that takes nothing else."""
    if not directive.arguments:
        raise _illegal(directive, "takes dimensions and sizes: `x:16`")
    pairs: dict[str, tuple[int, Location]] = {}
    for a in directive.arguments:
        if a.name is None or a.number is None or a.inner is not None:
            raise _illegal(directive, "takes dimensions and sizes: `x:16`", a)
        if a.number < least:
            raise _illegal(directive, f"takes sizes of at least {least}, not {a.number}", a)
        if a.number >= 1 << 31:
            raise _illegal(directive, f"takes no size as large as {a.number}", a)
        if a.name in pairs:
            raise _illegal(directive, f"names {a.name} twice", a)
        pairs[a.name] = a.number, a.place
    return pairs


def _sizes(field: str, least: int) -> Callable[[Schedule, Directive], Schedule]:
    def rule(schedule: Schedule, directive: Directive) -> Schedule:
        before: Mapping[str, int] = getattr(schedule, field)
        pairs = _pairs(directive, least)
        for argument in directive.arguments:
            name = str(argument.name)
            if name in before:
                message = f"already sets {name}:{before[name]}"
                raise _illegal(directive, message, argument)
        places = {f"{directive.primitive} {n}": place for n, (_, place) in pairs.items()}
        sizes = {**before, **{n: size for n, (size, _) in pairs.items()}}
        return attrs.evolve(schedule, places={**schedule.places, **places}, **{field: sizes})

    return rule


def _map(schedule: Schedule, directive: Directive) -> Schedule:
    if schedule.order:
        raise _illegal(directive, "has been said before")
    if not directive.arguments:
        raise _illegal(directive, "takes dimensions, the outermost first")
    return attrs.evolve(schedule, order=tuple(_level(directive, a) for a in directive.arguments))


def _level(directive: Directive, argument: Argument) -> MapLevel:
    if argument.name is None or (argument.number is not None and argument.inner is None):
        raise _illegal(directive, "takes dimensions: `x` or `x:xi/8`", argument)
    if argument.inner is None:
        return MapLevel(argument.name)
    if not argument.number:
        raise _illegal(directive, "splits a dimension by a factor of at least 1", argument)
    return MapLevel(argument.name, argument.inner, argument.number)


def _fuse_at(schedule: Schedule, directive: Directive) -> Schedule:
    if schedule.fusion:
        message = f"has fused {directive.name} into {schedule.fusion.into} before"
        raise _illegal(directive, message)
    arguments = directive.arguments
    names = [a.name for a in arguments if a.name and a.number is None]
    if len(arguments) != 2 or len(names) != 2:
        raise _illegal(directive, "takes a Func and one of its dimensions: `(g, x)`")
    return attrs.evolve(schedule, fusion=Fusion(names[0], names[1]))


def _number(field: str, most: int) -> Callable[[Schedule, Directive], Schedule]:
    def rule(schedule: Schedule, directive: Directive) -> Schedule:
        arguments = directive.arguments
        if len(arguments) != 1 or arguments[0].name is not None or arguments[0].number is None:
            raise _illegal(directive, "takes one whole number")
        if not 1 <= arguments[0].number <= most:
            raise _illegal(directive, f"takes 1 to {most}, not {arguments[0].number}", arguments[0])
        if getattr(schedule, field) is not None:
            raise _illegal(directive, "has been said before")
        return attrs.evolve(schedule, **{field: arguments[0].number})

    return rule


def _compile(schedule: Schedule, directive: Directive) -> Schedule:
    if directive.arguments:
        raise _illegal(directive, "takes no arguments")
    if schedule.compiled:
        raise _illegal(directive, f"follows {schedule.compiled}, which compiles {directive.name}")
    return attrs.evolve(schedule, compiled=directive.primitive)


def _labels(
    field: str, what: str = "reduction dimensions"
) -> Callable[[Schedule, Directive], Schedule]:
    def rule(schedule: Schedule, directive: Directive) -> Schedule:
        names = [a.name for a in directive.arguments if a.number is None and a.name]
        if not names or len(names) != len(directive.arguments):
            raise _illegal(directive, f"takes {what}")
        return attrs.evolve(schedule, **{field: getattr(schedule, field) | set(names)})

    return rule


def _word(field: str, words: tuple[str, ...]) -> Callable[[Schedule, Directive], Schedule]:
    def rule(schedule: Schedule, directive: Directive) -> Schedule:
        names = [a.name for a in directive.arguments if a.number is None]
        if len(names) != 1 or names[0] not in words:
            raise _illegal(directive, f"takes one of {', '.join(words)}")
        return attrs.evolve(schedule, **{field: names[0]})

    return rule


_PRIMITIVES: dict[str, Callable[[Schedule, Directive], Schedule]] = {
    "block": _sizes("blocks", 1), "tensorize": _sizes("tensors", 0), "map": _map,
    "fuse_at": _fuse_at, "num_warps": _number("num_warps", _MOST_WARPS),
    "num_stages": _number("num_stages", 64), "compile": _compile, "compile_to_kernel": _compile,
    "atomic": _labels("atomic"), "online": _labels("online"),
    "reverse": _labels("reverse", "dimensions"),
    "evict_first": _labels("evict_first", "tensors"),
    "evict_last": _labels("evict_last", "tensors"),
    "precision": _word("precision", _PRECISIONS), "math": _word("math", ("exact", "approx")),
    "roles": _word("roles", ("on", "off")),
    "persistent": _word("persistent", ("on", "off", "pingpong")),
}  # fmt: skip
