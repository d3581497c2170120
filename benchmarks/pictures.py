"""Plots of the results: `benchmarks/results/*.json` to `docs/pictures/*.svg`.

    python benchmarks/pictures.py

The plots show the rates of tileir's kernels and of peers, below the roofline of an H200: 990
TFLOP/s of 16-bit MMAs, 67 of f32 without tensor cores, 4.8 TB/s of memory (NVIDIA H200 data sheet).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tileir.tools.view.rates import RateProblem, rates

ROOT = Path(__file__).parents[1]
PEAK, SINGLE, MEMORY = 990.0, 67.0, 4.8


def roof(flops: float, moved: float) -> float:
    """The maximum TFLOP/s for `flops` operations on `moved` bytes."""
    return min(PEAK, flops / moved * MEMORY)


def matmul_shapes(rows: list[dict[str, Any]]) -> Iterator[RateProblem]:
    """Rows of `matmul_shapes.json`."""
    for row in rows:
        m, n, k = row["size"]
        flops = 2.0 * m * n * k
        us = {"cuBLAS": row["us"]["cublas"], "tileir": row["us"][row["best"]]}
        name = f"{m} {n} {k}"
        yield _problem(name, us, flops, 2.0 * (m * k + k * n + m * n))


def attention(rows: list[dict[str, Any]]) -> Iterator[RateProblem]:
    """Rows of `attention.json`."""
    for row in rows:
        t, d = row["t"], row["d"]
        heads = max(1, 16384 // t) * (2048 // d)
        flops = 4.0 * heads * t * t * d * (0.5 if row["causal"] else 1)
        us = {name: row["us"][key] for name, key in (("cuDNN", "cudnn"), ("FA2", "flash"))
              if key in row["us"]}  # fmt: skip
        us["tileir"] = row["us"][row["best"]]
        name = f"d{d} {'causal' if row['causal'] else 'full'} {t}"
        yield _problem(name, us, flops, 8.0 * heads * t * d)


def memory(lines: list[dict[str, Any]]) -> Iterator[RateProblem]:
    """Rows of `memory.json`: TB/s of the necessary traffic, by the best variant of each program."""
    for line in lines:
        us = _best(line["microseconds"])
        moved = line["terabytes_per_second"] * line["microseconds"][line["best"]]
        kind = {"float32": "f32", "bfloat16": "bf16"}[line["dtype"]]
        first, *extents = line["shape"]
        shape = f"{first}²" if extents == [first] else "x".join(map(str, line["shape"]))
        name = f"{line['name']} {shape} {kind}"
        yield RateProblem(name, {peer: moved / time for peer, time in us.items()}, MEMORY)


def singles(rows: list[dict[str, Any]]) -> Iterator[RateProblem]:
    """Rows of `matmul.json` without tensor cores."""
    for row in rows:
        if row["type"] == "f32":
            us = _best(row["microseconds"])
            flops = 2.0 * row["size"] ** 3
            rate_of = {peer: flops / time / 1e6 for peer, time in us.items()}
            moved = 12.0 * row["size"] ** 2
            yield RateProblem(f"{row['size']}³", rate_of, min(SINGLE, flops / moved * MEMORY))


def workloads(rows: list[dict[str, Any]]) -> Iterator[RateProblem]:
    """Rows of `workloads_GROUP.json`: every peer, and the best variant of tileir."""
    for row in rows:
        if row["best"] is None or not row["flops"]:
            continue
        us = {peer: time for peer, time in row["us"].items() if peer not in row["ours"]}
        us["tileir"] = row["us"][row["best"]]
        rate_of = {peer: row["flops"] / time / 1e6 for peer, time in us.items()}
        yield RateProblem(
            row["name"], rate_of, SINGLE if row["name"].startswith("single") else PEAK
        )


def _best(us: dict[str, float]) -> dict[str, float]:
    """The least time of every program. The names of its variants begin with its name."""
    least: dict[str, float] = {}
    for variant, time in us.items():
        name = variant.split(" ")[0]
        name = {"cublas": "cuBLAS", "compile": "torch.compile"}.get(name, name)
        least[name] = min(time, least.get(name, math.inf))
    return least


def _problem(name: str, us: dict[str, float], flops: float, moved: float) -> RateProblem:
    rate_of = {peer: flops / time / 1e6 for peer, time in us.items() if math.isfinite(time)}
    return RateProblem(name, rate_of, roof(flops, moved))


PICTURES: tuple[tuple[str, str, str, str, Any], ...] = (
    ("matmul_shapes", "matmul_shapes", "Matmul, f16, m n k", "TFLOP/s", matmul_shapes),
    ("attention", "attention", "Attention forward, bf16, head and length", "TFLOP/s", attention),
    ("rows", "memory", "Kernels of rows and elements", "TB/s", memory),
    ("softmax", "memory", "Softmax of rows", "TB/s", memory),
    ("singles", "matmul", "Matmul, f32 without tensor cores", "TFLOP/s", singles),
    *(
        (group, f"workloads_{group}", title, "TFLOP/s", workloads)
        for group, title in (
            ("nhwc", "Convolutions, f16, channels last"),
            ("nchw", "Convolutions, f16, channels first"),
            ("single", "Convolutions, f32 without TF32"),
            ("shift", "Shifted channels (Tillet et al. 2019, Figure 11)"),
            ("sparse", "Matmul of block-sparse matrices"),
            ("quantised", "Matmul of 8 and 4 bits"), ("epilogue", "Matmul with epilogue"),
        )
    ),
)  # fmt: skip
"""Picture, results, title, unit, and what reads the results; without results there is none."""


def main() -> None:
    """Write the pictures."""
    for name, results, title, unit, read in PICTURES:
        path = ROOT / f"benchmarks/results/{results}.json"
        if not path.exists():
            continue
        content = json.loads(path.read_text())
        rows = [row for row in content.get("rows", content.get("lines")) if _has_row(name, row)]
        problems = list({p.name: p for p in read(rows)}.values())
        (ROOT / f"docs/pictures/{name}.svg").write_text(rates(title, unit, problems))


def _has_row(picture: str, row: dict[str, Any]) -> bool:
    """Whether a picture has this row."""
    if picture == "matmul_shapes":
        return bool(row["problem"] == "f16 NN")
    large = row.get("shape") in ([16384, 16384], [128, 65536], [32, 256, 4096])
    return {"rows": large, "softmax": not large}.get(picture, True)


if __name__ == "__main__":
    main()
