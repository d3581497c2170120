"""Programs of torch.compile on tensors of every type, shape and stride, and with random numbers.
The expected results are those of the uncompiled programs."""
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F32, F64, normal
from cases_compiled import flags, gradients, i, program, x

# Types --------------------------------------------------------------------------------------------
for kind in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
    short = str(kind).split(".")[1]
    program(
        f"integers_{short}",
        lambda a, b: (
            a + b,
            a * b,
            a - b,
            a // b,
            a % b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a << 2,
            a >> 1,
            a.abs(),
            a.clamp(3, 60),
            a.float() / b,
            a.sum(),
            a.amax(0),
            a.prod(1),
            torch.maximum(a, b),
            a == b,
            torch.div(a, b, rounding_mode="trunc"),
            torch.fmod(a, b),
            a.cumsum(1),
            a.bool(),
            a.sign(),
        ),
        i(120, 13, 21, dtype=kind),
        i(90, 13, 21, dtype=kind, low=1),
    )
program(
    "signed_division",
    lambda a, b: (
        a // b,
        a % b,
        torch.div(a, b, rounding_mode="trunc"),
        torch.fmod(a, b),
        torch.gcd(a, b),
        torch.remainder(a, -b),
        a.float() // b,
        torch.bitwise_right_shift(a, 2),
        -a,
    ),
    i(50, 71, low=-50, dtype=torch.int32),
    i(12, 71, low=1, dtype=torch.int32),
)
program(
    "bools",
    lambda a, b: (
        a & b,
        a | b,
        a ^ b,
        ~a,
        a.any(0),
        a.all(1),
        a.sum(1),
        a.float().mean(),
        torch.where(a, 1, b),
        a.int().argmax(1),
        a.cumsum(0),
        a * b,
        a > b,
    ),
    flags(11, 17),
    flags(11, 17),
)
for kind in (F16, BF16, F64):
    short = str(kind).split(".")[1]
    program(
        f"floats_{short}",
        lambda a, b: (
            a + b,
            a * b,
            a / b,
            a.exp(),
            a.sigmoid(),
            a.softmax(-1),
            a.sum(0),
            a.mean(),
            a.var(1),
            torch.maximum(a, b),
            a.floor(),
            a.round(),
            a.trunc(),
            a.frac(),
            a.to(torch.float32),
            F.gelu(a),
            F.softplus(a),
            F.mish(a),
            a.abs().sqrt(),
            a.abs().pow(0.7),
            a % b,
            a.argmax(),
            a.amin(0),
            torch.hypot(a, b),
            torch.lerp(a, b, 0.25),
            torch.addcmul(a, a, b),
            a.sinh(),
        ),
        x(14, 27, dtype=kind),
        x(14, 27, dtype=kind),
    )
program(
    "float8",
    lambda a: (
        a.to(torch.float8_e4m3fn).float(),
        (a * 4).to(torch.float8_e5m2).float(),
    ),
    x(9, 33),
)
program(
    "special_values",
    lambda a: (
        a.isnan(),
        a.isinf(),
        a.nan_to_num(),
        a.max(),
        a.argmax(),
        a.sum(),
        a.sort().values,
        a.nansum(),
        torch.fmax(a, a.flip(0)),
        torch.maximum(a, a.flip(0)),
        a.relu(),
        a.clamp(-1, 1),
        a.sign(),
        a.signbit(),
        a.copysign(a.flip(0)),
        a.round(),
        a.softmax(0),
        a.cummax(0),
        a.tanh(),
        a.int(),
    ),
    lambda d: torch.tensor(
        [0.0, -0.0, 1.5, -2.5, float("inf"), float("-inf"), float("nan"), 1e-40, 3e38], device=d
    ),
)
program(
    "conversions",
    lambda a, b: (
        a.to(torch.int8),
        a.to(torch.uint8).float(),
        a.to(BF16),
        a.to(F16).to(F32),
        a.bool(),
        a.to(torch.int64),
        a.double().sin(),
        b.float(),
        b.to(F16),
        b.view(F32),
        a.view(torch.int32),
    ),
    lambda d: torch.rand(6, 29, device=d) * 100,
    i(1 << 20, 6, 29, dtype=torch.int32),
)
program(
    "special_functions",
    lambda a: (
        a.digamma(),
        torch.special.i0(a),
        torch.special.i1e(a),
        a.erfc(),
        torch.special.erfcx(a),
        torch.special.ndtri(a.sigmoid()),
        torch.special.bessel_j0(a),
        a.sinc(),
        a.logit(1e-3),
        a.asinh(),
        (a.abs() + 1).acosh(),
        a.tanh().atanh(),
        torch.special.xlog1py(a, a.abs()),
        torch.polygamma(1, a.abs() + 1),
        torch.special.zeta(a.abs() + 2, a.abs() + 1),
        a.exp2(),
        a.log2(),
        torch.igamma(a.abs() + 1, a.abs()),
        torch.nextafter(a, a + 1),
        torch.ldexp(a, a),
        *torch.frexp(a),
    ),
    x(7, 31),
)

