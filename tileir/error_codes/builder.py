"""TIR08xx: builder."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0801": (
        "no insertion point",
        "An op was built where no op can be inserted: outside of `with b.kernel(...)` or "
        "`b.function(...)`, after `b.ret()` or another branch, or `b.module()` was called"
        " while a function was open.",
    ),
    "TIR0802": (
        "literal of a builder",
        "A Python number cannot become a literal. Either nothing in the call determines "
        "its type (write `b.constant(type, number)`), or it does not fit the type (300 is"
        " no i8, 1.5 no i32).",
    ),
    "TIR0803": (
        "arguments of a builder method",
        "The method of an op takes its operands in order, and its attributes by keyword. "
        "The message lists them.",
    ),
    "TIR0804": (
        "indexing a tile",
        "A tile can be indexed by `None` (a new dimension), `:` and `...` only: its "
        "elements have no addresses. Use `extract_slice` for a part, and `gather` or a "
        "reduction for elements. An axis must be one of the tile's dimensions.",
    ),
    "TIR0805": (
        "variable of another type or function",
        "A variable keeps the type of its first value; shapes are broadcast to it, element types "
        "are not converted (`x.to(type)`). It belongs to the function it was made in.",
    ),
    "TIR0806": (
        "control structure of a builder",
        "`else_` directly follows the body of an `if_`; `break_` and `continue_` stand in a loop; "
        "conditions are scalar i1, bounds scalar integers, steps not 0; a branch passes one "
        "argument of the right type per block parameter, to a block that is still open.",
    ),
    "TIR0807": (
        "shapes do not broadcast",
        "The shorter shape is padded with ones on the left; then each pair of extents must be "
        "equal, or one of them 1.",
    ),
    "TIR0808": (
        "element types do not combine",
        "An operator has no meaning for these element types, e.g. bits of floats, two pointers "
        "added, an i1 expected. Convert with `x.to(type)`.",
    ),
    "TIR0809": (
        "truth of a run-time value",
        "Python's `if`, `and`, `or`, `not` and chained comparisons need a value while the program "
        "is being built. Use `b.if_`, `b.where`, `&`, `|`, `~`.",
    ),
    "TIR0810": (
        "function of a builder",
        "A name is defined twice, arguments or results are not of the declared types, or a "
        "function with results can end without `b.ret(...)`.",
    ),
    "TIR0811": (
        "index without bounds",
        "The conditions of a contraction leave infinitely many values of an index. Each needs a "
        "condition, or a tensor read at it, that bounds it on both sides.",
    ),
    "TIR0812": (
        "elements assigned more than once",
        "An assignment takes every element from one point of its iteration space. Use a reduction "
        "(sum, multiplication, maximum or minimum) where several points have one position.",
    ),
    "TIR0813": (
        "arguments of a tensor program",
        "A program is built for element types and shapes. Pass arrays with these types "
        "and shapes, in the order of its inputs.",
    ),
}
