"""TIR16xx: limits."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1601": (
        "limit exceeded",
        "The program exceeds a limit that protects memory and time. The message names the"
        " limit. `docs/reference/limits.md` lists all limits. Raise one with `with "
        "tileir.limits.limits(NAME=VALUE)`, the option `limits` of `compile`, or `--limit"
        " NAME=VALUE` of the commands.",
    ),
    "TIR1602": (
        "no such limit",
        "There is no limit of this name, or it cannot have this value. "
        "`docs/reference/limits.md` lists all limits.",
    ),
}
