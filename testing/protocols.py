"""Protocols of roles in the machine of threads: right in many orders, and with every wait, fence
and arrival left out in turn.

    python -m tileir.testing.protocols --schedules 500

What is left out has to be noticed, as a race, as a deadlock or by what the kernel computes, in one
of a few orders; what is not is named as a survivor, and not needed as far as these orders tell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from tileir.backend.compile import staged
from tileir.backend.options import Options
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.backend.tma.plan import UNMAPPED
from tileir.interp import interpret
from tileir.ir import Module
from tileir.op import Op
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul
from tileir.testing.kernels_backward import attention_keys

Array: TypeAlias = np.ndarray[Any, Any]

ORDERING = (
    "gpu.mbarrier_wait", "gpu.mbarrier_arrive", "gpu.mbarrier_expect", "gpu.async_fence",
    "gpu.barrier", "gpu.tma_wait", "gpu.wgmma_wait", "gpu.join", "gpu.cluster_arrive",
    "gpu.cluster_wait", "gpu.remote_arrive", "gpu.remote_wait",
)  # fmt: skip
"""Ops that are there for what comes before what."""

_NO_WAIT = 7
"""Groups of products that may be under way: more than there are."""
_ORDERS = 6
"""Orders in which something left out has to be noticed."""

_FRONT = "cse,licm,uniform-steps,unwrap,descriptors"
PIPELINES = {
    "roles": f"{_FRONT},roles{{slots=2}}",
    "overlap": f"{_FRONT},roles{{slots=2}},overlap",
    "persist": f"{_FRONT},persist,roles{{slots=3}},overlap",
    "delay": f"{_FRONT},roles{{slots=2}},delay",
    "turns": f"{_FRONT},persist,roles{{slots=2}},delay",
    "split": f"{_FRONT},persist,split{{ranks=2}},roles{{slots=2}},overlap",
    "pingpong": f"{_FRONT},persist,roles{{slots=3,warps=4}},overlap,pingpong",
    "multicast": f"{_FRONT},cluster{{ranks=2}},roles{{slots=2}},overlap,multicast",
    "multicast by four": f"{_FRONT},cluster{{ranks=4}},roles{{slots=3}},overlap,multicast",
    "multicast in turns": (
        f"{_FRONT},cluster{{ranks=2}},roles{{slots=3,warps=4}},overlap,pingpong,multicast"
    ),
}


@attrs.frozen(eq=False)
class Case:
    """A kernel with roles and arguments for it; number `place` of them is what it writes."""

    name: str
    module: Module
    grid: tuple[int, int, int]
    arguments: tuple[Any, ...]
    place: int
    tolerance: float = 2e-3

    def expected(self) -> Array:
        """What the interpreter makes of it."""
        found = np.full_like(self.arguments[self.place], np.nan)
        interpret(self.module, None, self.grid, self.given(found))
        return found

    def given(self, result: Array) -> list[Any]:
        """The arguments, with `result` for what is written."""
        return [*self.arguments[: self.place], result, *self.arguments[self.place + 1 :]]


@attrs.define
class Runner:
    """A case staged once, to be run in many orders with ops left out."""

    case: Case
    staged: Any = attrs.field(init=False)
    expected: Array = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.staged = staged(self.case.module, target("sm_90a"), Options(), None)
        self.expected = self.case.expected()

    @property
    def module(self) -> Module:
        """At the last stage before code."""
        return self.staged.stages["barriers"]

    def run(self, seed: int, module: Module | None = None) -> None:
        """Run in the order drawn from `seed`. Raises AssertionError for what is wrong."""
        found = np.full_like(self.expected, np.nan)
        done, machine = self.staged, target("sm_90a")
        given = self.case.given(found)
        simt.run(
            module or self.module, done.kernel, self.case.grid, given, machine, done.memory,
            done.num_warps, seed=seed,
        )  # fmt: skip
        near = np.isclose(found, self.expected, self.case.tolerance, self.case.tolerance)
        if not near.all():
            raise AssertionError(f"{np.count_nonzero(~near)} elements are wrong")

    def survivors(self) -> Iterator[str]:
        """Ops without which nothing is noticed."""
        for name, label, index, op in sites(self.module):
            changed = without(self.module, name, label, index)
            if not any(self._notices(changed, seed) for seed in range(_ORDERS)):
                yield f"{self.case.name}: {op.mnemonic} in @{name}, {label}, {index}"

    def _notices(self, module: Module, seed: int) -> bool:
        try:
            self.run(seed, module)
        except AssertionError:
            return True
        return False


def sites(module: Module) -> Iterator[tuple[str, str, int, Op]]:
    """The ordering ops: function, block, number in the block."""
    for name, function in module.functions.items():
        for label, block in function.blocks.items():
            for index, op in enumerate(block.ops):
                if op.mnemonic in ORDERING:
                    yield name, label, index, op


def without(module: Module, name: str, label: str, index: int) -> Module:
    """`module` less one op; a wait for products waits for none."""
    function = module.functions[name]
    block = function.blocks[label]
    op = block.ops[index]
    instead = (op.evolve(pending=_NO_WAIT),) if op.mnemonic == "gpu.wgmma_wait" else ()
    ops = (*block.ops[:index], *instead, *block.ops[index + 1 :])
    blocks = {**function.blocks, label: attrs.evolve(block, ops=ops)}
    return module.with_functions({**module.functions, name: function.with_blocks(blocks)})


ODD = (72, 263, 200)
"""Rows, columns and depth of a product whose rows no tensor map has, but for those of the first
factor."""
LATE = f"{_FRONT},persist,roles{{slots=2}},late-waits"


def cases() -> Iterator[Case]:
    """Products, attention and its gradient by every pipeline that makes roles."""
    yield slopes("late-waits", LATE)
    yield product("by threads", PIPELINES["persist"], ODD, (2, 2, 2))
    yield product("beside threads", PIPELINES["persist"], ODD, (0, 2, 2))
    for name, pipeline in PIPELINES.items():
        if name not in ("delay", "turns"):
            yield product(name, pipeline)
        if name not in ("overlap", "pingpong", "split") and "multicast" not in name:
            yield softmax(name, pipeline)


def product(
    name: str, pipeline: str, shape: tuple[int, int, int] = (72, 264, 200),
    units: tuple[int, ...] = (),
) -> Case:  # fmt: skip
    """A product at whose edges tiles leave the tensors; `units` says which of these no tensor map
    has (`tileir.backend.tma.plan.UNMAPPED`)."""
    m, n, k = shape
    random = np.random.default_rng(m)
    a, b = (random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    module = matmul(64, 64, 32)
    kernel = module.functions["matmul"]
    marked = kernel.evolve(attributes={UNMAPPED: units} if units else {})
    module = run(module.with_functions({"matmul": marked}), pipeline).module
    result, tiles = np.zeros((m, n), np.float16), -(-m // 64) * -(-n // 64)
    return _case(f"product {name}", module, (tiles, 1, 1), (a, b, result, m, n, k), 2)


def softmax(name: str, pipeline: str) -> Case:
    """Causal attention, with so many instances that slots come round where blocks stay; in turns by
    two warpgroups."""
    t, heads, rows = 150, 3, 128 if name == "turns" else 64
    random = np.random.default_rng(t)
    q, k, v = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(3))
    module = run(attention(rows, 32, 32, causal=True), pipeline).module
    arguments = (q, k, v, np.zeros_like(q), t, 0.25)
    return _case(f"attention {name}", module, (-(-t // rows), heads, 1), arguments, 3)


def slopes(name: str, pipeline: str) -> Case:
    """The gradient of keys in causal attention, of two heads of queries each."""
    t, heads, kept = 150, 4, 256
    random = np.random.default_rng(t)
    q, g = (random.standard_normal((heads, t, 32)).astype(np.float16) for _ in range(2))
    k, v, dk, dv = (random.standard_normal((2, t, 32)).astype(np.float16) for _ in range(4))
    sums, delta = (random.uniform(2, 4, (heads, kept)).astype(np.float32) for _ in range(2))
    module = run(attention_keys(32, 64, 32, causal=True), pipeline).module
    arrays = (q, k, v, g, sums, delta, dk, dv)
    return _case(f"gradient {name}", module, (3, 2, 1), (*arrays, t, 2, 0.25), 6)


def _case(
    name: str, module: Module, grid: tuple[int, int, int], arguments: tuple[Any, ...], place: int
) -> Case:
    """Kernels whose blocks work for many instances take the grid as arguments."""
    kernel = next(f for f in module.functions.values() if f.kernel)
    more = len(kernel.parameters) - len(arguments)
    return Case(name, module, (2, 1, 1) if more else grid, (*arguments, *grid[:more]), place)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 1 where anything is wrong or survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=20, help="orders of every kernel")
    parser.add_argument("--only", default="", help="part of the names of kernels")
    chosen = parser.parse_args(argv)
    wrong = 0
    for case in cases():
        if chosen.only not in case.name:
            continue
        runner = Runner(case)
        for seed in range(chosen.schedules):
            runner.run(seed)
        left = list(runner.survivors())
        count = len(list(sites(runner.module)))
        wrong += len(left)
        first = (
            f"{case.name}: right in {chosen.schedules} orders; {count - len(left)} of {count} "
            "ops noticed where left out"
        )
        sys.stdout.write("\n  ".join((first, *left)) + "\n")
        sys.stdout.flush()
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
