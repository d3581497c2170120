"""Reading a function's body: blocks, phis and ops, with recovery at line ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileir.errors import MAX_ERRORS, Diagnostic, Location, ParseError
from tileir.field import Successor
from tileir.op import Op
from tileir.textual.attributes import read_label, unquote
from tileir.textual.fast_reader import BETWEEN, LINE, FastReader
from tileir.textual.lexer import NAME, STRING, Cursor, ErrorLimitError, comment_text
from tileir.textual.literals import is_literal, read_literal
from tileir.textual.scope import POISON, ValueScope
from tileir.textual.types import read_type
from tileir.types import Type
from tileir.values import Operand, Value
from tileir.verify.traits import traits

LABEL = rf"[ \t]*({STRING}|{NAME})[ \t]*:"
_PHI = rf"(?:%{NAME}|_)(?:[ \t]*,[ \t]*(?:%{NAME}|_))*[ \t]*=[ \t]*phi\b"


class PhiText:
    """A block parameter as written: what it defines, and the value for each predecessor."""

    __slots__ = ("incoming", "location", "value")

    def __init__(self, value: Value, incoming: dict[str, Operand], location: Location) -> None:
        self.value, self.incoming, self.location = value, incoming, location


class RawBlock:
    """A block as written, before edges get their arguments."""

    __slots__ = ("comments", "label", "location", "ops", "phis")

    def __init__(self, label: str, location: Location, comments: list[str]) -> None:
        self.label, self.location, self.comments = label, location, comments
        self.phis: list[PhiText] = []
        self.ops: list[Op] = []

    @property
    def successors(self) -> tuple[Successor, ...]:
        """The edges that leave it."""
        return self.ops[-1].successors if self.ops else ()


class BodyReader:
    """Reads from the line after a function's `{` to its `}`."""

    def __init__(
        self, cursor: Cursor, scope: ValueScope, fast: FastReader, findings: list[Diagnostic]
    ) -> None:
        self.cursor, self.scope, self.fast, self.findings = cursor, scope, fast, findings
        self.blocks: dict[str, RawBlock] = {}
        self.block: RawBlock | None = None
        self.comments: list[str] = []
        self.broken = False

    def read(self, offset: int, line: int) -> dict[str, RawBlock]:
        """The blocks of the body that starts at `offset`; the cursor is left after its `}`."""
        text, match_line, between = self.cursor.text, LINE.match, BETWEEN.match
        read_op, comments, scope, block = self.fast.read, self.comments, self.scope, self.block
        ended = False  # a block by its terminator: no op follows
        while True:
            match = match_line(text, offset) if block is not None and not ended else None
            if match is not None and block is not None:
                op = read_op(match, scope, line, tuple(comments) if comments else ())
                if op is not None:
                    block.ops.append(op)
                    ended = traits(type(op)).terminates
                    if comments:
                        comments.clear()
                    offset, line = match.end(), line + 1
                    continue
                if match[4] == "phi" and self._quick_phi(match, block, line):
                    offset, line = match.end(), line + 1
                    continue
            else:
                match = between(text, offset)
                if match is None and ended:
                    ended = False
                    continue
                if match is not None and self._quick_line(match, line):
                    if match[3] is not None:
                        return self.blocks
                    if match[2] is not None:
                        block, ended = self.block, False
                    offset, line = match.end(), line + 1 + match[5].count("\n")
                    continue
            self.cursor.seek(offset, line, comments)
            comments.clear()
            if not self._line():
                return self.blocks
            block, ended = self.block, False
            offset, line = self._next_line()

    def _quick_line(self, match: re.Match[str], line: int) -> bool:
        """Read a line that has no op; returns whether it is valid."""
        indent, label, end, comment, empty = match.groups()
        comments = self.comments
        if label is not None:
            if label in self.blocks or label in ("define", "declare"):
                return False
            at = Location(self.cursor.file, line, len(indent) + 1, False)
            self.block = self.blocks[label] = RawBlock(label, at, [*comments])
            comments.clear()
        elif end is not None:
            if comment is not None or not self.blocks:
                return False
            self.cursor.seek(match.end() - len(empty) - 1, line)
            self._end(tuple(comments))
            return True
        if comment is not None:
            comments.append(comment_text(comment))
        return True

    def _quick_phi(self, match: re.Match[str], block: RawBlock, line: int) -> bool:
        """Read a phi at the head of `block`; returns whether it is valid."""
        result = self.fast.phi(match, self.scope)
        if result is None or block.ops:
            return False
        name, value, incoming = result
        self.scope.bind(name, value)
        at = Location(self.cursor.file, line, len(match[1]) + 1, False)
        block.phis.append(PhiText(value, incoming, at))
        block.comments += self.comments
        if match[11] is not None:
            block.comments.append(comment_text(match[11]))
        self.comments.clear()
        return True

    def _next_line(self) -> tuple[int, int]:
        """The position at which the next line starts; comments before it are kept."""
        self.cursor.skip_line()
        self.comments.extend(self.cursor.take_comments())
        token = self.cursor.token
        if token.kind == "end":
            return token.start, self.cursor.location().line
        return token.start + 1, self.cursor.location().line + 1

    def _line(self) -> bool:
        """Read the line; returns whether the body continues."""
        cursor = self.cursor
        try:
            return self._read_line()
        except ParseError as error:
            self.broken = True
            self.findings.extend(error.diagnostics)
            if len(self.findings) >= MAX_ERRORS:
                raise ErrorLimitError(*self.findings[:MAX_ERRORS]) from None
            cursor.take_comments()
            return True

    def _read_line(self) -> bool:
        cursor, token = self.cursor, self.cursor.token
        if token.kind == "newline":
            return True
        if cursor.at("}"):
            self._close()
            return False
        if token.kind == "end" or token.text in ("define", "declare"):
            cursor.fail("TIR0016", "the function is not closed: expected `}`") if (
                token.kind != "end" or not self.broken
            ) else None
            return False
        label = re.compile(LABEL).match(cursor.text, token.start)
        if label is not None:
            self._open_block(unquote(cursor, token, label[1]))
            return True
        if self.block is None:
            cursor.fail("TIR0020", "an op stands before the first label", token)
        if re.compile(_PHI).match(cursor.text, token.start):
            self._phi(self.block)
            return True
        self._statement(self.block)
        return True

    def _statement(self, block: RawBlock) -> None:
        from tileir.textual.statements import read_statement  # few lines are unusual

        statement = read_statement(self.cursor, self.scope)
        if statement is None:
            self.broken = True
        else:
            block.ops.append(statement)

    def _open_block(self, label: str) -> None:
        cursor = self.cursor
        location, comments = cursor.location(), cursor.take_comments()
        token = cursor.next()
        while not cursor.accept(":"):
            cursor.next()
        self.block = RawBlock(label, location, [*comments])
        if label in self.blocks:
            note = Diagnostic("TIR0014", "it is first defined here", self.blocks[label].location)
            cursor.fail("TIR0014", f"block {label} is defined twice", token, (note,))
        self.blocks[label] = self.block
        if cursor.token.kind not in ("newline", "end"):
            cursor.fail_expected("the end of the line")

    def _close(self) -> None:
        trailing = self.cursor.take_comments()
        self.cursor.next()
        self._end(trailing)

    def _end(self, trailing: tuple[str, ...]) -> None:
        """End the body; comments before its `}` go to the last op."""
        if trailing and self.block is not None and self.block.ops:
            last = self.block.ops[-1]
            self.block.ops[-1] = last.evolve(comments=last.comments + trailing)

    def _phi(self, block: RawBlock) -> None:
        from tileir.textual.statements import read_results  # as above

        cursor, location = self.cursor, self.cursor.location()
        comments = cursor.take_comments()
        stated = read_results(cursor)
        phi = cursor.next()
        if block.ops:
            cursor.fail("TIR0018", "phi stands at the head of a block", phi)
        if len(stated.names) != 1:
            cursor.fail("TIR0013", "phi has one result", stated.tokens[1])
        type_ = self._phi_type()
        value = self.scope.result(cursor, stated.names[0], stated.tokens[0], type_)
        result = PhiText(value, {}, location)
        block.phis.append(result)
        block.comments += comments
        while True:
            self._incoming(result)
            if not cursor.accept(","):
                break
        block.comments += cursor.take_comments()
        if cursor.token.kind not in ("newline", "end"):
            cursor.fail_expected("the end of the line")

    def _phi_type(self) -> Type:
        return read_type(self.cursor, self.scope.layouts)

    def _incoming(self, phi: PhiText) -> None:
        cursor = self.cursor
        cursor.expect("[", "phi's type")
        token = cursor.token
        operand = self._operand(phi)
        cursor.expect(",", "the value")
        label = cursor.token
        name = self._source()
        if name in phi.incoming:
            cursor.fail("TIR0015", f"phi has two values for {name}", label)
        if operand is POISON:
            self.broken = True
        elif operand.type is not phi.value.type:
            message = f"phi of {phi.value.type} has a value of {operand.type}"
            cursor.fail("TIR0015", message, token)
        phi.incoming[name] = operand
        cursor.expect("]", "the predecessor")

    def _source(self) -> str:
        return read_label(self.cursor, "the label of a predecessor")

    def _operand(self, phi: PhiText) -> Operand:
        cursor, token = self.cursor, self.cursor.token
        if is_literal(token):
            return read_literal(cursor, cursor.next(), phi.value.type)
        return self.scope.value(cursor, cursor.take("value", "a value"))


def predecessors(blocks: Sequence[RawBlock]) -> dict[str, list[str]]:
    """Label to the labels of the blocks that branch to it."""
    result: dict[str, list[str]] = {}
    for block in blocks:
        for edge in block.successors:
            result.setdefault(edge.label, []).append(block.label)
    return result
