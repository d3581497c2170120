"""unsloth_zoo, unsloth, torchao, flash_sinkhorn and flashlib: routing, experts with weights of few
bits, losses of linear layers, conversions to eight bits, optimal transport, classical machine
learning."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

from importlib import import_module

import torch  # type: ignore[import-not-found]
from alone import alone
from cases import BF16, F32, add, case, forward_step, integers, tensor as n
from cases_unsloth import ZOO, kernels
from cases_wider import flashlib

FP8 = torch.float8_e4m3fn


# unsloth_zoo --------------------------------------------------------------------------------------
def zoo(module: str):
    return alone(f"unsloth_zoo.{module}", (*ZOO, "unsloth_zoo.fused_losses"))


def _route(name, tokens, experts):
    @lambda make: add(f"unsloth_zoo/{name}", make)
    def _build(device):
        call = zoo("temporary_patches.moe_routing_triton")._launch
        return forward_step(lambda k: call(k, experts), integers(device, experts, tokens, 4))


_route("routing", 16384, 64)
_route("routing_few_tokens", 128, 64)


def _router(name, tokens, experts, mode, **named):
    @lambda make: add(f"unsloth_zoo/{name}", make)
    def _build(device):
        module = zoo("temporary_patches.moe_router_triton")
        groups = named.get("groups", 1)

        def run(x, g):
            w, ids = module._router_fwd_impl(x, None, 4, mode, True, groups, (groups + 1) // 2,
                                             1.0, False)  # fmt: skip
            return w, module._router_bwd_impl(x, ids, g, mode, True, 1.0)

        return forward_step(run, n(device, tokens, experts, dtype=F32),
                            n(device, tokens, 4, dtype=F32))  # fmt: skip


_router("router_softmax", 16384, 64, 0)
_router("router_groups", 8192, 128, 2, groups=8)


def _experts16(device, rows=16384):
    x, w = n(device, rows, 1024), n(device, 8, 1024, 2048, scale=0.03)
    return x, w, torch.arange(1, 9, device=device, dtype=torch.int32) * (rows // 8)


@case
def unsloth_zoo__grouped_matmul(device):
    call = zoo("temporary_patches.moe_grouped_fp16").generic_grouped_mm
    x, w, ends = _experts16(device)
    return forward_step(
        lambda x, w: call(x, w, ends), x, w,
        reference=lambda x, w: (x.view(8, -1, x.shape[1]) @ w).flatten(0, 1),
    )  # fmt: skip


@case
def unsloth_zoo__grouped_weight_gradient(device):
    call = zoo("temporary_patches.moe_grouped_fp16").generic_grouped_wgrad
    x, g, ends = n(device, 16384, 1024), n(device, 16384, 2048), _experts16(device)[2]
    return forward_step(
        lambda x, g: call(x, g, ends, 8), x, g,
        reference=lambda x, g: x.view(8, -1, x.shape[1]).mT @ g.view(8, -1, g.shape[1]),
    )  # fmt: skip


@case
def unsloth_zoo__weighted_unpermute(device):
    module = zoo("temporary_patches.moe_triton_kernels")
    y, w = n(device, 4 * 4096, 2048), torch.rand(4 * 4096, device=device)
    order = torch.randperm(4 * 4096, device=device)
    call = module._WeightedUnpermute.apply

    def run(y, w):
        y, w = y.detach().requires_grad_(), w.detach().requires_grad_()
        with torch.enable_grad():
            out = call(y, order, w, len(y) // 4, 4, None)
            return out, *torch.autograd.grad(out, (y, w), torch.ones_like(out))

    return forward_step(run, y, w)


def _expert_step(name, tokens, lora):
    """A decoding step of experts in bf16, with low-rank adapters or without."""

    @lambda make: add(f"unsloth_zoo/{name}", make)
    def _build(device):
        module = zoo("temporary_patches.moe_routed")
        x, choices = n(device, tokens, 2048), integers(device, 32, tokens * 4, dtype=torch.int32)
        up, down = (n(device, 32, *s, scale=0.03) for s in ((2048, 2 * 768), (768, 2048)))
        a, b = (n(device, 32, *s, scale=0.03) for s in ((2048, 16), (16, 2 * 768)))
        weights = torch.rand(tokens, 4, device=device)
        a, b = (a, b) if lora else (None, None)
        name = "_down_sum_launch"
        finish = getattr(module, name)

        def run(x, up, down, weights):
            inner = module._gate_up_act_launch(x, choices, up, None, a, b, None, 2.0, 4, 1, False,
                                               1.702, 7.0, BF16)  # fmt: skip
            return finish(inner, choices, weights, down, None, None, None, None, 0.0, 4, BF16)

        return forward_step(run, x, up, down, weights)


_expert_step("routed_experts", 4, False)
_expert_step("routed_experts_adapters", 16, True)


def _mx(device, experts, rows, columns):
    blocks = integers(device, 128, experts, rows, columns // 32, 16, dtype=torch.uint8)
    scales = integers(device, 8, experts, rows, columns // 32, dtype=torch.uint8) + 120
    return blocks, scales


def _mx_experts(name, tokens, forward=True):
    @lambda make: add(f"unsloth_zoo/{name}", make)
    def _build(device):
        call = zoo("mxfp4_gemm").mxfp4_grouped_mm
        blocks, scales = _mx(device, 8, 2048, 1024)
        x = n(device, 8 * tokens, blocks.shape[2] * 32 if forward else blocks.shape[1])
        counts = torch.full((8,), len(x) // 8, device=device, dtype=torch.int32)
        return forward_step(
            lambda x: call(x, blocks, scales, counts, transpose_b=forward, config=CONFIG[name]), x
        )


CONFIG = {
    "mxfp4_experts": (128, 256, 64, 4, 3, False, False),
    "mxfp4_experts_few_rows": (16, 128, 64, 4, 4, False, False),
    "mxfp4_experts_gradient": (64, 128, 64, 4, 3, True, False),
}
_mx_experts("mxfp4_experts", 512)
_mx_experts("mxfp4_experts_few_rows", 16)
_mx_experts("mxfp4_experts_gradient", 128, forward=False)


@case
def unsloth_zoo__mxfp4_dequantise(device):
    module = zoo("mxfp4_dequant")
    blocks, scales = _mx(device, 8, 4096, 2048)

    def run(blocks, scales):
        *rows, groups, _ = blocks.shape
        out = torch.empty(*rows, groups * 32, device=blocks.device, dtype=BF16)
        grid = rows[0], -(-rows[1] // 32), -(-groups // 8)
        module._launch(grid, blocks, scales, out, None, None, rows[1], groups,
                       out.stride(0), out.stride(1), 1, 32, 8, True, False)  # fmt: skip
        return out

    return forward_step(run, blocks, scales)


@case
def unsloth_zoo__divergence_of_logits(device):
    module = zoo("fused_losses.fused_linear")
    s, t = n(device, 2048, 32000), n(device, 2048, 32000)
    one = torch.ones(1, device=device)

    def run(s, t):
        return module._jsd_triton(s, t, one, 0.5, 1.0, 1.0, 0.0, 1.0, 0.0, True, BF16)

    return forward_step(run, s, t)


@case
def unsloth_zoo__merge_adapters(device):
    module = zoo("merged_rollout_exact")
    w, a, b = n(device, 8, 2048, 1024), n(device, 8, 16, 1024), n(device, 8, 2048, 16)

    def run(w, a, b):
        target = module.ExactFoldTarget(w.clone(), a, b, 0.5)
        count = 1
        for extent in target.grid():
            count *= extent
        target.counts = torch.empty(count, device=w.device, dtype=torch.int32)
        target.checksum = torch.zeros(1, device=w.device, dtype=torch.int64)
        target.launch(module._COUNT)
        return target.counts

    return forward_step(run, w, a, b)


# unsloth ------------------------------------------------------------------------------------------
@case
def unsloth__large_heads(device):
    module = kernels("large_head_attention")
    q, k, v, g = (n(device, 1, count, 1024, 512, dtype=BF16) for count in (8, 2, 2, 8))
    low, high = module._dense_intervals(1, q.shape[2], True, device)

    def run(q, k, v, g):
        o, lse = module._fwd_impl(q, k, v, low, high, 0.05)
        return o, *module._bwd_impl(g, q, k, v, o, lse, low, high, 0.05)

    return forward_step(run, q, k, v, g)


def _int4(device, rows, columns):
    words = integers(device, 1 << 30, rows, columns // 8, dtype=torch.int32)
    module = kernels("int4_packed")
    scale = n(device, rows, columns // 128, dtype=BF16)
    return module, words, module.Int4QuantState(scale, None, None, (rows, columns), 4, 128, BF16)


@case
def unsloth__int4_dequantise(device):
    module, words, state = _int4(device, 4096, 4096)
    return forward_step(lambda w: module.int4_dequantize(w, state), words)


@case
def unsloth__int4_few_rows(device):
    module, words, state = _int4(device, 4096, 4096)
    return forward_step(lambda x, w: module.int4_matmul(x, w, state), n(device, 1, 4096), words)


def _nvfp4(name, rows):
    @lambda make: add(f"unsloth/{name}", make)
    def _build(device):
        module = kernels("nvfp4")
        packed = integers(device, 256, 4096, 4096 // 2, dtype=torch.uint8)
        scale = torch.rand(4096, 4096 // 16, device=device).to(FP8)
        total = torch.ones(1, device=device)

        def run(x, g):
            y = module._nvfp4_matmul_fwd_fused(x, packed, scale, total)
            return y, module._nvfp4_matmul_dx_fused(g, packed, scale, total)

        return forward_step(run, n(device, rows, 4096), n(device, rows, 4096))


_nvfp4("nvfp4_matmul", 256)
_nvfp4("nvfp4_matmul_few_rows", 16)


# torchao ------------------------------------------------------------------------------------------
def _heads(device):
    return [n(device, 2, 16, 2048, 128) for _ in range(3)]


def _fp8_heads(name, module, function, rotated=False):
    @lambda make: add(f"torchao/{name}", make)
    def _build(device):
        call = getattr(import_module(f"torchao.prototype.{module}"), function)
        q, k, v = _heads(device)
        if rotated:
            q, k, v = (t.transpose(1, 2).contiguous() for t in (q, k, v))
        angles = (torch.rand(2048, 128, device=device) for _ in range(2)) if rotated else ()
        return forward_step(call, q, k, v, *angles)


_QUANTISE = "attention.quantization.triton"
_fp8_heads("fp8_heads", f"{_QUANTISE}_qkv_quantization", "triton_fp8_sdpa_quantize")
_fp8_heads("fp8_heads_rotated", f"{_QUANTISE}_rope_qkv_quantization",
           "triton_fp8_rope_sdpa_quantize", rotated=True)  # fmt: skip
_fp8_heads("fp8_heads_hadamard", f"{_QUANTISE}_hadamard_qkv_quantization",
           "triton_fp8_hadamard_sdpa_quantize")  # fmt: skip


def _fp8(name, module, function, *shape):
    @lambda make: add(f"torchao/{name}", make)
    def _build(device):
        path = f"torchao.prototype.moe_training.kernels.{module}"
        call = getattr(import_module(path), function)
        return forward_step(call, n(device, *shape))


_fp8("fp8_rows", "float8_rowwise", "triton_fp8_rowwise_2d_scale_and_cast", 8192, 4096)
_fp8("fp8_expert_columns", "float8_rowwise", "triton_fp8_colwise_3d_scale_and_cast", 8, 4096, 2048)
_fp8("fp8_expert_rows", "float8_rowwise", "triton_fp8_rowwise_3d_transpose_rhs", 8, 4096, 2048)


@case
def torchao__fp8_groups(device):
    module = import_module("torchao.prototype.moe_training.kernels.jagged_float8_scales")
    x = n(device, 16384, 2048)
    ends = torch.arange(1, 9, device=device, dtype=torch.int32) * (len(x) // 8)
    call = module.triton_fp8_per_group_colwise_scales
    return forward_step(lambda x: call(x.t().contiguous().t(), ends), x)


def _blockwise(name, function, scales):
    @lambda make: add(f"torchao/{name}", make)
    def _build(device):
        module = import_module("torchao.prototype.blockwise_fp8_training.kernels")
        call = getattr(module, function)
        a, b = (n(device, 4096, 4096).to(FP8) for _ in range(2))
        s, t = (torch.rand(*shape, device=device) for shape in scales)
        s = s.t().contiguous().t()
        t = t.t().contiguous().t() if t.shape[1] < len(b) else t
        return forward_step(lambda a, b: call(a, b.t(), s, t, out_dtype=BF16), a, b)


_blockwise("fp8_matmul_blocks", "triton_fp8_gemm_1x128_128x128",
           ((4096, 4096 // 128), (4096 // 128, 4096 // 128)))  # fmt: skip
_blockwise("fp8_matmul_rows", "triton_fp8_gemm_1x128_128x1",
           ((4096, 4096 // 128), (4096 // 128, 4096)))  # fmt: skip


@case
def torchao__int8_scaled_matmul(device):
    call = import_module("torchao.prototype.quantized_training.int8_mm").scaled_int8_mm_cuda
    a, b = (integers(device, 127, 4096, 4096, dtype=torch.int8) for _ in range(2))
    rows, columns = torch.rand(4096, device=device), torch.rand(4096, device=device)
    return forward_step(lambda a, b, r, c: call(a, b.t(), r, c), a, b, rows, columns)


@case
def torchao__tensorwise_both_orders(device):
    path = "torchao.prototype.float8nocompile.kernels.fp8_dynamic_tensorwise"
    module = import_module(path)
    kind = module.FP8_DTYPE_MAP
    x = n(device, 4096, 8192)

    def run(x):
        scale = module._hp_tensor_to_scale(x, kind[BF16], 448.0, module.KernelAlgorithm.ATOMIC_MAX)
        y, t = (torch.empty(s, device=x.device, dtype=FP8) for s in (x.shape, x.shape[::-1]))
        grid = lambda m: (-(-x.shape[0] // m["BLOCK_SIZE_ROWS"]),  # noqa: E731
                          -(-x.shape[1] // m["BLOCK_SIZE_COLS"]))  # fmt: skip
        module._to_fp8_row_major_t_and_non_t[grid](
            x, y, t, scale, x.numel(), -448.0, 448.0, *x.shape, *x.stride(), *y.stride(),
            *t.stride(), input_dtype=kind[BF16], output_dtype=kind[FP8], EPS=module.EPS,
        )  # fmt: skip
        return y, t

    return forward_step(run, x)


# flash_sinkhorn, flash_kmeans ---------------------------------------------------------------------
def transport(module):
    return import_module(f"flash_sinkhorn.kernels.{module}")


def _clouds(device, width=64):
    x, y = n(device, 8192, width, dtype=F32), n(device, 8192, width, dtype=F32)
    return x, y, n(device, 8192, dtype=F32), n(device, 8192, dtype=F32)


@case
def flash_sinkhorn__gradient(device):
    call = transport("sinkhorn_triton_grad_sqeuclid").sinkhorn_geomloss_online_grad_sqeuclid
    x, y, f, g = _clouds(device)
    a, b = torch.full_like(f, 1 / 8192), torch.full_like(g, 1 / 8192)
    return forward_step(lambda x, y, f, g: call(x, y, a, b, f, g, eps=16.0), x, y, f, g)


@case
def flash_sinkhorn__gradient_wide(device):
    call = transport("sinkhorn_triton_grad_sqeuclid").sinkhorn_geomloss_online_grad_sqeuclid
    x, y, f, g = _clouds(device, 2 * 256)
    a, b = torch.full_like(f, 1 / 8192), torch.full_like(g, 1 / 8192)
    return forward_step(lambda x, y, f, g: call(x, y, a, b, f, g, eps=64.0), x, y, f, g)


def _logsumexp(name, axis):
    @lambda make: add(f"flash_sinkhorn/{name}", make)
    def _build(device):
        call = transport("sinkhorn_triton_ott_sqeuclid").apply_lse_kernel_sqeuclid
        return forward_step(lambda *t: call(*t, 16.0, axis)[0], *_clouds(device))


_logsumexp("row_sums", 1)
_logsumexp("column_sums", 0)


@case
def flash_sinkhorn__split_rows(device):
    call = transport("sinkhorn_splitn_sqeuclid").flashsinkhorn_lse_splitn
    x, y, _, bias = _clouds(device)
    return forward_step(lambda x, y, b: call(x[:1024], y, b, 16.0, num_splits=8), x, y, bias)


@case
def flash_sinkhorn__plan_times_columns(device):
    call = transport("apply_ott").mat5_sqeuclid
    x, y, f, g = _clouds(device)
    return forward_step(lambda x, y, f, g, a: call(x, y, f, g, a, eps=16.0), x, y, f, g,
                        torch.randn_like(x))  # fmt: skip


# flashlib -----------------------------------------------------------------------------------------
@case
def flashlib__split_f32_to_bf16(device):
    kernel = flashlib("linalg.gemm.triton.split")._split_fp32_to_bf16_kernel
    x = n(device, 4096, 4096, dtype=F32)

    def run(x):
        parts = [torch.empty_like(x, dtype=BF16) for _ in range(2)]
        kernel[(-(-x.numel() // 1024),)](x, *parts, x.numel(), BLOCK=1024)
        return parts

    return forward_step(run, x)


def _flashlib(name, module, function, *shapes, dtype=F32, named=(), reference=None, **options):
    @lambda make: add(f"flashlib/{name}", make)
    def _build(device):
        call = getattr(flashlib(module), function)
        inputs = [n(device, *s, dtype=dtype, **options) for s in shapes]
        return forward_step(lambda *t: call(*t, *named), *inputs, reference=reference)


_flashlib("scaled_sum", "linalg.gemm.triton.fused_kernels", "fused_axpby", (4096, 4096),
          (4096, 4096), named=(0.5, 2.0), reference=lambda x, y: 0.5 * x + 2 * y)  # fmt: skip
_flashlib("polynomial", "linalg.gemm.triton.fused_kernels", "fused_kl_poly", (4096, 4096),
          (4096, 4096))  # fmt: skip


@case
def flashlib__covariance_upper(device):
    call = flashlib("primitives.pca.triton.fused_kernels").triton_cov_gemm_fused
    return forward_step(lambda x: call(x).triu(), n(device, 65536, 256, dtype=F32),
                        reference=lambda x: (x.T @ x).triu())  # fmt: skip


@case
def flashlib__gram_upper(device):
    call = flashlib("primitives.pca.triton.fused_kernels").triton_gram_gemm_fused
    # No reference: it multiplies in tf32, whose errors exceed what f32 allows.
    return forward_step(lambda x: call(x).triu(), n(device, 1024, 4096, dtype=F32))


_flashlib("affinity", "kernels.distance.triton.affinity", "triton_affinity_with_degree",
          (4096, 64), named=(0.01,))  # fmt: skip
_flashlib("reachability", "kernels.distance.triton.mrd", "triton_pairwise_mrd", (4096, 64),
          (4096,))  # fmt: skip
_flashlib("cast_and_product", "primitives.linear_regression.triton.fused_kernels", "cast_and_xty",
          (65536, 256), (65536,))  # fmt: skip
