"""How much of a large test the default run does."""

from __future__ import annotations

from typing import Any

import pytest


def few_or_all(few: Any, everything: Any) -> list[Any]:
    """Values of a parameter: `few` by default, `everything` among the slow tests."""
    return [few, pytest.param(everything, marks=pytest.mark.slow)]
