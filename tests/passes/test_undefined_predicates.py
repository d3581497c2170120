"""Reductions, scans and histograms under a tile predicate that is undefined in some lanes, for
every reason for which it may be.

If the reason is a predicate, a mask or `undef`, the lanes take no part. For another reason the
result is undefined, which a store reports. All passes and executors compute what the interpreter
does.
"""

from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir.errors import InterpretError
from tileir.executor import executor
from tileir.passmanager import run
from tileir.textual import parse

HEAD = """tir 1.0

define kernel void @k(i32* %x, i32* %o) {
entry:
  %i = make_range i32<8>
  %xs = splat i32*<8> %x
  %p = getelementptr i32*<8> %xs, %i
  %os = splat i32*<8> %o
  %to = getelementptr i32*<8> %os, %i
  %lo, %hi = icmp (i1<8>, i1<8>) %i, 3 {predicate = slt}
"""
TAKES_NO_PART = {
    "predicate": "@%lo %m, _ = icmp (i1<8>, i1<8>) %i, 9 {predicate = ne}",
    "literal": "%m = select i1<8> %lo, true, undef",
    "literal, or": "%u = select i1<8> %lo, true, undef\n  %m = or i1<8> %u, true",
    "sum": "@%lo %v = add i32<8> %i, 1\n  %m, _ = icmp (i1<8>, i1<8>) %v, 0 {predicate = ne}",
    "sum, or": "@%lo %v = add i32<8> %i, 1\n"
    "  %a, _ = icmp (i1<8>, i1<8>) %v, 0 {predicate = ne}\n  %m = or i1<8> %a, true",
    "psi": "%v = psi i32<8> [%lo, %i]\n  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}",
    "psi, or": "%v = psi i1<8> [%lo, %hi]\n  %m = or i1<8> %v, true",
    "psi of two": "%e, _ = icmp (i1<8>, i1<8>) %i, -1 {predicate = eq}\n"
    "  %v = psi i32<8> [%lo, %i], [%e, 77]\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}",
    "equal to itself": "@%lo %v = add i32<8> %i, 1\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, %v {predicate = eq}",
    "reshaped": "@%lo %v = add i32<8> %i, 1\n  %w = reshape i32<2, 4> %v\n"
    "  %z = reshape i32<8> %w\n  %m, _ = icmp (i1<8>, i1<8>) %z, -1 {predicate = ne}",
    "scanned": "@%lo %v = scan i32<8> %i {combiner = add}\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "load": "%v = load i32<8> %p, %lo\n  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "load, or": "%v = load i32<8> %p, %lo\n"
    "  %a, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}\n  %m = or i1<8> %a, true",
    "atomic": "%v = atomic_rmw i32<8> %p, 0, %lo {op = add}\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "reduced": "%r = make_range i32<16>\n  %two = reshape i32<8, 2> %r\n"
    "  %odd = trunc i1<8, 2> %two\n  %lows = expand_dims i1<8, 1> %lo {axis = 1}\n"
    "  %low = broadcast i1<8, 2> %lows\n  %some = and i1<8, 2> %odd, %low\n"
    "  @%some %v = reduce i32<8> %two {axis = 1, combiner = add}\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "reduced in part": "%r = make_range i32<16>\n  %two = reshape i32<8, 2> %r\n"
    "  %odd = trunc i1<8, 2> %two\n  @%odd %some = add i32<8, 2> %two, 1\n"
    "  %lows = expand_dims i1<8, 1> %lo {axis = 1}\n  %low = broadcast i1<8, 2> %lows\n"
    "  %both = and i1<8, 2> %odd, %low\n"
    "  @%both %v = reduce i32<8> %some {axis = 1, combiner = add}\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "psi whose last predicate is undefined": "%u = select i1<8> %lo, true, undef\n"
    "  %v = psi i32<8> [%hi, 77], [%u, %i]\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}",
    "psi whose first predicate is undefined": "%u = select i1<8> %lo, true, undef\n"
    "  %two, _ = icmp (i1<8>, i1<8>) %i, 2 {predicate = eq}\n"
    "  %v = psi i32<8> [%u, %i], [%two, 77]\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}",
    "psi whose predicate has no value": "@%lo %u, _ = icmp (i1<8>, i1<8>) %i, 9 {predicate = ne}"
    "\n  %v = psi i32<8> [%u, %i]\n  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}",
    "selected load": "%v = load i32<8> %p, %lo\n  %w = select i32<8> %lo, %v, 7\n"
    "  @%lo %m, _ = icmp (i1<8>, i1<8>) %w, -1 {predicate = ne}",
    "load that is selected everywhere": "%v = load i32<8> %p, %lo\n"
    "  %all, %none = icmp (i1<8>, i1<8>) %i, 8 {predicate = slt}\n"
    "  %w = select i32<8> %all, %v, 7\n  %m, _ = icmp (i1<8>, i1<8>) %w, -1 {predicate = ne}",
    "load that is selected otherwise": "%v = load i32<8> %p, %lo\n"
    "  %all, %none = icmp (i1<8>, i1<8>) %i, 8 {predicate = slt}\n"
    "  %w = select i32<8> %none, 7, %v\n  %m, _ = icmp (i1<8>, i1<8>) %w, -1 {predicate = ne}",
    "literal, otherwise": "%m = select i1<8> %hi, undef, true",
}
"""The reason; %m is true in lanes 0, 1 and 2, and undefined in the others."""
MAKES_UNDEFINED = {
    "overflow": "%v = add i32<8> %i, 2147483645 {overflow = nsw}\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %v, 0 {predicate = ne}",
    "conversion": "%f = sitofp f32<8> %i\n  %g = fmul f32<8> %f, 1.0e9\n"
    "  %v = fptosi i32<8> %g\n  %m, _ = icmp (i1<8>, i1<8>) %v, -1 {predicate = ne}",
    "gathered": "@%lo %v = add i32<8> %i, 1\n  %w = gather i32<8> %v, %i\n"
    "  %m, _ = icmp (i1<8>, i1<8>) %w, 0 {predicate = ne}",
    "loop": "br l\nl:\n  %n = phi i32 [0, entry], [1, l]\n  %m = phi i1<8> [true, entry], [%u, l]\n"
    "  %u = select i1<8> %lo, true, undef\n"
    "  %more, _ = icmp (i1, i1) %n, 0 {predicate = eq}\n  cond_br %more, l, out\nout:",
    "called": "%m = call i1<8> @partial, %lo",
}
"""The same."""
COLLECTING = {
    "reduce": "@%m %s = reduce i32 %i {combiner = add}\n  store %o, %s",
    "scan": "@%m %s = scan i32<8> %i {combiner = add}\n  @%lo store %to, %s",
    "scan from the end": "@%m %s = scan i32<8> %i {combiner = add, reverse = true}\n"
    "  @%lo store %to, %s",
    "scan by a function": "@%m %s = scan i32<8> %i {combiner = @total, reverse = true}\n"
    "  @%lo store %to, %s",
    "histogram": "@%m %s = histogram i32<8> %i\n  store %to, %s",
}
EXPECTED = {
    "reduce": [3, 0, 0, 0, 0, 0, 0, 0],
    "scan": [0, 1, 3, 0, 0, 0, 0, 0],
    "scan from the end": [3, 3, 2, 0, 0, 0, 0, 0],
    "scan by a function": [3, 3, 2, 0, 0, 0, 0, 0],
    "histogram": [1, 1, 1, 0, 0, 0, 0, 0],
}
PARTIAL = """
define noinline i1<8> @partial(i1<8> %c) {
entry:
  %r = select i1<8> %c, true, undef
  ret %r
}
"""
TOTAL = """
define i32 @total(i32 %a, i32 %b) {
entry:
  %r = add i32 %a, %b
  ret %r
}
"""
PASSES = ("lower-predicates", "simplify", "fold", "cse", "peephole", "default")


