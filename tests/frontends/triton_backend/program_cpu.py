"""Runs unmodified kernels on the CPU: dtypes, strides, several grids, an autotuned one."""

import torch
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, (tl.load(x + i, mask=i < n) + tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def transpose(x, y, xs, xt, ys, yt, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    tl.store(y + i * ys + j * yt, tl.load(x + i * xs + j * xt))


@triton.autotune([triton.Config({"B": 32}), triton.Config({"B": 64}, num_warps=2)], key=["n"])
@triton.jit
def tuned_scale(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 3, mask=i < n)


@triton.jit
def in_assembly(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.inline_asm_elementwise(
        """{ .reg .pred p; setp.gt.f32 p, $1, 1.;
             @p mov.f32 $0, $1; @!p ex2.approx.ftz.f32 $0, $1; }""",
        "=r,r", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1,
    )  # fmt: skip
    half = value.to(tl.float16)
    half = tl.inline_asm_elementwise(
        "add.rn.f16x2 $0, $1, $1;", "=r,r", [half], dtype=tl.float16, is_pure=True, pack=2
    )
    tl.store(y + i, half.to(tl.float32))


for dtype in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
    torch.int16, torch.int32, torch.int64,
):  # fmt: skip
    x, y = torch.arange(100).to(dtype), torch.zeros(100, dtype=dtype)
    double[(2,)](x[3:], y[3:], 97, B=64)
    assert torch.equal(y[3:], (x + x)[3:]), dtype
    assert (y[:3] == 0).all(), dtype

x, y = torch.randn(64, 48)[::2, ::3], torch.empty(16, 32).t()
transpose[(1,)](x, y, *x.stride(), *y.stride(), R=32, C=16)
assert torch.equal(x, y)

x, y = torch.randn(130), torch.zeros(130)
tuned_scale[lambda meta: (triton.cdiv(130, meta["B"]),)](x, y, 130)
assert torch.equal(y, x * 3)
kernel = double.warmup(torch.zeros(8), torch.zeros(8), 8, B=8, grid=(1,))
kernel._init_handles()
limits = triton.runtime.driver.active.utils.get_device_properties(0)
blocks = limits["max_num_regs"] // (kernel.n_regs * limits["warpSize"])
assert min(blocks, limits["max_shared_mem"] // kernel.metadata.shared) > 0

x, y = torch.arange(64) / 16 - 2, torch.zeros(64)
in_assembly[(1,)](x, y, B=64)
assert torch.equal(y, (2 * torch.where(x > 1, x, 2**x).half()).float())

for options in ({"waves_per_eu": 2, "matrix_instr_nonkdim": 16}, {"num_ctas": 2, "maxnreg": 64}):
    x, y = torch.randn(40), torch.zeros(40)
    double[(1,)](x, y, 40, B=64, **options)
    assert torch.equal(y, x + x), options
compiled = double[(1,)](x, y, 40, B=64, extern_libs={"libdevice": "libdevice.bc"})
assert [*map(tuple, compiled.metadata.extern_libs)] == [("libdevice", "libdevice.bc")]
try:
    double[(1,)](x, y, 40, B=64, num_warps=3)
except AssertionError as error:
    assert "must be a power of 2" in str(error), error
else:
    raise SystemExit("3 warps were accepted")
print("all right")
