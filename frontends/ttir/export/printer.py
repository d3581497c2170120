"""Functions of a module as TTIR text: blocks with `cf.br` and `cf.cond_br`, one line per op.

Constants are defined at the head of the first block. What Triton has no op for is an error at the
location of the op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from tileir.analysis.uses import uses
from tileir.errors import BuildError, Diagnostic, Location
from tileir.ir import Function, Module, Parameter
from tileir.op import Op, Successor
from tileir.types import Descriptor, Pointer, Scalar, Tile, Type, element_of
from tileir.values import Constant, Operand, Undef, Value

RELEASES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
"""The releases of Triton whose text can be written."""


class ExportError(BuildError):
    """TTIR cannot express the op at this location."""


Rule: TypeAlias = "Callable[[FunctionPrinter, Any], str]"
"""The text of an op, without its results."""

RULES: dict[str, Rule] = {}
"""Rules by mnemonic."""


def rule(*mnemonics: str) -> Callable[[Rule], Rule]:
    """The rule of the ops `mnemonics`."""

    def register(write: Rule) -> Rule:
        RULES.update(dict.fromkeys(mnemonics, write))
        return write

    return register


def export(module: Module, release: str = RELEASES[-1]) -> str:
    """Return the text of `module` for Triton `release`: kernels as public functions.

    The number of warps is an option of Triton's compiler and not in the text. Raises ExportError
    for an unknown release, and at the location of an op that TTIR cannot express.
    """
    from tileir.frontends.ttir.export import rules as _  # noqa: F401 - registers the rules

    if release not in RELEASES:
        supported = f"{RELEASES[0]} to {RELEASES[-1]}"
        raise ExportError(Diagnostic("TIR1006", f"no TTIR of Triton {release}: {supported}"))
    lines = ["module {"]
    for function in module.functions.values():
        if not function.is_declaration:
            lines += FunctionPrinter(module, function, release).lines()
    return "\n".join([*lines, "}", ""])


def export_error(message: str, location: Location | None) -> ExportError:
    """The error for an op that TTIR cannot express."""
    return ExportError(Diagnostic("TIR1006", message, location))


_SCALARS = {
    "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "f16": "f16", "bf16": "bf16",
    "f32": "f32", "f64": "f64", "f8e4m3": "f8E4M3FN", "f8e5m2": "f8E5M2",
    "f8e8m0": "i8",
}  # fmt: skip


@attrs.define(eq=False)
class FunctionPrinter:
    """Writes one function; `names` are those of its values."""

    module: Module
    function: Function
    release: str
    names: dict[Value, str] = attrs.field(factory=dict[Value, str])
    constants: dict[tuple[Type, Any], str] = attrs.field(factory=dict[tuple[Type, Any], str])
    head: list[str] = attrs.field(factory=list[str])
    op: Op | None = None
    """The op that is written."""
    before: list[str] = attrs.field(factory=list[str])
    """Lines that it needs before its own."""
    prefix: str = "%c"
    """The prefix of the names of constants."""
    spare: int = 0
    """Names of values that the module does not have."""
    labels: dict[str, str] = attrs.field(factory=dict[str, str])
    """The labels of blocks, by those of the module."""

    @property
    def newer(self) -> tuple[int, ...]:
        """The release as numbers."""
        return tuple(map(int, self.release.split(".")))

    def fail(self, message: str) -> ExportError:
        """The error that the op cannot be written."""
        op = self.op
        where = self.function.location if op is None else op.location
        return export_error(
            f"{message} (@{self.function.name})" if where is None else message, where
        )

    def lines(self) -> list[str]:
        """The lines of the function."""
        function = self.function
        keyword = "public" if function.kernel else "private"
        parameters = ", ".join(map(self._parameter, function.parameters))
        results = ", ".join(map(self.type, function.results))
        arrow = (
            f" -> ({results})" if len(function.results) > 1 else f" -> {results}" * bool(results)
        )
        head = f"  tt.func {keyword} @{function.name}({parameters}){arrow}"
        body: list[str] = []
        for number, block in enumerate(function.blocks.values()):
            for value in block.parameters if number else ():
                if self.newer < (3, 4) and isinstance(value.type, Tile):
                    where = block.location or block.ops[0].location
                    raise export_error(
                        "Triton 3.3 compiles no block with a tile as parameter", where
                    )
                self.define(value)
            entry = [self.block_header(block.label, block.parameters)] if number else []
            body += entry + [f"    {line}" for op in block.ops for line in self.op_lines(op)]
        constants = [f"    {line}" for line in self.head]
        return [f"{head} attributes {{noinline = false}} {{", *constants, *body, "  }"]

    def block_header(self, label: str, parameters: Sequence[Value]) -> str:
        """`^label(%a: f32):`."""
        written = ", ".join(f"{self.names[v]}: {self.type(v.type)}" for v in parameters)
        return f"  {self.label(label)}{f'({written})' if written else ''}:"

    def label(self, label: str) -> str:
        """The label of a block."""
        if not self.labels:
            self.labels.update({name: f"^bb{i}" for i, name in enumerate(self.function.blocks)})
        return self.labels[label]

    def _parameter(self, parameter: Parameter) -> str:
        divisor = parameter.attributes.aligned or parameter.attributes.multiple_of
        promise = f" {{tt.divisibility = {divisor} : i32}}" if divisor > 1 else ""
        return f"{self.define(parameter.value)}: {self.type(parameter.type)}{promise}"

    def op_lines(self, op: Op) -> list[str]:
        """The lines of an op. Raises ExportError."""
        self.op = op
        if op.predicate is not None:
            raise self.fail(f"{op.mnemonic} under a predicate: TTIR has masks for loads and stores")
        write = RULES.get(op.mnemonic)
        if write is None:
            raise self.fail(f"TTIR has no op for {op.mnemonic}")
        text = write(self, op)
        if not text:
            return []
        lines, self.before = self.before, []
        return lines + self._with_results(op, text)

    def _with_results(self, op: Op, text: str) -> list[str]:
        """An op with its results."""
        if op.mnemonic in ("reduce", "scan") and len(op.results) > 1:  # `%4:2 = `
            name = f"%{len(self.names)}"
            self.names.update({x: f"{name}#{i}" for i, x in enumerate(op.results)})
            return [f"{name}:{len(op.results)} = {text}{self.location(op)}"]
        names = [self.define(result) for result in op.results]
        if op.mnemonic in ("icmp", "fcmp"):
            return self._comparison(text, names)
        results = f"{', '.join(names)} = " if names else ""
        return [f"{results}{text}{self.location(op)}"]

    def _comparison(self, text: str, names: Sequence[str]) -> list[str]:
        """A comparison, and its complement where something needs it."""
        op = self.op
        assert op is not None
        if op.results[1] not in uses(self.function):
            return [f"{names[0]} = {text}{self.location(op)}"]
        kind = op.results[0].type
        true = self.literal(Constant(kind, 1))
        where = self.location(op)
        complement = f"{names[1]} = arith.xori {names[0]}, {true} : {self.type(kind)}{where}"
        return [f"{names[0]} = {text}{where}", complement]

    def location(self, op: Op) -> str:
        """`loc(...)`, where it is supported."""
        where = op.location
        if where is None or not where.file:
            return ""
        return f' loc("{escape(where.file)}":{where.line}:{where.column or 0})'

    def define(self, value: Value) -> str:
        """A name for a value."""
        return self.names.setdefault(value, f"%{len(self.names)}")

    def fresh(self) -> str:
        """A name for a value that the module does not have."""
        self.spare += 1
        return f"%t{self.spare}"

    def value(self, operand: Operand) -> str:
        """The name of an operand; a constant gets a line at the head."""
        if isinstance(operand, Value):
            return self.names[operand] if operand in self.names else self.define(operand)
        return self.literal(operand)

    def values(self, operands: Sequence[Operand]) -> str:
        """The names of operands with commas between them."""
        return ", ".join(map(self.value, operands))

    def literal(self, constant: Constant | Undef) -> str:
        """The name of a constant. An undefined value becomes 0, as one of those it may be."""
        bits = 0 if isinstance(constant, Undef) else constant.bits
        key = (constant.type, bits)
        if key not in self.constants:
            name = self.constants[key] = f"{self.prefix}{len(self.constants)}"
            kind, text = self.type(constant.type), self._bits(constant.type, bits)
            written = f"dense<{text}>" if isinstance(constant.type, Tile) else text
            stated = "" if written in ("true", "false") else f" : {kind}"
            self.head.append(f"{name} = arith.constant {written}{stated}")
        return self.constants[key]

    def _bits(self, kind: Type, bits: int) -> str:
        element = element_of(kind)
        if not isinstance(element, Scalar):
            raise self.fail(f"a constant {element} has no text in TTIR")
        if element.is_float:
            return f"0x{bits:0{element.bits // 4}X}"
        if element.bits == 1:
            return "true" if bits else "false"
        return str(bits - (1 << element.bits) if bits >> (element.bits - 1) else bits)

    def type(self, kind: Type) -> str:
        """A type as TTIR writes it. Raises ExportError."""
        if isinstance(kind, Tile):
            if kind.layout is not None:
                raise self.fail(f"{kind} has a layout, and TTIR none")
            if any(n & (n - 1) for n in kind.shape):
                raise self.fail(f"{kind} has an extent that is not a power of two")
            extents = "x".join(map(str, kind.shape))
            return f"tensor<{extents}x{self.type(kind.element)}>"
        if isinstance(kind, Pointer):
            return f"!tt.ptr<{self.type(kind.pointee)}>"
        if isinstance(kind, Descriptor):
            return f"!tt.tensordesc{self.block(kind)}"
        name = _SCALARS.get(str(kind))
        if name is None:
            raise self.fail(f"TTIR has no type {kind}")
        return name

    def block(self, kind: Descriptor) -> str:
        """The blocks of a descriptor, as `<16x32xf16>`; up to 3.7 as `<tensor<16x32xf16>>`."""
        tensor = self.type(kind.block)
        return tensor.removeprefix("tensor") if self.newer >= (3, 8) else f"<{tensor}>"

    def successor(self, edge: Successor) -> str:
        """`^bb1(%a : f32)`."""
        if not edge.arguments:
            return self.label(edge.label)
        kinds = ", ".join(self.type(a.type) for a in edge.arguments)
        return f"{self.label(edge.label)}({self.values(edge.arguments)} : {kinds})"


def escape(text: str) -> str:
    """`text` as MLIR writes it in quotes: other characters than printable ones by their bytes."""
    return "".join(c if c.isprintable() and c not in '"\\' else _bytes(c) for c in text)


def _bytes(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode(errors="replace"))
