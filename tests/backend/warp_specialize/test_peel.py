"""Which loops of matmuls have their first iteration written before them: how long an iteration may
be."""

from __future__ import annotations

import pytest

from tileir.passmanager import run
from tileir.textual import parse

LOOP = """tir 1.0
stage "warp_specialized"

define private void @math(f16 addrspace(3)* %a, f16 addrspace(3)* %b, f32*<64, 8> %p) {{
entry:
  br loop
loop:
  %i = phi i32 [0, entry], [%j, body]
  %sum = phi f32<64, 8> [0.0, entry], [%y, body]
  %more, _ = icmp (i1, i1) %i, 4 {{predicate = slt}}
  cond_br %more, body, done
body:
  %x = gpu.wgmma f32<64, 8> %a, 0, %b, 0, %sum
  %y = gpu.wgmma_wait f32<64, 8> %x
  {others}
  %j = add i32 %i, 1
  br loop
done:
  store %p, %sum
  ret
}}
"""


@pytest.mark.parametrize(("ops", "peeled"), [(48, True), (49, False)])
def test_an_iteration_of_48_ops_at_most_is_peeled(ops: int, peeled: bool) -> None:
    others = "\n  ".join(f"%v{i} = add i32 %i, {i}" for i in range(ops - 6))
    module = parse(LOOP.format(others=others))
    blocks = module.functions["math"].blocks
    assert len(blocks["loop"].ops) + len(blocks["body"].ops) == ops
    assert (
        "body.first" in run(module, "peel-first-iteration").module.functions["math"].blocks
    ) == peeled
