"""Races between program instances: the SIMT simulator reports what the interpreter reports, at the
same op."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import numpy as np
import pytest

from tileir.backend.executors import SimtExecutor
from tileir.backend.simt.instances import InstanceOrder
from tileir.backend.simt.shadow import RaceError
from tileir.errors import InterpretError, TileirError
from tileir.executor import executor
from tileir.interp import interpret
from tileir.interp.memory import Memory
from tileir.ir import Module
from tileir.ops.arith import Add
from tileir.ops.program import ProgramId
from tileir.testing import sample
from tileir.textual import parse
from tileir.types import I32
from tileir.values import constant

from .hopper.programs import corpus

SEEDS = range(3)


@attrs.frozen
class Case:
    """A program, its grid, and how many elements its arrays have, all f32 or i32; `scalars` come
    last."""

    text: str
    races: bool
    grid: Any = 4
    sizes: tuple[int, ...] = (64, 64)
    scalars: tuple[int, ...] = ()
    kind: str = "i4"

    def arguments(self) -> list[Any]:
        return [*(np.zeros(size, self.kind) for size in self.sizes), *self.scalars]


def scalar(body: str, races: bool, grid: Any = 4) -> Case:
    """A kernel that begins with its number `%i`."""
    text = (
        "tir 1.0\ndefine kernel void @k(i32* %x, i32* %y) {\nentry:\n"
        "  %i = program_id i32\n  %xi = getelementptr i32* %x, %i\n"
        f"{body}\n}}\n"
    )
    return Case(text, races, grid)


ADD = "  %v = load i32 %AT\n  %s = add i32 %v, 1\n  store %AT, %s\n  ret"
LOCK = """  br spin
spin:
  %old = atomic_cas i32 %y, 0, 1 {sem = ACQUIRE}
  %got, _ = icmp (i1, i1) %old, 0 {predicate = eq}
  cond_br %got, locked, spin
locked:
  %v = load i32 %x
  %s = add i32 %v, 1
  store %x, %s
  atomic_store %y, 0 {sem = RELEASE}
  ret"""
TILE = """tir 1.0
define kernel void @k(f32* %x, f32* %y) {
entry:
  %i = program_id i32
  %r = make_range i32<32>
  %first = mul i32 %i, STEP
  %row = getelementptr f32* %x, %first
  %ps = splat f32*<32> %row
  %p = getelementptr f32*<32> %ps, %r
  %qs = splat f32*<32> %y
  %q = getelementptr f32*<32> %qs, %r
  %v = load f32<32> %p
  ADD
  ret
}
"""
PLAIN = "%w = load f32<32> %q\n  %s = fadd f32<32> %v, %w\n  store %q, %s"
ATOMIC = "%w = atomic_rmw f32<32> %q, %v {op = fadd, sem = relaxed}"
PERSISTENT = """  %n = num_programs i32
  br next
next:
  %at = phi i32 [%i, entry], [%more, next]
  %p = getelementptr i32* %x, %at
  store %p, %at
  %more = add i32 %at, STEP
  %in, _ = icmp (i1, i1) %more, 16 {predicate = slt}
  cond_br %in, next, done
done:
  ret"""
ROLE = """tir 1.0
stage "warp_specialized"

define private void @k.work(i32* %x, i32* %y) {
entry:
  %i = program_id i32
  %xi = getelementptr i32* %x, %i
BODY
}

