"""Generated comprehensions against loops: ranges by trying every value, sums point by point."""

import itertools

import numpy as np
from hypothesis import strategies as st

from tileir.builder.contraction import AffineIndex, Index, affine
from tileir.frontends.tensor_comprehensions import CompilationError, parse

from ..budget import over

JOIN = {"+": np.add, "*": np.multiply, "max": np.maximum, "min": np.minimum}
NEUTRAL = {"+": 0.0, "*": 1.0, "max": -np.inf, "min": np.inf}
TRIED = range(-30, 60)
"""Values of an index among which its range is looked for."""


def value(expression, point):
    return expression.constant + sum(point[i] * n for i, n in expression.terms)


def ranges(indices, stated, uses):
    """Range inference by its definition: in iterations, every value for which a position with one
    unknown index is inside for all values of the others. None where an iteration finds nothing."""
    by_index = {i: list(r) for i, r in stated.items()}
    while any(i not in by_index for i in indices):
        allowed = {}
        for position, extent in uses:
            unknown = [i for i in position.indices if i not in by_index]
            if len(unknown) != 1:
                continue
            (index,) = unknown
            others = [i for i in position.indices if i in by_index]
            points = list(itertools.product(*(by_index[i] for i in others)))
            inside = [
                v for v in TRIED
                if points and all(
                    0 <= value(position, {**dict(zip(others, p, strict=True)), index: v}) < extent
                    for p in points
                )
            ]  # fmt: skip
            allowed[index] = [v for v in allowed.get(index, TRIED) if v in inside]
        if not allowed:
            return None
        by_index.update(allowed)
    return by_index


class Case:
    """A statement being drawn, over one or two tensors."""

    def __init__(self, draw):
        self.indices = [Index(n) for n in "ijk"[: draw(st.integers(1, 3))]]
        count = draw(st.integers(0, min(2, len(self.indices))))
        self.left = self.indices[:count]
        self.stated = {
            i: range(low := draw(st.integers(0, 2)), low + draw(st.integers(1, 4)))
            for i in self.indices
            if draw(st.integers(0, 3)) == 0
        }
        self.arrays, self.reads = {}, []
        for name in "AB"[: draw(st.integers(1, 2))]:
            rank = draw(st.integers(1, 2))
            shape = tuple(draw(st.integers(3, 9)) for _ in range(rank))
            self.arrays[name] = np.random.default_rng(rank).integers(-2, 3, shape) * 1.0
            self.reads.append((name, [self.position(draw) for _ in shape]))
        self.operator = draw(st.sampled_from(list(JOIN)))
        self.joined = draw(st.sampled_from("*+"))

    def position(self, draw):
        terms = [i * draw(st.sampled_from([0, 1, 1, 2, -1])) for i in self.indices]
        return sum(terms, AffineIndex()) + draw(st.integers(-1, 2))

    @property
    def uses(self):
        return [(p, n) for name, at in self.reads
                for p, n in zip(at, self.arrays[name].shape, strict=True)]  # fmt: skip

    @property
    def text(self):
        head = ", ".join(f"float({', '.join(f'{n}{d}' for d in range(a.ndim))}) {n}"
                         for n, a in self.arrays.items())  # fmt: skip
        right = f" {self.joined} ".join(
            f"{n}({', '.join(str(affine(p)) for p in at)})" for n, at in self.reads
        )
        clauses = ", ".join(f"{i} in {r.start}:{r.stop}" for i, r in self.stated.items())
        where = f" where {clauses}" if clauses else ""
        left = ", ".join(i.name for i in self.left)
        return f"def f({head}) -> (O) {{ O({left}) {self.operator}=! {right}{where} }}"

    def reference(self):
        """The output; None where no range or no array is allowed."""
        named = [i for i in self.indices if i in self.left or i in self.stated
                 or any(i in p.indices for p, _ in self.uses)]  # fmt: skip
        by_index = ranges(named, self.stated, self.uses)
        if by_index is None or any(v < 0 for i in self.left for v in by_index[i]):
            return None
        if all(by_index.values()) and not self.inside(by_index):
            return None
        out = np.zeros([max(by_index[i], default=-1) + 1 for i in self.left])
        if all(by_index[i] for i in self.left):
            out[np.ix_(*(by_index[i] for i in self.left))] = NEUTRAL[self.operator]
        for point in itertools.product(*by_index.values()):
            here = dict(zip(by_index, point, strict=True))
            values = [self.arrays[n][tuple(value(affine(p), here) for p in at)]
                      for n, at in self.reads]  # fmt: skip
            new = values[0] if len(values) == 1 else (
                values[0] * values[1] if self.joined == "*" else values[0] + values[1])  # fmt: skip
            place = tuple(here[i] for i in self.left)
            out[place] = JOIN[self.operator](out[place], new)
        return out

    def inside(self, by_index):
        return all(
            0 <= value(p, dict(zip(by_index, point, strict=True))) < n
            for p, n in self.uses for point in itertools.product(*by_index.values())
        )  # fmt: skip


@over(st.data())
def test_generated_statements(data):
    case = Case(data.draw)
    arrays = [a.astype(np.float32) for a in case.arrays.values()]
    expected = case.reference()
    if expected is None:
        try:
            parse(case.text).f(*arrays)
        except CompilationError as error:
            assert error.code in ("TIR1404", "TIR1406"), case.text
            return
        raise AssertionError(case.text)
    result = parse(case.text).f(*arrays, on="interpreter")
    np.testing.assert_allclose(result, expected, rtol=1e-4, err_msg=case.text)
