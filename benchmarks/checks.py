"""The check of every benchmark: sampled rows of all outputs against a reference in f64.

    rows = checks.sample(extent)                           first, last and random rows
    exact, bound = checks.matmul(a[rows], b[:, columns], checks.UNITS["f16"])
    why = checks.fault(result[rows][:, columns], exact, bound)      None where nothing is wrong

A bound is relative: two roundings of the result, and the roundings of the terms that it is a sum
of. Those are independent, so that the error of a sum grows with the root of their number (Higham
and Mary, "A new approach to probabilistic rounding error analysis", 2019); a bound that grows with
the number would accept zeros where many terms nearly cancel. `fault` refuses a bound that could not
tell a result of zeros, or one whose rows or columns are exchanged.

Arrays are numpy's; tensors of torch are copied to the host (`host`), so that this is tested without
a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

UNITS = {
    "i8": 0.0, "f8": 2.0**-4, "bf16": 2.0**-8, "f16": 2.0**-11, "tf32": 2.0**-11, "f32": 2.0**-24,
}  # fmt: skip
"""The largest relative error of one rounding."""
ACCUMULATED = 2.0**-23
"""The rounding of the accumulation in tensor cores, which truncate, and of f32."""
F8_ACCUMULATED = 2.0**-13
"""The rounding of accumulators of 8-bit floats, of which the tensor cores of an H100 keep 14
bits."""
SPREAD = 8.0
"""The error bound of a total of many roundings, in units of its root mean square."""
ROWS = 64


def host(x: Any) -> Array:
    """A tensor or an array as one of numpy, in f64."""
    return x.detach().double().cpu().numpy() if hasattr(x, "detach") else np.asarray(x, np.float64)


def sample(extent: int, count: int = ROWS, seed: int = 0) -> list[int]:
    """`count` different indices below `extent` in order, the first and the last among them; all
    where there are no more."""
    if extent <= count:
        return list(range(extent))
    inner = np.random.default_rng([seed, extent]).choice(extent - 2, count - 2, replace=False) + 1
    return [0, *sorted(map(int, inner)), extent - 1]


def some_rows(*arrays: Any, count: int = 1024) -> tuple[Any, ...]:
    """The same sampled rows, along the last dimension, of arrays of one shape; sampled elements of
    arrays of one dimension."""
    last = arrays[0].shape[-1] if len(arrays[0].shape) > 1 else 1
    flat = [x.reshape(-1, last) for x in arrays]
    count *= 64 if last == 1 else 1
    rows = sample(len(flat[0]), count)
    return tuple(x[rows] for x in flat)


def fault(result: Any, exact: Array, bound: Array) -> str | None:
    """The error of `result`, or None if no element is off by more than `bound` and all elements
    together have the scale of `exact`.

    Raises ValueError for a bound that would accept zeros, or exchanged rows or columns.
    """
    _check_bound(exact, bound)
    mine = host(result)
    if mine.shape != exact.shape:
        return f"a result of shape {mine.shape}, not {exact.shape}"
    if not np.isfinite(mine).all():
        return f"{int((~np.isfinite(mine)).sum())} of {mine.size} elements are not finite"
    off = np.abs(mine - exact)
    if (off > bound).any():
        worst = np.unravel_index(int(np.argmax(off - bound)), exact.shape)
        place = tuple(map(int, worst))
        return f"{mine[worst]:.6g} in place of {exact[worst]:.6g} +- {bound[worst]:.3g} at {place}"
    scale = _scale(mine, exact)
    if abs(scale - 1) > (most := _scale_error(exact, bound)):
        return f"{scale:.6g} times what it should be, +- {most:.3g}"
    return None


def _scale(mine: Array, exact: Array) -> float:
    """The multiple of `exact` that is nearest to `mine`."""
    norm = float((exact * exact).sum())
    return float((mine * exact).sum()) / norm if norm else 1.0


def _scale_error(exact: Array, bound: Array) -> float:
    """The error bound of the scale. Errors of elements are independent except for the roundings
    that are relative to an element, a quarter of which may be common to all. Those of few elements
    do not cancel."""
    norm = float((exact * exact).sum())
    if not norm:
        return 0.0
    independent = float(np.sqrt((bound * bound * exact * exact).sum())) / norm
    relative = bound[exact != 0] / np.abs(exact[exact != 0])
    common = float(np.median(relative)) * (0.25 + 0.5 / len(relative) ** 0.5)
    return max(min(independent, common), independent / SPREAD)


def _check_bound(exact: Array, bound: Array) -> None:
    if not exact.any():
        raise ValueError("the exact result is zero: any kernel that writes nothing would pass")
    for name, other in wrong_results(exact).items():
        if not (np.abs(other - exact) > bound).any():
            raise ValueError(f"the bound accepts {name}")


def wrong_results(exact: Array) -> dict[str, Array]:
    """Results that every check has to refuse: zeros, and neighbours exchanged along each dimension,
    where that makes a difference."""
    wrong = {"zeros": np.zeros_like(exact)}
    for dim in range(exact.ndim):
        moved = np.roll(exact, 1, dim)
        if exact.shape[dim] > 1 and not np.array_equal(moved, exact):
            wrong[f"elements moved along dimension {dim}"] = moved
    return wrong


# Random numbers -----------------------------------------------------------------------------------


def philox(counter: Sequence[Any], key: Sequence[int], iterations: int = 10) -> list[Any]:
    """The four words that Philox 4x32 gives for each counter (Salmon and others, "Parallel random
    numbers: as easy as 1, 2, 3", SC 2011). A counter is four words of 32 bits, each an array or
    tensor of i64, or a number; so are the results."""
    low, c, k = 0xFFFFFFFF, list(counter), list(key)
    for _ in range(iterations):
        (high_0, low_0), (high_2, low_2) = _halves(c[0], 0xD2511F53), _halves(c[2], 0xCD9E8D57)
        c = [high_2 ^ c[1] ^ k[0], low_2, high_0 ^ c[3] ^ k[1], low_0]
        k = [(k[0] + 0x9E3779B9) & low, (k[1] + 0xBB67AE85) & low]
    return c


def _halves(x: Any, multiplier: int) -> tuple[Any, Any]:
    """The high and the low word of `x * multiplier`; no multiplication exceeds 48 bits."""
    first, second = x * (multiplier & 0xFFFF), x * (multiplier >> 16)
    high = (second + (first >> 16)) >> 16
    return high & 0xFFFFFFFF, (first + ((second & 0xFFFF) << 16)) & 0xFFFFFFFF


# References: the exact result and the bound -------------------------------------------------------


def elementwise(exact: Any, unit: float, inner: float = 0.0) -> tuple[Array, Array]:
    """A result that is computed with a relative error of `inner` and then rounded."""
    right = host(exact)
    return right, np.abs(right) * (2 * unit + inner)


def matmul(
    a: Any, b: Any, unit: float, inner: float = ACCUMULATED, operands: float = 0.0
) -> tuple[Array, Array]:
    """A matmul [..., m, k] and [..., k, n]. `unit` rounds the result, `inner` each
    sum, `operands` each element of both operands."""
    left, right = host(a), host(b)
    exact = left @ right
    if not (unit or inner or operands):
        return exact, np.zeros_like(exact)
    terms = left.shape[-1]
    squares = np.sqrt(np.square(left) @ np.square(right))
    accumulated = SPREAD * inner * np.sqrt(terms) * squares  # each partial sum is rounded
    return exact, 2 * unit * np.abs(exact) + accumulated + SPREAD * operands * squares


def near(exact: Any, off: float, scale: Any = None) -> tuple[Array, Array]:
    """A result whose errors are up to `off` of the element and of `scale`, the root mean square of
    all unless stated."""
    right = host(exact)
    size = np.sqrt(np.square(right).mean()) if scale is None else host(scale)
    return right, off * (np.abs(right) + size)


def softmax(x: Any, unit: float) -> tuple[Array, Array]:
    """A softmax of rows; exponentials of f32 are within two units of their argument's rounding."""
    rows = host(x)
    weights = np.exp(rows - rows.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True)
    reach = np.abs(rows - rows.max(-1, keepdims=True)) + 4 + np.sqrt(rows.shape[-1])
    return exact, exact * (2 * unit + 4 * UNITS["f32"] * reach) + 2.0**-126


def _weights(q: Array, k: Array, rows: list[int], causal: bool) -> tuple[Array, Array]:
    """The weights of the sampled rows, and the largest weight before normalization, 1."""
    scores = q[..., rows, :] @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if causal:
        later = np.arange(k.shape[-2])[None, :] > np.asarray(rows)[:, None]
        scores = np.where(later, -np.inf, scores)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised, raised.sum(-1, keepdims=True)


def attention(
    q: Any, k: Any, v: Any, rows: list[int], *, causal: bool, unit: float, weights: float
) -> tuple[Array, Array]:
    """Attention of [batches, heads, t, d] at sampled rows of all heads; fewer heads of keys are
    each shared by as many of queries. `weights` rounds the weights, the smallest to a fixed point
    2**-10 below the largest where they have 8 bits; `unit` the result."""
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(host(x), group, 1) for x in (k, v))
    raised, total = _weights(host(q), keys, rows, causal)
    exact = raised @ values / total
    least = 2.0**-10 if weights >= UNITS["f8"] else 0.0
    error = np.where(raised > 0, np.maximum(weights * raised, least), 0.0) / total
    noise = np.sqrt(np.square(error) @ np.square(values))
    scores = SPREAD * ACCUMULATED * np.sqrt(q.shape[-1]) * (raised / total @ np.abs(values))
    return exact, 2 * unit * np.abs(exact) + SPREAD / 2 * noise + scores


