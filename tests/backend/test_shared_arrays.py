"""Arrays that share memory: what belongs to a read-only one is not written, everything else of any
of them is, through whichever pointer, on every executor."""

import numpy as np
import pytest

from tileir.errors import TileirError
from tileir.executor import executor
from tileir.textual import parse

STORE = """tir 1.0
define kernel void @f(f32* %x, f32* %y, i32 %n) {
entry:
  %lanes = make_range i32<LANES>
  %at = splat i32<LANES> %n
  %i = add i32<LANES> %at, %lanes
  %ps = splat f32*<LANES> %POINTER
  %p = getelementptr f32*<LANES> %ps, %i
  store %p, 1.0
  ret
}
"""
WRITABLE = {
    "part": lambda a: a[:12],
    "steps": lambda a: a[::2],
    "columns": lambda a: a.reshape(8, 4)[:, :2],
    "all": lambda a: a,
}
FIXED = {
    "part": lambda a: a[8:24],
    "steps": lambda a: a[1::3],
    "columns": lambda a: a.reshape(8, 4)[:, 1:3],
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("pointer", ["x", "y"])
@pytest.mark.parametrize("fixed", FIXED)
@pytest.mark.parametrize("writable", WRITABLE)
def test_what_belongs_to_a_read_only_array_is_not_written(writable, fixed, pointer, lanes):
    module = parse(STORE.replace("LANES", str(lanes)).replace("POINTER", pointer))
    whole = np.zeros(32, np.float32)
    numbers = np.arange(32)
    own, kept = (set(view.ravel().tolist()) for view in
                 (WRITABLE[writable](numbers), FIXED[fixed](numbers)))  # fmt: skip
    x, y = WRITABLE[writable](whole), FIXED[fixed](whole)
    y.flags.writeable = False
    start = {"x": 0, "y": int(FIXED[fixed](numbers).ravel()[0])}[pointer]
    for first in (-1, 0, 1, 2, 5, 7, 8, 9, 11, 12, 14, 20, 23, 24, 28, 31, 32):
        touched = set(range(first, first + lanes))
        for name in ("interpreter", "cpu", "simt"):
            whole[:] = 0
            code = None
            try:
                executor(name).launch(module, "f", 1, {"x": x, "y": y, "n": first - start})
            except TileirError as error:
                code = error.code
            where = (writable, fixed, pointer, lanes, first, name, code)
            if touched <= own - kept:
                assert code is None and whole.sum() == lanes, where
            elif touched <= own | kept:
                assert code == ("TIR0508" if name != "simt" else "TIR0710"), where
            elif name != "simt" and not touched & kept:
                assert code == "TIR0501", where
            if code is not None:
                assert not whole[sorted(kept)].any(), where
