"""A table and a chart of the results of `measure.py`.

    python benchmarks/public/report.py DIRECTORY

Writes `kernels.json`, a row for each kernel with the reason why it is slower, the slowest relative
to Triton first; `kernels.svg`, a bar for each; and prints the totals.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ENOUGH = 3e-2
"""The difference between two compilers' results from which a case counts as wrong, relative to the
size of the values, unless both are as far from f64."""


def rows(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each kernel of each case that both compilers ran."""
    result = []
    for name, case in measured.items():
        theirs = {k["kernel"]: k for k in case["triton"].get("kernels", [])}
        for ours in case["tileir"].get("kernels", []):
            other = theirs.get(ours["kernel"])
            if other is None or not ours["us"] or not other["us"]:
                continue
            ratio = other["us"] / ours["us"]
            result.append({
                "case": name, "kernel": ours["kernel"], "triton_us": other["us"],
                "tileir_us": ours["us"], "ratio": round(ratio, 3),
                "by": ours.get("compiled_by", "?"), "reason": ours.get("reason", ""),
                "limits": limits(ours, other) if ratio < 0.95 else "", **clock(ours, other),
            })  # fmt: skip
    return sorted(result, key=lambda r: r["ratio"])


def clock(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """The spread of the ratio, which is 1 within the noise if it differs from 1 by no more; for
    times of graphs, those after a write; and why a short kernel has no time of a graph. Rows of
    earlier runs have none of them."""
    result: dict[str, Any] = {}
    if "iqr_us" in ours and "iqr_us" in theirs:
        relative = [kernel["iqr_us"] / kernel["us"] for kernel in (ours, theirs)]
        result["spread"] = round(theirs["us"] / ours["us"] * math.hypot(*relative), 3)
    if "clock" in ours:
        cold = {"triton_cold_us": theirs["cold_us"], "tileir_cold_us": ours["cold_us"]}
        result |= {"clock": ours["clock"], **cold}
    if "remark" in ours:
        result["remark"] = ours["remark"]
    return result


_OTHER_VERSION = "tileir launches a version whose code is not recorded"
"""The figures of a kernel are those of the version that Triton's launcher can launch. For tensor
maps and host descriptors, tileir launches another one."""


def limits(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The difference between the codes that may explain why the kernel of tileir is slower."""
    result = []
    if ours.get("compiled_by") == "triton":
        return "compiled by Triton"
    if ours.get("maps"):
        return _OTHER_VERSION
    for name in ("spills", "barriers", "shuffles", "divisions", "shared_loads", "instructions"):
        a, b = ours.get(name, 0), theirs.get(name, 0)
        if a > 1.3 * b + 2:
            result.append(f"{name} {a} for {b}")
    widths = [_width(k.get("global", {}), kind) for kind in ("ld", "st") for k in (ours, theirs)]
    for kind, a, b in (("loads", *widths[:2]), ("stores", *widths[2:])):
        if a and b and a < 0.8 * b:
            result.append(f"{kind} of {a:.0f} bits for {b:.0f}")
    if theirs.get("copies", 0) and not ours.get("copies", 0):
        result.append("no asynchronous copies")
    if theirs.get("wgmma", 0) and not ours.get("wgmma", 0):
        result.append("mma.sync for wgmma")
    a, b = _resident(ours), _resident(theirs)
    if a < 0.8 * b:
        result.append(f"{a} resident warps for {b}")
    return "; ".join(result) or "none seen in the code"


def _width(accesses: dict[str, int], kind: str) -> float:
    """Mean bits of an access to global memory."""
    result = [(int(k[2:]), n) for k, n in accesses.items() if k.startswith(kind)]
    count = sum(n for _, n in result)
    return sum(b * n for b, n in result) / count if count else 0.0


def _resident(kernel: dict[str, Any]) -> int:
    """The number of resident warps of a kernel on a multiprocessor of compute capability 9.0."""
    warps = kernel.get("warps", 4)
    registers = 65536 // (max(kernel.get("registers", 32), 1) * 32 * warps)
    shared = 233472 // (kernel.get("shared", 0) + 1024)
    return warps * min(registers, shared, 64 // warps, 32)


def wrong(measured: dict[str, Any]) -> list[str]:
    """Cases whose results by tileir are farther from the reference than Triton's. If no digit of
    Triton's is right, the reference is zero but for rounding, as a gradient of a bias in front of a
    normalisation is, and errors of one magnitude are alike."""
    result = []
    for name, case in measured.items():
        ours, theirs = case["tileir"], case["triton"]
        if "error" in ours and "error" not in theirs:
            result.append(f"{name}: {ours['error'][:200]}")
        elif "errors" in ours and "errors" in theirs:
            worse = [(a, b) for a, b in zip(ours["errors"], theirs["errors"], strict=True)
                     if a > (2 if b < 1 else 10) * b + 1e-5]  # fmt: skip
            result += [f"{name}: error {a:.1e} for {b:.1e}" for a, b in worse[:1]]
        elif isinstance(case["difference"], list):
            far = max(case["difference"], default=0.0)
            result += [f"{name}: differs by {far:.1e}"] if far > ENOUGH else []
    return result


def chart(table: list[dict[str, Any]]) -> str:
    """The ratios as an SVG, a bar for each kernel from the slowest to the fastest."""
    width, height, left = 1200, 480, 50
    step = (width - left) / max(len(table), 1)
    top, bottom = math.log2(4), math.log2(0.25)

    def y(ratio: float) -> float:
        return height * (top - max(bottom, min(top, math.log2(ratio)))) / (top - bottom)

    bars = []
    for i, row in enumerate(table):
        a, b = sorted((y(row["ratio"]), y(1.0)))
        color = "#b04030" if row["ratio"] < 1 else "#3070a0"
        label = f"{row['case']} {row['kernel']}: {row['ratio']}"
        bars.append(
            f'<rect x="{left + i * step:.2f}" y="{a:.1f}" width="{max(step * 0.9, 0.3):.2f}" '
            f'height="{max(b - a, 0.5):.1f}" fill="{color}"><title>{label}</title></rect>'
        )
    lines = [
        f'<line x1="{left}" x2="{width}" y1="{y(r):.1f}" y2="{y(r):.1f}" stroke="#ccc"/>'
        f'<text x="4" y="{y(r) + 4:.1f}" font-size="12">{r}</text>'
        for r in (0.25, 0.5, 1.0, 2.0, 4.0)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 20}">'
    return "\n".join([head, *lines, *bars, "</svg>"])


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def main(arguments: list[str]) -> int:
    directory = Path(arguments[0])
    measured = json.loads((directory / "measured.json").read_text())
    table = rows(measured)
    (directory / "kernels.json").write_text(json.dumps(table, indent=1))
    (directory / "kernels.svg").write_text(chart(table))
    ours = [r for r in table if r["by"] == "tileir"]
    print(f"{len(measured)} cases, {len(table)} kernels timed, {len(ours)} compiled by tileir")
    for package in sorted({r["case"].split("/")[0] for r in ours}):
        result = [r["ratio"] for r in ours if r["case"].split("/")[0] == package]
        slower = sum(r < 0.95 for r in result)
        print(f"  {package}: {len(result)} kernels, mean {mean(result):.3f}, below 0.95: {slower}")
    print(f"geometric mean {mean([r['ratio'] for r in ours]):.3f}")
    for row in table[:60]:
        if row["ratio"] < 0.95:
            noise = f" +-{row['spread']:.2f}" if "spread" in row else ""
            print(
                f"  {row['ratio']:5.2f}{noise} {row['tileir_us']:9.1f} us {row['case']} "
                f"{row['kernel'][:44]}: {row['limits']}"
            )
    for text in wrong(measured):
        print(f"WRONG {text}")
    for row in table:
        if row["by"] != "tileir":
            print(f"FALLBACK {row['case']} {row['kernel']}: {row['reason'][:200]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