def gradients(
    inputs: tuple[Any, Any, Any, Any],
    statistics: tuple[Any, Any, Any],
    rows: list[int],
    *,
    causal: bool,
    unit: float,
) -> dict[str, tuple[Array, Array]]:
    """The gradients of attention of q, k and v for that of its result, all `inputs`, by name and at
    sampled rows of all heads: dq at queries, dk and dv at keys, over the heads that share them.
    `statistics` are, by batch, head and query, the logarithm of the sum of raised scores, the sum
    of the result times its gradient, called delta, and the root of the sum of the squares of the
    roundings that delta has, in units. Weights and their gradients are rounded to `unit` before
    they are multiplied, and so are the results, from which delta is computed."""
    q, k, v, g = map(host, inputs)
    total, delta, roundings = (host(x)[..., None] for x in statistics)
    group, size = q.shape[1] // k.shape[1], 1 / np.sqrt(q.shape[-1])
    keys, values = (np.repeat(x, group, 1) for x in (k, v))
    at = np.arange(q.shape[-2])

    def weights(queries: Any, indices: Any) -> tuple[Array, Array, Array]:
        """The weights of some queries and keys, the gradients of scores, and their roundings."""
        scores = q[..., queries, :] @ np.swapaxes(keys[..., indices, :], -1, -2) * size
        p = np.exp(scores - total[..., queries, :])
        if causal:
            p = np.where(at[indices][None, :] > at[queries][:, None], 0.0, p)
        dp = g[..., queries, :] @ np.swapaxes(values[..., indices, :], -1, -2)
        ds = p * (dp - delta[..., queries, :]) * size
        terms = p * (np.abs(dp) + np.abs(delta[..., queries, :]) + roundings[..., queries, :])
        return p, ds, unit * (np.abs(ds) + terms * size)

    def contract(left: Array, noise: Array, right: Array, heads: int) -> tuple[Array, Array]:
        shared = (len(left), heads, -1, left.shape[-2], right.shape[-1])
        exact = (left @ right).reshape(shared).sum(2)
        squares = (np.square(noise) @ np.square(right)).reshape(shared).sum(2)
        return exact, 2 * unit * np.abs(exact) + SPREAD / 2 * np.sqrt(squares)

    _, ds, noise = weights(rows, slice(None))
    p, dt, other = (np.swapaxes(x, -1, -2) for x in weights(slice(None), rows))
    return {
        "dq": contract(ds, noise, keys, q.shape[1]),
        "dk": contract(dt, other, q, k.shape[1]),
        "dv": contract(p, 2 * unit * p, g, k.shape[1]),
    }


def convolution(
    x: Any, taps: Any, places: list[tuple[int, int, int]], unit: float, stride: int = 1
) -> tuple[Array, Array]:
    """A convolution of images [n, h, w, c] with taps [r, s, c, k], padded to the same size, at
    `places` (image, row, column) of the result."""
    images, filters = host(x), host(taps)
    r, s, c, k = filters.shape
    padded = np.pad(images, ((0, 0), (r // 2, r // 2), (s // 2, s // 2), (0, 0)))
    windows = [
        padded[n, stride * i : stride * i + r, stride * j : stride * j + s] for n, i, j in places
    ]
    return matmul(np.stack(windows).reshape(len(places), -1), filters.reshape(r * s * c, k), unit)
