"""Cases of attention in several forms, with the kernels of `attention_kernels.py`."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN202

from __future__ import annotations

from itertools import pairwise

import torch  # type: ignore[import-not-found]
from cases import BF16, F16, F32, F64, Step, add

F8 = torch.float8_e4m3fn
LOG2E = 1.4426950408889634


def _n(device, *shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape, device=device) * scale).to(dtype)


def _add(name, build):
    add(f"attentions/{name}", build)


def _wide(d):
    """The smallest power of two that is at least d."""
    return 1 << (d - 1).bit_length()


def _mask(device, n, causal, window):
    i, j = torch.arange(n, device=device)[:, None], torch.arange(n, device=device)
    kept = (j <= i) if causal else torch.ones(n, n, dtype=torch.bool, device=device)
    return kept & (i - j <= window) if window else kept


def _weights(q, k, kept, group, bias=None, cap=0.0):
    """The weights of attention in f64, for (heads, n, D)."""
    k = k.to(F64).repeat_interleave(group, 0)
    s = q.to(F64) @ k.mT * q.shape[-1] ** -0.5
    if cap:
        s = cap * (s / cap).tanh()
    if bias is not None:
        s = s + bias.to(F64)
    return s.masked_fill(~kept, float("-inf")).softmax(-1)


def _attend(q, k, v, kept, group=1, **named):
    return _weights(q, k, kept, group, **named) @ v.to(F64).repeat_interleave(group, 0)


def _forward(
    name, heads, n, d, block, warps, stages, group=1, causal=False, window=0, form="", dtype=BF16
):
    """`form` is "bias", "slopes" or "cap"."""

    def build(device):
        import attention_kernels

        q = _n(device, heads, n, d, dtype=dtype)
        k, v = (_n(device, heads // group, n, d, dtype=dtype) for _ in range(2))
        out, lse = torch.empty_like(q), torch.empty(heads, n, device=device)
        bias = _n(device, heads, n, n, dtype=dtype) if form == "bias" else q
        slopes = 0.5 ** torch.arange(1, heads + 1, device=device).to(F32)
        cap = 20.0 if form == "cap" else 0.0

        def run():
            attention_kernels.forward[(-(-n // block[0]), heads)](
                q, k, v, out, lse, bias, slopes, heads, n, d**-0.5 * (1 if cap else LOG2E), window,
                cap, group, d, _wide(d), *block, causal, bool(window), form == "bias",
                form == "slopes", form == "cap", num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [out]

        def exact():
            kept = _mask(device, n, causal, window)
            if form == "cap":  # exp2 of the capped values, as in the kernel
                right = k.to(F64).repeat_interleave(group, 0)
                s = cap * (q.to(F64) @ right.mT * d**-0.5 / cap).tanh()
                s = (s * 0.6931471805599453).masked_fill(~kept, float("-inf")).softmax(-1)
                return [s @ v.to(F64).repeat_interleave(group, 0)]
            more = bias if form == "bias" else None
            if form == "slopes":
                places = torch.arange(n, device=device).to(F64)
                more = slopes[:, None, None].to(F64) * (places - places[:, None]) / LOG2E
            return [_attend(q, k, v, kept, group, bias=more)]

        return Step(run, exact)

    _add(name, build)


def _in_stages(name, heads, n, d, block, warps, stages, group=1, dtype=BF16):
    def build(device):
        import attention_kernels

        q = _n(device, heads, n, d, dtype=dtype)
        k, v = (_n(device, heads // group, n, d, dtype=dtype) for _ in range(2))
        out, lse = torch.empty_like(q), torch.empty(heads, n, device=device)

        def run():
            attention_kernels.forward_in_stages[(n // block[0], heads)](
                q, k, v, out, lse, n, d**-0.5 * LOG2E, group, d, *block,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [out]

        return Step(run, lambda: [_attend(q, k, v, _mask(device, n, True, 0), group)])

    _add(name, build)


def _block_pointers(name, heads, n, d, block, warps, stages):
    def build(device):
        import attention_kernels

        q, k, v = (_n(device, heads, n, d, dtype=F16) for _ in range(3))
        out = torch.empty_like(q)

        def run():
            attention_kernels.forward_of_block_pointers[(n // block[0], heads)](
                q, k, v, out, n, d**-0.5 * LOG2E, d, *block, num_warps=warps, num_stages=stages
            )
            return [out]

        return Step(run, lambda: [_attend(q, k, v, _mask(device, n, False, 0))])

    _add(name, build)


def _by_descriptors(name, heads, n, d, block, warps, stages, causal=False, dtype=F16):
    def build(device):
        import attention_kernels
        from triton.tools.tensor_descriptor import (  # type: ignore[import-not-found]
            TensorDescriptor,
        )

        rows, columns = block
        q, k, v = (_n(device, heads, n, d).to(dtype) for _ in range(3))
        values = v.mT.contiguous() if dtype is F8 else v
        out = torch.empty(heads, n, d, device=device, dtype=F16)
        flat = [t.view(heads * n, d) for t in (q, k)]
        flat += [values.view(heads * d, n) if dtype is F8 else v.view(heads * n, d)]
        flat += [out.view(heads * n, d)]
        of_v = [d, columns] if dtype is F8 else [columns, d]
        shapes = ([rows, d], [columns, d], of_v, [rows, d])
        descriptors = [
            TensorDescriptor.from_tensor(t, s) for t, s in zip(flat, shapes, strict=True)
        ]

        def run():
            attention_kernels.forward_of_descriptors[(n // rows, heads)](
                *descriptors, n, d**-0.5 * LOG2E, d, *block, causal, dtype is F8,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [out]

        return Step(run, lambda: [_attend(q, k, v, _mask(device, n, causal, 0))])

    _add(name, build)


def _f8(name, heads, n, d, block, warps, stages):
    def build(device):
        import attention_kernels

        q, k, v = (_n(device, heads, n, d).to(F8) for _ in range(3))
        values, out = v.mT.contiguous(), torch.empty(heads, n, d, device=device, dtype=BF16)

        def run():
            attention_kernels.forward_of_f8[(n // block[0], heads)](
                q, k, values, out, n, d**-0.5 * LOG2E, d, *block, num_warps=warps, num_stages=stages
            )
            return [out]

        return Step(run, lambda: [_attend(q, k, v, _mask(device, n, False, 0))])

    _add(name, build)


def _int8(name, heads, n, d, block, warps, stages):
    def build(device):
        import attention_kernels

        q, k = (
            torch.randint(-128, 128, (heads, n, d), device=device, dtype=torch.int8)
            for _ in range(2)
        )
        v = _n(device, heads, n, d, dtype=F16)
        out = torch.empty(heads, n, d, device=device, dtype=BF16)
        s, t = (torch.rand(heads, -(-n // b), device=device) + 0.5 for b in block)
        s, t = s * 0.01 * d**-0.5 * LOG2E, t * 0.01

        def run():
            attention_kernels.forward_of_int8[(-(-n // block[0]), heads)](
                q, k, v, out, s, t, n, d, *block, num_warps=warps, num_stages=stages
            )
            return [out]

        def exact():
            left = q.to(F64) * s.to(F64).repeat_interleave(block[0], 1)[:, :n, None] / LOG2E
            right = k.to(F64) * t.to(F64).repeat_interleave(block[1], 1)[:, :n, None]
            return [(left @ right.mT).softmax(-1) @ v.to(F64)]

        return Step(run, exact)

    _add(name, build)


def _lengths(name, lengths, heads, d, block, warps, stages, group=1):
    def build(device):
        import attention_kernels

        begins = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
        q = _n(device, begins[-1], heads, d)
        k, v = (_n(device, begins[-1], heads // group, d) for _ in range(2))
        out = torch.empty_like(q)
        first = torch.tensor(begins, device=device, dtype=torch.int32)

        def run():
            attention_kernels.forward_of_lengths[
                (-(-max(lengths) // block[0]), heads, len(lengths))
            ](
                q, k, v, out, first, heads, d**-0.5 * LOG2E, group, d, *block,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [out]

        def exact():
            parts = []
            for b, e in pairwise(begins):
                part = (t[b:e].transpose(0, 1) for t in (q, k, v))
                kept = _mask(device, e - b, True, 0)
                parts.append(_attend(*part, kept, group).transpose(0, 1))
            return [torch.cat(parts)]

        return Step(run, exact)

    _add(name, build)


def _pages(device, batch, most, page, heads, d, dtype):
    """Pages of keys and of values, tables in random order, and lengths."""
    count = batch * most
    k, v = (_n(device, count, page, heads, d).to(dtype) for _ in range(2))
    tables = torch.randperm(count, device=device).to(torch.int32).view(batch, most)
    lengths = [most * page - 37 * s for s in range(batch)]
    return k, v, tables, torch.tensor(lengths, device=device, dtype=torch.int32), lengths


def _attend_pages(q, k, v, tables, lengths, group):
    results = []
    for s, length in enumerate(lengths):
        own = (t[tables[s].long()].to(F64).flatten(0, 1)[:length].transpose(0, 1) for t in (k, v))
        keys, values = (t.repeat_interleave(group, 0) for t in own)
        weights = (keys @ q[s].to(F64)[:, :, None]).squeeze(-1) * q.shape[-1] ** -0.5
        results.append((weights.softmax(-1)[:, None] @ values).squeeze(1))
    return torch.stack(results)


def _decode(name, batch, most, page, heads, group, d, step, splits, warps, stages, dtype=BF16):
    def build(device):
        import attention_kernels

        k, v, tables, of_device, lengths = _pages(
            device, batch, most, page, heads // group, d, dtype
        )
        q = _n(device, batch, heads, d)
        out = torch.empty_like(q)
        partial = torch.empty(batch, heads, splits, d, device=device)
        levels = torch.empty(batch, heads, splits, device=device)

        def run():
            attention_kernels.decode_pages[(batch, heads // group, splits)](
                q, k, v, partial, levels, tables, of_device, d**-0.5 * LOG2E, heads, most,
                group, max(16, group), d, step, page, splits, num_warps=warps, num_stages=stages,
            )  # fmt: skip
            attention_kernels.combine_splits[(batch * heads,)](partial, levels, out, d, splits)
            return [out]

        return Step(run, lambda: [_attend_pages(q, k, v, tables, lengths, group)])

    _add(name, build)


def _decode_one_head(name, batch, most, page, heads, group, d, warps):
    def build(device):
        import attention_kernels

        k, v, tables, of_device, lengths = _pages(device, batch, most, page, heads // group, d, F16)
        q = _n(device, batch, heads, d, dtype=F16)
        out = torch.empty_like(q)

        def run():
            attention_kernels.decode_one_head[(heads, batch)](
                q, k, v, out, tables, of_device, d**-0.5 * LOG2E, heads, most, group, d, page,
                num_warps=warps,
            )  # fmt: skip
            return [out]

        return Step(run, lambda: [_attend_pages(q, k, v, tables, lengths, group)])

    _add(name, build)


def _latent(name, batch, heads, most, rows, step, warps, stages):
    def build(device):
        import attention_kernels

        latent, rotated = 512, 64
        q, r = _n(device, batch, heads, latent), _n(device, batch, heads, rotated)
        kv = _n(device, batch, most, latent + rotated)
        lengths = [most - 29 * s for s in range(batch)]
        of_device = torch.tensor(lengths, device=device, dtype=torch.int32)
        out, scale = torch.empty_like(q), (latent + rotated) ** -0.5

        def run():
            attention_kernels.decode_latent[(batch, heads // rows)](
                q, r, kv, out, of_device, scale * LOG2E, heads, most, rows, latent, rotated, step,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [out]

        def exact():
            queries = torch.cat((q, r), -1).to(F64)
            results = []
            for s, length in enumerate(lengths):
                keys = kv[s, :length].to(F64)
                results.append((queries[s] @ keys.t() * scale).softmax(-1) @ keys[:, :latent])
            return [torch.stack(results)]

        return Step(run, exact)

    _add(name, build)


def _backward(
    name, heads, n, d, keys_block, queries_block, warps, stages, group=1, causal=False, window=0
):
    """Rows of Q and of K in a block, for the gradients of K and V, and for that of Q."""

    def build(device):
        import attention_kernels

        q, g = (_n(device, heads, n, d) for _ in range(2))
        k, v = (_n(device, heads // group, n, d) for _ in range(2))
        out = torch.empty_like(q)
        lse, delta = (torch.empty(heads, n, device=device) for _ in range(2))
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        scale, wide = d**-0.5, _wide(d)
        last = {"num_warps": warps, "num_stages": stages}

        def run():
            blocks = lambda rows: (-(-n // rows), heads)  # noqa: E731
            attention_kernels.forward[blocks(64)](
                q, k, v, out, lse, q, lse, heads, n, scale * LOG2E, window, 0.0, group, d, wide,
                64, 64, causal, bool(window), False, False, False, num_warps=4, num_stages=2,
            )  # fmt: skip
            attention_kernels.dot_rows[(-(-heads * n // 32),)](
                out, g, delta, heads * n, d, wide, 32
            )
            common = (q, k, v, g, lse, delta)
            numbers = (n, scale * LOG2E, scale, window, group, d, wide)
            attention_kernels.gradients_of_keys[(-(-n // keys_block[1]), heads // group)](
                *common, dk, dv, *numbers, *keys_block, causal, bool(window), **last
            )
            attention_kernels.gradients_of_queries[blocks(queries_block[0])](
                *common, dq, *numbers, *queries_block, causal, bool(window), **last
            )
            return [dq, dk, dv]

        def exact():
            leaves = [t.to(F64).requires_grad_() for t in (q, k, v)]
            with torch.enable_grad():
                _attend(*leaves, _mask(device, n, causal, window), group).backward(g.to(F64))
            return [t.grad for t in leaves]

        return Step(run, exact)

    _add(name, build)


def _backward_in_one(name, heads, n, d, block, warps, stages):
    def build(device):
        import attention_kernels

        q, k, v, g = (_n(device, heads, n, d, dtype=F16) for _ in range(4))
        out = torch.empty_like(q)
        lse, delta = (torch.empty(heads, n, device=device) for _ in range(2))
        dq, dk, dv = (
            torch.empty(heads, n, d, device=device),
            *(torch.empty_like(k) for _ in range(2)),
        )
        scale = d**-0.5

        def run():
            dq.zero_()
            attention_kernels.forward_in_stages[(n // 128, heads)](
                q, k, v, out, lse, n, scale * LOG2E, 1, d, 128, 64, num_warps=4, num_stages=3
            )
            attention_kernels.dot_rows[(heads * n // 32,)](out, g, delta, heads * n, d, d, 32)
            attention_kernels.gradients_in_one[(n // block[1], heads)](
                q, k, v, g, lse, delta, dq, dk, dv, n, scale * LOG2E, scale, d, *block,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip
            return [dq, dk, dv]

        def exact():
            leaves = [t.to(F64).requires_grad_() for t in (q, k, v)]
            with torch.enable_grad():
                _attend(*leaves, _mask(device, n, True, 0)).backward(g.to(F64))
            return [t.grad for t in leaves]

        return Step(run, exact)

    _add(name, build)


_forward("forward_64", 64, 2048, 64, (128, 64), 4, 3)
_forward("forward_128", 32, 2048, 128, (128, 64), 8, 3, dtype=F16)
_forward("causal_groups", 32, 2048, 128, (128, 64), 8, 2, group=4, causal=True)
_forward("causal_4_warps", 64, 2048, 64, (64, 64), 4, 3, causal=True, dtype=F16)
_forward("head_40", 32, 2048, 40, (64, 64), 4, 2)
_forward("head_80", 32, 2048, 80, (128, 64), 8, 2, causal=True)
_forward("head_96", 32, 2000, 96, (128, 64), 4, 2, dtype=F16)
_forward("head_256", 16, 2048, 256, (64, 64), 8, 2, group=2, causal=True)
_forward("head_32", 64, 2048, 32, (128, 128), 4, 3)
_forward("window", 32, 4096, 64, (128, 64), 4, 3, causal=True, window=512)
_forward("window_128", 16, 4096, 128, (64, 64), 4, 2, group=4, causal=True, window=1024)
_forward("bias", 16, 2048, 64, (128, 64), 4, 2, form="bias")
_forward("bias_128", 8, 2048, 128, (64, 64), 4, 3, form="bias", dtype=F16)
_forward("slopes", 32, 2048, 64, (128, 64), 4, 3, causal=True, form="slopes")
_forward("cap", 16, 2048, 128, (128, 64), 8, 2, group=2, causal=True, form="cap")
_forward("rows_64_of_8_warps", 32, 2048, 64, (64, 32), 8, 2)
_forward("keys_16_of_8_warps", 32, 2048, 64, (64, 16), 8, 2, causal=True, dtype=F16)
_forward("forward_f32", 16, 1024, 64, (64, 32), 4, 2, dtype=F32)
_in_stages("stages_64", 64, 2048, 64, (128, 64), 4, 3, dtype=F16)
_in_stages("stages_128", 32, 2048, 128, (128, 64), 8, 3)
_in_stages("stages_128_wide", 32, 2048, 128, (128, 128), 8, 2, group=8)
_in_stages("stages_small", 64, 2048, 64, (64, 32), 4, 4)
_block_pointers("block_pointers_64", 64, 2048, 64, (128, 64), 4, 3)
_block_pointers("block_pointers_128", 32, 2048, 128, (128, 128), 8, 2)
_by_descriptors("descriptors_64", 64, 2048, 64, (128, 64), 4, 3)
_by_descriptors("descriptors_128", 32, 2048, 128, (128, 128), 8, 2, causal=True)
_by_descriptors("descriptors_f8", 32, 2048, 128, (128, 128), 8, 2, dtype=F8)
_f8("f8_64", 64, 2048, 64, (128, 64), 4, 3)
_f8("f8_128", 32, 2048, 128, (128, 128), 8, 2)
_int8("int8_64", 32, 2048, 64, (128, 64), 4, 4)
_int8("int8_128", 32, 2000, 128, (128, 64), 8, 3)
_lengths("lengths_128", [2048, 1536, 1000, 2560], 16, 128, (128, 64), 8, 2, 4)
_lengths("lengths_64", [1100, 700, 2048, 300, 900, 1500], 16, 64, (64, 64), 4, 3)
_decode("pages_16", 16, 128, 16, 32, 4, 128, 64, 8, 4, 2)
_decode("pages_64", 8, 64, 64, 32, 8, 128, 128, 16, 4, 3)
_decode("pages_one_group", 16, 128, 16, 16, 1, 64, 32, 4, 2, 2, F16)
_decode("pages_f8", 16, 128, 32, 32, 8, 128, 64, 8, 4, 2, F8)
_decode("pages_8_warps", 8, 64, 64, 32, 8, 128, 128, 16, 8, 3)
_decode("pages_2_warps", 16, 128, 16, 32, 4, 64, 128, 8, 2, 3, F16)
_decode_one_head("pages_without_dots", 32, 128, 16, 32, 4, 128, 4)
_latent("latent", 64, 16, 2048, 16, 32, 4, 2)
_latent("latent_8_warps", 64, 16, 2048, 16, 32, 8, 3)
_latent("latent_64_keys", 64, 16, 2048, 16, 64, 4, 2)
_latent("latent_64_heads", 16, 128, 1024, 64, 16, 8, 2)
_backward("backward_64", 32, 2048, 64, (64, 128), (128, 64), 8, 2)
_backward("backward_causal", 32, 2048, 64, (64, 64), (64, 64), 4, 3, causal=True)
_backward("backward_groups", 32, 1024, 128, (32, 64), (64, 32), 4, 2, group=4, causal=True)
_backward("backward_128", 16, 2048, 128, (64, 128), (128, 64), 8, 2, causal=True)
_backward("backward_80", 16, 1024, 80, (32, 64), (64, 32), 4, 2)
_backward("backward_window", 16, 4096, 64, (64, 64), (64, 64), 4, 2, causal=True, window=512)
_backward_in_one("backward_in_one", 32, 2048, 64, (64, 64), 4, 2)
_backward_in_one("backward_in_one_128", 16, 2048, 128, (32, 128), 8, 2)
