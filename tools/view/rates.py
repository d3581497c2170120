"""Rates of several programs on the same problems, as in Tillet et al. 2019, Figures 1, 8 and 11: a
group of bars for each problem, below a line for the limit of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tileir.tools.view import svg

_HEIGHT = 240.0
_LEFT = 64.0
_LABELS = 3 * svg.LINE


@attrs.frozen
class RateProblem:
    """A problem, the rate of each program by name, and the limit of the machine."""

    name: str
    rates: Mapping[str, float]
    roof: float


def rates(title: str, unit: str, problems: Sequence[RateProblem]) -> str:
    """A picture of `problems`; rates are in `unit`."""
    names = list(dict.fromkeys(name for p in problems for name in p.rates))
    sheet = svg.Sheet(title)
    sheet.legend((_hue(i), name) for i, name in enumerate(names))
    sheet.words(f"{unit}; the line above a group: what memory and arithmetic allow", "soft")
    most = max((max((p.roof, *p.rates.values())) for p in problems), default=1.0)
    sheet.put(_HEIGHT + _LABELS, _groups(names, problems, most, unit, sheet.width))
    return sheet.done()


def _groups(
    names: Sequence[str], problems: Sequence[RateProblem], most: float, unit: str, width: float
) -> list[str]:
    each = (width - _LEFT - svg.MARGIN) / max(1, len(problems))
    bar = 0.8 * each / max(1, len(names))
    parts: list[str] = []
    for index, problem in enumerate(problems):
        left = _LEFT + index * each
        for place, name in enumerate(names):
            rate = problem.rates.get(name)
            if rate is not None:
                tall = _bar_length(rate, most)
                tooltip = f"{problem.name}, {name}: {rate:.4g} {unit}"
                at = left + place * bar
                hue = _hue(place)
                parts.append(svg.rect(at, _HEIGHT - tall, 0.9 * bar, tall, "flat", hue, tooltip))
        roof = _HEIGHT - _bar_length(problem.roof, most)
        tooltip = f"{problem.name}: at most {problem.roof:.4g} {unit}"
        parts.append(
            svg.rect(left, roof - 0.75, 0.8 * each, 1.5, "flat", svg.colour(0, 0.3), tooltip)
        )
        for row, word in enumerate(problem.name.split(" ")[:3]):
            y = _HEIGHT + (row + 1) * svg.LINE * 0.8
            parts.append(svg.text(left + 0.4 * each, y, word, "soft small", "middle"))
    for part in (0.0, 0.5, 1.0):
        y = _HEIGHT - _bar_length(part * most, most)
        parts.append(svg.text(_LEFT - 6, y + 4, f"{part * most:.3g}", "soft small", "end"))
    parts.append(svg.line([(_LEFT, _HEIGHT), (width - svg.MARGIN, _HEIGHT)], "frame"))
    return parts


def _bar_length(rate: float, most: float) -> float:
    return rate / most * (_HEIGHT - svg.LINE)


def _hue(index: int) -> str:
    return svg.colour((210, 30, 130, 280, 50)[index % 5], 0.55)
