"""Attribute values: of ops (each of its declared form), of functions and of modules; locations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tileir.errors import Location
from tileir.ir import Linkage, Visibility
from tileir.textual.lexer import GAP, Cursor, Token, suggestion
from tileir.textual.types import read_integer, read_layout, read_type
from tileir.verify.declarations import reserved_name

if TYPE_CHECKING:
    from tileir.field import AttributeKind, Field
    from tileir.ir import AttributeValue

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "0": "\0"}
_ESCAPED = r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)"
_NUMBERS = r"(?a)\[([\d \t\r\n,-]*)\]"
_INTEGER_ENTRY = rf"(?a)(?!(?:inf|nan)\b)([A-Za-z_][\w.$-]*){GAP}*={GAP}*(-?\d{{1,18}}){GAP}*,"
"""`name = number,`, as most entries are."""
_MOST_DIGITS = 40
_PLAIN_NAME = r"[A-Za-z_.$][\w.$-]*\Z"
_LABEL = r"(?a)(?:[A-Za-z_][\w.$-]*|\d+)\Z"


def read_dict(cursor: Cursor, schema: Mapping[str, Field] | None, layouts: dict[str, object],
              owner: str, places: dict[str, Token] | None = None, *,
              reserved: str | None = None) -> dict[str, Any]:  # fmt: skip
    """Read `{name = value, ...}`: values of the forms that `schema` states, or of any form without
    a schema. `places` receives the location of each name. Names that begin with `reserved` are
    errors."""
    cursor.expect("{", owner)
    result: dict[str, Any] = {}
    cursor.skip_newlines()
    refused = () if reserved is None else reserved
    match_entry = re.compile(_INTEGER_ENTRY).match
    while not cursor.at("}"):
        entry = match_entry(cursor.text, cursor.token.start) if schema is None else None
        if entry is not None and entry[1] not in result and not entry[1].startswith(refused):
            result[entry[1]] = int(entry[2])
            cursor.skip_past(entry.end())
            cursor.skip_newlines()
            continue
        literal = cursor.token.text in ("nan", "inf")
        token = cursor.next() if literal else cursor.take("word", "an attribute's name")
        if token.text in result:
            cursor.fail("TIR0011", f"attribute {token.text} is repeated", token)
        if token.text.startswith(refused):
            cursor.fail("TIR0339", reserved_name(token.text), token)
        if schema is not None and token.text not in schema:
            near = suggestion(token.text, list(schema))
            cursor.fail("TIR0009", f"{owner} has no attribute {token.text}{near}", token)
        cursor.expect("=", f"`{token.text}`")
        if places is not None:
            places[token.text] = token
        field = schema[token.text] if schema is not None else None
        result[token.text] = (
            _read_any(cursor) if field is None else _read_form(cursor, field, layouts)
        )
        cursor.skip_newlines()
        if not cursor.accept(","):
            break
        cursor.skip_newlines()
    cursor.expect("}", "the attributes")
    return result


def read_string(cursor: Cursor) -> str:
    """A string in double quotes, with the escapes of C, `\\uXXXX` and `\\UXXXXXXXX`."""
    token = cursor.take("string", "a string")
    return unquote(cursor, token, token.text)


def read_symbol(cursor: Cursor, expected: str) -> str:
    """The name that a symbol, called `expected` in the error, stands for."""
    token = cursor.take("symbol", expected)
    return unquote(cursor, token, token.text[1:])


def read_label(cursor: Cursor, expected: str) -> str:
    """The label of a block, called `expected` in the error."""
    if cursor.token.kind not in ("string", "word", "number"):
        cursor.fail_expected(expected)
    token = cursor.next()
    return unquote(cursor, token, token.text)


def unquote(cursor: Cursor, token: Token, text: str) -> str:
    """The contents of `text`, a part of `token`: the string if it is quoted, else `text` itself."""
    if not text.startswith('"'):
        return text

    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code in _ESCAPES:
            return _ESCAPES[code]
        number = int(code[1:], 16) if len(code) > 1 else -1
        if not 0 <= number < 0x110000 or 0xD800 <= number < 0xE000:
            cursor.fail("TIR0007", f"\\{code} is no character", token)
        return chr(number)

    return re.sub(_ESCAPED, character, text[1:-1])


def _read_form(cursor: Cursor, field: Field, layouts: dict[str, object]) -> Any:
    kind = field.attribute
    assert kind is not None
    if kind.form == "string":
        return read_string(cursor)
    if kind.form == "int":
        return read_integer(cursor, "an integer")
    if kind.form == "bool":
        return _read_bool(cursor)
    if kind.form == "float":
        return _read_float(cursor)
    if kind.form in ("ints", "strings"):
        return _read_list(cursor, kind.form)
    if kind.form == "type":
        return read_type(cursor, layouts)
    if kind.form == "layout":
        return read_layout(cursor, layouts)
    if cursor.token.kind == "symbol" and kind.form in ("symbol", "combiner"):
        return read_symbol(cursor, "a symbol")
    return _read_word(cursor, kind)


def _read_word(cursor: Cursor, kind: AttributeKind) -> Enum:
    members = {str(m.value): m for m in kind.enum or ()}
    if cursor.token.kind not in ("word", "number") or not members:
        cursor.fail_expected("a symbol" if not members else "one of " + ", ".join(members))
    token = cursor.token
    if token.text not in members:
        near = suggestion(token.text, list(members))
        message = f"`{token.text}` is none of {', '.join(members)}{near}"
        cursor.fail("TIR0023", message, token)
    return members[cursor.next().text]


def _read_bool(cursor: Cursor) -> bool:
    if cursor.token.text not in ("true", "false"):
        cursor.fail_expected("true or false")
    return cursor.next().text == "true"


def _read_float(cursor: Cursor) -> float:
    token = cursor.take("number", "a number")
    if token.text.lstrip("-").startswith("0x") or len(token.text) > 400:
        cursor.fail("TIR0007", f"`{token.text[:40]}` is no decimal number", token)
    return float(token.text)


def _read_list(cursor: Cursor, form: str) -> tuple[Any, ...]:
    where = cursor.token.start
    match = re.compile(_NUMBERS).match(cursor.text, where) if form == "ints" else None
    if match is not None and len(match[0]) > 64:
        numbers = match[1].split(",")
        if max(map(len, numbers)) <= _MOST_DIGITS:
            try:
                result = tuple(map(int, numbers))
            except ValueError:  # the cursor finds what is wrong
                return _read_items(cursor, form)
            cursor.skip_past(match.end())
            return result
    return _read_items(cursor, form)


def _read_items(cursor: Cursor, form: str) -> tuple[Any, ...]:
    cursor.expect("[", "the attribute")
    result: list[Any] = []
    cursor.skip_newlines()
    while not cursor.at("]"):
        result.append(
            read_string(cursor) if form == "strings" else read_integer(cursor, "an integer")
        )
        cursor.skip_newlines()
        if not cursor.accept(","):
            break
        cursor.skip_newlines()
    cursor.expect("]", "the list")
    return tuple(result)


def _read_any(cursor: Cursor) -> AttributeValue:
    token = cursor.token
    if token.kind == "string":
        return read_string(cursor)
    if token.text in ("true", "false"):
        return _read_bool(cursor)
    if token.text == "[":
        strings = _follows_string(cursor, token)
        return _read_list(cursor, "strings" if strings else "ints")
    if token.kind == "number" and any(c in token.text for c in ".enf") and "0x" not in token.text:
        return _read_float(cursor)
    return read_integer(cursor, "a number, string, true, false or list")


def _follows_string(cursor: Cursor, bracket: Token) -> bool:
    return cursor.text[bracket.start + 1 : bracket.start + 4096].lstrip().startswith('"')


# Writing -------------------------------------------------------------------------------------


def format_value(value: Any, kind: AttributeKind | None = None) -> str:
    """The text of an attribute's value."""
    if isinstance(value, Enum):
        return str(value.value)
    if kind is not None and kind.form in ("symbol", "combiner"):
        return format_symbol(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return format_string(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        return f"[{', '.join(format_value(v) for v in value)}]"
    if kind is not None and kind.form == "float":
        return repr(float(value))
    return str(value)


def format_string(text: str) -> str:
    """`text` in double quotes."""
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    for code, character in _ESCAPES.items():
        if code not in '"\\':
            shown = shown.replace(character, f"\\{code}")
    return f'"{shown if shown.isprintable() else "".join(map(_escape, shown))}"'


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


@lru_cache(maxsize=4096)
def format_symbol(name: str) -> str:
    """`@name`, quoted where it needs to be."""
    plain = re.match(_PLAIN_NAME, name) and name not in ("true", "false", "undef")
    return f"@{name}" if plain else f"@{format_string(name)}"


@lru_cache(maxsize=4096)
def format_label(name: str) -> str:
    """A block's label, quoted where it needs to be."""
    plain = re.match(_LABEL, name) and name not in ("none", "define", "declare")
    return name if plain else format_string(name)


def format_comments(comments: Iterable[str], indent: str = "") -> list[str]:
    """A line for each of `comments`."""
    return [f"{indent}; {c}" if c else f"{indent};" for c in comments]


def format_settings(visibility: Visibility, linkage: Linkage, alignment: int) -> list[str]:
    """The words before a function or global for settings that differ from their defaults."""
    words = [] if visibility is Visibility.PUBLIC else [visibility.value]
    words += [] if linkage is Linkage.EXTERNAL else [linkage.value]
    return words + ([f"align {alignment}"] if alignment else [])


def read_location(cursor: Cursor) -> Location:
    """`loc("file":line:column)`."""
    cursor.next()
    cursor.expect("(", "`loc`")
    file = read_string(cursor)
    cursor.expect(":", "the file")
    line = read_integer(cursor, "a line")
    cursor.expect(":", "the line")
    column = read_integer(cursor, "a column")
    cursor.expect(")", "the location")
    return Location(file, line, column)
