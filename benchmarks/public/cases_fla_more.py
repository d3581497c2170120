"""flash-linear-attention: newer operators, and others with different heads, types, lengths and
initial states, forward and backward."""
# ruff: noqa: ANN001, ANN201, ANN002, ANN003, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, F16, F32, add, forward_step, gradient_step, integers, normal
from cases_fla import naive, op

B, T, H = 2, 2048, 8


def heads(width=64, dtype=BF16, count=H, length=T):
    return lambda device: normal(device, B, length, count, width, dtype=dtype)


def unit(width=64, dtype=BF16):
    def make(device):
        t = normal(device, B, T, H, width, dtype=F32, grad=False)
        return F.normalize(t, dim=-1).to(dtype).requires_grad_()

    return make


def decay(*shape, dtype=F32):
    def make(device):
        t = F.logsigmoid(normal(device, B, T, H, *shape, dtype=F32, grad=False)) / 16
        return t.to(dtype).requires_grad_()

    return make


def rate(*shape, dtype=BF16):
    def make(device):
        t = torch.sigmoid(normal(device, B, T, H, *shape, dtype=F32, grad=False))
        return t.to(dtype).requires_grad_()

    return make


def case(label, path, name, *makers, forward=False, reference=None, **named):
    """Register a case of an operator on the results of `makers`. With `forward`, no gradients are
    computed."""

    def build(device):
        inputs = [m(device) for m in makers]
        step = forward_step if forward else gradient_step
        return step(lambda *a: op(path, name)(*a, **named), *inputs, reference=reference)

    add(f"fla/{label}", build)


# Newer operators ----------------------------------------------------------------------------------
case("chunk_gdn2", "ops.gdn2", "chunk_gdn2", heads(), unit(), heads(), decay(64), rate(64),
     rate(64), reference=naive("gdn2", "naive_recurrent_gdn2"))  # fmt: skip
case("fused_recurrent_gdn2", "ops.gdn2", "fused_recurrent_gdn2", heads(128), unit(128), heads(128),
     decay(128), rate(128), rate(128), forward=True,
     reference=naive("gdn2", "naive_recurrent_gdn2"))  # fmt: skip
case("chunk_gated_oja_rule", "ops.gated_oja_rule", "chunk_gated_oja_rule", heads(), heads(),
     unit(), decay(64), rate(), forward=True)  # fmt: skip
case("fused_recurrent_gated_oja_rule", "ops.gated_oja_rule", "fused_recurrent_gated_oja_rule",
     heads(), heads(), unit(), decay(64), rate(), forward=True)  # fmt: skip
case("parallel_wall_attn", "ops.wall_attn", "parallel_wall_attn", heads(), heads(), heads(),
     decay(64))  # fmt: skip
case("parallel_wall_attn_window", "ops.wall_attn", "parallel_wall_attn", heads(128), heads(128),
     heads(128), decay(128), window_size=256)  # fmt: skip
case("parallel_parallax", "ops.parallax", "parallel_parallax", *[heads()] * 4,
     reference=naive("parallax", "naive_parallax"))  # fmt: skip
case("parallel_parallax_grouped", "ops.parallax", "parallel_parallax", *[heads(128, F16)] * 2,
     *[heads(128, F16, 2)] * 2, window_size=512)  # fmt: skip
case("parallax_decode", "ops.parallax.decode", "parallax_decode", *[heads(length=1)] * 2,
     *[heads()] * 2, forward=True)  # fmt: skip
case("chunk_precond_kda", "ops.precond_kda", "chunk_precond_kda", heads(), unit(), heads(),
     decay(64), decay(), rate(dtype=F32), rate(dtype=F32), forward=True)  # fmt: skip
case("chunk_precond_gated_delta_rule", "ops.precond_gated_delta_rule",
     "chunk_precond_gated_delta_rule", heads(), unit(), heads(), decay(), decay(),
     rate(dtype=F32), rate(dtype=F32), forward=True)  # fmt: skip
case("fused_recurrent_precond_kda", "ops.precond_kda", "fused_recurrent_precond_kda", heads(),
     unit(), heads(), decay(64), decay(), rate(dtype=F32), rate(dtype=F32),
     forward=True)  # fmt: skip
case("chunk_lightnet", "ops.lightnet", "chunk_lightnet", *[heads(128)] * 3)
case("fused_attnres", "ops.attnres", "fused_attnres",
     lambda d: normal(d, 1024), lambda d: [normal(d, B, T, 1024) for _ in range(5)],
     lambda d: normal(d, 1024))  # fmt: skip

