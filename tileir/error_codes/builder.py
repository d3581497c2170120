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
        "The assigned value has another element type than the variable, or the variable "
        "belongs to another function. A variable has the type of its first value. Smaller "
        "shapes are broadcast; convert elements by `x.to(type)`.",
    ),
    "TIR0806": (
        "control structure of a builder",
        "A `with` block or a branch of the builder is in the wrong place, or has a wrong "
        "operand. `else_` directly follows the body of an `if_`. `break_` and `continue_` are "
        "inside a loop. A condition is a scalar i1. Bounds and steps are scalar integers, and "
        "a step is not 0. A branch passes one argument for each parameter of its block, and "
        "the block has no terminator yet.",
    ),
    "TIR0807": (
        "shapes do not broadcast",
        "Two extents are different and neither is 1. The shorter shape is first padded with "
        "ones on the left.",
    ),
    "TIR0808": (
        "element types do not combine",
        "The operator is not defined for these element types. Examples are `&` of floats, the "
        "sum of two pointers, and a condition that is not i1. Convert by `x.to(type)`.",
    ),
    "TIR0809": (
        "truth of a run-time value",
        "Python's `if`, `and`, `or`, `not` and chained comparisons need the value of a "
        "condition, which is known only when the program runs. Use `b.if_`, `b.where`, `&`, "
        "`|` or `~`.",
    ),
    "TIR0810": (
        "function of a builder",
        "The function cannot be built. Either its name is defined twice, or arguments or "
        "results do not have the declared types, or a path ends without `b.ret(...)` although "
        "the function has results.",
    ),
    "TIR0811": (
        "index without bounds",
        "The conditions of a contraction do not bound an index on both sides. Add a "
        "condition, a range, or a read of a tensor at the index.",
    ),
    "TIR0812": (
        "elements assigned more than once",
        "Several points of the iteration space write one element. Use a reduction (sum, "
        "multiplication, maximum or minimum) in place of the assignment.",
    ),
    "TIR0813": (
        "arguments of a tensor program",
        "A program is built for element types and shapes. Pass arrays with these types "
        "and shapes, in the order of its inputs.",
    ),
}
