"""Tensor expressions and schedules that mean nothing."""

import inspect
import random

import pytest

from tileir import TileirError
from tileir.frontends import te

from ..budget import SOURCES
from .test_language import product


def build_with(change):
    """A build whose schedule `change` makes, of a matmul and its sum with 1."""
    a, b, c = product(16, 16, 16)
    d = te.compute((16, 16), lambda i, j: c[i, j] + 1, "D")
    s = te.create_schedule(d)
    change(s, c, d)
    return te.build(s, [a, b, d])


X = te.placeholder((8, 8), "float32", "X")
K = te.reduce_axis((0, 8), "k")
MISTAKES = [
    ("TIR1501", lambda: te.compute((8,), lambda i: 1 if X[i, i] > 0 else 2)),
    ("TIR1501", lambda: te.compute((8,), lambda i: i / 2)),
    ("TIR1501", lambda: te.compute((8,), lambda i: X + 1)),
    ("TIR1501", lambda: te.compute((8,), lambda i: X[i, "j"])),
    ("TIR1501", lambda: te.compute((8,), lambda i: X[i, 1 // (i - i)])),
    ("TIR1501", lambda: te.compute((8,), lambda i: X[i, 1 << 40])),
    ("TIR1501", lambda: te.compute((8,), lambda i: list(X[i, i]))),
    ("TIR1502", lambda: te.compute((8,), lambda i: X[i])),
    ("TIR1502", lambda: te.compute((8,), lambda i: X[i, X[i, i]])),
    ("TIR1502", lambda: te.compute((8,), lambda i, j: 1)),
    ("TIR1502", lambda: te.compute((8,), 3)),
    ("TIR1502", lambda: te.compute((8,), lambda i: (1, 2))),
    ("TIR1502", lambda: te.compute((1 << 20, 1 << 20), lambda i, j: 1)),
    ("TIR1502", lambda: te.placeholder((te.var("n"), 8))),
    ("TIR1502", lambda: te.placeholder((-1,))),
    ("TIR1502", lambda: te.placeholder((8,), "float13")),
    ("TIR1502", lambda: te.reduce_axis(8)),
    ("TIR1502", lambda: te.reduce_axis((0, 10**30))),
    ("TIR1503", lambda: te.compute((8,), lambda i: X[i, K])),
    ("TIR1503", lambda: te.compute((8,), lambda i: te.sum(X[i, i], axis=i))),
    ("TIR1503", lambda: te.compute((8,), lambda i: te.sum(X[i, K]))),
    ("TIR1503", lambda: te.compute((8,), lambda i: te.sum(X[i, K], axis=[K, K]))),
    ("TIR1503", lambda: te.compute((8,), lambda i: te.sum(X[i, K], axis=K, where=X[i, K] > 0))),
    ("TIR1501", lambda: te.compute((8,), lambda i: sum(X[i, i] for _ in range(3000)))),
    ("TIR1504", lambda: te.create_schedule(X)),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].pragma(d.op.axis[0], "stages", 10**12))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].pragma(d.op.axis[0], "num_warps", 64))),
    ("TIR1505", lambda: te.build(product(16, 16, 16)[2], [])),
    ("TIR1504", lambda: te.thread_axis("threadIdx.x")),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].split(c.op.axis[0], 4))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].split(d.op.axis[0]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].split(d.op.axis[0], 0))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].reorder(d.op.axis[0], d.op.axis[0]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].parallel(s[d].split(d.op.axis[0], 4)[1]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].bind(d.op.axis[0], "blockIdx.x"))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].fuse(d.op.axis[1], d.op.axis[0]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].compute_inline())),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[c].compute_at(d, d.op.axis[0]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[c].compute_at(s[d], c.op.axis[0]))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[d].pragma(d.op.axis[0], "warps", 4))),
    ("TIR1504", lambda: build_with(lambda s, c, d: s[X])),
    ("TIR1505", lambda: te.build(te.create_schedule(te.compute((8,), lambda i: X[i, i])), [])),
    ("TIR1505", lambda: te.build(te.create_schedule(te.compute((8,), lambda i: 1)), [X, X])),
    ("TIR1505", lambda: te.build(te.create_schedule(te.compute((8,), lambda i: 1)), X)),
]  # fmt: skip


