"""TIR11xx: tuning."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1101": (
        "what to tune",
        "A space needs parameters of different names with at least one choice each, and a problem "
        "a kernel, a grid and arguments.",
    ),
    "TIR1102": (
        "no candidate is left",
        "Every point of the space was ruled out, or failed to compile, to run or to give the right "
        "result: the message says how many of each, and the first of them.",
    ),
    "TIR1103": (
        "database of measurements",
        "The file is no database of measurements, was written by a newer version, or cannot be "
        "opened.",
    ),
    "TIR1104": (
        "ruled out before compiling",
        "The candidate needs more threads, shared memory or registers than the target has, or the "
        "cost model expects it to take many times as long as the best.",
    ),
    "TIR1105": (
        "a candidate's process died",
        "The process that compiled or ran the candidate ended before it was done: a crash of the "
        "compiler or the kernel, or not enough memory. Other candidates are not concerned.",
    ),
    "TIR1106": (
        "a candidate took too long",
        "Compiling or running the candidate took longer than the limit, and was ended.",
    ),
    "TIR1107": (
        "a candidate's result is wrong",
        "What the candidate computes differs by more than the tolerance from the reference.",
    ),
    "TIR1108": (
        "a candidate cannot be made",
        "The function that makes modules raised an error of its own for this point.",
    ),
}
