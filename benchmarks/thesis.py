"""Kernels of Decoupled Triton beside torch and torch.compile on one GPU, in one run.

    python benchmarks/thesis.py [--out FILE.json] [--only NAME ...] [--top N] [--no-compile]

Needs lark; where it is not installed: `pip install --target build/site lark`, and
PYTHONPATH=build/site. `tileir hand` is a schedule by hand, `tileir auto` what the autoscheduler
names first; `--top N` measures its first N, and `best` is the fastest of all of ours. `auto/best`
at 1.05 and below is what the autoscheduler is to reach. Variants run in random order in five rounds
with a cold L2 (`memory.measure`), after their outputs, poisoned before, agreed with f64.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from memory import measure, versions
from thesis_cases import Case, cases

import tileir.backend
from tileir.backend.driver.launch import Kernel
from tileir.errors import TileirError
from tileir.frontends.decoupled import Plan, Program, parse
from tileir.frontends.decoupled.autoschedule import autoschedule
from tileir.frontends.decoupled.shorthand import expand

NAMES = {torch.float16: "float16", torch.float32: "float32"}


def ours(plan: Plan, arguments: dict[str, Any]) -> Callable[..., torch.Tensor]:
    """A function of (output, inputs) that launches a plan's kernels."""
    scratch = {
        n: torch.empty(plan.tensors[n].shape, dtype=getattr(torch, plan.tensors[n].dtype.name),
                       device="cuda")
        for n in plan.scratch
    }  # fmt: skip
    kernels = []
    for launch in plan.launches:
        compiled = tileir.backend.compile(plan.module, kernel=launch.kernel)
        kernels.append((Kernel(compiled)[launch.instances], launch.given))
    names = list(arguments)

    def call(y: torch.Tensor, *inputs: Any) -> torch.Tensor:
        values = {**scratch, plan.name: y, **dict(zip(names, inputs, strict=True))}
        stream = torch.cuda.current_stream().cuda_stream
        for kernel, given in kernels:
            kernel(*(values[n] for n in given), stream=stream)
        return y

    return call


def scheduled(case: Case, inputs: list[Any], top: int) -> dict[str, tuple[str, Program]]:
    """Programs with their schedules: by hand, and found."""
    types = {case.target: NAMES[case.dtype]}
    bare = parse(case.source, case.name).scheduled(f"{case.target}.compile();")
    found: dict[str, tuple[str, Program]] = {}
    try:
        best = autoschedule(bare, inputs, types=types, count=top)
    except TileirError as error:
        print(f"  {case.name}: {error}")
        best = []
    for i, one in enumerate(best):
        found[f"tileir auto{i or ''}"] = one.schedule, one.program
    if case.schedule:
        found["tileir hand"] = case.schedule, bare.scheduled(expand(case.schedule))
    approx = f"{case.target}.math(approx);"
    return {name: (text, program.scheduled(approx)) for name, (text, program) in found.items()}


def variants(
    case: Case, inputs: list[Any], top: int, compiled: bool
) -> tuple[dict[str, Callable[..., torch.Tensor]], dict[str, str]]:
    """Functions of (output, inputs) by name, and the schedules of ours."""
    calls: dict[str, Callable[..., torch.Tensor]] = {}
    schedules: dict[str, str] = {}
    for name, (text, program) in scheduled(case, inputs, top).items():
        function = program.function(case.target)
        given = dict(zip((*function.tensors, *function.scalars), inputs, strict=True))
        try:
            plan = function.plan(*inputs, types={case.target: NAMES[case.dtype]})
            calls[name], schedules[name] = ours(plan, given), text
        except (TileirError, AssertionError) as error:
            print(f"  {name} of {case.name} ({text}): {str(error)[:300]}")
    calls["torch"] = lambda y, *a: case.plain(*a)
    if compiled:
        torch._dynamo.reset()
        made = torch.compile(case.plain, mode="max-autotune-no-cudagraphs", dynamic=False)
        calls["compile"] = lambda y, *a: made(*a)
    return calls, schedules


def wrong(case: Case, call: Callable[..., torch.Tensor], y: torch.Tensor) -> str | None:
    """What is wrong with a result on fresh inputs; None where nothing is."""
    inputs = case.inputs(case.sizes)
    poisoned = torch.full_like(y, float("nan"))
    try:
        found = call(poisoned, *inputs)
        torch.cuda.synchronize()
    except Exception as error:  # a peer may fail in its own ways
        return f"{type(error).__name__}: {str(error)[:160]}"
    expected = case.plain(*(x.double() if hasattr(x, "double") else x for x in inputs))
    scale = expected.abs().mean().item()
    off = (found.double() - expected).abs() / (case.tolerance * (expected.abs() + scale))
    worst = off.nan_to_num(float("inf")).max().item()
    return None if worst <= 1 else f"off by {worst:.3g} times the bound"


def line(case: Case, top: int, compiled: bool) -> dict[str, Any]:
    """Microseconds of every variant that is right, and the ratios."""
    inputs = case.inputs(case.sizes)
    y = torch.empty_like(case.plain(*inputs))
    calls, schedules = variants(case, inputs, top, compiled)
    bad = {name: why for name, call in calls.items() if (why := wrong(case, call, y))}
    times = measure({n: c for n, c in calls.items() if n not in bad}, y, inputs)
    mine = {n: t for n, t in times.items() if n.startswith("tileir")}
    peers = {n: t for n, t in times.items() if not n.startswith("tileir")}
    best, auto = min(mine.values(), default=float("nan")), mine.get("tileir auto", float("nan"))
    return {
        "name": case.name, "sizes": case.sizes, "microseconds": times, "wrong": bad,
        "schedules": schedules, "ratio": min(peers.values()) / best,
        "ratio_auto": min(peers.values()) / auto, "auto_of_best": auto / best,
        "best": min(mine, key=lambda n: mine[n], default="none"),
        "peer": min(peers, key=lambda n: peers[n]),
    }  # fmt: skip


def key(case: Case) -> str:
    return f"{case.name}:{'x'.join(map(str, case.sizes.values()))}"


def main() -> int:
    """Run the table; the exit status says whether every result of ours was right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--only", nargs="*", help="names, or names with sizes as they are printed")
    parser.add_argument("--top", type=int, default=1, help="schedules found that are measured")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    print(f"{'':36} {'us':>9} {'/peer':>6} {'auto':>6} {'auto/best':>9}")
    for case in cases():
        if options.only and not {case.name, key(case)}.intersection(options.only):
            continue
        found = line(case, options.top, not options.no_compile)
        lines.append(found)
        taken = found["microseconds"].get(found["best"], float("nan"))
        print(
            f"{key(case):36} {taken:9.2f} {found['ratio']:6.3f} {found['ratio_auto']:6.3f} "
            f"{found['auto_of_best']:9.3f} {found['best']} | {found['peer']} "
            f"{found['schedules'].get(found['best'], '')} {found['wrong'] or ''}",
            flush=True,
        )
        if options.out:
            content = {**versions(), "lines": lines}
            Path(options.out).write_text(json.dumps(content, indent=1) + "\n")
        torch.cuda.empty_cache()
    return any(name.startswith("tileir") for found in lines for name in found["wrong"])


if __name__ == "__main__":
    sys.exit(main())
