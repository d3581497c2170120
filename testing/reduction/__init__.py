"""Making a program small on which something still happens.

    small = reduce(module, lambda candidate: crashes(candidate))

The search is that of delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE TSE 28(2), 2002): each kind of edit (functions, branches, ops,
parameters, operands, attributes, extents) is tried on runs of places, halving the run, until no
edit of any kind is accepted. Candidates verify and can end; the result depends on the module and
the predicate alone.
"""

from __future__ import annotations

from tileir.testing.reduction.search import Progress, op_count, reduce

__all__ = ["Progress", "op_count", "reduce"]
