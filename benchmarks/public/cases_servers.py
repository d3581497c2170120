"""lightllm, flashnn, flashinfer, sageattention, deepseek: attention over caches, quantized matmuls,
norms and rotations of servers of language models."""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, integers, layer_norm_step, rms, tensor

LIGHT = (
    "lightllm.common",
    "lightllm.common.basemodel",
    "lightllm.common.basemodel.triton_kernel",
    "lightllm.models",
    "lightllm.models.llama",
    "lightllm.models.llama.triton_kernel",
    "lightllm.models.bloom",
    "lightllm.models.bloom.triton_kernel",
    "lightllm.models.mistral",
    "lightllm.models.mistral.triton_kernel",
    "lightllm.models.gemma_2b",
    "lightllm.models.gemma_2b.triton_kernel",
    "lightllm.models.chatglm2",
    "lightllm.models.chatglm2.triton_kernel",
    "lightllm.utils",
)
FP8 = torch.float8_e4m3fn


def light(module: str, model="llama"):
    folder = "common.basemodel" if model == "" else f"models.{model}"
    return alone(f"lightllm.{folder}.triton_kernel.{module}", LIGHT)


def flashnn(module: str):
    return alone(f"flashnn.triton_kernels.{module}", ("flashnn.triton_kernels",))


def flashinfer(module: str):
    utilities = ModuleType("flashinfer.utils")  # it loads compiled extensions
    utilities.__dict__.update(
        get_compute_capability=lambda _: (9, 0), GPUArchitectureError=RuntimeError
    )
    sys.modules.setdefault("flashinfer.utils", utilities)
    return alone(f"flashinfer.triton.{module}", ("flashinfer.triton",))


def case(make):
    package, _, name = make.__name__.partition("_")
    add(f"{'lightllm' if package == 'light' else package}/{name}", make)
    return make


n = partial(tensor, dtype=F16)


def starts_of(device, batch, length):
    return torch.arange(batch, device=device, dtype=torch.int32) * length


def _attend(q, k, v, causal=True, window=None):
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        at = torch.arange(q.shape[-2], device=q.device)[:, None] + k.shape[-2] - q.shape[-2]
        column = torch.arange(k.shape[-2], device=q.device)[None]
        hidden = column > at
        hidden = hidden if window is None else hidden | (column <= at - window)
        s = s.masked_fill(hidden, float("-inf"))
    return s.softmax(-1) @ v


# lightllm -----------------------------------------------------------------------------------------
def _prefill(name, heads, kv_heads, dim, prompt=0, window=None, batch=4, length=1024):
    """Register a case of attention of new rows to a cached prompt and to each other."""

    @lambda make: add(f"lightllm/{name}", make)
    def _build(device):
        module = light("context_flashattention_nopad", "mistral" if window else "llama")
        q = n(device, batch * length, heads, dim)
        total = prompt + length
        k, v = (n(device, batch * total, kv_heads, dim) for _ in "kv")
        starts, requests = starts_of(device, batch, length), starts_of(device, batch, 1)
        lengths = torch.full((batch,), total, device=device, dtype=torch.int32)
        cached = torch.full((batch,), prompt, device=device, dtype=torch.int32)
        places = torch.arange(batch * total, device=device, dtype=torch.int32).view(batch, total)

        def run(q, k, v):
            out = torch.empty_like(q)
            if window:
                module.context_attention_fwd(q, k, v, out, starts, lengths, length, window)
            elif prompt:
                module.context_attention_fwd(
                    q, k, v, out, requests, starts, lengths, cached, length, places
                )
            else:
                module.context_attention_fwd_no_prompt_cache(q, k, v, out, starts, lengths, length)
            return out

        def reference(q, k, v):
            q, k, v = (t.view(batch, -1, t.shape[1], dim).transpose(1, 2) for t in (q, k, v))
            return _attend(q, k, v, window=window).transpose(1, 2).reshape(-1, heads, dim)

        return forward_step(run, q, k, v, reference=None if window else reference)