def module(reason: str, op: str) -> tileir.Module:
    called = PARTIAL if "@partial" in reason else ""
    called += TOTAL if "@total" in COLLECTING[op] else ""
    return parse(f"{HEAD}  {reason}\n  {COLLECTING[op]}\n  ret\n}}\n{called}")


def arguments() -> list[np.ndarray]:
    return [np.arange(8, dtype=np.int32), np.zeros(8, np.int32)]


@pytest.mark.sampled(10, by="op")
@pytest.mark.parametrize("op", COLLECTING)
@pytest.mark.parametrize("reason", TAKES_NO_PART)
def test_lanes_take_no_part(reason: str, op: str) -> None:
    program = module(TAKES_NO_PART[reason], op)
    for name in (None, *PASSES):
        changed = program if name is None else run(program, name).module
        result = arguments()
        tileir.interpret(changed, None, 1, result)
        assert result[1].tolist() == EXPECTED[op], name
    for name in ("simt", "cpu"):
        result = arguments()
        executor(name).launch(program, None, 1, result)
        assert result[1].tolist() == EXPECTED[op], name


@pytest.mark.parametrize("op", ["reduce", "histogram"])
def test_a_later_predicate_decides_where_an_earlier_one_is_undefined(op: str) -> None:
    reason = """%u = select i1<8> %lo, true, undef
  %v = psi i32<8> [%u, %i], [%hi, 77]
  %m, _ = icmp (i1<8>, i1<8>) %v, 9 {predicate = ne}"""
    program = module(reason, op)
    expected = [28, 0, 0, 0, 0, 0, 0, 0] if op == "reduce" else [1] * 8
    for name in (None, *PASSES):
        actual = arguments()
        tileir.interpret(program if name is None else run(program, name).module, None, 1, actual)
        assert actual[1].tolist() == expected, name
    for name in ("simt", "cpu"):
        actual = arguments()
        executor(name).launch(program, None, 1, actual)
        assert actual[1].tolist() == expected, name


@pytest.mark.parametrize("op", COLLECTING)
@pytest.mark.parametrize("reason", MAKES_UNDEFINED)
def test_the_result_is_undefined(reason: str, op: str) -> None:
    with pytest.raises(InterpretError, match="TIR0505"):
        tileir.interpret(module(MAKES_UNDEFINED[reason], op), None, 1, arguments())


ACCESSES = {
    "load": "@%lo %s = load i32<8> %p, %m\n  store %to, %s, %lo",
    "store": "@%lo store %to, %i, %m",
    "atomic_rmw": "@%lo %s = atomic_rmw i32<8> %to, %i, %m {op = add}",
    "atomic_cas": "@%lo %s = atomic_cas i32<8> %to, 0, %i, %m",
    "atomic_load": "@%lo %s = atomic_load i32<8> %p, %m\n  store %to, %s, %lo",
    "atomic_store": "@%lo atomic_store %to, %i, %m",
}
"""Accesses whose mask is undefined where their predicate is false."""


@pytest.mark.parametrize("op", ACCESSES)
def test_a_mask_is_not_read_where_the_predicate_is_false(op: str) -> None:
    for reason, lines in TAKES_NO_PART.items():
        module = parse(f"{HEAD}  {lines}\n  {ACCESSES[op]}\n  ret\n}}\n")
        for name in (None, "lower-predicates"):
            inputs = arguments()
            changed = module if name is None else run(module, name).module
            tileir.interpret(changed, None, 1, inputs)
            assert inputs[1].tolist() == [0, 1, 2, 0, 0, 0, 0, 0], (reason, name)
