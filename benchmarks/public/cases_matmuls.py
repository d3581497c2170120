"""Matmuls in several forms, tiles, numbers of warps and element types, with the kernels of
`matmul_kernels.py`."""
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
from cases import BF16, F16, F32, F64, Step, add

F8 = torch.float8_e4m3fn


def _operands(device, a_shape, b_shape, dtype):
    if dtype is torch.int8:
        return [torch.randint(-128, 128, s, device=device, dtype=dtype) for s in (a_shape, b_shape)]
    return [torch.randn(*s, device=device).to(dtype) for s in (a_shape, b_shape)]


def _grid(size, block):
    (m, n, _), (rows, columns, _) = size, block
    return -(-m // rows), -(-n // columns)


def _by_strides(name, size, block, warps, stages, dtype=F16, layout="nn", epilogue="", out=None):
    """Register a case. `layout` states for A and for B whether it is transposed in memory."""

    def build(device):
        from matmul_kernels import matmul

        m, n, k = size
        shapes = [
            (x[::-1] if t == "t" else x) for x, t in zip(((m, k), (k, n)), layout, strict=True)
        ]
        a, b = _operands(device, *shapes, dtype)
        a, b = a.t() if layout[0] == "t" else a, b.t() if layout[1] == "t" else b
        kind = out or (torch.int32 if dtype is torch.int8 else F16 if dtype is F8 else dtype)
        c = torch.empty(m, n, device=device, dtype=kind)
        more = torch.randn((m, n) if epilogue == "residual" else (n,), device=device).to(kind)
        down, right = _grid(size, block)

        def run():
            matmul[(down * right,)](
                a, b, c, more, m, n, k, *a.stride(), *b.stride(), *c.stride(), *block, 8, epilogue,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [c]

        def exact():
            total = a.to(F64) @ b.to(F64)
            if epilogue == "relu":
                total = (total + more.to(F64)).clamp(min=0)
            if epilogue == "residual":
                total = total * 0.5 + more.to(F64)
            return [total]

        return Step(run, exact)

    add(f"matmuls/{name}", build)


def _plain(name, kernel, size, block, warps, stages, batches=0, split=0, programs=0):
    def build(device):
        import matmul_kernels

        m, n, k = size
        lead = (batches,) if batches else ()
        a, b = _operands(device, (*lead, m, k), (*lead, k, n), BF16)
        c = torch.zeros(*lead, m, n, device=device, dtype=F32 if split else BF16)
        down, right = _grid(size, block)
        grid = (programs,) if programs else (down, right, batches or split)
        last = (split,) if split else (8, programs) if programs else ()

        def run():
            c.zero_()
            getattr(matmul_kernels, kernel)[grid](
                a, b, c, m, n, k, *block, *last, num_warps=warps, num_stages=stages
            )
            return [c]

        return Step(run, lambda: [a.to(F64) @ b.to(F64)])

    add(f"matmuls/{name}", build)


LARGE = 4096, 4096, 4096
_by_strides("f16_4_warps", LARGE, (128, 128, 64), 4, 3)
_by_strides("f16_4_stages", LARGE, (128, 128, 64), 4, 4)
_by_strides("f16_8_warps", LARGE, (128, 128, 64), 8, 3)
_by_strides("f16_wide", LARGE, (128, 256, 64), 8, 3)
_by_strides("f16_small_tiles", (2048, 2048, 2048), (64, 64, 32), 4, 4)
_by_strides("f32_result", LARGE, (128, 128, 64), 8, 3, out=F32)
_by_strides("bf16_transposed_b", LARGE, (128, 128, 64), 4, 3, BF16, "nt")
_by_strides("bf16_transposed_a", LARGE, (128, 128, 64), 8, 3, BF16, "tn")
_by_strides("odd_k", (2048, 2048, 2050), (128, 128, 64), 4, 3)
_by_strides("f8", LARGE, (128, 128, 128), 8, 3, F8, "nt")
_by_strides("int8", LARGE, (128, 128, 128), 8, 3, torch.int8, "nt")
_by_strides("bias_relu", LARGE, (128, 128, 64), 8, 3, BF16, "nn", "relu")
_by_strides("residual", LARGE, (128, 256, 64), 8, 3, BF16, "nn", "residual")
_plain("batched", "matmul_of_batches", (512, 512, 256), (128, 128, 32), 4, 3, batches=64)
_plain("split_k", "split_k", (256, 1024, 8192), (64, 128, 64), 4, 4, split=8)
_plain("persistent", "persistent", LARGE, (128, 128, 64), 8, 3, programs=132)
for _layout in ("nn", "nt", "tn", "tt"):
    _by_strides(f"bf16_{_layout}_wide_4_warps", LARGE, (64, 256, 32), 4, 4, BF16, _layout)
    _by_strides(f"f16_{_layout}_64", (2048, 2048, 2048), (64, 64, 64), 4, 3, F16, _layout)
    _by_strides(f"f32_{_layout}", (2048, 2048, 2048), (128, 128, 32), 8, 3, F32, _layout)
    _by_strides(f"f8_{_layout}_128x64", (4096, 2048, 2048), (128, 64, 64), 4, 4, F8, _layout)
    _by_strides(
        f"int8_{_layout}_64x128", (2048, 4096, 2048), (64, 128, 128), 4, 3, torch.int8, _layout
    )
_by_strides("f16_2_stages", LARGE, (128, 128, 32), 4, 2)
_by_strides("f16_5_stages", LARGE, (128, 128, 32), 8, 5)
_by_strides("f16_256x128", LARGE, (256, 128, 64), 8, 3)
_by_strides("f16_256x64", LARGE, (256, 64, 32), 4, 4)
_by_strides("f16_128x32", (4096, 1024, 4096), (128, 32, 64), 4, 4)
_by_strides("f16_32x64", (1024, 1024, 4096), (32, 64, 64), 4, 5)
_by_strides("f16_32x128_2_warps", (1024, 1024, 4096), (32, 128, 32), 2, 4)
_by_strides("f16_16x256", (16, 4096, 4096), (16, 256, 64), 4, 3, F16, "nt")
_by_strides("f16_odd_everything", (1999, 2001, 2003), (128, 128, 32), 4, 3)
_by_strides("f16_k_not_of_blocks", (2048, 2048, 2072), (128, 128, 64), 8, 4)
_by_strides("f8_wide", LARGE, (128, 256, 128), 8, 3, torch.float8_e5m2, "nt", out=F16)
_by_strides("f32_4_warps", (2048, 2048, 2048), (64, 128, 32), 4, 4, F32)
