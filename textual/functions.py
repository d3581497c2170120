"""Reading functions: header, body, and phis turned into block parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from tileir.errors import MAX_ERRORS, Diagnostic, Location
from tileir.field import FieldKind, Successor
from tileir.ir import (
    Block,
    Function,
    InlineHint,
    Linkage,
    Parameter,
    ParameterAttributes,
    Visibility,
)
from tileir.op import Op
from tileir.textual.attributes import read_dict, read_location, read_symbol
from tileir.textual.body import BodyReader, RawBlock, predecessors
from tileir.textual.fast_reader import FastReader
from tileir.textual.lexer import Cursor, ErrorLimitError, Token, suggestion
from tileir.textual.scope import ValueScope, hint
from tileir.textual.types import read_integer, read_type, read_types
from tileir.types import VOID
from tileir.values import Operand, Value

_ATTRIBUTES_AHEAD = r"\{(?:[ \t]*\}|\s*(?:;[^\n]*\n\s*)*\w[\w.$-]*\s*=)"
PROMISES = {w: w for w in ("aligned", "multiple_of", "readonly", "writeonly", "noalias")}
_MODIFIERS: dict[str, tuple[str, Any]] = {
    "kernel": ("kernel", True),
    **{v.value: ("visibility", v) for v in Visibility},
    **{v.value: ("linkage", v) for v in Linkage},
    **{v.value: ("inline", v) for v in InlineHint},
}


def read_modifiers(cursor: Cursor, allowed: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """Words before a symbol's type, as fields of its class; `align N` among them."""
    modifiers: dict[str, Any] = {}
    while cursor.token.text in allowed or cursor.at("align"):
        token = cursor.next()
        if token.text == "align":
            name, value = "alignment", read_integer(cursor, "an alignment")
        else:
            name, value = allowed[token.text]
        if name in modifiers:
            cursor.fail("TIR0011", f"{name} is given twice", token)
        modifiers[name] = value
    return modifiers


