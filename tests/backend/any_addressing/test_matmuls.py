"""Matmuls of operands that no tensor map describes: by warpgroups from what threads copy."""

from __future__ import annotations

import re
import runpy
from itertools import cycle
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import tileir
from tests.launches import assert_equal_results, results
from tileir.backend import compile as compile_kernel
from tileir.backend.compile import run_pipeline
from tileir.backend.executors import SimtExecutor
from tileir.backend.options import Options
from tileir.backend.ptxas import assemble_with_ptxas, ptxas
from tileir.backend.simt.shadow import RaceError
from tileir.backend.target import target
from tileir.builder import BF16, F16, F32, I8, I32, Builder, arg, pointer
from tileir.ir import Module
from tileir.op import Op
from tileir.ops.gpu import SharedAlloc
from tileir.ops.hopper import WgmmaWait
from tileir.textual import parse, print_module
from tileir.types import element_of

from .programs import PLAIN, Matmul, gated_matmul, paged_attention

EXAMPLES = Path(__file__).parents[3] / "examples"


def lower(module: Module, stage: str = "barriers", **options: Any) -> Module:
    chosen = Options.of({"warp_specialize": False, **options})
    return run_pipeline(module, target("sm_90a"), chosen, None).stages[stage]


def names(module: Module) -> list[str]:
    return [op.mnemonic for f in module.functions.values() for op in f.ops]


