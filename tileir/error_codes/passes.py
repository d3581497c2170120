"""TIR06xx: passes and the pass manager."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0601": (
        "unknown pass",
        "No pass has this name, or the distribution that declares it is wrong: the pass "
        "cannot be loaded, or its first parameter is not annotated as a Function or a Module. "
        "`tileir-opt --list-passes` lists all passes.",
    ),
    "TIR0602": (
        "option of a pass",
        "The pass or group has no such option, or the option occurs twice, or its value "
        "has another type. An option is written `licm{max-depth=2}`; `tileir-opt "
        "--list-passes` lists all.",
    ),
    "TIR0603": (
        "text of a pipeline",
        "The text is not a pipeline. A pipeline is a list of passes, separated by commas: "
        "`simplify,func(cse,licm{max-depth=2}),dce`.",
    ),
    "TIR0604": (
        "module pass inside func",
        "`func(...)` runs its passes on one function at a time, so it cannot contain a "
        "pass on modules. Move the pass out of `func(...)`.",
    ),
    "TIR0605": (
        "pass failed",
        "A pass raised an exception. This is a defect of the pass, not of the input. "
        "`--reproducer FILE` writes a file that reproduces it, `--run-reproducer FILE` "
        "runs it.",
    ),
    "TIR0606": (
        "pass left an invalid module",
        "The verifier reports errors after a pass that it did not report before. This is "
        "a defect of the pass.",
    ),
    "TIR0607": (
        "not a reproducer",
        "The file has no metadata `reproducer.pipeline`. `tileir-opt --reproducer FILE` "
        "writes reproducers.",
    ),
    "TIR0608": (
        "rewriting does not end",
        "Two rules of a pass undo each other's rewrites. This is a defect of the pass.",
    ),
    "TIR0609": (
        "nothing to bisect",
        "The module is right after the whole pipeline, or wrong before its first pass, so"
        " no pass changes the result.",
    ),
    "TIR0651": (
        "load stays in its loop",
        "The load reads the same address in every iteration, but an op of the loop (see "
        "the note) may change the memory. Declare parameters `noalias` or `readonly` if "
        "this cannot happen.",
    ),
    "TIR0652": (
        "predicate is kept",
        "`lower-predicates` left the predicate `@%p` on an op. The op has no mask, and no "
        "operand that makes the op harmless where the predicate is false.",
    ),
    "TIR0653": (
        "loop or load is not pipelined",
        "The message gives the reason: the loop has no single latch, the address depends "
        "on values that the iteration computes late, or the memory may change in between.",
    ),
    "TIR0654": (
        "split-K is not applied",
        "The blocks of a cluster cannot divide K. Either the loop has effects besides the "
        "accumulation, or a store needs rows of the accumulator that another block owns. The "
        "message gives the reason.",
    ),
    "TIR0655": (
        "multicast is not applied",
        "Blocks do not share their loads by TMA multicast. Either the kernel writes memory "
        "before its matmuls are complete, or the addresses or trip counts of the loads depend "
        "on the program instance, or no two instances load the same operand. The message "
        "gives the reason.",
    ),
    "TIR0669": (
        "kernel is not supported by a pass",
        "The pass supports only kernels without certain ops, which other passes replace. "
        "The message names such an op, and the pass to run first.",
    ),
}
