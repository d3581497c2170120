"""Kernels of Decoupled Triton against torch, torch.compile and Liger on one GPU, in one run.

    python benchmarks/thesis.py [--out FILE.json] [--only NAME ...] [--top N] [--no-compile]
                                [--seconds 500] [--jobs N] [--search] [--pictures FOLDER]

Needs lark; where it is not installed: `pip install --target build/site lark`, and
PYTHONPATH=build/site. `tileir hand` is a schedule by hand (`tileir hand1` and so on are others),
and `tileir auto` the first one of the autoscheduler; `--top N` measures its first N. `--results
FILE.json ...` also measures the schedules by hand and by the autoscheduler of earlier runs. `best`
is the fastest of all of ours; the target of `auto/best` is 1.05. `--search` measures only the lines
with a template of schedules (`thesis_algorithms.SEARCHED`), and all schedules of the template;
`--pictures` draws them as in Figures 4.2 to 4.15 of the thesis, with their competitive-to-total
ratio. Schedules are searched and kernels compiled first, in `--jobs` processes. Outputs, poisoned
before, are checked against f64 on other inputs; `timing.py` says how variants are timed. Lines of
FlashAttention also have the kernel that `attention.py` measures, as `builder`: the target is 0.95
of its speed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import checks
import thesis_liger
import torch
from thesis_algorithms import SEARCHED, Algorithm, algorithms
from thesis_cases import Case, cases

from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.runtime.cache import Cache
from tileir.builder import F16
from tileir.errors import TileirError
from tileir.frontends.decoupled import FuncPlan, parse
from tileir.frontends.decoupled.autoschedule import autoschedule
from tileir.frontends.decoupled.program import Wrapper
from tileir.frontends.decoupled.shorthand import choices, expand
from tileir.testing.attention import attention, heads_together
from tileir.tools.view.schedules import schedules as picture

TARGET = "sm_90a"
BUILT = "builder"
"""The variant of FlashAttention that is written with `tileir.builder`."""
ROWS = 1 << 26
"""Elements of results that are compared at a time."""


# Schedules and compilation -----------------------------------------------------------------------


def programs(algorithm: Algorithm, schedules: dict[str, str]) -> dict[str, Wrapper]:
    """Compiled functions of schedules in shorthand, by their names."""
    target = algorithm.target
    bare = parse(algorithm.source, algorithm.name)
    bare = bare.with_schedule(f"{target}.compile(); {target}.math(approx);")
    return {n: bare.with_schedule(expand(text)).function(target) for n, text in schedules.items()}


def plan_of(algorithm: Algorithm, function: Wrapper) -> FuncPlan:
    """The kernels of a function."""
    return function.plan(*algorithm.inputs, types=algorithm.types)


def find_schedules(
    key: str, top: int, search: bool, before: dict[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Schedules in shorthand: by hand, by the autoscheduler, and from `before`; their kernels are
    then in the cache. Also the errors of schedules that are left out. Needs no GPU."""
    algorithm, problems = next(a for a in algorithms() if a.key == key), list[str]()
    schedules = {f"tileir hand{i or ''}": text for i, text in enumerate(algorithm.schedules)}
    bare = parse(algorithm.source, algorithm.name)
    try:
        best = autoschedule(bare, algorithm.inputs, name=algorithm.target, types=algorithm.types,
                            count=top)  # fmt: skip
    except TileirError as error:
        best = []
        problems.append(f"{key}: {error}")
    for i, one in enumerate(best):
        schedules[f"tileir auto{i or ''}"] = one.schedule.replace(" compile()", "")
    for name, text in before.items():
        if text not in schedules.values():
            schedules[name.replace("tileir", "tileir before")] = text
    if search:
        for i, text in enumerate(choices(SEARCHED[key])):
            schedules[f"tileir {i}"] = text
    for name, function in programs(algorithm, schedules).items():
        try:
            plan = plan_of(algorithm, function)
            for launch in plan.launches:
                metadata = Cache.usual().compile(plan.module, TARGET, None, launch.kernel).metadata
                if metadata.spills:
                    problems.append(f"{key} {name}: {metadata.spills} bytes spilled")
        except (TileirError, AssertionError) as error:
            problems.append(f"{key} {name} ({schedules.pop(name)}): {str(error)[:300]}")
    return schedules, problems


