"""Other packages with kernels of Triton: conch-triton-kernels, torchao, cut-cross-entropy and
xformers."""
# ruff: noqa: ANN001, ANN201, ANN003, ANN202

from __future__ import annotations

from functools import partial
from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, add, argument, forward_step, gradient_step, integers, normal


def _from(package, path, name, make, label=None, **named):
    def build(device):
        operator = getattr(import_module(path), name)
        operator = getattr(operator, "_init_fn", operator)  # of an operator of torch, what it calls
        return forward_step(operator, *make(device), **named)

    add(f"{package}/{label or name}", build)


n = partial(argument, dtype=F16)

# conch --------------------------------------------------------------------------------------------
_from(
    "conch",
    "conch.ops.activation.gelu_tanh_and_mul",
    "gelu_tanh_and_mul",
    lambda d: (n(4096, 22016)(d),),
)
_from("conch", "conch.ops.activation.silu_and_mul", "silu_and_mul", lambda d: (n(4096, 22016)(d),))
_from(
    "conch",
    "conch.ops.normalization.rms_norm",
    "rms_norm",
    lambda d: (n(4096, 4096)(d), n(4096)(d), 1e-6),
)
_from(
    "conch",
    "conch.ops.normalization.rms_norm",
    "fused_add_rms_norm",
    lambda d: (n(4096, 4096)(d), n(4096, 4096)(d), n(4096)(d), 1e-6),
)
_from(
    "conch",
    "conch.ops.normalization.gemma_rms_norm",
    "gemma_rms_norm",
    lambda d: (n(4096, 4096)(d), n(4096)(d), 1e-6),
)
_from(
    "conch",
    "conch.ops.embedding.rotary_embedding",
    "rotary_embedding",
    lambda d: (
        torch.arange(4096, device=d),
        n(4096, 32 * 128)(d),
        n(4096, 8 * 128)(d),
        128,
        n(4096, 128)(d),
    ),
)
_from(
    "conch",
    "conch.ops.quantization.fp8",
    "scaled_fp8_quant",
    lambda d: (n(4096, 4096)(d), torch.ones(1, device=d)),
)
_from(
    "conch",
    "conch.ops.quantization.int8",
    "scaled_int8_quant",
    lambda d: (n(4096, 4096)(d), torch.ones(1, device=d)),
)
_from(
    "conch",
    "conch.ops.vision.nms",
    "nms",
    lambda d: (torch.rand(2048, 4, device=d).cumsum(-1), torch.rand(2048, device=d), 0.5),
)
_from(
    "conch",
    "conch.ops.quantization.bitsandbytes.functional",
    "quantize_blockwise",
    lambda d: (n(4096, 4096)(d),),
    blocksize=64,
    quant_type="nf4",
)


def _paged_attention(name, batch, length):
    def make(device):
        blocks = batch * length // 16
        table = torch.randperm(blocks, device=device, dtype=torch.int32).view(batch, length // 16)
        cache = lambda: n(blocks, 8, 16, 128)(device)  # noqa: E731
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)
        return n(batch, 32, 128)(device), cache(), cache(), table, lengths

    def build(device):
        operator = import_module("conch.ops.attention.paged_attention").paged_attention
        return forward_step(lambda *a: operator(*a), *make(device))

    add(f"conch/{name}", build)


_paged_attention("paged_attention", 32, 2048)

# torchao ------------------------------------------------------------------------------------------
BLOCKWISE = "torchao.kernel.blockwise_quantization"
_from("torchao", BLOCKWISE, "fp8_blockwise_act_quant", lambda d: (n(4096, 4096, dtype=BF16)(d),))
_from("torchao", BLOCKWISE, "fp8_blockwise_weight_quant", lambda d: (n(4096, 4096, dtype=BF16)(d),))
_from(
    "torchao",
    BLOCKWISE,
    "fp8_blockwise_weight_dequant",
    lambda d: (n(4096, 4096, dtype=BF16)(d).to(torch.float8_e4m3fn), torch.rand(32, 32, device=d)),
)
_from("torchao", BLOCKWISE, "blockwise_fp8_gemm", lambda d: (
    n(2048, 2048, dtype=BF16)(d).to(torch.float8_e4m3fn), torch.rand(2048, 16, device=d),
    n(2048, 2048, dtype=BF16)(d).to(torch.float8_e4m3fn), torch.rand(16, 16, device=d)
))  # fmt: skip
TRAINING = "torchao.prototype.blockwise_fp8_training.kernels"
for name in (
    "triton_fp8_blockwise_act_quant_lhs", "triton_fp8_blockwise_act_quant_rhs",
    "triton_fp8_blockwise_act_quant_transposed_lhs", "triton_fp8_blockwise_weight_quant_rhs",
    "triton_fp8_blockwise_weight_quant_transposed_rhs",
):  # fmt: skip
    _from("torchao", TRAINING, name, lambda d: (n(4096, 4096, dtype=BF16)(d),))

# cut-cross-entropy --------------------------------------------------------------------------------


def linear_cross_entropy(device):
    e, c = normal(device, 4096, 2048), normal(device, 32000, 2048, scale=0.02)
    targets = integers(device, 32000, 4096)
    loss = import_module("cut_cross_entropy").linear_cross_entropy
    return gradient_step(
        lambda e, c: loss(e, c, targets, impl="cce"),
        e,
        c,
        reference=lambda e, c: F.cross_entropy(e @ c.t(), targets),
    )


add("cut_cross_entropy/linear_cross_entropy", linear_cross_entropy)

# xformers -----------------------------------------------------------------------------------------
XFORMERS = "xformers.ops._triton"
_from(
    "xformers",
    f"{XFORMERS}.rmsnorm_kernels",
    "_rms_norm_forward",
    lambda d: (n(4096, 4096)(d), n(4096)(d), 1e-6),
)
_from(
    "xformers",
    f"{XFORMERS}.k_index_select_cat",
    "index_select_cat_fwd",
    lambda d: (
        torch.empty(2048, 4096, device=d, dtype=F16),
        n(4096, 4096)(d),
        torch.randperm(4096, device=d)[:2048],
    ),
)
_from(
    "xformers",
    f"{XFORMERS}.k_scaled_index_add",
    "scaled_index_add_fwd",
    lambda d: (
        n(512, 64, 1024)(d),
        torch.randperm(512, device=d)[:256],
        n(256, 64, 1024)(d),
        n(1024)(d),
        1.0,
    ),
)
