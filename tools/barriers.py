"""Every barrier of a kernel left out in turn: a race is reported, or the barrier is not needed.

    python -m tileir.tools.barriers examples/softmax.tir --programs 100

Threads are ordered by barriers alone. So where a kernel runs without a barrier and no race is
reported, no order of threads makes one on these inputs: a survivor is redundant wherever its
offsets and the path taken do not depend on data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir import ir
from tileir.backend.compile import Options, staged
from tileir.backend.simt import machine as simt
from tileir.backend.simt.watch import Barriers, Site
from tileir.backend.target import target
from tileir.errors import TileirError


@attrs.define
class Survey:
    """How many barriers were left out, how many of those were noticed, and the others."""

    left_out: int = 0
    noticed: int = 0
    survivors: list[str] = attrs.field(factory=list)

    def add(self, other: Survey) -> None:
        """Count `other` too."""
        self.left_out += other.left_out
        self.noticed += other.noticed
        self.survivors += other.survivors

    @property
    def share(self) -> float:
        """Of the barriers that were noticed, 1 where there are none."""
        return self.noticed / self.left_out if self.left_out else 1.0


def survey(
    module: ir.Module, kernel: str | None, grid: Sequence[int], arguments: Mapping[str, Any],
    num_warps: int | None = None,
) -> Survey:  # fmt: skip
    """Leave out each barrier that `kernel` waits at. Raises AssertionError where the kernel as it
    is has a defect, and `CompileError`."""
    machine = target("sm_90")
    done = staged(module, machine, Options(num_warps=num_warps), kernel)
    names = [p.name or str(i) for i, p in enumerate(module.functions[done.kernel].parameters)]
    lowered = done.stages["barriers"]

    def run(without: Site | None) -> Barriers:
        values = [arguments[name] for name in names]
        copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        watched = Barriers(without)
        simt.run(
            lowered, done.kernel, grid, copies, machine, done.memory, done.num_warps,
            make=watched.make,
        )  # fmt: skip
        return watched

    found = Survey()
    for site in run(None).sites:
        found.left_out += 1
        try:
            run(site)
        except AssertionError:
            found.noticed += 1
        else:
            op, index = site
            text = op.mnemonic
            found.survivors.append(f"{op.location or kernel}: {text}, barrier {index}")
    return found


def of_file(path: str) -> Survey:
    """The barriers of the kernel of a file, on the inputs that its metadata describes."""
    from tileir.textual import parse
    from tileir.tools.inputs import draw, recipe

    module = parse(Path(path).read_text("utf-8"))
    plan = recipe(module, None)
    return survey(module, plan.kernel.name, (1,), draw(plan, 0))


def of_program(seed: int) -> Survey:
    """The barriers of generated program number `seed`."""
    from tileir.testing.checking import SIMT, case

    program = case(SIMT, seed).program
    arguments = program.arguments(seed)
    warps = (1, 4, 8)[seed % 3]
    return survey(program.module, program.kernel, _axes(program.grid), arguments, warps)


def _axes(grid: int | Sequence[int]) -> tuple[int, ...]:
    return (grid,) if isinstance(grid, int) else tuple(grid)


def main(words: Sequence[str] | None = None) -> int:
    """Print what was noticed; 1 where fewer than 95 of 100 were."""
    parser = argparse.ArgumentParser(prog="python -m tileir.tools.barriers")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--programs", type=int, default=0, help="generated programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    options = parser.parse_args(words)
    total = Survey()
    for path in options.files:
        total.add(of_file(path))
    for seed in range(options.seed, options.seed + options.programs):
        try:
            total.add(of_program(seed))
        except TileirError as error:
            sys.stdout.write(f"program {seed} is not compiled: {error}\n")
    sys.stdout.write("".join(f"not needed: {line}\n" for line in total.survivors))
    sys.stdout.write(f"{total.noticed} of {total.left_out} barriers left out are noticed\n")
    return 0 if total.share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
