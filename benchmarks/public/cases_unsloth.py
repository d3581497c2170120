"""unsloth: its kernels of norms, gates, losses and rotations, forward and backward."""
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import os
import types

import torch  # type: ignore[import-not-spec]
import torch.nn.functional as F  # type: ignore[import-not-spec]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, gradient_step, integers, normal, rms

ROWS, HIDDEN = 2048, 2048
ZOO = ("unsloth_zoo", "unsloth_zoo.temporary_patches")
MODELS = tuple(
    f"transformers{module}"
    for module in (
        "", ".models", ".models.llama", ".models.llama.modeling_llama", ".models.mllama",
        ".models.mllama.modeling_mllama", ".loss", ".loss.loss_utils", ".modeling_utils",
        ".training_args",
    )
)  # fmt: skip
"""The modules of models that unsloth's kernels import, for its own layers."""


def kernels(module):
    """A module of the package's kernels, imported without the `__init__` of the package and of
    unsloth_zoo, which require a GPU and change or import other packages."""
    os.environ.update(UNSLOTH_ALLOW_CPU="1", UNSLOTH_IS_PRESENT="1")
    vars(alone("unsloth_zoo", ZOO)).setdefault("DEVICE_TYPE", "cuda")
    return alone(f"unsloth.kernels.{module}", ("unsloth.kernels", *ZOO), MODELS)


def case(make):
    add(f"unsloth/{make.__name__}", make)
    return make


@case
def rms_layernorm(device):
    def call(x, w):
        layer = types.SimpleNamespace(weight=w, eps=1e-5)
        return kernels("rms_layernorm").fast_rms_layernorm(layer, x)

    return gradient_step(call, normal(device, 2, ROWS, HIDDEN), normal(device, HIDDEN).detach(),
                         reference=rms)  # fmt: skip


@case
def rms_layernorm_gemma(device):
    def call(x, w):
        layer = types.SimpleNamespace(weight=w, eps=1e-5)
        return kernels("rms_layernorm").fast_rms_layernorm(layer, x, gemma=True)

    return gradient_step(call, normal(device, 2, ROWS, HIDDEN), normal(device, HIDDEN).detach(),
                         reference=lambda x, w: rms(x, w + 1, 1e-5))  # fmt: skip


@case
def layernorm(device):
    w, b = (normal(device, HIDDEN).detach() for _ in range(2))

    def call(x):
        layer = types.SimpleNamespace(weight=w, bias=b, eps=1e-5, elementwise_affine=True)
        return kernels("layernorm").fast_layernorm(layer, x)

    return gradient_step(
        call, normal(device, 2, ROWS, HIDDEN),
        reference=lambda x: F.layer_norm(x, (HIDDEN,), w.double(), b.double()),
    )  # fmt: skip


@case
def cross_entropy(device):
    t = integers(device, 32000, 2, ROWS)
    return gradient_step(
        lambda x: kernels("cross_entropy_loss").fast_cross_entropy_loss(x.clone(), t),
        normal(device, 2, ROWS, 32000),
        reference=lambda x: F.cross_entropy(x.view(-1, 32000), t.view(-1)),
    )


@case
def cross_entropy_softcapped(device):
    t = integers(device, 32000, 2, ROWS)
    loss = lambda x: kernels("cross_entropy_loss").fast_cross_entropy_loss  # noqa: E731
    return gradient_step(
        lambda x: loss(x)(x.clone(), t, 30.0, 0.5),
        normal(device, 2, ROWS, 32000),
        reference=lambda x: F.cross_entropy(
            (30 * torch.tanh(0.5 * x / 30)).view(-1, 32000), t.view(-1)
        ),
    )


@case
def rope(device):
    angles = torch.rand(ROWS, 32, device=device).repeat(1, 2) * 6
    cos, sin = angles.cos(), angles.sin()

    def rotate(x):
        return x * cos.double() + torch.cat([-x[..., 32:], x[..., :32]], -1) * sin.double()

    return gradient_step(
        lambda q, k: kernels("rope_embedding").fast_rope_embedding(q.clone(), k.clone(), cos, sin),
        normal(device, 2, 8, ROWS, 64), normal(device, 2, 2, ROWS, 64),
        reference=lambda q, k: (rotate(q), rotate(k)),
    )  # fmt: skip


def _gates(name, act, forward, backward, module):
    """A gate and its gradients; the backward kernel writes to its arguments."""

    @lambda make: add(f"unsloth/{name}", make)
    def _forward(device):
        e, g = (normal(device, 2, ROWS, 11008, grad=False) for _ in range(2))
        return forward_step(
            lambda e, g: getattr(kernels(module), forward)(e, g), e, g,
            reference=lambda e, g: act(e) * g,
        )  # fmt: skip

    @lambda make: add(f"unsloth/{name}_gradients", make)
    def _backward(device):
        dw, e, g = (normal(device, ROWS, 11008, grad=False) for _ in range(3))

        def exact(dw, e, g):
            e = e.requires_grad_()
            de = torch.autograd.grad(act(e), e, dw * g)[0]
            return (act(e) * g).detach(), (dw * act(e)).detach(), de

        return forward_step(
            lambda *a: getattr(kernels(module), backward)(*(t.clone() for t in a)), dw, e, g,
            reference=exact,
        )  # fmt: skip


