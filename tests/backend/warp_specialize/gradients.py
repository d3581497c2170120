"""Attention and its gradient in double precision, and cases for the kernels that compute them."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from tileir.testing.attention import LSE_PADDING

Array = np.ndarray[Any, Any]


@attrs.frozen(eq=False)
class Case:
    """Arrays [heads, t, d] of queries and gradients, [heads / group, t, d] of keys and values."""

    q: Array
    k: Array
    v: Array
    g: Array
    group: int
    scale: float
    causal: bool

    def __str__(self) -> str:
        return f"t{self.t}h{self.heads}g{self.group}{'c' * self.causal}"

    @property
    def t(self) -> int:
        return self.q.shape[1]

    @property
    def heads(self) -> int:
        return self.q.shape[0]

    @property
    def statistics_stride(self) -> int:
        """The distance of rows of row statistics."""
        return -(-self.t // LSE_PADDING) * LSE_PADDING

    def pad_rows(self, rows: Array) -> Array:
        """`rows` [heads, t] at that distance, with NaN in between."""
        out = np.full((self.heads, self.statistics_stride), np.nan, np.float32)
        out[:, : self.t] = rows
        return out


@attrs.frozen(eq=False)
class Gradients:
    """What the kernels compute: the output, log-sum-exp and delta of rows, and the gradients."""

    o: Array
    lse: Array
    delta: Array
    q: Array
    k: Array
    v: Array


def case(
    t: int, d: int, *, heads: int = 4, group: int = 1, causal: bool = False, kind: Any = np.float16
) -> Case:
    """Numbers of a normal distribution, drawn from t."""
    random = np.random.default_rng(t)
    many, few = (heads, t, d), (heads // group, t, d)
    q, k, v, g = (random.standard_normal(s).astype(kind) for s in (many, few, few, many))
    return Case(q, k, v, g, group, 1.5 / np.sqrt(d), causal)


def gradients(arguments: Case) -> Gradients:
    """By the formulas of softmax, in double precision."""
    q, g = (x.astype(np.float64) for x in (arguments.q, arguments.g))
    k, v = (np.repeat(x.astype(np.float64), arguments.group, 0) for x in (arguments.k, arguments.v))
    scores = np.einsum("htd,hsd->hts", q, k) * arguments.scale
    if arguments.causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp2(scores - most)
    total = weights.sum(-1, keepdims=True)
    weights /= total
    o = weights @ v
    delta = (g * o).sum(-1)
    slopes = weights * (np.einsum("htd,hsd->hts", g, v) - delta[..., None])
    slopes *= arguments.scale * np.log(2)
    of_k, of_v = np.einsum("hts,htd->hsd", slopes, q), np.einsum("hts,htd->hsd", weights, g)
    lse = (most + np.log2(total))[..., 0]
    return Gradients(
        o, lse, delta, slopes @ k, _group_totals(of_k, arguments), _group_totals(of_v, arguments)
    )


def _group_totals(of: Array, arguments: Case) -> Array:
    """The sums over the heads of each group."""
    return of.reshape(-1, arguments.group, *of.shape[1:]).sum(1)
