"""What options ask for, and attributes of a kernel where options say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.analysis.clusters import persistent_instances
from tileir.backend.compile import LoweredKernel, run_pipeline
from tileir.backend.options import Options
from tileir.backend.target import target
from tileir.ir import Module
from tileir.ops.roles import Role
from tileir.testing.kernels import matmul
from tileir.textual import print_module


def lowered_matmul(attributes: dict[str, Any], **options: Any) -> LoweredKernel:
    """A matmul whose kernel has `attributes`, compiled with `options`."""
    module = matmul(64, 32, 32)
    kernel = module.functions["matmul"]
    kernel = kernel.evolve(attributes={**kernel.attributes, **attributes})
    return run_pipeline(Module({"matmul": kernel}), target("sm_90a"), Options(**options), None)


def shape(lowered: LoweredKernel) -> tuple[int, int, bool]:
    """How many roles, blocks of a cluster, and whether a block works for many instances."""
    kernel = lowered.stages["barriers"].functions["matmul"]
    attributes = kernel.attributes
    roles = sum(isinstance(op, Role) for op in kernel.ops)
    return roles, int(attributes.get("cluster", 1)), persistent_instances(kernel) > 0  # type: ignore[arg-type]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("attributes", "options", "expected"),
    [
        ({}, {}, (2, 1, True)),
        ({"warp_specialize": False}, {}, (0, 1, False)),
        ({"warp_specialize": False}, {"warp_specialize": True}, (2, 1, True)),
        ({}, {"warp_specialize": False}, (0, 1, False)),
        ({"persistent": False}, {}, (2, 1, False)),
        ({"persistent": False}, {"persistent": True}, (2, 1, True)),
        ({"persistent": True}, {}, (2, 1, True)),
        ({"persistent": True}, {"persistent": False}, (2, 1, False)),
        ({"persistent": True, "multicast": 2}, {}, (2, 2, True)),
        ({"pingpong": True}, {}, (3, 1, True)),
        ({"pingpong": True}, {"pingpong": False}, (2, 1, True)),
        ({}, {"pingpong": True}, (3, 1, True)),
        ({"multicast": 2}, {}, (2, 2, True)),
        ({"multicast": 2}, {"multicast": 4}, (2, 4, True)),
        ({"split_k": 2}, {}, (2, 2, True)),
    ],
    ids=str,
)
def test_options_win_over_attributes(
    attributes: dict[str, Any], options: dict[str, Any], expected: tuple[int, int, bool]
) -> None:
    assert shape(lowered_matmul(attributes, **options)) == expected


def test_blocks_that_share_the_depth_load_for_themselves() -> None:
    """Nothing else becomes of it, and one remark says why."""
    alone, both = lowered_matmul({}, split_k=2), lowered_matmul({}, split_k=2, multicast=2)
    texts = [print_module(result.stages["barriers"]) for result in (alone, both)]
    assert texts[0] == texts[1]
    more = [note.message for note in both.notes if note not in alone.notes]
    assert more == ["no multicast: split-K is on"]
