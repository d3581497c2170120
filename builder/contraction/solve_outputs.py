"""Solving `o = e(i)`: the points of the iteration space that write an element of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tileir.builder.contraction.affine import AffineBound, AffineIndex, Index, affine


@attrs.frozen
class Solved:
    """The solution of output positions.

    `elements` and their ranges cover the output, element by element, at the positions `at`. `over`
    are the remaining indices for each element, under the conditions `where`. `substitution` gives
    the original indices.
    """

    elements: Mapping[Index, range]
    at: tuple[AffineIndex, ...]
    over: Mapping[Index, range]
    where: tuple[AffineBound, ...]
    substitution: Mapping[Index, AffineIndex]


def solve(at: Sequence[AffineIndex], shape: Sequence[int], ranges: Mapping[Index, range]) -> Solved:
    """Elements of an output of `shape` by the points of the box `ranges` that write them.

    Unimodular changes of the indices bring each position to a single index (Hermite's normal form,
    a column at a time). An index with the coefficient 1 is replaced by the position itself; one
    with the coefficient g, by its multiples and their g - 1 successors, which no point writes.
    """
    state = _State(dict(ranges), {i: affine(i) for i in ranges}, {}, [], [])
    for number, (position, extent) in enumerate(zip(at, shape, strict=True)):
        _solve(state, position, extent, f"o{number}")
    where = [*state.where]
    for index, span in ranges.items():
        where.append(AffineBound(state.substitution[index], span.start, span.stop))
    box = {**state.elements, **state.free}
    conditions = tuple(condition for bound in where if (condition := bound.beyond(box)) is not None)
    return Solved(state.elements, tuple(state.at), state.free, conditions, state.substitution)


@attrs.define
class _State:
    """`free` indices are not determined yet; `elements` are determined by earlier positions."""

    free: dict[Index, range]
    substitution: dict[Index, AffineIndex]
    elements: dict[Index, range]
    where: list[AffineBound]
    at: list[AffineIndex]

    def replace(self, index: Index, by: AffineIndex) -> None:
        """`by` in place of a free index."""
        del self.free[index]
        self.substitution = {i: e.substitute({index: by}) for i, e in self.substitution.items()}
        self.where = [bound.substitute({index: by}) for bound in self.where]


def _solve(state: _State, position: AffineIndex, extent: int, name: str) -> None:
    result = _with_one_free(state, position.substitute(state.substitution))
    free = [index for index in result.indices if index in state.free]
    if not free:
        element = _element(state, Index(name), extent)
        state.where.append(AffineBound(affine(element) - result, 0, 1))
        return
    (index,) = free
    n = result.coefficient(index)
    if abs(n) == 1:
        remainder = result - affine(index) * n
        element = _element(state, Index(index.name), extent)
        state.replace(index, (affine(element) - remainder) * n)
    else:
        _spread(state, result, index, extent)


def _element(state: _State, element: Index, extent: int) -> Index:
    state.elements[element] = range(extent)
    state.at.append(affine(element))
    return element


def _with_one_free(state: _State, position: AffineIndex) -> AffineIndex:
    """`position` after indices were changed so that it holds one free index at most."""
    while True:
        free = [index for index in position.indices if index in state.free]
        if len(free) <= 1:
            return position
        pivot = min(free, key=lambda i: (abs(position.coefficient(i)), -len(state.free[i])))
        other = next(i for i in free if i is not pivot)
        times = position.coefficient(other) // position.coefficient(pivot)
        changed = Index(pivot.name)
        span = (pivot + times * other).interval(state.free)
        state.replace(pivot, changed - times * other)
        state.free[changed] = span
        position = position.substitute({pivot: changed - times * other})


def _spread(state: _State, position: AffineIndex, index: Index, extent: int) -> None:
    """Elements at `g * step + offset + rest`, of which only those with offset 0 are written."""
    n = position.coefficient(index)
    g, remainder = abs(n), position - affine(index) * n
    span = remainder.interval(state.elements)
    first, last = -((span.stop - 1) + g - 1) // g, (extent - 1 - span.start) // g
    step, offset = Index(index.name), Index(f"{index.name}.rest")
    state.replace(index, affine(step) * (n // g))
    state.elements[step], state.elements[offset] = range(first, last + 1), range(g)
    state.at.append(step * g + offset + remainder)
    state.where.append(AffineBound(affine(offset), 0, 1))