class FunctionReader:
    """Reads one `define` or `declare`."""

    promises: Mapping[str, str] = PROMISES
    """What may be promised of a parameter, and the attribute that it is."""

    def __init__(self, cursor: Cursor, layouts: dict[str, object], fast: FastReader,
                 findings: list[Diagnostic], remarks: list[Diagnostic]) -> None:  # fmt: skip
        self.cursor, self.layouts, self.fast = cursor, layouts, fast
        self.findings, self.remarks = findings, remarks
        self.scope = self._scope()

    def _scope(self) -> ValueScope:
        return ValueScope(self.layouts, self.cursor.text, self.cursor.token.start)

    def read(self) -> Function | None:
        """The function, or None where its body was in error."""
        cursor = self.cursor
        comments, location = cursor.take_comments(), cursor.location()
        declared = cursor.next().text == "declare"
        settings = read_modifiers(cursor, _MODIFIERS)
        results = self._results()
        name = read_symbol(cursor, "the function's name")
        parameters = self._parameters()
        if cursor.at("{") and re.compile(_ATTRIBUTES_AHEAD).match(cursor.text, cursor.token.start):
            settings["attributes"] = read_dict(cursor, None, self.layouts, f"@{name}")
        if cursor.at("loc"):
            location = read_location(cursor)
        blocks: dict[str, Block] | None = {} if declared else self._body(name)
        if blocks is None:
            return None
        return Function(
            name, parameters, results, blocks, **settings, comments=comments, location=location
        )

    def _results(self) -> tuple[Any, ...]:
        if self.cursor.at("void"):
            self.cursor.next()
            return ()
        token = self.cursor.token
        types = read_types(self.cursor, self.layouts)
        if VOID in types:
            self.cursor.fail("TIR0004", "void is no type of a value", token)
        return types

    def _parameters(self) -> list[Parameter]:
        cursor = self.cursor
        cursor.expect("(", "the function's name")
        parameters: list[Parameter] = []
        cursor.skip_newlines()
        while not cursor.at(")"):
            parameters.append(self._parameter())
            cursor.skip_newlines()
            if not cursor.accept(","):
                break
            cursor.skip_newlines()
        cursor.expect(")", "the parameters")
        return parameters

    def _parameter(self) -> Parameter:
        cursor = self.cursor
        type_ = read_type(cursor, self.layouts)
        promises = self._promises()
        token = cursor.take("value", "a parameter's name")
        value = Value(type_, hint(token.text[1:]))
        self.scope.define(cursor, token.text[1:], token, value)
        location = read_location(cursor) if cursor.at("loc") else cursor.location(token)
        return Parameter(value, ParameterAttributes(**promises), location)

    def _promises(self) -> dict[str, Any]:
        cursor, promises = self.cursor, dict[str, Any]()
        while cursor.token.kind == "word":
            token = cursor.next()
            if token.text not in self.promises:
                near = suggestion(token.text, list(self.promises))
                cursor.fail("TIR0023", f"unknown parameter attribute `{token.text}`{near}", token)
            name = self.promises[token.text]
            if name in promises:
                cursor.fail("TIR0011", f"{token.text} is given twice", token)
            promises[name] = self._promise(token)
        return promises

    def _promise(self, token: Token) -> int | bool:
        if token.text not in ("aligned", "multiple_of"):
            return True
        self.cursor.expect("(", f"`{token.text}`")
        number = read_integer(self.cursor, "an integer")
        self.cursor.expect(")", "the number")
        return number

    def _body(self, name: str) -> dict[str, Block] | None:
        cursor = self.cursor
        cursor.expect("{", f"the header of @{name}")
        if cursor.token.kind not in ("newline", "end"):
            cursor.fail_expected("the end of the line")
        start, line = cursor.token.start + 1, cursor.location().line + 1
        return self._blocks(name, min(start, len(cursor.text)), line)

    def _blocks(self, name: str, start: int, line: int) -> dict[str, Block] | None:
        cursor, before = self.cursor, len(self.findings)
        reader = self._body_reader()
        reader.comments.extend(cursor.take_comments())
        raw = reader.read(start, line)
        if reader.broken or len(self.findings) > before:
            return None
        if not raw:
            at = cursor.location()
            self.findings.append(Diagnostic("TIR0020", f"@{name} has no blocks", at))
            return None
        return self._assemble(raw)

    def _body_reader(self) -> BodyReader:
        return BodyReader(self.cursor, self.scope, self.fast, self.findings)

    # Phis to parameters --------------------------------------------------------------------------

    def _assemble(self, raw: dict[str, RawBlock]) -> dict[str, Block] | None:
        live = self._reachable(raw)
        sources = predecessors([raw[label] for label in live])
        before = len(self.findings)
        for label in live:
            if raw[label].phis:
                self._check_phis(raw, label, sources.get(label, []))
        if len(self.findings) > before:
            return None
        return {
            label: Block(
                label, [p.value for p in raw[label].phis], _with_arguments(raw, raw[label]),
                tuple(raw[label].comments), raw[label].location,
            )
            for label in live
        }  # fmt: skip

    def _reachable(self, raw: dict[str, RawBlock]) -> list[str]:
        """Labels that a path from the entry reaches, in the order of the text; a remark names
        the others."""
        if len(raw) == 1:
            return list(raw)
        seen = {next(iter(raw))}
        work = list(seen)
        while work:
            block = raw[work.pop()]
            for edge in [e for op in block.ops for e in op.successors]:
                if edge.label in raw and edge.label not in seen:
                    seen.add(edge.label)
                    work.append(edge.label)
        for label, block in raw.items():
            if label not in seen:
                message = f"no path reaches block {label}; it is dropped"
                self.remarks.append(Diagnostic("TIR0024", message, block.location))
        return [label for label in raw if label in seen]

    def _check_phis(self, raw: dict[str, RawBlock], label: str, sources: list[str]) -> None:
        """Whether each phi of block `label` has one value for each of `sources`, its predecessors,
        and no other but of blocks that no path reaches."""
        reached, unreached = dict.fromkeys(sources), dict[str, bool]()

        def branches(source: str) -> bool:
            if source not in unreached:
                edges = [e.label for op in raw[source].ops for e in op.successors]
                unreached[source] = label in edges
            return unreached[source]

        for phi in raw[label].phis:
            for source in reached:
                if source not in phi.incoming:
                    self._wrong(phi.location, f"phi has no value for predecessor {source}")
            for source in phi.incoming:
                if source not in raw:
                    self._wrong(phi.location, f"phi names block {source}, which does not exist")
                elif source not in reached and not branches(source):
                    self._wrong(phi.location, f"block {source} does not branch to {label}")

    def _wrong(self, location: Location, message: str) -> None:
        self.findings.append(Diagnostic("TIR0015", message, location))
        if len(self.findings) >= MAX_ERRORS:
            raise ErrorLimitError(*self.findings[:MAX_ERRORS])


def _with_arguments(raw: dict[str, RawBlock], block: RawBlock) -> list[Op]:
    """The ops of `block`, its terminator's edges carrying what the targets' phis say."""
    return [op if not op.successors else _fill_edges(raw, block.label, op) for op in block.ops]


def _fill_edges(raw: dict[str, RawBlock], label: str, op: Op) -> Op:
    changes: dict[str, Any] = {}
    for field in op.fields(FieldKind.SUCCESSOR):
        edge: Successor = getattr(op, field.name)
        target = raw.get(edge.label)
        if target is not None and target.phis:
            operands: list[Operand] = [
                p.incoming[label] for p in target.phis if label in p.incoming
            ]
            changes[field.name] = Successor(edge.label, operands)
    return attrs.evolve(op, **changes) if changes else op
