"""The passes, one file each, and the pipelines made of them.

Each pass requires a verified module and returns one. The docstring of a pass states its limits and
the passes that should follow. No pass changes the meaning of a program that has one; an undefined
value may become defined.
"""

from __future__ import annotations

PIPELINE = (
    "inline",
    "simplify",
    "simplify-cfg",
    "peephole",
    "cse",
    "licm",
    "lower-predicates",
    "simplify",
    "cse",
    "simplify-cfg",
    "dce",
)
"""The pipeline `default`: the passes that are useful for any target."""

ORDER = (
    ("inline", "simplify", "arguments of a call are known only in the caller"),
    ("simplify", "simplify-cfg", "branches become constant by folding their conditions"),
    ("simplify", "peephole", "patterns are looked for among canonical forms"),
    ("peephole", "cse", "two chains of shape ops may become one"),
    ("cse", "licm", "one of two equal invariant ops is enough to move"),
    ("simplify-cfg", "licm", "merged blocks leave fewer preheaders to make"),
    ("lower-predicates", "simplify", "masks made of predicates are and-ed together"),
    ("licm", "dce", "an op that moved out of a loop may leave an unused parameter"),
    ("simplify-cfg", "dce", "removed edges leave the ops dead that computed their arguments"),
)
"""(before, after, why): constraints on `PIPELINE`, asserted by a test. A pass that runs twice
satisfies one with its first run before the last run of the other."""
