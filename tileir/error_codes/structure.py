"""TIR02xx: verifier: blocks, functions, predicates."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0201": (
        "missing terminator",
        "The last op of a block is not a terminator. End the block with `br`, `cond_br`, "
        "`ret` or `unreachable`.",
    ),
    "TIR0202": (
        "terminator inside a block",
        "Ops follow a terminator, which ends its block. Begin a new block after it.",
    ),
    "TIR0203": (
        "label mismatch",
        "The mapping of blocks has a block under another label than the block's own, or a"
        " label that is not text. Only a program that constructs modules by hand can cause"
        " this.",
    ),
    "TIR0204": (
        "unknown block",
        "The function has no block with the label of this branch. Correct the label, or add "
        "the block.",
    ),
    "TIR0205": (
        "entry block with parameters",
        "No edge leads to the entry block, so no edge could pass arguments to it. Use "
        "parameters of the function.",
    ),
    "TIR0206": (
        "branch to the entry block",
        "The entry block has no predecessors. Begin the loop in another block, to which "
        "the entry block branches.",
    ),
    "TIR0207": (
        "number of branch arguments",
        "A branch passes one argument for each parameter of its target block. In text, each "
        "`phi` of the block has one entry for each predecessor.",
    ),
    "TIR0208": (
        "type of a branch argument",
        "An argument of a branch has another type than the parameter of the target block, "
        "which is a `phi` in text.",
    ),
    "TIR0209": (
        "two edges with different arguments",
        "Both edges of a branch lead to one block and pass different arguments to it. Use"
        " `select`, or insert a block on one of the edges.",
    ),
    "TIR0210": (
        "unreachable block",
        "No path from the entry leads to the block. The parser drops such blocks with a "
        "remark; remove the block from a module that is built in another way.",
    ),
    "TIR0211": (
        "undefined value",
        "The function uses a value that it does not define. Pass a value of another function "
        "as an argument.",
    ),
    "TIR0212": (
        "definition does not dominate its use",
        "Every path from the entry to a use must pass the definition. Where paths join, "
        "pass the value through block parameters (`phi`).",
    ),
    "TIR0213": (
        "value defined twice",
        "Two ops or parameters of the module define one value. A pass that copies ops must "
        "create new results for the copies.",
    ),
    "TIR0214": (
        "op twice",
        "A function has one op object at two places, of which passes would move both to one. "
        "Make a new op for each place, for example by `attrs.evolve(op)`.",
    ),
    "TIR0215": (
        "returned values",
        "The operands of `ret` differ from the declared results of the function in number or type.",
    ),
    "TIR0216": (
        "function results",
        "A kernel returns `void`, because it passes its results through memory. No result of "
        "a function has the type `void`.",
    ),
    "TIR0217": (
        "parameter type",
        "The host launches a kernel and can pass scalars, pointers and tensor "
        "descriptors. Tiles exist only within a program, and no value has type `void`.",
    ),
    "TIR0220": (
        "parameter contract",
        "`aligned` (a power of two, in bytes), `readonly`, `writeonly` and `noalias` "
        "apply to pointers; `multiple_of` (positive) applies to integers. `readonly` and "
        "`writeonly` exclude each other.",
    ),
    "TIR0221": (
        "alignment",
        "The alignment of a function or a global must be a power of two, in bytes.",
    ),
    "TIR0222": (
        "attribute of a kernel",
        "An attribute of the function has an invalid value. Counts such as `num_warps` are "
        "positive integers, switches are true or false, `shared` is a number of bytes, and "
        "`cluster` is 1, 2, 4, 8 or 16.",
    ),
    "TIR0224": (
        "op of a later stage",
        "The backend creates the ops that start with `gpu.`. A module that contains them "
        'states its stage in the header: `stage "..."`.',
    ),
    "TIR0225": (
        "layout without a stage",
        "The backend chooses layouts. A module that contains them states its stage in the"
        ' header: `stage "..."`.',
    ),
    "TIR0226": (
        "loop attribute",
        "`stages` and `unroll` of a loop must be at least 1. They are attributes of the "
        "branch from the latch to the loop header.",
    ),
    "TIR0227": (
        "allocation outside of shared memory",
        "`shared = [offset, size]` of an op, in bytes, exceeds the shared memory of the "
        "block. The attribute `shared` of the function is the size of that memory.",
    ),
    "TIR0228": (
        "shared-memory allocations overlap",
        "Two allocations with overlapping live ranges share a byte. The scratch memory of an "
        "op is live while the op runs. A buffer is live from a write to the last read of the "
        "value, and during copies into it. The pass `allocate-shared` assigns the offsets.",
    ),
    "TIR0229": (
        "cluster",
        "Every path through the kernel alternates gpu.cluster_arrive and "
        "gpu.cluster_wait, outside of roles. A kernel whose ops use ranks has the "
        "attribute `cluster`, the number of ranks.",
    ),
    "TIR0230": (
        "value read where its predicate is false",
        "A value that is defined under `@%p` is undefined in the lanes where `%p` is "
        "false. Here it is read in lanes where `%p` is not known to be true. Merge it "
        "with `psi` or `select` first.",
    ),
    "TIR0231": (
        "psi leaves lanes undefined",
        "In some lanes, no predicate of the `psi` is known to be true, so the result is "
        "undefined there. Add the complementary predicate, or `true` as the first predicate.",
    ),
    "TIR0232": (
        "psi predicates overlap",
        "Several predicates of the `psi` are true in one lane; the last of them decides. "
        "Make the predicates exclusive if this is not intended.",
    ),
    "TIR0233": (
        "psi operand is never chosen",
        "Later predicates of the `psi` are true wherever this one is, so its value is "
        "never used. Remove the operand, or reorder the operands.",
    ),
    "TIR0234": (
        "buffer without an allocation",
        "A private buffer must be the result of gpu.private_alloc. It cannot be a "
        "function parameter or a `phi`.",
    ),
}
