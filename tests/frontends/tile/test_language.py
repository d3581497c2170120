"""Tile: contractions of every kind, conditions, definitions, and what is refused."""

import numpy as np
import pytest

from tileir import TileirError
from tileir.builder import F16, F32
from tileir.frontends.tile import CompilationError, parse

from ..budget import SOURCES
from ..malformed import is_refused, mistaken

RNG = np.random.default_rng(5)


def run(text, *arrays, on="interpreter", **options):
    return parse(text, "here.tile")(*arrays, on=on, **options)


def ints(*shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
TURNED = "function (A[I, K], B[J, K]) -> (C) { C[i, j: I, J] = +(A[i, k] * B[j, k]); }"
CONVOLVE = """function (I[N, H, W, C], K[R, S, C, D]) -> (O) {
  X[n, x, y, d: N, H, W, D] = +(I[n, x + i - R/2, y + j - S/2, c] * K[i, j, c, d]);
  O = (X < 0 ? 0.0 : X);
}"""
POOL = """function (I[N, X, C]) -> (O) {
  O[n, x, c: N, (X + 1) / 2, C] = >(I[n, 2*x + i, c]), i < 2;
}"""
SOFTMAX = """function (I[M, N]) -> (O) {
  Top[m, 0: M, 1] = >(I[m, n]);
  E = exp(I - Top);
  Sum[m, 0: M, 1] = +(E[m, n]);
  O = E / Sum;
}"""
EXAMPLES = [MATMUL, TURNED, CONVOLVE, POOL, SOFTMAX]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_listing_2_of_the_paper(on):
    a, b = ints(20, 40), ints(24, 40)
    assert (run(TURNED, a, b, on=on) == a @ b.T).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_matmuls_in_half_precision(on):
    a, b = ints(33, 18, dtype=np.float16), ints(18, 17, dtype=np.float16)
    result = run(MATMUL, a, b, on=on)
    assert result.dtype == np.float16 and (result == a @ b).all()


def reference_convolution(image, weights):
    pad = [(0, 0), (1, 1), (1, 1), (0, 0)]
    wide = np.pad(image, pad)
    _, h, w, _ = image.shape
    windows = np.stack([wide[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], 3)
    return np.einsum("nxytc,tcd->nxyd", windows, weights.reshape(9, *weights.shape[2:]))


@pytest.mark.slow
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_a_padded_convolution_with_a_definition_is_one_kernel(on):
    image, weights = ints(2, 7, 5, 8), ints(3, 3, 8, 9)
    compiled = parse(CONVOLVE).compile(image, weights)
    assert len(compiled.program.launches) == 1
    counts = compiled(image, weights, on=on)
    assert (counts == np.maximum(reference_convolution(image, weights), 0)).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_softmax(on):
    x = ints(13, 37)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(run(SOFTMAX, x, on=on), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_every_aggregation():
    x = ints(5, 7)
    text = """function (I[M, N]) -> (S, P, G, L, T) {
      S[m: M] = +(I[m, n]); P[n: N] = *(I[m, n]); G[] = >(I[m, n]); L[m: M] = <(I[m, n]);
      T[n, m: N, M] = =(I[m, n]);
    }"""
    s, p, g, low, t = run(text, x)
    assert (s == x.sum(1)).all() and (p == x.prod(0)).all() and (low == x.min(1)).all()
    assert g.shape == () and g == x.max() and (t == x.T).all()


def test_elements_that_no_point_has_are_zero_or_the_default():
    x, d = -1 - np.abs(ints(6)), ints(13)
    text = """function (I[N], D[M]) -> (G, E, F, P) {
      G[2*n: M] = >(I[n]); E[2*n: M] = >(I[n]) default D; F[2*n + 1: M] = =(I[n]) default D;
      P[n: M] = *(I[n]), n < 3;
    }"""
    g, e, f, p = run(text, x, d)
    at = np.zeros(13, bool)
    at[0:12:2] = True
    assert (g[at] == x).all() and (g[~at] == 0).all()
    assert (e[at] == x).all() and (e[~at] == d[~at]).all()
    odd = np.roll(at, 1)
    assert (f[odd] == x).all() and (f[~odd] == d[~odd]).all()
    assert (p[:3] == x[:3]).all() and (p[3:] == 0).all()


@pytest.mark.parametrize("word", ["+", "*", ">", "<", "="])
def test_the_default_is_for_elements_without_points_whatever_the_others_are(word):
    """Zeros and ones, too, are what points have."""
    d = ints(13)
    text = f"function (I[N], D[M]) -> (G) {{ G[2*n: M] = {word}(I[n]) default D; }}"
    for x in (np.zeros(6), np.ones(6), np.arange(-3, 3)):
        expected = d.copy()
        expected[0:12:2] = x
        assert (run(text, x.astype(np.float32), d) == expected).all()


def test_pooling_takes_what_there_is():
    x = -1 - np.abs(ints(2, 7, 3))
    wide = np.concatenate([x, np.full((2, 1, 3), -np.inf, np.float32)], 1)
    assert (run(POOL, x) == wide.reshape(2, 4, 2, 3).max(2)).all()


def test_what_no_point_has_is_a_number_with_a_type():
    text = """function (A[M, N]) -> (T, U) {
      S[] = +(A[0, 0] * A[0, 1]), i < 1, j < 1; T = (S < S ? 1.0 : S);
      P[i: M] = =(A[i, 1]); U = (P == P ? P : 2.0);
    }"""
    t, u = run(text, ints(2, 1))
    assert t == 0 and t.dtype == np.float32 and (u == 0).all()


def test_a_condition_on_two_indices_gives_a_scan():
    x = ints(50)
    text = "function (I[N]) -> (O) { O[i: N] = +(I[k]), i - k < N; }"
    assert (run(text, x) == x.cumsum()).all()


def test_arg_max_by_a_choice():
    x = ints(9, 21) + np.linspace(0, 0.5, 21, dtype=np.float32)
    text = """function (I[M, N], One[]) -> (O) {
      Top[m: M] = >(I[m, n]);
      Shape[n: N] = =(One[]);
      Where = index(Shape, 0);
      O[m: M] = >(I[m, n] == Top[m] ? Where[n]);
    }"""
    result = run(text, x, 1.0)
    assert result.dtype == np.int32 and (result == x.argmax(1)).all()


def test_a_tensor_is_reshaped_through_a_flat_one():
    x = ints(4, 3)
    text = """function (I) -> (O, R) {
      F[3*j + k: 4 * 3] = >(I[j, k]), k < 3; O[p, q: 6, 2] = >(F[2*p + q]), q < 2;
      R = reshape(I, 2, 6);
    }"""
    o, r = run(text, x)
    assert (o == x.reshape(6, 2)).all() and (r == x.reshape(2, 6)).all()


def test_rows_are_gathered():
    x, rows = ints(9, 4), np.array([[3, 0], [8, 3]], np.int32)
    assert (run("function (T, R) -> (O) { O = gather(T, R); }", x, rows) == x[rows]).all()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A + B * 2", lambda a, b: a + b * 2), ("-A - -B", lambda a, b: -a + b),
        ("(A < B ? A : B)", np.minimum), ("max(A, B) - min(A, B)", lambda a, b: abs(a - b)),
        ("abs(A) / 2", lambda a, b: abs(a) / 2),
        ("A == B || A > 2", lambda a, b: (a == b) | (a > 2)),
        ("!(A != B) && B <= 1", lambda a, b: (a == b) & (b <= 1)),
        ("exp(A) + tanh(B)", lambda a, b: np.exp(a) + np.tanh(b)),
        ("sigmoid(A)", lambda a, b: 1 / (1 + np.exp(-a))), ("pow(2.0, A)", lambda a, b: 2.0**a),
        ("floor(A / 4) + ceil(B / 4)", lambda a, b: np.floor(a / 4) + np.ceil(b / 4)),
        ("as_int(A, 32) % 3", lambda a, b: np.fmod(a.astype(np.int32), 3)),
        ("as_int(A, 32) / 2 << 1", lambda a, b: np.trunc(a / 2).astype(np.int32) << 1),
        ("(as_int(A, 32) & 6) | 1", lambda a, b: (a.astype(np.int32) & 6) | 1),
        ("~as_int(B, 16)", lambda a, b: ~b.astype(np.int16)), ("as_bool(A)", lambda a, b: a != 0),
        ("sqrt(A * A) * 1e-1 + .5", lambda a, b: abs(a) * 0.1 + 0.5),
        ("index(A, 1) + A", lambda a, b: a + np.arange(6)), ("A * M + N", lambda a, b: a * 5 + 6),
    ],
)  # fmt: skip
def test_functions_and_operators(text, value):
    a, b = ints(5, 6), ints(6)
    result = run(f"function (A[M, N], B[N]) -> (O) {{ O = {text}; }}", a, b)
    np.testing.assert_allclose(result, value(a, b), rtol=1e-5)


def test_half_precision_is_stored_and_computed_wider():
    a = np.full((4,), 300.0, np.float16)
    result = run("function (A) -> (O) { O = A * A / 300; }", a)
    assert result.dtype == np.float16 and (result == 300).all()


def test_shapes_alone_are_enough_to_compile():
    compiled = parse(MATMUL).compile((F16, (64, 64)), (F32, (64, 64)))
    assert [t.name for t in compiled.inputs] == ["A", "B"]
    assert compiled.module.kernel("k0_C").kernel


# Mistakes ----------------------------------------------------------------------------------------

MISTAKES = [
    ("function (A[N]) -> (O) {\n  O = A\n}", "TIR1301", 3),
    ("function (A[N]) -> (O) {\n  O = $A;\n}", "TIR1301", 2),
    ("function (A[N], A[N]) -> (O) { O = A; }", "TIR1302", 1),
    ("function (A[N]) -> (O) {\n O = A;\n O = A;\n}", "TIR1302", 3),
    ("function (A[N]) -> (O) {\n P = A;\n}", "TIR1302", 1),
    ("function (A[N]) -> (A) {\n P = A;\n}", "TIR1302", 1),
    ("function (A[N]) -> (O) {\n O = B;\n}", "TIR1302", 2),
    ("function (A[N]) -> (O) {\n O = sine(A);\n}", "TIR1302", 2),
    ("function (A[N]) -> (O) {\n O = exp(A, A);\n}", "TIR1303", 2),
    ("function (A[N, M]) -> (O) {\n O = A;\n}", "TIR1303", 1),
    ("function (A[N]) -> (O) {\n O[i: N] = +(A[i, j]);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O[i: N, N] = +(A[i]);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O[i] = +(A[i]);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O[i: N - 9] = +(A[i]);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O[i: N] = +(A[i * i]);\n}", "TIR1304", 2),
    ("function (A[N]) -> (O) {\n O[i: i] = +(A[i]);\n}", "TIR1304", 2),
    ("function (A[N]) -> (O) {\n O[i: N] = +(A[i / 2]);\n}", "TIR1304", 2),
    ("function (A[N]) -> (O) {\n O[i: N / 0] = +(A[i]);\n}", "TIR1304", 2),
    ("function (A[N]) -> (O) {\n O[i: N] = +(A[i]), j < A;\n}", "TIR1304", 2),
    ("function (A[N]) -> (O) {\n O[i: N] = +(A[i]), k - l < 3;\n}", "TIR0811", 2),
    ("function (A[N]) -> (O) {\n O[] = =(A[i]);\n}", "TIR0812", 2),
    ("function (A[N]) -> (O) {\n O = A | 1;\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O = index(A, 2);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O = as_int(A, 13);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O = reshape(A, 3);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O[i: 99999 * 99999] = +(A[i]);\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O = A + 99999999999;\n}", "TIR1303", 2),
    ("function (A[N]) -> (O) {\n O = " + "- " * 3000 + "A;\n}", "TIR1301", 2),
]


@pytest.mark.parametrize(("text", "code", "line"), MISTAKES)
def test_mistakes_are_refused_at_their_line(text, code, line):
    with pytest.raises(TileirError) as caught:
        parse(text, "here.tile").compile((F32, (8,)))
    assert isinstance(caught.value, CompilationError)
    assert (caught.value.code, caught.value.line) == (code, line), caught.value
    assert caught.value.location.file == "here.tile"


def test_arguments_that_do_not_fit_are_refused():
    compiled = parse(MATMUL).compile((F32, (8, 8)), (F32, (8, 8)))
    for arrays in ([ints(8, 8)], [ints(8, 8), ints(8, 9)], [ints(8, 8), ints(8, 8) > 0]):
        with pytest.raises(TileirError) as caught:
            compiled(*arrays)
        assert caught.value.code == "TIR0813"
    with pytest.raises(TileirError) as caught:
        run(MATMUL, ints(8, 7), ints(8, 7))
    assert caught.value.code == "TIR1303"
    with pytest.raises(TileirError):
        run(MATMUL, "A", ints(8, 7))


def shapes_for(text):
    """Small shapes for the parameters of an example."""
    ranks = {MATMUL: (2, 2), TURNED: (2, 2), CONVOLVE: (4, 4), POOL: (3,), SOFTMAX: (2,)}
    return [(F32, (3,) * rank) for rank in ranks[text]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", EXAMPLES, ids=["matmul", "turned", "conv", "pool", "softmax"])
def test_malformed_sources_have_clear_errors(text):
    shapes = shapes_for(text)
    refusals = [
        is_refused(lambda source: parse(source).compile(*shapes), source)
        for source in mistaken([text], SOURCES // len(EXAMPLES), seed=7)
    ]
    assert sum(refusals) > len(refusals) // 2


def test_truths_are_counted():
    a, b = ints(9, 6) > 0, ints(6, 5) > 0
    counts = run("function (A[N, K]) -> (O) { O[i: N] = +(A[i, k]); }", a)
    assert counts.dtype == np.int32 and (counts == a.sum(1)).all()
    product = run(MATMUL.replace("C", "O"), a, b)
    assert (product == a.astype(int) @ b).all()
    for sign, expected in (("<", a.min(1)), (">", a.max(1))):
        result = run(f"function (A[N, K]) -> (O) {{ O[i: N] = {sign}(A[i, k]); }}", a)
        assert result.dtype == bool and (result == expected).all()
    assert (run("function (A, B) -> (O) { O = max(A, B); }", a, a[0]) == (a | a[0])).all()


def test_one_array_may_be_given_twice():
    a = ints(8, 8)
    assert (run(MATMUL, a, a) == a @ a).all()
    assert (run("function (A, B) -> (O) { O = A + B; }", a, a[::-1]) == a + a[::-1]).all()


def test_remainders_of_floats_are_those_of_c():
    a = np.array([5.5, -5.5, 7, -7], np.float32)
    for divisor in (2, -3.5):
        result = run("function (A, B) -> (O) { O = A % B; }", a, divisor)
        assert (result == np.fmod(a, np.float32(divisor))).all()


def test_numbers_made_of_sizes_are_known():
    a = ints(3, 4, 5)
    result = run("function (A[X, Y, Z]) -> (O) { O = reshape(A, X * Y / 2, Z - -Z); }", a)
    assert (result == a.reshape(6, 10)).all()
    shifted = run("function (A[N]) -> (O) { O[i: N] = +(A[(1 - N) / 2 + i]); }", np.arange(6))
    assert shifted.tolist() == [0, 0, 0, 1, 2, 3]  # quotients are rounded to zero


def test_numbers_that_nothing_holds_are_refused():
    with pytest.raises(TileirError, match="a reduction over") as caught:
        run("function (A[N]) -> (O) { O[i: N] = +(A[i]), j < 99999999999999999999; }", ints(8))
    assert caught.value.line == 1
    with pytest.raises(TileirError, match="A is i32, not 1000000000000"):
        run("function (A) -> (O) { O = A + 1; }", 10**12)
    for pair in ((F32, 3), (F32, (-1,)), (F32, (2.5,)), (F32,), (3, (3,)), ("float32", (3,))):
        with pytest.raises(TileirError, match="an element type and a shape"):
            parse("function (A) -> (O) { O = A; }").compile(pair)
    scalar = run("function (A) -> (O) { O = A + 1; }", np.float32(3))
    assert scalar == 4


@pytest.mark.parametrize("number", [0, 1, (1 << 31) - 2, (1 << 31) - 1, 1 << 31, (1 << 31) + 1])
def test_literals_are_integers_of_32_bits(number):
    source = f"function (A[M]) -> (O) {{ O = A * 0 + {number}; }}"
    a = np.ones(3, np.int32)
    if number < 1 << 31:
        assert run(source, a).tolist() == [number] * 3
        return
    with pytest.raises(CompilationError, match=f"{number} is no 32-bit integer"):
        run(source, a)
