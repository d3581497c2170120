"""The kernels of `thesis_algorithms.py` in torch: what they are measured against, on which inputs,
and how far results may be off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import torch
import torch.nn.functional as nn
from thesis_algorithms import Algorithm, algorithms

from tileir.frontends.decoupled import Tensor

Maker = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


@attrs.frozen
class Case:
    """An algorithm, `make` for its tensors of f32 or f16 by shape, and the same in torch."""

    algorithm: Algorithm
    plain: Callable[..., torch.Tensor]
    tolerance: float
    make: Maker

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the result."""
        return getattr(torch, str(Tensor(self.algorithm.element, (), ()).dtype))

    def inputs(self) -> list[Any]:
        """New ones, on the GPU."""
        return [self._random(x) if isinstance(x, Tensor) else x for x in self.algorithm.inputs]

    def _random(self, tensor: Tensor) -> torch.Tensor:
        """A random array of the shape and strides of a `Tensor`."""
        order = sorted(range(len(tensor.shape)), key=lambda i: -tensor.strides[i])
        shape = tuple(tensor.shape[i] for i in order)
        values = self.make(shape, getattr(torch, str(tensor.dtype)))
        return values.permute(*(order.index(i) for i in range(len(order))))


def cases() -> Iterator[Case]:
    """Every line."""
    for algorithm in algorithms():
        yield Case(algorithm, *_PEERS[algorithm.name])


def normal(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def chances(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.softmax(normal(shape, dtype), -1)


def small(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Scaled so that a matmul with such an extent as K has results of magnitude one."""
    return normal(shape, dtype) * min(shape) ** -0.25


def dynamic_tanh(x: Any, w: Any, v: Any, alpha: float) -> torch.Tensor:
    return torch.tanh(alpha * x) * w + v


def kl(p: Any, q: Any) -> torch.Tensor:
    return (q * (q.log() - p)).sum(-1)


def rms_norm(x: Any, w: Any, eps: float, offset: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (offset + w)


def small_attention(q: Any, k: Any, v: Any) -> torch.Tensor:
    return nn.scaled_dot_product_attention(*(x[None, None] for x in (q, k.t(), v)))[0, 0]


def flash(causal: bool) -> Callable[..., torch.Tensor]:
    def plain(q: Any, k: Any, v: Any) -> torch.Tensor:
        sides = (x[None] for x in (q, k.transpose(1, 2), v))
        return nn.scaled_dot_product_attention(*sides, is_causal=causal)[0]

    return plain


_PEERS: dict[str, tuple[Callable[..., torch.Tensor], float, Maker]] = {
    "geglu": (lambda a, b: nn.gelu(a, approximate="tanh") * b, 2e-5, normal),
    "swiglu": (lambda a, b: nn.silu(a) * b, 2e-5, normal),
    "dyt": (dynamic_tanh, 2e-5, normal),
    "tvd": (lambda p, q: 0.5 * (p - q).abs().sum(-1), 2e-5, chances),
    "kl": (kl, 2e-5, chances),
    "rms_norm": (rms_norm, 2e-5, normal),
    "softmax": (lambda a: torch.softmax(a, -1), 2e-5, normal),
    "matmul": (torch.matmul, 2e-3, small),
    "mmsigmoid": (lambda a, b: torch.sigmoid(a @ b), 4e-3, small),
    "2mm inner": (lambda a, b, c: (a @ b) @ c, 8e-3, small),
    "2mm outer": (lambda a, b, c: (a @ b) @ c, 8e-3, small),
    "attention": (small_attention, 8e-3, normal),
    "flash": (flash(causal=False), 4e-3, normal),
    "flash causal": (flash(causal=True), 4e-3, normal),
}
"""The peers by name: torch's function, the largest error relative to an element and to the mean,
and the function that makes inputs."""
