"""sglang: kernels of a server of language models: attention over paged caches, mixtures of experts,
quantized matmuls, low-rank adapters, state-space models, rotations and caches."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

from types import SimpleNamespace

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, integers, rms, tensor as n

BARE = (
    "sglang.srt", "sglang.srt.layers", "sglang.srt.layers.moe", "sglang.srt.layers.attention",
    "sglang.srt.layers.quantization", "sglang.srt.lora", "sglang.srt.layers.rotary_embedding",
    "sglang.srt.layers.utils", "sglang.srt.layers.moe.fused_moe_triton", "sglang.srt.constrained",
    "sglang.srt.layers.attention.nsa", "sglang.jit_kernel",
)  # fmt: skip
ABSENT = (
    "orjson", "psutil", "pybase64", "requests", "PIL", "starlette", "starlette.routing",
    "torchvision", "torchvision.io", "zmq", "cloudpickle", "IPython", "IPython.display",
    "sgl_kernel", "sglang.srt.server_args", "sglang.srt.layers.moe.topk", "sglang.srt.lora.utils",
    "sglang.srt.distributed", "sglang.srt.layers.dp_attention", "sglang.srt.mem_cache.memory_pool",
    "sglang.multimodal_gen", "sglang.multimodal_gen.runtime",
    "sglang.multimodal_gen.runtime.platforms", "sglang.srt.layers.deep_gemm_wrapper",
    "sglang.srt.layers.deep_gemm_wrapper.configurer", "sglang.jit_kernel.per_tensor_quant_fp8",
    "sglang.jit_kernel.per_token_group_quant_8bit",
)  # fmt: skip
"""What modules of kernels import and no kernel of a case needs."""
LAYERS = "srt.layers"
FP8 = torch.float8_e4m3fn


def sglang(module: str):
    return alone(f"sglang.{module}", BARE, ABSENT)


def case(make):
    add(f"sglang/{make.__name__}", make)
    return make


# elementwise, norms, routers ----------------------------------------------------------------------
@case
def softcap(device):
    call = sglang(f"{LAYERS}.elementwise").fused_softcap
    return forward_step(
        call, n(device, 512, 32000, scale=10), 30.0, reference=lambda x, c: torch.tanh(x / c) * c
    )


@case
def dual_residual_rmsnorm(device):
    call = sglang(f"{LAYERS}.elementwise").fused_dual_residual_rmsnorm

    def reference(x, r, w1, w2):
        middle = rms(x, w1) + r
        return rms(middle, w2), middle

    arguments = n(device, 4096, 6144), n(device, 4096, 6144), n(device, 6144), n(device, 6144)
    return forward_step(lambda *a: call(*a, 1e-6), *arguments, reference=reference)


@case
def rmsnorm(device):
    call = sglang(f"{LAYERS}.elementwise").fused_rmsnorm
    return forward_step(
        lambda *a: call(*a, 1e-6), n(device, 4096, 6144), n(device, 6144), reference=rms
    )


def _gate(name, act):
    def build(device):
        call = getattr(sglang(f"{LAYERS}.elementwise"), f"{name}_triton")
        reference = lambda x: act(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]  # noqa: E731
        return forward_step(lambda x: call(x)[0], n(device, 4096, 16384), reference=reference)

    add(f"sglang/{name}", build)


_gate("gelu_and_mul", F.gelu)
_gate("silu_and_mul", F.silu)


@case
def router_cudacore(device):
    call = sglang(f"{LAYERS}.moe.router").fused_moe_router_cudacore
    x, w = n(device, 64, 6144), n(device, 8, 6144, scale=0.02)
    return forward_step(lambda x, w: call(x, w, 2, 30.0), x, w)


@case
def router_tensorcore(device):
    call = sglang(f"{LAYERS}.moe.router").fused_moe_router_tensorcore
    x, w = n(device, 4096, 4096), n(device, 8, 4096, scale=0.02)
    return forward_step(lambda x, w: call(x, w, 2, 30.0, 32, 16, 128), x, w)


# attention over paged caches ----------------------------------------------------------------------
def _dense(q, k, v, scale, cap=0.0, sink=None):
    """Attention of one query (heads, dim) to keys and values (length, heads, dim)."""
    group = q.shape[-2] // k.shape[-2]
    k, v = (t.repeat_interleave(group, -2) for t in (k, v))
    s = torch.einsum("bhd,bnhd->bhn", q, k) * scale
    s = cap * torch.tanh(s / cap) if cap else s
    return torch.einsum("bhn,bnhd->bhd", s.softmax(-1), v)


def _decode(name, batch, length, heads, kv_heads, dim, dim_v, cap=0.0):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = sglang(f"{LAYERS}.attention.triton_ops.decode_attention").decode_attention_fwd
        splits = 8
        dtype = F16 if heads == kv_heads else BF16  # one head is multiplied in the type of q
        q = n(device, batch, heads, dim, dtype=dtype)
        k = n(device, batch * length, kv_heads, dim, dtype=dtype)
        v = k[..., :dim_v] if dim != dim_v else torch.randn_like(k)
        places = torch.randperm(batch * length, device=device)
        starts = torch.arange(batch + 1, device=device, dtype=torch.int32) * length
        parts = torch.zeros(batch, heads, splits, dim_v, device=device)
        logs = torch.zeros(batch, heads, splits, device=device)
        counts = torch.full((batch,), splits, device=device, dtype=torch.int32)
        scale = dim**-0.5

        def run(q, k, v):
            o = q.new_zeros(batch, heads, dim_v)
            call(q, k, v, o, starts, places, parts, logs, counts, splits, scale, 1.0, 1.0, cap)
            return o

        def reference(q, k, v):
            rows = (t[places].view(batch, length, kv_heads, -1) for t in (k, v))
            return _dense(q, *rows, scale, cap)

        return forward_step(run, q, k, v, reference=reference)


_decode("decode_mha", 32, 2048, 16, 16, 128, 128)
_decode("decode_gqa", 32, 2048, 32, 8, 128, 128)
_decode("decode_gqa_d64", 64, 2048, 32, 8, 64, 64)
_decode("decode_softcapped", 32, 2048, 32, 8, 128, 128, 30.0)
_decode("decode_mla", 32, 2048, 16, 1, 64 + 4 * 128, 4 * 128)


def _extend(name, batch, prefix, extend, heads, kv_heads, dim, dim_v, window=-1, cap=0.0):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = sglang(f"{LAYERS}.attention.triton_ops.extend_attention").extend_attention_fwd
        new = batch * extend
        q, k, v = (
            n(device, new, h, d) for h, d in ((heads, dim), (kv_heads, dim), (kv_heads, dim_v))
        )
        old_k, old_v = (n(device, batch * prefix, kv_heads, d) for d in (dim, dim_v))
        starts = torch.arange(batch + 1, device=device, dtype=torch.int32)
        places = torch.randperm(batch * prefix, device=device)

        def run(q, k, v, old_k, old_v):
            o = q.new_zeros(new, heads, dim_v)
            call(
                q, k, v, o, old_k, old_v, starts * extend, starts * prefix, places, None, True,
                None, extend, 1.0, 1.0, logit_cap=cap, sliding_window_size=window,
            )  # fmt: skip
            return o

        def reference(q, k, v, old_k, old_v):
            group = heads // kv_heads
            rows = [t[places].view(batch, prefix, kv_heads, -1) for t in (old_k, old_v)]
            fresh = [t.view(batch, extend, kv_heads, -1) for t in (k, v)]
            k, v = (torch.cat(p, 1).repeat_interleave(group, 2) for p in zip(rows, fresh))  # noqa: B905
            s = torch.einsum("bqhd,bkhd->bhqk", q.view(batch, extend, heads, dim), k) * dim**-0.5
            s = cap * torch.tanh(s / cap) if cap else s
            at = torch.arange(prefix, prefix + extend, device=device)[:, None]
            seen = torch.arange(prefix + extend, device=device)[None]
            mask = (seen <= at) & ((at - seen <= window) | torch.tensor(window < 0, device=device))
            s = s.masked_fill(~mask, float("-inf"))
            return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v).reshape(new, heads, dim_v)

        return forward_step(run, q, k, v, old_k, old_v, reference=reference)


_extend("extend", 8, 1024, 512, 32, 8, 128, 128)
_extend("extend_d64", 8, 1024, 512, 32, 8, 64, 64)
_extend("extend_mla", 4, 1024, 512, 16, 16, 64 + 128, 128)
_extend("extend_window", 8, 1024, 512, 32, 8, 128, 128, window=127)
_extend("extend_softcapped", 8, 1024, 512, 16, 8, 2 * 128, 2 * 128, cap=50.0)


@case
def extend_unified(device):
    module = sglang(f"{LAYERS}.attention.triton_ops.extend_attention")
    batch, prefix, extend, heads, kv_heads, dim = 8, 1024, 512, 32, 8, 128
    q = n(device, batch * extend, heads, dim)
    k, v = (n(device, batch * (prefix + extend), kv_heads, dim) for _ in "kv")
    starts = torch.arange(batch + 1, device=device, dtype=torch.int32)
    places = torch.randperm(batch * (prefix + extend), device=device)
    prefixes = torch.full((batch,), prefix, device=device, dtype=torch.int32)

    def run(q, k, v):
        o = torch.zeros_like(q)
        module.extend_attention_fwd_unified(
            q, o, k, v, 1.0, 1.0, starts * extend, starts * (prefix + extend), places, prefixes,
            extend,
        )  # fmt: skip
        return o

    return forward_step(run, q, k, v)


def _prefill(name, batch, length, heads, kv_heads, dim, causal):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = sglang(f"{LAYERS}.attention.triton_ops.prefill_attention").context_attention_fwd
        q, k, v = (
            n(device, batch * length, h, dim, dtype=F16) for h in (heads, kv_heads, kv_heads)
        )
        starts = torch.arange(batch, device=device, dtype=torch.int32) * length
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)

        def run(q, k, v):
            o = torch.zeros_like(q)
            call(q, k, v, o, starts, lengths, length, is_causal=causal)
            return o

        def reference(q, k, v):
            q, k, v = (t.view(batch, length, -1, dim).transpose(1, 2) for t in (q, k, v))
            k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return o.transpose(1, 2).reshape(-1, heads, dim)

        return forward_step(run, q, k, v, reference=reference)


_prefill("prefill", 4, 2048, 32, 8, 128, True)
_prefill("prefill_d64", 4, 2048, 32, 8, 64, True)
_prefill("prefill_d80", 4, 2048, 16, 16, 80, False)


@case
def merge_state(device):
    call = sglang(f"{LAYERS}.attention.triton_ops.merge_state").merge_state_triton
    a, b = n(device, 4096, 32, 128), n(device, 4096, 32, 128)
    p, s = n(device, 4096, 32, dtype=F32), n(device, 4096, 32, dtype=F32)

    def reference(a, p, b, s):
        w = torch.stack([p, s]).softmax(0)[..., None]
        return a * w[0] + b * w[1], torch.logaddexp(p, s)

    return forward_step(call, a, p, b, s, reference=reference)


# matmuls ------------------------------------------------------------------------------------------
def _invariant(name, function, *shapes, reference=None):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = getattr(sglang("srt.batch_invariant_ops.batch_invariant_ops"), function)
        return forward_step(lambda *a: call(*a), *(n(device, *s) for s in shapes),
                            reference=reference)  # fmt: skip


_invariant("persistent_matmul", "matmul_persistent", (4096, 4096), (4096, 4096),
           reference=lambda a, b: a @ b)  # fmt: skip
_invariant("persistent_matmul_bias", "matmul_persistent", (512, 4096), (4096, 14336), (14336,),
           reference=lambda a, b, c: a @ b + c)  # fmt: skip
_invariant("persistent_bmm", "bmm_batch_invariant", (32, 1024, 1024), (32, 1024, 1024),
           reference=lambda a, b: a @ b)  # fmt: skip
_invariant("invariant_log_softmax", "log_softmax", (1024, 32000),
           reference=lambda x: x.log_softmax(-1))  # fmt: skip
_invariant("invariant_rms_norm", "rms_norm", (4096, 4096), (4096,), reference=rms)


@case
def invariant_mean(device):
    call = sglang("srt.batch_invariant_ops.batch_invariant_ops").mean_dim
    return forward_step(call, n(device, 64, 1024, 256), 1, reference=lambda x, _: x.mean(1))


def _pack(device, k, columns, group):
    weights, zeros = (
        torch.randint(-(2**31), 2**31 - 1, (rows, columns // 8), device=device, dtype=torch.int32)
        for rows in (k, k // group)
    )
    return weights, n(device, k // group, columns, dtype=F16, scale=0.01), zeros


@case
def awq_dequantize(device):
    module = sglang(f"{LAYERS}.quantization.awq_triton")
    weights, scales, zeros = _pack(device, 4096, 14336, 128)
    return forward_step(module.awq_dequantize_triton, weights, scales, zeros,
                        reference=module.awq_dequantize_decomposition)  # fmt: skip


@case
def awq_gemm(device):
    module = sglang(f"{LAYERS}.quantization.awq_triton")
    weights, scales, zeros = _pack(device, 4096, 4096, 128)
    x = n(device, 64, 4096, dtype=F16)
    return forward_step(
        lambda x, w, s, z: module.awq_gemm_triton(x, w, s, z, 8), x, weights, scales, zeros,
        reference=lambda x, w, s, z: x @ module.awq_dequantize_decomposition(w, s, z),
    )  # fmt: skip


def _spread(scales, rows, columns, block):
    return scales.repeat_interleave(block[0], 0)[:rows].repeat_interleave(block[1], 1)[:, :columns]


def _block_scaled(name, rows, columns, k, integer):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        kind = "int8" if integer else "fp8"
        module = sglang(f"{LAYERS}.quantization.{kind}_kernel")
        call = module.w8a8_block_int8_matmul if integer else module.w8a8_block_fp8_matmul_triton
        a, b = (n(device, m, k, dtype=F32, scale=20) for m in (rows, columns))
        a, b = (t.to(torch.int8 if integer else FP8) for t in (a, b))
        s = torch.rand(rows, k // 128, device=device)
        t = torch.rand(-(-columns // 128), k // 128, device=device)

        def reference(a, b, s, t):
            a, b = a.double(), b.double()
            return (a * _spread(s, rows, k, (1, 128))) @ (
                b * _spread(t, columns, k, (128, 128))
            ).t()

        return forward_step(lambda *x: call(*x, [128, 128], output_dtype=BF16), a, b, s, t,
                            reference=reference)  # fmt: skip


_block_scaled("block_fp8_matmul", 4096, 4096, 4096, False)
_block_scaled("block_fp8_matmul_narrow", 64, 7168, 2048, False)
_block_scaled("block_int8_matmul", 4096, 4096, 4096, True)


def _scaled_mm(name, rows, dtype):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = sglang(f"{LAYERS}.quantization.fp8_kernel").triton_scaled_mm
        a = n(device, rows, 4096, dtype=F32, scale=20).to(dtype)
        b = n(device, 4096, 4096, dtype=F32, scale=20).to(dtype).t()
        s, t = torch.rand(rows, 1, device=device), torch.rand(4096, 1, device=device)
        bias = n(device, 4096)
        return forward_step(
            lambda a, b, s, t, c: call(a, b, s, t, BF16, c), a, b, s, t, bias,
            reference=lambda a, b, s, t, c: (a.double() @ b.double()) * s * t.t() + c,
        )  # fmt: skip


_scaled_mm("scaled_mm_fp8", 4096, FP8)
_scaled_mm("scaled_mm_fp8_narrow", 32, FP8)
_scaled_mm("scaled_mm_int8", 4096, torch.int8)


# mixtures of experts ------------------------------------------------------------------------------
def by_expert(ids, experts, block):
    """The positions of `ids` (tokens, choices) ordered by expert and padded to blocks; the expert
    of each block; and the number of positions."""
    flat = ids.flatten().long()
    order = flat.argsort(stable=True)
    counts = (flat[None] == torch.arange(experts, device=ids.device)[:, None]).sum(1)
    padded = (counts + block - 1) // block * block
    ends, first = padded.cumsum(0), counts.cumsum(0) - counts
    size = (flat.numel() + experts * (block - 1) + block - 1) // block * block
    places = torch.full((size,), flat.numel(), device=ids.device, dtype=torch.int32)
    e = flat[order]
    within = torch.arange(flat.numel(), device=ids.device) - first[e]
    places[(ends - padded)[e] + within] = order.to(torch.int32)
    starts = torch.arange(size // block, device=ids.device) * block
    owners = torch.searchsorted(ends, starts, right=True).clamp(max=experts - 1)
    return places, owners.to(torch.int32), ends[-1:].to(torch.int32)


def choices(device, tokens, experts, count):
    weights, ids = torch.rand(tokens, experts, device=device).topk(count, -1)
    return weights / weights.sum(-1, keepdim=True), ids.to(torch.int32)


def _fused_moe(name, tokens, experts, columns, k, weight_of, dequantise, **flags):
    """A matmul of tokens with the weights of the experts that they choose."""
    config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8,
              "num_warps": 4, "num_stages": 4, **flags.pop("config", {})}  # fmt: skip

    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        import triton.language as tl  # type: ignore[import-not-found]

        module = sglang(f"{LAYERS}.moe.fused_moe_triton.fused_moe_triton_kernels")
        x = n(device, tokens, k)
        weights, ids = choices(device, tokens, experts, 2)
        ordered = by_expert(ids, experts, config["BLOCK_SIZE_M"])
        w, scales = weight_of(device, experts, columns, k)
        named = {
            "use_fp8_w8a8": False, "use_int8_w8a8": False, "use_int8_w8a16": False,
            "use_int4_w4a16": False, "per_channel_quant": False, **flags,
        }  # fmt: skip

        def run(x, w):
            c = x.new_zeros(tokens, 2, columns)
            module.invoke_fused_moe_kernel(
                x, w, None, c, None, scales, None, weights, ids, *ordered, True, 2, config,
                tl.bfloat16, **named,
            )  # fmt: skip
            return c

        def reference(x, w):
            w = dequantise(w, scales)
            every = torch.einsum("tk,enk->ten", x, w)
            chosen = every.gather(1, ids.long()[..., None].expand(-1, -1, columns))
            return chosen * weights[..., None]

        return forward_step(run, x, w, reference=reference)


_fused_moe(
    "fused_moe", 2048, 8, 4096, 2048,
    lambda d, e, c, k: (n(d, e, c, k, scale=0.02), None), lambda w, _: w,
)  # fmt: skip
_fused_moe(
    "fused_moe_few_tokens", 64, 64, 1024, 2048,
    lambda d, e, c, k: (n(d, e, c, k, scale=0.02), None), lambda w, _: w,
    config={"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1},
)  # fmt: skip
_fused_moe(
    "fused_moe_int8_weights", 2048, 8, 4096, 2048,
    lambda d, e, c, k: (integers(d, 127, e, c, k, dtype=torch.int8),
                        torch.rand(e, c, device=d) / 100),
    lambda w, s: w.double() * s[..., None].double(), use_int8_w8a16=True,
)  # fmt: skip
_fused_moe(
    "fused_moe_int4_weights", 2048, 8, 4096, 2048,
    lambda d, e, c, k: (integers(d, 255, e, c, k // 2, dtype=torch.uint8),
                        n(d, e, c, k // 128, scale=0.01)),
    lambda w, s: (torch.stack([w & 15, w >> 4], -1).flatten(-2).double() - 8)
    * s.repeat_interleave(128, -1).double(),
    use_int4_w4a16=True, block_shape=[0, 128],
)  # fmt: skip


@case
def moe_sum_reduce(device):
    module = sglang(f"{LAYERS}.moe.fused_moe_triton.fused_moe_triton_kernels")

    def run(x):
        output = x.new_zeros(x.shape[0], x.shape[2])
        module.moe_sum_reduce_triton(x, output, 2.0)
        return output

    return forward_step(run, n(device, 2048, 8, 7168), reference=lambda x: x.sum(1) * 2)


@case
def masked_silu_quant(device):
    call = sglang(f"{LAYERS}.moe.ep_moe.kernels").silu_and_mul_masked_post_quant_fwd
    x = n(device, 8, 1024, 4096)
    counts = integers(device, 1024, 8, dtype=torch.int32)

    def run(x):
        q = torch.zeros(8, 1024, 2048, device=device, dtype=FP8)
        scales = torch.zeros(8, 1024, 16, device=device)
        call(x, q, scales, 128, counts)
        return q.float(), scales

    return forward_step(run, x)


# quantisation -------------------------------------------------------------------------------------
def _quantise(name, module, function, *shape, **named):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        call = getattr(sglang(f"{LAYERS}.{module}"), function)
        return forward_step(lambda x: call(x, **named)[:2], n(device, *shape))


_quantise("group_quant_fp8", "quantization.fp8_kernel", "_per_token_group_quant_8bit_raw",
          4096, 7168, group_size=128)  # fmt: skip
_quantise("group_quant_fp8_columns", "quantization.fp8_kernel", "_per_token_group_quant_8bit_raw",
          4096, 7168, group_size=128, column_major_scales=True)  # fmt: skip
_quantise("token_quant_int8", "quantization.int8_kernel", "per_token_quant_int8", 4096, 7168)
_quantise("group_quant_int8", "quantization.int8_kernel", "per_token_group_quant_int8",
          4096, 7168, group_size=128)  # fmt: skip
_quantise("act_quant", "attention.nsa.triton_kernel", "act_quant", 4096, 4096)


@case
def static_quant_fp8(device):
    call = sglang(f"{LAYERS}.quantization.fp8_kernel").static_quant_fp8
    return forward_step(call, n(device, 4096, 7168), torch.ones(1, device=device))


@case
def quantize_mla_cache(device):
    call = sglang(f"{LAYERS}.attention.nsa.quant_k_cache").quantize_k_cache
    return forward_step(lambda x: call(x).view(torch.uint8), n(device, 256, 64, 1, 64 + 4 * 128))


@case
def quantize_mla_cache_parts(device):
    call = sglang(f"{LAYERS}.attention.nsa.quant_k_cache").quantize_k_cache_separate
    return forward_step(call, n(device, 16384, 4 * 128), n(device, 16384, 64))


@case
def dequantize_mla_cache(device):
    quantize = sglang(f"{LAYERS}.attention.nsa.quant_k_cache")._quantize_k_cache_ref
    call = sglang(f"{LAYERS}.attention.nsa.dequant_k_cache").dequantize_k_cache
    return forward_step(call, quantize(n(device, 256, 64, 1, 64 + 4 * 128)))


# low-rank adapters --------------------------------------------------------------------------------
def _adapters(device, segments, length, count, rank):
    places = torch.arange(segments * length, device=device)
    return SimpleNamespace(
        use_cuda_graph=False, bs=segments, num_segments=segments, max_len=length,
        seg_indptr=torch.arange(segments + 1, device=device, dtype=torch.int32) * length,
        weight_indices=integers(device, count, segments, dtype=torch.int32),
        lora_ranks=torch.full((count,), rank, device=device, dtype=torch.int32),
        scalings=torch.rand(count, device=device) + 0.5,
        seg_lens=torch.full((segments,), length, device=device, dtype=torch.int32),
        permutation=places.to(torch.int32), has_active_lora=True,
    )  # fmt: skip


def _rows(x, info):
    return x.view(info.bs, info.max_len, -1)


@case
def lora_a(device):
    call = sglang("srt.lora.triton_ops.sgemm_lora_a").sgemm_lora_a_fwd
    info = _adapters(device, 16, 128, 4, 64)
    x, w = n(device, 16 * 128, 4096), n(device, 4, 3 * 64, 4096, scale=0.02)

    def reference(x, w):
        w = w[info.weight_indices.long()]
        return torch.einsum("bnk,brk->bnr", _rows(x, info), w).reshape(16 * 128, -1)

    return forward_step(lambda x, w: call(x, w, info, 3), x, w, reference=reference)


@case
def lora_b(device):
    call = sglang("srt.lora.triton_ops.sgemm_lora_b").sgemm_lora_b_fwd
    info = _adapters(device, 16, 128, 4, 64)
    x, w = n(device, 16 * 128, 64), n(device, 4, 4096, 64)

    def reference(x, w):
        i = info.weight_indices.long()
        y = torch.einsum("bnr,bkr->bnk", _rows(x, info), w[i])
        return (y * info.scalings[i][:, None, None]).reshape(16 * 128, -1)

    return forward_step(lambda x, w: call(x, w, info), x, w, reference=reference)


@case
def lora_qkv_b(device):
    call = sglang("srt.lora.triton_ops.qkv_lora_b").qkv_lora_b_fwd
    info = _adapters(device, 16, 128, 4, 64)
    x, w = n(device, 16 * 128, 3 * 64), n(device, 4, 6144, 64)
    ends = torch.tensor([0, 4096, 4096 + 1024, 4096 + 2 * 1024], device=device, dtype=torch.int32)
    return forward_step(lambda x, w: call(x, w, info, ends, 4096), x, w)


@case
def lora_gate_up_b(device):
    call = sglang("srt.lora.triton_ops.gate_up_lora_b").gate_up_lora_b_fwd
    info = _adapters(device, 16, 128, 4, 64)
    x, w = n(device, 16 * 128, 2 * 64), n(device, 4, 2 * 8192, 64)
    return forward_step(lambda x, w: call(x, w, info, 8192), x, w)


@case
def lora_shrink(device):
    call = sglang("srt.lora.triton_ops.chunked_sgmv_shrink").chunked_sgmv_lora_shrink_forward
    info = _adapters(device, 128, 16, 4, 64)
    x, w = n(device, 128 * 16, 4096), n(device, 4, 3 * 64, 4096, scale=0.02)
    return forward_step(lambda x, w: call(x, w, info, 3), x, w)


@case
def lora_expand(device):
    call = sglang("srt.lora.triton_ops.chunked_sgmv_expand").chunked_sgmv_lora_expand_forward
    info = _adapters(device, 128, 16, 4, 64)
    x, w = n(device, 128 * 16, 3 * 64), n(device, 4, 6144, 64)
    ends = torch.tensor([0, 4096, 4096 + 1024, 4096 + 2 * 1024], device=device, dtype=torch.int32)
    return forward_step(lambda x, w: call(x, w, info, ends, 4096, None), x, w)


# state-space models and linear attention ----------------------------------------------------------
@case
def selective_state_update(device):
    call = sglang(f"{LAYERS}.attention.mamba.ops.mamba_ssm").selective_state_update
    state = n(device, 128, 80, 64, 128, dtype=F32)
    x, dt, z = (n(device, 128, 80, 64) for _ in range(3))
    a = -torch.rand(80, 1, 1, device=device).expand(80, 64, 128)
    b, c = n(device, 128, 1, 128), n(device, 128, 1, 128)
    d, bias = (torch.rand(80, 1, device=device).expand(80, 64) for _ in range(2))
    places = torch.randperm(128, device=device, dtype=torch.int32)

    def run(state, x, dt, b, c, z):
        state, out = state.clone(), torch.zeros_like(x)
        dt = dt[..., :1].expand(-1, -1, 64)
        call(state, x, dt, a, b, c, D=d, z=z, dt_bias=bias, dt_softplus=True,
             state_batch_indices=places, out=out)  # fmt: skip
        return out, state

    return forward_step(run, state, x, dt, b, c, z)


@case
def causal_conv1d(device):
    call = sglang(f"{LAYERS}.attention.mamba.causal_conv1d_triton").causal_conv1d_fn
    batch, length, dim = 4, 2048, 8192
    x = n(device, batch * length, dim).t()
    w, bias, states = n(device, dim, 4), n(device, dim), n(device, batch, 3, dim).transpose(1, 2)
    starts = torch.arange(batch + 1, device=device, dtype=torch.int32) * length
    places = torch.arange(batch, device=device, dtype=torch.int32)
    initial = torch.ones(batch, device=device, dtype=torch.bool)

    def run(x, w, bias, states):
        states = states.clone()
        return call(x, w, bias, states, starts, [length] * batch, places, initial), states

    return forward_step(run, x, w, bias, states)


@case
def causal_conv1d_update(device):
    call = sglang(f"{LAYERS}.attention.mamba.causal_conv1d_triton").causal_conv1d_update
    x, w, bias = n(device, 128, 8192), n(device, 8192, 4), n(device, 8192)
    states = n(device, 128, 3, 8192).transpose(1, 2)
    places = torch.randperm(128, device=device, dtype=torch.int32)

    def run(x, states, w, bias):
        x, states = x.clone(), states.clone()
        return call(x, states, w, bias, "silu", conv_state_indices=places), states

    return forward_step(run, x, states, w, bias)


@case
def linear_decode(device):
    call = sglang(f"{LAYERS}.attention.linear.lightning_attn").linear_decode_forward_triton
    q, k, v = (n(device, 64, 32, 1, 128) for _ in range(3))
    cache = n(device, 64, 32, 128, 128, dtype=F32)
    decay, places = torch.rand(32, device=device), torch.randperm(64, device=device)
    return forward_step(lambda q, k, v, c: call(q, k, v, c.clone(), decay, places), q, k, v, cache)


def _seg_la(name, batch, length):
    @lambda make: add(f"sglang/{name}", make)
    def _build(device):
        module = sglang(f"{LAYERS}.attention.linear.seg_la")
        heads, dim = 16, 128
        q, k, v = (n(device, batch * length, heads, dim, scale=0.1) for _ in range(3))
        states = n(device, batch, heads, dim, dim, dtype=F32, scale=0.1)
        whole = lambda value: torch.full((batch,), value, device=device, dtype=torch.int32)  # noqa: E731
        starts = torch.arange(batch + 1, device=device, dtype=torch.int32) * length
        meta = module.SegLaMeta(
            batch_size=batch, max_q_length=length, q_offsets=starts, s_offsets=starts[:batch]
            // length, q_lengths=whole(length), s_scales=whole(1),
        )  # fmt: skip
        decays = torch.rand(heads, device=device) / 10
        return forward_step(lambda *a: module.seg_la_fwd(*a[:3], a[3].clone(), decays, meta),
                            q, k, v, states)  # fmt: skip


_seg_la("segment_attention", 4, 1024)
_seg_la("segment_attention_decode", 64, 1)


# rotations, caches and tables ---------------------------------------------------------------------
@case
def diffusion_rotary(device):
    call = sglang("jit_kernel.diffusion.triton.rotary").apply_rotary_embedding
    x, angle = n(device, 1, 4096, 24, 128), torch.rand(4096, 64, device=device) * 6

    def reference(x, cos, sin):
        a, b = x[..., ::2], x[..., 1::2]
        cos, sin = cos[:, None], sin[:, None]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    return forward_step(call, x, angle.cos(), angle.sin(), reference=reference)


@case
def diffusion_scale_shift(device):
    call = sglang("jit_kernel.diffusion.triton.scale_shift").fuse_scale_shift_kernel
    x, scale, shift = n(device, 2, 4096, 3072), n(device, 2, 1, 3072), n(device, 2, 1, 3072)
    return forward_step(call, x, scale, shift, reference=lambda x, s, t: x * (1 + s) + t)


@case
def diffusion_layernorm_select(device):
    module = sglang("jit_kernel.diffusion.triton.scale_shift")
    call = module.fuse_layernorm_scale_shift_gate_select01_kernel
    x, w, b = n(device, 2, 4096, 3072), n(device, 3072), n(device, 3072)
    six = [n(device, 2, 3072) for _ in range(6)]
    index = integers(device, 2, 2, 4096, dtype=torch.int32)
    return forward_step(lambda *a: call(*a, index, 1e-6), x, w, b, *six)


@case
def split_qkvzba(device):
    call = sglang("jit_kernel.triton.gdn_fused_proj").fused_qkvzba_split_reshape_cat
    x, y = n(device, 4096, 12288), n(device, 4096, 64)
    return forward_step(lambda x, y: call(x, y, 16, 32, 128, 128), x, y)


@case
def concat_mha_k(device):
    call = sglang(f"{LAYERS}.attention.utils").concat_and_cast_mha_k_triton

    def run(a, b):
        k = a.new_zeros(a.shape[0], a.shape[1], 128 + 64)
        call(k, a, b)
        return k

    return forward_step(
        run, n(device, 8192, 128, 128), n(device, 8192, 1, 64), exactly=True,
        reference=lambda a, b: torch.cat([a, b.expand(-1, a.shape[1], -1)], -1),
    )  # fmt: skip


@case
def mrope(device):
    call = sglang(f"{LAYERS}.rotary_embedding.triton_kernels").triton_mrope_fused
    angle = torch.rand(4096, 64, device=device) * 6
    cache = torch.cat([angle.cos(), angle.sin()], -1).to(BF16)
    positions = integers(device, 4096, 3, 4096)
    axes = torch.zeros(64, device=device, dtype=torch.int32)

    def run(q, k):
        q, k = q.clone(), k.clone()
        call(q, k, cache, positions, [16, 24, 24], 128, 128, False, False, True, axes)
        return q, k

    return forward_step(run, n(device, 4096, 4096), n(device, 4096, 1024))


@case
def cache_keys_and_values(device):
    call = sglang(f"{LAYERS}.attention.utils").launch_reshape_and_cache_flash
    k, v = n(device, 4096, 8, 128), n(device, 4096, 8, 128)
    places = torch.randperm(8192, device=device)[:4096]

    def run(k, v):
        caches = [k.new_zeros(8192 // 16, 16, 8, 128) for _ in "kv"]
        call(k, v, *caches, places)
        return caches

    return forward_step(run, k, v)


@case
def gather_index_keys(device):
    call = sglang(f"{LAYERS}.attention.nsa.index_buf_accessor")._get_k_triton
    pages = integers(device, 255, 512, 64 * 132, dtype=torch.uint8)
    places = torch.randperm(512, device=device, dtype=torch.int32)
    return forward_step(lambda b, p: call(b, p, 16384, 64, 128), pages, places)


@case
def page_table_of_topk(device):
    module = sglang(f"{LAYERS}.attention.nsa.transform_index")
    pages = integers(device, 100000, 256, 8192, dtype=torch.int32)
    indices = integers(device, 8192, 256, 16 * 128, dtype=torch.int32)
    indices = torch.where(indices % 5 == 0, -1, indices)
    return forward_step(
        module.transform_index_page_table_decode_fast, pages, indices, exactly=True,
        reference=module.transform_index_page_table_decode_ref,
    )  # fmt: skip


@case
def murmur_hash(device):
    call = sglang(f"{LAYERS}.utils.hash").murmur_hash32
    seeds, positions = integers(device, 1 << 40, 128), integers(device, 8192, 128)
    columns = torch.arange(32000, device=device)
    return forward_step(lambda *a: call(*a).to(torch.int64), seeds, positions, columns)


@case
def token_bitmask(device):
    call = sglang("srt.constrained.triton_ops.bitmask_ops").apply_token_bitmask_inplace_triton
    mask = torch.randint(-(2**31), 2**31 - 1, (128, 4000), device=device, dtype=torch.int32)

    def run(x):
        x = x.clone()
        call(x, mask)
        return x.nan_to_num(neginf=-1000.0)

    return forward_step(run, n(device, 128, 128000))
