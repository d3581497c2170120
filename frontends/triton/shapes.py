"""Shapes that operands broadcast to."""

from __future__ import annotations

from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.tensor import Tensor, describe


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape they broadcast to, as numpy does. Raises KernelError."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result: list[int] = []
    for extents in zip(*padded, strict=True):
        wide = {n for n in extents if n != 1}
        if len(wide) > 1:
            listed = " and ".join(map(str, shapes))
            raise KernelError(f"shapes {listed} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def broadcast_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` replicated to `shape`. Raises KernelError."""
    if x.shape == shape:
        return x
    if broadcast_shape(x.shape, shape) != shape:
        raise KernelError(f"{describe(x)} does not broadcast to {shape}")
    return Tensor(x.expr.broadcast_to(*shape), x.dtype)


def broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All at one shape."""
    shape = broadcast_shape(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)
