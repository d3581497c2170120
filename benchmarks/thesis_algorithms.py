"""The kernels of the thesis (Pham 2025, chapter 4): algorithms, the tensors they are measured on,
schedules by hand in short, and templates that are searched. Needs neither torch nor a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from tileir.builder import F16, F32
from tileir.frontends.decoupled import Tensor
from tileir.frontends.decoupled.tensors import row_major
from tileir.types import Scalar

SQUARE, WIDE = {"x": 16384, "y": 16384}, {"x": 128, "y": 65536}


@attrs.frozen
class Algorithm:
    """One line: `inputs` are tensors, then numbers; `schedules` are by hand, the first one what is
    thought best; `element` is that of the result."""

    name: str
    sizes: dict[str, int]
    source: str
    schedules: tuple[str, ...]
    inputs: tuple[Any, ...]
    element: Scalar = F32

    @property
    def target(self) -> str:
        """The Func that is computed: the first declared."""
        return self.source.split()[1].rstrip(",;")

    @property
    def key(self) -> str:
        """The name and the sizes."""
        return f"{self.name}:{'x'.join(map(str, self.sizes.values()))}"

    @property
    def types(self) -> dict[str, Scalar]:
        """Elements of Funcs."""
        return {self.target: self.element}


SEARCHED = {
    "geglu:16384x16384": "geglu = x:{1|4}/0 y:{1024|2048}/0 map({x, y|y, x}) w{2|4|8}",
    "geglu:128x65536": "geglu = x:1/0 y:{512|1024|2048}/0 map(x, y) w{2|4|8} "
        "{|evict_first(A, B)|evict_first(A, B, geglu)}",
    "dyt:16384x16384": "dyt = x:{1|2|4|16}/0 y:{512|1024|2048}/0 map(x, y) w{4|8}",
    "tvd:16384x16384": "tvd = x:{1|2|4}/0 y:/{0|2048|4096} w{4|8|16}",
    "tvd:128x65536": "tvd = x:1/0 y:/{0|8192} w{8|16|32} {|evict_first(P, Q)}",
    "rms_norm:16384x16384": "norm = x:1/0 {y:/0 k:/0|y:/4096 k:/4096|y:/8192 k:/8192} w{8|16|32} "
        "{|evict_last(X, W)}",
    "softmax:128x65536": "_top @ _e.x; _e @ _sum.y; _sum @ _softmax.x; "
        "_softmax = x:1/0 y:/{0|4096|8192} w{8|16|32}",
    "softmax:8192x512": "_top @ _e.x; _e @ _sum.y; _sum @ _softmax.x; "
        "_softmax = x:{1|2|4|8|16}/0 y:/0 w{1|2|4|8}",
    "matmul:4096x4096x4096": "mm = m:{64|128}/0 n:{128|256}/0 k:/{32|64} "
        "map(n:ni/8, m, ni) w{4|8} s4",
    "matmul:32768x32768x32": "mm = k:/0 map({n:ni/8, m, ni|m, n}) s4 "
        "{m:128/0 n:256/0 w8|m:128/0 n:128/0 w8|m:128/0 n:128/0 w4 persistent(pingpong)"
        "|m:64/0 n:128/0 w4 persistent(off)|m:64/0 n:128/0 w4 roles(off)}",
    "mmsigmoid:512x1024x32": "mms = m:{64|128}/0 n:{32|64|128}/0 k:/0 w{4|8} "
        "{|roles(off)|persistent(off)}",
    "mmsigmoid:16384x16384x64": "mms = k:/0 map({n:ni/8, m, ni|m, n}) s4 "
        "{m:128/0 n:256/0 w8|m:128/0 n:128/0 w8|m:128/0 n:128/0 w4 persistent(pingpong)"
        "|m:64/0 n:128/0 w4 persistent(off)|m:64/0 n:128/0 w4 roles(off)}",
    "mmsigmoid:8192x8192x128": "mms = m:{64|128}/0 n:{128|256}/0 k:/{64|0} "
        "map(n:ni/8, m, ni) w{4|8} s4",
    "2mm inner:512x512x64x64": "_2mm = m:{16|64|128}/0 n:{16|32|64|128}/0 k:/0 l:/0 w{4|8}",
    "attention:128x128x128x128": "attention = m:{16|32|64}/0 n:{16|32|64|128}/0 k:/0 l:/0 w{4|8}; "
        "mm @ e.l; e @ dvsr.l; dvsr @ sm.m; sm @ attention.l",
    "flash:64x2048x128x128x2048": "s @ top.l; top @ p.m; p @ total.l; total @ attention.m; "
        "attention = h:1 {m:64/0 w4|m:128/0 w8} n:/0 k:/0 l:/{64|128} map(h, m) online(l) s{2|3}",
}  # fmt: skip
"""Templates of schedules that are searched, by name and sizes."""


def algorithms() -> Iterator[Algorithm]:
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
        yield two_matmuls(m, m, 64, 64, inner=True)
    for m, n in ((64, 128), (128, 256), (256, 512), (512, 1024)):
        yield two_matmuls(m, n, 32, 32, inner=False)
    for size in (64, 128, 256):
        yield attention(size)
    for positions in (512, 2048, 8192):
        yield flash(64 * 2048 // positions, positions, 128)
        yield flash(64 * 2048 // positions, positions, 128, causal=True)


# Elements and rows --------------------------------------------------------------------------------


def single(*shape: int) -> Tensor:
    return row_major(F32, shape)


def half(*shape: int) -> Tensor:
    return row_major(F16, shape)


def column_major(*shape: int) -> Tensor:
    """A tensor of f16 whose last two dimensions are in column-major order."""
    rows, columns = shape[-2:]
    outer = row_major(F16, (*shape[:-2], columns, rows)).strides[:-2]
    return Tensor(F16, shape, (*outer, 1, rows))


def elements(sizes: dict[str, int]) -> Iterator[Algorithm]:
    x, y = sizes["x"], sizes["y"]
    pair, many = (single(x, y), single(x, y)), x * y >= 1 << 26
    yield Algorithm("geglu", sizes, """Func geglu; In A, B; Var x, y;
        geglu[x, y] = 0.5 * A[x, y] * (1 + tanh(0.7978845608028654 *
            (A[x, y] + 0.044715 * pow(A[x, y], 3)))) * B[x, y];""",
        _flat("geglu", "A, B", many), pair)  # fmt: skip
    yield Algorithm("swiglu", sizes, """Func swiglu; In A, B; Var x, y;
        swiglu[x, y] = A[x, y] * sigmoid(A[x, y]) * B[x, y];""",
        _flat("swiglu", "A, B", many), pair)  # fmt: skip
    tile, row = (f"x:{n}/0 y:1024/0 w4 map(x, y)" for n in (2 if many else 4, 1))
    yield Algorithm("dyt", sizes, """Func dyt; In X, W, V; SIn alpha; Var x, y;
        dyt[x, y] = tanh(alpha * X[x, y]) * W[y] + V[y];""",
        (f"dyt = {tile}", f"dyt = {row}"),
        (single(x, y), single(y), single(y), 0.5))  # fmt: skip


def _flat(name: str, read: str, many: bool) -> tuple[str, ...]:
    """Small blocks where the last ones count."""
    tile = f"{name} = x:1/0 y:1024/0 map(x, y)"
    if many:
        return f"{tile} w8", f"{tile} w4"
    first = f"{tile} w2 evict_first({read}"
    return f"{tile} w2", f"{tile} w4", f"{first})", f"{first}, {name})"


def rows(sizes: dict[str, int]) -> Iterator[Algorithm]:
    x, y = sizes["x"], sizes["y"]
    pair, many = (single(x, y), single(x, y)), x > 1024
    tiles = ("x:1 y:/0 w16",)
    if not many:
        tiles = tuple(f"x:1 y:/0 {w} evict_first(P, Q)" for w in ("w16", "w32"))
    yield Algorithm("tvd", sizes, """Func tvd; In P, Q; Var x; RVar y;
        tvd[x] = 0.5 * rsum(abs(P[x, y] - Q[x, y]), y);""",
        tuple(f"tvd = {tile}" for tile in tiles), pair)  # fmt: skip
    yield Algorithm("kl", sizes, """Func kl; In P, Q; Var x; RVar y;
        kl[x] = rsum(Q[x, y] * (log(Q[x, y]) - P[x, y]), y);""",
        tuple(f"kl = {tile}" for tile in tiles), pair)  # fmt: skip
    schedule = "x:1 y:/0 k:/0"
    looped = "norm = x:1 y:/8192 k:/8192 w16 evict_last(X, W)"
    yield Algorithm("rms_norm", sizes, """Func norm; In X, W; SIn Eps, Offset; Var x, y; RVar k;
        norm[x, y] = X[x, y] * rsqrt(rsum(pow(X[x, k], 2), k) / len(y) + Eps) * (Offset + W[y]);""",
        (looped, f"norm = {schedule} w16 evict_last(X)", f"norm = {schedule} w16") if many else
        tuple(f"norm = {schedule} {w} evict_first(X, norm)" for w in ("w16", "w32")),
        (single(x, y), single(y), 1e-6, 0.0))  # fmt: skip
    yield softmax(sizes)


def softmax(sizes: dict[str, int]) -> Algorithm:
    x, y = sizes["x"], sizes["y"]
    warps = max(4, min(16, y // 1024))
    kept = " evict_first(A, _softmax)" if y == 65536 else " evict_last(A)" if y == 16384 else ""
    return Algorithm("softmax", sizes, """Func _softmax, _e, _top, _sum; In A; Var x; RVar y;
        _top[x] = rmax(A[x, y], y);
        _e[x, y] = exp(A[x, y] - reshape(_top[x], x, 1));
        _sum[x] = rsum(_e[x, y], y);
        _softmax[x, y] = _e[x, y] / reshape(_sum[x], x, 1);""",
        (f"_softmax = x:{4 if y <= 512 else 1}/0 y:/0 w{warps}{kept}; _sum @ _softmax.x; "
         "_e @ _softmax.y; _top @ _softmax.x",), (single(x, y),))  # fmt: skip


# Matmul -------------------------------------------------------------------------------------------


def matmul(m: int, n: int, k: int) -> Algorithm:
    return Algorithm("matmul", {"m": m, "n": n, "k": k}, """Func mm; In A, B; Var m, n; RVar k;
        mm[m, n] = rdot(A[m, k], B[k, n], k);""", tuple(_tile_schedules("mm", m, n, k)),
        (half(m, k), half(k, n)), F16)  # fmt: skip


def mmsigmoid(m: int, n: int, k: int) -> Algorithm:
    return Algorithm("mmsigmoid", {"m": m, "n": n, "k": k},
        """Func mms; In A, B; Var m, n; RVar k;
        mms[m, n] = sigmoid(rdot(A[m, k], B[k, n], k));""", tuple(_tile_schedules("mms", m, n, k)),
        (half(m, k), half(k, n)), F16)  # fmt: skip


def _tile_schedules(name: str, m: int, n: int, k: int) -> Iterator[str]:
    """Large matmuls with tiles in groups of columns; those of small K, whose traffic is mostly the
    result, also in row-major order. Small ones not persistent, or not warp-specialized."""
    depth = f"k:/{min(64, k)}"
    if k > 128:
        width = 256 if m * n >= 1 << 22 else 64
        yield f"{name} = m:128/0 n:{width}/0 {depth} map(n:ni/8, m, ni) w8 s4"
    elif m * n >= 1 << 24:
        yield f"{name} = m:128/0 n:256/0 {depth} map(m, n) w8 s4"
        yield f"{name} = m:128/0 n:256/0 {depth} map(n:ni/8, m, ni) w8 s4"
        yield f"{name} = m:128/0 n:128/0 {depth} map(m, n) w8 s4"
        if k > 64:
            yield f"{name} = m:128/0 n:128/0 {depth} map(m, n) w4 s4 persistent(pingpong)"
    else:
        for tile in ("m:64/0 n:64/0", "m:64/0 n:32/0", "m:32/0 n:64/0"):
            yield f"{name} = {tile} k:/0 map(m, n) w4 roles(off)"
        for tile in ("m:64/0 n:64/0", "m:128/0 n:64/0"):
            yield f"{name} = {tile} k:/0 map(m, n) w4 persistent(off)"


def two_matmuls(m: int, n: int, k: int, l: int, inner: bool) -> Algorithm:  # noqa: E741
    separate = """Func _2mm, mm; In A, B, C; Var m, n; RVar k, l;
        mm[m, l] = rdot(A[m, k], B[k, l], k); _2mm[m, n] = rdot(mm[m, l], C[l, n], l);"""
    nested = """Func _2mm; In A, B, C; Var m, n; RVar k, l;
        _2mm[m, n] = rdot(rdot(A[m, k], B[k, l], k), C[l, n], l);"""
    fused = "" if inner else "; mm @ _2mm.m"
    tiles = ["m:16/0 n:64/0 k:/0 l:/0 w4", "m:64/0 n:64/0 k:/0 l:/0 w4 persistent(off)"]
    if m >= 1024:
        tiles = ["m:64/0 n:128/0 k:/0 l:/0 w8", "m:128/0 n:64/0 k:/0 l:/0 w8 persistent(off)",
                 "m:64/0 n:128/0 k:/0 l:/0 w4 persistent(off)", *tiles]  # fmt: skip
    name, sizes = "2mm inner" if inner else "2mm outer", {"m": m, "n": n, "k": k, "l": l}
    return Algorithm(name, sizes, nested if inner else separate,
        tuple(f"_2mm = {tile}{fused}" for tile in tiles), (half(m, k), half(k, l), half(l, n)),
        F16)  # fmt: skip


# Attention ----------------------------------------------------------------------------------------


def attention(size: int) -> Algorithm:
    source = """Func attention, mm, e, sm, dvsr; In A, B, C; Var m, n; RVar k, l;
        mm[m, l] = rdot(A[m, k], B[k, l], k) / sqrt(len(k));
        e[m, l] = exp(mm[m, l]);
        dvsr[m] = rsum(e[m, l], l);
        sm[m, l] = e[m, l] / reshape(dvsr[m], m, 1);
        attention[m, n] = rdot(sm[m, l], C[l, n], l);"""
    tile = "m:16/0 n:/0 k:/0 l:/0 w4" if size <= 128 else "m:64/0 n:64/0 k:/64 l:/0 map(n, m) w4 s3"
    schedule = (f"attention = {tile}; mm @ e.l; dvsr @ sm.m; sm @ attention.m; "
                "e @ attention.m")  # fmt: skip
    inputs = half(size, size), column_major(size, size), half(size, size)
    return Algorithm("attention", dict.fromkeys("mnkl", size), source, (schedule,), inputs, F16)


def flash(heads: int, positions: int, width: int, causal: bool = False) -> Algorithm:
    score, scale = "rdot(Q[h, m, k], K[h, k, l], k)", "(1.4426950408889634 / sqrt(len(k)))"
    if causal:
        score = f"where(l <= reshape(m, m, 1), {score}, -inf)"
    source = f"""Func attention, s, top, p, total; In Q, K, V; Var h, m, n; RVar k, l;
        s[h, m, l] = {score};
        top[h, m] = rmax(s[h, m, l], l);
        p[h, m, l] = exp2(s[h, m, l] * {scale} - reshape(top[h, m] * {scale}, h, m, 1));
        total[h, m] = rsum(p[h, m, l], l);
        attention[h, m, n] = rdot(p[h, m, l], V[h, l, n], l) * reshape(1 / total[h, m], h, m, 1);"""
    orders = ["map(h, m) reverse(m)", "map(m, h) reverse(m)"]
    schedules = tuple(
        f"attention = h:1 m:128/0 n:/0 k:/0 l:/128 {order} online(l) w8 s2; s @ p.l; "
        "top @ attention.m; p @ attention.l; total @ attention.m"
        for order in (orders if causal else ["map(h, m)"])
    )
    sizes = {"h": heads, "m": positions, "n": width, "k": width, "l": positions}
    query = half(heads, positions, width)
    inputs = query, column_major(heads, width, positions), query
    return Algorithm("flash causal" if causal else "flash", sizes, source, schedules, inputs, F16)
