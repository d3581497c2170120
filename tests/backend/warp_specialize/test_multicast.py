"""Matmuls whose blocks of tensors the blocks of a cluster load for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.warp_specialize.test_split_k import KINDS, arguments, tiles
from tests.sizes import for_each
from tileir.backend import compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.driver.launch_plan import plan_launch
from tileir.backend.executors import SimtExecutor
from tileir.backend.options import Options
from tileir.backend.simt import machine as simt
from tileir.backend.target import target
from tileir.backend.tma.host_plan import HostPlan
from tileir.backend.warp_specialize.multicast import multicast_slice_shape
from tileir.builder import F32
from tileir.errors import CompileError, InterpretError, TileirError
from tileir.interp import interpret
from tileir.ir import Module
from tileir.passmanager import run
from tileir.testing.kernels import attention, matmul
from tileir.textual import parse, print_module

SHAPES = ((130, 136, 72), (64, 64, 40), (200, 64, 8), (72, 200, 0))
"""Numbers of tiles that are not a multiple of a cluster's blocks, one of them fewer, and steps from
none to several iterations of the stages."""


def launch(module: Module, shape: Any, arguments: list[Any], **options: Any) -> None:
    SimtExecutor().launch(module, None, tiles(module, shape), arguments, target="sm_90a", **options)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", KINDS)
def test_matmuls(name: str, ranks: int) -> None:
    module = KINDS[name][0]
    index = (list(KINDS).index(name) + ranks // 2) % 4
    shape = (*SHAPES[index][:2], -(-SHAPES[index][2] // 16) * 16)
    inputs, actual, expected = arguments(name, shape)
    launch(module, shape, inputs, multicast=ranks, seed=index, blocks=1 + index % 2)
    assert np.array_equal(actual.astype(np.float64), expected)


def test_two_blocks_load_for_each_other() -> None:
    """The smallest of `test_matmuls`."""
    inputs, actual, expected = arguments("f16", (72, 64, 40))
    launch(KINDS["f16"][0], (72, 64, 40), inputs, multicast=2)
    assert np.array_equal(actual.astype(np.float64), expected)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_alternating_instances(ranks: int) -> None:
    shape = (130, 200, 72)
    for seed in range(2):
        inputs, actual, expected = arguments("f16", shape)
        launch(
            KINDS["f16"][0], shape, inputs, multicast=ranks, pingpong=True, num_stages=2, seed=seed
        )
        assert np.array_equal(actual.astype(np.float64), expected), seed


@pytest.mark.slow
def test_tiles_in_rows() -> None:
    """Neighbours share operand A; where a row of tiles ends, neither."""
    text = ROWS.replace("i32 %across) {", "i32 %across) {multicast = 2} {")
    module = parse(text)
    assert compile_for_hopper(module).ptx.count(".multicast::cluster") == 2
    m, n, k = 136, 72, 96
    rng = np.random.default_rng(1)
    x, y = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    for seed in range(4):
        z = np.zeros((m, n), np.float32)
        arguments = [x.reshape(-1), y.reshape(-1), z.reshape(-1), m, n, k, 3]
        SimtExecutor().launch(module, None, 9, arguments, target="sm_90a", seed=seed, blocks=1)
        assert np.array_equal(z, x.astype(np.float32) @ y.astype(np.float32))


ROWS = """tir 1.0
define kernel void @rows(f16* noalias %a, f16* noalias %b, f32* noalias %c, i32 %m, i32 %n, i32 %k, i32 %across) {
entry:
  %d = make_descriptor tensor_desc<f16<64, 32>> %a, [%m, %k], [%k, i32 1]
  %e = make_descriptor tensor_desc<f16<32, 32>> %b, [%k, %n], [%n, i32 1]
  %f = make_descriptor tensor_desc<f32<64, 32>> %c, [%m, %n], [%n, i32 1]
  %p = program_id i32
  %i = sdiv i32 %p, %across
  %j = srem i32 %p, %across
  %row = mul i32 %i, 64
  %column = mul i32 %j, 32
  br loop
loop:
  %at = phi i32 [0, entry], [%next, body]
  %sum = phi f32<64, 32> [0.0, entry], [%more, body]
  %test, _ = icmp (i1, i1) %at, %k {predicate = slt}
  cond_br %test, body, done
body:
  %x = descriptor_load f16<64, 32> %d, %row, %at
  %y = descriptor_load f16<32, 32> %e, %at, %column
  %more = dot f32<64, 32> %x, %y, %sum
  %next = add i32 %at, 32
  br loop
done:
  descriptor_store %f, %sum, %row, %column
  ret
}
"""  # noqa: E501 - a function's header is one line


def compile_for_hopper(module: Module, **options: Any) -> Any:
    return compile_kernel(module, "sm_90a", options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KINDS)
def test_code(name: str) -> None:
    for ranks in (2, 4):
        kernel = compile_for_hopper(KINDS[name][0], multicast=ranks)
        machine_code = kernel.machine_code
        assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
        assert kernel.metadata.cluster == (ranks, 1, 1)
        assert ".multicast::cluster" in kernel.ptx
        assert (
            "mbarrier.arrive.release.cluster" not in kernel.ptx
        )  # it would wait for global memory
        assert ".acquire.cluster" not in kernel.ptx


@for_each(("extents", "ranks", "share"), [
        ((64, 32), 2, (32, 32)), ((64, 32), 8, (8, 32)), ((64, 32), 16, None),
        ((2, 32, 64), 2, (1, 32, 64)), ((1, 64, 32), 4, (1, 16, 32)), ((3, 32, 64), 2, None),
        ((2, 4, 64), 2, None), ((1, 1, 64), 2, None),
    ])  # fmt: skip
def test_a_share_is_of_rows_that_follow_each_other(
    extents: tuple[int, ...], ranks: int, share: tuple[int, ...] | None
) -> None:
    assert multicast_slice_shape(extents, ranks) == share


@pytest.mark.slow
def test_results_are_those_of_one_block_alone() -> None:
    shape = (130, 136, 72)
    rng = np.random.default_rng(1)
    m, n, k = shape
    x, y = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    seen = set()
    for options in ({}, {"multicast": 2}, {"multicast": 4, "seed": 1}):
        z = np.zeros((m, n), np.float16)
        launch(KINDS["f16"][0], shape, [x.reshape(-1), y.reshape(-1), z.reshape(-1), *shape],
                 **options)  # fmt: skip
        seen.add(z.tobytes())
    assert len(seen) == 1


@pytest.mark.slow
def test_rows_that_no_tensor_map_has() -> None:
    """An operand that threads load is not shared; the other is."""
    for shape in ((130, 136, 77), (130, 77, 72)):
        inputs, actual, expected = arguments("f16", shape)
        launch(KINDS["f16"][0], shape, inputs, multicast=2)
        assert np.array_equal(actual.astype(np.float64), expected), shape


def test_what_is_launched() -> None:
    kernel = compile_for_hopper(KINDS["f16"][0], multicast=4)
    plan = kernel.host
    assert isinstance(plan, HostPlan) and plan.persistent == 4
    numbers = [1 << 20, 1 << 21, 1 << 22, 640, 640, 640]
    results = [plan_launch(plan, (count, 1, 1), numbers, 33) for count in (1, 9, 1000)]
    assert [x.grid for x in results if x is not None] == [(1, 1, 1), (3, 1, 1), (33, 1, 1)]
    assert kernel.metadata.blocks((33, 1, 1)) == (132, 1, 1)
    assert kernel.fallback is not None and kernel.fallback.metadata.cluster == (1, 1, 1)


class Machine:
    """As much of a driver as it takes to find out how many clusters there are at once."""

    queries: tuple[int, ...] = ()

    def multiprocessors(self) -> int:
        return 132

    def context(self) -> int:
        return 1

    def load(self, compiled: Any, symbol: str) -> str:
        return symbol

    def allow_shared(self, function: str, size: int) -> None:
        assert function == "matmul" and size > 0

    def clusters(self, function: str, size: int, threads: int, shared: int) -> int:
        self.queries = (size, threads, shared)
        return 31


def test_clusters_at_once() -> None:
    kernel, cuda = compile_for_hopper(KINDS["f16"][0], multicast=4), Machine()
    assert LoadedKernel(kernel).blocks(cuda) == 31  # type: ignore[arg-type]
    assert cuda.queries == (4, kernel.plan.threads, kernel.plan.shared)
    alone: Any = Machine()
    assert (
        LoadedKernel(compile_for_hopper(KINDS["f16"][0])).blocks(alone) == 132 and not alone.queries
    )


def test_the_attribute_of_a_kernel() -> None:
    module = KINDS["f16"][0]
    kernel = module.kernel(None)
    with_attribute = kernel.evolve(attributes={**kernel.attributes, "multicast": 2})
    module = module.with_functions({kernel.name: with_attribute})
    assert compile_for_hopper(module).metadata.cluster == (2, 1, 1)
    assert compile_for_hopper(module, multicast=1).metadata.cluster == (1, 1, 1)


def causal() -> Module:
    return attention(64, 32, 32, causal=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("module", "options", "why"),
    [
        (KINDS["f16"][0], {"multicast": 2, "persistent": False}, "the kernel is not persistent"),
        (KINDS["f16"][0], {"multicast": 2, "split_k": 2}, "split-K is on"),
        (KINDS["f16"][0], {"multicast": 3}, "clusters have 2, 4, 8, 16 blocks"),
        (causal(), {"multicast": 2}, "the use of stages depends on the instance"),
        (matmul(64, 32, 8, F32, F32, F32, precision="tf32", transposed=True),
         {"multicast": 16}, "no two instances can share an operand"),
    ],
)  # fmt: skip
def test_what_is_not_shared(module: Module, options: dict[str, Any], why: str) -> None:
    """It is compiled as if it had not been requested, and says so."""
    kernel = compile_for_hopper(module, **options)
    (note,) = (note for note in kernel.notes if note.code == "TIR0655")
    assert note.message == f"no multicast: {why}"
    plain = compile_for_hopper(module, **{**options, "multicast": 1})
    assert kernel.ptx == plain.ptx


# Protocols ----------------------------------------------------------------------------------------

PASSES = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors,"
PASSES += "cluster-instances,warp-specialize{num-stages=2},defer-wgmma-waits,multicast"
TEXT = print_module(run(matmul(64, 64, 32), PASSES).module)
ENDING = "  gpu.join\n  gpu.cluster_arrive\n  gpu.cluster_wait\n"


def by_threads(text: str, seed: int, shape: tuple[int, int, int] = (136, 136, 200)) -> None:
    """Run the kernel of `text`. Raises AssertionError for what is wrong."""
    module, (m, n, k) = parse(text), shape
    done = run_pipeline(module, target("sm_90a"), Options(), None)
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
    z = np.full((m, n), np.nan, np.float16)
    count = -(-m // 64) * -(-n // 64)
    arguments = [x.reshape(-1), y.reshape(-1), z.reshape(-1), m, n, k, count, 1, 1]
    simt.run(done.stages["barriers"], done.kernel, (2, 1, 1), arguments, target("sm_90a"),
             done.memory, done.num_warps, seed=seed)  # fmt: skip
    assert np.array_equal(z.astype(np.float32), x.astype(np.float32) @ y.astype(np.float32)), "dot"


@pytest.mark.slow
def test_the_kernel_whose_parts_are_left_out() -> None:
    for seed in range(3):
        by_threads(TEXT, seed)


LEFT_OUT = {
    "one block's stages are released": ("{cluster = true}", "", "deadlock"),
    "arrivals of one block": (
        "arrivals = 8", "arrivals = 4", "arrive|copy|nothing orders|deadlock"),
    "barriers have not begun": (
        "  gpu.cluster_arrive\n  gpu.cluster_wait\n  gpu.role", "  gpu.role",
        "no barrier|that .* begins"),
    "blocks end early": (ENDING, "  gpu.join\n", "at its end|ends, and"),
    "a block's share alone": (
        "body.multicast, body.alone", "body.multicast, body.multicast", "dot"),
    "more bytes than come": ("bytes = 8192", "bytes = 12288", "deadlock"),
    "fewer bytes than come": ("bytes = 8192", "bytes = 6144", "race|deadlock|no thread wrote"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LEFT_OUT)
def test_nothing_can_be_left_out(name: str) -> None:
    line, instead, message = LEFT_OUT[name]
    assert line in TEXT
    for seed in range(3):
        with pytest.raises(AssertionError, match=message):
            by_threads(TEXT.replace(line, instead), seed)


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("{multicast = 2}", "{multicast = 0}", "multicast must be 1 or more"),
        ("{multicast = 2}", "{multicast = 2, axis = 2}", "axis must be in 0 to 1"),
        ("{multicast = 2}", "{multicast = 2, axis = 1}", "before axis must be 1"),
    ],
)
def test_copies_that_are_refused(line: str, instead: str, message: str) -> None:
    with pytest.raises(TileirError, match=message):
        parse(TEXT.replace(line, instead))


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("multicast = 2}", "multicast = 4}", "a stage must have 4 times the extents"),
        ("{multicast = 2}", "", "a stage must have the extents"),
        ("cluster = 2", "cluster = 4", "the cluster has 4 blocks"),
    ],
)
def test_copies_that_are_not_compiled(line: str, instead: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_kernel(parse(TEXT.replace(line, instead)), "sm_90a")


@pytest.mark.parametrize(
    ("line", "instead", "code"),
    [
        ("multicast = 2}", "multicast = 4}", "TIR0521"),
        ("{cluster = true}", "", "TIR0518"),
        ("arrivals = 8", "arrivals = 4", "TIR05(03|18|19|21)"),
    ],
)
def test_what_the_interpreter_reports(line: str, instead: str, code: str) -> None:
    x = np.zeros((64, 136), np.float16)
    with pytest.raises(InterpretError, match=code):
        for seed in range(8):
            z = np.zeros((64, 64), np.float16)
            arguments = [x, np.zeros((136, 64), np.float16), z, 64, 64, 136, 1, 1, 1]
            interpret(parse(TEXT.replace(line, instead)), None, 1, arguments, seed=seed)
