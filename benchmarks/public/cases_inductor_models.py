"""Programs of torch.compile: parts of ordinary models, their losses, optimizers and inputs, in the
types and shapes that such models use."""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202

from __future__ import annotations

import math

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F32, F64, Step, add, tensors
from cases_inductor import i, program, x


def gradients(name, function, *makers):
    """A program and its gradients with respect to all floating-point inputs, compared with its
    uncompiled form in f64."""

    def build(device):
        inputs = [m(device) for m in makers]
        compiled = torch.compile(function, dynamic=False)
        weights = []

        def run(call=compiled, arguments=inputs):
            arguments = [_leaf(t) for t in arguments]
            leaves = [t for t in arguments if t.requires_grad]
            results = [t for t in tensors(call(*arguments)) if t.requires_grad]
            if not weights:
                weights.extend(torch.randn(t.shape, device=t.device).to(BF16) for t in results)
            chosen = [w.to(t.dtype) for w, t in zip(weights, results, strict=True)]
            return [*(t.detach() for t in results), *torch.autograd.grad(results, leaves, chosen)]

        def exact():
            return run(function, [t.to(F64) if t.is_floating_point() else t for t in inputs])

        return Step(run, exact)

    add(f"inductor/{name}", build)


def _leaf(tensor):
    return tensor.detach().requires_grad_(tensor.is_floating_point())


def positive(*shape, dtype=F32):
    return lambda device: torch.rand(*shape, device=device).to(dtype) + 0.01


def flags(*shape):
    return lambda device: torch.rand(*shape, device=device) > 0.4


def eight_bits(*shape, dtype=torch.uint8):
    return lambda device: torch.randint(-100 if dtype == torch.int8 else 0, 100, shape,
                                        device=device, dtype=dtype)  # fmt: skip


# Transformers -------------------------------------------------------------------------------------


def _rms(h, w):
    wide = h.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(h.dtype) * w


