"""Liger-Kernel: every function of its functional interface, forward and backward."""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, E731

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F32, add, gradient_step, integers, normal, rms

ROWS, HIDDEN, VOCABULARY = 4096, 4096, 32000


def _functional():
    from liger_kernel.transformers import functional  # type: ignore[import-not-found]

    return functional


def _ops(module, name):
    from importlib import import_module

    return getattr(import_module(f"liger_kernel.ops.{module}"), name).apply


def case(make):
    add(f"liger/{make.__name__}", make)
    return make


@case
def rms_norm(device):
    x, w = normal(device, ROWS, HIDDEN), normal(device, HIDDEN)
    return gradient_step(
        lambda x, w: _functional().liger_rms_norm(x, w, 1e-6, in_place=False),
        x,
        w,
        reference=lambda x, w: rms(x, w, 1e-6),
    )


@case
def rms_norm_rows(device):
    x, w = normal(device, 65536, 128), normal(device, 128)
    return gradient_step(
        lambda x, w: _functional().liger_rms_norm(x, w, 1e-6, in_place=False),
        x,
        w,
        reference=lambda x, w: rms(x, w, 1e-6),
    )


@case
def layer_norm(device):
    x, w, b = normal(device, ROWS, HIDDEN), normal(device, HIDDEN), normal(device, HIDDEN)
    return gradient_step(
        lambda x, w, b: _functional().liger_layer_norm(x, w, b, 1e-5),
        x,
        w,
        b,
        reference=lambda x, w, b: F.layer_norm(x, (HIDDEN,), w, b),
    )


@case
def group_norm(device):
    x, w, b = (
        normal(device, 16, 256, 1024, dtype=F32),
        normal(device, 256, dtype=F32),
        normal(device, 256, dtype=F32),
    )
    return gradient_step(
        lambda x, w, b: _functional().liger_group_norm(x, w, b, 256, 32, 1e-5),
        x,
        w,
        b,
        reference=lambda x, w, b: F.group_norm(x, 32, w, b),
    )


@case
def fused_add_rms_norm(device):
    x, r, w = normal(device, ROWS, HIDDEN), normal(device, ROWS, HIDDEN), normal(device, HIDDEN)
    return gradient_step(
        lambda x, r, w: _functional().liger_fused_add_rms_norm(x, r, w, 1e-6, in_place=False),
        x,
        r,
        w,
        reference=lambda x, r, w: (rms(x + r, w, 1e-6), x + r),
    )


@case
def modulated_rms_norm(device):
    x, w = normal(device, 8, 1024, HIDDEN), normal(device, HIDDEN)
    scale, shift = normal(device, 8, HIDDEN), normal(device, 8, HIDDEN)
    return gradient_step(
        lambda x, w, scale, shift: _functional().liger_modulated_rms_norm(
            x, w, scale, shift, in_place=False
        ),
        x,
        w,
        scale,
        shift,
    )


@case
def poly_norm(device):
    x, w, b = (
        normal(device, ROWS, HIDDEN),
        normal(device, 3),
        normal(device, 1)[0].detach().requires_grad_(),
    )
    return gradient_step(
        lambda x, w, b: _functional().liger_poly_norm(x, w, b, in_place=False), x, w, b
    )


@case
def dyt(device):
    x, a = normal(device, ROWS, HIDDEN), normal(device, 1)
    g, b = normal(device, HIDDEN), normal(device, HIDDEN)
    return gradient_step(
        lambda x, a, g, b: _functional().liger_dyt(x, a, g, b),
        x,
        a,
        g,
        b,
        reference=lambda x, a, g, b: torch.tanh(a * x) * g + b,
    )


@case
def swiglu(device):
    a, b = normal(device, ROWS, 11008), normal(device, ROWS, 11008)
    return gradient_step(
        lambda a, b: _functional().liger_swiglu(a, b), a, b, reference=lambda a, b: F.silu(a) * b
    )


