"""Facts about functions: `Function -> facts`, computed once per function object.

Each module is named after its function: `from tileir.analysis.cfg import cfg`. All of them take
verified functions, except `cfg` and `dominance`, which the verifier itself uses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar
from weakref import ref

_S = TypeVar("_S")
_F = TypeVar("_F")


def memoize(analysis: Callable[[_S], _F]) -> Callable[[_S], _F]:
    """`analysis`, computed once per subject; the cached facts are freed with the subject. Subjects
    are immutable and compared by identity, so facts stay valid. Facts must not refer to their
    subject, or neither would ever be freed. Two threads may compute the same facts twice; the
    results are equivalent."""
    memo: dict[int, tuple[_F, ref[_S]]] = {}  # by the identity of a subject that exists

    @functools.wraps(analysis)
    def facts(subject: _S) -> _F:
        entry = memo.get(id(subject))
        if entry is not None:
            return entry[0]
        result, key = analysis(subject), id(subject)
        memo[key] = result, ref(subject, lambda _: memo.pop(key, None))
        return result

    return facts
