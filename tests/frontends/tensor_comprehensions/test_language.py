"""Tensor Comprehensions: ranges, reductions, clauses, calls, and what is refused."""

import numpy as np
import pytest

from tests.sizes import for_each
from tileir import TileirError
from tileir.builder import F16, F32, I32
from tileir.frontends.tensor_comprehensions import CompilationError, parse

from ..budget import SOURCES
from ..malformed import is_refused, mistaken

RNG = np.random.default_rng(6)


def ints(*shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


def run(text, *arrays, on="interpreter", **options):
    program = parse(text, "here.tc")
    return program[next(iter(program.functions))](*arrays, on=on, **options)


MATMUL = "def mm(float(M, K) A, float(K, N) B) -> (C) { C(m, n) +=! A(m, r_k) * B(r_k, n) }"
LAYER = """
def matmul(half(M, K) A, half(N, K) B) -> (C) { C(m, n) +=! A(m, k) * B(n, k) }
def layer(half(M, K) A, half(N, K) B, half(N) Bias) -> (O) {
  O = matmul(A, B)
  O(m, n) = O(m, n) + Bias(n)
  O(m, n) = fmax(O(m, n), 0)
}"""
CONVOLVE = """
def convolve(float(N, C, H, W) I, float(D, C, R, S) K) -> (O) {
  O(n, d, y, x) +=! I(n, c, y + r, x + s) * K(d, c, r, s)
}"""
POOL = """
def pool(float(N, H, W) I) -> (O) {
  O(n, y, x) max=! I(n, 2 * y + r, 2 * x + s) where r in 0:2, s in 0:2
}"""
SOFTMAX = """
def softmax(float(M, N) I) -> (O, Top, Sum) {
  Top(m) max=! I(m, n)
  Sum(m) +=! exp(I(m, n) - Top(m))
  O(m, n) = exp(I(m, n) - Top(m)) / Sum(m)
}"""
EXAMPLES = {
    "mm": (MATMUL, [(F32, (4, 4))] * 2),
    "layer": (LAYER, [(F16, (4, 4)), (F16, (4, 4)), (F16, (4,))]),
    "convolve": (CONVOLVE, [(F32, (2, 2, 5, 5)), (F32, (2, 2, 3, 3))]),
    "pool": (POOL, [(F32, (2, 5, 5))]),
    "softmax": (SOFTMAX, [(F32, (4, 4))]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_listing_2_of_the_paper(on):
    a, b = ints(20, 40), ints(24, 40)
    text = "def f(float(I, K) A, float(J, K) B) -> (C) { C(i, j) +=! A(i, k) * B(j, k) }"
    assert (run(text, a, b, on=on) == a @ b.T).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_a_layer_of_calls_is_one_kernel(on):
    a, b, bias = (ints(*s, dtype=np.float16) for s in ((18, 33), (20, 33), (20,)))
    layer = parse(LAYER).layer
    assert len(layer.compile(a, b, bias).program.launches) == 1
    result = layer(a, b, bias, on=on)
    assert result.dtype == np.float16 and (result == np.maximum(a @ b.T + bias, 0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_convolution_by_channels_first(on):
    image, weights = ints(2, 8, 7, 6), ints(9, 8, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (2, 3))
    expected = np.einsum("ncyxrs,dcrs->ndyx", windows, weights)
    assert (run(CONVOLVE, image, weights, on=on) == expected).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_softmax(on):
    x = ints(13, 37)
    e = np.exp(x - x.max(1, keepdims=True))
    o, top, total = run(SOFTMAX, x, on=on)
    np.testing.assert_allclose(o, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert (top == x.max(1)).all() and np.allclose(total, e.sum(1))


def test_pooling_of_odd_sizes_leaves_the_last_out():
    x = ints(2, 7, 9)
    assert (run(POOL, x) == x[:, :6, :8].reshape(2, 3, 2, 4, 2).max((2, 4))).all()


# Ranges: the worked examples of the documentation ------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("A(i) +=! B(i + k) * K(k)", lambda b, k: np.correlate(b, k, "valid")),
        ("A(i) = B(12 - i) + 0 * K(0)", lambda b, k: b[::-1]),
        ("A(i) = B(2 * i)", lambda b, k: b[::2]),
        ("A(i) = B(2 * i) + B(2 * i + 1)", lambda b, k: b[:12:2] + b[1:12:2]),
        ("A(i) +=! B(2 * i + k) where k in 0:2", lambda b, k: b[:12:2] + b[1:12:2]),
        ("A(i) = B(i) + B(i - 2)", lambda b, k: np.r_[0, 0, b[2:] + b[:-2]]),
        ("A(i) = 3 where exists B(i)", lambda b, k: np.full(13, 3)),
        ("A(i) = i * 2 where i in 0:N", lambda b, k: np.arange(13) * 2),
        ("A(i) = B(i) where i in 2:5", lambda b, k: np.r_[0, 0, b[2:5]]),
        ("A(i) = x + B(i) where x = B(0) * 2", lambda b, k: b + b[0] * 2),
        ("A(i) = B(j) where j = 12 - i, i in 0:13", lambda b, k: b[::-1]),
        ("A() +=! B(i)", lambda b, k: b.sum()),
        ("A min=! B(i) * B(i)", lambda b, k: (b * b).min()),
        ("A(i) *=! B(i) + 0 * K(k)", lambda b, k: b**5),
        ("A(i) max=! B(i + k) where k in 0:B.0 - 9", lambda b, k: np.maximum.reduce(
            [b[j : j + 10] for j in range(4)])),
        ("A(i) = (i > 2 && i <= 5 ? B(i) : -B(i))", lambda b, k: np.where(
            (np.arange(13) > 2) & (np.arange(13) <= 5), b, -b)),
        ("A(i) = (i - 1 >= 0 ? B(i - 1) : 7) where i in 0:N", lambda b, k: np.r_[7, b[:-1]]),
        ("A(i) = (B(i) > 0 || K(0) > 9 ? B(i) : 0)", lambda b, k: np.maximum(b, 0)),
        ("A(i) +=! (i + k - 2 >= 0 && i + k - 2 < N ? B(i + k - 2) : 0) * K(k) where i in 0:N",
         lambda b, k: np.correlate(b, k, "same")),
        ("A(i) = B(i % 3) where i in 0:7", lambda b, k: b[np.arange(7) % 3]),
        ("A(i) = int(B(i)) / 2", lambda b, k: np.trunc(b / 2)),
        ("A(i) = half(B(i)) / 3", lambda b, k: (b.astype(np.float16) / np.float16(3))),
    ],
)  # fmt: skip
def test_ranges_and_clauses(statement, expected):
    b, k = ints(13), ints(5)
    text = f"def f(float(N) B, float(M) K) -> (A) {{ {statement} }}"
    result = run(text, b, k)
    reference = expected(b.astype(np.float64), k)
    assert result.shape == np.shape(reference)
    np.testing.assert_allclose(result, reference, rtol=1e-3)


def test_a_table_is_looked_up():
    b, c = ints(9), np.array([3, 8, 0, 3], np.int32)
    assert (run("def f(float(J) B, int32(I) C) -> (A) { A(i) = B(C(i)) }", b, c) == b[c]).all()
    text = "def f(float(J) B, int(I) C) -> (A) { A(i) = B(max(min(C(i), J - 1), 0)) }"
    assert (run(text, b, c + 5) == b[np.minimum(c + 5, 8)]).all()


def test_tensors_change_from_statement_to_statement():
    a = ints(6)
    text = """def f(float(N) A) -> (O) {
      O(i) = A(i)
      O(i) += 10 where i in 2:4
      O(i) max= A(i) * A(j)
      O(i) = O(i) + O(0) where i in 1:N
    }"""
    o = a.copy()
    o[2:4] += 10
    o = np.maximum(o, (a[:, None] * a).max(1))
    o[1:] += o[0]
    assert (run(text, a) == o).all()


def test_what_is_accumulated_to_may_be_given():
    a, before = ints(5, 7), ints(5)
    text = "def f(float(M, N) A) -> (O) { O(m) += A(m, n) }"
    assert (run(text, a) == a.sum(1)).all()
    assert (run(text, a, initial={"O": before}) == before + a.sum(1)).all()
    with pytest.raises(TileirError) as caught:
        run("def f(float(M) A) -> (O) { O(m) = A(m) }", ints(5), initial={"O": before})
    assert caught.value.code == "TIR0813"


def test_scalars_are_numbers():
    a = ints(5)
    text = "def f(float(N) A, float c, int n) -> (O) { O(i) = A(i) * c + n }"
    assert (run(text, a, 2.5, 3) == a * 2.5 + 3).all()


def test_several_outputs_of_a_call():
    text = """
    def halves(float(N) A) -> (Low, High) {
      Low(i) = A(i) where i in 0:N / 2
      High(i) = A(N / 2 + i) where i in 0:N / 2
    }
    def swap(float(N) A) -> (B) {
      X, Y = halves(A)
      B(i) = (i < N / 2 ? Y(i) : X(i - N / 2)) where i in 0:N
    }"""
    assert (
        parse(text).swap(np.arange(8, dtype=np.float32), on="interpreter")
        == [4, 5, 6, 7, 0, 1, 2, 3]
    ).all()


# Mistakes ----------------------------------------------------------------------------------------

HEAD = "def f(float(N) A, float(M, N) B) -> (O) {\n"
MISTAKES = [
    ("O(i) = A(i", "TIR1401", 3),
    ("O(i) = A(i) @ 2", "TIR1401", 2),
    ("P(i) = A(i)", "TIR1402", 1),
    ("O(i) = C(i)", "TIR1402", 2),
    ("O(i, i) = B(i, i)", "TIR1402", 2),
    ("O(N) = A(N)", "TIR1402", 2),
    ("N(i) = A(i)", "TIR1402", 2),
    ("A = f(A, B)", "TIR1402", 2),
    ("O, P = g(A)", "TIR1402", 2),
    ("O(i) = A(i, i)", "TIR1403", 2),
    ("O(i) = exp(A(i), 2)", "TIR1403", 2),
    ("O(i) = A(A(i)) where i in 0:3", "TIR1403", 2),
    ("O(i) = uint8(A(i))", "TIR1403", 2),
    ("O(i) = A(i) + A.1", "TIR1403", 2),
    ("O(i) = A(i) + N / 0", "TIR1403", 2),
    ("O(i) = A(i) + 99999999999", "TIR1403", 2),
    ("A(i, j) = B(i, j)", "TIR1403", 2),
    ("O(i, j, k) = A(i) where j in 0:99999, k in 0:99999", "TIR1403", 2),
    ("O(i) = A(i + j)", "TIR1404", 2),
    ("O(i) = 3", "TIR1404", 2),
    ("O(i) = A(i + 2)", "TIR1404", 2),
    ("O(i) = A(i)\n where k in 0:i", "TIR1404", 3),
    ("O(i) = B(j, i)", "TIR1405", 2),
    ("O(i) = A(3 - i)", "TIR1404", 2),
    ("O(i) = A(i) where i in 0:99", "TIR1406", 2),
    ("O(i, j) = A(i) * A(j) * A(i + j)", "TIR1406", 2),
    ("O(i) = " + "- " * 3000 + "A(i)", "TIR1401", 2),
]


@for_each(("body", "code", "line"), MISTAKES)
def test_mistakes_are_refused_at_their_line(body, code, line):
    with pytest.raises(CompilationError) as caught:
        parse(f"{HEAD}{body}\n}}", "here.tc").f.compile((F32, (8,)), (F32, (6, 8)))
    assert (caught.value.code, caught.value.line) == (code, line), caught.value
    assert caught.value.location.file == "here.tc"


def test_arguments_that_do_not_fit_are_refused():
    mm = parse(MATMUL).mm
    for arrays in ([(F32, (8, 8))], [(F32, (8, 8)), (F32, (9, 8))], [(I32, (8, 8)), (F32, (8, 8))],
                   [(F32, (8,)), (F32, (8, 8))]):  # fmt: skip
        with pytest.raises(CompilationError) as caught:
            mm.compile(*arrays)
        assert caught.value.code == "TIR1403"
    with pytest.raises(AttributeError):
        _ = parse(MATMUL).other
    with pytest.raises(CompilationError) as caught:
        parse(MATMUL + "\n" + MATMUL)
    assert (caught.value.code, caught.value.line) == ("TIR1402", 2)


def test_functions_that_call_themselves_end():
    text = "def f(float(N) A) -> (O) { O = f(A) }"
    with pytest.raises(CompilationError) as caught:
        parse(text).f.compile((F32, (8,)))
    assert caught.value.code == "TIR1402"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EXAMPLES)
def test_malformed_sources_have_clear_errors(name):
    text, shapes = EXAMPLES[name]

    def compile_last(source):
        program = parse(source)
        return program[list(program.functions)[-1]].compile(*shapes)

    refusals = [
        is_refused(compile_last, source)
        for source in mistaken([text], SOURCES // len(EXAMPLES), seed=8)
    ]
    assert sum(refusals) > len(refusals) // 2


def test_remainders_and_quotients_are_those_of_c():
    a = np.array([5.5, -5.5, 7, -7, 2], np.float32)
    text = "def f(float(N) A) -> (O) { O(i) = fmod(A(i), 3) + (2 - N) / 2 + (2 - N) % 2 }"
    assert (parse(text).f(a) == np.fmod(a, 3) - 2).all()


def test_truths_are_counted():
    a = np.array([3, 1, 2, 2], np.float32)
    text = "def f(float(N) A) -> (O, P) { O(i) +=! (A(i) > A(j)) P max=! (A(i) > 2.5) }"
    counts, largest = parse(text.replace(") P", ") where j in 0:N P")).f(a)
    assert counts.tolist() == [3, 0, 1, 1] and largest


def test_what_is_accumulated_to_is_named():
    with pytest.raises(TileirError, match="initial is a dict"):
        parse("def f(float(N) A) -> (O) { O(i) += A(i) }").f(np.ones(3, np.float32), initial=3)