@pytest.mark.parametrize(("code", "call"), MISTAKES)
def test_mistakes_are_refused_at_the_line_that_makes_them(code, call):
    with pytest.raises(te.TensorExpressionError) as caught:
        call()
    assert caught.value.code == code, caught.value
    lines, first = inspect.getsourcelines(call)
    assert caught.value.location.file.endswith("test_errors.py")
    if "build_with" not in "".join(lines):
        assert first <= caught.value.line < first + len(lines)


def test_malformed_programs_have_clear_errors():
    """Calls with arguments of every kind, right and wrong, in place of each other."""
    rng = random.Random(9)
    refused = 0
    for _ in range(SOURCES):
        try:
            _random_program(rng)
        except TileirError as error:
            refused += 1
            diagnostic = error.diagnostics[0]
            assert (
                diagnostic.code.startswith("TIR")
                and diagnostic.message
                and diagnostic.location is not None
            )
    assert SOURCES // 3 < refused < SOURCES


EXPRESSIONS = (te.PrimExpr, te.IterVar, te.Tensor, te.Var)


def _random_program(rng):
    a = te.placeholder((8, 8), rng.choice(["float32", "int32", "bool", "float16"]), "A")
    b = te.placeholder((8,), "float32", "B")
    k, l = te.reduce_axis((0, 8), "k"), te.reduce_axis((1, 5), "l")  # noqa: E741

    def element(*at):
        leaves = [*at, k, l, 0, 1, 2.5, a, b, True, None, "x", te.var("v", "float32")]

        def some(depth):
            pick = rng.randrange(12) if depth else 0
            if pick < 3:
                return rng.choice(leaves[: -2 if rng.random() < 0.8 else None])
            if pick < 6:
                tensor, count = rng.choice([(a, 2), (b, 1), (a, 1)])
                return tensor[tuple(some(0) for _ in range(count))]
            x, y = some(depth - 1), some(depth - 1)
            if not isinstance(x, EXPRESSIONS) and not isinstance(y, EXPRESSIONS):
                return x
            if pick == 6:
                return te.sum(x, axis=rng.choice([k, l, [k, l], k, at[0] if at else k]))
            if pick == 7:
                return te.if_then_else(te.all(x < y, y >= 0), x, y)
            if pick == 8:
                return te.exp(x) / y
            return rng.choice([lambda: x + y, lambda: x * y, lambda: x - y, lambda: x // y])()

        return some(3)

    def build_random():
        c = te.compute((8,) * rng.randrange(3), element, "C")
        s = te.create_schedule(c)
        axes = [*c.op.axis, *c.op.reduce_axis, k, 3]
        for _ in range(rng.randrange(4)):
            stage, axis = s[c], rng.choice(axes)
            match rng.randrange(5):
                case 0:
                    axes += stage.split(axis, rng.choice([1, 3, 4, 100, 0, None]))
                case 1:
                    axes += stage.tile(axis, rng.choice(axes), 2, 4)
                case 2:
                    axes.append(stage.fuse(axis, rng.choice(axes)))
                case 3:
                    stage.reorder(axis, rng.choice(axes))
                case 4:
                    stage.parallel(axis)
        return te.build(s, [a, b, c])

    return build_random()


def test_reductions_over_more_points_than_are_counted_are_refused_at_the_users_line():
    k, j = te.reduce_axis((0, 1 << 20)), te.reduce_axis((0, 1 << 20))
    c = te.compute((8,), lambda i: te.sum(X[i, 0], axis=[k, j]), 7)
    with pytest.raises(te.TensorExpressionError, match="a reduction over") as caught:
        te.build(te.create_schedule(c), [X, c])
    assert caught.value.location.file.endswith("test_errors.py")


def test_tensors_are_named_in_messages():
    for args, name in (
        ([X, X], "X is not an argument"),
        ([te.var("n"), "n"], "n is not an argument"),
    ):
        with pytest.raises(te.TensorExpressionError, match=name):
            te.build(te.create_schedule(te.compute((8,), lambda i: X[i, i])), args)
