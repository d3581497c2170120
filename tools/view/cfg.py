"""The picture `cfg`: the control flow of a kernel. Each block is a box with the numbers of its ops;
each branch is an arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs

from tileir.analysis.cfg import cfg
from tileir.analysis.loops import loops
from tileir.ir import Block, Function
from tileir.tools.view.input import Subject
from tileir.tools.view.naming import ValueNames
from tileir.tools.view.svg import CHARACTER, LINE, Sheet, clip, line, rect, text, tip
from tileir.values import Value

_GAP, _WIDTH, _LEFT, _LANE = 34, 520.0, 90.0, 14.0
"""Pixels between boxes, of a box, left of it, and between edges that run side by side."""

_HOW = (
    "Blocks in the order in which they run; within one, ops with how many of each. Arrows on the "
    "right skip blocks, arrows on the left go back: they close loops."
)


def picture(subject: Subject) -> str:
    """The SVG of the blocks of the kernel in its source form, in reverse post-order."""
    function, required = subject.function, subject.find_value(subject.function)
    sheet = Sheet(f"{subject.name}: blocks and branches", 760.0)
    sheet.words(_HOW, "soft")
    boxes = _boxes(function, required)
    height = max(b.bottom for b in boxes.values())
    parts = [p for b in boxes.values() for p in _draw(b)]
    sheet.put(height, [*parts, *_edges(function, boxes)])
    return sheet.done()


@attrs.frozen
class _BlockBox:
    """The box of a block: its heading, the lines below, and its position."""

    head: str
    lines: tuple[str, ...]
    top: float

    @property
    def bottom(self) -> float:
        return self.top + (len(self.lines) + 1) * LINE + 8


def _boxes(function: Function, value: Value | None) -> dict[str, _BlockBox]:
    boxes: dict[str, _BlockBox] = {}
    names = ValueNames(function)
    y, headers = 8.0, {loop.header: loop.depth for loop in loops(function).by_header.values()}
    for label in cfg(function).order:
        block = function.blocks[label]
        depth = f"  (head of a loop, depth {headers[label]})" if label in headers else ""
        lines = [*_lines(function, label), *_about(block, value, names)]
        boxes[label] = _BlockBox(f"{label}:{depth}", tuple(lines), y)
        y = boxes[label].bottom + _GAP
    return boxes


def _lines(function: Function, label: str) -> Iterator[str]:
    """Yield the ops of a block, counted, in the order of first appearance."""
    block, names = function.blocks[label], ValueNames(function)
    if block.parameters:
        yield "phi " + ", ".join(names.of[v] for v in block.parameters)
    counts = Counter(op.mnemonic for op in block.ops[:-1])
    row = ""
    for name, n in counts.items():
        word = name if n == 1 else f"{name} x {n}"
        if row and (len(row) + len(word) + 2) * CHARACTER > _WIDTH - 16:
            yield row
            row = ""
        row += f", {word}" if row else word
    if row:
        yield row
    last = block.ops[-1]
    condition = [names.operand(v) for v in last.inputs] if len(last.successors) > 1 else []
    yield " ".join([last.mnemonic, *condition])


def _about(block: Block, value: Value | None, names: ValueNames) -> Iterator[str]:
    """Yield whether the requested value is defined or read in `block`."""
    if value is None:
        return
    name = names.of[value]
    if value in block.parameters or any(value in op.results for op in block.ops):
        yield f"defines {name}"
    readers = [op.mnemonic for op in block.ops if value in op.operands]
    if readers:
        yield f"reads {name}: {', '.join(readers)}"


def _draw(box: _BlockBox) -> Iterator[str]:
    yield rect(_LEFT, box.top, _WIDTH, box.bottom - box.top, "box")
    yield text(_LEFT + 8, box.top + LINE, clip(box.head, _WIDTH - 16), "head")
    for i, words in enumerate(box.lines):
        shown = clip(words, _WIDTH - 16)
        yield text(_LEFT + 8, box.top + (i + 2) * LINE, shown)


def _edges(function: Function, boxes: dict[str, _BlockBox]) -> Iterator[str]:
    order = list(boxes)
    right = left = 0
    for label in order:
        targets = [s.label for s in function.blocks[label].terminator.successors]
        names = ("", "") if len(targets) < 2 else ("true", "false")
        for target, name in zip(dict.fromkeys(targets), names, strict=False):
            start, end = boxes[label], boxes[target]
            ahead = order.index(target) - order.index(label)
            if ahead == 1:
                x = _LEFT + _WIDTH / 2
                yield line([(x, start.bottom), (x, end.top)])
                yield tip((x, end.top), (0, 1))
                yield text(x + 6, start.bottom + 14, name, "soft")
            elif ahead > 1:
                right += 1
                yield from _aside(start, end, _LEFT + _WIDTH, right * _LANE, name)
            else:
                left += 1
                yield from _aside(start, end, _LEFT, -left * _LANE, name)


def _aside(start: _BlockBox, end: _BlockBox, x: float, out: float, name: str) -> Iterator[str]:
    """An edge that passes the boxes between its ends, `out` pixels next to them."""
    y, v = start.bottom - 10, end.top + 10
    yield line([(x, y), (x + out, y), (x + out, v), (x, v)])
    yield tip((x, v), (-out, 0))
    if name:
        yield text(x + (6 if out > 0 else -6), y - 4, name, "soft", "" if out > 0 else "end")
