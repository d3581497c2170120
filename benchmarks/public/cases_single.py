"""Packages with one subject each: sparse and sigmoid attention, optimal transport, k-means, late
interaction, contrastive losses, grouped matmuls, norms, gates and points."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

import math
from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import (
    BF16,
    F16,
    F32,
    add,
    case,
    forward_step,
    gradient_step,
    integers,
    normal,
    tensor as n,
)


def attention(q, k, v, causal=True, scale=None):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


# adasplash: attention by alpha-entmax -------------------------------------------------------------
def entmax(x, power):
    """Powers of the amounts by which elements exceed a threshold, with the threshold at which the
    powers sum to 1: entmax with alpha 1.5 for power 2, sparsemax for power 1."""
    x = x / power
    with torch.no_grad():
        high = x.amax(-1, keepdim=True)
        low = high - 1
        for _ in range(60):
            middle = (low + high) / 2
            above = F.relu(x - middle).pow(power).sum(-1, keepdim=True) > 1
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        slope = power * (F.relu(x - low).pow(power - 1) * (x > low)).sum(-1, keepdim=True)
    step = (F.relu(x - low).pow(power).sum(-1, keepdim=True) - 1) / slope  # for its gradient
    return F.relu(x - low - step).pow(power)


@case
def adasplash__entmax(device):
    call = import_module("adasplash").triton_entmax
    return gradient_step(lambda x: call(x, 1.5), normal(device, 2048, 8192, dtype=F32),
                         reference=lambda x: entmax(x, 2))  # fmt: skip


@case
def adasplash__sparsemax(device):
    call = import_module("adasplash").triton_sparsemax
    return gradient_step(call, normal(device, 2048, 4096, dtype=F32),
                         reference=lambda x: entmax(x, 1))  # fmt: skip


def _entmax_attention(name, function, **named):
    @lambda make: add(f"adasplash/{name}", make)
    def _build(device):
        call = getattr(import_module("adasplash"), function)
        q, k, v = (normal(device, 2, 16, 2048, 64) for _ in range(3))

        def reference(q, k, v):
            s = q @ k.transpose(-1, -2) / 8
            later = torch.ones(s.shape[-2:], device=device, dtype=torch.bool).triu(1)
            return entmax(s.masked_fill(later, float("-inf")), 2) @ v

        return gradient_step(lambda q, k, v: call(q, k, v, **named), q, k, v, reference=reference)


_entmax_attention("attention", "adasplash", alpha=1.5, is_causal=True)
_entmax_attention("attention_v1", "adasplash_no_block_mask", alpha=1.5, is_causal=True)
_entmax_attention("attention_v2", "adasplash2")

# sigmoid attention, attention with tangents, and attention of another author --------------------


@case
def triton_sigmoid__attention(device):
    module = import_module("triton_sigmoid")
    q, k, v = (normal(device, 2, 2048, 16, 64, dtype=F16) for _ in range(3))

    def reference(q, k, v):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / 8 - math.log(k.shape[-2])
        return (scores.sigmoid() @ v).transpose(1, 2)

    return gradient_step(module.sigmoid_attention, q, k, v, reference=reference)


@case
def triton_sigmoid__attention_padded(device):
    module = import_module("triton_sigmoid")
    q, k, v = (n(device, 4, 2048, 16, 64, dtype=F16) for _ in range(3))
    lengths = torch.full((4,), 2048, device=device, dtype=torch.int32)
    return forward_step(lambda q, k, v: module.sigmoid_attention_padded(q, k, v, lengths), q, k, v)


@case
def flash_attention_triton__attention(device):
    call = import_module("flash_attention_triton").flash_attention_v2
    q, k, v = (normal(device, 2, 2048, 16, 64, dtype=F16) for _ in range(3))

    def reference(q, k, v):
        return attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)

    return gradient_step(call, q, k, v, reference=reference)


@case
def jvp_flash_attention__attention(device):
    call = import_module("jvp_flash_attention.jvp_attention").JVPAttn.fwd
    q, k, v = (normal(device, 2, 16, 2048, 64, dtype=F16) for _ in range(3))
    return gradient_step(lambda q, k, v: call(q, k, v, causal=True), q, k, v, reference=attention)


@case
def jvp_flash_attention__tangents(device):
    module = import_module("jvp_flash_attention.jvp_attention")
    q, k, v = (n(device, 2, 16, 2048, 64, dtype=F16) for _ in range(3))
    tangents = [n(device, 2, 16, 2048, 64, dtype=F16) for _ in range(3)]

    def run(q, k, v, *t):
        return module._attn_fwd_dual_triton._init_fn(
            q, k, v, *t, torch.empty(0, device=device), 64**-0.5, 0.0, 0, True, False, 0
        )

    return forward_step(run, q, k, v, *tangents)


# flash_sinkhorn: optimal transport ----------------------------------------------------------------
def _clouds(device, rows=4096, columns=4096, dim=64):
    x, y = n(device, rows, dim, dtype=F32), n(device, columns, dim, dtype=F32)
    return x, y, *(n(device, m, dtype=F32, scale=0.1) for m in (rows, columns))


@case
def flash_sinkhorn__log_sums(device):
    module = import_module("flash_sinkhorn.kernels.sinkhorn_flashstyle_sqeuclid")
    x, y, _, bias = _clouds(device)
    return forward_step(lambda x, y, b: module.flashsinkhorn_lse(x, y, b, 8.0), x, y, bias)


@case
def flash_sinkhorn__symmetric_step(device):
    module = import_module("flash_sinkhorn.kernels.sinkhorn_flashstyle_sqeuclid")
    x, y, f, g = _clouds(device)
    weights = [torch.full((t.shape[0],), -8.0, device=device) for t in (x, y)]
    return forward_step(
        lambda x, y, f, g: module.flashsinkhorn_symmetric_step(x, y, f, g, *weights, 8.0)[:2],
        x, y, f, g,
    )  # fmt: skip


@case
def flash_sinkhorn__plan_times_matrix(device):
    call = import_module("flash_sinkhorn.kernels.apply_ott").apply_plan_mat_sqeuclid
    x, y, f, g = _clouds(device)
    m = n(device, 4096, 64, dtype=F32)
    return forward_step(lambda x, y, f, g, m: call(x, y, f, g, m, eps=16.0, axis=1), x, y, f, g, m)


@case
def flash_sinkhorn__plan_times_vector(device):
    call = import_module("flash_sinkhorn.kernels.apply_ott").apply_plan_vec_sqeuclid
    x, y, f, g = _clouds(device)
    v = n(device, 4096, dtype=F32)
    return forward_step(lambda x, y, f, g, v: call(x, y, f, g, v, eps=16.0, axis=1), x, y, f, g, v)


@case
def flash_sinkhorn__c_transform(device):
    call = import_module("flash_sinkhorn.kernels.c_transform_sqeuclid").c_transform_kernel
    x, y, _, bias = _clouds(device)
    return forward_step(lambda x, y, b: call(x, y, b)[0], x, y, bias)


# flash_kmeans -------------------------------------------------------------------------------------
def _points(device, count=65536, clusters=1024, dim=128):
    return n(device, 1, count, dim, dtype=F16), n(device, 1, clusters, dim, dtype=F16)


@case
def flash_kmeans__assign(device):
    call = import_module("flash_kmeans.assign_euclid_triton").euclid_assign_triton
    x, c = _points(device)
    return forward_step(lambda x, c: call(x, c, x.float().square().sum(-1)), x, c)


@case
def flash_kmeans__assign_cosine(device):
    call = import_module("flash_kmeans.assign_euclid_triton").cosine_assign_triton
    x, c = _points(device)
    return forward_step(call, F.normalize(x, dim=-1), F.normalize(c, dim=-1))


@case
def flash_kmeans__update(device):
    call = import_module("flash_kmeans").triton_centroid_update_euclid
    x, c = _points(device)
    owners = integers(device, 1024, 1, 65536, dtype=torch.int32)
    return forward_step(call, x, owners, c)


@case
def flash_kmeans__update_sorted(device):
    call = import_module("flash_kmeans").triton_centroid_update_sorted_euclid
    x, c = _points(device)
    owners = integers(device, 1024, 1, 65536, dtype=torch.int32)
    return forward_step(call, x, owners, c)


# moe_ops ------------------------------------------------------------------------------------------
@case
def moe_ops__topk_softmax(device):
    call = import_module("moe_ops").fused_topk_softmax
    return gradient_step(lambda x: call(x, 4)[0], normal(device, 16384, 64, dtype=F32),
                         reference=lambda x: x.topk(4, -1).values.softmax(-1))  # fmt: skip


@case
def moe_ops__permute(device):
    module = import_module("moe_ops")
    x = n(device, 8192, 2048)
    _, ids = torch.rand(8192, 64, device=device).topk(4, -1)
    weights = torch.rand(8192, 4, device=device)

    def run(x, ids, weights):  # atomics determine the order of the rows of an expert
        rows, places = module.permute(x, ids.to(torch.int32), 4 * 8192, 64)[:2]
        return module.unpermute(rows, places, weights, 8192, 4)

    return forward_step(run, x, ids, weights,
                        reference=lambda x, _, w: x * w.sum(-1, keepdim=True))  # fmt: skip


def _add_grouped(package, path, name):
    @lambda make: add(f"{package}/grouped_matmul", make)
    def _build(device):
        call = getattr(import_module(path), name)
        a, b = normal(device, 8 * 1024, 2048), normal(device, 8, 4096, 2048, scale=0.05)
        ends = torch.arange(1, 9, device=device, dtype=torch.int32) * 1024
        offsets = torch.cat([ends.new_zeros(1), ends]) if package == "moe_ops" else ends

        def run(a, b):
            b = b if package == "moe_ops" else b.transpose(1, 2)
            return call(a, b, offsets)

        def reference(a, b):
            return (a.view(8, 1024, 2048) @ b.transpose(1, 2)).flatten(0, 1)

        return gradient_step(run, a, b, reference=reference)


_add_grouped("grouped_mm_bf16", "grouped_mm_bf16", "grouped_mm")
_add_grouped("moe_ops", "moe_ops.grouped_gemm_ops", "grouped_gemm")


# late_interaction_kernels and memeff: contrastive scores and losses -------------------------------
@case
def late_interaction__maxsim(device):
    call = import_module("late_interaction_kernels").maxsim
    q, d = normal(device, 16, 32, 128, dtype=F16), normal(device, 256, 300, 128, dtype=F16)

    def reference(q, d):
        return torch.einsum("qid,njd->qnij", q, d).amax(-1).sum(-1)

    return gradient_step(call, q, d, reference=reference)


@case
def late_interaction__maxsim_pairs(device):
    call = import_module("late_interaction_kernels").maxsim_pairs
    q, d = normal(device, 256, 32, 128, dtype=F16), normal(device, 256, 300, 128, dtype=F16)

    def reference(q, d):
        return torch.einsum("nid,njd->nij", q, d).amax(-1).sum(-1)

    return gradient_step(call, q, d, reference=reference)


@case
def late_interaction__maxsim_sequences(device):
    call = import_module("late_interaction_kernels").maxsim_varlen
    q, d = n(device, 32 * 64, 128, dtype=F16), n(device, 128 * 256, 128, dtype=F16)
    starts = [torch.arange(m + 1, device=device, dtype=torch.int32) * s
              for m, s in ((32, 64), (128, 256))]  # fmt: skip
    return forward_step(lambda q, d: call(q, d, *starts, 64, 2 * 128), q, d)


def _contrastive(name, loss, count):
    @lambda make: add(f"memeff/{name}", make)
    def _build(device):
        module = getattr(import_module("memeff"), loss)()
        inputs = [normal(device, 4096, 512) for _ in range(count)]
        return gradient_step(module, *inputs)


_contrastive("clip", "MemoryEfficientCLIPLoss", 2)
_contrastive("qwen3", "MemoryEfficientQwen3Loss", 2)
_contrastive("lit", "MemoryEfficientLiTLoss", 2)


# torchnorm and trinix: norms, gates and optimisers ------------------------------------------------
def _module(name, build_module, shape, reference=None, package="torchnorm"):
    @lambda make: add(f"{package}/{name}", make)
    def _build(device):
        layer = build_module(import_module(package))
        for part, value in list(layer.named_parameters()):
            value = value.detach().to(device=device, dtype=BF16)
            layer.register_parameter(part, torch.nn.Parameter(value))
        return gradient_step(layer, normal(device, *shape), reference=reference)


_module("rms_norm", lambda m: m.RMSNorm(4096), (8192, 4096))
_module("layer_norm", lambda m: m.LayerNorm(4096), (8192, 4096),
        lambda x: F.layer_norm(x, (4096,)))  # fmt: skip
_module("group_norm", lambda m: m.GroupNorm(32, 512), (8, 512, 64, 64))


def _activation(name, path, kernel, arguments, reference=None):
    @lambda make: add(f"trinix/{name}", make)
    def _build(device):
        call = getattr(import_module(f"trinix.kernels.{path}"), kernel).apply
        return gradient_step(call, *(normal(device, 4096, 11008) for _ in range(arguments)),
                             reference=reference)  # fmt: skip


_activation("mish", "mish_kernel", "TritonMishFunction", 1, F.mish)
_activation("quick_gelu", "quickgelu_kernel", "TritonQuickGELUFunction", 1,
            lambda x: x * torch.sigmoid(1.702 * x))  # fmt: skip
_activation("geglu", "geglu_kernel", "TritonGeGLUFunction", 1)
_activation("reglu", "reglu_kernel", "TritonReGLUFunction", 1)


# torch_fps: points --------------------------------------------------------------------------------
@case
def torch_fps__farthest_points(device):
    call = import_module("torch_fps._triton").fps
    x = n(device, 16, 4096, 3, dtype=F32)
    mask = torch.ones(16, 4096, device=device, dtype=torch.bool)
    starts = torch.zeros(16, device=device, dtype=torch.int64)
    return forward_step(lambda x: call(x, mask, starts, 128), x)


@case
def torch_fps__farthest_points_and_neighbours(device):
    call = import_module("torch_fps._triton").fps_knn
    x = n(device, 16, 4096, 3, dtype=F32)
    mask = torch.ones(16, 4096, device=device, dtype=torch.bool)
    starts = torch.zeros(16, device=device, dtype=torch.int64)
    return forward_step(lambda x: call(x, mask, starts, 128, 16), x)
