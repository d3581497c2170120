"""Allocations in shared memory and barriers on random control flow, walked along random paths.

What is checked is worked out here from the ops of the path alone: what was written to a buffer is
there until it is read, no copy lands in what another uses, and no value uses the bytes of another
used since the last barrier. The verifier and the passes look at all paths at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from tests.sizes import for_each
from tileir import Function, Module
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.simt import machine as simt
from tileir.backend.simt.shadow import RaceError
from tileir.backend.target import target
from tileir.errors import CompileError
from tileir.op import Op
from tileir.passmanager import run
from tileir.textual import parse, print_module
from tileir.values import Value

HEADER = """tir 1.0
stage "layouts"
#a = layout(rank = 2, register = [[0, 1], [0, 2], [32, 0]], lane = [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]])
#b = layout(rank = 2, register = [[1, 0], [2, 0], [32, 0]], lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]], warp = [[0, 8], [16, 0]])

define kernel void @k(f32* aligned(16) %x, i1 %c) {num_warps = 4} {
"""  # noqa: E501
TILES = ("i8<64, 16", "f16<64, 16", "f32<64, 16", "f64<64, 16")


class Program:
    """Text of a kernel of blocks that end anywhere, its ops on buffers and passages."""

    def __init__(self, seed: int) -> None:
        self.chance, self.names = random.Random(seed), 0
        blocks = self.chance.randrange(2, 7)
        self.lines = [
            "entry:",
            "  %p = splat f32*<64, 16, #a> %x",
            "  %v = splat f32<64, 16, #a> 1.0",
        ]
        self.everywhere = [self.allot() for _ in range(self.chance.randrange(4))]
        self.body([*self.everywhere])
        self.lines.append("  br b0")
        for i in range(blocks):
            self.lines.append(f"b{i}:")
            self.body([*self.everywhere])
            ways = [f"b{self.chance.randrange(blocks)}" for _ in range(2)]
            last = f"  cond_br %c, {', '.join(ways)}" if self.chance.random() < 0.8 else "  ret"
            self.lines.append("  ret" if i == blocks - 1 else last)
        self.text = HEADER + "\n".join(self.lines) + "\n}\n"

    def name(self) -> str:
        self.names += 1
        return f"%n{self.names}"

    def allot(self) -> str:
        result = self.name()
        stages = self.chance.randrange(1, 4)
        shape = f"shape = [{stages}, 64, 16], swizzle = 2"
        self.lines.append(f"  {result} = gpu.shared_alloc f32 addrspace(3)* {{{shape}}}")
        return result

    def body(self, buffers: list[str]) -> None:
        for _ in range(self.chance.randrange(1, 9)):
            kind = self.chance.choice(("store", "load", "load", "copy", "wait", "passage", "temp"))
            if kind == "scratch":
                buffers.append(self.allot())
            elif kind == "passage":
                self.passage(self.chance.choice(TILES))
            elif kind == "wait":
                pending = self.chance.randrange(3)
                self.lines += ["  gpu.barrier"] * (pending == 2)
                self.lines.append(f"  gpu.async_wait {{pending = {pending}}}")
            elif buffers:
                self.access(kind, self.chance.choice(buffers))

    def passage(self, tile: str) -> None:
        source, result = self.name(), self.name()
        self.lines += [
            f"  {source} = splat {tile}, #a> {'1' if tile[0] == 'i' else '1.0'}",
            f"  {result} = gpu.convert_layout {tile}, #b> {source} {{layout = #b}}",
        ]

    def access(self, kind: str, buffer: str) -> None:
        if kind == "store":
            self.lines.append(f"  gpu.local_store %v, {buffer}, 0")
        elif kind == "load":
            self.lines.append(f"  {self.name()} = gpu.local_load f32<64, 16, #a> {buffer}, 0")
        else:
            self.lines.append(f"  gpu.async_copy %p, {buffer}, 0")
            self.lines += ["  gpu.async_commit"] * (self.chance.random() < 0.8)


@attrs.define(eq=False)
class Walk:
    """What has happened on one path. `holds`: whose value is in each byte; `written`: buffers
    that something was written to; `groups` of copies under way; `used`: who used which bytes since
    the last barrier."""

    allocations: dict[Value, tuple[int, int]]
    holds: dict[int, Any] = attrs.field(factory=dict)
    written: set[Value] = attrs.field(factory=set)
    groups: list[list[Value]] = attrs.field(factory=lambda: [[]])
    used: list[tuple[Any, range]] = attrs.field(factory=list)

    def bytes(self, owner: Any, allocation: tuple[int, int]) -> range:
        """The bytes of an allocation, whose use must not change other values."""
        mine = range(allocation[0], sum(allocation), 16)
        for group in self.groups:
            for buffer in group:
                theirs = range(self.allocations[buffer][0], sum(self.allocations[buffer]), 16)
                assert buffer is owner or not overlap(mine, theirs), "a copy lands here"
        return mine

    def write(self, owner: Any, allocation: tuple[int, int], repeated: bool = True) -> None:
        """`owner` writes its allocation."""
        mine = self.bytes(owner, allocation)
        for other, theirs in self.used:
            assert (other is owner and repeated) or not overlap(mine, theirs), "no barrier between"
        self.holds.update(dict.fromkeys(mine, owner))

    def do(self, op: Any) -> None:
        """One op of the path."""
        kind = op.mnemonic
        if kind == "gpu.barrier":
            self.used = []
        elif kind == "gpu.async_commit":
            self.groups.append([])
        elif kind == "gpu.async_wait":
            self.land(op.pending)
        elif kind == "gpu.shared_alloc":
            self.written.discard(op.results[0])
        elif op.shared is not None:
            self.write(op, op.shared, repeated=False)
            self.used = [(op, range(op.shared[0], sum(op.shared), 16))]
        elif hasattr(op, "buffer"):
            self.access(op)

    def access(self, op: Any) -> None:
        """An access of a buffer."""
        buffer, allocation = op.buffer, self.allocations[op.buffer]
        mine = range(allocation[0], sum(allocation), 16)
        if op.mnemonic == "gpu.local_load":
            if buffer in self.written:
                assert all(self.holds.get(at) is buffer for at in mine), "overwritten"
        else:
            self.write(buffer, allocation)
            self.written.add(buffer)
        if op.mnemonic == "gpu.async_copy":
            self.groups[-1].append(buffer)
        self.used.append((buffer, mine))

    def land(self, pending: int) -> None:
        """Copies land that are waited for."""
        *groups, last = self.groups
        done = groups[: len(groups) - pending] if pending else groups
        self.groups = [*groups[len(done) :], last]
        for buffer in [b for group in done for b in group]:
            mine = range(self.allocations[buffer][0], sum(self.allocations[buffer]), 16)
            self.holds.update(dict.fromkeys(mine, buffer))
            self.used.append((buffer, mine))


def overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def path(function: Function, chance: random.Random, steps: int) -> Iterator[Op]:
    """The ops of some path from the entry."""
    block = function.entry
    for _ in range(steps):
        yield from block.ops
        if not block.successors:
            return
        block = function.blocks[chance.choice(block.successors).label]


def allocate(text: str, pipeline: str = "allocate-shared,insert-barriers") -> Module:
    """The program after the passes; the verifier runs after each."""
    return run(parse(text), pipeline).module


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(150))
def test_on_any_path_everyone_has_their_bytes(seed: int) -> None:
    text = Program(seed).text
    module = allocate(text)
    function = module.functions["k"]
    allocations = {
        op.results[0]: op.shared
        for op in function.ops
        if op.mnemonic == "gpu.shared_alloc" and op.shared is not None
    }
    assert all(op.shared for op in function.ops if op.mnemonic == "gpu.convert_layout")
    for number in range(12):
        walk = Walk(allocations)
        for op in path(function, random.Random(number), 40):
            walk.do(op)


@for_each("seed", range(12))
def test_the_passes_are_idempotent(seed: int) -> None:
    allocated = allocate(Program(seed).text, "allocate-shared")
    assert run(allocated, "allocate-shared").module is allocated
    reparsed = parse(print_module(allocated))
    assert print_module(reparsed) == print_module(allocated)
    module = run(allocated, "insert-barriers").module
    assert run(module, "insert-barriers").module is module
    assert print_module(parse(print_module(module))) == print_module(module)
    assert print_module(run(reparsed, "insert-barriers").module) == print_module(module)


def test_allocations_must_fit_the_limit() -> None:
    text = HEADER + (
        "entry:\n  %v = splat f32<64, 16, #a> 1.0\n"
        "  %w = gpu.convert_layout f32<64, 16, #b> %v {layout = #b}\n  ret\n}\n"
    )
    assert allocate(text, "allocate-shared{limit=4096}").functions["k"].attributes["shared"] == 4096
    with pytest.raises(CompileError, match=r"4096 bytes .* and there are 4095") as raised:
        allocate(text, "allocate-shared{limit=4095}")
    assert raised.value.code == "TIR0708"


@pytest.mark.parametrize("passes", ["allocate-shared", "insert-barriers"])
def test_layouts_come_first(passes: str) -> None:
    text = (
        "tir 1.0\ndefine kernel void @k(f32 %x) {\nentry:\n  %v = splat f32<128> %x\n"
        "  %s = reduce f32 %v {combiner = fadd}\n  ret\n}\n"
    )
    with pytest.raises(CompileError, match="f32<128> has no layout") as raised:
        allocate(text, passes)
    assert raised.value.code == "TIR0709"


def test_allocations_come_before_barriers() -> None:
    text = HEADER + (
        "entry:\n  %v = splat f32<64, 16, #a> 1.0\n"
        "  %w = gpu.convert_layout f32<64, 16, #b> %v {layout = #b}\n  ret\n}\n"
    )
    with pytest.raises(CompileError, match=r"convert_layout needs 4096 bytes") as raised:
        allocate(text, "insert-barriers")
    assert raised.value.code == "TIR0709"


OVER = (
    "entry:\n  %p = splat f32*<64, 16, #a> %x\n  %v = splat f64<64, 16, #a> 1.0\n"
    "  %b = gpu.shared_alloc f32 addrspace(3)* {shape = [2, 64, 16], swizzle = 2}\n"
    "  gpu.async_copy %p, %b, 0\n  gpu.async_commit\n  gpu.barrier\n"
    "  %w = gpu.convert_layout f64<64, 16, #b> %v {layout = #b}\n  ret\n}\n"
)
"""A copy that no op needs, and a passage after it."""


def run_simulator(module: Module) -> None:
    """The kernel on the SIMT simulator."""
    function = module.functions["k"]
    plan, arguments = SharedMemoryPlan.of(function), [np.zeros(1024, np.float32), np.bool_(True)]
    simt.run(module, "k", (1,), arguments, target("sm_90"), plan, 4)


def without(module: Module, mnemonic: str) -> Module:
    """The module without its last op of a kind."""
    function = module.functions["k"]
    block = function.entry
    last = [op for op in block.ops if op.mnemonic == mnemonic][-1]
    block = attrs.evolve(block, ops=tuple(op for op in block.ops if op is not last))
    return module.with_functions({"k": function.with_blocks({"entry": block})})


def test_a_conversion_waits_for_copies_into_its_allocation() -> None:
    module = allocate(HEADER + OVER)
    assert module.functions["k"].attributes["shared"] == 8192
    run_simulator(module)
    with pytest.raises(RaceError, match="which a copy is on its way to"):
        run_simulator(without(module, "gpu.async_wait"))
    with pytest.raises(RaceError, match="without a barrier between"):
        run_simulator(without(module, "gpu.barrier"))
    kinds = [op.mnemonic for op in module.functions["k"].ops]
    assert kinds[-5:-1] == ["gpu.barrier", "gpu.async_wait", "gpu.barrier", "gpu.convert_layout"]