@case
def geglu(device):
    a, b = normal(device, ROWS, 11008), normal(device, ROWS, 11008)
    return gradient_step(
        lambda a, b: _functional().liger_geglu(a, b),
        a,
        b,
        reference=lambda a, b: F.gelu(a, approximate="tanh") * b,
    )


@case
def relu_squared(device):
    return gradient_step(
        lambda x: _functional().liger_relu_squared(x),
        normal(device, ROWS, 11008),
        reference=lambda x: F.relu(x).square(),
    )


def _angles(device, length, width):
    angles = torch.randn(1, length, width, device=device)
    return angles.cos().to(BF16), angles.sin().to(BF16)


@case
def rope(device):
    q, k = normal(device, 1, 32, 4096, 128), normal(device, 1, 8, 4096, 128)
    cos, sin = _angles(device, 4096, 128)
    return gradient_step(lambda q, k: _functional().liger_rope(q, k, cos, sin), q, k)


@case
def qwen2vl_mrope(device):
    q, k = normal(device, 1, 32, 4096, 128), normal(device, 1, 8, 4096, 128)
    cos, sin = (torch.randn(3, 1, 4096, 128, device=device).to(BF16) for _ in range(2))
    return gradient_step(
        lambda q, k: _functional().liger_qwen2vl_mrope(q, k, cos, sin, [16, 24, 24]), q, k
    )


@case
def softmax(device):
    return gradient_step(
        lambda x: _functional().liger_softmax(x),
        normal(device, ROWS, 4096),
        reference=lambda x: torch.softmax(x, -1),
    )


@case
def softmax_long(device):
    return gradient_step(
        lambda x: _functional().liger_softmax(x),
        normal(device, 1024, 65536),
        reference=lambda x: torch.softmax(x, -1),
    )


@case
def sparsemax(device):
    return gradient_step(
        lambda x: _functional().liger_sparsemax(x), normal(device, 2048, 4096, dtype=F32)
    )


@case
def cross_entropy(device):
    x, t = normal(device, ROWS, VOCABULARY), integers(device, VOCABULARY, ROWS)
    return gradient_step(
        lambda x: _functional().liger_cross_entropy(x.clone(), t),
        x,
        reference=lambda x: F.cross_entropy(x, t),
    )


@case
def cross_entropy_smoothed(device):
    x, t = normal(device, ROWS, 128256), integers(device, 128256, ROWS)
    return gradient_step(
        lambda x: _functional().liger_cross_entropy(
            x.clone(), t, label_smoothing=0.1, lse_square_scale=1e-4, softcap=30.0
        ),
        x,
    )


@case
def fused_linear_cross_entropy(device):
    x, w = normal(device, ROWS, 2048), normal(device, VOCABULARY, 2048, scale=0.02)
    t = integers(device, VOCABULARY, ROWS)
    return gradient_step(
        lambda x, w: _functional().liger_fused_linear_cross_entropy(x, w, t),
        x,
        w,
        reference=lambda x, w: F.cross_entropy(x @ w.t(), t),
    )


@case
def fused_linear_jsd(device):
    x, w = normal(device, 1024, 1024), normal(device, VOCABULARY, 1024, scale=0.02)
    y, v = (
        normal(device, 1024, 2048, grad=False),
        normal(device, VOCABULARY, 2048, scale=0.02, grad=False),
    )
    return gradient_step(lambda x, w: _functional().liger_fused_linear_jsd(x, w, y, v), x, w)


@case
def fused_linear_kl_div(device):
    x, w = normal(device, 1024, 1024), normal(device, VOCABULARY, 1024, scale=0.02)
    y = normal(device, 1024, VOCABULARY, grad=False).softmax(-1)
    return gradient_step(lambda x, w: _functional().liger_fused_linear_kl_div(x, w, y), x, w)


@case
def jsd(device):
    x = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).log_softmax(-1).requires_grad_()
    y = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).log_softmax(-1)
    return gradient_step(lambda x: _functional().liger_jsd(x, y), x)


