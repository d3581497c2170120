"""Kernel definitions by hypothesis: algorithms over a few tensors, and legal schedules for them."""

from __future__ import annotations

import re
from typing import Any

import attrs
from hypothesis import strategies as st

LABELS = ("x", "y", "k", "l")
_UNARY = ("exp", "tanh", "sigmoid", "abs", "sin", "-", "floor", "cos", "+")
_BINARY = ("+", "-", "*", "<", ">=", "!=", "maximum", "minimum", "%")


@attrs.define
class Definition:
    """The text of a definition, its inputs with their labels, and sizes."""

    source: str
    inputs: dict[str, tuple[str, ...]]
    sizes: dict[str, int]


@st.composite
def definitions(draw: Any) -> Definition:
    """One or two Funcs, the last of which is compiled, and a schedule."""
    sizes = {label: draw(st.sampled_from([1, 2, 3, 5, 8, 13, 16, 17, 24])) for label in LABELS}
    maker = _Maker(draw)
    first = tuple(draw(st.permutations(LABELS)))[: draw(st.integers(1, 2))]
    lines = [f"g[{', '.join(first)}] = {maker.expression(first, 2)};"]
    maker.funcs["g"] = first
    labels = first[:1] + tuple(n for n in LABELS if n not in first)[: draw(st.integers(0, 1))]
    lines.append(f"f[{', '.join(labels)}] = {maker.expression(labels, 3)};")
    head = f"Func f, g; In {', '.join(maker.inputs) or 'unused'}; SIn s; RVar {', '.join(LABELS)};"
    lines += [*_schedule(draw, labels, first, " ".join(lines)), "f.compile();"]
    return Definition("\n".join([head, *lines]), maker.inputs, sizes)


class _Maker:
    """Expressions; tensors are made up as they are needed."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.inputs: dict[str, tuple[str, ...]] = {}
        self.funcs: dict[str, tuple[str, ...]] = {}

    def expression(self, labels: tuple[str, ...], depth: int) -> str:
        """An expression whose shape is a suffix of `labels`."""
        kinds = ["leaf"] if depth == 0 else ["unary", "binary", "leaf", "reduce", "where", "dot"]
        kind = self.draw(st.sampled_from(kinds))
        if kind == "dot" and len(labels) < 2:
            kind = "reduce"
        return getattr(self, f"_{kind}")(labels, depth - 1)

    def _leaf(self, labels: tuple[str, ...], depth: int) -> str:
        what = self.draw(st.integers(0, 9))
        if what == 0:
            return str(self.draw(st.sampled_from([0, 1, 2, 0.5, 3, 0.125])))
        if what == 1:
            return "s"
        if what == 2 and labels:
            length = f"len({labels[0]})"
            return self.draw(st.sampled_from([labels[-1], length, f"({length} % 8)"]))
        for name, own in self.funcs.items():
            if own == labels[len(labels) - len(own) :] and what < 8:
                return f"{name}[{', '.join(own)}]"
        own = labels[self.draw(st.integers(0, len(labels))) :] if what < 6 else labels
        name = next((n for n, ls in self.inputs.items() if ls == own and what % 2), None)
        if name is None:
            if not own:
                return "s"
            name = f"A{len(self.inputs)}"
            self.inputs[name] = own
        return f"{name}[{', '.join(own)}]"

    def _unary(self, labels: tuple[str, ...], depth: int) -> str:
        op, inner = self.draw(st.sampled_from(_UNARY)), self.expression(labels, depth)
        return f"exp(tanh({inner}))" if op == "exp" else f"{op}({inner})"

    def _binary(self, labels: tuple[str, ...], depth: int) -> str:
        op = self.draw(st.sampled_from(_BINARY))
        left, right = (self.expression(labels, depth) for _ in range(2))
        if op == "%":
            return f"({left}) % (abs({right}) + 2)"
        return f"{op}({left}, {right})" if op.isalpha() else f"(({left}) {op} ({right}))"

    def _where(self, labels: tuple[str, ...], depth: int) -> str:
        return f"where({', '.join(self.expression(labels, depth) for _ in range(3))})"

    def _reduce(self, labels: tuple[str, ...], depth: int) -> str:
        free = [n for n in LABELS if n not in labels]
        if not free:
            return self._leaf(labels, depth)
        label, op = (
            self.draw(st.sampled_from(free)),
            self.draw(st.sampled_from(["sum", "max", "min"])),
        )
        at = self.draw(st.integers(0, len(labels)))
        inner = (*labels[:at], label, *labels[at:])
        name = f"A{len(self.inputs)}"
        self.inputs[name] = inner
        return f"r{op}({name}[{', '.join(inner)}] * ({self.expression(inner, depth)}), {label})"

    def _dot(self, labels: tuple[str, ...], depth: int) -> str:
        free = [n for n in LABELS if n not in labels]
        if not free:
            return self._leaf(labels, depth)
        label, (row, column) = self.draw(st.sampled_from(free)), labels[-2:]
        names = f"A{len(self.inputs)}", f"A{len(self.inputs) + 1}"
        self.inputs.update(dict(zip(names, ((row, label), (label, column)), strict=True)))
        left = f"{names[0]}[{row}, {label}]"
        if self.draw(st.booleans()):
            left = f"{self.draw(st.sampled_from(['abs', '-', 'tanh']))}({left})"
        return f"rdot({left}, {names[1]}[{label}, {column}], {label})"


def extends(whole: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Whether `whole` without one label is `part`."""
    return tuple(n for n in whole if n in part) == part


def _schedule(draw: Any, labels: tuple[str, ...], first: tuple[str, ...], text: str) -> list[str]:
    """A legal schedule for `g = ...; f = ...;`."""
    inner, own = text.split(";")[:2]
    lines: list[str] = []
    if "g[" in own and draw(st.booleans()):
        lines.append(f"g.fuse_at(f, {first[0]});")
    blocks: dict[str, int] = {}
    for label in LABELS:
        if (label in labels or f", {label})" in own) and draw(st.booleans()):
            blocks[label] = draw(st.sampled_from([1, 2, 4, 16]))
            lines.append(f"f.block({label}:{blocks[label]});")
    for label in LABELS:
        if label in labels or f", {label})" in own or (lines[:1] and f", {label})" in inner):
            size = draw(st.sampled_from([0, 0, 1, 2, 4, 8, 16]))
            is_label = label in labels or f", {label})" in own or lines[0].startswith("g.")
            if is_label and size <= blocks.get(label, size):
                lines.append(f"f.tensorize({label}:{size});")
    mapped = [n for n in blocks if n in labels]
    if mapped and draw(st.booleans()):
        lines.append(f"f.map({mapped[0]}:i/2, {', '.join([*mapped[1:], 'i'])});")
    if draw(st.booleans()):
        lines.append(f"f.num_warps({draw(st.sampled_from([1, 2, 4]))});")
    if blocks and draw(st.booleans()):
        lines.append(f"f.reverse({draw(st.sampled_from(list(blocks)))});")
    touched = ["f", *dict.fromkeys(re.findall(r"A\d+", own))]
    if draw(st.booleans()):
        lines.append(f"f.evict_{draw(st.sampled_from(['first', 'last']))}({touched[-1]});")
    if draw(st.booleans()):
        words = ["roles(off)", "persistent(off)", "persistent(pingpong)"]
        lines.append(f"f.{draw(st.sampled_from(words))};")
    return lines
