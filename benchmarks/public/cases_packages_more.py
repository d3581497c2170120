"""Liger-Kernel, conch and FlagGems: functions, types, shapes and strides that the files of each
package do not cover."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202

from __future__ import annotations

from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import (
    BF16,
    F16,
    F32,
    add,
    argument as x,
    case,
    forward_step,
    gradient_step,
    integers,
    normal,
    rms,
)
from cases_flag_gems import gems

aten = torch.ops.aten

# Liger-Kernel -------------------------------------------------------------------------------------


def liger(label, name, *makers, reference=None, **named):
    """Register a case of a function of the package's functional interface."""

    def build(device):
        functional = import_module("liger_kernel.transformers.functional")
        function = getattr(functional, f"liger_{name}")
        inputs = [m(device) for m in makers]
        return gradient_step(lambda *a: function(*a, **named), *inputs, reference=reference)

    add(f"liger/{label}", build)


def leaf(*shape, dtype=BF16):
    return lambda device: normal(device, *shape, dtype=dtype)


liger("rms_norm_gemma_odd", "rms_norm", leaf(3000, 2880), leaf(2880), eps=1e-6, offset=1.0,
      casting_mode="gemma", in_place=False, reference=lambda x, w: rms(x, w + 1, 1e-6))  # fmt: skip
liger("rms_norm_f32", "rms_norm", leaf(8192, 1024, dtype=F32), leaf(1024, dtype=F32), eps=1e-6,
      in_place=False, reference=lambda x, w: rms(x, w, 1e-6))  # fmt: skip
liger("layer_norm_f32_odd", "layer_norm", leaf(5000, 1153, dtype=F32),
      leaf(1153, dtype=F32), leaf(1153, dtype=F32), eps=1e-5,
      reference=lambda x, w, b: F.layer_norm(x, (1153,), w, b))  # fmt: skip
liger("group_norm_f16", "group_norm", leaf(8, 96, 3136, dtype=F16), leaf(96, dtype=F16),
      leaf(96, dtype=F16), num_channels=96, num_groups=12, eps=1e-5)  # fmt: skip
"""No reference: the terms of the gradients of weights are rounded to bf16 before the addition."""
liger("swiglu_f32_odd", "swiglu", leaf(2048, 5461, dtype=F32), leaf(2048, 5461, dtype=F32),
      reference=lambda a, b: F.silu(a) * b)  # fmt: skip
liger("geglu_f16", "geglu", leaf(4096, 3072, dtype=F16), leaf(4096, 3072, dtype=F16),
      reference=lambda a, b: F.gelu(a, approximate="tanh") * b)  # fmt: skip
liger("softmax_f32_odd", "softmax", leaf(4096, 3001, dtype=F32),
      reference=lambda a: a.softmax(-1))  # fmt: skip
liger("dyt_f32", "dyt", leaf(4096, 3072, dtype=F32), leaf(1, dtype=F32), leaf(3072, dtype=F32),
      leaf(3072, dtype=F32),
      reference=lambda x, a, g, b: torch.tanh(a * x) * g + b)  # fmt: skip


@case
def liger__cross_entropy_weighted(device):
    logits, t = normal(device, 2048, 50257, dtype=F32), integers(device, 50257, 2048)
    w = torch.rand(50257, device=device) + 0.5
    functional = import_module("liger_kernel.transformers.functional")
    return gradient_step(
        lambda x: functional.liger_cross_entropy(x.clone(), t, weight=w), logits,
        reference=lambda x: F.cross_entropy(x, t, w.to(x.dtype)),
    )  # fmt: skip


@case
def liger__llama4_rope(device):
    q, k = normal(device, 2, 2048, 32, 128), normal(device, 2, 2048, 8, 128)
    angles = torch.randn(2048, 64, device=device)
    rotations = torch.polar(torch.ones_like(angles), angles)
    module = import_module("liger_kernel.ops.llama4_rope")
    forward = module.LigerLlama4RopeFunction.apply
    return gradient_step(lambda q, k: forward(q.clone(), k.clone(), rotations), q, k)


@case
def liger__embedding(device):
    w, k = normal(device, 32000, 1024, dtype=F32), integers(device, 32000, 8, 1024)
    module = import_module("liger_kernel.ops.experimental.embedding")
    return gradient_step(lambda w: module.LigerEmbeddingFunction.apply(w, k), w,
                         reference=lambda w: F.embedding(k, w))  # fmt: skip


# conch --------------------------------------------------------------------------------------------


@case
def conch__bev_pool(device):
    points, groups = 1 << 16, 1 << 12
    places = integers(device, 128, points, 4, dtype=torch.int32) % 16
    starts = torch.arange(groups, device=device, dtype=torch.int32) * 16
    lengths = torch.full((groups,), 16, device=device, dtype=torch.int32)
    places[:, :2], places[:, 2], places[:, 3] = 0, 0, 0
    places[::16, 0] = torch.arange(groups, device=device) // 128
    places[::16, 1] = torch.arange(groups, device=device) % 128
    module = import_module("conch.ops.vision.bev_pool")
    pool = lambda f: module.bev_pool(f, places, starts, lengths, 1, 1, 128, 128)  # noqa: E731
    return forward_step(pool, normal(device, points, 80, dtype=F32, grad=False))


