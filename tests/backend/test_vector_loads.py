"""Vectors and scalars that the dots of a pipelined loop need besides their operands: which are
loaded ahead, and that results stay what they are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F16, F32, I32, Builder, arg, pointer
from tileir.passmanager import run

SIZE = 32
PASS = "async-pipeline{prefetch-operands=false}"


def decayed_matmul(
    decay: Any = F32, *, promise: bool = True, scaled: str = "operand", limit: int = 30
) -> Any:
    """The sum over i of (A[i] * decay[i][:, None]) B[i] times last[i]; the loop stores the running
    sum. With `scaled` = "result", the decay scales the dot instead."""
    b = Builder()
    kinds = {name: arg(pointer(F16), aligned=16) for name in "ab"}
    vectors = {"g": arg(pointer(decay), aligned=16), "last": arg(pointer(F32))}
    with b.kernel("k", **kinds, **vectors, c=pointer(F32), n=arg(I32)) as (x, y, g, last, z, n):
        at = b.arange(SIZE)[:, None] * SIZE + b.arange(SIZE)[None, :]
        total = b.var(b.full((SIZE, SIZE), 0.0, F32))
        with b.for_(0, n, stages=2, independent_loads=promise) as i:
            (z + (at + i * SIZE**2)).store(total.get())
            mask = b.arange(SIZE) < limit
            rows = (g + (b.arange(SIZE) + i * SIZE)).load(mask, 0.0).to(F32)
            end = (last + i).load()
            left, right = (x + (at + i * SIZE**2)).load(), (y + (at + i * SIZE**2)).load()
            wide = rows.reshape(SIZE, 1).broadcast_to(SIZE, SIZE)
            if scaled == "operand":
                operand = (left.to(F32) * wide * end).to(F16)
                total.set(b.dot(operand, right, total.get()))
            else:
                product = b.dot(left, right, b.full((SIZE, SIZE), 0.0, F32))
                total.set(total.get() + product * wide * end)
        (z + (at + n * SIZE**2)).store(total.get())
    return b.module()


def arguments(decay: Any, n: int) -> list[Any]:
    random = np.random.default_rng(n)
    tiles = [random.integers(-3, 4, (n, SIZE, SIZE)).astype(np.float16) for _ in "ab"]
    kind = np.float32 if decay is F32 else tileir.machine.dtype_of(decay)
    vectors = [random.integers(1, 3, (n, SIZE)).astype(kind), np.arange(1, n + 1, dtype=np.float32)]
    return [*tiles, *vectors, np.full((n + 1, SIZE, SIZE), np.nan, np.float32), n]


def result(launch: Any, module: Any, arguments: list[Any], **options: Any) -> Any:
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    launch(module, "k", (1,), copies, **options)
    return copies[4]


def loads_in_loop(module: Any) -> list[tuple[int, ...]]:
    """The shapes that the loop loads from memory and does not pass to its next iteration."""
    function = module.functions["k"]
    carried = {a for b in function.blocks.values() for e in b.terminator.successors
               for a in e.arguments}  # fmt: skip
    header = next(e.label for b in function.blocks.values() for e in b.terminator.successors
                  if e.arguments)  # fmt: skip
    after = list(function.blocks)[list(function.blocks).index(header) :]
    loads = [op for label in after for op in function.blocks[label].ops if op.mnemonic == "load"]
    return [
        getattr(op.results[0].type, "shape", ()) for op in loads if op.results[0] not in carried
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scaled", ["operand", "result"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_results_stay_as_they_are(scaled: str, stages: int, n: int) -> None:
    module, inputs = decayed_matmul(promise=False, scaled=scaled), arguments(F32, n)
    with_noalias = tileir.textual.parse(
        tileir.textual.print_module(module)
        .replace("f32* %c", "f32* noalias %c")
        .replace("{stages = 2}", f"{{stages = {stages}}}")
    )
    expected = result(tileir.interpret, module, inputs)
    piped = run(with_noalias, PASS).module
    assert loads_in_loop(piped) == []
    np.testing.assert_array_equal(result(tileir.interpret, piped, inputs), expected)
    for warps in (1, 4):
        values = result(
            SimtExecutor().launch, with_noalias, inputs, num_warps=warps, prefetch_operands=False
        )
        np.testing.assert_array_equal(values, expected)


def test_a_promise_covers_what_reaches_an_operand_alone() -> None:
    """`independent_loads` says nothing of loads that only scale what a dot has computed."""
    operand = run(decayed_matmul(), PASS).module
    scale = run(decayed_matmul(scaled="result"), PASS).module
    assert loads_in_loop(operand) == []
    assert loads_in_loop(scale) == [(SIZE,), ()]


def test_a_vector_that_no_copy_takes_stays() -> None:
    """Neighbours of 2 bytes are copied together, under one mask."""
    pairs = run(decayed_matmul(BF16), PASS).module
    odd = run(decayed_matmul(BF16, limit=29), PASS).module
    assert loads_in_loop(pairs) == []
    assert loads_in_loop(odd) == [(SIZE,)]


def _predicate_loads(line: str) -> str:
    return re.sub(r"(%\w+ = load)", r"@%always \1", line)


def _padded_with_ones(line: str) -> str:
    return line.replace(", 0.0", ", 1.0")


@pytest.mark.parametrize(
    ("vector", "change"),
    [(True, _predicate_loads), (False, _predicate_loads), (True, _padded_with_ones)],
)
def test_loads_that_a_copy_is_not_stay(vector: bool, change: Any) -> None:
    kind = f"load f32<{SIZE}>" if vector else "load f32 "
    lines = tileir.textual.print_module(decayed_matmul()).split("\n")
    (at,) = [i for i, line in enumerate(lines) if kind in line]
    entry = next(i for i, line in enumerate(lines) if line == "entry:")
    lines[at] = change(lines[at])
    always = "  %always, _ = icmp (i1, i1) %n, 0 {predicate = sge}"
    module = tileir.textual.parse("\n".join([*lines[: entry + 1], always, *lines[entry + 1 :]]))
    assert loads_in_loop(run(module, PASS).module) == [(SIZE,) if vector else ()]


def test_whole_stages_are_read_where_they_are_needed() -> None:
    """Registers hold what is read from shared memory only from its first use on."""
    ops = list(run(decayed_matmul(), PASS).module.functions["k"].ops)
    read = [i for i, op in enumerate(ops) if op.mnemonic == "gpu.local_load"]
    assert len(read) == 3
    for start in read:
        user = next(i for i, op in enumerate(ops) if ops[start].results[0] in op.operands)
        between = {op.mnemonic for op in ops[start + 1 : user]}
        assert between <= {"gpu.local_load"}
