"""Kernels that run once per block of a cluster, and the ops that may run there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tileir.ir import Function, Module

if TYPE_CHECKING:
    from tileir.op import Op

ATTRIBUTE = "cluster"
"""Kernel attribute: the number of blocks that compute one program instance."""

SIZES = (1, 2, 4, 8, 16)
"""Blocks of a cluster; 16 is a non-portable size (CUDA C++ Programming Guide, "Thread Block
Clusters")."""

PERSISTENT = "persistent"
"""Kernel attribute: whether blocks loop over program instances.

`false` requests one block per program instance. The pass `persist` writes the number of instances
that run at once; the last parameters of the kernel are then the extents of the grid.
"""

ARRIVE, WAIT = "gpu.cluster_arrive", "gpu.cluster_wait"


def ranks(module: Module, kernel: Function) -> int:
    """The number of blocks that run `kernel` for one program instance: the size of its cluster if
    an op in `module` uses ranks, else 1."""
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
    """Whether `op` is a copy to, or an arrival at, all blocks of the cluster."""
    if op.mnemonic == "gpu.tma_load":
        return cast(Any, op).multicast > 1
    return op.mnemonic == "gpu.mbarrier_arrive" and cast(Any, op).cluster
