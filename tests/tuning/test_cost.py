"""The cost model: what it says of kernels whose times are known, and in which direction it goes."""

import attrs
import pytest
from matmuls import inputs, make, problem

from tileir.backend.compile import Options, run_pipeline
from tileir.backend.measurement.arguments import numbers_in
from tileir.backend.performance_model.cost import ResourceUse, estimate, machine_of
from tileir.backend.performance_model.resource_use import most_registers, use_of
from tileir.backend.performance_model.work import WorkEstimate, work_of
from tileir.backend.target import target
from tileir.backend.tuning import GpuMeter, TuneError, point_name, rank_points
from tileir.backend.tuning.report import _ranks
from tileir.errors import CompileError
from tileir.textual import parse

MACHINE = machine_of("sm_90a")
WORK = WorkEstimate({16: 2.0 * 128 * 128 * 4096}, 1e5, 2e6, 3e4, 64)
USE = ResourceUse(8, 65536, 120, 3, 2e6, 127)

MEASURED = {
    512: {
        "64x64x128 w4 s3": 7.2, "64x64x64 w4 s4": 7.3, "64x64x64 w8 s4": 7.6,
        "64x128x64 w4 s3": 8.6, "128x128x64 w4 s3": 10.3, "128x128x64 w8 s3": 11.4,
        "256x128x64 w8 s3": 15.6, "128x256x64 w8 s3": 15.8,
    },
    4096: {
        "128x128x64 w4 s3": 328.8, "256x128x64 w8 s3": 333.5, "128x256x64 w8 s3": 333.8,
        "128x128x64 w4 s2": 352.6, "128x128x64 w8 s3": 377.6, "64x128x64 w4 s3": 380.6,
        "64x64x64 w4 s4": 476.7, "64x64x128 w4 s3": 476.8, "64x64x64 w8 s4": 609.6,
    },
}  # fmt: skip
"""Microseconds of f16 matmuls by `mma.sync` of two extents, by tiles, warps and stages, on one
H200 (benchmarks/matmul.py, 2026-11-21)."""


def point(text):
    tiles, warps, stages = text.split()
    m, n, k = map(int, tiles.split("x"))
    return {"M": m, "N": n, "K": k, "num_warps": int(warps[1:]), "num_stages": int(stages[1:])}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", MEASURED)
def test_the_model_ranks_matmuls_as_they_were_measured(size):
    times = MEASURED[size]
    meter, numbers = GpuMeter("sm_90"), numbers_in(inputs(size))
    expected = {n: meter.survey(problem(size).job(point(n)), numbers).seconds for n in times}
    predicted_best = min(expected, key=lambda n: expected[n])
    assert times[predicted_best] <= 1.06 * min(times.values())
    first, second = _ranks(list(times.values())), _ranks(list(expected.values()))
    middle = (len(times) - 1) / 2
    agreement = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    assert agreement / sum((a - middle) ** 2 for a in first) > 0.7
    assert all(0.4 < expected[n] * 1e6 / times[n] < 1.6 for n in times)


@pytest.mark.parametrize(
    ("name", "operand_types", "teraflops"),
    [
        ("sm_80", 16, 312), ("sm_80", 32, 156), ("sm_90", -32, 59), ("sm_89", 16, 330),
        ("sm_90", 16, 949), ("sm_90a", 32, 474), ("sm_90", 8, 1898), ("sm_90", 64, 119),
    ],
)  # fmt: skip
def test_matmuls_are_as_quick_as_data_sheets_say(name, operand_types, teraflops):
    """At the clocks that the model knows; operands of 32 bits are TF32, -32 those of no tensor
    core."""
    machine = machine_of(name)
    rate = machine.processors * machine.clock * machine.matmul_rates[operand_types]
    assert rate == pytest.approx(teraflops * 1e12, rel=0.01)


def test_machines_of_targets_that_there_are_not():
    with pytest.raises(CompileError) as caught:
        machine_of("sm_87")
    assert caught.value.code == "TIR0702"


def seconds(work=WORK, use=USE, instances=1024, machine=MACHINE):
    return estimate(work, use, instances, machine).seconds


def test_more_work_takes_longer():
    twice = attrs.evolve(WORK, dots={16: 2 * WORK.dots[16]})
    assert seconds(twice) > 1.5 * seconds()
    assert seconds(instances=2048) > 1.7 * seconds()


