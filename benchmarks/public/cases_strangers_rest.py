"""Graphs, scans, weights of four bits, speculative decoding; and programs of packages
that other files know, whose kernels no other program runs: eigenvalues, matmuls in f64 by
integers, distances, caches."""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as f
from alone import alone
from cases import BF16, F16, F32, F64, add, argument, case, forward_step, integers, tensor as n
from cases_strangers_more import U8, plain, with_gradients
from cases_wider import flashlib


# eigentune ----------------------------------------------------------------------------------------
def _adapter(name, kind):
    def make(device):
        backend = import_module("eigentune.kernels.triton_backend").TritonBackend()
        x, g = n(device, 4096, 4096), n(device, 4096, 4096)
        v, u = n(device, 32, 4096, scale=0.02), n(device, 4096, 32, scale=0.02)
        w = n(device, *((32,) if kind == "diag" else (32, 32)))
        base = n(device, 4096, 4096)

        def run(x, g, v, u, w, base):
            y, q = backend.forward(x, v, u, w, kind, base)
            dx, dw = backend.backward(g, q, v, u, w, kind, True)
            return y, q, dx, dw

        return forward_step(run, x, g, v, u, w, base)

    add(f"eigentune/{name}", make)


_adapter("diagonal", "diag")
_adapter("core", "core")


# fairchem.core ------------------------------------------------------------------------------------
UMA = (
    "fairchem", "fairchem.core", "fairchem.core.models", "fairchem.core.models.uma",
    "fairchem.core.models.uma.triton",
)  # fmt: skip


def _uma(module):
    return alone(f"fairchem.core.models.uma.triton.{module}", UMA)


@case
def fairchem__gate(device):
    call = _uma("packed_gate")._packed_gate_fwd
    inputs = [n(device, 16384, c * 128, dtype=F32) for c in (5, 4, 2)]

    def run(a, b, c):
        out = [torch.empty_like(t) for t in (a[:, : 3 * 128], b, c)]
        call(a, b, c, *out, 128)
        return out

    return forward_step(run, *inputs)


def _edges(device):
    x, edges = n(device, 1024, 9, 128, dtype=F32), integers(device, 1024, 2, 16384)
    return x, edges, n(device, 16384, 9, 9, dtype=F32)


@case
def fairchem__rotate_to_edges(device):
    call = _uma("custom_ops")._kernel_node_to_edge_wigner_permute
    x, edges, rotation = _edges(device)

    def run(x, rotation):
        out, rows = (torch.empty(edges.shape[1], 9, 256, device=device) for _ in range(2))
        call(x, edges, rotation, out, rows)
        return out

    return forward_step(run, x, rotation)


@case
def fairchem__rotate_to_nodes(device):
    call = _uma("custom_ops")._kernel_permute_wigner_inv_edge_to_node
    x, rotation = n(device, 16384, 9, 128, dtype=F32), _edges(device)[2]

    def run(x, rotation):
        out, rows = torch.empty_like(x), torch.empty_like(x)
        call(x, rotation, out, rows)
        return out

    return forward_step(run, x, rotation)


# flashslice ---------------------------------------------------------------------------------------
def _slices(name, **named):
    def make(device):
        module = import_module("flashslice.kernels.slice_ops")
        x, y = n(device, 1, 16384, 8, 32, dtype=F32), n(device, 1, 16384, 8, 32, dtype=F32)
        w, bias = n(device, 64, 32, dtype=F32), n(device, 64, dtype=F32)
        tau = torch.full((8,), 0.5, device=device)

        def run(x, y, w, bias, tau):
            total, weights = module._slice_impl(x, y, w, bias, tau, 0)[:2]
            tokens = total / (weights[..., None] + 1e-5)
            return total, module._deslice_impl(x, w, bias, tau, tokens, 0)

        return forward_step(run, x, y, w, bias, tau)

    add(f"flashslice/{name}", make)


_slices("tokens")


# flashspec ----------------------------------------------------------------------------------------
@case
def flashspec__verify(device):
    call = alone("flashspec.kernels.verify_kernel", ("flashspec.kernels",)).verify_tokens
    draft, target = (n(device, 64, 8, 32000, dtype=F32).log_softmax(-1) for _ in range(2))
    u, tokens = torch.rand(64, 8, device=device), integers(device, 32000, 64, 8, dtype=torch.int64)
    return forward_step(lambda d, t: call(d, t, u, tokens), draft, target)


