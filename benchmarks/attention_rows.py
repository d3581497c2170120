"""The command line of the attention benchmarks: it selects the rows to measure, and writes their
file."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matmul_shapes


def run(
    about: str,
    lengths: Sequence[int],
    kernels: Callable[[str, int, bool, int], Any],
    row: Callable[[str, int, bool, int, int, Any], dict[str, Any]],
) -> int:
    """Measure and print. Returns 1 if a kernel is wrong.

    `kernels(kind, d, causal, group)` compiles, and `row(kind, d, causal, t, group, compiled)`
    measures.
    """
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--out")
    parser.add_argument("--kind", default="bf16")
    parser.add_argument("--sizes", default="128,64")
    parser.add_argument("--lengths", default=",".join(map(str, lengths)))
    parser.add_argument("--group", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500)
    options = parser.parse_args()
    kind, group = options.kind, options.group
    end, rows = time.monotonic() + options.seconds, list[dict[str, Any]]()
    for d in map(int, options.sizes.split(",")):
        for causal in (False, True):
            compiled = kernels(kind, d, causal, group)
            for t in map(int, options.lengths.split(",")):
                if time.monotonic() < end:
                    rows.append(row(kind, d, causal, t, group, compiled))
    if options.out:
        text = json.dumps({"device": matmul_shapes.device(), "rows": rows}, indent=1)
        Path(options.out).write_text(text)
    return int(any(r["wrong"] for r in rows))