_gates("swiglu", F.silu, "swiglu_fg_kernel", "swiglu_DWf_DW_dfg_kernel", "swiglu")
_gates("geglu", F.gelu, "geglu_exact_forward_kernel", "geglu_exact_backward_kernel", "geglu")
_gates(
    "geglu_tanh", lambda e: F.gelu(e, approximate="tanh"), "geglu_approx_forward_kernel",
    "geglu_approx_backward_kernel", "geglu",
)  # fmt: skip


@case
def fp8_act_quant(device):
    def call(x):
        y, s = kernels("fp8").act_quant(x)
        return (y.float().view(ROWS, -1, 128) * s[..., None]).view(ROWS, HIDDEN).to(F16)

    return forward_step(call, normal(device, ROWS, HIDDEN, grad=False), reference=_quantise_rows)


def _quantise_rows(x):
    parts = x.float().view(ROWS, -1, 128)
    scale = parts.abs().amax(-1, keepdim=True) / 448.0  # not a size, so `small` does not change it
    return ((parts / scale).to(torch.float8_e4m3fn).double() * scale).view(x.shape)


@case
def fp8_weight_dequant(device):
    w = normal(device, HIDDEN, HIDDEN, grad=False).to(torch.float8_e4m3fn)
    s = torch.rand(-(-HIDDEN // 128), -(-HIDDEN // 128), device=device)

    def wide(w, s):
        return w.double() * s.repeat_interleave(128, 0).repeat_interleave(128, 1)

    return forward_step(
        lambda w, s: kernels("fp8").weight_dequant_block(w, s, 128, BF16), w, s, reference=wide
    )


@case
def qk_norm_rope(device):
    q, k = normal(device, 2, 2048, 32, 128), normal(device, 2, 2048, 8, 128)
    wq, wk = (normal(device, 128, grad=False) for _ in range(2))
    cos, sin = (normal(device, 2048, 128, grad=False) for _ in range(2))
    rows = torch.zeros(1, dtype=torch.int32, device=device)
    apply = lambda q, k: kernels("qk_norm_rope").Fast_QK_Norm_RoPE.apply(  # noqa: E731
        q, k, wq, wk, cos, sin, rows, 1e-6, 1e-6, False
    )
    return gradient_step(apply, q, k)


@case
def add_rms_layernorm(device):
    def call(h, r, w):
        r = r.clone()
        return kernels("fused_add_rms_layernorm").fast_add_rms_layernorm_inference(
            h.clone(), r, w, 1e-6
        ), r

    shape = (16, 1, 4096)
    return forward_step(
        call, normal(device, *shape, grad=False), normal(device, *shape, grad=False),
        normal(device, 4096, grad=False), reference=lambda h, r, w: (rms(h + r, w), h + r),
    )  # fmt: skip


@case
def nvfp4_dequantize(device):
    packed = integers(device, 256, 4096, 2048, dtype=torch.uint8)
    scale = (torch.rand(4096, 256, device=device) + 0.5).to(torch.float8_e4m3fn)
    return forward_step(
        lambda p, s, g: kernels("nvfp4").nvfp4_dequantize(p, s, g), packed, scale,
        torch.ones(1, device=device),
    )  # fmt: skip


@case
def nf4_dequantize(device):
    packed = integers(device, 256, 4096 * 2048, 1, dtype=torch.uint8)
    scales = torch.rand(4096 * 4096 // 64, device=device)
    code = torch.linspace(-1, 1, 16, device=device)
    return forward_step(
        lambda p, s, c: kernels("nf4").dequantize_nf4(
            p, s, None, None, None, c, 64, 0, (4096, 4096), F16
        ), packed, scales, code,
    )  # fmt: skip


def _fp8_gemv(name, rows, scale, dtype=BF16):
    @lambda make: add(f"unsloth/{name}_{rows}", make)
    def _build(device):
        w = normal(device, 4096, 4096, dtype=F32, grad=False).to(torch.float8_e4m3fn)
        s = torch.rand(*scale, device=device)
        return forward_step(lambda a: getattr(kernels("fp8"), name)(a, w, s),
                            normal(device, rows, 4096, dtype=dtype, grad=False))  # fmt: skip


_fp8_gemv("fp8_rowwise_gemv", 1, (4096, 1))
_fp8_gemv("fp8_rowwise_gemv", 4, (4096, 1), F16)
_fp8_gemv("fp8_block_gemv", 1, (4096 // 128, 4096 // 128))
_fp8_gemv("fp8_block_gemv", 8, (4096 // 128, 4096 // 128))
_fp8_gemv("fp8_block_small_m_linear", 16, (4096 // 128, 4096 // 128))
