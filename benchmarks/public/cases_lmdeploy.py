"""lmdeploy: kernels of another server of language models: attention over blocks of a cache, sorted
mixtures of experts, selection of the largest scores, sampling and quantization."""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

from functools import partial

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, integers, rms, tensor

BARE = ("lmdeploy.pytorch", "lmdeploy.pytorch.kernels", "lmdeploy.pytorch.kernels.cuda",
        "lmdeploy.pytorch.kernels.cuda.moe", "lmdeploy.pytorch.backends")  # fmt: skip
ABSENT = ("lmdeploy.messages", "lmdeploy.utils", "lmdeploy.pytorch.envs",
          "lmdeploy.pytorch.backends.rejection_sampling")  # fmt: skip
FP8 = torch.float8_e4m3fn


def lmdeploy(module: str):
    return alone(f"lmdeploy.pytorch.kernels.cuda.{module}", BARE, ABSENT)


def case(make):
    add(f"lmdeploy/{make.__name__}", make)
    return make


n = partial(tensor, dtype=F16)


# attention ----------------------------------------------------------------------------------------
def _attend(q, k, v, causal=True):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        at = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
        s = s.masked_fill(torch.arange(k.shape[-2], device=q.device)[None] > at, float("-inf"))
    return s.softmax(-1) @ v


def _prefill(name, heads, kv_heads, dim, **named):
    @lambda make: add(f"lmdeploy/{name}", make)
    def _build(device):
        call = lmdeploy("flashattention").flash_attn_varlen_func
        batch, length = 4, 2048
        starts = torch.arange(batch + 1, device=device, dtype=torch.int32) * length
        q = n(device, batch * length, heads, dim)
        k, v = (n(device, batch * length, kv_heads, dim) for _ in "kv")

        def run(q, k, v):
            return call(q, k, v, starts, starts, max_seqlen_q=length, max_seqlen_k=length,
                        causal=True, kv_layout="shd", **named)  # fmt: skip

        def reference(q, k, v):
            q, k, v = (t.view(batch, length, -1, dim).transpose(1, 2) for t in (q, k, v))
            return _attend(q, k, v).transpose(1, 2).reshape(-1, heads, dim)

        return forward_step(run, q, k, v, reference=None if named else reference)


_prefill("prefill", 32, 8, 128)
_prefill("prefill_d64", 32, 8, 64)
_prefill("prefill_window", 32, 8, 128, window_size=128)
_prefill("prefill_softcapped", 16, 8, 128, softcap=30.0)


def _decode(name, batch, length, heads, kv_heads, dim):
    @lambda make: add(f"lmdeploy/{name}", make)
    def _build(device):
        call = lmdeploy("pagedattention").flash_attn_with_kvcache
        blocks = length // 64
        q = n(device, batch, heads, dim)
        k, v = (n(device, batch * blocks, 64, kv_heads, dim) for _ in "kv")
        table = torch.randperm(batch * blocks, device=device).view(batch, blocks).to(torch.int32)
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)
        starts = torch.arange(batch + 1, device=device, dtype=torch.int32)

        def run(q, k, v):
            return call(q, k, v, lengths, table, cu_seqlens_q=starts, max_seqlen_q=1, causal=True)

        def reference(q, k, v):
            k, v = (t[table.long()].view(batch, length, kv_heads, dim).transpose(1, 2)
                    for t in (k, v))  # fmt: skip
            return _attend(q[:, :, None], k, v, causal=False)[:, :, 0]

        return forward_step(run, q, k, v, reference=reference)


_decode("decode", 32, 2048, 32, 8, 128)
_decode("decode_d64", 64, 2048, 32, 8, 64)
_decode("decode_one_head", 16, 4096, 16, 1, 128)


@case
def fill_cache(device):
    call = lmdeploy("fill_kv_cache").fill_kv_cache
    k, v = n(device, 4096, 8, 128), n(device, 4096, 8, 128)
    starts = torch.arange(4, device=device, dtype=torch.int32) * 1024
    lengths = torch.full((4,), 1024, device=device, dtype=torch.int32)
    table = torch.arange(4 * 16, device=device, dtype=torch.int32).view(4, 16)

    def run(k, v):
        caches = [k.new_zeros(4 * 16, 64, 8, 128) for _ in "kv"]
        call(k, v, *caches, starts, lengths, lengths, 1024, table)
        return caches

    return forward_step(run, k, v)


