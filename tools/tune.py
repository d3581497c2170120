"""`tileir tune FILE`: find the fastest tile shape, number of warps and number of stages of a
kernel."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from tileir.backend.measurement.meter import Meter
from tileir.backend.options import Options
from tileir.backend.tuning import (
    SEARCHES,
    CpuMeter,
    Database,
    GpuMeter,
    Pruning,
    Stop,
    TimeLimits,
    TuningResult,
    Workers,
    tune,
)
from tileir.backend.tuning.report import duration, explain
from tileir.errors import Diagnostic, ToolError
from tileir.tools.compiler_options import add_compiler_options
from tileir.tools.executors import DEFAULT_TARGET, no_gpu
from tileir.tools.files import read_text, write_file
from tileir.tools.json_output import add_json, write_json
from tileir.tools.numbers import amount, natural, positive
from tileir.tools.tuning.ahead import ranking
from tileir.tools.tuning.plot import picture
from tileir.tools.tuning.problems import SPACES, TuneSettings, choices_in, problem_of
from tileir.tools.tuning.progress import observer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's arguments."""
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help=".tir, Triton-C (.c), or FILE.py:NAME for a "
        "kernel in Triton's Python or a Problem")  # fmt: skip
    add_compiler_options(parser)
    add(
        "--on",
        default="auto",
        choices=("auto", "gpu", "cpu"),
        help="where to measure (default: a GPU)",
    )
    add("--arg", action="append", default=[], metavar="NAME=VALUE",
        help="an argument of the kernel, or the grid: m=4096, a='f16[m, k] normal', "
        "run.grid='cdiv(m, TM)'")  # fmt: skip
    add("--seed", type=natural, default=0, help="seed of arguments and search (default: 0)")
    add("--check", default="auto", choices=("auto", "interpreter", "first"),
        help="reference for the results: the interpreter or the first candidate (auto: the "
        "expectations of the file, else the interpreter for small problems, else the "
        "first)")  # fmt: skip
    _add_space(parser.add_argument_group("candidates"))
    _add_search(parser.add_argument_group("search"))
    _add_output(parser.add_argument_group("results"))


def _add_space(group: Any) -> None:
    add = group.add_argument
    add("--space", default="factory+compiler",
        help="parameters to search, joined by +: factory (those of the file), compiler (those of "
        "passes), mapl19 (those of the MAPL 2019 paper) (default: %(default)s)")  # fmt: skip
    add("--try", dest="tried", action="append", default=[], metavar="NAME=V,V",
        help="values of a parameter, in place of those of the space")  # fmt: skip
    add("--slower", type=amount, default=3.0, metavar="N",
        help="skip candidates whose estimated time is N times that of the best; 0 skips none "
        "(default: %(default)s)")  # fmt: skip
    add(
        "--dry-run",
        action="store_true",
        help="print the ranking of the cost model, without measuring",
    )


def _add_search(group: Any) -> None:
    add = group.add_argument
    add(
        "--search",
        default="exhaustive",
        choices=tuple(SEARCHES),
        help="search strategy (default: %(default)s)",
    )
    add("--launches", type=positive, help="launches per measurement of the best candidates")
    add(
        "--processes",
        type=positive,
        metavar="N",
        help="processes that compile (default: one per processor)",
    )
    add("--dask", metavar="ADDRESS", help="compile on a Dask cluster; `local` starts one here")
    add("--seconds", type=amount, help="stop after so many seconds")
    add("--trials", type=positive, help="stop after so many candidates")
    add("--patience", type=positive, help="stop after so many candidates without improvement")
    add(
        "--compile-limit",
        type=amount,
        default=120.0,
        help="time limit to compile a candidate, in seconds (default: %(default)s)",
    )


def _add_output(group: Any) -> None:
    add = group.add_argument
    add("--database", metavar="PATH", help="database of measurements (default: in the user's "
        "cache; `:memory:` keeps none)")  # fmt: skip
    add(
        "--merge",
        action="append",
        default=[],
        metavar="PATH",
        help="add measurements that --export wrote",
    )
    add("--export", metavar="PATH", help="write all measurements as JSON")
    add("--list", action="store_true", help="print the measurements in the database")
    add("--plot", metavar="PATH", help="plot the measurements as SVG")
    add_json(group, "the best candidate and all outcomes, or the output of --dry-run or --list,")
    add("--quiet", action="store_true", help="do not print progress")


def execute(options: argparse.Namespace) -> int:
    """Tune a kernel and print the result; returns 130 after an interrupt."""
    try:
        return _execute(options)
    except KeyboardInterrupt:
        sys.stderr.write(
            "interrupted: the measurements are stored; run the same command to continue\n"
        )
        return 130


