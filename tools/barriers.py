"""Removal of each barrier of a kernel, one at a time: either a race is detected, or the barrier is
redundant.

    python -m tileir.tools.barriers examples/softmax.tir --programs 100 --warps 1,2,4,8

In the simulator only barriers order threads, so it detects a race in whatever order the threads
run. Some races occur only for some data: each kernel runs on several inputs, and then with random
bins, offsets and indices (`tileir.backend.simt.barrier_removal`).

A removal that is not detected counts as a survivor, unless the barrier is proven redundant. The
proof: if no branch depends on memory, the path is the same for all data. If in addition neither the
addresses nor the masks of the ops that the barrier separates, and that access the same allocation
or parameter, depend on memory, the same bytes are accessed for all data, and no two threads
conflict at them. The proof holds for the grid and the scalar arguments of the run. The op `barrier`
belongs to the program and is not removed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir import ir
from tileir.backend.compile import Options, run_pipeline
from tileir.backend.launch_arguments import expand_descriptors
from tileir.backend.simt import machine as simt
from tileir.backend.simt.barrier_removal import Barriers, Site
from tileir.backend.simt.shadow import RaceError
from tileir.backend.target import Target, target
from tileir.errors import TileirError
from tileir.tools.data_independence import is_redundant

_INPUTS = 4
"""Inputs that a kernel is run on, each drawn from a seed of its own."""
_DRAWS = 4
"""Runs with other bins, offsets and indices."""


@attrs.define
class BarrierSurvey:
    """The number of removed barriers and of detected removals; and the other barriers, which are
    proven redundant or survive."""

    removed: int = 0
    detected: int = 0
    redundant: list[str] = attrs.field(factory=list)
    survivors: list[str] = attrs.field(factory=list)

    def add(self, other: BarrierSurvey) -> None:
        """Add the counts of `other`."""
        self.removed += other.removed
        self.detected += other.detected
        self.redundant += other.redundant
        self.survivors += other.survivors

    @property
    def detection_rate(self) -> float:
        """The share of removals that were detected; 1 if there are none."""
        return self.detected / self.removed if self.removed else 1.0


@attrs.frozen(eq=False)
class _Kernel:
    """A compiled kernel and the arguments of its simulation."""

    lowered: ir.Module
    name: str
    grid: Sequence[int]
    memory: Any
    num_warps: int
    machine: Target

    def run(
        self, values: Sequence[Any], without: Site | None = None,
        chance: np.random.Generator | None = None,
    ) -> Barriers:  # fmt: skip
        """Run the kernel and return the barriers that it waited at. Raises AssertionError for a
        defect."""
        copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        watched = Barriers(without, chance)
        simt.run(
            self.lowered, self.name, self.grid, copies, self.machine, self.memory,
            self.num_warps, make=watched.make,
        )  # fmt: skip
        return watched

    def detects_removal(self, inputs: Sequence[Sequence[Any]], site: Site) -> bool:
        """Whether a run without the barrier at `site` fails."""
        return any(self._fails(values, site) for values in inputs) or any(
            self._races(inputs[draw % len(inputs)], site, draw) for draw in range(_DRAWS)
        )

    def is_redundant(self, inputs: Sequence[Sequence[Any]], site: Site) -> bool:
        """Whether the barrier at `site`, whose removal was not detected, is proven redundant for
        all data."""
        function, runs = self.lowered.functions[self.name], (self.run(x, site) for x in inputs)
        return all(is_redundant(function, self.memory, run.events, site) for run in runs)

    def _fails(self, values: Sequence[Any], site: Site) -> bool:
        try:
            self.run(values, site)
        except AssertionError:
            return True
        return False

    def _races(self, values: Sequence[Any], site: Site, draw: int) -> bool:
        """Whether random data cause a race. An error of another kind is caused by the data."""
        try:
            self.run(values, site, np.random.default_rng(draw))
        except RaceError:
            return True
        except (AssertionError, TileirError):
            return False
        return False


def survey(
    module: ir.Module, kernel: str | None, grid: Sequence[int],
    inputs: Sequence[Mapping[str, Any]], num_warps: int | None = None, *,
    machine: str = "sm_90",
) -> BarrierSurvey:  # fmt: skip
    """Remove, one at a time, each barrier at which `kernel`, compiled for `machine`, waits on any
    of the `inputs`. Raises AssertionError if the unchanged kernel has a defect, and `CompileError`.
    """
    options = Options(num_warps=num_warps, warp_specialize=False)
    done = run_pipeline(module, target(machine), options, kernel)
    function = module.functions[done.kernel]
    names = [p.name or str(i) for i, p in enumerate(function.parameters)]
    arguments = [
        expand_descriptors(function, [values[name] for name in names]) for values in inputs
    ]
    lowered = done.stages["barriers"]
    complete = _Kernel(lowered, done.kernel, grid, done.memory, done.num_warps, target(machine))
    sites = {site: None for values in arguments for site in complete.run(values).sites}
    result = BarrierSurvey()
    for op, index in sites:
        if op.mnemonic == "barrier":
            continue
        result.removed += 1
        where = f"{op.location or kernel}: {op.mnemonic}, barrier {index}"
        if complete.detects_removal(arguments, (op, index)):
            result.detected += 1
        elif complete.is_redundant(arguments, (op, index)):
            result.redundant.append(where)
        else:
            result.survivors.append(where)
    return result


def of_file(path: str, num_warps: int | None = None) -> BarrierSurvey:
    """The survey of the kernel of a file, on inputs that its metadata describes, or else on small
    numbers."""
    from tileir.textual import parse
    from tileir.tools.inputs import draw, recipe

    module = parse(Path(path).read_text("utf-8"), path)
    if "run.kernel" not in module.metadata:
        result = [_small_numbers(module.kernel(), seed) for seed in range(_INPUTS)]
        return survey(module, None, (1,), result, num_warps)
    plan = recipe(module, None)
    drawn = [draw(plan, seed) for seed in range(_INPUTS)]
    return survey(module, plan.kernel.name, (1,), drawn, num_warps)


def of_program(seed: int, num_warps: int | None = None) -> BarrierSurvey:
    """The survey of generated program number `seed`."""
    from tileir.testing.checking import SIMT, case

    program = case(SIMT, seed).program
    inputs = [program.arguments(seed + i) for i in range(_INPUTS)]
    warps = num_warps or (1, 2, 4, 8)[seed % 4]
    return survey(program.module, program.kernel, _axes(program.grid), inputs, warps)


def _small_numbers(kernel: ir.Function, seed: int) -> dict[str, Any]:
    """Small arguments: 4096 elements for every pointer, a block for every descriptor, 5 for every
    scalar."""
    from tileir.tools.arrays import dtype_of
    from tileir.types import Descriptor, Pointer, Scalar

    chance, small_numbers = np.random.default_rng(seed), dict[str, Any]()
    for index, parameter in enumerate(kernel.parameters):
        kind, name = parameter.type, parameter.name or str(index)
        if isinstance(kind, Pointer) and isinstance(kind.pointee, Scalar):
            small_numbers[name] = chance.integers(0, 2, 4096).astype(dtype_of(kind.pointee))
        elif isinstance(kind, Descriptor) and isinstance(kind.block.element, Scalar):
            numbers = chance.integers(0, 2, kind.block.shape)
            small_numbers[name] = numbers.astype(dtype_of(kind.block.element))
        else:
            small_numbers[name] = 5
    return small_numbers


def _axes(grid: int | Sequence[int]) -> tuple[int, ...]:
    return (grid,) if isinstance(grid, int) else tuple(grid)


def main(words: Sequence[str] | None = None) -> int:
    """Print the survey. Returns 1 if fewer than 95 % of the removals were detected, or one
    survived."""
    options = _options(words)
    total, write = BarrierSurvey(), sys.stdout.write
    for name, result in _surveys(options):
        try:
            total.add(result())
        except TileirError as error:
            write(f"{name} does not compile: {error}\n")
    write("".join(f"redundant: {line}\n" for line in total.redundant))
    write("".join(f"not detected: {line}\n" for line in total.survivors))
    write(
        f"{total.detected} of {total.removed} removals are detected, "
        f"{len(total.redundant)} barriers are redundant, {len(total.survivors)} removals survive\n"
    )
    return 0 if total.detection_rate >= 0.95 and not total.survivors else 1


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tileir.tools.barriers")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--programs", type=int, default=0, help="generated programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    parser.add_argument("--warps", default="", help="numbers of warps, separated by commas")
    return parser.parse_args(words)


def _surveys(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], BarrierSurvey]]]:
    for warps in [int(n) for n in options.warps.split(",") if n] or [None]:
        for path in options.files:
            yield path, lambda path=path, warps=warps: of_file(path, warps)
        for seed in range(options.seed, options.seed + options.programs):
            yield f"program {seed}", lambda seed=seed, warps=warps: of_program(seed, warps)


if __name__ == "__main__":
    sys.exit(main())
