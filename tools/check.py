"""Comparison of results with references: errors and tolerances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from tileir.errors import Diagnostic, ToolError
from tileir.ir import Function
from tileir.tools.arrays import spacing_of
from tileir.tools.inputs import Expectation, Recipe
from tileir.tools.references import REFERENCES
from tileir.types import Pointer, Scalar


@attrs.frozen
class CheckResult:
    """A result and its reference. `error` is the largest difference, absolute up to magnitude 1 and
    relative above; NaN if exactly one of two elements is NaN."""

    name: str
    type: str
    shape: tuple[int, ...]
    reference: str
    error: float
    within: float

    @property
    def good(self) -> bool:
        return self.error <= self.within


def verdicts(
    recipe: Recipe, before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[CheckResult]:
    """The verdict on each expected result in `after`, compared with its reference applied to
    `before`."""
    return [
        _verdict(recipe.kernel, name, expectation, before, after[name])
        for name, expectation in recipe.expected.items()
    ]


def _verdict(
    kernel: Function, name: str, expected: Expectation, before: Mapping[str, Any], actual: Any
) -> CheckResult:
    function = REFERENCES.get(expected.reference)
    if function is None:
        references = ", ".join(REFERENCES)
        raise _bad(f"expect.{name}: no reference {expected.reference!r} among {references}")
    try:
        required = np.asarray(function(*(_argument(a, before) for a in expected.arguments)))
        required = np.broadcast_to(required, actual.shape)
    except (AttributeError, TypeError, ValueError) as error:
        raise _bad(f"expect.{name}: {expected.reference} does not fit: {error}") from None
    element = _element(kernel, name)
    within = 16 * spacing_of(element) if expected.within is None else expected.within
    text = f"{expected.reference}({', '.join(expected.arguments)})"
    return CheckResult(
        name, str(element), actual.shape, text, largest_error(actual, required), within
    )


def largest_error(actual: Any, required: Any) -> float:
    """Largest difference of two arrays, absolute up to magnitude 1 and relative above. Equal
    infinities and NaNs on both sides do not differ; an empty array has no error."""
    a, b = np.asarray(actual, np.float64), np.asarray(required, np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b) / np.maximum(1.0, np.abs(b))
    error[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return float(error.max(initial=0.0))


def _argument(word: str, values: Mapping[str, Any]) -> Any:
    if word in values:
        value = values[word]
        return np.asarray(value, np.float64) if isinstance(value, np.ndarray) else value
    try:
        return float(word)
    except ValueError:
        raise _bad(f"{word!r} is neither a parameter nor a number") from None


def _element(kernel: Function, name: str) -> Scalar:
    kind = next(p.type for p in kernel.parameters if p.name == name)
    if isinstance(kind, Pointer) and isinstance(kind.pointee, Scalar):
        return kind.pointee
    raise _bad(f"expect.{name}: {kind} %{name} is no buffer")


def _bad(message: str) -> ToolError:
    return ToolError(Diagnostic("TIR0903", message))
