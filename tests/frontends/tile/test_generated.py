"""Generated functions against numpy: contractions point by point, definitions as arrays."""

import numpy as np
from hypothesis import strategies as st

from tests.sizes import for_each
from tileir.builder.contraction import AffineBound, AffineIndex, Index, affine
from tileir.frontends.tile import parse

from ...builder.contraction.oracle import contract, values_of
from ..budget import over

AGGREGATIONS = {"+": "sum", "*": "product", ">": "max", "<": "min"}
BINARY = {
    "A + B": np.add, "A - B": np.subtract, "A * B": np.multiply, "max(A, B)": np.maximum,
    "(A < B ? A : B)": np.minimum, "(A == B ? 1.0 : B)": lambda a, b: np.where(a == b, 1, b),
}  # fmt: skip
UNARY = {"-A": np.negative, "abs(A)": np.abs, "floor(A / 2)": lambda a: np.floor(a / 2)}


class Case:
    """A function being drawn: its statements, its tensors with their values."""

    def __init__(self, draw):
        self.draw, self.statements, self.values = draw, [], {}
        for name in "AB"[: draw(st.integers(1, 2))]:
            shape = tuple(draw(st.integers(1, 7)) for _ in range(draw(st.integers(0, 3))))
            rng = np.random.default_rng(len(name) + len(shape))
            self.values[name] = rng.integers(-2, 3, shape).astype(np.float64)
        self.inputs = tuple(self.values)
        for number in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["contraction", "contraction", "unary", "binary"]))
            getattr(self, kind)(f"T{number}")
        *inner, last = (n for n in self.values if n not in self.inputs)
        self.outputs = [*(n for n in inner if draw(st.booleans())), last]

    def any_tensor(self):
        return self.draw(st.sampled_from(list(self.values)))

    def unary(self, name):
        text = self.draw(st.sampled_from(list(UNARY)))
        tensor = self.any_tensor()
        self.values[name] = UNARY[text](self.values[tensor])
        self.statements.append(f"{name} = {text.replace('A', tensor)};")

    def binary(self, name):
        text = self.draw(st.sampled_from(list(BINARY)))
        left, right = self.any_tensor(), self.any_tensor()
        try:
            value = BINARY[text](self.values[left], self.values[right])
        except ValueError:  # shapes that do not broadcast
            self.unary(name)
            return
        self.values[name] = value
        places = {"A": left, "B": right}
        named = "".join(places.get(c, c) for c in text)
        self.statements.append(f"{name} = {named};")

    def contraction(self, name):
        draw = self.draw
        indices = [Index(n) for n in "ijk"[: draw(st.integers(1, 3))]]
        ranges = {i: range(draw(st.integers(1, 6))) for i in indices}

        def position():
            terms = [i * draw(st.sampled_from([0, 1, 1, 2, -1])) for i in indices]
            return sum(terms, AffineIndex()) + draw(st.integers(-1, 2))

        reads = [(t, [position() for _ in self.values[t].shape])
                 for t in [self.any_tensor() for _ in range(draw(st.integers(1, 2)))]]  # fmt: skip
        place = [position() for _ in range(draw(st.integers(0, 2)))]
        shape = tuple(draw(st.integers(1, 8)) for _ in place)
        where = [AffineBound(p, 0, n) for t, at in reads
                 for p, n in zip(at, self.values[t].shape, strict=True)]  # fmt: skip
        stated = [(position(), draw(st.integers(1, 6))) for _ in range(draw(st.integers(0, 2)))]
        where += [AffineBound(p, 0, n) for p, n in stated]
        joined = draw(st.sampled_from(["*", "+"]))
        aggregation = draw(st.sampled_from(list(AGGREGATIONS)))

        def values(points):
            parts = [self.values[t][tuple(values_of(p, points) for p in at)] for t, at in reads]
            return parts[0] if len(parts) == 1 else (
                parts[0] * parts[1] if joined == "*" else parts[0] + parts[1]
            )  # fmt: skip

        self.values[name] = contract(
            shape, place, AGGREGATIONS[aggregation], values, ranges, where, 0
        )
        accesses = f" {joined} ".join(f"{t}[{affine_list(at)}]" for t, at in reads)
        conditions = "".join(f", {i} < {len(r)}" for i, r in ranges.items())
        conditions += "".join(f", {p} < {n}" for p, n in stated)
        head = f"{name}[{affine_list(place)}: {', '.join(map(str, shape))}]"
        self.statements.append(f"{head} = {aggregation}({accesses}){conditions};")

    @property
    def text(self):
        outputs = ", ".join(self.outputs)
        body = "\n  ".join(self.statements)
        return f"function ({', '.join(self.inputs)}) -> ({outputs}) {{\n  {body}\n}}"


@for_each("seed", range(60))
def test_conditions_hold_from_0_to_their_bound(seed):
    """Conditions on sums of indices, which may be negative: they alone leave points out."""
    rng = np.random.default_rng(seed)
    i, j = Index("i"), Index("j")
    m, n = map(int, rng.integers(2, 7, 2))
    values = rng.integers(1, 9, (m, n)).astype(np.float32)
    condition = AffineIndex()
    while not condition.terms:
        x, y, more = (int(c) for c in rng.integers(-2, 3, 3))
        condition = i * x + j * y + more
    bound = int(rng.integers(1, 6))
    text = f"function (A[M, N]) -> (O) {{ O[i: M] = +(A[i, j]), {condition} < {bound}; }}"
    expected = contract(
        (m,), [affine(i)], "sum", lambda points: values[points[i], points[j]],
        {i: range(m), j: range(n)}, [AffineBound(condition, 0, bound)], 0,
    )  # fmt: skip
    result = parse(text)(values, on="interpreter")
    np.testing.assert_array_equal(result, expected, err_msg=text)


def affine_list(position):
    return ", ".join(str(affine(p)) for p in position)


@over(st.data())
def test_generated_functions(data):
    case = Case(data.draw)
    arrays = [case.values[name].astype(np.float32) for name in case.inputs]
    compiled = parse(case.text).compile(*arrays)
    result = compiled(*arrays, on="interpreter")
    result = result if isinstance(result, tuple) else (result,)
    expected = [case.values[name] for name in case.outputs]
    for got, reference in zip(result, expected, strict=True):
        np.testing.assert_allclose(got, reference, rtol=1e-4, err_msg=case.text)
