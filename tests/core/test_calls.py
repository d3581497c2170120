"""Functions of scalars on every executor: how deeply calls nest, and branches by lane."""

import numpy as np
import pytest

from tileir.calls import MAX_CALL_DEPTH
from tileir.errors import TileirError
from tileir.executor import executor
from tileir.textual import parse

EXECUTORS = ["interpreter", "cpu", "simt"]


def chain(depth: int) -> str:
    text = "tir 1.0\ndefine noinline i32 @f0(i32 %x) {\nentry:\n  %r = mul i32 %x, 3\n  ret %r\n}\n"
    for i in range(1, depth):
        text += f"define noinline i32 @f{i}(i32 %x) {{\nentry:\n  %a = call i32 @f{i - 1}, %x\n"
        text += "  %b = add i32 %a, 1\n  ret %b\n}\n"
    text += "define kernel void @k(i32* %x) {\nentry:\n  %n = load i32 %x\n"
    return text + f"  %r = call i32 @f{depth - 1}, %n\n  store %x, %r\n  ret\n}}\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", EXECUTORS)
def test_calls_nest_as_deeply_everywhere(on: str) -> None:
    x = np.ones(1, np.int32)
    executor(on).launch(parse(chain(MAX_CALL_DEPTH)), "k", 1, [x])
    assert x[0] == MAX_CALL_DEPTH + 2
    with pytest.raises(TileirError, match=r"<string>:\d+:\d+: .*TIR0513"):
        executor(on).launch(parse(chain(MAX_CALL_DEPTH + 1)), "k", 1, [x])


BRANCHES = """tir 1.0
define i64 @c(i64 %a, i64 %b) {
entry:
  %c = trunc i1 %a
  cond_br %c, x, y
x:
  ret %a
y:
  ret %b
}
define kernel void @k(i64* %x) {
entry:
  %i = make_range i32<16>
  %j = zext i64<16> %i
  %v = reshape i64<8, 2> %j
  %r = reduce i64<2> %v {axis = 0, combiner = @c}
  %k = make_range i32<2>
  %xs = splat i64*<2> %x
  %p = getelementptr i64*<2> %xs, %k
  store %p, %r
  ret
}
"""


@pytest.mark.parametrize("on", EXECUTORS)
def test_combiners_may_branch_by_lane(on: str) -> None:
    x = np.zeros(2, np.int64)
    executor(on).launch(parse(BRANCHES), "k", 1, [x])
    assert x.tolist() == [14, 1]
