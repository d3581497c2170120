"""The picture `defuse`: the def-use graph of a kernel. Each block is a frame. It contains clusters
of ops, with an edge from each definition to its uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from tileir.analysis.cfg import cfg
from tileir.effects import ACCESSES
from tileir.ir import Block, Function
from tileir.op import Op
from tileir.tools.view.clusters import (
    HEAVY,
    Cluster,
    DrawnPhi,
    Port,
    clusters,
    phis,
    ports,
    slice_of,
)
from tileir.tools.view.input import Subject
from tileir.tools.view.layered import Placed, Point, place
from tileir.tools.view.naming import ValueNames, kind
from tileir.tools.view.svg import LINE, MARGIN, Sheet, clip, group, rect, spline, text
from tileir.values import Value

_INNER, _ROW, _MOST = 930.0, 14, 46
"""Pixels within a frame, of a line of text in a box, and characters of it."""

_SIDE, _LETTER = 6.0, 6.03
"""Pixels around the text of a box, and of a character."""

_HOW = (
    "A frame is a block; a box has ops, of which all but the last are read nowhere else. Arrows "
    "lead from what defines a value to what reads it. Values of other blocks, and what branches "
    "pass (phi), have boxes of their own; parameters are not drawn."
)

_KINDS = {
    "memory": "reads or writes memory",
    "heavy": "dot, reduce, scan",
    "carried": "from other blocks",
    "branch": "branch",
}


def picture(subject: Subject) -> str:
    """The SVG of the kernel in its source form. With a value, only the ops from which it is
    computed and those that are computed from it are drawn."""
    function = subject.function
    ops, values = slice_of(function, subject.find_value(function))
    sheet = Sheet(f"{subject.name}: definitions and uses")
    sheet.words(_HOW, "soft")
    _legend(sheet)
    names = ValueNames(function)
    for label in cfg(function).order:
        block = function.blocks[label]
        result = list(_boxes(function, block, names, ops, values))
        if result:
            _frame(sheet, block, result)
    return sheet.done()


@attrs.frozen(eq=False)
class _DefUseBox:
    """Lines of text, and the values that are defined and read there."""

    lines: tuple[str, ...]
    style: str
    defines: tuple[Value, ...] = ()
    reads: tuple[Value, ...] = ()
    note: str = ""

    @property
    def size(self) -> Point:
        """The width and the height."""
        most = max(map(len, (*self.lines, self.note)))
        rows = len(self.lines) + bool(self.note)
        return most * _LETTER + 2 * _SIDE, rows * _ROW + 8.0


def _boxes(
    function: Function,
    block: Block,
    names: ValueNames,
    ops: frozenset[Op],
    values: frozenset[Value],
) -> Iterator[_DefUseBox]:
    """Yield the boxes in the frame of a block, in dependence order."""
    own = [op for op in block.ops if op in ops]
    for port in ports(function, block, own):
        yield _port(port, names)
    for phi in phis(function, block, values):
        yield _phi(phi, names)
    for cluster in clusters(function, block, ops):
        yield _cluster(cluster, names)


def _port(port: Port, names: ValueNames) -> _DefUseBox:
    return _DefUseBox(
        (f"{names.operand(port.value)} of {port.defining}",), "carried", (port.value,)
    )


def _phi(phi: DrawnPhi, names: ValueNames) -> _DefUseBox:
    incoming = [f"{names.operand(argument)} of {label}" for label, argument in phi.incoming]
    lines = [clip(s, _MOST, 1) for s in (f"phi {names.of.get(phi.value, '_')}", *incoming)]
    return _DefUseBox(tuple(lines), "carried", (phi.value,), (), kind(phi.value.type))


def _cluster(cluster: Cluster, names: ValueNames) -> _DefUseBox:
    inside = {v for op in cluster.ops for v in op.results}
    reads = [v for op in cluster.ops for v in op.inputs if isinstance(v, Value) and v not in inside]
    lines = tuple(clip(_line(op, names), _MOST, 1) for op in cluster.ops)
    last = cluster.last
    note = ", ".join(kind(v.type) for v in last.results[:1])
    return _DefUseBox(lines, _style(last), last.results, tuple(dict.fromkeys(reads)), note)


def _line(op: Op, names: ValueNames) -> str:
    if not op.successors:
        return names.short(op)
    words = " ".join([op.mnemonic, *(names.operand(v) for v in op.inputs)])
    return f"{words} to {', '.join(s.label for s in op.successors)}"


def _style(op: Op) -> str:
    if op.is_terminator:
        return "branch"
    if op.mnemonic in HEAVY:
        return "heavy"
    return "memory" if op.effects & ACCESSES else "box"


def _frame(sheet: Sheet, block: Block, boxes: Sequence[_DefUseBox]) -> None:
    """Draw a block: its boxes in layers, with the edges below them."""
    result = {v: i for i, box in enumerate(boxes) for v in box.defines}
    edges = [(result[v], i) for i, box in enumerate(boxes) for v in box.reads if v in result]
    end = len(boxes) - 1 if boxes[-1].style == "branch" else None
    placed = place([box.size for box in boxes], edges, _INNER, end)
    height = placed.height + LINE + 22
    inside = [*_edges(placed), *_draw(boxes, placed)]
    parts = [
        rect(MARGIN, 0, max(placed.width, _INNER) + 30, height, "frame"),
        text(MARGIN + 8, LINE, f"{block.label}:", "head"),
        group(MARGIN + 15, LINE + 10, inside),
    ]
    sheet.width = max(sheet.width, placed.width + 30 + 2 * MARGIN)
    sheet.put(height + 12, parts, label=block.label)


def _edges(placed: Placed) -> Iterator[str]:
    for route in placed.routes.values():
        yield spline(route)


def _draw(boxes: Sequence[_DefUseBox], placed: Placed) -> Iterator[str]:
    for box, (x, y) in zip(boxes, placed.corners, strict=True):
        width, height = box.size
        yield rect(x, y, width, height, box.style)
        for i, words in enumerate(box.lines):
            yield text(x + _SIDE, y + (i + 1) * _ROW, words, "code")
        if box.note:
            below = y + (len(box.lines) + 1) * _ROW
            yield text(x + width - _SIDE, below, box.note, "code soft", "end")


def _legend(sheet: Sheet) -> None:
    x, parts = float(MARGIN), list[str]()
    for style, words in _KINDS.items():
        parts += [rect(x, 2, 12, 12, style), text(x + 17, 12, words, "soft")]
        x += 17 + len(words) * 6.63 + 18
    sheet.put(LINE + 8, parts)
