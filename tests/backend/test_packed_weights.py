"""Weights that are packed in words and unpacked in registers: by shifts and joins, or by inline
assembly."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.launches import assert_equal_results
from tileir.backend import compile as compile_kernel
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.layouts.anchors import vector_run
from tileir.backend.layouts.shape_ops import stays
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.target import target
from tileir.builder import F16, F32, I8, I32, Builder, arg, pointer
from tileir.types import Tile

M, N, K = 64, 64, 64
PER_WORD = 8
OPTIONS = {"num_warps": 4, "num_stages": 2, "warp_specialize": False}


def unpack_nibbles(b: Any, words: Any, rows: int) -> Any:
    """The nibbles of each word as neighbours: `rows` x 8 n of `rows` x n."""
    parts = [((words >> (4 * i)) & 15).to(F16) for i in range(PER_WORD)]
    low, high = (b.join(*(b.join(*pair) for pair in half)) for half in (
        ((parts[0], parts[4]), (parts[2], parts[6])), ((parts[1], parts[5]), (parts[3], parts[7]))
    ))  # fmt: skip
    return b.join(low, high).reshape(rows, N)


def packed_matmul(iterations: int = 2) -> Any:
    """out = x ((words - zeros) * scales): weights are packed along n, with one row of zeros and of
    scales for K rows of weights."""
    b = Builder()
    elements = {"x": F16, "words": I32, "zeros": I32, "scales": F16}
    kinds = {name: arg(pointer(element), aligned=16) for name, element in elements.items()}
    packed = N // PER_WORD
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16)) as (
        x,
        words,
        zeros,
        scales,
        out,
    ):
        total = b.var(b.full((M, N), 0.0, F32))
        with b.for_(0, iterations, stages=2) as i:
            left = (
                x + (b.arange(M)[:, None] * (K * iterations) + b.arange(K)[None, :] + i * K)
            ).load()
            places = (b.arange(K)[:, None] + i * K) * packed + b.arange(packed)[None, :]
            weights = unpack_nibbles(b, (words + places).load(), K)
            zero = unpack_nibbles(b, (zeros + (b.arange(packed) + i * packed)[None, :]).load(), 1)
            scale = (scales + (b.arange(N) + i * N)[None, :]).load()
            right = (weights - zero.broadcast_to(K, N)) * scale.broadcast_to(K, N)
            total.set(b.dot(left, right, total.get()))
        (out + (b.arange(M)[:, None] * N + b.arange(N)[None, :])).store(total.get())
    return b.module()


def arguments(iterations: int) -> list[Any]:
    random = np.random.default_rng(0)
    packed = N // PER_WORD
    return [
        random.integers(-2, 3, (M, K * iterations)).astype(np.float16),
        random.integers(-(2**31), 2**31, (K * iterations, packed)).astype(np.int32),
        random.integers(-(2**31), 2**31, (iterations, packed)).astype(np.int32),
        random.integers(1, 4, (iterations, N)).astype(np.float16),
        np.zeros((M, N), np.float32),
    ]


def laid_out(module: Any) -> Any:
    done = run_pipeline(module, target("sm_90a"), Options(**OPTIONS), None)
    return done.stages["layouts"].functions[done.kernel]


def test_packed_weights_are_unpacked_in_registers() -> None:
    """Every join stays in its thread, and words of zeros and of scales are loaded where they are
    used: nothing but operands and results passes through shared memory."""
    function = laid_out(packed_matmul())
    joins = [op for op in function.ops if op.mnemonic == "join"]
    assert len(joins) == 14 and all(stays(op) for op in joins)
    assert "gpu.wgmma" in [op.mnemonic for op in function.ops]
    moved = [
        op.result.type.element
        for op in function.ops
        if op.mnemonic == "gpu.convert_layout"
        and not isinstance(conversion(op.inputs[0].type, op.result.type.layout), tuple)
    ]
    assert moved == [F32], "the result alone moves"


def test_joined_weights_are_stored_many_at_a_time() -> None:
    """A thread owns 8 neighbours for each word that it loads, which one access stores. Scales,
    fewer than threads, are copied without registers."""
    ptx = compile_kernel(packed_matmul(), "sm_90a", OPTIONS).ptx
    stores = re.findall(r"st\.shared\.(\S+)", ptx)
    assert set(stores) == {"v4.b32"}, "the result and the weights"
    assert "ld.global" not in ptx


@pytest.mark.parametrize("iterations", [1, 3])
def test_packed_weights_against_the_interpreter(iterations: int) -> None:
    module = packed_matmul(iterations)
    assert_equal_results(module, arguments(iterations), target="sm_90a", **OPTIONS)


def test_code_between_a_load_and_a_join_moves_nothing() -> None:
    """Inline assembly is applied element by element: its results are owned as its operands are."""
    b = Builder()
    kinds = {"x": arg(pointer(I32), aligned=16), "y": arg(pointer(F16), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        words = (x + (b.arange(64)[:, None] * 32 + b.arange(32)[None, :])).load()
        half = Tile(F16, (64, 32))
        text, constraints = "mov.b32 {$0, $1}, $2;", "=h,=h,r"
        low, high = b.inline_asm([half, half], [words], text=text, constraints=constraints)
        whole = b.join(low, high).reshape(64, 64)
        (y + (b.arange(64)[:, None] * 64 + b.arange(64)[None, :])).store(whole)
    options = {"num_warps": 4, "permit": ("inline_asm",)}
    compiled = compile_kernel(b.module(), "sm_90a", options)
    assert "shared" not in compiled.ptx and "shfl" not in compiled.ptx
    assert set(re.findall(r"(?:ld|st)\.global\.(\S+)", compiled.ptx)) == {"v4.b32"}


@pytest.mark.parametrize("kind", [I32, F16])
def test_interleaved_neighbours_are_stored_and_added_as_vectors(kind: Any) -> None:
    """The registers of a joined tile are those of one half after those of the other: an access
    takes neighbours in memory, wherever their registers are."""
    b = Builder()
    kinds = {name: arg(pointer(kind), aligned=16) for name in "xyz"}
    with b.kernel("k", **kinds) as (x, y, z):
        halves = [(x + (b.arange(2048) + i * 2048)).load() for i in range(2)]
        whole = b.join(*halves).reshape(4096)
        (y + b.arange(4096)).store(whole)
        (z + b.arange(4096)).atomic("fadd" if kind is F16 else "add", whole)
    module, options = b.module(), {"num_warps": 4}
    ptx = compile_kernel(module, "sm_90a", options).ptx
    assert set(re.findall(r"st\.global\.(\S+)", ptx)) == {"v4.b32"}
    values = np.arange(4096).astype(np.int32 if kind is I32 else np.float16)
    arrays = [values, np.zeros_like(values), np.ones_like(values)]
    assert_equal_results(module, arrays, target="sm_90a", **options)


def test_unpacked_words_are_stored_without_gaps() -> None:
    """A thread that loads 4 words owns 32 neighbours. Were they stored from there, lanes would
    leave gaps of 48 bytes, and each sector would be written twice."""
    b = Builder()
    kinds = {"x": arg(pointer(I32), aligned=16), "y": arg(pointer(F16), aligned=16)}
    with b.kernel("k", **kinds) as (x, y):
        words = (x + (b.arange(64)[:, None] * 32 + b.arange(32)[None, :])).load()
        parts = [((words >> (4 * i)) & 15).to(F16) for i in range(8)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [b.join(*pair) for pair in zip(parts[:half], parts[half:], strict=True)]
        whole = parts[0].reshape(64, 256)
        (y + (b.arange(64)[:, None] * 256 + b.arange(256)[None, :])).store(whole)
    done = run_pipeline(b.module(), target("sm_90a"), Options(num_warps=4), None)
    ops = done.stages["layouts"].functions["k"].ops
    (store,) = (op for op in ops if op.mnemonic == "store")
    assert vector_run(store.value.type.layout, 1) == 8


def bytes_matmul(form: str, rows: int, columns: int) -> Any:
    """out = x w, with two weights of four bits in a byte: neighbours along n (`n`), rows 2k and
    2k + 1 (`rows`), or neighbours along k of a matrix that is transposed (`transposed`), also with
    a scale for each 32 of them (`groups`)."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(I8), aligned=16)}
    shape = {
        "n": (K, columns // 2), "rows": (K // 2, columns), "transposed": (columns, K // 2),
        "groups": (columns, K // 2),
    }[form]  # fmt: skip
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16), iterations=arg(I32)) as (
        x, w, out, iterations,
    ):  # fmt: skip
        total = b.var(b.full((rows, columns), 0.0, F32))
        with b.for_(0, iterations, stages=3) as i:
            at = b.arange(rows)[:, None] * K + b.arange(K)[None, :] + i * (rows * K)
            words = b.arange(shape[0])[:, None] * shape[1] + b.arange(shape[1])[None, :]
            word = (w + (words + i * (shape[0] * shape[1]))).load()
            both = b.join((word & 15).to(F16), ((word >> 4) & 15).to(F16))
            if form == "rows":
                both = b.trans(both, order=(0, 2, 1))
            if form == "groups":
                number = b.arange(columns)[:, None] % 3 + b.arange(K // 32)[None, :]
                scale = number.to(F16).reshape(columns, K // 32, 1)
                both = both.reshape(columns, K // 32, 32)
                both = both * scale.broadcast_to(columns, K // 32, 32)
            is_transposed = form in ("transposed", "groups")
            whole = both.reshape(*((columns, K) if is_transposed else (K, columns)))
            if is_transposed:
                whole = b.trans(whole, order=(1, 0))
            total.set(b.dot((x + at).load(), whole, total.get()))
        places = b.arange(rows)[:, None] * columns + b.arange(columns)[None, :]
        (out + places).store(total.get())
    return b.module()


@pytest.mark.parametrize("form", ["n", "rows", "transposed", "groups"])
@pytest.mark.parametrize(("rows", "columns", "warps"), [(64, 128, 4), (128, 128, 8), (64, 64, 4)])
def test_halves_of_bytes_are_joined_where_they_are(
    form: str, rows: int, columns: int, warps: int
) -> None:
    options = {"num_warps": warps, "num_stages": 3, "warp_specialize": False}
    module = bytes_matmul(form, rows, columns)
    done = run_pipeline(module, target("sm_90a"), Options(**options), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    assert all(stays(op) for op in ops if op.mnemonic == "join")
    ptx = compile_kernel(module, "sm_90a", options).ptx
    assert set(re.findall(r"st\.shared\.(\S+)", ptx)) <= {"v2.b32", "v4.b32"}


@pytest.mark.parametrize("form", ["n", "rows", "transposed", "groups"])
def test_halves_of_bytes_against_the_interpreter(form: str) -> None:
    random = np.random.default_rng(3)
    arrays = [
        random.integers(-2, 3, (2, 64, K)).astype(np.float16),
        random.integers(-128, 128, (2, K, 32)).astype(np.int8),
        np.zeros((64, 64), np.float32),
    ]
    module = bytes_matmul(form, 64, 64)
    assert_equal_results(module, [*arrays, 2], target="sm_90a", **OPTIONS)


def table_matmul(rows: int) -> Any:
    """out = x table[w]: weights are looked up by the halves of bytes, neighbours along k."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(I8), aligned=16)}
    kinds |= {"table": arg(pointer(F32), aligned=16), "out": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **kinds, iterations=arg(I32)) as (x, w, table, out, iterations):
        total = b.var(b.full((rows, N), 0.0, F32))
        with b.for_(0, iterations, stages=3) as i:
            at = b.arange(rows)[:, None] * K + b.arange(K)[None, :] + i * (rows * K)
            words = b.arange(N)[:, None] * (K // 2) + b.arange(K // 2)[None, :] + i * (N * K // 2)
            word = (w + words).load().to(I32)
            parts = [(table + ((word >> shift) & 15)).load() for shift in (0, 4)]
            whole = b.trans(b.join(*parts).reshape(N, K).to(F16), order=(1, 0))
            total.set(b.dot((x + at).load(), whole, total.get()))
        (out + (b.arange(rows)[:, None] * N + b.arange(N)[None, :])).store(total.get())
    return b.module()


@pytest.mark.parametrize("rows", [16, 64])
def test_what_words_look_up_is_not_copied(rows: int) -> None:
    """The words are copied ahead; values of a table are loaded when their words are there."""
    options = {"num_warps": 4, "num_stages": 3, "warp_specialize": False}
    module = table_matmul(rows)
    done = run_pipeline(module, target("sm_90a"), Options(**options), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    copies = {op.inputs[0].type.shape for op in ops if op.mnemonic == "gpu.async_copy"}
    assert copies == {(rows, K), (N, K // 2)}
    random = np.random.default_rng(4)
    arrays = [
        random.integers(-2, 3, (2, rows, K)).astype(np.float16),
        random.integers(-128, 128, (2, N, K // 2)).astype(np.int8),
        np.arange(16, dtype=np.float32),
        np.zeros((rows, N), np.float32),
    ]
    assert_equal_results(module, [*arrays, 2], target="sm_90a", **options)


def prefetched_matmul(rows: int, *, stored: bool = False, filled: bool = False) -> Any:
    """out = x (w & 15), where each iteration loads the words of the next one itself, after it
    unpacked its own. With `stored`, each iteration changes a word of memory that others load. With
    `filled`, masked-out words are 1."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(I32), aligned=16)}
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16), iterations=arg(I32)) as (
        x, w, out, iterations,
    ):  # fmt: skip
        total = b.var(b.full((rows, N), 0.0, F32))
        places = b.arange(K)[:, None] * N + b.arange(N)[None, :]
        words = b.var((w + places).load())
        with b.for_(0, iterations, stages=2) as i:
            at = b.arange(rows)[:, None] * K + b.arange(K)[None, :] + i * (rows * K)
            weights = (words.get() & 15).to(F16)
            left = (x + at).load()
            following = places + (i + 1) * (K * N)
            more = {"mask": following < iterations * (K * N), "other": 1} if filled else {}
            words.set((w + following).load(**more))
            total.set(b.dot(left, weights, total.get()))
            if stored:
                (w + (i + 2) * (K * N)).store(i)
        (out + (b.arange(rows)[:, None] * N + b.arange(N)[None, :])).store(total.get())
    return b.module()


@pytest.mark.parametrize("form", ["copied", "stored", "filled"])
@pytest.mark.parametrize("rows", [16, 64])
def test_loads_for_the_next_iteration_are_copied_ahead_or_start_first(rows: int, form: str) -> None:
    options = {"num_warps": 4, "num_stages": 2, "warp_specialize": False}
    module = prefetched_matmul(rows, stored=form == "stored", filled=form == "filled")
    done = run_pipeline(module, target("sm_90a"), Options(**options), None)
    names = [op.mnemonic for op in done.stages["pipelined"].functions["k"].ops]
    in_loop = names[names.index("br") :]
    assert in_loop.count("gpu.async_copy") == {"copied": 2, "stored": 0, "filled": 1}[form]
    if form == "stored":
        assert in_loop.index("load") > in_loop.index("sitofp")
    elif form == "filled" and rows == 16:
        assert in_loop.index("load") < in_loop.index("sitofp")
    elif form == "filled":  # a fence before the matmul would wait for them
        assert in_loop.index("gpu.wgmma") < in_loop.index("load") < in_loop.index("gpu.wgmma_wait")
    else:  # the words of the next iteration are read when their copies have landed
        assert "load" not in in_loop
        assert in_loop.index("gpu.async_wait") < in_loop.index("gpu.local_load")
    random = np.random.default_rng(6)
    arrays = [
        random.integers(-2, 3, (3, rows, K)).astype(np.float16),
        random.integers(0, 99, (5, K, N)).astype(np.int32),
        np.zeros((rows, N), np.float32),
    ]
    assert_equal_results(module, [*arrays, 3], target="sm_90a", **options)


def test_copies_are_waited_for_after_threads_have_stored_the_weights() -> None:
    """Weights that threads load themselves do not wait for the copies of the other operand; those
    that are copied, too, do."""
    options = Options(num_warps=4, num_stages=2, warp_specialize=False)
    copied = bytes_matmul("transposed", 64, 64)
    for module, stores_first in ((prefetched_matmul(64), True), (copied, False)):
        done = run_pipeline(module, target("sm_90a"), options, None)
        names = [op.mnemonic for op in done.stages["pipelined"].functions["k"].ops]
        in_loop = names[names.index("br") :]
        wait = in_loop.index("gpu.async_wait")
        assert (in_loop.index("gpu.local_store") < wait) == stores_first
        assert wait < in_loop.index("gpu.async_fence") < in_loop.index("gpu.wgmma")


def halved_matmul(rows: int, *, scaled: bool) -> Any:
    """out = x (w scales) weight: weights are the low halves of bytes in even iterations, the high
    ones in others. A branch selects them; a weight of the iteration is loaded after it, and x
    where there are scales."""
    b = Builder()
    kinds = {"x": arg(pointer(I8), aligned=16), "w": arg(pointer(I8), aligned=16)}
    kinds |= {"scales": arg(pointer(F16), aligned=16), "each": arg(pointer(F32), aligned=4)}
    kinds |= {"out": arg(pointer(F32), aligned=16)}
    with b.kernel("k", **kinds, iterations=arg(I32)) as (x, w, scales, each, out, iterations):
        total = b.var(b.full((rows, N), 0.0, F32))
        with b.for_(0, iterations, stages=3) as i:
            at = b.arange(rows)[:, None] * K + b.arange(K)[None, :] + i * (rows * K)
            places = b.arange(K)[:, None] * N + b.arange(N)[None, :] + (i >> 1) * (K * N)
            left, half = (x + at).load(), b.var((w + places).load())
            with b.if_(i % 2 == 0):
                half.set(half.get() & 15)
            with b.else_():
                half.set((half.get() >> 4) & 15)
            weights = half.get().to(F16)
            if scaled:
                left = (x + at).load()
                scale = (scales + (b.arange(N) + i * N)).load()[None, :]
                weights = weights * scale.broadcast_to(K, N)
            partial = b.dot(left.to(F16), weights, b.full((rows, N), 0.0, F32))
            total.set(total.get() + partial * (each + i).load())
        (out + (b.arange(rows)[:, None] * N + b.arange(N)[None, :])).store(total.get())
    return b.module()


@pytest.mark.sampled(2, by="rows")
@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("rows", [16, 32, 64])
def test_what_a_branch_unpacks_is_copied_ahead(rows: int, scaled: bool, iterations: int) -> None:
    """Nothing that an iteration computes with is loaded in it, but for a later one's weight."""
    options = {"num_warps": 4, "num_stages": 3, "warp_specialize": False}
    module = halved_matmul(rows, scaled=scaled)
    done = run_pipeline(module, target("sm_90a"), Options(**options), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    copies = {op.inputs[0].type.shape for op in ops if op.mnemonic == "gpu.async_copy"}
    assert copies == {(rows, K), (K, N)} | ({(1, N)} if scaled else set())
    assert not any(op.mnemonic == "load" and isinstance(op.result.type, Tile) for op in ops)
    random = np.random.default_rng(7)
    arrays = [
        random.integers(-2, 3, (iterations, rows, K)).astype(np.int8),
        random.integers(-128, 128, ((iterations + 1) // 2, K, N)).astype(np.int8),
        random.integers(1, 4, (iterations, N)).astype(np.float16),
        random.integers(1, 4, iterations).astype(np.float32),
        np.zeros((rows, N), np.float32),
    ]
    assert_equal_results(module, [*arrays, iterations], target="sm_90a", **options)


def converted_matmul(weights: str, rows: int = 64) -> Any:
    """out = x w, where w, x or both are bytes."""
    b = Builder()
    kinds = {n: arg(pointer(I8 if n in weights else F16), aligned=16) for n in ("x", "w")}
    with b.kernel("k", **kinds, out=arg(pointer(F32), aligned=16), iterations=arg(I32)) as (
        x, w, out, iterations,
    ):  # fmt: skip
        total = b.var(b.full((rows, rows), 0.0, F32))
        with b.for_(0, iterations, stages=2) as i:
            at = b.arange(rows)[:, None] * K + b.arange(K)[None, :] + i * (rows * K)
            places = b.arange(K)[:, None] * rows + b.arange(rows)[None, :] + i * (rows * K)
            left, right = (x + at).load().to(F16), (w + places).load().to(F16)
            total.set(b.dot(left, right, total.get()))
        to = b.arange(rows)[:, None] * rows + b.arange(rows)[None, :]
        (out + to).store(total.get())
    return b.module()


@pytest.mark.parametrize(("weights", "shared"), [("w", [4, 1]), ("x", [1, 4]), ("xw", [2, 2])])
def test_warps_divide_what_they_convert(weights: str, shared: list[int]) -> None:
    """How many of four warps by `mma` have the same elements of x and of w: no two convert the
    same ones, if only one operand is converted."""
    module = converted_matmul(weights)
    done = run_pipeline(module, target("sm_80"), Options(**OPTIONS), None)
    dot, *_ = (op for op in done.stages["layouts"].functions["k"].ops if op.mnemonic == "dot")
    warps = [operand.type.layout.warp for operand in dot.inputs[:2]]
    assert [2 ** sum(not any(step) for step in steps) for steps in warps] == shared
    random = np.random.default_rng(8)
    kinds = [np.int8 if name in weights else np.float16 for name in ("x", "w")]
    inputs = [random.integers(-9, 9, (2, 64, 64)).astype(kind) for kind in kinds]
    arrays = [*inputs, np.zeros((64, 64), np.float32), 2]
    assert_equal_results(module, arrays, target="sm_80", **OPTIONS)


def sized_matmul() -> Any:
    """out = x w, where the number of weights in a word is an argument."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "w": arg(pointer(I32), aligned=16)}
    kinds |= {"out": arg(pointer(F32), aligned=16), "iterations": arg(I32), "bits": arg(I32)}
    with b.kernel("k", **kinds) as (x, w, out, iterations, bits):
        total, count = b.var(b.full((M, N), 0.0, F32)), b.constant(I32, 32) // bits
        k = b.arange(K)[:, None]
        places, shifts = (
            k // count * N + b.arange(N)[None, :],
            (k % count * bits).broadcast_to(K, N),
        )
        with b.for_(0, iterations, stages=3) as i:
            at = b.arange(M)[:, None] * K + b.arange(K)[None, :] + i * (M * K)
            weights = ((w + (places + i * (K * N))).load() >> shifts) & 3
            total.set(b.dot((x + at).load(), weights.to(F16), total.get()))
        (out + (b.arange(M)[:, None] * N + b.arange(N)[None, :])).store(total.get())
    return b.module()


def test_words_that_repeat_an_unknown_number_of_times_are_not_copied() -> None:
    """Shared memory would have each word for every weight in it."""
    options = {"num_warps": 4, "num_stages": 3, "warp_specialize": False}
    done = run_pipeline(sized_matmul(), target("sm_90a"), Options(**options), None)
    ops = done.stages["layouts"].functions[done.kernel].ops
    copies = [op.inputs[0].type for op in ops if op.mnemonic == "gpu.async_copy"]
    assert copies and all(kind.element.pointee is F16 for kind in copies)
