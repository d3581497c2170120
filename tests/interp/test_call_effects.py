"""The effects of functions and of what they call."""

from __future__ import annotations

import pytest

from tests.sizes import for_each
from tileir.effects import Effects
from tileir.interp.call_effects import effects_of, pausing_functions
from tileir.textual import parse

TEXT = """tir 1.0

define void @leaf(f32* %p) {{
entry:
  {op}
  ret
}}

define void @middle(f32* %p) {{
entry:
  call @leaf, %p
  ret
}}

define void @other(f32* %p) {{
entry:
  store %p, 2.0
  ret
}}

define kernel void @k(f32* %p) {{
entry:
  call @middle, %p
  call @other, %p
  call @middle, %p
  ret
}}
"""


@for_each(
    ("op", "pauses"),
    [
        ("%v = load f32 %p", False),
        ("store %p, 1.0", False),
        ("barrier", False),
        ("fence {sem = acq_rel, scope = gpu}", False),
        ("%v = load f32 %p {volatile = true}", True),
        ("store %p, 1.0 {volatile = true}", True),
        ("%v = atomic_rmw f32 %p, 1.0 {op = fadd}", True),
    ],
)
def test_an_instance_pauses_at_accesses_that_others_may_see(op: str, pauses: bool) -> None:
    """At atomic and volatile accesses, of the function or of one that it calls, however deep; a
    barrier is of one instance, and a fence alone orders nothing."""
    expected = {"leaf", "middle", "k"} if pauses else set[str]()
    assert pausing_functions(parse(TEXT.format(op=op))) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("leaf", Effects.READ),
        ("middle", Effects.READ),
        ("other", Effects.WRITE),
        ("k", Effects.READ | Effects.WRITE),
        ("missing", Effects.PURE),
    ],
)
def test_a_call_has_the_effects_of_the_function(name: str, expected: Effects) -> None:
    functions = parse(TEXT.format(op="%v = load f32 %p")).functions
    assert effects_of(functions, name) == expected