def _rotate_pairs(q, cos, sin):
    """Rotary embedding of neighbouring elements."""
    even, odd = q[..., ::2], q[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


H = (4, 2048, 2048)
program(
    "rms_norm_residual",
    lambda h, r, w: ((s := h + r), _rms(s, w)),
    x(*H, dtype=BF16),
    x(*H, dtype=BF16),
    x(2048, dtype=BF16),
)
gradients("rms_norm_gradient", _rms, x(8192, 2048, dtype=BF16), x(2048, dtype=BF16))
gradients("rms_norm_heads_gradient", _rms, x(4, 2048, 16, 96, dtype=BF16), x(96, dtype=BF16))
gradients(
    "layer_norm_gradient",
    lambda h, w, b: F.layer_norm(h, (1000,), w, b),
    x(5000, 1000),
    x(1000),
    x(1000),
)
program(
    "rotary_pairs",
    _rotate_pairs,
    x(4, 32, 2048, 128, dtype=BF16),
    x(2048, 64, dtype=BF16),
    x(2048, 64, dtype=BF16),
)
program(
    "rotary_complex",
    lambda q, f: torch.view_as_real(torch.view_as_complex(q) * torch.polar(torch.ones_like(f), f)),
    x(8, 2048, 16, 32, 2),
    x(2048, 1, 32),
)
gradients("swiglu_gradient", lambda h: F.silu(h[..., :5504]) * h[..., 5504:],
          x(4096, 11008, dtype=BF16))  # fmt: skip
gradients("geglu_gradient", lambda a, b: F.gelu(a) * b, x(4096, 4100, dtype=F16),
          x(4096, 4100, dtype=F16))  # fmt: skip
gradients("relu_squared_gradient", lambda h: F.relu(h).square(), x(8192, 3072, dtype=BF16))
program(
    "masked_softmax",
    lambda s, m: (s.float() * 0.125).masked_fill(~m[:, None, None], -1e9).softmax(-1).to(s.dtype),
    x(4, 16, 512, 515, dtype=F16),
    flags(4, 515),
)
gradients(
    "causal_softmax_gradient",
    lambda s: (
        s.masked_fill(~torch.ones(s.shape[-2:], device=s.device).tril().bool(), -math.inf)
    ).softmax(-1),
    x(2, 16, 1024, 1024, dtype=BF16),
)
program(
    "alibi_scores",
    lambda s, m: (s + m[:, None, None] * torch.arange(s.shape[-1], device=s.device)).softmax(-1),
    x(2, 16, 600, 600, dtype=BF16),
    x(16, dtype=BF16),
)
program(
    "top_k_gates",
    lambda s: ((t := s.softmax(-1).topk(4, -1)).values / t.values.sum(-1, keepdim=True), t.indices),
    x(8192, 64),
)
program(
    "expert_counts",
    lambda k, s: (torch.bincount(k, minlength=64), torch.zeros_like(s).index_add(0, k, s[k])),
    i(64, 65536),
    x(64),
)
program("soft_capped", lambda s: 30 * torch.tanh(s / 30), x(2048, 32001, dtype=BF16))
gradients(
    "cross_entropy_smoothing",
    lambda s, t: F.cross_entropy(s.float(), t, label_smoothing=0.1, ignore_index=0),
    x(2048, 32003, dtype=BF16),
    i(32003, 2048),
)
gradients(
    "distillation",
    lambda s, t: F.kl_div(
        (s / 2).log_softmax(-1), (t / 2).log_softmax(-1), log_target=True, reduction="batchmean"
    ),
    x(2048, 10007),
    x(2048, 10007),
)
program(
    "entropy",
    lambda s: (-(s.softmax(-1) * s.log_softmax(-1)).sum(-1), s.argmax(-1)),
    x(4096, 8192, dtype=F16),
)
program(
    "gathered_log_probabilities",
    lambda s, t: s.log_softmax(-1).gather(-1, t[..., None]).squeeze(-1),
    x(4, 512, 50257, dtype=BF16),
    i(50257, 4, 512),
)
program(
    "repetition_penalty",
    lambda s, t: s.scatter(1, t, torch.where((v := s.gather(1, t)) < 0, v * 1.2, v / 1.2)),
    x(64, 32000),
    lambda d: torch.arange(512, device=d).expand(64, 512).contiguous(),
)
gradients("embedding_gradient", lambda w, t: F.embedding(t, w), x(5000, 768), i(5000, 32, 128))
gradients(
    "embedding_bag_gradient",
    lambda w, t: F.embedding(t, w).mean(1),
    x(50000, 64),
    i(50000, 4096, 20),
)

# Convolutional networks ---------------------------------------------------------------------------
IMAGE = (16, 96, 57, 57)
gradients(
    "group_norm_silu_gradient",
    lambda a, w, b: F.silu(F.group_norm(a, 8, w, b)),
    x(8, 128, 32, 32),
    x(128),
    x(128),
)
gradients(
    "batch_norm_gradient",
    lambda a, w, b: F.relu(F.batch_norm(a, None, None, w, b, training=True)),
    x(*IMAGE),
    x(96),
    x(96),
)
program(
    "batch_norm_inference",
    lambda a, m, v, w, b: F.hardswish(F.batch_norm(a, m, v, w, b)),
    x(*IMAGE, dtype=F16),
    x(96, dtype=F16),
    positive(96, dtype=F16),
    x(96, dtype=F16),
    x(96, dtype=F16),
)
gradients("instance_norm_gradient", lambda a: F.instance_norm(a), x(8, 32, 75, 75))
program("layer_norm_channels", lambda a: F.layer_norm(a.permute(0, 2, 3, 1), (96,)), x(*IMAGE))
program("local_response", lambda a: F.local_response_norm(a, 5), x(*IMAGE))
gradients("adaptive_pool", lambda a: F.adaptive_avg_pool2d(a, 20), x(*IMAGE))
program("adaptive_max", lambda a: F.adaptive_max_pool2d(a, 20), x(*IMAGE, dtype=F16))
gradients("max_pool_gradient", lambda a: F.max_pool2d(a, 3, 2, 1), x(16, 64, 111, 111))
gradients("bilinear_gradient", lambda a: F.interpolate(a, (80, 100), mode="bilinear"),
          x(4, 32, 40, 50))  # fmt: skip
program("nearest_resize", lambda a: F.interpolate(a, (100, 75)) + 1, x(8, 64, 50, 25, dtype=BF16))
program("reflect_pad", lambda a: F.pad(a, (3, 3, 3, 3), "reflect"), x(*IMAGE))
gradients("reflect_pad_gradient", lambda a: F.pad(a, (2, 1, 1, 2), "reflect"), x(8, 32, 50, 50))
program("unfold_patches", lambda a: F.unfold(a, 3, padding=1), x(4, 32, 64, 64, dtype=F16))
program("pixel_shuffle", lambda a: F.pixel_shuffle(a, 2) * 0.5, x(8, 64, 96, 96, dtype=F16))
program("squeeze_excite", lambda a, s: a * F.hardsigmoid(s)[:, :, None, None], x(*IMAGE, dtype=F16),
        x(16, 96, dtype=F16))  # fmt: skip
program("grid_sample", lambda a, g: F.grid_sample(a, g.tanh(), align_corners=False),
        x(4, 16, 64, 64), x(4, 96, 96, 2))  # fmt: skip
program("channels_last_mean", lambda a: (a.mean((2, 3)), a.var((2, 3))),
        lambda d: x(*IMAGE)(d).to(memory_format=torch.channels_last))  # fmt: skip

# Inputs of models, quantised values ---------------------------------------------------------------
program(
    "normalise_images",
    lambda a: (
        (a.permute(0, 3, 1, 2).float() / 255 - torch.full((3, 1, 1), 0.45, device=a.device)) / 0.22
    ),
    eight_bits(16, 224, 224, 3),
)
program(
    "grey_images",
    lambda a: (a.float() * torch.arange(1, 4, device=a.device)).sum(-1).div(6).to(torch.uint8),
    eight_bits(32, 256, 256, 3),
)
program("dequantise_int8", lambda a, s: a.to(BF16) * s, eight_bits(4096, 4096, dtype=torch.int8),
        x(4096, 1, dtype=BF16))  # fmt: skip
program("dequantise_groups", lambda a, s: (a.view(4096, -1, 128).to(F16) * s[..., None]).flatten(1),
        eight_bits(4096, 4096, dtype=torch.int8), x(4096, 4096 // 128, dtype=F16))  # fmt: skip
program("unpack_nibbles", lambda a: torch.stack([a & 15, a >> 4], -1).flatten(-2).to(F16) - 8,
        eight_bits(4096, 2048))  # fmt: skip
program(
    "quantise_f8",
    lambda a: (
        (s := a.abs().amax(-1, keepdim=True).float() / 448),
        (a / s).to(torch.float8_e4m3fn),
    ),
    x(4096, 4096, dtype=BF16),
    tolerant=True,
)
program("spectrogram_db", lambda a: 10 * (a.square() + 1e-10).log10().clamp(-8, 8), x(64, 513, 400))

# Reductions, scans and orders ---------------------------------------------------------------------
CUBE = (60, 1000, 130)
program("reductions_inner", lambda a: (a.var(-1), a.amax(-1), a.argmin(-1)), x(*CUBE))
program("reductions_middle", lambda a: (a.std(1), a.amin(1), a.sum(1)), x(*CUBE))
program("reductions_outer", lambda a: (a.mean(0), a.var(0), a.argmax(0)), x(*CUBE))
program("reductions_two", lambda a: (a.sum((0, 2)), a.amax((0, 2)), a.norm(dim=(0, 2))), x(*CUBE))
program("reductions_f16", lambda a: (a.sum(-1), a.mean(0), a.prod(-1)), x(4000, 1500, dtype=F16))
program("any_all", lambda a: (a.any(-1), a.all(0), a.sum(1)), flags(4096, 5000))
program("sums_of_integers", lambda a: (a.sum(-1), a.amax(0), a.int().cumsum(-1)),
        eight_bits(4096, 3000))  # fmt: skip
program("cumsum_columns", lambda a: a.cumsum(1), x(8, 4096, 100))
program("cumsum_bf16", lambda a: a.float().cumsum(-1).to(a.dtype), x(2048, 5000, dtype=BF16))
program("cumprod_masked", lambda m, a: (m.int().cumprod(-1), (a * m).cumsum(-1)), flags(4096, 512),
        x(4096, 512))  # fmt: skip
program("sort_pairs", lambda a: a.sort(-1, descending=True), x(16384, 100))
program("argsort_integers", lambda a: a.sort(dim=-1, stable=True), i(1000, 8192, 256))
program("median_filter", lambda a: a.unfold(-1, 5, 1).sort(-1).values[..., 2], x(2048, 2052))

# Indices ------------------------------------------------------------------------------------------
program("index_put_rows", lambda a, k, v: a.index_put((k,), v, accumulate=True), x(10000, 256),
        i(10000, 30000), x(30000, 256))  # fmt: skip
program("scatter_amax", lambda a, k, v: a.scatter_reduce(0, k, v, "amax"), x(50000, 64),
        lambda d: i(50000, 200000, 1)(d).expand(200000, 64), x(200000, 64))  # fmt: skip
program("graph_messages", lambda a, s, t, w: torch.zeros_like(a).index_add(0, t, a[s] * w[:, None]),
        x(20000, 128), i(20000, 160000), i(20000, 160000), x(160000))  # fmt: skip
program("masked_scatter_mean", lambda a, m: (a * m[..., None]).sum(1) / m.sum(1, keepdim=True),
        x(64, 512, 768), flags(64, 512))  # fmt: skip
program("bucketize", lambda a: torch.bucketize(a, torch.linspace(-3, 3, 255, device=a.device)),
        x(1 << 22))  # fmt: skip

# Optimizers and random numbers --------------------------------------------------------------------
P = 1 << 23


def _adamw(p, g, m, v):
    m, v = m.lerp(g.float(), 0.1), v * 0.99 + 0.01 * g.float().square()
    step = (m / 0.19) / ((v / 0.0199).sqrt() + 1e-8)
    return (p.float() * (1 - 1e-4) - 1e-3 * step).to(p.dtype), m, v


def _lamb(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    step = m / (v.sqrt() + 1e-6) + 0.01 * p
    return p - 1e-3 * (p.norm() / step.norm()) * step, m, v


program("adamw_bf16", _adamw, x(P, dtype=BF16), x(P, dtype=BF16), x(P), positive(P))
program("lamb", _lamb, x(4096, 1024), x(4096, 1024), x(4096, 1024), positive(4096, 1024))
program("sgd_nesterov", lambda p, g, b: ((n := 0.9 * b + g), p - 0.1 * (g + 0.9 * n)), x(P), x(P),
        x(P))  # fmt: skip
program("lion", lambda p, g, m: (p - 1e-4 * (0.9 * m + 0.1 * g).sign(), 0.99 * m + 0.01 * g), x(P),
        x(P), x(P))  # fmt: skip
program("clip_gradients", lambda *g: [t * (1 / (sum(u.square().sum() for u in g).sqrt() + 1e-6))
        .clamp(max=1) for t in g], x(1000, 1003), x(4099), x(3, 3, 64, 64))  # fmt: skip
program("gumbel", lambda s: (s - torch.empty_like(s).exponential_().log()).argmax(-1),
        x(512, 32000), tolerant=True)  # fmt: skip
program("dropout_residual_norm", lambda a, r: F.layer_norm(F.dropout(a, 0.1) + r, (1024,)),
        x(8192, 1024, dtype=F16), x(8192, 1024, dtype=F16), tolerant=True)  # fmt: skip

# Functions, and doubles ---------------------------------------------------------------------------
PLANE = (2000, 2003)
program("von_mises", lambda a, k: k * a.cos() - (2 * math.pi * torch.special.i0(k)).log(),
        x(*PLANE), positive(*PLANE))  # fmt: skip
program("gamma_density", lambda a, k: (k - 1) * a.log() - a - torch.lgamma(k), positive(*PLANE),
        positive(*PLANE))  # fmt: skip
program("normal_quantiles", lambda a: (torch.erfinv(2 * a - 1) * 2**0.5, torch.special.ndtr(a)),
        lambda d: torch.rand(*PLANE, device=d) * 0.98 + 0.01)  # fmt: skip
program("digamma_trigamma", lambda a: (torch.digamma(a + 1), torch.polygamma(1, a + 1)),
        positive(*PLANE))  # fmt: skip
program("spherical", lambda a, b, c: ((r := (a * a + b * b + c * c).sqrt()), torch.acos(c / r),
        torch.atan2(b, a)), x(*PLANE), x(*PLANE), x(*PLANE))  # fmt: skip
program(
    "doubles_norm", lambda a: (a / a.std(-1, keepdim=True)).softmax(-1), x(2048, 1000, dtype=F64)
)
program("doubles_kernel", lambda a, b: torch.exp(-(a[:, None] - b).square().sum(-1)),
        x(1000, 3, dtype=F64), x(900, 3, dtype=F64))  # fmt: skip
program("leapfrog", lambda p, v: ((h := v - p.sin() / 20), (q := p + 0.1 * h), h - q.sin() / 20),
        x(*PLANE, dtype=F64), x(*PLANE, dtype=F64))  # fmt: skip
program("heat_step", lambda a: a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:]
        + a[1:-1, :-2] - 4 * a[1:-1, 1:-1]), x(4002, 4002))  # fmt: skip
program("pairwise_distances", lambda a: (a[:, None] - a).square().sum(-1).sqrt(), x(1500, 16))
program("transposed_mixing", lambda a, b: (a.transpose(1, 2) + b).reshape(32, -1).softmax(-1),
        x(32, 196, 64), x(64, 196))  # fmt: skip
program("strided_slices", lambda a: a[:, ::2, 1:] * a[:, 1::2, :-1], x(64, 500, 701, dtype=BF16))