def _execute(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        opened = Database(options.database) if options.database else Database.usual()
        database = stack.enter_context(opened)
        for path in options.merge:
            _merge(database, path)
        if options.file is not None:
            _tune(options, database, stack)
        elif not (options.merge or options.export or options.list):
            raise ToolError(Diagnostic("TIR0915", "nothing to do: name a file"))
        if options.list:
            _list(database, options)
        if options.export is not None:
            write_file(options.export, json.dumps(database.export(), indent=1).encode())
    return 0


def _tune(options: argparse.Namespace, database: Database, stack: ExitStack) -> None:
    meter = _meter(options)
    problem = problem_of(options.file, options.kernel, _tune_settings(options, meter))
    if options.option:
        compiler = _compiler_options(options, meter)
        problem = attrs.evolve(problem, options={**problem.options, **compiler})
    if options.dry_run:
        ranked = ranking(problem, meter, options.processes, Pruning(options.slower or None))
        if options.json != "-":
            sys.stdout.write(str(ranked))
        write_json(options.json, ranked.to_json())
        return
    watching = observer(options.quiet)
    stack.callback(getattr(watching, "close", lambda: None))
    with _executor(options) as executor:
        result = tune(
            problem, meter, search=_search(options), executor=executor, database=database,
            pruning=Pruning(options.slower or None), limits=TimeLimits(options.compile_limit),
            stop=Stop(options.seconds, options.trials, options.patience), observer=watching,
        )  # fmt: skip
    with contextlib.suppress(AttributeError):
        watching.close()  # type: ignore[attr-defined]
    if options.json != "-":
        sys.stdout.write(explain(result))
    if options.plot is not None:
        write_file(options.plot, picture(result).encode())
    write_json(options.json, _record(result))


def _compiler_options(options: argparse.Namespace, meter: Meter) -> dict[str, Any]:
    """The options of `--option`. Raises CompileError and ToolError (TIR0716) for unknown ones."""
    if not isinstance(meter, GpuMeter):
        message = "--option is an option of the compiler for GPUs, but candidates run on the CPU"
        raise ToolError(Diagnostic("TIR0716", message))
    settings = dict(options.option)
    Options.of(settings)
    return settings


def _meter(options: argparse.Namespace) -> Meter:
    """The meter of the device to measure on: the GPU, or the CPU if there is no GPU and none is
    requested."""
    if options.on == "cpu":
        return CpuMeter()
    missing = no_gpu()
    if missing is not None and options.on == "gpu":
        raise ToolError(Diagnostic("TIR0907", f"cannot run on a GPU: {missing}"))
    if missing is None:
        here = GpuMeter.here()
        return here if options.target is None else GpuMeter(options.target)
    if options.dry_run:
        return GpuMeter(options.target or DEFAULT_TARGET)
    return CpuMeter()


def _tune_settings(options: argparse.Namespace, meter: Meter) -> TuneSettings:
    spaces = tuple(options.space.split("+"))
    unknown = set(spaces) - set(SPACES)
    if unknown:
        message = f"no space {', '.join(sorted(unknown))}; there are: {', '.join(SPACES)}"
        raise ToolError(Diagnostic("TIR0915", message))
    on_gpu = isinstance(meter, GpuMeter)
    if not on_gpu:
        spaces = tuple(s for s in spaces if s != "compiler")
    target = meter.target if on_gpu else DEFAULT_TARGET
    tried = dict(_parse_choices(word) for word in options.tried)
    return TuneSettings(options.arg, spaces, tried, target, options.seed, options.check)


def _parse_choices(word: str) -> tuple[str, tuple[Any, ...]]:
    name, equals, choices = word.partition("=")
    if not equals or not choices_in(choices):
        raise ToolError(Diagnostic("TIR0915", f"--try {word}: not NAME=VALUE,VALUE"))
    return name, choices_in(choices)


def _search(options: argparse.Namespace) -> Any:
    options_of_search: dict[str, Any] = {}
    if options.launches is not None:
        options_of_search["launches"] = options.launches
    if options.search == "local":
        options_of_search["seed"] = options.seed
    return SEARCHES[options.search](**options_of_search)


@contextmanager
def _executor(options: argparse.Namespace) -> Generator[Executor]:
    """The executor that compiles: a Dask cluster, or processes on this machine."""
    if options.dask is None:
        with Workers(options.processes, options.compile_limit) as workers:
            yield workers
        return
    if importlib.util.find_spec("distributed") is None:
        raise ToolError(Diagnostic("TIR0906", "--dask needs Dask: pip install 'tileir[dask]'"))
    from distributed import Client  # pyright: ignore

    local = options.dask == "local"
    settings: dict[str, Any] = {"n_workers": options.processes, "threads_per_worker": 1}
    with Client(**settings, dashboard_address=None) if local else Client(options.dask) as client:
        yield client.get_executor()


def _merge(database: Database, path: str) -> None:
    text = read_text(path)
    try:
        exported = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise ToolError(Diagnostic("TIR0904", f"cannot read {path}: {error}")) from None
    sys.stdout.write(f"{path}: {database.merge(exported)} measurements\n")


def _list(database: Database, options: argparse.Namespace) -> None:
    records: list[dict[str, Any]] = []
    for family in database.families():
        outcomes = database.outcomes(family)
        best = min((o for o in outcomes if o.good), key=lambda o: o.seconds or 0.0, default=None)
        result = "nothing measured" if best is None else f"{duration(best.seconds)}  {best.name}"
        head = f"@{family.kernel} {family.shape} on {family.device}, driver {family.driver}"
        if options.json != "-":
            sys.stdout.write(f"{head}, {len(outcomes)} outcomes: {result}\n")
        records.append({
            **attrs.asdict(family), "outcomes": len(outcomes),
            "best": None if best is None else best.name,
            "seconds": None if best is None else best.seconds,
        })  # fmt: skip
    if options.file is None:
        write_json(options.json, records)


def _record(result: TuningResult) -> dict[str, Any]:
    """The best candidate and every outcome, for JSON."""
    rows = [
        {**o.point, "status": o.status.value, "seconds": o.seconds, "predicted": o.predicted,
         "registers": o.registers, "spills": o.spills, "shared": o.shared, "code": o.code,
         "message": o.message, "launches": o.launches, "compiling": o.compiling}
        for o in (*result.outcomes, *result.left_out)
    ]  # fmt: skip
    spent = result.spent
    return {
        "best": dict(result.best.point), "seconds": result.best.seconds, "outcomes": rows,
        "wall": spent.wall, "survey": spent.survey, "compiling": spent.compiling,
        "device": result.family.device, "shape": result.family.shape,
    }  # fmt: skip
