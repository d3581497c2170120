"""Tilings: layouts that cut a tile into blocks of threads (the paper's section 5.2.1, Figure 5).

A tile is cut into block tiles, those into micro-tiles, one per group of lanes, and those into
nano-tiles, the neighbours that one thread holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from tileir.layout import Layout, Repeat, Vector, layout


def blocked_layout(
    shape: Vector,
    order: Vector,
    vector: int,
    num_warps: int,
    lanes: int = 32,
    within: int | None = None,
    least: int = 1,
    reduced: int | None = None,
    most: int | None = None,
) -> Layout:
    """A tiling that keeps neighbouring lanes on neighbouring elements (paper Figure 5).

    `order` lists dimensions, fastest first; every thread holds `vector` neighbours along `order[0]`
    (fewer if `vector` does not divide the extent; fewer, but at least `least`, if lanes would own
    no elements), lanes follow along `order`, warps from the slowest dimension, and registers repeat
    the block until `shape` is covered. Along the dimension `within`, unless it is the fastest, a
    thread holds neighbours too where lanes and warps divide the extent, up to `most` of them. Warps
    divide the dimension `reduced` only where the others leave no elements to them."""
    steps = _block_steps(shape, order, vector, num_warps, lanes, within, least, reduced, most)
    return layout(len(shape), repeats=steps)


def rows_per_warp_layout(shape: Vector, order: Vector, vector: int, num_warps: int) -> Layout:
    """A tiling of which each warp owns consecutive rows, as many as the others. It tiles them as
    `blocked_layout` does. `num_warps` divides the number of rows."""
    rows = (shape[0] // num_warps, *shape[1:])
    steps = _block_steps(rows, order, vector, 1, 32, None)
    return layout(len(shape), repeats=(*steps, Repeat("warp", num_warps, 0)))


def _block_steps(
    shape: Vector, order: Vector, vector: int, num_warps: int, lanes: int, within: int | None,
    least: int = 1, reduced: int | None = None, most_within: int | None = None,
) -> tuple[Repeat, ...]:  # fmt: skip
    """The steps of `blocked_layout`."""
    fast, extents_left = order[0], list(shape)
    most = min(_power_below(vector), _power_in(shape[fast]))
    vector = max(_vector_along(shape, fast, most, lanes), min(least, most))
    extents_left[fast] //= vector
    steps: list[Repeat] = [Repeat("register", vector, fast)]
    for i, dim in enumerate(order):
        slower = prod(extents_left[d] for d in order[i + 1 :])
        count = _lanes_along(extents_left[dim], lanes, slower, vector if dim == fast else 1)
        steps.append(Repeat("lane", count, dim))
        extents_left[dim] = -(-extents_left[dim] // count)
        lanes //= count
    steps.append(Repeat("lane", lanes, None))
    ways = tuple(sorted(order, key=lambda dim: dim != reduced))
    steps += _warps_along(extents_left, ways, num_warps)
    steps += [Repeat("register", extents_left[dim], dim) for dim in order]
    if within not in (None, fast):
        along = [step for step in steps if step.dim == within]
        if prod(step.count for step in along) == shape[within]:
            steps.remove(last := along[-1])
            count = gcd(last.count, most_within or last.count)
            steps.insert(1, Repeat("register", count, within))
            steps.append(Repeat("register", last.count // count, within))
    return tuple(steps)


def square_layout(shape: Vector, side: int, num_warps: int) -> Layout:
    """A tiling of a matrix whose threads hold squares of `side` x `side` neighbours. A warp is 8
    of them wide and 4 high; `shape` is a multiple of that."""
    steps = [Repeat("register", side, dim) for dim in (0, 1)]
    steps += [Repeat("lane", 8, 1), Repeat("lane", 4, 0)]
    extents_left = [shape[0] // (4 * side), shape[1] // (8 * side)]
    steps += _warps_along(extents_left, (1, 0), num_warps)
    steps += [Repeat("register", extents_left[dim], dim) for dim in (1, 0)]
    return layout(2, repeats=tuple(steps))


def nested_layout(
    shape: Vector, order: Vector, nano: Vector, lanes: Vector, num_warps: int
) -> Layout:
    """A tiling whose threads hold `nano` neighbours and whose warps arrange `lanes`, each per
    dimension; warps from the slowest dimension, and registers repeat until `shape` is covered."""
    left = [-(-e // (n * count)) for e, n, count in zip(shape, nano, lanes, strict=True)]
    steps = [Repeat("register", nano[d], d) for d in order]
    steps += [Repeat("lane", lanes[d], d) for d in order]
    steps += _warps_along(left, order, num_warps)
    steps += [Repeat("register", left[d], d) for d in order]
    return layout(len(shape), repeats=tuple(steps))


def _vector_along(shape: Vector, fast: int, most: int, lanes: int) -> int:
    """The widest vector up to `most` that leaves every lane the same work, else `most`."""
    total, vector = prod(shape), most
    while vector > 1 and total // vector % lanes:
        vector //= 2
    return vector if total // vector % lanes == 0 else most


def _lanes_along(extent: int, lanes: int, slower: int, vector: int) -> int:
    """Lanes to put along a dimension of `extent`: all of them where they divide it, fewer where
    that covers exactly, leaves 16 neighbouring elements, and other dimensions can use the rest."""
    most = min(lanes, _power_above(extent))
    count = most
    while count * vector > 16 and extent % count and slower * (count // 2) >= lanes:
        count //= 2
    return count if extent % count == 0 else most


def _warps_along(left: list[int], order: Vector, num_warps: int) -> Iterator[Repeat]:
    """Warps by prime factor, along the slowest dimension they divide, else along the one with
    most left; `left` is reduced."""
    for count in _prime_factors(num_warps):
        slow = tuple(reversed(order))
        fits = [d for d in slow if left[d] % count == 0]
        candidates = [d for d in slow if left[d] > 1]
        dim = fits[0] if fits else max(candidates, key=lambda d: left[d], default=None)
        if dim is not None:
            left[dim] = -(-left[dim] // count)
        yield Repeat("warp", count, dim)


def hierarchical(
    shape: Vector, nano: Vector, lanes: Vector, warps: Vector, order: Vector | None = None
) -> Layout:
    """The tiling whose thread holds `nano` neighbours, whose warp arranges `lanes`, whose block
    arranges `warps`, each per dimension, repeated in registers until `shape` is covered.

    `order` lists dimensions, fastest first; row-major if None. The micro-tile is `nano * lanes`,
    the block tile `nano * lanes * warps` (paper, Figure 5). Raises ValueError unless every
    argument has one positive entry per dimension.
    """
    order = tuple(reversed(range(len(shape)))) if order is None else order
    for part in (nano, lanes, warps):
        if len(part) != len(shape) or any(n < 1 for n in part):
            raise ValueError(f"expected {len(shape)} positive counts, found {part}")
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"expected an order of {len(shape)} dimensions, found {order}")
    steps = [Repeat("register", nano[d], d) for d in order]
    steps += [Repeat("lane", lanes[d], d) for d in order]
    steps += [Repeat("warp", warps[d], d) for d in order]
    block = [nano[d] * lanes[d] * warps[d] for d in range(len(shape))]
    steps += [Repeat("register", -(-shape[d] // block[d]), d) for d in order]
    return layout(len(shape), repeats=tuple(steps))


def _power_in(n: int) -> int:
    """Largest power of two that divides `n`."""
    return n & -n


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _prime_factors(n: int) -> Iterator[int]:
    p = 2
    while n > 1:
        while n % p == 0:
            yield p
            n //= p
        p += 1
