"""Tables of docs/reference/performance.md, and the summary that README also contains.

Each function returns the rows of a table, the headings first; `tables.py` writes them.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"

Lines = Iterator[tuple[str, ...]]


def load(name: str) -> Any:
    """The content of a file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of results."""
    content = load(name)
    return content["rows"] if "rows" in content else content["lines"]


# The summary --------------------------------------------------------------------------------------


def ratios(name: str, key: str = "ratio", **only: Any) -> list[float]:
    """The ratios of the rows whose fields have the values `only`."""
    return [row[key] for row in rows(name) if all(row.get(k) == v for k, v in only.items())]


def _cube(size: list[int]) -> bool:
    return len(set(size)) == 1


def summary() -> Lines:
    """A row per group: the number of problems, the geometric mean of the ratios, and their
    range."""
    yield ("group", "peer", "problems", "ratio: mean", "range")
    matmuls = rows("matmul_shapes")
    groups: tuple[tuple[str, str, list[float]], ...] = (
        ("matmul f16, square", "cuBLAS", [r["ratio"] for r in matmuls if _cube(r["size"])]),
        ("matmul f16, other shapes", "cuBLAS",
         [r["ratio"] for r in matmuls if not _cube(r["size"])]),
        ("attention bf16, forward", "cuDNN, FlashAttention", ratios("attention")),
        ("attention bf16, gradients", "cuDNN", ratios("attention_backward")),
        ("convolution f16, channels last", "cuDNN", ratios("workloads_nhwc")),
        ("convolution f16, channels first", "cuDNN", ratios("workloads_nchw")),
        ("matmul with epilogue", "torch, torch.compile", ratios("workloads_epilogue")),
        ("memory-bound kernels", "torch.compile, Triton", ratios("memory")),
        ("kernels of public packages", "Triton", [k["ratio"] for k in load("public")["kernels"]]),
        ("CPU, 2 cores", "numpy", [r["ratio"] for r in load("cpu")["rows"].values()]),
    )  # fmt: skip
    for name, peer, values in groups:
        mean = math.exp(math.fsum(map(math.log, values)) / len(values))
        span = f"{min(values):.2f} to {max(values):.2f}"
        yield (name, peer, str(len(values)), f"{mean:.2f}", span)


# The library, compiling, launching ----------------------------------------------------------------


def library() -> Lines:
    """Medians of tileir and xDSL: the time for an op, or for a process."""
    yield ("task", "xDSL", "tileir", "ratio")
    for task, times in load("library")["seconds"].items():
        theirs, ours = median(times["xdsl"]), median(times["tileir"])
        unit, scale = ("ms", 1e3) if task == "start-up" else ("us/op", 1e6)
        yield (task, *(f"{t * scale:.3g} {unit}" for t in (theirs, ours)), f"{theirs / ours:.1f}")


def compile_time() -> Lines:
    """Processor milliseconds for a kernel in a warm process, and for the first kernel of a
    process."""
    yield ("kernel", "build", "lower", "emit", "LLVM", "assemble", "all", "Triton", "ratio",
           "TileLang", "ratio")  # fmt: skip
    content = load("compile_time")
    for name, row in content["kernels sm_90a"].items():
        ours = [row[part] for part in ("build", "lower", "emit", "llvm", "assemble", "total")]
        peers = (row["triton"], row["tilelang"])
        cells = [c for p in peers for c in (f"{p['total']:,.0f}", f"{p['ratio']:.3f}")]
        yield (name, *(f"{x:.1f}" for x in ours), *cells)
    first = content["fresh sm_90a"]
    totals = [1e3 * first[f"{compiler} total"] for compiler in ("tileir", "triton", "tilelang")]
    cells = [c for t in totals[1:] for c in (f"{t:,.0f}", f"{totals[0] / t:.3f}")]
    yield ("first kernel of a process", *[""] * 5, f"{totals[0]:.0f}", *cells)


def compile_public() -> Lines:
    """Processor milliseconds for kernels of public packages in a warm process."""
    yield ("package", "kernels", "tileir: median", "Triton: median", "ratio: median", "range")
    groups: dict[str, list[tuple[float, float]]] = {}
    for kernel in load("compile_public")["kernels"]:
        both = kernel["tileir_ms"], kernel["triton_ms"]
        groups.setdefault(kernel["case"].split("/")[0], []).append(both)
    groups["all"] = [both for group in groups.values() for both in group]
    for name, group in sorted(groups.items()):
        ratios = [ours / theirs for ours, theirs in group]
        ours, theirs = (median(times) for times in zip(*group, strict=True))
        span = f"{min(ratios):.2f} to {max(ratios):.2f}"
        yield (name, str(len(group)), f"{ours:,.0f}", f"{theirs:,.0f}", f"{median(ratios):.2f}",
               span)  # fmt: skip


def compile_parts() -> Lines:
    """The time of the same kernels by stage, and LLVM's time."""
    yield ("part", "percent", "pass of LLVM", "percent of LLVM")
    content = load("compile_public")
    parts, passes = (
        [(name, f"{100 * part:.0f}") for name, part in content[key].items()]
        for key in ("parts", "llvm_passes")
    )
    for left, right in itertools.zip_longest(parts, passes, fillvalue=("", "")):
        yield (*left, *right)


