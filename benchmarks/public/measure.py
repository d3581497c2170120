"""Benchmark of unmodified kernels of public packages on a GPU, compiled by tileir and by Triton.

    python benchmarks/public/measure.py --out FOLDER [--seconds 280] [--only PATTERN,...]
                                        [--jobs 14]

Cases run in the order of the patterns. Writes `measured.json` in FOLDER after each case, and
continues with the cases that are missing there. Each GPU has two processes, one per compiler, which
alternate: a case runs first in one and then in the other, with the same inputs, and nothing else
uses the GPU. Before and meanwhile, other processes fill both caches of kernels, using only the CPU.
A case that takes longer than `--limit` seconds is abandoned, and its process is replaced. The
process that runs a case second takes up to 2 % longer for kernels that are limited by the bandwidth
of memory. With `--both-orders`, a case runs again in the other order, and the least times count.

A case has, for each of its kernels: microseconds by both compilers (`us`, medians of launches after
a write of 256 MiB, and `iqr_us`, the range of their middle half), registers, spills, shared memory,
warps and instructions; and, for its results, the largest error of both compilers relative to f64
where torch has the operator, and of one relative to the other. `report.py` shows them.

Kernels shorter than 10 us are then timed in graphs, in which they are launched many times in a row
with their data in the L2 cache (`graphs.py`). The processes alternate. `us` is that time where
`clock` is `graph`, per call of the program, and `cold_us` the one after a write; `alternations_us`
are the medians of each time that the process had; `empty_us` of the case is the time of a launch of
an empty kernel in a graph. Where a graph cannot repeat the launches
of a short kernel, `remark` says why, and `us` is the time after a write for both compilers.
"""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
COMPILERS = ("triton", "tileir")
SETTINGS = os.environ.get("PUBLIC_SETTINGS", "1")
"""The value of TILEIR_IN_TRITON for tileir: `no-maps` uses Triton's launcher alone."""
IMPORTING = 60
"""Seconds for the imports of a process, which do not count as those of a case."""


def environment(compiler: str, cache: Path, tree: Path, configs: int) -> dict[str, str]:
    """The environment variables with which a compiler builds all kernels."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("TILEIR_")}
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        **variables, "PYTHONPATH": path, "TILEIR_CACHE": str(cache / "kernels"),
        "TILEIR_IN_TRITON": SETTINGS if compiler == "tileir" else "0",
        "TRITON_CACHE_DIR": str(cache / compiler), "PUBLIC_CONFIGS": str(configs),
        "TORCHINDUCTOR_CACHE_DIR": str(cache / f"inductor_{compiler}"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "GEMS_VENDOR": "nvidia", "FLA_CACHE_RESULTS": "0", "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip


class Runner:
    """The process that runs cases with one compiler."""

    def __init__(self, compiler: str, names: dict[str, str], log: Path, gpu: str) -> None:
        self.compiler, self.log = compiler, log
        self.names = {**names, "CUDA_VISIBLE_DEVICES": gpu}
        self.start()

    def start(self) -> None:
        self.folder, self.count = Path(tempfile.mkdtemp()), 0
        gems = {"FLAGGEMS_CACHE_DIR": str(self.folder / "gems"), "FLAGGEMS_DB_URL": ""}
        own = {k: v for k, v in gems.items() if v}
        command = [sys.executable, "-P", str(HERE / "worker.py"), "run", str(self.folder)]
        self.process = subprocess.Popen(
            command, env={**self.names, **own}, stdin=subprocess.PIPE, text=True,
            stdout=subprocess.DEVNULL, stderr=self.log.open("a"),
        )  # fmt: skip

    def ask(self, name: str, limit: float, end: float) -> dict[str, Any]:
        """Run a case in the process and return its result; the process is replaced if that takes
        too long."""
        ready, requested_at = self.folder / "ready", time.monotonic()
        begin = requested_at
        output = self.folder / f"{self.count}.json"
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except OSError:
            self.start()
            return {"case": name, "error": "the process had ended"}
        while not output.exists():
            if not ready.exists() and time.monotonic() < requested_at + IMPORTING:
                begin = time.monotonic()
            ended = self.process.poll() is not None
            if ended or time.monotonic() > min(begin + limit, end):
                self.process.kill()
                self.process.wait()
                if time.monotonic() < end:
                    self.start()
                return {"case": name, "error": "it crashed" if ended else f"over {limit:.0f} s"}
            time.sleep(0.01)
        self.count += 1
        row = json.loads(output.read_text())
        row["results"] = str(self.folder / f"{self.count - 1}.pt")
        return row

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def compare(rows: dict[str, dict[str, Any]]) -> list[Any] | str:
    """The largest difference of each result between the compilers, relative to the size of its
    values; or the reason why they cannot be compared."""
    import torch  # type: ignore[import-not-found]
    from worker import error

    if any("error" in row for row in rows.values()):
        return "an error"
    ours, theirs = (torch.load(rows[c]["results"]) for c in ("tileir", "triton"))
    if [n for _, n in ours] != [n for _, n in theirs]:
        return "other shapes"
    return [error(f, w) for (f, _), (w, _) in zip(ours, theirs, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument(
        "--limit", type=float, default=25.0, help="seconds for a case and a compiler"
    )
    parser.add_argument("--only", default="*")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 4) - 2))
    parser.add_argument("--both-orders", action="store_true", help="each case runs in both orders")
    parser.add_argument("--configs", type=int, default=2, help="configurations for an autotuner")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "tileir_public")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    sys.path.insert(0, str(HERE))
    from compile import importable
    from graphs import TIME_GRAPHS, alternating

    folder: Path = options.out
    tree, out = importable(), folder / "measured.json"
    folder.mkdir(parents=True, exist_ok=True)
    names = {c: environment(c, options.cache, tree, options.configs) for c in COMPILERS}
    logs = {c: folder / f"{c}.log" for c in COMPILERS}
    done = json.loads(out.read_text()) if out.exists() else {}
    listed = subprocess.run(
        [sys.executable, "-c", "import cases; print('\\n'.join(cases.all_cases()))"],
        env={**names["triton"], "PYTHONPATH": f"{HERE}:{names['triton']['PYTHONPATH']}"},
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    matching = (n for p in options.only.split(",") for n in listed if fnmatchcase(n, p))
    selected = [n for n in dict.fromkeys(matching) if n not in done]
    print(f"{len(selected)} cases", flush=True)
    builders = start_builders(selected, names, logs, options)
    try:
        wait_for(builders, end)
        waiting, lock = iter(selected), Lock()

        def measure(gpu: str) -> None:
            runners = {c: Runner(c, names[c], logs[c], gpu) for c in COMPILERS}
            while time.monotonic() < end - 5:
                with lock:
                    name = next(waiting, None)
                if name is None:
                    break
                rows = {c: runners[c].ask(name, options.limit, end) for c in COMPILERS}
                difference = compare(rows)
                if options.both_orders:
                    for c in reversed(COMPILERS):
                        repeated = runners[c].ask(name, options.limit, end)
                        rows[c] = with_least_times(rows[c], repeated)
                rows = alternating(rows, lambda c: runners[c].ask(TIME_GRAPHS, options.limit, end))
                if time.monotonic() > end:
                    break
                with lock:
                    done[name] = {**without_results(rows), "difference": difference}
                    out.write_text(json.dumps(done))
                    print(line(name, done[name]), flush=True)
            for runner in runners.values():
                runner.end()

        gpus = visible_gpus()
        with ThreadPoolExecutor(len(gpus)) as pool:
            list(pool.map(measure, gpus))
    finally:
        for process, _ in builders:
            process.kill()
            process.wait()
    import report

    report.main([str(folder)])
    return 0


def with_least_times(row: dict[str, Any], repeated: dict[str, Any]) -> dict[str, Any]:
    """`row` with the times of `repeated`, the same case measured once more, where they are less."""
    if "error" in row or "error" in repeated:
        return row
    other = {kernel["kernel"]: kernel for kernel in repeated["kernels"]}
    kernels = [
        min(kernel, {**kernel, **_times(other.get(kernel["kernel"], kernel))}, key=itemgetter("us"))
        for kernel in row["kernels"]
    ]
    least = {key: min(row[key], repeated[key]) for key in ("other_us", "host_us")}
    return {**row, **least, "kernels": kernels}


def _times(kernel: dict[str, Any]) -> dict[str, float]:
    return {key: kernel[key] for key in ("us", "iqr_us") if key in kernel}


def without_results(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of both compilers without the paths of their results."""
    return {c: {k: v for k, v in row.items() if k != "results"} for c, row in rows.items()}