def wrapped_matmul(shift: int | None = 0, along_k: bool = True) -> Module:
    """C = A B with rows and columns modulo their extents, as Triton's tutorial has it. Rows start
    at `shift`, None for what the launch gives, of an A with as many rows before as after; its
    neighbours in memory are neighbours `along_k`, or along rows."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16, readonly=True) for name in "ab"}
    sizes = {name: arg(I32, multiple_of=16) for name in "mnk"}
    more = {"first": I32} if shift is None else {}
    with b.kernel("matmul", **kinds, c=pointer(F32), **sizes, **more) as (
        x,
        y,
        z,
        m,
        n,
        k,
        *first,
    ):
        moved = first[0] if first else shift or 0
        rows = b.program_id(axis=0) * 64 + b.arange(64) + moved
        columns = b.program_id(axis=1) * 64 + b.arange(64)
        depth = b.arange(32)
        if shift != 0:
            x = x + m * k
        wrapped = [
            b.srem(i, b.full((64,), extent, I32), rounding="zero")
            for i, extent in ((rows, m), (columns, n))
        ]
        step = 32 if along_k else m * 32
        place = (wrapped[0] * k if along_k else wrapped[0])[:, None]
        left = b.var(x + (place + (depth if along_k else depth * m)[None, :]))
        right = b.var(y + (depth[:, None] * n + wrapped[1][None, :]))
        acc = b.var(b.full((64, 64), 0.0, F32))
        with b.for_(0, k, 32):
            acc.set(b.dot(left.get().load(), right.get().load(), acc.get()))
            left.set(left.get() + step)
            right.set(right.get() + n * 32)
        mask = (rows[:, None] < m) & (columns[None, :] < n)
        place = (rows - moved)[:, None] * n + columns[None, :]
        (z + place).store(acc.get(), mask)
    return b.module()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("first", [0, -10, -24, -100])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("along_k", [True, False])
def test_rows_before_the_first_wrap_around_exactly(
    first: int, stated: bool, along_k: bool, chip: str
) -> None:
    """A remainder of -m or less is another row: such a program keeps its remainders. It ends if it
    does not, so that rows which are neighbours in memory are copied together."""
    module = wrapped_matmul(first if stated else None, along_k=along_k)
    m, n, k = 16, 64, 32
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (2 * m, k)).astype(np.float16)
    b = random.integers(-4, 5, (k, n)).astype(np.float16)
    outputs: list[Any] = []
    chosen = {"target": chip, "num_warps": 4, "warp_specialize": False}
    for launch, options in ((tileir.interpret, {}), (SimtExecutor().launch, chosen)):
        out = np.zeros((64, n), np.float32)
        arguments = [a, b, out, m, n, k, *([] if stated else [first])]
        if options and not stated and not along_k and first <= -m:
            with pytest.raises(AssertionError, match="device_assert"):
                launch(module, "matmul", (1, 1), arguments, **options)
            return
        launch(module, "matmul", (1, 1), arguments, **options)
        outputs.append(out)
    np.testing.assert_array_equal(outputs[1], outputs[0])


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_indices_that_wrap_around_are_copied_ahead(chip: str) -> None:
    """The neighbours of a wrapped column need not be neighbours in memory; under a mask they are.
    Those of a row are neighbours along K, whatever its remainder is."""
    options = {"num_warps": 4, "warp_specialize": False}
    text = str(compile_kernel(wrapped_matmul(), chip, options).tir_at("pipelined"))
    assert text.count("gpu.async_copy") >= 2 and text.count(" srem ") == 1
    assert " load " not in text


CASES = [
    (Matmul(F16, (64, 64, 32), (True, False)), 4),
    (Matmul(F16, (64, 64, 32), (False, False)), 4),
    (Matmul(F16, (128, 32, 32), (False, True), stages=3), 8),
    (Matmul(BF16, (64, 64, 64), (True, True), gathered=True, stages=4), 4),
    (Matmul(BF16, (64, 40, 16), (True, True), stages=2), 4),
    (Matmul(F16, (64, 128, 32), (True, False)), 8),
    (Matmul(F16, (64, 128, 32), (False, True)), 8),
    (Matmul(F16, (64, 64, 32), scaled=True), 4),
    (Matmul(F16, (64, 32, 32), through=(I8, None)), 4),
    (Matmul(F16, (64, 32, 32), through=(None, I8)), 4),
    (Matmul(F16, (128, 32, 32), (True, True), through=(I8, I8), stages=2), 8),
    (Matmul(F32, (64, 32, 16), (True, True), precision="tf32"), 4),
    (Matmul(F32, (64, 32, 16), (False, False), precision="tf32"), 4),
    (Matmul(I8, (128, 24, 32), (True, True)), 8),
    (Matmul(I8, (64, 32, 32), (False, False)), 4),
    (Matmul(F16, (256, 16, 16), (True, False), stages=2), 16),
]


def name_of(value: Any) -> str:
    if not isinstance(value, Matmul):
        return str(value)
    sides = "".join("K" if x else "O" for x in value.along_k)
    what = "gathered " * value.gathered + "scaled " * value.scaled
    through = " ".join(str(x) for x in value.through if x)
    return f"{value.element} {value.block} {sides} {what}{through}"


EXTENTS = cycle([(100, 72, 80), (64, 40, 12)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("product", "warps", "extents"),
    [(*c, e) for c, e in zip(CASES, EXTENTS, strict=False)],
    ids=name_of,
)
def test_all_threads_agree_with_the_interpreter(
    product: Matmul, warps: int, extents: tuple[int, int, int]
) -> None:
    expected, actual = product.results(extents, num_warps=warps, **PLAIN)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("product", "warps"), CASES, ids=name_of)
def test_warpgroups_compute_it(product: Matmul, warps: int) -> None:
    """Every operand is copied ahead, whatever it is made of, and no dot is left to one warp."""
    ops = names(lower(product.module(), "pipelined", num_warps=warps))
    assert "gpu.wgmma" in ops and "dot" not in ops
    assert ops.count("load") == product.gathered


def test_bytes_are_transposed_by_words() -> None:
    """Threads own squares of 4 x 4 of what they read along one dimension and store along the
    other."""
    product = Matmul(I8, (64, 64, 64), (True, False))
    ptx = compile_kernel(
        product.module(multiple=16), "sm_90a", {"num_warps": 4, "warp_specialize": False}
    ).ptx
    assert "wgmma" in ptx and not re.search(r"(ld|st)\.shared\S*\.[bus]8\b", ptx)
    expected, actual = product.results((100, 64, 160), num_warps=4, **PLAIN)
    np.testing.assert_array_equal(actual, expected)


INTERLEAVED = """tir 1.0

