"""`tileir-opt --verify-diagnostics`: check that the diagnostics are exactly those that comments
expect.

    ; expected-error {{text}}          on the line of the diagnostic
    ; expected-error@+1 {{text}}       one line above it
    ; expected-warning@-2 {{text}}     two lines below it
    ; expected-remark@above {{text}}   on the line below it

The text is a part of the message, or its code. A diagnostic without a location matches a comment of
its kind with `@?` on any line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

import attrs

from tileir.errors import Diagnostic, TileirError
from tileir.tools.opt import run_pipeline, split

_EXPECTED = re.compile(r";\s*expected-(error|warning|remark)(@\?|@above|@[+-]\d+)?\s*\{\{(.*?)\}\}")


@attrs.frozen
class TextExpectation:
    """An expected diagnostic: severity, line (None: anywhere) and part of its text."""

    severity: str
    line: int | None
    text: str
    written: int
    """The line of the comment."""

    def fits(self, diagnostic: Diagnostic) -> bool:
        line = diagnostic.location.line if diagnostic.location else None
        placed = self.line is None or self.line == line
        text = f"[{diagnostic.code}] {diagnostic.message}"
        return placed and self.severity == diagnostic.severity.value and self.text in text


def check(text: str, options: argparse.Namespace) -> int:
    """Compare the diagnostics of every part of `text` with the expected ones. Returns 1 if they
    differ."""
    failures: list[str] = []
    for part in split(text) if options.split_input else [text]:
        failures.extend(differences(expectations(part), _diagnostics(part, options)))
    sys.stderr.writelines(f"{line}\n" for line in failures)
    return 1 if failures else 0


def expectations(text: str) -> list[TextExpectation]:
    """The diagnostics that the comments of `text` expect."""
    return [
        TextExpectation(match[1], _line(match[2], number), match[3], number)
        for number, line in enumerate(text.splitlines(), 1)
        for match in _EXPECTED.finditer(line)
    ]


def differences(
    expected: Sequence[TextExpectation], diagnostics: Sequence[Diagnostic]
) -> list[str]:
    """One line for each diagnostic that is missing or was not expected."""
    unmatched = list(diagnostics)
    missing: list[str] = []
    for expectation in expected:
        match = next((d for d in unmatched if expectation.fits(d)), None)
        if match is None:
            what = f"no {expectation.severity} with {expectation.text!r}"
            where = f" at line {expectation.line}" if expectation.line is not None else ""
            missing.append(f"line {expectation.written}: {what}{where}")
        else:
            unmatched.remove(match)
    return missing + [f"unexpected {diagnostic}" for diagnostic in unmatched]


def _diagnostics(text: str, options: argparse.Namespace) -> Sequence[Diagnostic]:
    from tileir import verify

    try:
        module, remarks = run_pipeline(text, options)
        return [*verify(module), *remarks]  # type: ignore[list-item]
    except TileirError as error:
        return error.diagnostics


def _line(offset: str | None, line: int) -> int | None:
    if offset == "@?":
        return None
    if offset == "@above":
        return line - 1
    return line + int(offset[1:] if offset else 0)
