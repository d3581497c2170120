"""Reader of the spelling of the MAPL 2019 paper (Listings 5, 6 and 7), which leaves out what
follows from the rest of the text: types, labels, terminators, declarations.

This module has only the differences from the canonical text, which `docs/reference/grammar.md`
lists."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import zip_longest
from typing import Any

from tileir.errors import Diagnostic
from tileir.field import Successor
from tileir.ir import VERSION, Function, Module, Parameter
from tileir.ops.control import Branch, Return
from tileir.ops.symbols import Call
from tileir.textual.body import LABEL, BodyReader, PhiText, RawBlock
from tileir.textual.fast_reader import FastReader
from tileir.textual.functions import PROMISES, FunctionReader
from tileir.textual.lexer import NAME, Token
from tileir.textual.mapl19_ops import PaperScope, PaperStatement
from tileir.textual.module import STARTS, ModuleReader
from tileir.textual.scope import ValueScope
from tileir.textual.types import starts_type
from tileir.types import VOID, Type
from tileir.values import Operand, Value

FRAGMENT = "fragment"
"""The function that is made of instructions outside of any function."""

_LINE_END = re.compile(r'^((?:[^;"\n]|"[^"\n]*")+);(?=[ \t\r]*$)', re.MULTILINE)
_PHI_VALUE = re.compile(rf"\[[ \t]*(%{NAME})")


class PaperReader(ModuleReader):
    """Reads a module: no version line, functions declared by their first call, and instructions
    outside of functions as a function of their own."""

    usual = False

    def __init__(self, text: str, file: str) -> None:
        super().__init__(_LINE_END.sub(r"\1 ", text), file)
        self.fast = _NoShortCut(file, self.layouts)

    def read(self) -> tuple[Module, tuple[Diagnostic, ...]]:
        module, remarks = super().read()
        declared = {**_declarations(module), **module.functions}
        return module.with_functions(declared), remarks

    def _version(self) -> tuple[int, int]:
        self.cursor.skip_newlines()
        return VERSION

    def _read_item(self) -> None:
        token = self.cursor.token
        if token.text in STARTS or token.kind == "alias" or self.functions or self.globals:
            return super()._read_item()
        fragment = self._functions.read_fragment()
        if fragment is not None:
            self.functions[fragment.name] = fragment
        return None

    @cached_property
    def _functions(self) -> PaperFunction:
        return PaperFunction(
            self.functions, self.cursor, self.layouts, self.fast, self.findings, self.remarks
        )


class PaperFunction(FunctionReader):
    """Reads a function, with the words of Triton-C for promises about parameters."""

    promises: Mapping[str, str] = {
        **PROMISES, "restrict": "noalias", "read_only": "readonly", "write_only": "writeonly"
    }  # fmt: skip

    def __init__(self, functions: Mapping[str, Function], *reading: Any) -> None:
        self.functions, self.fragment = functions, False
        super().__init__(*reading)

    def read_fragment(self) -> Function | None:
        """The function of the lines up to the end of the text."""
        self.fragment = True
        at, start = self.cursor.location(), self.cursor.token.start
        self.scope = self._scope(start)
        begin = self.cursor.text.rfind("\n", 0, start) + 1
        blocks = self._blocks(FRAGMENT, begin, at.line)
        return None if blocks is None else Function(FRAGMENT, blocks=blocks, location=at)

    def _scope(self, start: int) -> PaperScope:
        text = self.cursor.text
        return PaperScope(self.layouts, text, text.rfind("\n", 0, start) + 1, self.functions)

    def _body_reader(self) -> BodyReader:
        paper_body = PaperBody(self.cursor, self.scope, self.fast, self.findings)
        paper_body.fragment = self.fragment
        return paper_body


class PaperBody(BodyReader):
    """Reads a body: the first label may be missing, a block without terminator goes on in the
    next, the last one returns."""

    scope: PaperScope
    fragment = False

    def _read_line(self) -> bool:
        token = self.cursor.token
        if token.kind == "end" and self.fragment:
            self._terminate()
            return False
        if self.block is None and self._at_op(token):
            self._open_entry()
        return super()._read_line()

    def _open_entry(self) -> None:
        self.block = self.blocks["entry"] = RawBlock("entry", self.cursor.location(), [])

    def _at_op(self, token: Token) -> bool:
        if re.compile(LABEL).match(self.cursor.text, token.start) or token.text in (
            "define",
            "declare",
        ):
            return False
        return token.kind in ("word", "value") or token.text == "@"

    def _end(self, trailing: tuple[str, ...]) -> None:
        super()._end(trailing)
        self._terminate()

    def _terminate(self) -> None:
        if not self.blocks:
            self._open_entry()
        blocks = list(self.blocks.values())
        for block, following in zip_longest(blocks, blocks[1:]):
            last = block.ops[-1] if block.ops else None
            if last is not None and last.is_terminator:
                continue
            at = block.location if last is None else last.location
            block.ops.append(
                Return((), location=at)
                if following is None
                else Branch(Successor(following.label), location=at)
            )

    def _statement(self, block: RawBlock) -> None:
        result = PaperStatement(self.cursor, self.scope).all()
        self.broken |= result is None
        block.ops.extend(result or ())

    # Phis -----------------------------------------------------------------------------------------

    def _phi_type(self) -> Type:
        """The stated type, or that of the first value whose type is known."""
        if starts_type(self.cursor.token):
            return super()._phi_type()
        names = _PHI_VALUE.findall(self.cursor.rest_of_line())
        types = [t for t in map(self.scope.type, names) if t is not None]
        if not types:
            self.cursor.fail("TIR0008", "no value of this phi has a type yet; write the phi's type")
        return next((t for t in types if t is not VOID), VOID)

    def _phi(self, block: RawBlock) -> None:
        super()._phi(block)
        value = block.phis[-1].value
        if value.type is VOID:
            self.broken = True
            self.scope.poison(value)

    def _operand(self, phi: PhiText) -> Operand:
        token = self.cursor.token
        if token.kind != "value":
            return super()._operand(phi)
        return self.scope.expect(self.cursor, self.cursor.next(), phi.value.type)

    def _source(self) -> str:
        if self.cursor.token.kind == "value":
            return self.cursor.next().text[1:]
        return super()._source()


class _NoShortCut(FastReader):
    def read(
        self, match: re.Match[str], scope: ValueScope, line: int, comments: tuple[str, ...]
    ) -> None:
        return None

    def phi(self, match: re.Match[str], scope: ValueScope) -> None:
        return None


def _declarations(module: Module) -> dict[str, Function]:
    """Declarations of functions that are called but not in the module, with the types of the first
    call."""
    declarations: dict[str, Function] = {}
    for function in module.functions.values():
        for op in function.ops:
            if isinstance(op, Call) and op.callee not in module.functions:
                declarations.setdefault(op.callee, _declaration(op))
    return declarations


def _declaration(call: Call) -> Function:
    parameters = [Parameter(Value(v.type)) for v in call.arguments]
    return Function(call.callee, parameters, call.types, location=call.location)
