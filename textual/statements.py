"""Reading one op: the same grammar for every mnemonic, driven by the fields it declares."""

from __future__ import annotations

from typing import Any, NoReturn

import attrs

from tileir.errors import Diagnostic, Location, ParseError, VerifyError
from tileir.field import SEVERAL, Field, FieldKind, Successor, attribute_schema
from tileir.op import Op, all_ops, lookup
from tileir.textual.attributes import read_dict, read_label, read_location, read_symbol
from tileir.textual.lexer import Cursor, Token, suggestion
from tileir.textual.literals import OPERAND_KINDS, LiteralTypes, is_literal, read_literal
from tileir.textual.scope import POISON, ValueScope
from tileir.textual.types import read_type, read_types, starts_type
from tileir.types import I1, Type
from tileir.values import Operand, Value


@attrs.define(eq=False, repr=False)
class Pending:
    """An operand as read: a value, or a literal whose type may follow from the others."""

    token: Token
    operand: Operand | None
    written: bool = False


@attrs.frozen(eq=False, repr=False)
class ResultList:
    """The left side of `=`: names (None for `_`), their tokens, and the explicit types."""

    names: tuple[str | None, ...] = ()
    tokens: tuple[Token, ...] = ()
    types: tuple[Type, ...] = ()
    type_token: Token | None = None


def read_statement(cursor: Cursor, scope: ValueScope) -> Op | None:
    """The op at the cursor, its results defined in `scope`.

    None where an operand has no value because of an earlier error; its results have none either.
    """
    return StatementReader(cursor, scope).read()