@case
def kl_div(device):
    x = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).log_softmax(-1).requires_grad_()
    y = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).softmax(-1)
    return gradient_step(
        lambda x: _functional().liger_kl_div(x, y, reduction="batchmean"),
        x,
        reference=lambda x: F.kl_div(x, y, reduction="batchmean"),
    )


@case
def tvd(device):
    x = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).softmax(-1).requires_grad_()
    y = normal(device, ROWS, VOCABULARY, dtype=F32, grad=False).softmax(-1)
    return gradient_step(lambda x: _functional().liger_tvd(x, y), x)


@case
def fused_ce_tvd(device):
    x, y = normal(device, ROWS, VOCABULARY), normal(device, ROWS, VOCABULARY, grad=False)
    t = integers(device, VOCABULARY, ROWS)
    return gradient_step(lambda x: _ops("fused_ce_tvd", "LigerFusedCETVDFunction")(x, y, t), x)


@case
def neighborhood_attention(device):
    """The kernel of softmax's gradient adds terms in bf16, with a rounding after each addition, and
    the gradient of q is computed from a difference with that sum. Results for different orders of
    the additions differ by 5e-2 to 1.3e-1, and by as much from the reference."""
    q, k, v = (normal(device, 2, 8, 1024, 64) for _ in range(3))

    def plain(q, k, v):
        place = torch.arange(q.shape[-2], device=q.device)
        far = (place[:, None] - place).abs() > 3
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(far, float("-inf"))
        return scores.softmax(-1) @ v

    return gradient_step(
        lambda q, k, v: _functional().liger_fused_neighborhood_attention(q, k, v, 7),
        q, k, v, reference=plain,
    )  # fmt: skip


@case
def multi_token_attention(device):
    s, w = normal(device, 8, 1, 512, 512, dtype=F32), normal(device, 1, 1, 3, 3, dtype=F32)
    return gradient_step(
        lambda s, w: _functional().liger_multi_token_attention(s, w, padding=1), s, w
    )


@case
def attn_res(device):
    v, q, w = normal(device, 8, 4096, 2048), normal(device, 2048), normal(device, 2048)
    return gradient_step(lambda v, q, w: _functional().liger_attn_res(v, q, w), v, q, w)


@case
def mhc(device):
    x, phi = normal(device, 4096, 4, 1024), normal(device, 4096, 24, dtype=F32, scale=0.02)
    b = normal(device, 24, dtype=F32)
    scalars = [normal(device, 1, dtype=F32)[0].detach().requires_grad_() for _ in range(3)]

    def step(x, phi, b, *alphas):
        pre, post, res = _functional().liger_mhc_coeffs(x, phi, b, *alphas)
        inner = _functional().liger_mhc_pre(x, pre)
        return _functional().liger_mhc_post_res(x, inner, post, res)

    return gradient_step(step, x, phi, b, *scalars)


@case
def fused_moe(device):
    x = normal(device, 2048, 1024)
    up, down = (
        normal(device, 8, 2 * 1408, 1024, scale=0.03),
        normal(device, 8, 1024, 1408, scale=0.03),
    )
    index = integers(device, 8, 2048, 2, dtype=torch.int32)
    weights = torch.rand(2048, 2, device=device).to(BF16)
    apply = lambda *a: _ops("fused_moe", "LigerFusedMoEFunction")(*a)
    return gradient_step(lambda x, up, down: apply(x, up, down, index, weights), x, up, down)


@case
def grpo_loss(device):
    x, ids = normal(device, 4, 513, VOCABULARY), integers(device, VOCABULARY, 4, 512)
    advantages = torch.randn(4, device=device)
    reference = torch.randn(4, 512, device=device)
    mask = torch.ones(4, 512, device=device, dtype=torch.int32)

    def step(x):
        apply = _ops("grpo_loss", "GrpoLossFunction")
        return apply(x.clone(), None, reference, ids, advantages, mask, 0.9, 0.04, 0.2, 0.4, True)

    return gradient_step(step, x)
