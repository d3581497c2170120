"""Loops whose copies run ahead, and pointers that loops move: which take part, what they mean."""

import numpy as np
import pytest

import tileir
from tileir.backend import Options, compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.software_pipeline.occupancy import register_limit
from tileir.backend.target import target
from tileir.builder import F16, F32
from tileir.passmanager import run
from tileir.textual import parse, print_module

from .test_async_pipeline import matmul

MATMUL = """tir 1.0
define kernel void @k(f16* aligned(16) %a, f16* aligned(16) %b, f32* aligned(16) %c, i32 %n) {{
entry:
  %i = make_range i32<32>
  %r = expand_dims i32<32, 1> %i {{axis = 1}}
  %r16 = mul i32<32, 1> %r, 32
  %rows = broadcast i32<32, 32> %r16
  %k = expand_dims i32<1, 32> %i {{axis = 0}}
  %columns = broadcast i32<32, 32> %k
  %offs = add i32<32, 32> %rows, %columns
  %as = splat f16*<32, 32> %a
  %pa = getelementptr f16*<32, 32> %as, %offs
  %bs = splat f16*<32, 32> %b
  %pb = getelementptr f16*<32, 32> %bs, %offs
  %mask, _ = icmp (i1<32, 32>, i1<32, 32>) %offs, 1000 {{predicate = slt}}
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %qa = phi f16*<32, 32> [%pa, entry], [%qa.next, loop]
  %sum = phi f32<32, 32> [0.0, entry], [%total, loop]
  {load}
  %y = load f16<32, 32> %pb
  {dot}
  %qa.next = getelementptr f16*<32, 32> %qa, i32<32, 32> 1024
  %next = add i32 %step, 1
  {end}
done:
  %cs = splat f32*<32, 32> %c
  %pc = getelementptr f32*<32, 32> %cs, %offs
  store %pc, %total
  ret
}}
"""
PLAIN = {
    "load": "%x = load f16<32, 32> %qa",
    "dot": "%total = dot f32<32, 32> %x, %y, %sum",
    "end": """%more, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %more, loop, done""",
}
INVERTED = """%over, _ = icmp (i1, i1) %next, %n {predicate = sge}
  cond_br %over, done, loop"""
TURNED = """%t = trans f16<32, 32> %x {order = [1, 0]}
  %total = dot f32<32, 32> %t, %y, %sum"""
BOTH_TURNED = """%t = trans f16<32, 32> %x {order = [1, 0]}
  %u = trans f16<32, 32> %y {order = [1, 0]}
  %total = dot f32<32, 32> %t, %u, %sum"""


def pipeline(changes, how="async-pipeline"):
    """The program before and after the pass, which mean the same to threads and the interpreter;
    the pass's run."""
    module = parse(MATMUL.format(**{**PLAIN, **changes}))
    result = run(module, how)
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (n, 32, 32)).astype(np.float16) for n in (4, 1))
    outputs = []
    for program in (module, result.module):
        c = np.zeros((32, 32), np.float32)
        tileir.interpret(program, None, 1, [a, b, c, 3])
        outputs.append(c)
    np.testing.assert_array_equal(outputs[1], outputs[0])
    for warps in (1, 4):
        c = np.zeros((32, 32), np.float32)
        SimtExecutor().launch(module, None, 1, [a, b, c, 3], num_warps=warps)
        np.testing.assert_array_equal(c, outputs[0])
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", [PLAIN["end"], INVERTED], ids=["more", "over"])
@pytest.mark.parametrize("dot", [PLAIN["dot"], TURNED, BOTH_TURNED], ids=["plain", "t", "tt"])
def test_loops_that_take_part(dot, end):
    """Whichever way a loop ends, and an operand is laid out."""
    result = pipeline({"dot": dot, "end": end})
    assert result.records[0].statistics["loops pipelined"] == 1
    assert print_module(result.module).count("gpu.shared_alloc") == 2


def test_a_loop_of_one_stage_stays():
    result = pipeline({}, "async-pipeline{num-stages=1}")
    assert "gpu." not in print_module(result.module)
    assert result.records[0].changed is False


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_a_loop_has_the_stages_that_are_asked_for(stages):
    result = pipeline({}, f"async-pipeline{{num-stages={stages}}}")
    assert print_module(result.module).count(f"shape = [{stages}, 32, 32]") == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("other", "copies"), [("f16<32, 32> 0.0", 2), ("f16<32, 32> 1.0", 1)])
