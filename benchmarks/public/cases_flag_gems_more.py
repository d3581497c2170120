"""FlagGems: further operators, including gradients and in-place operators, compared with
torch's."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import F16, F32, F64, add, forward_step, integers, normal
from cases_flag_gems import gems

aten = torch.ops.aten


def case(name, reference, *makers, function=None, exactly=False, **named):
    """Register a case of the operator `function` on the results of `makers` (a maker that is not
    callable is an argument itself), compared with `reference` on the same arguments. Both get
    copies."""

    def build(device):
        inputs = [m(device) if callable(m) else m for m in makers]

        def on_copies(call):
            return lambda *a, **k: call(*map(_copy, a), **k)

        operator = on_copies(lambda *a, **k: getattr(gems(), function or name)(*a, **k))
        return forward_step(
            operator, *inputs, reference=on_copies(reference), exactly=exactly, **named
        )

    add(f"flag_gems/more_{name}", build)


def _copy(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_copy(v) for v in value] if isinstance(value, list) else value


def x(*shape, dtype=F32, scale=1.0):
    return lambda device: normal(device, *(shape or (37, 83)), dtype=dtype, grad=False, scale=scale)


def positive(*shape, dtype=F32):
    return lambda device: torch.rand(*(shape or (37, 83)), device=device).to(dtype) + 0.1


def fraction(device):
    return torch.rand(37, 83, device=device) * 0.98 + 0.01


def i(high, *shape, dtype=torch.int64, low=0):
    return lambda device: integers(device, high - low, *(shape or (37, 83)), dtype=dtype) + low


def flags(*shape):
    return lambda device: torch.rand(*(shape or (37, 83)), device=device) > 0.4


# Elementwise, in place ----------------------------------------------------------------------------
for name in (
    "abs_", "asinh_", "arcsinh_", "atan_", "ceil_", "cos_", "cosh_", "erf_", "exp_", "exp2_",
    "expm1_", "floor_", "i0_", "neg_", "relu_", "round_", "sgn_", "sigmoid_", "sin_", "sinh_",
    "square_", "tan_", "tanh_", "zero_",
):  # fmt: skip
    case(name, getattr(torch.Tensor, name), x())
for name in ("celu_", "elu_", "selu_"):
    case(name, getattr(F, name), x())
for name in ("gelu_", "hardswish_", "silu_"):
    case(name, getattr(F, name[:-1]), x())
for name in ("log10_", "reciprocal_", "rsqrt_", "sqrt_", "logit_", "arctanh_"):
    case(name, getattr(torch.Tensor, name), fraction)
for name in ("add_", "sub_", "mul_", "logical_and_", "logical_or_"):
    case(name, getattr(torch.Tensor, name), x(), x())
for name in ("true_divide_", "remainder_", "floor_divide_"):
    case(name, getattr(torch.Tensor, name), x(), positive())
for name in ("bitwise_and", "bitwise_or"):
    method = getattr(torch.Tensor, name + "_")
    for kind, other in {"tensor": i(99), "scalar": 29}.items():
        case(f"{name}_{kind}_", method, i(99), other, exactly=True)
case("bitwise_not_", torch.Tensor.bitwise_not_, i(99), exactly=True)
case("pow_tensor_scalar_", torch.Tensor.pow_, x(), 3)
case("pow_tensor_tensor_", torch.Tensor.pow_, positive(), x())
case("clamp_", torch.Tensor.clamp_, x(), -0.5, 0.5)
case("clamp_min_", torch.Tensor.clamp_min_, x(), -0.5)
case("clip_", torch.Tensor.clip_, x(), -0.5, 0.5)
case("clamp_tensor_", torch.Tensor.clamp_, x(), x(scale=0.1), positive())
case("lerp_scalar_", torch.Tensor.lerp_, x(), x(), 0.3)
case("lerp_tensor_", torch.Tensor.lerp_, x(), x(), x())
case("masked_fill_", torch.Tensor.masked_fill_, x(), flags(), 2.5)
case("fill_scalar_", torch.Tensor.fill_, x(), 2.5)

# Elementwise --------------------------------------------------------------------------------------
for name in ("eq", "ge", "greater", "gt", "le", "lt", "ne"):
    case(f"{name}_scalar", getattr(torch, name), i(9, dtype=torch.int32), 4, exactly=True)
for name in ("bitwise_and", "bitwise_or"):
    function = getattr(torch, name)
    case(f"{name}_scalar", function, i(99), 29, exactly=True)
    case(f"{name}_scalar_tensor", function, 29, i(99), exactly=True)
for name in ("absolute", "conj_physical", "contiguous", "zero", "ones_like"):
    like = {"contiguous": torch.Tensor.contiguous, "zero": torch.zeros_like}
    case(name, like.get(name) or getattr(torch, name), x())
for rounding in ("trunc", "floor"):
    case(
        "div_mode" if rounding == "trunc" else "div_mode_", torch.div, i(999, low=-999),
        i(30, low=1), rounding_mode=rounding,
    )  # fmt: skip
case("greater", torch.greater, x(), x(), exactly=True)
case("logical_xor", torch.logical_xor, flags(), flags(), exactly=True)
case("pow_scalar", torch.pow, 1.7, x())
case("clamp_min", torch.clamp_min, x(), 0.2)
case("clamp_tensor", torch.clamp, x(), x(scale=0.1), positive())
case("clip", torch.clip, x(), -0.5, 0.5)
case("lerp_tensor", torch.lerp, x(), x(), x())
case("logit", torch.logit, fraction)
case("where_scalar_other", torch.where, flags(), x(), 2.5)
case("where_scalar_self", torch.where, flags(), 2.5, x())
case("constant_pad_nd", F.pad, x(5, 9, 11), [1, 2, 3, 0], value=1.5)
case("resolve_neg", torch.resolve_neg, x())

# Reductions and scans -----------------------------------------------------------------------------
case("var", torch.var, x())
case("var_dim", torch.var, x(), [1])
case("all_dims", torch.all, flags(7, 9, 11), [0, 2])
case("any_dims", torch.any, flags(7, 9, 11), [0, 2])
case("normed_cumsum", lambda a: a.cumsum(-1) / a.sum(-1, keepdim=True), positive(5, 300))
case("_safe_softmax", lambda a, d: torch.softmax(a, d), x(19, 301), -1)
case(
    "scaled_softmax_forward", lambda a, s: torch.softmax(a * s, -1), x(2, 3, 32, 64, dtype=F16), 0.5
)
case("_unique2", lambda a, **_: a.unique(sorted=True), i(99, 5000), sorted=True)
case("isin", torch.isin, i(99, 500), i(99, 20), exactly=True)

# Matmuls and convolutions -------------------------------------------------------------------------
case("addmm", torch.addmm, x(50, 70), x(50, 33), x(33, 70), beta=0.5, alpha=2.0)
case("bmm", torch.bmm, x(3, 33, 40, dtype=F16), x(3, 40, 50, dtype=F16))
case("baddbmm", torch.baddbmm, x(3, 33, 50), x(3, 33, 40), x(3, 40, 50), beta=0.5)
case("mv", torch.mv, x(33, 70), x(70))
case(
    "conv3d", F.conv3d, x(2, 3, 9, 9, 9, dtype=F16), x(4, 3, 3, 3, 3, dtype=F16), None, 1, 1
)  # fmt: skip
case("conv2d_strided", F.conv2d, x(2, 8, 17, 19), x(6, 8, 3, 3), x(6), 2, 1, function="conv2d")
case("conv2d_groups", F.conv2d, x(2, 8, 17, 19), x(6, 4, 3, 3), x(6), 1, 1, 1, 2, function="conv2d")

# Gradients ----------------------------------------------------------------------------------------
case("elu_backward", aten.elu_backward, x(), 1.0, 1.0, 1.0, False, x())
case("threshold_backward", aten.threshold_backward, x(), x(), 0.1)
case("glu_backward", aten.glu_backward, x(37, 40), x(37, 80), 1)
case("log_softmax_backward",
     lambda g, y, d, _: aten._log_softmax_backward_data(g, y, d, y.dtype),
     x(), lambda d: x()(d).log_softmax(1), 1, F32)  # fmt: skip
case("embedding_backward",
     lambda g, k, n, p, s, _: aten.embedding_dense_backward(g, k, n, p, s),
     x(64, 32), i(20, 64), 20, -1, False, False)  # fmt: skip
case("embedding_dense_backward", aten.embedding_dense_backward, x(64, 32), i(20, 64), 20, -1, False)
case("select_backward", aten.select_backward, x(5, 7), [5, 9, 7], 1, 3)
case("slice_backward", aten.slice_backward, x(5, 3, 7), [5, 9, 7], 1, 2, 8, 2)
case("unfold_backward", aten.unfold_backward, x(5, 4, 3), [5, 10], 1, 3, 2)
case("max_pool2d_backward",
     lambda g, a, k, *r: aten.max_pool2d_with_indices_backward(g, a, *r, k),
     x(2, 3, 8, 8), x(2, 3, 16, 16),
     lambda d: F.max_pool2d(torch.randn(2, 3, 16, 16), 2, return_indices=True)[1],
     [2, 2], [2, 2], [0, 0], [1, 1], False)  # fmt: skip
case("avg_pool2d_backward", aten.avg_pool2d_backward, x(2, 3, 8, 8), x(2, 3, 16, 16),
     [2, 2], [2, 2], [0, 0], False, True, None)  # fmt: skip
case("layer_norm_backward", aten.native_layer_norm_backward, x(16, 64), x(16, 64), [64],
     x(16, 1), positive(16, 1), x(64), x(64), [True, True, True])  # fmt: skip
case("group_norm_backward", aten.native_group_norm_backward, x(2, 8, 36), x(2, 8, 36), x(2, 4),
     positive(2, 4), x(8), 2, 8, 36, 4, [True, True, True])  # fmt: skip
case("scaled_softmax_backward",
     lambda g, y, s: aten._softmax_backward_data(g, y, -1, y.dtype) * s,
     x(2, 3, 32, 64, dtype=F16), lambda d: torch.randn(2, 3, 32, 64).softmax(-1).half(),
     0.5)  # fmt: skip

# Losses -------------------------------------------------------------------------------------------
case("margin_ranking_loss", F.margin_ranking_loss, x(99), x(99),
     lambda d: torch.randint(0, 2, (99,), device=d) * 2.0 - 1.0)  # fmt: skip
case("soft_margin_loss", F.soft_margin_loss, x(99),
     lambda d: torch.randint(0, 2, (99,), device=d) * 2.0 - 1.0)  # fmt: skip
case("nll_loss2d_forward", aten.nll_loss2d_forward, x(2, 9, 8, 8), i(9, 2, 8, 8), None, 1, -100)

# Movement -----------------------------------------------------------------------------------------
case("diagonal_backward", aten.diagonal_backward, x(7, 5), [7, 5, 5], 0, 1, 2)
case("index", lambda a, k: a[k[0]], x(), lambda d: [integers(d, 37, 20)])
case("index_add_", torch.Tensor.index_add_, x(), 0, i(37, 20), x(20, 83))
case("index_put_", torch.Tensor.index_put_, x(), lambda d: [torch.randperm(37)[:9]], x(9, 83))
case("masked_scatter", torch.masked_scatter, x(), flags(), x())
case("scatter_", torch.Tensor.scatter_, x(), 1,
     lambda d: torch.arange(20, device=d).expand(37, 20).contiguous(), x(37, 20))  # fmt: skip
case("scatter_add_", torch.Tensor.scatter_add_, x(), 1, i(83, 37, 20), x(37, 20))
case("select_scatter", torch.select_scatter, x(5, 9, 7), x(5, 7), 1, 3)
case("slice_scatter", torch.slice_scatter, x(5, 9, 7), x(5, 3, 7), 1, 2, 8, 2)
case("t_copy", torch.t, x())
case("triu_", torch.Tensor.triu_, x(37, 37))
case("repeat_interleave_tensor", torch.repeat_interleave, i(5, 40), exactly=True)
case("repeat_interleave_self_tensor", torch.repeat_interleave, x(40, 9), i(5, 40), 0)
case("reflection_pad1d", lambda a, p: F.pad(a, p, mode="reflect"), x(5, 9, 11), [2, 3])
case("reflection_pad2d", lambda a, p: F.pad(a, p, mode="reflect"), x(2, 5, 9, 11), [2, 3, 1, 4])
case("replication_pad1d", lambda a, p: F.pad(a, p, mode="replicate"), x(5, 9, 11), [2, 3])
case("replication_pad3d", lambda a, p: F.pad(a, p, mode="replicate"), x(2, 3, 5, 6, 7),
     [1, 2, 3, 0, 2, 1])  # fmt: skip
case("upsample_linear1d", lambda a, n, c: F.interpolate(a, n, mode="linear", align_corners=c),
     x(2, 3, 20), [37], False)  # fmt: skip
case("upsample_nearest1d", lambda a, n: F.interpolate(a, n), x(2, 3, 20), [37])
case("upsample_nearest3d", lambda a, n: F.interpolate(a, n), x(2, 3, 5, 6, 7), [9, 8, 13])
case("_upsample_nearest_exact1d", lambda a, n: F.interpolate(a, n), x(2, 3, 20), [37])
"""It takes the index below, as `nearest` does, and not the nearest one."""
case("_upsample_bicubic2d_aa",
     lambda a, n, c: F.interpolate(a, n, mode="bicubic", antialias=True, align_corners=c),
     x(1, 3, 20, 24), [11, 9], False)  # fmt: skip

# Constants ----------------------------------------------------------------------------------------
case("arange_start", lambda a, b, s, **k: torch.arange(a, b, s), 3, 90, 7, exactly=True)
case("full", lambda n, v, **k: torch.full(n, v), [5, 9], 2.5)
case("ones", lambda n, **k: torch.ones(n), [5, 9])
case("zeros", lambda n, **k: torch.zeros(n), [5, 9])
case("eye_m", lambda n, m, **k: torch.eye(n, m), 5, 9)
case("logspace", lambda a, b, n, **k: torch.logspace(a, b, n), 0.0, 2.0, 50)

# Fused --------------------------------------------------------------------------------------------


def _fused_case(name, reference, *makers, **named):
    """Register a case of `flag_gems.fused`."""

    def build(device):
        from importlib import import_module

        inputs = [m(device) if callable(m) else m for m in makers]
        operator = getattr(import_module("flag_gems.fused"), name)
        return forward_step(operator, *inputs, reference=reference, **named)

    add(f"flag_gems/more_fused_{name}", build)


def _halves(a):
    return a[..., : a.shape[-1] // 2], a[..., a.shape[-1] // 2 :]


def _gate_gradients(act):
    """The gradients of the gate `act(a) * b`, whose input consists of a and b side by side."""

    def gradient(g, both, *_):
        both = both.to(F64).requires_grad_()
        with torch.enable_grad():
            a, b = _halves(both)
            return torch.autograd.grad(act(a) * b, both, g.to(F64))[0]

    return gradient


_fused_case("dswiglu", _gate_gradients(F.silu), x(32, 64), x(32, 128))
_fused_case("dreglu", _gate_gradients(F.relu), x(32, 64), x(32, 128))
_fused_case(
    "dgeglu", _gate_gradients(lambda a: F.gelu(a, approximate="tanh")), x(32, 64), x(32, 128)
)