define kernel void @product(f16* aligned(16) %a, i8* aligned(16) %b, f32* %c, i32 %n) {
entry:
  %i = make_range i32<64>
  %j = make_range i32<32>
  %r = expand_dims i32<64, 1> %i {axis = 1}
  %r64 = mul i32<64, 1> %r, 64
  %r32 = mul i32<64, 1> %r, 32
  %k = expand_dims i32<1, 64> %i {axis = 0}
  %h = expand_dims i32<1, 32> %j {axis = 0}
  %rows = broadcast i32<64, 64> %r64
  %columns = broadcast i32<64, 64> %k
  %offs = add i32<64, 64> %rows, %columns
  %half_rows = broadcast i32<64, 32> %r32
  %halves = broadcast i32<64, 32> %h
  %packed = add i32<64, 32> %half_rows, %halves
  %as = splat f16*<64, 64> %a
  %pa = getelementptr f16*<64, 64> %as, %offs
  %bs = splat i8*<64, 32> %b
  %pb = getelementptr i8*<64, 32> %bs, %packed
  br loop
loop:
  %step = phi i32 [0, entry], [%next, loop]
  %qa = phi f16*<64, 64> [%pa, entry], [%qa.next, loop]
  %qb = phi i8*<64, 32> [%pb, entry], [%qb.next, loop]
  %sum = phi f32<64, 64> [0.0, entry], [%total, loop]
  %x = load f16<64, 64> %qa
  %y = load i8<64, 32> %qb
  %up = shl i8<64, 32> %y, 4
  %low = ashr i8<64, 32> %up, 4
  %high = ashr i8<64, 32> %y, 4
  %both = join i8<64, 32, 2> %low, %high
  %all = reshape i8<64, 64> %both
  %numbers = sitofp f16<64, 64> %all
  %turned = trans f16<64, 64> %numbers {order = [1, 0]}
  %total = dot f32<64, 64> %x, %turned, %sum
  %qa.next = getelementptr f16*<64, 64> %qa, i32<64, 64> 4096
  %qb.next = getelementptr i8*<64, 32> %qb, i32<64, 32> 2048
  %next = add i32 %step, 1
  %more, _ = icmp (i1, i1) %next, %n {predicate = slt}
  cond_br %more, loop, done
done:
  %cs = splat f32*<64, 64> %c
  %pc = getelementptr f32*<64, 64> %cs, %offs
  store %pc, %total
  ret
}
"""


@pytest.mark.parametrize("packed", [False, True])
def test_a_stored_b_is_contiguous_as_it_was_loaded(packed: bool) -> None:
    """By whole vectors, along K. As many rows as columns: the layouts of A and C would do, too."""
    product = Matmul(F16, (64, 64, 64), (True, True), through=(None, I8))
    module = parse(INTERLEAVED) if packed else product.module(multiple=16)
    options = {"num_warps": 4, "warp_specialize": False}
    kernel = compile_kernel(module, "sm_90a", options)
    text = str(kernel.tir_at("pipelined"))
    (buffer,) = re.findall(r"gpu.local_store %\S+, (%\w+)", text)
    assert re.search(rf"{buffer} = gpu.shared_alloc f16 .*fast = 0", text)
    assert not re.search(r"st\.shared(\.v2)?\.b(8|16)\b", kernel.ptx)
    if packed:
        random = np.random.default_rng(3)
        inputs = [
            random.integers(-4, 5, (3, 64, 64)).astype(np.float16),
            random.integers(-128, 128, (3, 64, 32)).astype(np.int8),
        ]
        arrays = [*inputs, np.zeros((64, 64), np.float32), 3]
        assert_equal_results(module, arrays, num_warps=4, **PLAIN)
    else:
        np.testing.assert_array_equal(*product.results((64, 64, 160), num_warps=4, **PLAIN))


def test_what_is_transposed_is_computed_as_the_dot_takes_it() -> None:
    """By `mma`, from halves that are interleaved: nothing moves between threads."""
    options = {"num_warps": 4, "target": "sm_80"}
    module = run_pipeline(
        parse(INTERLEAVED), target("sm_80"), Options.of({"num_warps": 4}), None
    ).stages["layouts"]
    blocks = module.functions["product"].blocks.values()
    (loop,) = (block for block in blocks if any(op.mnemonic == "dot" for op in block.ops))
    assert "gpu.convert_layout" not in [op.mnemonic for op in loop.ops]
    assert all(op.shared is None for op in loop.ops if op.mnemonic == "join")
    random = np.random.default_rng(4)
    a = random.integers(-4, 5, (2, 64, 64)).astype(np.float16)
    b = random.integers(-128, 128, (2, 64, 32)).astype(np.int8)
    out = [np.zeros((64, 64), np.float32) for _ in range(2)]
    tileir.interpret(parse(INTERLEAVED), "product", (1,), [a, b, out[0], 2])
    SimtExecutor().launch(parse(INTERLEAVED), "product", 1, [a, b, out[1], 2], **options)
    np.testing.assert_array_equal(*out)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", [1, 2, 3, 9, 12], ids=lambda i: name_of(CASES[i][0]))
def test_it_is_assembled(case: int) -> None:
    tool = ptxas()
    if tool is None:
        pytest.skip("there is no ptxas")
    product, warps = CASES[case]
    kernel = compile_kernel(
        product.module(), "sm_90a", {"num_warps": warps, "warp_specialize": False}
    )
    assert "wgmma.mma_async" in kernel.ptx and "mma.sync" not in kernel.ptx
    assert assemble_with_ptxas(tool, kernel.ptx, target("sm_90a"), ())[0]


def test_a_loop_with_one_dot_does_not_wait_for_it() -> None:
    wide = Matmul(F16, (128, 256, 32), stages=3)
    text = print_module(lower(wide.module(), "pipelined", num_warps=8))
    assert "{pending = 1}" in text[text.index("gpu.wgmma_wait") :]


ORDERING = ("gpu.barrier", "gpu.async_fence", "gpu.async_wait", "gpu.wgmma_wait")


def weaken(op: Op) -> tuple[Op, ...]:
    """What is left of an op that orders accesses if it orders less."""
    return (op.evolve(pending=op.pending + 1),) if hasattr(op, "pending") else ()  # type: ignore[attr-defined]


ORDERED = [
    (Matmul(F16, (128, 256, 32), stages=3), 8, 6),
    (Matmul(F16, (128, 256, 32), stages=4), 8, 8),
    (Matmul(F16, (128, 64, 32), stages=3), 8, 4),
    (Matmul(F16, (128, 64, 32), stages=4), 8, 6),
    (Matmul(F16, (64, 64, 32), scaled=True, stages=3), 4, 4),
    (Matmul(F16, (64, 64, 32), scaled=True, stages=4), 4, 6),
    (Matmul(F16, (64, 32, 32), through=(None, I8), stages=3), 4, 5),
]
"""A matmul, warps, and how many ops order accesses before its loop and in it."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("product", "warps", "count", "number"), [(*x, i) for x in ORDERED for i in range(x[2])]
)
def test_nothing_that_orders_the_loop_is_needless(
    product: Matmul, warps: int, count: int, number: int
) -> None:
    """The simulator reports a race where any fence, barrier or wait of the loop is left out."""
    module = lower(product.module(), num_warps=warps)
    function = module.functions["matmul"]
    places = [
        (label, op) for label, b in function.blocks.items() for op in b.ops
        if op.mnemonic in ORDERING and label != "done"
    ]  # fmt: skip
    assert len(places) == count
    label, left_out = places[number]
    block = function.blocks[label]
    ops = [y for x in block.ops for y in (weaken(x) if x is left_out else (x,))]
    changed = function.with_blocks({**function.blocks, label: attrs.evolve(block, ops=tuple(ops))})
    weaker = module.with_functions({**module.functions, "matmul": changed})
    with pytest.raises(RaceError):
        SimtExecutor().launch(
            weaker, "matmul", (1, 1), product.arguments(128, 64, 160), target="sm_90a"
        )


