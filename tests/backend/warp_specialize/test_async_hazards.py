"""Whether an instance may access what it writes by another op."""

from __future__ import annotations

from tests.sizes import for_each
from tileir.backend.warp_specialize.async_hazards import InstanceAccesses, has_cross_op_dependence
from tileir.textual import parse

KERNEL = """tir 1.0

define kernel void @k(f32* %x, f32* %y, f32** %far, i1 %c, i32 %n) {{
entry:
  %next = getelementptr f32* %x, i32 1
  {}
  ret
}}
"""
LOOP = """br loop
loop:
  %i = phi i32 [0, entry], [%j, loop]
  {}
  %j = add i32 %i, 1
  %more, _ = icmp (i1, i1) %j, %n {{predicate = slt}}
  cond_br %more, loop, done
done:"""
ADD = "atomic_rmw f32 {}, 1.0 {{op = fadd}}"


@for_each(
    ("body", "depends"),
    [
        ("store %x, 1.0\n  %v = load f32 %y", False),
        ("store %x, 1.0\n  %v = load f32 %x", False),
        ("store %x, 1.0\n  %v = load f32 %next", True),
        ("%v = load f32 %next\n  store %x, 1.0", True),
        ("%v = load f32 %next\n  %w = load f32 %x", False),
        ("store %x, 1.0\n  store %next, 1.0", True),
        (f"%v = {ADD.format('%x')}\n  %w = {ADD.format('%next')}", False),
        (f"%v = {ADD.format('%x')}\n  %w = load f32 %next", True),
        (f"store %next, 1.0\n  %v = {ADD.format('%x')}", True),
        (f"%v = {ADD.format('%x')}\n  store %x, 1.0", False),
        ("%p = load f32* %far\n  store %p, 1.0\n  %v = load f32 %y", True),
        ("%p = load f32* %far\n  %w = load f32 %p\n  store %y, 1.0", True),
        ("cond_br %c, a, b\na:\n  store %x, 1.0\n  br e\nb:\n"
         "  %v = load f32 %next\n  br e\ne:", False),
        (LOOP.format("cond_br %c, a, b\na:\n  store %x, 1.0\n  br e\nb:\n"
                     "  %v = load f32 %next\n  br e\ne:").replace("[%j, loop]", "[%j, e]"), True),
        (LOOP.format("store %x, 1.0\n  %v = load f32 %y"), False),
    ],
)  # fmt: skip
def test_accesses_of_several_ops_to_what_one_writes(body: str, depends: bool) -> None:
    """At another address, in any order in which they may run; additions need no order among each
    other, and accesses at one address are those of one thread."""
    assert has_cross_op_dependence(parse(KERNEL.format(body)).kernel()) == depends


def test_ops_follow_those_that_may_run_before_them() -> None:
    """In a block, those above; in a loop, all of it."""
    straight = parse(KERNEL.format("store %x, 1.0\n  %v = load f32 %y")).kernel()
    loop = parse(KERNEL.format(LOOP.format("store %x, 1.0\n  %v = load f32 %y"))).kernel()
    for function, repeats in ((straight, False), (loop, True)):
        accesses = InstanceAccesses.of(function)
        store, load = accesses.reached
        assert accesses.follows(load, store)
        assert accesses.follows(store, load) == accesses.follows(store, store) == repeats
