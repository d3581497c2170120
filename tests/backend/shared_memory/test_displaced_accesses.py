"""Barriers between accesses that numbers of known ranges displace, against every such number."""

from __future__ import annotations

import random
from itertools import product

from tests.backend.shared_memory.barrier_cases import barriers_of
from tests.sizes import for_each

WIDTH = 64
"""Elements of a tile, of which each thread of two warps holds one."""

Displacement = tuple[int, int, int]
"""A constant, and the coefficients of two numbers."""

NUMBERS = (range(4), range(2, 6))
"""What `%low` and `%high` may be."""


def place(name: str, of: Displacement) -> str:
    """The tile of pointers `%name`, as the program computes it."""
    start, a, b = of
    return f"""  %{name}.a = mul i32 %low, {a} {{overflow = nsw}}
  %{name}.b = mul i32 %high, {b} {{overflow = nsw}}
  %{name}.s = add i32 %{name}.a, %{name}.b {{overflow = nsw}}
  %{name}.d = add i32 %{name}.s, {start} {{overflow = nsw}}
  %{name}.t = splat i32<64, #a> %{name}.d
  %{name} = getelementptr f32*<64, #a> %p, %{name}.t
"""


def random_displacement(choose: random.Random) -> Displacement:
    coefficients = (0, 0, 1, -1, 32, 64, -64, 128)
    start = choose.choice((0, 0, 64, -64, 128, 256, 448, 512, -192, -448))
    return start, choose.choice(coefficients), choose.choice(coefficients)


def differences(one: Displacement, other: Displacement, *, same: bool) -> set[int]:
    """By how much one displacement may exceed the other. Without `same`, a number that has
    different coefficients may be another one in each."""
    parts: list[set[int]] = [{one[0] - other[0]}]
    for a, b, values in zip(one[1:], other[1:], NUMBERS, strict=True):
        pairs = [(n, m) for n, m in product(values, repeat=2) if n == m or not (same or a == b)]
        parts.append({a * n - b * m for n, m in pairs})
    return {sum(each) for each in product(*parts)}


@for_each("seed", range(80))
def test_threads_wait_wherever_two_displacements_may_overlap(seed: int) -> None:
    """No thread waits where tiles are the same or disjoint, whatever the numbers are."""
    choose = random.Random(seed)
    first, second = random_displacement(choose), random_displacement(choose)
    if choose.random() < 0.5:
        second = (choose.choice((0, 64, 256, -256, 448)), *choose.choice((first[1:], (0, 0))))
    kinds = [kind for kind, _ in barriers_of(
        "  %low = and i32 %n, 3\n  %least = smax i32 %m, 2\n  %high = smin i32 %least, 5\n"
        f"{place('f', first)}{place('g', second)}"
        "  store %f, %v\n  %w = load f32<64, #a> %g\n"
    )]  # fmt: skip
    distances = differences(first, second, same=True)
    if any(0 < abs(d) < WIDTH for d in distances):
        assert kinds == ["block"], (first, second)
    disjoint = differences(first, second, same=False)
    if distances == {0} or min(disjoint) >= WIDTH or max(disjoint) <= -WIDTH:
        assert not kinds, (first, second)
