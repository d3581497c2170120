"""Contractions computed point by point in numpy, to compare kernels with."""

import numpy as np

from tileir.builder.contraction import (
    AffineBound,
    Apply,
    Index,
    Program,
    Read,
    Tensor,
    affine,
    contraction,
    dtype_of,
)

JOIN = {
    "sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum, "assign": np.add,
}  # fmt: skip
NEUTRAL = {"sum": 0.0, "product": 1.0, "max": -np.inf, "min": np.inf, "assign": 0.0}


def indices(names):
    """Indices by the letters of `names`."""
    return [Index(name) for name in names]


def times(*terms):
    """The terms, multiplied."""
    value, *rest = terms
    for term in rest:
        value = Apply("mul", (value, term))
    return value


def at(tensor, *positions, guards=()):
    """A read."""
    return Read(tensor, tuple(affine(p) for p in positions), tuple(guards))


def points_of(ranges):
    """Every point of a box: arrays by index."""
    axes = [np.arange(r.start, r.stop) for r in ranges.values()]
    meshes = np.meshgrid(*axes, indexing="ij") if axes else []
    return {i: p.ravel() for i, p in zip(ranges, meshes, strict=True)}


def values_of(expression, points):
    """Values of an affine expression at all points."""
    count = len(next(iter(points.values()))) if points else 1
    e = affine(expression)
    return e.constant + sum((points[i] * n for i, n in e.terms), np.zeros(count, np.int64))


def contract(shape, position, kind, values, ranges, where=(), empty=None):
    """`values(points)` joined by `kind` into an array of `shape`."""
    points = points_of(ranges)
    in_bounds = np.ones(len(next(iter(points.values()))) if points else 1, bool)
    for bound in where:
        value = values_of(bound.of, points)
        in_bounds &= (bound.low is None) | (value >= (bound.low or 0))
        in_bounds &= (bound.high is None) | (value < (bound.high or 0))
    places = [values_of(e, points) for e in position]
    for place, extent in zip(places, shape, strict=True):
        in_bounds &= (0 <= place) & (place < extent)
    kept = {i: p[in_bounds] for i, p in points.items()}
    out, seen = np.full((1, *shape), NEUTRAL[kind]), np.zeros((1, *shape), bool)
    target = (np.zeros(int(in_bounds.sum()), int), *(p[in_bounds] for p in places))
    terms = np.broadcast_to(np.asarray(values(kept), np.float64), (int(in_bounds.sum()),))
    JOIN[kind].at(out, target, terms)
    seen[target] = True
    return (out if empty is None else np.where(seen, out, empty))[0]


def term_of(arrays, reads):
    """What reads give, multiplied, 0 where a guard fails: for `contract`."""

    def values(points):
        product = 1.0
        for read in reads:
            places = tuple(values_of(p, points) for p in read.at)
            inside = np.ones(1, bool)
            for bound in read.guards:
                value = values_of(bound.of, points)
                inside = inside & (bound.low <= value) & (value < bound.high)
            clipped = tuple(
                np.clip(p, 0, n - 1) for p, n in zip(places, read.tensor.shape, strict=True)
            )
            data = arrays[read.tensor].astype(np.float64)[clipped]
            product = product * np.where(inside, data, 0.0)
        return product

    return values


def random_array(rng, tensor):
    """Small numbers that stay small when multiplied."""
    return rng.integers(-3, 4, tensor.shape).astype(dtype_of(tensor.element))


def check(
    out, position, kind, reads, ranges, where=(), empty=None, on="interpreter", dots_expected=None
):
    """A contraction of multiplied reads, run and compared; `dots_expected`: how many `dot`s it has.
    Gives the program."""
    rng = np.random.default_rng(0)
    position = [affine(p) for p in position]
    tensors = dict.fromkeys(read.tensor for read in reads)
    arrays = {t: random_array(rng, t) for t in tensors}
    stage = contraction(out, position, kind, times(*reads), ranges, where, empty)
    program = Program((stage,), (out,))
    expected = contract(out.shape, position, kind, term_of(arrays, reads), ranges, where, empty)
    result = program.run(arrays, on=on)[out].astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=1e-3)
    if dots_expected is not None:
        assert dots(program) == dots_expected
    return program


def dots(program):
    """Matmuls in the kernels of a program."""
    ops = (op for f in program.module.functions.values() for op in f.ops)
    return sum(op.mnemonic == "dot" for op in ops)


__all__ = [
    "AffineBound",
    "Index",
    "Program",
    "Read",
    "Tensor",
    "at",
    "check",
    "contract",
    "dots",
    "indices",
    "times",
]  # fmt: skip
