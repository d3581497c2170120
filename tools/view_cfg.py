"""The control flow of a kernel: a box per block, an edge per branch."""

from __future__ import annotations

from tileir.analysis.cfg import cfg
from tileir.ir import Function
from tileir.tools.view_svg import box, curve, document, text

_LINE, _GAP, _WIDTH = 16, 24, 300


def cfg_picture(function: Function) -> str:
    """SVG of the blocks of `function` in reverse post-order, with the ops of each counted."""
    graph = cfg(function)
    parts: list[str] = []
    tops: dict[str, tuple[float, float]] = {}
    y = 8.0
    for label in graph.order:
        lines = _lines(function, label)
        height = (len(lines) + 1) * _LINE + 8
        parts += [box(8, y, _WIDTH, height), text(16, y + _LINE, label, "head")]
        parts += [text(16, y + (i + 2) * _LINE, line) for i, line in enumerate(lines)]
        tops[label] = (y, y + height)
        y += height + _GAP
    for label in graph.order:
        for number, successor in enumerate(graph.successors[label]):
            start, end = tops[label][1] - 6 - 8 * number, tops[successor][0] + 8
            parts.append(curve((8 + _WIDTH, start), (8 + _WIDTH, end), 60))
    return document(_WIDTH + 90, y, parts)


def _lines(function: Function, label: str) -> list[str]:
    counts: dict[str, int] = {}
    for op in function.blocks[label].ops:
        counts[op.mnemonic] = counts.get(op.mnemonic, 0) + 1
    return [name if n == 1 else f"{name} x {n}" for name, n in counts.items()]
