"""The passes, one file each, and the pipelines made of them.

Each pass assumes a verified module and leaves one. Each says what it does not do, and what should
follow. None changes the meaning of a program that has one; what was undefined may become defined.
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
"""What `-p default` runs: everything that is right for any target."""

ORDER = (
    ("inline", "simplify", "what a call is given is known only in the caller"),
    ("simplify", "simplify-cfg", "branches become constant by folding their conditions"),
    ("simplify", "peephole", "patterns are looked for among canonical forms"),
    ("peephole", "cse", "two chains of shape ops may become one"),
    ("cse", "licm", "one of two equal invariant ops is enough to move"),
    ("simplify-cfg", "licm", "merged blocks leave fewer preheaders to make"),
    ("lower-predicates", "simplify", "masks made of predicates are and-ed together"),
    ("licm", "dce", "what moved out of a loop may leave an unused parameter"),
    ("simplify-cfg", "dce", "removed edges leave the ops dead that computed their arguments"),
)
"""(before, after, why): constraints on `PIPELINE`, asserted by a test. A pass that runs twice
satisfies one with its first run before the last run of the other."""
