"""vllm: kernels of a server of language models: attention over blocks of a cache, low-rank
adapters, mixtures of experts, quantized matmuls, state-space models and sampling."""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, integers, tensor as n

LAYERS = "vllm.model_executor.layers"
BARE = (
    "vllm.attention",
    "vllm.attention.ops",
    "vllm.lora",
    "vllm.lora.ops",
    "vllm.lora.ops.triton_ops",
    "vllm.model_executor",
    LAYERS,
    f"{LAYERS}.mamba",
    f"{LAYERS}.mamba.ops",
    f"{LAYERS}.fused_moe",
    f"{LAYERS}.quantization",
    f"{LAYERS}.quantization.utils",
    f"{LAYERS}.quantization.compressed_tensors",
    f"{LAYERS}.rotary_embedding",
    "vllm.v1",
    "vllm.v1.sample",
)
ABSENT = (
    "vllm._custom_ops",
    "vllm.envs",
    "vllm.logger",
    "vllm.utils",
    "vllm.utils.deep_gemm",
    "vllm.utils.flashinfer",
    "vllm.config",
    "vllm.forward_context",
    "vllm.scalar_type",
    "vllm.distributed.parallel_state",
    "vllm.model_executor.parameter",
    "vllm.model_executor.utils",
    "vllm.attention.backends",
    f"{LAYERS}.fused_moe.config",
    f"{LAYERS}.fused_moe.modular_kernel",
    f"{LAYERS}.linear",
    f"{LAYERS}.fused_moe.deep_gemm_moe",
    f"{LAYERS}.fused_moe.moe_align_block_size",
    f"{LAYERS}.fused_moe.topk_weight_and_reduce",
    f"{LAYERS}.fused_moe.prepare_finalize",
    f"{LAYERS}.fused_moe.cutlass_moe",
    f"{LAYERS}.quantization.utils.quant_utils",
    f"{LAYERS}.quantization.utils.w8a8_utils",
    f"{LAYERS}.quantization.utils.mxfp4_utils",
    f"{LAYERS}.quantization.utils.mxfp8_utils",
    f"{LAYERS}.quantization.utils.ocp_mx_utils",
    f"{LAYERS}.quantization.utils.flashinfer_utils",
    f"{LAYERS}.quantization.input_quant_fp8",
    f"{LAYERS}.batch_invariant",
    f"{LAYERS}.rotary_embedding.base",
    f"{LAYERS}.utils",
    f"{LAYERS}.rotary_embedding.common",
    f"{LAYERS}.rotary_embedding.yarn_scaling_rope",
    "vllm.v1.sample.metadata",
    "vllm.v1.sample.ops.topk_topp_sampler",
    "vllm.v1.spec_decode.metadata",
    "vllm.v1.attention.backends.utils",
    "vllm.v1.sample.ops",
    "vllm.v1.attention",
    "vllm.v1.attention.backends",
    "vllm.v1.spec_decode",
    "vllm.distributed",
)
FP8 = torch.float8_e4m3fn


def vllm(module: str):
    if "vllm.triton_utils" not in sys.modules:
        import triton  # type: ignore[import-not-found]
        import triton.language as tl  # type: ignore[import-not-found]
        from triton.language.extra import libdevice  # type: ignore[import-not-found]

        modules = {"triton": triton, "tl": tl, "tldevice": libdevice, "HAS_TRITON": True}
        modules["use_tensor_descriptor"] = lambda *_: False
        _stand_in("triton_utils", modules)
        _stand_in("attention.backends.utils", {"PAD_SLOT_ID": -1})
        _stand_in("platforms", {"current_platform": _Platform()})
    return alone(f"vllm.{module}", BARE, ABSENT)


def _stand_in(name, values):
    """Replace a module that requires drivers or devices when it is imported by one with only these
    values."""
    module = sys.modules[f"vllm.{name}"] = ModuleType(f"vllm.{name}")
    module.__dict__.update(values)


class _Platform:
    def fp8_dtype(self):
        return FP8

    def get_device_name(self):
        return "unknown"

    def __getattr__(self, _) -> Callable[..., bool]:  # is_rocm, has_device_capability, ...
        return lambda *_: False


def layers(module: str):
    return vllm(f"model_executor.layers.{module}")


def case(make):
    add(f"vllm/{make.__name__}", make)
    return make


def starts_of(device, batch, length):
    return torch.arange(batch + 1, device=device, dtype=torch.int32) * length


