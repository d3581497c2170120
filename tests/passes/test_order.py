"""The default pipeline obeys the constraints that `ORDER` states, each with its reason."""

from tileir.passes import ORDER, PIPELINE
from tileir.passmanager import format_pipeline, parse_pipeline


def test_order_holds() -> None:
    for before, after, reason in ORDER:
        last = len(PIPELINE) - 1 - PIPELINE[::-1].index(after)
        assert PIPELINE.index(before) < last, f"{before} before {after}: {reason}"


def test_default_is_the_pipeline() -> None:
    assert format_pipeline(parse_pipeline("default")) == ",".join(PIPELINE)
