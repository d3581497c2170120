"""The picture `warps`: the distribution of an op's iterations over the warps of a block and their
loops, and of program instances over a GPU (as in the announcement of Triton 1.0)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from tileir.analysis.uses import definitions
from tileir.errors import ToolError
from tileir.tools.inputs import recipe
from tileir.tools.view.input import Subject
from tileir.tools.view.loop_nest import IterationSpace, lines, space
from tileir.tools.view.naming import ValueNames, concerns, count_text, place
from tileir.tools.view.svg import (
    LINE,
    MARGIN,
    Sheet,
    clip,
    group,
    line,
    rect,
    text,
    warp_colour,
)
from tileir.tools.view.tiles import Cell, TileDrawing, drawing, fit_frame, owners, shape_text
from tileir.types import Scalar, Tile
from tileir.values import Value

_WIDE = 960
_MOST_WARPS, _MOST_SMS, _MOST_INSTANCES = 8, 5, 6
"""Warps, multiprocessors and instances of each that are drawn."""

_HOW = (
    "From the statements to the machine: the iterations of one op, what each warp of a block does "
    "of them and by which loops, and the program's instances over the GPU. Colours are warps."
)


def picture(subject: Subject) -> str:
    """The SVG of the op that defines the requested value, or of the kernel's largest dot, or else
    of its largest op."""
    names = subject.laid_out_names
    space = _select(subject, names)
    sheet = Sheet(f"{subject.name}: iterations of an op over warps")
    sheet.words(_HOW, "soft")
    if space is None:
        sheet.words("no op of this kernel has a tile: every thread does the same")
        return sheet.done()
    warps = space.tile.layout.size("warp")
    sheet.legend([(warp_colour(w), f"warp {w}") for w in range(min(warps, _MOST_WARPS))])
    _statements(sheet, subject, names, space)
    _space(sheet, space)
    _warps(sheet, names, space)
    _instances(sheet, subject)
    return sheet.done()


def _select(subject: Subject, names: ValueNames) -> IterationSpace | None:
    """The iteration space of the op of the requested value, if it has a tile; else of the dot, or
    of the computing op, with the most iterations."""
    ops = (op for function in subject.laid_out_functions for op in function.ops)
    result = [s for s in map(space, ops) if s is not None]
    if subject.value is not None:
        subject.find_value(*subject.laid_out_functions)
        about = [s for s in result if concerns(s.op, subject.value, names)]
        defines = [s for s in about if subject.value in names.results(s.op).split(", ")]
        return next(iter([*defines, *about]), None)
    return max(result, key=_weight, default=None)


def _weight(space: IterationSpace) -> tuple[bool, int, bool]:
    """The sort key of an iteration space: dots before others, large before small, computation
    before movement."""
    elements = (v.type.element for v in space.op.results if isinstance(v.type, Tile))
    of_floats = any(isinstance(e, Scalar) and e.is_float for e in elements)
    computes = of_floats and space.op.elementwise and len(space.op.inputs) > 1
    return space.op.mnemonic in ("dot", "gpu.wgmma"), space.tile.size * space.steps, computes


def _statements(sheet: Sheet, subject: Subject, names: ValueNames, space: IterationSpace) -> None:
    """Draw the op after the ops that define its operands."""
    (function,) = (f for f in subject.laid_out_functions if space.op in set(f.ops))
    result = definitions(function)
    before = dict.fromkeys(
        result[v] for v in space.op.inputs if isinstance(v, Value) and v in result
    )
    ops = [*before, space.op]
    sheet.words("the op, and those that define what it reads", "head")
    for number, op in enumerate(ops, 1):
        words = f"S{number}  {clip(names.op(op), 780)}   ({place(op)})"
        sheet.words(words, "" if op is space.op else "soft")
    sheet.skip(8)


def _space(sheet: Sheet, space: IterationSpace) -> None:
    """Draw the iterations, coloured by warp."""
    size = space.tile.size * space.steps
    sheet.words(f"iterations: {shape_text(space.shape)}, {size} in all", "head")
    owned = owners(space.tile.layout, space.tile.shape)
    cells = {at: (warp_colour(h[0][0]), "", _by(h)) for at, h in owned.items()}
    depth = min(70.0, 6.0 * space.steps) if space.steps > 1 else 0.0
    frame = fit_frame(space.tile.shape, 420 if len(space.tile.shape) > 1 else 900, 260, 14.0, 128)
    face = drawing(frame, cells)
    parts = [*_depth(face, space.steps, depth), group(0, depth / 2, face.parts)]
    sheet.put(face.height + depth / 2 + 10, parts, MARGIN, label="space")
    if not frame.whole:
        sheet.words(f"… the first {frame.rows} rows", "soft")


def _by(owners_: Sequence[tuple[int, int, int]]) -> str:
    warps = list(dict.fromkeys(w for w, _, _ in owners_))
    return "warp " + ", ".join(map(str, warps))


def _depth(face: TileDrawing, steps: int, depth: float) -> Iterator[str]:
    """The K dimension of a dot, drawn as the depth of a box whose face is the accumulator."""
    if not depth:
        return
    for step in range(steps + 1):
        x, y = depth * step / steps, depth / 2 - depth / 2 * step / steps
        if steps <= 32 or step in (0, steps):
            right, bottom = face.width + x, y + face.height
            yield line([(x, y), (right, y), (right, bottom)], "frame" if step == steps else "faint")
    for x, y in ((0.0, 0.0), (face.width, 0.0), (face.width, face.height)):
        yield line([(x, y + depth / 2), (x + depth, y)], "frame")
    words = f"K = {steps}"
    yield text(face.width + depth + 8, depth / 2 + 8, words, "soft")


def _warps(sheet: Sheet, names: ValueNames, space: IterationSpace) -> None:
    """Draw a block on a multiprocessor: the work of each warp, and its loops."""
    layout, owned = space.tile.layout, owners(space.tile.layout, space.tile.shape)
    warps, each = layout.size("warp"), layout.size("register") * space.steps
    sheet.words(f"on a multiprocessor: {count_text(warps, 'warp')} of 32 lanes", "head")
    shown_warps = range(min(warps, _MOST_WARPS))
    columns = min(4, len(shown_warps))
    wide = (_WIDE - 10 * (columns - 1)) / columns
    parts: list[str] = []
    height = 0.0
    for warp in shown_warps:
        cells: dict[tuple[int, ...], Cell] = {}
        for at, owners_ in owned.items():
            mine = any(w == warp for w, _, _ in owners_)
            cells[at] = (warp_colour(warp), "", f"warp {warp}") if mine else _OTHERS
        result = drawing(fit_frame(space.tile.shape, wide - 20, 130, 6.0), cells)
        height = result.height + 2 * LINE + 8
        x, y = warp % columns * (wide + 10), warp // columns * (height + 10)
        body = [
            rect(0, 0, wide, height, "box"),
            text(10, LINE - 2, f"warp {warp}", "head"),
            text(70, LINE - 2, clip(f"{each} iterations a lane", wide - 80), "soft"),
            group(10, LINE + 6, result.parts),
        ]
        parts.append(group(MARGIN + x, y, body))
    rows = -(-len(shown_warps) // columns)
    sheet.put(rows * (height + 10), parts, label="warps")
    if warps > len(shown_warps):
        sheet.words(f"… and {warps - len(shown_warps)} more", "soft")
    for words in lines(space, names):
        indent = len(words) - len(words.lstrip())
        sheet.words(words.strip(), "", MARGIN + indent * 7.0)
    sheet.skip(8)


_OTHERS: Cell = ("#8b949e55", "", "another warp")


def _instances(sheet: Sheet, subject: Subject) -> None:
    """Draw the distribution of program instances over multiprocessors, if metadata states the
    grid."""
    try:
        grid = recipe(subject.module, subject.function.name).grid
    except ToolError:
        return
    every = list(product(*(range(n) for n in reversed(grid))))
    sheet.words(f"on a GPU: {count_text(len(every), 'instance')} of {subject.name}", "head")
    wide = (_WIDE - 10 * (_MOST_SMS - 1)) / _MOST_SMS
    parts: list[str] = []
    for sm in range(min(_MOST_SMS, len(every))):
        mine = every[sm::_MOST_SMS][:_MOST_INSTANCES]
        body = [rect(0, 0, wide, 58, "box"), text(8, 14, f"multiprocessor {sm}", "soft")]
        for i, program in enumerate(mine):
            name = ",".join(map(str, program[::-1]))
            x, y = 8 + i % 3 * 58, 20 + i // 3 * 18
            body.append(rect(x, y, 54, 15, "cell", "#a8b8c8", f"program_id {name}"))
            body.append(text(x + 27, y + 11, name, "in", "middle"))
        parts.append(group(MARGIN + sm * (wide + 10), 0, body))
    sheet.put(66, parts, label="gpu")
    words = "an instance runs on one multiprocessor, on whichever is free, next to others"
    sheet.words(words, "soft")
