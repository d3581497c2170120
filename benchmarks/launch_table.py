"""Benchmark of the host time of a launch by the kind of call, for tileir and Triton in one
process."""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import checks
from launch_kernels import OURS, SOURCE, TRITON, import_source

CALLS, LIMIT, SIZE = 200, 180, 512
TILE = {"M": 64, "N": 64, "K": 64}
GRID = (SIZE // 64, SIZE // 64)
Call = Callable[[], Any]


def grid_of(meta: Any) -> tuple[int, int]:
    """The grid of a matmul, as users write it."""
    return (meta["m"] // meta["M"], meta["n"] // meta["N"])


def descriptors_kept(module: Any, t: Any) -> Call:
    """Calls with descriptors that are made once."""
    a, b, c = (module.TensorDescriptor.from_tensor(x, [64, 64]) for x in t.halves[:3])
    return lambda: module.described[GRID](a, b, c, SIZE, **TILE)


def descriptors_made(module: Any, t: Any) -> Call:
    """Calls that make their descriptors."""

    def call() -> None:
        a, b, c = (module.TensorDescriptor.from_tensor(x, [64, 64]) for x in t.halves[:3])
        module.described[GRID](a, b, c, SIZE, **TILE)

    return call


def moving(module: Any, t: Any) -> Call:
    """Calls with different arrays each time."""
    sets = itertools.cycle(list(itertools.permutations(t.halves, 3)))
    return lambda: module.matmul[GRID](*next(sets), SIZE, SIZE, SIZE, **TILE)


KINDS: dict[str, Callable[[Any, Any], Call]] = {
    "0 maps": lambda m, t: lambda: m.add[(4,)](*t.rows, 512, 500, BLOCK=128),
    "0 maps, callable grid": lambda m, t: (
        lambda: m.add[lambda meta: (meta["n"] // meta["BLOCK"],)](*t.rows, 512, 500, BLOCK=128)
    ),
    "0 maps, keywords": lambda m, t: (
        lambda: m.add[(4,)](x=t.rows[0], y=t.rows[1], z=t.rows[2], n=512, m=500, BLOCK=128)
    ),
    "0 maps, tuple": lambda m, t: (
        lambda: m.add_pair[(4,)]((t.rows[0], t.rows[1]), t.rows[2], 512, 500, BLOCK=128)
    ),
    "0 maps, autotuned": lambda m, t: (
        lambda: m.tuned_add[lambda meta: (512 // meta["BLOCK"],)](*t.rows, 512, 500)
    ),
    "0 maps, heuristics": lambda m, t: lambda: m.chosen_add[(4,)](*t.rows, 512, 500),
    "0 maps, memory compared": lambda m, t: (
        lambda: m.running[(1,)](t.rows[0], t.rows[1], 4, BLOCK=128)
    ),
    "1 map": lambda m, t: lambda: m.gram[(1,)](t.halves[0], t.square, 64, SIZE, BLOCK=64),
    "3 maps": lambda m, t: lambda: m.matmul[GRID](*t.halves[:3], SIZE, SIZE, SIZE, **TILE),
    "3 maps, callable grid": lambda m, t: (
        lambda: m.matmul[grid_of](*t.halves[:3], SIZE, SIZE, SIZE, **TILE)
    ),
    "3 maps, keywords": lambda m, t: (
        lambda: m.matmul[GRID](
            a=t.halves[0], b=t.halves[1], c=t.halves[2], m=SIZE, n=SIZE, k=SIZE, **TILE
        )
    ),
    "3 maps, autotuned": lambda m, t: (
        lambda: m.tuned_matmul[grid_of](*t.halves[:3], SIZE, SIZE, SIZE)
    ),
    "3 maps, moving pointers": moving,
    "3 maps, descriptors": descriptors_kept,
    "3 maps, descriptors made": descriptors_made,
    "6 maps": lambda m, t: lambda: m.matmuls[GRID](*t.halves, SIZE, SIZE, SIZE, **TILE),
}


class Tensors:
    """The arguments, which are the same for both frontends."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        self.rows = [torch.randn(512, device="cuda") for _ in range(3)]
        self.halves = [
            torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) / 16 for _ in range(6)
        ]
        self.square = torch.zeros(64, 64, device="cuda")

    @property
    def all(self) -> list[Any]:
        """All tensors."""
        return [*self.rows, *self.halves, self.square]


def measure(kind: str, repeats: int, quiet: Path) -> dict[str, Any]:
    """One row of the table. During the measurement, the process locks the file `quiet`."""
    import torch

    calls: dict[str, Call] = {}
    results: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, head in (("ours", OURS), ("triton", TRITON)):
            if name == "triton" and importlib.util.find_spec("triton") is None:
                continue
            tensors = Tensors()
            kernels = import_source(Path(folder), f"launch_{name}", head + SOURCE)
            calls[name] = KINDS[kind](kernels, tensors)
            calls[name]()
            torch.cuda.synchronize()
            results[name] = [t.clone() for t in tensors.all]
        row: dict[str, Any] = {"kind": kind, "device": torch.cuda.get_device_name()}
        if len(results) == 2:
            pairs = zip(results["ours"], results["triton"], strict=True)
            row["equal"] = all(alike(mine, other) for mine, other in pairs)
        with quiet.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            times = time_calls(calls, repeats)
    for name, seconds in times.items():
        row[name] = {"median": statistics.median(seconds), "least": min(seconds), "all": seconds}
    return row


def time_calls(calls: dict[str, Call], repeats: int) -> dict[str, list[float]]:
    """Microseconds of a call, for each sample."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(200):  # so that every set of pointers was passed before
            call()
    for _ in range(repeats):
        for name in random.sample(sorted(calls), len(calls)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                calls[name]()
            times[name].append((time.perf_counter() - start) / CALLS * 1e6)
            torch.cuda.synchronize()
    return times


def check() -> dict[str, Any]:
    """Whether results are correct for changing arrays and shapes, for alignments that select
    versions, and in captured graphs; and whether the tensor maps of machine code equal those of the
    bindings."""
    import torch

    row: dict[str, Any] = {"kind": "check"}
    with tempfile.TemporaryDirectory() as folder:
        ours = import_source(Path(folder), "launch_ours", OURS + SOURCE)
        r = random.Random(0)
        wrong: list[Any] = []
        shapes = [(512, 512, 512), (256, 320, 128), (300, 304, 704), (300, 301, 700), (64, 64, 68)]
        for number in range(60):
            m, n, k = r.choice(shapes)
            a = torch.randn(m, k, device="cuda", dtype=torch.float16)
            b = torch.randn(k, n, device="cuda", dtype=torch.float16)
            c = torch.full((m, n), torch.nan, device="cuda", dtype=torch.float16)
            ours.matmul[lambda meta, m=m, n=n: (-(-m // 64), -(-n // 64))](a, b, c, m, n, k, **TILE)
            if (why := matmul_fault(a, b, c)) is not None:
                wrong.append([number, m, n, k, why])
        row["wrong results"] = wrong
        tensors = Tensors()
        call = KINDS["3 maps"](ours, tensors)
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        a, b, c = tensors.halves[:3]
        a.copy_(torch.randn_like(a))
        c.zero_()
        graph.replay()
        torch.cuda.synchronize()
        row["capture"] = matmul_fault(a, b, c) is None
        row["overlaps"] = right_for_overlaps(ours)
    row["maps"] = equal_maps()
    return row


def matmul_fault(a: Any, b: Any, c: Any) -> str | None:
    """The error of c = a b in f16, or None."""
    if c.isnan().any():
        return "elements are not written"
    rows, columns = checks.sample(len(a)), checks.sample(b.shape[1], seed=1)
    expected = checks.matmul(a[rows], b[:, columns], checks.UNITS["f16"])
    return checks.fault(c[rows][:, columns], *expected)


def alike(mine: Any, other: Any) -> bool:
    """Whether the results of two compilers are equal up to rounding, in sampled rows."""
    if not other.any():
        return not mine.any()
    some, expected = checks.some_rows(mine, other)
    return checks.fault(some, *checks.near(expected, 1e-2)) is None


def right_for_overlaps(module: Any) -> bool:
    """Whether results are correct for disjoint arrays, and for views of one array that overlap by a
    row."""
    import torch

    buffer, right = torch.randn(6 * 128, device="cuda"), True
    for repeat in range(9):
        shared = repeat % 3 == 1
        x = buffer.clone()
        out = x[128:] if shared else torch.zeros(5 * 128, device="cuda")
        expected, total = x.clone().view(6, 128), torch.zeros(128, device="cuda")
        totals: list[Any] = []
        for i in range(4):
            totals.append(total)
            if shared:
                expected[i + 1] = total
            total = total + expected[i]
        module.running[(1,)](x, out, 4, BLOCK=128)
        expected_totals = checks.near(torch.stack(totals), 1e-5)
        right = right and checks.fault(out[: 4 * 128].view(4, 128), *expected_totals) is None
    return right


def equal_maps() -> str:
    """`equal` if, for every element type and swizzle, the driver encodes the same 128 bytes from
    the codes that machine code passes as from the names that the bindings pass; otherwise the first
    map that differs."""
    import ctypes

    from tileir.backend.codegen.tma_boxes import box_of
    from tileir.backend.driver.device import driver
    from tileir.backend.driver.gpu import gpu
    from tileir.backend.driver.tensor_maps import encode_tensor_map
    from tileir.backend.runtime.launch_program import ELEMENT_TYPES
    from tileir.backend.tma.host_plan import MapRecipe, MapValues

    encode = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint,
        *[ctypes.c_void_p] * 5, *[ctypes.c_uint] * 4,
    )(gpu().encode_address)  # fmt: skip
    buffer = ctypes.create_string_buffer(192)
    start = ctypes.addressof(buffer) + -ctypes.addressof(buffer) % 64
    sizes = {"i8": 1, "f8e4m3": 1, "f8e5m2": 1, "i16": 2, "f16": 2, "bf16": 2, "i64": 8, "f64": 8}
    for (element, code), swizzle in itertools.product(ELEMENT_TYPES.items(), range(4)):
        size = sizes.get(element, 4)
        fills = ("zero", "nan") if element in ("f16", "bf16", "f32", "f64") else ("zero",)
        for fill, rank in itertools.product(fills, (1, 2, 3, 5)):
            block = (*(4,) * (rank - 1), (16 << swizzle) // size)
            recipe = MapRecipe(element, size, block, swizzle, fill, 0, (), (), 0)
            extents = tuple(range(40, 40 + 16 * rank, 16))
            strides = tuple(1 << (20 - 3 * d) for d in range(rank - 1))
            values = MapValues(recipe, 1 << 40, extents, strides)
            box = box_of(block, size, swizzle)
            between = strides[::-1] or (64,)  # the driver keeps one of a map of rank 1 too
            status = encode(
                start, code, rank, 1 << 40, (ctypes.c_uint64 * 5)(*extents[::-1]),
                (ctypes.c_uint64 * 5)(*between), (ctypes.c_uint32 * 5)(*box[::-1]),
                (ctypes.c_uint32 * 5)(*[1] * 5), 0, swizzle, 3, int(fill == "nan"),
            )  # fmt: skip
            by_names = bytes(encode_tensor_map(driver(), values))
            if status or ctypes.string_at(start, 128) != by_names:
                return f"status {status}: {element} {block} swizzle {swizzle} {fill}"
    return "equal"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--kind", choices=["check", *KINDS])
    options = parser.parse_args()
    directory: Path = options.out
    directory.mkdir(parents=True, exist_ok=True)
    if options.kind:
        quiet = directory / "quiet"
        row = check() if options.kind == "check" else measure(options.kind, options.repeats, quiet)
        (directory / f"{options.kind}.json").write_text(json.dumps(row, indent=1) + "\n")
        return
    rows: dict[str, dict[str, Any]] = {}
    lock = Lock()

    def run(kind: str) -> None:
        row = row_of(directory, kind, options.repeats)
        with lock:
            rows[kind] = row
            sys.stdout.write(line_of(row) + "\n")
            sys.stdout.flush()
            ordered = [rows[k] for k in kinds if k in rows]
            (directory / "table.json").write_text(json.dumps(ordered, indent=1) + "\n")

    kinds = ["check", *([] if options.check else KINDS)]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, kinds))


def row_of(directory: Path, kind: str, repeats: int) -> dict[str, Any]:
    """The row of a kind, measured in a separate process."""
    command = [sys.executable, __file__, "--out", str(directory), "--kind", kind]
    command += ["--repeats", str(repeats)]
    path = directory / f"{kind}.json"
    path.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, timeout=LIMIT, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        return {"kind": kind, "failure": f"more than {LIMIT} s"}
    if done.returncode:
        return {"kind": kind, "failure": done.stderr[-2000:]}
    row: dict[str, Any] = json.loads(path.read_text())
    return row


def line_of(row: dict[str, Any]) -> str:
    """A row as text."""
    sides = [f"{n} {row[n]['median']:8.2f} us" for n in ("ours", "triton") if n in row]
    rest = [f"{n}: {row[n]}" for n in ("equal", "wrong results", "capture", "overlaps", "maps",
                                     "failure")
            if n in row]  # fmt: skip
    return f"{row['kind']:28}" + "  ".join([*sides, *rest])


if __name__ == "__main__":
    main()
