"""What the compiler makes of random numbers."""

import re

from tileir.backend import compile as compile_kernel
from tileir.builder import I32, Builder, arg, pointer


def test_a_round_of_philox_multiplies_once_per_word():
    """Both halves of a result come from one multiplication, and rounds on words that are known to
    be zero from none: 10 rounds of 2, without the first of a zero, that of a key, which all
    elements share, and the last word, which is not read."""
    b = Builder()
    with b.kernel("k", out=arg(pointer(I32), aligned=16), seed=I32) as (out, seed):
        i = b.arange(32)
        zero = b.zeros(32, I32)
        key = b.full(32, seed, I32)
        (out + i).store(b.library("philox", i, zero, zero, zero, key, zero)[0])
    ptx = compile_kernel(b.module(), options={"num_warps": 1}).ptx
    assert len(re.findall(r"\bmul\.", ptx)) <= 19
    assert not re.search(r"\bbra\b", ptx)
