"""Programs of torch.compile on a GPU, in every way that Inductor builds them, by tileir and by
Triton: are the results right, does tileir compile every kernel, how long do the programs take?

    python benchmarks/public/torch_compile.py OUT [--modes default,graphs,autotune,dynamic,package]
                                              [--seconds 150] [--each 6] [--only PATTERN,...]
    python benchmarks/public/torch_compile.py --table OUT    prints what OUT has as a table

`default` is torch.compile as it is; `graphs` uses CUDA graphs (mode reduce-overhead); `autotune` is
mode max-autotune; `dynamic` has symbolic shapes; `package` is AOTInductor, for programs without
gradients. The programs are the cases `inductor/*`: single operators with what is fused to them, and
steps of training of a transformer, a convolutional network and a mixture of experts.

First `--each` processes for each GPU and compiler run all programs in all modes, compare the
results with those of torch without compilation, and fill the caches. Then two processes for each
GPU, one for each compiler, time them alternately. The second part begins when the first has
ended, or after `CHECKING` of the time.

OUT/torch_compile.json has a row for each program and mode: by compiler the outcome (`right`,
`wrong`, `failed`, `cut` by the end of the time), the errors, seconds of the first call, the kernels
that Triton compiled and why, and microseconds of a call from end to end, of Triton's kernels in it,
and of others. Exits with 1 where tileir is wrong or fails and Triton is right.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any

HERE = Path(__file__).resolve().parent
COMPILERS = ("triton", "tileir")
MODES = ("default", "graphs", "autotune", "dynamic", "package")
CHECKING = 0.6
Rows = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seconds", type=float, default=150.0, help="for everything")
    parser.add_argument("--each", type=int, default=6, help="processes for a GPU and a compiler")
    parser.add_argument("--limit", type=int, default=90, help="seconds of a program in a mode")
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
        tasks = bench.tasks()
        print(f"{len(tasks)} programs and modes", flush=True)
        bench.check(tasks, begin + CHECKING * options.seconds)
        rows = bench.check_results()
        save(options.out, rows)
        bench.measure(tasks, rows, end)
    save(options.out, rows)
    return show(rows)


class Bench:
    """Processes, one for each GPU and compiler or more, with caches of their compiler."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        from compile import importable
        from measure import visible_gpus

        self.options, self.work, self.tree = options, work, importable()
        self.gpus = visible_gpus() if options.device == "cuda" else [""]

    def environment(self, compiler: str, gpu: str) -> dict[str, str]:
        from measure import environment

        cache = self.work / "cache"
        return {
            **environment(compiler, cache, self.tree, 100), "CUDA_VISIBLE_DEVICES": gpu,
            "COMPILED_DEVICE": self.options.device, "COMPILED_WORK": str(self.work),
            "COMPILED_BY": compiler, "COMPILED_LIMIT": str(self.options.limit),
        }  # fmt: skip

    def tasks(self) -> list[str]:
        """`PROGRAM MODE`, the modes of a program one after the other."""
        listed = subprocess.run(
            [sys.executable, "-P", str(HERE / "torch_compile_worker.py"), "list"], check=True,
            env=self.environment("triton", ""), capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        patterns = self.options.only.split(",")
        names = [n for n in listed if any(fnmatchcase(n, f"*{p}*") for p in patterns)]
        trained = [n for n in names if "/train_" in n]
        modes = self.options.modes.split(",")
        order = [(n, m) for m in modes for n in names if m != "package" or n not in trained]
        # what takes longest comes first
        order.sort(key=lambda task: (task[0] not in trained, task[1] != "autotune"))
        return [f"{name} {mode}" for name, mode in order]

    def check(self, tasks: list[str], end: float) -> None:
        processes = [
            (c, g, i) for i in range(self.options.each) for g in self.gpus for c in COMPILERS
        ]
        if self.options.device == "cpu":
            processes = [("tileir", "", 0)]
        for compiler in COMPILERS:
            (self.work / f"claims_{compiler}").mkdir()

        def work(process: tuple[str, str, int]) -> None:
            compiler, gpu, number = process
            log = self.work / f"check.{compiler}.{gpu}.{number}.jsonl"
            while time.time() < end - 5:
                command = [sys.executable, "-P", str(HERE / "torch_compile_worker.py"), "check"]
                with self._output(compiler).open("a") as out:
                    process = subprocess.Popen(
                        [*command, str(log), str(end), *tasks], stdout=out, stderr=out,
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

        with ThreadPoolExecutor(len(processes)) as pool:
            list(pool.map(work, processes))

    def _output(self, compiler: str) -> Path:
        return self.options.out / f"torch_compile.{compiler}.out"

    def check_results(self) -> Rows:
        """By task and compiler the results of the first part."""
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
        """Of each result, the largest difference between the compilers."""
        import torch  # type: ignore[import-not-found]
        from worker import error

        paths = [row.get(c, {}).pop("results", "") for c in COMPILERS]
        if not all(paths):
            return "no results"
        theirs, ours = (torch.load(path) for path in paths)
        if len(ours) != len(theirs):
            return "other results"
        return [error(a, b) for a, b in zip(ours, theirs, strict=True)]

    def measure(self, tasks: list[str], rows: Rows, end: float) -> None:
        """Times of the tasks that both compilers ran."""
        both = lambda row: all("first_s" in row.get(c, {}) for c in COMPILERS)  # noqa: E731
        right = [task for task in tasks if both(rows.get(task, {}))]
        right.sort(key=lambda t: MODES.index(t.split()[1]))
        waiting, lock = iter(right), Lock()

        def work(gpu: str) -> None:
            timers = {c: Timer(self.environment(c, gpu), self._output(c)) for c in COMPILERS}
            while time.time() < end - 3:
                with lock:
                    task = next(waiting, None)
                if task is None:
                    break
                for compiler in COMPILERS:
                    answer = timers[compiler].ask(task, min(end, time.time() + self.options.limit))
                    with lock:
                        rows[task][compiler].update(answer)
            for timer in timers.values():
                timer.end()

        if self.options.device == "cuda":
            with ThreadPoolExecutor(len(self.gpus)) as pool:
                list(pool.map(work, self.gpus))


BEGAN = "the process ended"
"""Why a task failed whose process wrote no other line."""


def note_cut(log: Path) -> None:
    """Note that the task that was running ended with the time, by no fault of its own."""
    lines = log.read_text().splitlines() if log.exists() else []
    last = json.loads(lines[-1]) if lines else {}
    if last.get("reason") == BEGAN:
        with log.open("a") as file:
            file.write(json.dumps({"task": last["task"], "outcome": "cut"}) + "\n")


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

    def ask(self, task: str, end: float) -> dict[str, Any]:
        """What the process finds; it is replaced where it ends or takes too long."""
        assert self.process.stdin is not None
        path = self.folder / f"{self.count}.json"
        try:
            self.process.stdin.write(task + "\n")
            self.process.stdin.flush()
        except OSError:
            self.start()
            return {"untimed": "the process had ended"}
        while not path.exists():
            if self.process.poll() is not None or time.time() > end:
                self.end()
                self.start()
                return {"untimed": "it ended or took too long"}
            time.sleep(0.01)
        self.count += 1
        answer: dict[str, Any] = json.loads(path.read_text())
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def save(out: Path, rows: Rows) -> None:
    (out / "torch_compile.json").write_text(json.dumps(rows, indent=1) + "\n")


def is_fault(row: dict[str, Any]) -> bool:
    """Whether tileir is at fault: its result is not right, and Triton's is."""
    outcomes = [row.get(c, {}).get("outcome") for c in ("tileir", "triton")]
    return outcomes[1] == "right" and outcomes[0] in ("wrong", "failed")


def show(rows: Rows) -> int:
    """Print counts and ratios of each mode; 1 where tileir is at fault somewhere."""
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
    return int(any(is_fault(row) for row in rows.values()))


def table_rows(rows: Rows) -> Iterator[tuple[str, ...]]:
    """A line for each program; for each mode the ratio of a call's times, or the outcome."""
    modes = [mode for mode in MODES if any(task.endswith(f" {mode}") for task in rows)]
    yield ("program", *modes, "kernels")
    for name in dict.fromkeys(task.split()[0] for task in rows):
        rows_of_modes = [rows.get(f"{name} {mode}", {}) for mode in modes]
        kernels = ratio_of(rows_of_modes[0], "kernels_us")
        yield (
            name.partition("/")[2], *map(cell, rows_of_modes), f"{kernels:.2f}" if kernels else "",
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
