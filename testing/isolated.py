"""Runs of generated programs on executors, in separate processes that may die.

    python -m tileir.testing.isolated record FILE [--first 2000000] [--count 5000] [--jobs 2]
    python -m tileir.testing.isolated run FILE --on gpu --out RESULT.json [--seconds 150] [--jobs 8]

`record` writes digests of the interpreter's results and needs no executor. `run` launches the same
programs on each executor that `--on` names (gpu, simt, cpu) and compares the results. Programs run
in separate processes, in batches, with a time limit for every program. If a process dies or takes
too long, that program is reported and the rest of its batch continues in a new process. RESULT is
written after each batch, and a second call runs only the programs that are not in it. The exit
status is 0 on success; 1 if a program differs, fails or ends its process; 3 if the time is over
before the last program.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from tileir.errors import InterpretError
from tileir.testing.checking import SIMT, case
from tileir.testing.executors import interpreter, launcher
from tileir.testing.program import bits

FIRST = 2_000_000
"""The first program: the numbers of campaigns begin at 0, those of tests at 1,000,000."""
PART, LONGEST = 50, 60.0
"""Programs of a part; seconds that one program may take."""
WARPS = (1, 4, 8)
EXECUTORS = ("gpu", "simt", "cpu")
WORKER = (sys.executable, "-m", "tileir.testing.isolated", "work")
"""The command of one process, which takes an executor, a number and a count."""


def digest(outputs: Mapping[str, Any]) -> str:
    """A digest of the buffers that a program wrote. All NaNs are equal."""
    hasher = hashlib.sha256()
    for name, array in sorted(outputs.items()):
        hasher.update(name.encode() + np.ascontiguousarray(bits(array)).tobytes())
    return hasher.hexdigest()[:16]


def interpret(number: int) -> str | None:
    """The result of program `number` in the interpreter; None if the program is undefined."""
    try:
        return digest(interpreter("ieee")(case(SIMT, number).program, number).outputs)
    except InterpretError:
        return None


def launch(number: int, on: str) -> str:
    """The digest of the results of the program on the executor `on`. Raises the errors of the
    executor."""
    from tileir.executor import executor

    options: dict[str, Any] = {} if on == "cpu" else {"num_warps": WARPS[number % len(WARPS)]}
    return digest(launcher(executor(on), **options)(case(SIMT, number).program, number).outputs)


# One process ---------------------------------------------------------------------------------


def _work(on: str, first: int, count: int) -> None:
    """Run programs and print a line for each: its number, a digest, and the error."""
    for number in range(first, first + count):
        error = result = None
        try:
            result = interpret(number) if on == "interpreter" else launch(number, on)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        sys.stdout.write(json.dumps([number, result, error]) + "\n")
        sys.stdout.flush()


@attrs.frozen
class ProgramBatch:
    """Programs `first` to `first + count - 1` for the executor `on`."""

    on: str
    first: int
    count: int

    def run(self, ends: float, answers: dict[int, Answer]) -> str | None:
        """Run the batch and add answers to `answers`. Returns the reason why the process ended too
        soon, None if it did not."""
        command = [*WORKER, self.on, str(self.first), str(self.count)]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True)
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        reader = threading.Thread(target=_pass_lines, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            for _ in range(self.count):
                wait = min(LONGEST, ends - time.monotonic())
                line = lines.get(timeout=max(wait, 0.01))
                if not line:
                    return f"the process ended with {process.wait()}"
                number, result, error = json.loads(line)
                answers[number] = Answer(result, error)
        except queue.Empty:
            over = time.monotonic() >= ends
            return None if over else f"over {LONGEST:.0f} s"
        finally:
            process.kill()
            process.wait()
        return None


@attrs.frozen
class Answer:
    """The results of a program, or its error."""

    digest: str | None
    error: str | None = None


def _pass_lines(stream: Any, lines: queue.Queue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


# All of them ---------------------------------------------------------------------------------


def explore(
    on: str, numbers: Sequence[int], jobs: int, ends: float, keep: Any = lambda _: None
) -> dict[int, Answer]:
    """Run programs with consecutive numbers. Programs for which the time did not suffice are left
    out. `keep` is called with the answers of each batch."""
    answers: dict[int, Answer] = {}
    lock = threading.Lock()

    def through(part: ProgramBatch) -> None:
        left: ProgramBatch | None = part
        while left is not None and time.monotonic() < ends:
            part_answers: dict[int, Answer] = {}
            reason = left.run(ends, part_answers)
            done = len(part_answers)
            if reason is not None:
                part_answers[left.first + done] = Answer(None, reason)
                done += 1
            with lock:
                answers.update(part_answers)
                keep(part_answers)
            more = reason is not None and done < left.count
            left = ProgramBatch(on, left.first + done, left.count - done) if more else None

    parts = [ProgramBatch(on, run[0], len(run)) for run in _runs(numbers)]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(through, parts))
    return answers


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """Runs of consecutive numbers, of at most `PART` numbers each."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1 and len(runs[-1]) < PART:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


