"""SSA variables: block parameters where values are merged, and none anywhere else."""

from __future__ import annotations

from typing import Any

import pytest

from tileir.builder import F32, I1, I32, I64, Builder, BuildError, pointer
from tileir.ir import Function
from tileir.values import Constant, Undef


def kernel(b: Builder) -> Function:
    return b.module().kernel()


def parameters(function: Function) -> dict[str, list[str | None]]:
    """Names of the parameters of every block that has some."""
    return {
        label: [v.name for v in block.parameters]
        for label, block in function.blocks.items()
        if block.parameters
    }


def open_kernel(b: Builder) -> Any:
    return b.kernel("k", out=pointer(I32), n=I32, p=I1, q=I1)


def test_a_variable_that_a_loop_does_not_set_needs_no_parameter() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(n, name="v")
        with b.for_(n) as i:
            (out + i).store(v)
        out.store(v)
    assert parameters(kernel(b)) == {"loop": ["i"]}


def test_a_variable_that_a_loop_sets_is_a_parameter_of_its_header() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(0, name="v")
        with b.for_(n) as i:
            v += i
        out.store(v)
    function = kernel(b)
    assert parameters(function) == {"loop": ["i", "v"]}
    (edge,) = function.entry.successors
    assert edge.arguments == (Constant(I32, 0), Constant(I32, 0))


def test_nested_loops_carry_it_through_both_headers() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v, w = b.var(0, name="v"), b.var(n, name="w")
        with b.for_(n), b.for_(n, name="j") as j:
            v += j + w
        out.store(v + w)
    assert parameters(kernel(b)) == {"loop": ["i", "v"], "loop1": ["j", "v"]}


def test_values_are_merged_after_an_if() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, q):
        v = b.var(n, name="v")
        with b.if_(p):
            v += 1
        with b.else_(), b.if_(q):
            v += 2
        out.store(v)
    assert parameters(kernel(b)) == {"join1": ["v"], "join": ["v"]}


def test_branches_that_set_the_same_value_need_none() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, _):
        v = b.var(0, name="v")
        with b.if_(p):
            v.set(n)
        with b.else_():
            v.set(n)
        out.store(v)
    assert parameters(kernel(b)) == {}


def test_a_variable_read_in_a_branch_is_the_one_from_before() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, _):
        v = b.var(n, name="v")
        with b.if_(p):
            out.store(v)
        with b.else_():
            out.store(v.get() + 1)
            inside = list(b.insertion or ())
    assert parameters(kernel(b)) == {}
    assert inside[0].inputs == (n.value, Constant(I32, 1))


def test_a_loop_counts_by_one_unless_told_otherwise() -> None:
    for bounds, step in (((3,), 1), ((1, 3), 1), ((1, 9, 4), 4)):
        b = Builder()
        with open_kernel(b) as (out, _, _, _), b.for_(*bounds) as i:
            (out + i).store(i)
        (counted,) = [op for op in kernel(b).ops if op.mnemonic == "add"]
        assert counted.inputs[1] == Constant(I32, step)


def test_equal_literals_are_one_value() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, _):
        v = b.var(3, name="v")
        with b.if_(p):
            v.set(n * 0 + 3)
            v.set(3)
        out.store(v)
    function = kernel(b)
    assert parameters(function) == {}
    (store,) = (op for op in function.ops if op.mnemonic == "store")
    assert store.inputs[1] == Constant(I32, 3)


def test_a_value_read_before_its_parameter_turned_out_needless_is_replaced() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(n, name="v")
        with b.while_(lambda: v.get() > 3):
            kept = v.get()
            out.store(kept)
        out.store(kept)
    function = kernel(b)
    assert parameters(function) == {}
    assert all(
        op.inputs[1] is function.parameters[1].value
        for op in function.ops
        if op.mnemonic == "store"
    )


def test_get_is_the_value_of_then() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(n, name="v")
        before = v.get()
        v += 1
        out.store(before - v)
    (_, sub, *_) = kernel(b).ops
    assert sub.inputs[0] is kernel(b).parameters[1].value


