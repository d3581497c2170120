"""Functions that are nothing but control flow, from lists of small numbers."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from tileir.ir import Block, Function, Parameter
from tileir.op import Op, Successor
from tileir.ops.control import Branch, CondBranch, Return
from tileir.types import I1
from tileir.values import Value

CONDITION = Value(I1, "c")


def graph(edges: Sequence[Sequence[int]]) -> Function:
    """Blocks `b0`, `b1`, ...: `edges[i]` are the targets of block i, none, one or two. Blocks
    that the entry does not reach are left out."""
    reached, stack = {0}, [0]
    while stack:
        for target in edges[stack.pop()]:
            if target not in reached:
                reached.add(target)
                stack.append(target)
    blocks = {f"b{i}": Block(f"b{i}", (), (_terminator(edges[i]),)) for i in sorted(reached)}
    return Function("f", (Parameter(CONDITION),), blocks=blocks)


def _terminator(targets: Sequence[int]) -> Op:
    if not targets:
        return Return(())
    if len(targets) == 1:
        return Branch(Successor(f"b{targets[0]}"))
    return CondBranch(CONDITION, Successor(f"b{targets[0]}"), Successor(f"b{targets[1]}"))


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Function:
    """Any control flow of up to `most` blocks that never returns to the entry."""
    count = draw(st.integers(1, most))
    target = st.integers(1, count - 1) if count > 1 else st.nothing()
    targets = st.lists(target, max_size=2 if count > 1 else 0)
    return graph([draw(targets) for _ in range(count)])
