"""The overhead of tileir in Triton: host time of a launch, and of `import triton`.

The cores of a machine differ by tens of percent in such times. So each repeat takes one core, on
which the processes of all settings launch, one after another, in an order that rotates. What else
runs on the machine only adds time: a ratio is that of the least times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SETTINGS = {"triton": "0", "tileir": "1", "tileir no-maps": "no-maps"}
"""The values of TILEIR_IN_TRITON."""
CALLS, SIZE = 200, 512
TILE = {"M": 128, "N": 256, "K": 64}
"""Blocks from which tileir uses tensor maps."""
IMPORT = """
import time
begin = time.process_time()
import triton
print(time.process_time() - begin)
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--imports", type=int, default=15)
    parser.add_argument("--no-gpu", action="store_true")
    parser.add_argument("--child", type=int, metavar="CORE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        options.out.write_text(json.dumps(measure(options.child)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        results: dict[str, Any] = {"import": imports(work, options.imports)}
        repeats = 0 if options.no_gpu else options.repeats
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SETTINGS}
        cores, names = sorted(os.sched_getaffinity(0)), list(SETTINGS)
        for repeat in range(repeats):
            core = cores[repeat * len(cores) // repeats]
            first = repeat % len(names)
            for name in names[first:] + names[:first]:
                rows[name].append(child(work, name, core))
            results["launches"] = table(rows)
            options.out.write_text(json.dumps(results, indent=1) + "\n")
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print("import triton, ms:", results["import"])
    for kind, row in results.get("launches", {}).items():
        print(
            f"{kind:28}",
            *(f"{name} {cell['us']:.2f} {cell['least']:.2f} us" for name, cell in row.items()),
        )
    return 0


def environment(work: Path, name: str) -> dict[str, str]:
    from triton_backend import importable_tree  # type: ignore[import-not-found]

    variables = {k: v for k, v in os.environ.items() if not k.startswith("TILEIR_")}
    path = [
        str(importable_tree(work / "tree")),
        str(HERE),
        *filter(None, [variables.get("PYTHONPATH")]),
    ]
    return {
        **variables, "PYTHONPATH": os.pathsep.join(path), "TILEIR_IN_TRITON": SETTINGS[name],
        "TRITON_CACHE_DIR": str(work / name.replace(" ", "_")),
    }  # fmt: skip


def imports(work: Path, count: int) -> dict[str, float]:
    """Milliseconds of the processor for `import triton`, with tileir off and on."""
    milliseconds: dict[str, list[float]] = {"triton": [], "tileir": []}
    for number in range(count + 1):
        for name, values in milliseconds.items():
            done = subprocess.run(
                [sys.executable, "-P", "-c", IMPORT], env=environment(work, name), check=True,
                capture_output=True, text=True,
            )  # fmt: skip
            if number:  # the first one writes bytecode
                values.append(float(done.stdout) * 1e3)
    return {name: round(statistics.median(values), 2) for name, values in milliseconds.items()}


def child(work: Path, name: str, core: int) -> dict[str, Any]:
    out = work / "row.json"
    command = [sys.executable, "-P", __file__, "--out", str(out), "--child", str(core)]
    done = subprocess.run(
        command, env=environment(work, name), check=False, capture_output=True, text=True
    )
    if done.returncode:
        return {"failed": {"error": done.stderr[-600:]}}
    row: dict[str, Any] = json.loads(out.read_text())
    return row


def table(measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Rows by kind and setting: the median and the least of the processes' medians, the ratio of
    Triton's least time to the least, and the medians of all processes, one for each core."""
    rows: dict[str, Any] = {}
    for name, runs in measured.items():
        for kind in dict.fromkeys(k for run in runs for k in run):
            cells = [run.get(kind, {}) for run in runs]
            times = [cell.get("us", float("nan")) for cell in cells]
            least = min(times, default=float("nan"))
            row = {**cells[-1], "us": median(times), "least": least, "all": times}
            of_triton = rows.get(kind, {}).get("triton", row)["least"]
            rows.setdefault(kind, {})[name] = {**row, "ratio": round(of_triton / least, 3)}
    return rows


def median(values: list[float]) -> float:
    """The median of those that are not NaN."""
    numbers = [value for value in values if value == value]
    return round(statistics.median(numbers), 3) if numbers else float("nan")


def measure(core: int) -> dict[str, Any]:
    """In a process of one compiler: microseconds of each kind of launch on the core."""
    import torch  # type: ignore[import-not-found]
    from launch_kernels import SOURCE, TRITON, import_source  # type: ignore[import-not-found]

    torch.manual_seed(0)
    rows: dict[str, Any] = {}
    cores = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as folder:
        kernels = import_source(Path(folder), "launched", TRITON + SOURCE)
        for kind, make in KINDS.items():
            call, check = make(kernels, torch)
            kernel = call()
            torch.cuda.synchronize()
            os.sched_setaffinity(0, {core})  # this thread; those of the driver run elsewhere
            us = host_microseconds(call, torch.cuda.synchronize)
            os.sched_setaffinity(0, cores)
            metadata = kernel.metadata if kernel is not None else None
            rows[kind] = {
                "right": bool(check()),
                "by": str(getattr(metadata, "compiled_by", "triton")).split()[0],
                "maps": bool(getattr(metadata, "tileir_tensor_maps", None)),
                "us": us,
            }
    return rows


def host_microseconds(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    for _ in range(300):
        call()
    batches: list[float] = []
    for _ in range(15):
        wait()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        batches.append((time.perf_counter() - begin) / CALLS * 1e6)
    return round(statistics.median(batches), 3)


def add_of(m: Any, torch: Any, grid: Any = (4,)) -> tuple[Any, Any]:
    x, y = (torch.randn(SIZE, device="cuda") for _ in range(2))
    z = torch.zeros(SIZE, device="cuda")
    call = lambda: m.add[grid](x, y, z, SIZE, SIZE, BLOCK=128)  # noqa: E731
    return call, lambda: torch.equal(z, x + y)


def matrices(torch: Any) -> tuple[Any, Any, Any, Any]:
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.zeros_like(a)
    return a, b, c, lambda: torch.allclose(c, a @ b, atol=1e-1, rtol=1e-2)


GRID = (SIZE // TILE["M"], SIZE // TILE["N"])
OPTIONS = {**TILE, "num_warps": 8, "num_stages": 3}


def matmul_of(m: Any, torch: Any, grid: Any = GRID) -> tuple[Any, Any]:
    a, b, c, check = matrices(torch)
    return lambda: m.matmul[grid](a, b, c, SIZE, SIZE, SIZE, **OPTIONS), check


def described_of(m: Any, torch: Any) -> tuple[Any, Any]:
    """Descriptors of the host, made once."""
    a, b, c, check = matrices(torch)
    blocks = ([TILE["M"], TILE["K"]], [TILE["K"], TILE["N"]], [TILE["M"], TILE["N"]])
    d = [
        m.TensorDescriptor.from_tensor(t, block) for t, block in zip((a, b, c), blocks, strict=True)
    ]
    return lambda: m.described[GRID](*d, SIZE, **OPTIONS), check


KINDS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "add": add_of,
    "add, callable grid": lambda m, t: add_of(m, t, lambda meta: (SIZE // meta["BLOCK"],)),
    "matmul": matmul_of,
    "matmul, callable grid": lambda m, t: matmul_of(
        m, t, lambda meta: (meta["m"] // meta["M"], meta["n"] // meta["N"])
    ),
    "descriptors": described_of,
}


if __name__ == "__main__":
    sys.exit(main())