# Quantisation and signals -------------------------------------------------------------------------
program(
    "quantise_rows",
    lambda a, w: _int8_linear(a, w),
    x(9, 48),
    i(60, 24, 48, dtype=torch.int8, low=-60),
)
program("quantise_groups", lambda a: _groups(a, 16), x(6, 64))
program(
    "unpack_4_bits",
    lambda p, s: (torch.stack([p & 15, p >> 4], -1).view(8, -1).float() - 8) * s[:, None],
    i(256, 8, 20, dtype=torch.uint8),
    x(8),
)
program(
    "fake_quantise",
    lambda a: torch.fake_quantize_per_tensor_affine(a, 0.05, 3, -128, 127),
    x(9, 31),
)
gradients(
    "filter",
    lambda a, k: (
        F.conv1d(a[:, None], k[None, None], padding="same")[:, 0],
        (a[:, 1:] - 0.97 * a[:, :-1]).abs().log1p(),
        a.unfold(1, 8, 3).mul(torch.hann_window(8)).square().sum(-1),
    ),
    x(3, 50),
    x(5),
)


def _int8_linear(a, w):
    scale = a.abs().amax(-1, keepdim=True) / 127
    whole = (a / scale).round().clamp(-128, 127).to(torch.int8)
    return (whole.int() @ w.T.int()).float() * scale


def _groups(a, size):
    parts = a.view(a.shape[0], -1, size)
    low, high = parts.amin(-1, keepdim=True), parts.amax(-1, keepdim=True)
    scale = (high - low) / 15
    whole = ((parts - low) / scale).round().to(torch.uint8).view(a.shape[0], -1)
    return whole[:, ::2] | whole[:, 1::2] << 4, scale.half(), low.half()


# Random numbers -----------------------------------------------------------------------------------
gradients("dropout", lambda a: F.dropout(a, 0.3).sin(), x(13, 37))
program(
    "noise",
    lambda a: (
        a + torch.randn_like(a),
        torch.rand_like(a),
        torch.randint_like(a, 9),
        torch.bernoulli(a.sigmoid()),
    ),
    x(9, 21),
)