# attention over blocks of a cache -----------------------------------------------------------------
def _attend(q, k, v, window=None, softcap=0.0):
    """Causal attention of the last rows of a sequence, by groups of heads."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    s = torch.tanh(s / softcap) * softcap if softcap else s
    at = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
    column = torch.arange(k.shape[-2], device=q.device)[None]
    hidden = column > at
    hidden = hidden if window is None else hidden | (column <= at - window)
    return s.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def _cache(device, batch, length, heads, dim, block, dtype=BF16):
    k, v = (n(device, batch * length // block, block, heads, dim, dtype=dtype) for _ in "kv")
    table = torch.randperm(batch * length // block, device=device).to(torch.int32)
    return k, v, table.view(batch, length // block)


def _attention(
    name, batch, rows, length, heads, kv_heads, dim, block=16, window=None, softcap=0.0, sinks=False
):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        call = vllm("attention.ops.triton_unified_attention").unified_attention
        q = n(device, batch * rows, heads, dim)
        k, v, table = _cache(device, batch, length, kv_heads, dim, block)
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)
        starts = starts_of(device, batch, rows)
        extra = {"sinks": n(device, heads, scale=0.1)} if sinks else {}

        def run(q, k, v):
            out = torch.empty_like(q)
            call(
                q,
                k,
                v,
                out,
                starts,
                rows,
                lengths,
                length,
                dim**-0.5,
                True,
                (-1 if window is None else window - 1, -1),
                table,
                softcap,
                None,
                None,
                None,
                **extra,
            )
            return out

        def reference(q, k, v):
            k, v = (
                t[table.long()].reshape(batch, length, kv_heads, dim).transpose(1, 2)
                for t in (k, v)
            )
            q = q.view(batch, rows, heads, dim).transpose(1, 2)
            return _attend(q, k, v, window, softcap).transpose(1, 2).reshape(-1, heads, dim)

        return forward_step(run, q, k, v, reference=None if sinks else reference)


_attention("unified_prefill", 2, 2048, 2048, 32, 8, 128)
_attention("unified_prefill_block_64", 2, 2048, 2048, 32, 8, 128, block=64)
_attention("unified_prefill_window", 2, 2048, 2048, 32, 8, 128, window=512)
_attention("unified_prefill_softcapped", 2, 1024, 1024, 16, 8, 256, softcap=30.0)
_attention("unified_sinks_d64", 2, 1024, 2048, 64, 8, 64, sinks=True)
_attention("unified_decode", 64, 1, 2048, 32, 8, 128)
_attention("unified_decode_few", 4, 1, 4096, 32, 8, 128)


@case
def prefix_prefill(device):
    """New rows attend to cached ones and to each other."""
    call = vllm("attention.ops.prefix_prefill").context_attention_fwd
    batch, rows, context, heads, kv_heads, dim, block = 4, 512, 1024, 32, 8, 128, 16
    q = n(device, batch * rows, heads, dim, dtype=F16)
    k, v = (n(device, batch * rows, kv_heads, dim, dtype=F16) for _ in "kv")
    blocks = batch * context // block
    k_cache = n(device, blocks, kv_heads, dim // 8, block, 8, dtype=F16)
    v_cache = n(device, blocks, kv_heads, dim, block, dtype=F16)
    table = torch.randperm(blocks, device=device).to(torch.int32).view(batch, -1)
    lengths = torch.full((batch,), rows + context, device=device, dtype=torch.int32)
    starts, one = starts_of(device, batch, rows), torch.ones(1, device=device)

    def run(q, k, v, k_cache, v_cache):
        out = torch.empty_like(q)
        call(
            q,
            k,
            v,
            out,
            "auto",
            k_cache,
            v_cache,
            table,
            starts,
            lengths,
            rows + context,
            rows,
            one,
            one,
        )
        return out

    def reference(q, k, v, k_cache, v_cache):
        k_cache = k_cache.permute(0, 3, 1, 2, 4).reshape(blocks, block, kv_heads, dim)
        v_cache = v_cache.permute(0, 3, 1, 2)
        old = [c[table.long()].reshape(batch, context, kv_heads, dim) for c in (k_cache, v_cache)]
        new = [t.view(batch, rows, kv_heads, dim) for t in (k, v)]
        k, v = (torch.cat(pair, 1).transpose(1, 2) for pair in zip(old, new, strict=True))
        out = _attend(q.view(batch, rows, heads, dim).transpose(1, 2), k, v)
        return out.transpose(1, 2).reshape(-1, heads, dim)

    return forward_step(run, q, k, v, k_cache, v_cache, reference=reference)


def _decode(name, batch, length, heads, kv_heads, dim, value_dim, page, splits=8):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        call = vllm("attention.ops.triton_decode_attention").decode_attention_fwd
        q = n(device, batch, heads, dim)
        k = n(device, batch * length // page, page, kv_heads, dim)
        v = k[..., :value_dim] if value_dim != dim else n(device, *k.shape)
        table = torch.arange(batch * length // page, device=device, dtype=torch.int32)
        table = table.view(batch, -1)
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)

        def run(q, k, v):
            out = q.new_empty(batch, heads, value_dim)
            lse = q.new_empty(batch, heads, dtype=F32)
            logits = q.new_empty(batch, heads, splits, value_dim + 1, dtype=F32)
            call(q, k, v, out, lse, table, lengths, logits, splits, dim**-0.5, page)
            return out

        def reference(q, k, v):
            k, v = (t.reshape(batch, length, kv_heads, -1).transpose(1, 2) for t in (k, v))
            return _attend(q[:, :, None], k, v)[:, :, 0]

        # without groups of heads, each dot adds in bf16
        return forward_step(run, q, k, v, reference=reference if kv_heads < heads else None)


_decode("decode", 32, 2048, 32, 32, 128, 128, 16)
_decode("decode_grouped", 32, 4096, 32, 4, 128, 128, 16)
_decode("decode_latent", 32, 4096, 16, 1, 576, 512, 64)


@case
def chunked_prefill_decode(device):
    """Rows of one token attend to their cached sequences by blocks of 16."""
    call = vllm("attention.ops.chunked_prefill_paged_decode").kernel_paged_attention_2d
    batch, length, heads, kv_heads, dim, block = 64, 2048, 32, 8, 128, 16
    q = n(device, batch, heads, dim)
    blocks = batch * length // block
    k_cache, v_cache = (
        n(device, blocks, kv_heads, dim // 8, block, 8),
        n(device, blocks, kv_heads, dim, block),
    )
    table = torch.randperm(blocks, device=device).to(torch.int32).view(batch, -1)
    lengths = torch.full((batch,), length, device=device, dtype=torch.int32)
    starts, one = starts_of(device, batch, 1), torch.ones(1, device=device)

    def run(q, k_cache, v_cache):
        out = torch.empty_like(q)
        call[(batch, kv_heads)](
            output_ptr=out,
            query_ptr=q,
            key_cache_ptr=k_cache,
            value_cache_ptr=v_cache,
            sink_ptr=None,
            block_tables_ptr=table,
            seq_lens_ptr=lengths,
            alibi_slopes_ptr=None,
            scale=dim**-0.5,
            k_scale=one,
            v_scale=one,
            out_scale_inv=1.0,
            num_query_heads=heads,
            num_queries_per_kv=heads // kv_heads,
            num_queries_per_kv_padded=16,
            block_table_stride=table.stride(0),
            query_stride_0=q.stride(0),
            query_stride_1=q.stride(1),
            output_stride_0=out.stride(0),
            output_stride_1=out.stride(1),
            BLOCK_SIZE=block,
            HEAD_SIZE=dim,
            HEAD_SIZE_PADDED=dim,
            USE_ALIBI_SLOPES=False,
            SLIDING_WINDOW=0,
            x=8,
            stride_k_cache_0=k_cache.stride(0),
            stride_k_cache_1=k_cache.stride(1),
            stride_k_cache_2=k_cache.stride(2),
            stride_k_cache_3=k_cache.stride(3),
            stride_k_cache_4=k_cache.stride(4),
            stride_v_cache_0=v_cache.stride(0),
            stride_v_cache_1=v_cache.stride(1),
            stride_v_cache_2=v_cache.stride(2),
            stride_v_cache_3=v_cache.stride(3),
            filter_by_query_len=True,
            query_start_len_ptr=starts,
            USE_SINKS=False,
            USE_FP8=False,
        )
        return out

    def reference(q, k_cache, v_cache):
        k_cache = k_cache.permute(0, 3, 1, 2, 4).reshape(blocks, block, kv_heads, dim)
        v_cache = v_cache.permute(0, 3, 1, 2)
        k, v = (
            c[table.long()].reshape(batch, length, kv_heads, dim).transpose(1, 2)
            for c in (k_cache, v_cache)
        )
        return _attend(q[:, :, None], k, v)[:, :, 0]

    return forward_step(run, q, k_cache, v_cache, reference=reference)


@case
def merge_states(device):
    call = vllm("attention.ops.triton_merge_attn_states").merge_attn_states
    a, b = (n(device, 8192, 32, 128) for _ in "ab")
    s, t = (n(device, 32, 8192, dtype=F32) for _ in "st")

    def run(a, s, b, t):
        out = torch.empty_like(a)
        call(out, a, s, b, t)
        return out

    def reference(a, s, b, t):
        share = torch.sigmoid(s - t).T[..., None]
        return a * share + b * (1 - share)

    return forward_step(run, a, s, b, t, reference=reference)


@case
def reshape_and_cache(device):
    call = vllm("attention.ops.triton_reshape_and_cache_flash").triton_reshape_and_cache_flash
    k, v = n(device, 4096, 8, 128), n(device, 4096, 8, 128)
    slots = torch.randperm(512 * 16, device=device)[:4096]
    one = torch.ones(1, device=device)

    def run(k, v):
        caches = [k.new_zeros(512, 16, 8, 128) for _ in "kv"]
        call(k, v, *caches, slots, "auto", one, one)
        return caches

    def reference(k, v):
        return [
            t.new_zeros(512 * 16, 8, 128).index_copy(0, slots, t).view(512, 16, 8, 128)
            for t in (k, v)
        ]

    return forward_step(run, k, v, reference=reference, exactly=True)


@case
def pack_sequences(device):
    module = vllm("attention.ops.common")
    lengths = torch.tensor([1024, 512, 2048, 512], device=device, dtype=torch.int32)
    x = n(device, 1024 + 512 + 2048 + 512, 1024)

    def run(x):
        packed = module.pack_seq_triton(x, lengths, pad_value=0.0)
        return packed, module.unpack_seq_triton(packed, lengths)

    def reference(x):
        rows = x.split([1024, 512, 2048, 512])
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), x

    return forward_step(run, x, reference=reference, exactly=True)


# low-rank adapters --------------------------------------------------------------------------------
def _adapters(name, tokens, count, rank, hidden, slices):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        shrink = vllm("lora.ops.triton_ops.lora_shrink_op")._lora_shrink
        expand = vllm("lora.ops.triton_ops.lora_expand_op")._lora_expand
        which = torch.arange(tokens, device=device, dtype=torch.int32) % count
        order = which.argsort(stable=True).int()
        ids = torch.arange(count, device=device, dtype=torch.int32)
        counts = torch.full((count,), tokens // count, device=device, dtype=torch.int32)
        starts = starts_of(device, count, tokens // count)
        some = SimpleNamespace(numel=lambda: 1, item=lambda: False)  # no row is without an adapter
        x = n(device, tokens, hidden)
        a = [n(device, count, rank, hidden, scale=hidden**-0.5) for _ in range(slices)]
        b = [n(device, count, hidden, rank) for _ in range(slices)]
        places = which, order, counts, starts, ids, some

        def run(x, a, b):
            low = torch.zeros(slices, tokens, rank, device=device, dtype=F32)
            shrink(x, list(a), low, *places, 0.5)
            out = torch.zeros(tokens, slices * hidden, device=device, dtype=BF16)
            expand(low, list(b), out, *places, 0, True)
            return low, out

        def reference(x, a, b):
            low = [0.5 * torch.einsum("th,trh->tr", x, w[which.long()]) for w in a]
            out = [
                torch.einsum("tr,thr->th", p, w[which.long()]) for p, w in zip(low, b, strict=True)
            ]
            return torch.stack(low), torch.cat(out, 1)

        small = tokens * hidden * rank <= 1 << 26
        return forward_step(run, x, tuple(a), tuple(b), reference=reference if small else None)


_adapters("adapters_prefill", 4096, 4, 16, 4096, 1)
_adapters("adapters_prefill_slices", 2048, 4, 32, 4096, 3)
_adapters("adapters_decode", 64, 8, 16, 4096, 3)


# mixtures of experts ------------------------------------------------------------------------------
def _route(device, tokens, experts, k, block):
    """Token ids by expert, padded to blocks, as `moe_align_block_size` returns them."""
    weights, ids = torch.rand(tokens, experts, device=device).softmax(-1).topk(k, -1)
    # the same number of tokens for each expert, so that nothing is computed on the host
    ids = (torch.arange(tokens * k, device=device) % experts).view(tokens, k)
    per = -(-(tokens * k // experts) // block) * block
    places = torch.arange(experts * per, device=device)
    row, expert = places % per, places // per
    order = row * experts + expert
    order = torch.where(row < tokens * k // experts, order, tokens * k).int()
    blocks = torch.arange(experts * per // block, device=device, dtype=torch.int32)
    total = torch.full((1,), experts * per, device=device, dtype=torch.int32)
    return weights, ids, order, blocks // (per // block), total


def _moe(name, tokens, experts, columns, inner, k, block, dequantise, make, **flags):
    """Register a case of one matmul of a mixture of experts. `make(device, experts, columns,
    inner)` returns the weights, their scales and zero points."""

    @lambda build: add(f"vllm/{name}", build)
    def _build(device):
        import triton.language as tl  # type: ignore[import-not-found]

        call = layers("fused_moe.fused_moe").invoke_fused_moe_kernel
        weights, ids, order, blocks, total = _route(device, tokens, experts, k, block)
        b, scale, zero = make(device, experts, columns, inner)
        x, x_scale = n(device, tokens, inner), None
        if flags.get("use_fp8_w8a8"):
            x, x_scale = (
                n(device, tokens, inner).to(FP8),
                torch.rand(tokens, inner // 128, device=device),
            )
        elif flags.get("use_int8_w8a8"):
            x = integers(device, 120, tokens, inner, dtype=torch.int8)
            x_scale = torch.rand(tokens, 1, device=device) / 100
        config = {
            "BLOCK_SIZE_M": block,
            "BLOCK_SIZE_N": 64 if block == 16 else 128,
            "BLOCK_SIZE_K": 64 if flags.get("use_int4_w4a16") else 128,
            "GROUP_SIZE_M": 8,
            "num_warps": 4 if block < 128 else 8,
            "num_stages": 3,
        }
        kinds = ("use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16")
        how = dict.fromkeys((*kinds, "per_channel_quant"), False)

        def run(x):
            out = torch.empty(tokens, k, columns, device=device, dtype=BF16)
            call(
                x,
                b,
                out,
                x_scale,
                scale,
                zero,
                weights,
                order,
                blocks,
                total,
                False,
                k,
                config,
                tl.bfloat16,
                **{**how, **flags},
            )
            return out

        def reference(x):
            w = dequantise(b, scale, zero).double()
            out = x.new_empty(tokens, k, columns)
            for e in range(experts):
                at, place = (ids == e).nonzero(as_tuple=True)
                out[at, place] = x[at] @ w[e].T
            return out

        return forward_step(run, x, reference=reference if dequantise else None)


def _moe_plain(device, e, columns, inner):
    return n(device, e, columns, inner, scale=inner**-0.5), None, None


def _moe_fp8(device, e, columns, inner):
    scale = torch.rand(e, columns // 128, inner // 128, device=device)
    return n(device, e, columns, inner).to(FP8), scale, None


def _moe_int8(device, e, columns, inner):
    return (
        integers(device, 120, e, columns, inner, dtype=torch.int8),
        torch.rand(e, columns, device=device) / 100,
        None,
    )


def _moe_int4(device, e, columns, inner):
    scale = n(device, e, columns, inner // 128, scale=0.01)
    zero = integers(device, 256, e, columns // 2, inner // 128, dtype=torch.uint8)
    return integers(device, 256, e, columns, inner // 2, dtype=torch.uint8), scale, zero


def _dequantise_int4(b, scale, zero):
    w = torch.stack([b & 15, b >> 4], -1).flatten(-2).double()
    z = torch.stack([zero & 15, zero >> 4], 2).flatten(1, 2).double()
    return (w - z.repeat_interleave(128, -1)) * scale.double().repeat_interleave(128, -1)


_moe("experts", 2048, 8, 4096, 2048, 2, 128, lambda b, *_: b, _moe_plain)
_moe("experts_few_tokens", 64, 64, 1024, 2048, 8, 16, lambda b, *_: b, _moe_plain)
_moe(
    "experts_fp8_blocks",
    2048,
    8,
    4096,
    2048,
    2,
    64,
    None,
    _moe_fp8,
    use_fp8_w8a8=True,
    block_shape=[128, 128],
)
_moe(
    "experts_int8",
    2048,
    8,
    4096,
    2048,
    2,
    64,
    None,
    _moe_int8,
    use_int8_w8a8=True,
    per_channel_quant=True,
)
_moe(
    "experts_int8_weights",
    2048,
    8,
    4096,
    2048,
    2,
    64,
    lambda b, s, _: b * s[..., None],
    _moe_int8,
    use_int8_w8a16=True,
)
_moe(
    "experts_int4_weights",
    1024,
    8,
    4096,
    2048,
    2,
    64,
    _dequantise_int4,
    _moe_int4,
    use_int4_w4a16=True,
    block_shape=[0, 128],
)
_moe(
    "experts_int4_few_tokens",
    32,
    8,
    4096,
    2048,
    2,
    16,
    _dequantise_int4,
    _moe_int4,
    use_int4_w4a16=True,
    block_shape=[0, 128],
)


@case
def batched_experts(device):
    import triton.language as tl  # type: ignore[import-not-found]

    call = layers("fused_moe.fused_batched_moe").invoke_moe_batched_triton_kernel
    x, w = n(device, 16, 256, 2048), n(device, 16, 2048, 2048, scale=0.02)
    counts = torch.full((16,), 256, device=device, dtype=torch.int32)
    config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32}

    def run(x, w):
        out = torch.empty(16, 256, 2048, device=device, dtype=BF16)
        call(x, w, out, counts, tl.bfloat16, None, None, None, False, False, False, config, False)
        return out

    return forward_step(run, x, w, reference=lambda x, w: x @ w.transpose(1, 2))


@case
def count_expert_tokens(device):
    call = layers("fused_moe.utils").count_expert_num_tokens
    ids = integers(device, 64, 4096, 8, dtype=torch.int64)
    return forward_step(
        lambda i: call(i, 64, None),
        ids,
        exactly=True,
        reference=lambda i: torch.bincount(i.flatten(), minlength=64),
    )


@case
def expert_gather(device):
    call = layers("fused_moe.deep_gemm_utils").ep_gather
    x, ids = n(device, 8192, 2048), integers(device, 8, 2048, 4)
    weights, index = torch.rand(2048, 4, device=device), integers(device, 8192, 2048, 4).int()

    def run(x):
        out = torch.empty(2048, 2048, device=device, dtype=BF16)
        call(x, ids, weights, index, None, out)
        return out

    return forward_step(run, x, reference=lambda x: (x[index.long()] * weights[..., None]).sum(1))


# quantised weights and activations ----------------------------------------------------------------
def _awq(device, inner, columns, group=128):
    words = lambda *s: torch.randint(-(1 << 31), 1 << 31, s, device=device).int()  # noqa: E731
    scales = n(device, inner // group, columns, dtype=F16, scale=0.01)
    return words(inner, columns // 8), scales, words(inner // group, columns // 8)


def _unpack_awq(words):
    shifts = torch.tensor([0, 16, 4, 20, 8, 24, 12, 28], device=words.device, dtype=torch.int32)
    return ((words[..., None] >> shifts) & 15).flatten(-2).double()


def _dequantise_awq(w, s, z):
    group = w.shape[0] // s.shape[0]
    z, s = (t.repeat_interleave(group, 0) for t in (_unpack_awq(z), s.double()))
    return (_unpack_awq(w) - z) * s


@case
def awq_dequantise(device):
    call = layers("quantization.awq_triton").awq_dequantize_triton
    w, s, z = _awq(device, 4096, 4096)
    return forward_step(lambda w, s, z: call(w, s, z), w, s, z, reference=_dequantise_awq)


def _awq_gemm(name, rows, split):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        call = layers("quantization.awq_triton").awq_gemm_triton
        w, s, z = _awq(device, 4096, 4096)
        x = n(device, rows, 4096, dtype=F16, scale=0.1)
        return forward_step(
            lambda x, s: call(x, w, s, z, split),
            x,
            s,
            reference=lambda x, s: x @ _dequantise_awq(w, s, z),
        )


_awq_gemm("awq_gemm", 256, 1)
_awq_gemm("awq_gemm_few_rows", 16, 8)


def _scale(name, rows, dtype, columns=4096, inner=4096, bias=False):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        call = layers("quantization.compressed_tensors.triton_scaled_mm").triton_scaled_mm
        if dtype == torch.int8:
            a, w = (integers(device, 120, m, inner, dtype=dtype) for m in (rows, columns))
        else:
            a, w = (n(device, m, inner).to(dtype) for m in (rows, columns))
        s, t = torch.rand(rows, 1, device=device) / 100, torch.rand(columns, 1, device=device) / 100
        b = n(device, columns) if bias else None
        return forward_step(
            lambda s, t: call(a, w.T, s, t, BF16, b),
            s,
            t,
            reference=lambda s, t: a.double() @ w.T.double() * s * t.T + (0 if b is None else b),
        )


_scale("scaled_mm_int8", 4096, torch.int8)
_scale("scaled_mm_fp8_bias", 4096, FP8, bias=True)
_scale("scaled_mm_few_rows", 16, FP8)


def _block_scaled(name, rows, dtype):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        module = "fp8_utils" if dtype == FP8 else "int8_utils"
        module = layers(f"quantization.utils.{module}")
        call = module.w8a8_block_fp8_matmul if dtype == FP8 else module.w8a8_block_int8_matmul
        if dtype == FP8:
            a, w = (n(device, m, 4096).to(FP8) for m in (rows, 4096))
        else:
            a, w = (integers(device, 120, m, 4096, dtype=dtype) for m in (rows, 4096))
        s = torch.rand(rows, 4096 // 128, device=device) / 100
        t = torch.rand(4096 // 128, 4096 // 128, device=device) / 100

        def reference(s, t):
            wide = t.repeat_interleave(a.shape[1] // t.shape[1], 1)
            wide = wide.repeat_interleave(w.shape[0] // t.shape[0], 0)
            return (
                a.double()
                * s.repeat_interleave(a.shape[1] // s.shape[1], 1)
                @ (w.double() * wide).T
            )

        return forward_step(
            lambda s, t: call(a, w, s, t, [128, 128], BF16), s, t, reference=reference
        )


_block_scaled("block_scaled_fp8", 2048, FP8)
_block_scaled("block_scaled_int8", 2048, torch.int8)


@case
def quantise_groups_fp8(device):
    module = layers("quantization.utils.fp8_utils")
    x = n(device, 8192, 4096)

    def run(x):
        out, scale = torch.empty_like(x, dtype=FP8), torch.empty(8192, 4096 // 128, device=device)
        module._per_token_group_quant_fp8[(8192 * (4096 // 128),)](
            x,
            out,
            scale,
            128,
            4096,
            4096,
            1e-10,
            fp8_min=-448.0,
            fp8_max=448.0,
            use_ue8m0=False,
            BLOCK=128,
            num_warps=1,
            num_stages=1,
        )
        return scale

    def reference(x):
        return x.view(len(x), -1, 128).abs().amax(-1) / 448.0

    return forward_step(run, x, reference=reference)


@case
def quantise_rows_int8(device):
    call = layers("quantization.utils.int8_utils").per_token_quant_int8
    return forward_step(
        lambda x: call(x)[1],
        n(device, 8192, 4096),
        reference=lambda x: x.abs().amax(-1, keepdim=True) / 127,
    )


# state-space models and linear attention ----------------------------------------------------------
@case
def convolution(device):
    call = layers("mamba.ops.causal_conv1d").causal_conv1d_fn
    x = n(device, 4096, 4096)  # tokens, channels
    w, b = n(device, 4096, 4), n(device, 4096)
    states = torch.zeros(4, 3, 4096, device=device, dtype=BF16).transpose(1, 2)
    starts, cached = starts_of(device, 4, 1024), torch.arange(4, device=device, dtype=torch.int32)
    fresh = torch.zeros(4, device=device, dtype=torch.bool)
    host = torch.full((4,), 1024, dtype=torch.int32, device="cpu")

    def run(x, w, b):
        return call(x.T, w, b, states, starts, cached, fresh, metadata=_sequences(host, device)).T

    def reference(x, w, b):
        x = x.view(4, 1024, 4096).transpose(1, 2)
        out = F.conv1d(F.pad(x, (3, 0)), w[:, None], b, groups=w.shape[0])
        return F.silu(out).transpose(1, 2).reshape(-1, w.shape[0])

    return forward_step(run, x, w, b, reference=reference)


def _sequences(lengths, device):
    """For each instance, the sequence and the block of the sequence that it computes."""
    blocks = (-(-lengths // 8)).tolist()
    sequence = [i for i, count in enumerate(blocks) for _ in range(count)]
    offset = [j for count in blocks for j in range(count)]
    batch, at = (torch.tensor(v, dtype=torch.int32, device=device) for v in (sequence, offset))
    entry = {
        "tot": len(sequence),
        "mlist": sequence,
        "mlist_len": len(sequence),
        "offsetlist": offset,
        "batch_ptr": batch,
        "token_chunk_offset_ptr": at,
    }
    return SimpleNamespace(
        nums_dict={8: entry}, cu_seqlen=sum(blocks), batch_ptr=batch, token_chunk_offset_ptr=at
    )


@case
def convolution_update(device):
    call = layers("mamba.ops.causal_conv1d").causal_conv1d_update
    x, w, b = n(device, 256, 4096), n(device, 4096, 4), n(device, 4096)
    states = n(device, 256, 3, 4096)

    def run(x, w, b, s):
        return call(x.clone(), s.clone().transpose(1, 2), w, b, "silu")

    def reference(x, w, b, s):
        rows = torch.cat([s, x[:, None]], 1)
        return F.silu((rows * w.T).sum(1) + b)

    return forward_step(run, x, w, b, states, reference=reference)


@case
def state_update(device):
    call = layers("mamba.ops.mamba_ssm").selective_state_update
    batch, heads, dim, state = 128, 64, 64, 128
    s, x = n(device, batch, heads, dim, state), n(device, batch, heads, dim)
    dt = torch.rand(batch, heads, device=device)[..., None].expand(-1, -1, dim)
    a = (-torch.rand(heads, device=device))[:, None, None].expand(-1, dim, state)
    b, c = n(device, batch, 1, state), n(device, batch, 1, state)
    d, bias = (torch.rand(heads, device=device)[:, None].expand(-1, dim) for _ in "db")

    def run(s, x, b, c):
        out = torch.empty_like(x)
        call(s.clone(), x, dt, a, b, c, D=d, dt_bias=bias, dt_softplus=True, out=out)
        return out

    def reference(s, x, b, c):
        t = F.softplus(dt.double() + bias)[..., None]
        s = s * torch.exp(t * a) + t * x[..., None] * b[:, :, None]
        return (s * c[:, :, None]).sum(-1) + d * x

    return forward_step(run, s, x, b, c, reference=reference)


@case
def norm_gated(device):
    call = layers("mamba.ops.layernorm_gated").rms_norm_gated
    x, z, w = n(device, 8192, 4096), n(device, 8192, 4096), n(device, 4096)

    def reference(x, z, w):
        y = x * F.silu(z)
        return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w

    return forward_step(
        lambda x, z, w: call(x, w, None, z=z, eps=1e-6, norm_before_gate=False),
        x,
        z,
        w,
        reference=reference,
    )


@case
def chunk_scan_sequences(device):
    call = layers("mamba.ops.ssd_combined").mamba_chunk_scan_combined_varlen
    length, heads, dim, state, chunk = 4096, 64, 64, 128, 256
    x, dt = n(device, length, heads, dim), torch.rand(length, heads, device=device)
    a, d = -torch.rand(heads, device=device), torch.rand(heads, device=device)
    b, c = (n(device, length, 1, state, scale=0.2) for _ in "bc")
    starts = torch.tensor([0, length], device=device, dtype=torch.int32)
    sequence = torch.zeros(length, device=device, dtype=torch.int32)

    def run(x, b, c):
        out = torch.empty_like(x)
        call(x, dt, a, b, c, chunk, starts, sequence, out, D=d, dt_softplus=True)
        return out

    return forward_step(run, x, b, c)


def _lightning(name, batch, heads, length, dim):
    @lambda make: add(f"vllm/{name}", make)
    def _build(device):
        call = layers("lightning_attn").lightning_attention
        q, k, v = (n(device, batch, heads, length, dim, dtype=F32, scale=0.3) for _ in "qkv")
        slope = torch.rand(heads, device=device)[:, None, None]
        return forward_step(lambda q, k, v: call(q, k, v, slope.clone()), q, k, v)


_lightning("lightning_attention", 2, 32, 2048, 64)
_lightning("lightning_attention_d128", 2, 16, 4096, 128)


@case
def lightning_decode(device):
    call = layers("lightning_attn").linear_decode_forward_triton
    q, k, v = (n(device, 64, 32, 1, 128, scale=0.3) for _ in "qkv")
    state = n(device, 64, 32, 128, 128, dtype=F32)
    slope, slots = torch.rand(32, device=device), torch.arange(64, device=device)

    def run(q, k, v, s):
        return call(q, k, v, s.clone(), slope, slots, 32)

    def reference(q, k, v, s):
        s = k.transpose(-1, -2) * v + torch.exp(-slope.double())[:, None, None] * s
        return (q @ s).flatten(1)

    return forward_step(run, q, k, v, state, reference=reference)


# rotations and sampling ---------------------------------------------------------------------------
@case
def rotation_of_images(device):
    call = layers("rotary_embedding.mrope").triton_mrope
    q, k = n(device, 8192, 32 * 128), n(device, 8192, 8 * 128)
    cos, sin = n(device, 3, 8192, 64), n(device, 3, 8192, 64)

    def run(q, k, cos, sin):
        return call(q.clone(), k.clone(), cos, sin, [16, 24, 24], 128, 128, False)

    def reference(q, k, cos, sin):
        cos, sin = (
            torch.cat([t[i] for i, t in enumerate(x.split([16, 24, 24], -1))], -1)[:, None]
            for x in (cos, sin)
        )
        rotate = lambda a, b: torch.cat([a * cos - b * sin, b * cos + a * sin], -1)  # noqa: E731
        return [rotate(*t.view(t.shape[0], -1, 128).chunk(2, -1)).flatten(1) for t in (q, k)]

    return forward_step(run, q, k, cos, sin, reference=reference)


@case
def rejection_sampling(device):
    module = vllm("v1.sample.rejection_sampler")
    batch, drafts, vocabulary = 64, 4, 32768
    draft = torch.rand(batch * drafts, vocabulary, device=device).softmax(-1)
    target = torch.rand(batch * drafts, vocabulary, device=device).softmax(-1)
    ids, ends = integers(device, vocabulary, batch * drafts), starts_of(device, batch, drafts)[1:]
    noise = torch.rand(batch, vocabulary, device=device) + 0.1
    bonus, uniform = (
        integers(device, vocabulary, batch, 1),
        torch.rand(batch * drafts, device=device),
    )
    warm = torch.zeros(batch, device=device, dtype=torch.bool)

    def run(draft, target):
        recovered = torch.empty_like(ids)
        module.sample_recovered_tokens_kernel[(batch, drafts)](
            recovered, ends, ids, draft, target, noise, vocabulary, vocabulary, NO_DRAFT_PROBS=False
        )
        out = torch.full((batch, drafts + 1), -1, device=device, dtype=torch.int32)
        module.rejection_random_sample_kernel[(batch,)](
            out,
            ends,
            ids,
            draft,
            target,
            bonus,
            recovered,
            uniform,
            warm,
            drafts,
            vocabulary,
            NO_DRAFT_PROBS=False,
            num_warps=1,
        )
        return recovered, out

    return forward_step(run, draft, target)
