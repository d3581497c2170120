"""The test-suites of packages whose kernels are written in Triton, unmodified, with tileir as the
compiler and no fallback (TILEIR_IN_TRITON=strict).

    python benchmarks/public/suites.py FOLDER --out OUT [--suites liger,fla] [--seconds 120]
                                       [--each 8] [--limit 30] [--device cuda]
    python benchmarks/public/suites.py --table --out OUT   prints OUT/suites.json for a page

FOLDER/NAME holds the tests of a package (`SUITES`), as its repository has them; the package is
installed. `--each` processes for each GPU run the cases of all suites until the time is over. Each
imports some files of a suite and runs their cases, in a fixed shuffled order in which the first
case of each function comes first; then it takes the files of another one. In the last part of the
time, cases that have failed run a second time, by tileir and by Triton alone, and may take longer:
tileir is at fault where Triton passes and tileir fails twice. A process first runs the cases that
compiled the kernels which they launched: a library may keep kernels by keys that do not distinguish
all types, so that results depend on what ran before. Of cases that took too long, only those that
tileir fails twice run by Triton. Cases that launched no kernel are the last. Autotuners try two of
their configurations.

`--device compile` compiles the kernels for a GPU that is not there, and launches none: only the
kernels count. `--device cpu` runs the tests by Triton's backend `cpu`.

OUT/suites.json has for each suite: cases by outcome (`OUTCOMES`), and how many of those that passed
used kernels; for each case at which tileir is at fault, its error; for each kernel, how many of its
texts were compiled, and why others were not.
OUT/suites.log has all outcomes. Exits with 1 where tileir is at fault, and where no process came to
collect the cases of a suite.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
LAST_PHASE, SHORTEST_RERUN = 0.3, 60.0
"""The part of the time that is left to failed cases, which run again, and the fewest seconds in
which more cases are worth their imports."""
LONGER = 3
"""How many times as long cases may take that run again."""
PHASES, COMPILERS = ("rerun", "slow", "later"), ("triton", "tileir")
"""The phases in which cases run again, and by what."""
FILLED = "filled_triton"
"""The phase in which Triton runs cases again with memory filled that they would leave unset."""
TOO_LONG = "the case took more than"
"""In the error of a case that the plugin stopped."""
OUTCOMES = (
    "passed", "skipped", "wrong", "refused", "failed", "unsteady", "fails with Triton", "unchecked",
    "not of kernels", "reads unset memory",
)  # fmt: skip
"""The outcomes of a case.

