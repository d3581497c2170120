"""TIR11xx: tuning."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1101": (
        "tuning problem is incomplete",
        "A space needs parameters with distinct names and at least one choice each. A "
        "problem needs a kernel, a grid and arguments.",
    ),
    "TIR1102": (
        "no candidate is left",
        "Every point of the space was excluded, or failed to compile, to run, or to give "
        "the right result. The message counts each case and quotes the first error.",
    ),
    "TIR1103": (
        "database of measurements",
        "The file is not a database of measurements, was written by a newer version, or "
        "cannot be opened. Use another file with `--database`.",
    ),
    "TIR1104": (
        "excluded before compiling",
        "The candidate needs more threads, shared memory or registers than the target "
        "has, or the cost model expects it to take many times as long as the best one.",
    ),
    "TIR1105": (
        "a candidate's process ended",
        "The process that compiled or ran the candidate ended early: the compiler or the "
        "kernel crashed, or memory was exhausted. Other candidates are not affected.",
    ),
    "TIR1106": (
        "a candidate took too long",
        "Compiling or running the candidate took longer than the limit, and was ended.",
    ),
    "TIR1107": (
        "a candidate's result is wrong",
        "The result of the candidate differs from the reference by more than the tolerance.",
    ),
    "TIR1108": (
        "a candidate cannot be built",
        "The function that builds modules raised an error for this point of the space.",
    ),
}
