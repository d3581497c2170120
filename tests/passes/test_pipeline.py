"""Pipelined loops against the interpreter: arrays end where the program's last read ends, so a load
that runs too far ahead is an error."""

import itertools

import numpy as np
import pytest

from tileir.interp import interpret
from tileir.passmanager import run
from tileir.textual import parse, print_module

STAGES = (2, 3, 4, 5)
TRIPS = (0, 1, 2, 3, 4, 5, 7, 8)
W = 8

ENTER = """  %r = make_range i32<8>
  %ps = splat f32*<8> %a
  %p0 = getelementptr f32*<8> %ps, %r
  %qs = splat f32*<8> %b
  %q0 = getelementptr f32*<8> %qs, %r
  %os = splat f32*<8> %o
  %o0 = getelementptr f32*<8> %os, %r"""
HEADER = "tir 1.0\n\ndefine kernel void @f(f32* %a, f32* %b, f32* noalias %o, i32 %n) {\nentry:\n"
CARRIED = """  %x = load f32<8> %p
  %y = load f32<8> %q
  %z = fmul f32<8> %x, %y
  %t = fadd f32<8> %s, %z
  store %o0, %t
  %p1 = getelementptr f32*<8> %p, i32<8> 8
  %q1 = getelementptr f32*<8> %q, i32<8> 8
  %j = add i32 %i, 1 {overflow = nsw}"""
COMPUTED = """  %k = mul i32 %i, 8
  %ks = splat i32<8> %k
  %px = getelementptr f32*<8> %p, %ks
  %x = load f32<8> %px
  %odd = and i32 %i, 1
  %even, _ = icmp (i1, i1) %odd, 0 {predicate = eq}
  %m = splat i1<8> %even
  %qx = getelementptr f32*<8> %q, %ks
  %y = load f32<8> %qx, %m, 1.0
  %z = fmul f32<8> %x, %y
  %t = fadd f32<8> %s, %z
  %p1 = getelementptr f32*<8> %p, i32<8> 0
  %q1 = getelementptr f32*<8> %q, i32<8> 0
  %j = add i32 %i, 1 {overflow = nsw}"""
PHIS = """  %i = phi i32 [0, entry], [%j, {latch}]
  %p = phi f32*<8> [%p0, entry], [%p1, {latch}]
  %q = phi f32*<8> [%q0, entry], [%q1, {latch}]
  %s = phi f32<8> [0.0, entry], [%t, {latch}]
"""


def last(body):
    """A loop that runs at least once."""
    return f"""{HEADER}{ENTER}
  br loop
loop:
{PHIS.format(latch="loop")}{body}
  %more, _ = icmp (i1, i1) %j, %n {{predicate = slt}}
  cond_br %more, loop, exit
exit:
  store %o0, %t
  ret
}}
"""


def first(body):
    """A loop that may not run; it goes on where the condition is false."""
    return f"""{HEADER}{ENTER}
  br loop
loop:
{PHIS.format(latch="body")}  %more, %done = icmp (i1, i1) %i, %n {{predicate = slt}}
  cond_br %done, exit, body
body:
{body}
  br loop
exit:
  store %o0, %s
  ret
}}
"""


NESTED = f"""{HEADER}{ENTER}
  br outer
outer:
  %h = phi i32 [0, entry], [%h1, next]
  %u = phi f32<8> [0.0, entry], [%t, next]
  %base = mul i32 %h, 8
  %bs = splat i32<8> %base
  %qh = getelementptr f32*<8> %q0, %bs
  %w = load f32<8> %qh
  br inner
inner:
  %i = phi i32 [0, outer], [%j, inner]
  %s = phi f32<8> [%u, outer], [%t, inner]
  %at = mul i32 %i, 8
  %as = splat i32<8> %at
  %pi = getelementptr f32*<8> %p0, %as
  %x = load f32<8> %pi
  %z = fmul f32<8> %x, %w
  %t = fadd f32<8> %s, %z
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {{predicate = slt}}
  cond_br %more, inner, next
next:
  store %o0, %t
  %h1 = add i32 %h, 1
  %again, _ = icmp (i1, i1) %h1, %n {{predicate = slt}}
  cond_br %again, outer, exit
exit:
  store %o0, %t
  ret
}}
"""

LOOPS = {
    "last, carried": (last(CARRIED), 2),
    "last, computed": (last(COMPUTED), 2),
    "first, carried": (first(CARRIED), 2),
    "first, computed": (first(COMPUTED), 2),
    "nested": (NESTED, 2),
}


def outputs(module, trips):
    generator = np.random.default_rng(trips)
    count = W * trips
    a, b = (generator.normal(size=count).astype(np.float32) for _ in range(2))
    o = np.zeros(W, np.float32)
    interpret(module, "f", 1, [a, b, o, trips])
    return o.tobytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("stages", STAGES)
def test_pipelined_loops_mean_the_same(name, stages):
    text, loads = LOOPS[name]
    module = parse(text)
    result = run(module, f"prefetch-loads{{num-stages={stages}}}")
    assert not result.remarks
    assert print_module(result.module).count("= load") == stages * loads
    tidy = run(result.module, "simplify,cse,simplify-cfg,dce").module
    for trips in TRIPS:
        if trips or "first" in name:
            expected = outputs(module, trips)
            assert outputs(result.module, trips) == expected, trips
            assert outputs(tidy, trips) == expected, trips


def test_what_runs_ahead_may_be_undefined_past_the_end():
    """i + 1 overflows only in iterations that do not run."""
    text = last(CARRIED).replace("[0, entry]", "[2147483643, entry]")
    module = parse(text.replace("%j, %n", "%j, 2147483647"))
    for stages in STAGES:
        changed = run(module, f"prefetch-loads{{num-stages={stages}}}").module
        assert changed is not module
        assert outputs(changed, 4) == outputs(module, 4)


def test_stages_that_no_thread_has_registers_for():
    module = parse(LOOPS["last, carried"][0])
    result = run(module, "prefetch-loads{num-stages=1000000000000}")
    assert result.module is module
    assert "1000000000000 stages, of 256 at most" in result.remarks[0].message


def test_a_pass_run_twice_leaves_pipelined_loops_alone():
    module = run(parse(LOOPS["last, carried"][0]), "prefetch-loads{num-stages=3}").module
    assert run(module, "prefetch-loads{num-stages=3}").module is module


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), list(itertools.product((2, 4), repeat=2)))
def test_loops_ask_for_their_own_number_of_stages(first, second):
    text = NESTED.replace("inner, next\n", f"inner, next {{stages = {first}}}\n")
    text = text.replace("outer, exit\n", f"outer, exit {{stages = {second}}}\n")
    module = parse(text)
    changed = run(module, "prefetch-loads{num-stages=1}").module
    assert print_module(changed).count("= load") == first + second
    for trips in (1, 3, 6):
        assert outputs(changed, trips) == outputs(module, trips)