# Shapes and strides -------------------------------------------------------------------------------
program(
    "empty",
    lambda a, b: (a + 1, a.sum(0), torch.cat([a, b]), a.any(), b.mean(0), a.softmax(-1)),
    x(0, 7),
    x(3, 7),
)
program(
    "one_element",
    lambda a, b: (a + b, a.sum(), a.softmax(-1), a.argmax(), a.var(unbiased=False), b * 2),
    x(1),
    x(1, 1, 1),
)
program(
    "scalars",
    lambda a, b, s: (a * s, a + b, b.exp(), a.pow(s), torch.where(a > s, a, b)),
    x(7),
    lambda d: torch.tensor(0.5, device=d),
    lambda d: 3,
)
program(
    "strides",
    lambda a, b, c, e: (a + b, a * c, a.sum(0), b.softmax(1), e.exp() + a[0], c.contiguous()),
    lambda d: normal(d, 14, 9, dtype=F32, grad=False).t(),
    lambda d: normal(d, 18, 28, dtype=F32, grad=False)[::2, 1::2],
    lambda d: normal(d, 9, 1, dtype=F32, grad=False).expand(9, 14),
    lambda d: normal(d, 29, dtype=F32, grad=False)[1::2],
)
program(
    "channels_last",
    lambda a: (F.relu(a) + 1, a.mean((2, 3)), F.max_pool2d(a, 2), a.permute(0, 2, 3, 1) * 2),
    lambda d: normal(d, 2, 5, 8, 6, dtype=F32, grad=False).to(memory_format=torch.channels_last),
)
program(
    "many_dimensions",
    lambda a, b: ((a + b).sum((1, 3)), (a * b).permute(5, 3, 1, 0, 2, 4).contiguous()),
    x(2, 3, 4, 2, 3, 5),
    x(3, 1, 2, 1, 5),
)
program("in_place", lambda a, b: _in_place(a.clone(), b.clone()), x(8, 11), x(8, 11))
program(
    "in_place_arguments",
    lambda a, b: (a.add_(b).mul_(2), b[1:].copy_(a[:-1]), a, b),
    x(8, 11),
    x(8, 11),
)
program(
    "dynamic",
    lambda a, b: (
        F.layer_norm(a @ b, (b.shape[1],)),
        a.softmax(-1),
        a.sum(0),
        a[:, : a.shape[1] // 2],
    ),
    x(5, 7),
    x(7, 9),
    calls=[(x(12, 31), x(31, 3)), (x(1, 100), x(100, 65))],
    dynamic=True,
)
gradients(
    "dynamic_gradients", lambda a: F.gelu(a.view(-1, a.shape[-1])).std(0), x(3, 5, 17), dynamic=True
)
program(
    "splits",
    lambda a: (
        *a.split([3, 4, 10], 1),
        *a.chunk(3),
        torch.stack([a, a], 1),
        a.repeat(2, 3),
        a.unfold(1, 4, 2).sum(-1),
        a.repeat_interleave(2, 0),
        a.tile(1, 2),
        torch.cat([a, a[:, :0]], 1),
    ),
    x(6, 17),
)
program(
    "large_reductions",
    lambda a: (a.sum(), a.mean(1), a.amax(), a.norm(), a.var(), a.argmin(), a.prod(1)),
    x(3, 100003, scale=0.1),
)
program(
    "meshes",
    lambda a, b: (
        torch.meshgrid(a, b, indexing="ij")[0] + b,
        torch.linspace(0, 1, 33),
        torch.arange(3, 40, 5) + a[0],
        torch.eye(7) * 2,
        torch.full((5, 3), 1.5),
        F.one_hot(a.abs().long(), 6),
        torch.cartesian_prod(a[:3], b[:2]),
    ),
    x(9),
    x(11),
)


def _in_place(a, b):
    a[2:5] += 1
    a[:, 3] = b[:, 0]
    b.mul_(a).clamp_(-1, 1)
    a.masked_fill_(a < 0, 0.5)
    a[0, 0] = 7
    b[b > 0.5] = 0
    return a, b, a.t() + b.t()


# User-written control -----------------------------------------------------------------------------
program("newton", lambda a: _newton(a), lambda d: torch.rand(57, device=d) + 0.5)
program("mandelbrot", lambda a, b: _mandelbrot(a, b), x(9, 13), x(9, 13))
program(
    "complex_by_hand",
    lambda a, b, c, d: (a * c - b * d, a * d + b * c, torch.atan2(b, a)),
    *(x(33) for _ in range(4)),
)


def _newton(a):
    root = a
    for _ in range(6):
        root = 0.5 * (root + a / root)
    return root


def _mandelbrot(a, b):
    u, v, count = a * 0, b * 0, torch.zeros_like(a, dtype=torch.int32)
    for _ in range(12):
        u, v = u * u - v * v + a, 2 * u * v + b
        count += (u * u + v * v < 4).int()
        u, v = u.clamp(-9, 9), v.clamp(-9, 9)
    return count