_prefill("prefill", 32, 8, 128)
_prefill("prefill_d64", 32, 32, 64)
_prefill("prefill_prompt", 32, 8, 128, prompt=1024)
_prefill("prefill_window", 32, 8, 128, window=256)


def _decode_inputs(device, batch, length, heads, kv_heads, dim):
    q = n(device, batch, heads, dim)
    k, v = (n(device, batch * length, kv_heads, dim) for _ in "kv")
    places = torch.randperm(batch * length, device=device).to(torch.int32).view(batch, length)
    lengths = torch.full((batch,), length, device=device, dtype=torch.int32)

    def reference(q, k, v):
        k, v = (t[places.long()].transpose(1, 2) for t in (k, v))
        return _attend(q[:, :, None], k, v, causal=False)[:, :, 0]

    return q, k, v, places, starts_of(device, batch, 1), lengths, reference


@case
def light_flash_decoding(device):
    first, second = (
        light(f"flash_decoding_stage{i}").__dict__[f"flash_decode_stage{i}"] for i in (1, 2)
    )
    q, k, v, places, requests, lengths, _ = _decode_inputs(device, 32, 2048, 32, 32, 128)

    def run(q, k, v):
        block = 128
        parts = q.new_empty(*q.shape[:2], places.shape[1] // block, q.shape[2], dtype=F32)
        logs, out = parts.new_empty(parts.shape[:3]), torch.empty_like(q)
        first(q, k, v, places, requests, lengths, places.shape[1], parts, logs, block)
        second(parts, logs, lengths, out, block)
        return out

    return forward_step(run, q, k, v)  # its dot is in f16


@case
def light_flash_decoding_grouped(device):
    first, second = (
        light(f"gqa_flash_decoding_stage{i}").flash_decode_stage1
        if i == 1
        else light(f"gqa_flash_decoding_stage{i}").flash_decode_stage2
        for i in (1, 2)
    )
    q, k, v, places, requests, lengths, reference = _decode_inputs(device, 32, 2048, 32, 4, 128)
    block = 128
    count = places.shape[1] // block
    ids = torch.arange(q.shape[0], device=device, dtype=torch.int32).repeat_interleave(count)
    at = (torch.arange(count, device=device, dtype=torch.int32) * block).repeat(q.shape[0])

    def run(q, k, v):
        parts = q.new_empty(*q.shape[:2], count, q.shape[2], dtype=F32)
        logs, out = parts.new_empty(parts.shape[:3]), torch.empty_like(q)
        first(ids, at, q, k, v, places, requests, lengths, parts, logs, block)
        second(parts, logs, lengths, out, block)
        return out

    return forward_step(run, q, k, v, reference=reference)


@case
def light_decode_grouped(device):
    call = light("gqa_decode_flashattention_nopad").gqa_decode_attention_fwd
    q, k, v, places, requests, lengths, reference = _decode_inputs(device, 128, 1024, 32, 4, 128)

    def run(q, k, v):
        out = torch.empty_like(q)
        call(q, k, v, out, places, requests, lengths)
        return out

    return forward_step(run, q, k, v, reference=reference)


@case
def light_token_attention(device):
    """The scores of one row, and the sum of the values that they weight, in two kernels."""
    scores = light("token_attention_nopad_att1").token_att_fwd
    reduce = light("token_attention_softmax_and_reducev").token_softmax_reducev_fwd
    q, k, v, places, requests, lengths, _ = _decode_inputs(device, 64, 1024, 32, 32, 128)
    starts = starts_of(device, q.shape[0], places.shape[1])

    def run(q, k, v):
        weights, out = q.new_empty(q.shape[1], k.shape[0], dtype=F32), torch.empty_like(q)
        scores(q, k, weights, places, requests, starts, lengths, places.shape[1])
        reduce(weights, v, out, places, requests, starts, lengths, k.shape[0] - 1)
        return out

    return forward_step(run, q, k, v)  # its dot is in f16


@case
def light_token_attention_alibi(device):
    call = light("token_flashattention_nopad", "bloom").token_attention_fwd
    q, k, v, places, requests, lengths, _ = _decode_inputs(device, 64, 1024, 32, 32, 128)
    starts = starts_of(device, q.shape[0], places.shape[1])
    slopes = torch.rand(32, device=device)

    def run(q, k, v):
        out = torch.empty_like(q)
        call(q, k, v, out, slopes, places, requests, starts, lengths, places.shape[1], k.shape[0])
        return out

    return forward_step(run, q, k, v)


@case
def light_split_prefill(device):
    call = light("splitfuse_context_flashattention_nopad").splitfuse_context_attention_fwd
    batch, rows, length, heads, kv_heads, dim = 4, 256, 2048, 32, 8, 128
    q = n(device, batch * rows, heads, dim)
    k, v = (n(device, batch * length, kv_heads, dim) for _ in "kv")
    places = torch.randperm(batch * length, device=device).to(torch.int32).view(batch, length)
    starts, requests = starts_of(device, batch, rows), starts_of(device, batch, 1)
    lengths = torch.full((batch,), length, device=device, dtype=torch.int32)
    ready = lengths - rows

    def run(q, k, v):
        out = torch.empty_like(q)
        call(q, k, v, out, batch, places, requests, starts, ready, lengths, rows)
        return out

    def reference(q, k, v):
        k, v = (t[places.long()].transpose(1, 2) for t in (k, v))
        q = q.view(batch, rows, heads, dim).transpose(1, 2)
        return _attend(q, k, v).transpose(1, 2).reshape(-1, heads, dim)

    return forward_step(run, q, k, v, reference=reference)


@case
def light_rms_norm(device):
    call = light("rmsnorm").rmsnorm_forward
    return forward_step(
        lambda x, w: call(x, w, 1e-6), n(device, 8192, 4096), n(device, 4096), reference=rms
    )


@case
def light_layer_norm(device):
    return layer_norm_step(device, light("layernorm", "bloom").layernorm_forward)


@case
def light_silu_and_mul(device):
    call = light("silu_and_mul").silu_and_mul_fwd

    def run(x):
        x = x.clone()
        call(x)
        return x[:, : x.shape[1] // 2]

    def reference(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return forward_step(run, n(device, 8192, 8192), reference=reference)


@case
def light_rotation(device):
    call = light("rotary_emb").rotary_emb_fwd
    q, k = n(device, 8192, 32, 128), n(device, 8192, 8, 128)
    cos, sin = n(device, 8192, 64), n(device, 8192, 64)

    def run(q, k, cos, sin):
        q, k = q.clone(), k.clone()
        call(q, k, cos, sin)
        return q, k

    def reference(q, k, cos, sin):
        cos, sin = cos[:, None], sin[:, None]
        rotate = lambda a, b: torch.cat([a * cos - b * sin, a * sin + b * cos], -1)  # noqa: E731
        return [rotate(*t.chunk(2, -1)) for t in (q, k)]

    return forward_step(run, q, k, cos, sin, reference=reference)


@case
def light_copy_quantised_cache(device):
    call = light("destindex_copy_kv", "").destindex_copy_quantize_kv
    x, places = n(device, 8192, 8, 128), torch.randperm(8192, device=device).int()

    def run(x):
        out = torch.empty(x.shape, device=device, dtype=torch.int8)
        scale = x.new_empty(*x.shape[:2], 1)
        call(x, places, out, scale)
        return scale

    def reference(x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return torch.empty_like(scale).index_copy(0, places.long(), scale)

    return forward_step(run, x, reference=reference)


@case
def light_copy_cache(device):
    call = light("destindex_copy_kv", "").destindex_copy_kv
    x, places = n(device, 8192, 8, 128), torch.randperm(8192, device=device).int()

    def run(x):
        out = torch.empty_like(x)
        call(x, places, out)
        return out

    def reference(x):
        return torch.empty_like(x).index_copy(0, places.long(), x)

    return forward_step(run, x, reference=reference, exactly=True)


@case
def light_penalties(device):
    call = light("apply_penalty", "").apply_penalty
    logits = n(device, 256, 32768, dtype=F32)
    penalties = [torch.rand(256, device=device) + 0.5 for _ in range(3)]
    ids = torch.arange(256 * 512, device=device, dtype=torch.int32)
    counts = torch.ones(256 * 512, device=device, dtype=torch.int32)

    def run(x):
        x = x.clone()
        call(x, *penalties, ids % x.shape[1], counts, starts_of(device, len(x) + 1, 512), 512)
        return x

    return forward_step(run, logits)


def _int4(device, inner, columns, group=128):
    words = lambda *s: torch.randint(-(1 << 31), 1 << 31, s, device=device).int()  # noqa: E731
    return (
        words(inner // 8, columns),
        n(device, inner // group, columns, scale=0.01),
        words(inner // group, columns // 8),
    )


def _unpack(words, dim):
    shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
    parts = (words.unsqueeze(dim + 1) >> (shifts[:, None] if dim == 0 else shifts)) & 15
    return parts.flatten(dim, dim + 1).double()


def _gptq(name, function, rows, zero):
    """Register a case. `zero` is the value that a stored zero point of zero represents."""

    @lambda make: add(f"lightllm/{name}", make)
    def _build(device):
        call = getattr(light("dequantize_gemm_int4", ""), function)
        w, s, z = _int4(device, 4096, 4096)
        x = n(device, rows, 4096, scale=0.1)
        group = w.shape[0] * 8 // s.shape[0]

        def reference(x, s):
            z_, s_ = (t.repeat_interleave(group, 0) for t in (_unpack(z, 1) + zero, s))
            return x @ ((_unpack(w, 0) - z_) * s_)

        return forward_step(lambda x, s: call(x, w, s, z, group), x, s, reference=reference)


_gptq("gptq_matmul", "matmul_dequantize_int4_gptq", 512, 1)
_gptq("gptq_matmul_few_rows", "matmul_dequantize_int4_gptq", 32, 1)
_gptq("int4_matmul", "matmul_dequantize_int4_s2", 512, 0)
_gptq("int4_matmul_few_rows", "matmul_dequantize_int4_s2", 32, 0)


@case
def light_int8_weights(device):
    call = light("dequantize_gemm_int8", "").matmul_dequantize_int8
    x, w = n(device, 512, 4096, scale=0.1), integers(device, 120, 4096, 4096, dtype=torch.int8)
    s = torch.rand(4096, device=device).half() / 100
    return forward_step(
        lambda x, s: call(x, w, s.reshape(1, -1)), x, s, reference=lambda x, s: x @ (w.double() * s)
    )


@case
def light_int8_matmul(device):
    call = light("quantize_gemm_int8", "").matmul_int8
    a, b = (
        integers(device, 120, 2048, 4096, dtype=torch.int8),
        integers(device, 120, 4096, 4096, dtype=torch.int8),
    )
    s, t = (torch.rand(m, device=device).half() / 100 for m in (a.shape[0], b.shape[0]))

    def run(s, t):
        return call(a, s, b.T, t, out=torch.empty(a.shape[0], b.shape[0], device=device, dtype=F32))

    return forward_step(
        run, s, t, reference=lambda s, t: (a.double() @ b.T.double()) * s[:, None] * t
    )


@case
def light_quantise_rows(device):
    call = light("quantize_gemm_int8", "").quantize_int8_perrow
    return forward_step(
        lambda x: call(x)[1], n(device, 4096, 4096), reference=lambda x: x.abs().amax(1) / 127
    )


# flashnn ------------------------------------------------------------------------------------------
def _weights_only(name, bits, rows, group, zeros=False):
    @lambda make: add(f"flashnn/{name}", make)
    def _build(device):
        module = flashnn(f"gemm_a16w{bits}")
        call = getattr(module, f"triton_gemm_a16w{bits}_forward")
        columns, inner = 4096, 4096
        x = n(device, rows, inner, scale=0.1)
        w = integers(device, 120, columns // (2 if bits == 4 else 1), inner, dtype=torch.int8)
        shape = (columns,) if group is None else (columns, inner // group)
        scale = n(device, *shape, scale=0.01)
        zero = n(device, *shape) if zeros else None

        def run(x, scale):
            out = torch.zeros(rows, columns, device=device, dtype=F16)
            call(out, x, w, scale, None, zero)
            return out

        def reference(x, scale):
            s, z = scale, 0 if zero is None else zero.double()
            if group is None:
                return x @ ((w.double() - (z if zero is None else z[:, None])) * s[:, None]).T
            wide = lambda t: t.repeat_interleave(inner // s.shape[1], 1)  # noqa: E731
            return x @ ((w.double() - (0 if zero is None else wide(z))) * wide(s)).T

        return forward_step(run, x, scale, reference=reference if bits == 8 else None)


_weights_only("int8_weights", 8, 512, None)
_weights_only("int8_weights_few_rows", 8, 16, None)
_weights_only("int4_weights", 4, 512, None)


@case
def flashnn_int8_matmul(device):
    call = flashnn("gemm_a8w8").triton_gemm_a8w8_forward
    a, b = (integers(device, 120, m, 4096, dtype=torch.int8) for m in (2048, 4096))
    s, t = (torch.rand(m, device=device).half() / 100 for m in (a.shape[0], b.shape[0]))

    def run(s, t):
        out = torch.empty(a.shape[0], b.shape[0], device=device, dtype=F16)
        call(out, a, b, s, t)
        return out

    return forward_step(
        run, s, t, reference=lambda s, t: (a.double() @ b.T.double()) * s[:, None] * t
    )


def _flash(name, batch, length, heads, dim, causal):
    @lambda make: add(f"flashnn/{name}", make)
    def _build(device):
        call = flashnn("flash_attn_v2").triton_flash_attention_forward
        q, k, v = (n(device, batch, length, heads, dim) for _ in "qkv")

        def reference(q, k, v):
            return _attend(*(t.transpose(1, 2) for t in (q, k, v)), causal).transpose(1, 2)

        return forward_step(lambda q, k, v: call(q, k, v, causal), q, k, v, reference=reference)


_flash("attention", 2, 2048, 32, 128, False)
_flash("attention_causal", 2, 2048, 32, 64, True)


def _blocks_of_cache(name, batch, length, heads, kv_heads, dim):
    @lambda make: add(f"flashnn/{name}", make)
    def _build(device):
        call = flashnn("paged_attn").paged_attention
        block = 16
        q = n(device, batch, heads, dim)
        k, v = (n(device, batch * length // block, kv_heads, block, dim) for _ in "kv")
        table = torch.randperm(batch * length // block, device=device).int().view(batch, -1)
        lengths = torch.full((batch,), length, device=device, dtype=torch.int32)

        def run(q, k, v):
            out = torch.empty_like(q)
            call(out, q, k, v, lengths, table, dim**-0.5, length, 4)
            return out

        def reference(q, k, v):
            k, v = (
                t[table.long()]
                .transpose(2, 3)
                .reshape(batch, length, kv_heads, dim)
                .transpose(1, 2)
                for t in (k, v)
            )
            return _attend(q[:, :, None], k, v, causal=False)[:, :, 0]

        return forward_step(run, q, k, v, reference=reference)


_blocks_of_cache("paged_attention", 32, 2048, 32, 32, 128)
_blocks_of_cache("paged_attention_grouped", 32, 4096, 32, 4, 128)


@case
def flashnn_layer_norm(device):
    return layer_norm_step(device, flashnn("layer_norm").triton_layer_norm_forward)


@case
def flashnn_rms_norm(device):
    call = flashnn("rms_norm").triton_rmsnorm_forward
    return forward_step(
        lambda x, w: call(x, w, 1e-6), n(device, 8192, 4096), n(device, 4096), reference=rms
    )


@case
def flashnn_layer_norm_quantised(device):
    call = flashnn("layer_norm_dquant").triton_layer_norm_dquant_forward
    return layer_norm_step(device, lambda *t: call(*t)[0])


@case
def flashnn_rms_norm_quantised(device):
    call = flashnn("rms_norm_dquant").triton_rmsnorm_dquant_forward
    return forward_step(
        lambda x, w: call(x, w, 1e-6)[1],
        n(device, 8192, 4096),
        n(device, 4096),
        reference=lambda x, w: rms(x, w).abs().amax(-1) / 127,
    )


@case
def flashnn_quantise(device):
    call = flashnn("dynamic_quant").triton_dynamic_quantize

    def run(x):
        out = torch.empty(x.shape, device=device, dtype=torch.int8)
        scale = torch.empty(x.shape[0], 1, device=device, dtype=F16)
        call(out, x, scale)
        return scale

    return forward_step(run, n(device, 8192, 4096), reference=lambda x: x.abs().amax(1, True) / 127)


@case
def flashnn_rotation(device):
    call = flashnn("rotary_embedding").triton_rotary_embd_forward
    q, k = n(device, 2048, 4, 32, 128), n(device, 2048, 4, 8, 128)
    cos, sin = n(device, 2048, 128), n(device, 2048, 128)
    return forward_step(lambda q, k, c, s: call(q, k, c, s), q, k, cos, sin)


# flashinfer ---------------------------------------------------------------------------------------
@case
def flashinfer_silu_and_mul(device):
    call = flashinfer("activation").silu_and_mul

    def reference(x):
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    return forward_step(lambda x: call(x), n(device, 8192, 16384, dtype=BF16), reference=reference)


@case
def flashinfer_rms_norm(device):
    call = flashinfer("norm").rms_norm

    def run(x, w):
        out = torch.empty_like(x)
        call(x, w, out, 1e-6)
        return out

    return forward_step(
        run, n(device, 8192, 4096, dtype=BF16), n(device, 4096, dtype=BF16), reference=rms
    )


@case
def flashinfer_rms_norm_add(device):
    call = flashinfer("norm").rms_norm_add_residual

    def run(x, r, w):
        x, r = x.clone(), r.clone()
        call(x, r, w, 1e-6)
        return x, r

    x, r, w = (n(device, *s, dtype=BF16) for s in ((8192, 4096), (8192, 4096), (4096,)))
    return forward_step(run, x, r, w, reference=lambda x, r, w: (rms(x + r, w), x + r))


@case
def flashinfer_merge_state(device):
    call = flashinfer("cascade").merge_state
    a, b = (n(device, 8192, 32, 128) for _ in "ab")
    s, t = (n(device, 8192, 32, dtype=F32) for _ in "st")

    def reference(a, s, b, t):
        share = torch.sigmoid((s - t) * 0.6931471805599453)[..., None]
        return a * share + b * (1 - share)

    return forward_step(lambda a, s, b, t: call(a, s, b, t)[0], a, s, b, t, reference=reference)


@case
def flashinfer_merge_states(device):
    call = flashinfer("cascade").merge_states
    v, s = n(device, 2048, 8, 32, 128), n(device, 2048, 8, 32, dtype=F32)

    def reference(v, s):
        return (v * (s * 0.6931471805599453).softmax(1)[..., None]).sum(1)

    return forward_step(lambda v, s: call(v, s)[0], v, s, reference=reference)


def _gemm(name, function, columns_first=False, **named):
    @lambda make: add(f"flashinfer/{name}", make)
    def _build(device):
        call = getattr(flashinfer("sm_constraint_gemm"), function)
        a, b = n(device, 4096, 4096, dtype=BF16), n(device, 4096, 4096, dtype=BF16)

        def run(a, b):
            c = torch.zeros(len(a), len(b), device=device, dtype=BF16)
            return call(a, b if columns_first else b.T, c, **named)

        return forward_step(run, a, b, reference=lambda a, b: a @ b.T)


_gemm("gemm", "gemm")
_gemm("gemm_persistent", "gemm_persistent", num_sms=132)
_gemm("gemm_descriptors", "gemm_descriptor_persistent", columns_first=True, num_sms=132)


@case
def flashinfer_chunk_cumsum(device):
    call = flashinfer("kernels.ssd_chunk_state").chunk_cumsum_fwd
    dt, a = torch.rand(4, 4096, 64, device=device), -torch.rand(64, device=device)

    def reference(dt, a):
        steps = dt.view(4, -1, 128, 64).permute(0, 3, 1, 2)
        return (steps * a[:, None, None]).cumsum(-1), steps

    return forward_step(lambda dt, a: call(dt, a, 128), dt, a, reference=reference)


# sageattention ------------------------------------------------------------------------------------
def sage(module: str):
    return alone(f"sageattention.{module}")


def _sage(name, dim, causal, batch=2, heads=32, kv_heads=32, length=2048):
    @lambda make: add(f"sageattention/{name}", make)
    def _build(device):
        suffix = "_h96" if dim == 96 else ""
        call = sage(f"attn_qk_int8_per_block{suffix}{'_causal' if causal else ''}").forward
        quantise = (
            sage("quant_per_block_hd96").per_block_int8_hd96
            if dim == 96
            else sage("quant_per_block").per_block_int8
        )
        q = n(device, batch, heads, length, dim)
        k, v = (n(device, batch, kv_heads, length, dim) for _ in "kv")

        def run(q, k, v):
            q8, qs, k8, ks = quantise(q, k, sm_scale=dim**-0.5)
            out = call(q8, k8, v, qs, ks, tensor_layout="HND", output_dtype=F16)
            return out[0] if isinstance(out, tuple) else out

        return forward_step(run, q, k, v)  # 8 bits are too few for a reference


_sage("attention_int8", 128, False)
_sage("attention_int8_d64", 64, False)
_sage("attention_int8_causal", 128, True, kv_heads=8)
_sage("attention_int8_d96", 96, False)


# deepseek_v3 --------------------------------------------------------------------------------------
@case
def deepseek_quantise(device):
    call = alone("deepseek_v3.kernel").act_quant
    return forward_step(
        lambda x: call(x, 128)[1],
        n(device, 4096, 8192, dtype=BF16),
        reference=lambda x: x.view(len(x), -1, 128).abs().amax(-1) / 448.0,
    )


@case
def deepseek_dequantise(device):
    call = alone("deepseek_v3.kernel").weight_dequant
    w, s = n(device, 4096, 4096).to(FP8), torch.rand(4096 // 128, 4096 // 128, device=device)

    def reference(s):
        wide = s.repeat_interleave(w.shape[0] // s.shape[0], 0)
        return w.double() * wide.repeat_interleave(w.shape[1] // s.shape[1], 1)

    return forward_step(lambda s: call(w, s), s, reference=reference)


@case
def deepseek_fp8_gemm(device):
    call = alone("deepseek_v3.kernel").fp8_gemm
    a, b = n(device, 2048, 4096).to(FP8), n(device, 4096, 4096).to(FP8)
    s = torch.rand(2048, 4096 // 128, device=device) / 100
    t = torch.rand(4096 // 128, 4096 // 128, device=device) / 100

    def reference(s, t):
        left = a.double() * s.repeat_interleave(a.shape[1] // s.shape[1], 1)
        wide = t.repeat_interleave(b.shape[0] // t.shape[0], 0)
        return left @ (b.double() * wide.repeat_interleave(b.shape[1] // t.shape[1], 1)).T

    return forward_step(lambda s, t: call(a, s, b, t), s, t, reference=reference)
