"""Reading modules: version, metadata, layouts, globals, functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

import attrs

from tileir.errors import MAX_ERRORS, Diagnostic, Location, ParseError, TileirError
from tileir.ir import VERSION, Function, Global, Linkage, Module, Visibility
from tileir.textual.attributes import read_dict, read_string, read_symbol
from tileir.textual.lexer import (
    GAP,
    TYPE,
    Cursor,
    ErrorLimitError,
    Token,
    comment_text,
    describe,
)
from tileir.textual.types import read_layout, read_space, read_type
from tileir.types import Tile, Type
from tileir.verify.declarations import RESERVED

if TYPE_CHECKING:
    from tileir.textual.fast_reader import FastReader
    from tileir.textual.functions import FunctionReader
    from tileir.values import Constant

_NO_TEXT = "[\0\ud800-\udfff]"
_GLOBAL_WORDS: dict[str, tuple[str, Any]] = {
    **{v.value: ("visibility", v) for v in Visibility},
    **{v.value: ("linkage", v) for v in Linkage},
    "declare": ("external", True),
}
_GLOBAL_WORDS["external"] = ("linkage", Linkage.EXTERNAL)
_UNKNOWN = ("TIR0003", "TIR0004", "TIR0009", "TIR0023")
"""Codes of errors that what a later version adds can cause."""

_MOST_NOTES = 8
_SPACE = " \t\r\n"
_SETTING = rf"[ \t]+(?:{'|'.join(_GLOBAL_WORDS)}|align[ \t]+\w+)"
_DATA = rf"declare(?:{_SETTING})*[ \t]+(?:global|constant)\b"
"""The beginning of a global that another module defines: any settings, then its kind."""
_GLOBAL = (
    rf"({GAP}*)((?:(?:{'|'.join(_GLOBAL_WORDS)}){GAP}+)*)(global|constant){GAP}+({TYPE}){GAP}+"
    rf"@([A-Za-z_.$][\w.$-]*)(?:{GAP}*={GAP}*([\w.+-]+|\[[^\[\];\"\n]*\]))?{GAP}*\n"
)
"""A global on one line. Its groups: indentation, words, kind, type, name, initial values."""
_LIST = r"\[([^\[\];\"]*)\]"
STARTS = ("define", "declare", "metadata", "global", "constant", "align", *_GLOBAL_WORDS)
_START = rf"^(?:{'|'.join(STARTS)})(?![\w.$-])"


def read_module(
    text: str, file: str, reader: type[ModuleReader] | None = None
) -> tuple[Module, tuple[Diagnostic, ...]]:
    """The module `text` spells, and remarks. Raises ParseError with every error found."""
    check_text(text, file)
    return (reader or ModuleReader)(text, file).read()


def check_text(text: str, file: str) -> None:
    """Refuse NUL characters and halves of surrogate pairs, before anything looks at them."""
    wrong = None if text.isascii() and "\0" not in text else re.search(_NO_TEXT, text)
    if wrong is not None:
        start = wrong.start()
        line = text.count("\n", 0, start) + 1
        at = Location(file, line, start - text.rfind("\n", 0, start), written=False)
        message = f"the character U+{ord(wrong[0]):04X} is not text"
        raise ParseError(Diagnostic("TIR0021", message, at))


class ModuleReader:
    """Reads the text of one module."""

    first_line = 1
    """The number of the text's first line."""

    def __init__(self, text: str, file: str) -> None:
        self.cursor = Cursor(text, file, line=self.first_line)
        self.file = file
        self.layouts: dict[str, object] = {}
        self.findings: list[Diagnostic] = []
        self.remarks: list[Diagnostic] = []
        self.functions: dict[str, Function] = {}
        self.globals: dict[str, Global] = {}
        self.metadata: dict[str, Any] = {}
        self.places: dict[str, Location | None] = {}
        self.stage: str | None = None

    usual = True
    """Whether lines of the forms that the printer writes are read by one expression."""

    @cached_property
    def fast(self) -> FastReader:
        """The reader of ops, for all functions of the module."""
        from tileir.textual.fast_reader import FastReader  # a module may have no function

        return FastReader(self.file, self.layouts)

    @cached_property
    def _has_globals(self) -> bool:
        """Whether the text may have globals. The whole text is searched, so once."""
        return "global" in self.cursor.text or "constant" in self.cursor.text

    def read(self) -> tuple[Module, tuple[Diagnostic, ...]]:
        cursor = self.cursor
        try:
            version = self._version()
        except ParseError as error:
            self.findings.extend(error.diagnostics)
            raise ParseError(*self.findings) from None
        header = cursor.take_comments()
        self._items()
        if self.findings:
            raise ParseError(*self.findings)
        module = Module(
            self.functions, self.globals, self.metadata, version, self.stage, self.file,
            cursor.take_comments(), header,
        )  # fmt: skip
        return module, tuple(self.remarks)

    def _items(self) -> None:
        cursor = self.cursor
        cursor.skip_newlines()
        while cursor.token.kind != "end":
            if not (self.usual and self._usual_items()):
                self._item(self._read_item)

    def _usual_items(self) -> bool:
        """Read functions and globals of the usual form, from the current line on; returns whether
        to try the usual form for the next item, too."""
        from tileir.textual.fast_reader import BETWEEN  # a module may have nothing
        from tileir.textual.functions import HEADER

        cursor = self.cursor
        text, (offset, line) = cursor.text, cursor.line_start()
        comments = [*cursor.take_comments()]
        match_global = re.compile(_GLOBAL, re.ASCII).match if self._has_globals else None
        while True:
            match = HEADER.match(text, offset)
            if match is not None:
                fields = self._functions.usual_header(match, line, tuple(comments))
                if fields is None or fields["name"] in self.places:
                    break
                comments = []
                self._place(fields, line, len(match[1]) + 1)
                if match[11] is None:
                    self.functions[fields["name"]] = Function(**fields)
                    offset, line = match.end(), line + 1
                    continue
                if not self._usual_body(fields, match.end(), line + 1):
                    return True
                (offset, line), comments = cursor.line_start(), [*cursor.take_comments()]
                continue
            match = match_global(text, offset) if match_global is not None else None
            if match is not None and self._usual_global(match, line, tuple(comments)):
                comments = []
                offset, line = match.end(), line + 1
                continue
            match = BETWEEN.match(text, offset)
            if match is None or match[2] is not None or match[3] is not None:
                break
            if match[4] is not None:
                comments.append(comment_text(match[4]))
            offset, line = match.end(), line + 1 + match[5].count("\n")
        cursor.seek(offset, line, comments)
        cursor.skip_newlines()
        return cursor.token.kind == "end"

    def _place(self, fields: dict[str, Any], line: int, column: int) -> None:
        self.places[fields["name"]] = Location(self.file, line, column, False)

    def _usual_body(self, fields: dict[str, Any], start: int, line: int) -> bool:
        """Add the function of `fields`, whose body starts at `start`; returns whether its end is
        valid."""
        function = self._functions.with_body(fields, start, line)
        if function is not None:
            self.functions[function.name] = function
        if self.cursor.token.kind == "newline" and len(self.findings) < MAX_ERRORS:
            return True
        self._item(lambda: None)
        return False

    def _usual_global(self, match: re.Match[str], line: int, comments: tuple[str, ...]) -> bool:
        """Add the global that `_GLOBAL` matched; returns whether it is valid."""
        from tileir.textual.functions import unique_settings  # few modules have globals

        indent, words, kind, type_text, name, initial_text = match.groups()
        types = self.fast.types(type_text)
        settings = unique_settings(_GLOBAL_WORDS, words)
        if types is None or type_text[0] == "(" or settings is None or name in self.places:
            return False
        if name in ("true", "false", "undef"):
            return False
        element, count = types[0], 1
        if isinstance(element, Tile):
            if len(element.shape) != 1 or element.layout is not None:
                return False
            element, count = element.element, element.shape[0]
        initial = None
        if initial_text is not None:
            many = initial_text[0] == "["
            initial = self._literals(initial_text[1:-1] if many else initial_text, element)
            if initial is None or (many and len(initial) != count):
                return False
        at = self.places[name] = Location(self.file, line, len(indent) + 1, False)
        self.globals[name] = Global(
            name, element, count, kind == "constant", initial, **settings, comments=comments,
            location=at,
        )  # fmt: skip
        return True

    def _literals(self, text: str, element: Type) -> tuple[Constant, ...] | None:
        """The literals of `element` in `text`, between commas; None where there is another."""
        from tileir.values import Constant

        parts = text.rstrip(_SPACE).removesuffix(",").split(",")
        literal = self.fast.literal
        constants = [literal(part.strip(_SPACE), element) for part in parts]
        right = all([type(c) is Constant for c in constants])  # noqa: C419 - faster
        return cast("tuple[Constant, ...]", tuple(constants)) if right else None

    def _version(self) -> tuple[int, int]:
        cursor = self.cursor
        cursor.skip_newlines()
        if not cursor.at("tir"):
            result = describe(cursor.token)
            cursor.fail("TIR0002", f"a module begins with its version, `tir 1.0`, not {result}")
        cursor.next()
        token = cursor.token
        parts = token.text.split(".")
        if token.kind != "number" or len(parts) != 2 or not all(p.isdigit() for p in parts):
            cursor.fail("TIR0002", f"expected a version such as 1.0, found {describe(token)}")
        if max(map(len, parts)) > 6:
            cursor.fail("TIR0002", "a version's numbers have at most 6 digits")
        version = (int(parts[0]), int(parts[1]))
        if version > VERSION:
            self._refuse(token, cursor.location())
        if version < (1, 0):
            cursor.fail("TIR0002", "the first version is 1.0")
        cursor.next()
        self._end_of_line()
        return version

    def _refuse(self, token: Token, at: Location) -> NoReturn:
        """Refuse a module of a newer version, naming what this reader does not know in it."""
        self.cursor.next()
        self.cursor.skip_line()
        with suppress(ErrorLimitError):
            self._items()
        unknown = tuple(d for d in self.findings if d.code in _UNKNOWN)[:_MOST_NOTES]
        self.findings.clear()
        newest = ".".join(map(str, VERSION))
        message = f"the module needs version {token.text}; this reader knows up to {newest}"
        first = f", so that it has {unknown[0].message}" if unknown else ""
        length = len(token.text)
        raise ParseError(Diagnostic("TIR0402", message + first, at, notes=unknown, length=length))

    def _end_of_line(self) -> None:
        if self.cursor.token.kind not in ("newline", "end"):
            self.cursor.fail_expected("the end of the line")

    def _item(self, read: Callable[[], None]) -> None:
        """Read one item at module level with `read`; after an error, continue at the next item."""
        cursor = self.cursor
        try:
            read()
            self._end_of_line()
        except ErrorLimitError:
            raise
        except ParseError as error:
            self.findings.extend(error.diagnostics)
            self._recover()
        if len(self.findings) >= MAX_ERRORS:
            raise ErrorLimitError(*self.findings[:MAX_ERRORS])
        cursor.skip_newlines()

    def _recover(self) -> None:
        """Go to the next line that begins something at module level."""
        self.cursor.skip_line()
        self.cursor.skip_to(re.compile(_START, re.MULTILINE))
        self.cursor.take_comments()

    def _read_item(self) -> None:
        cursor, token = self.cursor, self.cursor.token
        if token.kind == "alias":
            self._alias()
        elif cursor.at("stage"):
            cursor.next()
            if self.stage is not None:
                cursor.fail("TIR0011", "the stage is repeated", token)
            self.stage = read_string(cursor)
        elif cursor.at("metadata"):
            self._metadata()
        elif self._begins_function():
            self._function()
        elif token.kind == "word" and token.text in STARTS:
            self._global()
        else:
            cursor.fail_expected("define, declare, global, constant or metadata")

    def _begins_function(self) -> bool:
        if self.cursor.at("define"):
            return True
        return self.cursor.at("declare") and not re.match(_DATA, self.cursor.rest_of_line())

    def _alias(self) -> None:
        token = self.cursor.next()
        self.cursor.expect("=", "the alias")
        if token.text in self.layouts:
            self.cursor.fail("TIR0011", f"{token.text} is defined twice", token)
        if not self.cursor.at("layout"):
            self.cursor.fail_expected("a layout")
        self.layouts[token.text] = read_layout(self.cursor, self.layouts)

    def _metadata(self) -> None:
        token = self.cursor.next()
        reserved = RESERVED if self.stage is None else None
        result = read_dict(self.cursor, None, self.layouts, "metadata", reserved=reserved)
        for name, value in result.items():
            if name in self.metadata:
                self.cursor.fail("TIR0011", f"metadata {name} is repeated", token)
            self.metadata[name] = value

    def _function(self) -> None:
        token, at = self.cursor.token, self.cursor.location()
        result = self._functions.read()
        if result is not None:
            self._name(result.name, at, token)
            self.functions[result.name] = result

    @cached_property
    def _functions(self) -> FunctionReader:
        """The reader of functions, for all of them."""
        from tileir.textual.functions import FunctionReader  # as above

        return FunctionReader(self.cursor, self.layouts, self.fast, self.findings, self.remarks)

    def _name(self, name: str, at: Location, token: Token) -> None:
        if name in self.places:
            note = Diagnostic("TIR0019", "it is first defined here", self.places[name])
            message = f"@{name} is defined twice"
            raise ParseError(
                Diagnostic("TIR0019", message, at, notes=(note,), length=len(token.text))
            )
        self.places[name] = at

    # Globals --------------------------------------------------------------------------------------

    def _global(self) -> None:
        cursor, token, at = self.cursor, self.cursor.token, self.cursor.location()
        comments = cursor.take_comments()
        from tileir.textual.functions import read_modifiers  # few modules have globals

        settings = read_modifiers(cursor, _GLOBAL_WORDS)
        if not cursor.at("global") and not cursor.at("constant"):
            cursor.fail_expected("global or constant")
        constant = cursor.next().text == "constant"
        if cursor.at("addrspace"):
            settings["space"] = read_space(cursor)
        type_token = cursor.token
        type_ = read_type(cursor, self.layouts)
        name = read_symbol(cursor, "the global's name")
        self._name(name, at, token)
        element, count = self._array(type_, type_token)
        initial = self._initial(element, count) if cursor.accept("=") else None
        self.globals[name] = Global(
            name, element, count, constant, initial, **settings, comments=comments, location=at
        )

    def _array(self, type_: Type, token: Token) -> tuple[Type, int]:
        if isinstance(type_, Tile):
            if len(type_.shape) != 1 or type_.layout is not None:
                self.cursor.fail("TIR0004", f"a global has one dimension, unlike {type_}", token)
            return type_.element, type_.shape[0]
        return type_, 1

    def _initial(self, element: Type, count: int) -> tuple[Constant, ...]:
        cursor = self.cursor
        match = re.compile(_LIST).match(cursor.text, cursor.token.start)
        constants = None if match is None else self._literals(match[1], element)
        if match is not None and constants is not None and len(constants) == count:
            cursor.skip_past(match.end())
            return constants
        return self._initial_values(element, count)

    def _initial_values(self, element: Type, count: int) -> tuple[Constant, ...]:
        cursor = self.cursor
        if not cursor.accept("["):
            return (self._literal(element),)
        constants: list[Constant] = []
        cursor.skip_newlines()
        while not cursor.at("]"):
            constants.append(self._literal(element))
            cursor.skip_newlines()
            if not cursor.accept(","):
                break
            cursor.skip_newlines()
        cursor.expect("]", "the initial values")
        if len(constants) != count:
            cursor.fail("TIR0012", f"{count} elements and {len(constants)} initial values")
        return tuple(constants)

    def _literal(self, element: Type) -> Constant:
        from tileir.textual.literals import is_literal, read_literal
        from tileir.values import Constant

        cursor, token = self.cursor, self.cursor.token
        if not is_literal(token) or token.text == "undef":
            cursor.fail_expected("a literal")
        literal = read_literal(cursor, token, element)
        cursor.next()
        assert isinstance(literal, Constant)
        return literal


def verify_module(module: Module) -> Module:
    """`module`, once the verifier has passed it; errors without a place get the file's start."""
    from tileir.verify import verify

    try:
        verify(module)
    except TileirError as error:
        start = Location(module.source or "<string>", 1, 1, written=False)
        raise type(error)(*(d.at(start) for d in error.diagnostics)) from None
    return module


def split(text: str) -> list[tuple[int, str]]:
    """The parts of `text` between lines `; -----` and the number of lines before each."""
    parts: list[tuple[int, str]] = []
    lines = text.split("\n")
    begin = 0
    for number, line in enumerate(lines):
        if line.strip() == "; -----":
            parts.append((begin, "\n".join(lines[begin:number]) + "\n"))
            begin = number + 1
    return [*parts, (begin, "\n".join(lines[begin:]))]


def shift_lines(error: TileirError, lines: int) -> TileirError:
    """The same error with its location moved down by `lines`."""

    def move(d: Diagnostic) -> Diagnostic:
        at = d.location
        place = None if at is None else attrs.evolve(at, line=at.line + lines)
        return attrs.evolve(d, location=place, notes=tuple(map(move, d.notes)))

    return type(error)(*map(move, error.diagnostics))
