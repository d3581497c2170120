"""Which kernels run once per block of a cluster, and what may be done there when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.ir import Function, Module

if TYPE_CHECKING:
    from tileir.op import Op

ATTRIBUTE = "cluster"
"""Of a kernel: how many blocks work for one program instance."""

SIZES = (1, 2, 4, 8, 16)
"""Blocks of a cluster; 16 needs leave (CUDA C++ Programming Guide, "Thread Block Clusters")."""

PERSISTENT = "persistent"
"""Of a kernel: false asks for one block per program instance. A number is written by the pass
`persist`: the kernel loops over instances, that many at once, and its last parameters are the
extents of the grid of instances."""

ARRIVE, WAIT = "gpu.cluster_arrive", "gpu.cluster_wait"


def ranks(module: Module, kernel: Function) -> int:
    """How often `kernel` runs for one program instance: once, or, where anything in `module` asks
    for ranks, once per block of its cluster."""
    stated = kernel.attributes.get(ATTRIBUTE, 1)
    if not isinstance(stated, int) or stated < 2 or module.stage is None:
        return 1
    return stated if any(map(uses_cluster_rank, module.functions.values())) else 1


def persistent_instances(function: Function) -> int:
    """Program instances that a block, or a cluster, of a persistent kernel takes at once; 0 for a
    kernel without a loop over instances. `true` and `false` are requests to the compiler."""
    stated = function.attributes.get(PERSISTENT, 0)
    return stated if isinstance(stated, int) and not isinstance(stated, bool) else 0


def uses_cluster_rank(function: Function) -> bool:
    """Whether an op of `function` uses ranks."""
    return any(op.uses_cluster_rank or _reaches(op) for op in function.ops)


def _reaches(op: Op) -> bool:
    """Whether a copy or an arrival is for all blocks of the cluster."""
    if op.mnemonic == "gpu.tma_load":
        return cast(Any, op).multicast > 1
    return op.mnemonic == "gpu.mbarrier_arrive" and cast(Any, op).cluster
