"""Functions to text; the names of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from tileir.field import Successor
from tileir.ir import (
    Block,
    Function,
    InlineHint,
    Parameter,
)
from tileir.op import Op
from tileir.textual.attributes import (
    format_comments,
    format_label,
    format_settings,
    format_string,
    format_symbol,
    format_value,
)
from tileir.textual.literals import format_bits
from tileir.textual.print_plan import (
    PrintPlan,
    attributes_text,
    bare_types,
    field_texts,
    leading,
    plan_of,
)
from tileir.types import I1, Buffer, Descriptor, Tile, Type, element_of
from tileir.values import Constant, Operand, Value

_BAD = re.compile(r"[^\w.$-]", re.ASCII)


def function_lines(function: Function, layouts: dict[Any, str]) -> Iterator[str]:
    """The lines of `function`, layouts named by `layouts`."""
    return _FunctionPrinter(function, layouts).lines()


def print_function(function: Function) -> str:
    """The text of one function; layouts are written out."""
    return "\n".join(_FunctionPrinter(function, {}).lines()) + "\n"


def value_names(function: Function) -> Mapping[Value, str]:
    """The name of every value, as `print_module` shows it; of unnamed ones without uses
    none."""
    printer = _FunctionPrinter(function, {})
    printer.name_all()
    return printer.names


def print_op(op: Op) -> str:
    """The line of one op, values named by their hints."""
    printer = _FunctionPrinter(Function("op"), {})
    for value in (*op.operands, *op.results):
        if isinstance(value, Value):
            printer.name(value)
    return printer.op(op)


class _FunctionPrinter:
    """Prints one function; names its values as they come."""

    def __init__(self, function: Function, layouts: dict[Any, str]) -> None:
        self.function, self.layouts = function, layouts
        self.names: dict[Value, str] = {}
        self._used_names: set[str] = set()
        self._next = 0
        self._read: set[Operand] | None = None
        self._type_texts: dict[Type, str] = {}
        self._incoming: dict[str, list[tuple[str, Successor]]] = {}
        self._literals: dict[tuple[Type, int | None], str] = {}
        self._attribute_texts: dict[tuple[str, Any], str] = {}
        self._bare: dict[tuple[Any, ...], list[Type | None]] = {}
        self._suffixes: dict[str, int] = {}
        """The number to try next after each name; all smaller numbers are taken."""

    def lines(self) -> Iterator[str]:
        function = self.function
        yield from format_comments(function.comments)
        if function.is_declaration:
            yield self._header("declare")
            return
        self.name_all()
        for block in function.blocks.values():
            for edge in block.successors:
                if edge.arguments:
                    arrivals = self._incoming.setdefault(edge.label, [])
                    if not arrivals or arrivals[-1][0] != block.label:
                        arrivals.append((block.label, edge))
        yield self._header("define") + " {"
        for block in function.blocks.values():
            yield from self._block(block)
        yield "}"

    # Names ------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """The name of `value`, its hint made unique, or the next number."""
        name = self.names.get(value)
        if name is not None:
            return name
        required = _BAD.sub("_", value.name) if value.name else ""
        if not required or required.isdigit():
            required = str(self._next)
            self._next += 1
        chosen, count = required, self._suffixes.get(required, 1)
        while chosen in self._used_names:
            chosen, count = f"{required}.{count}", count + 1
        self._suffixes[required] = count
        self._used_names.add(chosen)
        self.names[value] = text = f"%{chosen}"
        return text

    def name_all(self) -> None:
        """Name values in the order of the text, so that uses before definitions agree."""
        for parameter in self.function.parameters:
            self.name(parameter.value)
        names, used = self.names, self._used_names
        for block in self.function.blocks.values():
            for value in block.parameters:
                self.name(value)
            for op in block.ops:
                for value in op.results:
                    hint = value.name
                    if hint is None:
                        if self._is_read(value):
                            self.name(value)
                    elif hint in used or _BAD.search(hint) or not hint or hint.isdigit():
                        self.name(value)
                    else:
                        used.add(hint)
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
        words += format_settings(f.visibility, f.linkage, 0)
        words += [] if f.inline is InlineHint.AUTO else [f.inline.value]
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
        type_text = self._type_texts.get(type_)
        if type_text is None:
            type_text = self._type_texts[type_] = self._type_text(type_)
        return type_text

    def _type_text(self, type_: Type) -> str:
        if isinstance(type_, Tile) and type_.layout in self.layouts:
            dims = ", ".join(map(str, type_.shape))
            return f"{type_.element}<{dims}, {self.layouts[type_.layout]}>"
        if isinstance(type_, Descriptor):
            return f"tensor_desc<{self._type_text(type_.block)}>"
        if isinstance(type_, Buffer):
            times = "" if type_.count == 1 else f", {type_.count}"
            return f"{type_.space}<{self._type_text(type_.tile)}{times}>"
        return str(type_)

    def _operand(self, operand: Operand, bare: Type | None) -> str:
        if type(operand) is Value:
            return self.names.get(operand) or self.name(operand)
        key = (operand.type, operand.bits if isinstance(operand, Constant) else None)
        text = self._literals.get(key)
        if text is None:
            text = "undef"
            if isinstance(operand, Constant):
                text = format_bits(element_of(operand.type), operand.bits)
            self._literals[key] = text
        return text if operand.type is bare else f"{self.type(operand.type)} {text}"

    # Blocks and ops ---------------------------------------------------------------------------

    def _block(self, block: Block) -> Iterator[str]:
        yield from format_comments(block.comments)
        yield f"{format_label(block.label)}:"
        for index, value in enumerate(block.parameters):
            yield self._phi(block.label, index, value)
        for op in block.ops:
            if op.comments:
                yield from format_comments(op.comments, "  ")
            yield "  " + self.op(op)

    def _phi(self, label: str, index: int, value: Value) -> str:
        pairs = [
            f"[{self._operand(edge.arguments[index], value.type)}, {format_label(source)}]"
            for source, edge in self._incoming.get(label, [])
        ]
        return f"  {self.name(value)} = phi {self.type(value.type)} {', '.join(pairs)}"

    def op(self, op: Op) -> str:
        """The line of `op`, without indentation and comments."""
        plan = plan_of(type(op))
        names = self.names
        results = op.results
        head = plan.mnemonic
        if len(results) == 1:
            value = results[0]
            kind = self._type_texts.get(value.type) or self.type(value.type)
            head = f"{names.get(value, '_')} = {head} {kind}"
        elif results:
            result_names = ", ".join([names.get(v, "_") for v in results])
            head = f"{result_names} = {head} {self._several([self.type(v.type) for v in results])}"
        operands = ", ".join(self._operands(op, plan))
        text = f"{head} {operands}" if operands else head
        if op.shared is not None:
            text += attributes_text(op, plan)
        elif plan.attributes is not None:
            values = plan.attributes(op)
            if values != plan.defaults:
                text += self._attributes(op, plan, values)
        if op.predicate is not None:
            text = f"{self._predicate(op.predicate)} {text}"
        if op.location is not None and op.location.written:
            text += " " + self._location(op.location)[0]
        return text

    def _predicate(self, predicate: Operand) -> str:
        text = self._operand(predicate, I1)
        return f"@({text})" if " " in text else f"@{text}"

    def _attributes(self, op: Op, plan: PrintPlan, values: Any) -> str:
        if not plan.stable:
            return attributes_text(op, plan)
        key = (plan.mnemonic, values)
        text = self._attribute_texts.get(key)
        if text is None:
            text = self._attribute_texts[key] = attributes_text(op, plan)
        return text

    def _operands(self, op: Op, plan: PrintPlan) -> list[str]:
        texts = self._inputs(op, plan)
        if plan.plain and (plan.optional is None or leading(plan.optional(op))):
            return texts
        remaining_texts = iter(texts)
        shown: list[str] = []
        for field in plan.fields:
            shown += field_texts(field, getattr(op, field.name), remaining_texts)
        while shown and shown[-1] == "none":
            shown.pop()
        return shown

    def _inputs(self, op: Op, plan: PrintPlan) -> list[str]:
        """The text of each input; a literal has its type if the type does not follow from
        others."""
        inputs, names = op.inputs, self.names
        if all([type(v) is Value for v in inputs]):  # noqa: C419 - faster
            values = cast("tuple[Value, ...]", inputs)
            return [names.get(v) or self.name(v) for v in values]
        key = (
            plan.mnemonic, tuple([v.type for v in op.results]),
            tuple([(v.type, type(v) is Value) for v in inputs]),
        )  # fmt: skip
        bare = self._bare.get(key)
        if bare is None:
            bare = self._bare[key] = bare_types(op, plan)
        return [self._operand(v, t) for v, t in zip(inputs, bare, strict=True)]
