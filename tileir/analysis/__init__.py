"""Facts about functions: `Function -> facts`, computed once per function object.

Each module is named after its function: `from tileir.analysis.cfg import cfg`. All of them take
verified functions, except `cfg` and `dominance`, which the verifier itself uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

_S = TypeVar("_S")
_F = TypeVar("_F")


def memoize(analysis: Callable[[_S], _F]) -> Callable[[_S], _F]:
    """`analysis`, computed once per subject; the cached facts are freed with the subject. Subjects
    are immutable and compared by identity, so facts stay valid. Facts must not refer to their
    subject, or neither would ever be freed. Two threads may compute the same facts twice; the
    results are equivalent."""
    memo: WeakKeyDictionary[_S, _F] = WeakKeyDictionary()

    @functools.wraps(analysis)
    def facts(subject: _S) -> _F:
        try:
            return memo[subject]
        except KeyError:  # None is a result too
            pass
        result = memo[subject] = analysis(subject)
        return result

    return facts
