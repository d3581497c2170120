"""Versions without masks are taken where every lane of a mask holds, whatever it is made of."""

import itertools

import numpy as np
import pytest

from tileir.interp import interpret
from tileir.passmanager import run
from tileir.textual import parse

KERNEL = """tir 1.0
define kernel void @k(f32* aligned(16) %x, f32* aligned(16) %y, i32* %limit, i32 %n, i32 %m) {{
entry:
  %r = make_range i32<64>
  %pid = program_id i32
  %first = mul i32 %pid, 64
  %start = splat i32<64> %first
  %o = add i32<64> %start, %r
  %ns = splat i32<64> %n
  %ms = splat i32<64> %m
{masks}
  %xs = splat f32*<64> %x
  %p = getelementptr f32*<64> %xs, %o
  %v = load f32<64> %p, %mask, -7.0
{between}
  %ys = splat f32*<64> %y
  %q = getelementptr f32*<64> %ys, %o
  store %q, %v, {mask}
  ret
}}
"""
RELATIONS = ("slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "eq", "ne")


def compare(name, relation, left, right, *, second=False):
    """A comparison, or its opposite."""
    pair = f"%{name}.o, %{name}" if second else f"%{name}, %{name}.o"
    return f"  {pair} = icmp (i1<64>, i1<64>) {left}, {right} {{predicate = {relation}}}"


def masks():
    """Text of masks by their description."""
    for relation, (left, right) in itertools.product(RELATIONS, (("%o", "%ns"), ("%ns", "%o"))):
        for second in (False, True):
            text = compare("mask", relation, left, right, second=second)
            yield f"{relation} {left}{' second' * second}", text
    for op in ("and", "or", "xor"):
        for relation in ("slt", "sge", "ult"):
            parts = [compare("a", "slt", "%o", "%ns"), compare("b", relation, "%o", "%ms")]
            parts.append(f"  %mask = {op} i1<64> %a, %b")
            yield f"{op} {relation}", "\n".join(parts)
    yield "divided", "\n".join((
        "  %half = sdiv i32<64> %o, 2", compare("mask", "slt", "%half", "%ns"),
    ))  # fmt: skip
    yield "turned", "\n".join(("  %neg = sub i32<64> %ns, %o", compare("mask", "sgt", "%neg", "0")))
    yield "wrapped", "\n".join((
        "  %far = add i32<64> %o, 2147483600", compare("mask", "slt", "%far", "%ns"),
    ))  # fmt: skip


MASKS = dict(masks())
BETWEEN = {
    "the same mask": ("%mask", ""),
    "a bound that is loaded in between": ("%late", "\n".join((
        "  %w = load i32 %limit", "  %ws = splat i32<64> %w", compare("late", "slt", "%o", "%ws"),
    ))),
    "a bound that is computed in between": ("%late", "\n".join((
        "  %w = add i32 %m, 3", "  %ws = splat i32<64> %w", compare("late", "slt", "%o", "%ws"),
    ))),
    "another mask": ("%late", compare("late", "sle", "%o", "%ms")),
}  # fmt: skip
"""The mask of the store, and what is between the accesses."""


@pytest.mark.parametrize("between", BETWEEN)
def test_masks_hold_in_all_lanes_of_versions_without_them(between):
    versions, (mask, text_between) = 0, BETWEEN[between]
    for name, text in MASKS.items():
        module = parse(KERNEL.format(masks=text, mask=mask, between=text_between))
        changed = run(module, "version-full-tiles").module
        if changed is module:
            continue
        versions += 1
        for n, m in ((0, 0), (1, 70), (64, 63), (70, 5), (128, 64), (-1, 128), (-70, -1)):
            results = []
            for each in (module, changed):
                x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
                interpret(each, "k", (2,), [x, y, np.array([m], np.int32), n, m])
                results.append(y)
            assert (results[0] == results[1]).all(), (name, n, m)
    assert versions >= 5