# grouped_nf4_gemm ---------------------------------------------------------------------------------
def _nf4(device, experts=8, rows=2048, columns=2048):
    return (
        integers(device, 256, experts, rows, columns // 2, dtype=U8),
        torch.rand(experts, rows, columns // 64, device=device),
    )


def _experts(name, rows):
    def make(device):
        call = import_module("nf4_grouped").gemm_4bit_grouped
        words, scales = _nf4(device)
        sizes, chosen = [rows] * len(words), list(range(len(words)))
        return forward_step(
            lambda x: call(x, words, scales, sizes, chosen),
            n(device, rows * len(words), words.shape[2] * 2),
        )

    add(f"grouped_nf4_gemm/{name}", make)


_experts("experts", 128)
_experts("decode", 1)


@case
def grouped_nf4_gemm__gradient(device):
    call = import_module("nf4_grouped").dgrad_4bit_grouped
    words, scales = _nf4(device)
    return forward_step(
        lambda g: call(g, words, scales, [128] * 8, list(range(8))),
        n(device, 128 * 8, words.shape[1]),
    )


def _int8_linear(name, rows):
    def make(device):
        call = import_module("dense_i8").linear_i8
        w = integers(device, 127, 4096, 4096, dtype=torch.int8)
        s = torch.rand(4096, device=device) * 0.01
        return forward_step(
            lambda x, s: call(x, w, s.float()), n(device, rows, 4096), s,
            reference=lambda x, s: x @ (w.double() * s[:, None]).T,
        )  # fmt: skip

    add(f"grouped_nf4_gemm/{name}", make)


_int8_linear("int8_row", 1)
_int8_linear("int8_rows", 16)
plain("grouped_nf4_gemm/rows_to_int8", "int4_b32:quant_x_rows", argument(4096, 4096, dtype=BF16))
plain("grouped_nf4_gemm/router", "int4_b32:router_epilogue", argument(4096, 128), 8, True)


# mingru_scans -------------------------------------------------------------------------------------
def _scan(name, function, make_inputs, reference=None):
    def make(device):
        module = import_module("mingru.triton_scans")
        return forward_step(getattr(module, function), *make_inputs(device), reference=reference)

    add(f"mingru/{name}", make)


_scan("linear", "linear_scan_fwd", lambda d: (torch.rand(8, 1024, 1024, device=d),
                                              n(d, 8, 1024, 1024, dtype=F32)))  # fmt: skip
_scan(
    "logarithms",
    "parallel_scan_log_fwd",
    lambda d: (-torch.rand(8, 1024, 1024, device=d), n(d, 8, 1024 + 1, 1024, dtype=F32)),
)
_scan(
    "matrices",
    "affine_scan_fwd",
    lambda d: (n(d, 4, 512, 64, 4, 4, dtype=F32, scale=0.4), n(d, 4, 512, 64, 4, 1, dtype=F32)),
)


# simpler_flash ------------------------------------------------------------------------------------
plain("simpler_flash/layer_norm", "simpler_flash.layer_norm:layer_norm_fn",
      argument(8192, 2048, dtype=BF16), argument(2048, dtype=BF16), argument(2048, dtype=BF16),
      reference=lambda x, w, b: f.layer_norm(x, w.shape, w, b, 1e-6))  # fmt: skip


def _causal_attention(q, k, v):
    """The result, and the logarithm of the denominators."""
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
    scores = scores + torch.full_like(scores[0, 0], float("-inf")).triu(1)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v), scores.logsumexp(-1)


plain("simpler_flash/attention", "simpler_flash.flashattention:_flash_attn_forward",
      *[argument(2, 2048, 16, 64, dtype=F16)] * 3, causal=True,
      reference=_causal_attention)  # fmt: skip


# conch --------------------------------------------------------------------------------------------
@case
def conch__write_pages(device):
    call = import_module("conch.ops.vllm.reshape_and_cache").reshape_and_cache
    k, v = (n(device, 4096, 8, 128, dtype=F16) for _ in range(2))
    slots = torch.randperm(1024 * 16, device=device)[:4096]

    def run(k, v):
        pages = [torch.zeros(1024, 16, 8, 128, device=device, dtype=F16) for _ in range(2)]
        call(k, v, *pages, slots)
        return pages

    return forward_step(run, k, v)


# flashlib -----------------------------------------------------------------------------------------
@case
def flashlib__jacobi(device):
    call = flashlib("linalg.eigh.triton.jacobi").triton_jacobi_eigh
    x = n(device, 64, 64, dtype=F32)
    return forward_step(lambda x: call(x + x.T)[0], x)


@case
def flashlib__f64_by_integers(device):
    call = flashlib("linalg.gemm.triton.ozaki1_dispatch").matmul_ozaki_int8
    return forward_step(lambda a, b: call(a, b, 7), n(device, 1024, 1024, dtype=F64),
                        n(device, 1024, 1024, dtype=F64))  # fmt: skip


@case
def flashlib__split(device):
    module = flashlib("linalg.gemm.triton.split")

    def run(a, b):
        return module.split_fp32_bf16_pair(a), module.split_fp64_tf32_pair(b)

    return forward_step(run, n(device, 2048, 2048, dtype=F32), n(device, 2048, 2048, dtype=F64))


@case
def flashlib__naive_bayes(device):
    call = flashlib("primitives.multinomial_nb.triton.nb_core").nb_count_features
    x, y = torch.rand(65536, 256, device=device), integers(device, 10, 65536, dtype=torch.int64)
    return forward_step(lambda x: call(x, y, 10), x)


# liger, torchao, trinix ---------------------------------------------------------------------------
with_gradients("liger/swiglu_of_one_tensor",
        "liger_kernel.ops.swiglu:LigerFusedGateUpSiLUMulFunction.apply",
        argument(4096, 2 * 4096, dtype=BF16))  # fmt: skip


@case
def torchao__quantise_heads(device):
    call = import_module("torchao.prototype.fp8_sdpa_inference.fp8_sdpa_quantization")
    q, k, v = (n(device, 2, 16, 4096, 128) for _ in range(3))
    return forward_step(lambda q, k, v: call.qkv_quantize_func(q, k, v), q, k, v)


@case
def trinix__adamw(device):
    call = import_module("trinix.kernels.adamw_kernel").TritonAdamWKernel.apply
    p, g, m, v = (torch.rand(1 << 24, device=device) for _ in range(4))

    def run(p, g, m, v):
        p, m, v = p.clone(), m.clone(), v.clone()
        call(p, g, m, v, 1e-3, 0.9, 0.999, 1e-8, 0.01, 3)
        return p, m, v

    return forward_step(run, p, g, m, v)
