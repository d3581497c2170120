"""The checked stub of the derived methods, for editors and type checkers.

`python -m tileir.builder.stubs` writes it to `builder/ops.pyi`; a test holds the two equal.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

import attrs

from tileir.builder.arguments import keyword_of
from tileir.builder.ops import method_name
from tileir.effects import Effects
from tileir.field import AttributeKind, Field, FieldKind
from tileir.op import Op, all_ops

_IMPORTS = '''"""Written by `python -m tileir.builder.stubs` from the fields of the ops."""

from collections.abc import Callable, Sequence
from inspect import Signature
from typing import Any, Literal, TypeAlias

from tileir.builder.arguments import MethodSignature
from tileir.builder.builder import Builder
from tileir.builder.expr import Expr
from tileir.errors import Location
from tileir.op import Op
from tileir.types import Type
from tileir.values import Constant, Undef, Value

Number: TypeAlias = int | float | bool
Item: TypeAlias = Expr | Value | Constant | Undef | Number
Names: TypeAlias = str | tuple[str, ...] | None
'''

_FUNCTIONS = """
def method_name(mnemonic: str) -> str: ...
def signature(plan: MethodSignature) -> Signature: ...
def insert(
    builder: Builder, plan: MethodSignature, arguments: tuple[Any, ...], named: dict[str, Any]
) -> Any: ...
def insert_fields(
    builder: Builder, kind: type[Op], fields: dict[str, Any], location: Any, extras: dict[str, Any]
) -> Op: ...
def wrap_results(builder: Builder, results: tuple[Value, ...]) -> Any: ...

class DerivedOps:
"""

_ITEMS = {
    FieldKind.OPERAND: "Item",
    FieldKind.OPTIONAL: "Item | None",
    FieldKind.VARIADIC: "Sequence[Item] | Item",
    FieldKind.PAIRS: "Sequence[tuple[Item, Item]]",
    FieldKind.SYMBOL: "str",
}
_FORMS = {
    "int": "int", "bool": "bool", "float": "float", "string": "str", "ints": "Sequence[int]",
    "strings": "Sequence[str]", "symbol": "str", "type": "Type", "layout": "object",
}  # fmt: skip

_WIDTH = 100


def stub() -> str:
    """The text of `ops.pyi`."""
    methods = "\n".join(_method(kind) for kind in derived_ops())
    return "".join((_IMPORTS, *_aliases(), _FUNCTIONS, methods))


def derived_ops() -> Iterable[type[Op]]:
    """The ops a builder has a derived method for: all but those that end blocks."""
    return (k for k in all_ops() if Effects.CONTROL not in k.effects_ and k.mnemonic != "call")


def _aliases() -> Iterable[str]:
    """A definition for the words of each enum that is an attribute."""
    attributes = (
        f.attribute for kind in derived_ops() for f in kind.schema if f.attribute is not None
    )
    enums = {a.enum.__name__: a.enum for a in attributes if a.enum is not None}
    for name, enum in sorted(enums.items()):
        words = [f'"{member.value}"' for member in enum]
        line = f"{name}: TypeAlias = Literal[{', '.join(words)}]"
        if len(line) <= _WIDTH:
            yield f"{line}\n"
        else:
            body = "".join(f"    {word},\n" for word in words)
            yield f"{name}: TypeAlias = Literal[\n{body}]\n"


def _method(kind: type[Op]) -> str:
    lines = [f"    def {method_name(kind.mnemonic)}(", "        self,"]
    starred = False
    for field in _in_order(kind):
        if field.kind is FieldKind.ATTRIBUTE and not starred:
            lines.append("        *,")
            starred = True
        lines.append(f"        {keyword_of(field)}: {_annotation(field)}{_default(field)},")
    lines += [] if starred else ["        *,"]
    lines += [
        "        result: Names = None,",
        "        when: Expr | Value | None = None,",
        "        location: Location | None = None,",
        f"    ) -> {_return_type(kind)}:",
    ]
    return "\n".join((*lines, _documentation(kind), ""))


def _in_order(kind: type[Op]) -> list[Field]:
    return sorted(kind.schema, key=lambda f: f.kind is FieldKind.ATTRIBUTE)


def _annotation(field: Field) -> str:
    if field.kind is FieldKind.RESULT_TYPE:
        return "Type" if field.pattern is not None else "Type | Sequence[Type]"
    if field.attribute is None:
        return _ITEMS[field.kind]
    return _form(field.attribute) + (" | None" if field.default is None else "")


def _form(attribute: AttributeKind) -> str:
    if attribute.enum is None:
        return _FORMS[attribute.form]
    word = attribute.enum.__name__
    return f"{word} | str | Callable[..., Any]" if attribute.form == "combiner" else word


def _default(field: Field) -> str:
    if field.default is attrs.NOTHING:
        return ""
    return " = ..." if field.default is not None else " = None"


def _return_type(kind: type[Op]) -> str:
    """The return type of the method; Any if the number of results depends on the call."""
    count = len(kind.results_)
    if kind.infer is not Op.infer:
        several = any(f.kind is FieldKind.VARIADIC for f in kind.schema)
        example = _EXAMPLE.search(kind.__doc__ or "")
        if several or example is None:
            return "Any"
        count = example[1].count("%") + example[1].count("_,")
    if count == 0:
        return "None"
    return "Expr" if count == 1 else f"tuple[{', '.join(['Expr'] * count)}]"


_EXAMPLE = re.compile(r"`(%[^=`]*) = ")


def _documentation(kind: type[Op]) -> str:
    """The first paragraph of the op's documentation."""
    paragraph = " ".join((kind.__doc__ or "").strip().split("\n\n")[0].split())
    indent = " " * 8
    quoted = f'"""{paragraph}"""'.replace("\\", "\\\\")
    return textwrap.fill(quoted, 96, initial_indent=indent, subsequent_indent=indent)


if __name__ == "__main__":
    Path(__file__).with_name("ops.pyi").write_text(stub())
