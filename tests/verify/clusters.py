"""Clusters that are wrong, and, without a marker, some that are right."""

from __future__ import annotations

_STAGE = 'stage "split_k"\n\n'
_KERNEL = "define kernel void @k(i1 %c) {cluster = 4, num_warps = 8} {\nentry:\n"
_SYNCHRONIZE = "  gpu.cluster_arrive\n  gpu.cluster_wait\n"
_ROLE = "define private void @f() {\nentry:\n  ret\n}\n"
_START = "  gpu.role @f {warps = 4}\n"


def _kernel(body: str, more: str = "") -> str:
    return _STAGE + _KERNEL + body + "}\n" + more


RIGHT = [
    _kernel(_SYNCHRONIZE + _SYNCHRONIZE + "  ret\n"),
    _kernel(_START + "  gpu.join\n" + _SYNCHRONIZE + "  ret\n", _ROLE),
    _kernel("  cond_br %c, a, b\na:\n" + _SYNCHRONIZE + "  br out\nb:\n  br out\nout:\n  ret\n"),
]

WRONG = [
    ("TIR0229", _kernel("  gpu.cluster_arrive\n  «gpu.cluster_arrive\n"
                        "  gpu.cluster_wait\n  ret\n")),
    ("TIR0229", _kernel("  «gpu.cluster_wait\n  ret\n")),
    ("TIR0229", _kernel("  gpu.cluster_arrive\n  «ret\n")),
    ("TIR0229", _kernel(  # on one path alone
        "  cond_br %c, a, b\na:\n  gpu.cluster_arrive\n  br out\nb:\n  br out\nout:\n"
        "  «gpu.cluster_wait\n  ret\n")),
    ("TIR0229", _kernel(  # again in the next iteration
        "  br l\nl:\n  «gpu.cluster_arrive\n  cond_br %c, l, out\nout:\n"
        "  gpu.cluster_wait\n  ret\n")),
    ("TIR0229", _kernel(  # and further in
        "  br l\nl:\n  br inside\ninside:\n  «gpu.cluster_arrive\n  cond_br %c, l, out\nout:\n"
        "  gpu.cluster_wait\n  ret\n")),
    ("TIR0229", _kernel(_START + "  «gpu.cluster_arrive\n  gpu.join\n  gpu.cluster_wait\n  ret\n",
                        _ROLE)),
    ("TIR0229", _kernel(_START + "  gpu.join\n  ret\n",
                        "define private void @f() {\nentry:\n  gpu.cluster_arrive\n"
                        "  «gpu.cluster_wait\n  ret\n}\n")),
    ("TIR0229", _STAGE + "«define kernel void @k() {\nentry:\n  %r = gpu.cluster_rank i32\n"
                "  ret\n}\n"),
    ("TIR0222", "«define kernel void @k() {cluster = 3} {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @k() {split_k = 0} {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @k() {warp_specialize = 0} {\nentry:\n  ret\n}\n"),
    ("TIR0222", '«define kernel void @k() {pingpong = "no"} {\nentry:\n  ret\n}\n'),
    ("TIR0222", "«define kernel void @k() {persistent = -1} {\nentry:\n  ret\n}\n"),
    ("TIR0222", "«define kernel void @k() {cluster = true} {\nentry:\n  ret\n}\n"),
]  # fmt: skip

WRONG_TWICE = _kernel(
    "  cond_br %c, a, b\na:\n  gpu.cluster_arrive\n  br out\nb:\n" + _START + "  br out\nout:\n"
    "  gpu.cluster_arrive\n  gpu.join\n  gpu.cluster_wait\n  ret\n",
    _ROLE,
)
"""The arrival at `out` is wrong on either path, for another reason."""
