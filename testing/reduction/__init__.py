"""Reduction of a program to a small one for which a predicate is still true.

    small = reduce(module, lambda candidate: crashes(candidate))

The search is that of delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE TSE 28(2), 2002): each kind of edit (functions, branches, ops,
parameters, operands, attributes, extents) is tried on runs of positions. The length of the runs is
halved until no edit of any kind is accepted. Candidates pass the verifier and can terminate. The
result depends only on the module and the predicate.
"""

from __future__ import annotations

from tileir.testing.reduction.search import Progress, op_count, reduce

__all__ = ["Progress", "op_count", "reduce"]
