"""Kernels of Decoupled Triton beside torch, torch.compile and Liger on one GPU, in one run.

    python benchmarks/thesis.py [--out FILE.json] [--only NAME ...] [--top N] [--no-compile]
                                [--seconds 500] [--jobs N] [--search] [--pictures FOLDER]

Needs lark; where it is not installed: `pip install --target build/site lark`, and
PYTHONPATH=build/site. `tileir hand` is a schedule by hand (`tileir hand1` and so on are others),
`tileir auto` what the autoscheduler names first; `--top N` measures its first N, `--results
FILE.json ...` what was chosen and by hand in files written before, and `best` is the fastest of
all of ours. `auto/best` at 1.05 and below is what the autoscheduler is to reach. `--search`
measures the lines that have a template of schedules (`thesis_algorithms.SEARCHED`), and all
schedules of it beside; `--pictures` draws them as the thesis' Figures 4.2 to 4.15 are, with their
competitive-to-total ratio. Schedules are found and kernels compiled first, in `--jobs` processes.
Variants run in random order in five rounds with a cold L2 (`timing.py`), after their outputs,
poisoned before, agreed with f64 on other inputs. Beside FlashAttention stands the kernel that
`attention.py` measures, as `builder`: 0.95 and above of it is the aim.
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
from tileir.backend.driver.launch import Kernel
from tileir.backend.runtime.cache import Cache
from tileir.builder import F16
from tileir.errors import TileirError
from tileir.frontends.decoupled import Plan, parse
from tileir.frontends.decoupled.autoschedule import autoschedule
from tileir.frontends.decoupled.program import Wrapper
from tileir.frontends.decoupled.shorthand import choices, expand
from tileir.testing.attention import attention, heads_together
from tileir.tools.view.schedules import schedules as picture

TARGET = "sm_90a"
BUILT = "builder"
"""The same kernel written with `tileir.builder`, of FlashAttention."""
ROWS = 1 << 26
"""Elements of results that are compared at a time."""


# Before anything is measured ----------------------------------------------------------------------


def programs(algorithm: Algorithm, schedules: dict[str, str]) -> dict[str, Wrapper]:
    """Functions of schedules in short, by their names."""
    target = algorithm.target
    bare = parse(algorithm.source, algorithm.name)
    bare = bare.scheduled(f"{target}.compile(); {target}.math(approx);")
    return {n: bare.scheduled(expand(text)).function(target) for n, text in schedules.items()}


def plan_of(algorithm: Algorithm, function: Wrapper) -> Plan:
    """The kernels of a function."""
    return function.plan(*algorithm.inputs, types=algorithm.types)


def prepared(
    key: str, top: int, search: bool, before: dict[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Schedules in short by hand, found and from `before`, whose kernels are in the cache then; and
    what is wrong with others. Runs where no GPU is touched."""
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
                made = Cache.usual().compile(plan.module, TARGET, None, launch.kernel).metadata
                if made.spills:
                    problems.append(f"{key} {name}: {made.spills} bytes spilled")
        except (TileirError, AssertionError) as error:
            problems.append(f"{key} {name} ({schedules.pop(name)}): {str(error)[:300]}")
    return schedules, problems


