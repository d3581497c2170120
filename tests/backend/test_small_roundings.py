"""Every rounding to floats of 8 and 4 bits, at every boundary between two of them."""

import numpy as np

from tests.sizes import for_each
from tileir.backend.codegen.rules.f8_f4 import narrow
from tileir.backend.simt.machine import SimtThread, ThreadValues
from tileir.backend.simt.memory import SimtMemory
from tileir.machine import dtype_of
from tileir.machine.casts import to_float
from tileir.types import BF16, F4E2M1, F8E4M3, F8E5M2, F8E8M0, F16, F32, F64

KINDS = [F8E4M3, F8E5M2, F8E8M0, F4E2M1]


def boundaries(kind):
    """Every number of `kind`, those halfway between two, and what is next to each, of both signs;
    and what is not finite or too large."""
    raw = np.arange(1 << kind.bits, dtype=np.uint8)
    every = np.unique(raw.view(dtype_of(kind)).astype(np.float64))
    every = every[np.isfinite(every)]
    middle = (every[:-1] + every[1:]) / 2
    with np.errstate(all="ignore"):
        exact = np.concatenate(
            [every, middle, [every[-1] * 1.5, every[-1] * 1.99, 0, 1e-45, 3.4e38]]
        )
        exact = exact.astype(np.float32)
    near = [np.nextafter(exact, np.float32(way)) for way in (-np.inf, np.inf)]
    values = np.concatenate([exact, *near, np.float32([np.nan])])
    return np.concatenate([values, -values])


FAR = np.array([np.nextafter(2.0**128, 0), 2.0**128, 1.5 * 2.0**128, 2.0**200, 1.7e308])
"""Beyond what f32 has, by way of which f64 is rounded."""


@for_each("rounding", ["rn", "rz", "rm", "rp"])
@for_each("saturate", [False, True])
@for_each("source", [F16, BF16, F32, F64])
@for_each("kind", KINDS)
def test_a_float_is_rounded_once(kind, source, saturate, rounding):
    with np.errstate(all="ignore"):
        x = boundaries(kind).astype(dtype_of(source))
        if source is F64:
            x = np.concatenate([x, FAR, -FAR])
        expected = to_float(x, dtype_of(kind), rounding=rounding, saturate=saturate)
        thread = SimtThread(len(x), (0, 0, 0), (1, 1, 1), SimtMemory(0))
        array = narrow(thread, source, kind, ThreadValues(x), rounding, saturate).array
    mask = (1 << kind.bits) - 1
    bits = [v.view(np.uint8) & mask for v in (array, expected)]
    nan = [np.isnan(b.view(dtype_of(kind)).astype(np.float32)) for b in bits]
    assert ((bits[0] == bits[1]) | (nan[0] & nan[1])).all()