`wrong`: a result is wrong; `refused`: tileir does not compile a kernel; `failed`: any other error;
`unsteady`: tileir passed the second time; `unchecked`: there was no time to run it again;
`not of kernels`: it failed before it compiled or launched a kernel, and did not run again;
`reads unset memory`: tileir passed the second time, and Triton fails where other numbers are in
memory that `torch.empty` leaves unset.
"""


Outcomes = dict[str, dict[str, Any]]
"""The outcomes of cases, by case."""


class Suite(NamedTuple):
    """Folders and files of tests, relative to the suite's; a share of the processes; options of
    pytest; folders that tests import from; a package that is imported without what it does as it is
    imported."""

    tests: tuple[str, ...]
    weight: int = 1
    options: tuple[str, ...] = ()
    paths: tuple[str, ...] = (".",)
    stub: str = ""


SUITES = {
    "liger": Suite(("test/transformers", "test/chunked_loss", "test/ops"), 3),
    "fla": Suite(("tests/ops", "tests/modules"), 4),
    "flag_gems": Suite(("tests",), 5),
    # Its other tests launch no kernels, and some let torch.cuda report another GPU.
    "unsloth": Suite(
        ("unsloth/kernels/moe/tests/test_grouped_gemm.py",),
        paths=(".", "unsloth/kernels/moe"), stub="unsloth",
    ),
    # `python/` of Triton's repository. Cases that read TTGIR, or count instructions of PTX by
    # Triton's own passes, fail.
    "triton": Suite(
        ("test/unit/language", "test/unit/cuda", "test/unit/runtime", "test/regression"), 5
    ),
    "triton_kernels": Suite(("tests",), 3),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--seconds", type=float, default=120.0, help="for everything")
    parser.add_argument("--each", type=int, default=8, help="processes for each GPU")
    parser.add_argument("--limit", type=int, default=30, help="seconds of a case")
    parser.add_argument("--device", default="cuda", choices=("cuda", "compile", "cpu"))
    parser.add_argument("--select", default="", help="as pytest's -k")
    options = parser.parse_args()
    if options.table:
        sys.path.insert(0, str(HERE.parent))
        from tables import markdown

        print(markdown(rows(json.loads((options.out / "suites.json").read_text()))))
        return 0
    if options.folder is None:
        parser.error("the folder of the suites is missing")
    begin = time.time()
    end = begin + options.seconds - 4
    options.out.mkdir(parents=True, exist_ok=True)
    requested = [name for name in options.suites.split(",") if (options.folder / name).is_dir()]
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(options, Path(work))
        runner.run_all(requested, end)
        results = {
            name: {
                **summary(
                    read(runner.logs("first", suite=name)),
                    *(runner.outcomes_of_reruns(name, c) for c in ("tileir", "triton")),
                    read(runner.logs(FILLED, suite=name)),
                ),
                **collection_of(runner.logs("first", suite=name)),
                "not_started": runner.not_started(name),
            }
            for name in requested
        }  # fmt: skip
        with (options.out / "suites.log").open("w") as file:
            for log in sorted(Path(work).glob("*.log")):
                file.write(f"# {log.stem}\n{log.read_text()}")
    (options.out / "suites.json").write_text(json.dumps(results, indent=1) + "\n")
    show(results)
    return int(any(result["faults"] or result["not_started"] for result in results.values()))


class Job(NamedTuple):
    """Files of a suite whose cases run: the phase, the suite, the compiler, the files, and the
    cases to run (None: all). One process runs all cases of a job with a `group`; the processes of
    a phase share those of the others."""

    phase: str
    suite: str
    compiler: str
    files: tuple[str, ...]
    cases: tuple[str, ...] | None = None
    group: str = ""

    @staticmethod
    def rerun(phase: str, suite: str, compiler: str, cases: Iterable[str], group: str = "") -> Job:
        """A job that runs `cases` again."""
        cases = tuple(dict.fromkeys(cases))
        files = tuple(dict.fromkeys(case.partition("::")[0] for case in cases))
        return Job(f"{phase}_{compiler}", suite, compiler, files, cases, group)


class Runner:
    """Runs processes of pytest, so many on each GPU."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        sys.path[:0] = [str(HERE), str(HERE.parent)]
        from compile import importable

        self.options, self.work, self.tree = options, work, importable()
        self.begun: dict[Job, int] = {}
        if options.device == "cuda":
            from measure import visible_gpus

            self.gpus = visible_gpus()
        else:
            self.gpus = [""]

    def logs(self, *phases: str, suite: str) -> list[Path]:
        return sorted(x for p in phases for x in self.work.glob(f"{p}.{suite}.*.log"))

    def not_started(self, name: str) -> str:
        """The last line that a process of a suite wrote, if none came to collect cases."""
        if any("collected" in line for line in lines_of(self.logs("first", suite=name))):
            return ""
        outputs = (x.read_text().split("\n") for x in self.work.glob(f"first.{name}.*.out"))
        lines = [line for text in outputs for line in text if line.strip()]
        return lines[-1] if lines else "no process began"

    def first_jobs(self, suites: list[str]) -> list[Job]:
        """For each process the files with which it begins."""
        places = suites_of_processes(suites, self.options.each * len(self.gpus))
        jobs: list[Job] = []
        for name, count in Counter(places).items():
            shares = shares_of(self._files(name), count)
            jobs += [Job("first", name, "tileir", files) for files in shares]
        return jobs

    def _files(self, name: str) -> list[str]:
        """The files of tests of a suite."""
        root, files = self.options.folder / name, list[str]()
        for test in SUITES[name].tests:
            path = root / test
            files += [str(p.relative_to(root)) for p in path.rglob("test_*.py")]
            files += [test] if path.is_file() else []
        return files

    def run_all(self, suites: list[str], end: float) -> None:
        """Run cases until `end`. On a GPU, cases that failed run again after a part of the time;
        what they leave of it is for more cases."""
        jobs = self.first_jobs(suites)
        if self.options.device != "cuda":
            self.run(jobs, end - 3)
            return
        while True:
            pause = end - LAST_PHASE * (end - time.time())
            self.run(jobs, pause)
            all_ran = time.time() < pause - 3
            self.run([*self.rerun_jobs(suites), *self.slow_jobs(suites, "tileir")], end)
            self.run([*self.slow_jobs(suites, "triton"), *self.filled_jobs(suites)], end)
            self.run(self.jobs_without_kernels(suites), end)
            if all_ran or end - time.time() < SHORTEST_RERUN:
                return

    def rerun_jobs(self, suites: list[str]) -> list[Job]:
        """For each process of the first run, the cases with kernels that failed in it or ended it,
        after those that compiled their kernels."""
        return [
            Job.rerun("rerun", name, compiler, cases, group)
            for name in suites for compiler in COMPILERS
            for group, cases in self._by_process(name, self._failed_cases(
                "rerun", name, compiler, lambda line: uses_kernels(line) and not took_too_long(line)
            )).items()
        ]  # fmt: skip

    def slow_jobs(self, suites: list[str], compiler: str) -> list[Job]:
        """The cases with kernels that took too long; for Triton, where tileir failed again."""
        jobs = list[Job]()
        for name in suites:
            cases = self._failed_cases(
                "slow", name, compiler, lambda line: uses_kernels(line) and took_too_long(line)
            )
            if compiler == "triton":
                second = read(self.logs("slow_tileir", suite=name))
                cases = [c for c in cases if c in second and is_failure(second[c])]
            jobs += [Job.rerun("slow", name, compiler, cases)] if cases else []
        return jobs

    def outcomes_of_reruns(self, name: str, compiler: str) -> Outcomes:
        """The outcomes of cases that ran again by a compiler."""
        return read(self.logs(*(f"{phase}_{compiler}" for phase in PHASES), suite=name))

    def filled_jobs(self, suites: list[str]) -> list[Job]:
        """The cases that both compilers passed the second time."""
        jobs = list[Job]()
        for name in suites:
            second, triton = (self.outcomes_of_reruns(name, c) for c in ("tileir", "triton"))
            cases = self._failed_cases(
                "filled", name, "triton", lambda line: not took_too_long(line)
            )
            cases = [c for c in cases if is_passed(second.get(c)) and is_passed(triton.get(c))]
            jobs += [Job.rerun("filled", name, "triton", cases)] if cases else []
        return jobs

    def jobs_without_kernels(self, suites: list[str]) -> list[Job]:
        """The cases that failed without kernels, by both compilers."""
        return [
            Job.rerun("later", name, compiler, cases)
            for compiler in COMPILERS for name in suites
            if (cases := self._failed_cases("later", name, compiler, lambda x: not uses_kernels(x)))
        ]  # fmt: skip

    def _failed_cases(
        self, phase: str, name: str, compiler: str, selected: Callable[[dict[str, Any]], bool]
    ) -> list[str]:
        """The cases that have failed or ended their process, that are `selected`, and that have not
        run again in this phase."""
        logs = self.logs("first", suite=name)
        outcomes = read(logs)
        ended = set(cases_that_ended(logs, outcomes))
        ran = read(self.logs(f"{phase}_{compiler}", suite=name))
        return [
            case for case, line in outcomes.items()
            if (line["outcome"] == "failed" or case in ended) and selected(line) and case not in ran
        ]  # fmt: skip

    def _by_process(self, name: str, selected: list[str]) -> dict[str, list[str]]:
        """The `selected` cases, by the process of the first run that ran them, each after
        the cases that compiled the kernels which it launched."""
        result: dict[str, list[str]] = {}
        for log in self.logs("first", suite=name):
            for number, lines in enumerate(processes_of(log)):
                if cases := with_compilers_of_kernels(lines, selected):
                    result[f"{log.stem}.{number}"] = cases
        return result

    def run(self, jobs: list[Job], end: float) -> None:
        """Run the jobs until `end` by `each` processes on each GPU. Each process begins with one of
        them, and goes on to the next where no case of it is left."""
        if not jobs:
            return
        slots = [(i, gpu) for i in range(self.options.each) for gpu in self.gpus]

        def work(place: int) -> None:
            number, gpu = slots[place]
            for k in range(len(jobs)):
                job = jobs[(place + k) % len(jobs)]
                if job.group and self.begun.setdefault(job, place) != place:
                    continue
                log = self.work / f"{job.phase}.{job.suite}.{number}{gpu}.log"
                while time.time() < end - 2 and self._must_continue(job, log, gpu, end):
                    pass

        with ThreadPoolExecutor(len(slots)) as pool:
            list(pool.map(work, range(len(slots))))

    def _must_continue(self, job: Job, log: Path, gpu: str, end: float) -> bool:
        """Run a process; whether it ended before all cases were taken."""
        environment, command = self._command(job, log, gpu, end)
        before = _size(log)
        with log.with_suffix(".out").open("ab") as out:
            process = subprocess.Popen(
                command, env=environment, cwd=self.options.folder / job.suite,
                stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
        changed, size = time.time(), before
        while process.poll() is None:
            time.sleep(0.2)
            if _size(log) != size:
                changed, size = time.time(), _size(log)
            silent = time.time() - changed > max(self._limit(job), 60) + 15
            if silent or time.time() > end:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if time.time() > end:
                    note_cut(log)
                return not time.time() > end
        return process.returncode not in (0, 1, 2, 4, 5) and _size(log) > before

    def _limit(self, job: Job) -> int:
        """The seconds of a case."""
        return int(self.options.limit) * (1 if job.cases is None else LONGER)

    def _command(
        self, job: Job, log: Path, gpu: str, end: float
    ) -> tuple[dict[str, str], list[str]]:
        phase, name, compiler, cases = job.phase, job.suite, job.compiler, job.cases
        suite, root = SUITES[name], (self.options.folder / name).resolve()
        claims = self.work / f"{phase}.{name}.{job.group}"
        private, only = log.with_suffix(".tmp").resolve(), log.with_suffix(".only")
        for folder in (claims, private):
            folder.mkdir(exist_ok=True)
        variables = {
            k: v for k, v in os.environ.items() if not k.startswith(("TILEIR_", "TRITON_"))
        }
        path = [str(self.tree), *(str(root / p) for p in suite.paths)]
        path += [*filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)), str(HERE)]
        on_cpu = self.options.device == "cpu"
        environment = {
            **variables, "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": gpu,
            "TILEIR_IN_TRITON": "strict" if compiler == "tileir" and not on_cpu else "0",
            "TILEIR_CACHE": str(self.work / "kernels"),
            "TRITON_CACHE_DIR": str(self.work / f"cache_{compiler}"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.work / f"inductor_{compiler}"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", "GEMS_VENDOR": "nvidia",
            "FLAGGEMS_CACHE_DIR": str(private), "FLA_CACHE_RESULTS": "0", "HF_HUB_OFFLINE": "1",
            "FLAGGEMS_DB_URL": f"sqlite:///{private}/configurations.db",  # a test removes its own
            "TOKENIZERS_PARALLELISM": "false", "UNSLOTH_IS_PRESENT": "1",
            "SUITES_LOG": str(log), "SUITES_CLAIMS": str(claims), "SUITES_END": str(end - 1),
            "SUITES_LIMIT": str(self._limit(job)), "SUITES_DEVICE": self.options.device,
            "SUITES_STUB": suite.stub, "SUITES_FILL": str(int(phase == FILLED)),
        }  # fmt: skip
        if on_cpu:
            environment["TILEIR_TRITON_CPU"] = "native"
        if cases is not None:
            only.write_text("\n".join(cases) + "\n")
            environment["SUITES_ONLY"] = str(only)
        command = [
            sys.executable, "-P", "-m", "pytest", "-q", "--no-header", "--tb=short",
            "--assert=plain",  # tests are imported faster
            "--continue-on-collection-errors", "-p", "no:cacheprovider", "-p", "no:randomly",
            "-p", "suites_plugin", "--rootdir", str(root), "-k", self.options.select,
            *([] if _has_configuration(root) else ["-c", os.devnull]),
            *suite.options, *job.files,
        ]  # fmt: skip
        return environment, command


def _has_configuration(root: Path) -> bool:
    """Whether a folder has a file that configures pytest. Otherwise pytest would take one of a
    folder above, such as that of this checkout, which refuses markers that it does not list."""
    names = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
    return any((root / name).is_file() for name in names)


def suites_of_processes(suites: list[str], count: int) -> list[str]:
    """The suite with which each of `count` processes begins, by the weights of the suites, but at
    least one process for each suite."""
    places = [*suites]
    for _ in range(count - len(suites)):
        places.append(max(suites, key=lambda s: SUITES[s].weight / (places.count(s) + 1)))
    return places


def shares_of(files: list[str], count: int) -> list[tuple[str, ...]]:
    """The files in `count` groups, in a fixed shuffled order. Where there are fewer files than
    groups, groups share files."""
    shuffled = sorted(files, key=lambda file: zlib.crc32(file.encode()))
    count = max(1, count)
    if not shuffled:
        return []
    shuffled = [shuffled[i % len(shuffled)] for i in range(max(count, len(shuffled)))]
    return [tuple(shuffled[i::count]) for i in range(count)]


def cases_that_ended(logs: list[Path], outcomes: dict[str, Any]) -> Iterator[str]:
    """Cases in which their process ended: those that have begun, and are not the last lines of the
    logs."""
    for log in logs:
        cases = [line.get("case", "") for line in lines_of([log])]
        for case in dict.fromkeys(filter(None, cases)):
            if case != cases[-1] and outcomes.get(case, {}).get("outcome") == "began":
                yield case


def processes_of(log: Path) -> list[list[dict[str, Any]]]:
    """The lines of a log by the process that wrote them: its first line has what it collected."""
    result = list[list[dict[str, Any]]]()
    for line in lines_of([log]):
        if "collected" in line or not result:
            result.append([])
        result[-1].append(line)
    return result


def with_compilers_of_kernels(lines: list[dict[str, Any]], selected: Iterable[str]) -> list[str]:
    """The `selected` cases among the lines of a process, and those before that
    compiled the kernels which they launched."""
    present = set(selected) & {line["case"] for line in lines if "case" in line}
    launched = {k for x in lines if x.get("case") in present for k in x.get("launched", ())}
    cases = list(dict.fromkeys(
        line["case"] for line in lines
        if line.get("case") in present or launched & {k[0] for k in line.get("kernels", ())}
    ))  # fmt: skip
    while cases and cases[-1] not in present:
        cases.pop()
    return cases


def note_cut(log: Path) -> None:
    """Note that the case that was running ended with the time, by no fault of its own."""
    last = list(lines_of([log]))[-1:] if log.exists() else []
    if last and last[0].get("outcome") == "began":
        with log.open("a") as file:
            file.write(json.dumps({**last[0], "outcome": "cut"}) + "\n")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def lines_of(logs: list[Path]) -> Iterator[dict[str, Any]]:
    """The lines of the logs; a line that a process did not finish is left out."""
    for log in logs:
        for line in log.read_text().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def read(logs: list[Path]) -> dict[str, dict[str, Any]]:
    """The outcome of each case, with all kernels that it compiled.

    A failure before or after the call of a test counts, whatever the outcome of the call. Cases
    that the end of the time cut off are left out.
    """
    outcomes: dict[str, dict[str, Any]] = {}
    for line in lines_of(logs):
        if "case" not in line:
            continue
        row = outcomes.setdefault(line["case"], {"outcome": "began", "kernels": []})
        row["kernels"] += line.get("kernels", [])
        row["launched"] = [*row.get("launched", ()), *line.get("launched", ())]
        if row["outcome"] != "failed":
            row.update({k: line[k] for k in ("outcome", "seconds", "error") if k in line})
    return {case: row for case, row in outcomes.items() if row["outcome"] != "cut"}


def collection_of(logs: list[Path]) -> dict[str, Any]:
    """The number of cases of the suite, and the files that could not be imported."""
    counts, files = dict[str, int](), dict[str, str]()
    for line in lines_of(logs):
        counts.update(line.get("collected", {}))
        if "file" in line:
            files[line["file"]] = " ".join(line["error"].splitlines()[-1:])[:200]
    return {"collected": sum(counts.values()), "not_imported": files}


def is_failure(line: dict[str, Any]) -> bool:
    return line["outcome"] in ("failed", "began")


def is_passed(line: dict[str, Any] | None) -> bool:
    return line is not None and line["outcome"] == "passed"


def uses_kernels(line: dict[str, Any]) -> bool:
    """Whether a case compiled or launched a kernel. One that ended its process may have."""
    return line["outcome"] == "began" or bool(line.get("kernels") or line.get("launched"))


def took_too_long(line: dict[str, Any]) -> bool:
    return TOO_LONG in line.get("error", "")


def kind_of(
    line: dict[str, Any], second: dict[str, Any] | None, triton: dict[str, Any] | None,
    filled: dict[str, Any] | None = None,
) -> str:  # fmt: skip
    """One of `OUTCOMES`, from a case's first run, its second, that by Triton alone, and that by
    Triton with memory filled."""
    if not is_failure(line):
        return str(line["outcome"])
    if second is not None and took_too_long(line) and not is_failure(second):
        return "passed"
    if triton is None or triton["outcome"] == "began":
        return "unchecked" if uses_kernels(line) else "not of kernels"
    if is_failure(triton):
        return "fails with Triton"
    if second is None:
        return "unchecked"
    if not is_failure(second):
        return "reads unset memory" if filled and filled["outcome"] == "failed" else "unsteady"
    error = line.get("error", "")
    if "error[TIR" in error or "a defect of tileir" in error:
        return "refused"
    return "wrong" if re.search(_WRONG, error) else "failed"


_WRONG = r"not close|Not equal to tolerance|not almost equal|(^|\n)(assert|AssertionError)"


def summary(
    first: Outcomes, second: Outcomes, triton: Outcomes, filled: Outcomes
) -> dict[str, Any]:
    """Counts of cases and kernels of a suite, and the faults of tileir."""
    kinds = {
        case: kind_of(line, second.get(case), triton.get(case), filled.get(case))
        for case, line in first.items()
    }
    counts = Counter(kinds.values())
    faults = {
        case: {"kind": kind, "error": first[case].get("error", "the process ended")[:600]}
        for case, kind in kinds.items()
        if kind in ("wrong", "refused", "failed", "unsteady")
    }
    unchecked = {
        case: first[case].get("error", "the process ended")[:200]
        for case, kind in kinds.items() if kind == "unchecked"
    }  # fmt: skip
    passed = sum(k == "passed" and uses_kernels(first[case]) for case, k in kinds.items())
    return {
        "cases": {o: counts[o] for o in OUTCOMES}, "passed with kernels": passed,
        "faults": faults, "unchecked": unchecked,
        **kernels_of([k for line in first.values() for k in line["kernels"]]),
    }  # fmt: skip


_RESOURCES = "OutOfResources"
"""Errors that Triton raises too, for a configuration that an autotuner skips."""


def kernels_of(rows: list[list[Any]]) -> dict[str, Any]:
    """Kernels that tileir was asked for: how many names and texts, how many of them it compiled,
    and by name and reason those that it did not."""
    compiled = {(name, warps, text) for name, warps, text, result in rows if result == "tileir"}
    seen = {(name, warps, text) for name, warps, text, _ in rows}
    reasons: dict[str, dict[str, int]] = {}
    over: set[Any] = set()
    for name, warps, text, result in rows:
        if result.startswith(_RESOURCES):
            over.add((name, warps, text))
        elif result != "tileir":
            counts = reasons.setdefault(name, {})
            reason = " ".join(result.split())[:300]
            counts[reason] = counts.get(reason, 0) + 1
    return {
        "kernels": {
            "names": len({k[0] for k in seen}), "texts": len(seen), "compiled": len(compiled),
            "over the resources": len(over - compiled),
        },
        "reasons": reasons,
    }  # fmt: skip


def rows(results: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A line for each suite: cases that it has and that were run, by outcome, and its kernels."""
    yield (
        "package", "cases", "run", *OUTCOMES, "passed with kernels", "kernels", "compiled",
        "over the resources",
    )  # fmt: skip
    for name, result in results.items():
        cases, kernels = result["cases"], result["kernels"]
        counts = (result["collected"], sum(cases.values()), *(cases[o] for o in OUTCOMES))
        counts += (
            result["passed with kernels"],
            kernels["texts"],
            kernels["compiled"],
            kernels["over the resources"],
        )
        yield (name, *map(str, counts))


def show(results: dict[str, Any]) -> None:
    for name, result in results.items():
        counts = ", ".join(f"{n} {o}" for o, n in result["cases"].items() if n)
        kernels = ", ".join(f"{n} {k}" for k, n in result["kernels"].items())
        print(f"{name}: {result['collected']} cases, {counts}; kernels: {kernels}; "
              f"{result['passed with kernels']} passed with kernels")  # fmt: skip
        if result["not_started"]:
            print(f"  not started: {result['not_started']}")
        for file, error in result["not_imported"].items():
            print(f"  not imported: {file}: {error}")
        for kernel, reasons in result["reasons"].items():
            for reason, count in reasons.items():
                print(f"  {count:4} {kernel}: {reason[:200]}")
        for case, fault in result["faults"].items():
            first = (fault["error"].strip().splitlines() or [""])[0]
            print(f"  {fault['kind']} {case}: {first[:200]}")


if __name__ == "__main__":
    sys.exit(main())
