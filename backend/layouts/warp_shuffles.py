"""Layout conversions within a warp by shuffles, planned over GF(2).

Where a warp owns the same elements in both layouts, register and lane of the source are a linear
map of register and lane of the target:

    source register = a(register) ^ b(lane)        source lane = c(register) ^ d(lane)

A lane sends one register in a shuffle, which any number of lanes may read: in every step, all
target lanes that read a source lane must need the same register. Step `j` therefore fills register
`j ^ n(lane)`. `n` separates lanes that would read different registers of one source lane. Both the
register sent and the register filled then differ between lanes by a linear function of the lane.
Exchanges of pairs of registers where a bit of the lane is set undo this, before and after. Lanes
that read the same registers of one lane may be separated, too: a step in which every lane reads its
own register then needs no shuffle. The plan is the cheaper one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tileir.layout import Layout
from tileir.layout_bits import Subspace, apply, complement, independent, intersection, kernel, solve

LANE_BITS = 5


@attrs.frozen
class Swap:
    """Register `r` and `r ^ registers` change places in lanes where the parity of the lane's bits
    in `lanes` is odd."""

    registers: int
    lanes: int


@attrs.frozen
class ShufflePlan:
    """One plan, for the registers of one repetition. `packed` registers, a power of two, move in
    one word: `source` and `target` list registers word by word, in the order in which words are
    numbered. `before` acts on source words. Step `j` sends word `words[j]` of lane `lanes(lane) ^
    masks[j]`; `after` acts on the received words, by step."""

    packed: int
    source: tuple[tuple[int, ...], ...]
    target: tuple[tuple[int, ...], ...]
    before: tuple[Swap, ...]
    after: tuple[Swap, ...]
    words: tuple[int, ...]
    lanes: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def moves_lanes(self) -> bool:
        """Whether the source lane of a step is more than an exclusive or of the lane number."""
        return self.lanes != tuple(1 << i for i in range(LANE_BITS))

    @property
    def shuffles(self) -> int:
        """The number of words that are shuffled."""
        return sum(1 for mask in self.masks if mask or self.moves_lanes)

    @property
    def selects(self) -> int:
        """The number of words that are selected."""
        return len(self.before) * len(self.source) + len(self.after) * len(self.target)

    @property
    def cycles(self) -> int:
        """The cycles of a warp: a shuffle takes two, like an access of one wavefront, and a select
        takes one."""
        return 2 * self.shuffles + self.selects


def exchange(source: Layout, target: Layout, most_packed: int = 1) -> ShufflePlan | None:
    """The plan from `source` to `target`, with up to `most_packed` elements in a word; None if a
    warp would need elements of another warp, or if lanes would need several registers of one lane.
    """
    from tileir.layout_algebra import flat_columns

    if source.rank != target.rank or source.repeats != target.repeats:
        return None
    if source.atom_extents != target.atom_extents or source.warp != target.warp:
        return None
    if any(r.axis == "lane" for r in source.repeats):
        return None
    source_columns, target_columns = (
        list(flat_columns(layout, ("register",))) for layout in (source, target)
    )
    lanes, target_lanes = (list(flat_columns(layout, ("lane",))) for layout in (source, target))
    if kernel(source_columns) or kernel(target_columns):
        return None
    for vectors in _common_vectors(
        source_columns, target_columns, lanes, target_lanes, most_packed
    ):
        source_words, target_words = (
            _word_basis(source_columns, vectors),
            _word_basis(target_columns, vectors),
        )
        plan = _plan_of(_Sides(vectors, source_words, target_words, lanes, target_lanes))
        if plan is not None:
            return plan
    return None


def _common_vectors(
    mine: list[int], theirs: list[int], lanes: list[int], target_lanes: list[int], most: int
) -> list[list[int]]:
    """Vectors that registers of both sides own, to be packed: as many as fit a word, then none."""
    common = independent(intersection(mine, theirs), independent([*lanes, *target_lanes]))
    count = min(len(common), most.bit_length() - 1)
    return [common[:n] for n in range(count, -1, -1)]


@attrs.frozen
class _Basis:
    """Bits of a side's registers in another order: those that are packed, then the others, each
    as a mask of registers and the vector it moves by."""

    packed: tuple[int, ...]
    words: tuple[int, ...]
    vectors: tuple[int, ...]

    def registers(self, word: int) -> tuple[int, ...]:
        """The registers of one word."""
        first = apply(self.words, word)
        return tuple(first ^ apply(self.packed, i) for i in range(1 << len(self.packed)))


def _word_basis(registers: list[int], packed: list[int]) -> _Basis:
    masks = [solve(registers, v) for v in packed]
    basis = tuple(m for m in masks if m is not None)
    words = complement(basis, len(registers))
    return _Basis(basis, tuple(words), tuple(apply(registers, w) for w in words))


@attrs.frozen
class _Sides:
    packed: list[int]
    source: _Basis
    target: _Basis
    lanes: list[int]
    target_lanes: list[int]


def _plan_of(sides: _Sides) -> ShufflePlan | None:
    """The plan for `sides`; None where no shuffles map one to the other."""
    split = _relation(sides)
    if split is None:
        return None
    (a, c), (b, d) = split
    same = kernel(d)
    of_one_register = kernel([apply(b, z) for z in same])
    choices = [_separate(c, d, same, [])]
    if of_one_register:
        alike, unlike = (
            [apply(same, m) for m in part]
            for part in (of_one_register, complement(of_one_register, len(same)))
        )
        choices.append(_separate(c, d, unlike, alike))
    plans = [_separated_plan(sides, (a, c), (b, d), n) for n in choices]
    return min((plan for plan in plans if plan), key=lambda plan: plan.cycles, default=None)


def _separated_plan(
    sides: _Sides, registers: tuple[list[int], list[int]], by_lane: tuple[list[int], list[int]],
    n: list[int],
) -> ShufflePlan | None:  # fmt: skip
    """The plan with this `n`; None where lanes would read different registers of one lane."""
    (a, c), (b, d) = registers, by_lane
    lanes = [x ^ apply(c, m) for x, m in zip(d, n, strict=True)]
    source_bits = [x ^ apply(a, m) for x, m in zip(b, n, strict=True)]
    if any(apply(source_bits, z) for z in kernel(lanes)):
        return None
    sent = _through(source_bits, lanes)
    steps = range(1 << len(sides.target.words))
    return ShufflePlan(
        1 << len(sides.packed),
        tuple(map(sides.source.registers, range(1 << len(sides.source.words)))),
        tuple(map(sides.target.registers, steps)),
        _swaps(sent),
        _swaps(n),
        tuple(apply(a, j) ^ apply(sent, apply(c, j)) for j in steps),
        tuple(lanes),
        tuple(apply(c, j) for j in steps),
    )


def _relation(
    sides: _Sides,
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]] | None:
    """Source register and lane for every bit of the target's register and lane. A lane bit that
    selects nothing in the source is chosen so that lanes read distinct lanes."""
    columns = [*sides.packed, *sides.source.vectors, *sides.lanes]
    start = len(sides.packed)
    count = len(sides.source.words)
    relation: list[tuple[list[int], list[int]]] = []
    for vectors in (sides.target.vectors, sides.target_lanes):
        registers, lanes = list[int](), list[int]()
        for v in vectors:
            mask = solve(columns, v)
            if mask is None:
                return None
            if mask & ((1 << start) - 1):
                return None
            registers.append(mask >> start & ((1 << count) - 1))
            lanes.append(mask >> (start + count))
        relation.append((registers, lanes))
    registers, lanes = relation[1]
    return relation[0], (registers, _distinct_lanes(lanes, _idle(sides)))


def _idle(sides: _Sides) -> list[int]:
    """Lane bits of the source that select nothing."""
    return [i for i, v in enumerate(sides.lanes) if not v]


def _distinct_lanes(lanes: list[int], idle: list[int]) -> list[int]:
    """The source lanes to read, with bits that select nothing used to read different ones, where
    that can be each lane's own."""
    lost = kernel(lanes)
    images = [0] * len(lost)
    for bit in idle:
        own = [i for i, z in enumerate(lost) if z == 1 << bit and not images[i]]
        candidates = own or [i for i, image in enumerate(images) if not image]
        if candidates:
            images[candidates[0]] = 1 << bit
    basis = [*lost, *complement(lost, len(lanes))]
    images += [0] * (len(basis) - len(lost))
    masks = [solve(basis, 1 << i) for i in range(len(lanes))]
    return [x ^ apply(images, m) for x, m in zip(lanes, masks, strict=True) if m is not None]


