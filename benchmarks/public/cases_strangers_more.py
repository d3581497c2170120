"""Packages of matmuls, normalization, losses, optimisers, quantisation, sorting along
curves, trees, decoders of codes, random numbers, spiking neurons, images, and quantum circuits."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

from importlib import import_module

import torch  # type: ignore[import-not-imported_function]
import torch.nn.functional as f
from alone import alone
from cases import (
    BF16,
    F16,
    F32,
    add,
    argument,
    case,
    forward_step,
    gradient_step,
    integers,
    normal,
    rms,
    tensor as n,
)

U8, I32 = torch.uint8, torch.int32


def ids(high, *shape, dtype=torch.int64):
    return lambda device: integers(device, high, *shape, dtype=dtype)


def imported_function(place, bare):
    """The function `place`, `MODULE:FUNCTION`. The `__init__` of packages in `bare` is not run."""
    module, _, function = place.partition(":")
    value = alone(module, bare) if "." in module else import_module(module)
    for part in function.split("."):
        value = getattr(value, part)
    return value


def plain(name, place, *inputs, reference=None, exactly=False, bare=(), **named):
    """The case `name` of the function `place`, `MODULE:FUNCTION`, without gradients."""

    def make(device):
        call = imported_function(place, bare)
        tensors = [t(device) if callable(t) else t for t in inputs]
        return forward_step(lambda *t: call(*t, **named), *tensors, reference=reference,
                            exactly=exactly)  # fmt: skip

    add(name, make)


def with_gradients(name, place, *inputs, reference=None, bare=(), **named):
    """The case `name` of `MODULE:FUNCTION` with the gradients of its floating-point inputs."""

    def make(device):
        call = imported_function(place, bare)
        tensors = [t(device) if callable(t) else t for t in inputs]
        tensors = [
            t.requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t
            for t in tensors
        ]
        return gradient_step(lambda *t: call(*t, **named), *tensors, reference=reference)

    add(name, make)


# flash_maxsim -------------------------------------------------------------------------------------
_CLOUDS = argument(16384, 3), argument(16384, 3)


def _nearest(p, q):
    return torch.cdist(p, q).square().amin(1).mean() + torch.cdist(p, q).square().amin(0).mean()


plain("flash_maxsim/chamfer", "flash_maxsim.flash_chamfer:flash_chamfer", *_CLOUDS,
      reference=_nearest)  # fmt: skip
plain("flash_maxsim/chamfer_l1", "flash_maxsim.flash_chamfer:flash_chamfer", *_CLOUDS, metric="l1")


def _greatest_similarities(q, d):
    return torch.einsum("qsh,bth->qbst", q, d).amax(-1).sum(-1)


plain("flash_maxsim/batched", "flash_maxsim.flash_maxsim:flash_maxsim_batched",
      argument(16, 32, 128, dtype=F16), argument(1024, 256, 128, dtype=F16),
      reference=_greatest_similarities)  # fmt: skip
plain("flash_maxsim/persistent", "flash_maxsim.flash_maxsim:flash_maxsim_persistent",
      argument(32, 128, dtype=F16), argument(4096, 256, 128, dtype=F16),
      reference=lambda q, d: _greatest_similarities(q[None], d)[0])  # fmt: skip
plain("flash_maxsim/split", "flash_maxsim.flash_maxsim_advanced:flash_maxsim_splitk",
      argument(512, 128, dtype=F16), argument(16, 2048, 128, dtype=F16),
      reference=lambda q, d: _greatest_similarities(q[None], d)[0])  # fmt: skip
plain(
    "flash_maxsim/contrastive",
    "flash_maxsim.flash_maxsim_contrastive:colbert_contrastive_step",
    argument(64, 32, 128, dtype=F16, scale=0.1),
    argument(64, 256, 128, dtype=F16, scale=0.1),
)


# fa2_custom_mask ----------------------------------------------------------------------------------
@case
def fa2_custom_mask__attention(device):
    call = import_module("fa2_custom_mask.fa2_custom_mask")._attention.apply
    q, k, v = (normal(device, 2, 8, 2048, 64, dtype=F16) for _ in range(3))
    mask = (torch.rand(2, 8, 2048, 2048, device=device) < 0.9).to(I32)

    def exact(q, k, v):
        return f.scaled_dot_product_attention(q, k, v, attn_mask=mask.bool(), scale=0.125)

    return gradient_step(lambda q, k, v: call(q, k, v, mask, 0.125), q, k, v, reference=exact)


# fused_turboquant ---------------------------------------------------------------------------------
def _rotate(x, signs):
    """Rows with other signs, times the Hadamard matrix of Sylvester, which is its own inverse."""
    rotation = torch.ones(1, 1, device=x.device, dtype=x.dtype)
    while len(rotation) < x.shape[-1]:
        rotation = torch.cat(
            [torch.cat([rotation, rotation], 1), torch.cat([rotation, -rotation], 1)]
        )
    return x * signs @ rotation / len(rotation) ** 0.5


@case
def fused_turboquant__encode(device):
    """The rotated rows hold 16 values eight times each, in a random order. The edges are between
    these values, so that no rounding error changes a code."""
    module = alone("fused_turboquant.kernels.triton_encode", ("fused_turboquant.kernels",))
    signs = torch.randint(2, (128,), device=device).float() * 2 - 1
    values = torch.linspace(-3, 3, 16, device=device).repeat(8)
    orders = torch.rand(32768, 128, device=device).argsort(1)
    edges = (torch.arange(17, device=device) - 8) * 0.4 / values.norm()

    def exact(x):
        turned = _rotate(x, signs.double())
        norms = turned.norm(dim=-1)
        codes = torch.bucketize(turned / norms[:, None], edges.double()) - 1
        return (codes[:, 1::2] * 16 + codes[:, ::2]).to(U8), norms

    return forward_step(
        lambda x: module.triton_fused_encode(x, signs, edges, 4),
        _rotate(values[orders], torch.ones_like(signs)) * signs, reference=exact,
    )  # fmt: skip


@case
def fused_turboquant__rotate(device):
    module = alone("fused_turboquant.kernels.triton_rht", ("fused_turboquant.kernels",))
    signs = torch.randint(2, (128,), device=device).float() * 2 - 1
    return forward_step(
        lambda x: module.triton_rht(x, signs), n(device, 65536, 128, dtype=F32),
        reference=lambda x: _rotate(x, signs.double()),
    )  # fmt: skip


@case
def fused_turboquant__scores(device):
    module = alone("fused_turboquant.kernels.triton_attention", ("fused_turboquant.kernels",))
    codes = integers(device, 256, 1, 8, 8192, 64, dtype=U8)
    norms, centres = torch.rand(1, 8, 8192, device=device), n(device, 16, dtype=F32)
    return forward_step(
        lambda q: module.fused_qk_scores_rht(q, codes, norms, centres, 0.088, 4),
        n(device, 1, 32, 1, 128, dtype=F32),
    )


# grouped_mm_bf16 ----------------------------------------------------------------------------------
@case
def grouped_mm_bf16__rows(device):
    call = import_module("grouped_mm_bf16.api").grouped_mm
    x, w = normal(device, 8192, 2048), normal(device, 8, 2048, 1024)
    ends = torch.arange(1, 9, device=device, dtype=I32) * (8192 // 8)
    return gradient_step(
        lambda x, w: call(x, w, offs=ends), x, w,
        reference=lambda x, w: (x.view(8, -1, x.shape[1]) @ w).flatten(0, 1),
    )  # fmt: skip


@case
def grouped_mm_bf16__batches(device):
    call = import_module("grouped_mm_bf16.api").grouped_mm
    return gradient_step(
        call, normal(device, 16, 1024, 512), normal(device, 16, 512, 1024), reference=torch.matmul
    )


# hilbertsfc ---------------------------------------------------------------------------------------
def _curve(name, module, function, *inputs, bits):
    plain(f"hilbertsfc/{name}", f"hilbertsfc.torch.{module}:{function}", *inputs, nbits=bits)


_XY = [ids(1 << 16, 1 << 22, dtype=I32)] * 2
_curve("encode", "hilbert2d", "hilbert_encode_2d", *_XY, bits=16)
_curve("decode", "hilbert2d", "hilbert_decode_2d", ids(1 << 30, 1 << 22), bits=16)
_curve("encode_3d", "hilbert3d", "hilbert_encode_3d", *[ids(1024, 1 << 21, dtype=I32)] * 3, bits=10)
_curve("morton", "morton2d", "morton_encode_2d", *_XY, bits=16)


# ibu_boost ----------------------------------------------------------------------------------------
@case
def ibu_boost__histogram(device):
    module = import_module("ibu_boost.kernels.screening_split_triton")
    bins = integers(device, 255, 65536, 32, dtype=I32)
    nodes = integers(device, 8, 65536, dtype=I32)

    def run(g, h):
        return module.build_histogram_triton(bins, g, h, nodes, 8, 255)

    return forward_step(run, n(device, 65536, dtype=F32), torch.rand(65536, device=device))


# lanczos_triton -----------------------------------------------------------------------------------
plain("lanczos_triton/shrink", "lanczos_triton.resize:resize",
      lambda d: torch.rand(4, 3, 2160, 3840, device=d), (1080, 1920))  # fmt: skip
plain(
    "lanczos_triton/enlarge",
    "lanczos_triton.resize:resize",
    lambda d: torch.rand(4, 3, 512, 512, device=d),
    (1024, 1024),
)


# local_corr, localcorr ----------------------------------------------------------------------------
@case
def local_corr__bilinear(device):
    call = import_module("local_corr.kernel").local_corr
    warp = torch.rand(1, 4096, 25, 2, device=device) * 2 - 1
    return forward_step(
        lambda a, b: call(a, b, warp), n(device, 1, 4096, 256, dtype=F32),
        n(device, 1, 64, 64, 256, dtype=F32),
    )  # fmt: skip


with_gradients("localcorr/patches",
        "localcorr.triton.spatial_corr:TritonSpatialCorrelationFunction.apply",
        argument(2, 64, 96, 128), argument(2, 64, 96, 128), 4)  # fmt: skip


# aqlm ---------------------------------------------------------------------------------------------
@case
def aqlm__matmul(device):
    module = alone("aqlm.inference_kernels.triton_kernel", ("aqlm.inference_kernels",))
    codes = integers(device, 256, 4096, 4096 // 8, 2, dtype=torch.int16)
    books = n(device, 2, 256, 1, 8, dtype=F16)
    scales = n(device, 4096, 1, 1, 1, dtype=F16)
    return forward_step(
        lambda x: module.triton_matmul(x, codes, books, scales, None), n(device, 1, 4096, dtype=F16)
    )


# awq, auto_round ----------------------------------------------------------------------------------
@case
def awq__matmul(device):
    module = alone("awq.modules.triton.gemm", ("awq.modules", "awq.modules.triton"))
    words = integers(device, 1 << 30, 4096, 4096 // 8, dtype=I32)
    zeros = integers(device, 1 << 30, 4096 // 128, 4096 // 8, dtype=I32)
    scales = torch.rand(4096 // 128, 4096, device=device).to(F16)
    return forward_step(
        lambda x: module.awq_gemm_triton(x, words, scales, zeros, 8), n(device, 16, 4096, dtype=F16)
    )


@case
def awq__dequantise(device):
    module = alone("awq.modules.triton.gemm", ("awq.modules", "awq.modules.triton"))
    words = integers(device, 1 << 30, 4096, 4096 // 8, dtype=I32)
    zeros = integers(device, 1 << 30, 4096 // 128, 4096 // 8, dtype=I32)
    scales = torch.rand(4096 // 128, 4096, device=device).to(F16)
    return forward_step(lambda w: module.awq_dequantize_triton(w, scales, zeros), words)


# gru_qat ------------------------------------------------------------------------------------------
def _gru(name, call):
    def make(device):
        module = import_module("gru_qat.triton_kernels.scan")
        gates, h = normal(device, 128, 64, 768, dtype=F32), normal(device, 64, 256, dtype=F32)
        w, b = normal(device, 768, 256, dtype=F32, scale=0.05), normal(device, 768, dtype=F32)
        return gradient_step(getattr(module, call), gates, h, w, b, h_in_quant=None)

    add(f"gru_qat/{name}", make)


_gru("persistent", "gru_scan_persistent")


# megatron.core ------------------------------------------------------------------------------------
MEGATRON = ("megatron.core", "megatron.core.fusions")


def _megatron(module):
    absent = ("megatron.core.utils", "megatron.core.transformer")
    alone("megatron.core.jit", MEGATRON, absent).disable_jit_fuser()
    return alone(f"megatron.core.fusions.{module}", MEGATRON, absent)


@case
def megatron__pad_routes(device):
    call = _megatron("fused_pad_routing_map").fused_pad_routing_map
    routes = (torch.rand(16384, 64, device=device) < 0.1).int()
    return forward_step(lambda r: call(r, 16), routes)


@case
def megatron__multihot(device):
    call = _megatron("fused_indices_converter").IndicesToMultihot.apply
    chosen = torch.rand(16384, 64, device=device).topk(8).indices  # distinct
    return gradient_step(lambda p: call(chosen, p, 64), normal(device, 16384, 8, dtype=F32))


@case
def megatron__rotary_of_queries(device):
    call = _megatron("fused_mla_yarn_rope_apply").ApplyMLARotaryEmbQ.apply
    angles = torch.rand(2048, 1, 1, 64, device=device)
    q = normal(device, 2048, 2, 16, 192)
    return gradient_step(lambda q: call(q * 1, angles.cos(), angles.sin(), 128, 64, None, 0, 1), q)


# omnivoice_triton, qwen3_tts_triton ---------------------------------------------------------------
_OMNI = "omnivoice_triton.kernels"
plain("omnivoice_triton/rms_norm", f"{_OMNI}.rms_norm:triton_rms_norm",
      argument(8192, 2048, dtype=BF16), argument(2048, dtype=BF16), bare=(_OMNI,),
      reference=lambda x, w: rms(x, w))  # fmt: skip
plain("omnivoice_triton/add_rms_norm", f"{_OMNI}.fused_norm_residual:triton_fused_add_rms_norm",
      argument(8192, 1024, dtype=BF16), argument(8192, 1024, dtype=BF16),
      argument(1024, dtype=BF16), bare=(_OMNI,),
      reference=lambda x, r, w: (rms(x + r, w), x + r))  # fmt: skip
plain("omnivoice_triton/swiglu", f"{_OMNI}.swiglu:triton_swiglu_forward",
      argument(8192, 3072, dtype=BF16), argument(8192, 3072, dtype=BF16), bare=(_OMNI,),
      reference=lambda a, b: f.silu(a) * b)  # fmt: skip


@case
def qwen3_tts_triton__rotary(device):
    path = "qwen3_tts_triton.kernels.rope"
    call = alone(path, ("qwen3_tts_triton.kernels",)).triton_mrope_forward
    angles = torch.rand(3, 2, 2048, 128, device=device)
    return forward_step(
        lambda q, k: call(q, k, angles.cos(), angles.sin(), [24, 20, 20]),
        n(device, 2, 16, 2048, 128), n(device, 2, 8, 2048, 128),
    )  # fmt: skip


@case
def qwen3_tts_triton__quantise(device):
    path = "qwen3_tts_triton.kernels.fused_dequant"
    module = alone(path, ("qwen3_tts_triton.kernels",))
    rotation = n(device, 8, 128, 128, dtype=F32, scale=0.09)
    edges, codes = (
        torch.linspace(-2, 2, 15, device=device),
        torch.linspace(-2, 2, 16, device=device),
    )

    def run(x):
        packed, scales = module.triton_fused_quant(x, rotation, edges, 4)
        return packed, module.triton_fused_dequant(packed, scales, rotation, codes, 128, 4)

    return forward_step(run, n(device, 2, 8, 4096, 128))


# parallax -----------------------------------------------------------------------------------------
_PARALLAX = [argument(4, 2048, 8, 64, dtype=BF16)] * 4
with_gradients("parallax/attention", "parallax.triton.parallax_train:parallax_func", *_PARALLAX,
        bare=("parallax.triton",))  # fmt: skip
with_gradients("parallax/window", "parallax.triton.parallax_train:parallax_func", *_PARALLAX,
        bare=("parallax.triton",), window_size_left=512)  # fmt: skip


# ply ----------------------------------------------------------------------------------------------
def _module(name, place, *inputs, arguments=(), dtype=F32, bare=()):
    """A module made with `arguments`, with parameters of `dtype`."""

    def make(device):
        path, _, kind = place.partition(":")
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                module = getattr(alone(path, bare), kind)(*arguments)
        finally:
            torch.set_default_dtype(before)
        return forward_step(lambda *t: module(*t), *(t(device) for t in inputs))

    add(name, make)


_module("ply/rms_norm", "ply.rmsnorm:PlyRMSNorm", argument(8192, 2048, dtype=F16),
        arguments=(2048,), dtype=F16)  # fmt: skip
_module("ply/ternary", "ply.bitnet:PlyBitLinear", argument(512, 4096, dtype=F16),
        arguments=(4096, 4096))  # fmt: skip
_module("ply/four_bits", "ply.fp4_experimental:PlyFP4Linear", argument(512, 4096, dtype=F16),
        arguments=(4096, 4096))  # fmt: skip
_module("ply/attention", "ply.flash_attn:PlyFlashAttention",
        *[argument(4, 16, 2048, 64, dtype=F16)] * 3)  # fmt: skip
_module("ply/pool", "ply.vision.pool:PlyMaxPool2d", argument(32, 64, 112, 112),
        arguments=(3, 2), bare=("ply.vision",))  # fmt: skip
_module("ply/linear", "ply.linear:Linear", argument(2048, 1024, dtype=F16),
        arguments=(1024, 4096), dtype=F16)  # fmt: skip
_module("ply/rotary", "ply.rope:PlyRoPE", *[argument(4, 16, 2048, 128, dtype=F16)] * 2,
        arguments=(128,))  # fmt: skip


# siglip_kernel ------------------------------------------------------------------------------------
def _siglip(name, place, **named):
    def make(device):
        module, _, function = place.partition(":")
        call = getattr(alone(f"siglip_kernel.{module}"), function)
        x, noise = (n(device, 4096, 768, dtype=F32) for _ in range(2))
        a, b = (
            f.normalize(t).to(BF16) for t in (x, x + noise)
        )  # pairs are alike, as with_gradients ones
        t, s = (torch.full((), v, device=device).requires_grad_() for v in (2.3, -10.0))

        def exact(a, b, t, s):
            signs = 2 * torch.eye(len(a), device=a.device, dtype=a.dtype) - 1
            return -f.logsigmoid(signs * (a @ b.T * t.exp() + s)).sum() / len(a)

        return gradient_step(
            lambda a, b, t, s: call(a, b, t, s, **named), a.requires_grad_(), b.requires_grad_(),
            t, s, reference=exact,
        )  # fmt: skip

    add(f"siglip_kernel/{name}", make)


_siglip("fused", "fused_siglip_kernel:fully_fused_siglip_loss", autotune=False)
_siglip("fused_v2", "fused_siglip_v2:fused_siglip_v2_loss")
_siglip("hopper", "hopper_kernel:hopper_fused_siglip_loss")
_siglip("chunks", "fused_chunked_epilogue:fused_chunked_epilogue_siglip_loss")
_siglip("chunks_bf16", "fused_chunked_bf16:fused_chunked_bf16_siglip_loss")


# saga, tether -------------------------------------------------------------------------------------
with_gradients("saga/gate", "saga.activation:SAGAFusedFunction.apply",
        *[argument(16, 64, 112, 112)] * 3, 1.0)  # fmt: skip
plain(
    "tether/encode",
    "tether.kernels.encoding:rate_encoding_triton",
    lambda d: torch.rand(64, 4096, device=d),
    n_steps=16,
    bare=("tether.kernels",),
)
plain(
    "tether/attention",
    "tether.kernels.attention:causal_linear_attention_fused",
    *[argument(4, 2, 8, 512, 64, scale=0.1)] * 3,
    bare=("tether.kernels",),
)
plain(
    "tether/spikes",
    "tether.kernels.linear_lif:linear_lif_fwd",
    argument(32, 256, 512),
    argument(512, 512, scale=0.05),
    bare=("tether.kernels",),
)


# triformer ----------------------------------------------------------------------------------------
def _rows(name, place, parameters, epsilon, exact):
    """A normalization whose backward pass computes the gradients of the rows alone."""

    def make(device):
        module, _, kind = place.partition(":")
        call = getattr(alone(module), kind).apply
        rest = [n(device, 2048, dtype=F32) for _ in range(parameters)]
        return gradient_step(
            lambda x: call(x, *rest, epsilon), normal(device, 8192, 2048, dtype=F32),
            reference=lambda x: exact(x, *(t.double() for t in rest)),
        )  # fmt: skip

    add(f"triformer/{name}", make)


_rows("layer_norm", "triformer.layernorm:Fast_Layernorm", 2, 1e-5,
      lambda x, w, b: f.layer_norm(x, w.shape, w, b))  # fmt: skip
_rows("rms_norm", "triformer.rms_norm:FastRMSNorm", 1, 1e-6, rms)
with_gradients("triformer/softmax", "triformer.softmax:SoftmaxFunction.apply",
        argument(8, 16, 512, 512), True)  # fmt: skip
with_gradients("triformer/swiglu", "triformer.swiglu:FastSwigluFunction.apply",
        argument(4, 2048, 4096), argument(4, 2048, 4096),
        reference=lambda e, g: f.silu(e) * g)  # fmt: skip


@case
def triformer__loss(device):
    module = import_module("triformer.cross_entropy")
    call = module.TritonCrossEntropyLoss(-100, "mean", 1)
    x, labels = n(device, 2048, 32000, dtype=F32), integers(device, 32000, 2048)

    def run(x):
        x = x.clone().requires_grad_()
        with torch.enable_grad():
            loss = call(x, labels)
            return loss, *torch.autograd.grad(loss, x)

    return forward_step(run, x)


# triton_csprng ------------------------------------------------------------------------------------
@case
def triton_csprng__chacha(device):
    module = import_module("triton_csprng.chacha20")
    state = module.make_chacha20_state(
        num_blocks=1 << 18, key=list(range(8)), nonce=[1, 2], device=device
    )
    return forward_step(module.chacha20_blocks, state)


# triton_muon_adamw --------------------------------------------------------------------------------
@case
def triton_muon_adamw__adam(device):
    call = import_module("triton_muon_adamw.adamw.triton_adam").solve_adamw_step
    p, g, m, v = (torch.rand(4096, 4096, device=device) for _ in range(4))

    def run(p, g, m, v):
        p, m, v = p.clone(), m.clone(), v.clone()
        call(p, g, m, v, 1e-3, 0.5, 0.5, 0.9, 0.999, 0.01, 1e-7)
        return p, m, v

    return forward_step(run, p, g, m, v)


@case
def triton_muon_adamw__newton_schulz(device):
    call = import_module("triton_muon_adamw.muon.triton_muon").newton_shultz_step
    return forward_step(
        lambda x: call(x, 3.445, -4.775, 2.0315, torch.empty_like(x)),
        n(device, 2048, 2048, dtype=F32, scale=0.01),
    )


# comfy_kitchen ------------------------------------------------------------------------------------
KITCHEN = ("comfy_kitchen.backends", "comfy_kitchen.backends.triton")


def _kitchen(name, place, *inputs, **named):
    plain(f"comfy_kitchen/{name}", f"comfy_kitchen.backends.triton.{place}", *inputs, bare=KITCHEN,
          **named)  # fmt: skip


_kitchen("adaptive_norm", "adaln:adaln", argument(2, 4096, 3072, dtype=BF16),
         argument(2, 1, 3072, dtype=BF16), argument(2, 1, 3072, dtype=BF16))  # fmt: skip
_kitchen("neighbourhoods", "na:na3d", *[argument(1, 8, 32, 32, 4, 64, dtype=F16)] * 3,
         kernel_size=[3, 7, 7])  # fmt: skip
_kitchen("quantise_fp8", "quantization:quantize_per_tensor_fp8",
         argument(4096, 4096, dtype=BF16), lambda d: torch.ones(1, device=d))  # fmt: skip
_kitchen("quantise_mxfp8", "quantization:quantize_mxfp8", argument(4096, 4096, dtype=BF16))
_kitchen(
    "int8_linear",
    "quantization:int8_linear",
    argument(4096, 3072, dtype=BF16),
    ids(127, 3072, 3072, dtype=torch.int8),
    lambda d: torch.rand(3072, 1, device=d),
)
_kitchen("rotary", "rope:apply_rope", *[argument(1, 24, 4096, 128, dtype=BF16)] * 2,
         argument(1, 1, 4096, 64, 2, 2))  # fmt: skip


# h3_sparse_attn, turboquant_vllm ------------------------------------------------------------------
plain("h3_sparse_attn/attention", "h3_sparse_attn.triton_attn:sparse_attention",
      *[argument(1, 4096, 8, 128, dtype=BF16)] * 3, top_k=8)  # fmt: skip
plain("turboquant_vllm/attention", "turboquant_vllm.triton.flash_attention:triton_flash_attention",
      argument(2, 32, 2048, 128, dtype=F16), *[argument(2, 8, 2048, 128, dtype=F16)] * 2,
      bare=("turboquant_vllm.triton",), is_causal=True,
      reference=lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                              enable_gqa=True))  # fmt: skip


@case
def turboquant_vllm__attention_of_codes(device):
    path = "turboquant_vllm.triton.flash_attention_tq4_kv"
    call = alone(path, ("turboquant_vllm.triton",)).triton_flash_attention_tq4_kv
    codes = [integers(device, 256, 1, 8, 2048, 64, dtype=U8) for _ in range(2)]
    norms = [torch.rand(1, 8, 2048, 1, device=device) for _ in range(2)]
    centres, rotation = (
        n(device, 16, dtype=F32, scale=0.1),
        n(device, 128, 128, dtype=F32, scale=0.09),
    )
    return forward_step(
        lambda q: call(
            q, codes[0], norms[0], codes[1], norms[1], centres, rotation, is_causal=True
        ),
        n(device, 1, 32, 2048, 128, dtype=F16),
    )


# triton_qml ---------------------------------------------------------------------------------------
@case
def triton_qml__rotations(device):
    module = import_module("triton_qml.fusion_gate_1q_triton_kernel")
    call = module.functional_apply_n_1q_pauli_rotation_gate_sequence_triton
    state = torch.view_as_complex(n(device, 8, 1 << 18, 2, dtype=F32))
    angles = [torch.rand(8, device=device) for _ in range(3)]
    return forward_step(lambda s: torch.view_as_real(call(s, angles, [0, 1, 2], 18, 5)), state)


# triton_submodular --------------------------------------------------------------------------------
@case
def triton_submodular__facilities(device):
    module = import_module("triton_submodular.functions.facility_location")
    return forward_step(
        lambda x: module.FacilityLocation(x).maximize(8, "NaiveGreedyTriton"),
        n(device, 2048, 64, dtype=F32),
    )


# vsa ----------------------------------------------------------------------------------------------
@case
def vsa__blocks(device):
    module = alone("vsa.block_sparse_attn_triton", absent=("pytest",))
    q, k, v = (n(device, 1, 8, 8192, 128) for _ in range(3))
    blocks = 8192 // 64
    chosen = integers(device, blocks, 1, 8, blocks, 16, dtype=I32)
    counts = torch.full((1, 8, blocks), 16, device=device, dtype=I32)
    sizes = torch.full((blocks,), 64, device=device, dtype=I32)
    call = module.triton_block_sparse_attn_forward
    return forward_step(lambda q, k, v: call(q, k, v, chosen, counts, sizes), q, k, v)


# optimi, flashoptim -------------------------------------------------------------------------------
def _optimiser(name, package, kind, dtype=BF16, **named):
    def make(device):
        make = getattr(import_module(package), kind)
        p = torch.nn.Parameter(n(device, 4096, 4096, dtype=dtype))
        g = n(device, 4096, 4096, dtype=dtype)
        optimiser = make([p], lr=1e-3, **named)

        def run(g):
            p.grad = g
            optimiser.step()
            return p.detach()

        return forward_step(run, g)

    add(f"{package}/{name}", make)


for _kind in ("Adam", "Adan", "Lion", "RAdam", "StableAdamW"):
    _optimiser(_kind.lower(), "optimi", _kind, triton=True)
_optimiser("ranger", "optimi", "Ranger", F32, triton=True)
_optimiser("sgd", "optimi", "SGD", momentum=0.9, triton=True)
_optimiser("adamw", "flashoptim", "FlashAdamW")
_optimiser("lion", "flashoptim", "FlashLion")
_optimiser("sgd", "flashoptim", "FlashSGD", momentum=0.9)
