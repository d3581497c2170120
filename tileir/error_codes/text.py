"""TIR00xx: reader."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0001": (
        "unexpected text",
        "The grammar expects other text at this position; the message says which. An op "
        "ends at the end of its line. `docs/reference/grammar.md` has the grammar.",
    ),
    "TIR0002": (
        "no version",
        "A module begins with its version: the line `tir 1.0`. Only comments may come before it.",
    ),
    "TIR0003": (
        "unknown op",
        "No op has this name. Correct the name: `docs/reference/ops.md` lists all ops.",
    ),
    "TIR0004": (
        "unknown or impossible type",
        "The text is not a type of the IR, or an extent is not positive. Types are scalars "
        "(`i32`, `f16`), pointers (`f32*`), tiles of scalars or pointers (`f32<64, 128>`), "
        "descriptors (`tensor_desc<f16<64, 32>>`), and buffers in shared or private memory.",
    ),
    "TIR0005": (
        "undefined value",
        "The function has no definition of a value of this name. Define it, or correct the name.",
    ),
    "TIR0006": (
        "value defined twice",
        "A name stands for one value in a function. Rename one of the two definitions.",
    ),
    "TIR0007": (
        "invalid literal",
        "The literal does not fit its type. Examples are an integer out of range, a fraction "
        "for an integer, `true` for a type other than i1, `null` for a type that is no "
        "pointer, and an unknown escape in a string.",
    ),
    "TIR0008": (
        "literal without a type",
        "A literal takes its type from another operand or from the result, and none of them "
        "determines it here. Write the type before the literal: `i32<8> 5`.",
    ),
    "TIR0009": (
        "unknown attribute",
        "The op has no attribute of this name. `docs/reference/ops.md` lists the "
        "attributes of each op.",
    ),
    "TIR0010": (
        "attribute missing",
        "The op has an attribute without a default. Write it: `{name = value}`.",
    ),
    "TIR0011": (
        "repeated entry",
        "An attribute, word, alias or stage occurs more than once. Remove one of them.",
    ),
    "TIR0012": (
        "number of operands",
        "The op has another number of operands. `docs/reference/ops.md` lists the "
        "operands of each op.",
    ),
    "TIR0013": (
        "number of results",
        "Write a name for every result left of `=` (`_` for a result that is not used), "
        "and the types of all results.",
    ),
    "TIR0014": (
        "block defined twice",
        "A label stands for one block in a function. Rename one of the two blocks.",
    ),
    "TIR0015": (
        "phi does not fit",
        "A phi has one entry for each predecessor of its block, and no other entry. Each "
        "value has the type of the phi.",
    ),
    "TIR0016": (
        "unfinished text",
        'A function or a string is not closed: add the missing `}` or `"`.',
    ),
    "TIR0017": (
        "text too large",
        "A type has more than 256 dimensions, or brackets are nested more than 256 deep.",
    ),
    "TIR0018": (
        "phi after another op",
        "Phis come before all other ops of a block. Move the phi to the start of its block.",
    ),
    "TIR0019": (
        "symbol defined twice",
        "Functions and globals of a module have distinct names. Rename one of the two.",
    ),
    "TIR0020": (
        "op outside a block",
        "The body of a function is a list of blocks, each of which begins with a label: `entry:`.",
    ),
    "TIR0021": (
        "not text",
        "The input contains control characters or other characters that `.tir` text does not have.",
    ),
    "TIR0022": (
        "unknown layout",
        "The module does not define this alias of a layout. Write `#name = layout(...)` "
        "before the first function.",
    ),
    "TIR0023": (
        "unknown word",
        "The word is not allowed at this position; the message lists the allowed words.",
    ),
    "TIR0024": (
        "unreachable block",
        "No path from the entry leads to the block. The parser omits the block.",
    ),
}
