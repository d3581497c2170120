"""Generated programs with generated schedules against numpy."""

import numpy as np
from hypothesis import strategies as st

from tileir.builder.contraction import Index
from tileir.frontends import te

from ...builder.contraction.oracle import contract
from ..budget import over

REDUCERS = {"sum": te.sum, "product": te.prod, "max": te.max, "min": te.min}
STEPS = {
    "relu": (lambda x, i: te.max(x, 0.0), lambda x, i: np.maximum(x, 0)),
    "scale": (lambda x, i: x * 2 + 1, lambda x, i: x * 2 + 1),
    "place": (lambda x, i: x - i, lambda x, i: x - i),
    "choose": (lambda x, i: te.if_then_else(i > 1, x, -x), lambda x, i: np.where(i > 1, x, -x)),
}


class Case:
    """A program being drawn: a reduction of one or two tensors, then elementwise stages."""

    def __init__(self, draw):
        self.draw = draw
        self.shape = tuple(draw(st.integers(1, 9)) for _ in range(draw(st.integers(1, 3))))
        self.axes = []
        for name in "rs"[: draw(st.integers(1, 2))]:
            low = draw(st.integers(0, 2))
            self.axes.append(te.reduce_axis((low, low + draw(st.integers(1, 7))), name))
        self.kind = draw(st.sampled_from(list(REDUCERS)))
        self.joined = draw(st.sampled_from("*+"))
        spans = [range(n) for n in self.shape] + [a.dom for a in self.axes]
        self.reads = []
        for name in "AB"[: draw(st.integers(1, 2))]:
            rank = draw(st.integers(1, 2))
            self.reads.append(self.read(name, rank, spans))
        self.steps = [draw(st.sampled_from(list(STEPS))) for _ in range(draw(st.integers(0, 2)))]

    def read(self, name, rank, spans):
        """A tensor, an array for it, and the coefficients of the indices in its positions."""
        positions, shape = [], []
        for _ in range(rank):
            coefficients = [self.draw(st.sampled_from([0, 0, 1, 1, 2, -1])) for _ in spans]
            ends = [
                (f * s.start, f * (s.stop - 1)) for f, s in zip(coefficients, spans, strict=True)
            ]
            low = sum(min(e) for e in ends)
            shape.append(sum(max(e) for e in ends) - low + 1)
            positions.append((coefficients, -low))
        rng = np.random.default_rng(len(shape))
        values = rng.integers(-2, 3, shape).astype(np.float32)
        return te.placeholder(tuple(shape), "float32", name), values, positions

    def element(self, *at):
        term = None
        for tensor, _, positions in self.reads:
            indices = [*at, *self.axes]
            place = tuple(
                sum((i * f for i, f in zip(indices, coefficients, strict=True)), 0) + shift
                for coefficients, shift in positions
            )
            value = tensor[place]
            term = value if term is None else (
                term * value if self.joined == "*" else term + value)  # fmt: skip
        return REDUCERS[self.kind](term, axis=self.axes)

    def reference(self):
        indices = [Index(f"i{n}") for n in range(len(self.shape) + len(self.axes))]
        spans = [range(n) for n in self.shape] + [a.dom for a in self.axes]

        def values(points):
            columns = [points[i] for i in indices]
            term = None
            for _, data, positions in self.reads:
                place = tuple(sum(c * f for c, f in zip(columns, coefficients, strict=True)) + shift
                              for coefficients, shift in positions)  # fmt: skip
                value = data.astype(np.float64)[place]
                term = value if term is None else (
                    term * value if self.joined == "*" else term + value)  # fmt: skip
            return term

        position = indices[: len(self.shape)]
        box = dict(zip(indices, spans, strict=True))
        out = contract(self.shape, position, self.kind, values, box)
        first = np.arange(self.shape[0]).reshape(-1, *[1] * (len(self.shape) - 1))
        for step in self.steps:
            out = STEPS[step][1](out, first)
        return out

    def build(self):
        stages = [te.compute(self.shape, self.element, "T")]
        for number, step in enumerate(self.steps):
            before = stages[-1]
            stages.append(
                te.compute(
                    self.shape,
                    lambda *at, b=before, s=step: STEPS[s][0](b[at], at[0]),
                    f"S{number}",
                )
            )
        s = te.create_schedule(stages[-1])
        for stage in stages[:-1]:
            how = self.draw(st.sampled_from(["auto", "root", "inline"]))
            if how != "auto":
                getattr(s[stage], f"compute_{how}")()
        for stage in stages:
            if s[stage].attach != "inline" and self.draw(st.booleans()):
                self.schedule(s[stage])
        return te.build(s, [*(t for t, _, _ in self.reads), stages[-1]])

    def schedule(self, stage):
        outer = []
        for axis in stage.op.axis:
            if self.draw(st.booleans()):
                outer.append(stage.split(axis, self.draw(st.sampled_from([1, 2, 4, 5])))[0])
        if len(outer) > 1 and self.draw(st.booleans()):
            stage.reorder(*reversed(outer))
        for axis in outer:
            stage.parallel(axis)
        for axis in stage.op.reduce_axis[:1]:
            if self.draw(st.booleans()):
                stage.split(axis, self.draw(st.sampled_from([1, 3, 8])))


@over(st.data())
def test_generated_programs(data):
    case = Case(data.draw)
    result = case.build()(*(values for _, values, _ in case.reads), on="interpreter")
    np.testing.assert_allclose(result, case.reference(), rtol=1e-4)