def all_prepared(
    keys: list[str], options: argparse.Namespace, before: dict[str, dict[str, str]]
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """`prepared` for each of the lines."""
    each = [(key, options.top, options.search, before.get(key, {})) for key in keys]
    if options.jobs == 1:
        yield from (prepared(*given) for given in each)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for one in [pool.submit(prepared, *given) for given in each]:
            yield one.result()


def schedules_of(files: list[str]) -> dict[str, dict[str, str]]:
    """By line, what was chosen and by hand in files written before: of a search, not all."""
    found: dict[str, dict[str, str]] = {}
    for file in files:
        for line in json.loads(Path(file).read_text())["lines"]:
            names = ("tileir hand", "tileir auto")
            known = {n: line["schedules"][n] for n in names if n in line["schedules"]}
            key = f"{line['name']}:{'x'.join(map(str, line['sizes'].values()))}"
            found.setdefault(key, {}).update(known)
    return found


# What is measured ---------------------------------------------------------------------------------


def ours(plan: Plan, arguments: dict[str, Any]) -> Callable[..., torch.Tensor]:
    """A function of (output, inputs) that launches a plan's kernels."""
    scratch = {
        n: torch.empty(plan.tensors[n].shape, dtype=getattr(torch, plan.tensors[n].dtype.name),
                       device="cuda")
        for n in plan.scratch
    }  # fmt: skip
    kernels = []
    for launch in plan.launches:
        compiled = Cache.usual().compile(plan.module, TARGET, None, launch.kernel)
        kernels.append((Kernel(compiled)[launch.instances], launch.given))
    names = list(arguments)

    def call(y: torch.Tensor, *inputs: Any) -> torch.Tensor:
        values = {**scratch, plan.name: y, **dict(zip(names, inputs, strict=True))}
        stream = torch.cuda.current_stream().cuda_stream
        for kernel, given in kernels:
            kernel(*(values[n] for n in given), stream=stream)
        return y

    return call


def built_attention(case: Case) -> Callable[..., torch.Tensor]:
    """The kernel that `attention.py` measures, of `tileir.builder`, at this case's tile."""
    sizes = case.algorithm.sizes
    scale = sizes["k"] ** -0.5 * 1.4426950408889634
    causal = case.algorithm.name == "flash causal"
    module = attention(128, 128, sizes["k"], F16, causal=causal, arranged=causal)
    options = Options(warp_specialize=True, persistent=True, ordered_softmax=True)
    kernel = Kernel(Cache.usual().compile(module, TARGET, options))
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
        given = dict(zip((*function.tensors, *function.scalars), inputs, strict=True))
        calls[name] = ours(plan_of(case.algorithm, function), given)
    calls["torch"] = lambda y, *a: case.plain(*a)
    if compiled:
        torch._dynamo.reset()
        made = torch.compile(case.plain, mode="max-autotune-no-cudagraphs", dynamic=False)
        calls["compile"] = lambda y, *a: made(*a)
    if case.algorithm.name.startswith("flash"):
        calls[BUILT] = built_attention(case)
    liger = thesis_liger.peer(case.algorithm.name)
    if liger is not None:
        calls["liger"] = lambda y, *a: liger(*a)
    return calls


def wrong(case: Case, calls: dict[str, Callable[..., torch.Tensor]]) -> dict[str, str]:
    """What is wrong with results on fresh inputs, by name."""
    inputs = case.inputs()
    exact = [x.double() if hasattr(x, "double") else x for x in inputs]
    expected = case.plain(*exact)
    scale = magnitude(case, exact)
    found = dict[str, str]()
    for name, call in calls.items():
        poisoned = torch.full(expected.shape, float("nan"), dtype=case.dtype, device="cuda")
        try:
            y = call(poisoned, *inputs)
            torch.cuda.synchronize()
        except Exception as error:  # a peer may fail in its own ways
            found[name] = f"{type(error).__name__}: {str(error)[:160]}"
            continue
        if why := fault(y, expected.sum() if y.ndim == 0 else expected, scale, case.tolerance):
            found[name] = why
    return found


def magnitude(case: Case, exact: list[Any]) -> torch.Tensor | None:
    """What an error may be relative to, beside the result itself, if not the mean magnitude: of
    attention, whose first rows see few keys, what the weights make of the values' magnitudes."""
    if case.algorithm.name.startswith("flash"):
        return case.plain(*exact[:2], exact[2].abs())
    return None


def fault(
    found: torch.Tensor, expected: torch.Tensor, scale: torch.Tensor | None, tolerance: float
) -> str | None:
    """What is wrong with a result; None where nothing is."""
    if not found.isfinite().all():
        return "elements are not written"
    size = (expected.abs().mean() if scale is None else scale).expand(expected.shape)
    mine, exact, sizes = checks.some_rows(found, expected, size)
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


def draw(folder: Path, found: dict[str, Any]) -> None:
    """A picture of a line's schedules beside its peers."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = "x".join(map(str, found["sizes"].values()))
    seconds = {name: t / 1e6 for name, t in found["microseconds"].items()}
    mine = [(text, seconds[n]) for n, text in found["schedules"].items() if n in seconds]
    peers = {n: t for n, t in seconds.items() if n not in found["schedules"]}
    name = f"{found['name']} {sizes}"
    (folder / f"{name.replace(' ', '_')}.svg").write_text(picture(name, mine, peers))


def main() -> int:
    """Run the table; the exit status says whether every result of ours was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--only", nargs="*", help="names, or names with sizes as they are printed")
    parser.add_argument("--top", type=int, default=1, help="schedules found that are measured")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    parser.add_argument("--search", action="store_true", help="all schedules of templates")
    parser.add_argument("--results", nargs="*", help="files: what they chose is measured beside")
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
    for found, problems in all_prepared([c.algorithm.key for c in table], options, before):
        schedules.append(found)
        print("".join(f"  {text}\n" for text in problems), end="", flush=True)
    print(f"{'':36} {'us':>9} {'/peer':>6} {'auto':>6} {'auto/best':>9}")
    for case, mine in zip(table, schedules, strict=True):
        if time.monotonic() > end:
            break
        found = line(case, mine, not options.no_compile)
        lines.append(found)
        taken = found["microseconds"].get(found["best"], float("nan"))
        print(
            f"{case.algorithm.key:36} {taken:9.2f} {found['ratio']:6.3f} "
            f"{found['ratio_auto']:6.3f} {found['auto_of_best']:9.3f} {found['best']} "
            f"| {found['peer']} {found['schedules'].get(found['best'], '')} {found['wrong'] or ''}"
            + (f" {BUILT}: {found['built_of_best']:.3f}" if "built_of_best" in found else ""),
            flush=True,
        )
        if options.out:
            content = {**versions(), "lines": lines}
            Path(options.out).write_text(json.dumps(content, indent=1) + "\n")
        if options.pictures:
            draw(options.pictures, found)
        torch.cuda.empty_cache()
    return any(name.startswith("tileir") for found in lines for name in found["wrong"])


if __name__ == "__main__":
    sys.exit(main())
