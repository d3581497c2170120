"""Reading types."""

from __future__ import annotations

import re

from tileir.errors import ParseError
from tileir.textual.lexer import Cursor, Token, suggestion
from tileir.types import (
    ALIASES,
    BUFFER_SPACES,
    OPAQUES,
    SCALARS,
    AddressSpace,
    Buffer,
    Descriptor,
    Element,
    Pointer,
    Tile,
    Type,
)

MAX_DEPTH = 256
"""Most levels of pointers to pointers."""

_KNOWN = (*SCALARS, *ALIASES, *OPAQUES, "tensor_desc", *BUFFER_SPACES)
_MAX_EXTENT = 1 << 40
_LAYOUT = r"layout[ \t]*\([^();\n]*\)"
"""A layout on one line."""


def starts_type(token: Token) -> bool:
    """Whether a type may begin with `token`."""
    return token.kind == "word" and token.text in _KNOWN


def read_type(cursor: Cursor, layouts: dict[str, object]) -> Type:
    """The type at the cursor. `layouts` are the aliases defined so far."""
    token = cursor.token
    if token.kind != "word":
        cursor.fail_expected("a type")
    if token.text in OPAQUES:
        return OPAQUES[cursor.next().text]
    if token.text == "tensor_desc":
        return _read_descriptor(cursor, layouts)
    if token.text in BUFFER_SPACES:
        return _read_buffer(cursor, layouts, token.text)
    scalar = SCALARS.get(token.text) or ALIASES.get(token.text)
    if scalar is None:
        cursor.fail("TIR0004", f"unknown type `{token.text}`{suggestion(token.text, _KNOWN)}")
    cursor.next()
    element = _read_pointers(cursor, scalar)
    if not cursor.at("<"):
        return element
    return read_tile(cursor, element, layouts)


def read_types(cursor: Cursor, layouts: dict[str, object]) -> tuple[Type, ...]:
    """One type, or several in parentheses."""
    if not cursor.accept("("):
        return (read_type(cursor, layouts),)
    types: list[Type] = []
    while not cursor.at(")"):
        types.append(read_type(cursor, layouts))
        if not cursor.accept(","):
            break
    cursor.expect(")", "the types")
    return tuple(types)


def _read_pointers(cursor: Cursor, element: Element) -> Element:
    depth = 0
    while cursor.at("*") or cursor.at("addrspace"):
        space = int(AddressSpace.GLOBAL)
        if cursor.at("addrspace"):
            space = read_space(cursor)
        star = cursor.expect("*", "the address space" if depth else "the element")
        depth += 1
        if depth > MAX_DEPTH:
            cursor.fail("TIR0017", f"more than {MAX_DEPTH} levels of pointers", star)
        element = Pointer(element, space)
    return element


def read_space(cursor: Cursor) -> int:
    """`addrspace(N)`."""
    cursor.next()
    cursor.expect("(", "`addrspace`")
    token = cursor.token
    space = read_integer(cursor, "an address space")
    if space not in set(AddressSpace):
        cursor.fail("TIR0004", f"there is no address space {space}", token)
    cursor.expect(")", "the address space")
    return space


def read_tile(cursor: Cursor, element: Element, layouts: dict[str, object]) -> Tile:
    """The shape and layout at the cursor, as a tile of `element`."""
    cursor.expect("<", "the element type")
    shape: list[int] = []
    layout: object = None
    while True:
        token = cursor.token
        if shape and (token.kind == "alias" or cursor.at("layout")):
            layout = read_layout(cursor, layouts)
            break
        extent = read_integer(cursor, "an extent")
        if not 0 < extent < _MAX_EXTENT:
            cursor.fail("TIR0004", f"extents are positive integers, not {token.text[:40]}", token)
        shape.append(extent)
        if len(shape) > MAX_DEPTH:
            cursor.fail("TIR0017", f"more than {MAX_DEPTH} dimensions", token)
        if not cursor.accept(","):
            break
    cursor.expect(">", "the shape")
    return Tile(element, tuple(shape), layout)


def read_layout(cursor: Cursor, layouts: dict[str, object]) -> object:
    """A layout: an alias, or written out."""
    token = cursor.token
    if token.kind == "alias":
        if token.text not in layouts:
            cursor.fail("TIR0022", f"layout {token.text} is not defined")
        return layouts[cursor.next().text]
    from tileir.layout_text import parse_layout  # only text of the backend's stages has layouts

    match = re.compile(_LAYOUT).match(cursor.text, token.start)
    if match is None:
        cursor.next()
        cursor.expect("(", "`layout`")
        while cursor.token.kind not in ("newline", "end"):
            cursor.next()
        cursor.fail_expected("`)`")
    try:
        result = parse_layout(match[0])
    except ParseError as error:
        cursor.fail(error.code, error.diagnostics[0].message, token)
    cursor.skip_past(match.end())
    return result


def _read_block(cursor: Cursor, layouts: dict[str, object], expected: str) -> Tile:
    cursor.next()
    cursor.expect("<", f"`{expected}`")
    token = cursor.token
    if token.kind == "word" and token.text in ("tensor_desc", *BUFFER_SPACES):
        cursor.fail("TIR0004", f"{expected} takes a tile type, not {token.text}", token)
    block = read_type(cursor, layouts)
    if not isinstance(block, Tile):
        cursor.fail("TIR0004", f"{expected} takes a tile type, not {block}", token)
    return block


def _read_descriptor(cursor: Cursor, layouts: dict[str, object]) -> Descriptor:
    block = _read_block(cursor, layouts, "tensor_desc")
    cursor.expect(">", "the block type")
    return Descriptor(block)


def _read_buffer(cursor: Cursor, layouts: dict[str, object], space: str) -> Buffer:
    block, count = _read_block(cursor, layouts, space), 1
    if cursor.accept(","):
        token = cursor.token
        count = read_integer(cursor, "a count")
        if count < 1:
            cursor.fail("TIR0004", "a count is positive", token)
    cursor.expect(">", "the buffer's type")
    return Buffer(block, count, space)


def read_integer(cursor: Cursor, expected: str) -> int:
    """A decimal or hexadecimal integer of at most 40 digits."""
    token = cursor.token
    digits = token.text.removeprefix("-")
    hexadecimal = digits.startswith("0x")
    if token.kind != "number" or not (hexadecimal or (digits.isascii() and digits.isdigit())):
        cursor.fail_expected(expected)
    if len(digits) > 40:
        cursor.fail("TIR0007", f"{digits[:20]}... has more than 40 digits")
    cursor.next()
    return int(token.text, 16 if hexadecimal else 10)
