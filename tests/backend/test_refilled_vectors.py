"""Vectors that a recurrence copies ahead, into stages that each iteration refills after it has read
them, against numpy."""

import ml_dtypes
import numpy as np
import pytest

from tileir.backend import compile as compile_kernel
from tileir.backend.executors import SimtExecutor
from tileir.builder import BF16, F32, I32, Builder, arg, pointer

ROWS, COLUMNS, TOKENS = 128, 32, 3
DOUBLE = {"text": "add.f32 $0, $1, $1;", "constraints": "=f,f"}
OPTIONS = {"num_warps": 4, "permit": ("inline_asm",)}


def recurrence(*, gated=False):
    """`k(q, k, v, g, bias, state, out, n)`: each instance updates its state, in place, in each of n
    iterations, by the delta rule. If `gated`, inline assembly doubles the gates, in threads from
    which others get them, and v is scaled by a scalar that is not loaded ahead. Numbers are small
    integers, so that every order of a sum gives the same result."""
    b, kind = Builder(), arg(pointer(BF16), aligned=16)
    types = dict.fromkeys(("q", "k", "v", "g"), kind)
    types |= dict.fromkeys(("bias", "state", "out"), arg(pointer(F32), aligned=16))
    with b.kernel("k", **types, n=I32) as (q, k, v, g, bias, state, out, n):
        instance, rows, columns = b.program_id(axis=0), b.arange(ROWS), b.arange(COLUMNS)
        place = instance * (ROWS * COLUMNS) + rows[:, None] * COLUMNS + columns[None, :]
        token = instance * n
        h = b.var((state + place).load())
        with b.for_(0, n, stages=2, independent_iterations=True) as i:
            left, right = ((x + ((token + i) * ROWS + rows)).load().to(F32) for x in (q, k))
            value = (v + ((token + i) * COLUMNS + columns)).load().to(F32)
            gate = (g + ((token + i) * ROWS + rows)).load().to(F32) + (bias + rows).load()
            if gated:
                gate = b.inline_asm(gate.type, gate, **DOUBLE)
                value = value * (bias + i).load()
            decayed = h.get() * gate[:, None]
            value = value - (decayed * right[:, None]).sum(axis=0)
            h.set(decayed + right[:, None] * value[None, :])
            total = (h.get() * left[:, None]).sum(axis=0)
            (out + ((token + i) * COLUMNS + columns)).store(total)
            (state + place).store(h.get())
    return b.module()


def problem(instances, n):
    """The arguments of `recurrence` but for n."""
    random = np.random.default_rng(n)

    def integers(most, *shape, dtype=ml_dtypes.bfloat16):
        return random.integers(-most, most + 1, shape).astype(dtype)

    q, k = (integers(1, instances, n, ROWS) for _ in range(2))
    k[:, :, 4:] = 0
    v, g = integers(1, instances, n, COLUMNS), integers(1, instances, n, ROWS)
    bias = integers(1, ROWS, dtype=np.float32)
    state = integers(1, instances, ROWS, COLUMNS, dtype=np.float32)
    return [q, k, v, g, bias, state, np.full((instances, n, COLUMNS), np.nan, np.float32)]


def states_and_outputs(q, k, v, g, bias, state, out, *, gated=False):
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    h, out = state.astype(np.float64), out.astype(np.float64)
    for i in range(q.shape[1]):
        gate, scale = g[:, i] + bias, bias[i] if gated else 1.0
        h = h * (2 * gate if gated else gate)[:, :, None]
        value = scale * v[:, i] - np.einsum("irc,ir->ic", h, k[:, i])
        h = h + k[:, i, :, None] * value[:, None, :]
        out[:, i] = np.einsum("irc,ir->ic", h, q[:, i])
    return h, out


def check(arrays, results):
    h, out = results
    np.testing.assert_array_equal(arrays[6], out)
    np.testing.assert_array_equal(arrays[5], h)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("n", range(1, TOKENS + 1))
def test_stages_are_refilled_on_threads(n, gated):
    arrays = problem(2, n)
    results, module = states_and_outputs(*arrays, gated=gated), recurrence(gated=gated)
    SimtExecutor().launch(module, None, 2, [*arrays, n], target="sm_90a", **OPTIONS)
    check(arrays, results)


@pytest.mark.parametrize("gated", [False, True])
def test_the_loop_refills_its_stages(gated):
    ptx = compile_kernel(recurrence(gated=gated), "sm_90a", OPTIONS).ptx
    assert ptx.count("cp.async.ca") == 10 and "cp.async.wait_group 0" in ptx
