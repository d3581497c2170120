"""The cost model corrected by measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from tileir.backend.measurement.outcome import CandidateOutcome
from tileir.backend.measurement.points import Point, point_name
from tileir.backend.tuning.space import Space

_RIDGE = 1.0
"""The weight of the cost model's prediction relative to the measurements."""


@attrs.frozen(eq=False)
class Surrogate:
    """log seconds = log predicted + a constant + one effect per choice of each parameter and per
    pair of choices of two parameters, by ridge regression on the measurements. Without a
    prediction, there are only the effects."""

    space: Space
    predicted: Mapping[str, float]
    effects: Any
    mean: float

    @staticmethod
    def fit(
        space: Space, measured: Sequence[CandidateOutcome], predicted: Mapping[str, float]
    ) -> Surrogate:
        """The effects that explain `measured` best."""
        empty = Surrogate(space, predicted, None, 0.0)
        if not measured:
            return empty
        seconds = [o.seconds or 1.0 for o in measured]
        off = np.log(seconds) - [empty.base(o.point) for o in measured]
        mean = float(off.mean())
        rows = np.stack([empty.row(o.point) for o in measured])
        gram = rows @ rows.T + _RIDGE * np.eye(len(rows))
        effects = rows.T @ np.linalg.solve(gram, off - mean)
        return Surrogate(space, predicted, effects, mean)

    def seconds(self, point: Point) -> float:
        """The predicted time of `point` in seconds."""
        effect = 0.0 if self.effects is None else float(self.row(point) @ self.effects)
        return float(np.exp(self.base(point) + self.mean + effect))

    def base(self, point: Point) -> float:
        """The logarithm of the cost model's prediction."""
        predicted = self.predicted.get(point_name(point))
        return 0.0 if predicted is None else float(np.log(predicted))

    def row(self, point: Point) -> Any:
        """1 for every choice, and half for every pair of choices, that `point` makes."""
        singles = [self._single(i, point) for i in range(len(self.space.parameters))]
        pairs = [
            0.5 * np.outer(a, b).ravel()
            for i, a in enumerate(singles) for b in singles[i + 1 :]
        ]  # fmt: skip
        return np.concatenate([*singles, *pairs])

    def _single(self, index: int, point: Point) -> Any:
        parameter = self.space.parameters[index]
        effects = np.zeros(len(parameter.choices))
        effects[parameter.choices.index(point[parameter.name])] = 1.0
        return effects
