"""Matmuls whose depth the blocks of a cluster share."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.executors import SimtExecutor
from tileir.backend.performance_model import choose_split_k
from tileir.backend.tma.host_plan import HostPlan
from tileir.builder import BF16, F8E4M3, F16, F32, I8, I32
from tileir.interp import interpret
from tileir.ir import Module
from tileir.machine import dtype_of
from tileir.passmanager import run
from tileir.testing.kernels import matmul
from tileir.textual import parse

SHAPES = ((64, 64, 200), (72, 40, 32), (130, 32, 8), (40, 24, 520))
KINDS: dict[str, Any] = {
    "f16": (matmul(64, 64, 32), F16, F16),
    "halves": (matmul(64, 32, 32, F16, F16, F16), F16, F16),
    "bf16": (matmul(128, 32, 64, BF16, F32, F32, transposed=True), BF16, F32),
    "tf32": (matmul(64, 32, 32, F32, F32, F32, precision="tf32", transposed=True), F32, F32),
    "e4m3": (
        matmul(64, 32, 64, F8E4M3, F32, F32, transposed=True, max_imprecise=64), F8E4M3, F32),
    "i8": (matmul(64, 32, 64, I8, I32, I32, transposed=True), I8, I32),
}  # fmt: skip


def arguments(name: str, shape: tuple[int, int, int]) -> tuple[list[Any], Any, Any]:
    """Arguments, what is written, and what shall be."""
    m, n, k = shape
    _, element, result = KINDS[name]
    rng = np.random.default_rng(k)
    x, y = rng.integers(-2, 3, (m, k)), rng.integers(-2, 3, (k, n))
    turned = name not in ("f16", "halves")
    stored = [np.ascontiguousarray(v.astype(dtype_of(element))) for v in (x, y.T if turned else y)]
    out = np.full((m, n), 99, dtype_of(result))
    return [*(v.reshape(-1) for v in stored), out.reshape(-1), m, n, k], out, x @ y


def tiles(module: Module, shape: tuple[int, int, int]) -> int:
    height, width = (128, 32) if module is KINDS["bf16"][0] else (64, 32)
    width = 64 if module is KINDS["f16"][0] else width
    return -(-shape[0] // height) * -(-shape[1] // width)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("name", KINDS)
def test_matmuls(name: str, ranks: int) -> None:
    """Shares that are uneven, and empty ones: k is a few steps, or less than one per rank."""
    module = KINDS[name][0]
    index = (list(KINDS).index(name) + ranks // 2) % 4
    shape = SHAPES[index]
    inputs, actual, expected = arguments(name, (*shape[:2], -(-shape[2] // 16) * 16))
    SimtExecutor().launch(
        module, None, tiles(module, shape), inputs, target="sm_90a", split_k=ranks, seed=index,
        persistent=bool(index % 2),
    )  # fmt: skip
    assert np.array_equal(actual.astype(np.float64), expected)


def test_two_blocks_divide_a_matmul() -> None:
    """The smallest of `test_matmuls`."""
    inputs, actual, expected = arguments("f16", (64, 64, 96))
    SimtExecutor().launch(KINDS["f16"][0], None, 1, inputs, target="sm_90a", split_k=2)
    assert np.array_equal(actual.astype(np.float64), expected)


def test_odd_depths_take_the_kernel_without_tensor_maps() -> None:
    module = KINDS["f16"][0]
    inputs, actual, expected = arguments("f16", (64, 64, 77))
    SimtExecutor().launch(module, None, 1, inputs, target="sm_90a", split_k=4)
    assert np.array_equal(actual.astype(np.float64), expected)


@pytest.mark.slow
def test_accumulators_are_the_same_in_any_order() -> None:
    """Of numbers that a sum in another order would round otherwise."""
    module, (m, n, k) = KINDS["f16"][0], (64, 64, 320)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n)))
    seen = set()
    for seed in range(5):
        z = np.zeros((m, n), np.float16)
        arguments = [x.reshape(-1), y.reshape(-1), z.reshape(-1), m, n, k]
        SimtExecutor().launch(module, None, 1, arguments, target="sm_90a", split_k=4, seed=seed)
        seen.add(z.tobytes())
    assert len(seen) == 1
    assert np.allclose(z.astype(np.float32), x.astype(np.float32) @ y.astype(np.float32), 2e-3, 0.1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KINDS)
def test_code(name: str) -> None:
    for ranks in (2, 8):
        kernel = compile_kernel(KINDS[name][0], "sm_90a", {"split_k": ranks})
        machine_code = kernel.machine_code
        assert (machine_code.spills, machine_code.stack, machine_code.warnings) == (0, 0, ())
        assert kernel.metadata.cluster == (ranks, 1, 1)
        assert f".reqnctapercluster {ranks}" in kernel.ptx
        assert "st.async.shared::cluster.mbarrier::complete_tx::bytes" in kernel.ptx
        assert "barrier.cluster.arrive.relaxed" in kernel.ptx  # which waits for no memory


def test_what_is_launched() -> None:
    """Clusters work for many instances; the kernel without tensor maps has none."""
    kernel = compile_kernel(KINDS["f16"][0], "sm_90a", {"split_k": 4})
    plan = HostPlan.from_text(str(kernel.stages["barriers"].metadata["host.plan0"]))
    assert plan.persistent and kernel.metadata.blocks((33, 1, 1)) == (132, 1, 1)
    assert kernel.fallback is not None and kernel.fallback.metadata.cluster == (1, 1, 1)


def test_the_attribute_of_a_kernel() -> None:
    module = KINDS["f16"][0]
    kernel = module.kernel(None)
    with_attribute = kernel.evolve(attributes={**kernel.attributes, "split_k": 2})
    module = module.with_functions({kernel.name: with_attribute})
    assert compile_kernel(module, "sm_90a").metadata.cluster == (2, 1, 1)
    assert compile_kernel(module, "sm_90a", {"split_k": 1}).metadata.cluster == (1, 1, 1)


class Processors:
    """As much of a driver as the choice asks for."""

    def multiprocessors(self) -> int:
        return 132


def test_the_launcher_chooses() -> None:
    """A tile of great depth is shared; a shallow one, and many, are not."""
    kernel = LoadedKernel(compile_kernel(KINDS["f16"][0], "sm_90a", {"split_k": 0}))
    cuda: Any = Processors()
    deep = kernel.split_k_variant(cuda, (1, 1, 1), [1, 2, 3, 64, 64, 16384])
    assert deep is not None and deep.compiled.plan.cluster == (8, 1, 1)
    assert kernel.split_k_variant(cuda, (1, 1, 1), [4, 5, 6, 64, 64, 16384]) is deep
    assert kernel.split_k_variant(cuda, (1, 1, 1), [1, 2, 3, 64, 64, 64]) is None
    assert kernel.split_k_variant(cuda, (100, 1, 1), [1, 2, 3, 640, 640, 16384]) is None
    loaded_kernel = LoadedKernel(compile_kernel(KINDS["f16"][0], "sm_90a"))
    assert loaded_kernel.split_k_variant(cuda, (1, 1, 1), [1, 2, 3, 64, 64, 16384]) is None


def test_a_depth_is_shared_where_that_takes_a_tenth_less(monkeypatch: pytest.MonkeyPatch) -> None:
    module, arguments = KINDS["f16"][0], [1, 2, 3, 64, 64, 16384]
    plan = compile_kernel(module, "sm_90a", {"split_k": 0}).plan
    for eight, ranks in ((0.2, 8), (0.89, 8), (0.91, 1), (0.99, 1), (1.0, 1), (1.5, 1)):

        def seconds(
            _: Any, __: Any, ___: Any, blocks: int, *rest: Any, eight: float = eight
        ) -> Any:
            return 20e-6 * (eight if blocks == 8 else 1.0)

        monkeypatch.setattr(choose_split_k, "_seconds", seconds)
        assert choose_split_k.best_ranks(module, plan, (1, 1, 1), arguments, 132) == ranks, eight


def test_threads_as_a_launcher_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[Any] = []

    def two(*args: Any) -> int:
        requested.append(args[2:])
        return 2

    monkeypatch.setattr("tileir.backend.performance_model.choose_split_k.best_ranks", two)
    inputs, actual, expected = arguments("f16", (64, 64, 96))
    SimtExecutor().launch(KINDS["f16"][0], None, 1, inputs, target="sm_90a", split_k=0)
    assert np.array_equal(actual.astype(np.float64), expected)
    ((grid, numbers, processors),) = requested
    assert grid == (1, 1, 1) and numbers[3:] == [64, 64, 96] and processors == 132


HEADER = """tir 1.0
define kernel void @f(f16* %a, f16* %b, f32* %c, i32 %k, i64 %w, i32* %table) {
entry:
  %d = make_descriptor tensor_desc<f16<64, 16>> %a, [i32 64, %k], [%k, i32 1]
  %e = make_descriptor tensor_desc<f16<16, 16>> %b, [%k, i32 16], [i32 16, i32 1]
  %f = make_descriptor tensor_desc<f32<64, 16>> %c, [i32 64, i32 16], [i32 16, i32 1]
  br loop
loop:
  %i = phi i32 [0, entry], [%j, body]
  %s = phi f32<64, 16> [0.0, entry], [%t, body]
  %n, _ = icmp (i1, i1) %i, %k {predicate = slt}
  cond_br %n, body, done
body:
  %x = descriptor_load f16<64, 16> %d, 0, %i
  %y = descriptor_load f16<16, 16> %e, %i, 0
  %t = dot f32<64, 16> %x, %y, %s
  %j = add i32 %i, 16
  br loop
done:
  descriptor_store %f, %s, 0, 0
  ret
}
"""


REFUSED = [
    ("%j = add i32 %i, 16", "%j = mul i32 %i, 16", 2, "does not count up"),
    ("{predicate = slt}", "{predicate = ne}", 2, "runs while its count is ne its bound"),
    ("  %j = add", "  descriptor_store %f, %t, 0, 0\n  %j = add", 2,
     "effects besides the accumulation"),
    ("  %j = add", "  %u = fmul f32<64, 16> %s, 2.0\n  %j = add", 2,
     "neither a counter nor an accumulator"),
    ("  br loop\ndone", "  %h = mul i32 %j, 2\n  br loop\ndone", 2,
     "neither a counter nor an accumulator"),
    ("descriptor_store %f, %s, 0, 0", "%z = fneg f32<64, 16> 1.0\n  descriptor_store %f, %z, 0, 0",
     2, "does not write rows of an accumulator"),
    ("  ret", "  store %c, 1.0\n  ret", 2, "store does not write rows"),
    ("  descriptor_store", "  %r = reduce f32<64> %s {axis = 1, combiner = fadd}\n"
     "  %z = reduce f32 %r {axis = 0, combiner = fadd}\n  %p, _ = fcmp (i1, i1) %z, 0.0 "
     "{predicate = ogt}\n  assert %p\n  descriptor_store", 2, "assert reads a whole accumulator"),
    ("%i = phi i32 [0, entry]", "%i = phi i32 [%begin, entry]", 2,
     "bound of the loop may be too large"),
    ("%f, %s, 0, 0", "%f, %s, %i, 0", 2, "a counter of the loop is read after"),
    ("  descriptor_store", "  print %k\n  descriptor_store", 2, "print would run once per block"),
    ("dot f32<64, 16> %x, %y, %s", "dot f32<64, 16> %x, %y, 0.0", 2,
     "nor an accumulator|has no accumulator"),
    ("tir", "tir", 16, "16 blocks cannot divide 64 rows"),
    ("tir", "tir", 3, "clusters have 1, 2, 4, 8, 16 blocks"),
    ("i64 %w, i32* %table) {", "i64 %w, i32* %table) {cluster = 2} {", 2, "has a cluster already"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "instead", "ranks", "why"), REFUSED)
def test_what_is_not_split(line: str, instead: str, ranks: int, why: str) -> None:
    assert HEADER.count(line) >= 1
    text = HEADER.replace("  br loop\nloop", "  %begin = load i32 %table\n  br loop\nloop")
    module = parse(text.replace(line, instead, 1))
    result = run(module, f"split-k{{ranks={ranks}}}")
    (remarks,) = result.remarks
    assert remarks.code == "TIR0654" and re.search(why, remarks.message), remarks.message
    assert result.module is module


def test_steps_of_several_counters() -> None:
    """A second counter, and one that a parameter moves."""
    text = (
        HEADER.replace("  %n, _", "  %v = phi i64 [5, entry], [%u, body]\n  %n, _")
        .replace("  %j = add", "  %u = add i64 %v, %w\n  %j = add")
        .replace("descriptor_load f16<16, 16> %e, %i, 0", "descriptor_load f16<16, 16> %e, %q, 0")
    )
    text = text.replace("  %y =", "  %r = sub i64 %v, 5\n  %q = trunc i32 %r\n  %y =")
    module, k = parse(text), 112
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, k), (k, 16)))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    changed = run(module, "split-k{ranks=4}").module
    assert changed.kernel(None).attributes["cluster"] == 4
    for result in (module, changed):
        c = np.zeros((64, 16), np.float32)
        interpret(
            result,
            None,
            1,
            [a.reshape(-1), b.reshape(-1), c.reshape(-1), k, 16, np.zeros(1, np.int32)],
            seed=2,
        )
        assert np.array_equal(c, expected)