def growth() -> Lines:
    """Milliseconds for programs of 4,000 and 32,000 ops."""
    yield ("shape", "4,000 ops, ms", "32,000 ops, ms", "ratio")
    for name, row in load("compile_time")["growth"].items():
        times = (row[count]["total"] for count in ("4000", "32000"))
        yield (name, *(f"{t:,.0f}" for t in times), f"{row['ratio']:.1f}")


def launching() -> Lines:
    """Microseconds of a launch."""
    yield ("launch", "5 arguments, us", "19 arguments, us")
    five, nineteen = load("launch")["k5"], load("launch")["k19"]
    for name in five:
        yield (name, f"{five[name]['median']:.2f}", f"{nineteen[name]['median']:.2f}")


def launch_table() -> Lines:
    """Microseconds of the host for a call, by the kind of call."""
    yield ("kind of call", "tileir, us", "Triton, us", "ratio")
    for row in load("launch_table")["rows"]:
        if "ours" in row:
            ours, theirs = row["ours"]["median"], row["triton"]["median"]
            yield (row["kind"], f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.2f}")


def cpu() -> Lines:
    """Milliseconds on a CPU."""
    yield ("task", "numpy, ms", "tileir, ms", "ratio")
    for name, row in load("cpu")["rows"].items():
        times = (f"{1e3 * row[library]:.2f}" for library in ("numpy", "ours"))
        yield (name, *times, f"{row['ratio']:.2f}")


def tuning() -> Lines:
    """Seconds that tuning takes, and the best candidate."""
    yield ("search", "seconds", "candidates measured", "choice", "us")
    content = load("tuning")
    names = {"triton": "Triton's autotuner", "everything": "tileir, every candidate",
             "usual": "tileir tune", "resumed": "tileir, killed and resumed"}  # fmt: skip
    for key, name in names.items():
        run = content[key]
        best = run["best"]
        if isinstance(best, str):
            best = {k: int(v) for k, v in (item.split("=") for item in best.split(","))}
        count = run.get("measured", run.get("candidates", run.get("outcomes")))
        tile = f"{best['M']}x{best['N']}x{best['K']}, {best['num_warps']} warps"
        choice = f"{tile}, {best['stages']} stages"
        yield (name, f"{run['seconds']:.1f}", str(count), choice, f"{run['microseconds']:.1f}")


# Kernels ------------------------------------------------------------------------------------------


def matmul_types() -> Lines:
    """Ratios of square matmuls of other types, whose operands are contiguous along K."""
    yield ("size", "bf16", "e4m3", "int8", "tf32")
    by_size = {(r["problem"].split()[0], r["size"][0]): r["ratio"]
             for name in ("matmul_shapes_bf16", "matmul_shapes_others") for r in rows(name)
             if r["problem"].endswith("NT") and _cube(r["size"])}  # fmt: skip
    for size in sorted({size for kind, size in by_size if kind == "f8"}):
        cells = (by_size.get((kind, size)) for kind in ("bf16", "f8", "i8", "tf32"))
        yield (f"{size}³", *(f"{c:.3f}" if c else "" for c in cells))


def matmul_odd() -> Lines:
    """Ratios of f16 matmuls whose extents are no multiples of a tile, or that no tensor map can
    describe."""
    yield ("m x n x k", "NN", "NT")
    by_size = {(r["problem"], tuple(r["size"])): r["ratio"] for r in rows("matmul_shapes_odd")}
    for size in dict.fromkeys(size for _, size in by_size):
        cells = (by_size.get((f"f16 {way}", size)) for way in ("NN", "NT"))
        yield ("x".join(map(str, size)), *(f"{c:.3f}" if c else "" for c in cells))


