"""Triton's own tests on the CPU: kernels of unmodified Triton through the backend `cpu`.

    python benchmarks/triton_suite.py CHECKOUT [--files test_core,test_standard] [--every 1]
                                      [--select EXPRESSION] [--log FILE] [--limit 60] [--table]

CHECKOUT is a working tree of https://github.com/triton-lang/triton at the tag of the release that
is installed. Needs that release, torch, pytest, and no GPU. `--every N` runs one of N cases of each
function; `--log` keeps the outcomes, and its cases are not run again. A case that ends the process
is an outcome too: the others run in a new one.

Prints the outcomes of each file, and every error with the number of its cases. `--table` writes the
counts of the log to `benchmarks/results/triton_suite.json` and to the table of
docs/reference/triton-backend.md. Exits with 1 where a result was wrong, a process ended, or tileir
failed in an unexpected way.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tables import END, mark, markdown, replace_between

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "triton_suite.json"
PAGE = HERE.parent / "docs" / "reference" / "triton-backend.md"
NAME = "triton_suite"
FOLDER = Path("python/test/unit")

FILES = (
    "test_core", "test_standard", "test_conversions", "test_random", "test_block_pointer",
    "test_tensor_descriptor", "test_tuple", "test_annotations", "test_decorator", "test_libdevice",
    "test_matmul", "test_mxfp", "test_pipeliner", "test_line_info", "test_subprocess",
    "test_reproducer", "test_warp_specialization", "test_frontend", "test_compile_errors",
    "test_compile_only", "test_module", "runtime/test_autotuner", "runtime/test_bindings",
    "runtime/test_cache", "runtime/test_compilation_listener", "runtime/test_launch",
    "runtime/test_specialize", "runtime/test_subproc",
)  # fmt: skip
"""Files of Triton 3.6, of the folder `language` where no other is named."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--files", default=",".join(FILES), help="with commas between them")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--select", default="", help="as pytest's -k")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--limit", type=int, default=60, help="seconds of a processor for a case")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        log = (options.log or Path(work) / "log").resolve()
        for file in options.files.split(","):
            path = file if "/" in file else f"language/{file}"
            run(options, FOLDER / f"{path}.py", Path(work), log)
        outcomes = read(log)
    files = summary(outcomes)
    for file, counts in files.items():
        print(file, *(f"{n} {outcome}" for outcome, n in counts.items()))
    for (kind, error), cases in errors(outcomes).items():
        print(f"{len(cases):5} {kind}: {error}\n        {cases[0]}")
    if options.table:
        RESULTS.write_text(json.dumps(files, indent=1) + "\n")
        table = markdown(rows(files))
        PAGE.write_text(replace_between(PAGE.read_text(), mark(NAME), END, table))
    return int(any(counts["wrong"] + counts["failed"] for counts in files.values()))


def run(options: argparse.Namespace, file: Path, work: Path, log: Path) -> None:
    """Run the cases of a file, in as many processes as needed if processes end."""
    from triton_backend import importable_tree  # type: ignore[import-not-found]

    variables = {k: v for k, v in os.environ.items() if not k.startswith(("TILEIR_", "TRITON_"))}
    path = [
        str(importable_tree(work / "tree")),
        str(HERE),
        *variables.get("PYTHONPATH", "").split(":"),
    ]
    environment = {
        **variables,
        "PYTHONPATH": os.pathsep.join(filter(None, path)), "TILEIR_TRITON_CPU": "native",
        "TRITON_CACHE_DIR": str(work / "cache"), "TRITON_SUITE_LOG": str(log),
        "TRITON_SUITE_EVERY": str(options.every), "TRITON_SUITE_LIMIT": str(options.limit),
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--no-header", "--tb=short"]
    command += ["-p", "no:cacheprovider", "-p", "triton_suite_plugin", "--device", "cpu"]
    command += ["--rootdir", str(options.checkout / "python/test"), "-k", options.select]
    began = -1
    while began != (began := len(log.read_text()) if log.exists() else 0):
        done = subprocess.run(
            [*command, str(options.checkout / file)], env=environment, check=False,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode in (0, 1, 5):  # all passed, some failed, or none was left
            return


def read(log: Path) -> dict[str, dict[str, Any]]:
    """The last line of each case."""
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else iter(())
    return {line["case"]: line for line in lines}


OUTCOMES = ("passed", "skipped", "GPU", "printed", "refused", "wrong", "failed")


def rows(files: dict[str, dict[str, int]]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each file, and the totals."""
    yield ("file", "cases", *OUTCOMES)
    total = {o: sum(counts[o] for counts in files.values()) for o in OUTCOMES}
    for file, counts in [*files.items(), ("all", total)]:
        yield (file, str(sum(counts.values())), *(str(counts[o]) for o in OUTCOMES))


def kind_of(line: dict[str, Any]) -> str:
    """The outcome of a case. `passed`, `skipped`; `GPU` if the case inspects code of a GPU;
    `printed` if it reads the output of Triton; `refused` if tileir rejects the kernel or the
    launch; `wrong` for a wrong result; `failed` for all others."""
    outcome, error = line["outcome"], line.get("error", "")
    if outcome != "failed":
        return "failed" if outcome == "began" else outcome
    if re.search(_OF_A_GPU, error) or _NUMBERED.search(line["case"]):
        return "GPU"
    if "::test_print[" in line["case"]:
        return "printed"
    if "error[TIR" in error or "not supported in this architecture" in error:
        return "refused"
    return "wrong" if re.search(_WRONG, error) else "failed"


_OF_A_GPU = (
    r"Unknown key: '(ttgir|llir|ptx|cubin|sass|amdgcn)'|NVIDIA driver|not compiled with CUDA"
    r"|torch\.cuda|module 'torch\._C' has no attribute '_cuda|not supported between .*NoneType"
    r"|make_ttgir"
)
_NUMBERED = re.compile(
    "test_passing_nested_tuple_with_constexpr_and_jit_hook|test_cache.py::test_"
    "(annotation|kernel_default_arg|jit_warmup_cache|jit_debug|jit_noinline|preload|hooks)$"
)
"""They take torch's name of the device for Triton's number of it."""
_WRONG = (
    r"Not equal to tolerance|Arrays are not equal|Tensor-likes are not|^(assert|AssertionError)"
)


def summary(outcomes: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The number of cases by outcome, for each file."""
    counts: dict[str, Counter[str]] = {}
    for case, line in outcomes.items():
        file = Path(case.partition("::")[0]).name
        counts.setdefault(file, Counter())[kind_of(line)] += 1
    return {file: {o: count[o] for o in OUTCOMES} for file, count in sorted(counts.items())}


def errors(outcomes: dict[str, dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Cases by their kind and the first line of their error, without its numbers."""
    groups: dict[tuple[str, str], list[str]] = {}
    for case, line in outcomes.items():
        kind = kind_of(line)
        if kind in ("passed", "skipped"):
            continue
        error = first_line(line.get("error", "the process ended").splitlines())
        groups.setdefault((kind, error), []).append(case)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def first_line(lines: Iterable[str]) -> str:
    """The first informative line, without the parts that differ between cases."""
    line = next((line for line in lines if line.strip()), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "N", re.sub(r"/\S*/", "", line))[:160]


if __name__ == "__main__":
    raise SystemExit(main())