def test_a_wave_begun_is_a_wave():
    resident = USE.resident(MACHINE.target)
    full = MACHINE.processors * resident
    assert seconds(instances=full + 1) > seconds(instances=full)
    assert seconds(instances=2 * full) == pytest.approx(
        2 * seconds(instances=full) - seconds(instances=full) + (seconds(instances=full) - 5e-6)
    )


def test_stages_hide_latency():
    slow = attrs.evolve(WORK, dots={}, read=1e4, arithmetic=0.0)
    use = attrs.evolve(USE, fragments=0.0)
    times = [seconds(slow, attrs.evolve(use, stages=s), 132) for s in (2, 3, 5)]
    assert times[0] > 1.8 * (times[1] - 10e-6) and times[1] > times[2]


@pytest.mark.parametrize(
    ("use", "blocks"),
    [
        (ResourceUse(4, 0, 32), 16),
        (ResourceUse(8, 0, 128), 2),
        (ResourceUse(4, 100_000, 32), 2),
        (ResourceUse(1, 0, 24), 32),
        (ResourceUse(32, 0, 64), 1),
        (ResourceUse(32, 0, 128), 0),
    ],
)
def test_blocks_side_by_side(use, blocks):
    assert use.resident(target("sm_90a")) == blocks


def test_spills_cost():
    assert seconds(use=attrs.evolve(USE, registers=177)) == pytest.approx(2.0 * seconds(), rel=0.02)


def test_the_estimate_says_what_it_waits_for():
    heavy = attrs.evolve(WORK, read=1e8)
    assert estimate(heavy, USE, 1024, MACHINE).bound == "traffic"
    assert estimate(WORK, USE, 1024, MACHINE).bound == "matmuls"


LOOPS = """tir 1.0
define kernel void @k(f32* %x, f32* %y, i32 %n, i32 %m) {
entry:
  %pid = program_id i32
  %to = add i32 %pid, %n
  %r = make_range i32<64>
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %r
  br outer
outer:
  %i = phi i32 [0, entry], [%i.next, next]
  br inner
inner:
  %j = phi i32 [%n, outer], [%j.next, inner]
  %v = load f32<64> %p
  %w = fmul f32<64> %v, %v
  store %p, %w
  %j.next = sub i32 %j, 3
  %again, _ = icmp (i1, i1) %j.next, 0 {predicate = sgt}
  cond_br %again, inner, next
next:
  %i.next = add i32 %i, 2
  %more, _ = icmp (i1, i1) %i.next, %to {predicate = slt}
  cond_br %more, outer, done
done:
  ret
}
"""


def test_work_is_counted_over_loops_whose_trip_counts_are_computed():
    function = parse(LOOPS).kernel(None)
    work = work_of(function, (9,), {"n": 12})  # instance 4 of 9: 16 by 2, 12 down by 3
    assert work.read == work.written == 8 * 4 * 64 * 4
    assert work.steps == 8 * 4
    assert work_of(function, (9,), {}).steps == 16 * 16


@pytest.mark.parametrize("iterations", [1, 3, 40])
def test_iterations_that_the_program_states_are_counted(iterations):
    fixed = LOOPS.replace("[%n, outer]", f"[{3 * iterations}, outer]")
    assert work_of(parse(fixed).kernel(None), (9,), {"n": 12}).steps == 8 * iterations


def test_needs_are_read_off_the_program():
    module = parse(LOOPS)
    done = run_pipeline(module, target("sm_90"), Options(num_warps=1), None)
    use = use_of(done, target("sm_90"), WORK)
    assert (use.warps, use.shared, use.stages, use.limit) == (1, 0, 1, 255)
    assert 16 < use.registers < 40


