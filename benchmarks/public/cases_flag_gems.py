"""FlagGems: its operators, called directly by `forward_step`, compared with torch's operators in
f64."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202, E731

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F32, add, forward_step, integers, normal

SIZE = (4096, 4096)


def gems():
    import flag_gems  # type: ignore[import-not-found]

    return flag_gems.ops


def _case(name, make, reference=None, function=None, exactly=False, label=None, **named):
    """Register a case of the operator `name` on the result of `make(device)`."""

    def build(device):
        inputs = make(device)
        operator = lambda *a, **k: getattr(gems(), function or name)(*a, **k)
        return forward_step(operator, *inputs, reference=reference, exactly=exactly, **named)

    add(f"flag_gems/{label or name}", build)


def one(dtype=BF16, *shape, positive=False, scale=1.0):
    def make(device):
        x = normal(device, *(shape or SIZE), dtype=dtype, grad=False, scale=scale)
        return (x.abs() + 0.5 if positive else x,)

    return make


def two(dtype=BF16, *shape):
    return lambda device: tuple(
        normal(device, *(shape or SIZE), dtype=dtype, grad=False) for _ in range(2)
    )


def whole(count=1, high=1000, dtype=torch.int32):
    return lambda device: tuple(
        integers(device, high, *SIZE, dtype=dtype) + 1 for _ in range(count)
    )


# Elementwise --------------------------------------------------------------------------------------
for name, reference in {
    "abs": torch.abs, "acos": torch.acos, "angle": torch.angle, "atan": torch.atan,
    "ceil": torch.ceil,
    "cos": torch.cos, "cosh": torch.cosh, "erf": torch.erf, "exp": torch.exp, "exp2": torch.exp2,
    "expm1": torch.expm1, "isinf": torch.isinf, "isnan": torch.isnan, "isfinite": torch.isfinite,
    "log_sigmoid": F.logsigmoid, "logical_not": torch.logical_not, "neg": torch.neg,
    "relu": F.relu, "relu6": F.relu6, "round": torch.round, "sigmoid": torch.sigmoid,
    "silu": F.silu, "sin": torch.sin, "square": torch.square, "tan": torch.tan,
    "tanh": torch.tanh, "selu": F.selu, "hardsigmoid": F.hardsigmoid, "softplus": F.softplus,
    "softshrink": F.softshrink, "i0": torch.i0, "special_i0e": torch.special.i0e,
    "special_i1": torch.special.i1, "nan_to_num": torch.nan_to_num, "arcsinh": torch.asinh,
    "signbit": torch.signbit, "celu": F.celu, "elu": F.elu, "isneginf": torch.isneginf,
}.items():  # fmt: skip
    _case(
        name,
        one(F32 if name in ("acos", "angle", "i0", "special_i0e", "special_i1") else BF16),
        reference,
    )
for name, reference in {
    "log": torch.log, "log10": torch.log10, "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt,
    "sqrt": torch.sqrt, "digamma_": torch.digamma, "log1p_": torch.log1p,
}.items():  # fmt: skip
    _case(name, one(F32, positive=True), reference)
for name, reference in {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "true_divide": torch.true_divide,
    "maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2, "hypot": torch.hypot,
    "copysign": torch.copysign, "logaddexp": torch.logaddexp, "eq": torch.eq, "ge": torch.ge,
    "gt": torch.gt, "le": torch.le, "lt": torch.lt, "ne": torch.ne, "fmin": torch.fmin,
    "floor_divide": torch.floor_divide, "remainder": torch.remainder, "isclose": torch.isclose,
    "logical_and": torch.logical_and, "logical_or": torch.logical_or,
}.items():  # fmt: skip
    _case(
        name,
        two(F32 if name in ("atan2", "hypot", "remainder", "floor_divide") else BF16),
        reference,
    )
for name, reference in {
    "bitwise_and_tensor": torch.bitwise_and, "bitwise_or_tensor": torch.bitwise_or,
    "floor_divide": torch.floor_divide, "remainder": torch.remainder,
}.items():  # fmt: skip
    _case(name, whole(2, 30), reference, label=f"{name}_i32", exactly=True)
_case("bitwise_not", whole(), torch.bitwise_not, exactly=True)
_case("gelu", one(), F.gelu)
_case("gelu", one(), lambda x, **k: F.gelu(x, **k), label="gelu_tanh", approximate="tanh")
_case("pow_tensor_scalar", lambda d: (normal(d, *SIZE, dtype=F32, grad=False), 3), torch.pow)
_case("pow_tensor_tensor", lambda d: (one(F32, positive=True)(d)[0], one(F32)(d)[0]), torch.pow)
_case("clamp", lambda d: (*one()(d), -0.5, 0.5), torch.clamp)
_case("where_self", lambda d: (one()(d)[0] > 0, *two()(d)), torch.where)
_case("masked_fill", lambda d: (one()(d)[0], one()(d)[0] > 0, 2.0), torch.masked_fill)
_case("lerp_scalar", lambda d: (*two()(d), 0.3), torch.lerp)
_case("addcmul", lambda d: (*two()(d), one()(d)[0]), torch.addcmul)
_case("addcdiv", lambda d: (*two(F32)(d), one(F32, positive=True)(d)[0]), torch.addcdiv)
_case("threshold", lambda d: (*one()(d), 0.1, 2.0), F.threshold)
_case("glu", one(), F.glu)
_case("prelu", lambda d: (*one()(d), normal(d, 4096, grad=False)), F.prelu)
_case("to_copy", one(F32), lambda x, dtype: x, dtype=F16)
_case("polar", lambda d: (one(F32, positive=True)(d)[0], one(F32)(d)[0]), None)

# Reductions ---------------------------------------------------------------------------------------
for name, reference in {
    "sum": torch.sum, "mean": torch.mean, "max": torch.max, "min": torch.min, "prod": torch.prod,
    "all": torch.all, "any": torch.any, "argmax": torch.argmax, "argmin": torch.argmin,
    "amax": torch.amax, "count_nonzero": torch.count_nonzero,
    "vector_norm": torch.linalg.vector_norm,
    "trace": torch.trace,
}.items():  # fmt: skip
    _case(name, one(F32), reference, label=f"{name}_all")
for axis in (0, 1):
    for name, reference in {
        "sum_dim": torch.sum, "mean_dim": torch.mean, "amax": torch.amax, "max_dim": torch.max,
        "min_dim": torch.min, "prod_dim": torch.prod, "all_dim": torch.all, "any_dim": torch.any,
        "argmax": torch.argmax, "argmin": torch.argmin, "var_mean": torch.var_mean,
        "cumsum": torch.cumsum,
        "cummax": torch.cummax, "cummin": torch.cummin, "softmax": torch.softmax,
        "log_softmax": torch.log_softmax,
        "std": torch.std,
    }.items():  # fmt: skip
        many = name in ("sum_dim", "mean_dim", "amax", "var_mean", "std")
        rest = {"dim": [axis] if many else axis}
        if name in ("softmax", "log_softmax"):
            make = lambda d, axis=axis: (*one(F32)(d), axis, False)
            exact = lambda x, axis, _, f=reference: f(x, axis)
            _case(name, make, exact, label=f"{name}_dim{axis}")
        else:
            _case(name, one(F32, 2048, 2048), reference, label=f"{name}_dim{axis}", **rest)
_case("var_correction", one(F32), torch.var, dim=[1], correction=1)
_case("aminmax", one(F32), torch.aminmax, dim=1)
_case(
    "dot", lambda d: tuple(normal(d, 1 << 24, dtype=F32, grad=False) for _ in range(2)), torch.dot
)
_case(
    "vdot", lambda d: tuple(normal(d, 1 << 22, dtype=F32, grad=False) for _ in range(2)), torch.vdot
)
_case("mse_loss", two(F32), lambda a, b: F.mse_loss(a, b))

# Orders -------------------------------------------------------------------------------------------
_case("sort", one(F32, 1024, 1024), torch.sort, label="sort_1024")
_case(
    "sort_stable",
    lambda d: (integers(d, 1 << 30, 128, 8192, dtype=torch.int32),),
    torch.sort,
    stable=True,
)
_case("topk", lambda d: (*one(F32, 256, 8192)(d), 10), torch.topk)
_case("topk", lambda d: (*one(BF16, 64, 128256)(d), 64), None, label="topk_64")
_case("unique_consecutive", lambda d: (integers(d, 4, 1 << 20),), None)
_case(
    "isin", lambda d: (integers(d, 1000, 1 << 20), integers(d, 1000, 100)), torch.isin, exactly=True
)
_case(
    "quantile",
    lambda d: (*one(F32, 1024, 1024)(d), torch.tensor([0.3], device=d)),
    lambda x, q, dim: torch.quantile(x, q[0], dim),
    dim=1,
)

# Matmuls -----------------------------------------------------------------------------------------
for dtype in (F16, BF16, F32):
    short = str(dtype).split(".")[1]
    _case("mm", two(dtype, 2048, 2048), torch.mm, label=f"mm_{short}")
_case(
    "mm",
    lambda d: (normal(d, 16, 4096, grad=False), normal(d, 4096, 4096, grad=False)),
    torch.mm,
    label="mm_skinny",
)
_case("bmm", two(F16, 16, 512, 512), torch.bmm)
_case("addmm", lambda d: (normal(d, 2048, grad=False), *two(BF16, 2048, 2048)(d)), torch.addmm)
_case(
    "baddbmm",
    lambda d: (normal(d, 16, 512, 512, grad=False), *two(BF16, 16, 512, 512)(d)),
    torch.baddbmm,
)
_case("mv", lambda d: (normal(d, *SIZE, grad=False), normal(d, 4096, grad=False)), torch.mv)
_case(
    "addmv",
    lambda d: (
        normal(d, 4096, grad=False),
        *(normal(d, *SIZE, grad=False), normal(d, 4096, grad=False)),
    ),
    torch.addmv,
)
_case(
    "addr",
    lambda d: (one()(d)[0], normal(d, 4096, grad=False), normal(d, 4096, grad=False)),
    torch.addr,
)
_case("kron", lambda d: (normal(d, 32, 64, grad=False), normal(d, 64, 64, grad=False)), torch.kron)
_case(
    "scaled_dot_product_attention",
    lambda d: tuple(normal(d, 4, 8, 2048, 64, dtype=F16, grad=False) for _ in range(3)),
    F.scaled_dot_product_attention,
    is_causal=True,
)
_case(
    "conv2d",
    lambda d: (
        normal(d, 16, 64, 56, 56, dtype=F16, grad=False),
        normal(d, 64, 64, 3, 3, dtype=F16, grad=False),
    ),
    F.conv2d,
    padding=1,
)
_case(
    "conv1d",
    lambda d: (
        normal(d, 16, 64, 2048, dtype=F16, grad=False),
        normal(d, 64, 64, 3, dtype=F16, grad=False),
    ),
    F.conv1d,
    padding=1,
)
_case(
    "conv_depthwise2d",
    lambda d: (
        normal(d, 16, 64, 56, 56, dtype=F16, grad=False),
        normal(d, 64, 1, 3, 3, dtype=F16, grad=False),
        (3, 3),
        None,
        (1, 1),
        (1, 1),
        (1, 1),
    ),
    lambda x, w, size, *rest: F.conv2d(x, w, *rest, groups=64),
    function="_conv_depthwise2d",
)
_case("hadamard_transform", one(F32, 4096, 4096), None)

# Norms and losses ---------------------------------------------------------------------------------


_case(
    "layer_norm",
    lambda d: (*one()(d), (4096,), normal(d, 4096, grad=False), normal(d, 4096, grad=False)),
    lambda *a: [t.squeeze(-1) for t in torch.native_layer_norm(*a, 1e-5)],
)
_case(
    "rms_norm",
    lambda d: (*one()(d), (4096,), normal(d, 4096, grad=False)),
    lambda *a: F.rms_norm(*a, 1e-5),
)
_case(
    "group_norm",
    lambda d: (
        normal(d, 16, 256, 1024, dtype=F32, grad=False),
        normal(d, 256, dtype=F32, grad=False),
        normal(d, 256, dtype=F32, grad=False),
        16,
        256,
        1024,
        32,
        1e-5,
    ),
    torch.native_group_norm,
)
_case(
    "batch_norm",
    lambda d: (
        normal(d, 32, 64, 28, 28, dtype=F32, grad=False),
        normal(d, 64, dtype=F32, grad=False),
        normal(d, 64, dtype=F32, grad=False),
        torch.zeros(64, device=d),
        torch.ones(64, device=d),
        True,
        0.1,
        1e-5,
    ),
    torch.native_batch_norm,
)
_case(
    "weight_norm_interface",
    lambda d: (*one(F32)(d), normal(d, 4096, 1, dtype=F32, grad=False)),
    torch._weight_norm_interface,
)
_case(
    "nll_loss_forward",
    lambda d: (one(F32)(d)[0].log_softmax(-1), integers(d, 4096, 4096)),
    lambda x, t: torch.ops.aten.nll_loss_forward(x, t, None, 1, -100),
)
_case(
    "softmax_backward",
    lambda d: (one(F32)(d)[0], torch.softmax(one(F32)(d)[0], -1), 1, F32),
    lambda g, y, dim, _: torch.ops.aten._softmax_backward_data(g, y, dim, y.dtype),
)
_case("gelu_backward", two(), torch.ops.aten.gelu_backward)
_case("silu_backward", two(), torch.ops.aten.silu_backward)
_case("tanh_backward", two(), torch.ops.aten.tanh_backward)
_case("sigmoid_backward", two(), torch.ops.aten.sigmoid_backward)
_case("dropout", lambda d: (*one()(d), 0.3, True), None)

# Movement -----------------------------------------------------------------------------------------
_case("gather", lambda d: (*one()(d), 1, integers(d, 4096, 4096, 2048)), torch.gather)
_case("index_select", lambda d: (*one()(d), 0, integers(d, 4096, 2048)), torch.index_select)
_case(
    "index_add",
    lambda d: (
        one(F32)(d)[0],
        0,
        integers(d, 4096, 2048),
        normal(d, 2048, 4096, dtype=F32, grad=False),
    ),
    torch.index_add,
)
_case(
    "scatter",
    lambda d: (
        one()(d)[0],
        1,
        torch.arange(2048, device=d).expand(4096, 2048).contiguous(),
        normal(d, 4096, 2048, grad=False),
    ),
    torch.scatter,
)
_case(
    "embedding",
    lambda d: (normal(d, 32000, 1024, grad=False), integers(d, 32000, 4, 2048)),
    lambda w, k: F.embedding(k, w),
)
_case(
    "index_put",
    lambda d: (
        one(F32)(d)[0],
        [torch.randperm(4096, device=d)[:1024]],
        normal(d, 1024, 4096, dtype=F32, grad=False),
    ),
    torch.index_put,
)
_case(
    "masked_select",
    lambda d: (one(F32, 1024, 1024)(d)[0], one(F32, 1024, 1024)(d)[0] > 0),
    torch.masked_select,
)
_case("nonzero", lambda d: (one(F32, 1024, 1024)(d)[0] > 0,), torch.nonzero)
_case("tril", one(), torch.tril)
_case("triu", one(), torch.triu)
_case("flip", lambda d: (*one()(d), [0, 1]), torch.flip)
_case("roll", lambda d: (*one()(d), [3, 5], [0, 1]), torch.roll)
_case("repeat", lambda d: (*one(BF16, 1024, 1024)(d), (2, 3)), torch.Tensor.repeat)
_case("tile", lambda d: (*one(BF16, 1024, 1024)(d), (2, 3)), torch.tile)
_case("cat", lambda d: ([*two()(d)], 1), torch.cat)
_case("stack", lambda d: ([*two()(d)], 1), torch.stack)
_case("hstack", lambda d: ([*two()(d)],), torch.hstack)
_case("vstack", lambda d: ([*two()(d)],), torch.vstack)
_case("pad", lambda d: (*one()(d), [1, 2, 3, 4]), F.pad)
_case(
    "repeat_interleave_self_int",
    lambda d: (*one(BF16, 1024, 1024)(d), 3, 1),
    torch.repeat_interleave,
)
_case("diag", lambda d: (normal(d, 4096, grad=False),), torch.diag)
_case("diag_embed", lambda d: (normal(d, 64, 256, grad=False),), torch.diag_embed)
_case("one_hot", lambda d: (integers(d, 100, 65536), 100), F.one_hot)
_case("arange", lambda d: (1 << 20,), lambda n, **_: torch.arange(n), device="cuda")
_case("linspace", lambda d: (0, 1, 1 << 20), lambda *n, **_: torch.linspace(*n), device="cuda")
_case("eye", lambda d: (4096,), lambda n, **_: torch.eye(n), device="cuda")
_case("zeros_like", one(), torch.zeros_like)
_case("full_like", lambda d: (*one()(d), 2.5), torch.full_like)
_case(
    "max_pool2d_with_indices",
    lambda d: (normal(d, 16, 64, 112, 112, dtype=F16, grad=False), (3, 3), (2, 2), (1, 1)),
    torch.ops.aten.max_pool2d_with_indices,
)
_case(
    "avg_pool2d",
    lambda d: (normal(d, 16, 64, 112, 112, dtype=F16, grad=False), (3, 3), (2, 2), (1, 1)),
    F.avg_pool2d,
)
_case(
    "upsample_nearest2d",
    lambda d: (normal(d, 8, 64, 64, 64, grad=False), (128, 128)),
    F.interpolate,
)
_case(
    "upsample_bicubic2d",
    lambda d: (normal(d, 8, 16, 64, 64, dtype=F32, grad=False), (128, 128), False),
    lambda x, size, _: F.interpolate(x, size, mode="bicubic"),
)
_case("pixel_unshuffle", lambda d: (normal(d, 8, 16, 128, 128, grad=False), 2), F.pixel_unshuffle)

# Random numbers -----------------------------------------------------------------------------------
for name in ("rand", "randn"):
    _case(name, lambda d: ((4096, 4096),), None, device="cuda")
for name in ("uniform_", "normal_", "exponential_", "bernoulli_"):
    _case(name, one(F32), None)
_case("randperm", lambda d: (1 << 16,), None, device="cuda")
_case("multinomial", lambda d: (torch.rand(64, 1024, device=d), 256), None)


def _fused_case(name, make, reference=None, function=None, **named):
    def build(device):
        from importlib import import_module

        operator = getattr(import_module("flag_gems.fused"), function or name)
        return forward_step(operator, *make(device), reference=reference, **named)

    add(f"flag_gems/fused_{name}", build)


def _gate(act):
    """The gate of `act`: `act` of the first half of each row times the second half."""
    return lambda x: act(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]


_fused_case("silu_and_mul", two(), lambda a, b: F.silu(a) * b)
_fused_case("gelu_and_mul", two(), lambda a, b: F.gelu(a) * b)
_fused_case("geglu", one(), _gate(lambda a: F.gelu(a, approximate="tanh")))
_fused_case("reglu", one(), _gate(F.relu))
_fused_case("swiglu", one(), _gate(F.silu))
_fused_case(
    "skip_layer_norm",
    lambda d: (*two()(d), (4096,), normal(d, 4096, grad=False), normal(d, 4096, grad=False)),
    lambda a, b, *r: F.layer_norm(a + b, *r),
)
_fused_case(
    "fused_add_rms_norm",
    lambda d: (*two()(d), (4096,), normal(d, 4096, grad=False)),
    lambda a, b, size, w: (F.rms_norm(a + b, size, w, 1e-5), a + b),
)
_fused_case(
    "outer", lambda d: (normal(d, 4096, grad=False), normal(d, 4096, grad=False)), torch.outer
)
_fused_case("bincount", lambda d: (integers(d, 100, 1 << 20),), torch.bincount)
_fused_case(
    "instance_norm",
    lambda d: (
        normal(d, 16, 64, 4096, dtype=F32, grad=False),
        normal(d, 64, dtype=F32, grad=False),
        normal(d, 64, dtype=F32, grad=False),
    ),
    lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
)
_fused_case(
    "topk_softmax",
    lambda d: (
        torch.empty(4096, 8, device=d),
        torch.empty(4096, 8, device=d, dtype=torch.int32),
        torch.empty(4096, 8, device=d, dtype=torch.int32),
        torch.randn(4096, 64, device=d),
    ),
)
_fused_case(
    "moe_sum",
    lambda d: (normal(d, 4096, 4, 2048, grad=False), torch.empty(4096, 2048, device=d, dtype=BF16)),
)
_fused_case(
    "cross_entropy_loss",
    lambda d: (normal(d, 4096, 32000, dtype=F32, grad=False), integers(d, 32000, 4096)),
    F.cross_entropy,
)
_fused_case(
    "weight_norm",
    lambda d: (*one(F32)(d), normal(d, 4096, 1, dtype=F32, grad=False)),
    lambda v, g: torch._weight_norm(v, g, 0),
)
