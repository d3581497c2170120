"""Programs of torch.compile on a GPU, in every way that Inductor builds them, by tileir and by
Triton: are the results right, does tileir compile every kernel, how long do the programs take?

    python benchmarks/public/torch_compile.py --out OUT [--seconds 200]
                                              [--modes default,graphs,autotune,dynamic,package]
                                              [--each 8] [--only PATTERN,...]
    python benchmarks/public/torch_compile.py --table --out OUT    prints what OUT has as a table

`default` is torch.compile as it is; `graphs` uses CUDA graphs (mode reduce-overhead); `autotune` is
mode max-autotune, with two Triton kernels for each matmul, and without coordinate descent in steps
of training; `dynamic` has symbolic shapes; `package` is AOTInductor, for programs without gradients
(it needs a C++ compiler). The programs are the cases `inductor/*`: single operators with what is
fused to them, and steps of training of a transformer, a convolutional network and a mixture of
experts.

First `--each` processes for each GPU and compiler run all programs in all modes, compare the
results with those of torch without compilation, and fill the caches. The second part begins when
the first has ended, or after `CHECKING` of the time. For each GPU, `--pairs` pairs of processes,
one for each compiler, build a program each from the caches. Then one pair after the other times its
program, alternately by the two compilers, three times by each, and each time both on one core: the
cores of a machine that others use differ by tens of percent. The least time counts.

OUT/torch_compile.json has a row for each program and mode: by compiler the outcome (`right`,
`wrong`, `failed`, `cut` by the end of the time), the errors, seconds of the first call, the kernels
that Triton compiled and why, microseconds of a call from end to end, and in the mode `default` of
Triton's kernels in it, and of others. It is written when the first part ends, and after each
time. Programs that did not run are printed. Exits with 1 where tileir is wrong or fails and Triton
is right.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from itertools import chain, islice
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
COMPILERS = ("triton", "tileir")
MODES = ("default", "graphs", "autotune", "dynamic", "package")
CHECKING = 0.63
Rows = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seconds", type=float, default=200.0, help="for everything")
    parser.add_argument("--each", type=int, default=8, help="processes for a GPU and a compiler")
    parser.add_argument("--pairs", type=int, default=5, help="pairs for a GPU that time programs")
    parser.add_argument("--limit", type=int, default=100, help="seconds of a program in a mode")
    parser.add_argument("--only", default="*")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    if options.table:
        from tables import markdown

        print(markdown(table_rows(json.loads((options.out / "torch_compile.json").read_text()))))
        return 0
    begin = time.time()
    end = begin + options.seconds - 3
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        with ThreadPoolExecutor(1) as background:  # processes are started before tasks are known
            checked = background.submit(bench.check, begin + CHECKING * options.seconds)
            tasks = bench.tasks()
            print(f"{len(tasks)} programs and modes", flush=True)
            wait([checked], begin + CHECKING * options.seconds / 2 - time.time())
            timers = bench.start_timers()
            checked.result()
        rows = bench.checked_rows()
        save(options.out, rows)
        print(f"compared after {time.time() - begin:.0f} s", flush=True)
        bench.measure(tasks, rows, timers, end)
    save(options.out, rows)
    print(f"timed after {time.time() - begin:.0f} s")
    return show(rows, tasks)


class Bench:
    """Processes, one for each GPU and compiler or more, with caches of their compiler."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        from compile import importable
        from cpp_compilers import compiler_with_shared_library
        from measure import visible_gpus

        self.options, self.work, self.tree = options, work, importable()
        self.compiler = compiler_with_shared_library()
        self.gpus = visible_gpus() if options.device == "cuda" else [""]

    def environment(self, compiler: str, gpu: str) -> dict[str, str]:
        from measure import environment

        cache = self.work / "cache"
        return {
            **environment(compiler, cache, self.tree, 100), "CUDA_VISIBLE_DEVICES": gpu,
            "COMPILED_DEVICE": self.options.device, "COMPILED_WORK": str(self.work),
            "COMPILED_BY": compiler, "COMPILED_LIMIT": str(self.options.limit),
            # or torch compiles C++ programs to find out, and with 1 still those of AVX-512 and AMX
            "TORCHINDUCTOR_VEC_ISA_OK": "0" if self.options.device == "cuda" else "1",
            **({"CXX": self.compiler} if self.compiler else {}),
        }  # fmt: skip

    def tasks(self) -> list[str]:
        """`PROGRAM MODE`, in the order in which they begin. They are written to
        `task_file`, for which processes wait."""
        names = subprocess.run(
            [sys.executable, "-P", str(HERE / "torch_compile_worker.py"), "list"], check=True,
            env=self.environment("triton", ""), capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        patterns = self.options.only.split(",")
        names = [n for n in names if any(fnmatchcase(n, f"*{p}*") for p in patterns)]
        modes = self.options.modes.split(",")
        order = [
            (n, m) for m in modes for n in names if m != "package" or not is_training(n)
        ]  # fmt: skip
        # steps of training take longest, and C++ programs are compiled by other processes
        order.sort(key=lambda t: rank(*t))
        tasks = [f"{n} {m}" for n, m in order]
        partial = self.task_file.with_suffix(".partial")
        partial.write_text("\n".join(tasks))
        partial.rename(self.task_file)
        return tasks

    @property
    def task_file(self) -> Path:
        """The file with the tasks."""
        return self.work / "tasks"

    def check(self, end: float) -> None:
        processes = [
            (c, g, i) for i in range(self.options.each) for g in self.gpus for c in COMPILERS
        ]
        if self.options.device == "cpu":
            processes = [("tileir", "", 0)]
        for compiler in COMPILERS:
            (self.work / f"claims_{compiler}").mkdir()

        def work(place: tuple[str, str, int]) -> None:
            compiler, gpu, number = place
            log = self.work / f"check.{compiler}.{gpu}.{number}.jsonl"
            while time.time() < end - 5:
                command = [sys.executable, "-P", str(HERE / "torch_compile_worker.py"), "check"]
                with self._output(compiler).open("a") as out:
                    process = subprocess.Popen(
                        [*command, str(log), str(end), str(self.task_file)], stdout=out, stderr=out,
                        env=self.environment(compiler, gpu),
                    )  # fmt: skip
                try:
                    status = process.wait(max(1.0, end - time.time()))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    note_cut(log)
                    return
                if status == 0:
                    return
                note_status(log, status)

        with ThreadPoolExecutor(len(processes)) as pool:
            list(pool.map(work, processes))

    def _output(self, compiler: str) -> Path:
        return self.options.out / f"torch_compile.{compiler}.out"

    def checked_rows(self) -> Rows:
        """The results of the first part, by task and compiler."""
        rows: Rows = {}
        for log in sorted(self.work.glob("check.*.jsonl")):
            compiler = log.name.split(".")[1]
            for line in log.read_text().splitlines():
                row = json.loads(line)
                rows.setdefault(row.pop("task"), {})[compiler] = row
        for row in rows.values():
            row["difference"] = self._difference(row)
        return rows

    def _difference(self, row: dict[str, Any]) -> list[float] | str:
        """The largest difference of each result between the compilers."""
        import torch  # type: ignore[import-not-found]
        from worker import error

        paths = [row.get(c, {}).pop("results", "") for c in COMPILERS]
        if not all(paths):
            return "no results"
        theirs, ours = (torch.load(path) for path in paths)
        if len(ours) != len(theirs):
            return "other results"
        return [error(a, b) for a, b in zip(ours, theirs, strict=True)]

    def start_timers(self) -> list[tuple[str, list[Timer]]]:
        """For each GPU, pairs of processes that time tasks."""
        if self.options.device != "cuda":
            return []
        places = [gpu for _ in range(self.options.pairs) for gpu in self.gpus]
        return [
            (gpu, [Timer(self.environment(c, gpu), self._output(c)) for c in COMPILERS])
            for gpu in places
        ]

    def measure(
        self, tasks: list[str], rows: Rows, pairs: list[tuple[str, list[Timer]]], end: float
    ) -> None:
        """Times of the tasks that both compilers ran.

        The pairs of a GPU build a task each at the same time. They time them one after the other
        once all are built, since a process that builds uses the GPU and the processors.
        """
        both = lambda row: all("first_s" in row.get(c, {}) for c in COMPILERS)  # noqa: E731
        right = [task for task in tasks if both(rows.get(task, {}))]
        right.sort(key=lambda t: MODES.index(t.split()[1]))
        waiting, lock, limit = iter(right), Lock(), self.options.limit
        all_cores = sorted(os.sched_getaffinity(0))

        def work(pairs: list[list[Timer]], cores: list[int]) -> None:
            while time.time() < end - 3:
                with lock:
                    batch = list(islice(waiting, len(pairs)))
                if not batch:
                    break
                until = [min(end, time.time() + limit)] * len(batch)
                with ThreadPoolExecutor(len(batch)) as pool:
                    built = list(pool.map(build_pair, pairs, batch, until))
                for timers, task, first in zip(pairs, batch, built, strict=False):
                    measured = measure_pair(timers, first, end, limit, cores)
                    with lock:
                        for compiler, result in zip(COMPILERS, measured, strict=True):
                            rows[task][compiler].update(result)
                        save(self.options.out, rows)
            for timer in chain.from_iterable(pairs):
                timer.end()

        if pairs:
            of_gpus = [[timers for g, timers in pairs if g == gpu] for gpu in self.gpus]
            with ThreadPoolExecutor(len(of_gpus)) as pool:
                count = len(of_gpus)
                list(pool.map(work, of_gpus, (all_cores[i::count] for i in range(count))))


def is_training(name: str) -> bool:
    """Whether a program is a step of training."""
    return "/train_" in name


def rank(name: str, mode: str) -> int:
    """Tasks of a lower rank begin earlier."""
    if is_training(name):
        return {"default": 0, "autotune": 1}.get(mode, 3)
    return {"default": 2, "package": 5}.get(mode, 4)


def build_pair(timers: list[Timer], task: str, until: float) -> list[dict[str, Any]]:
    """The answers of a pair of processes that build a task at the same time."""
    with ThreadPoolExecutor(len(timers)) as pool:
        return list(pool.map(lambda timer: timer.ask(task, until), timers))


def measure_pair(
    timers: list[Timer], built: list[dict[str, Any]], end: float, limit: float, cores: list[int]
) -> list[dict[str, Any]]:
    """The results of a pair of processes for the task that they have built: they time it one after
    the other, on the same core. The smallest time counts."""
    results = built
    if any("untimed" in result for result in results):
        return results
    for repeat in range(REPEATS):
        core = cores[repeat * len(cores) // REPEATS]
        for index, timer in enumerate(timers):
            until = min(end, time.time() + limit)
            results[index] = least_of(results[index], timer.ask(f"go {core}", until))
    return results


REPEATS = 3


def least_of(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The times of two measurements as one: for each, the least."""
    kept = {k: v for k, v in second.items() if k not in first}
    for key, value in first.items():
        other = second.get(key, value)
        if isinstance(value, dict):
            kept[key] = least_of(value, other)
        else:
            kept[key] = min(value, other) if isinstance(value, float) else value
    return kept


BEGAN = "the process ended"
"""Why a task failed whose process wrote no other line."""


def note_cut(log: Path) -> None:
    """Note that the task that was running ended with the time, by no fault of its own."""
    lines = log.read_text().splitlines() if log.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    if last.get("reason") == BEGAN:
        with log.open("a") as file:
            file.write(json.dumps({"task": last["task"], "outcome": "cut"}) + "\n")


def note_status(log: Path, status: int) -> None:
    """Note the status or the signal with which the process of the running task ended."""
    lines = log.read_text().splitlines() if log.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    if last.get("reason") == BEGAN:
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        with log.open("a") as file:
            file.write(json.dumps({**last, "reason": f"{BEGAN}: {how}"}) + "\n")


class Timer:
    """A process that times tasks, one after the other."""

    def __init__(self, environment: dict[str, str], output: Path) -> None:
        self.environment, self.output = environment, output
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-P", str(HERE / "torch_compile_worker.py"), "time"]
        self.folder, self.count = Path(tempfile.mkdtemp()), 0
        with self.output.open("a") as out:
            self.process = subprocess.Popen(
                [*command, str(self.folder)], env=self.environment, stdin=subprocess.PIPE,
                stdout=out, stderr=out, text=True,
            )  # fmt: skip

    def ask(self, line: str, end: float) -> dict[str, Any]:
        """The answer of the process to a line; it is replaced where it ends or takes too long."""
        assert self.process.stdin is not None
        path = self.folder / f"{self.count}.json"
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            self.start()
            return {"untimed": "the process had ended"}
        while not path.exists():
            if self.process.poll() is not None or time.time() > end:
                self.end()
                if time.time() < end:
                    self.start()
                return {"untimed": "it ended or took too long"}
            time.sleep(0.005)
        self.count += 1
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def save(out: Path, rows: Rows) -> None:
    (out / "torch_compile.json").write_text(json.dumps(rows, indent=1) + "\n")


def is_fault(row: dict[str, Any]) -> bool:
    """Whether tileir is at fault: its result is not right, and Triton's is."""
    outcomes = [row.get(c, {}).get("outcome") for c in ("tileir", "triton")]
    return outcomes[1] == "right" and outcomes[0] in ("wrong", "failed")


def show(rows: Rows, tasks: list[str] | None = None) -> int:
    """Print counts and ratios of each mode, and the tasks that did not run; 1 where tileir is at
    fault somewhere."""
    for mode in MODES:
        chosen = {task: row for task, row in rows.items() if task.endswith(f" {mode}")}
        ours = [row.get("tileir", {}) for row in chosen.values()]
        counts = {o: sum(r.get("outcome") == o for r in ours) for o in ("right", "wrong", "failed")}
        kernels = sum(r.get("kernels", 0) for r in ours)
        left = [text for r in ours for text in r.get("by_triton", [])]
        ratios = [ratio for row in chosen.values() if (ratio := ratio_of(row, "call_us"))]
        of_kernels = [ratio for row in chosen.values() if (ratio := ratio_of(row, "kernels_us"))]
        if not chosen:
            continue
        print(f"{mode}: {len(chosen)} programs, {counts}, {kernels} kernels, {len(left)} by Triton")
        print(f"  calls: {about(ratios)}; kernels: {about(of_kernels)}")
        for text in left:
            print(f"  by Triton: {text[:200]}")
    for task, row in rows.items():
        if is_fault(row):
            print(f"FAULT {task}: {row['tileir'].get('reason', '')[:300]}")
        elif (ratio := ratio_of(row, "call_us")) and ratio < 0.95:
            print(f"slower {task}: {ratio:.2f} of {row['triton']['call_us']} us")
    for compiler in COMPILERS:
        missing = [t for t in tasks or () if not has_run(rows.get(t, {}).get(compiler, {}))]
        if missing:
            names = ", ".join(task.removeprefix("inductor/") for task in missing)
            print(f"not run by {compiler}: {len(missing)} of {len(tasks or ())}: {names}")
    return int(any(is_fault(row) for row in rows.values()))


def has_run(row: dict[str, Any]) -> bool:
    """Whether the row of a compiler has an outcome that the end of the time did not cut."""
    return row.get("outcome", "cut") != "cut"


def table_rows(rows: Rows) -> Iterator[tuple[str, ...]]:
    """A line for each program; for each mode the ratio of a call's times, or the outcome."""
    modes = [mode for mode in MODES if any(task.endswith(f" {mode}") for task in rows)]
    yield ("program", *modes, "kernels")
    for name in dict.fromkeys(task.split()[0] for task in rows):
        result = [rows.get(f"{name} {mode}", {}) for mode in modes]
        kernels = ratio_of(result[0], "kernels_us")
        yield (
            name.partition("/")[2], *map(cell, result), f"{kernels:.2f}" if kernels else "",
        )  # fmt: skip


def cell(row: dict[str, Any]) -> str:
    """The ratio of a call's times; the outcome instead where it is not right; `right` where there
    are no times."""
    outcome, ratio = row.get("tileir", {}).get("outcome", ""), ratio_of(row, "call_us")
    return f"{ratio:.2f}" if outcome == "right" and ratio else outcome


def ratio_of(row: dict[str, Any], key: str) -> float:
    """Triton's time over that of tileir; 0.0 where one is missing."""
    ours, theirs = (row.get(c, {}).get(key) for c in ("tileir", "triton"))
    return theirs / ours if ours and theirs else 0.0


def about(ratios: list[float]) -> str:
    if not ratios:
        return "no times"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    slower = sum(r < 0.95 for r in ratios)
    return f"{len(ratios)} timed, mean {mean:.3f}, below 0.95: {slower}, least {min(ratios):.2f}"


if __name__ == "__main__":
    sys.exit(main())