def ordering_mnemonics(module: Module) -> list[str]:
    """What orders accesses in the block of the `wgmma`s, in order, with the `wgmma`s and the first
    copy."""
    (function,) = lower(module, num_warps=4).functions.values()
    (block,) = (
        b for b in function.blocks.values() if any(x.mnemonic == "gpu.wgmma" for x in b.ops)
    )
    kept = {*ORDERING, "gpu.wgmma", "gpu.async_copy", "gpu.local_store"}
    mnemonics = [op.mnemonic.removeprefix("gpu.") for op in block.ops if op.mnemonic in kept]
    return [x for i, x in enumerate(mnemonics) if x != "async_copy" or mnemonics[i - 1] != x]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_are_fenced_while_a_dot_runs(stages: int) -> None:
    """With fewer than four stages the copies have only begun when the matmul does."""
    first = ["async_wait", "async_fence"]
    product = ["wgmma", *(first if stages == 4 else []), "async_copy", "wgmma_wait"]
    result = ordering_mnemonics(Matmul(F16, (64, 64, 32), scaled=True, stages=stages).module())
    assert result == [*(first if stages < 4 else []), "barrier", *product]


@pytest.mark.parametrize(
    ("block", "stages", "depth", "one_barrier"),
    [
        ((128, 128, 48), 4, 4, True), ((64, 256, 64), 4, 5, True), ((64, 64, 64), 4, 4, False),
        ((128, 256, 32), 3, 3, False),
    ],
    ids=["short rows", "a free stage", "long rows", "few stages"],
)  # fmt: skip
def test_one_barrier_frees_a_stage_and_hands_over_the_next(
    block: tuple[int, int, int], stages: int, depth: int, one_barrier: bool
) -> None:
    """Where the copies take long, or another stage leaves as many blocks resident."""
    module = Matmul(F16, block, stages=stages).module()
    first = ["async_wait", "async_fence", "barrier"]
    if one_barrier:
        assert ordering_mnemonics(module) == ["wgmma", "wgmma_wait", *first, "async_copy"]
    else:
        assert ordering_mnemonics(module) == [
            *first,
            "wgmma",
            "wgmma_wait",
            "barrier",
            "async_copy",
        ]
    buffers = [x for x in lower(module, num_warps=4).kernel().ops if isinstance(x, SharedAlloc)]
    assert [x.shape[0] for x in buffers] == [depth, depth]


