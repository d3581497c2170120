"""Benchmark of tuning a matmul over 250 candidates: the tuner of tileir against Triton's autotuner,
on one GPU.

    python benchmarks/tuning.py [--size 4096] [--processes 16] [--peer-seconds 330] [--out FILE]

Both tune the same source (`tuning_kernel.py`) over the same points of tile extents, warps and
stages. Triton compiles and measures one point after the other, with an empty cache. After
`--peer-seconds` it is stopped, and its time is extrapolated to all points, which the table states.
The tuner of tileir runs on every point (`everything`); with pruning by the model and successive
halving, as `tileir tune` does (`usual`); and in a run that is killed half-way and resumed
(`resumed`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def problem(size: int) -> Any:
    """The tuning problem."""
    import tuning_kernel as kernel

    from tileir.backend.tuning import ParameterRole, Problem, Space, TuningParameter, content_of

    space = Space(
        (
            TuningParameter("M", kernel.TILES), TuningParameter("N", kernel.TILES),
            TuningParameter("K", kernel.DEPTHS),
            TuningParameter("num_warps", kernel.WARPS, ParameterRole.OPTION),
            TuningParameter("num_stages", kernel.STAGES, ParameterRole.OPTION),
        )
    ).where("the buffers fit in shared memory", kernel.fits)  # fmt: skip
    return Problem(
        kernel.make, space, partial(_grid, size), partial(kernel.inputs, size),
        content_of(HERE.joinpath("tuning_kernel.py").read_text()), "matmul",
        expected=kernel.reference,
    )  # fmt: skip


def _grid(size: int, point: Any) -> int:
    return -(-size // point["M"]) * -(-size // point["N"])


def run_tuner(size: int, processes: int, way: str, path: str = ":memory:") -> Any:
    """A run of our tuner."""
    from tileir.backend.tuning import Database, Exhaustive, GpuMeter, Halving, Pruning, tune

    usual = way == "usual"
    with Database(path) as database:
        return tune(
            problem(size), GpuMeter.here(), database=database, processes=processes,
            search=Halving() if usual else Exhaustive(launches=20, batch=1000),
            pruning=Pruning() if usual else Pruning(None, None),
        )  # fmt: skip


def ours(size: int, processes: int) -> dict[str, Any]:
    """Seconds, choices and reports of our tuner."""
    from tileir.backend.tuning.report import explain, rank_correlation

    results: dict[str, Any] = {}
    for way in ("usual", "everything"):
        start = time.perf_counter()
        result = run_tuner(size, processes, way)
        seconds = time.perf_counter() - start
        results[way] = {
            "seconds": seconds, "best": dict(result.best.point),
            "microseconds": (result.best.seconds or 0) * 1e6, "measured": len(result.good_outcomes),
            "failed": [
                f"{o.name}: {o.code} {o.message}"[:200] for o in result.outcomes if not o.good
            ],
            "left_out": len(result.left_out), "compiling": result.spent.compiling,
            "survey": result.spent.survey, "agreement": rank_correlation(result),
            "times": {o.name: (o.seconds or 0) * 1e6 for o in result.good_outcomes},
            "predicted": {o.name: (o.predicted or 0) * 1e6 for o in result.good_outcomes},
        }  # fmt: skip
        print(f"--- {way}: {seconds:.1f} s\n{explain(result)}", flush=True)
    return results


def resume_killed_run(size: int, processes: int) -> dict[str, Any]:
    """A run that is killed once half of the candidates are measured, and the one after it."""
    import tuning_kernel as kernel

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tuning.db")
        words = [sys.executable, __file__, "--child", str(path), "--size", str(size)]
        child = subprocess.Popen([*words, "--processes", str(processes)])
        half = len(list(kernel.points())) // 2
        while child.poll() is None and _rows(path) < half:
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        rows, start = _rows(path), time.perf_counter()
        result = run_tuner(size, processes, "everything", str(path))
        return {
            "killed_after": rows, "reused": result.reused, "outcomes": len(result.outcomes),
            "seconds": time.perf_counter() - start, "best": dict(result.best.point),
            "microseconds": (result.best.seconds or 0) * 1e6,
        }  # fmt: skip


def _rows(path: Path) -> int:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return connection.execute("select count(*) from outcome").fetchone()[0]
    except sqlite3.Error:
        return 0


def peer(size: int, seconds: float) -> dict[str, Any]:
    """Triton's autotuner, in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "TUNING_PEER": "1", "TRITON_CACHE_DIR": folder}
        words = [sys.executable, __file__, "--peer", "--size", str(size)]
        words += ["--peer-seconds", str(seconds)]
        done = subprocess.run(words, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-3000:], flush=True)
        return {"error": done.stderr[-500:]}
    return json.loads(done.stdout.splitlines()[-1])


