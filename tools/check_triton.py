"""`tileir check-triton -- COMMAND`: run a program or test-suite that uses Triton, execute its
kernels in the interpreter or the SIMT simulator, and report their errors with locations."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from tileir.errors import Diagnostic, ToolError
from tileir.tools.json_output import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument(
        "--mode", choices=("interpreter", "simt"), default="interpreter",
        help="interpreter (default): races between program instances, undefined values, accesses "
        "out of bounds of a tensor; simt: races between threads in shared memory too",
    )  # fmt: skip
    add_json(parser, "the findings")
    parser.add_argument(
        "words", nargs="+", metavar="COMMAND", help="the command to run, after `--`"
    )


def execute(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if kernels have errors, else the command's own status. Raises
    ToolError if the command does not exist or the findings cannot be written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "findings"
        status = _run(options.words, options.mode, path)
        text = path.read_text().splitlines() if path.exists() else []
    lines = [json.loads(line) for line in text]
    checked = {line["checked"] for line in lines if "checked" in line}
    findings = group_findings([line for line in lines if "checked" not in line])
    if options.json != "-":
        sys.stdout.write(findings_text(findings, len(checked)) + "\n")
    write_json(options.json, [attrs.asdict(finding) for finding in findings])
    return 1 if findings else status


def _run(words: Sequence[str], mode: str, findings: Path) -> int:
    """Run a command, whose kernels run in `mode`, and return its status. Its kernels have a
    separate cache: the keys of Triton's cache contain the text and first line of a kernel but not
    its file, so the cached kernel could have locations in another file."""
    variables = {
        "TILEIR_TRITON_CPU": mode,
        "TRITON_DEFAULT_BACKEND": "cpu",
        "TILEIR_TRITON_FINDINGS": str(findings),
        "TRITON_CACHE_DIR": str(findings.with_name("cache")),
    }
    try:
        return subprocess.run(words, env={**os.environ, **variables}, check=False).returncode
    except OSError as error:
        message = f"cannot run {words[0]}: {error.strerror}"
        raise ToolError(Diagnostic("TIR0904", message)) from error


@attrs.frozen
class Finding:
    """An error of a kernel at a line. It occurred in `times` launches, first in `test`."""

    place: str
    code: str
    message: str
    kernel: str
    test: str
    notes: tuple[str, ...]
    times: int


def group_findings(lines: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """One finding for all launches with the same error at the same place."""
    together: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        place = f"{line['file']}:{line['line']}:{line['column']}" if line["file"] else ""
        together.setdefault((place or line["kernel"], line["code"]), []).append(line)
    return [
        Finding(
            place, code, same[0]["message"], same[0]["kernel"], same[0]["test"],
            tuple(same[0]["notes"]), len(same),
        )
        for (place, code), same in together.items()
    ]  # fmt: skip


def findings_text(findings: Sequence[Finding], kernels: int) -> str:
    """The findings as a text, after `kernels` kernels were launched."""
    if not kernels and not findings:
        return "check-triton: no kernel was launched, so none was checked"
    if not findings:
        return f"check-triton: {_count(kernels, 'kernel', 's')}, no launch did anything wrong"
    result: list[str] = []
    for each in findings:
        result.append(f"{each.place}: error[{each.code}]: {each.message}")
        result += [f"  {note}" for note in each.notes]
        where = f", first in {each.test}" if each.test else ""
        result.append(f"  in kernel {each.kernel}, {_count(each.times, 'launch', 'es')}{where}")
    result.append(f"check-triton: {_count(len(findings), 'finding', 's')}")
    return "\n".join(result)


def _count(number: int, word: str, ending: str) -> str:
    return f"{number} {word}{'' if number == 1 else ending}"
