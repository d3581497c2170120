"""TIR05xx: interpreter."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0501": (
        "out of bounds",
        "A lane that is not masked off accessed an address outside every array given. The "
        "message names the lane, and the offset from the array that is nearest. Mask the lane, "
        "or correct the address.",
    ),
    "TIR0502": (
        "misaligned",
        "An address must be a multiple of the size of the element it points to.",
    ),
    "TIR0503": (
        "undefined address",
        "An address was computed from an undefined value: a masked-off lane without `other`, "
        "memory never written, `undef`.",
    ),
    "TIR0504": (
        "undefined mask or predicate",
        "Whether a lane accesses memory depends on an undefined value.",
    ),
    "TIR0505": (
        "undefined value stored",
        "A value that reaches memory is undefined. Give the load an `other`, or mask the store. "
        "`allow_undef` lets stores pass and marks the elements in the report.",
    ),
    "TIR0506": (
        "undefined condition",
        "A branch depends on an undefined value.",
    ),
    "TIR0507": (
        "broken promise of a parameter",
        "A parameter's `aligned`, `multiple_of` or `noalias` does not hold for the arguments "
        "of the launch, or control came to `unreachable`. Promises of ops are TIR0554.",
    ),
    "TIR0508": (
        "access not permitted",
        "A write to a constant, a read-only array or through a `readonly` parameter, or a read "
        "through a `writeonly` one.",
    ),
    "TIR0509": (
        "lanes disagree",
        "Two lanes of one store write different values to one address; which one stays is not "
        "defined.",
    ),
    "TIR0510": (
        "launch",
        "The grid, the names or the number of arguments, or an option does not fit the kernel.",
    ),
    "TIR0511": (
        "argument",
        "Pointers take numpy arrays of the pointee's dtype (or the unsigned integer of its "
        "size), scalars take numbers that their type holds.",
    ),
    "TIR0512": (
        "function without a definition",
        "The module calls a function that it declares and nothing defines. Link the module "
        "that defines it.",
    ),
    "TIR0513": (
        "calls nest too deeply",
        "Device functions do not recurse, and 100 of them may be under way at once, whatever runs "
        "them: inline some.",
    ),
    "TIR0514": (
        "assertion failed",
        "The condition of an `assert` is false or undefined in some lane.",
    ),
    "TIR0515": (
        "no meaning in the interpreter",
        "The op, or the function that it calls under a predicate that is a tile, has effects "
        "that the interpreter has no meaning for. Inline assembly and external functions are "
        "TIR0555.",
    ),
    "TIR0516": (
        "limit of ops",
        "More ops were executed than `limit` allows.",
    ),
    "TIR0517": (
        "race",
        "Two program instances access one address, at least one of them writes, and no atomic "
        "or fence orders the one before the other. `allow_races` puts races into the report.",
    ),
    "TIR0518": (
        "deadlock",
        "Every program instance that still runs waits in a loop for memory to change, and none "
        "of them will change it. The notes say where they wait.",
    ),
    "TIR0519": (
        "too many arrive",
        "A phase of a barrier in shared memory ends after as many arrivals as gpu.mbarrier_alloc "
        "says; every warp that comes to gpu.mbarrier_arrive counts, and gpu.mbarrier_expect once.",
    ),
    "TIR0520": (
        "something still runs",
        "A program instance ends before its roles have (gpu.join), or warps do while copies that "
        "they began still read shared memory (gpu.tma_wait).",
    ),
    "TIR0521": (
        "cluster",
        "Blocks of a cluster synchronize by alternating gpu.cluster_arrive and gpu.cluster_wait, "
        "outside of roles. Another block of the cluster may access a shared-memory buffer from "
        "its allocation until its owner block exits.",
    ),
    "TIR0522": (
        "too little memory",
        "The interpreter holds tiles whole, each element with its bits.",
    ),
    "TIR0539": (
        "executor",
        "No executor of that name is installed, or its dependencies are missing.",
    ),
    "TIR0550": (
        "division by zero",
        "An integer division or remainder whose divisor is zero, in a lane that runs, has no "
        "meaning.",
    ),
    "TIR0551": (
        "shift too far",
        "A shift by the width of the type or more has no meaning; counts are unsigned.",
    ),
    "TIR0552": (
        "index outside the tile",
        "A gather's index names no element of the dimension.",
    ),
    "TIR0553": (
        "slice outside the tile",
        "extract_slice or insert_slice reaches beyond the tile's extent with these offsets.",
    ),
    "TIR0554": (
        "broken promise",
        "What assume, multiple_of, contiguous or constant_run promises does not hold; a compiler "
        "that relied on it would have made other code.",
    ),
    "TIR0555": (
        "no meaning outside a GPU",
        "Inline assembly and external functions that libdevice does not have cannot be "
        "interpreted.",
    ),
}
