"""What may be asked of the making of roles, and what comes of it."""

from __future__ import annotations

import attrs

from tileir.errors import Diagnostic
from tileir.ir import Module


@attrs.frozen
class WarpSpecializeOptions:
    """What a program may ask for: slots of rings, warps that multiply, bytes of shared memory (0
    to choose), whether a block works for many program instances, and whether two warpgroups take
    these in turns."""

    num_stages: int = 0
    warps: int = 0
    shared: int = 0
    persistent: bool = True
    pingpong: bool = False
    split_k: int = attrs.field(default=1, kw_only=True)
    """Blocks of a cluster that share the depth of products."""
    multicast: int = attrs.field(default=1, kw_only=True)
    """Blocks of a cluster that load for each other."""
    ordered_softmax: bool = attrs.field(default=True, kw_only=True)
    """Whether warpgroups begin chained products in turns."""
    non_tma_alignments: tuple[int, ...] = ()
    """By parameter, as `tileir.backend.tma.host_plan.NON_TMA_ALIGNMENTS` says."""


@attrs.frozen
class WarpSpecializeResult:
    """A module whose kernel has roles, or the one that was given; what there is to be said about
    it; and whether it has."""

    module: Module
    remarks: tuple[Diagnostic, ...] = ()
    applied: bool = False
