"""Ops that are redundant in some kernels, and the reasons: the passes insert them for blocks that
continue, or there are two waits, either of which would suffice."""

from __future__ import annotations

from collections.abc import Mapping

_FIRST = "the buffer was not copied from before: the block writes one tile"
_LAST = "no copy into the stage follows: the block loads nothing more"
_TWICE = "the other output's wait is between, and either suffices for both"
_WRITES = {
    kernel: {f"{op} in @{kernel}.consumer, done": _FIRST for op in ("gpu.tma_wait", "gpu.barrier")}
    for kernel in ("matmul", "attention")
}
_REASONS: Mapping[str, Mapping[str, str]] = {
    "matmul warp-specialize": _WRITES["matmul"],
    "matmul defer-wgmma-waits": {
        "gpu.mbarrier_arrive in @matmul.consumer, done.waited": _LAST, **_WRITES["matmul"]
    },
    "attention warp-specialize": _WRITES["attention"],
    "attention pipeline-chained-matmuls": {
        "gpu.mbarrier_arrive in @attention.consumer, loop.last": _LAST, **_WRITES["attention"]
    },
    "matmul two results": {
        f"{op} in @generated.consumer, done.waited": _TWICE
        for op in ("gpu.tma_wait", "gpu.barrier")
    },
}  # fmt: skip
"""The reasons by kernel, and by op with its function and block."""


def reasons(kernel: str) -> Mapping[str, str]:
    """The redundant ops of a kernel in program order, each with the reason."""
    return _REASONS.get(kernel, {})


def reason(kernel: str, site: str) -> str | None:
    """The reason why the op is redundant in that kernel; None if it is not known to be
    redundant."""
    return reasons(kernel).get(site)
