"""Reading functions: header, body, and phis turned into block parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import attrs

from tileir.errors import MAX_ERRORS, Diagnostic, Location, ParseError
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
from tileir.textual.fast_reader import BRACES, PLACE, SYMBOL, FastReader
from tileir.textual.lexer import GAP, NAME, TYPE, Cursor, ErrorLimitError, Token, suggestion
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


HEADER = re.compile(
    rf"({GAP}*)(define|declare)((?:{GAP}+(?:{'|'.join(_MODIFIERS)}))*){GAP}+({TYPE}){GAP}+({SYMBOL})"
    rf'{GAP}*\(([^()"{{}};\n]*(?:\([^()\n]*\)[^()"{{}};\n]*)*)\)'
    rf"(?:{GAP}*({BRACES}))?(?:{GAP}*{PLACE})?(?:{GAP}*(\{{))?{GAP}*\n",
    re.ASCII,
)
"""The header of a function on one line. Its groups: indentation, word, modifiers, results, name,
parameters, attributes, file, line and column, the brace that opens a body."""
_PARAMETER = re.compile(
    rf"{GAP}*({TYPE})((?:{GAP}+(?:readonly|writeonly|noalias|(?:aligned|multiple_of)\(\d{{1,9}}\)))*)"
    rf"{GAP}+%({NAME})(?:{GAP}*{PLACE})?{GAP}*(?:,|\Z)",
    re.ASCII,
)


def unique_settings(modifiers: dict[str, tuple[str, Any]], words: str) -> dict[str, Any] | None:
    """The settings of `words`, which are keys of `modifiers`; None if two set the same one."""
    pairs = [modifiers[word] for word in words.split()]
    settings = dict(pairs)
    return settings if len(settings) == len(pairs) else None


@lru_cache(maxsize=1024)
def _promises_of(words: str) -> ParameterAttributes | None:
    """The promises that `words` state; None if one is repeated."""
    promises: dict[str, int | bool] = {}
    for word in words.split():
        name, _, number = word.rstrip(")").partition("(")
        if name in promises:
            return None
        promises[name] = int(number) if number else True
    return ParameterAttributes(**promises)  # type: ignore[arg-type] - of bool where no number is


def read_modifiers(cursor: Cursor, allowed: dict[str, tuple[str, Any]]) -> dict[str, Any]:
    """The words before a symbol's type, including `align N`, as fields of its class."""
    modifiers: dict[str, Any] = {}
    while cursor.token.text in allowed or cursor.at("align"):
        token = cursor.next()
        if token.text == "align":
            name, value = "alignment", read_integer(cursor, "an alignment")
        else:
            name, value = allowed[token.text]
        if name in modifiers:
            cursor.fail("TIR0011", f"{name} is repeated", token)
        modifiers[name] = value
    return modifiers