def matmul() -> Lines:
    """Matmuls of row-major operands through `mma.sync` and FMA."""
    yield ("type", "size", "TFLOP/s", "/cuBLAS", "/Triton", "variant")
    for row in rows("matmul"):
        variant = row["best"]["tileir"][0].removeprefix("tileir ")
        figures = (f"{row[f'ratio_{peer}']:.2f}" for peer in ("cublas", "triton"))
        rate = f"{row['teraflops']['tileir']:.1f}"
        yield (row["type"], str(row["size"]), rate, *figures, variant)


def workload(group: str) -> Callable[[], Lines]:
    """Ratios of a group of workloads, each against its best peer."""

    def lines() -> Lines:
        yield ("problem", "peer", "tile", "ratio")
        for row in rows(f"workloads_{group}"):
            yield (row["name"], row["peer"], row["best"], f"{row['ratio']:.2f}")

    return lines


def thesis() -> Lines:
    """Kernels of Decoupled Triton, with schedules by hand and by the autoscheduler."""
    yield ("kernel", "sizes", "peer", "ratio", "ratio, auto schedule")
    for row in rows("thesis"):
        sizes = "x".join(map(str, row["sizes"].values()))
        figures = (row.get(key) for key in ("ratio", "ratio_auto"))
        yield (row["name"], sizes, row["peer"], *(f"{f:.2f}" if f else "" for f in figures))


def softmax() -> Lines:
    """Softmax of rows."""
    yield ("shape", "type", "us", "TB/s", "/Triton", "/torch")
    for row in rows("softmax"):
        figures = (f"{row[key]:.2f}" for key in ("ratio", "ratio_torch"))
        us, rate = row["microseconds"]["tileir"], row["terabytes_per_second"]
        shape = "x".join(map(str, row["shape"]))
        yield (shape, row["dtype"], f"{us:.2f}", f"{rate:.2f}", *figures)


def registers() -> Lines:
    """Registers of a thread."""
    yield ("kernel", "block", "warps", "ptxas: tileir", "Triton", "nvJitLink: tileir", "Triton")
    for row in rows("registers"):
        cells = (str(row[compiler][tool][0])
                 for tool in ("ptxas", "nvjitlink")
                 for compiler in ("tileir", "triton"))  # fmt: skip
        yield (row["name"], str(row["block"]), str(row["warps"]), *cells)


def any_addressing() -> Lines:
    """Dots without tensor maps: the least time of each variant over its configurations."""
    yield ("kernel", "wgmma us", "mma.sync us", "Triton us", "torch us", "ratio to Triton")
    for row in rows("any_addressing"):
        least: dict[str, float] = {}
        for variant, result in row["variants"].items():
            way = variant.split()[0]
            if "us" in result:
                least[way] = min(result["us"], least.get(way, result["us"]))
        ways = ("wgmma", "mma", "triton", "torch")
        times = (f"{least[way]:.1f}" if way in least else "-" for way in ways)
        ratio = f"{least['triton'] / least['wgmma']:.2f}" if "triton" in least else "-"
        yield (row["name"], *times, ratio)


def public() -> Lines:
    """Kernels of public packages through the hook, by package."""
    yield ("package", "kernels", "ratio: mean", "below 0.95", "range")
    groups: dict[str, list[float]] = {}
    for kernel in load("public")["kernels"]:
        groups.setdefault(kernel["case"].split("/")[0], []).append(kernel["ratio"])
    groups["all"] = [ratio for ratios in groups.values() for ratio in ratios]
    for name, ratios in sorted(groups.items()):
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        below, span = sum(x < 0.95 for x in ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
        yield (name, str(len(ratios)), f"{mean:.2f}", str(below), span)


TABLES: dict[str, Callable[[], Lines]] = {
    "summary": summary, "library": library, "compile_time": compile_time, "growth": growth,
    "compile_public": compile_public, "compile_parts": compile_parts,
    "launching": launching, "launch_table": launch_table, "cpu": cpu, "tuning": tuning,
    "matmul_types": matmul_types, "matmul_odd": matmul_odd, "matmul": matmul, "thesis": thesis,
    "softmax": softmax, "registers": registers, "any_addressing": any_addressing, "public": public,
    **{name: workload(name) for name in ("epilogue", "quantised", "sparse", "shift")},
}  # fmt: skip
