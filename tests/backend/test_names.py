"""Names of kernels, globals and functions: any that the text can write, on every machine."""

import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.executor import executor
from tileir.textual import parse

NAMES = [
    ("host", "run", "set_host"), ("set_host", "host", "beyond.each"), ("run", "a.b", "a_$_b"),
    ("memset", "memcpy", "llvm.memset"), ("main", "malloc", "free"), ("text.a", "g$a", "f.a"),
    ("g$f", "f", "k$f"), ("", "a", "b"), ("shared", "", "k.shared"), ("é", "a b", "f.;"),
    ("\\0", "\\u0001a", "a\\0"), ("k\\0k", "\\u0001b", "\\0"),
]  # fmt: skip


def module(kernel, global_name, function):
    return parse(f"""tir 1.0
global i32 @"{global_name}" = 5
define kernel void @"{kernel}"(i32* %x) {{num_warps = 2}} {{
entry:
  %r = make_range i32<128>
  %xs = splat i32*<128> %x
  %p = getelementptr i32*<128> %xs, %r
  %v = load i32<128> %p
  %c = global_address i32* @"{global_name}"
  %five = load i32 %c
  %total = reduce i32 %v {{combiner = @"{function}"}}
  %sum = add i32 %total, %five
  %s = splat i32<128> %sum
  store %p, %s
  ret
}}
define i32 @"{function}"(i32 %a, i32 %b) {{
entry:
  %sum = add i32 %a, %b
  ret %sum
}}
""")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", NAMES, ids="-".join)
def test_names_are_nothing_but_names(names):
    program = module(*names)
    for on in ("interpreter", "simt", "cpu"):
        x = np.ones(128, np.int32)
        executor(on).launch(program, None, (1,), [x])
        np.testing.assert_array_equal(x, 133)
    compiled = compile_kernel(program, "sm_90")
    assert f".entry {compiled.metadata.symbol}(" in compiled.ptx and compiled.cubin
