"""The call of a machine method that an op's `evaluate` makes, recorded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from tileir.op import Op


@attrs.frozen
class Request:
    """One call of a machine's method: `settings` are the arguments that are no operands."""

    method: str
    settings: tuple[Any, ...]
    keywords: dict[str, Any]


class _Recorder:
    """A machine that records the calls of its methods."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer = object()

    def __getattr__(self, method: str) -> Any:
        def note(*arguments: Any, **keywords: Any) -> Any:
            self.requests.append((method, arguments, keywords))
            return self.answer

        return note


class _Operand:
    """Stands for an operand's value, of which nothing can be read."""


def request(op: Op, operands: Sequence[Any]) -> Request | None:
    """The only call that the evaluation of `op` makes, if it passes the operands in order and
    returns the result unchanged; else None. `operands` has an item for each, a tuple of items where
    several make one argument."""
    recorder, values = _Recorder(), [_stand_in(x) for x in operands]
    try:
        result = op.evaluate(recorder, *values)
    except (AttributeError, TypeError, NotImplementedError):
        return None
    if len(recorder.requests) != 1 or result is not recorder.answer:
        return None
    method, arguments, keywords = recorder.requests[0]
    passed = [a for a in arguments if _is_operand(a)]
    same = len(passed) == len(values) and all(a is b for a, b in zip(passed, values, strict=True))
    if not same or any(map(_is_operand, keywords.values())):
        return None
    return Request(method, tuple([a for a in arguments if not _is_operand(a)]), keywords)


def _stand_in(operand: Any) -> Any:
    return tuple(map(_stand_in, operand)) if isinstance(operand, tuple) else _Operand()


def _is_operand(value: Any) -> bool:
    if isinstance(value, tuple) and value:
        return all(map(_is_operand, value))  # type: ignore[arg-type]
    return isinstance(value, _Operand)
