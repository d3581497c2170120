"""TIR04xx: versions of the language."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0401": (
        "op newer than the module",
        "The version in the header of the module is older than the op. Raise the version,"
        " or replace the op.",
    ),
    "TIR0402": (
        "module of a newer version",
        "This release does not support the version of the module. Use a newer tileir, or "
        "write an older version.",
    ),
}
