"""Programs of torch.compile that users write: networks and their gradients, losses, optimizers, and
tensors of every type, shape and stride. The expected results are those of the uncompiled programs.
"""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202

from __future__ import annotations

import torch  # type: ignore[import-not-found]
import torch.nn.functional as F  # type: ignore[import-not-found]  # noqa: N812
from cases import BF16, Step, add, argument as x, integers, tensors


def program(name, function, *makers, calls=(), **options):
    """A program applied to the results of `makers`, and of each of `calls`, which are lists of
    other makers. `options` are those of torch.compile."""

    def build(device):
        call_inputs = [[m(device) for m in ms] for ms in (makers, *calls)]
        call = torch.compile(function, **{"dynamic": False, **options})
        return Step(lambda: [t for inputs in call_inputs for t in tensors(call(*inputs))])

    add(f"compile/{name}", build)


def gradients(name, function, *makers, **options):
    """A program and its gradients with respect to the results of `makers`."""

    def build(device):
        inputs = [m(device) for m in makers]
        leaves = [t.requires_grad_() for t in inputs if t.is_floating_point()]
        call = torch.compile(function, **{"dynamic": False, **options})

        def run():
            results = [t for t in tensors(call(*inputs)) if t.requires_grad]
            weights = [torch.randn_like(t) for t in results]
            return [*results, *torch.autograd.grad(results, leaves, weights, allow_unused=True)]

        return Step(run)

    add(f"compile/{name}", build)


def module(name, make, *makers, steps=1, **options):
    """Training steps of a module: the losses, and the parameters and buffers after the steps."""

    def build(device):
        torch.manual_seed(0)
        network, inputs = make().to(device), [m(device) for m in makers]
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        call = torch.compile(network, **{"dynamic": False, **options})

        def run():
            losses = []
            for _ in range(steps):
                loss = tensors(call(*inputs))[0].float().sub(0.3).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.detach())
            return [*losses, *network.state_dict().values()]

        return Step(run)

    add(f"compile/{name}", build)


def i(high, *shape, dtype=torch.int64, low=0):
    return lambda device: integers(device, high - low, *shape, dtype=dtype) + low


def flags(*shape):
    return lambda device: torch.rand(*shape, device=device) > 0.4


# Attention and sequences --------------------------------------------------------------------------


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    length = torch.arange(q.shape[-2], device=q.device)
    scores = scores.masked_fill(length[:, None] < length, float("-inf"))
    return scores.softmax(-1) @ v


gradients("attention", attention, *(x(2, 3, 37, 16) for _ in range(3)))
program("attention_bf16", attention, *(x(2, 3, 33, 32, dtype=BF16) for _ in range(3)))
gradients(
    "scaled_dot_product_attention",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    *(x(1, 2, 45, 16) for _ in range(3)),
)
gradients(
    "alibi",
    lambda q, k, v, s: (
        (
            q @ k.mT - s[:, None, None] * (torch.arange(29)[:, None] - torch.arange(29)).abs()
        ).softmax(-1)
        @ v
    ),
    *(x(4, 29, 8) for _ in range(3)),
    x(4),
)
module("multihead_attention", lambda: _Attention(24, 4), x(2, 19, 24), steps=2)
module("lstm_cell", lambda: _Recurrent(torch.nn.LSTMCell(7, 11)), x(5, 3, 7), steps=2)
module("gru_cell", lambda: _Recurrent(torch.nn.GRUCell(7, 11)), x(5, 3, 7), steps=2)
program("top_p", lambda a: _top_p(a, 0.8), x(3, 101))
program("beams", lambda a, b: (a[:, None] + b).view(4, -1).topk(5), x(4), x(4, 77))
program("positions", lambda m: (m.long().cumsum(-1) * m, (~m).long().argmax(-1)), flags(6, 43))


class _Attention(torch.nn.Module):
    """Self-attention with its weights as a second result."""

    def __init__(self, width, count) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(width, count, batch_first=True)

    def forward(self, h):
        return self.inner(h, h, h)


class _Recurrent(torch.nn.Module):
    """A cell over the steps of a sequence."""

    def __init__(self, cell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, h):
        state, outputs = None, []
        for step in h:
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs)


def _top_p(logits, p):
    ordered, index = logits.softmax(-1).sort(-1, descending=True)
    kept = ordered * (ordered.cumsum(-1) - ordered < p)
    return torch.zeros_like(logits).scatter(-1, index, kept / kept.sum(-1, keepdim=True))