def run_triton_autotuner(size: int, seconds: float) -> dict[str, Any]:
    """Seconds and choice of Triton's autotuner, run on 16 points at a time so that it can stop."""
    import torch
    import triton
    import tuning_kernel as kernel

    inputs = kernel.inputs(size)
    a, b, c = (torch.from_numpy(inputs[x]).cuda() for x in "abc")
    every = list(kernel.points())
    random.Random(0).shuffle(every)
    spent, done, times = 0.0, 0, dict[str, float]()
    while done < len(every) and spent < seconds:
        chunk = every[done : done + 16]
        configs = [
            triton.Config({x: p[x] for x in "MNK"}, num_warps=p["num_warps"],
                          num_stages=p["num_stages"]) for p in chunk
        ]  # fmt: skip
        tuner = triton.autotune(configs, key=["m", "n", "k"])(kernel.matmul)
        start = time.perf_counter()
        tuner[lambda p: (-(-size // p["M"]) * -(-size // p["N"]),)](
            a, b, c, size, size, size, GROUP=kernel.GROUP
        )
        torch.cuda.synchronize()
        spent += time.perf_counter() - start
        done += len(chunk)
        for config, timed in tuner.configs_timings.items():
            milliseconds = timed[0] if isinstance(timed, (list, tuple)) else timed
            point = {**{x: config.kwargs[x] for x in "MNK"}, "num_warps": config.num_warps,
                     "num_stages": config.num_stages}  # fmt: skip
            times[",".join(f"{k}={point[k]}" for k in sorted(point))] = milliseconds * 1e3
    best = min(times, key=lambda n: times[n])
    return {
        "seconds": spent, "candidates": done, "of": len(every), "best": best,
        "extrapolated": spent / done * len(every), "microseconds": times[best], "times": times,
        "triton": triton.__version__, "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
    }  # fmt: skip


def show(results: dict[str, Any]) -> None:
    """Print the table."""
    other = results["triton"]
    whole = other.get("extrapolated")
    if whole:
        note = "" if other["candidates"] == other["of"] else ", extrapolated"
        print(f"triton's autotuner: {whole:.1f} s for {other['of']} candidates{note} "
              f"({other['candidates']} tried in {other['seconds']:.1f} s); "
              f"best {other['best']}: {other['microseconds']:.1f} us")  # fmt: skip
    least = results["everything"]["microseconds"]
    for way in ("everything", "usual"):
        mine = results[way]
        point = ",".join(f"{k}={mine['best'][k]}" for k in sorted(mine["best"]))
        remeasured = results["everything"]["times"].get(point, float("nan"))
        ratio = f", {whole / mine['seconds']:.2f} times faster" if whole else ""
        print(f"tileir {way}: {mine['seconds']:.1f} s{ratio}; {mine['measured']} measured, "
              f"{mine['left_out']} left out, {len(mine['failed'])} failed; compiling one by one "
              f"{mine['compiling']:.1f} s; best {point}: {mine['microseconds']:.1f} us, "
              f"{remeasured / least:.3f} of the best; rank correlation "
              f"{mine['agreement']}")  # fmt: skip
    if "resumed" in results:
        print(f"killed and resumed: {json.dumps(results['resumed'])}")


def main() -> int:
    """Run everything. Returns 0 if every candidate that ran was correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--peer-seconds", type=float, default=330)
    parser.add_argument("--out")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        print(json.dumps(run_triton_autotuner(options.size, options.peer_seconds)))
        return 0
    if options.child:
        run_tuner(options.size, options.processes, "everything", options.child)
        return 0
    results: dict[str, Any] = {"size": options.size, "processes": options.processes}
    results |= ours(options.size, options.processes)
    results["resumed"] = resume_killed_run(options.size, options.processes)
    results["triton"] = peer(options.size, options.peer_seconds) if options.peer_seconds else {}
    show(results)
    if options.out:
        Path(options.out).write_text(json.dumps(results, indent=1))
    return any("TIR1107" in text for text in results["everything"]["failed"])


if __name__ == "__main__":
    sys.exit(main())
