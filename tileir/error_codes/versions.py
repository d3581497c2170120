"""TIR04xx: versions of the language."""

from __future__ import annotations

CODES: dict[str, tuple[str, str]] = {
    "TIR0401": (
        "op newer than the module",
        "The version in the module's header is older than the op. Raise the version, or do "
        "without the op.",
    ),
    "TIR0402": (
        "module of a newer version",
        "The module is written in a version of the IR that this release does not know; use a newer "
        "tileir, or have the producer write an older version.",
    ),
}
