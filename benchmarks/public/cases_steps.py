"""trinix, torchnorm, torch_fps, torchtitan, deepspeed, memeff, late_interaction_kernels and
spconv: steps of optimizers, norms, gates, routing, losses of embeddings, and sparse points."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

import sys
from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import (
    F16,
    F32,
    add,
    case,
    forward_step,
    gradient_step,
    integers,
    normal,
    rms,
    tensor as n,
)
from cases_training import ds, titan
from cases_wider import SPCONV

FP8 = torch.float8_e4m3fn


# trinix: optimizers, norms, gates, rotation, attention --------------------------------------------
def trinix(path, name):
    return getattr(import_module(f"trinix.kernels.{path}"), name)


def _optimizer(name, path, kernel, states, numbers, reference, scale=1.0):
    """A step of an optimizer on parameters, gradients and states, which are copied first."""

    @lambda make: add(f"trinix/{name}", make)
    def _build(device):
        call = trinix(path, kernel).apply
        size = 4096 * 4096 + 100
        x, g = n(device, size, dtype=F32), n(device, size, dtype=F32)
        kept = [n(device, size, dtype=F32, scale=0.1).abs() for _ in range(states)]

        def run(x, g, *kept):
            x, kept = x.clone(), [t.clone() for t in kept]
            call(x, g, *kept, *numbers, grad_scale=scale)
            return x, *kept

        return forward_step(
            run, x, g, *kept, reference=lambda x, g, *kept: reference(x, g / scale, *kept)
        )


def _adam(x, g, m, v, decay=0.0):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    step = (m / (1 - 0.9**3)) / ((v / (1 - 0.999**3)).sqrt() + 1e-8)
    return x * (1 - 1e-3 * decay) - 1e-3 * step, m, v


def _lion(x, g, m):
    step = torch.sign(0.9 * m + 0.1 * g)
    return x - 1e-3 * (step + 0.01 * x), 0.99 * m + 0.01 * g


_optimizer("adam", "adam_kernel", "TritonAdamKernel", 2, (1e-3, 0.9, 0.999, 1e-8, 0.0, 3), _adam)
_optimizer("adamw_scaled", "adamw_kernel", "TritonAdamWKernel", 2,
           (1e-3, 0.9, 0.999, 1e-8, 0.01, 3), lambda *t: _adam(*t, decay=0.01),
           scale=8.0)  # fmt: skip
_optimizer("lion", "lion_kernel", "TritonLionKernel", 1, (1e-3, 0.9, 0.99, 0.01), _lion)


@case
def trinix__muon(device):
    call = trinix("muon_kernel", "TritonMuonKernel").apply
    x, g, m = (n(device, 4096, 4096, dtype=F32) for _ in range(3))

    def run(x, g, m):
        x, m = x.clone(), m.clone()
        call(x, g, m, 0.02, 0.95)
        return x, m

    return forward_step(run, x, g, m)


def _gate(name, path, kernel, width, reference=None):
    @lambda make: add(f"trinix/{name}", make)
    def _build(device):
        call = trinix(path, kernel).apply
        return gradient_step(call, normal(device, 4096, width), reference=reference)


def _swiglu(x):
    a, b = x.chunk(2, -1)
    return a * F.silu(b)


_gate("squared_relu", "squared_relu_kernel", "TritonSquaredReLUFunction", 11008,
      lambda x: F.relu(x) ** 2)  # fmt: skip
_gate("swiglu", "swigelu_kernel", "TritonSwiGLUFunction", 2 * 11008, _swiglu)


@case
def trinix__layer_norm(device):
    call = trinix("layernorm_kernel", "TritonLayerNormFunction").apply
    x, w, b = normal(device, 8192, 4096), normal(device, 4096), normal(device, 4096)
    return gradient_step(lambda x, w, b: call(x, w, b, 1e-5), x, w, b,
                         reference=lambda x, w, b: F.layer_norm(x, w.shape, w, b))  # fmt: skip


@case
def trinix__rms_norm(device):
    call = trinix("rmsnorm_kernel", "TritonRMSNormFunction").apply
    x, w = normal(device, 8192, 4096), normal(device, 4096)
    return gradient_step(lambda x, w: call(x, w, 1e-6), x, w, reference=rms)


@case
def trinix__alibi(device):
    call = trinix("alibi_kernel", "TritonALiBiFunction").apply
    slopes = torch.rand(16, device=device)
    return forward_step(lambda s: call(s, 2, 16, 2048), slopes)


@case
def trinix__rotation(device):
    call = trinix("rope_kernel", "TritonRoPEFunction").apply
    q, k = normal(device, 2, 2048, 32, 128), normal(device, 2, 2048, 32, 128)
    cos, sin = n(device, 2048, 64), n(device, 2048, 64)
    return gradient_step(lambda q, k: call(q, k, cos, sin), q, k)


def _attention(name, size, **named):
    @lambda make: add(f"trinix/{name}", make)
    def _build(device):
        call = trinix("attention_kernel", "TritonAttentionKernel").apply
        q, k, v = (n(device, 2, 2048, 16, size, dtype=F16) for _ in range(3))
        options = {k: v(device) if callable(v) else v for k, v in named.items()}
        return forward_step(lambda q, k, v: call(q, k, v, **options), q, k, v)


_attention("attention_causal", 64, causal=True)
_attention("attention_slopes", 128, causal=True,
           alibi_slopes=lambda d: torch.rand(16, device=d))  # fmt: skip
_attention("attention_window", 64, window_size=(256, 256))
_attention("attention_mask", 64, attn_mask=lambda d: n(d, 2048, 2048, dtype=F16))


# torchnorm, torch_fps -----------------------------------------------------------------------------
@case
def torchnorm__add_rms_norm(device):
    call = import_module("torchnorm._triton").fused_add_rms_norm
    x, r, w = normal(device, 8192, 4096), normal(device, 8192, 4096), normal(device, 4096)
    return gradient_step(lambda x, r, w: call(x, r, w, 1e-6)[0], x, r, w,
                         reference=lambda x, r, w: rms(x + r, w))  # fmt: skip


def _points(device, batch, count):
    x = n(device, batch, count, 3, dtype=F32)
    mask = torch.ones(batch, count, device=device, dtype=torch.bool)
    return x, mask, torch.zeros(batch, device=device, dtype=torch.int64)


@case
def torch_fps__tiled(device):
    module = import_module("torch_fps._triton")
    x, mask, starts = _points(device, 16, 5 * 4096)
    scratch = torch.empty(16, 5 * 4096, device=device)

    def run(x):
        batch, count, _ = x.shape
        places = torch.empty(batch, 64, device=x.device, dtype=torch.int64)
        module._fps_tiled_kernel[(batch,)](
            x, mask, starts, places, scratch, count, 64, x.stride(0), x.stride(1),
            mask.stride(0), places.stride(0), D=3, BLOCK_N=module.TILE_N, num_warps=8,
        )  # fmt: skip
        return places

    return forward_step(run, x)


@case
def torch_fps__nearest(device):
    call = import_module("torch_fps._triton").nearest_assign
    x, centres = n(device, 16 * 4096, 3, dtype=F32), n(device, 16 * 128, 3, dtype=F32)
    starts = torch.arange(16, device=device) * 4096
    counts = torch.full((16,), 4096, device=device)
    return forward_step(lambda x, c: call(x, c, starts, counts, 4096, 128), x, centres)


@case
def torch_fps__assigned(device):
    call = import_module("torch_fps._triton").fps_assign
    x, mask, starts = _points(device, 16, 4096)
    return forward_step(lambda x: call(x, mask, starts, 128), x)


# torchtitan ---------------------------------------------------------------------------------------
def override(module):
    titan("distributed.minimal_async_ep.kernels")
    return alone(
        f"torchtitan.overrides.{module}",
        ("torchtitan.overrides",),
        (
            "spmd_types",
            "torchtitan.distributed.utils",
            "torchtitan.models.common.decoder_sharding",
            "torchtitan.models.common.rope",
            "torchtitan.models.deepseek_v3",
            "torchtitan.models.deepseek_v3.model",
        ),
    )


@case
def torchtitan__swiglu(device):
    module = override("fused_swiglu")
    a, b, g = (n(device, 8192, 7168) for _ in range(3))

    def run(a, b, g):
        backward = module.silu_and_mul_backward_kernel
        return module.silu_and_mul_forward_kernel(a, b), *backward(g, a, b)

    return forward_step(run, a, b, g)


@case
def torchtitan__swiglu_rows(device):
    module = override("fused_swiglu")
    a, b = n(device, 16384, 1408), n(device, 16384, 1408)
    ends = torch.arange(1, 17, device=device, dtype=torch.int32) * (len(a) // 16)
    return forward_step(lambda a, b: module.silu_and_mul_forward_kernel(a, b, ends), a, b,
                        reference=lambda a, b: F.silu(a) * b)  # fmt: skip


def _latent(device):
    cache = n(device, 2048, 32, 2, dtype=F32)
    positions = torch.arange(2048, device=device).expand(2, 2048).contiguous()
    return cache, positions


@case
def torchtitan__latent_queries(device):
    call = override("fused_mla")._fused_mla_q_rope_op
    cache, positions = _latent(device)

    def run(q):
        q = q.clone()
        call(q, cache, positions, 128, False)
        return q

    return forward_step(run, n(device, 2, 2048, 16, 128 + 64))


@case
def torchtitan__latent_keys(device):
    call = override("fused_mla")._fused_mla_k_rope_op
    cache, positions = _latent(device)
    kv, k = n(device, 2, 2048, 16, 128 + 128), n(device, 2, 2048, 64)
    return forward_step(lambda kv, k: call(kv, k, cache, positions, 128), kv, k)


@case
def torchtitan__latent_gradients(device):
    call = override("fused_mla")._fused_mla_kv_backward_op
    cache, positions = _latent(device)
    k, v = n(device, 2, 2048, 16, 128 + 64), n(device, 2, 2048, 16, 128)
    return forward_step(lambda k, v: call(k, v, cache, positions, 128, 64), k, v)


@case
def torchtitan__choices_gradients(device):
    module = titan("distributed.minimal_async_ep.kernels")
    x, g = n(device, 16384, 2048), n(device, 4096, 2048)
    slots, scores = torch.randperm(16384, device=device), torch.rand(16384, device=device)
    order = {"scores_are_slot_ordered": True}

    def run(x, g):
        rows = module.expand_topk_grad_kernel(
            g, slots[: len(x)], scores, top_k=4, dtype=x.dtype, **order
        )
        weights = module.topk_scores_grad_kernel(x, g, slots[: len(x)], top_k=4, dtype=F32)
        return rows, weights, module.invert_flat_indices_kernel(slots, num_rows=len(slots))

    return forward_step(run, x, g)


# deepspeed ----------------------------------------------------------------------------------------
@case
def deepspeed__weighted_restore(device):
    module = ds("ops.triton_ops.autoep_fused_token_ops")
    x, scores = normal(device, 16384, 2048), torch.rand(4096, 4, device=device)
    places = torch.randperm(16384, device=device)
    call = lambda x, s: module.fused_weighted_restore(x, s, places, 4, (2, len(s) // 2, 2048))  # noqa: E731
    return gradient_step(call, x, scores.requires_grad_())


@case
def deepspeed__row_weights(device):
    module = ds("ops.triton_ops.autoep_fused_token_ops")
    x, w = normal(device, 16384, 4096), torch.rand(16384, 1, device=device).requires_grad_()
    return gradient_step(module._FusedRowWeighting.apply, x, w, reference=lambda x, w: x * w)


@case
def deepspeed__permute_rows(device):
    module = ds("moe.ep_kernels")
    x = n(device, 16384, 2048)
    counts = torch.full((4 * 16,), len(x) // 64, device=device, dtype=torch.int32)

    def run(x):
        places = module.generate_permute_indices(counts, 16, 4, 2 * len(x), 8)[0]
        return module.permute_rows(x, places)

    return forward_step(run, x)


@case
def deepspeed__packed_attention(device):
    ds("ops.transformer.inference.triton.softmax")  # the package without its `__init__`
    path = "deepspeed.ops.transformer.inference"
    for name in ("softmax", "score_4d_matmul", "context_4d_matmul"):
        vars(sys.modules[f"{path}.triton"]).setdefault(name, None)
    absent = ("deepspeed.utils.types", f"{path}.op_binding")
    call = alone(f"{path}.triton.attention", (), absent)._triton_packed_flash
    x = n(device, 4, 1024, 3 * 16 * 64, dtype=F16)

    return forward_step(lambda x: call(x, 64, None, 0.125), x)


@case
def deepspeed__softmax_masked(device):
    call = ds("ops.transformer.inference.triton.softmax").softmax
    x, mask = n(device, 8, 16, 512, 512, dtype=F16), n(device, 8, 1, 1, 512, dtype=F16)
    return forward_step(lambda x, m: call(x, m), x, mask[:1].contiguous(),
                        reference=lambda x, m: (x + m).softmax(-1))  # fmt: skip


@case
def deepspeed__residual_add(device):
    module = ds("ops.transformer.inference.triton.residual_add")
    x, r, a = (n(device, 4, 2048, 4096, dtype=F16) for _ in range(3))
    b, c = n(device, 4096, dtype=F16), n(device, 4096, dtype=F16)
    kernel = module.residual_add_bias_kernel

    def run(x, r, a, b, c):
        out = torch.empty_like(x)
        kernel[(-(-x.numel() // 1024),)](x, r, a, x.numel(), b, c, b.numel(), out, 2, True, True,
                                         True, BLOCK_SIZE=1024)  # fmt: skip
        return out

    return forward_step(run, x, r, a, b, c)


def _fp8_weights(name, rows):
    @lambda make: add(f"deepspeed/{name}", make)
    def _build(device):
        call = ds("ops.fp_quantizer.fp8_gemm_triton").matmul_fp8_triton
        x = n(device, rows, 4096)
        w = n(device, 4096, 4096).clamp(-3, 3).to(FP8).view(torch.uint8)
        scale = torch.rand(2 * w.numel() // 128, device=device)  # one block more is read
        return forward_step(lambda x: call(x, w, scale, 128), x)


_fp8_weights("fp8_weights", 2048)
_fp8_weights("fp8_weights_few_rows", 16)


# memeff and late_interaction_kernels --------------------------------------------------------------
def _matryoshka(name, loss, width):
    @lambda make: add(f"memeff/{name}", make)
    def _build(device):
        module = getattr(import_module("memeff"), loss)((width // 2, width))
        return gradient_step(module, normal(device, 4096, width), normal(device, 4096, width))


_matryoshka("nested_clip", "MemoryEfficientMatryoshkaCLIPLoss", 512)
_matryoshka("nested_qwen3", "MemoryEfficientMatryoshkaQwen3Loss", 512)
_matryoshka("nested_lit", "MemoryEfficientMatryoshkaLiTLoss", 1024)


def _starts(rows, count):
    """Where each of `count` sequences of equal length starts, and where the last one ends."""
    return torch.arange(count + 1, device=rows.device, dtype=torch.int32) * (len(rows) // count)


@case
def late_interaction__packed_pairs(device):
    call = import_module("late_interaction_kernels.score_pairs").score_pairs_packed
    q, d = normal(device, 16 * 32, 128, dtype=F16), normal(device, 128 * 256, 128, dtype=F16)
    starts = _starts(q, 16), _starts(d, 128)
    pairs = torch.arange(128, device=device, dtype=torch.int32)

    def run(q, d):
        return call(q, d, *starts, pairs // 8, pairs, max_seqlen_q=32, max_seqlen_d=256)

    def reference(q, d):
        q, d = q.view(16, -1, 128).repeat_interleave(8, 0), d.view(128, -1, 128)
        return torch.einsum("nid,njd->nij", q, d).amax(-1).sum(-1)

    return gradient_step(run, q, d, reference=reference)


@case
def late_interaction__sequences_gradient(device):
    call = import_module("late_interaction_kernels").maxsim_varlen
    q, d = normal(device, 32 * 64, 128, dtype=F16), normal(device, 128 * 256, 128, dtype=F16)
    starts = _starts(q, 32), _starts(d, 128)
    return gradient_step(lambda q, d: call(q, d, *starts, 64, 256), q, d)


@case
def late_interaction__centroids(device):
    call = import_module("late_interaction_kernels.plaid").plaid_approx_score
    scores, codes = n(device, 8192, 32, dtype=F32), integers(device, 8192, 4096, 256)
    lengths = torch.full((4096,), 200, device=device)
    return forward_step(lambda s: call(s, codes, lengths), scores)


def _residuals(device, flat):
    codes = integers(device, 8192, *flat, dtype=torch.int32)
    rests = integers(device, 128, *flat, 64, dtype=torch.uint8)
    return codes, rests, n(device, 8192, 128, dtype=F16), n(device, 16, dtype=F32)


@case
def late_interaction__residuals(device):
    call = import_module("late_interaction_kernels.plaid").maxsim_residual
    codes, rests, centres, buckets = _residuals(device, (256, 256))
    lengths = torch.full((256,), 200, device=device).clamp_max(codes.shape[1])
    q = n(device, 8, 32, 128, dtype=F16)
    return forward_step(lambda q: call(q, codes, rests, lengths, centres, buckets, 4), q)


@case
def late_interaction__residual_sequences(device):
    call = import_module("late_interaction_kernels.plaid").maxsim_residual_varlen
    codes, rests, centres, buckets = _residuals(device, (256 * 256,))
    starts = torch.arange(257, device=device, dtype=torch.int32) * 256

    def run(q):
        return call(q, codes, rests, starts, centres, buckets, 4, max_seqlen_d=256)

    return forward_step(run, n(device, 8, 32, 128, dtype=F16))


@case
def late_interaction__projection(device):
    call = import_module("late_interaction_kernels.fused_head").maxsim_from_hidden
    q, h, w = n(device, 8, 32, 128), n(device, 128, 256, 768), n(device, 128, 768, scale=0.05)
    return forward_step(lambda q, h, w: call(q, h, w, normalize=False), q, h, w)


@case
def late_interaction__fp8(device):
    module = import_module("late_interaction_kernels.fp8")
    q, d = n(device, 16, 32, 128, dtype=F16), n(device, 256, 300, 128, dtype=F16)
    (q, a), (d, b) = module.quantize_fp8_per_token(q), module.quantize_fp8_per_token(d)
    return forward_step(lambda q, d: module.maxsim_inference_fp8(q, d, scale_Q=a, scale_D=b), q, d)


# spconv, moe_ops ----------------------------------------------------------------------------------
def sparse(module):
    return alone(f"spconv_triton.pytorch._impl.{module}", SPCONV)


def _taps(device, rows, taps=27):
    """For each tap of a filter, a permutation of the rows, of which some are absent."""
    order = torch.rand(taps, rows, device=device).argsort(1).to(torch.int32)
    return torch.where(torch.rand(taps, rows, device=device) < 0.6, order, -1)


@case
def spconv__input_gradient(device):
    call = sparse("gemm").conv_backward_input
    g, w = n(device, 65536, 64, dtype=F16), n(device, 64, 27, 128, dtype=F16, scale=0.05)
    taps = _taps(device, len(g))
    return forward_step(lambda g, w: call(g, w, taps, len(g)), g, w)


@case
def spconv__weight_gradient(device):
    module = sparse("gemm")
    x, g = n(device, 65536, 64, dtype=F16), n(device, 65536, 128, dtype=F16)
    rows = torch.arange(65536, device=device, dtype=torch.int32).repeat(27)
    taps = integers(device, len(x), 27 * len(x), dtype=torch.int32)
    ends = torch.arange(28, device=device, dtype=torch.int32) * len(x)

    def run(x, g):
        part = torch.empty(8, 128, 27, 64, device=x.device)
        module._dweight_masked_kernel[lambda m: (27 * 8, -(-64 // m["BLOCK_C"]),
                                                 -(-128 // m["BLOCK_K"]))](
            x, g, taps, rows, ends, part, 128, 64, 27, 8, *x.stride(), *g.stride(),
            part.stride(1), part.stride(2), part.stride(3), part.stride(0), IEEE=False,
            ALLOW_TF32=True, FP16_ACC=False,
        )  # fmt: skip
        return part.sum(0)

    return forward_step(run, x, g)


@case
def spconv__pools(device):
    module = sparse("pool")
    x, g, taps = n(device, 65536, 64), n(device, 65536, 64), _taps(device, 65536)

    def run(x, g):
        mean, count = module.avgpool_forward(x, taps, len(x))
        most = module.maxpool_forward(x, taps, len(x))
        back = module.maxpool_backward(x, most, g, taps)
        return mean, count, back, module.avgpool_backward(g, taps, count)

    return forward_step(run, x, g)


@case
def spconv__pairs(device):
    module = sparse("pair_kernels")
    count, taps = 65536, 27
    lines = torch.arange(count, device=device, dtype=torch.int32) * 3
    valid = torch.rand(taps, count, device=device) < 0.7
    near = integers(device, 3 * count, taps, count, dtype=torch.int32)

    def run(lines, near, valid):
        order = torch.arange(len(lines), device=lines.device)
        rows, member = module.subm_membership(near, lines, order, valid)
        below = module.lower_bound_rows(near, valid, lines)
        table = torch.where(member, rows.to(torch.int32), -1)
        return torch.where(member, rows, -1), torch.where(valid, below, -1), \
            module.pack_mask_words(table, taps, 1)  # fmt: skip

    return forward_step(run, lines, near, valid)
