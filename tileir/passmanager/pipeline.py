"""The text of a pipeline.

    pipeline = node {"," node}
    node     = name [ "{" option {("," | " ") option} "}" ] [ "(" pipeline ")" ]
    option   = name "=" word

    cse,licm{max-depth=2},dce
    default
    inline,func{name=softmax}(simplify,cse),repeat{times=4}(simplify,dce)

`func(...)` runs its passes one after the other on each function (on one, given `name`) before it
goes on to the next; `repeat(...)` runs its passes until they change nothing, `times` at most. A
pass of functions outside `func` runs on every function. `default` is `tileir.passes.PIPELINE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import attrs

from tileir.errors import Diagnostic, Location, PassError
from tileir.passes import PIPELINE
from tileir.passmanager.find_passes import Option, Pass, lookup

GROUPS: dict[str, tuple[Option, ...]] = {
    "func": (Option("name", str, ""),),
    "repeat": (Option("times", int, 8),),
}
"""The groups of passes in a pipeline, with their options."""

_TOKEN = re.compile(r"\s*([A-Za-z_][\w.-]*|[{}(),=]|[^\s{}(),=]+)")
_MAX_DEPTH = 64


@attrs.frozen
class PipelineNode:
    """A pass with its options, or a group of nodes with its options (`passed` is None)."""

    name: str
    options: dict[str, Any] = attrs.field(factory=dict)
    passed: Pass | None = None
    children: tuple[PipelineNode, ...] = ()

    def __str__(self) -> str:
        options = ",".join(f"{_with_dashes(k)}={_word(v)}" for k, v in self.options.items())
        inner = f"({format_pipeline(self.children)})" if self.passed is None else ""
        return self.name + (f"{{{options}}}" if options else "") + inner


def parse_pipeline(text: str) -> tuple[PipelineNode, ...]:
    """Parse the text of a pipeline and return its nodes.

    Raises PassError: TIR0601 for an unknown pass, TIR0602 for an option, TIR0603 for the syntax.
    """
    reader = _PipelineReader(text)
    nodes = reader.nodes(0) if reader.peek() else ()
    if reader.peek():
        raise reader.error("the end or a comma")
    return nodes


def format_pipeline(nodes: Iterable[PipelineNode]) -> str:
    """Return the text of `nodes`, which `parse_pipeline` reads back."""
    return ",".join(map(str, nodes))


class _PipelineReader:
    """A cursor over the tokens of a pipeline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise self.error(repr(expected))
        self.at += 1

    def word(self, expected: str) -> str:
        result = self.peek()
        if not result or result in "{}(),=":
            raise self.error(expected)
        self.at += 1
        return result

    def error(self, expected: str) -> PassError:
        column = self.tokens[self.at][1] + 1 if self.at < len(self.tokens) else len(self.text) + 1
        result = repr(self.peek()) if self.peek() else "the end"
        message = f"expected {expected}, not {result}, at column {column} of {self.text!r}"
        return PassError(Diagnostic("TIR0603", message, Location("<pipeline>", 1, column)))

    def nodes(self, depth: int) -> tuple[PipelineNode, ...]:
        if depth > _MAX_DEPTH:
            raise self.error(f"at most {_MAX_DEPTH} levels of nesting")
        nodes = [*self.alias(depth)]
        while self.peek() == ",":
            self.at += 1
            nodes.extend(self.alias(depth))
        return tuple(nodes)

    def alias(self, depth: int) -> tuple[PipelineNode, ...]:
        """The node here, or those that the word `default` stands for."""
        if self.peek() != "default":
            return (self.node(depth),)
        self.at += 1
        return tuple(PipelineNode(name, {}, lookup(name)) for name in PIPELINE)

    def node(self, depth: int) -> PipelineNode:
        name = self.word("a pass")
        passed = None if name in GROUPS else lookup(name)
        declared = GROUPS[name] if passed is None else passed.options
        options = self.options(name, declared) if self.peek() == "{" else {}
        children: tuple[PipelineNode, ...] = ()
        if passed is None:
            self.take("(")
            children = self.nodes(depth + 1)
            self.take(")")
            if name == "func":
                _require_functions(children)
        return PipelineNode(name, options, passed, children)

    def options(self, owner: str, declared: tuple[Option, ...]) -> dict[str, Any]:
        self.take("{")
        by_name = {option.name: option for option in declared}
        options: dict[str, Any] = {}
        while self.peek() != "}":
            name = self.word("an option")
            self.take("=")
            option = by_name.get(name)
            if option is None:
                names = ", ".join(by_name) or "none"
                raise _bad_option(f"{owner} has no option {name!r}; it has: {names}")
            if option.keyword in options:
                raise _bad_option(f"{owner}: {name} is given twice")
            options[option.keyword] = _read(owner, option, self.word(f"a value of {name}"))
            if self.peek() == ",":
                self.at += 1
        self.take("}")
        return options


def _require_functions(nodes: Iterable[PipelineNode]) -> None:
    for node in nodes:
        _require_functions(node.children)
        if node.passed is not None and node.passed.level != "function":
            message = f"{node.name} is a pass of modules and cannot run inside func(...)"
            raise PassError(Diagnostic("TIR0604", message))


def _read(owner: str, option: Option, text: str) -> Any:
    try:
        return option.read(text)
    except ValueError:
        kind = option.type.__name__
        message = f"{owner}: {option.name} takes a value of type {kind}, not {text!r}"
        raise _bad_option(message) from None


def _bad_option(message: str) -> PassError:
    return PassError(Diagnostic("TIR0602", message))


def _with_dashes(keyword: str) -> str:
    return keyword.replace("_", "-")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
