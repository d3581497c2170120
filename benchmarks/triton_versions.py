"""The version matrix: the kernels of `triton_versions_kernels.py` through releases of Triton.

    python benchmarks/triton_versions.py [--versions 3.3.0,3.9.0] [--only add,matmul]
                                         [--folder DIR] [--out FILE]
    python benchmarks/triton_versions.py --gpu FILE      the installed release, on a GPU
    python benchmarks/triton_versions.py --merge FILE    adds what --gpu found to the results

Needs neither torch nor a GPU. Each release is installed with pip into a folder of its own, unless
DIR/triton-VERSION has it. In each, every kernel is

- compiled through the hook of Triton's CUDA backend for sm_90a, by tileir alone (`strict`),
- run on the CPU as native code and by the interpreter, and its results are checked.

Writes `benchmarks/results/triton_versions.json` and, from it, the table of
docs/reference/triton-backend.md (`--table`: that alone). With `--only`, other kernels keep their
results. Exits with 1 where something is not right.

`--gpu` launches the kernels of the release that is installed, with torch, on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import END, mark, markdown, replace_between

HERE = Path(__file__).resolve().parent
VERSIONS = ("3.3.0", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0")
"""A release of each minor version that the hook knows."""

RESULTS = HERE / "results" / "triton_versions.json"
PAGE = HERE.parent / "docs" / "reference" / "triton-backend.md"

WAYS = ("sm_90a", "native", "interpreter")
"""Targets: PTX for sm_90a, and the executors on the CPU."""
TITLES = {"sm_90a": "GPU", "cuda": "launched", "native": "CPU", "interpreter": "interpreter"}
"""The words of the table for a correct kernel; `cuda` is a launch on a GPU."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--folder", default="", help="keeps the releases that are installed")
    parser.add_argument("--out", default=str(RESULTS))
    parser.add_argument("--only", default="", help="names of kernels, with commas between them")
    parser.add_argument("--table", action="store_true", help="write the table of the results")
    parser.add_argument("--gpu", type=Path, help="launch the kernels on a GPU")
    parser.add_argument("--merge", type=Path, help="a file that --gpu wrote")
    options = parser.parse_args()
    if options.gpu:
        return launch_all(options.gpu, options.only)
    out = Path(options.out)
    kept = options.only or options.table or options.merge
    results = json.loads(out.read_text()) if out.exists() and kept else {}
    if options.merge:
        merge(results, json.loads(options.merge.read_text()))
        out.write_text(json.dumps(results, indent=1) + "\n")
    elif not options.table:
        with tempfile.TemporaryDirectory() as work:
            folder = Path(options.folder or work)
            for version in options.versions.split(","):
                release = install(version, folder)
                rows = matrix_of(release, Path(work) / version, options.only)
                results[version] = {**results.get(version, {}), **rows} if options.only else rows
                out.write_text(json.dumps(results, indent=1) + "\n")
    if out == RESULTS:
        PAGE.write_text(
            replace_between(PAGE.read_text(), mark(NAME), END, markdown(lines(results)))
        )
    return print_faults(results)


NAME = "triton_versions"


def launch_all(out: Path, only: str) -> int:
    """Write `{RELEASE: {KERNEL: {"cuda": "right"}}}` for the installed release."""
    from importlib.metadata import version

    with tempfile.TemporaryDirectory() as work:
        release = version("triton")
        results = {release: matrix_of(Path(), Path(work), only, ("cuda",))}
    out.write_text(json.dumps(results, indent=1) + "\n")
    return print_faults(results)


def merge(results: dict[str, dict[str, Any]], launched: dict[str, dict[str, Any]]) -> None:
    """Add the launched kernels to the results of the same releases."""
    for release, rows in launched.items():
        for kernel, ways in rows.items():
            results[release][kernel].update(ways)


def lines(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kernel, with a column for each release."""
    yield ("kernel", *results)
    kernels = dict.fromkeys(name for rows in results.values() for name in rows)
    for name in kernels:
        yield (name.replace("_", " "), *(cell(rows.get(name)) for rows in results.values()))


def cell(ways: dict[str, str] | None) -> str:
    """The targets for which a kernel is correct; `-` if the release lacks an op of the kernel."""
    if ways is None:
        return "-"
    return ", ".join(title for way, title in TITLES.items() if ways.get(way) == "right") or "no"


def install(version: str, folder: Path) -> Path:
    """The folder from which that release of Triton is imported."""
    target = folder / f"triton-{version}"
    if not (target / "triton").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*command, "--target", str(target), f"triton=={version}"], check=True)
    return target


def matrix_of(
    release: Path, work: Path, only: str = "", ways: tuple[str, ...] = WAYS
) -> dict[str, Any]:
    """The result by kernel and way: `right`, or the error, with Triton imported from the folder
    `release`, or as installed if that is the current folder."""
    from triton_backend import importable_tree  # type: ignore[import-not-found]

    rows: dict[str, Any] = {}
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TILEIR_", "TRITON_"))}
    path = [str(importable_tree(work / "tree")), str(HERE)]
    path += [str(release)] if release != Path() else [variables.get("PYTHONPATH", "")]
    for way in ways:
        results, begin = work / f"{way}.json", time.monotonic()
        environment = {
            **variables,
            "PYTHONPATH": os.pathsep.join(path),
            "TILEIR_TRITON_CPU": {"cuda": "off", "sm_90a": "native"}.get(way, way),
            "TRITON_CACHE_DIR": str(work / way),
        }
        command = [sys.executable, "-P", str(HERE / "triton_versions_worker.py")]
        done = subprocess.run([*command, way, str(results), only], env=environment, check=False)
        cells = json.loads(results.read_text()) if results.exists() else {}
        if done.returncode:
            cells = {**cells, "exit": f"status {done.returncode}"}
        for kernel, cell in cells.items():
            rows.setdefault(kernel, {})[way] = cell
        print(f"{release.name} {way}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return rows


def print_faults(results: dict[str, dict[str, Any]]) -> int:
    """Print the failures. Returns 1 if there are any."""
    bad = [
        f"{version} {kernel} {way}: {cell}"
        for version, rows in results.items()
        for kernel, cells in rows.items()
        for way, cell in cells.items()
        if cell != "right" and way != "interpreter"
    ]
    count = sum(len(rows) for rows in results.values())
    print("\n".join([*bad, f"kernels: {count}, not right: {len(bad)}"]))
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
