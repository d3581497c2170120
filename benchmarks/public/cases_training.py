"""attorch, deepspeed, mlstm_kernels, scattermoe, stk, megablocks, forgetting_transformer,
native_sparse_attention, torchtitan and rotalabs: kernels for training, with gradients."""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

from unittest import mock

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import (
    BF16,
    F16,
    F32,
    add,
    case,
    forward_step,
    gradient_step,
    integers,
    layer_norm_step,
    normal,
    rms,
    tensor as n,
)


def attorch(module: str):
    return alone(f"attorch.{module}")


def ds(module: str):
    return alone(
        f"deepspeed.{module}",
        (
            "deepspeed.ops",
            "deepspeed.ops.triton_ops",
            "deepspeed.ops.transformer",
            "deepspeed.ops.transformer.inference",
            "deepspeed.ops.transformer.inference.triton",
            "deepspeed.ops.fp_quantizer",
            "deepspeed.runtime",
            "deepspeed.moe",
        ),
        (
            "deepspeed.accelerator",
            "deepspeed.utils",
            "deepspeed.utils.logging",
            "deepspeed.utils.torch",
            "deepspeed.comm",
        ),
    )


def _attend(q, k, v, bias=None, causal=True):
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    s = s if bias is None else s + bias
    if causal:
        s = s.masked_fill(s.new_ones(s.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return s.softmax(-1) @ v


# attorch ------------------------------------------------------------------------------------------
def _activation(name, reference, dtype=F16):
    @lambda make: add(f"attorch/{name}", make)
    def _build(device):
        call = attorch("act_layers").ActFuncAutoGrad.apply
        x = normal(device, 4096, 4096, dtype=dtype)
        return gradient_step(lambda x: call(x, name, 0.0, True), x, reference=reference)


_activation("gelu", F.gelu)
_activation("mish", F.mish)
_activation("silu", F.silu)
_activation("hardswish", F.hardswish, F32)
_activation("softplus", F.softplus)
_activation("selu", F.selu)


def _norm_layer(name, reference, rows=8192, columns=4096, dtype=F16):
    @lambda make: add(f"attorch/{name}", make)
    def _build(device):
        module = attorch(f"{name}_layer")
        call = (module.LayerNormAutoGrad if name == "layer_norm" else module.RMSNormAutoGrad).apply
        x, w, b = (
            normal(device, *s, dtype=dtype) for s in ((rows, columns), (columns,), (columns,))
        )
        if name == "layer_norm":
            return gradient_step(
                lambda x, w, b: call(x, w, b, 1e-5, False), x, w, b, reference=reference
            )
        return gradient_step(lambda x, w: call(x, w, 1e-6), x, w, reference=reference)


_norm_layer("layer_norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b))
_norm_layer("rms_norm", rms)


@case
def attorch__batch_norm(device):
    call = attorch("batch_norm_layer").BatchNormAutoGrad.apply
    x, w, b = (
        normal(device, 32, 256, 28, 28, dtype=F32),
        normal(device, 256, dtype=F32),
        normal(device, 256, dtype=F32),
    )

    def reference(x, w, b):
        return F.batch_norm(x, None, None, w, b, training=True)

    return gradient_step(lambda x, w, b: call(x, True, w, b), x, w, b, reference=reference)


@case
def attorch__convolution(device):
    call = attorch("conv_layer").Conv2dAutoGrad.apply
    x, w = n(device, 32, 128, 28, 28, dtype=F16), n(device, 128, 128, 3, 3, dtype=F16, scale=0.05)
    b = n(device, 128, dtype=F16)
    return forward_step(
        lambda x, w, b: call(x, w, b, 1, 1, 1, 1, 1),
        x,
        w,
        b,
        reference=lambda x, w, b: F.conv2d(x, w, b, padding=1),
    )


@case
def attorch__linear_gelu(device):
    call = attorch("linear_layer").LinearAutoGrad.apply
    x, w, b = (
        n(device, 4096, 2048, dtype=F16),
        n(device, 2048, 4096, dtype=F16, scale=0.02),
        n(device, 4096, dtype=F16),
    )
    return forward_step(
        lambda x, w, b: call(x, w, b, "gelu"), x, w, b, reference=lambda x, w, b: F.gelu(x @ w + b)
    )


@case
def attorch__softmax(device):
    call = attorch("softmax_layers").SoftmaxAutoGrad.apply
    x = normal(device, 8192, 2048, dtype=F16)
    return gradient_step(lambda x: call(x, False, False), x, reference=lambda x: x.softmax(-1))


@case
def attorch__log_softmax(device):
    call = attorch("softmax_layers").SoftmaxAutoGrad.apply
    x = normal(device, 8192, 2048, dtype=F16)
    return gradient_step(lambda x: call(x, False, True), x, reference=lambda x: x.log_softmax(-1))


@case
def attorch__cross_entropy(device):
    call = attorch("cross_entropy_loss_layer").CrossEntropyLossAutoGrad.apply
    x, t = normal(device, 4096, 4096, dtype=F16), integers(device, 4096, 4096)
    return gradient_step(lambda x: call(x, t), x, reference=lambda x: F.cross_entropy(x, t))


@case
def attorch__smooth_l1(device):
    call = attorch("p_loss_layers").PLossAutoGrad.apply
    x, t = normal(device, 4096, 4096, dtype=F16), n(device, 4096, 4096, dtype=F16)

    def reference(x):
        return F.huber_loss(x, t.double(), delta=0.5)

    return gradient_step(lambda x: call(x, t, 3, "mean", 0.5), x, reference=reference)


@case
def attorch__glu(device):
    call = attorch("glu_layer").GLUAutoGrad.apply
    x = normal(device, 8192, 8192, dtype=F16)

    def reference(x):
        a, b = x.chunk(2, -1)
        return a * F.silu(b)

    return gradient_step(lambda x: call(x, -1, "silu"), x, reference=reference)


@case
def attorch__attention(device):
    call = attorch("multi_head_attention_kernels")._attention.apply
    q, k, v = (normal(device, 2, 16, 2048, 64, dtype=F16) for _ in "qkv")
    return gradient_step(lambda q, k, v: call(q, k, v, True, 64**-0.5), q, k, v, reference=_attend)


# deepspeed ----------------------------------------------------------------------------------------
@case
def deepspeed__rms_norm(device):
    call = ds("ops.triton_ops.fused_rms_norm")._FusedRMSNorm.apply
    x, w = normal(device, 8192, 4096), normal(device, 4096)
    return gradient_step(lambda x, w: call(x, w, 1e-6), x, w, reference=rms)


@case
def deepspeed__swiglu(device):
    call = ds("ops.triton_ops.swiglu_triton").swiglu
    a, b = normal(device, 8192, 8192), normal(device, 8192, 8192)
    return gradient_step(call, a, b, reference=lambda a, b: F.silu(a) * b)


@case
def deepspeed__swiglu_packed(device):
    call = ds("ops.triton_ops.swiglu_triton").swiglu_packed

    def reference(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return gradient_step(call, normal(device, 8192, 16384), reference=reference)


@case
def deepspeed__rotation(device):
    call = ds("ops.triton_ops.fused_rotary_pos_emb")._FusedRotaryPosEmb.apply
    q, k = normal(device, 2, 32, 2048, 128), normal(device, 2, 8, 2048, 128)
    cos, sin = n(device, 2, 2048, 128), n(device, 2, 2048, 128)

    def reference(q, k):
        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]

        return rotate(q), rotate(k)

    return gradient_step(lambda q, k: call(q, k, cos, sin), q, k, reference=reference)


@case
def deepspeed__grouped_gemm(device):
    call = ds("ops.triton_ops.group_gemm_triton").group_gemm_triton
    a, b = normal(device, 8192, 2048), normal(device, 8, 2048, 4096, scale=0.02)
    ends = torch.arange(1, 9, device=device, dtype=torch.int32) * (8192 // 8)

    def reference(a, b):
        return (a.view(8, -1, a.shape[1]) @ b).flatten(0, 1)

    return gradient_step(lambda a, b: call(a, b, ends), a, b, reference=reference)


@case
def deepspeed__cross_entropy(device):
    call = ds("runtime.chunked_cross_entropy")._TritonCrossEntropy.apply
    x, t = normal(device, 4096, 32768), integers(device, 32768, 4096)
    return gradient_step(lambda x: call(x, t, -100), x)


@case
def deepspeed__layer_norm(device):
    return layer_norm_step(device, ds("ops.transformer.inference.triton.layer_norm").layer_norm)


@case
def deepspeed__layer_norm_residual(device):
    call = ds("ops.transformer.inference.triton.layer_norm").layer_norm_residual
    x, r = n(device, 8192, 4096, dtype=F16), n(device, 8192, 4096, dtype=F16)
    w, b, bias = (n(device, 4096, dtype=F16) for _ in "wbc")
    return forward_step(
        lambda x, bias, r, w, b: call(x, bias, r, w, b, 1e-5),
        x,
        bias,
        r,
        w,
        b,
        reference=lambda x, bias, r, w, b: F.layer_norm(x + r + bias, w.shape, w, b),
    )


@case
def deepspeed__softmax(device):
    call = ds("ops.transformer.inference.triton.softmax").softmax
    return forward_step(
        call, n(device, 8, 16, 512, 512, dtype=F16), reference=lambda x: x.softmax(-1)
    )


# mlstm_kernels ------------------------------------------------------------------------------------
def _mlstm(name, module, function, heads, length, dim, value_dim, **named):
    @lambda make: add(f"mlstm/{name}", make)
    def _build(device):
        with mock.patch.object(torch, "compile", lambda f=None, **_: f or (lambda g: g)):
            call = getattr(alone(f"mlstm_kernels.torch.{module}"), function)
        q, k = (normal(device, 2, heads, length, dim) for _ in "qk")
        v = normal(device, 2, heads, length, value_dim)
        i, f = (
            normal(device, 2, heads, length, dtype=F32),
            normal(device, 2, heads, length, dtype=F32),
        )
        with torch.no_grad():
            f += 3
        return gradient_step(lambda *t: call(*t, **named), q, k, v, i, f)


_mlstm(
    "chunks",
    "chunkwise.triton_limit_chunk.fwbw",
    "mlstm_chunkwise__limit_chunk",
    4,
    2048,
    256,
    256,
    autocast_kernel_dtype=BF16,
)
_mlstm(
    "long_chunks",
    "chunkwise.triton_xl_chunk.fwbw",
    "mlstm_chunkwise__xl_chunk",
    8,
    2048,
    256,
    512,
    autocast_kernel_dtype=BF16,
)
_mlstm(
    "long_chunks_sigmoid",
    "chunkwise.triton_xl_chunk_siging.fwbw",
    "mlstm_siging_chunkwise__xl_chunk",
    8,
    2048,
    128,
    256,
    autocast_kernel_dtype=BF16,
)
_mlstm(
    "parallel",
    "parallel.triton_limit_headdim.fwbw",
    "mlstm_parallel__limit_headdim",
    8,
    1024,
    64,
    64,
    autocast_kernel_dtype=BF16,
)


@case
def mlstm__step(device):
    call = alone("mlstm_kernels.torch.recurrent.triton_step").mlstm_recurrent_step__triton
    b, h, d = 64, 8, 128
    q, k, v = (n(device, b, h, d, dtype=F32) for _ in "qkv")
    i, f = (n(device, b, h, 1, dtype=F32, scale=0.1) for _ in "if")
    c, norm = n(device, b, h, d, d, dtype=F32), n(device, b, h, d, dtype=F32)
    m = n(device, b, h, 1, dtype=F32, scale=0.1)
    same = alone("mlstm_kernels.torch.recurrent.native_step").mlstm_recurrent_step__native
    return forward_step(
        call,
        q,
        k,
        v,
        i,
        f,
        c,
        norm,
        m,
        reference=lambda *t: same(*t, dtype_state=torch.float64),
    )


# scattermoe, stk, megablocks ----------------------------------------------------------------------
def scattermoe():
    return alone("scattermoe.kernels.ops", ("scattermoe.kernels",))


def _sorted_experts(device, tokens, experts, k):
    ids = (torch.arange(tokens * k, device=device) % experts).view(tokens, k)
    ordered, order = ids.flatten().sort(stable=True)
    return ids, ordered, order


@case
def scattermoe__scatter_scatter(device):
    call = scattermoe().scatter2scatter
    x, w = n(device, 4096, 2048), n(device, 8, 2048, 4096, scale=0.02)
    _, ordered, order = _sorted_experts(device, 4096, 8, 2)
    return forward_step(lambda x, w: call(x, w, ordered, order, 2, y_grouped=True), x, w)


@case
def scattermoe__weight_gradients(device):
    call = scattermoe().group_bwd_W
    x, dy = n(device, 8192, 2048), n(device, 8192, 4096)
    ends = torch.arange(1, 9, device=device) * (8192 // 8)

    def reference(x, dy):
        return x.view(8, -1, x.shape[1]).transpose(1, 2) @ dy.view(8, -1, dy.shape[1])

    return forward_step(lambda x, dy: call(dy, x, ends, 8)[0], x, dy, reference=reference)


@case
def scattermoe__group(device):
    call = scattermoe().group
    x = n(device, 4096, 4096)
    order = _sorted_experts(device, 4096, 8, 2)[2]
    return forward_step(
        lambda x: call(x, order, fan_out=2), x, exactly=True, reference=lambda x: x[order // 2]
    )


def _blocks(device, rows, columns, block=128):
    """A block-sparse matrix in which every second block of a row exists."""
    height, width = rows // block, columns // block
    at = torch.arange(width // 2, device=device).repeat(height) * 2
    at = at + torch.arange(height, device=device).repeat_interleave(width // 2) % 2
    offsets = torch.arange(height + 1, device=device) * (width // 2)
    row = torch.arange(height, device=device).repeat_interleave(width // 2)
    return at.short(), offsets.int(), row.short()


@case
def stk__sampled_matmul(device):
    """Blocks of the matmul of dense matrices."""
    call = alone("stk.backend.triton_kernels", ("stk.backend",)).sdd
    a, b = n(device, 4096, 2048, dtype=F16), n(device, 2048, 4096, dtype=F16)
    at, offsets, row = _blocks(device, 4096, 4096)

    def run(a, b):
        out = torch.empty(len(row), 128, 128, device=device, dtype=F16)
        call(a, b, (4096, 4096), out, offsets, row, at)
        return out

    return forward_step(run, a, b)


@case
def stk__sparse_matmul(device):
    """A block-sparse matrix by a dense one."""
    call = alone("stk.backend.triton_kernels", ("stk.backend",)).dsd
    at, offsets, row = _blocks(device, 4096, 4096)
    data, b = n(device, len(row), 128, 128, dtype=F16), n(device, 4096, 2048, dtype=F16)

    def run(data, b):
        out = torch.empty(4096, 2048, device=device, dtype=F16)
        call((4096, 4096), data, offsets, row, at, offsets, at, row.int(), False, b, out)
        return out

    return forward_step(run, data, b)


@case
def megablocks__gather(device):
    call = alone("megablocks.backend.kernels", ("megablocks.backend",))._padded_copy
    x, experts, k = n(device, 4096, 4096), 8, 2
    _, ordered, order = _sorted_experts(device, 4096, experts, k)
    ends = torch.arange(1, experts + 1, device=device).int() * (4096 * k // experts)
    ordered, order = ordered.int(), order.int()

    def run(x):
        out = torch.zeros(x.shape[0] * k, x.shape[1], device=device, dtype=BF16)
        call[(len(order),)](
            x,
            out,
            order,
            ordered,
            None,
            ends,
            ends,
            NUM_COLUMNS=x.shape[1],
            A_TO_B=True,
            TOP_K=k,
            SCALE=False,
        )
        return out

    return forward_step(run, x, exactly=True, reference=lambda x: x[order // k])


@case
def megablocks__weights_gradient(device):
    call = alone("megablocks.backend.kernels", ("megablocks.backend",))._padded_copy_wgrad
    x, grad, k = n(device, 8192, 2048), n(device, 4096, 2048), 2
    _, ordered, order = _sorted_experts(device, 4096, 8, k)
    ends = torch.arange(1, 9, device=device).int() * (8192 // 8)
    ordered, order = ordered.int(), order.int()

    def run(x, grad):
        out = torch.empty(len(order), device=device, dtype=BF16)
        call[(len(order),)](
            x, grad, out, order, ordered, ends, ends, NUM_COLUMNS=x.shape[1], TOP_K=k
        )
        return out

    def reference(x, grad):
        out = (x * grad[order // k]).sum(-1)
        return torch.empty_like(out).index_copy(0, order.long(), out)

    return forward_step(run, x, grad, reference=reference)


# forgetting_transformer ---------------------------------------------------------------------------
FORGETTING = (
    "forgetting_transformer.ops",
    "forgetting_transformer.model",
    "forgetting_transformer.model.forgetting_transformer",
)


def _forgetting(name, heads, length, dim):
    @lambda make: add(f"forgetting/{name}", make)
    def _build(device):
        call = alone(
            "forgetting_transformer.ops.forgetting_attention", FORGETTING
        ).forgetting_attention
        q, k, v = (normal(device, 2, heads, length, dim) for _ in "qkv")
        gate = normal(device, 2, heads, length, dtype=F32)

        def reference(q, k, v, g):
            total = F.logsigmoid(g).cumsum(-1)
            return _attend(q, k, v, total[..., :, None] - total[..., None, :])

        return gradient_step(
            lambda q, k, v, g: call(q, k, v, F.logsigmoid(g), head_first=True),
            q,
            k,
            v,
            gate,
            reference=reference,
        )


_forgetting("attention", 16, 2048, 64)
_forgetting("attention_d128", 16, 2048, 128)


@case
def forgetting__token_shift(device):
    module = alone("forgetting_transformer.model.forgetting_transformer.token_shift", FORGETTING)
    x = normal(device, 4, 2048, 16, 128)
    a, b = (normal(device, 4, 2048, 16) for _ in "ab")

    def reference(x, a, b):
        return F.pad(x, (0, 0, 0, 0, 1, -1)) * a[..., None] + x * b[..., None]

    return gradient_step(lambda x, a, b: module.token_shift(x, a, b), x, a, b, reference=reference)


@case
def forgetting__group_norm_gated(device):
    module = alone("forgetting_transformer.model.forgetting_transformer.fuse_norm_gate", FORGETTING)
    x, g, w = normal(device, 8192, 2048), normal(device, 8192, 2048), normal(device, 2048)
    return gradient_step(
        lambda x, g, w: module.rms_norm_gated(x, g, w, None, eps=1e-6),
        x,
        g,
        w,
        reference=lambda x, g, w: rms(x, w) * F.silu(g),
    )


# native_sparse_attention --------------------------------------------------------------------------
NSA = (
    "native_sparse_attention.ops",
    "native_sparse_attention.ops.triton",
    "native_sparse_attention.module",
)


def nsa(module: str):
    return alone(f"native_sparse_attention.ops.triton.{module}", NSA)


@case
def nsa__flash_attention(device):
    call = nsa("flash_attention").flash_attention_varlen
    q = normal(device, 2 * 2048, 32, 128)
    k, v = normal(device, 2 * 2048, 4, 128), normal(device, 2 * 2048, 4, 128)
    starts = torch.arange(3, device=device, dtype=torch.int32) * 2048

    def run(q, k, v):
        return call(q, k, v, starts, starts, 2048, 2048, causal=True)

    def reference(q, k, v):
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        q, k, v = (t.view(2, -1, *t.shape[1:]).transpose(1, 2) for t in (q, k, v))
        return _attend(q, k, v).transpose(1, 2).flatten(0, 1)

    return gradient_step(run, q, k, v, reference=reference)


@case
def nsa__selected_blocks(device):
    call = nsa("topk_sparse_attention").topk_sparse_attention
    q = normal(device, 4096, 64, 128)
    k, v = normal(device, 4096, 4, 128), normal(device, 4096, 4, 128)
    starts = torch.arange(2, device=device, dtype=torch.int32) * 4096
    block = torch.arange(4096, device=device)[None, :, None] // 64
    chosen = torch.arange(16, device=device)[None, None]
    ids = torch.where(chosen <= block, block - chosen, -1).expand(4, -1, -1).int().contiguous()
    return gradient_step(lambda q, k, v: call(q, k, v, ids, 64, starts), q, k, v)


@case
def nsa__compressed(device):
    call = nsa("compressed_attention").CompressedAttention.apply
    q = normal(device, 4096, 64, 128)
    k, v = normal(device, 255, 4, 128), normal(device, 255, 4, 128)
    rows = torch.tensor([0, 4096], device=device, dtype=torch.int32)
    columns = torch.tensor([0, 255], device=device, dtype=torch.int32)
    return gradient_step(
        lambda q, k, v: call(q, k, v, 32, 16, rows, columns, 4096, 255)[0], q, k, v
    )


@case
def nsa__pool(device):
    call = nsa("weighted_pool").weightedpool_compress
    x, w = normal(device, 8192, 4, 128), normal(device, 4, 32)
    starts = torch.tensor([0, 8192], device=device, dtype=torch.int32)

    def reference(x, w):
        return torch.einsum("thdk,hk->thd", x.unfold(0, 32, 16), w)

    return gradient_step(lambda x, w: call(x, w, starts, 32, 16)[0], x, w, reference=reference)


@case
def nsa__linear_compress(device):
    call = nsa("linear_compress").linear_compress
    x, w = n(device, 8192, 4, 128), n(device, 4, 32 * 128, 128, scale=0.02)
    starts = torch.tensor([0, 8192], device=device, dtype=torch.int32)
    return forward_step(lambda x, w: call(x, w, starts, 32, 16)[0], x, w)


@case
def nsa__decode(device):
    call = nsa("flash_attention_decode").flash_attention_decode
    q, k, v = n(device, 32, 64, 128), n(device, 32, 4096, 4, 128), n(device, 32, 4096, 4, 128)
    lengths = torch.full((32,), 4096, device=device, dtype=torch.int32)

    def reference(q, k, v):
        k, v = (t.transpose(1, 2).repeat_interleave(q.shape[1] // t.shape[2], 1) for t in (k, v))
        return _attend(q[:, :, None], k, v, causal=False)[:, :, 0]

    return forward_step(lambda q, k, v: call(q, k, v, lengths), q, k, v, reference=reference)


# torchtitan, rotalabs -----------------------------------------------------------------------------
def titan(module: str):
    return alone(
        f"torchtitan.{module}",
        (
            "torchtitan.overrides",
            "torchtitan.distributed",
            "torchtitan.distributed.minimal_async_ep",
        ),
        (
            "torchtitan.config",
            "torchtitan.models",
            "torchtitan.models.common",
            "torchtitan.models.common.attention",
            "torchtitan.models.common.feed_forward",
            "torchtitan.models.common.moe",
            "torchtitan.overrides.common",
            "torchtitan.protocols",
            "torchtitan.protocols.sharding",
            "torchtitan.tools",
        ),
    )


@case
def torchtitan__reduce_choices(device):
    name = "reduce_topk_slots_kernel"
    call = getattr(titan("distributed.minimal_async_ep.kernels"), name)
    x, scores = n(device, 16384, 2048), torch.rand(4096, 4, device=device)
    row = torch.randperm(16384, device=device)

    def reference(x, scores):
        return (x * scores.view(-1, 1))[row].view(-1, 4, x.shape[1]).sum(1)

    return forward_step(
        lambda x, s: call(x, row, s.flatten(), num_tokens=x.shape[0] // 4, top_k=4),
        x,
        scores,
        reference=reference,
    )


def rotalabs(module: str):
    return alone(f"rotalabs_accel.kernels.{module}", ("rotalabs_accel.kernels",))


@case
def rotalabs__rms_norm_residual(device):
    call = rotalabs("normalization").rmsnorm_residual_fused
    x, r, w = (
        n(device, 8192, 4096, dtype=F16),
        n(device, 8192, 4096, dtype=F16),
        n(device, 4096, dtype=F16),
    )
    return forward_step(
        lambda x, r, w: call(x, r, w), x, r, w, reference=lambda x, r, w: rms(x + r, w)
    )


@case
def rotalabs__swiglu(device):
    call = rotalabs("activations").swiglu_fused
    return forward_step(
        call,
        n(device, 8192, 8192, dtype=F16),
        n(device, 8192, 8192, dtype=F16),
        reference=lambda a, b: F.silu(a) * b,
    )


@case
def rotalabs__rotation(device):
    call = rotalabs("rope").apply_rope
    q, k = n(device, 2, 32, 2048, 128, dtype=F16), n(device, 2, 32, 2048, 128, dtype=F16)
    cos, sin = n(device, 2048, 64, dtype=F16), n(device, 2048, 64, dtype=F16)
    return forward_step(lambda q, k, c, s: call(q, k, c, s, use_triton=True), q, k, cos, sin)
