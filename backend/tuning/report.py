"""Textual reports of a tuning run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tileir.backend.measurement.outcome import CandidateOutcome, Status
from tileir.backend.measurement.points import Choice, point_name
from tileir.backend.tuning.tune import TuningResult

_TABLE = 8
"""The number of listed candidates."""


@attrs.frozen
class Effect:
    """The cost of one choice of a parameter: the time in seconds of its fastest candidate, and that
    time relative to the best of all candidates."""

    parameter: str
    choice: Choice
    seconds: float
    ratio: float


def explain(result: TuningResult) -> str:
    """The report: the best candidates, the cost of the best one's neighbours and of every single
    choice, the model's predictions, the pruned candidates, and the time of the run. Raises
    `TuneError` (TIR1102) if nothing was measured."""
    best = result.best
    parts = (_head(result, best), _table(result), _model(result, best), _neighbours(result, best),
             _effects(result), _left_out(result), _spent(result))  # fmt: skip
    return "\n\n".join("\n".join(lines) for lines in map(list, parts) if lines) + "\n"


def effects(result: TuningResult) -> list[Effect]:
    """The effect of every choice of every parameter: the time of the best measured candidate with
    it."""
    measured, largest = result.good_outcomes, list[Effect]()
    least = measured[0].seconds or 1.0
    for parameter in result.problem.space.parameters:
        for choice in parameter.choices:
            times = [o.seconds for o in measured if o.point[parameter.name] == choice]
            seconds = min((t for t in times if t is not None), default=None)
            if seconds is not None:
                largest.append(Effect(parameter.name, choice, seconds, seconds / least))
    return largest


def duration(seconds: float | None) -> str:
    """A time as text with a suitable unit: `12.9 us`."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def rank_correlation(result: TuningResult) -> float | None:
    """Spearman's correlation of the model's order with the measured one; None for fewer than
    three candidates, or no model."""
    pairs = [(o.predicted, o.seconds) for o in result.good_outcomes if o.predicted is not None]
    if len(pairs) < 3:
        return None
    first, second = (_ranks([pair[i] or 0.0 for pair in pairs]) for i in (0, 1))
    mean = (len(pairs) - 1) / 2
    covariance = sum((a - mean) * (b - mean) for a, b in zip(first, second, strict=True))
    spread = sum((a - mean) ** 2 for a in first) * sum((b - mean) ** 2 for b in second)
    return covariance / spread**0.5 if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value. Equal values have their mean rank."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def _head(result: TuningResult, best: CandidateOutcome) -> Iterator[str]:
    family = result.family
    yield f"@{family.kernel} on {family.device}, driver {family.driver}: {family.shape}"
    yield f"best: {best.name}: {duration(best.seconds)}"
    total = len(result.outcomes) + len(result.left_out)
    yield (
        f"of {total} candidates {len(result.left_out)} were left out, {len(result.good_outcomes)} "
        f"measured, {len(result.outcomes) - len(result.good_outcomes)} failed; {result.stopped}"
    )


def _table(result: TuningResult) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("", "time", "", "spread", "registers", "spilled", "shared", "model")
    ]
    least = result.best.seconds or 1.0
    for outcome in result.good_outcomes[:_TABLE]:
        numbers = (outcome.registers, outcome.spills, outcome.shared)
        rows.append(
            (
                outcome.name, duration(outcome.seconds), f"{(outcome.seconds or 0) / least:.3f}",
                f"{100 * outcome.spread:.1f} %", *("-" if n is None else str(n) for n in numbers),
                duration(outcome.predicted),
            )
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()


def _model(result: TuningResult, best: CandidateOutcome) -> Iterator[str]:
    survey = result.surveys.get(best.name)
    if survey is None or survey.estimate is None:
        return
    estimate, use = survey.estimate, survey.use
    parts = sorted(estimate.parts.items(), key=lambda item: -item[1])
    yield f"why: by the model it takes {duration(estimate.seconds)}, most of it {estimate.bound}"
    yield "  a processor is busy with " + ", ".join(f"{n} {duration(s)}" for n, s in parts)
    if use is not None:
        yield (
            f"  {estimate.resident} blocks of {use.warps} warps a processor, {estimate.waves:.2f} "
            f"waves; {use.shared} bytes shared, about {use.registers} registers of {use.limit}"
        )
    agreement = rank_correlation(result)
    chosen = min(
        (o for o in result.good_outcomes if o.predicted is not None),
        key=lambda o: (o.predicted, o.name), default=None,
    )  # fmt: skip
    if agreement is not None and chosen is not None:
        loss = (chosen.seconds or 0.0) / (best.seconds or 1.0)
        yield f"  its order agrees with the measured one by {agreement:.2f} (Spearman);"
        yield f"  the candidate it likes best takes {loss:.3f} times as long as the best"


def _neighbours(result: TuningResult, best: CandidateOutcome) -> Iterator[str]:
    by_name = {o.name: o for o in (*result.left_out, *result.outcomes)}
    near = [(p, by_name.get(point_name(p))) for p in result.problem.space.neighbours(best.point)]
    lines = [f"  {_change(best.point, p)}: {_fate(o, best)}" for p, o in near]
    yield from (["one step away:", *lines] if lines else [])


def _change(point: Mapping[str, Choice], other: Mapping[str, Choice]) -> str:
    return ", ".join(f"{n} {point[n]} -> {v}" for n, v in other.items() if point[n] != v)


def _fate(outcome: CandidateOutcome | None, best: CandidateOutcome) -> str:
    if outcome is None:
        return "not tried"
    if not outcome.good:
        return f"{outcome.status.value}: {outcome.message}"
    return f"{(outcome.seconds or 0) / (best.seconds or 1):.3f} times as long"


def _effects(result: TuningResult) -> Iterator[str]:
    rows = effects(result)
    if not rows:
        return
    yield "the quickest with each choice, relative to the best:"
    for parameter in result.problem.space.parameters:
        mine = [e for e in rows if e.parameter == parameter.name]
        if len(mine) > 1:
            yield f"  {parameter.name}: " + ", ".join(f"{e.choice} {e.ratio:.3f}" for e in mine)


def _left_out(result: TuningResult) -> Iterator[str]:
    bad = [*result.left_out, *(o for o in result.outcomes if not o.good)]
    counted = Counter((o.status, o.code) for o in bad)
    if counted:
        yield "left out or failed:"
    for (status, code), count in sorted(counted.items(), key=lambda item: -item[1]):
        first = next(o for o in bad if (o.status, o.code) == (status, code))
        yield f"  {count} {status.value} ({code}), such as {first.name}: {first.message}"
    wrong = sum(o.status is Status.WRONG for o in bad)
    if wrong > len(result.good_outcomes) and result.problem.expected is None:
        yield "  most differ from the first one that ran: rather that one is wrong"


def _spent(result: TuningResult) -> Iterator[str]:
    spent = result.spent
    yield (
        f"it took {duration(spent.wall)}, of which {duration(spent.survey)} to look at candidates; "
        f"compiling one after the other takes {duration(spent.compiling)}"
    )
    if result.reused:
        yield f"{result.reused} measurements were in the database already"
