"""A byte that is not 0 is a true i1, however it is read."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import run

TEXT = """
define kernel void @k(i1* %x, i8* %plain, i8* %opposite, i8* %chosen) {
entry:
  %i = make_range i32<64>
  %xs = splat i1*<64> %x
  %p = getelementptr i1*<64> %xs, PLACES
READ
  %one = zext i8<64> %v
  %not = xor i1<64> %v, true
  %other = zext i8<64> %not
  %two = select i8<64> %v, 7, 9
  %as = splat i8*<64> %plain
  %a = getelementptr i8*<64> %as, PLACES
  store %a, %one
  %bs = splat i8*<64> %opposite
  %b = getelementptr i8*<64> %bs, PLACES
  store %b, %other
  %cs = splat i8*<64> %chosen
  %c = getelementptr i8*<64> %cs, PLACES
  store %c, %two
  ret
}
"""
READS = {
    "plainly": "  %v = load i1<64> %p",
    "volatile": "  %v = load i1<64> %p {volatile = true}",
    "under a mask": """  %on, %off = icmp (i1<64>, i1<64>) %i, 64 {predicate = slt}
  %v = load i1<64> %p, %on, false""",
    "under a mask that is not constant": """  %odd = and i32<64> %i, 1
  %on, %off = icmp (i1<64>, i1<64>) %odd, 0 {predicate = eq}
  %some = load i1<64> %p, %on, false
  %rest = load i1<64> %p, %off, false
  %v = or i1<64> %some, %rest""",
}
PLACES = {"in order": ("", "%i"), "out of order": ("  %j = xor i32<64> %i, 5\n", "%j")}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("places", PLACES)
def test_every_byte_but_0_is_true(read: str, places: str) -> None:
    defines, index = PLACES[places]
    text = TEXT.replace("  %xs", f"{defines}  %xs", 1).replace("PLACES", index)
    x = np.random.default_rng(0).choice([0, 0, 1, 2, 3, 4, 64, 128, 254, 255], 64).astype(np.uint8)
    plain, opposite, chosen = (np.zeros(64, np.int8) for _ in range(3))
    run(text.replace("READ", READS[read]), 1, x.view(np.bool_), plain, opposite, chosen)
    assert plain.tolist() == (x != 0).tolist()
    assert opposite.tolist() == (x == 0).tolist()
    assert chosen.tolist() == np.where(x != 0, 7, 9).tolist()
