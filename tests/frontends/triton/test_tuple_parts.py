"""The parts of joined tuples."""

from __future__ import annotations

from typing import Any

from tileir.builder import I32, Builder
from tileir.frontends.triton.names import structure
from tileir.frontends.triton.tensor import Tensor


class Counted(list[Any]):
    """A list that counts the items of its slices."""

    copied = 0

    def __getitem__(self, place: Any) -> Any:
        result = super().__getitem__(place)
        if isinstance(place, slice):
            Counted.copied += len(result)
            return Counted(result)
        return result


def test_a_tuple_is_rebuilt_in_linear_work() -> None:
    b = Builder()
    with b.kernel("k", n=I32) as (n,):
        items = structure(tuple(Tensor(n, I32) for _ in range(500)))
    parts = Counted(items.parts)
    assert len(items.rebuild(parts)) == 500
    assert Counted.copied <= 1000
