"""When operands are stored so that they fit, and dots by warpgroups that do not all fit at once."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np

from tests.backend.test_stored_operands import agree, ops, random_operands
from tests.sizes import for_each
from tileir.backend.software_pipeline.store_plan import plan_stores
from tileir.builder import F16, F32, Builder, arg, pointer


@for_each("seed", range(40))
def test_stores_fit_and_precede_their_reads(seed: int) -> None:
    """At every dot that is kept, what was stored and is still read takes at most the bytes given;
    nothing is stored before it is available, nor twice."""
    chance = random.Random(seed)
    count, shared = chance.randrange(1, 7), chance.randrange(4, 20)
    dots = [[chance.randrange(6) for _ in range(chance.randrange(1, 3))] for _ in range(count)]
    sizes = {key: chance.randrange(1, 9) for each in dots for key in each}
    first = {key: min(i for i, each in enumerate(dots) if key in each) for key in sizes}
    available = {key: chance.randrange(first[key] + 1) for key in sizes}
    stores = plan_stores(dots, sizes, available, shared)
    assert len(stores) == count
    begun: dict[int, int] = {}
    for at, keys in enumerate(stores):
        for key in keys or ():
            assert key not in begun and available[key] <= at
            begun[key] = at
        if keys is not None:
            assert all(key in begun for key in dots[at])
    kept = [at for at, keys in enumerate(stores) if keys is not None]
    for at in kept:
        live = {k for k, b in begun.items() if b <= at <= max(i for i in kept if k in dots[i])}
        assert sum(sizes[k] for k in live) <= shared
    fitting = [at for at in range(count) if sum(sizes[k] for k in set(dots[at])) <= shared]
    assert bool(kept) == bool(fitting)


def test_operands_are_stored_ahead_where_they_fit() -> None:
    sizes = {"a": 4, "b": 4, "c": 4, "d": 4}
    dots = [["a", "b"], ["b", "c"], ["d"]]
    available = {"a": 0, "b": 0, "c": 0, "d": 2}
    assert plan_stores(dots, sizes, available, 24) == [("a", "b", "c"), (), ("d",)]
    assert plan_stores(dots, sizes, available, 8) == [("a", "b"), ("c",), ("d",)]
    assert plan_stores(dots, sizes, available, 7) == [None, None, ("d",)]


def test_dots_whose_operands_do_not_fit_at_once_are_by_warpgroups() -> None:
    """Each of them fits; together they take more than half of shared memory."""
    b, kind = Builder(), arg(pointer(F16), aligned=16)
    names = [f"x{i}" for i in range(5)]
    with b.kernel("several", **dict.fromkeys(names, kind), out=pointer(F32)) as (*inputs, out):
        at = b.arange(128)[:, None] * 128 + b.arange(128)[None, :]
        loaded = [(p + at).load() for p in inputs]
        total = b.full((128, 128), 0.0, F32)
        for left, right in pairwise(loaded):
            total = b.dot(left, right, total)
        (out + at).store(total)
    module = b.module()
    listed = ops(module, 8)
    assert listed.count("gpu.wgmma") == 4 and "dot" not in listed
    arguments = [*random_operands(F16, *[(128, 128)] * 5), np.zeros((128, 128), np.float32)]
    agree(module, arguments, 8)
