"""TIR02xx: verifier: blocks, functions, predicates."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0201": (
        "missing terminator",
        "Every block ends in exactly one terminator: `br`, `cond_br`, `ret` or `unreachable`.",
    ),
    "TIR0202": (
        "terminator inside a block",
        "A terminator leaves its block, so nothing can follow it there. Start a new block.",
    ),
    "TIR0203": (
        "label mismatch",
        "The mapping of blocks has a block under another label than the block's own, or a"
        " label that is no text. Only a program that constructs modules by hand can cause"
        " this.",
    ),
    "TIR0204": (
        "unknown block",
        "A branch names a label that no block of the function has.",
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
        "A branch passes one argument per parameter of the block it goes to; in text: every "
        "`phi` has one entry per predecessor.",
    ),
    "TIR0208": (
        "type of a branch argument",
        "An argument of an edge has the type of the block parameter (the `phi`) that receives it.",
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
        "The function reads a value that it does not define.",
    ),
    "TIR0212": (
        "definition does not dominate its use",
        "Every path from the entry to a use must pass the definition. Where paths join, "
        "pass the value through block parameters (`phi`).",
    ),
    "TIR0213": (
        "defined twice",
        "A value has one definition in its whole module. A pass that copies ops must give the "
        "copies new results.",
    ),
    "TIR0215": (
        "returned values",
        "`ret` gives one value per declared result, of the declared types.",
    ),
    "TIR0216": (
        "function results",
        "A kernel returns `void`: its results are what it stores. `void` is not the type of "
        "any value.",
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
        "The alignment of a function or global is a power of two, in bytes.",
    ),
    "TIR0222": (
        "function setting",
        "Settings such as `num_warps` are positive integers; `cluster` is 1, 2, 4, 8 or 16.",
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
        "`stages` and `unroll` of the latch of a loop must be at least 1.",
    ),
    "TIR0227": (
        "allocation outside of shared memory",
        "`shared` of an op is an offset and a size in bytes. The range must be within the shared "
        "memory of the block, whose size is `shared` of the function.",
    ),
    "TIR0228": (
        "shared-memory allocations overlap",
        "Two allocations with overlapping live ranges share a byte. The scratch memory of an op is "
        "live while the op runs. A buffer is live from a write to the last read of the value, and "
        "while a copy into it may be in flight. The pass `allocate-shared` assigns offsets.",
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
        "No predicate of the `psi` is known to hold in some lanes, and these are undefined in "
        "its result. Give it a complementary predicate, or `true` as the first one.",
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
