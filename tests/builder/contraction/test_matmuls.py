"""Contractions become matmuls, whatever their indices look like."""

import numpy as np
import pytest

from tileir.builder import BF16, F16, F32, F64, I8, I32
from tileir.builder.contraction import Apply, Cast, Number, Program, contraction, elementwise

from .oracle import AffineBound, Tensor, at, check, dots, indices

SIZES = [(16, 16, 16), (33, 47, 19), (130, 70, 65), (8, 8, 8), (9, 200, 40)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("m, n, k", SIZES)
@pytest.mark.parametrize("turned", ["", "a", "b", "ab", "c"])
def test_matmuls_of_matrices(m, n, k, turned):
    i, j, t = indices("ijk")
    a = Tensor("a", F32, (k, m) if "a" in turned else (m, k))
    b = Tensor("b", F32, (n, k) if "b" in turned else (k, n))
    left = at(a, t, i) if "a" in turned else at(a, i, t)
    right = at(b, j, t) if "b" in turned else at(b, t, j)
    c = Tensor("c", F32, (n, m) if "c" in turned else (m, n))
    place = (j, i) if "c" in turned else (i, j)
    check(c, place, "sum", [left, right], {i: range(m), j: range(n), t: range(k)}, dots_expected=1)


@pytest.mark.parametrize("kind, out", [(F16, F32), (BF16, F32), (F64, F64), (I8, I32), (F16, F16)])
def test_matmuls_of_other_types(kind, out):
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", kind, (20, 30)), Tensor("b", kind, (30, 40)), Tensor("c", out, (20, 40))
    box = {i: range(20), j: range(40), k: range(30)}
    check(c, (i, j), "sum", [at(a, i, k), at(b, k, j)], box, dots_expected=1)


def test_integers_without_matrix_instructions_are_added_one_by_one():
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", I32, (20, 30)), Tensor("b", I32, (30, 40)), Tensor("c", I32, (20, 40))
    box = {i: range(20), j: range(40), k: range(30)}
    check(c, (i, j), "sum", [at(a, i, k), at(b, k, j)], box, dots_expected=0)


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch):
    n, i, j, k = indices("nijk")
    a, b = Tensor("a", F32, (batch, 17, 24)), Tensor("b", F32, (24, batch, 18))
    c = Tensor("c", F32, (batch, 17, 18))
    box = {n: range(batch), i: range(17), j: range(18), k: range(24)}
    check(c, (n, i, j), "sum", [at(a, n, i, k), at(b, k, n, j)], box, dots_expected=1)


def test_rows_of_two_indices_go_as_one():
    n, i, j, k = indices("nijk")
    a, b, c = Tensor("a", F32, (3, 7, 24)), Tensor("b", F32, (24, 18)), Tensor("c", F32, (3, 7, 18))
    box = {n: range(3), i: range(7), j: range(18), k: range(24)}
    program = check(c, (n, i, j), "sum", [at(a, n, i, k), at(b, k, j)], box, dots_expected=1)
    ops = [op.mnemonic for op in program.module.functions["k0_c"].ops]
    assert "udiv" not in ops


def test_two_indices_are_summed_over_as_one():
    i, j, k, h = indices("ijkh")
    a, b, c = Tensor("a", F32, (20, 5, 3)), Tensor("b", F32, (5, 3, 18)), Tensor("c", F32, (20, 18))
    box = {i: range(20), j: range(18), k: range(5), h: range(3)}
    check(c, (i, j), "sum", [at(a, i, k, h), at(b, k, h, j)], box, dots_expected=1)


def test_terms_of_more_than_two_tensors():
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", F32, (20, 30)), Tensor("b", F32, (30, 40)), Tensor("c", F32, (20, 40))
    s, d = Tensor("s", F32, (20,)), Tensor("d", F32, (30,))
    box = {i: range(20), j: range(40), k: range(30)}
    reads = [at(a, i, k), at(s, i), at(b, k, j), at(d, k)]
    check(c, (i, j), "sum", reads, box, dots_expected=1)


def test_a_condition_along_one_side_keeps_the_matmul():
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", F32, (20, 30)), Tensor("b", F32, (30, 40)), Tensor("c", F32, (20, 40))
    box, reads = {i: range(20), j: range(40), k: range(30)}, [at(a, i, k), at(b, k, j)]
    check(c, (i, j), "sum", reads, box, [AffineBound(i - k, 0, 5)], 0, dots_expected=1)
    check(
        c,
        (i, j),
        "sum",
        reads,
        box,
        [AffineBound(i - k, 0, 5), AffineBound(k + j, 9, 30)],
        0,
        dots_expected=1,
    )
    check(c, (i, j), "sum", reads, box, [AffineBound(i + j + k, 5, 50)], 0, dots_expected=0)


