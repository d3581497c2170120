"""Tables of docs/reference/performance.md and README, from `benchmarks/results/*.json`.

    python benchmarks/tables.py [matmul_shapes attention ...]        all, where none is named

Each table is between marks that name it. The column `chosen` of `matmul_shapes` runs the cost model
on every problem, which takes a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import result_tables

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "reference" / "performance.md"
LENGTHS = (512, 2048, 8192, 16384)
README = HERE.parent / "README.md"
END = "<!-- end of table -->"

Lines = Iterable[tuple[str, ...]]


def markdown(lines: Lines) -> str:
    """A table whose first line has the headings."""
    heading, *rest = lines
    every = [heading, ("---",) * len(heading), *rest]
    return "\n".join(f"| {' | '.join(cell or ' ' for cell in line)} |" for line in every)


def replace_between(text: str, begin: str, end: str, table: str) -> str:
    """`text` with `table`, if any, between two marks. Raises ValueError where one is missing."""
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"there is no {begin if not first else end}")
    between = f"\n\n{table}\n\n" if table else "\n\n"
    return f"{before}{begin}{between}{end}{after}"


def rows(file: str) -> list[dict[str, Any]]:
    """The rows of a file of results."""
    content = json.loads((HERE / "results" / file).read_text())
    return content["rows"] if "rows" in content else content["lines"]


# Matmul -----------------------------------------------------------------------------------------


def matmul_shapes() -> Iterator[tuple[str, ...]]:
    """A row for each size: the time of cuBLAS, the ratio, the best tile, and the ratio of the tile
    that the cost model ranks first, for both layouts of B."""
    from matmul_tiles import predicted_best

    ways = ("f16 NN", "f16 NT")
    headings = ("ratio", "tile", "chosen")
    yield ("m x n x k", *(t for way in ways for t in (f"{way}: cuBLAS, us", *headings)))
    by_size = {(row["problem"], tuple(row["size"])): row for row in rows("matmul_shapes.json")}
    for size in dict.fromkeys(size for _, size in by_size):
        cells: list[str] = []
        for way in ways:
            if row := by_size.get((way, size)):
                chosen = row["ratio"] / predicted_best(row).regret
                cells += [f"{row['us']['cublas']:.1f}", f"{row['ratio']:.3f}"]
                cells += [short(row["best"]), f"{chosen:.3f}"]
            else:
                cells += [""] * 4
        yield (extents(size), *cells)


def extents(size: tuple[int, ...]) -> str:
    """`512³` for a cube, else `m x n x k`."""
    return f"{size[0]}³" if len(set(size)) == 1 else "x".join(map(str, size))


def short(tile: str) -> str:
    """The name of a tile without options that the compiler chooses: `w0 s2` stands for two
    stages."""
    words = [word for word in tile.split() if word != "s0" and word[0] != "w"]
    words = ["ping-pong" if word == "pingpong" else word for word in words]
    return " ".join(f"{w[1:]} stages" if w[0] == "s" and w[1:].isdigit() else w for w in words)


# Attention ----------------------------------------------------------------------------------------


def attention(file: str = "attention.json") -> Iterator[tuple[str, ...]]:
    """TFLOP/s of the better peer and the ratio, by head size and length."""
    yield ("d", f"t {LENGTHS[0]}", *map(str, LENGTHS[1:]))
    yield from by_length(rows(file), lambda row: f"{rate(row):.0f}, {row['ratio']:.3f}")


def rate(row: dict[str, Any]) -> float:
    """TFLOP/s of the better peer: 4 d t² for each of 16384 / t batches of 2048 / d heads, half of
    them where causal."""
    columns = 2048 // row["d"] * row["d"]
    flops = 4 * 16384 * columns * row["t"] / (2 if row["causal"] else 1)
    times = [row["us"][peer] for peer in ("cudnn", "flash") if peer in row["us"]]
    return flops / min(times) / 1e6


def gradients() -> Iterator[tuple[str, ...]]:
    """The ratio, and whether the fused kernel is faster."""
    yield ("d", f"t {LENGTHS[0]}", *map(str, LENGTHS[1:]))

    def cell(row: dict[str, Any]) -> str:
        fused = row["us"].get("fused", float("inf")) < row["us"]["separate"]
        return f"{row['ratio']:.3f}{' fused' if fused else ''}"

    yield from by_length(rows("attention_backward.json"), cell)


def by_length(
    lines: list[dict[str, Any]], cell: Callable[[dict[str, Any]], str]
) -> Iterator[tuple[str, ...]]:
    """A row for each head size, full and causal, and a column for each length."""
    by_problem = {(row["d"], row["causal"], row["t"]): row for row in lines}
    for d, causal in dict.fromkeys((d, causal) for d, causal, _ in by_problem):
        cells = (by_problem.get((d, causal, t)) for t in LENGTHS)
        name = f"{d} {'causal' if causal else 'full'}"
        yield (name, *(cell(row) if row else "" for row in cells))


# Convolutions, rows -------------------------------------------------------------------------------


def convolutions() -> Iterator[tuple[str, ...]]:
    """Ratios of the paper's tasks, in three layouts and types."""
    groups = ("nhwc", "nchw", "single")
    yield ("task", "channels last", "channels first", "f32")
    lines = (row for group in groups for row in rows(f"workloads_{group}.json"))
    ratios = {row["name"]: row["ratio"] for row in lines}
    tasks = dict.fromkeys(name.split(" ", 1)[1] for name in ratios)
    for task in tasks:
        yield (
            task,
            *(f"{ratios[n]:.3f}" if (n := f"{g} {task}") in ratios else "" for g in groups),
        )


def memory() -> Iterator[tuple[str, ...]]:
    """Memory-bound kernels, as `memory.py` measures them."""
    yield ("kernel", "shape", "type", "us", "TB/s", "of copy", "/peer", "best")
    for row in rows("memory.json"):
        short_type = {"float32": "f32", "bfloat16": "bf16"}[row["dtype"]]
        figures = (row["terabytes_per_second"], row["of_copy"])
        yield (
            row["name"], "x".join(map(str, row["shape"])), short_type,
            f"{row['microseconds']['tileir']:.2f}", *(f"{f:.2f}" for f in figures),
            f"{row['ratio']:.3f}", f"{row['ratio_best']:.3f}",
        )  # fmt: skip


TABLES: dict[str, Callable[[], Lines]] = {
    "matmul_shapes": matmul_shapes, "attention": attention,
    "attention_f8": lambda: attention("attention_f8.json"), "gradients": gradients,
    "convolutions": convolutions, "memory": memory, **result_tables.TABLES,
}  # fmt: skip


def main() -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help=", ".join(TABLES))
    names = parser.parse_args().tables or TABLES
    for page in (DOCS, README):
        text = page.read_text()
        for name in names:
            if page is DOCS or mark(name) in text:
                text = replace_between(text, mark(name), END, markdown(TABLES[name]()))
        page.write_text(text)
    return 0


def mark(name: str) -> str:
    """The mark before the table `name`."""
    return f"<!-- table: {name} -->"


if __name__ == "__main__":
    sys.exit(main())
