"""A division by zero has no meaning, and ends no process: x86 would raise SIGFPE."""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest

import tileir
from tileir.executor import executor
from tileir.textual import parse

TILE = """tir 1.0

define kernel void @k({kind}* %x, {kind}* %y, {kind} %d) {{
entry:
  %r = make_range i32<16>
  %xs = splat {kind}*<16> %x
  %p = getelementptr {kind}*<16> %xs, %r
  %v = load {kind}<16> %p
  %ds = splat {kind}<16> %d
  %q = {op} {kind}<16> %v, %ds
  %ys = splat {kind}*<16> %y
  %o = getelementptr {kind}*<16> %ys, %r
  store %o, %q
  ret
}}
"""
SCALAR = """tir 1.0

define kernel void @k({kind}* %x, {kind}* %y, {kind} %d) {{
entry:
  %v = load {kind} %x
  %q = {op} {kind} %v, %d
  store %y, %q
  ret
}}
"""


def divide(kind: str) -> None:
    """Every division of the least number by 0 and by -1."""
    dtype = np.dtype(f"i{int(kind[1:]) // 8}")
    for op in ("sdiv", "udiv", "srem", "urem"):
        for text in (TILE, SCALAR):
            module = parse(text.format(kind=kind, op=op))
            for divisor in (0, -1):
                x = np.full(16, np.iinfo(dtype).min, dtype)
                try:
                    executor("cpu").launch(module, "k", (1,), [x, np.zeros_like(x), divisor])
                except tileir.TileirError:
                    continue


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["i32", "i8", "i16", "i64"])
def test_processes_live(kind: str) -> None:
    process = multiprocessing.get_context("fork").Process(target=divide, args=(kind,))
    process.start()
    process.join()
    assert process.exitcode == 0