def find_all_schedules(
    keys: list[str], options: argparse.Namespace, before: dict[str, dict[str, str]]
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """`find_schedules` for each of the lines."""
    each = [(key, options.top, options.search, before.get(key, {})) for key in keys]
    if options.jobs == 1:
        yield from (find_schedules(*arguments) for arguments in each)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for one in [pool.submit(find_schedules, *arguments) for arguments in each]:
            yield one.result()


def schedules_of(files: list[str]) -> dict[str, dict[str, str]]:
    """The manual and the automatic schedules in files of earlier runs, by line."""
    by_line: dict[str, dict[str, str]] = {}
    for file in files:
        for line in json.loads(Path(file).read_text())["lines"]:
            names = ("tileir hand", "tileir auto")
            chosen = {n: line["schedules"][n] for n in names if n in line["schedules"]}
            key = f"{line['name']}:{'x'.join(map(str, line['sizes'].values()))}"
            by_line.setdefault(key, {}).update(chosen)
    return by_line


# Measurement -------------------------------------------------------------------------------------


def ours(plan: FuncPlan, arguments: dict[str, Any]) -> Callable[..., torch.Tensor]:
    """A function of (output, inputs) that launches a plan's kernels."""
    scratch = {
        n: torch.empty(plan.tensors[n].shape, dtype=getattr(torch, plan.tensors[n].dtype.name),
                       device="cuda")
        for n in plan.scratch
    }  # fmt: skip
    kernels = []
    for launch in plan.launches:
        compiled = Cache.usual().compile(plan.module, TARGET, None, launch.kernel)
        kernels.append((LoadedKernel(compiled)[launch.instances], launch.arguments))
    names = list(arguments)

    def call(y: torch.Tensor, *inputs: Any) -> torch.Tensor:
        values = {**scratch, plan.name: y, **dict(zip(names, inputs, strict=True))}
        stream = torch.cuda.current_stream().cuda_stream
        for kernel, parameters in kernels:
            kernel(*(values[n] for n in parameters), stream=stream)
        return y

    return call


def built_attention(case: Case) -> Callable[..., torch.Tensor]:
    """The kernel that `attention.py` measures, of `tileir.builder`, at this case's tile."""
    sizes = case.algorithm.sizes
    scale = sizes["k"] ** -0.5 * 1.4426950408889634
    causal = case.algorithm.name == "flash causal"
    module = attention(128, 128, sizes["k"], F16, causal=causal, arranged=causal)
    options = Options(warp_specialize=True, persistent=True, ordered_softmax=True)
    kernel = LoadedKernel(Cache.usual().compile(module, TARGET, options))
    launch = kernel[-(-sizes["m"] // 128), sizes["h"]]
    more = [heads_together(sizes["m"], sizes["k"], 128, sizes["h"])] if causal else []

    def call(y: torch.Tensor, q: Any, k: Any, v: Any) -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        launch(q, k.transpose(1, 2), v, y, sizes["m"], scale, *more, stream=stream)
        return y

    return call


def variants(
    case: Case, inputs: list[Any], schedules: dict[str, str], compiled: bool
) -> dict[str, Callable[..., torch.Tensor]]:
    """Functions of (output, inputs) by name."""
    calls: dict[str, Callable[..., torch.Tensor]] = {}
    for name, function in programs(case.algorithm, schedules).items():
        arguments = dict(zip((*function.tensors, *function.scalars), inputs, strict=True))
        calls[name] = ours(plan_of(case.algorithm, function), arguments)
    calls["torch"] = lambda y, *a: case.plain(*a)
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(case.plain, mode="max-autotune-no-cudagraphs", dynamic=False)
        calls["compile"] = lambda y, *a: function(*a)
    if case.algorithm.name.startswith("flash"):
        calls[BUILT] = built_attention(case)
    liger = thesis_liger.peer(case.algorithm.name)
    if liger is not None:
        calls["liger"] = lambda y, *a: liger(*a)
    return calls


def wrong(case: Case, calls: dict[str, Callable[..., torch.Tensor]]) -> dict[str, str]:
    """The errors of results on fresh inputs, by name."""
    inputs = case.inputs()
    exact = [x.double() if hasattr(x, "double") else x for x in inputs]
    expected = case.plain(*exact)
    scale = magnitude(case, exact)
    faults = dict[str, str]()
    for name, call in calls.items():
        poisoned = torch.full(expected.shape, float("nan"), dtype=case.dtype, device="cuda")
        try:
            y = call(poisoned, *inputs)
            torch.cuda.synchronize()
        except Exception as error:  # a peer may fail in its own ways
            faults[name] = f"{type(error).__name__}: {str(error)[:160]}"
            continue
        if why := fault(y, expected.sum() if y.ndim == 0 else expected, scale, case.tolerance):
            faults[name] = why
    return faults


def magnitude(case: Case, exact: list[Any]) -> torch.Tensor | None:
    """The magnitude that errors are relative to, besides the result; None for the mean magnitude.
    For attention, whose first rows have few keys, it is the attention of the values' magnitudes."""
    if case.algorithm.name.startswith("flash"):
        return case.plain(*exact[:2], exact[2].abs())
    return None


def fault(
    result: torch.Tensor, expected: torch.Tensor, scale: torch.Tensor | None, tolerance: float
) -> str | None:
    """The error of a result, or None."""
    if not result.isfinite().all():
        return "elements are not written"
    size = (expected.abs().mean() if scale is None else scale).expand(expected.shape)
    mine, exact, sizes = checks.some_rows(result, expected, size)
    return checks.fault(mine, *checks.near(exact, tolerance, sizes))


def line(case: Case, schedules: dict[str, str], compiled: bool) -> dict[str, Any]:
    """Microseconds of every variant that is right, and the ratios."""
    import timing  # with torch, which finding schedules does without

    inputs = case.inputs()
    y = torch.empty(case.plain(*inputs).shape, dtype=case.dtype, device="cuda")
    calls = variants(case, inputs, schedules, compiled)
    bad = wrong(case, calls)
    torch.cuda.empty_cache()
    times = timing.measure({n: c for n, c in calls.items() if n not in bad}, (y, *inputs))
    mine = {n: t for n, t in times.items() if n.startswith("tileir")}
    peers = {n: t for n, t in times.items() if not n.startswith("tileir") and n != BUILT}
    best, auto = min(mine.values(), default=float("nan")), mine.get("tileir auto", float("nan"))
    peer = min(peers, key=lambda n: peers[n], default="none")
    return {
        "name": case.algorithm.name, "sizes": case.algorithm.sizes, "microseconds": times,
        "wrong": bad, "schedules": schedules, "ratio": peers.get(peer, float("nan")) / best,
        "ratio_auto": peers.get(peer, float("nan")) / auto, "auto_of_best": auto / best,
        "best": min(mine, key=lambda n: mine[n], default="none"),
        "peer": peer,
        **({"built_of_best": times[BUILT] / best} if BUILT in times else {}),
    }  # fmt: skip


def draw(folder: Path, result: dict[str, Any]) -> None:
    """Plot a line's schedules and its peers."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = "x".join(map(str, result["sizes"].values()))
    seconds = {name: t / 1e6 for name, t in result["microseconds"].items()}
    mine = [(text, seconds[n]) for n, text in result["schedules"].items() if n in seconds]
    peers = {n: t for n, t in seconds.items() if n not in result["schedules"]}
    name = f"{result['name']} {sizes}"
    (folder / f"{name.replace(' ', '_')}.svg").write_text(picture(name, mine, peers))


def main() -> int:
    """Run the table; the exit status says whether every result of ours was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--only", nargs="*", help="names, or names with sizes as they are printed")
    parser.add_argument("--top", type=int, default=1, help="schedules of the autoscheduler")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--search", action="store_true", help="measure all schedules of templates")
    parser.add_argument("--results", nargs="*", help="measure the schedules of these files too")
    parser.add_argument("--pictures", type=Path, help="draw the schedules there")
    parser.add_argument("--seconds", type=float, default=500, help="begin no line after so long")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    from memory import versions

    end = time.monotonic() + options.seconds
    lines: list[dict[str, Any]] = []
    only = set(options.only or ())
    table = [
        c for c in cases()
        if (not only or {c.algorithm.name, c.algorithm.key} & only)
        and (not options.search or c.algorithm.key in SEARCHED)
    ]  # fmt: skip
    schedules = list[dict[str, str]]()
    before = schedules_of(options.results or [])
    for one, problems in find_all_schedules([c.algorithm.key for c in table], options, before):
        schedules.append(one)
        print("".join(f"  {text}\n" for text in problems), end="", flush=True)
    print(f"{'':36} {'us':>9} {'/peer':>6} {'auto':>6} {'auto/best':>9}")
    for case, mine in zip(table, schedules, strict=True):
        if time.monotonic() > end:
            break
        figures = line(case, mine, not options.no_compile)
        lines.append(figures)
        microseconds = figures["microseconds"].get(figures["best"], float("nan"))
        print(
            f"{case.algorithm.key:36} {microseconds:9.2f} {figures['ratio']:6.3f} "
            f"{figures['ratio_auto']:6.3f} {figures['auto_of_best']:9.3f} {figures['best']} "
            f"| {figures['peer']} {figures['schedules'].get(figures['best'], '')} "
            f"{figures['wrong'] or ''}"
            + (f" {BUILT}: {figures['built_of_best']:.3f}" if "built_of_best" in figures else ""),
            flush=True,
        )
        if options.out:
            content = {**versions(), "lines": lines}
            Path(options.out).write_text(json.dumps(content, indent=1) + "\n")
        if options.pictures:
            draw(options.pictures, figures)
        torch.cuda.empty_cache()
    return any(name.startswith("tileir") for each in lines for name in each["wrong"])


if __name__ == "__main__":
    sys.exit(main())
