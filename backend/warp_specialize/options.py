"""The options and the result of warp specialization."""

from __future__ import annotations

import attrs

from tileir.errors import Diagnostic
from tileir.ir import Module


@attrs.frozen
class WarpSpecializeOptions:
    """Options of a program: the stages of rings, consumer warps and bytes of shared memory (0 to
    choose each), whether the kernel is persistent, and whether two consumer warpgroups alternate
    the program instances of a block (ping-pong)."""

    num_stages: int = 0
    warps: int = 0
    shared: int = 0
    persistent: bool = True
    pingpong: bool = False
    split_k: int = attrs.field(default=1, kw_only=True)
    """Blocks of a cluster that divide K; 1 for no split-K."""
    multicast: int = attrs.field(default=1, kw_only=True)
    """Blocks of a cluster that multicast loads; 1 for none."""
    ordered_softmax: bool = attrs.field(default=True, kw_only=True)
    """Whether consumer warpgroups alternate in issuing chained MMAs."""
    non_tma_alignments: tuple[int, ...] = ()
    """Alignments by parameter, as in `tileir.backend.tma.host_plan.NON_TMA_ALIGNMENTS`."""


@attrs.frozen
class WarpSpecializeResult:
    """The module, warp-specialized if `applied` and otherwise unchanged, and the remarks."""

    module: Module
    remarks: tuple[Diagnostic, ...] = ()
    applied: bool = False
