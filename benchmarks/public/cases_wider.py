"""fbgemm, gptqmodel, flashlib, spconv, triton_augment, tritonbench and applied_ai: jagged tensors,
quantization, classical machine learning, sparse convolutions, images and benchmarks."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

from unittest import mock

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F16, F32, add, forward_step, gradient_step, integers, normal, tensor as n

FP8 = torch.float8_e4m3fn


def case(make):
    package, _, name = make.__name__.partition("__")
    add(f"{package}/{name}", make)
    return make


# fbgemm -------------------------------------------------------------------------------------------
def fbgemm(module: str):
    return alone(
        f"fbgemm_gpu.{module}",
        (
            "fbgemm_gpu.sll",
            "fbgemm_gpu.sll.triton",
            "fbgemm_gpu.triton",
            "fbgemm_gpu.triton.jagged",
            "fbgemm_gpu.experimental",
            "fbgemm_gpu.experimental.gemm",
            "fbgemm_gpu.experimental.gen_ai",
            "fbgemm_gpu.experimental.gemm.triton_gemm",
            "fbgemm_gpu.experimental.gen_ai.moe",
        ),
    )


def _starts(device, batch, longest):
    """The starts of sequences of different lengths."""
    lengths = longest // 2 + torch.arange(batch, device=device) * (longest // 2) // (batch - 1)
    return F.pad(lengths.cumsum(0), (1, 0)), batch * longest * 3 // 4


@case
def fbgemm__jagged_bmm(device):
    call = fbgemm("sll.triton.triton_jagged_bmm").triton_jagged_dense_bmm
    starts, rows = _starts(device, 65, 512)
    x, y = n(device, rows, 256), n(device, 65, 256, 128)
    return forward_step(lambda x, y: call(x, y, starts, 512, True), x, y)


@case
def fbgemm__jagged_jagged_bmm(device):
    call = fbgemm("sll.triton.triton_jagged_bmm").triton_jagged_jagged_bmm
    starts, rows = _starts(device, 65, 512)
    x, y = n(device, 256, rows), n(device, rows, 128)
    return forward_step(lambda x, y: call(x, y, starts, 512, True), x, y)


@case
def fbgemm__jagged_softmax(device):
    call = fbgemm("sll.triton.triton_jagged_softmax").JaggedSoftmax.apply
    starts, rows = _starts(device, 129, 512)
    return gradient_step(lambda x: call(x, starts, 512), normal(device, rows, 128, dtype=F32))


@case
def fbgemm__jagged_attention(device):
    call = fbgemm("sll.triton.triton_multi_head_jagged_flash_attention")
    longest = 512
    starts, rows = _starts(device, 17, longest)
    # logarithms are rounded to bf16, which large scores would not survive
    q, k, v = (normal(device, 8, rows, 64, scale=s) for s in (0.1, 0.1, 1.0))

    def reference(q, k, v):
        counts = starts.diff().tolist()
        parts = zip(*(t.split(counts, 1) for t in (q, k, v)), strict=True)
        return torch.cat([(q @ k.mT).softmax(-1) @ v / longest for q, k, v in parts], 1)

    return gradient_step(
        lambda *t: call.MultiHeadJaggedFlashAttention.apply(*t, starts, longest, True),
        q,
        k,
        v,
        reference=reference,
    )


@case
def fbgemm__jagged_multiply(device):
    call = fbgemm("sll.triton.triton_jagged_dense_elementwise_mul_jagged_out")
    batch, longest = 64, 256
    lengths = torch.full((batch,), longest, device=device)
    starts = torch.arange(batch + 1, device=device) * longest * longest
    x, y = n(device, batch * longest * longest, dtype=F32), n(device, longest, longest, dtype=F32)

    def run(x, y):
        return call.triton_jagged_dense_elementwise_mul_jagged_out(x, y, lengths, starts, longest)

    return forward_step(run, x, y, reference=lambda x, y: (x.view(-1, *y.shape) * y).flatten())


@case
def fbgemm__quantise_rows(device):
    call = fbgemm("experimental.gemm.triton_gemm.fp8_gemm").triton_quantize_fp8_row
    return forward_step(
        lambda x: call(x)[1], n(device, 8192, 4096), reference=lambda x: x.abs().amax(-1) / 448.0
    )


@case
def fbgemm__quantise_blocks(device):
    call = fbgemm("experimental.gemm.triton_gemm.fp8_gemm").triton_quantize_fp8_block
    return forward_step(lambda x: call(x, 128, 128)[1], n(device, 4096, 4096))


@case
def fbgemm__quantise_groups(device):
    call = fbgemm("experimental.gemm.triton_gemm.fp8_gemm").triton_quantize_fp8_group
    return forward_step(lambda x: call(x, 128)[1], n(device, 8192, 4096))


def _fp8_rows(name, rows, **named):
    @lambda make: add(f"fbgemm/{name}", make)
    def _build(device):
        call = fbgemm("experimental.gemm.triton_gemm.fp8_gemm").matmul_fp8_row
        a, b = n(device, rows, 4096).to(FP8), n(device, 4096, 4096).to(FP8)
        s, t = torch.rand(rows, device=device) / 100, torch.rand(4096, device=device) / 100
        return forward_step(
            lambda s, t: call(a, b, s, t, **named),
            s,
            t,
            reference=lambda s, t: a.double() @ b.double().T * s[:, None] * t,
        )


_fp8_rows("fp8_rows", 2048, tma_persistent=False)
_fp8_rows("fp8_rows_few", 16, tma_persistent=False)


@case
def fbgemm__grouped_gemm(device):
    call = fbgemm("experimental.gemm.triton_gemm.grouped_gemm").grouped_gemm
    x, w = n(device, 4096, 2048), n(device, 8 * 2048, 2048, scale=0.02)
    sizes = torch.full((8,), 512, device=device, dtype=torch.int32)

    def reference(x, w):
        return (x.view(8, -1, x.shape[1]) @ w.view(8, -1, x.shape[1]).transpose(1, 2)).flatten(0, 1)

    return forward_step(
        lambda x, w: call(x, w, sizes, _use_warp_specialization=False), x, w, reference=reference
    )


@case
def fbgemm__silu_mul(device):
    call = fbgemm("experimental.gen_ai.moe.activation").silu_mul
    return forward_step(
        lambda a, b: call(a, b),
        n(device, 8192, 4096),
        n(device, 8192, 4096),
        reference=lambda a, b: F.silu(a) * b,
    )


@case
def fbgemm__gather_scale(device):
    call = fbgemm("experimental.gen_ai.moe.gather_scatter").gather_scale_dense_tokens
    x, scores = n(device, 4096, 4096), torch.rand(4096, 16, device=device).to(BF16)
    rows, experts = torch.randperm(4096, device=device), integers(device, 16, 4096)
    return forward_step(
        lambda x, s: call(x, rows.int(), experts.int(), s),
        x,
        scores,
        reference=lambda x, s: x[rows] * s[rows, experts][:, None],
    )


@case
def fbgemm__scatter_add(device):
    call = fbgemm("experimental.gen_ai.moe.gather_scatter").scatter_add_dense_tokens
    x, y, rows = n(device, 4096, 4096), n(device, 4096, 4096), torch.randperm(4096, device=device)

    def run(x, y):
        x = x.clone()
        call(x, y, rows)
        return x

    return forward_step(run, x, y, reference=lambda x, y: x.index_add(0, rows, y))


@case
def fbgemm__quantise_mx4(device):
    call = fbgemm("triton.quantize").triton_quantize_mx4
    return forward_step(lambda x: call(x), n(device, 4096, 4096, dtype=F32))


@case
def fbgemm__dequantise_mx4(device):
    call = fbgemm("triton.quantize").triton_dequantize_mx4
    x = integers(device, 120, 4096, 4096 // 32 * 17, dtype=torch.uint8)
    return forward_step(lambda x: call(x), x)


# gptqmodel ----------------------------------------------------------------------------------------
GPTQ = (
    "gptqmodel.nn_modules",
    "gptqmodel.nn_modules.triton_utils",
    "gptqmodel.nn_modules.qlinear",
    "gptqmodel.quantization",
    "gptqmodel.quantization.awq",
    "gptqmodel.quantization.awq.modules",
    "gptqmodel.quantization.awq.modules.triton",
    "gptqmodel.quantization.paroquant",
    "gptqmodel.quantization.paroquant.modules",
    "gptqmodel.quantization.paroquant.modules.triton",
    "gptqmodel.utils",
)


def gptq(module: str):
    return alone(
        f"gptqmodel.{module}",
        GPTQ,
        (
            "gptqmodel.utils.torch",
            "gptqmodel.utils.logger",
            "gptqmodel.utils.python",
            "gptqmodel.utils.safe",
            "gptqmodel.utils.rocm",
            "gptqmodel.utils.backend",
            "gptqmodel.adapter.adapter",
            "gptqmodel.adapter",
            "gptqmodel.models",
            "gptqmodel.models._const",
            "logbar",
            "gptqmodel.nn_modules.qlinear.gguf",
        ),
    )


def gguf():
    bare = alone("gptqmodel.quantization", GPTQ)
    bare.__dict__.update(FORMAT=mock.MagicMock(), METHOD=mock.MagicMock())
    return gptq("nn_modules.qlinear.gguf_triton")


def _words(device, *shape):
    return torch.randint(-(1 << 31), 1 << 31, shape, device=device).int()


def _gptq_weights(device, inner, columns, group=128):
    return (
        _words(device, inner // 8, columns),
        n(device, inner // group, columns, dtype=F16, scale=0.01),
        _words(device, inner // group, columns // 8),
        torch.arange(inner, device=device, dtype=torch.int32) // group,
    )


@case
def gptqmodel__dequantise(device):
    call = gptq("nn_modules.triton_utils.dequant").dequant
    w, s, z, g = _gptq_weights(device, 4096, 4096)

    def reference(s):
        shifts = torch.arange(0, 32, 4, device=device, dtype=torch.int32)
        q = ((w[:, None] >> shifts[:, None]) & 15).flatten(0, 1).double()
        zero = ((z[..., None] >> shifts) & 15).flatten(1).double()
        return (q - zero[g.long()]) * s[g.long()]

    return forward_step(lambda s: call(F16, w, s, z, g, 4, 32, 15), s, reference=reference)


def _gptq_matmul(name, module, function, rows, *extra):
    @lambda make: add(f"gptqmodel/{name}", make)
    def _build(device):
        call = getattr(gptq(f"nn_modules.triton_utils.{module}"), function)
        w, s, z, g = _gptq_weights(device, 4096, 4096)
        x = n(device, rows, 4096, dtype=F16)
        return forward_step(lambda x, s: call(x, w, s, z, g, *extra), x, s)


_gptq_matmul("matmul_248", "kernels", "quant_matmul_248", 512, 4, 15)
_gptq_matmul("gemm", "gptq_gemm", "gptq_gemm", 16)
_gptq_matmul("gemv", "gptq_gemv", "gptq_gemv", 1)


@case
def gptqmodel__awq_gemm(device):
    call = gptq("quantization.awq.modules.triton.gemm").awq_gemm_triton
    x, w = n(device, 64, 4096, dtype=F16), _words(device, 4096, 512)
    s, z = n(device, 32, 4096, dtype=F16, scale=0.01), _words(device, 32, 512)
    return forward_step(lambda x, s: call(x, w, s, z, 8), x, s)


@case
def gptqmodel__paroquant_gemm(device):
    call = gptq("quantization.paroquant.modules.triton.gemm").paroquant_gemm_triton_prefill
    x, w = n(device, 1024, 4096, dtype=F16), _words(device, 4096, 512)
    s, z = n(device, 32, 4096, dtype=F16, scale=0.01), _words(device, 32, 512)
    return forward_step(lambda x, s: call(x, w, s, z), x, s)


@case
def gptqmodel__symmetric_rounding(device):
    call = gptq("quantization.paroquant.modules.triton.sym_ste").sym_quant_dequant_ste_forward
    w, s = n(device, 4096, 4096, dtype=F32), torch.rand(4096, 32, device=device) / 10 + 0.01

    def reference(w, s):
        wide = s.repeat_interleave(w.shape[1] // s.shape[1], 1)
        return (w / wide).round().clamp(-8, 7) * wide

    return forward_step(lambda w, s: call(w, s.view(-1, 1), qmin=-8, qmax=7, group_size=128), w, s)


@case
def gptqmodel__gguf_q4(device):
    call = gguf().fused_q4_k_matmul
    x = n(device, 64, 4096, dtype=F16)
    qs = integers(device, 256, 16, 128, 4096, dtype=torch.uint8)
    s, m = (
        n(device, 16, 8, 4096, dtype=F16, scale=0.01),
        n(device, 16, 8, 4096, dtype=F16, scale=0.01),
    )
    return forward_step(lambda x, s, m: call(x, qs, s, m), x, s, m)


@case
def gptqmodel__gguf_q6(device):
    call = gguf().fused_q6_k_matmul
    x = n(device, 64, 4096, dtype=F16)
    low = integers(device, 256, 16, 128, 4096, dtype=torch.uint8)
    high = integers(device, 256, 16, 64, 4096, dtype=torch.uint8)
    s = n(device, 16, 16, 4096, dtype=F16, scale=0.01)
    return forward_step(lambda x, s: call(x, low, high, s), x, s)


# flashlib -----------------------------------------------------------------------------------------
PRIMITIVES = (
    "knn",
    "kmeans",
    "dbscan",
    "tsne",
    "umap",
    "random_forest",
    "standard_scaler",
    "pca",
    "logistic_regression",
    "multinomial_nb",
    "linear_regression",
    "ivf_flat",
    "ivf_pq",
)
FLASHLIB = (
    "flashlib.linalg",
    "flashlib.linalg.gemm",
    "flashlib.linalg.gemm.triton",
    "flashlib.kernels",
    "flashlib.kernels.distance",
    "flashlib.kernels.distance.triton",
    "flashlib.kernels.norm",
    "flashlib.kernels.norm.triton",
    "flashlib.kernels.flash_mst",
    "flashlib.kernels.flash_mst.triton",
    "flashlib.primitives",
    *(f"flashlib.primitives.{p}{t}" for p in PRIMITIVES for t in ("", ".triton")),
)


def flashlib(module: str):
    return alone(f"flashlib.{module}", FLASHLIB)


def _matmul(name, module, function, shapes, reference, dtype=F32, first=False):
    @lambda make: add(f"flashlib/{name}", make)
    def _build(device):
        call = getattr(flashlib(module), function)
        inputs = [n(device, *shape, dtype=dtype, scale=shape[-1] ** -0.5) for shape in shapes]
        return forward_step(
            lambda *x: call(*x)[0] if first else call(*x), *inputs, reference=reference
        )


_matmul(
    "covariance",
    "linalg.gemm.triton.tall_skinny",
    "triton_full_gemm",
    [(65536, 256)],
    lambda x: x.T @ x,
)
_matmul(
    "product",
    "linalg.gemm.triton.tall_skinny",
    "triton_ab_gemm",
    [(65536, 128), (65536, 256)],
    lambda a, b: a.T @ b,
)
_matmul(
    "split_bf16",
    "linalg.gemm.triton.triton_mm",
    "mm_3xbf16_fused",
    [(2048, 2048), (2048, 2048)],
    lambda a, b: a @ b,
)
_matmul(
    "split_tf32",
    "linalg.gemm.triton.fused_kernels",
    "fused_tf32_matmul",
    [(2048, 2048), (2048, 2048)],
    lambda a, b: a @ b,
)
_matmul(
    "split_fp16_kahan",
    "linalg.gemm.triton.fp16x3_kahan",
    "matmul_fp16x3_kahan",
    [(2048, 2048), (2048, 2048)],
    lambda a, b: a @ b,
)
_matmul(
    "symmetric",
    "linalg.gemm.triton.fused_kernels",
    "fused_sym",
    [(4096, 4096)],
    lambda a: (a + a.T) / 2,
)
_matmul(
    "distances",
    "kernels.distance.triton.pairwise",
    "pairwise_l2sq",
    [(4096, 64)],
    lambda x: torch.cdist(x, x) ** 2,
)
_matmul(
    "rms_norm",
    "kernels.norm.triton.norm",
    "flash_rmsnorm",
    [(8192, 4096), (4096,)],
    lambda x, w: x * torch.rsqrt((x * x).mean(-1, True) + 1e-6) * w,
    BF16,
)
_matmul(
    "layer_norm",
    "kernels.norm.triton.norm",
    "flash_layernorm",
    [(8192, 4096), (4096,), (4096,)],
    lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    BF16,
)


@case
def flashlib__nearest_neighbours(device):
    call = flashlib("primitives.knn.triton.dispatch").flash_knn_triton
    x, c = n(device, 1, 4096, 128, dtype=F16), n(device, 1, 65536, 128, dtype=F16)
    return forward_step(lambda x, c: call(x, c, 16), x, c)


@case
def flashlib__tsne_gradient(device):
    module = flashlib("primitives.tsne.triton.grad")
    y, p = n(device, 4096, 2, dtype=F32), torch.rand(4096, 4096, device=device)

    def run(y, p):
        return module.triton_tsne_grad(y, p, module.triton_tsne_qsum(y))

    return forward_step(run, y, p)


@case
def flashlib__scaler(device):
    module = flashlib("primitives.standard_scaler.triton.scaler")
    x = n(device, 65536, 256, dtype=F32)
    return forward_step(lambda x: module.flash_standard_scaler_fit_transform(x), x)


@case
def flashlib__smooth_distances(device):
    call = flashlib("primitives.umap.triton.smooth_knn_dist").triton_smooth_knn_dist
    d = torch.rand(65536, 16, device=device).cumsum(1)
    return forward_step(lambda d: call(d), d)


@case
def flashlib__histogram(device):
    call = flashlib("primitives.random_forest.triton.histogram").triton_rf_histogram
    x, g = integers(device, 256, 65536, 64, dtype=torch.uint8), n(device, 65536, dtype=F32)
    return forward_step(lambda g: call(x, g, 64), g)


# spconv, triton_augment ---------------------------------------------------------------------------
SPCONV = ("spconv_triton.pytorch", "spconv_triton.pytorch._impl")


def _pairs(device, rows, taps):
    """For each tap of a filter, the row that it reads, or -1."""
    pairs = torch.randint(rows, (taps, rows), device=device, dtype=torch.int32)
    return torch.where(torch.rand(taps, rows, device=device) < 0.6, pairs, -1)


def _sparse_convolution(name, dtype, inner, columns):
    @lambda make: add(f"spconv/{name}", make)
    def _build(device):
        call = alone("spconv_triton.pytorch._impl.gemm", SPCONV).conv_forward
        x, w = (
            n(device, 65536, inner, dtype=dtype),
            n(device, columns, 27, inner, dtype=dtype, scale=0.05),
        )
        pairs = _pairs(device, 65536, 27)

        def reference(x, w):
            rows = F.pad(x, (0, 0, 0, 1))[pairs.long()]
            return torch.einsum("tnc,ktc->nk", rows, w)

        return forward_step(lambda x, w: call(x, w, pairs, len(x)), x, w)


_sparse_convolution("convolution", F16, 64, 64)
_sparse_convolution("convolution_wide", F16, 128, 256)
_sparse_convolution("convolution_float32", F32, 64, 64)


@case
def spconv__max_pool(device):
    call = alone("spconv_triton.pytorch._impl.pool", SPCONV).maxpool_forward
    x, pairs = n(device, 65536, 64, dtype=F16), _pairs(device, 65536, 27)
    return forward_step(lambda x: call(x, pairs, len(x)), x)


def augment():
    return alone(
        "triton_augment.functional",
        (),
        ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"),
    )


def _image(name, call, reference=None):
    @lambda make: add(f"triton_augment/{name}", make)
    def _build(device):
        module = augment()
        x = torch.rand(32, 3, 512, 512, device=device)
        return forward_step(lambda x: call(module, x), x, reference=reference)


_image("brightness", lambda m, x: m.adjust_brightness(x, 1.2), lambda x: (x * 1.2).clamp(0, 1))
_image(
    "normalise",
    lambda m, x: m.normalize(x, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
    lambda x: (x - 0.5) / 0.2,
)
_image("greyscale", lambda m, x: m.rgb_to_grayscale(x))
_image("saturation", lambda m, x: m.adjust_saturation(x, 0.7))
_image("contrast", lambda m, x: m.adjust_contrast_fast(x, 0.7))
_image("flip", lambda m, x: m.horizontal_flip(x), lambda x: x.flip(-1))
_image("crop", lambda m, x: m.center_crop(x, (128, 128)))
_image("rotation", lambda m, x: m.rotate(x, 30.0))


# tritonbench --------------------------------------------------------------------------------------
BENCH = (
    "tritonbench.operators",
    "tritonbench.utils",
    "tritonbench.kernels",
    *(
        f"tritonbench.operators.{o}"
        for o in (
            "gemm",
            "int4_gemm",
            "bf16xint16_gemm",
            "jagged_mean",
            "jagged_sum",
            "jagged_softmax",
            "sum",
            "layer_norm",
            "welford",
            "low_mem_dropout",
            "fp8_gemm",
            "grouped_gemm",
            "template_attention",
            "mixed_gemm",
        )
    ),
)


def bench(module: str):
    """The module of an operator. Some modules import functions of a GPU that they do not call
    here."""
    with mock.patch.object(torch._C, "_cuda_getCurrentRawStream", None, create=True):
        alone("tritonbench.utils.env_utils", BENCH).is_cuda = lambda: True
        return alone(f"tritonbench.operators.{module}", BENCH, ("apex",))


def _bench_matmul(name, module, function, dtype, rows=4096):
    @lambda make: add(f"tritonbench/{name}", make)
    def _build(device):
        call = getattr(bench(module), function)
        a, b = n(device, rows, 4096, dtype=dtype), n(device, 4096, 4096, dtype=dtype)
        return forward_step(lambda a, b: call(a, b), a, b, reference=lambda a, b: a @ b)


_bench_matmul("matmul", "gemm.triton_matmul", "matmul", BF16)
_bench_matmul("matmul_stream", "gemm.stream_k", "streamk_matmul", F16)


@case
def tritonbench__int4_matmul(device):
    call = bench("int4_gemm.kernel").matmul
    x, w = n(device, 1024, 4096), integers(device, 120, 4096 // 2, 4096, dtype=torch.int8)

    def reference(x):
        q = torch.stack([(w << 4) >> 4, w >> 4], 1).flatten(0, 1)
        return x @ q.double()

    return forward_step(lambda x: call(x, w), x, reference=reference)


@case
def tritonbench__int16_matmul(device):
    call = bench("bf16xint16_gemm.kernel").bf16xint16_matmul
    x, w = n(device, 2048, 4096), integers(device, 1000, 4096, 4096, dtype=torch.int16)
    return forward_step(lambda x: call(x, w), x, reference=lambda x: x @ w.double())


@case
def tritonbench__int16_transposed_matmul(device):
    call = bench("bf16xint16_gemm.kernel").bf16xint16_matmul
    x, w = integers(device, 1000, 2048, 4096, dtype=torch.int16), n(device, 4096, 4096)
    return forward_step(lambda w: call(x, w, transpose=True), w, reference=lambda w: x.double() @ w)


def _reduce(name, module, kernel, extra, mean=False):
    @lambda make: add(f"tritonbench/{name}", make)
    def _build(device):
        call = getattr(bench(f"{module}.kernels"), kernel)
        starts, rows = _starts(device, 129, 512)
        x = n(device, rows, 512, dtype=F32)

        def run(x):
            out = torch.zeros(x.shape if "softmax" in name else (129, x.shape[1]), device=device)
            call[lambda meta: (129 * (x.shape[1] // meta["BLOCK_SIZE_M"]),)](
                x, starts, out, x.shape[1], *extra
            )
            return out

        return forward_step(run, x)


_reduce(
    "jagged_sum", "jagged_sum", "triton_jagged_sum_kernel_variable_length_loop_sum_then_buffer", ()
)
_reduce(
    "jagged_sum_buffer",
    "jagged_sum",
    "triton_jagged_sum_kernel_simple_fused_buffer_then_sum",
    (512,),
)
_reduce(
    "jagged_mean",
    "jagged_mean",
    "triton_jagged_mean_kernel_variable_length_loop_buffer_then_sum",
    (),
)
_reduce(
    "jagged_softmax",
    "jagged_softmax",
    "triton_jagged_softmax_kernel_variable_length_loop_buffer_then_sum",
    (),
)


@case
def tritonbench__welford(device):
    module = bench("welford.triton_welford")
    x, w, b = n(device, 8192, 4096), n(device, 4096), n(device, 4096)

    def run(x, w, b):
        out = torch.empty_like(x)
        mean, scale = (torch.empty(len(x), 1, device=device) for _ in "ms")
        module.triton_red_fused_native_layer_norm_0[lambda meta: (-(-len(x) // meta["XBLOCK"]),)](
            scale, x, w, b, mean, out, *x.shape
        )
        return out

    return forward_step(run, x, w, b, reference=lambda x, w, b: F.layer_norm(x, w.shape, w, b))


@case
def tritonbench__attention(device):
    module = bench("template_attention.triton_attention")
    q, k, v = (n(device, 16, 16, 4096, 64, dtype=F16) for _ in "qkv")

    def run(q, k, v):
        out = torch.empty_like(q)
        module.triton_tem_fused_with_exp2[lambda meta: (q.shape[2] // meta["BLOCK_M"], 256, 1)](
            q, k, v, out, q.shape[2]
        )
        return out

    return forward_step(run, q, k, v)


# applied_ai ---------------------------------------------------------------------------------------
@case
def applied_ai__scaled_fp8_split(device):
    call = alone(
        "applied_ai.triton.inference.fp8.scaled_fp8_gemm",
        ("applied_ai.triton", "applied_ai.triton.inference", "applied_ai.triton.inference.fp8"),
    ).scaled_mm_splitk
    a, b = n(device, 64, 4096).to(FP8), n(device, 4096, 4096).to(FP8).T
    return forward_step(lambda: call(a, b), reference=lambda: a.double() @ b.double())


@case
def applied_ai__softmax(device):
    call = alone(
        "applied_ai.triton.training.fused_softmax.softmax",
        (
            "applied_ai.triton",
            "applied_ai.triton.training",
            "applied_ai.triton.training.fused_softmax",
        ),
    ).triton_softmax.apply
    return gradient_step(
        call, normal(device, 8192, 4096, dtype=F32), reference=lambda x: x.softmax(-1)
    )


def _column_major(name, version):
    @lambda make: add(f"applied_ai/{name}", make)
    def _build(device):
        module = alone(
            f"applied_ai.triton.inference.col_major_moe_gemm.{version}_moe_fused",
            (
                "applied_ai.triton",
                "applied_ai.triton.inference",
                "applied_ai.triton.inference.col_major_moe_gemm",
            ),
            ("vllm._C", "vllm._custom_ops"),
        )
        tokens, experts, k = 512, 8, 2
        x, w = (
            n(device, tokens, 4096, dtype=F16),
            n(device, experts, 4096, 4096, dtype=F16, scale=0.02),
        )
        ids = (torch.arange(tokens * k, device=device) % experts).view(tokens, k)
        order = ids.flatten().argsort(stable=True).int()
        blocks = (
            torch.arange(tokens * k // 64, device=device, dtype=torch.int32)
            * 64
            // (tokens * k // experts)
        )
        total = torch.full((1,), tokens * k, device=device, dtype=torch.int32)
        weights = torch.rand(tokens, k, device=device)
        config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}

        def run(x, w):
            out = torch.empty(tokens, k, 4096, device=device, dtype=F16)
            module.invoke_fused_moe_kernel(
                x, w, out, weights, ids, order, blocks, total, False, k, config
            )
            return out

        return forward_step(run, x, w)


_column_major("experts_row_major", "v0")
