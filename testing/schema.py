"""The signatures of all ops as data. A release promises to keep them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

import attrs

from tileir.field import AttributeKind, Field
from tileir.op import Op, all_ops
from tileir.types import Type

FIRST = (1, 0)


def schema(version: tuple[int, int] | None = None) -> dict[str, Any]:
    """For each op of the language in `version` (None: all ops), its fields in order, its results,
    and whether it takes a predicate. Fields and attribute values of later versions are left out."""
    return {
        cls.mnemonic: _op(cls, version) for cls in all_ops()
        if "." not in cls.mnemonic and (version is None or cls.since <= version)
    }  # fmt: skip


def schema_hash(data: dict[str, Any]) -> str:
    """A hash of a schema, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Incompatible changes from the released schema `old` to `new`. Compatible changes are new ops,
    more types for an operand, more values of attributes, and new attributes with defaults."""
    result: list[str] = []
    for name, was in old.items():
        now = new.get(name)
        if now is None:
            result.append(f"{name} is gone")
        else:
            result += [f"{name}: {what}" for what in _changes(was, now)]
    return result


def _changes(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for key in ("since", "predicable"):
        if was[key] != now[key]:
            yield f"{key} was {was[key]} and is {now[key]}"
    if not _covers(now["results"], was["results"]):
        yield "its results have other types"
    ours, theirs = ([f for f in op["fields"] if f["kind"] != "attribute"] for op in (was, now))
    if [(f["name"], f["kind"]) for f in ours] != [(f["name"], f["kind"]) for f in theirs]:
        yield "it has other operands"
    fields = {f["name"]: f for f in now["fields"]}
    for field in was["fields"]:
        if field["name"] in fields and not _keeps(fields[field["name"]], field):
            yield f"{field['name']} is declared otherwise"
        elif field["name"] not in fields:
            yield f"{field['name']} is gone"
    names = {f["name"] for f in was["fields"]}
    for field in now["fields"]:
        if field["name"] not in names and field.get("default") == "required":
            yield f"{field['name']} is new and has no default"


def _keeps(now: dict[str, Any], was: dict[str, Any]) -> bool:
    same = all(now.get(key) == was.get(key) for key in ("kind", "form", "default"))
    words = set(was.get("words", ())) <= set(now.get("words", ()))
    types = all(_covers(now.get(key), was.get(key)) for key in ("type", "second"))
    return same and words and types


def _covers(now: Any, was: Any) -> bool:
    """Whether a pattern accepts everything that another accepts: they are equal, except for sets
    that have grown."""
    if isinstance(was, list) and was[:1] == ["Elements"]:
        bound = isinstance(now, list) and now[:1] == ["Elements"]
        return bound and set(was[2]) <= set(now[2]) and was[3] <= now[3]
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(_covers, now, was))
    return now == was


def _op(cls: type[Op], version: tuple[int, int] | None) -> dict[str, Any]:
    fields = [f for f in cls.schema if version is None or f.since <= version]
    return {
        "since": list(cls.since),
        "fields": [_field(f, version) for f in fields],
        "results": [_pattern(p) for p in cls.results_],
        "predicable": cls.predicable,
    }


def _field(field: Field, version: tuple[int, int] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"name": field.spelling, "kind": field.kind.value}
    if field.pattern is not None:
        result["type"] = _pattern(field.pattern)
    if field.second is not None:
        result["second"] = _pattern(field.second)
    if field.attribute is not None:
        result["form"] = field.attribute.form
        result["words"] = _words(field.attribute, version)
        required = field.default is attrs.NOTHING
        result["default"] = "required" if required else _word(field.default)
    return result


def _pattern(pattern: Any) -> Any:
    """A type pattern as nested lists. Sets of types are ordered by name."""
    if isinstance(pattern, frozenset):
        return sorted(map(str, pattern))
    if isinstance(pattern, Type):
        return str(pattern)
    if isinstance(pattern, type):
        return pattern.__name__
    if isinstance(pattern, tuple):
        return [_pattern(item) for item in pattern]
    if hasattr(pattern, "__dict__"):
        return [type(pattern).__name__, *map(_pattern, vars(pattern).values())]
    return pattern


def _words(kind: AttributeKind, version: tuple[int, int] | None) -> list[str]:
    return [
        _word(m) for m in kind.enum or ()
        if version is None or kind.since.get(m, FIRST) <= version
    ]  # fmt: skip


def _word(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else repr(value)