def _separate(
    c: Sequence[int], d: Sequence[int], to_different: Sequence[int], together: Sequence[int]
) -> list[int]:
    """`n` as columns. Lanes that differ by a vector in the span of `to_different` fill different
    registers, those that differ by one of `together` the same; both are in the kernel of `d`."""
    span, chosen = Subspace.of(d), list[int]()
    for register, column in enumerate(c):
        if span.add(column):
            chosen.append(1 << register)
    differing = [*to_different, *together]
    basis = [*differing, *complement(differing, len(d))]
    images = chosen[: len(to_different)]
    images += [0] * (len(basis) - len(images))
    masks = [solve(basis, 1 << i) for i in range(len(d))]
    return [apply(images, m) for m in masks if m is not None]


def _through(bits: list[int], lanes: list[int]) -> list[int]:
    """The sent word as a function of the sending lane; zero for lanes that no lane reads."""
    basis_lanes = independent(lanes)
    basis = [*basis_lanes, *complement(basis_lanes, len(lanes))]
    images = [bits[lanes.index(v)] if i < len(basis_lanes) else 0 for i, v in enumerate(basis)]
    masks = [solve(basis, 1 << i) for i in range(len(lanes))]
    return [apply(images, m) for m in masks if m is not None]


def _swaps(columns: Sequence[int]) -> tuple[Swap, ...]:
    """The function of the lane with these columns, as swaps: registers that move under the same
    condition move at once."""
    conditions: dict[int, int] = {}
    width = max((c.bit_length() for c in columns), default=0)
    for register in range(width):
        lanes = sum(1 << i for i, c in enumerate(columns) if c >> register & 1)
        if lanes:
            conditions[lanes] = conditions.get(lanes, 0) | 1 << register
    return tuple(Swap(registers, lanes) for lanes, registers in conditions.items())
