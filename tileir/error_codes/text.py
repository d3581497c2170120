"""TIR00xx: reader."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0001": (
        "unexpected text",
        "Something else should stand at this place. `docs/reference/grammar.md` has the whole "
        "grammar; an op ends with its line.",
    ),
    "TIR0002": (
        "no version",
        "A module begins with the version it is written in: a line `tir 1.0`, before which only "
        "comments may stand.",
    ),
    "TIR0003": ("unknown op", "No op has this name; `docs/reference/ops.md` lists all."),
    "TIR0004": (
        "unknown or impossible type",
        "Types are scalars (`i32`, `f16`), pointers (`f32*`), tiles of either (`f32<64, 128>`), "
        "descriptors (`tensor_desc<f16<64, 32>>`) and shared buffers; extents are positive.",
    ),
    "TIR0005": ("undefined value", "No line of the function defines a value of this name."),
    "TIR0006": ("value defined twice", "A name stands for one value in a function."),
    "TIR0007": (
        "no such literal",
        "The literal does not fit its type: an integer out of range, a fraction for an integer, "
        "`true` for anything but i1, `null` for anything but a pointer, a bad escape in a string.",
    ),
    "TIR0008": (
        "literal without a type",
        "A literal takes its type from the other operands or the result. Where none says it, write "
        "it before the literal: `i32<8> 5`.",
    ),
    "TIR0009": ("unknown attribute", "The op has no attribute of this name."),
    "TIR0010": ("attribute missing", "The op needs an attribute that has no default."),
    "TIR0011": ("given twice", "An attribute, word, alias or stage is given more than once."),
    "TIR0012": ("number of operands", "The op takes more or fewer operands."),
    "TIR0013": (
        "number of results",
        "Every result is named left of `=` (`_` where it is not used), and has its type written.",
    ),
    "TIR0014": ("block defined twice", "A label stands for one block in a function."),
    "TIR0015": (
        "phi does not fit",
        "A phi has one value of its type for each predecessor of its block, and for nothing else.",
    ),
    "TIR0016": ("unfinished text", "A function or string is not closed."),
    "TIR0017": (
        "text too large",
        "More than 256 dimensions or levels of nesting are refused.",
    ),
    "TIR0018": ("phi not at the head", "Phis stand before the other ops of their block."),
    "TIR0019": ("symbol defined twice", "Functions and globals of a module have distinct names."),
    "TIR0020": (
        "op outside a block",
        "The body of a function is a list of blocks, each of which begins with a label: `entry:`.",
    ),
    "TIR0021": ("not text", "The input holds characters that no text holds."),
    "TIR0022": ("unknown layout", "No line at the head of the module defines this alias."),
    "TIR0023": ("unknown word", "The word is none of those that may stand here."),
    "TIR0024": (
        "unreachable block",
        "No path from the entry leads to the block; the reader leaves it out.",
    ),
}