@case
def flatten_cache(device):
    call = lmdeploy("flatten_kv_cache").flatten_kv_cache
    k, v = (n(device, 4 * 16, 64, 8, 128) for _ in "kv")
    lengths = torch.full((4,), 1024, device=device, dtype=torch.int32)
    table = torch.randperm(4 * 16, device=device).view(4, 16)
    return forward_step(lambda k, v: call(k, v, lengths, table, out_size=4096), k, v)


# mixtures of experts ------------------------------------------------------------------------------
def _experts(name, tokens, experts, hidden, inner):
    @lambda make: add(f"lmdeploy/{name}", make)
    def _build(device):
        call = lmdeploy("moe.fused_moe").fused_moe
        x = n(device, tokens, hidden, dtype=BF16)
        w1 = n(device, experts, 2 * inner, hidden, dtype=BF16, scale=0.02)
        w2 = n(device, experts, hidden, inner, dtype=BF16, scale=0.02)
        weights, ids = torch.rand(tokens, experts, device=device).softmax(-1).topk(2, -1)
        return forward_step(lambda x, a, b: call(x, a, b, weights, ids, 2), x, w1, w2)


_experts("fused_moe", 2048, 8, 2048, 4096)
_experts("fused_moe_few_tokens", 64, 64, 2048, 1024)


@case
def fused_moe_int8(device):
    call = lmdeploy("moe.w8a8").fused_moe_w8a8
    eight = lambda *s: torch.randint(-127, 127, s, device=device, dtype=torch.int8)  # noqa: E731
    weights, ids = torch.rand(2048, 8, device=device).softmax(-1).topk(2, -1)
    scale = lambda *s: torch.rand(*s, device=device) / 1000  # noqa: E731
    x, w1, w2 = eight(2048, 2048), eight(8, 4096, 2048), eight(8, 2048, 2048)
    scales = scale(2048, 1), scale(8, 4096, 1), scale(8, 2048, 1)

    def run(x, w1, w2, s, s1, s2):
        return call(x, s, w1, s1, w2, s2, weights, ids, 2)

    return forward_step(run, x, w1, w2, *scales)


@case
def moe_reduce(device):
    call = lmdeploy("moe.fused_moe").moe_reduce
    x, w = n(device, 4096, 4, 4096), torch.rand(4096, 4, device=device).to(F16)
    return forward_step(call, x, w, reference=lambda x, w: (x * w[..., None]).sum(1))


@case
def route_groups(device):
    call = lmdeploy("moe.route_noaux_tc").fused_noaux_tc_routing
    x, b = n(device, 4096, 256, dtype=F32), n(device, 256, dtype=F32)
    return forward_step(lambda x, b: call(x, b, num_experts=2 * 128), x, b)


# scores -------------------------------------------------------------------------------------------
def _ends(device, rows, length):
    return (torch.ones(rows, device=device, dtype=torch.int32),
            torch.full((rows,), length, device=device, dtype=torch.int32))  # fmt: skip


@case
def bitonic_topk(device):
    call = lmdeploy("bitonic_topk").bitonic_topk
    x = torch.rand(64, 16384, device=device)
    return forward_step(lambda x: call(x, *_ends(device, 64, 16384), 4 * 128), x)


@case
def multinomial_sampling(device):
    call = lmdeploy("multinomial_sampling").multinomial_sampling
    p = torch.rand(256, 32000, device=device)
    p = p / p.sum(-1, keepdim=True)
    seeds, offsets = integers(device, 1000, 256), integers(device, 1000, 256)
    return forward_step(call, p, seeds, offsets)


# norms, rotations, gates and quantisation ---------------------------------------------------------
@case
def rms_norm(device):
    call = lmdeploy("rms_norm").rms_norm
    return forward_step(call, n(device, 4096, 4096), n(device, 4096), reference=rms)