def test_a_loop_waits_for_its_dot_where_other_blocks_multiply_meanwhile() -> None:
    """As many copies are in flight then: those of a deep loop with two barriers would be fewer."""
    first = ["async_wait", "async_fence"]
    few, short = (
        ordering_mnemonics(Matmul(F16, block, stages=stages).module())
        for block, stages in (((64, 64, 64), 3), ((64, 64, 32), 4))
    )
    assert few == [*first, "barrier", "wgmma", "async_copy", "wgmma_wait"]
    assert short == ["barrier", "wgmma", *first, "async_copy", "wgmma_wait"]


@pytest.mark.parametrize("stages", [2, 3])
def test_all_accumulators_of_a_loop_stay_in_flight(stages: int) -> None:
    """Those of the iteration before are waited for. Without that the simulator reports a race."""
    begin, waits = ["async_wait", "async_fence", "barrier"], ["wgmma_wait"] * 2
    assert ordering_mnemonics(gated_matmul(stages)) == [
        *begin,
        *["wgmma"] * 2,
        *waits,
        "barrier",
        "async_copy",
    ]
    random = np.random.default_rng(stages)
    shapes = (68, 104), (104, 40), (104, 40)
    inputs = [random.integers(-4, 5, shape).astype(np.float16) for shape in shapes]
    out = [np.zeros((68, 40), np.float32) for _ in range(2)]
    extents = (68, 40, 104)
    tileir.interpret(gated_matmul(stages), "gated", (2, 1), [*inputs, out[0], *extents])
    SimtExecutor().launch(
        gated_matmul(stages), "gated", (2, 1), [*inputs, out[1], *extents], num_warps=4, **PLAIN
    )
    np.testing.assert_array_equal(*out)

    module = lower(gated_matmul(stages), num_warps=4)
    function = module.functions["gated"]
    blocks = dict(function.blocks)
    for label, block in blocks.items():
        ops = (
            op.evolve(pending=4) if isinstance(op, WgmmaWait) and op.pending else op
            for op in block.ops
        )
        blocks[label] = attrs.evolve(block, ops=tuple(ops))
    weaker = module.with_functions({**module.functions, "gated": function.with_blocks(blocks)})
    with pytest.raises(RaceError):
        SimtExecutor().launch(weaker, "gated", (2, 1), [*inputs, out[1], *extents], target="sm_90a")


def test_the_fence_of_stored_operands_is_that_of_the_stages() -> None:
    result = ordering_mnemonics(Matmul(F16, (64, 32, 32), through=(None, I8), stages=3).module())
    waits = ["async_wait", "barrier", "local_store", "async_fence", "barrier"]
    assert result == [*waits, "wgmma", "async_copy", "wgmma_wait"]