# Other heads, types and lengths -------------------------------------------------------------------
_GATED = naive("gla", "naive_recurrent_gla")
case("chunk_gla_128_f16", "ops.gla", "chunk_gla", *[heads(128, F16)] * 3, decay(128),
     reference=_GATED)  # fmt: skip
case("chunk_gla_values_256", "ops.gla", "chunk_gla", *[heads(128)] * 2, heads(256), decay(128),
     reference=_GATED)  # fmt: skip
case("chunk_retention_256", "ops.retention", "chunk_retention", *[heads(256)] * 3)
case("chunk_delta_rule_128", "ops.delta_rule", "chunk_delta_rule", heads(128), unit(128),
     heads(128), rate())  # fmt: skip
case("chunk_delta_rule_f16_32", "ops.delta_rule", "chunk_delta_rule", heads(32, F16),
     unit(32, F16), heads(32, F16), rate(dtype=F16))  # fmt: skip
case("chunk_kda_128", "ops.kda", "chunk_kda", heads(128), unit(128), heads(128), decay(128), rate())
case("parallel_attn_128", "ops.attn", "parallel_attn", *[heads(128)] * 3)
case("parallel_attn_grouped_96", "ops.attn", "parallel_attn", heads(96, F16), heads(96, F16, 2),
     heads(96, F16, 2))  # fmt: skip
case("parallel_forgetting_attn_128", "ops.forgetting_attn", "parallel_forgetting_attn",
     *[heads(128)] * 3, decay())  # fmt: skip
case("chunk_gsa_slots_32", "ops.gsa", "chunk_gsa", *[heads()] * 3, heads(32), decay(32))
case("fused_recurrent_retention", "ops.retention", "fused_recurrent_retention", *[heads()] * 3)
case("fused_recurrent_linear_attn", "ops.linear_attn", "fused_recurrent_linear_attn",
     *[heads(32)] * 3, normalize=False)  # fmt: skip
case("fused_recurrent_rwkv6", "ops.rwkv6", "fused_recurrent_rwkv6", *[heads()] * 3, decay(64),
     lambda d: normal(d, H, 64), forward=True)  # fmt: skip
case("fused_recurrent_rwkv7", "ops.rwkv7", "fused_recurrent_rwkv7", heads(), decay(64, dtype=BF16),
     unit(), heads(), unit(), unit(), forward=True)  # fmt: skip
case("fused_recurrent_kda", "ops.kda", "fused_recurrent_kda", heads(128), unit(128), heads(128),
     decay(128), rate(), forward=True)  # fmt: skip

# Modules ------------------------------------------------------------------------------------------
ROWS = (B * T, 2500)
case("layer_norm_residual_f32", "modules.norm.layernorm", "layer_norm",
     lambda d: normal(d, *ROWS, dtype=F32), lambda d: normal(d, 2500, dtype=F32),
     lambda d: normal(d, 2500, dtype=F32), lambda d: normal(d, *ROWS, dtype=F32),
     prenorm=True)  # fmt: skip
case("group_norm_f16", "modules.norm.layernorm", "group_norm",
     lambda d: normal(d, B * T, 2048, dtype=F16), lambda d: normal(d, 2048, dtype=F16),
     lambda d: normal(d, 2048, dtype=F16), num_groups=16)  # fmt: skip
case("rms_norm_linear", "modules.norm.layernorm", "rms_norm_linear",
     lambda d: normal(d, B * T, 1024), lambda d: normal(d, 1024), lambda d: None,
     lambda d: normal(d, 1024, 1024, scale=0.03), lambda d: None)  # fmt: skip
case("rotary_f32_interleaved", "modules.rotary", "rotary_embedding", heads(96, F32),
     lambda d: torch.randn(T, 48, device=d).cos(), lambda d: torch.randn(T, 48, device=d).sin(),
     interleaved=True)  # fmt: skip
case("causal_conv1d_width_3", "modules.causal_conv1d", "causal_conv1d",
     lambda d: normal(d, B, T, 1000, dtype=F16), lambda d: normal(d, 1000, 3, dtype=F16),
     backend="triton")  # fmt: skip
case("powglu", "modules.activations", "powglu", lambda d: normal(d, *ROWS),
     lambda d: normal(d, *ROWS))  # fmt: skip
case("swiglu_linear", "modules.activations", "swiglu_linear", lambda d: normal(d, B * T, 1024),
     lambda d: normal(d, B * T, 1024), lambda d: normal(d, 512, 1024, scale=0.03),
     lambda d: None)  # fmt: skip
