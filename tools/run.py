"""`tileir run FILE`: run the kernel of a module on the inputs that its metadata describes, and
check the results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tileir.errors import CompileError, Diagnostic, ToolError, escape
from tileir.executor import executor
from tileir.ir import Module
from tileir.tools.check import CheckResult, verdicts
from tileir.tools.compiler_options import add_compiler_options
from tileir.tools.executors import choose
from tileir.tools.files import read_module, write_file
from tileir.tools.inputs import Recipe, draw, recipe, unused_entries
from tileir.tools.json_output import add_json, write_json
from tileir.tools.numbers import amount, natural
from tileir.tools.ptx import compiled_for, usual_path
from tileir.tools.remarks import render_remarks
from tileir.tools.report import HEADS, rows
from tileir.tools.safety import add_safety
from tileir.tools.table import Row, Table

if TYPE_CHECKING:
    from tileir.backend import CompiledKernel

_ON = "gpu, cpu, interpreter, simt, or auto (default): a GPU, else the CPU, else the interpreter"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    parser.add_argument("file", metavar="FILE", help=".tir file, or - for standard input")
    parser.add_argument("--on", default="auto", metavar="EXECUTOR", help=_ON)
    parser.add_argument(
        "--report",
        action="store_true",
        help="with --on simt: print memory traffic, bank conflicts and barriers per line",
    )
    parser.add_argument(
        "--time-limit", type=amount, metavar="SECONDS",
        help="time limit of the kernel, if it does not run on a GPU (default: none)",
    )  # fmt: skip
    parser.add_argument("--seed", type=natural, default=0, help="seed of the inputs (default: 0)")
    add_compiler_options(parser)
    parser.add_argument("--ptx", metavar="PATH", help="write the PTX to this file")
    parser.add_argument(
        "--remarks", action="store_true",
        help="print the remarks of the compiler on standard error",
    )  # fmt: skip
    add_json(parser, "the results and the counts of --report")
    add_safety(parser)


def execute(options: argparse.Namespace) -> int:
    """Run the kernel, check the results and print the table. Returns 1 if a result differs from the
    expected one."""
    module = _link(read_module(options.file))
    plan = recipe(module, options.kernel)
    before = draw(plan, options.seed)
    for entry in unused_entries(module):
        sys.stderr.write(f"{escape(entry)} has no effect: no launch reads it\n")
    counts = _counts(options)
    start = perf_counter()
    extra: dict[str, Any] = {} if counts is None else {"counts": counts}
    if options.time_limit is not None:
        extra["time_limit"] = options.time_limit
    name, after = _launch(module, plan, before, options, extra)
    seconds = perf_counter() - start
    judged = verdicts(plan, before, after)
    tables = {"results": _results(judged)}
    if counts is not None:
        tables["report"] = Table(HEADS, rows(counts), blank=0)
    ptx = _ptx_line(module, plan, options)
    if options.json != "-":
        grid = "x".join(map(str, plan.grid))
        sys.stdout.write(f"@{escape(plan.kernel.name)} on {name}, grid {grid}, {seconds:.2f} s\n")
        if not judged:
            sys.stdout.write("nothing to compare: the module's metadata has no expect.NAME\n")
        for table in (table for table in tables.values() if table.rows):
            table.show()
        sys.stdout.write(ptx + "\n")
    about = {"kernel": plan.kernel.name, "on": name, "grid": list(plan.grid), "seconds": seconds}
    write_json(options.json, {**about, **{k: table.records for k, table in tables.items()}})
    return 0 if all(verdict.good for verdict in judged) else 1


def _link(module: Module) -> Module:
    """The module, linked with the functions of the standard library that it declares."""
    if not any(function.is_declaration for function in module.functions.values()):
        return module
    from tileir.linker import link

    return link(module)


def _counts(options: argparse.Namespace) -> Any:
    """The counters of the SIMT simulator; None if not requested.

    Raises ToolError (TIR0908) if another executor runs the kernel."""
    if not options.report:
        return None
    if options.on != "simt":
        message = "--report needs --on simt: only the SIMT simulator counts accesses"
        raise ToolError(Diagnostic("TIR0908", message))
    from tileir.backend.simt.counts import Counts  # imports numpy, needed only for reports

    return Counts()


def _launch(
    module: Module, plan: Recipe, before: Mapping[str, Any], options: argparse.Namespace,
    extra: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:  # fmt: skip
    """Run the kernel; return the executor's name and the results.

    A kernel for which no GPU code can be generated runs in the interpreter, unless `--on gpu` is
    passed.
    """
    name, after = choose(options.on, module, plan.kernel.name), _copies(before)
    compiler = dict(options.option) if name in ("gpu", "simt") else {}
    if options.target is not None and name == "simt":
        compiler["target"] = options.target
    try:
        executor(name).launch(module, plan.kernel.name, plan.grid, after, **compiler, **extra)
    except CompileError as error:
        if options.on != "auto":
            raise
        sys.stderr.write(f"not on a GPU: {error}\n")
        name, after = "interpreter", _copies(before)
        executor(name).launch(module, plan.kernel.name, plan.grid, after, **extra)
    return name, after


def _results(judged: list[CheckResult]) -> Table:
    """The error of each result against numpy."""
    lines = [
        Row(
            (
                v.name, f"{v.type} {'x'.join(map(str, v.shape)) or 'scalar'}", v.reference,
                f"{v.error:.2e}", f"{v.within:.2e}", "ok" if v.good else "WRONG",
            ),
            v.good,
        )
        for v in judged
    ]  # fmt: skip
    return Table(("result", "type", "against numpy", "error", "allowed", "verdict"), lines)


def _ptx_line(module: Module, plan: Recipe, options: argparse.Namespace) -> str:
    """A line with the path of the PTX, or the reason why there is none."""
    is_required = bool(options.ptx or options.target or options.option)
    try:
        compiled = compiled_for(module, plan.kernel.name, options.target, dict(options.option))
    except ModuleNotFoundError as error:
        if not is_required:
            return f"PTX: none, as {error.name} is not installed (pip install 'tileir[cu12]')"
        message = f"PTX needs {error.name}: pip install 'tileir[cu12]'"
        raise ToolError(Diagnostic("TIR0906", message)) from None
    except CompileError as error:
        if not is_required:
            return f"PTX: none, as the backend refused the module: {error}"
        raise
    if options.remarks:
        sys.stderr.write(render_remarks(compiled.remarks))
    return _write_ptx(compiled, options.ptx)


def _write_ptx(compiled: CompiledKernel, path: str | None) -> str:
    """Write the PTX to `path`, or else to the user's cache, and return the path."""
    where = path or usual_path(compiled)
    try:
        write_file(where, compiled.ptx.encode())
    except ToolError as error:
        if path is not None:
            raise
        return f"PTX: none: {error.diagnostics[0].message}"
    return f"PTX: {where}"


def _copies(values: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in values.items()}