@pytest.mark.parametrize("warps", [1, 4, 8, 16, 32])
def test_a_block_shares_the_registers_of_a_processor(warps):
    machine = target("sm_90")
    done = run_pipeline(parse(LOOPS), machine, Options(num_warps=warps), None)
    use = use_of(done, machine, WORK)
    assert use.limit == min(255, 65536 // (32 * warps)) and use.warps == warps
    assert use_of(attrs.evolve(done, registers=40), machine, WORK).limit == 40
    odd = attrs.evolve(machine, registers_per_processor=65536 - 32 * warps)
    assert use_of(done, odd, WORK).limit == min(255, (65536 // (32 * warps) - 1) // 8 * 8)


SCALARS = """tir 1.0
define void @f(i32* %to, i32 %a, i32 %b) {
entry:
  %s = add i32 %a, %b
  %d = sub i32 %a, %b
  %p = mul i32 %s, %d
  store %to, %p
  ret
}
"""


def test_a_number_takes_a_register():
    """%to, %s, %a and %b are alive at once."""
    assert most_registers(parse(SCALARS).functions["f"]) == 4


DOT = """tir 1.0
stage "layouts"
define void @f() {
entry:
  %a = splat f16<64, DEPTH, A> 1.0
  %b = splat f16<DEPTH, 64, B> 1.0
  %c = splat f32<64, 64, C> 0.0
  %d = dot f32<64, 64, C> %a, %b, %c
  ret
}
"""
N_MAJOR = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
DOWN = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]
OPERAND_LAYOUTS = {
    "A": ([[0, 1], [8, 0], [0, 8], [16, 0]], N_MAJOR, [[32, 0], [0, 0]]),
    "B": ([[1, 0], [8, 0], [0, 8], [0, 16]], DOWN, [[0, 0], [0, 32]]),
    "C": ([[0, 1], [8, 0], [16, 0], [0, 8], [0, 16]], N_MAJOR, [[32, 0], [0, 32]]),
}
"""Registers, lanes and warps of a matmul of four warps."""


@pytest.mark.parametrize("depth", [16, 32, 64, 128])
def test_an_instruction_takes_sixteen_steps_of_its_operands(depth):
    """Of each 16 numbers of 16 bits a thread, and 32 accumulators, however deep the matmul is."""
    text = DOT.replace("DEPTH", str(depth))
    deeper = [n for n in (16, 32, 64) if n < depth]
    more = {"A": [[0, n] for n in deeper], "B": [[n, 0] for n in deeper], "C": []}
    for name, (registers, lanes, warps) in OPERAND_LAYOUTS.items():
        bases = f"register = {registers + more[name]}, lane = {lanes}, warp = {warps}"
        text = text.replace(f", {name}>", f", layout(rank = 2, {bases})>")
    assert most_registers(parse(text).functions["f"]) == 8 + 8 + 32


def test_operands_are_read_from_shared_memory_in_every_step():
    """Two warps read each half of A and of B, and the first sixteen steps before the loop."""
    machine = target("sm_80")
    done = run_pipeline(make(64, 64, 64), machine, Options(num_warps=4, num_stages=2), None)
    for steps in (1, 64):
        use = use_of(done, machine, attrs.evolve(WORK, steps=steps))
        assert use.fragments == steps * (64 + 16) * (64 + 64) * 2 * 2


@pytest.mark.slow
def test_shapes_are_chosen_without_running_any():
    numbers = numbers_in(inputs(4096))
    points = [point(n) for n in MEASURED[4096]]
    order = rank_points(problem(4096), "sm_90", numbers, points)
    times = {point_name(point(n)): t for n, t in MEASURED[4096].items()}
    assert len(order) == len(points)
    assert times[point_name(order[0].point)] <= 1.06 * min(times.values())
    small = rank_points(problem(512), "sm_90", numbers_in(inputs(512)), points)
    assert small[0].point["M"] * small[0].point["N"] < 128 * 128


def test_where_nothing_fits_the_first_reason_is_told():
    large = {"M": 256, "N": 256, "K": 128, "num_warps": 8, "num_stages": 5}
    with pytest.raises(TuneError, match="no point fits on sm_86; K=128,M=256"):
        rank_points(problem(512), "sm_86", {}, [large])


def test_arrays_come_from_memory_once():
    stream = WorkEstimate({}, 1e3, 64e3, 64e3, 1.0)
    use = ResourceUse(4, 0, 32)
    alone = estimate(stream, use, 100_000, MACHINE, 100_000 * 128e3)
    assert alone.bound == "memory"
    assert alone.seconds == pytest.approx(100_000 * 128e3 / MACHINE.memory, rel=0.01)
    assert estimate(stream, use, 100_000, MACHINE, 1e6).parts["memory"] == 1e6 / MACHINE.memory