define kernel void @k(i32* %x, i32* %y) {num_warps = 8} {
entry:
  gpu.role @k.work, %x, %y {first = 4, warps = 4}
  gpu.join
  ret
}
"""
RING, CLUSTER, REMOTE = corpus("ring"), corpus("cluster"), corpus("remote")


def lock(acquire: str, release: str) -> str:
    return LOCK.replace("ACQUIRE", acquire).replace("RELEASE", release)


def ring(column: str, races: bool) -> Case:
    """Matmuls by roles, which store the columns from 64 `column` on."""
    before, consumer = RING.split("@product.consumer", 1)
    consumer = consumer.replace("mul i32 %pn, 64", f"mul i32 {column}, 64", 1)
    sizes = (128 * 64, 64 * 128, 128 * 128)
    text = f"{before}@product.consumer{consumer}"
    return Case(text, races, (1, 2), sizes, (128, 128, 64), "f2")


def role(body: str, races: bool) -> Case:
    return Case(ROLE.replace("BODY", body), races)


def cluster(text: str, line: str, instead: str, races: bool) -> Case:
    """Sums of tiles over the blocks of a cluster."""
    assert text.count(line) == 1
    scalars = (2,) if text is REMOTE else ()
    return Case(text.replace(line, instead), races, 2, (8 * 512, 4 * 512), scalars, "f4")


CASES = {
    "own elements": scalar(ADD.replace("%AT", "%xi"), False),
    "read-modify-write": scalar(ADD.replace("%AT", "%x"), True),
    "one instance": scalar(ADD.replace("%AT", "%x"), False, 1),
    "along another axis": scalar(ADD.replace("%AT", "%xi"), True, (2, 2)),
    "equal values": scalar("  store %x, i32 7\n  ret", True),
    "other values": scalar("  store %x, %i\n  ret", True),
    "read and write": scalar("  %v = load i32 %x\n  store %xi, %v\n  ret", True),
    "read of another array": scalar("  %v = load i32 %y\n  store %xi, %v\n  ret", False),
    "atomics": scalar("  %v = atomic_rmw i32 %x, 1 {op = add}\n  ret", False),
    "atomic of a block": scalar(
        "  %v = atomic_rmw i32 %x, 1 {op = add, scope = cta}\n  ret", True
    ),
    "atomic and read": scalar(
        "  %v = atomic_rmw i32 %x, 1 {op = add}\n  %w = load i32 %x\n  ret", True
    ),
    "atomic next to a write": scalar(
        "  %v = atomic_rmw i32 %y, 1 {op = add}\n  store %x, %i\n  ret", True
    ),
    "lock": scalar(lock("acquire", "release"), False),
    "lock without acquire": scalar(lock("relaxed", "release"), True),
    "lock without release": scalar(lock("acquire", "relaxed"), True),
    "split-K by atomics": Case(
        TILE.replace("STEP", "32").replace("ADD", ATOMIC), False, 3, (96, 32), kind="f4"
    ),
    "split-K by stores": Case(
        TILE.replace("STEP", "32").replace("ADD", PLAIN), True, 3, (96, 32), kind="f4"
    ),
    "tiles": Case(
        TILE.replace("STEP", "32").replace("ADD", "store %p, %v"), False, 3, (96, 32), kind="f4"
    ),
    "tiles that overlap": Case(
        TILE.replace("STEP", "31").replace("ADD", "store %p, %v"), True, 3, (96, 32), kind="f4"
    ),
    "persistent": scalar(PERSISTENT.replace("STEP", "%n"), False),
    "persistent by one": scalar(PERSISTENT.replace("STEP", "1"), True),
    "role: own elements": role(ADD.replace("%AT", "%xi"), False),
    "role: read-modify-write": role(ADD.replace("%AT", "%x"), True),
    "role: equal values": role("  store %x, i32 7\n  ret", True),
    "role: atomics": role("  %v = atomic_rmw i32 %x, 1 {op = add}\n  ret", False),
    "role: lock": role(lock("acquire", "release"), False),
    "role: lock without acquire": role(lock("relaxed", "release"), True),
    "role: copies": ring("%pn", False),
    "role: copies to one place": ring("0", True),
    "cluster": cluster(CLUSTER, "%base = mul i32 %i, 512", "%base = mul i32 %i, 512", False),
    "clusters store alike": cluster(CLUSTER, "%base = mul i32 %i, 512", "%base = mul i32 %i, 0",
                                    True),
    "blocks of a cluster": cluster(CLUSTER, "%mine = mul i32 %row, 32", "%mine = mul i32 %row, 0",
                                   True),
    "cluster of roles": cluster(REMOTE, "%n4 = mul i32 %n1, 512", "%n4 = mul i32 %n1, 512", False),
    "clusters of roles store alike": cluster(REMOTE, "%n4 = mul i32 %n1, 512",
                                             "%n4 = mul i32 %t, 512", True),
}  # fmt: skip


def simulate(case: Case, **options: Any) -> None:
    options = {"target": "sm_90a", **options}
    SimtExecutor().launch(parse(case.text), None, case.grid, case.arguments(), **options)


def error_of(launch: Any) -> TileirError | None:
    try:
        launch()
    except TileirError as error:
        return error
    return None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_both_report_the_same(name: str) -> None:
    case = CASES[name]
    for seed in SEEDS:
        expected = error_of(
            lambda s=seed: interpret(parse(case.text), None, case.grid, case.arguments(), seed=s)
        )
        diagnostics = error_of(lambda s=seed: simulate(case, seed=s))
        assert (expected is not None) == (diagnostics is not None) == case.races, (
            seed,
            expected,
            diagnostics,
        )
        if expected is None or diagnostics is None:
            continue
        assert isinstance(expected, InterpretError) and expected.code == "TIR0517"
        assert isinstance(diagnostics, RaceError) and diagnostics.code == "TIR0721"
        assert all(access.location is not None for access in _all(diagnostics))


def _all(error: TileirError) -> list[Any]:
    (first,) = error.diagnostics
    return [first, *first.notes]


@pytest.mark.parametrize("name", ["read-modify-write", "split-K by stores", "role: equal values"])
def test_both_accesses_are_located(name: str) -> None:
    case = CASES[name]
    error = error_of(lambda: simulate(case))
    assert error is not None
    lines = case.text.splitlines()
    for access in _all(error):
        assert any(word in lines[access.location.line - 1] for word in ("load", "store"))
    assert "program (" in str(error) and "nothing orders the two" in str(error)


@pytest.mark.parametrize(
    "options",
    [{"num_warps": 1}, {"num_warps": 8}, {"blocks": 1}, {"warp_specialize": False}, {"split_k": 2},
     {"target": "sm_80"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", ["own elements", "read-modify-write", "lock", "split-K by stores"])
def test_options_of_the_launch_change_no_verdict(name: str, options: dict[str, Any]) -> None:
    case = CASES[name]
    error = error_of(lambda: simulate(case, **options))
    assert (error is not None) == case.races, error


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if case.races and name != "blocks of a cluster"],
)
def test_races_can_be_allowed(name: str) -> None:
    simulate(CASES[name], allow_races=True)


def at_one_place(module: Module, kernel: str) -> Module:
    """The module with all instances of `kernel` at the place of the first."""
    function = module.functions[kernel]
    zero = constant(I32, 0)
    blocks = {
        label: attrs.evolve(
            block,
            ops=tuple(
                Add(zero, zero, results=op.results) if isinstance(op, ProgramId) else op
                for op in block.ops
            ),
        )
        for label, block in function.blocks.items()
    }
    functions = {**module.functions, kernel: function.evolve(blocks=blocks)}
    return attrs.evolve(module, functions=functions)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(6))
def test_generated_programs(number: int) -> None:
    """Instances of generated programs store apart from each other; at one place they race."""
    program = sample(number)
    for races in (False, True):
        module = at_one_place(program.module, program.kernel) if races else program.module
        for on, code in (("interpreter", "TIR0517"), ("simt", "TIR0721")):
            options = {"allow_undef": program.undef} if on == "interpreter" else {"num_warps": 1}
            launch, arguments = executor(on).launch, program.arguments(number)
            diagnostics = error_of(
                partial(launch, module, program.kernel, program.grid, arguments, **options)
            )
            assert (diagnostics and diagnostics.diagnostics[0].code) == (code if races else None), (
                diagnostics
            )


@pytest.mark.parametrize("second", [0, 2, 4, 6, 8])
def test_accesses_that_are_not_aligned_race_in_the_bytes_they_share(second: int) -> None:
    region = Memory().add("x", np.zeros(16, np.uint8), 0)
    launch = InstanceOrder((2, 3, 1), [region], synchronises=False)
    access, before = Add(constant(I32, 1), constant(I32, 1)), (1, 2, 0)
    at = {"size": 4, "op": access, "write": True, "atomic": False}
    launch.agent(before).touch(0, np.array([2]), **at)
    launch.agent((1, 0, 0)).touch(0, np.array([second]), **at)
    if abs(second - 2) >= 4:
        launch.end()
        return
    with pytest.raises(RaceError) as caught:
        launch.end()
    assert f"byte {max(second, 2)} of x" in str(caught.value)
    assert "program (1, 0, 0) writes" in str(caught.value)
    assert "program (1, 2, 0) writes" in str(caught.value)