@attrs.define
class BatchResult:
    """The results of programs by executor: the number of equal ones, and the errors of the
    others."""

    equal: dict[str, list[int]] = attrs.field(factory=dict[str, list[int]])
    wrong: dict[str, dict[str, str]] = attrs.field(factory=dict[str, dict[str, str]])
    seconds: float = 0.0

    def add(
        self, on: str, recorded: Mapping[int, str | None], answers: Mapping[int, Answer]
    ) -> None:
        """Compare the answers of a batch."""
        for number, answer in answers.items():
            if answer.error is not None:
                self.wrong.setdefault(on, {})[str(number)] = answer.error
            elif answer.digest != recorded[number]:
                self.wrong.setdefault(on, {})[str(number)] = "another result"
            else:
                self.equal.setdefault(on, []).append(number)

    def left(self, on: str, recorded: Mapping[int, str | None]) -> list[int]:
        """The numbers of defined programs that have not run."""
        done = {*self.equal.get(on, []), *map(int, self.wrong.get(on, {}))}
        return [n for n, d in recorded.items() if d is not None and n not in done]

    def write(self, path: Path) -> None:
        """Replace the file by these results."""
        part = path.with_suffix(".part")
        counts = {on: len(numbers) for on, numbers in self.equal.items()}
        part.write_text(json.dumps({"counts": counts, **attrs.asdict(self)}) + "\n")
        part.replace(path)

    @staticmethod
    def read(path: Path) -> BatchResult:
        """Read the results from a file."""
        stored = json.loads(path.read_text())
        return BatchResult(stored["equal"], stored["wrong"], stored["seconds"])


def record(path: Path, first: int, count: int, jobs: int, ends: float) -> int:
    """Write the digests of the interpreter's results. Returns 3 if the time does not suffice."""
    answers = explore("interpreter", range(first, first + count), jobs, ends)
    digests = [answers[n].digest for n in sorted(answers)]
    path.write_text(json.dumps({"first": first, "digests": digests}) + "\n")
    return 0 if len(digests) == count else 3


def run(path: Path, on: Sequence[str], out: Path, jobs: int, ends: float) -> int:
    """Run the recorded programs on executors; the exit status."""
    stored = json.loads(path.read_text())
    recorded = dict(enumerate(stored["digests"], stored["first"]))
    result = BatchResult.read(out) if out.exists() else BatchResult()
    start, before = time.monotonic(), result.seconds

    def keep(name: str, answers: Mapping[int, Answer]) -> None:
        result.add(name, recorded, answers)
        result.seconds = round(before + time.monotonic() - start, 1)
        result.write(out)

    left = 0
    for name in on:
        explore(name, result.left(name, recorded), jobs, ends, lambda f, name=name: keep(name, f))
        wrong, waiting = result.wrong.get(name, {}), len(result.left(name, recorded))
        equal, left = len(result.equal.get(name, [])), left + waiting
        sys.stdout.write(
            f"{name}: {equal} equal, {len(wrong)} wrong, {waiting} left, {result.seconds} s\n"
        )
        for number, text in sorted(wrong.items())[:20]:
            sys.stdout.write(f"  {number}: {text}\n")
    return 1 if any(result.wrong.values()) else 3 if left else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tileir.testing.isolated")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("work")
    one.add_argument("on")
    one.add_argument("first", type=int)
    one.add_argument("count", type=int)
    for name in ("record", "run"):
        other = commands.add_parser(name)
        other.add_argument("file", type=Path)
        other.add_argument("--jobs", type=int, default=1, help="processes at the same time")
        other.add_argument("--seconds", type=float, default=1e9, help="for everything together")
        if name == "record":
            other.add_argument("--first", type=int, default=FIRST)
            other.add_argument("--count", type=int, default=5000)
        else:
            other.add_argument("--on", default="gpu", help=f"of {', '.join(EXECUTORS)}")
            other.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    if args.command == "work":
        _work(args.on, args.first, args.count)
        return 0
    ends = time.monotonic() + args.seconds
    if args.command == "record":
        return record(args.file, args.first, args.count, args.jobs, ends)
    return run(args.file, args.on.split(","), args.out, args.jobs, ends)


if __name__ == "__main__":
    sys.exit(main())