def test_few_rows_are_no_matrix():
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", F32, (3, 30)), Tensor("b", F32, (30, 40)), Tensor("c", F32, (3, 40))
    box = {i: range(3), j: range(40), k: range(30)}
    check(c, (i, j), "sum", [at(a, i, k), at(b, k, j)], box, dots_expected=0)


def convolution(size, channels, taps, stride=1, dilation=1, padding=0, outputs=24, batch=2):
    """Tensors, reads, box and position of a convolution of images by rows of channels."""
    n, x, y, c, o, i, j = indices("nxycoij")
    span = (taps - 1) * dilation + 1
    out = (size + 2 * padding - span) // stride + 1
    image = Tensor("image", F32, (batch, size, size, channels))
    weights = Tensor("weights", F32, (taps, taps, channels, outputs))
    result = Tensor("result", F32, (batch, out, out, outputs))
    rows, columns = x * stride + i * dilation - padding, y * stride + j * dilation - padding
    reads = [at(image, n, rows, columns, c), at(weights, i, j, c, o)]
    inside = [AffineBound(rows, 0, size), AffineBound(columns, 0, size)] if padding else []
    box = {
        n: range(batch), x: range(out), y: range(out), o: range(outputs), i: range(taps),
        j: range(taps), c: range(channels),
    }  # fmt: skip
    return result, (n, x, y, o), reads, box, inside


@pytest.mark.sampled(2)
@pytest.mark.parametrize("channels", [1, 3, 16, 40])
@pytest.mark.parametrize("steps", [{}, {"stride": 2}, {"dilation": 2}, {"padding": 1},
                                   {"stride": 2, "dilation": 2, "padding": 2}])  # fmt: skip
def test_convolutions_are_implicit_matmuls(channels, steps):
    result, place, reads, box, inside = convolution(9, channels, 3, **steps)
    check(result, place, "sum", reads, box, inside, 0, dots_expected=1)


def test_one_dimensional_convolution():
    x, i, c, o = indices("xico")
    a, w = Tensor("a", F32, (40, 8)), Tensor("w", F32, (5, 8, 16))
    out = Tensor("out", F32, (36, 16))
    box = {x: range(36), i: range(5), c: range(8), o: range(16)}
    check(out, (x, o), "sum", [at(a, x + i, c), at(w, i, c, o)], box, dots_expected=1)


def test_full_convolution_of_outputs_that_are_reductions():
    i, j = indices("ij")
    a, b, c = Tensor("a", F32, (50,)), Tensor("b", F32, (7,)), Tensor("c", F32, (56,))
    check(c, (i + j,), "sum", [at(a, i), at(b, j)], {i: range(50), j: range(7)}, empty=0)


def test_a_function_of_a_matmul_stays_in_its_kernel():
    i, j, k, m, n = indices("ijkmn")
    a, b, c = Tensor("a", F16, (20, 30)), Tensor("b", F16, (30, 40)), Tensor("c", F16, (20, 40))
    bias, out = Tensor("bias", F16, (40,)), Tensor("out", F16, (20, 40))
    box = {i: range(20), j: range(40), k: range(30)}
    product = contraction(c, (i, j), "sum", Apply("mul", (at(a, i, k), at(b, k, j))), box)
    added = Apply("add", (at(c, m, n), at(bias, n)))
    relu = elementwise(out, (m, n), Apply("max", (added, Number(0))))
    program = Program((product, relu), (out,))
    assert [stage.output for stage in program.kernels] == [out]
    rng = np.random.default_rng(1)
    x, y, z = (rng.integers(-3, 4, t.shape).astype(np.float16) for t in (a, b, bias))
    result = program.run({a: x, b: y, bias: z}, "interpreter")[out]
    assert (result == np.maximum(x @ y + z, 0)).all()
    assert dots(program) == 1


def test_operands_are_rounded_where_a_cast_says_so():
    i, j, k = indices("ijk")
    a, b, c = Tensor("a", F32, (20, 30)), Tensor("b", F16, (30, 40)), Tensor("c", F32, (20, 40))
    box = {i: range(20), j: range(40), k: range(30)}
    term = Apply("mul", (Cast(F16, at(a, i, k)), at(b, k, j)))
    program = Program((contraction(c, (i, j), "sum", term, box),), (c,))
    (dot,) = (op for op in program.module.functions["k0_c"].ops if op.mnemonic == "dot")
    assert str(dot.a.type).startswith("f16")
    x = np.linspace(0, 1, 600, dtype=np.float32).reshape(20, 30)
    y = np.ones((30, 40), np.float16)
    expected = x.astype(np.float16).astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(program.run({a: x, b: y}, "interpreter")[c], expected, rtol=1e-6)
