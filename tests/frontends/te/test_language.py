"""Tensor expressions: what is computed, and schedules."""

import numpy as np
import pytest

from tileir.frontends import te

RNG = np.random.default_rng(7)


def ints(*shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


def run(outputs, inputs, *arrays, on="interpreter"):
    """Unscheduled."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return te.build(te.create_schedule(outputs), [*inputs, *outputs])(*arrays, on=on)


def product(m, n, k, dtype="float16", turned=True):
    a = te.placeholder((m, k), dtype, "A")
    b = te.placeholder((n, k) if turned else (k, n), dtype, "B")
    t = te.reduce_axis((0, k), "t")

    def element(i, j):
        right = b[j, t] if turned else b[t, j]
        return te.sum(a[i, t].astype("float32") * right.astype("float32"), axis=t)

    return a, b, te.compute((m, n), element, "C")


def convolution(size, channels, outputs, taps=3, dtype="float32"):
    """Padded: a stage that pads, and one that convolves."""
    image = te.placeholder((2, size, size, channels), dtype, "I")
    weights = te.placeholder((taps, taps, channels, outputs), dtype, "W")
    pad = taps // 2

    def pad_image(n, y, x, c):
        inside = te.all(y >= pad, y - pad < size, x >= pad, x - pad < size)
        return te.if_then_else(inside, image[n, y - pad, x - pad, c], 0.0)

    wide = te.compute((2, size + 2 * pad, size + 2 * pad, channels), pad_image, "wide")
    r, s = te.reduce_axis((0, taps), "r"), te.reduce_axis((0, taps), "s")
    c = te.reduce_axis((0, channels), "c")
    out = te.compute(
        (2, size, size, outputs),
        lambda n, y, x, o: te.sum(wide[n, y + r, x + s, c] * weights[r, s, c, o], axis=[r, s, c]),
        "O",
    )
    return image, weights, out


def reference_convolution(image, weights):
    wide = np.pad(image, [(0, 0), (1, 1), (1, 1), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (1, 2))
    return np.einsum("nyxcrs,rsco->nyxo", windows, weights)


def blur(height, width):
    """Halide's example, with its indices shifted to begin at 0."""
    source = te.placeholder((height + 2, width + 2), "float32", "input")
    horizontal = te.compute(
        (height + 2, width),
        lambda y, x: (source[y, x] + source[y, x + 1] + source[y, x + 2]) / 3,
        "blur_x",
    )
    down = te.compute(
        (height, width),
        lambda y, x: (horizontal[y, x] + horizontal[y + 1, x] + horizontal[y + 2, x]) / 3,
        "blur_y",
    )
    return source, horizontal, down


def reference_blur(image):
    horizontal = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / np.float32(3)
    return (horizontal[:-2] + horizontal[1:-1] + horizontal[2:]) / np.float32(3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_listing_2_of_the_paper(on):
    a, b, c = product(20, 24, 40)
    x, y = ints(20, 40, dtype=np.float16), ints(24, 40, dtype=np.float16)
    assert (run(c, [a, b], x, y, on=on) == x @ y.T).all()


@pytest.mark.slow
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_a_padded_convolution_is_one_kernel(on):
    image, weights, out = convolution(7, 8, 9)
    x, w = ints(2, 7, 7, 8), ints(3, 3, 8, 9)
    built = te.build(te.create_schedule(out), [image, weights, out])
    assert len(built.program.launches) == 1
    assert "dot" in [op.mnemonic for op in built.module.kernel("k0_O").ops]
    assert (built(x, w, on=on) == reference_convolution(x, w)).all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_halides_blur_with_its_schedule(on):
    source, horizontal, down = blur(37, 150)
    s = te.create_schedule(down)
    y, x = down.op.axis
    yo, xo, _, xi = s[down].tile(y, x, 8, 64)
    s[down].vectorize(xi)
    s[down].parallel(yo)
    s[horizontal].compute_at(s[down], xo)
    s[horizontal].vectorize(horizontal.op.axis[1])
    built = te.build(s, [source, down])
    assert [launch.grid for launch in built.program.launches] == [5 * 3]
    image = RNG.standard_normal((39, 152)).astype(np.float32)
    np.testing.assert_allclose(built(image, on=on), reference_blur(image), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["interpreter", "simt", "cpu"])
def test_softmax(on):
    x = te.placeholder((13, 37), "float32", "X")
    k, l = te.reduce_axis((0, 37), "k"), te.reduce_axis((0, 37), "l")  # noqa: E741
    top = te.compute((13,), lambda i: te.max(x[i, k], axis=k), "top")
    e = te.compute((13, 37), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((13,), lambda i: te.sum(e[i, l], axis=l), "total")
    out = te.compute((13, 37), lambda i, j: e[i, j] / total[i], "out")
    data = ints(13, 37)
    expected = np.exp(data - data.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(run(out, [x], data, on=on), expected, rtol=1e-5)
    s = te.create_schedule(out)
    i, j = out.op.axis
    io, _, _, _ = s[out].tile(i, j, 4, 64)
    s[e].compute_inline()
    for stage in (top, total):
        s[stage].compute_at(s[out], io)
    built = te.build(s, [x, out])
    assert len(built.program.launches) == 1
    np.testing.assert_allclose(built(data, on=on), expected, rtol=1e-5)


# Schedules ----------------------------------------------------------------------------------------


def kernel_ops(built, name):
    return list(built.module.kernel(name).ops)


def test_tiles_are_what_splits_leave_inside():
    a, b, c = product(100, 120, 90)
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, jo, _, _ = s[c].tile(i, j, 32, 64)
    ko, _ = s[c].split(c.op.reduce_axis[0], factor=16)
    s[c].bind(io, te.thread_axis("blockIdx.y"))
    s[c].bind(jo, te.thread_axis("blockIdx.x"))
    s[c].unroll(ko)
    s[c].pragma(io, "num_warps", 2)
    s[c].pragma(io, "stages", 2)
    built = te.build(s, [a, b, c])
    (dot,) = (op for op in kernel_ops(built, "k0_C") if op.mnemonic == "dot")
    assert (dot.a.type.shape, dot.b.type.shape) == ((32, 16), (16, 64))
    assert built.module.kernel("k0_C").attributes["num_warps"] == 2
    assert built.program.launches[0].grid == 4 * 2
    x, y = ints(100, 90, dtype=np.float16), ints(120, 90, dtype=np.float16)
    assert (built(x, y, on="interpreter") == x @ y.T).all()


@pytest.mark.parametrize("order", ["ij", "ji"])
@pytest.mark.parametrize("parts", [{"factor": 24}, {"nparts": 3}])
def test_reordered_and_partial_tiles(order, parts):
    a, b, c = product(50, 70, 30, "float32")
    s = te.create_schedule(c)
    axes = dict(zip("ij", c.op.axis, strict=True))
    outer = {name: s[c].split(axes[name], **parts)[0] for name in order}
    s[c].reorder(*outer.values())
    x, y = ints(50, 30), ints(70, 30)
    assert (te.build(s, [a, b, c])(x, y, on="interpreter") == x @ y.T).all()


@pytest.mark.parametrize("extent", [1, 7, 50, 64])
def test_parts_of_a_split_have_the_extents_that_are_asked_for(extent):
    for count in (1, 3, 7, 8, 50, 100):
        a = te.placeholder((extent,), "float32", "A")
        c = te.compute((extent,), lambda i, a=a: a[i] + 1, "C")
        by_extent = te.create_schedule(c)[c].split(c.op.axis[0], factor=count)
        by_parts = te.create_schedule(c)[c].split(c.op.axis[0], nparts=count)
        for outer, inner in (by_extent, by_parts):
            size = len(inner.dom)
            assert len(outer.dom) == -(-extent // size)
        assert len(by_extent[1].dom) == min(count, extent)
        assert len(by_parts[1].dom) == -(-extent // min(count, extent))
        assert len(by_parts[0].dom) <= count


def test_tiles_have_outer_axes_before_inner_ones_in_their_order():
    *_, c = product(100, 120, 90)
    s = te.create_schedule(c.op)
    parts = s[c].tile(*c.op.axis, 32, 64)
    assert [leaf.name for leaf in s[c].leaves[:4]] == [p.name for p in parts]
    assert [len(p.dom) for p in parts] == [4, 2, 32, 64]


@pytest.mark.parametrize("which", [0, 1])
def test_a_split_axis_of_a_reduction_is_walked_innermost(which):
    a = te.placeholder((6, 40, 50), "float32", "A")
    axes = te.reduce_axis((0, 40), "y"), te.reduce_axis((0, 50), "x")
    c = te.compute((6,), lambda i: te.sum(a[i, axes[0], axes[1]], axis=list(axes)), "C")
    s = te.create_schedule(c)
    own = c.op.reduce_axis[which]
    s[c].split(own, factor=8)
    spans = [(x.index, x.dom) for x in c.op.reduce_axis]
    walked = s[c].walk(spans)
    assert walked.ranges[-1][0] is own.index and len(walked.ranges) == 2
    x = ints(6, 40, 50)
    assert (te.build(s, [a, c])(x, on="interpreter") == x.sum((1, 2))).all()


def test_fused_axes_are_split_as_one():
    x = te.placeholder((7, 9, 11), "float32", "X")
    out = te.compute((7, 9, 11), lambda i, j, k: x[i, j, k] * 2 + j, "out")
    s = te.create_schedule(out)
    fused = s[out].fuse(*out.op.axis)
    block, lane = s[out].split(fused, 256)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].vectorize(lane)
    built = te.build(s, [x, out])
    assert built.program.launches[0].grid == 3
    data = ints(7, 9, 11)
    assert (built(data, on="interpreter") == data * 2 + np.arange(9)[:, None]).all()


def test_fused_blocks_keep_their_tiles():
    a, b, c = product(50, 70, 30, "float32")
    s = te.create_schedule(c)
    io, jo, _, _ = s[c].tile(*c.op.axis, 16, 32)
    s[c].bind(s[c].fuse(io, jo), te.thread_axis("blockIdx.x"))
    x, y = ints(50, 30), ints(70, 30)
    assert (te.build(s, [a, b, c])(x, y, on="interpreter") == x @ y.T).all()


def test_roots_are_written_and_others_inlined():
    x = te.placeholder((40,), "float32", "X")
    one = te.compute((40,), lambda i: x[i] + 1, "one")
    two = te.compute((40,), lambda i: one[i] * one[39 - i], "two")
    data = ints(40)
    expected = (data + 1) * (data + 1)[::-1]
    for how, kernels in (("auto", 1), ("root", 2), ("inline", 1)):
        s = te.create_schedule(two)
        if how != "auto":
            getattr(s[one], f"compute_{how}")()
        built = te.build(s, [x, two])
        assert len(built.program.launches) == kernels
        assert (built(data, on="interpreter") == expected).all()


def test_several_outputs_come_back_in_order():
    x = te.placeholder((40,), "float32", "X")
    one = te.compute((40,), lambda i: x[i] + 1, "one")
    two = te.compute((40,), lambda i: one[i] * 2, "two")
    data = ints(40)
    second, first = te.build(te.create_schedule([one, two]), [x, two, one])(data, on="interpreter")
    assert (first == data + 1).all() and (second == first * 2).all()


# Expressions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (lambda x, i, j: x[i, j] + 1.5 - i, lambda x, i, j: x + 1.5 - i),
        (lambda x, i, j: 2 * x[i, j] / 4 + 3 / (x[i, j] + 9), lambda x, i, j: x / 2 + 3 / (x + 9)),
        (lambda x, i, j: -x[j % 5, i // 2], lambda x, i, j: -x[j % 5, i // 2]),
        (lambda x, i, j: x[4 - i, (j * 2) % 6], lambda x, i, j: x[4 - i, (j * 2) % 6]),
        (lambda x, i, j: te.if_then_else(x[i, j] > 0, x[i, j], 0.0),
         lambda x, i, j: np.maximum(x, 0)),
        (lambda x, i, j: te.if_then_else(te.any(i == j, i > 3), 1.0, x[i, j]),
         lambda x, i, j: np.where((i == j) | (i > 3), 1, x)),
        (lambda x, i, j: te.if_then_else(te.all(i >= 1, j != 2), x[i - 1, j], 7.0),
         lambda x, i, j: np.where((i >= 1) & (j != 2), np.roll(x, 1, 0), 7)),
        (lambda x, i, j: te.if_then_else(i >= j, 1.0, 0.0), lambda x, i, j: i >= j),
        (lambda x, i, j: te.if_then_else(x[i, j] > 0, 1, -1),
         lambda x, i, j: np.where(x > 0, 1, -1)),
        (lambda x, i, j: te.max(x[i, j], 0.0) + te.min(x[i, j], i, j),
         lambda x, i, j: np.maximum(x, 0) + np.minimum(np.minimum(x, i), j)),
        (lambda x, i, j: te.exp(x[i, j]) * te.tanh(x[i, j]) + te.sqrt(abs(x[i, j])),
         lambda x, i, j: np.exp(x) * np.tanh(x) + np.sqrt(abs(x))),
        (lambda x, i, j: te.floor(x[i, j] / 2) + te.power(2.0, i),
         lambda x, i, j: np.floor(x / 2) + 2.0**i),
        (lambda x, i, j: x[i, j].astype("int32") % 3, lambda x, i, j: x.astype(int) % 3),
        (lambda x, i, j: te.truncmod(x[i, j].astype("int32"), 3),
         lambda x, i, j: np.fmod(x.astype(int), 3)),
        (lambda x, i, j: te.truncdiv(x[i, j].astype("int32"), 3) + x[i, j].astype("int32") // 3,
         lambda x, i, j: np.trunc(x / 3) + np.floor(x / 3)),
        (lambda x, i, j: (x[i, j] <= 1).astype("float32"), lambda x, i, j: x <= 1),
        (lambda x, i, j: te.sigmoid(x[i, j] ** 2), lambda x, i, j: 1 / (1 + np.exp(-(x**2)))),
    ],
)  # fmt: skip
def test_expressions(element, expected):
    x = te.placeholder((5, 6), "float32", "X")
    data = ints(5, 6)
    result = run(te.compute((5, 6), lambda i, j: element(x, i, j), "out"), [x], data)
    i, j = np.mgrid[:5, :6]
    np.testing.assert_allclose(result, expected(data, i, j), rtol=1e-5)


def test_reductions_with_conditions_and_of_everything():
    x = te.placeholder((9, 11), "float32", "X")
    r, c = te.reduce_axis((0, 9), "r"), te.reduce_axis((2, 11), "c")
    data = ints(9, 11)
    total = te.compute((), lambda: te.sum(x[r, c], axis=[r, c]), "total")
    assert run(total, [x], data) == data[:, 2:].sum()
    low = te.compute((11,), lambda j: te.sum(x[r, j], axis=r, where=r <= j), "low")
    assert (run(low, [x], data) == np.triu(data).sum(0)).all()
    most = te.compute((9,), lambda i: te.prod(x[i, c], axis=c) + te.min(x[i, c], axis=c), "most")
    assert (run(most, [x], data) == data[:, 2:].prod(1) + data[:, 2:].min(1)).all()


def test_numbers_are_given_when_a_program_runs():
    x, alpha = te.placeholder((8,), "float32", "X"), te.var("alpha", "float32")
    out = te.compute((8,), lambda *at: x(*at) * alpha + 1, "out")
    assert (
        run(out, [x, alpha], np.arange(8, dtype=np.float32), 2.5) == np.arange(8) * 2.5 + 1
    ).all()


def test_a_stage_is_computed_where_its_reader_is():
    x = te.placeholder((12,), "float32", "X")
    y = te.compute((12,), lambda i: x[i] * 2, "Y")
    z = te.compute((10,), lambda i: y[i] + y[i + 2], "Z")
    o = te.compute((10,), lambda i: z[i] + 1, "O")
    s = te.create_schedule(o)
    outer, _ = s[o].split(o.op.axis[0], 4)
    s[z].compute_at(s[o], outer)
    s[y].compute_at(s[z], z.op.axis[0])
    built, array = te.build(s, [x, o]), np.arange(12, dtype=np.float32)
    assert [launch.kernel for launch in built.program.launches] == ["k0_O"]
    assert (built(array) == array[:-2] * 4 + 5).all()


def test_numbers_of_numpy_are_numbers():
    x = te.placeholder((4,), "float32", "X")
    half = np.float32(0.5)
    o = te.compute((np.int64(4),), lambda i: half * 4 * x[i] + half + np.int32(1), "O")
    result = te.build(te.create_schedule(o), [x, o])(np.arange(4, dtype=np.float32))
    assert (result == np.arange(4) * 2 + 1.5).all()