case("fused_grpo_loss", "modules.grpo", "fused_grpo_loss", lambda d: normal(d, 4, 257, 16000),
     lambda d: normal(d, 4, 256, dtype=F32, grad=False), lambda d: integers(d, 16000, 4, 256),
     lambda d: normal(d, 4, dtype=F32, grad=False))  # fmt: skip
case("mean_pooling_gradient", "ops.utils.pooling", "mean_pooling", heads(100, F16), chunk_size=32)
case("global_cumsum_reverse", "ops.utils.cumsum", "chunk_global_cumsum",
     lambda d: normal(d, B, T, H, dtype=F32), forward=True, reverse=True,
     reference=lambda s: s.flip(1).cumsum(1).flip(1))  # fmt: skip
case("solve_tril", "ops.utils.solve_tril", "solve_tril",
     lambda d: normal(d, B, T, H, 64, dtype=F32, grad=False, scale=0.1)
     * (torch.arange(T, device=d)[:, None] % 64 > torch.arange(64, device=d))[None, :, None],
     forward=True)  # fmt: skip

# States that learn, gates and steps of one token --------------------------------------------------
WIDTH = H * 64
case("fused_chunk_ttt_linear", "ops.ttt", "fused_chunk_ttt_linear", heads(), unit(), heads(),
     lambda d: normal(d, H, 64), lambda d: normal(d, H, 64),
     lambda d: (torch.rand(B, T, H, 1, device=d) / 200).to(BF16).requires_grad_())  # fmt: skip
for _name in ("chunk_cyfa", "fused_recurrent_cyfa"):
    case(_name, "ops.cyfa", _name, heads(), heads(), heads(), decay(), rate(dtype=F32),
         rate(dtype=F32), lambda d: normal(d, H, 15, 15, dtype=F32), lambda d: normal(d, 64),
         lambda d: normal(d, 64), lambda d: 1e-6, lambda d: 1e-6,
         forward=_name.startswith("fused"))  # fmt: skip
case("gated_delta_product", "ops.gated_delta_product", "chunk_gated_delta_product", heads(),
     lambda d: F.normalize(normal(d, B, 2 * T, H, 64, grad=False), dim=-1).requires_grad_(),
     heads(length=2 * T), lambda d: None,
     lambda d: torch.rand(B, 2 * T, H, device=d).requires_grad_(), num_householder=2)  # fmt: skip
case("fused_recurrent_comba", "ops.comba", "fused_recurrent_comba", heads(128), unit(128),
     unit(128), heads(128), decay(), rate(), forward=True)  # fmt: skip
case("fused_recurrent_precond_gated_delta_rule", "ops.precond_gated_delta_rule",
     "fused_recurrent_precond_gated_delta_rule", heads(), unit(), heads(), decay(),
     lambda d: None, lambda d: None, rate(dtype=F32), decay(), rate(dtype=F32),
     forward=True)  # fmt: skip
case("chunk_precond_kda_gradient", "ops.precond_kda", "chunk_precond_kda", heads(), unit(),
     heads(), decay(64), decay(), rate(dtype=F32), rate(dtype=F32))  # fmt: skip


@lambda make: add("fla/sinkhorn", make)
def _sinkhorn(device):
    call = op("ops.utils.sinkhorn.ops", "SinkhornFunction").apply
    return gradient_step(lambda x: call(x, 20), normal(device, B * T, 8, 8, dtype=F32))


case("kda_gate", "ops.kda.gate", "fused_kda_gate", heads(), lambda d: normal(d, H, dtype=F32),
     lambda d: normal(d, WIDTH, dtype=F32))  # fmt: skip
case("kda_gate_cumsum", "ops.kda.gate", "kda_gate_chunk_cumsum", heads(128),
     lambda d: normal(d, H, dtype=F32), chunk_size=64, forward=True)  # fmt: skip
case("gdn_gate", "ops.gated_delta_rule.gate", "fused_gdn_gate",
     lambda d: normal(d, B, T, H, dtype=F32), lambda d: normal(d, H, dtype=F32),
     lambda d: normal(d, H, dtype=F32))  # fmt: skip
case("gdn_gate_cumsum", "ops.gated_delta_rule.gate", "gdn_gate_chunk_cumsum",
     lambda d: normal(d, B, T, H, dtype=F32), lambda d: normal(d, H, dtype=F32), chunk_size=64,
     forward=True)  # fmt: skip
case("beta_sigmoid", "ops.common.gate", "fused_beta_sigmoid", lambda d: normal(d, B, T, H),
     reference=torch.sigmoid)  # fmt: skip
