"""TIR05xx: interpreter."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0501": (
        "out of bounds",
        "A lane that is not masked out accesses an address outside of every array. The "
        "message names the lane, and its offset from the nearest array. Mask the lane, or"
        " correct the address.",
    ),
    "TIR0502": (
        "misaligned",
        "An address is not a multiple of the size of its element. Correct the offset in "
        "bytes, or the cast of the pointer.",
    ),
    "TIR0503": (
        "undefined address",
        "An address is computed from an undefined value: a masked-out lane of a load "
        "without `other`, memory that was never written, or `undef`.",
    ),
    "TIR0504": (
        "undefined mask or predicate",
        "A mask or predicate is computed from an undefined value, so it is unknown "
        "whether the lane accesses memory.",
    ),
    "TIR0505": (
        "undefined value stored",
        "A stored value is undefined. Give the load an `other`, or mask the store. With "
        "`allow_undef`, the store is allowed and the report marks the elements.",
    ),
    "TIR0506": (
        "undefined condition",
        "The condition of a branch is computed from an undefined value, so the next block is "
        "unknown.",
    ),
    "TIR0507": (
        "violated contract of a parameter",
        "The arguments of the launch violate `aligned`, `multiple_of` or `noalias` of a "
        "parameter, or the program executes `unreachable`. Correct the arguments, or "
        "remove the contract. Contracts of ops are TIR0554.",
    ),
    "TIR0508": (
        "access not permitted",
        "The op writes to a constant, to a read-only array or through a `readonly` "
        "parameter, or reads through a `writeonly` parameter.",
    ),
    "TIR0509": (
        "lanes disagree",
        "Two lanes of one store write different values to one address, and it is "
        "undefined which value remains. Mask one of the lanes, or use an atomic op.",
    ),
    "TIR0510": (
        "launch",
        "The grid, the names or the number of arguments, or an option does not fit the "
        "kernel. The message says which.",
    ),
    "TIR0511": (
        "argument",
        "The argument does not fit its parameter. A pointer takes a numpy array of the "
        "element type, or of the unsigned integer of the same size. A scalar takes a number "
        "in the range of its type.",
    ),
    "TIR0512": (
        "function without a definition",
        "The module calls a function that it only declares. Link the module that defines the "
        "function.",
    ),
    "TIR0513": (
        "calls nest too deeply",
        "At most 100 calls of device functions may be active at once, on every executor. "
        "Inline some functions.",
    ),
    "TIR0514": (
        "assertion failed",
        "The condition of an `assert` is false or undefined in some lane. The message has the "
        "text of the assertion.",
    ),
    "TIR0515": (
        "no meaning in the interpreter",
        "The interpreter does not define the effects of this op, or of the function that "
        "is called under a tile predicate. Inline assembly and external functions are "
        "TIR0555.",
    ),
    "TIR0516": (
        "limit of ops",
        "The program executed more ops than the option `limit` allows. Raise `limit`, or "
        "look for a loop that does not end.",
    ),
    "TIR0517": (
        "race",
        "Two program instances access one address, at least one of them writes, and no "
        "atomic or fence orders the two accesses. Use an atomic op, or order the accesses"
        " by release and acquire. With `allow_races`, races are listed in the report.",
    ),
    "TIR0518": (
        "deadlock",
        "Every running program instance waits in a loop for memory to change, and no "
        "instance will change it. The notes say where each instance waits.",
    ),
    "TIR0519": (
        "too many arrivals",
        "A phase of a barrier in shared memory ends after the number of arrivals that "
        "gpu.mbarrier_alloc states. Every warp that executes gpu.mbarrier_arrive counts "
        "once, and gpu.mbarrier_expect counts once.",
    ),
    "TIR0520": (
        "asynchronous work at the end",
        "A program instance ends before its roles have ended (add gpu.join), or warps end"
        " while their copies still read shared memory (add gpu.tma_wait).",
    ),
    "TIR0521": (
        "cluster",
        "The blocks of a cluster do not synchronize correctly. Each block alternates "
        "gpu.cluster_arrive and gpu.cluster_wait, outside of roles. Another block may access "
        "a shared-memory buffer only after the buffer is allocated and before its own block "
        "exits.",
    ),
    "TIR0522": (
        "too little memory",
        "The interpreter keeps every tile in memory, and this one does not fit. Use "
        "smaller tiles, or the executor `cpu`.",
    ),
    "TIR0539": (
        "executor",
        "No installed distribution has an executor of this name, or a package that the "
        "executor needs is missing.",
    ),
    "TIR0550": (
        "division by zero",
        "The divisor of an integer division or remainder is zero in an active lane. Mask "
        "the lane, or change the divisor by `select`.",
    ),
    "TIR0551": (
        "shift too far",
        "The shift count is at least the width of the type; counts are unsigned. Mask or "
        "clamp the count.",
    ),
    "TIR0552": (
        "index outside the tile",
        "An index of `gather` is at least the extent of the dimension. Indices are unsigned, "
        "so a negative index is large. Clamp the index.",
    ),
    "TIR0553": (
        "slice outside the tile",
        "The offset of extract_slice or insert_slice plus the extent of the slice exceeds the "
        "extent of the tile.",
    ),
    "TIR0554": (
        "violated contract of a value",
        "The condition that assume, multiple_of, contiguous or constant_run states is "
        "false. Compiled code relies on it and may compute other results. Correct the "
        "condition, or remove the op.",
    ),
    "TIR0555": (
        "no meaning outside of a GPU",
        "The interpreter executes neither inline assembly with memory, branches, special "
        "registers or rare instructions, nor external functions that libdevice does not "
        "have. Use `--on gpu`.",
    ),
}
