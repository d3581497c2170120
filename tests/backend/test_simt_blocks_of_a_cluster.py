"""Happens-before in the shared memory of several blocks: an agent accesses its own block, and
others by their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.sizes import for_each
from tileir.backend.simt.happens_before import AgentClock, HappensBefore
from tileir.backend.simt.shadow import RaceError

SIZE = 64
AT = np.array([3, 4])


def agents(blocks: int) -> list[AgentClock]:
    """An agent of each block."""
    order = HappensBefore(SIZE * blocks, block=SIZE if blocks > 1 else 0)
    return [
        AgentClock(order, order.agent(f"agent {rank}", rank), base=SIZE * rank)
        for rank in range(blocks)
    ]


ACCESSES: dict[str, Callable[[AgentClock, Any], None]] = {
    "read": AgentClock.read, "write": AgentClock.write, "copy": AgentClock.begin_copy,
    "wgmma": lambda agent, at: agent.begin_reading(at, "wgmma reads"),
}  # fmt: skip


@for_each("name", ACCESSES)
def test_the_same_offset_in_two_blocks_is_two_bytes(name: str) -> None:
    first, second = agents(2)
    first.write(AT)
    ACCESSES[name](second, AT)
    with pytest.raises(RaceError, match="byte 3 of the shared memory of block 1"):
        ACCESSES["write" if name != "write" else "read"](
            _in_block(first, 1), record_end(name, second)
        )


def _in_block(agent: AgentClock, rank: int) -> AgentClock:
    """The agent, with addresses in another block."""
    agent.base = SIZE * rank
    return agent


def record_end(name: str, agent: AgentClock) -> Any:
    """Record the access of a copy, which ends as a write of its block."""
    if name == "copy":
        agent.order.wrote(agent.agent, agent.clock, agent.base + AT, threads=False)
    return AT


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_fence_is_of_the_bytes_of_a_block(blocks: int) -> None:
    first, *others = agents(blocks)
    first.write(AT)
    for other in others:
        other.fence()
    with pytest.raises(RaceError, match=r"without gpu\.async_fence"):
        first.begin_reading(AT, "wgmma reads")
    first.fence()
    first.begin_reading(AT, "wgmma reads")
    with pytest.raises(RaceError, match="a pending wgmma or copy reads"):
        first.write(AT)
    first.end_reading(AT)
    first.write(AT)


def test_one_block_is_not_named() -> None:
    (only,) = agents(1)
    other = AgentClock(only.order, only.order.agent("another"))
    only.write(AT)
    with pytest.raises(RaceError, match="another writes byte 3 of shared memory, which agent 0"):
        other.write(AT)
