"""Kernels of contractions on the machines that their tiles are chosen for."""

import numpy as np
import pytest

import tileir.backend
from tileir.builder import F16
from tileir.builder.contraction import Program, contraction
from tileir.interp import interpret
from tileir.passmanager import run
from tileir.types import shape_of

from .oracle import AffineBound, Tensor, at, indices, times


def product(m, n, k):
    i, j, t = indices("ijk")
    a, b, c = Tensor("a", F16, (m, k)), Tensor("b", F16, (k, n)), Tensor("c", F16, (m, n))
    term = times(at(a, i, t), at(b, t, j))
    box = {i: range(m), j: range(n), t: range(k)}
    return a, b, c, Program((contraction(c, (i, j), "sum", term, box),), (c,))


def convolution(batch, size, channels, outputs):
    n, x, y, o, r, s, c = indices("nxyorsc")
    a = Tensor("a", F16, (batch, size, size, channels))
    w = Tensor("w", F16, (3, 3, channels, outputs))
    out = Tensor("out", F16, (batch, size, size, outputs))
    i, j = x + r - 1, y + s - 1
    term = times(at(a, n, i, j, c), at(w, r, s, c, o))
    sizes = (batch, size, size, outputs, 3, 3, channels)
    box = dict(zip((n, x, y, o, r, s, c), map(range, sizes), strict=True))
    where = [AffineBound(i, 0, size), AffineBound(j, 0, size)]
    stage = contraction(out, (n, x, y, o), "sum", term, box, where, 0)
    return a, w, out, Program((stage,), (out,))


def remarks(program):
    compiled = tileir.backend.compile(program.module, "sm_90a", {})
    return " ".join(r.message for r in compiled.remarks)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("make", [product, convolution])
def test_large_ones_are_read_by_tensor_maps_and_multiplied_by_warpgroups(make):
    program = make(*((4096,) * 3 if make is product else (4, 56, 128, 256)))[-1]
    text = remarks(program)
    assert text.count("copied 3 iterations ahead") == 2 and "no tensor map" not in text


@pytest.mark.slow
def test_boxes_of_pixels_are_rows():
    a, w, out, program = convolution(2, 8, 16, 32)
    ops = list(program.module.functions["k0_out"].ops)
    divided = [op for op in ops if op.mnemonic in ("urem", "udiv") and shape_of(op.lhs.type)]
    assert not divided and sum(op.mnemonic == "dot" for op in ops) == 1
    rng = np.random.default_rng(3)
    x, k = (rng.integers(-2, 3, t.shape).astype(np.float16) for t in (a, w))
    wide = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    expected = np.einsum("nxycrs,rsco->nxyo", windows, k.astype(np.float32))
    for options in ({}, {"target": "sm_90a", "warp_specialize": False}, {"target": "sm_80"}):
        result = program.run({a: x, w: k}, "simt" if options else "interpreter", **options)[out]
        assert (result == expected).all(), options


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size, channels, outputs", [(8, 32, 64), (9, 64, 24), (14, 16, 128)])
def test_roles_of_convolutions_compute_what_their_kernel_does(size, channels, outputs):
    """The blocks that tensor maps give are those of the masks, zeros around included."""
    a, w, out, program = convolution(2, size, channels, outputs)
    rng = np.random.default_rng(size)
    x, k = (rng.integers(-2, 3, t.shape).astype(np.float16) for t in (a, w))
    expected = program.run({a: x, w: k}, "interpreter")[out]
    front = "cse,licm,scalarize-pointer-steps,modulo-to-mask,infer-descriptors"
    module = run(program.module, f"{front},persist,warp-specialize,defer-wgmma-waits").module
    assert module.stage == "warp_specialized"
    actual = np.full(out.shape, np.nan, np.float16)
    extents = [program.launches[0].grid, 1, 1]
    grid_parameters = len(module.functions["k0_out"].parameters) - 3
    grid = (2,) if grid_parameters else tuple(extents)
    interpret(module, "k0_out", grid, [x, k, actual, *extents[:grid_parameters]])
    assert (actual == expected).all()
