"""CPU time of processes that have just started: an empty module through `tileir-opt`, and the first
kernel that a process compiles.

    python benchmarks/start_up.py --against 9b73e7b --out benchmarks/results/start_up.json

`--against` names a commit, or a folder with a checkout of one. The processes of the two sides
alternate, 15 times by default, and a ratio is the quotient of medians. A ratio of "Python alone"
that is not near 1 says that the machine was too busy. Each process finds its checkout by
PYTHONPATH, runs once unmeasured to fill a cache of bytecode in a temporary folder, and is charged
user and system time of itself and its children. Takes about 1 minute on an idle machine, and needs
no GPU. The file has the times in seconds, by task and side.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EMPTY = """
import sys
from tileir.tools.opt import main
sys.exit(main(["-"]))
"""
FIRST = """
import sys
from pathlib import Path
from tileir.backend import compile
from tileir.textual import parse
assert compile(parse(Path(sys.argv[1]).read_text()), sys.argv[2]).ptx
"""


def programs(target: str) -> dict[str, list[str]]:
    """The arguments of Python by task; `tileir-opt` reads its module from standard input."""
    kernels = {
        f"first kernel, {name}": ["-c", FIRST, str(ROOT / "examples" / f"{name}.tir"), target]
        for name in ("add", "matmul")
    }
    return {
        "Python alone": ["-c", ""],
        "imports of others": ["-c", "import attrs, llvmlite.binding, re, enum"],
        "tileir-opt, empty module": ["-c", EMPTY],
        **kernels,
    }


def seconds(folder: Path, arguments: list[str], bytecode: str) -> float:
    """The CPU time of one process that finds `tileir` in `folder`, its bytecode in `bytecode`."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(b"tir 1.0\n")
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{arguments} in {folder} ended with {process.returncode}"
    return used.ru_utime + used.ru_stime


def checkout_of(commit: str, folder: Path) -> Path:
    """The files of a commit, in `folder`; the commit itself if it is a folder."""
    if Path(commit).is_dir():
        return Path(commit).resolve()
    archive = folder / "commit.tar"
    subprocess.run(["git", "archive", "-o", str(archive), commit], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder / "commit", filter="data")
    return folder / "commit"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    options.add_argument("--against", metavar="COMMIT", help="a commit, or a folder with one")
    options.add_argument("--repeats", type=int, default=15)
    options.add_argument("--target", default="sm_90a")
    options.add_argument("--out", type=Path)
    arguments = options.parse_args()
    tasks, times = programs(arguments.target), defaultdict[str, dict[str, list[float]]](dict)
    with tempfile.TemporaryDirectory() as name:
        folders = {"here": ROOT}
        if arguments.against:
            folders["against"] = checkout_of(arguments.against, Path(name))
        for number in range(-1, arguments.repeats):
            for task, words in tasks.items():
                for side in sorted(folders, reverse=number % 2 == 1):
                    duration = seconds(folders[side], words, str(Path(name, "bytecode")))
                    if number >= 0:
                        times[task].setdefault(side, []).append(duration)
    for task, sides in times.items():
        medians = {side: statistics.median(durations) for side, durations in sides.items()}
        shown = ", ".join(f"{side} {1e3 * median:.0f} ms" for side, median in medians.items())
        if arguments.against:
            shown += f", ratio {medians['here'] / medians['against']:.2f}"
        print(f"{task}: {shown}")
    if arguments.out:
        arguments.out.write_text(json.dumps(times, indent=1) + "\n")


if __name__ == "__main__":
    main()
