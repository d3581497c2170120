"""Pictures of what was measured: `benchmarks/results/*.json` to `docs/pictures/*.svg`.

    python benchmarks/pictures.py

Rates of products, attention and convolutions beside their peers', under the roof of an H200: 990
TFLOP/s of 16-bit products at its boost clock, 4.8 TB/s of memory (NVIDIA H200 data sheet).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tileir.tools.view.rates import Problem, rates

ROOT = Path(__file__).parents[1]
PEAK, MEMORY = 990.0, 4.8
TASKS = {1: (112, 112, 64, 128), 2: (56, 56, 128, 256), 3: (28, 28, 256, 512),
         4: (14, 14, 512, 512), 5: (7, 7, 512, 512)}  # fmt: skip
"""Height, width, channels in and out of the paper's Table 1; 4 images, 3 x 3 taps."""


def roof(flops: float, moved: float) -> float:
    """TFLOP/s at most, for so many operations on so many bytes."""
    return min(PEAK, flops / moved * MEMORY)


def products(rows: list[dict[str, Any]]) -> Iterator[Problem]:
    """Rows of `products.json`."""
    for row in rows:
        m, n, k = row["size"]
        flops = 2.0 * m * n * k
        us = {"cuBLAS": row["us"]["cublas"], "tileir": row["us"][row["best"]]}
        name = f"{m} {n} {k}"
        yield _problem(name, us, flops, 2.0 * (m * k + k * n + m * n))


def attention(rows: list[dict[str, Any]]) -> Iterator[Problem]:
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


def convolutions(rows: list[dict[str, Any]]) -> Iterator[Problem]:
    """Rows of `convolutions.json`."""
    for row in rows:
        h, w, c, k = TASKS[row["task"]]
        us = {"cuDNN": row["us"]["cudnn"], "tileir": row["us"][row["best"]]}
        moved = 2.0 * (4 * h * w * (c + k) + 9 * c * k)
        yield _problem(f"task {row['task']}", us, 2.0 * 4 * h * w * c * k * 9, moved)


def _problem(name: str, us: dict[str, float], flops: float, moved: float) -> Problem:
    found = {who: flops / time / 1e6 for who, time in us.items() if math.isfinite(time)}
    return Problem(name, found, roof(flops, moved))


def main() -> None:
    """Write the pictures."""
    kinds = {"products": products, "attention": attention, "convolutions": convolutions}
    titles = {
        "products": "Products, f16, m n k",
        "attention": "Attention forward, bf16, head size and length",
        "convolutions": "Convolutions of Tillet et al. 2019, Table 1, f16, NHWC",
    }
    for name, read in kinds.items():
        rows = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["rows"]
        if name == "products":
            rows = [row for row in rows if row["problem"] == "f16 NN"]
        problems = list({p.name: p for p in read(rows)}.values())
        picture = rates(titles[name], "TFLOP/s", problems)
        (ROOT / f"docs/pictures/{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
