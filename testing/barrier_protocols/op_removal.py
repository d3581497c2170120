"""Removal of the ops that order accesses, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from tileir.backend.compile import run_pipeline
from tileir.backend.options import Options
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.ir import Module
from tileir.op import Op
from tileir.testing.barrier_protocols.cases import Array, ProtocolCase

ORDERING = (
    "gpu.mbarrier_wait", "gpu.mbarrier_arrive", "gpu.mbarrier_expect", "gpu.async_fence",
    "gpu.barrier", "gpu.tma_wait", "gpu.wgmma_wait", "gpu.join", "gpu.cluster_arrive",
    "gpu.cluster_wait", "gpu.cluster_mbarrier_arrive", "gpu.cluster_mbarrier_wait",
)  # fmt: skip
"""Ops that order accesses."""

_NO_WAIT = 7
"""Pending wgmma groups: more than there are."""
_ORDERS = 16
"""Schedules in which a removal must have an effect."""


@attrs.frozen
class RemovalSite:
    """The position of an op that orders others: the function, the block, and the index in the
    block."""

    function: str
    block: str
    index: int
    op: Op = attrs.field(eq=False)

    @property
    def name(self) -> str:
        """The op, the function and the block as text."""
        return f"{self.op.mnemonic} in @{self.function}, {self.block}"


@attrs.define(eq=False)
class Runner:
    """A case that is compiled once and run in many schedules, with ops removed."""

    case: ProtocolCase
    staged: Any = attrs.field(init=False)
    expected: list[Array] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.staged = run_pipeline(self.case.module, target("sm_90a"), Options(), None)
        self.expected = self.case.reference()

    @property
    def module(self) -> Module:
        """The module at the last stage before code generation."""
        return self.staged.stages["barriers"]

    @property
    def sites(self) -> list[RemovalSite]:
        """The ops that can be removed."""
        return list(sites(self.module))

    def run(self, seed: int, module: Module | None = None) -> None:
        """Run the case in the schedule of `seed`. Raises AssertionError that describes the
        failure."""
        arguments, done, machine = self.case.fresh_arguments(), self.staged, target("sm_90a")
        simt.run(
            module or self.module, done.kernel, self.case.grid, arguments, machine, done.memory,
            done.num_warps, seed=seed,
        )  # fmt: skip
        for result, expected in zip(self.case.outputs(arguments), self.expected, strict=True):
            near = np.isclose(
                result, expected, self.case.tolerance, self.case.tolerance, equal_nan=True
            )
            if not near.all():
                raise AssertionError(f"{np.count_nonzero(~near)} elements are wrong")

    def detects_removal(self, site: RemovalSite) -> bool:
        """Whether the removal of the op has an effect in one of a few schedules."""
        changed = without(self.module, site)
        return any(self._fails(changed, seed) for seed in range(_ORDERS))

    def _fails(self, module: Module, seed: int) -> bool:
        try:
            self.run(seed, module)
        except AssertionError:
            return True
        return False


def sites(module: Module) -> Iterator[RemovalSite]:
    """Yield the positions of the ops of a module that order others."""
    for name, function in module.functions.items():
        for label, block in function.blocks.items():
            for index, op in enumerate(block.ops):
                if op.mnemonic in ORDERING:
                    yield RemovalSite(name, label, index, op)


def without(module: Module, site: RemovalSite) -> Module:
    """`module` without the op at `site`. A wait for wgmma groups is kept, but waits for none of
    them."""
    function, op = module.functions[site.function], site.op
    block = function.blocks[site.block]
    instead = (op.evolve(pending=_NO_WAIT),) if op.mnemonic == "gpu.wgmma_wait" else ()
    ops = (*block.ops[: site.index], *instead, *block.ops[site.index + 1 :])
    blocks = {**function.blocks, site.block: attrs.evolve(block, ops=ops)}
    return module.with_functions({**module.functions, site.function: function.with_blocks(blocks)})
