"""gemlite and bitsandbytes: matmuls with weights of few bits, quantization, and optimizers with
8-bit states."""
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from functools import partial
from importlib import import_module

import torch  # type: ignore[import-not-found]
from alone import alone
from cases import BF16, F16, F32, add, forward_step, tensor

FP8 = torch.float8_e4m3fn


n = partial(tensor, dtype=F16)


# gemlite ------------------------------------------------------------------------------------------
def _multiply(linear, kind):
    """The result of the layer, computed by a kernel of kind `kind`."""
    core = import_module("gemlite.core")
    operator = core.forward_functional
    operator = getattr(operator, "_init_fn", operator)
    number = core.GEMLITE_MATMUL_TYPES_MAPPING[kind]
    return lambda x: operator(x, linear.bias, linear.get_tensor_args(), linear.get_meta_args(),
                              number)  # fmt: skip


def _few_bits(name, kind, rows, bits, group=64, dtype=F16):
    """Register a case with weights of few bits, and a scale and a zero point for each group."""

    @lambda make: add(f"gemlite/{name}", make)
    def _build(device):
        helper = import_module("gemlite.helper")
        columns = k = 4096
        w = torch.randint(2**bits, (columns, k), device=device, dtype=torch.uint8)
        scales = torch.rand(columns * k // group, 1, device=device).to(dtype) / 50
        zeros = torch.full_like(scales, (2**bits - 1) / 2)
        wide = (w.view(-1, group).double() - zeros.double()) * scales.double()
        linear = helper.A16Wn(device, dtype).from_weights(w, scales, zeros, bits, group)
        return forward_step(
            _multiply(linear, kind), n(device, rows, k, dtype=dtype),
            reference=lambda x: x @ wide.view(columns, k).t(),
        )  # fmt: skip


for _bits in (1, 2, 4, 8):
    _few_bits(f"gemm_w{_bits}", "GEMM", 1024, _bits)
    _few_bits(f"gemv_w{_bits}", "GEMV", 1, _bits)
_few_bits("gemm_w4_wide_groups", "GEMM", 4096, 4, 128)
_few_bits("gemm_w4_bf16", "GEMM", 1024, 4, 64, BF16)
_few_bits("gemm_split_k_w4", "GEMM_SPLITK", 16, 4)
_few_bits("gemm_split_k_w2", "GEMM_SPLITK", 16, 2)
_few_bits("gemv_split_k_w4", "GEMV_SPLITK", 1, 4)
_few_bits("gemv_rev_split_k_w4", "GEMV_REVSPLITK", 1, 4)
_few_bits("gemv_rev_split_k_w2", "GEMV_REVSPLITK", 1, 2)


def _eight_bits(name, kind, rows, processor, dtype=BF16):
    """Register a case with 8-bit weights. Activations are quantized if `processor` requests it."""

    @lambda make: add(f"gemlite/{name}", make)
    def _build(device):
        helper = import_module("gemlite.helper")
        w = n(device, 4096, 4096, dtype=dtype, scale=0.05)
        linear = getattr(helper, processor)(device=device, dtype=dtype).from_weights(w)
        return forward_step(_multiply(linear, kind), n(device, rows, 4096, dtype=dtype))


for _processor, _label in (
    ("A16W8_INT8", "a16_int8"), ("A16W8_FP8", "a16_fp8"), ("A8W8_int8_dynamic", "int8"),
    ("A8W8_fp8_dynamic", "fp8"),
):  # fmt: skip
    _eight_bits(f"gemm_{_label}", "GEMM", 1024, _processor)
    _eight_bits(f"gemm_split_k_{_label}", "GEMM_SPLITK", 16, _processor)
_eight_bits("gemv_a16_int8", "GEMV_REVSPLITK", 1, "A16W8_INT8")


# bitsandbytes -------------------------------------------------------------------------------------
def bitsandbytes(module="ops"):
    return alone(f"bitsandbytes.backends.triton.{module}", ("bitsandbytes.backends",))


def case(make):
    add(f"bitsandbytes/{make.__name__}", make)
    return make


def _code(device):
    """256 increasing values in [-1, 1]."""
    return torch.linspace(-1, 1, 256, device=device).sign() * torch.linspace(
        -1, 1, 256, device=device
    ).abs().pow(3)


@case
def quantize_blockwise(device):
    module, code = bitsandbytes(), _code(device)
    return forward_step(lambda x: module.quantize_blockwise(x, code, 128 + 128),
                        n(device, 4096, 4096, dtype=F32))  # fmt: skip


@case
def dequantize_blockwise(device):
    module, code = bitsandbytes(), _code(device)
    q = torch.randint(255, (4096, 4096), device=device, dtype=torch.uint8)
    scales = torch.rand(4096 * 4096 // 128, device=device)
    return forward_step(
        lambda q, s: module.dequantize_blockwise(q, s, code, 128, BF16), q, scales,
        reference=lambda q, s: (code.double()[q.long()].view(-1, 128) * s[:, None]).view_as(q),
    )  # fmt: skip


def _four_bits(kind):
    @lambda make: add(f"bitsandbytes/quantize_{kind}", make)
    def _quantize(device):
        module = bitsandbytes()
        return forward_step(lambda x: module.quantize_4bit(x, 64, kind, torch.uint8),
                            n(device, 4096, 4096, dtype=BF16))  # fmt: skip

    @lambda make: add(f"bitsandbytes/dequantize_{kind}", make)
    def _dequantize(device):
        module = bitsandbytes()
        q = torch.randint(255, (4096 * 4096 // 2, 1), device=device, dtype=torch.uint8)
        scales = torch.rand(4096 * 4096 // 64, device=device)
        return forward_step(
            lambda q, s: module.dequantize_4bit(q, s, 64, kind, (4096, 4096), BF16), q, scales
        )


_four_bits("nf4")
_four_bits("fp4")


def _optimiser(name):
    @lambda make: add(f"bitsandbytes/{name}_32bit", make)
    def _wide(device):
        module = bitsandbytes()
        g, p = n(device, 4096, 4096, dtype=BF16), n(device, 4096, 4096, dtype=BF16)
        states = [torch.rand(4096, 4096, device=device) for _ in range(2)]

        def run(g, p, a, b):
            p, a, b = p.clone(), a.clone(), b.clone()
            module.optimizer_update_32bit(
                name, g, p, a, b, None, 0.0, 0.0, 0.9, 0.99, 0.999, 0.5, 1e-8, 0.01, 2, 1e-3, 1.0
            )
            return p, a, b

        return forward_step(run, g, p, *states)

    @lambda make: add(f"bitsandbytes/{name}_8bit", make)
    def _narrow(device):
        module, code = bitsandbytes(), _code(device)
        positive = torch.linspace(0, 1, 256, device=device) ** 2
        g, p = n(device, 4096, 4096, dtype=BF16), n(device, 4096, 4096, dtype=BF16)
        states = [torch.randint(255, (4096, 4096), device=device, dtype=torch.uint8)
                  for _ in range(2)]  # fmt: skip
        scales = [torch.rand(4096 * 4096 // (128 + 128), device=device) for _ in range(2)]

        def run(g, p, a, b, s, t):
            p, a, b, s, t = (x.clone() for x in (p, a, b, s, t))
            module.optimizer_update_8bit_blockwise(
                name, g, p, a, b, 0.9, 0.99, 0.999, 0.5, 1e-8, 2, 1e-3, code, positive, s, t, 0.01,
                1.0,
            )  # fmt: skip
            return p, s, t

        return forward_step(run, g, p, *states, *scales)


_optimiser("adam")
_optimiser("lion")
_optimiser("momentum")