# Convolutional networks, norms, pools -------------------------------------------------------------
n = torch.nn
module(
    "conv_net",
    lambda: n.Sequential(
        n.Conv2d(3, 6, 3, 2, 1),
        n.BatchNorm2d(6),
        n.Hardswish(),
        n.Conv2d(6, 6, 3, groups=6),
        n.InstanceNorm2d(6, affine=True),
        n.LeakyReLU(),
        n.AdaptiveAvgPool2d(3),
        n.Flatten(),
        n.Linear(54, 5),
    ),
    x(3, 3, 21, 17),
    steps=2,
)
module(
    "residual_1d",
    lambda: n.Sequential(
        n.ConvTranspose1d(2, 4, 3, 2),
        n.BatchNorm1d(4),
        n.PReLU(4),
        n.Upsample(scale_factor=2),
        n.Conv1d(4, 3, 5, padding=2, dilation=1),
        n.GLU(-1),
    ),
    x(2, 2, 15),
    steps=2,
)
module("batch_norm", lambda: n.BatchNorm2d(5, momentum=0.3), x(4, 5, 7, 3), steps=3)
gradients(
    "adaptive_pools",
    lambda a: (
        F.adaptive_avg_pool2d(a, (3, 5)),
        F.adaptive_max_pool2d(a, (4, 3)),
        F.max_pool2d(a, 3, 2, 1, ceil_mode=True),
        F.avg_pool1d(a[0], 3, 1, 1),
        F.lp_pool2d(a.abs(), 2, 2),
    ),
    x(2, 3, 13, 11),
)
gradients(
    "resampling",
    lambda a: (
        F.interpolate(a, (9, 14), mode="bilinear", align_corners=True),
        F.pixel_shuffle(a, 2),
        F.interpolate(a, scale_factor=0.5, mode="nearest"),
        F.pad(a, (2, 1, 1, 2), mode="reflect"),
        F.pad(a, (1, 1, 0, 2), mode="circular"),
        F.unfold(a, 3),
    ),
    x(2, 4, 7, 6),
)
program(
    "grid_sample",
    lambda a, g: F.grid_sample(a, g.tanh(), align_corners=False),
    x(2, 3, 9, 8),
    x(2, 5, 6, 2),
)
gradients(
    "local_response", lambda a: F.local_response_norm(a, 3) + F.normalize(a, dim=1), x(2, 7, 5, 3)
)

# Losses and optimizers ----------------------------------------------------------------------------
gradients(
    "losses",
    lambda a, b: (
        F.smooth_l1_loss(a, b),
        F.huber_loss(a, b, delta=0.3),
        F.kl_div(a.log_softmax(-1), b.softmax(-1)),
        F.cosine_embedding_loss(a, b, torch.ones(9)),
        F.binary_cross_entropy_with_logits(a, b.sigmoid()),
        F.triplet_margin_loss(a, b, a.flip(0)),
        F.poisson_nll_loss(a, b.abs()),
        F.soft_margin_loss(a, b.sign().detach()),
    ),
    x(9, 31),
    x(9, 31),
)
gradients(
    "cross_entropy_smooth",
    lambda a, t: F.cross_entropy(a, t, label_smoothing=0.1, ignore_index=3),
    x(17, 29),
    i(29, 17),
)
gradients("focal", lambda a, t: _focal(a, t), x(41, 7), i(7, 41))
gradients(
    "contrastive",
    lambda a, b: F.cross_entropy(
        F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / 0.07, torch.arange(23)
    ),
    x(23, 19),
    x(23, 19),
)
program(
    "clip_norm",
    lambda *g: [
        t * (1 / (torch.stack([u.norm() for u in g]).norm() + 1e-6)).clamp(max=1) for t in g
    ],
    x(33),
    x(5, 7),
    x(1),
)


def _focal(logits, target):
    p = logits.softmax(-1).gather(1, target[:, None])[:, 0]
    return -(1 - p).pow(2) * p.log()


# Indices, orders, scans ---------------------------------------------------------------------------
gradients(
    "einsum", lambda a, b, c: torch.einsum("bij,bjk,k->ik", a, b, c), x(3, 5, 7), x(3, 7, 9), x(9)
)
gradients("embedding_bag", lambda w, k: F.embedding_bag(k, w, mode="mean"), x(31, 12), i(31, 6, 5))
gradients(
    "gather_scatter",
    lambda a, k, b: (
        a.gather(1, k),
        a.scatter(1, k, b),
        a.scatter_reduce(1, k, b, "amax"),
    ),
    x(7, 11),
    lambda d: torch.stack([torch.randperm(11, device=d)[:5] for _ in range(7)]),
    x(7, 5),
)
program(
    "scatter_reduce",
    lambda a, k, b: tuple(
        a.scatter_reduce(0, k, b, how, include_self=own)
        for how in ("sum", "amin", "amax", "mean")
        for own in (True, False)
    ),
    x(13),
    i(13, 57),
    x(57),
)
program(
    "index_put",
    lambda a, k, v: (
        a.index_put((k,), v, accumulate=True),
        a.index_fill(0, k, 2.0),
        a.masked_fill(a > 0, -1.0),
        a.index_select(0, k),
        a.take(k),
        a[k, -1],
        a[::2, 1:-1],
    ),
    x(15, 6),
    i(15, 22),
    x(22, 6),
)
program(
    "orders",
    lambda a: (
        *a.sort(0),
        *torch.sort(a, dim=-1, descending=True, stable=True),
        *a.topk(3),
        a.argsort(-1),
        a.median(),
        *a.mode(-1),
        *a.kthvalue(2),
        a.msort(),
        *a.min(0),
    ),
    lambda d: torch.randperm(12 * 21, device=d).view(12, 21),
)
program(
    "scans",
    lambda a: (
        a.cumsum(0),
        a.cumprod(1),
        a.cummin(1),
        a.logcumsumexp(0),
        a.diff(dim=1),
        a.flip(0).cumsum(0),
        torch.trapezoid(a),
        a.cummax(0),
    ),
    x(19, 23),
)
program(
    "searching",
    lambda a, b: (
        torch.searchsorted(a.sort().values, b),
        torch.bucketize(b, a.sort().values, right=True),
        torch.isin(b.round(), a.round()),
        torch.histc(b, 8, -2, 2),
        torch.bincount(b.abs().long()),
    ),
    x(30),
    x(44),
)
program(
    "triangles",
    lambda a: (
        a.tril(-1),
        a.triu(1),
        a.diagonal(),
        torch.diag_embed(a),
        a.trace(),
        a.rot90(),
        a.roll((1, -2), (0, 1)),
        torch.block_diag(a, a),
        torch.kron(a, a[:2, :2]),
        torch.cdist(a, a + 1),
    ),
    x(9, 9),
)
