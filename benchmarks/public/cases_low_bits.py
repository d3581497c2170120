"""onecomp_runtime, otf_llm, mase_triton, turboadam, gptq_triton and flash_swiglu_mlp: weights and
optimizer states of few bits, small floats, and a gated matmul with descriptors."""
# ruff: noqa: ANN001, ANN002, ANN201, ANN202, C408

from __future__ import annotations

from functools import partial

import torch  # type: ignore[import-not-found]
from alone import alone
from cases import BF16, F16, F32, add, forward_step, integers, tensor

n = partial(tensor, dtype=F16)


def words(device, *shape):
    """Words of eight 4-bit values each."""
    return integers(device, 2**31 - 1, *shape, dtype=torch.int32)


def nibbles(packed, dim):
    """The 4-bit values of words, unpacked along `dim`."""
    shifts = torch.arange(0, 32, 4, device=packed.device, dtype=torch.int32)
    values = (packed.unsqueeze(dim + 1) >> shifts.view((-1,) + (1,) * (1 - dim))) & 15
    return values.flatten(dim, dim + 1).double()


# onecomp_runtime and gptq_triton: weights packed along K, zeros along N -----------------------
def _add_int4(name, rows, k, columns, group, function):
    @lambda make: add(name, make)
    def _build(device):
        qweight, qzeros = words(device, k // 8, columns), words(device, k // group, columns // 8)
        scales = torch.rand(k // group, columns, device=device).to(F16) / 50
        zeros = (nibbles(qzeros, 1) + 1) % (16 if group == 32 else 32)
        wide = (nibbles(qweight, 0) - zeros.repeat_interleave(group, 0)) * scales.double(
        ).repeat_interleave(group, 0)  # fmt: skip
        return forward_step(lambda x: function(x, qweight, scales, qzeros, group),
                            n(device, rows, k), reference=lambda x: x @ wide)  # fmt: skip


def _onecomp(x, qweight, scales, qzeros, group):
    layers = alone("onecomp_runtime.layers.fused_int4_linear",
                   ("onecomp_runtime", "onecomp_runtime.layers"))  # fmt: skip
    return layers.fused_int4_gemm(x, qweight, scales, qzeros, groupsize=group)


def _gptq(x, qweight, scales, qzeros, group):
    module = alone("gptq_triton.quant_linear", ("gptq_triton",))
    return module.triton_matmul4(group, x, qweight, scales, qzeros)


for _rows, _k, _columns in (
    (120, 1280, 3680), (120, 3840, 1280), (250, 1280, 3680), (750, 1280, 3680), (2250, 1280, 3680),
):  # fmt: skip
    _add_int4(f"onecomp/int4_gemm_{_rows}_{_k}", _rows, _k, _columns, 32, _onecomp)
for _rows, _group in ((1024, 128), (16, 128), (1024, 4096)):
    _add_int4(f"gptq_triton/matmul4_{_rows}_{_group}", _rows, 4096, 4096, _group, _gptq)


# otf_llm: bytes of two values along K ---------------------------------------------------------
def _otf(name, rows):
    @lambda make: add(f"otf/{name}", make)
    def _build(device):
        function = alone("otf_llm.otf_triton_kernel", ("otf_llm",)).triton_fused_int4_linear
        packed = integers(device, 256, 4096, 2048, dtype=torch.uint8)
        scales = torch.rand(4096, 4096 // 64, device=device).to(F16) / 50
        values = torch.stack([packed & 15, packed >> 4], -1).flatten(1).double() - 8
        wide = values * scales.double().repeat_interleave(64, 1)
        return forward_step(lambda x: function(x, packed, scales), n(device, rows, 4096),
                            reference=lambda x: x @ wide.t())  # fmt: skip


_otf("int4_linear_decode", 16)
_otf("int4_linear", 512)


# mase_triton: floats of few bits, with and without a scale for each block -----------------------
MASE = ("mase_triton", "mase_triton.mxfp", "mase_triton.mxfp.kernels", "mase_triton.minifloat",
        "mase_triton.minifloat.kernels")  # fmt: skip


def mase(module):
    return alone(f"mase_triton.{module}", MASE)


def _mxfp(bits):
    exponent, fraction = bits
    meta = mase("mxfp.meta").MXFPMeta(32, 8, exponent, fraction, True, "rn")
    return meta, mase("mxfp.kernels.cast")


for _bits in ((4, 3), (2, 1)):

    @lambda make: add(f"mase/mxfp_extract_{_bits[0]}_{_bits[1]}", make)
    def _build(device, bits=_bits):
        meta, module = _mxfp(bits)
        return forward_step(lambda x: module.extract_mxfp_components(x, meta),
                            n(device, 4096 * 4096, dtype=BF16))  # fmt: skip

    @lambda make: add(f"mase/mxfp_compose_{_bits[0]}_{_bits[1]}", make)
    def _build(device, bits=_bits):
        meta, module = _mxfp(bits)
        scales = integers(device, 40, 4096 * 128, 1, dtype=torch.uint8) + 110
        elements = integers(device, 2 ** (1 + sum(bits)), 4096 * 128, 32, dtype=torch.uint8)
        return forward_step(
            lambda: module.compose_mxfp_tensor(scales, elements, meta, BF16), exactly=True
        )


@lambda make: add("mase/minifloat_extract", make)
def _build(device):
    meta = mase("minifloat.meta").MinifloatMeta(4, 3, True, "rn")
    module = mase("minifloat.kernels.cast")
    return forward_step(lambda x: module.extract_minifloat_component(x, meta),
                        n(device, 4096, 4096, dtype=F32))  # fmt: skip


# turboadam: states of optimisers whose moments have two to eight bits -------------------------
for _bits in (3, 4, 6, 8):

    @lambda make: add(f"turboadam/step_{_bits}_bits", make)
    def _build(device, bits=_bits):
        module = alone("turboadam.triton_kernels", ("turboadam",))
        count, block, part = 4096 * 2048, 256, 128
        blocks = count // block
        p, g = n(device, count, dtype=F32), n(device, count, dtype=F32, scale=0.1)
        codes = integers(device, 256, count // 4, dtype=torch.uint8)
        means = n(device, count // part, dtype=BF16)
        one = torch.full((3,), 0.5, device=device).unbind()
        second = integers(device, 256, count * bits // 8, dtype=torch.uint8)
        ends = torch.tensor([-12.0, -2.0], device=device).to(F16).repeat(blocks, 1)
        steps = dict(previous_step=9, step=10, beta1=0.9, beta2=0.999, lr=1e-3, eps=1e-8)
        sizes = dict(n_bits=bits, block_size=block, m_block_size=part, original_numel=count)
        rest = {"weight_decay": 0.01, "m_step_factor": 1.0, "m_seed": 7, "v_seed": 11}

        def step():
            states = [t.clone() for t in (p, g, codes, means, *one, second, ends)]
            module.triton_fused_ustate_adamw_step(*states, **steps, **sizes, **rest)
            return states[0]

        return forward_step(step)


# flash_swiglu_mlp ---------------------------------------------------------------------------------
def _add_gate(name, keeps, tokens):
    @lambda make: add(f"flash_swiglu/{name}", make)
    def _build(device):
        ops = alone("flash_swiglu_mlp.ops", ("flash_swiglu_mlp",))
        x = n(device, 1, tokens, 2048, dtype=BF16)
        gate, up = (n(device, 5632, 2048, dtype=BF16, scale=0.02) for _ in range(2))
        return forward_step(lambda x: ops.gemm_swiglu(x, gate, up, 1.0, keeps)[0], x)


_add_gate("gate_and_up", False, 4096)
_add_gate("gate_and_up_training", True, 4096)
