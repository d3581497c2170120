"""Programs for `torch.compile`. `PROGRAMS` maps a name to `program(device)`, which returns a
function and its arguments. The expected results are those of the uncompiled function."""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812

PROGRAMS: dict[str, Callable[[str], tuple[Callable[..., Any], tuple[Any, ...]]]] = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def randn(device, *shape, dtype=torch.float32):
    return torch.randn(*shape, device=device).to(dtype)


@program
def rms_norm(device):
    return lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6), (
        randn(device, 512, 1000),
    )


@program
def layer_norm_gelu(device):
    return lambda x: F.gelu(F.layer_norm(x, x.shape[-1:])), (randn(device, 512, 768),)


@program
def softmax_scaled(device):
    return lambda x: torch.softmax(x * 0.3, -1), (randn(device, 512, 1000),)


@program
def cross_entropy(device):
    target = torch.randint(1000, (256,), device=device)
    return lambda x: F.cross_entropy(x, target), (randn(device, 256, 1000),)


@program
def argmax_min(device):
    return lambda x: (x.argmax(-1), x.min(0).values), (randn(device, 257, 513),)


@program
def cumsum(device):
    return lambda x: x.cumsum(-1), (randn(device, 64, 700),)


@program
def variance(device):
    return lambda x: (x.var(-1), x.std(0), torch.logsumexp(x, -1)), (randn(device, 257, 513),)


@program
def special_functions(device):
    return (
        lambda x: (torch.erf(x), torch.tanh(x), x.abs().log1p(), torch.atan2(x, x + 1), x.expm1()),
        (randn(device, 5000),),
    )


@program
def gather_rows(device):
    index = torch.randint(100, (300,), device=device)
    return lambda x: x[index] * 2 + 1, (randn(device, 100, 333),)


@program
def scatter_add(device):
    index = torch.randint(64, (5000,), device=device)
    return lambda x: torch.zeros(64, device=device).scatter_add(0, index, x), (randn(device, 5000),)


@program
def transpose_cat(device):
    return lambda x, y: torch.cat([x.t(), y.t()], 1).contiguous() * 2, (
        randn(device, 200, 300), randn(device, 100, 300))  # fmt: skip


@program
def half_precision(device):
    return lambda x: (x.float() * 3).bfloat16() + x.sigmoid(), (
        randn(device, 4097, dtype=torch.bfloat16),)  # fmt: skip


@program
def integers(device):
    x = torch.randint(-99, 999, (3001,), device=device)
    return lambda x: (x // 7, x % 5, x << 2, (x ^ 3) & 255, (x > 10) & (x < 99)), (x,)


@program
def max_pool(device):
    return lambda x: F.max_pool2d(x, 3, 2), (randn(device, 2, 4, 65, 65),)


@program
def upsample(device):
    return lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (
        randn(device, 2, 3, 33, 33),
    )


@program
def training_step(device):
    torch.manual_seed(0)
    width = 128
    model = torch.nn.Sequential(
        torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
        torch.nn.Linear(4 * width, width),
    ).to(device)  # fmt: skip

    def gradients(x):
        loss = (model(x) - x).square().mean()
        return torch.autograd.grad(loss, list(model.parameters()))

    return gradients, (randn(device, 64, width),)
