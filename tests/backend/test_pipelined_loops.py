"""The pass `async-pipeline` on small loops: how many stages it takes, what keeps a loop as it is,
and what of a loop stays where it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.software_pipeline.occupancy import register_limit
from tileir.backend.target import target
from tileir.errors import InfeasibleError
from tileir.passmanager import run
from tileir.textual import parse, print_module

KERNEL = """tir 1.0

define kernel void @product(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {
entry:
  %i = make_range i32<16>
  %r = expand_dims i32<16, 1> %i {axis = 1}
  %r16 = mul i32<16, 1> %r, 16
  %rows = broadcast i32<16, 16> %r16
  %k = expand_dims i32<1, 16> %i {axis = 0}
  %columns = broadcast i32<16, 16> %k
  %offs = add i32<16, 16> %rows, %columns
  %as = splat f16*<16, 16> %a
  %pa = getelementptr f16*<16, 16> %as, %offs
  %bs = splat f16*<16, 16> %b
  %pb = getelementptr f16*<16, 16> %bs, %offs
  %cs = splat f32*<16, 16> %c
  %pc = getelementptr f32*<16, 16> %cs, %offs
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %qa = phi f16*<16, 16> [%pa, entry], [%qa.next, loop]
  %sum = phi f32<16, 16> [0.0, entry], [%total, loop]
  %x = load f16<16, 16> %qa
  %y = load f16<16, 16> %pb
  %dot = dot f32<16, 16> %x, %y, %sum
  %total = fadd f32<16, 16> %dot, 0.0
  %qa.next = getelementptr f16*<16, 16> %qa, i32<16, 16> 256
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %more, loop, done
done:
  store %pc, %total
  ret
}
"""
EACH = 2 * 16 * 16 * 2
"""Bytes of a stage of both operands."""


def pipeline(text: str, options: str = "") -> Any:
    return run(parse(text), f"async-pipeline{{{options}}}" if options else "async-pipeline")


def stage_counts(module: Any) -> list[int]:
    ops = (op for f in module.functions.values() for op in f.ops)
    return [op.shape[0] for op in ops if op.mnemonic == "gpu.shared_alloc"]


def launch(module: Any, iterations: int) -> Any:
    generator = np.random.default_rng(iterations)
    a, b = (
        generator.integers(-4, 5, n).astype(np.float16) for n in (256 * max(iterations, 1), 256)
    )
    c = np.full((16, 16), np.nan, np.float32)
    tileir.interpret(module, "product", (1,), [a, b, c, iterations])
    return c


def keeps_its_meaning(text: str, options: str) -> str:
    """What is printed after the pass; results are those before, for few and many iterations."""
    module, text_after = parse(text), pipeline(text, options).module
    for iterations in (1, 2, 3, 6):
        assert (launch(text_after, iterations) == launch(module, iterations)).all()
    return print_module(text_after)


@pytest.mark.parametrize(
    ("shared", "count"), [(0, 2), (EACH, 2), (3 * EACH - 1, 2), (3 * EACH, 3), (4 * EACH, 4),
                          (9 * EACH, 4)],
)  # fmt: skip
def test_stages_are_as_many_as_fit_two_to_four(shared: int, count: int) -> None:
    module = pipeline(KERNEL, f"shared = {shared}").module
    assert stage_counts(module) == [count, count]
    keeps_its_meaning(KERNEL, f"shared = {shared}")


@pytest.mark.parametrize("count", [2, 3, 5])
def test_stages_are_as_many_as_requested(count: int) -> None:
    assert stage_counts(pipeline(KERNEL, f"num-stages = {count}").module) == [count, count]
    text = KERNEL.replace("loop, done\n", f"loop, done {{stages = {count}}}\n")
    assert stage_counts(pipeline(text, "num-stages = 4").module) == [count, count]


def test_stages_that_do_not_fit_in_shared_memory() -> None:
    """They are refused before a copy is written for each."""
    with pytest.raises(InfeasibleError, match="1000000000000 stages of 1024 bytes"):
        pipeline(KERNEL, "num-stages = 1000000000000")


def test_one_stage_is_no_pipeline() -> None:
    assert stage_counts(pipeline(KERNEL, "num-stages = 1").module) == []
    text = KERNEL.replace("loop, done\n", "loop, done {stages = 1}\n")
    assert stage_counts(pipeline(text).module) == []


LOAD = "  %x = load f16<16, 16> %qa\n"
OBSTACLES = {
    "  store %pc, %total\n": "store in the loop may change the memory that is read",
    "  barrier\n": "barrier in the loop may change the memory that is read",
    "  %old = atomic_rmw i32 %table, 1 {op = add}\n": "atomic_rmw in the loop may change",
}


@pytest.mark.parametrize("line", OBSTACLES)
def test_what_may_change_memory_keeps_a_loop_as_it_is(line: str) -> None:
    text = KERNEL.replace("i32 %n)", "i32 %n, i32* %table)")
    inside = text.replace("  %next = add", line + "  %next = add")
    module = pipeline(inside)
    assert stage_counts(module.module) == [] and print_module(module.module) == inside
    assert {r.message for r in module.remarks} and all(
        OBSTACLES[line] in r.message and r.code == "TIR0653" for r in module.remarks
    )
    outside = text.replace("done:\n", "done:\n" + line)
    assert stage_counts(pipeline(outside).module)


def test_a_store_to_other_memory_keeps_no_loop_as_it_is() -> None:
    """A parameter that is `noalias` reaches no memory that is read."""
    store = "  store %pc, %total\n"
    inside = KERNEL.replace("  %next = add", store + "  %next = add")
    with_noalias = inside.replace("f32* aligned(16) %c", "f32* aligned(16) noalias %c")
    assert stage_counts(pipeline(inside).module) == []
    assert len(stage_counts(pipeline(with_noalias).module)) == 2
    keeps_its_meaning(with_noalias, "num-stages = 3")


def test_a_store_that_is_promised_to_be_disjoint_keeps_no_loop_as_it_is() -> None:
    """The loads for dots then move ahead of the stores; what synchronises keeps them after it."""
    latch = "cond_br %more, loop, done"
    promised = KERNEL.replace(latch, f"{latch} {{independent_loads = true}}")
    inside = promised.replace("  %next = add", "  store %pc, %total\n  %next = add")
    assert len(stage_counts(pipeline(inside).module)) == 2
    keeps_its_meaning(inside, "num-stages = 3")
    synchronised = promised.replace("  %next = add", "  barrier\n  %next = add")
    assert stage_counts(pipeline(synchronised).module) == []


def test_atomics_whose_old_values_are_unused_keep_no_loop_as_it_is() -> None:
    """As in gradients that are added up in memory. One whose old value is read may be a lock."""
    latch = "cond_br %more, loop, done"
    atomic = "atomic_rmw f32<16, 16> %pc, %total {op = fadd}\n"
    unused = KERNEL.replace("  %next = add", f"  _ = {atomic}  %next = add")
    assert stage_counts(pipeline(unused).module) == []
    promised = unused.replace(latch, f"{latch} {{independent_loads = true}}")
    assert len(stage_counts(pipeline(promised).module)) == 2
    keeps_its_meaning(promised, "num-stages = 3")
    read = promised.replace("_ = atomic", "%old = atomic").replace(
        "store %pc, %total", "store %pc, %old"
    )
    assert stage_counts(pipeline(read).module) == []


def test_a_loop_that_leaves_from_elsewhere_stays() -> None:
    text = (
        KERNEL.replace(
            "  %next = add",
            "  %odd, _ = icmp (i1, i1) %step, 99 {predicate = eq}\n"
            "  cond_br %odd, done, rest\nrest:\n  %next = add",
        )
        .replace("[%next, loop]", "[%next, rest]")
        .replace("[%qa.next, loop]", "[%qa.next, rest]")
    )
    text = text.replace("[%total, loop]", "[%total, rest]")
    module = pipeline(text)
    assert stage_counts(module.module) == []
    assert all("leaves from elsewhere" in r.message for r in module.remarks) and module.remarks


@pytest.mark.parametrize("stages", [2, 3])
def test_transposed_tiles(stages: int) -> None:
    """An operand is transposed as it is read from its buffer; what is no load stays."""
    turned = "  %xt = trans f16<16, 16> %x {order = [1, 0]}\n"
    transposed = KERNEL.replace(
        "  %dot = dot f32<16, 16> %x,", turned + "  %dot = dot f32<16, 16> %xt,"
    )
    text = keeps_its_meaning(transposed, f"num-stages = {stages}")
    assert (
        text.partition("loop:")[2].count("= trans ") == 1
        and stage_counts(parse(text)) == [stages] * 2
    )
    other = KERNEL.replace(
        "  %total = fadd f32<16, 16> %dot, 0.0\n",
        "  %t = trans f32<16, 16> %dot {order = [1, 0]}\n  %total = fadd f32<16, 16> %dot, %t\n",
    )
    text = keeps_its_meaning(other, f"num-stages = {stages}")
    assert (
        text.partition("loop:")[2].count("= trans ") == 1
        and stage_counts(parse(text)) == [stages] * 2
    )


def test_loads_that_something_else_reads_are_read_back_whole() -> None:
    text = KERNEL.replace(
        "  %total = fadd f32<16, 16> %dot, 0.0\n",
        "  %w = fpext f32<16, 16> %y\n  %total = fadd f32<16, 16> %dot, %w\n",
    )
    result = keeps_its_meaning(text, "num-stages = 3")
    assert stage_counts(parse(result)) == [3, 3]


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ("  %x = load f16<16, 16> %qa {volatile = true}\n", []),
        ("  %in, _ = icmp (i1<16, 16>, i1<16, 16>) %offs, 9 {predicate = slt}\n"
               "  %x = load f16<16, 16> %qa, %in, 1.0\n", [3]),
    ],
)  # fmt: skip
def test_loads_that_copies_cannot_do_stay(changed: str, left: list[int]) -> None:
    result = keeps_its_meaning(KERNEL.replace(LOAD, changed), "num-stages = 3")
    assert stage_counts(parse(result)) == left


def swizzles(module: Any) -> list[int]:
    ops = (op for f in module.functions.values() for op in f.ops)
    return [op.swizzle for op in ops if op.mnemonic == "gpu.shared_alloc"]


def test_rows_along_k_are_swizzled_for_multiply_adds() -> None:
    """Threads read them at one K, several rows at once; others they read along rows. An operand
    that is transposed on the way has K along the other dimension of what is loaded."""
    plain = KERNEL.replace("f16", "f32")
    turned = plain
    for operand in "xy":
        turned = turned.replace(
            "  %dot =", f"  %{operand}t = trans f32<16, 16> %{operand} {{order = [1, 0]}}\n  %dot ="
        )
    turned = turned.replace("%x, %y, %sum", "%xt, %yt, %sum")
    for text, expected in ((plain, [2, 0]), (turned, [0, 2])):
        assert swizzles(pipeline(text, "num-stages = 2").module) == expected


def test_a_load_of_some_iterations_stays() -> None:
    """What an iteration leaves out must not be copied for it."""
    text = (
        KERNEL.replace("  %x = load", "  %odd = trunc i1 %step\n"
                       "  cond_br %odd, work, rest\nwork:\n  %x = load")
        .replace("  %qa.next =", "  br rest\nrest:\n"
                 "  %now = phi f32<16, 16> [%sum, loop], [%total, work]\n  %qa.next =")
        .replace("[%next, loop]", "[%next, rest]").replace("[%qa.next, loop]", "[%qa.next, rest]")
        .replace("[%total, loop]", "[%now, rest]").replace("store %pc, %total", "store %pc, %now")
    )  # fmt: skip
    module = pipeline(text)
    assert print_module(module.module) == print_module(parse(text))
    assert [r.message for r in module.remarks] == [
        "not pipelined: the load does not run in every iteration"
    ] * 2


def test_no_limit_of_registers_without_one_dot() -> None:
    machine = target("sm_80")
    (plain,) = parse(KERNEL).functions.values()
    assert register_limit(plain, 4, machine) is None
    (none,) = parse(KERNEL.replace("dot f32<16, 16> %x, %y, %sum", "fadd f32<16, 16> %sum, 1.0")
                    ).functions.values()  # fmt: skip
    assert register_limit(none, 4, machine) is None
    (piped,) = pipeline(KERNEL, "num-stages = 3").module.functions.values()
    assert register_limit(piped, 4, machine) is None  # it is too small for it to matter