def test_early_returns_leave_no_arguments() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, q):
        v = b.var(n, name="v")
        with b.if_(p):
            v += 1
            with b.if_(q):
                v += 1
                b.ret()
            with b.else_():
                b.ret()
        out.store(v)
    function = kernel(b)
    assert parameters(function) == {}
    assert [op.mnemonic for op in function.ops].count("ret") == 3
    assert "join1" not in function.blocks


def test_break_and_continue_carry_their_own_values() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, q):
        v = b.var(0, name="v")
        with b.for_(n) as i:
            with b.if_(p):
                v += 1
                b.break_()
            with b.if_(q):
                v += 2
                b.continue_()
            v += i
        out.store(v)
    by_block = parameters(kernel(b))
    assert by_block == {"loop": ["i", "v"], "latch": ["v"], "done": ["v"]}


def test_a_variable_unset_on_some_path_is_undefined_there() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, p, _):
        with b.if_(p):
            v = b.var(n, name="v")
        out.store(v)
    function = kernel(b)
    assert parameters(function) == {"join": ["v"]}
    arguments = [e.arguments for block in function.blocks.values() for e in block.successors]
    assert (Undef(I32),) in arguments


def test_long_programs_need_no_deep_stack() -> None:
    b = Builder(locations=False)
    with open_kernel(b) as (out, n, p, _):
        v, w = b.var(n, name="v"), b.var(n, name="w")
        for _ in range(1200):
            with b.if_(p):
                v += 1
        out.store(v + w)
    function = kernel(b)
    assert sum(len(block.parameters) for block in function.blocks.values()) == 1200


def test_reading_through_long_chains_needs_no_deep_stack() -> None:
    b = Builder(locations=False)
    with open_kernel(b) as (out, n, p, _):
        v = b.var(n, name="v")
        for _ in range(1200):
            with b.if_(p):
                out.store(n)
        out.store(v)
    assert parameters(kernel(b)) == {}


def test_in_place_operators_assign() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(n)
        v += 1
        v -= 1
        v *= 3
        v //= 2
        v %= 5
        v &= 7
        v |= 8
        v ^= 1
        v <<= 2
        v >>= 1
        out.store(v)
        f = b.var(1.0)
        f /= 2.0
        f **= 2.0
        out.store(f.to(I32))
    mnemonics = [op.mnemonic for op in kernel(b).ops]
    assert mnemonics == [
        "add", "sub", "mul", "sdiv", "srem", "and", "or", "xor", "shl", "ashr", "store",
        "fdiv", "pow", "fptosi", "store", "ret",
    ]  # fmt: skip


def test_shapes_are_broadcast_to_a_variable_and_types_kept() -> None:
    b = Builder()
    with open_kernel(b) as (_, n, _, _):
        v = b.var(b.zeros((4, 8)))
        v.set(b.arange(8).to(F32))
        assert v.shape == (4, 8)
        v += n
        with pytest.raises(BuildError) as caught:
            v.set(n)
        assert caught.value.code == "TIR0805"


def test_hand_made_loops_carry_variables_too() -> None:
    b = Builder()
    with open_kernel(b) as (out, n, _, _):
        v = b.var(0, name="v")
        loop, done = b.block("again", I32), b.block("finish")
        b.br(loop(0))
        b.enter(loop)
        (i,) = loop.parameters
        v += i
        b.cond_br(i < n, loop(i + 1), done)
        b.enter(done)
        out.store(v)
    assert parameters(kernel(b)) == {"again": [None, "v"]}


def test_loop_attributes_stand_on_the_latch() -> None:
    b = Builder()
    with open_kernel(b) as (_, n, p, _):
        with b.for_(n, stages=3, unroll=4), b.if_(p):
            b.continue_()
        with b.while_(lambda: p, unroll=2):
            pass
    attributes = [op.attributes for op in kernel(b).ops if op.mnemonic == "br"]
    assert [(a["stages"], a["unroll"]) for a in attributes if a["unroll"]] == [(3, 4), (None, 2)]


def test_bounds_are_joined_in_one_type() -> None:
    b = Builder()
    with b.kernel("k", n=I64, m=I32) as (n, m):
        with b.for_(m, n, 2) as i:
            assert i.type is I64
        with b.for_(10, 0, -1) as i:
            assert i.type is I32
    relations = [op.attributes["predicate_"].value for op in kernel(b).ops if op.mnemonic == "icmp"]
    assert relations == ["slt", "sgt"]