@case
def add_rms_norm(device):
    call = lmdeploy("rms_norm").rms_norm
    return forward_step(
        lambda x, w, r: call(x, w, residual=r), n(device, 4096, 4096), n(device, 4096),
        n(device, 4096, 4096), reference=lambda x, w, r: (rms(x + r, w), x + r),
    )  # fmt: skip


@case
def silu_and_mul(device):
    call = lmdeploy("activation").silu_and_mul
    return forward_step(
        call, n(device, 4096, 16384),
        reference=lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    )  # fmt: skip


@case
def rotary(device):
    call = lmdeploy("apply_rotary_pos_emb").apply_rotary_pos_emb
    angle = torch.rand(8192, 64, device=device).repeat(1, 2) * 6
    q, k = n(device, 8192, 32, 128), n(device, 8192, 8, 128)

    def rotate(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos[:, None] + torch.cat([-b, a], -1) * sin[:, None]

    return forward_step(
        call, q, k, angle.cos().to(F16), angle.sin().to(F16),
        reference=lambda q, k, c, s: (rotate(q, c, s), rotate(k, c, s)),
    )  # fmt: skip


@case
def quant_fp8(device):
    call = lmdeploy("blocked_gemm_fp8").quant_fp8
    return forward_step(lambda x: call(x, 128), n(device, 4096, 7168, dtype=BF16))


@case
def blocked_gemm_fp8(device):
    call = lmdeploy("blocked_gemm_fp8").blocked_gemm_fp8
    a, b = (n(device, 4096, 4096, dtype=F32, scale=20).to(FP8) for _ in "ab")
    s, t = torch.rand(4096, 32, device=device), torch.rand(32, 32, device=device)

    def reference(a, s, b, t):
        a = a.double() * s.repeat_interleave(128, 1)
        return a @ (b.double() * t.repeat_interleave(128, 0).repeat_interleave(128, 1))

    return forward_step(
        lambda a, s, b, t: call(a, s, b.t(), t.t(), BF16), a, s, b, t,
        reference=lambda a, s, b, t: reference(a, s, b.t(), t.t()),
    )  # fmt: skip


@case
def int8_matmul(device):
    call = lmdeploy("w8a8_triton_kernels").matmul_kernel_dynamic_quant
    a, b = (torch.randint(-127, 127, (4096, 4096), device=device, dtype=torch.int8) for _ in "ab")
    s, t = torch.rand(4096, 1, device=device) / 100, torch.rand(4096, 1, device=device) / 100
    return forward_step(
        call, a, b, s, t, reference=lambda a, b, s, t: (a.double() @ b.double().t()) * s * t.t()
    )


@case
def token_quant_int8(device):
    call = lmdeploy("w8a8_triton_kernels").per_token_quant_int8
    return forward_step(lambda x: call(x, 1e-7), n(device, 4096, 4096))


@case
def rms_norm_quant(device):
    call = lmdeploy("w8a8_triton_kernels").rms_norm_dynamic_quant
    return forward_step(lambda x, w: call(x, w, 1e-6), n(device, 4096, 4096), n(device, 4096))


@case
def awq_linear(device):
    call = lmdeploy("awq_kernels").awq_linear
    packed = lambda rows: torch.randint(  # noqa: E731
        -(2**31), 2**31 - 1, (rows, 4096 // 8), device=device, dtype=torch.int32
    )
    scales = n(device, 32, 4096, scale=0.01)
    return forward_step(call, n(device, 64, 4096), packed(4096), scales, packed(32))


@case
def adapters(device):
    call = lmdeploy("fused_lora").fused_lora
    starts = torch.arange(16, device=device) * 128
    lengths, ranks = (torch.full((m,), v, device=device) for m, v in ((16, 128), (4, 64)))
    return forward_step(
        lambda x, a, b: call(
            x, a, b, torch.ones(4, device=device, dtype=torch.int64),
            torch.arange(4, device=device) * 64, ranks, starts, lengths,
            integers(device, 4, 16), 64, 128,
        ),
        n(device, 16 * 128, 4096), n(device, 4 * 64, 4096, scale=0.02), n(device, 4 * 64, 4096),
    )  # fmt: skip
