"""The matmuls that `matmul_shapes.py` measures: programs, tiles, sizes, and the time that the cost
model predicts for each. Needs neither a GPU nor torch.

    python benchmarks/matmul_tiles.py [benchmarks/results/matmul_shapes*.json]

prints, for every problem of the results, the time of the tile that the model ranks first, relative
to the best measured time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from tileir.backend import Options
from tileir.backend.compile import LoweredKernel, run_pipeline
from tileir.backend.legalize.link_inline import legalize
from tileir.backend.performance_model.cost import estimate, machine_of
from tileir.backend.performance_model.resource_use import use_of
from tileir.backend.performance_model.work import work_of
from tileir.backend.target import target as target_named
from tileir.backend.tuning.launch_variant import Units, launched_variant
from tileir.builder import BF16, F8E4M3, F16, F32, I8, I32
from tileir.testing.kernels import matmul

TYPES = {
    "f16": (F16, F32, F16), "bf16": (BF16, F32, BF16), "f8": (F8E4M3, F32, BF16),
    "i8": (I8, I32, I32), "tf32": (F32, F32, F32),
}  # fmt: skip
"""Types of operands, accumulators and results."""


class Tile(NamedTuple):
    """The extents of a tile and its options: consumer warps and pipeline stages (0: the compiler's
    choice), whether it is persistent, ping-pong, the numbers of blocks of a cluster for split-K and
    for multicast (`split_k` 0: the launcher's choice), and whether the grid is row-major (`flat`).
    """

    m: int
    n: int
    k: int
    warps: int = 0
    num_stages: int = 0
    persistent: bool = True
    pingpong: bool = False
    split_k: int = 1
    multicast: int = 1
    flat: bool = False

    def __str__(self) -> str:
        way = " pingpong" if self.pingpong else "" if self.persistent else " once"
        shared = {0: " as launched", 1: ""}.get(self.split_k, f" by {self.split_k}")
        cast = "" if self.multicast == 1 else f" multicast {self.multicast}"
        flat = " flat" if self.flat else ""
        return (
            f"{self.m}x{self.n}x{self.k} w{self.warps} s{self.num_stages}{way}{shared}{cast}{flat}"
        )

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """The grid for a result of `m` x `n`."""
        tiles = -(-m // self.m), -(-n // self.n)
        return tiles if self.flat else (math.prod(tiles), 1)


def _flat(*extents: int, split_k: int = 1, num_stages: int = 0) -> Tile:
    return Tile(*extents, num_stages=num_stages, persistent=False, split_k=split_k, flat=True)


TILES = (
    Tile(128, 256, 64), Tile(128, 192, 64), Tile(128, 128, 64), Tile(256, 128, 64, 8),
    Tile(128, 64, 64), Tile(64, 128, 64), Tile(64, 64, 64), Tile(64, 64, 128),
    Tile(128, 256, 64, persistent=False), Tile(128, 128, 64, persistent=False),
    Tile(64, 128, 64, persistent=False), Tile(64, 64, 64, persistent=False),
    Tile(64, 32, 128, persistent=False), Tile(64, 16, 128, persistent=False),
    Tile(192, 144, 64, persistent=False), Tile(192, 160, 64), Tile(128, 176, 64),
    Tile(64, 96, 64, persistent=False), Tile(128, 192, 64, persistent=False), Tile(64, 256, 64),
    Tile(128, 200, 64, persistent=False), Tile(128, 120, 64, persistent=False), Tile(128, 224, 64),
    Tile(128, 224, 64, persistent=False),
    Tile(128, 128, 64, pingpong=True), Tile(64, 256, 64, pingpong=True),
    Tile(64, 128, 64, pingpong=True), Tile(64, 64, 64, pingpong=True),
    Tile(64, 192, 64, pingpong=True), Tile(128, 160, 64, pingpong=True),
    *(Tile(64, 16, 128, persistent=False, split_k=s) for s in (4, 8)),
    *(Tile(64, 32, 128, persistent=False, split_k=s) for s in (4, 8)),
    *(Tile(64, 16, 128, persistent=False, split_k=s, num_stages=n)
      for s, n in ((2, 0), (4, 4), (8, 2))),
    *(Tile(64, 32, 128, persistent=False, split_k=s, num_stages=n) for s, n in ((2, 7), (4, 2))),
    *(Tile(64, 64, 64, persistent=False, split_k=s) for s in (2, 4, 8)),
    *(Tile(64, 64, 64, persistent=False, split_k=s, num_stages=4) for s in (4, 8)),
    *(Tile(64, 128, 64, persistent=False, split_k=s) for s in (2, 4)),
    *(Tile(128, 64, 64, persistent=False, split_k=s) for s in (2, 4)),
    *(Tile(128, 128, 64, persistent=False, split_k=s) for s in (2, 4)), Tile(64, 64, 64, split_k=4),
    Tile(64, 64, 64, split_k=0), Tile(128, 128, 64, split_k=0),
    _flat(64, 16, 128), _flat(64, 32, 128), _flat(64, 64, 128), _flat(64, 128, 64),
    _flat(128, 64, 64), _flat(128, 256, 64), _flat(128, 128, 64),
    _flat(64, 16, 128, split_k=8, num_stages=2),
    _flat(64, 16, 128, split_k=2), _flat(64, 32, 128, split_k=4),
    *(Tile(128, n, 64, multicast=r) for n in (256, 192, 128) for r in (2, 4)),
    *(Tile(m, n, 64, pingpong=True, multicast=2) for m, n in ((128, 128), (128, 160), (64, 256))),
)  # fmt: skip

ODD = (
    Tile(128, 256, 64), Tile(128, 192, 64), Tile(128, 128, 64), Tile(64, 256, 64),
    Tile(128, 200, 64), Tile(128, 200, 64, persistent=False), Tile(128, 176, 64), Tile(64, 128, 64),
    Tile(192, 160, 64), Tile(128, 160, 64, persistent=False), Tile(64, 64, 64, persistent=False),
    Tile(64, 128, 64, persistent=False), Tile(40, 64, 64, persistent=False), Tile(40, 128, 64),
    Tile(40, 64, 128, persistent=False), Tile(40, 128, 64, persistent=False),
    Tile(64, 72, 64, persistent=False), Tile(64, 72, 128, persistent=False), Tile(40, 128, 128),
)  # fmt: skip
"""Tiles for the group `odd`, which are compiled once more for each alignment of rows."""

GROUPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "square": tuple((n, n, n) for n in (512, 1024, 2048, 4096, 8192)),
    "skinny": tuple((1760, n, 1760) for n in (16, 32, 64, 128, 256, 512, 1024, 1760)),
    "deepspeech": (
        *((2560, n, 2560) for n in (16, 32, 64, 128)),
        (2048, 7000, 2048), (35, 8457, 4096), (5124, 700, 2560),
    ),
    "shallow": ((512, 512, 512), (2048, 512, 512), (512, 512, 2048), (64, 64, 16384)),
    "odd": (
        (3001, 5003, 701), (3001, 5000, 704), (35, 8457, 4096), (5124, 700, 2560),
        (1760, 1760, 1760), (2048, 2052, 2052), (2048, 2050, 2050), (2049, 2049, 2049),
        (4096, 4100, 4096), (4096, 4096, 4098),
    ),
    "large": ((16384, 16384, 16384),),
}  # fmt: skip


class Problem(NamedTuple):
    """The operand type, and whether operand B is [n, k]."""

    kind: str
    transposed: bool

    def __str__(self) -> str:
        return f"{self.kind} {'NT' if self.transposed else 'NN'}"


def options_of(tile: Tile) -> Options:
    """The options of a tile."""
    return Options(
        num_warps=tile.warps or None, num_stages=tile.num_stages or None, warp_specialize=True,
        persistent=tile.persistent, pingpong=tile.pingpong, split_k=tile.split_k,
        multicast=tile.multicast,
    )  # fmt: skip


def program(problem: Problem, tile: Tile) -> Any:
    """The module of a kernel."""
    m, n, k = tile[:3]
    return matmul(
        m, n, k, *TYPES[problem.kind], precision="tf32" if problem.kind == "tf32" else "ieee",
        transposed=problem.transposed, max_imprecise=k if problem.kind == "f8" else 0,
        flat=tile.flat,
    )  # fmt: skip


def tiles_of(kind: str) -> tuple[Tile, ...]:
    """The tiles for operands of `kind`. For operands of one or four bytes, K is 128 bytes of a
    row."""
    depth = {"f8": 128, "i8": 128, "tf32": 32}.get(kind)
    if depth is None:
        return TILES
    return tuple(dict.fromkeys(tile._replace(k=depth) for tile in TILES if tile.n != 144))


def predicted_seconds(problem: Problem, tile: Tile, size: tuple[int, int, int]) -> float:
    """Seconds that the cost model predicts."""
    m, n, k = size
    grid, numbers = tile.grid(m, n), {"m": m, "n": n, "k": k}
    launch = launched_variant(lambda units: _lower(problem, tile, units), numbers)
    work = work_of(_legalize(problem, tile), (*grid, 1), numbers)
    use = use_of(launch.staged, target_named("sm_90a"), work, launch.maps)
    machine = machine_of("sm_90a")
    return estimate(work, use, math.prod(grid), machine, launch.footprint).seconds


@cache
def _lower(problem: Problem, tile: Tile, units: Units) -> LoweredKernel:
    """A kernel after the pipeline, before code generation."""
    options = attrs.evolve(options_of(tile), non_tma_alignments=units)
    return run_pipeline(program(problem, tile), target_named("sm_90a"), options, None)


@cache
def _legalize(problem: Problem, tile: Tile) -> Any:
    """The function that the pipeline starts from."""
    done = _lower(problem, tile, ())
    return legalize(done.stages["input"], done.kernel).functions[done.kernel]


class PredictedBest(NamedTuple):
    """The tile that the model ranks first among the measured ones. `regret` is its time relative to
    the best time."""

    problem: str
    size: tuple[int, int, int]
    tile: str
    regret: float
    best: str


def predicted_best(row: Mapping[str, Any]) -> PredictedBest:
    """The predicted best tile of a row of results."""
    problem = problem_of(row["problem"])
    tile_of = {str(t): t for t in (*tiles_of(problem.kind), *ODD)}
    times = {name: us for name, us in row["us"].items() if name in tile_of}
    m, n, k = row["size"]
    chosen = min(times, key=lambda name: predicted_seconds(problem, tile_of[name], (m, n, k)))
    best = min(times, key=lambda name: times[name])
    return PredictedBest(str(problem), (m, n, k), chosen, times[chosen] / times[best], best)


def problem_of(text: str) -> Problem:
    """The problem that prints as `text`."""
    kind, way = text.split()
    return Problem(kind, way == "NT")


def predicted_bests(paths: Iterable[Path]) -> Iterator[PredictedBest]:
    """Yield the predicted best tile of every row of results."""
    for path in paths:
        yield from (predicted_best(row) for row in json.loads(path.read_text())["rows"])


def main() -> int:
    """Print the predicted best tiles, and their regrets."""
    parser = argparse.ArgumentParser(description="The tiles that the model ranks first.")
    parser.add_argument("paths", nargs="*", type=Path)
    paths = parser.parse_args().paths
    usual = sorted((Path(__file__).parent / "results").glob("matmul_shapes*.json"))
    printed: list[PredictedBest] = []
    for each in predicted_bests(paths or usual):
        size = "x".join(map(str, each.size))
        print(
            f"{each.problem:8}{size:18}{each.regret:.3f}  {each.tile}  (best {each.best})",
            flush=True,
        )
        printed.append(each)
    regrets = sorted(each.regret for each in printed)
    within = sum(r <= 1.05 for r in regrets) / len(regrets)
    mean = sum(regrets) / len(regrets)
    print(
        f"{len(printed)} problems: mean {mean:.3f}, {within:.1%} within 1.05, "
        f"most {regrets[-1]:.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