@pytest.mark.slow
@pytest.mark.parametrize(("warps", "rows"), [(4, 64), (8, 128)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(warps: int, rows: int, causal: bool) -> None:
    """Chained matmuls: queries are stored once, weights are operand A in registers."""
    make = runpy.run_path(str(EXAMPLES / "flash_attention.py"))["flash_attention"]
    module = make(rows, 32, 32, causal=causal)
    ops = names(lower(module, "pipelined", num_warps=warps))
    assert ops.count("gpu.wgmma") == 2 and "dot" not in ops
    random = np.random.default_rng(0)
    inputs = [random.normal(size=(2, 150, 32)).astype(np.float16) for _ in range(3)]
    arguments = [*inputs, np.zeros((2, 150, 32), np.float16), 150, 0.2]
    runs = results(module, arguments, (-(-150 // rows), 2), num_warps=warps, **PLAIN)
    expected, actual = (x[3].astype(np.float32) for x in runs)
    np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)


def gradients() -> Module:
    """Of keys, and by atomics of all queries, for loss = the sum of all squares / 2."""
    b = Builder()
    data = {name: arg(pointer(F16), aligned=16, readonly=True) for name in "qk"}
    outputs = {name: arg(pointer(F32), aligned=16) for name in ("dq", "dk")}
    with b.kernel("gradients", **data, **outputs, n=I32) as (q, k, dq, dk, n):
        at = b.arange(64)[:, None] * 32 + b.arange(32)[None, :]
        keys, total = (k + at).load(), b.var(b.full((64, 32), 0.0, F32))
        with b.for_(0, n, 64, stages=2, independent_loads=True) as i:
            queries = (q + (i * 32 + at)).load()
            weights = b.dot(queries, b.trans(keys, order=[1, 0]), b.full((64, 64), 0.0, F32))
            weights = weights.to(F16)
            total.set(b.dot(b.trans(weights, order=[1, 0]), queries, total.get()))
            part = b.dot(weights, keys, b.full((64, 32), 0.0, F32))
            b.atomic_rmw(dq + (i * 32 + at), part, op="fadd", sem="relaxed")
        (dk + at).store(total.get())
    return b.module()


def test_a_fixed_b_is_stored_before_the_loop() -> None:
    """Also one that no copy of the loop feeds, and one whose transpose another dot takes: both
    read one buffer."""
    module = gradients()
    lowered_module = lower(module, "pipelined", num_warps=4)
    blocks = lowered_module.functions["gradients"].blocks.values()
    (loop,) = (x for x in blocks if any(op.mnemonic == "gpu.wgmma" for op in x.ops))
    inside = [op.mnemonic for op in loop.ops]
    assert inside.count("gpu.wgmma") == 3 and "dot" not in inside
    assert "gpu.local_store" not in inside and names(lowered_module).count("gpu.local_store") == 1
    random = np.random.default_rng(2)
    inputs = [random.integers(-4, 5, (rows, 32)).astype(np.float16) for rows in (192, 64)]
    outputs = [np.zeros(x.shape, np.float32) for x in inputs]
    assert_equal_results(module, [*inputs, *outputs, 192], num_warps=4, **PLAIN)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("rows", "chip"), [(64, "sm_90a"), (16, "sm_90")])
def test_pages_that_a_table_names_are_copied_ahead(rows: int, chip: str, stages: int) -> None:
    """What addresses are loaded from is read ahead, in iterations that run: the table has no
    entry after the last page."""
    module, length = paged_attention(rows, 32, 32, 8, stages), 88
    ops = names(run_pipeline(
        module, target(chip), Options.of({"warp_specialize": False, "num_warps": 4}), None
    ).stages["pipelined"])  # fmt: skip
    assert ops.count("gpu.async_copy") >= 4 and ("gpu.wgmma" in ops) == (chip == "sm_90a")
    random = np.random.default_rng(1)
    query = random.normal(size=(rows, 32)).astype(np.float16)
    keys, values = (random.normal(size=(20, 8, 32)).astype(np.float16) for _ in range(2))
    table = random.permutation(20)[: length // 8].astype(np.int32)
    arguments = [query, keys, values, table, np.zeros((rows, 32), np.float32), length]
    expected, actual = results(module, arguments, **{**PLAIN, "target": chip, "num_warps": 4})
    np.testing.assert_allclose(actual[4], expected[4], rtol=2e-3, atol=2e-3)


def test_a_transposition_that_moves_nothing_is_none() -> None:
    """`trans` with the order [0, 1] was taken for one with [1, 0]."""
    text = (EXAMPLES.parent / "tests/corpus/found/transposed_by_nothing.tir").read_text()
    module, random = parse(text), np.random.default_rng(0)
    inputs = [random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2)]
    out = np.zeros((16, 16), np.float32)
    SimtExecutor().launch(module, "matmul", 1, [*inputs, out, 2])
    expected = 2 * (inputs[0].astype(np.float32) @ inputs[1].astype(np.float32))
    np.testing.assert_array_equal(out, expected)


def test_an_operand_of_the_shape_of_the_result_keeps_the_layout_of_its_loads() -> None:
    """A tile that is added to the result is loaded by the rows of each warp. An operand is not,
    though it has the same shape: it goes to shared memory."""
    module = Matmul(F16, (64, 64, 64), through=(None, I8), stages=1).module()
    (function,) = lower(module, "layouts", num_warps=4).functions.values()
    (kind,) = (op.results[0].type for op in function.ops if _loads(op, I8))
    assert kind.layout.warp != ((16, 0), (32, 0))


def _loads(op: Op, element: Any) -> bool:
    return op.mnemonic == "load" and element_of(op.results[0].type) is element
