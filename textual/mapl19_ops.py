"""One instruction in the spelling of the MAPL 2019 paper.

An instruction states the type of its result where that does not follow from its operands, and may
state it elsewhere; one without a result may state the type of one of its operands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import attrs

from tileir.errors import VerifyError
from tileir.field import FieldKind
from tileir.ir import Function
from tileir.op import Op, all_ops, lookup
from tileir.ops.arith import FloatPredicate, IntegerPredicate
from tileir.ops.symbols import Call
from tileir.textual.attributes import unquote
from tileir.textual.lexer import NAME, Cursor, Token, suggestion
from tileir.textual.literals import is_literal, read_literal
from tileir.textual.scope import POISON, ValueScope, hint
from tileir.textual.statements import Pending, StatementReader
from tileir.textual.types import read_tile, read_type, read_types, starts_type
from tileir.types import F32, I1, I32, VOID, Pointer, Scalar, Type, element_of, shape_of
from tileir.values import Operand, Value

_BY_ELEMENT = {
    "add": ("add", "fadd"), "sub": ("sub", "fsub"), "mul": ("mul", "fmul"),
    "div": ("sdiv", "fdiv"), "rem": ("srem", "frem"), "neg": ("neg", "fneg"),
    "abs": ("iabs", "fabs"), "max": ("smax", "fmaximum"), "min": ("smin", "fminimum"),
    "cmp": ("icmp", "fcmp"), "icmp": ("icmp", "fcmp"),
}  # fmt: skip
"""The names of an op for integers and pointers, and for floats."""

_COMPARISONS = {"icmp": IntegerPredicate, "fcmp": FloatPredicate}
MAX_CALLS = 32
"""Most calls within calls."""

_RETILING = ("reshape", "broadcast")
_VALUE = re.compile(rf"%{NAME}")


class PaperScope(ValueScope):
    """Names of one function, and the signatures that its calls may use."""

    def __init__(
        self, layouts: dict[str, object], text: str, start: int, functions: Mapping[str, Function]
    ) -> None:
        super().__init__(layouts, text, start)
        self.functions = functions

    def type(self, name: str) -> Type | None:
        """The type of the value `%name`, void of one in error; None where it is not known yet."""
        value = self.values.get(name[1:])
        return None if value is None else value.type

    def expect(self, cursor: Cursor, token: Token, type: Type) -> Value:
        """The value `token` names, of `type` where its definition is still to come."""
        name = token.text[1:]
        if name not in self.values and self._definition(name) is not None:
            self.values[name] = self._ahead[name] = Value(type, hint(name))
        return self.value(cursor, token)

    def expected_type(self, name: str | None) -> Type | None:
        """The type that uses of `%name` before its definition assume."""
        result = self._ahead.get(name) if name is not None else None
        return None if result is None or result.type is VOID else result.type

    def poison(self, value: Value) -> None:
        """Mark `value` as defined by an erroneous line, so that errors of ops that read it are not
        reported."""
        self.values.update((n, POISON) for n, v in [*self.values.items()] if v is value)

    def _forward(self, cursor: Cursor, token: Token, name: str) -> Value:
        result = self._definition(name)
        if result is not None and self._stated_type(cursor, result) is None:
            message = f"the type of {token.text}, which is defined below, is not written there"
            cursor.fail("TIR0008", message, token)
        return super()._forward(cursor, token, name)


class PaperStatement(StatementReader):
    """Reads one instruction."""

    scope: PaperScope

    def __init__(self, cursor: Cursor, scope: PaperScope, depth: int = 0) -> None:
        super().__init__(cursor, scope)
        self.before: list[Op] = []
        """Calls among the operands."""
        self.depth = depth
        self.stated: tuple[Type, ...] = ()
        self.relation: Token | None = None
        self.first: Type | None = None
        """The type of the first value among the operands."""
        self.alias = False

    def all(self) -> list[Op] | None:
        """The ops of the line, its calls first; None where an earlier error left one out."""
        result = self.read()
        if result is None:
            return [] if self.alias else None
        return [*self.before, result]

    def _op(self, predicate: Operand | None, comments: tuple[str, ...]) -> Op | None:
        cursor = self.cursor
        token = cursor.take("word", "an op")
        self.tokens["mnemonic"] = token
        if token.text == "call":
            cls, arguments = Call, self._call()
        else:
            cls = self._class(token)
            if not self.stated and cls.fields(FieldKind.RESULT_TYPE):
                cursor.fail(
                    "TIR0013", f"`{token.text}` needs the type of its result before operands"
                )
            arguments = self._arguments(cls)
        attributes = self._attributes(cls)
        location = self._written_location() or self.location
        if not self._at_end():
            cursor.fail_expected("the end of the line")
        if self.poisoned:
            return None
        if token.text == "broadcast" and predicate is None and self._is_alias(arguments):
            cursor.comments[:0] = comments
            return None
        return self._construct(
            cls, arguments,
            {**attributes, "predicate": predicate, "location": location,
             "comments": comments + cursor.take_comments()},
        )  # fmt: skip

    # The op, and the type before its operands ----------------------------------------------------

    def _class(self, token: Token) -> type[Op]:
        """The op that `token` names, once its leading words and types are read."""
        self.first = self._first_type()
        relation = self.cursor.token
        comparing = _BY_ELEMENT.get(token.text, (token.text,))[0] in _COMPARISONS
        if comparing and relation.kind == "word" and not starts_type(relation):
            self.relation = self.cursor.next()
        self._state(comparing)
        kind = self.first or (self.stated[0] if self.stated else None)
        names = _BY_ELEMENT.get(token.text, (token.text,) * 2)
        name = names[_is_float(kind)]
        if token.text in _RETILING and isinstance(self.first, Scalar | Pointer):
            name = "splat"
        if token.text == "br" and self._has_condition():
            name = "cond_br"
        result = lookup(name)
        return result if result is not None else self._unknown(token)

    def _state(self, comparing: bool) -> None:
        cursor = self.cursor
        self.tokens["results"] = cursor.token
        if cursor.at("<"):
            self.stated = (read_tile(cursor, self._element(), self.scope.layouts),)
        elif starts_type(cursor.token) or cursor.at("("):
            self.stated = read_types(cursor, self.scope.layouts)
        if self.results.names and not comparing:
            self.results = attrs.evolve(self.results, types=self.stated)
            if self.stated:
                self._check_count(self.stated)

    def _element(self) -> Any:
        """The element type of `<8, 8>` without one: that of the operand."""
        if self.first is None or self.first is VOID:
            self.cursor.fail("TIR0008", "the element type does not follow; write it before `<`")
        return element_of(self.first)

    def _first_type(self) -> Type | None:
        result = _VALUE.search(self._rest_of_line())
        type_ = None if result is None else self.scope.type(result[0])
        return None if type_ is VOID else type_

    def _rest_of_line(self) -> str:
        """The rest of the line, without a comment."""
        return self.cursor.rest_of_line().partition(";")[0]

    def _has_condition(self) -> bool:
        return bool(self.stated) or "," in self._rest_of_line().partition("{")[0]

    def _at_end(self) -> bool:
        return self.cursor.token.kind in ("newline", "end")

    def _unknown(self, token: Token) -> NoReturn:
        near = suggestion(token.text, [*_BY_ELEMENT, *(c.mnemonic for c in all_ops())])
        self.cursor.fail("TIR0003", f"unknown op `{token.text}`{near}", token)

    # Operands ------------------------------------------------------------------------------------

    def _operand(self) -> Pending:
        cursor, token = self.cursor, self.cursor.token
        if cursor.at("call"):
            return self._nested_call()
        if not starts_type(token):
            return super()._operand()
        type_ = read_type(cursor, self.scope.layouts)
        if is_literal(cursor.token):
            return Pending(token, read_literal(cursor, cursor.next(), type_), written=True)
        value = self._value(cursor.take("value", "a value or a literal after its type"))
        if value is not POISON and value.type is not type_:
            cursor.fail("TIR0101", f"the operand is {value.type}, not {type_}", token)
        return Pending(token, value)

    def _bare(self, type_: Type | None, token: Token) -> Operand:
        return super()._bare(type_ or (self.stated[0] if self.stated else None), token)

    def _label(self, expected: str) -> str:
        cursor = self.cursor
        word = cursor.token
        if cursor.accept("label") and (self._at_end() or cursor.at(",")):
            return word.text
        return cursor.next().text[1:] if cursor.token.kind == "value" else super()._label(expected)

    # Calls ---------------------------------------------------------------------------------------

    def _call(self, nested: bool = False) -> list[Any]:
        """The arguments of `Call`, from the text after the word `call`."""
        cursor = self.cursor
        self._state(comparing=False)
        token = cursor.token
        if token.kind not in ("symbol", "word"):
            cursor.fail_expected("the name of a function")
        callee = unquote(cursor, token, token.text.removeprefix("@"))
        self.tokens["callee"] = cursor.next()
        function = self.scope.functions.get(callee)
        types = self.stated if function is None or self.stated else function.results
        types = tuple(t for t in types if t is not VOID)
        if not types and (nested or self.results.names):
            cursor.fail("TIR0013", f"the result type of @{callee} is unknown here", token)
        parameters = () if function is None else [p.type for p in function.parameters]
        return [types, callee, self._call_arguments(parameters)]

    def _call_arguments(self, types: Sequence[Type]) -> tuple[Operand, ...]:
        cursor = self.cursor
        closed = cursor.accept("(")
        call_arguments: list[Operand] = []
        more = not cursor.at(")") if closed else cursor.accept(",")
        while more:
            item = self._operand()
            type_ = (
                types[len(call_arguments)]
                if len(call_arguments) < len(types)
                else _usual_type(item.token)
            )
            call_arguments.append(item.operand or super()._bare(type_, item.token))
            more = cursor.accept(",")
        if closed:
            cursor.expect(")", "the arguments")
        return tuple(call_arguments)

    def _nested_call(self) -> Pending:
        cursor, token = self.cursor, self.cursor.next()
        if self.depth == MAX_CALLS:
            cursor.fail("TIR0017", f"more than {MAX_CALLS} nested calls", token)
        inner = PaperStatement(cursor, self.scope, self.depth + 1)
        inner.tokens["mnemonic"] = token
        arguments = inner._call(nested=True)
        if len(arguments[0]) != 1:
            cursor.fail("TIR0013", "a call among operands has one result", token)
        call = Call(*arguments, location=inner.location)
        self.poisoned |= inner.poisoned
        self.before += [*inner.before, call]
        return Pending(token, call.result)

    # Attributes and results ----------------------------------------------------------------------

    def _attributes(self, cls: type[Op]) -> dict[str, Any]:
        if self.relation is not None:
            return {"predicate_": self._predicate_word(cls, self.relation)}
        if cls.mnemonic == "trans" and not self.cursor.at("{") and self.first is not None:
            return {"order": tuple(reversed(range(len(shape_of(self.first)))))}
        return super()._attributes(cls)

    def _predicate_word(self, cls: type[Op], token: Token) -> Any:
        members = {str(m.value): m for m in _COMPARISONS[cls.mnemonic]}
        member = members.get(token.text)
        if member is None:
            near = suggestion(token.text, list(members))
            message = f"`{token.text}` is none of {', '.join(members)}{near}"
            self.cursor.fail("TIR0023", message, token)
        return member

    def _is_alias(self, arguments: list[Any]) -> bool:
        """Whether the line broadcasts a value to its own type; its name then stands for it."""
        value, stated = arguments[0], self.results
        if not isinstance(value, Value) or stated.types != (value.type,):
            return False
        if self.scope.expected_type(stated.names[0]) is not None:
            return False
        self.alias = True
        if stated.names[0] is not None:
            self.scope.define(self.cursor, stated.names[0], stated.tokens[0], value)
        return True

    def _construct(self, cls: type[Op], arguments: list[Any], settings: dict[str, Any]) -> Op:
        try:
            result = cls(*arguments, **settings)
        except VerifyError as error:
            self._reject(error)
        self._check_stated(result)
        self._complete(tuple(v.type for v in result.results))
        return super()._construct(cls, arguments, settings)

    def _check_stated(self, op: Op) -> None:
        results = tuple(v.type for v in op.results)
        if not self.stated or self.stated == results:
            return
        inputs = tuple(v.type for v in op.inputs)
        takes = self.relation is not None or not results
        if takes and (set(self.stated) <= set(inputs) or (self.stated, inputs) == ((VOID,), ())):
            return
        if isinstance(op, Call) and self.stated == (VOID,):
            return
        shown = ", ".join(map(str, results or inputs)) or "void"
        message = f"the type is {shown}, not {', '.join(map(str, self.stated))}"
        self.cursor.fail("TIR0102", message, self.tokens["results"])

    def _complete(self, types: tuple[Type, ...]) -> None:
        """Give the results their types, and those left out their places."""
        names, tokens = self.results.names, self.results.tokens
        comparison = len(types) == 2 and len(names) == 1 and self.tokens["mnemonic"].text in (
            "cmp", *_COMPARISONS
        )  # fmt: skip
        call = not names and self.tokens["mnemonic"].text == "call"
        missing = len(types) - len(names) if comparison or call else 0
        names += (None,) * missing
        tokens += (self.tokens["mnemonic"],) * missing
        if len(names) != len(types):
            message = f"{len(names)} names for {len(types)} results"
            self.cursor.fail("TIR0013", message, self.tokens["mnemonic"])
        for name, token, type_ in zip(names, tokens, types, strict=True):
            expected = self.scope.expected_type(name)
            if expected not in (None, type_):
                message = f"{token.text} is {type_}, and {expected} in the phi that reads it"
                self.cursor.fail("TIR0015", message, token)
        self.results = attrs.evolve(self.results, names=names, tokens=tokens, types=types)


def _is_float(type: Type | None) -> bool:
    element = None if type is None or type is VOID else element_of(type)
    return isinstance(element, Scalar) and element.is_float


def _usual_type(token: Token) -> Type | None:
    """The type of a literal given to a function that is not declared: what C would take."""
    text = token.text
    if text in ("true", "false"):
        return I1
    if text in ("null", "undef"):
        return None
    decimal = not text.startswith("0x") and any(c in text for c in ".en")
    return F32 if decimal else I32
