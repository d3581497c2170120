"""`tileir run --on simt --report`: a table of the memory accesses of each line of a kernel."""

from __future__ import annotations

from typing import Any

from tileir.op import Op
from tileir.tools.table import Row

HEADS = (
    "line", "op", "accesses", "sectors", "ideal", "shared", "wavefronts", "conflicts", "barriers",
    "shuffles", "divergent", "instructions",
)  # fmt: skip
"""`accesses` counts accesses of warps to global memory, `sectors` their sectors of 32 bytes, and
`ideal` the fewest sectors that contain the accessed bytes. `shared` counts accesses to shared
memory; the next columns have their wavefronts, and those lost to bank conflicts. Barriers, shuffles
and instructions are executed by every thread of a block; they are added over blocks."""

_FIELDS = ("accesses", "sectors", "ideal", "shared", "wavefronts", "conflicts", "barriers",
           "shuffles", "divergent")  # fmt: skip


def rows(counts: Any) -> list[Row]:
    """A row per line and op of a `Counts`, ordered by line. A row is not good if its transactions
    exceed the ideal number, or if banks conflict."""
    result: dict[tuple[int, str], list[int]] = {}
    for op, tally in counts.by_op.items():
        numbers = [getattr(tally, name) for name in _FIELDS]
        numbers.append(sum(tally.instructions.values()))
        key = (_line(op), op.mnemonic)
        result[key] = [a + b for a, b in zip(result.get(key, [0] * 10), numbers, strict=True)]
    return [
        Row((str(line) if line else "-", name, *map(_format, numbers)), _good(numbers))
        for (line, name), numbers in sorted(result.items())
    ]


def _line(op: Op) -> int:
    return 0 if op.location is None else op.location.line


def _format(number: int) -> str:
    return str(number) if number else ""


def _good(numbers: list[int]) -> bool | None:
    _, sectors, ideal, shared, _, conflicts, *_ = numbers
    if not sectors and not shared:
        return None
    return sectors <= ideal and not conflicts
