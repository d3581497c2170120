"""The kernels of the thesis (Pham 2025, chapter 4) for `thesis.py`: algorithm, a schedule by hand
in short, inputs, and the same in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as nn

from tileir import records

HALF, SINGLE = torch.float16, torch.float32
DEVICE = "cuda"
"""Where inputs are made: `meta` for their shapes alone."""


@records.frozen
class Case:
    """One line: `inputs` make tensors, then numbers; `schedule` is by hand, '' for none."""

    name: str
    sizes: dict[str, int]
    source: str
    schedule: str
    inputs: Callable[[dict[str, int]], list[Any]]
    plain: Callable[..., torch.Tensor]
    dtype: torch.dtype = SINGLE
    tolerance: float = 2e-5

    @property
    def target(self) -> str:
        """The Func that is computed: the first declared."""
        return self.source.split()[1].rstrip(",;")


def normal(*shape: int, dtype: torch.dtype = SINGLE) -> torch.Tensor:
    return torch.randn(shape, device=DEVICE).to(dtype)


def chances(*shape: int) -> torch.Tensor:
    return torch.softmax(normal(*shape), -1)


SEARCHED = {
    "geglu:16384x16384": "geglu = x:{1|2|4}/0 y:{512|1024|2048}/0 w{2|4|8}",
    "dyt:16384x16384": "dyt = x:{1|2|4|16}/0 y:{256|1024|2048}/0 w{4|8}",
    "tvd:16384x16384": "tvd = x:{1|2|4}/0 y:/{0|2048|4096} w{4|8|16}",
    "rms_norm:16384x16384": "norm = x:{1|2}/0 y:/0 k:/0 w{8|16|32}",
    "softmax:128x65536": "_top @ _e.x; _e @ _sum.y; _sum @ _softmax.x; "
        "_softmax = x:1/0 y:/{0|4096|8192} w{8|16|32}",
    "softmax:8192x512": "_top @ _e.x; _e @ _sum.y; _sum @ _softmax.x; "
        "_softmax = x:{1|2|4|8|16}/0 y:/0 w{1|2|4|8}",
    "matmul:4096x4096x4096": "mm = m:{64|128}/0 n:{128|256}/0 k:/{32|64} "
        "map(n:ni/8, m, ni) w{4|8} s4",
    "mmsigmoid:8192x8192x128": "mms = m:{64|128}/0 n:{128|256}/0 k:/{64|0} "
        "map(n:ni/8, m, ni) w{4|8} s4",
    "2mm inner:512x512x64x64": "_2mm = m:{16|64|128}/0 n:{16|32|64|128}/0 k:/0 l:/0 w{4|8}",
    "attention:128x128x128x128": "attention = m:{16|32|64}/0 n:{16|32|64|128}/0 k:/0 l:/0 w{4|8}; "
        "mm @ e.l; e @ dvsr.l; dvsr @ sm.m; sm @ attention.l",
    "flash:64x2048x128x128x2048": "s @ top.l; top @ p.m; p @ total.l; total @ attention.m; "
        "attention = h:1 {m:64/0 w4|m:128/0 w8} n:/0 k:/0 l:/{64|128} map(h, m) online(l) s{2|3}",
}  # fmt: skip
"""Templates of schedules that are searched, by name and sizes."""

SQUARE, WIDE = {"x": 16384, "y": 16384}, {"x": 128, "y": 65536}


def cases() -> Iterator[Case]:
    """Every line."""
    for sizes in (SQUARE, WIDE):
        yield from elements(sizes)
        yield from rows(sizes)
    for x in (1024, 2048, 4096, 8192):
        yield softmax({"x": x, "y": 512})
    for m, n, k in ((1024,) * 3, (4096,) * 3, (32768, 32768, 32), (16384, 16384, 64),
                    (8192, 8192, 128)):  # fmt: skip
        yield matmul(m, n, k)
    for m, n, k in ((256, 512, 32), (512, 1024, 32), (1024, 2048, 32), (16384, 16384, 64),
                    (8192, 8192, 128), (4096,) * 3):  # fmt: skip
        yield mmsigmoid(m, n, k)
    for m in (128, 256, 512, 1024):
        yield two_products(m, m, 64, 64, inner=True)
    for m, n in ((64, 128), (128, 256), (256, 512), (512, 1024)):
        yield two_products(m, n, 32, 32, inner=False)
    for size in (64, 128, 256):
        yield attention(size)
    for positions in (512, 2048, 8192):
        yield flash(64 * 2048 // positions, positions, 128)
        yield flash(64 * 2048 // positions, positions, 128, causal=True)


def elements(sizes: dict[str, int]) -> Iterator[Case]:
    def pair(s: dict[str, int]) -> list[Any]:
        return [normal(s["x"], s["y"]), normal(s["x"], s["y"])]

    yield Case("geglu", sizes, """Func geglu; In A, B; Var x, y;
        geglu[x, y] = 0.5 * A[x, y] * (1 + tanh(0.7978845608028654 *
            (A[x, y] + 0.044715 * pow(A[x, y], 3)))) * B[x, y];""",
        "geglu = x:1/0 y:1024/0 w8 map(x, y)", pair,
        lambda a, b: nn.gelu(a, approximate="tanh") * b)  # fmt: skip
    yield Case("swiglu", sizes, """Func swiglu; In A, B; Var x, y;
        swiglu[x, y] = A[x, y] * sigmoid(A[x, y]) * B[x, y];""",
        "swiglu = x:1/0 y:1024/0 w8 map(x, y)", pair, lambda a, b: nn.silu(a) * b)  # fmt: skip
    yield Case("dyt", sizes, """Func dyt; In X, W, V; SIn alpha; Var x, y;
        dyt[x, y] = tanh(alpha * X[x, y]) * W[y] + V[y];""",
        "dyt = x:2/0 y:1024/0 w4 map(x, y)",
        lambda s: [normal(s["x"], s["y"]), normal(s["y"]), normal(s["y"]), 0.5],
        lambda x, w, v, alpha: torch.tanh(alpha * x) * w + v)  # fmt: skip


def rows(sizes: dict[str, int]) -> Iterator[Case]:
    def pair(s: dict[str, int]) -> list[Any]:
        return [chances(s["x"], s["y"]), chances(s["x"], s["y"])]

    warps = 16 if sizes["x"] > 1024 else 32
    yield Case("tvd", sizes, """Func tvd; In P, Q; Var x; RVar y;
        tvd[x] = 0.5 * rsum(abs(P[x, y] - Q[x, y]), y);""",
        f"tvd = x:1 y:/0 w{warps}", pair, lambda p, q: 0.5 * (p - q).abs().sum(-1))  # fmt: skip
    yield Case("kl", sizes, """Func kl; In P, Q; Var x; RVar y;
        kl[x] = rsum(Q[x, y] * (log(Q[x, y]) - P[x, y]), y);""",
        f"kl = x:1 y:/0 w{warps}", lambda s: [pair(s)[0].log(), chances(s["x"], s["y"])],
        lambda p, q: (q * (q.log() - p)).sum(-1))  # fmt: skip
    yield Case("rms_norm", sizes, """Func norm; In X, W; SIn Eps, Offset; Var x, y; RVar k;
        norm[x, y] = X[x, y] * rsqrt(rsum(pow(X[x, k], 2), k) / len(y) + Eps) * (Offset + W[y]);""",
        f"norm = x:1 y:/0 k:/0 w{warps}",
        lambda s: [normal(s["x"], s["y"]), normal(s["y"]), 1e-6, 0.0],
        lambda x, w, eps, offset:
            x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * (offset + w))  # fmt: skip
    yield softmax(sizes)


def softmax(sizes: dict[str, int]) -> Case:
    warps = max(4, min(32, sizes["y"] // (1024 if sizes["x"] > 1024 else 2048)))
    block = 4 if sizes["y"] <= 512 else 1
    return Case("softmax", sizes, """Func _softmax, _e, _top, _sum; In A; Var x; RVar y;
        _top[x] = rmax(A[x, y], y);
        _e[x, y] = exp(A[x, y] - reshape(_top[x], x, 1));
        _sum[x] = rsum(_e[x, y], y);
        _softmax[x, y] = _e[x, y] / reshape(_sum[x], x, 1);""",
        f"_softmax = x:{block}/0 y:/0 w{warps}; _sum @ _softmax.x; _e @ _softmax.y; "
        "_top @ _softmax.x",
        lambda s: [normal(s["x"], s["y"])], lambda a: torch.softmax(a, -1))  # fmt: skip


def matmul(m: int, n: int, k: int) -> Case:
    tile = f"m:128/0 n:{256 if m * n >= 1 << 22 else 64}/0 k:/{min(64, k)}"
    return Case("matmul", {"m": m, "n": n, "k": k}, """Func mm; In A, B; Var m, n; RVar k;
        mm[m, n] = rdot(A[m, k], B[k, n], k);""", f"mm = {tile} map(n:ni/8, m, ni) w8 s4",
        _factors, torch.matmul, HALF, 2e-3)  # fmt: skip


def mmsigmoid(m: int, n: int, k: int) -> Case:
    tile = f"m:128/0 n:{256 if m * n >= 1 << 24 else 64}/0 k:/{min(64, k)}"
    return Case("mmsigmoid", {"m": m, "n": n, "k": k}, """Func mms; In A, B; Var m, n; RVar k;
        mms[m, n] = sigmoid(rdot(A[m, k], B[k, n], k));""",
        f"mms = {tile} map(n:ni/8, m, ni) w8 s4", _factors,
        lambda a, b: torch.sigmoid(a @ b), HALF, 4e-3)  # fmt: skip


def _factors(s: dict[str, int]) -> list[Any]:
    scale = s["k"] ** -0.25
    return [normal(s["m"], s["k"], dtype=HALF) * scale, normal(s["k"], s["n"], dtype=HALF) * scale]


def two_products(m: int, n: int, k: int, l: int, inner: bool) -> Case:  # noqa: E741
    def inputs(s: dict[str, int]) -> list[Any]:
        shapes = (("m", "k"), ("k", "l"), ("l", "n"))
        return [normal(s[a], s[b], dtype=HALF) * s[a] ** -0.25 for a, b in shapes]

    separate = """Func _2mm, mm; In A, B, C; Var m, n; RVar k, l;
        mm[m, l] = rdot(A[m, k], B[k, l], k); _2mm[m, n] = rdot(mm[m, l], C[l, n], l);"""
    nested = """Func _2mm; In A, B, C; Var m, n; RVar k, l;
        _2mm[m, n] = rdot(rdot(A[m, k], B[k, l], k), C[l, n], l);"""
    schedule = "_2mm = m:16/0 n:64/0 k:/0 l:/0 w4" + ("" if inner else "; mm @ _2mm.m")
    name = "2mm inner" if inner else "2mm outer"
    return Case(name, {"m": m, "n": n, "k": k, "l": l}, nested if inner else separate, schedule,
                inputs, lambda a, b, c: (a @ b) @ c, HALF, 8e-3)  # fmt: skip


def attention(size: int) -> Case:
    def inputs(s: dict[str, int]) -> list[Any]:
        q, k, v = (normal(size, size, dtype=HALF) for _ in range(3))
        return [q, k.t(), v]

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.scaled_dot_product_attention(*(x[None, None] for x in (q, k.t(), v)))[0, 0]

    source = """Func attention, mm, e, sm, dvsr; In A, B, C; Var m, n; RVar k, l;
        mm[m, l] = rdot(A[m, k], B[k, l], k) / sqrt(len(k));
        e[m, l] = exp(mm[m, l]);
        dvsr[m] = rsum(e[m, l], l);
        sm[m, l] = e[m, l] / reshape(dvsr[m], m, 1);
        attention[m, n] = rdot(sm[m, l], C[l, n], l);"""
    tile = "m:16/0 n:/0 k:/0 l:/0 w4" if size <= 128 else "m:64/0 n:64/0 k:/64 l:/0 map(n, m) w4 s3"
    schedule = (f"attention = {tile}; mm @ e.l; dvsr @ sm.m; sm @ attention.m; "
                "e @ attention.m")  # fmt: skip
    sizes = dict.fromkeys("mnkl", size)
    return Case("attention", sizes, source, schedule, inputs, plain, HALF, 8e-3)


def flash(heads: int, positions: int, width: int, causal: bool = False) -> Case:
    def inputs(s: dict[str, int]) -> list[Any]:
        q, k, v = (normal(heads, positions, width, dtype=HALF) for _ in range(3))
        return [q, k.transpose(1, 2), v]

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        sides = (x[None] for x in (q, k.transpose(1, 2), v))
        return nn.scaled_dot_product_attention(*sides, is_causal=causal)[0]

    score, scale = "rdot(Q[h, m, k], K[h, k, l], k)", "(1.4426950408889634 / sqrt(len(k)))"
    if causal:
        score = f"where(l <= reshape(m, m, 1), {score}, -inf)"
    source = f"""Func attention, s, top, p, total; In Q, K, V; Var h, m, n; RVar k, l;
        s[h, m, l] = {score};
        top[h, m] = rmax(s[h, m, l], l);
        p[h, m, l] = exp2(s[h, m, l] * {scale} - reshape(top[h, m] * {scale}, h, m, 1));
        total[h, m] = rsum(p[h, m, l], l);
        attention[h, m, n] = rdot(p[h, m, l], V[h, l, n], l) * reshape(1 / total[h, m], h, m, 1);"""
    order = "map(m, h) reverse(m)" if causal else "map(h, m)"
    schedule = (f"attention = h:1 m:128/0 n:/0 k:/0 l:/128 {order} online(l) w8 s2; s @ p.l; "
                "top @ attention.m; p @ attention.l; total @ attention.m")  # fmt: skip
    sizes = {"h": heads, "m": positions, "n": width, "k": width, "l": positions}
    name = "flash causal" if causal else "flash"
    return Case(name, sizes, source, schedule, inputs, plain, HALF, 4e-3)
