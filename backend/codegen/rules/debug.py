"""Printing, assertions and opaque code. A failed assertion ends the kernel with an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tileir.backend.codegen.lowering import Fragment, Lowering, Rule, registers, scalar_of
from tileir.backend.codegen.rules.cast import float_to_float
from tileir.backend.codegen.thread_operands import PrintedNumber
from tileir.types import F32, I1, I8, I32, Element, Tile, shape_of
from tileir.values import Operand

if TYPE_CHECKING:
    from tileir.backend.codegen.thread_interface import Handle


def _print(lowering: Lowering, op: Any) -> list[Fragment]:
    """Print a line per element, by its first owner: program ids, source location, the element's
    index in its tile, prefix, number."""
    for index, value in enumerate(op.values):
        words = [w for w in (op.prefix, f"#{index}" if len(op.values) > 1 else "") if w]
        for register, handle in enumerate(lowering.fragment(value)):
            _show(lowering, op, value, register, handle, " ".join(words))
    if not op.values:
        _emit_if(lowering, _speaks(lowering, op, None, 0), lambda: _say(lowering, op, [op.prefix]))
    return []


def _show(
    lowering: Lowering, op: Any, value: Operand, register: int, handle: Handle, prefix: str
) -> None:
    kind: Any = value.type

    def say() -> None:
        parts: list[Any] = []
        if isinstance(kind, Tile):
            for dim in range(len(kind.shape)):
                at = lowering.coordinate(kind.layout, register, dim)
                parts += [", " if dim else "[", PrintedNumber(I32, at)]
            parts.append("] ")
        unsigned = op.hex or op.unsigned
        element, number = _printable(lowering, scalar_of(kind), handle, unsigned)
        shown = PrintedNumber(element, number, op.hex, op.unsigned)
        _say(lowering, op, [*parts, prefix, " " if prefix else "", shown])

    _emit_if(lowering, _speaks(lowering, op, kind, register), say)


def _say(lowering: Lowering, op: Any, parts: list[Any]) -> None:
    thread, where = lowering.thread, op.location
    ids: list[Any] = ["("]
    for axis in range(3):
        ids += [", " if axis else "", PrintedNumber(I32, thread.program_id(axis))]
    place = f") {where.file}:{where.line}: " if where else "): "
    thread.say([*ids, place, *parts])


def _printable(
    lowering: Lowering, element: Element, x: Handle, unsigned: bool
) -> tuple[Element, Handle]:
    """The type and handle of a number, converted to a type that can be printed."""
    if not element.is_float and 1 < element.bits < 8:
        return I8, lowering.thread.convert("zext" if unsigned else "sext", element, I8, x)
    if element.is_float and element.bits < 32:
        return F32, float_to_float(lowering.thread, element, F32, x, "rn", False)
    return element, x


def _speaks(lowering: Lowering, op: Any, kind: Any, register: int) -> Handle | None:
    """Whether this thread prints or checks an element: it is the first owner, and the element is no
    padding and not predicated off. None: always."""
    tiled = isinstance(kind, Tile)
    terms = [lowering.first_owner(kind.layout if tiled else None)]
    if tiled:
        terms.append(lowering.inside(kind.layout, kind.shape, register))
    if op.predicate is not None and shape_of(op.predicate.type) in ((), shape_of(kind)):
        predicates = lowering.fragment(op.predicate)
        terms.append(predicates[register if shape_of(op.predicate.type) else 0])
    return _all(lowering, terms)


def _all(lowering: Lowering, terms: list[Handle | None]) -> Handle | None:
    thread, conjunction = lowering.thread, None
    for term in terms:
        if isinstance(term, str) and term == "false":
            return term
        if term is None or (isinstance(term, str) and term == "true"):
            continue
        conjunction = (
            term
            if conjunction is None
            else thread.select(I1, conjunction, term, thread.constant(I1, 0))
        )
    return conjunction


def _emit_if(lowering: Lowering, condition: Handle | None, body: Callable[[], None]) -> None:
    def nothing() -> list[Handle]:
        body()
        return []

    if condition is None:
        body()
    elif not (isinstance(condition, str) and condition == "false"):
        lowering.thread.when(condition, (), nothing)


def _assert(lowering: Lowering, op: Any) -> list[Fragment]:
    thread, kind = lowering.thread, op.condition.type
    failed: Handle | None = None
    for register, handle in enumerate(lowering.fragment(op.condition)):
        bad = thread.binary("xor", I1, handle, thread.constant(I1, 1))
        if isinstance(kind, Tile):
            inside = lowering.inside(kind.layout, kind.shape, register)
            if inside == "false":
                continue
            if inside is not None:
                bad = thread.select(I1, inside, bad, thread.constant(I1, 0))
        if op.predicate is not None:
            predicates = lowering.fragment(op.predicate)
            holds = predicates[register if isinstance(op.predicate.type, Tile) else 0]
            bad = thread.select(I1, holds, bad, thread.constant(I1, 0))
        failed = bad if failed is None else thread.binary("or", I1, failed, bad)
    if failed is not None:
        _emit_if(lowering, failed, lambda: _stop(lowering, op))
    return []


def _stop(lowering: Lowering, op: Any) -> None:
    where = op.location
    file, line = (where.file or "", where.line) if where else ("", 0)
    lowering.thread.fail(op.message or "assertion failed", file, line)
    lowering.thread.trap()


# Inline assembly ------------------------------------------------------------------------------


def _assembly(lowering: Lowering, op: Any) -> list[Fragment]:
    """Emit the text once for every `pack` elements. If a thread's last pack has too few elements,
    its last element fills the pack."""
    outputs = [scalar_of(r.type) for r in op.results]
    inputs = [scalar_of(v.type) for v in op.values]
    sized = [*op.results, *op.values]
    count = registers(sized[0].type) if sized else 1
    missing = -count % op.pack
    columns = [(f := lowering.fragment(v)) + f[-1:] * missing for v in op.values]
    results: list[Fragment] = [[] for _ in outputs]
    for start in range(0, count, op.pack):
        parts = [column[start : start + op.pack] for column in columns]
        operands = list(zip(inputs, parts, strict=True))
        words = lowering.thread.assembly(
            op.text, op.constraints, outputs, operands, pack=op.pack, pure=op.pure
        )
        for fragment, elements in zip(results, words, strict=True):
            fragment += elements
    return [fragment[:count] for fragment in results]


RULES: dict[str, Rule] = {"assert": _assert, "print": _print, "inline_asm": _assembly}