class FunctionReader:
    """Reads one `define` or `declare`."""

    promises: Mapping[str, str] = PROMISES
    """The words for promises about a parameter, and the attribute of each."""

    def __init__(self, cursor: Cursor, layouts: dict[str, object], fast: FastReader,
                 findings: list[Diagnostic], remarks: list[Diagnostic]) -> None:  # fmt: skip
        self.cursor, self.layouts, self.fast = cursor, layouts, fast
        self.findings, self.remarks = findings, remarks

    def _scope(self, start: int) -> ValueScope:
        """The scope of a function whose text starts at `start`."""
        return ValueScope(self.layouts, self.cursor.text, start)

    def read(self) -> Function | None:
        """The function, or None where its body was in error."""
        cursor = self.cursor
        self.scope = self._scope(cursor.token.start)
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

    def usual_header(
        self, match: re.Match[str], line: int, comments: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """The fields, without blocks, of the function whose header `HEADER` matched; None if the
        cursor has to read it."""
        (indent, word, modifiers, type_text, symbol, parameters_text, attribute_text,
         file, row, column, brace) = match.groups()  # fmt: skip
        settings = unique_settings(_MODIFIERS, modifiers)
        results = () if type_text == "void" else self.fast.types(type_text)
        if settings is None or results is None or VOID in results:
            return None
        if (brace is None) != (word == "declare"):
            return None
        self.scope = self._scope(match.start(2))
        parameters = self._usual_parameters(match, line) if parameters_text.strip() else ()
        if parameters is None:
            return None
        if attribute_text is not None:
            try:
                attributes = read_dict(Cursor(attribute_text, ""), None, self.layouts, "")
            except ParseError:
                return None
            settings = {**settings, "attributes": attributes}
        if file is None:
            location = Location(self.cursor.file, line, len(indent) + 1, False)
        else:
            location = Location(file, int(row), int(column))
        return {
            "name": symbol[1:].strip('"'), "parameters": parameters, "results": results,
            "comments": comments, "location": location, **settings,
        }  # fmt: skip

    def _usual_parameters(self, header: re.Match[str], line: int) -> list[Parameter] | None:
        text, (offset, end) = self.cursor.text, header.span(6)
        start, values, parameters = header.start(), self.scope.values, list[Parameter]()
        while offset < end:
            match = _PARAMETER.match(text, offset, end)
            if match is None:
                return None
            type_text, promises, name, file, row, column = match.groups()
            types, attributes = self.fast.types(type_text), _promises_of(promises)
            if types is None or type_text[0] == "(" or attributes is None or name in values:
                return None
            if file is None:
                place = Location(self.cursor.file, line, match.start(3) - start, False)
            else:
                place = Location(file, int(row), int(column))
            value = values[name] = Value(types[0], hint(name))
            parameters.append(Parameter(value, attributes, place))
            offset = match.end()
        return parameters

    def with_body(self, fields: dict[str, Any], start: int, line: int) -> Function | None:
        """The function with the header `fields` and the blocks that start at `start`; None if these
        are in error."""
        blocks = self._blocks(fields["name"], start, line)
        return None if blocks is None else Function(**fields, blocks=blocks)

    def _results(self) -> tuple[Any, ...]:
        if self.cursor.at("void"):
            self.cursor.next()
            return ()
        token = self.cursor.token
        types = read_types(self.cursor, self.layouts)
        if VOID in types:
            self.cursor.fail("TIR0004", "void is not the type of a value", token)
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
                cursor.fail("TIR0011", f"{token.text} is repeated", token)
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
        phis = [label for label in live if raw[label].phis]
        if phis and not self._check_all_phis(raw, live, phis):
            return None
        blocks: dict[str, Block] = {}
        for label in live:
            block = raw[label]
            if phis and block.successors:
                block.ops[-1] = _fill_edges(raw, label, block.ops[-1])
            blocks[label] = Block(
                label, [p.value for p in block.phis] if block.phis else (), block.ops,
                tuple(block.comments), block.location,
            )  # fmt: skip
        return blocks

    def _check_all_phis(self, raw: dict[str, RawBlock], live: list[str], phis: list[str]) -> bool:
        sources = predecessors([raw[label] for label in live])
        before = len(self.findings)
        for label in phis:
            self._check_phis(raw, label, sources.get(label, []))
        return len(self.findings) == before

    def _reachable(self, raw: dict[str, RawBlock]) -> list[str]:
        """Labels that a path from the entry reaches, in the order of the text; a remark names
        the others."""
        seen = {next(iter(raw))}
        for label, block in raw.items():
            if label not in seen:
                break
            seen.update([edge.label for edge in block.successors])
        else:  # the usual order has a predecessor before each block
            return list(raw)
        seen = {next(iter(raw))}
        work = list(seen)
        while work:
            for edge in raw[work.pop()].successors:
                if edge.label in raw and edge.label not in seen:
                    seen.add(edge.label)
                    work.append(edge.label)
        for label, block in raw.items() if len(seen) < len(raw) else ():
            if label not in seen:
                message = f"no path reaches block {label}; it is dropped"
                self.remarks.append(Diagnostic("TIR0024", message, block.location))
        return [label for label in raw if label in seen]

    def _check_phis(self, raw: dict[str, RawBlock], label: str, sources: list[str]) -> None:
        """Check that each phi of block `label` has one value for each of `sources`, its
        predecessors, and no other values except for unreachable blocks."""
        reached, unreached = dict.fromkeys(sources), dict[str, bool]()

        def branches(source: str) -> bool:
            if source not in unreached:
                unreached[source] = label in [e.label for e in raw[source].successors]
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
