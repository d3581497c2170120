"""Instances of the templates of `std.tir`."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

import attrs

from tileir.errors import Diagnostic, LinkError
from tileir.ir import Function

_HEADER = re.compile(r"define linkonce (?P<results>[^@]*?) @(?P<name>\w+)\((?P<parameters>.*)\)")
_VARIABLE = re.compile(r"\$(\w+)")
_SPLIT = re.compile(r",\s*(?![^<(]*[>)])")

PREFIX = "std."
"""The prefix of the library's symbols. A declaration without it is defined, too, if no other symbol
has that name: texts of the first release have such declarations."""


@attrs.frozen
class Template:
    """One function of `std.tir`: its name, the types of its header, its text."""

    name: str
    results: tuple[str, ...]
    parameters: tuple[str, ...]
    text: str

    def bind(
        self, results: Sequence[str] | None, parameters: Sequence[str]
    ) -> dict[str, str] | None:
        """The bindings of the variables for a header with these types, or None if it does not
        match.

        Results that are None follow from the parameters; if they do not, there is no instance.
        """
        required = (*(() if results is None else self.results), *self.parameters)
        types = (*(results or ()), *parameters)
        if len(parameters) != len(self.parameters) or len(required) != len(types):
            return None
        result: dict[str, str] = {}
        for pattern, text in zip(required, types, strict=True):
            match = re.fullmatch(_as_expression(pattern), text)
            if match is None:
                return None
            for variable, value in match.groupdict().items():
                if result.setdefault(variable, value) != value:
                    return None
        return result if set(_VARIABLE.findall(" ".join(self.results))) <= result.keys() else None

    def instance(self, symbol: str, bound: dict[str, str]) -> str:
        """The text of a module that defines this function as `symbol`."""
        own = ".".join(re.findall(r"\w+", " ".join(bound.values()))) or "one"
        text = _VARIABLE.sub(lambda m: bound[m[1]], self.text.replace("$$", own))
        text = re.sub(rf"@(\w+)(?=\.{re.escape(own)}\b)", rf"@{PREFIX}\1", text)
        return text.replace(f"@{self.name}(", f"@{symbol}(", 1)


def names() -> tuple[str, ...]:
    """Return the names of the library's functions."""
    return tuple(dict.fromkeys(t.name for t in _templates()))


def define(declared: Function) -> Function | None:
    """Return the definition of a declaration, or None if the library has no function of that name
    and type."""
    results = tuple(map(str, declared.results))
    parameters = tuple(str(p.type) for p in declared.parameters)
    return _instance(declared.name, results, parameters)


def function(
    name: str,
    results: str | Sequence[str] | None,
    parameters: Sequence[str],
    symbol: str | None = None,
) -> Function:
    """Return the library function `name` for the given types, as the symbol `symbol` (default
    `std.NAME`).

    Results that are None follow from the types of the parameters. Raises LinkError (TIR0338) if
    there is no such function.
    """
    required = (results,) if isinstance(results, str) else results
    required = None if required is None else tuple(required)
    result = _instance(symbol or f"{PREFIX}{name}", required, tuple(parameters), name)
    if result is None:
        types = f"({', '.join(parameters)})"
        types = types if required is None else f"({', '.join(required)}) {types}"
        message = f"the library has no {name} of type {types}; {_alternatives(name)}"
        raise LinkError(Diagnostic("TIR0338", message))
    return result


def _alternatives(name: str) -> str:
    """The types of the function `name`, or the names of all functions if there is no such one."""
    own = [
        f"({', '.join(t.parameters)}) -> ({', '.join(t.results)})"
        for t in _templates()
        if t.name == name
    ]
    if own:
        return f"its {name} is {' or '.join(own)}"
    return f"its functions are: {', '.join(names())}"


def _instance(
    symbol: str,
    results: tuple[str, ...] | None,
    parameters: tuple[str, ...],
    name: str | None = None,
) -> Function | None:
    base = name or symbol.removeprefix(PREFIX).partition(".")[0]
    for template in _templates():
        bound = template.bind(results, parameters) if template.name == base else None
        if bound is not None:
            # The reader is a part of its own that the IR does not depend on.
            textual: Any = importlib.import_module("tileir.textual")
            module = textual.parse(template.instance(symbol, bound))
            return module.functions[symbol]
    return None


@functools.cache
def _templates() -> tuple[Template, ...]:
    text = resources.files("tileir.std").joinpath("std.tir").read_text(encoding="utf-8")
    head, *parts = re.split(r"(?m)^(?=define )", text)
    version = next(line for line in head.splitlines() if line.startswith("tir "))
    return tuple(_template(version, part) for part in parts)


def _template(version: str, part: str) -> Template:
    match = _HEADER.match(part)
    assert match is not None, part
    body = "\n".join(line for line in part.splitlines() if not line.startswith(";")).strip()
    return Template(
        match["name"],
        tuple(_types(match["results"].strip().removeprefix("(").removesuffix(")"))),
        tuple(p.rpartition(" ")[0] for p in _types(match["parameters"])),
        f"{version}\n\n{body}\n",
    )


def _types(text: str) -> Iterator[str]:
    return (part.strip() for part in _SPLIT.split(text) if part.strip())


def _as_expression(pattern: str) -> str:
    """A regular expression of the types that a type with variables stands for."""
    out, end = "", 0
    for variable in _VARIABLE.finditer(pattern):
        out += re.escape(pattern[end : variable.start()])
        what = _ELEMENTS[variable[1][0]]
        is_repeated = f"(?P<{variable[1]}>" in out
        out += f"(?P={variable[1]})" if is_repeated else f"(?P<{variable[1]}>{what})"
        end = variable.end()
    return out + re.escape(pattern[end:])


_INTEGER, _FLOAT, _EXTENTS = r"i(?:8|16|32|64)", r"(?:bf16|f16|f32|f64)", r"(?:<[\d, ]+>)?"
_ELEMENTS = {
    **dict.fromkeys("KMN", r"\d+"), "I": _INTEGER, "F": _FLOAT, "E": f"(?:{_INTEGER}|{_FLOAT})",
    "S": _EXTENTS, "X": _FLOAT + _EXTENTS, "Y": _INTEGER + _EXTENTS,
}  # fmt: skip
"""The types that a variable may stand for, by its first letter."""
