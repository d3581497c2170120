"""Packages of attention, scans and image operators: attention with relative positions, with sinks,
of selected blocks, of triangles, of a window with landmarks; decoding from pages; linear
recurrences; denoising, transfer of colours; contrastive losses."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from unittest import mock

import torch  # type: ignore[import-not-found]
from alone import alone
from cases import BF16, F16, F32, case, forward_step, gradient_step, integers, normal, tensor as n
from torch.nn.functional import cross_entropy, logsigmoid, scaled_dot_product_attention

FP8 = torch.float8_e4m3fn


def attention(q, k, v, causal=True, scale=None):
    return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=True)


def _heads(device, *shape, dtype=F16, grad=True, count=3):
    return [normal(device, *shape, dtype=dtype, grad=grad) for _ in range(count)]


def with_nightly(module):
    """A module that accepts only the distribution `triton-nightly`."""
    with mock.patch("importlib.metadata.version", lambda _: "3.6.0"):
        return alone(module)


# accelerated_scan ---------------------------------------------------------------------------------
STEPS = 128 * 16
"""A multiple of the kernel's block in small programs, too: the gradient reads beyond the end of
shorter sequences."""


@case
def accelerated_scan__real(device):
    call = import_module("accelerated_scan.scalar").scan
    a = torch.rand(8, 1536, STEPS, device=device).requires_grad_()
    return gradient_step(call, a, normal(device, 8, 1536, STEPS, dtype=F32), reference=_recurrence)


def _recurrence(a, b):
    x, out = torch.zeros_like(b[..., 0]), []
    for i in range(b.shape[-1]):
        x = a[..., i] * x + b[..., i]
        out.append(x)
    return torch.stack(out, -1)


@case
def accelerated_scan__complex(device):
    call = import_module("accelerated_scan.complex").scan
    phase = torch.rand(4, 512, STEPS, device=device) * 6
    a = torch.polar(torch.rand(4, 512, STEPS, device=device), phase)
    return forward_step(
        lambda a, b: torch.view_as_real(call(a, b)), a, n(device, 4, 512, STEPS, dtype=F32)
    )


# bm3d_triton --------------------------------------------------------------------------------------
@case
def bm3d__denoise(device):
    call = import_module("bm3d_triton._backend").denoise
    return forward_step(lambda x: call(x, 0.01), torch.rand(1, 1, 192, 192, device=device))


# colortransfer_triton -----------------------------------------------------------------------------
def _images(device, count=2):
    return [torch.rand(2, 3, 1024, 1024, device=device) for _ in range(count)]


@case
def colortransfer__moments(device):
    call = import_module("colortransfer_triton.api").adain

    def exact(x, y):
        def moments(t):
            return t.mean((2, 3), keepdim=True), t.std((2, 3), keepdim=True)

        (m, s), (mean, deviation) = moments(x), moments(y)
        return (
            (x - m) / (s * s + 1e-5).sqrt() * (deviation * deviation + 1e-5).sqrt() + mean
        ).clamp(0, 1)

    return forward_step(call, *_images(device), reference=exact)


@case
def colortransfer__wavelets(device):
    call = import_module("colortransfer_triton.api").wavelet
    return forward_step(call, *_images(device))


@case
def colortransfer__table(device):
    call = import_module("colortransfer_triton.ot").apply_lut
    table = torch.rand(1, 33, 33, 33, 3, device=device)
    return forward_step(call, _images(device)[0], table)


@case
def colortransfer__lab(device):
    call = import_module("colortransfer_triton.metrics").srgb_to_lab
    return forward_step(call, _images(device)[0])


@case
def colortransfer__sliced_transport(device):
    call = import_module("colortransfer_triton.ot").sliced_transport
    x, y = (torch.rand(1024, 3, device=device) for _ in range(2))
    return forward_step(lambda x, y: call(x, y, iterations=8), x, y)


@case
def colortransfer__sinkhorn(device):
    call = import_module("colortransfer_triton.ot").sinkhorn_plan
    x, y = (torch.rand(1024, 3, device=device) for _ in range(2))

    def run(x, y):
        plan = call(x, y, iterations=10, mass=0.8)
        return plan.coupling, plan.marginal_error

    return forward_step(run, x, y)


# colsearch ----------------------------------------------------------------------------------------
def _colsearch(module):
    return alone(f"colsearch._internal.kernels.{module}", COLSEARCH)


COLSEARCH = ("colsearch._internal", "colsearch._internal.kernels")


@case
def colsearch__maxsim(device):
    call = _colsearch("triton_maxsim").fast_colbert_scores
    return forward_step(
        call, n(device, 16, 32, 128, dtype=F16), n(device, 2048, 256, 128, dtype=F16),
        reference=lambda q, d: torch.einsum("ash,bth->abst", q, d).amax(-1).sum(-1),
    )  # fmt: skip


@case
def colsearch__maxsim_int8(device):
    call = _colsearch("triton_maxsim").fast_colbert_scores
    return forward_step(
        lambda q, d: call(q, d, use_quantization=True), n(device, 16, 32, 128, dtype=F16),
        n(device, 2048, 256, 128, dtype=F16),
    )  # fmt: skip


@case
def colsearch__maxsim_bits(device):
    module = _colsearch("triton_roq")
    q, d = (integers(device, 256, *s, 16, dtype=torch.uint8) for s in ((16, 32), (2048, 256)))
    return forward_step(module.roq_maxsim_1bit, q, d)


def _add_codes(name, call, width):
    def build(device):
        q, d = (integers(device, 256, *s, width, dtype=torch.uint8) for s in ((8, 32), (1024, 128)))
        of_q, of_d = (torch.rand(*t.shape[:2], 4, device=device) for t in (q, d))
        run = getattr(_colsearch("triton_roq"), call)
        return forward_step(lambda *t: run(*t), q, of_q, d, of_d)

    build.__name__ = f"colsearch__{name}"
    case(build)


_add_codes("maxsim_two_bits", "roq_maxsim_2bit", 32)
_add_codes("maxsim_four_bits", "roq_maxsim_4bit", 64)
_add_codes("maxsim_eight_bits", "roq_maxsim_8bit", 128)


# crossentropy_triton ------------------------------------------------------------------------------
@case
def crossentropy_triton__loss(device):
    call = import_module("crossentropy_triton.crossentropy_tl").CrossEntropyFunction.apply
    logits, labels = n(device, 4096, 32000, dtype=F32), integers(device, 32000, 4096)

    def run(x):
        x = x.clone().requires_grad_()
        with torch.enable_grad():
            loss = call(x, labels)
            return loss, *torch.autograd.grad(loss.mean(), x)

    def exact(x):
        x = x.clone().requires_grad_()
        with torch.enable_grad():
            loss = cross_entropy(x[:-1], labels[1:])  # each row's label is the next one
            return loss, *torch.autograd.grad(loss, x)

    return forward_step(run, logits, reference=exact)


# cuzipnn ------------------------------------------------------------------------------------------
def _planes(name, dtype):
    def build(device):
        module = alone("cuzipnn._kernels")
        x = n(device, 1 << 24, dtype=F32).to(dtype)

        def run(x):
            planes = torch.zeros(x.element_size(), len(x), device=device, dtype=torch.uint8)
            module.split(x, planes, len(x), True)
            size = 1 << 16
            table = torch.arange(0, planes.numel(), size, device=device)
            back = torch.empty_like(x)
            module.merge(table, planes, back, size, True)
            return planes, back

        return forward_step(run, x)

    build.__name__ = f"cuzipnn__{name}"
    case(build)


_planes("planes_bf16", BF16)
_planes("planes_f32", F32)


# disentangled_flash -------------------------------------------------------------------------------
def _add_disentangled(name, dropout):
    def build(device):
        module = import_module("disentangled_flash.training._kernels")
        q, k, v = _heads(device, 4, 12, 1024, 64, dtype=BF16, grad=False)
        keys, queries = _heads(device, 12, 512, 64, dtype=BF16, count=2, grad=False)
        steps = torch.arange(2 * 1024 - 1, device=device, dtype=torch.int32)
        places = steps.clamp(0, 511)
        mask = torch.ones(4, 1024, device=device, dtype=torch.bool)
        seed = torch.full((1,), 7, device=device, dtype=torch.int64)

        def call(q, k, v, keys, queries):
            return module.training_attention(
                q, k, v, keys, queries, places, mask, score_scale=0.07, has_padding=True,
                strict_fp32=False, dropout_p=dropout, dropout_seed=seed if dropout else None,
            )  # fmt: skip

        return forward_step(call, q, k, v, keys, queries)

    build.__name__ = f"disentangled_flash__{name}"
    case(build)


_add_disentangled("attention", 0.0)
_add_disentangled("dropout", 0.1)


# dsalt --------------------------------------------------------------------------------------------
def _window(device):
    tuning = import_module("dsalt.kernels.autotune")
    key, setting = (64, 9, 0), tuning._heuristic_config(64, torch.device("cuda", 0))
    tuning._TUNED_CONFIG[key] = setting  # as it is without tuning, which times all settings
    import_module("dsalt.kernels.dsalt_triton_train")._TRAIN_TUNED[key] = setting
    length, heads, width, landmarks = 2048, 8, 64, 32  # of two sequences
    q, k, v = _heads(device, 2 * length, heads, width, dtype=BF16)
    places = integers(device, length, heads, 2, landmarks, dtype=torch.int32)
    weights = n(device, heads, 2, landmarks, dtype=F32)
    ends = torch.tensor([0, length, 2 * length], device=device, dtype=torch.int32)
    return q, k, v, places, weights, ends


def _window_and_landmarks(q, k, v, places, weights, ends, reach, edge):
    """Attention to the `reach` tokens before each one, and to those of the landmarks that are
    farther away."""
    results = []
    for i, (begin, end) in enumerate(pairwise(ends.tolist())):
        queries, keys, values = (t[begin:end].transpose(0, 1) for t in (q, k, v))
        steps = torch.arange(end - begin, device=q.device)
        chosen, far = places[:, i, None].long(), reach[begin:end, None]
        marks = (torch.arange(len(keys), device=q.device)[:, None], chosen[:, 0])
        near, away = steps[:, None] - steps, steps[:, None] - chosen
        scores = torch.cat([
            (queries @ keys.mT * q.shape[-1] ** -0.5 + edge(far, near)).masked_fill(
                (near < 0) | (near > far), -torch.inf),
            (queries @ keys[marks].mT * q.shape[-1] ** -0.5 + weights[:, i, None]).masked_fill(
                away <= far, -torch.inf),
        ], -1)  # fmt: skip
        results.append((scores.softmax(-1) @ torch.cat([values, values[marks]], 1)).transpose(0, 1))
    return torch.cat(results)


@case
def dsalt__window(device):
    call = alone("dsalt.kernels.dsalt_triton_attn", ("dsalt.kernels",)).dsalt_triton_attention
    *tensors, places, weights, ends = _window(device)
    sizes = torch.full((len(tensors[0]),), 128, device=device, dtype=torch.int32)
    return forward_step(
        lambda *t: call(*t, places, weights, sizes, ends).to(BF16), *tensors,
        reference=lambda *t: _window_and_landmarks(
            *t, places, weights, ends, sizes - 1, lambda *_: 0.0),
    )  # fmt: skip


@case
def dsalt__window_training(device):
    module = alone("dsalt.kernels.dsalt_triton_train", ("dsalt.kernels",))
    *tensors, places, weights, ends = _window(device)
    sizes = torch.full((len(tensors[0]),), 100.0, device=device).requires_grad_()

    def edge(sizes, steps):
        return torch.where(steps <= sizes - 4, 0.0, logsigmoid(sizes - steps))

    return gradient_step(
        lambda *t: module.dsalt_triton_train_attention(*t[:3], places, weights, t[3], ends),
        *tensors, sizes,
        reference=lambda *t: _window_and_landmarks(*t[:3], places, weights, ends, t[3], edge),
    )  # fmt: skip


# ebt_flash_attention ------------------------------------------------------------------------------
def _energy(name, maps):
    """The loss is that of the second half of the tokens, as of an answer to a prompt. The gradients
    of the first tokens are differences of almost equal numbers, which the kernels sum in f16."""

    def build(device):
        call = import_module("ebt_flash_attention.ebt_attention").EBTAttn.fwd
        tensors = [
            normal(device, 2, 16, 2048, 64, dtype=F16, scale=s) for s in (0.25, 1, 1, 0.25, 1, 1)
        ]

        def run(*t):
            out = call(*t, causal=True, USE_TMA=maps, warp_specialize=False)
            return [o[:, :, o.shape[2] // 2 :] for o in out]

        return gradient_step(run, *tensors, reference=_energies)

    build.__name__ = f"ebt_flash_attention__{name}"
    case(build)


def _energies(q, k, v, q_next, k_next, v_next):
    """Attention of tokens, and of predictions, each to the tokens before it and to itself."""
    own = (q_next * k_next).sum(-1, keepdim=True)
    later = torch.ones(q.shape[-2], q.shape[-2], device=q.device, dtype=torch.bool).triu(1)
    scores = (q_next @ k.mT).masked_fill(later, -torch.inf)
    weights = torch.cat([scores, own], -1).mul(q.shape[-1] ** -0.5).softmax(-1)
    out = attention(q, k, v), weights[..., :-1] @ v + weights[..., -1:] * v_next
    return [o[:, :, o.shape[2] // 2 :] for o in out]


_energy("pointers", False)
_energy("descriptors", True)


# fasterkernels ------------------------------------------------------------------------------------
@case
def fasterkernels__attention(device):
    call = import_module("fskernels.triton.triton_fa2").flash_attention_2_fwd
    tensors = _heads(device, 4, 16, 4096, 128, grad=False)
    return forward_step(call, *tensors, reference=lambda q, k, v: attention(q, k, v, False))


def _decode_inputs(device, length=8192):
    q = n(device, 16, 32, 128, dtype=BF16)
    k, v = (n(device, 16, 8, length, 128, dtype=BF16) for _ in range(2))
    return q, k, v, torch.full((16,), length - 40, device=device, dtype=torch.int32)


@case
def fasterkernels__decode(device):
    call = import_module(
        "fskernels.triton.triton_gqa_decode_hf"
    ).flash_decode_gqa_hf_dense_optimized
    q, k, v, lengths = _decode_inputs(device)
    length = k.shape[2] - 40
    return forward_step(
        lambda q, k, v: call(q, k, v, lengths, num_splits=8), q, k, v,
        reference=lambda q, k, v: attention(
            q[:, :, None], k[:, :, :length], v[:, :, :length], False
        )[:, :, 0],
    )  # fmt: skip


@case
def fasterkernels__decode_fp8(device):
    module = import_module("fskernels.triton.triton_gqa_decode_hf_fp8")
    q, k, v, lengths = _decode_inputs(device)
    scale = torch.ones(1, device=device)

    def run(q, k, v):
        return module.flash_decode_gqa_hf_fp8(
            q.to(FP8), k.to(FP8), v.to(FP8), lengths, scale, scale, scale, BF16
        )

    return forward_step(run, q, k, v)


@case
def fasterkernels__decode_varlen(device):
    call = import_module("fskernels.triton.triton_gqa_decode").flash_decode_gqa_varlen
    q, ends = n(device, 16, 32, 128, dtype=BF16), torch.arange(17, device=device) * 2048
    k, v = (n(device, 16 * 2048, 8, 128, dtype=BF16) for _ in range(2))

    def exact(q, k, v):
        k, v = (t.view(16, -1, *t.shape[1:]).transpose(1, 2) for t in (k, v))
        return attention(q[:, :, None], k, v, False)[:, :, 0]

    return forward_step(lambda q, k, v: call(q, k, v, ends.int()), q, k, v, reference=exact)


# flash_attention_softmax_n ------------------------------------------------------------------------
@case
def flash_attention_softmax_n__attention(device):
    path = "flash_attention_softmax_n.core.flash_attn_triton"
    call = alone(path, ("flash_attention_softmax_n.core",)).flash_attention_n_triton
    q, k, v = _heads(device, 4, 16, 2048, 64, grad=False)

    def exact(q, k, v):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), -float("inf"))
        weights = scores.exp()
        return weights / (1 + weights.sum(-1, keepdim=True)) @ v

    return forward_step(lambda q, k, v: call(q, k, v, True, None, 1.0), q, k, v, reference=exact)


# flash_colsum -------------------------------------------------------------------------------------
def _column_means(name, batch, rows, columns, causal):
    def build(device):
        call = import_module("flash_colsum").flash_colsum
        q, k = (n(device, batch, 16, r, 128, dtype=F16) for r in (rows, columns))

        def exact(q, k):
            scores = q @ k.mT * q.shape[-1] ** -0.5
            if causal:
                later = torch.ones_like(scores[0, 0]).triu(k.shape[2] - q.shape[2] + 1).bool()
                scores = scores.masked_fill(later, -float("inf"))
            return scores.softmax(-1).mean((1, 2))

        return forward_step(
            lambda q, k: call(q, k, is_causal=causal), q, k,
            reference=exact,
        )  # fmt: skip

    build.__name__ = f"flash_colsum__{name}"
    case(build)


_column_means("one_sequence", 1, 4096, 4096, False)
_column_means("sequences", 4, 2048, 2048, False)
_column_means("few_queries", 1, 64, 32768, True)


# inf_cl -------------------------------------------------------------------------------------------
@case
def inf_cl__loss(device):
    call = alone("inf_cl.flash").cal_flash_loss
    q, k = (normal(device, 4096, 512, dtype=F32, scale=0.1) for _ in range(2))

    def exact(q, k):
        return cross_entropy(q @ k.T, torch.arange(len(q), device=device), reduction="none")

    return gradient_step(lambda q, k: call(q, k), q, k, reference=exact)


# lightning_attn -----------------------------------------------------------------------------------
@case
def lightning_attn__decay(device):
    call = alone("lightning_attn.ops.triton.lightning_attn2", LIGHTNING).LightningAttention2.apply
    q, k, v = _heads(device, 4, 16, 2048, 128, dtype=BF16)
    slopes = torch.rand(16, 1, 1, device=device) * 0.5
    return gradient_step(lambda q, k, v: call(q, k, v, slopes), q, k, v)


LIGHTNING = ("lightning_attn.ops", "lightning_attn.ops.triton")


@case
def lightning_attn__no_decay(device):
    module = alone("lightning_attn.ops.triton.lightning_attn2_no_decay", LIGHTNING)
    q, k, v = _heads(device, 4, 16, 2048, 64, dtype=F32)
    return gradient_step(
        module.LightningAttention2NoDecay.apply, q, k, v,
        reference=lambda q, k, v: (q @ k.mT).tril() @ v,
    )  # fmt: skip


@case
def lightning_attn__simple_rms_norm(device):
    call = alone("lightning_attn.ops.triton.srmsnorm", LIGHTNING)._SrmsNorm.apply
    return gradient_step(
        lambda x: call(x, 1e-6), normal(device, 8192, 2048, dtype=BF16),
        reference=lambda x: x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt(),
    )  # fmt: skip


# lion_pytorch -------------------------------------------------------------------------------------
@case
def lion_pytorch__step(device):
    call = import_module("lion_pytorch.triton").update_fn
    p, g, m = (n(device, 1 << 24, dtype=F32) for _ in range(3))

    def run(p, g, m):
        p, m = p.clone(), m.clone()
        call(p, g, m, 1e-4, 0.01, 0.9, 0.99)
        return p, m

    def exact(p, g, m):
        update = (m * 0.9 + g * 0.1).sign()
        return p * (1 - 1e-4 * 0.01) - update * 1e-4, m * 0.99 + g * 0.01

    return forward_step(run, p, g, m, reference=exact)


# native_sparse_attention_pytorch ------------------------------------------------------------------
def _add_selection(name, width, dtype, **named):
    def build(device):
        path = "native_sparse_attention_pytorch.triton_native_sparse_attention"
        call = with_nightly(path).native_sparse_attend
        q = normal(device, 2, 8, 1024, 64, dtype=dtype)
        k, v = _heads(device, 2, 2, 1024, 64, dtype=dtype, count=2)
        chosen = integers(device, 1024 // width, 2, 2, 1024, 4)
        first = torch.arange(1024, device=device)[:, None] // width
        valid = chosen < first
        return gradient_step(lambda q, k, v: call(q, k, v, width, chosen, valid, **named), q, k, v)

    build.__name__ = f"native_sparse_attention_pytorch__{name}"
    case(build)


_add_selection("selected", 16, F32)
_add_selection("sliding", 32, F16, return_sliding_window_out=True)


# ring_attention_pytorch ---------------------------------------------------------------------------
def _ring(name, clamp):
    def build(device):
        module = with_nightly("ring_attention_pytorch.triton_flash_attn")

        def run(q, k, v):
            return module.flash_attn_forward(
                q, k, v, causal=True, return_normalized_output=True, load_accumulated=False,
                softclamp_qk_sim=clamp,
            )  # fmt: skip

        return forward_step(run, *_heads(device, 4, 2048, 16, 64, grad=False))

    build.__name__ = f"ring_attention_pytorch__{name}"
    case(build)


_ring("attention", False)
_ring("clamped", True)


# trifast ------------------------------------------------------------------------------------------
@case
def trifast__triangle(device):
    module = import_module("trifast.torch")
    q, k, v, g = _heads(device, 1, 4, 256, 256, 32, dtype=BF16, count=4, grad=False)
    q = q * 0.25
    bias = n(device, 1, 4, 256, 256, dtype=BF16, scale=0.25)
    mask = torch.rand(1, 256, 256, device=device) < 0.1

    def run(q, k, v, bias, g):
        o, lse = module._triangle_attention(q, k, v, bias, mask)
        return o, *module.triangle_attention_bwd(g, q, k, v, bias, o, lse, mask)[:4]

    def exact(q, k, v, bias, g):
        leaves = [t.requires_grad_() for t in (q, k, v, bias)]
        scores = q @ k.mT * q.shape[-1] ** -0.5 + bias[:, :, None]
        o = scores.masked_fill(mask[:, None, :, None], -torch.inf).softmax(-1) @ v
        return o, *torch.autograd.grad(o, leaves, g)

    return forward_step(run, q, k, v, bias, g, reference=exact)
