"""flash-linear-attention: its operators and modules, forward and backward, at the shapes of its
benchmarks (batch 8 or less, 2048 tokens and more)."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F32, add, forward_step, gradient_step, integers, normal, rms

B, T, H, D = 4, 2048, 8, 64


def op(path, name):
    # Its models fail on the first import with some versions of transformers.
    with suppress(ImportError):
        import_module("fla")
    return getattr(import_module(f"fla.{path}"), name)


def heads(device, width=D, count=H, length=T, scale=1.0):
    return normal(device, B, length, count, width, scale=scale)


def unit(device, width=D):
    tensor = normal(device, B, T, H, width, grad=False)
    return F.normalize(tensor.float(), dim=-1).to(BF16).requires_grad_()


def decay(device, *shape, dtype=F32):
    tensor = F.logsigmoid(normal(device, *shape, dtype=F32, grad=False)) / 16
    return tensor.to(dtype).requires_grad_()


def rate(device, *shape, dtype=BF16):
    return torch.sigmoid(normal(device, *shape, dtype=F32, grad=False)).to(dtype).requires_grad_()


def case(make):
    add(f"fla/{make.__name__}", make)
    return make


def naive(path, name, swap=False, order=None, count=1):
    """The package's own reference of an operator; its first `count` results. With `swap`, it has
    heads before steps. `order` selects the inputs of the operator that it takes."""

    def reference(*inputs):
        inputs = [inputs[i] for i in order] if order else inputs
        inputs = [t.transpose(1, 2) for t in inputs] if swap else inputs
        results = op(f"ops.{path}.naive", name)(*inputs)
        results = list(results)[:count] if isinstance(results, tuple) else [results]
        return [t.transpose(1, 2) for t in results] if swap else results

    return reference


def _plain(path, name, reference=None, **named):
    """Register a case of an operator of q, k and v."""

    def make(device):
        q, k, v = (heads(device) for _ in range(3))
        operator = op(f"ops.{path}", name)
        return gradient_step(
            lambda q, k, v: operator(q, k, v, **named), q, k, v, reference=reference
        )

    add(f"fla/{name}", make)


_plain("attn", "parallel_attn", naive("attn", "naive_parallel_attn"))
_LINEAR = naive("linear_attn", "naive_recurrent_linear_attn")
_RETENTION = naive("retention", "naive_retention", swap=True)
_plain("linear_attn", "chunk_linear_attn", _LINEAR, normalize=False)
_plain("linear_attn", "fused_chunk_linear_attn", _LINEAR, normalize=False)
_plain("retention", "chunk_retention", _RETENTION)
_plain("retention", "parallel_retention", _RETENTION)
_plain("lightning_attn", "chunk_lightning_attn", layer_idx=0, num_layers=12)
_plain(
    "stickbreaking_attn",
    "parallel_stickbreaking_attn",
    naive("stickbreaking_attn", "naive_stickbreaking_attn", count=2),
)
_plain("based", "parallel_based", naive("based", "naive_parallel_based", swap=True))


def _with_gate(path, name, shape, dtype=F32, reference=None, **named):
    """Register a case of an operator of q, k, v and gates of shape `shape`."""

    def make(device):
        q, k, v = (heads(device) for _ in range(3))
        g = decay(device, *shape, dtype=dtype)
        return gradient_step(
            lambda q, k, v, g: op(f"ops.{path}", name)(q, k, v, g=g, **named),
            *(q, k, v, g),
            reference=reference,
        )

    add(f"fla/{name}", make)


@case
def chunk_simple_gla(device):
    q, k, v = (heads(device) for _ in range(3))
    operator = op("ops.simple_gla", "chunk_simple_gla")
    inputs = (q, k, v, _gate(device))
    return forward_step(lambda q, k, v, g: operator(q, k, v, g=g), *inputs, reference=_SIMPLE)


_SIMPLE = naive("simple_gla", "naive_recurrent_simple_gla")
_GATED = naive("gla", "naive_recurrent_gla")
_with_gate("simple_gla", "parallel_simple_gla", (B, T, H), reference=_SIMPLE)
_with_gate("simple_gla", "fused_chunk_simple_gla", (B, T, H), reference=_SIMPLE)
_with_gate("simple_gla", "fused_recurrent_simple_gla", (B, T, H), reference=_SIMPLE)
_with_gate(
    "forgetting_attn", "parallel_forgetting_attn", (B, T, H),
    reference=naive("forgetting_attn", "naive_forgetting_attn"),
)  # fmt: skip
_with_gate("gla", "chunk_gla", (B, T, H, D), reference=_GATED)


@case
def fused_recurrent_gla(device):
    q, k, v = (heads(device) for _ in range(3))
    g = decay(device, B, T, H, D)
    return gradient_step(
        lambda q, k, v, g: op("ops.gla", "fused_recurrent_gla")(q, k, v, gk=g),
        *(q, k, v, g),
        reference=_GATED,
    )


@case
def chunk_gsa(device):
    q, k, v, s = (heads(device) for _ in range(4))
    g = decay(device, B, T, H, D)
    reference = naive("gsa", "naive_recurrent_gsa")
    return gradient_step(
        lambda *a: op("ops.gsa", "chunk_gsa")(*a), q, k, v, s, g, reference=reference
    )


@case
def chunk_abc(device):
    q, k, v, s = (heads(device) for _ in range(4))
    return gradient_step(lambda *a: op("ops.abc", "chunk_abc")(*a), q, k, v, s)


@case
def parallel_rebased(device):
    q, k, v = heads(device, 16), heads(device, 16), heads(device)
    return gradient_step(lambda *a: op("ops.rebased", "parallel_rebased")(*a), q, k, v)


def _delta(path, name, *more, forward=False, reference=None, **named):
    """Register a case of an operator of the delta rule family: q, unit k, v, and the results of
    `more`. With `forward`, no gradients are computed: the package refuses them on Hopper with
    Triton 3.4 to 3.7.0, which compute wrong gradients."""

    def make(device):
        q, k, v = heads(device), unit(device), heads(device)
        rest = [f(device) for f in more]
        run = forward_step if forward else gradient_step
        operator = op(f"ops.{path}", name)
        return run(lambda *a: operator(*a, **named), q, k, v, *rest, reference=reference)

    add(f"fla/{name}", make)


def _beta(device):
    return rate(device, B, T, H)


def _gate(device):
    return decay(device, B, T, H)


_DELTA = naive("delta_rule", "delta_rule_recurrence", swap=True)
_GATED_DELTA = naive("gated_delta_rule", "naive_recurrent_gated_delta_rule", order=(0, 1, 2, 4, 3))
_delta("delta_rule", "chunk_delta_rule", _beta, reference=_DELTA)
_delta("delta_rule", "fused_recurrent_delta_rule", _beta, reference=_DELTA)
_delta("gated_delta_rule", "chunk_gated_delta_rule", _gate, _beta, forward=True,
       reference=_GATED_DELTA)  # fmt: skip
_delta("kda", "chunk_kda", lambda device: decay(device, B, T, H, D), _beta,
       reference=naive("kda", "naive_recurrent_kda"))  # fmt: skip
_delta("comba", "chunk_comba", unit, _gate, _beta, forward=True)
_delta("path_attn", "parallel_path_attn", lambda d: unit(d).float().detach().requires_grad_(),
       lambda d: rate(d, B, T, H, dtype=F32))  # fmt: skip
_delta(
    "generalized_delta_rule", "chunk_dplr_delta_rule", unit, unit, lambda d: decay(d, B, T, H, D)
)


@case
def chunk_iplr_delta_rule(device):
    """The transition `I + a b^T` contracts the state along `a`, as in the package's tests. With
    independent `a` and `b` the state grows without bound, and no two compilers yield the same
    results."""
    q, k, v, b = heads(device), unit(device), heads(device), unit(device)
    a = (-b.detach()).requires_grad_()
    recurrence = op("ops.generalized_delta_rule.iplr.naive", "iplr_recurrence")

    def reference(*tensors):
        return recurrence(*(t.transpose(1, 2).float() for t in tensors))[0].transpose(1, 2)

    chunked = op("ops.generalized_delta_rule", "chunk_iplr_delta_rule")
    return forward_step(lambda *t: chunked(*t)[0], q, k, v, a, b, reference=reference)


@case
def chunk_gated_delta_rule_128(device):
    q, k, v = heads(device, 128), unit(device, 128), heads(device, 128)
    return forward_step(
        lambda *a: op("ops.gated_delta_rule", "chunk_gated_delta_rule")(*a),
        q,
        k,
        v,
        _gate(device),
        _beta(device),
    )


@case
def fused_recurrent_gated_delta_rule(device):
    q, k, v = heads(device), unit(device), heads(device)
    return forward_step(
        lambda *a, **b: op("ops.gated_delta_rule", "fused_recurrent_gated_delta_rule")(*a, **b),
        q,
        k,
        v,
        _gate(device),
        beta=_beta(device),
    )


@case
def chunk_gated_householder(device):
    q = heads(device)
    k = unit(device).repeat_interleave(2, 1).detach().requires_grad_()
    v, beta = heads(device, length=2 * T), rate(device, B, 2 * T, H)
    return forward_step(
        lambda q, k, v, g, beta: op("ops.gated_delta_product", "chunk_gated_delta_product")(
            q, k, v, g, beta, num_householder=2
        ),
        q,
        k,
        v,
        _gate(device),
        beta,
    )


@case
def chunk_mesa_net(device):
    q, k, v = heads(device), unit(device), heads(device)
    lamb = normal(device, H, D, dtype=F32, grad=False).abs().add(0.25).requires_grad_()
    return gradient_step(
        lambda *a: op("ops.mesa_net", "chunk_mesa_net")(*a),
        q,
        k,
        v,
        _gate(device),
        _beta(device),
        lamb,
    )


@case
def chunk_rwkv6(device):
    r, k, v = (heads(device) for _ in range(3))
    w, u = decay(device, B, T, H, D), normal(device, H, D, dtype=F32)
    return gradient_step(lambda *a: op("ops.rwkv6", "chunk_rwkv6")(*a), r, k, v, w, u)


@case
def chunk_rwkv7(device):
    r, k, v, a, b = heads(device), unit(device), heads(device), unit(device), unit(device)
    w = decay(device, B, T, H, D, dtype=BF16)
    return gradient_step(lambda *x: op("ops.rwkv7", "chunk_rwkv7")(*x), r, w, k, v, a, b)


@case
def fused_recurrent_rwkv4(device):
    w, u = normal(device, 1024, dtype=F32), normal(device, 1024, dtype=F32)
    k, v = normal(device, B, T, 1024, dtype=F32), normal(device, B, T, 1024, dtype=F32)
    state = torch.zeros(B, 3, 1, 1024, device=device)
    return gradient_step(
        lambda w, u, k, v: op("ops.rwkv4", "fused_recurrent_rwkv4")(w, u, k, v, state), w, u, k, v
    )


def _hgrn(name):
    def make(device):
        x, g = normal(device, B, T, 1024), decay(device, B, T, 1024, dtype=BF16)
        reference = naive("hgrn", "naive_recurrent_hgrn")
        return gradient_step(lambda x, g: op("ops.hgrn", name)(x, g), x, g, reference=reference)

    add(f"fla/{name}", make)


_hgrn("chunk_hgrn")
_hgrn("fused_recurrent_hgrn")


@case
def chunk_ttt_linear(device):
    q, k, v = heads(device), unit(device), heads(device)
    w, b = normal(device, H, D, dtype=F32), normal(device, H, D, dtype=F32)
    eta = rate(device, B, T, H, 1)
    return gradient_step(
        lambda q, k, v, w, b, eta: op("ops.ttt", "chunk_ttt_linear")(
            q, k, v, w, b, eta, chunk_size=16
        ),
        q,
        k,
        v,
        w,
        b,
        eta,
    )


@case
def parallel_nsa(device):
    q, k, v = heads(device, count=64), heads(device, count=4), heads(device, count=4)
    g = [rate(device, B, T, 64) for _ in range(2)]
    return gradient_step(
        lambda q, k, v, a, b: op("ops.nsa", "parallel_nsa")(
            q, k, v, g_cmp=a, g_slc=b, block_counts=16, block_size=64
        ),
        q,
        k,
        v,
        *g,
    )


@case
def chunk_log_linear_attn(device):
    q, k, v = (heads(device) for _ in range(3))
    scales = rate(device, B, T, H, 12, dtype=F32)
    return forward_step(
        lambda *a: op("ops.log_linear_attn", "chunk_log_linear_attn")(*a),
        q,
        k,
        v,
        _gate(device),
        scales,
    )


def _utility(path, name, *shape, dtype=F32, reference=None, **named):
    def make(device):
        x = normal(device, *shape, dtype=dtype)
        return forward_step(lambda x: op(path, name)(x, **named), x, reference=reference)

    add(f"fla/{name}", make)


_utility("ops.utils.cumsum", "chunk_local_cumsum", B, T, H, D, chunk_size=64)
_utility("ops.utils.cumsum", "chunk_global_cumsum", B, T, H, D, reference=lambda x: x.cumsum(1))
_utility("ops.utils.logsumexp", "logsumexp_fwd", B * T, 2048, reference=lambda x: x.logsumexp(-1))
_utility("ops.utils.softmax", "softmax_fwd", B * T, 2048, reference=lambda x: x.softmax(-1))
_utility("ops.utils.pooling", "mean_pooling", B, T, H, D, chunk_size=64)


def _gated_rms_norm(device, *shape):
    x, g, w = normal(device, *shape), normal(device, *shape), normal(device, shape[-1])
    return gradient_step(
        lambda x, g, w: op("modules.norm.fused_norm_gate", "rms_norm_gated")(x, g, w, None),
        x,
        g,
        w,
        reference=lambda x, g, w: rms(x, w, 1e-5) * F.silu(g),
    )


add("fla/rms_norm_gated", lambda device: _gated_rms_norm(device, B * T, 4096))
add("fla/rms_norm_gated_heads", lambda device: _gated_rms_norm(device, B, T, 32, 128))


@case
def layer_norm(device):
    x, w, b = normal(device, B * T, 2048), normal(device, 2048), normal(device, 2048)
    return gradient_step(
        lambda x, w, b: op("modules.norm.layernorm", "layer_norm")(x, w, b),
        x,
        w,
        b,
        reference=lambda x, w, b: F.layer_norm(x, (2048,), w, b),
    )


@case
def l2norm(device):
    return gradient_step(
        lambda x: op("modules.norm.l2norm", "l2norm")(x),
        heads(device),
        reference=lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6),
    )


@case
def rotary(device):
    x = heads(device)
    angles = torch.randn(T, D // 2, device=device)
    cos, sin = angles.cos().to(BF16), angles.sin().to(BF16)
    return gradient_step(lambda x: op("modules.rotary", "rotary_embedding")(x, cos, sin), x)


@case
def causal_conv1d(device):
    x, w, b = normal(device, B, T, 2048), normal(device, 2048, 4), normal(device, 2048)
    return gradient_step(
        lambda x, w, b: op("modules.causal_conv1d", "causal_conv1d")(
            x, w, b, activation="silu", backend="triton"
        ),
        x,
        w,
        b,
    )


@case
def token_shift(device):
    return gradient_step(
        lambda x: op("modules.token_shift", "token_shift")(x), normal(device, B, T, 2048)
    )


@case
def fused_cross_entropy(device):
    x, t = normal(device, 4096, 32000), integers(device, 32000, 4096)
    loss = lambda x: op("modules.fused_cross_entropy", "cross_entropy_loss")(x, t)  # noqa: E731
    return gradient_step(loss, x)


@case
def fused_linear_cross_entropy(device):
    x, w = normal(device, 4096, 1024), normal(device, 32000, 1024, scale=0.02)
    t = integers(device, 32000, 4096)
    loss = op("modules.fused_linear_cross_entropy", "fused_linear_cross_entropy_loss")
    return gradient_step(lambda x, w: loss(x, t, w), x, w)


@case
def fused_kl_div(device):
    x, w = normal(device, 2048, 1024), normal(device, 32000, 1024, scale=0.02)
    y, v = (
        normal(device, 2048, 1024, grad=False),
        normal(device, 32000, 1024, scale=0.02, grad=False),
    )
    loss = op("modules.fused_kl_div", "fused_kl_div_loss")
    return gradient_step(lambda x, w: loss(x, y, w, v), x, w)


@case
def fused_bitlinear(device):
    x, w = normal(device, 4096, 1024), normal(device, 1024, 1024, scale=0.02)
    norm = normal(device, 1024)
    function = op("modules.fused_bitlinear", "layer_norm_linear_quant")
    return gradient_step(lambda x, n, w: function(x, n, None, w, None), x, norm, w)


@case
def activations(device):
    x, y = normal(device, 4096, 8192), normal(device, 4096, 8192)

    def step(x, y):
        swish, sigmoid = (
            op("modules.activations", "swiglu"),
            op("modules.activations", "logsigmoid"),
        )
        return swish(x, y), sigmoid(x)

    return gradient_step(step, x, y, reference=lambda x, y: (F.silu(x) * y, F.logsigmoid(x)))