class StatementReader:
    """Reads one op; a subclass may spell its parts differently."""

    def __init__(self, cursor: Cursor, scope: ValueScope) -> None:
        self.cursor, self.scope = cursor, scope
        self.location = cursor.location()
        self.tokens: dict[str, Token] = {}
        self.poisoned = False
        self.results = ResultList()

    def read(self) -> Op | None:
        comments = self.cursor.take_comments()
        try:
            predicate = self._predicate()
            self.results = read_results(self.cursor)
            result = self._op(predicate, comments)
        except ParseError:
            self._poison()
            raise
        if result is None:
            self._poison()
            return None
        if len(self.results.names) != len(result.results):
            count = len(result.results)
            message = f"{result.mnemonic} has {count} result{'s'[: count != 1]}; name each, or `_`"
            self.cursor.fail("TIR0013", message, self.tokens["mnemonic"])
        return result

    def _poison(self) -> None:
        for name, token in zip(self.results.names, self.results.tokens, strict=True):
            if name is not None and name not in self.scope.values:
                self.scope.define(self.cursor, name, token, POISON)

    def _predicate(self) -> Operand | None:
        if not self.cursor.accept("@"):
            return None
        token = self.cursor.token
        self.tokens["predicate"] = token
        if is_literal(token):
            return read_literal(self.cursor, self.cursor.next(), I1)
        if self.cursor.accept("("):
            type_ = read_type(self.cursor, self.scope.layouts)
            if not is_literal(self.cursor.token):
                self.cursor.fail_expected("a literal after its type")
            literal = read_literal(self.cursor, self.cursor.next(), type_)
            self.cursor.expect(")", "the predicate")
            return literal
        return self._value(self.cursor.take("value", "a predicate"))

    def _op(self, predicate: Operand | None, comments: tuple[str, ...]) -> Op | None:
        cursor = self.cursor
        token = cursor.take("word", "an op")
        self.tokens["mnemonic"] = token
        cls = lookup(token.text)
        if cls is None:
            near = suggestion(token.text, [c.mnemonic for c in all_ops()])
            cursor.fail("TIR0003", f"unknown op `{token.text}`{near}", token)
        if self.results.names:
            self.tokens["results"] = cursor.token
            types = read_types(cursor, self.scope.layouts)
            self.results = attrs.evolve(self.results, types=types)
            self._check_count(types)
        arguments = self._arguments(cls)
        attributes = self._attributes(cls)
        location = self._written_location() or self.location
        if cursor.token.kind not in ("newline", "end"):
            cursor.fail_expected("the end of the line")
        if self.poisoned:
            return None
        return self._construct(
            cls, arguments,
            {**attributes, "predicate": predicate, "location": location,
             "comments": comments + cursor.take_comments()},
        )  # fmt: skip

    def _check_count(self, types: tuple[Type, ...]) -> None:
        if len(types) != len(self.results.names):
            message = f"{len(self.results.names)} results and {len(types)} result types"
            self.cursor.fail("TIR0013", message, self.tokens["results"])

    # Operands ---------------------------------------------------------------------------------

    def _arguments(self, cls: type[Op]) -> list[Any]:
        fields = [f for f in cls.schema if f.kind is not FieldKind.ATTRIBUTE]
        read: list[tuple[Field, Any]] = []
        first = True
        for field in fields:
            if field.kind is FieldKind.RESULT_TYPE:
                self.tokens[field.name] = self.tokens.get("results", self.tokens["mnemonic"])
                read.append((field, self._stated_type(cls, field)))
                continue
            present = self._more(first)
            if not present and field.kind is not FieldKind.OPTIONAL and field.kind not in SEVERAL:
                self.cursor.fail("TIR0012", f"{cls.mnemonic} needs operand {field.name}")
            if present:
                self.tokens[field.name] = self.cursor.token
                first = False
            read.append((field, self._field(field) if present else self._absent(field)))
        if self._more(first):
            self.cursor.fail("TIR0012", f"{cls.mnemonic} takes no more operands")
        return self._typed_arguments(cls, read)

    def _more(self, first: bool) -> bool:
        """Whether another operand follows; the comma before it is taken."""
        if not first:
            return self.cursor.accept(",")
        token = self.cursor.token
        return token.kind not in ("newline", "end") and token.text not in ("{", "loc")

    def _absent(self, field: Field) -> Any:
        return None if field.kind is FieldKind.OPTIONAL else []

    def _stated_type(self, cls: type[Op], field: Field) -> Any:
        if field.pattern is None:
            return self.results.types
        if not self.results.types:
            message = f"{cls.mnemonic} needs a named result and its type"
            self.cursor.fail("TIR0013", message, self.tokens["mnemonic"])
        return self.results.types[0]

    def _field(self, field: Field) -> Any:
        cursor = self.cursor
        if field.kind is FieldKind.SYMBOL:
            return read_symbol(cursor, f"{field.name}, a symbol")
        if field.kind is FieldKind.SUCCESSOR:
            return self._label(f"{field.name}, a label")
        if field.kind is FieldKind.OPTIONAL and cursor.accept("none"):
            return None
        if field.kind in (FieldKind.OPERAND, FieldKind.OPTIONAL):
            return self._operand()
        one: Any = self._operand if field.kind is FieldKind.VARIADIC else self._pair
        result: list[Any] = [one()]
        while cursor.accept(","):
            result.append(one())
        return result if field.kind is FieldKind.VARIADIC else [x for p in result for x in p]

    def _label(self, expected: str) -> str:
        return read_label(self.cursor, expected)

    def _pair(self) -> Any:
        self.cursor.expect("[", "the list of pairs")
        first = self._operand()
        self.cursor.expect(",", "a pair's predicate")
        second = self._operand()
        self.cursor.expect("]", "a pair")
        return first, second

    def _operand(self) -> Pending:
        cursor, token = self.cursor, self.cursor.token
        if token.kind == "value":
            return Pending(token, self._value(cursor.next()))
        if is_literal(token):
            cursor.next()
            return Pending(token, None)
        if not starts_type(token):
            cursor.fail_expected("an operand")
        type_ = read_type(cursor, self.scope.layouts)
        if not is_literal(cursor.token):
            cursor.fail_expected("a literal after its type")
        literal = read_literal(cursor, cursor.next(), type_)
        return Pending(token, literal, written=True)

    def _value(self, token: Token) -> Value:
        value = self.scope.value(self.cursor, token)
        self.poisoned |= value is POISON
        return value

    def _typed_arguments(self, cls: type[Op], read: list[tuple[Field, Any]]) -> list[Any]:
        """The constructor's arguments: bare literals get the types that follow from the rest."""
        if self.poisoned:
            return []
        types = LiteralTypes(cls, self.results.types)
        for field, result in read:
            for index, item in enumerate(_pending(field, result)):
                if item.operand is not None:
                    types.learn(field, index, item.operand.type)
        arguments: list[Any] = []
        for field, result in read:
            for index, item in enumerate(_pending(field, result)):
                if item.operand is None:
                    item.operand = self._bare(types.of(field, index), item.token)
            arguments.append(_argument(field, result))
        return arguments

    def _bare(self, type_: Type | None, token: Token) -> Operand:
        if type_ is None:
            message = f"the type of `{token.text[:40]}` does not follow from the other operands"
            self.cursor.fail("TIR0008", message + "; write it before the literal", token)
        return read_literal(self.cursor, token, type_)

    # Attributes, location, construction ---------------------------------------------------------

    def _attributes(self, cls: type[Op]) -> dict[str, Any]:
        schema = attribute_schema(cls)
        result: dict[str, Any] = {}
        if self.cursor.at("{"):
            places: dict[str, Token] = {}
            result = read_dict(self.cursor, schema, self.scope.layouts, cls.mnemonic, places)
            self.tokens.update((schema[name].name, token) for name, token in places.items())
        for name, field in schema.items():
            if field.default is attrs.NOTHING and name not in result:
                token = self.tokens["mnemonic"]
                self.cursor.fail("TIR0010", f"{cls.mnemonic} needs attribute {name}", token)
        return {schema[name].name: value for name, value in result.items()}

    def _written_location(self) -> Location | None:
        return read_location(self.cursor) if self.cursor.at("loc") else None

    def _construct(self, cls: type[Op], arguments: list[Any], settings: dict[str, Any]) -> Op:
        cursor, stated = self.cursor, self.results
        results = tuple(
            self.scope.result(cursor, name, token, type_)
            for name, token, type_ in zip(stated.names, stated.tokens, stated.types, strict=True)
        )
        try:
            return cls(*arguments, **settings, results=results)
        except VerifyError as error:
            self._reject(error)

    def _reject(self, error: VerifyError) -> NoReturn:
        placed: list[Diagnostic] = []
        for d in error.diagnostics:
            token = self.tokens.get(str(d.operand)) or self.tokens["mnemonic"]
            location = self.cursor.location(token)
            placed.append(attrs.evolve(d, location=location, length=len(token.text)))
        raise ParseError(*placed)


def read_results(cursor: Cursor) -> ResultList:
    """`%a, _ =`, or nothing."""
    names: list[str | None] = []
    tokens: list[Token] = []
    defined: set[str] = set()
    while cursor.token.kind == "value" or cursor.at("_"):
        token = cursor.next()
        if token.text in defined:
            cursor.fail("TIR0006", f"{token.text} is defined twice", token)
        if token.text != "_":
            defined.add(token.text)
        names.append(None if token.text == "_" else token.text[1:])
        tokens.append(token)
        if not cursor.accept(","):
            break
    if names:
        cursor.expect("=", "the results")
    return ResultList(tuple(names), tuple(tokens))


def _pending(field: Field, item: Any) -> list[Pending]:
    if field.kind not in OPERAND_KINDS or item is None:
        return []
    return item if isinstance(item, list) else [item]


def _argument(field: Field, item: Any) -> Any:
    if field.kind is FieldKind.SUCCESSOR:
        return Successor(item)
    if field.kind not in OPERAND_KINDS or item is None:
        return item
    return tuple(p.operand for p in item) if isinstance(item, list) else item.operand
