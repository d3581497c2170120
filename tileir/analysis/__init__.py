"""Facts about functions: `Function -> facts`, computed once per function object.

Each module is named after its function: `from tileir.analysis.cfg import cfg`. All of them take
verified functions, except `cfg` and `dominance`, on which the verifier itself stands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

_S = TypeVar("_S")
_F = TypeVar("_F")


def memoize(analysis: Callable[[_S], _F]) -> Callable[[_S], _F]:
    """`analysis`, computed once per subject object and forgotten with it.

    Subjects are immutable and compared by identity, so no fact can go stale. Facts must not hold
    their subject, or neither would ever be freed. Two threads may compute the same facts twice;
    either result serves.
    """
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
