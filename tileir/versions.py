"""Versions of the language: what of a module is newer than one (docs/reference/stability.md)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any

from tileir.errors import Diagnostic, Location, VerifyError
from tileir.field import Field
from tileir.ir import VERSION, Module
from tileir.op import Op
from tileir.types import Type, element_of

Version = tuple[int, int]

FIRST: Version = (1, 0)

TYPES: dict[str, Version] = {}
"""The version that a scalar or opaque type appeared in, by name, where that is not the first."""


def version_text(version: Version) -> str:
    """`1.0`."""
    return ".".join(map(str, version))


def written_for(module: Module, version: Version) -> Module:
    """`module` as one of `version`.

    Raises VerifyError: TIR0402 for a version that this release does not know, TIR0401 for every
    op that `version` does not have, or has without an attribute, value or type used here.
    """
    if not FIRST <= version <= VERSION:
        first, last = version_text(FIRST), version_text(VERSION)
        message = f"version {version_text(version)} is none of {first} to {last}"
        raise VerifyError(Diagnostic("TIR0402", message, _start(module)))
    if module.version <= version:
        return module.evolve(version=version)
    result = tuple(newer(module, version))
    if result:
        raise VerifyError(*(d.at(_start(module)) for d in result))
    return module.evolve(version=version)


def newer(module: Module, version: Version) -> Iterator[Diagnostic]:
    """The parts of `module` that are newer than `version`, each with its location."""
    for symbol in module.globals.values():
        yield from _newer_type(symbol.element, version, f"@{symbol.name}", symbol.location)
    for function in module.functions.values():
        types = [*function.results, *(p.type for p in function.parameters)]
        for block in function.blocks.values():
            types += [v.type for v in block.parameters]
        for type_ in dict.fromkeys(types):
            yield from _newer_type(type_, version, f"@{function.name}", function.location)
        for op in function.ops:
            yield from newer_in(op, version)


def newer_in(op: Op, version: Version) -> Iterator[Diagnostic]:
    """The parts of `op` that are newer than `version`: the op itself, or attributes, their values,
    and types."""
    if op.since > version:
        yield _objection(op.mnemonic, op.since, version, op.location)
        return
    for field in newer_fields(type(op), version):
        needed, value = _required_version(field, getattr(op, field.name))
        if needed > version:
            what = f"{op.mnemonic} with {field.spelling} = {_word(value)}"
            yield _objection(what, needed, version, op.location)
    if TYPES:
        types = dict.fromkeys(v.type for v in (*op.results, *op.operands))
        result = (d for t in types for d in _newer_type(t, version, op.mnemonic, op.location))
        yield from islice(result, 1)


@lru_cache(maxsize=4096)
def newer_fields(cls: type[Op], version: Version) -> tuple[Field, ...]:
    """Attributes of `cls` that are newer than `version`, or have values that are."""
    return tuple(
        f for f in cls.schema
        if f.attribute is not None
        and (f.since > version or any(v > version for v in f.attribute.since.values()))
    )  # fmt: skip


def _required_version(field: Field, value: Any) -> tuple[Version, Any]:
    """The version that has `field` with `value`: any has one that is left out."""
    assert field.attribute is not None
    if type(value) is type(field.default) and value == field.default:
        return FIRST, value
    since = field.attribute.since.get(value, FIRST) if isinstance(value, Enum) else FIRST
    return max(field.since, since), value


def _newer_type(
    type_: Type, version: Version, owner: str, where: Location | None
) -> Iterator[Diagnostic]:
    needed = TYPES.get(str(element_of(type_)).partition(" ")[0].rstrip("*"), FIRST)
    if needed > version:
        yield _objection(f"{owner} with type {type_}", needed, version, where)


def _objection(what: str, needed: Version, version: Version, where: Location | None) -> Diagnostic:
    message = f"{what} needs tir {version_text(needed)}; the module is tir {version_text(version)}"
    return Diagnostic("TIR0401", message, where)


def _word(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _start(module: Module) -> Location:
    return Location(module.source or "<module>", 1, 1, written=False)
