"""What a loop divides alike in every iteration is computed before it (`hoist-quotients`)."""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.analysis.loops import loops
from tileir.backend import Options
from tileir.backend.compile import run_pipeline
from tileir.backend.stage import with_function
from tileir.backend.target import target
from tileir.backend.transforms.hoist_quotients import hoist_quotients
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Function, Module
from tileir.textual import parse

STEP = """
  %i = make_range i32<64>
  %ms = splat i32<64> %m
  %rest = srem i32<64> %i, %ms
  %index = contiguous i32<64> %rest {values = [16]}
  %xs = splat i32*<64> %x
  %xp = getelementptr i32*<64> %xs, %index
  %read = load i32<64> %xp
  %sum = add i32<64> %s, %read
"""

TESTED_FIRST = f"""tir 1.0
define kernel void @f(i32* %x, i32* %y, i32 %m, i32 %n) {{
entry:
  br loop
loop:
  %k = phi i32 [0, entry], [%j, body]
  %s = phi i32<64> [1, entry], [%sum, body]
  %more, _ = icmp (i1, i1) %k, %n {{predicate = slt}}
  cond_br %more, body, done
body:
{STEP}
  %j = add i32 %k, 1
  br loop
done:
  %o = make_range i32<64>
  %ys = splat i32*<64> %y
  %yp = getelementptr i32*<64> %ys, %o
  store %yp, %s
  ret
}}
"""

LEAVES_IF_TRUE = TESTED_FIRST.replace("predicate = slt", "predicate = sge").replace(
    "cond_br %more, body, done", "cond_br %more, done, body"
)

TESTED_LAST = f"""tir 1.0
define kernel void @f(i32* %x, i32* %y, i32 %m, i32 %n) {{
entry:
  br loop
loop:
  %k = phi i32 [0, entry], [%j, body]
  %s = phi i32<64> [1, entry], [%sum, body]
  br body
body:
{STEP}
  %j = add i32 %k, 1
  %more, _ = icmp (i1, i1) %j, %n {{predicate = slt}}
  cond_br %more, loop, done
done:
  %o = make_range i32<64>
  %ys = splat i32*<64> %y
  %yp = getelementptr i32*<64> %ys, %o
  store %yp, %sum
  ret
}}
"""

SOMETIMES = TESTED_FIRST.replace(
    "  %ms = splat", "  %even = and i32 %k, 1\n  %odd, _ = icmp (i1, i1) %even, 1"
    " {predicate = eq}\n  cond_br %odd, then, join\nthen:\n  %ms = splat"
).replace("  %j = add", "  br join\njoin:\n  %t = phi i32<64> [%s, body], [%sum, then]\n  %j = add"
).replace("[%sum, body]", "[%t, join]").replace("[%j, body]", "[%j, join]")  # fmt: skip

KEPT = {
    "another divisor": TESTED_FIRST.replace("splat i32<64> %m", "splat i32<64> %k"),
    "another dividend": TESTED_FIRST.replace("srem i32<64> %i", "srem i32<64> %s"),
    "not in every iteration": SOMETIMES,
    "a literal": TESTED_FIRST.replace("srem i32<64> %i, %ms", "srem i32<64> %i, 7"),
    "a matrix": TESTED_FIRST.replace("  %rest = srem i32<64> %i, %ms", """
  %left = reshape i32<8, 8> %i
  %right = reshape i32<8, 8> %ms
  %matrix = srem i32<8, 8> %left, %right
  %rest = reshape i32<64> %matrix"""),
    "a second exit": TESTED_FIRST.replace("  %ms = splat", "  %last, _ = icmp (i1, i1) %k, 5"
        " {predicate = eq}\n  cond_br %last, done, next\nnext:\n  %ms = splat"
    ).replace("[%sum, body]", "[%sum, next]").replace("[%j, body]", "[%j, next]"),
}  # fmt: skip


def kernel(text: str) -> tuple[Module, Function]:
    module = parse(text)
    return module, module.functions["f"]


def in_loop(function: Function) -> list[str]:
    (loop,) = loops(function).by_header.values()
    return [op.mnemonic for label in loop.blocks for op in function.blocks[label].ops]


@pytest.mark.parametrize("text", [TESTED_FIRST, LEAVES_IF_TRUE, TESTED_LAST])
def test_remainders_that_no_iteration_changes_are_before_the_loop(text: str) -> None:
    module, function = kernel(text)
    changed = hoist_quotients(function)
    assert not {"srem", "contiguous"}.intersection(in_loop(changed))
    assert "load" in in_loop(changed)
    for m, n in ((16, 3), (48, 1)):
        check(module, with_function(module, changed), m, n)


@pytest.mark.parametrize("text", [TESTED_FIRST, LEAVES_IF_TRUE])
@pytest.mark.parametrize("m", [0, 7])
def test_a_loop_without_iterations_divides_by_nothing_and_promises_nothing(
    text: str, m: int
) -> None:
    """Remainders of 7 have runs of 7, not of 16."""
    module, function = kernel(text)
    check(module, with_function(module, hoist_quotients(function)), m, 0)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_iterations_may_compute_otherwise_stays(text: str) -> None:
    _, function = kernel(text)
    assert hoist_quotients(function) is function


def check(module: Module, hoisted: Module, m: int, n: int) -> None:
    """Both programs have the same result, and break no promise."""
    results = []
    for program in (module, hoisted):
        x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
        tileir.interpret(program, "f", (1,), {"x": x, "y": y, "m": m, "n": n})
        results.append(y)
    assert np.array_equal(*results)
    assert results[0].any()


def test_copies_of_a_matmul_compute_wrapped_rows_once() -> None:
    """Each step of K computes the addresses again, as a function that is called for them does."""
    b = Builder()
    kinds = {"x": arg(pointer(F16), aligned=16), "out": pointer(F32), "m": I32, "n": I32}
    with b.kernel("wrapped", **kinds) as (x, out, m, n):
        lanes, zero = b.arange(64), b.full((64, 64), 0.0, F32)
        total = b.var(zero)
        with b.for_(0, n, stages=3) as k:
            rows = b.program_id() * 64 + lanes
            tile = (x + ((rows % m)[:, None] * 1024 + (k * 64 + lanes)[None, :])).load()
            total.set(b.dot(tile, b.trans(tile, order=(1, 0)), total.get()))
        (out + (lanes[:, None] * 64 + lanes[None, :])).store(total.get())
    options = Options(num_warps=4, warp_specialize=False)
    done = run_pipeline(b.module(), target("sm_90a"), options, None)
    names = in_loop(done.stages["pipelined"].functions["wrapped"])
    assert "gpu.async_copy" in names
    assert "srem" not in names
