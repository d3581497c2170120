"""Target ratios of the rows of the benchmarks: the minimum ratio of the best peer's time to that of
tileir.

Rows are named as in `measured.py`. Rows of `workloads_*.json` have their own `target`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

MATMULS: dict[str, float] = {
    "16384x16384x16384": 1.02, "8192x8192x8192": 1.05, "4096x4096x4096": 1.01,
    "2048x2048x2048": 1.02, "1024x1024x1024": 1.07, "512x512x512": 1.02,
    "1760x16x1760": 1.15, "1760x32x1760": 1.15, "1760x64x1760": 1.15, "1760x*x1760": 0.95,
    "2560x*x2560": 1.0, "2048x7000x2048": 1.0, "35x8457x4096": 1.0, "5124x700x2560": 1.0,
    "2048x512x512": 1.0, "512x512x2048": 1.0, "64x64x16384": 1.0,
}  # fmt: skip
"""Matmuls of 16-bit operands, NN and NT."""

ATTENTION: dict[str, tuple[float, float, float, float]] = {
    "128:full": (1.02, 1.08, 1.10, 1.10), "128:causal": (1.02, 1.18, 1.18, 1.20),
    "64:full": (1.00, 1.12, 1.20, 1.20), "64:causal": (0.95, 1.07, 1.20, 1.20),
}  # fmt: skip
"""Attention in bf16 at lengths of 512, 2048, 8192 and 16384."""

RATIOS: tuple[tuple[str, float], ...] = (
    *((f"matmul:{kind}:*:{size}", x) for kind in ("f16", "bf16") for size, x in MATMULS.items()),
    ("matmul:f8:NT:4096x4096x4096", 1.05), ("matmul:f8:NT:8192x8192x8192", 1.02),
    ("matmul:i8:NT:4096x4096x4096", 1.65), ("matmul:i8:NT:8192x8192x8192", 1.65),
    ("matmul:tf32:NT:*", 1.0),
    ("matmul:f32:512", 1.0), ("matmul:f32:1024", 1.0), ("matmul:f32:*", 0.97),
    *(
        (f"attention:bf16:{way}:{t}", x)
        for way, each in ATTENTION.items()
        for t, x in zip((512, 2048, 8192, 16384), each, strict=True)
    ),
    ("attention:f8:*", 0.95), ("attention:*:96:*", 0.95), ("attention:*:256:*", 0.95),
    ("backward:*", 0.95),
    *((f"{name}:128x65536", 1.2) for name in (
        "rms_norm", "layer_norm", "tvd", "kl_div", "softmax",
    )),
    ("softmax:2048x32768:bf16", 1.2), ("softmax:2048x32768", 1.0),
    ("softmax:16384", 1.0), ("softmax:8192x4096*", 1.0), ("softmax:*", 1.05),
    *((f"{name}:*", 1.0) for name in (
        "geglu", "swiglu", "dyt", "rms_norm", "layer_norm", "tvd", "kl_div", "group_norm",
    )),
)  # fmt: skip
"""Patterns of names, the first that fits, and the ratio."""

OF_COPY = 0.97
"""The share of a copy's bandwidth that kernels of 16384 x 16384 should reach."""


def target(name: str) -> float | None:
    """The target ratio of a row; None if there is none."""
    return next((ratio for pattern, ratio in RATIOS if fnmatchcase(name, pattern)), None)
