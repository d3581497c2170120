"""Steps made ahead of a run: each computes what evaluating its op would, what is the same for all
instances is computed once and within bounds, and values that are dead leave their slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.ops_inputs import tensor
from tileir.interp import program as preparation
from tileir.interp.fast_paths import quick_step
from tileir.interp.launch_machine import make_machine
from tileir.interp.program import CompiledFunction, prepare
from tileir.machine import Machine, Tensor
from tileir.machine.residue_machine import RingMachine
from tileir.op import Op, lookup
from tileir.ops.matrix import cells
from tileir.textual import parse
from tileir.types import I1, element_of, shape_of
from tileir.values import Undef

QUICK = (
    "add", "sub", "mul", "smin", "smax", "umin", "umax", "and", "or", "xor", "neg", "iabs",
    "ctpop", "clz", "fadd", "fsub", "fmul", "fdiv", "fneg", "fabs", "sqrt", "exp", "icmp",
    "fcmp", "sdiv", "udiv", "srem", "urem", "shl", "lshr", "ashr", "getelementptr", "splat",
    "broadcast", "reshape", "expand_dims",
)  # fmt: skip
"""Common ops, every one of which has a quick step at its usual settings."""


def operands(op: Op, seed: int) -> list[Tensor]:
    """Numbers that `op` has a meaning for."""
    operands_ = [tensor(v.type, seed + i) for i, v in enumerate(op.inputs)]
    if op.mnemonic in ("sdiv", "udiv", "srem", "urem"):
        operands_[1] = Tensor(np.ones_like(operands_[1].data))
    elif op.mnemonic in ("shl", "lshr", "ashr"):
        bits = element_of(op.result.type).bits  # type: ignore[union-attr]
        count = operands_[1].data.size
        steps = (np.arange(count) % bits).astype(operands_[1].data.dtype)
        operands_[1] = Tensor(steps.reshape(operands_[1].data.shape))
    return operands_


def same(got: Any, expected: Any) -> bool:
    pairs = [(got.data, expected.data), (got.undef, expected.undef)]
    return all(
        a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
        for a, b in pairs
    )


def has_quick_step(op: Op) -> bool:
    """Whether `op` has a quick step, which gives what evaluating gives: arrays, and bit for bit."""
    count = len(op.inputs)
    results = tuple(range(count, count + len(op.results)))
    step = quick_step(op, MACHINE, tuple(range(count)), results)
    if step is None:
        return False
    for undefined in (False, True):
        inputs = operands(op, 3)
        if undefined:
            shape = inputs[0].data.shape
            inputs[0] = Tensor(
                inputs[0].data, np.arange(inputs[0].data.size).reshape(shape) % 2 == 0
            )
        frame: list[Any] = [*inputs, *[None] * len(results)]
        step(frame)
        expected = op.evaluate(MACHINE, *inputs)
        for slot, value in zip(results, expected if len(results) > 1 else [expected], strict=True):
            assert type(frame[slot].data) is np.ndarray, op
            assert same(frame[slot], value), op
    return True


MACHINE = Machine()


@pytest.mark.sampled(10)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_step_is_its_op(name: str) -> None:
    kind = lookup(name)
    assert kind is not None
    for shape in ((), (7,), (3, 1)):
        ops = list(cells(kind, shape))
        results = [has_quick_step(op) for op in ops if op.predicate is None]
        plain = [type(op).evaluate is kind.evaluate and not _unusual(op) for op in ops]
        assert all(quick or not usual for quick, usual in zip(results, plain, strict=True)), name
        assert any(results) or not ops


def _unusual(op: Op) -> bool:
    """Whether an attribute asks for more than the plain op."""
    return any(
        getattr(op, f.name) != f.default
        for f in op.schema
        if f.name in ("overflow", "rounding", "ftz")
    ) or any(element_of(v.type) is I1 for v in op.operands)


def test_numbers_of_other_machines_have_no_quick_steps() -> None:
    kind: Any = lookup("fadd")
    for op in cells(kind, (7,)):
        assert quick_step(op, RingMachine(), (0, 1), (2,)) is None
        assert quick_step(op, object(), (0, 1), (2,)) is None


# What is computed once ------------------------------------------------------------------------

ONCE = """tir 1.0

define kernel void @k(i32* %x, i32 %n) {
entry:
  %two = mul i32 %n, 2
  %three = add i32 %two, 1
  %a = make_range i32<64>
  %b = splat i32<64> %three
  %c = mul i32<64> %a, %b
  %d = add i32<64> %c, 5
  %pid = program_id i32
  %e = splat i32<64> %pid
  %f = add i32<64> %d, %e
  %xs = splat i32*<64> %x
  %p = getelementptr i32*<64> %xs, %f
  store %p, %f
  ret
}
"""


def prepare_text(text: str, *arguments: int) -> CompiledFunction:
    machine = make_machine("ieee")
    machine.grid, machine.ids = (8, 1, 1), None
    values = [Tensor(np.array(a, d)) for a, d in zip(arguments, (np.uint64, np.int32))]  # noqa: B905
    return prepare(parse(text).kernel(), machine, set(), values)


def left(code: CompiledFunction) -> list[str | None]:
    """Names of what each instance computes."""
    return [op.results[0].name for op in code.entry.ops if op.results]


def test_what_follows_from_arguments_and_literals_is_computed_once() -> None:
    assert left(prepare_text(ONCE, 1 << 40, 5)) == ["pid", "e", "f", "p"]
    assert left(prepare_text(ONCE)) == ["two", "three", "b", "c", "d", "pid", "e", "f", "xs", "p"]


@pytest.mark.parametrize("limit", [0, 64, 65, 129, 193, 257, 1000])
def test_tiles_that_are_kept_have_no_more_elements_than_the_limit(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "UNIFORM_ELEMENTS", limit)
    code = prepare_text(ONCE, 1 << 40, 5)
    tiles = [r for op in code.function.ops for r in op.results if shape_of(r.type)]
    kept = 64 * sum(r.name not in left(code) for r in tiles)
    assert kept <= limit
    assert (kept > 0) == (limit > 64)


def test_values_that_are_dead_leave_their_slots() -> None:
    lines = [f"  %v{k} = add i32 %v{k - 1}, %pid" for k in range(1, 200)]
    text = "\n".join([
        "tir 1.0\n\ndefine kernel void @k(i32* %x, i32 %n) {\nentry:\n  %pid = program_id i32",
        "  %v0 = add i32 %pid, %n", *lines, "  store %x, %v199\n  ret\n}\n",
    ])  # fmt: skip
    assert len(prepare_text(text).template) < 20


def test_undefined_operands_are_left_to_the_op() -> None:
    kind: Any = lookup("add")
    (op, *_) = cells(kind, ())
    step = quick_step(op, MACHINE, (0, 1), (2,))
    assert step is not None
    unknown = MACHINE.undef(Undef(op.operands[0].type).type)
    frame: list[Any] = [unknown, operands(op, 1)[1], None]
    step(frame)
    assert frame[2].undef is not None and frame[2].undef.all()