case("rwkv7_mix", "ops.rwkv7.fused_addcmul", "fused_addcmul_rwkv7", lambda d: normal(d, B, T, 2048),
     lambda d: normal(d, B, T, 2048), *[lambda d: normal(d, 1, 1, 2048)] * 6, forward=True,
     reference=lambda x, d, *w: [x + d * r for r in w])  # fmt: skip
case("rwkv7_keys", "ops.rwkv7.fused_k_update", "fused_k_rwkv7", lambda d: normal(d, B, T, 2048),
     lambda d: normal(d, B, T, 2048), lambda d: normal(d, 2048),
     reference=lambda k, a, w: k.addcmul(k * (a - 1), w))  # fmt: skip
case("rwkv7_output", "ops.rwkv7.gate_output_correction", "gate_output_correction",
     lambda d: normal(d, B, T, WIDTH), heads(), heads(), lambda d: normal(d, H, 64), heads(),
     lambda d: normal(d, B, T, WIDTH),
     reference=lambda o, r, k, w, v, g:
     (o + ((r * k * w).sum(-1, keepdim=True) * v).flatten(2)) * g)  # fmt: skip
case("rwkv7_channels", "ops.rwkv7.channel_mixing", "channel_mixing_rwkv7",
     lambda d: normal(d, B, T, 1024), lambda d: normal(d, B, 1024), lambda d: normal(d, 1024),
     lambda d: normal(d, 1024, 4096, scale=0.03), lambda d: normal(d, 4096, 1024, scale=0.03),
     forward=True, inplace=False)  # fmt: skip
case("token_shift_long", "modules.token_shift", "token_shift", lambda d: normal(d, 1, 8192, 1024))
case("rms_norm_gated_groups", "modules.norm.layernorm_gated", "rmsnorm_fn",
     lambda d: normal(d, B * T, 4096), lambda d: normal(d, 4096), lambda d: None,
     lambda d: normal(d, B * T, 4096), group_size=128)  # fmt: skip
case("l2norm_rows", "modules.norm.l2norm", "l2norm", lambda d: normal(d, B * T, 2048),
     reference=lambda x: F.normalize(x, dim=-1))  # fmt: skip


@lambda make: add("fla/attn_decode", make)
def _attn_decode(device):
    # Scores are added in bf16, which large ones would not survive.
    q = normal(device, 1, 16, 32, 128, grad=False, scale=0.1)
    k, v = (normal(device, 1, 16 * T, 4, 128, grad=False) for _ in range(2))
    starts = torch.arange(17, device=device, dtype=torch.int32) * T
    call = op("ops.attn.decoding", "attn_decoding_one_step")
    return forward_step(lambda q, k, v: call(q, k, v, cu_seqlens=starts), q, k, v)


@lambda make: add("fla/mesa_net_decode", make)
def _mesa_decode(device):
    q, k, v = (F.normalize(normal(device, 64, 16, 64, dtype=F32, grad=False), dim=-1)
               for _ in range(3))  # fmt: skip
    g, beta = -torch.rand(64, 16, device=device), torch.rand(64, 16, device=device)
    states = [k[..., None] * t[..., None, :] for t in (k, v)]
    call = op("ops.mesa_net.decoding_one_step", "mesa_net_decoding_one_step")
    lamb = torch.rand(16, 64, device=device) + 0.5
    return forward_step(call, q, k, v, g, lamb, beta, *states)


@lambda make: add("fla/causal_conv1d_update", make)
def _conv_update(device):
    x, w = normal(device, 128, 4096, grad=False), normal(device, 4096, 4, grad=False)
    kept = normal(device, 128, 4096, 4, grad=False)
    call = op("modules.causal_conv1d.ops", "causal_conv1d_update")
    return forward_step(lambda x, k, w: call(x, k.clone(), weight=w, activation="silu")[0], x,
                        kept, w)  # fmt: skip


@lambda make: add("fla/wall_attn_decode", make)
def _wall_decode(device):
    q, p = (normal(device, 16, 1, 16, 64, grad=False) for _ in range(2))
    k, v = (normal(device, 16, T, 4, 64, grad=False) for _ in range(2))
    g = F.logsigmoid(normal(device, 16, T, 4, 64, dtype=F32, grad=False)).cumsum(1) / 64
    build = op("ops.wall_attn.decode", "build_wall_kv_cache")
    keys, rest = build(k.repeat_interleave(4, 2), g.repeat_interleave(4, 2), 64)
    call = op("ops.wall_attn.decode", "parallel_wall_attn_decode")
    return forward_step(lambda *t: call(*t, None, 0.125, 64), q, v, p, keys, rest)