def test_what_masks_leave_out_is_zero_or_the_load_stays(other, copies):
    result = pipeline({"load": f"%x = load f16<32, 32> %qa, %mask, {other}"})
    assert print_module(result.module).count("gpu.shared_alloc") == copies


INDIRECT = """%pt = getelementptr i32* %t, %step
  %row = load i32 %pt
  %far = mul i32 %row, 64
  %all = splat i32<32, 32> %far
  %qz = getelementptr f16*<32, 32> %qa, %all
  %x = load f16<32, 32> %qz"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_an_address_that_is_loaded_is_read_ahead_in_iterations_that_run(stages):
    """The table has an entry per iteration: a read ahead beyond the last is out of bounds."""
    end = f"{PLAIN['end']} {{stages = {stages}}}"
    text = MATMUL.format(**{**PLAIN, "load": INDIRECT, "end": end})
    module = parse(text.replace("f32* aligned(16) %c,", "f32* aligned(16) %c, i32* %t,"))
    transformed = run(module, "async-pipeline").module
    assert print_module(transformed).count("gpu.async_copy") == 2 * stages
    random = np.random.default_rng(0)
    for iterations in (1, 2, 5):
        a, b = (random.integers(-3, 4, 1024 * 8).astype(np.float16) for _ in range(2))
        table = np.resize(np.array([0, 1, 32, 5], np.int32), iterations)
        outputs = []
        for candidate, run_it in ((module, tileir.interpret), (transformed, SimtExecutor().launch)):
            out = np.zeros(1024, np.float32)
            run_it(candidate, "k", 1, [a, b, out, table, iterations])
            outputs.append(out)
        np.testing.assert_array_equal(outputs[1], outputs[0])


BATCHED = """tir 1.0
define kernel void @k(f16* aligned(16) %a, f32* aligned(16) %c, i32 %n) {
entry:
  %i = make_range i32<512>
  %offs = reshape i32<2, 16, 16> %i
  %as = splat f16*<2, 16, 16> %a
  %pa = getelementptr f16*<2, 16, 16> %as, %offs
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %sum = phi f32<2, 16, 16> [0.0, entry], [%total, loop]
  %x = load f16<2, 16, 16> %pa
  %y = load f16<2, 16, 16> %pa
  %total = dot f32<2, 16, 16> %x, %y, %sum
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %more, loop, done
done:
  %cs = splat f32*<2, 16, 16> %c
  %pc = getelementptr f32*<2, 16, 16> %cs, %offs
  store %pc, %total
  ret
}
"""


def test_dots_of_many_matrices_stay():
    module = parse(BATCHED)
    assert print_module(run(module, "async-pipeline").module) == print_module(module)
    a = np.random.default_rng(0).integers(-3, 4, 512).astype(np.float16)
    outputs = [np.zeros(512, np.float32) for _ in range(2)]
    tileir.interpret(module, None, 1, [a, outputs[0], 3])
    SimtExecutor().launch(module, None, 1, [a, outputs[1], 3], num_warps=4)
    np.testing.assert_array_equal(outputs[1], outputs[0])


def test_dots_of_four_bits_stay():
    text = MATMUL.format(**PLAIN).replace("f16", "i4").replace("f32", "i32").replace("0.0", "0")
    module = parse(text)
    assert print_module(run(module, "async-pipeline").module) == print_module(module)
    eight = parse(text.replace("i4", "i8"))
    assert "gpu.shared_alloc" in print_module(run(eight, "async-pipeline").module)


def test_a_load_that_nothing_reads_stays():
    result = pipeline({"load": PLAIN["load"] + "\n  %unused = load f16<32, 32> %pb"})
    assert print_module(result.module).count("gpu.shared_alloc") == 2


def test_limits_of_registers_are_what_is_allotted():
    """In eights, one less than which the assembler may use, so that as many blocks fit."""
    limits = set()
    for block in ((64, 64, 32), (128, 64, 32), (128, 128, 32), (64, 128, 64), (128, 128, 64)):
        for stages in (2, 3):
            module = matmul(F16, F32, block, stages=stages)
            function = run_pipeline(module, target("sm_90"), Options(num_warps=4), None)
            body = function.stages["pipelined"].functions["matmul"]
            for warps in (4, 8):
                limit = register_limit(body, warps, target("sm_90"))
                if limit is not None:
                    assert (limit + 1) % 8 == 0
                    blocks = 65536 // (32 * warps * (limit + 1))
                    assert 65536 // (32 * warps * (limit + 9)) < blocks
                    limits.add(limit)
    assert limits


@pytest.mark.parametrize(("machine", "reads"), [("sm_80", 6), ("sm_90", 4)])
def test_fragments_are_read_ahead_where_registers_are_not_limited(machine, reads):
    """Of two steps of a matmul; those of the first before the loop, where they are."""
    result = run_pipeline(
        matmul(F16, F32, (64, 64, 32)), target(machine), Options(num_warps=4), None
    )
    body = result.stages["pipelined"].functions["matmul"]
    assert sum(op.mnemonic == "gpu.local_load" for op in body.ops) == reads
    assert (result.registers is None) == (reads == 6)


MOVED = """tir 1.0
define kernel void @k(f32* %p, f32* %to, i32 %n, i32 %from) {{
entry:
  %i = make_range i32<64>
  %ps = splat f32*<64> %p
  %f = splat i32<64> %from
  %g = getelementptr f32*<64> %ps, %f
  %first = getelementptr f32*<64> %g, %i
  %z = sub i32 %from, %from
  br loop
loop:
  %step = phi i32 [%z, entry], [%next, {latch}]
  %q = phi f32*<64> [%first, entry], [%q.next, {latch}]
  %total = phi f32<64> [0.0, entry], [%sum, {latch}]
  %x = load f32<64> %q
  %sum = fadd f32<64> %total, %x
  %q.next = getelementptr f32*<64> %q, i32<64> 64
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %n {{predicate = slt}}
  cond_br %more, {more}, done
{between}done:
  %ts = splat f32*<64> %to
  %t = getelementptr f32*<64> %ts, %i
  store %t, %sum
  ret
}}
"""


@pytest.mark.parametrize("between", ["", "again:\n  br loop\n"], ids=["one block", "two"])
def test_a_pointer_that_starts_further_on(between):
    """What all lanes add before the loop is added to the one pointer, before the loop."""
    label = "again" if between else "loop"
    text = MOVED.format(latch=label, more=label, between=between)
    module = parse(text)
    result = run(module, "scalarize-pointer-steps")
    assert result.records[0].statistics["tiles"] == 1
    assert "phi f32*<64>" not in print_module(result.module)
    outputs = []
    for program in (module, result.module):
        to = np.zeros(64, np.float32)
        tileir.interpret(program, None, 1, [np.arange(300, dtype=np.float32), to, 3, 5])
        outputs.append(to)
    np.testing.assert_array_equal(outputs[1], outputs[0])
    assert compile_kernel(module, "sm_80").ptx


TWO_EDGES = """tir 1.0
define kernel void @k(f32* %p, f32* %to, i32 %n) {
entry:
  %i = make_range i32<64>
  %ps = splat f32*<64> %p
  %first = getelementptr f32*<64> %ps, %i
  br loop
loop:
  %step = phi i32 [0, entry], [%next, body]
  %q = phi f32*<64> [%first, entry], [%near, body]
  %more, _ = icmp (i1, i1) %step, %n {predicate = slt}
  cond_br %more, body, done
body:
  %near = getelementptr f32*<64> %q, i32<64> 64
  %next = add i32 %step, 1
  %odd = and i32 %step, 1
  %is, _ = icmp (i1, i1) %odd, 1 {predicate = eq}
  cond_br %is, loop, loop
done:
  %ts = splat f32*<64> %to
  %t = getelementptr f32*<64> %ts, %i
  %v = load f32<64> %q
  store %t, %v
  ret
}
"""


def test_a_pointer_that_comes_by_two_edges_of_one_block_stays_a_tile():
    module = parse(TWO_EDGES)
    transformed = run(module, "scalarize-pointer-steps").module
    outputs = []
    for program in (module, transformed):
        to = np.zeros(64, np.float32)
        tileir.interpret(program, None, 1, [np.arange(1000, dtype=np.float32), to, 5])
        outputs.append(to)
    np.testing.assert_array_equal(outputs[1], outputs[0])
    assert outputs[0][0] == 64 * 5 and "phi f32*<64>" in print_module(transformed)