def visible_gpus() -> list[str]:
    """The GPUs of this machine, by their names in CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return named.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return [str(i) for i, _ in enumerate(listed.stdout.strip().splitlines())]


def start_builders(selected, names, logs, options):
    """Start processes that compile the cases in their order, each every n-th one; and those of the
    cases of torch.compile, which need the GPU for that."""
    share, gpus, output = max(1, options.jobs // 2), visible_gpus(), []
    programs = [n for n in selected if n.startswith("inductor/")]
    others = [n for n in selected if not n.startswith("inductor/")]
    for c in COMPILERS:
        for i in range(share):
            for mine, mode in ((others[i::share], "build"), (programs[i::share], "warm")):
                if not mine:
                    continue
                own = {"FLAGGEMS_CACHE_DIR": tempfile.mkdtemp()}
                own["CUDA_VISIBLE_DEVICES"] = gpus[i % len(gpus)] if mode == "warm" else ""
                process = subprocess.Popen(
                    [sys.executable, "-P", str(HERE / "worker.py"), mode, *mine],
                    env={**names[c], **own}, stdout=subprocess.DEVNULL, stderr=logs[c].open("a"),
                )  # fmt: skip
                output.append((process, mode))
    return output


def wait_for(builders, end: float) -> None:
    """Wait until nothing else uses the GPU, plus some seconds in which the other builders get
    ahead; then end the builders that still use the GPU."""
    begin, half = time.monotonic(), time.monotonic() + (end - time.monotonic()) / 2
    while time.monotonic() < half:
        waiting = [m for p, m in builders if p.poll() is None]
        if not waiting or ("warm" not in waiting and time.monotonic() > begin + 40):
            break
        time.sleep(0.2)
    for process, mode in builders:
        if mode == "warm" and process.poll() is None:
            process.kill()


def line(name: str, row: dict[str, Any]) -> str:
    """The text that is printed for a case."""
    errors = [f"{c}: {row[c]['error'][:150]}" for c in COMPILERS if "error" in row[c]]
    if errors:
        return f"{name}: {'; '.join(errors)}"
    ours, theirs = (sum(k["us"] for k in row[c]["kernels"]) for c in ("tileir", "triton"))
    worst = max([d for d in row["difference"] if isinstance(d, float)], default=0.0)
    return (
        f"{name}: {theirs:.1f} us by Triton, {ours:.1f} by tileir, {theirs / max(ours, 1e-9):.2f}, "
        f"differ by {worst:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main())
