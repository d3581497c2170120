"""Programs of torch.compile: single operators, operators fused with others, and training steps."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F32, F64, Step, add, argument as x, integers, tensors


def program(name, function, *makers, tolerant=False):
    """A program on the results of `makers`, compared with its uncompiled form in f64."""

    def build(device):
        inputs = [m(device) for m in makers]
        compiled = torch.compile(function, dynamic=False)

        def run():
            with torch.no_grad():
                return tensors(compiled(*inputs))

        def exact():
            wide = [t.to(F64) if t.is_floating_point() else t for t in inputs]
            with torch.no_grad():
                return tensors(function(*wide))

        return Step(run, None if tolerant else exact)

    add(f"inductor/{name}", build)


def i(high, *shape):
    return lambda device: integers(device, high, *shape)


S = (4096, 4096)
program(
    "rms_norm_gelu",
    lambda a: F.gelu(a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6)),
    x(*S, dtype=BF16),
)
program(
    "layer_norm_gelu",
    lambda a, w, b: F.gelu(F.layer_norm(a, (4096,), w, b)),
    x(*S, dtype=BF16),
    x(4096, dtype=BF16),
    x(4096, dtype=BF16),
)
program("layer_norm_small", lambda a: F.gelu(F.layer_norm(a, (768,))), x(512, 768))
program("softmax_scaled", lambda a, b: torch.softmax(0.3 * a + b, -1), x(*S), x(*S))
program("softmax_bf16", lambda a: torch.softmax(a, -1), x(8192, 1024, dtype=BF16))
program("log_softmax_long", lambda a: torch.log_softmax(a, -1), x(512, 100000))
program(
    "cross_entropy", lambda a, t: F.cross_entropy(a, t), x(2048, 32000, dtype=BF16), i(32000, 2048)
)
program("var_mean", lambda a: torch.var_mean(a, -1), x(*S))
program("var_columns", lambda a: torch.var(a, 0), x(*S))
program("std_columns", lambda a: (a.std(0), a.mean(0)), x(16384, 512))
program("argmax", lambda a: a.argmax(-1), x(*S))
program("argmax_columns", lambda a: a.argmax(0), x(*S))
program("cumsum", lambda a: a.cumsum(-1), x(1024, 16384))
program("cumsum_short", lambda a: a.cumsum(-1), x(65536, 256))
program("cumprod", lambda a: a.cumprod(-1), x(2048, 1024, scale=0.1))
program("cummax", lambda a: a.cummax(-1).values, x(2048, 1024))
program("logcumsumexp", lambda a: a.logcumsumexp(-1), x(2048, 1024))
program("sort", lambda a: a.sort(-1).values, x(65536, 128))
program(
    "index_add", lambda a, k, v: a.index_add(0, k, v), x(8192, 1024), i(8192, 16384), x(16384, 1024)
)
program(
    "scatter_add",
    lambda a, k, v: a.scatter_add(0, k, v),
    x(1 << 20),
    i(1 << 20, 1 << 22),
    x(1 << 22),
)
program("gather_rows", lambda a, k: a[k] * 2 + 1, x(32000, 1024, dtype=BF16), i(32000, 16384))
program(
    "embedding_norm",
    lambda a, k, w: F.rms_norm(F.embedding(k, a), (1024,), w),
    x(32000, 1024),
    i(32000, 8192),
    x(1024),
)
program("silu_sin", lambda h: F.silu(h) * torch.sin(h), x(*S, dtype=BF16))
program("swiglu", lambda a, b: F.silu(a) * b, x(*S, dtype=BF16), x(*S, dtype=BF16))
program("tanh_erf_pow", lambda a: torch.tanh(a) + torch.erf(a) * a.abs().pow(1.7), x(*S))
program(
    "special",
    lambda a: (torch.lgamma(a.abs() + 1), torch.erfinv(a.sin() * 0.9), a.expm1(), a.abs().log1p()),
    x(2048, 2048),
)
program(
    "trigonometry",
    lambda a, b: (torch.atan2(a, b), a.cos(), b.tan(), torch.asin(a.sin())),
    x(2048, 2048),
    x(2048, 2048),
)
program("transpose_add", lambda a, b: a.t() + b, x(*S), x(*S))
program(
    "permute_contiguous",
    lambda a: a.permute(0, 2, 1, 3).contiguous() * 2,
    x(8, 2048, 16, 64, dtype=BF16),
)
program("cat_pad", lambda a, b: F.pad(torch.cat([a, b], 1), (1, 1)), x(2048, 2048), x(2048, 1000))
program(
    "group_norm_silu",
    lambda a, w, b: F.silu(F.group_norm(a, 32, w, b)),
    x(16, 256, 56, 56),
    x(256),
    x(256),
)
program(
    "batch_norm_relu",
    lambda a: F.relu(F.batch_norm(a, None, None, training=True)),
    x(32, 128, 56, 56),
)
program("max_pool", lambda a: F.max_pool2d(a, 3, 2), x(16, 64, 112, 112, dtype=F16))
program("avg_pool", lambda a: F.avg_pool2d(a, 3, 2), x(16, 64, 112, 112))
program("bilinear", lambda a: F.interpolate(a, None, 2, "bilinear"), x(8, 32, 128, 128))
program("bicubic", lambda a: F.interpolate(a, None, 2, "bicubic"), x(4, 16, 128, 128))
program("sum_all", lambda a: a.sum(), x(*S))
program("sum_columns", lambda a: a.sum(0), x(65536, 256))
program("norm", lambda a: a / a.norm(dim=-1, keepdim=True), x(16384, 1024))
program("logsumexp", lambda a: torch.logsumexp(a, -1), x(8192, 8192))
program("integers", lambda a: (a // 7, a % 5, a << 2, (a ^ 3) & 255), i(100000, 1 << 22))
program(
    "rope",
    lambda q, c, s: q * c + torch.cat([-q[..., 64:], q[..., :64]], -1) * s,
    x(4, 32, 2048, 128, dtype=BF16),
    x(2048, 128, dtype=BF16),
    x(2048, 128, dtype=BF16),
)
program(
    "quantize",
    lambda a: (
        (a / (a.abs().amax(-1, keepdim=True) / 127)).round().to(torch.int8),
        a.abs().amax(-1),
    ),
    x(8192, 4096, dtype=BF16),
)
program("dropout_add", lambda a, b: F.dropout(a, 0.2) + b, x(*S), x(*S), tolerant=True)
program(
    "adam",
    lambda p, g, m, v: (
        p - 1e-3 * (0.9 * m + 0.1 * g) / ((0.99 * v + 0.01 * g * g).sqrt() + 1e-8),
        0.9 * m + 0.1 * g,
        0.99 * v + 0.01 * g * g,
    ),
    x(1 << 24),
    x(1 << 24),
    x(1 << 24),
    lambda d: torch.rand(1 << 24, device=d),
)


def training(name, model, *makers, loss=lambda out: out.float().square().mean()):
    """A training step: the loss and gradients."""

    def build(device):
        torch.manual_seed(0)
        module, inputs = model().to(device), [m(device) for m in makers]

        def gradients(*arguments):
            return (value := loss(module(*arguments))), torch.autograd.grad(
                value, list(module.parameters())
            )

        compiled = torch.compile(lambda *arguments: loss(module(*arguments)), dynamic=False)

        def run():
            value = compiled(*inputs)
            return [value.detach(), *torch.autograd.grad(value, list(module.parameters()))]

        def exact():
            nonlocal module
            original, module = module, module.to(F64)
            wide = [t.to(F64) if t.is_floating_point() else t for t in inputs]
            results = [t.detach().clone() for t in tensors(gradients(*wide))]
            module = original.to(F32)
            return results

        return Step(run, exact)

    add(f"inductor/train_{name}", build)


class Block(torch.nn.Module):
    """A layer of a transformer with normalization before each part."""

    def __init__(self, width=512, heads=8) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, h):
        b, t, w = h.shape
        parts = self.qkv(self.first(h)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) * (w // self.heads) ** -0.5
        mask = torch.ones(t, t, device=h.device, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        h = h + self.out((weights @ parts[2]).transpose(1, 2).reshape(b, t, w))
        return h + self.down(F.gelu(self.up(self.second(h))))


class Experts(torch.nn.Module):
    """A mixture of experts with two experts for each token, computed densely with weights."""

    def __init__(self, width=256, count=8) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(width, count)
        self.up = torch.nn.Parameter(torch.randn(count, width, 2 * width) * width**-0.5)
        self.down = torch.nn.Parameter(torch.randn(count, 2 * width, width) * width**-0.5)

    def forward(self, h):
        scores, index = self.gate(h).softmax(-1).topk(2, -1)
        weights = torch.zeros(*h.shape[:-1], self.up.shape[0], device=h.device, dtype=h.dtype)
        weights = weights.scatter(-1, index, scores / scores.sum(-1, keepdim=True))
        inner = F.silu(torch.einsum("tw,ewi->tei", h, self.up))
        return torch.einsum("tei,eiw,te->tw", inner, self.down, weights)


def _convolutions():
    n = torch.nn
    return n.Sequential(
        n.Conv2d(3, 32, 3, padding=1), n.BatchNorm2d(32), n.ReLU(), n.MaxPool2d(2),
        n.Conv2d(32, 64, 3, padding=1), n.GroupNorm(8, 64), n.SiLU(), n.AdaptiveAvgPool2d(1),
        n.Flatten(), n.Linear(64, 10),
    )  # fmt: skip


training("transformer", lambda: torch.nn.Sequential(Block(), Block()), x(4, 512, 512))
training("convolutions", _convolutions, x(32, 3, 64, 64))
training("experts", Experts, x(4096, 256))
