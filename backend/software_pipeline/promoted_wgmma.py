"""A dot as one `wgmma`, or as several whose results are added in full precision."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.backend.layouts.wgmma import parts_along_k
from tileir.op import Op
from tileir.ops.dot import Dot
from tileir.ops.floats import FAdd
from tileir.ops.hopper import Wgmma, WgmmaWait
from tileir.values import Constant, Operand, is_zero


def accumulates_once(dot: Dot) -> bool:
    """Whether one `wgmma` computes `dot`, its accumulator included."""
    return len(parts_along_k(dot)) == 1


def wgmma_and_wait(dot: Dot, wgmma: Wgmma, meanwhile: Sequence[Op] = ()) -> list[Op]:
    """`wgmma`, which computes `dot`, and the wait for it, with `meanwhile` between the two. If
    `wgmma` may accumulate only some steps of K, there is one `wgmma` for each part of K, and their
    results are added."""
    place, parts = dot.location, parts_along_k(dot)
    if len(parts) == 1:
        return [wgmma, *meanwhile, WgmmaWait(wgmma.result, results=dot.results, location=place)]
    ops: list[Op] = []
    total: Operand | None = None if is_zero(dot.c) else dot.c
    zeros = Constant(dot.c.type, 0)
    for part in parts:
        one = wgmma.evolve(c=zeros, depth=part, results=())
        done = WgmmaWait(one.result, location=place)
        ops += [one, *(meanwhile if part is parts[0] else ()), done]
        if total is None:
            total = done.result
        else:
            results = dot.results if part is parts[-1] else ()
            ops.append(FAdd(total, done.result, results=results, location=place))
            total = ops[-1].results[0]
    return ops
