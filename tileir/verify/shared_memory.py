"""Shared-memory allocations are in bounds, and disjoint while they are live."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.analysis.shared_buffers import alive
from tileir.errors import Diagnostic
from tileir.ir import Function
from tileir.op import Op
from tileir.values import Value


def check_shared_memory(function: Function) -> Iterator[Diagnostic]:
    """Check `shared` of the ops of `function` against its total and against one another.

    The scratch range of an op is live while the op runs, a buffer at every op where it is live.
    """
    total = function.attributes.get("shared", 0)
    if type(total) is not int or total < 0:
        message = f"shared of @{function.name} must be a number of bytes, not {total!r}"
        yield Diagnostic("TIR0222", message, function.location)
        return
    for op in function.ops:
        if op.shared is not None and sum(op.shared) > total:
            message = (
                f"{op.mnemonic} has {_range_text(op.shared)}, and @{function.name} {total} in all"
            )
            yield Diagnostic("TIR0227", message, op.location, operand="shared")
    yield from _overlaps(function)


def _overlaps(function: Function) -> Iterator[Diagnostic]:
    """Yield an error for each pair of allocations with overlapping live ranges and bytes."""
    buffers = {op.results[0]: op for op in function.ops if op.allocates_shared}
    result, seen = alive(function), set[frozenset[Op]]()
    checked = set[frozenset[Value]]()
    for op in function.ops:
        living = result.at(op)
        using = [buffers[v] for v in living if v in buffers]
        works = op.shared is not None and not op.allocates_shared
        pairs = [(op, other) for other in using] if works else []
        if living not in checked:
            checked.add(living)
            pairs += [(a, b) for a in using for b in using]
        for a, b in pairs:
            pair = frozenset({a, b})
            if a is not b and pair not in seen and _overlap(a.shared, b.shared):
                seen.add(pair)
                yield _clash(*sorted((a, b), key=list(function.ops).index))


def _overlap(a: tuple[int, int] | None, b: tuple[int, int] | None) -> bool:
    if a is None or b is None:
        return False
    return a[0] < sum(b) and b[0] < sum(a)


def _clash(first: Op, second: Op) -> Diagnostic:
    text = f"{second.mnemonic} has {_range_text(second.shared)}, where {first.mnemonic}"
    note = Diagnostic("TIR0228", f"it has {_range_text(first.shared)}", first.location)
    message = f"{text} still needs some"
    return Diagnostic("TIR0228", message, second.location, notes=(note,), operand="shared")


def _range_text(range_: tuple[int, int] | None) -> str:
    offset, size = range_ or (0, 0)
    return f"bytes {offset} to {offset + size - 1}"
