"""Exploration of the schedules of a template: each is timed and drawn, and competitive ones are
counted.

    python benchmarks/schedules.py KERNEL.dt 'softmax = x:{1|2|4|8}/0 y:/{256|0} w{4|8}' \
        x=4096 y=512 [--on gpu|cpu|interpreter|simt] [--type NAME=float16 ...] \
        [--out FILE.json] [--picture FILE.svg] [--repeats 5] [--auto N]

KERNEL.dt is a kernel definition, of which one Func is compiled; sizes are by dimension. Tensors are
random, f32 (`--inputs float16` for another type). `--auto N` adds the first N schedules that the
autoscheduler names. On a GPU a schedule's time is the median of 20 launches with a cold L2.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tileir.frontends.decoupled import FuncPlan, Program, parse
from tileir.frontends.decoupled.autoschedule import autoschedule
from tileir.frontends.decoupled.explore import Exploration, explore, wall_clock
from tileir.tools.view.schedules import schedules


def gpu_clock(plan: FuncPlan, inputs: Mapping[str, Any]) -> float:
    """Seconds of a plan's launches on the GPU."""
    import timing
    import torch
    from thesis import ours

    call = ours(plan, dict(inputs))
    y = torch.empty(plan.result.shape, dtype=getattr(torch, plan.result.dtype.name), device="cuda")
    return timing.median(call, (y, *inputs.values())) / 1e6


def time_schedules(program: Program, options: argparse.Namespace) -> Exploration:
    """Every schedule, timed."""
    sizes = {name: int(n) for name, n in (text.split("=") for text in options.sizes)}
    rng = np.random.default_rng(0)
    arrays = program.function().arguments(
        sizes, lambda shape: rng.random(shape, np.float32).astype(options.inputs)
    )
    if options.on == "gpu":
        import torch

        arrays = [torch.from_numpy(a).cuda() if hasattr(a, "shape") else a for a in arrays]
    clock = gpu_clock if options.on == "gpu" else wall_clock(options.on)
    types = dict(text.split("=") for text in options.type)
    template = options.template
    if options.auto:
        best = autoschedule(program, arrays, types=types, count=options.auto, **sizes)
        for one in best:
            print(f"{one.seconds * 1e6:9.2f} us estimated  {one.schedule}")
    return explore(program, template, arrays, clock, repeats=options.repeats, types=types)


def main() -> int:
    """Explore, print the fastest schedules, and write the requested files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", type=Path)
    parser.add_argument("template")
    parser.add_argument("sizes", nargs="*", help="sizes of dimensions: x=4096")
    parser.add_argument("--on", default="gpu")
    parser.add_argument("--inputs", default="float32", help="elements of the tensors")
    parser.add_argument("--type", action="append", default=[], help="elements of a Func")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--auto", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    exploration = time_schedules(parse(options.kernel.read_text(), str(options.kernel)), options)
    for timing in exploration.timings[:5]:
        print(f"{timing.seconds * 1e6:9.2f} us  {timing.schedule}")
    print(f"{len(exploration.timings)} schedules, {len(exploration.illegal)} not legal, "
          f"competitive: {exploration.competitive():.2f}")  # fmt: skip
    timings = [(t.schedule, t.seconds) for t in exploration.timings]
    if options.out:
        options.out.write_text(json.dumps(dict(timings), indent=1) + "\n")
    if options.picture:
        title = f"{options.kernel.stem} {' '.join(options.sizes)} on {options.on}"
        options.picture.write_text(schedules(title, timings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
