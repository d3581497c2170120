"""Ops that kernels could do without, and why: what passes write for blocks that go on stands in
blocks that do not, and two waits where either would do."""

from __future__ import annotations

from collections.abc import Mapping

_FIRST = "nothing was copied out of the buffer before: the block writes one tile"
_LAST = "no copy into the slot follows: the block reads no further"
_TWICE = "the other result's stands between, and either is for both"
_WRITES = {
    kernel: {f"{op} in @{kernel}.consumer, done": _FIRST for op in ("gpu.tma_wait", "gpu.barrier")}
    for kernel in ("matmul", "attention")
}
_REASONS: Mapping[str, Mapping[str, str]] = {
    "product warp-specialize": _WRITES["matmul"],
    "product defer-wgmma-waits": {
        "gpu.mbarrier_arrive in @matmul.consumer, done.waited": _LAST, **_WRITES["matmul"]
    },
    "attention warp-specialize": _WRITES["attention"],
    "attention pipeline-chained-matmuls": {
        "gpu.mbarrier_arrive in @attention.consumer, loop.last": _LAST, **_WRITES["attention"]
    },
    "product two results": {
        f"{op} in @generated.consumer, done.waited": _TWICE
        for op in ("gpu.tma_wait", "gpu.barrier")
    },
}  # fmt: skip
"""By kernel, and op with its function and block."""


def reasons(kernel: str) -> Mapping[str, str]:
    """Why nobody needs what a kernel could do without, in the order of the program."""
    return _REASONS.get(kernel, {})


def reason(kernel: str, site: str) -> str | None:
    """Why nobody needs the op in that kernel; None where that is not known."""
    return reasons(kernel).get(site)
