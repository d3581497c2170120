"""Modules to text: the canonical form, the fixpoint of printing and reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from operator import attrgetter
from typing import Any, cast

import attrs

from tileir.field import FieldKind, Successor
from tileir.ir import (
    Block,
    Function,
    Global,
    Inline,
    Linkage,
    Module,
    Parameter,
    Visibility,
    usual_space,
)
from tileir.op import Op
from tileir.textual.attributes import (
    format_label,
    format_string,
    format_symbol,
    format_value,
)
from tileir.textual.literals import OPERAND_KINDS, LiteralTypes, format_bits
from tileir.types import I1, Buffer, Descriptor, Tile, Type, element_of
from tileir.values import Constant, Operand, Value

_BAD = re.compile(r"[^\w.$-]", re.ASCII)


def print_module(module: Module) -> str:
    """The canonical text of `module`."""
    layouts = _layout_aliases(module)
    lines = [*_comments(module.header_comments), f"tir {'.'.join(map(str, module.version))}"]
    if module.stage is not None:
        lines.append(f"stage {format_string(module.stage)}")
    for layout, alias in layouts.items():
        lines.append(f"{alias} = {layout}")
    if module.metadata:
        entries = [f"  {k} = {format_value(v)}" for k, v in module.metadata.items()]
        lines += ["", "metadata {", ",\n".join(entries), "}"]
    if module.globals:
        lines.append("")
        lines += [line for g in module.globals.values() for line in _global(g)]
    for function in module.functions.values():
        lines += ["", *_FunctionPrinter(function, layouts).lines()]
    if module.comments:
        lines += ["", *_comments(module.comments)]
    return "\n".join(lines) + "\n"


def print_function(function: Function) -> str:
    """The text of one function; layouts are written out."""
    return "\n".join(_FunctionPrinter(function, {}).lines()) + "\n"


def print_op(op: Op) -> str:
    """The line of one op, values named by their hints."""
    printer = _FunctionPrinter(Function("op"), {})
    for value in (*op.operands, *op.results):
        if isinstance(value, Value):
            printer.name(value)
    return printer.op(op)


def _comments(comments: Iterable[str], indent: str = "") -> list[str]:
    return [f"{indent}; {c}" if c else f"{indent};" for c in comments]


def _global(g: Global) -> Iterator[str]:
    yield from _comments(g.comments)
    words = ["declare"] if g.external else []
    words += _symbol_words(g.visibility, g.linkage, g.alignment)
    count = f"<{g.count}>" if g.count != 1 else ""
    words.append("constant" if g.constant else "global")
    words += [f"addrspace({int(g.space)})"] if g.space != usual_space(g.constant) else []
    words += [f"{g.element}{count}", format_symbol(g.name)]
    if g.initial is not None:
        shown = [format_bits(g.element, c.bits) for c in g.initial]
        words += ["=", shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"]
    yield " ".join(words)


def _symbol_words(visibility: Visibility, linkage: Linkage, alignment: int) -> list[str]:
    words = [] if visibility is Visibility.PUBLIC else [visibility.value]
    words += [] if linkage is Linkage.EXTERNAL else [linkage.value]
    return words + ([f"align {alignment}"] if alignment else [])


def _layout_aliases(module: Module) -> dict[Any, str]:
    """Each layout in use and its alias, in order of first appearance."""
    found: dict[Any, str] = {}
    if module.stage is None:
        return found
    for type_ in dict.fromkeys(_types(module)):
        tile = type_.block if isinstance(type_, Descriptor) else type_
        tile = tile.tile if isinstance(tile, Buffer) else tile
        if isinstance(tile, Tile) and tile.layout is not None and tile.layout not in found:
            found[tile.layout] = f"#l{len(found)}"
    return found


def _types(module: Module) -> Iterator[Type]:
    for function in module.functions.values():
        yield from function.results
        yield from (p.type for p in function.parameters)
        for block in function.blocks.values():
            yield from (v.type for v in block.parameters)
            for op in block.ops:
                yield from (v.type for v in op.results)
                yield from (v.type for v in op.operands)


@attrs.frozen(slots=True)
class _Plan:
    """What printing an op of one class needs: its fields, and whether it is the plain kind whose
    inputs are all it prints after the result type."""

    mnemonic: str
    plain: bool
    fields: tuple[Any, ...]
    attributes: Callable[[Any], Any] | None
    defaults: Any


@lru_cache(maxsize=1024)
def _plan(cls: type[Op]) -> _Plan:
    fields = tuple(f for f in cls.schema if f.kind is not FieldKind.ATTRIBUTE)
    named = [f for f in cls.schema if f.kind is FieldKind.ATTRIBUTE]
    simple = {FieldKind.OPERAND, FieldKind.RESULT_TYPE, FieldKind.VARIADIC}
    get = attrgetter(*(f.name for f in named)) if named else None
    defaults = tuple(f.default for f in named)
    return _Plan(
        cls.mnemonic, simple.issuperset(f.kind for f in fields), fields, get,
        defaults if len(defaults) != 1 else defaults[0],
    )  # fmt: skip


class _FunctionPrinter:
    """Prints one function; names its values as they come."""

    def __init__(self, function: Function, layouts: dict[Any, str]) -> None:
        self.function, self.layouts = function, layouts
        self.names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._next = 0
        self._read: set[Operand] | None = None
        self._type_texts: dict[Type, str] = {}
        self._incoming: dict[str, list[tuple[str, Successor]]] = {}

    def lines(self) -> Iterator[str]:
        function = self.function
        yield from _comments(function.comments)
        if function.is_declaration:
            yield self._header("declare")
            return
        self._name_all()
        for block in function.blocks.values():
            for edge in block.successors:
                arrivals = self._incoming.setdefault(edge.label, [])
                if all(label != block.label for label, _ in arrivals):
                    arrivals.append((block.label, edge))
        yield self._header("define") + " {"
        for block in function.blocks.values():
            yield from self._block(block)
        yield "}"

    # Names ------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """The name of `value`, its hint made unique, or the next number."""
        known = self.names.get(value)
        if known is not None:
            return known
        wanted = _BAD.sub("_", value.name) if value.name else ""
        if not wanted or wanted.isdigit():
            wanted = str(self._next)
            self._next += 1
        chosen, count = wanted, 1
        while chosen in self._taken:
            chosen, count = f"{wanted}.{count}", count + 1
        self._taken.add(chosen)
        self.names[value] = text = f"%{chosen}"
        return text

    def _name_all(self) -> None:
        """Name values in the order of the text, so that uses before definitions agree."""
        for parameter in self.function.parameters:
            self.name(parameter.value)
        names, taken = self.names, self._taken
        for block in self.function.blocks.values():
            for value in block.parameters:
                self.name(value)
            for op in block.ops:
                for value in op.results:
                    hint = value.name
                    if hint is None:
                        if self._is_read(value):
                            self.name(value)
                    elif hint in taken or _BAD.search(hint) or not hint or hint.isdigit():
                        self.name(value)
                    else:
                        taken.add(hint)
                        names[value] = "%" + hint

    def _is_read(self, value: Value) -> bool:
        if self._read is None:
            ops = (op for block in self.function.blocks.values() for op in block.ops)
            self._read = {v for op in ops for v in op.operands if type(v) is Value}
        return value in self._read

    # Header -----------------------------------------------------------------------------------

    def _header(self, word: str) -> str:
        f = self.function
        words = [word, *(["kernel"] if f.kernel else [])]
        words += _symbol_words(f.visibility, f.linkage, 0)
        words += [] if f.inline is Inline.AUTO else [f.inline.value]
        words += [f"align {f.alignment}"] if f.alignment else []
        results = [self.type(t) for t in f.results]
        words.append("void" if not results else self._several(results))
        parameters = ", ".join(self._parameter(p) for p in f.parameters)
        words.append(f"{format_symbol(f.name)}({parameters})")
        if f.attributes:
            pairs = ", ".join(f"{k} = {format_value(v)}" for k, v in f.attributes.items())
            words.append(f"{{{pairs}}}")
        words += self._location(f.location)
        return " ".join(words)

    def _parameter(self, p: Parameter) -> str:
        a = p.attributes
        words = [self.type(p.type)]
        words += [f"aligned({a.aligned})"] if a.aligned else []
        words += [f"multiple_of({a.multiple_of})"] if a.multiple_of else []
        words += [w for w in ("readonly", "writeonly", "noalias") if getattr(a, w)]
        return " ".join([*words, self.name(p.value), *self._location(p.location)])

    def _location(self, location: Any) -> list[str]:
        if location is None or not location.written:
            return []
        return [f"loc({format_string(location.file)}:{location.line}:{location.column})"]

    @staticmethod
    def _several(texts: list[str]) -> str:
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    # Types and operands -------------------------------------------------------------------------

    def type(self, type_: Type) -> str:
        """The text of a type, its layout by alias where there is one."""
        found = self._type_texts.get(type_)
        if found is None:
            found = self._type_texts[type_] = self._spelled(type_)
        return found

    def _spelled(self, type_: Type) -> str:
        if isinstance(type_, Tile) and type_.layout in self.layouts:
            dims = ", ".join(map(str, type_.shape))
            return f"{type_.element}<{dims}, {self.layouts[type_.layout]}>"
        if isinstance(type_, Descriptor):
            return f"tensor_desc<{self._spelled(type_.block)}>"
        if isinstance(type_, Buffer):
            times = "" if type_.count == 1 else f", {type_.count}"
            return f"shared<{self._spelled(type_.tile)}{times}>"
        return str(type_)

    def _operand(self, operand: Operand, bare: Type | None) -> str:
        if type(operand) is Value:
            return self.names.get(operand) or self.name(operand)
        text = "undef"
        if isinstance(operand, Constant):
            text = format_bits(element_of(operand.type), operand.bits)
        return text if operand.type is bare else f"{self.type(operand.type)} {text}"

    # Blocks and ops ---------------------------------------------------------------------------

    def _block(self, block: Block) -> Iterator[str]:
        yield from _comments(block.comments)
        yield f"{format_label(block.label)}:"
        for index, value in enumerate(block.parameters):
            yield self._phi(block.label, index, value)
        for op in block.ops:
            if op.comments:
                yield from _comments(op.comments, "  ")
            yield "  " + self.op(op)

    def _phi(self, label: str, index: int, value: Value) -> str:
        pairs = [
            f"[{self._operand(edge.arguments[index], value.type)}, {format_label(source)}]"
            for source, edge in self._incoming.get(label, [])
        ]
        return f"  {self.name(value)} = phi {self.type(value.type)} {', '.join(pairs)}"

    def op(self, op: Op) -> str:
        """The line of `op`, without indentation and comments."""
        plan = _plan(type(op))
        names = self.names
        results = op.results
        head = plan.mnemonic
        if len(results) == 1:
            value = results[0]
            kind = self._type_texts.get(value.type) or self.type(value.type)
            head = f"{names.get(value, '_')} = {head} {kind}"
        elif results:
            left = ", ".join([names.get(v, "_") for v in results])
            head = f"{left} = {head} {self._several([self.type(v.type) for v in results])}"
        inputs = op.inputs
        if plan.plain and all([type(v) is Value for v in inputs]):  # noqa: C419 - faster
            values = cast("tuple[Value, ...]", inputs)
            operands = ", ".join([names.get(v) or self.name(v) for v in values])
        else:
            operands = ", ".join(self._operands(op, plan))
        text = f"{head} {operands}" if operands else head
        if plan.attributes is not None and plan.attributes(op) != plan.defaults:
            text += self._attributes(op)
        if op.predicate is not None:
            text = f"{self._predicate(op.predicate)} {text}"
        if op.location is not None and op.location.written:
            text += " " + self._location(op.location)[0]
        return text

    def _predicate(self, predicate: Operand) -> str:
        text = self._operand(predicate, I1)
        return f"@({text})" if " " in text else f"@{text}"

    def _attributes(self, op: Op) -> str:
        shown = [
            f"{f.spelling} = {format_value(value, f.attribute)}"
            for f in op.fields(FieldKind.ATTRIBUTE)
            if (value := getattr(op, f.name)) is not None and not _is(value, f.default)
        ]
        return f" {{{', '.join(shown)}}}" if shown else ""

    def _operands(self, op: Op, plan: _Plan) -> list[str]:
        literals = LiteralTypes(type(op), tuple(v.type for v in op.results))
        for field, index, value in _inputs(op, plan):
            if type(value) is Value:
                literals.learn(field, index, value.type)
        shown: list[str] = []
        for field in plan.fields:
            value = getattr(op, field.name)
            if field.kind is FieldKind.SYMBOL:
                shown.append(format_symbol(value))
            elif field.kind is FieldKind.SUCCESSOR:
                shown.append(format_label(value.label))
            elif field.kind in OPERAND_KINDS:
                shown += self._field(field, value, literals)
        while shown and shown[-1] == "none":
            shown.pop()
        return shown

    def _field(self, field: Any, value: Any, literals: LiteralTypes) -> list[str]:
        if value is None:
            return ["none"]
        several = field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS)
        shown: list[str] = []
        for index, item in enumerate(value if several else (value,)):
            shown.append(self._operand(item, literals.of(field, index)))
            literals.learn(field, index, item.type)
        if field.kind is not FieldKind.PAIRS:
            return shown
        return [f"[{a}, {b}]" for a, b in zip(shown[::2], shown[1::2], strict=True)]


def _is(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


def _inputs(op: Op, plan: _Plan) -> Iterator[tuple[Any, int, Operand]]:
    for field in plan.fields:
        if field.kind in OPERAND_KINDS:
            value = getattr(op, field.name)
            if value is not None:
                several = field.kind in (FieldKind.VARIADIC, FieldKind.PAIRS)
                yield from ((field, i, v) for i, v in enumerate(value if several else (value,)))
