"""mamba-ssm and flash-attn: state-space models, norms, rotations and losses, with gradients."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

import math

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from alone import alone
from cases import BF16, F32, add, forward_step, gradient_step, integers, normal, tensor as n

BARE = ("mamba_ssm.ops", "mamba_ssm.utils", "flash_attn.ops", "flash_attn.utils")


def mamba(module: str):
    return alone(f"mamba_ssm.ops.triton.{module}", BARE[:2])


def flash(module: str):
    return alone(f"flash_attn.ops.triton.{module}", BARE[2:])


def case(make):
    package, _, name = make.__name__.partition("_")
    add(f"{'flash_attn' if package == 'flash' else package}/{name}", make)
    return make


# mamba-ssm ----------------------------------------------------------------------------------------
def _scan_inputs(device, batch, length, heads, groups, dim, state):
    x = normal(device, batch, length, heads, dim)
    dt = (torch.rand(batch, length, heads, device=device) * 0.1).to(BF16).requires_grad_()
    a = (-torch.rand(heads, device=device) - 0.1).requires_grad_()
    b, c = (normal(device, batch, length, groups, state, scale=0.3) for _ in "bc")
    return x, dt, a, b, c


def _scan(name, length, heads, groups, dim, state, chunk, **flags):
    gate, bias = flags.get("gate"), flags.get("bias")

    @lambda make: add(f"mamba/{name}", make)
    def _build(device):
        call = mamba("ssd_combined").mamba_chunk_scan_combined
        inputs = _scan_inputs(device, 2, length, heads, groups, dim, state)
        d = normal(device, heads, dtype=F32)
        z = [normal(device, 2, length, heads, dim)] if gate else []
        dt_bias = torch.rand(heads, device=device) if bias else None

        def run(x, dt, a, b, c, d, *z):
            return call(x, dt, a, b, c, chunk, D=d, z=z[0] if z else None, dt_bias=dt_bias,
                        dt_softplus=bool(bias))  # fmt: skip

        return gradient_step(run, *inputs, d, *z)


_scan("chunk_scan", 2048, 32, 1, 64, 128, 256)
_scan("chunk_scan_groups", 2048, 32, 8, 64, 64, 128)
_scan("chunk_scan_gated", 2048, 16, 1, 128, 128, 256, gate=True, bias=True)


@case
def mamba_chunk_scan_sequences(device):
    """Several sequences in a batch, and the states at their ends."""
    call = mamba("ssd_combined").mamba_chunk_scan_combined
    x, dt, a, b, c = (t.detach() for t in _scan_inputs(device, 1, 4096, 32, 1, 64, 128))
    starts = torch.arange(5, device=device, dtype=torch.int32) * 1024
    sequences = torch.arange(4, device=device, dtype=torch.int32).repeat_interleave(1024)[None]
    return forward_step(
        lambda x, dt, b, c: call(
            x, dt, a, b, c, 256, seq_idx=sequences, cu_seqlens=starts, return_final_states=True,
            return_varlen_states=True,
        ),
        x, dt, b, c,
    )  # fmt: skip


@case
def mamba_split_conv_scan(device):
    call = mamba("ssd_combined")
    x, dt, a, b, c = _scan_inputs(device, 2, 2048, 32, 1, 64, 128)
    gate = normal(device, 2, 2048, 32 * 64)

    def run(x, z, dt, a, b, c):
        y = call.mamba_chunk_scan_combined(x, dt, a, b, c, 256, z=None, dt_softplus=True)
        return mamba("layernorm_gated").rmsnorm_fn(
            y.flatten(-2), torch.ones(32 * 64, device=device), None, z=z, norm_before_gate=False
        )

    return gradient_step(run, x, gate, dt, a, b, c)


def _update(name, groups, gate):
    @lambda make: add(f"mamba/{name}", make)
    def _build(device):
        module = mamba("selective_state_update")
        batch, heads, dim, size = 128, 80, 64, 128
        state = n(device, batch, heads, dim, size, dtype=F32)
        x, dt = n(device, batch, heads, dim), n(device, batch, heads, 1)
        a = -torch.rand(heads, 1, 1, device=device)
        b, c = (n(device, batch, groups, size) for _ in "bc")
        d, bias = torch.rand(heads, 1, device=device), torch.rand(heads, 1, device=device)
        z = n(device, batch, heads, dim) if gate else None

        def run(call, state, x, dt, a, b, c, d, bias, z):
            state = state.clone()
            wide = lambda t, *s: t.expand(*s)  # noqa: E731
            out = call(
                state, x, wide(dt, batch, heads, dim), wide(a, heads, dim, size), b, c,
                D=wide(d, heads, dim), z=z, dt_bias=wide(bias, heads, dim), dt_softplus=True,
            )  # fmt: skip
            return out, state

        return forward_step(
            lambda *t: run(module.selective_state_update, *t), state, x, dt, a, b, c, d, bias, z,
            reference=lambda *t: run(module.selective_state_update_ref, *t),
        )  # fmt: skip


_update("state_update", 1, False)
_update("state_update_gated", 8, True)


@case
def mamba_gated_rmsnorm(device):
    module = mamba("layernorm_gated")
    x, z, w = normal(device, 2, 2048, 4096), normal(device, 2, 2048, 4096), normal(device, 4096)

    def reference(x, w, z):
        y = x * F.silu(z)
        return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w

    return gradient_step(
        lambda x, w, z: module.rmsnorm_fn(x, w, None, z=z, norm_before_gate=False), x, w, z,
        reference=reference,
    )  # fmt: skip


@case
def mamba_gated_rmsnorm_groups(device):
    module = mamba("layernorm_gated")
    x, z, w = normal(device, 2, 2048, 4096), normal(device, 2, 2048, 4096), normal(device, 4096)

    def reference(x, w, z):
        y = x.view(2, 2048, -1, 128)
        y = (y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)).view_as(x)
        return y * w * F.silu(z)

    return gradient_step(
        lambda x, w, z: module.rmsnorm_fn(x, w, None, z=z, group_size=128), x, w, z,
        reference=reference,
    )  # fmt: skip


def _added_norm(package, module_of):
    @lambda make: add(f"{package}/add_layer_norm", make)
    def _layer_norm(device):
        call = module_of("layer_norm").layer_norm_fn
        x, r = normal(device, 8192, 4096), normal(device, 8192, 4096)
        w, b = normal(device, 4096), normal(device, 4096)

        def reference(x, w, b, r):
            return F.layer_norm(x + r, (4096,), w, b, 1e-6) + x + r

        return gradient_step(
            lambda x, w, b, r: sum(call(x, w, b, residual=r, prenorm=True)), x, w, b, r,
            reference=reference,
        )  # fmt: skip

    @lambda make: add(f"{package}/add_rms_norm", make)
    def _rms_norm(device):
        call = module_of("layer_norm").rms_norm_fn
        x, r, w = normal(device, 8192, 4096), normal(device, 8192, 4096), normal(device, 4096)

        def reference(x, w, r):
            y = x + r
            return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6) * w + y

        return gradient_step(
            lambda x, w, r: sum(call(x, w, None, residual=r, prenorm=True)), x, w, r,
            reference=reference,
        )  # fmt: skip

    @lambda make: add(f"{package}/layer_norm_narrow", make)
    def _narrow(device):
        call = module_of("layer_norm").layer_norm_fn
        x, w, b = normal(device, 65536, 1024), normal(device, 1024), normal(device, 1024)
        return gradient_step(
            call, x, w, b, reference=lambda x, w, b: F.layer_norm(x, (1024,), w, b, 1e-6)
        )


_added_norm("mamba", mamba)
_added_norm("flash_attn", flash)


@case
def mamba_swiglu(device):
    module = mamba("k_activations")
    x, g = n(device, 8192, 2 * 8192), n(device, 8192, 8192)

    def reference(x, g):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            a, b = x.chunk(2, -1)
            y = F.silu(a) * b
            (d,) = torch.autograd.grad(y, x, g)
        return y.detach(), d

    return forward_step(
        lambda x, g: (module._swiglu_fwd(x), module._swiglu_bwd(x, g)), x, g, reference=reference
    )


@case
def mamba_siso(device):
    module = mamba("mamba3.mamba3_siso_combined")
    batch, length, heads, groups, dim, qk = 2, 2048, 32, 1, 64, 128
    q, k = (normal(device, batch, length, groups, qk, scale=0.3) for _ in "qk")
    v = normal(device, batch, length, heads, dim)
    dt = (torch.rand(batch, heads, length, device=device) * 0.1).requires_grad_()
    adt = (-dt.detach() * torch.rand(1, heads, 1, device=device)).requires_grad_()
    trap = normal(device, batch, heads, length)
    q_bias, k_bias = (normal(device, heads, qk, dtype=F32) for _ in "qk")
    angles = normal(device, batch, length, heads, qk // 2, dtype=F32)
    d = normal(device, heads, dtype=F32)
    return gradient_step(module.mamba3_siso_combined, q, k, v, adt, dt, trap, q_bias, k_bias,
                         angles, d)  # fmt: skip


@case
def mamba_segment_totals(device):
    call = mamba("mamba3.mamba3_mimo_utils").compute_dacs_segsum_triton
    return forward_step(lambda x: call(x, 64), -n(device, 2, 32, 8192, dtype=F32).abs())


@case
def mamba_angles(device):
    call = mamba("mamba3.angle_dt").angle_dt_fwd
    angle, dt = n(device, 2, 4096, 32, 64, dtype=F32), torch.rand(2, 32, 4096, device=device)
    return forward_step(call, angle, dt)


# flash-attn ---------------------------------------------------------------------------------------
def _losses(name, rows, columns, **named):
    @lambda make: add(f"flash_attn/{name}", make)
    def _build(device):
        call = flash("cross_entropy").cross_entropy_loss
        t = integers(device, columns, rows)

        def reference(x):
            x = x * named.get("logit_scale", 1.0)
            each = F.cross_entropy(x, t, reduction="none",
                                   label_smoothing=named.get("label_smoothing", 0.0))  # fmt: skip
            square = named.get("lse_square_scale", 0.0) * x.logsumexp(-1).square()
            return each + square, square

        return gradient_step(lambda x: call(x, t, **named)[0], normal(device, rows, columns),
                             reference=lambda x: reference(x)[0])  # fmt: skip


_losses("cross_entropy", 8192, 32000)
_losses("cross_entropy_smoothed", 4096, 50257, label_smoothing=0.1, lse_square_scale=1e-4,
        logit_scale=0.7)  # fmt: skip
_losses("cross_entropy_wide", 1024, 128256)


def _rotate(x, cos, sin, interleaved):
    d = 2 * cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    part, rest = x[..., :d], x[..., d:]
    if interleaved:
        a, b = part[..., ::2], part[..., 1::2]
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
    else:
        a, b = part.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
    return torch.cat([turned, rest], -1)


def _rotary(name, heads, dim, rotated, interleaved):
    @lambda make: add(f"flash_attn/{name}", make)
    def _build(device):
        call = flash("rotary").apply_rotary
        angle = torch.rand(2048, rotated // 2, device=device) * 2 * math.pi
        x = n(device, 4, 2048, heads, dim)
        return forward_step(
            lambda x, c, s: call(x, c, s, interleaved=interleaved), x, angle.cos().to(BF16),
            angle.sin().to(BF16), reference=lambda x, c, s: _rotate(x, c, s, interleaved),
        )  # fmt: skip


_rotary("rotary", 32, 128, 128, False)
_rotary("rotary_interleaved", 32, 128, 128, True)
_rotary("rotary_partial", 16, 80, 32, False)


@case
def flash_rotary_sequences(device):
    call = flash("rotary").apply_rotary
    angle = torch.rand(2048, 64, device=device) * 2 * math.pi
    starts = torch.arange(9, device=device, dtype=torch.int32) * 1024
    return forward_step(
        lambda x, c, s: call(x, c, s, cu_seqlens=starts, max_seqlen=1024),
        n(device, 8 * 1024, 32, 128), angle.cos().to(BF16), angle.sin().to(BF16),
    )  # fmt: skip
