"""The command line of `tileir-opt`."""

from __future__ import annotations

import argparse
from typing import Any

import tileir
from tileir.tools.compiler_options import add_compiler_options
from tileir.tools.json_output import add_json
from tileir.tools.safety import add_safety

_DESCRIPTION = """Run passes over a .tir module and print the result.
`tileir-opt bisect FILE -p PIPELINE` finds the pass that changes a result."""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands except `bisect`."""
    argument_parser = argparse.ArgumentParser(prog="tileir-opt", description=_DESCRIPTION)
    add = argument_parser.add_argument
    add("--version", action="version", version=f"tileir-opt {tileir.__version__}")
    add(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help=".tir file, or - for standard input (default)",
    )
    add("--dialect", default="tir", help="syntax of FILE: tir, mapl19 or triton1 (default: tir)")
    add(
        "-p",
        "--pipeline",
        default="",
        help="passes to run, e.g. 'default' or 'cse,licm{max-depth=2},dce'",
    )
    add(
        "-o",
        "--output",
        default="-",
        metavar="OUT",
        help="file to write (default: standard output); unchanged after an error",
    )
    add(
        "--emit",
        choices=("tir", "llvm", "ptx", "cubin"),
        default="tir",
        help="kind of output (default: tir)",
    )
    add_compiler_options(argument_parser.add_argument_group("code generation"))
    add_safety(argument_parser.add_argument_group("limits"))
    _add_printing(argument_parser.add_argument_group("printing, on standard error"))
    _add_checking(argument_parser.add_argument_group("checking"))
    return argument_parser


def _add_printing(group: Any) -> None:
    add = group.add_argument
    names: dict[str, Any] = {"action": "append", "default": [], "metavar": "PASS"}
    add("--print-before", help="print the module before PASS", **names)
    add("--print-after", help="print the module after PASS", **names)
    add("--print-before-all", action="store_true", help="print the module before every pass")
    add("--print-after-all", action="store_true", help="print the module after every pass")
    add("--print-changed", action="store_true", help="print the changes of each pass, as a diff")
    add("--timing", action="store_true", help="print the time of each pass")
    add("--stats", action="store_true", help="print the statistics of each pass")
    add(
        "--line-info",
        action="store_true",
        help="emit line tables, for profilers and sanitizers",
    )
    add("--remarks", action="store_true", help="print the remarks of passes and of --emit")
    add("--list-passes", action="store_true", help="print the passes and their options")
    add_json(group, "the output of --timing, --stats and --list-passes")


def _add_checking(group: Any) -> None:
    add = group.add_argument
    add("--no-verify", action="store_true", help="do not verify between passes")
    add(
        "--split-input",
        action="store_true",
        help="FILE has several modules, separated by lines '; -----'",
    )
    add(
        "--verify-diagnostics", action="store_true",
        help="require exactly the diagnostics in comments '; expected-error@+1 {{text}}'",
    )  # fmt: skip
    add("--reproducer", metavar="FILE", help="file for a reproducer, if a pass fails")
    add("--run-reproducer", action="store_true", help="run the pipeline that is recorded in FILE")


def pass_list() -> str:
    """Every pass with its options, types, defaults and first line of documentation."""
    from tileir.passes import PIPELINE
    from tileir.passmanager import all_passes

    lines: list[str] = []
    for pass_type in all_passes():
        lines.append(f"{pass_type.name} ({pass_type.level})")
        lines.append(f"    {pass_type.summary}")
        lines.extend(
            f"    {{{o.name}={str(o.default).lower()}}}: {o.type.__name__}{_choices(o.choices)}"
            for o in pass_type.options
        )
    return "\n".join([*lines, "", f"default = {','.join(PIPELINE)}", ""])


def pass_records() -> list[dict[str, Any]]:
    """Every pass with its options, types, defaults and first line of documentation, as records for
    JSON."""
    from tileir.passmanager import all_passes

    return [
        {
            "name": each.name, "level": each.level, "summary": each.summary,
            "options": [
                {"name": o.name, "type": o.type.__name__, "default": o.default,
                 "choices": list(o.choices)}
                for o in each.options
            ],
        }
        for each in all_passes()
    ]  # fmt: skip


def _choices(choices: tuple[Any, ...]) -> str:
    return f", tuned over {', '.join(str(c).lower() for c in choices)}" if choices else ""
