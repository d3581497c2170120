"""The run times of a space of schedules, as in Pham 2025, Figures 4.2 to 4.15: bars from the
fastest to the slowest, and baselines as lines across them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileir.tools.view import svg

_HEIGHT = 220.0
_LEFT = 64.0


def schedules(
    title: str, timings: Sequence[tuple[str, float]], baselines: Mapping[str, float] | None = None
) -> str:
    """A picture of (schedule, seconds) in any order, compared with the seconds of `baselines` by
    name.

    Its second line states the number of schedules, and the number of competitive ones: at most 5 %
    slower than the fastest baseline, or than the fastest schedule if there is no baseline.
    """
    result = sorted(timings, key=lambda item: item[1])
    lines = dict(baselines or {})
    best = min(lines.values(), default=result[0][1] if result else 0.0)
    good = sum(seconds <= 1.05 * best for _, seconds in result)
    sheet = svg.Sheet(title)
    share = good / max(1, len(result))
    sheet.words(f"{len(result)} schedules, {good} of them competitive ({share:.2f})", "soft")
    sheet.legend(
        (_hue(i), f"{name} {_time(seconds)}") for i, (name, seconds) in enumerate(lines.items())
    )
    most = _scale_limit([seconds for _, seconds in result], list(lines.values()))
    sheet.put(_HEIGHT + svg.LINE, _bars(result, lines, most, sheet.width))
    if result:
        sheet.words(f"fastest, {_time(result[0][1])}: {result[0][0]}", "small")
    return sheet.done()


def _scale_limit(seconds: Sequence[float], lines: Sequence[float]) -> float:
    """The upper end of the scale. Bars longer than five times the shortest one are cut."""
    every = [*seconds, *lines]
    return min(max(every, default=1.0), 5 * min(every, default=1.0)) * 1.05 or 1.0


def _bars(
    schedules: Sequence[tuple[str, float]], lines: Mapping[str, float], most: float, width: float
) -> list[str]:
    margin = width - _LEFT - svg.MARGIN
    each = margin / max(1, len(schedules))
    parts = [
        svg.rect(
            _LEFT + i * each, _HEIGHT - _bar_height(seconds, most), max(0.4, each * 0.85),
            _bar_height(seconds, most), "flat", svg.colour(210, 0.62), f"{_time(seconds)}: {name}",
        )
        for i, (name, seconds) in enumerate(schedules)
    ]  # fmt: skip
    for i, seconds in enumerate(lines.values()):
        y = _HEIGHT - _bar_height(seconds, most)
        parts.append(svg.rect(_LEFT, y - 0.75, margin, 1.5, "flat", _hue(i), _time(seconds)))
    for part in (0.0, 0.5, 1.0):
        y = _HEIGHT - part * (_HEIGHT - svg.LINE)
        parts.append(svg.text(_LEFT - 6, y + 4, _time(part * most), "soft small", "end"))
    parts.append(svg.line([(_LEFT, _HEIGHT), (width - svg.MARGIN, _HEIGHT)], "frame"))
    return parts


def _bar_height(seconds: float, most: float) -> float:
    return min(1.0, seconds / most) * (_HEIGHT - svg.LINE)


def _hue(index: int) -> str:
    return svg.colour((10, 130, 280, 50, 330)[index % 5], 0.5)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"
