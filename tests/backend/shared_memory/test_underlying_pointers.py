"""The parameter that pointers come from."""

from __future__ import annotations

import pytest

from tests.backend.shared_memory.test_affine_mod32 import values_by_name
from tests.sizes import for_each
from tileir import Function
from tileir.analysis.underlying_pointers import possible_pointers, underlying_pointers
from tileir.textual import parse

HEAD = "define kernel void @k(f32* %x, f32* %y, f32** %pp, i32 %n, i1 %c, i64 %a) {\nentry:\n"


def kernel(body: str) -> Function:
    return parse(f"tir 1.0\n{HEAD}{body}\n}}\n").kernel()


def parameters_of(body: str) -> dict[str, str | None]:
    """Of every pointer the name of its parameter."""
    function = kernel(body)
    pointers, values = underlying_pointers(function), values_by_name(function)
    return {name: root and root.name for name, v in values.items()
            if v in pointers for root in [pointers[v]]}  # fmt: skip


@for_each(
    ("line", "expected"),
    [
        ("%r = getelementptr f32* %y, %n", "y"),
        ("%r = splat f32*<8> %x", "x"),
        ("%r = getelementptr f32*<8> %xs, %i", "x"),
        ("%r = select f32* %c, %x, %y", None),
        ("%r = select f32* %c, %x, %x", "x"),
        ("%r = bitcast i32* %y", "y"),
        ("%r = load f32* %pp", None),
        ("%r = inttoptr f32* %a", None),
        ("%r = getelementptr f32* undef, %n", None),
        ("%r = select f32* %c, %x, undef", None),
        ("%r = gather f32*<8> %xs, %i {axis = 0}", "x"),
    ],
)
def test_the_parameter_that_an_op_points_into(line: str, expected: str | None) -> None:
    body = "  %xs = splat f32*<8> %x\n  %i = make_range i32<8>\n"
    assert parameters_of(f"{body}  {line}\n  ret")["r"] == expected


def test_what_is_no_pointer_has_no_root() -> None:
    every = parameters_of("  %m = add i32 %n, 1\n  ret")
    assert every == {"x": "x", "y": "y", "pp": "pp"}


def root_in_loop(first: str, passed: str, body: str = "") -> str | None:
    """The root of `%p` in a loop: first `first`, then `passed`."""
    return parameters_of(f"""
      br loop
    loop:
      %p = phi f32* [{first}, entry], [{passed}, loop]
      %other = phi f32* [%y, entry], [%p, loop]
      %number = phi i32 [0, entry], [%next, loop]
      %next = add i32 %number, 1
      %further = getelementptr f32* %p, i32 4
      {body}
      cond_br %c, loop, done
    done:
      ret
    """)["p"]


@pytest.mark.parametrize(
    ("first", "passed", "expected"),
    [
        ("%x", "%further", "x"),
        ("%x", "%x", "x"),
        ("%x", "%y", None),
        ("%x", "%other", None),
        ("undef", "%x", None),
        ("%x", "undef", None),
        ("undef", "%p", None),
    ],
)
def test_loop_carried_pointers(first: str, passed: str, expected: str | None) -> None:
    assert root_in_loop(first, passed) == expected


def test_a_block_that_several_come_to() -> None:
    """Every edge counts, those from blocks further down too; what is lost is lost after it."""
    every = parameters_of("""
      cond_br %c, left, right
    left:
      br both
    right:
      br both
    both:
      %same = phi f32* [%x, left], [%x, right]
      %two = phi f32* [%x, left], [%y, right]
      %after = getelementptr f32* %two, i32 1
      br head
    head:
      %p = phi f32* [%same, both], [%q, tail]
      %lost = phi f32* [%same, both], [%after, tail]
      %loses = getelementptr f32* %lost, i32 1
      br tail
    tail:
      %q = phi f32* [%p, head]
      cond_br %c, head, done
    done:
      ret
    """)
    names = ("same", "two", "after", "p", "q", "lost", "loses")
    assert [every[name] for name in names] == ["x", None, None, "x", "x", None, None]


def test_all_parameters_that_a_pointer_may_point_into() -> None:
    function = kernel("""
      %either = select f32* %c, %x, %y
      %loaded = load f32* %pp
      %none = select f32* %c, %loaded, %x
      br loop
    loop:
      %p = phi f32* [%x, entry], [%q, loop]
      %q = phi f32* [%x, entry], [%either, loop]
      %next = getelementptr f32* %p, i32 4
      cond_br %c, loop, done
    done:
      ret
    """)
    pointers, values = possible_pointers(function), values_by_name(function)
    roots = {
        name: pointers[values[name]] for name in ("either", "loaded", "none", "p", "q", "next")
    }
    both = {"x", "y"}
    assert {name: each and {r.name for r in each} for name, each in roots.items()} == {
        "either": both, "loaded": None, "none": None, "p": both, "q": both, "next": both,
    }  # fmt: skip