@case
def conch__varlen_attention(device):
    q = normal(device, 4 * 256, 16, 128, dtype=F16, grad=False)
    k, v = (normal(device, 128, 16, 4, 128, dtype=F16, grad=False) for _ in range(2))
    starts = torch.arange(5, device=device, dtype=torch.int32) * 256
    lengths = torch.full((4,), 256, device=device, dtype=torch.int32)
    table = torch.arange(4 * 16, device=device, dtype=torch.int32).view(4, 16)
    operator = import_module("conch.ops.attention.varlen_attention").varlen_attention
    return forward_step(lambda q, k, v: operator(q, k, v, starts, 256, lengths, 256, table,
                                                 causal=True), q, k, v)  # fmt: skip


# FlagGems -----------------------------------------------------------------------------------------


def positive(*shape):
    return lambda device: torch.rand(*shape, device=device) + 0.1


def gems_case(name, reference, *makers, function=None, **named):
    """Register a case of the operator `function` on the results of `makers`; a maker that is not
    callable is an argument itself."""

    def build(device):
        inputs = [m(device) if callable(m) else m for m in makers]
        operator = lambda *a, **k: getattr(gems(), function or name)(*a, **k)  # noqa: E731
        return forward_step(operator, *inputs, reference=reference, **named)

    add(f"flag_gems/{name}", build)


MATRIX = (2048, 3000)
gems_case("sum_middle", lambda a, d: a.sum(d), x(60, 1000, 130), [1], function="sum_dim")
gems_case("mean_outer_f16", lambda a, d: a.mean(d), x(3000, 1000, dtype=F16), [0],
          function="mean_dim")  # fmt: skip
gems_case(
    "softmax_middle", lambda a, d, _: a.softmax(d), x(64, 500, 60), 1, False, function="softmax"
)
gems_case("log_softmax_f16_long", lambda a, d, _: a.log_softmax(d),
          x(256, 50257, dtype=F16), 1, False, function="log_softmax")  # fmt: skip
gems_case("cumsum_outer", torch.cumsum, x(2048, 500), 0, function="cumsum")
gems_case("layer_norm_odd", lambda *a: [t.squeeze(-1) for t in torch.native_layer_norm(*a, 1e-5)],
          x(4096, 1153), [1153], x(1153), x(1153), function="layer_norm")  # fmt: skip
gems_case("add_transposed", torch.add, lambda d: x(*MATRIX)(d).t(), x(3000, 2048), function="add")
gems_case("mul_row", torch.mul, x(*MATRIX, dtype=F16), x(3000, dtype=F16), function="mul")
gems_case("gelu_strided", F.gelu, lambda d: x(4096, 6000)(d)[:, ::2], function="gelu")
gems_case("batch_norm_backward", aten.native_batch_norm_backward, x(32, 64, 28, 28),
          x(32, 64, 28, 28), x(64), None, None, x(64), positive(64), True, 1e-5,
          [True, True, True])  # fmt: skip
gems_case("nll_loss_backward",
          lambda g, a, t, w, r, n, total: aten.nll_loss_backward(g, a, t, w, r, n, total),
          lambda d: torch.ones((), device=d), x(2048, 1000),
          lambda d: integers(d, 1000, 2048), None, 1, -100,
          lambda d: torch.tensor(2048.0, device=d))  # fmt: skip
gems_case("rms_norm_backward", None, x(4096, 2048), x(4096, 2048), positive(4096), [2048], x(2048))
gems_case("dropout_backward", lambda g, m, s: g * m * s, x(*MATRIX),
          lambda d: torch.rand(*MATRIX, device=d) > 0.4, 1.25)  # fmt: skip
gems_case("weight_norm_backward", aten._weight_norm_interface_backward, x(2000, 3000),
          x(2000, 3000), x(2000, 1), positive(2000, 1), 0,
          function="weight_norm_interface_backward")  # fmt: skip
gems_case("rrelu_with_noise_backward", aten.rrelu_with_noise_backward, x(*MATRIX), x(*MATRIX),
          positive(*MATRIX), 0.1, 0.3, True, False)  # fmt: skip
gems_case("per_token_group_quant_fp8", None, x(2048, 4096, dtype=BF16), 128)
gems_case("mm_odd_f32", torch.mm, x(1000, 700), x(700, 900), function="mm")
gems_case("mm_transposed", torch.mm, x(1024, 2048, dtype=F16),
          lambda d: x(1000, 2048, dtype=F16)(d).t(), function="mm")  # fmt: skip
gems_case("topk_f16", None, x(512, 3000, dtype=F16), 7, function="topk")
gems_case("upsample_bicubic2d_aa_backward",
          lambda g, o, n, c: aten._upsample_bicubic2d_aa_backward(g, o, n, c),
          x(2, 16, 40, 50), [40, 50], [2, 16, 96, 96], False,
          function="_upsample_bicubic2d_aa_backward")  # fmt: skip
