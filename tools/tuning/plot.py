"""A picture of a search: predicted and measured times, the best so far, and the cost of every
choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10

import attrs

from tileir.backend.measurement.outcome import CandidateOutcome
from tileir.backend.tuning.report import duration, effects
from tileir.backend.tuning.tune import TuningResult
from tileir.tools.view import svg

_SIDE, _GAP, _LEFT, _TOP = 260, 70, 60, 46
_DOT = 3.5


@attrs.frozen
class PlotAxis:
    """A logarithmic scale of seconds over `_SIDE` pixels."""

    low: float
    high: float

    @staticmethod
    def over(values: Sequence[float]) -> PlotAxis:
        """An axis from the least to the greatest value, with a margin."""
        low, high = min(values), max(values)
        return PlotAxis(log10(low) - 0.03, max(log10(high), log10(low) + 0.02) + 0.03)

    def at(self, seconds: float) -> float:
        """The distance in pixels from the start of the axis."""
        return _SIDE * (log10(seconds) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """The ticks of the axis, in seconds: multiples of 1, 2 or 5 times a power of ten, two at
        least."""
        result = [
            m * 10.0**e for e in range(-10, 4) for m in (1, 2, 5)
            if self.low <= log10(m * 10.0**e) <= self.high
        ]  # fmt: skip
        return result if len(result) > 1 else [10**self.low, 10**self.high]


def picture(result: TuningResult) -> str:
    """The picture of a result, as SVG. Raises `TuneError` (TIR1102) if nothing was measured."""
    best, measured = result.best, result.good_outcomes
    title = f"@{result.family.kernel} on {result.family.device}: {best.name} in "
    title += duration(best.seconds)
    modelled = [o for o in measured if o.predicted is not None]
    parts = [svg.text(_LEFT, 20, title, "head")]
    x, y = float(_LEFT), float(_TOP)
    if modelled:
        parts += _scatter(modelled, best, x, y)
        x += _SIDE + _GAP
    parts += _course(result, x, y)
    bars = list(_bars(result, _LEFT, _TOP + _SIDE + 66))
    height = _TOP + _SIDE + 84 + 16 * len(effects(result))
    return svg.document(x + _SIDE + 150, height, [*parts, *bars], title)


def _scatter(
    candidate_outcomes: Sequence[CandidateOutcome], best: CandidateOutcome, x: float, y: float
) -> Iterator[str]:
    """The measured times over the predicted ones. The line shows where both are equal."""
    points = [(o.predicted or 0.0, o.seconds or 0.0) for o in candidate_outcomes]
    x_axis, y_axis = PlotAxis.over([p for p, _ in points]), PlotAxis.over([s for _, s in points])
    yield from _frame(x, y, "the model's estimate", "measured", x_axis, y_axis)
    for outcome, (predicted, seconds) in zip(candidate_outcomes, points, strict=True):
        kind = "dot bad" if outcome is best else "dot"
        words = f"{outcome.name}: {duration(seconds)}, expected {duration(predicted)}"
        yield _mark(x + x_axis.at(predicted), y + _SIDE - y_axis.at(seconds), words, kind)


def _course(result: TuningResult, x: float, y: float) -> Iterator[str]:
    """Every candidate in the order of the search, and the best time so far as a line."""
    order = [o for o in result.outcomes if o.good]
    y_axis = PlotAxis.over([o.seconds or 0.0 for o in order])
    yield from _frame(
        x, y, f"{len(order)} candidates, in the order they were tried", "", None, y_axis
    )
    step, least = _SIDE / max(1, len(order)), float("inf")
    path: list[str] = []
    for i, outcome in enumerate(order):
        seconds = outcome.seconds or 0.0
        at = x + (i + 0.5) * step, y + _SIDE - y_axis.at(seconds)
        yield _mark(*at, f"{outcome.name}: {duration(seconds)}", "dot")
        least = min(least, seconds)
        level = y + _SIDE - y_axis.at(least)
        path.append(
            f"{'L' if path else 'M'}{x + i * step:.1f} {level:.1f}H{x + (i + 1) * step:.1f}"
        )
    yield f'<path class="rule" d="{"".join(path)}"/>'


def _bars(result: TuningResult, x: float, y: float) -> Iterator[str]:
    """The fastest candidate with each choice of each parameter."""
    yield svg.text(x, y, "the quickest with each choice, relative to the best", "head")
    shown_effects = effects(result)
    most = max(e.ratio for e in shown_effects) if shown_effects else 1.0
    names: set[str] = set()
    for i, effect in enumerate(shown_effects):
        top = y + 10 + 16 * i
        if effect.parameter not in names:
            yield svg.text(x + 90, top + 11, effect.parameter, "", "end")
        names.add(effect.parameter)
        yield svg.text(x + 140, top + 11, str(effect.choice), "soft", "end")
        length = 320 * effect.ratio / most
        yield svg.rect(x + 150, top, length, 12, "memory", title=duration(effect.seconds))
        yield svg.text(x + 156 + length, top + 11, f"{effect.ratio:.3f}", "soft")


def _frame(
    x: float, y: float, below: str, baseline: str, x_axis: PlotAxis | None, y_axis: PlotAxis
) -> Iterator[str]:
    yield svg.rect(x, y, _SIDE, _SIDE, "frame")
    yield svg.text(x + _SIDE / 2, y + _SIDE + 34, below, "soft", "middle")
    if baseline:
        yield svg.text(x, y - 8, baseline, "soft")
    for seconds in y_axis.ticks():
        level = y + _SIDE - y_axis.at(seconds)
        yield f'<path class="faint" d="M{x:.1f} {level:.1f}h{_SIDE}"/>'
        yield svg.text(x - 4, level + 3, duration(seconds), "small", "end")
    for seconds in x_axis.ticks() if x_axis is not None else ():
        at = x + x_axis.at(seconds)  # type: ignore[union-attr]
        yield f'<path class="faint" d="M{at:.1f} {y:.1f}v{_SIDE}"/>'
        yield svg.text(at, y + _SIDE + 14, duration(seconds), "small", "middle")


def _mark(x: float, y: float, words: str, kind: str) -> str:
    size = 2 * _DOT if kind != "dot" else _DOT
    fill = "#c4161c" if kind != "dot" else "#3d7ab8"
    return svg.rect(x - size / 2, y - size / 2, size, size, kind, fill, words)
