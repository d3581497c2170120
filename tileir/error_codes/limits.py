"""TIR16xx: limits."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR1601": (
        "limit exceeded",
        "The program asks for more than a limit allows, which would exhaust memory or time. The "
        "message names the limit; `docs/reference/limits.md` lists all, and says how to raise one: "
        "`with tileir.limits.limits(NAME=VALUE)`, the option `limits` of `compile`, or "
        "`--limit NAME=VALUE` of the commands.",
    ),
    "TIR1602": (
        "no such limit",
        "There is no limit of that name, or it cannot have that value: `docs/reference/limits.md` "
        "lists all.",
    ),
}
