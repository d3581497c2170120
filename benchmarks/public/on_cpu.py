"""Test of programs of torch.compile and of kernel libraries on the CPU, by unmodified Triton
through the backend `cpu`: results are compared with those of torch.

    python benchmarks/public/on_cpu.py [--only PATTERN,...] [--mode native] [--limit 60]
                                       [--log FILE] [--table]

Runs the cases of this folder with smaller numbers (`small.py`), each in a separate process, and
compares the results with the reference. Programs of torch.compile are also compared with the same
programs run by torch. Libraries treat tensors of the CPU as those of a GPU (`fake_gpu.py`). If a
case has no reference, its results must be numbers.

`--log` keeps the outcomes, and its cases are not run again. `--table` writes the counts of the log
to `benchmarks/results/public_cpu.json` and to the table of docs/reference/triton-backend.md. The
exit status is 1 if a result was wrong or a kernel was not compiled.
"""
# ruff: noqa: ANN001, ANN003, ANN201, ANN202

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "public_cpu.json"
PAGE = HERE.parent.parent / "docs" / "reference" / "triton-backend.md"
NAME = "public_cpu"
COMPILED = ("inductor", "compile")
"""Packages of cases that torch.compile makes the kernels of."""
IMPORTED = {
    "liger": "liger_kernel.transformers.functional", "fla": "fla.ops", "flag_gems": "flag_gems",
}  # fmt: skip
"""The modules that the cases of packages import."""
MODULES = (
    "inductor", "inductor_models", "compiled", "compiled_tensors", "liger", "unsloth", "fla",
    "fla_more", "others", "flag_gems", "flag_gems_more", "packages_more", "tutorials", "matmuls",
    "gemms", "attentions", "mamba", "quantised", "single", "lmdeploy", "servers", "training",
    "wider", "low_bits", "steps", "zoo", "strangers", "strangers_more", "strangers_rest",
    "vllm", "sglang",
)  # fmt: skip
TOLERANCES = {"bfloat16": 2.0**-5, "float16": 2.0**-8, "float32": 2.0**-11, "float64": 2.0**-30}
"""Errors allowed for results of a type, relative as `worker.error` gives them."""
OUTCOMES = ("right", "no reference", "refused", "wrong", "failed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="patterns of names, with commas between them")
    parser.add_argument("--every", type=int, default=1, help="of how many cases one is run")
    parser.add_argument("--mode", default="native", help="what TILEIR_TRITON_CPU says")
    parser.add_argument("--limit", type=int, default=60, help="seconds of a processor for a case")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    rows = read(options.log)
    prepare(options.mode)
    with ExitStack() as stack:
        for name in MODULES:
            load(name)
        from cases import CASES

        requested = [n for n in CASES if any(fnmatchcase(n, p) for p in options.only.split(","))]
        requested = [n for n in requested[:: options.every] if n not in rows]
        if any(package_of(n) in COMPILED for n in requested):
            warm_up()
        for name in sorted(requested, key=lambda n: package_of(n) not in COMPILED):
            if package_of(name) not in COMPILED and not stack._exit_callbacks:
                from fake_gpu import cpu_as_gpu

                stack.enter_context(cpu_as_gpu())
                import_libraries({package_of(n) for n in requested})
                warm_up_launches()
            row = rows[name] = run(name, CASES[name], options.limit)
            if options.log:
                with options.log.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            print(name, row["outcome"], row.get("reason", "")[:300], flush=True)
    counts = summary(rows)
    for line in table_rows(counts):
        print(*line, sep="\t")
    if options.table:
        write(counts)
    return int(any(c["wrong"] + c["failed"] + c["refused"] for c in counts.values()))


def prepare(mode: str) -> None:
    """Set up the environment and imports, before Triton is imported."""
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    from compile import importable

    sys.path.insert(0, str(importable()))
    os.environ["TILEIR_TRITON_CPU"] = mode
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    os.environ.setdefault("UNSLOTH_COMPILE_LOCATION", tempfile.mkdtemp())


def load(name: str) -> None:
    """The cases of a package, if it is installed."""
    from small import load_small

    load_small(f"cases_{name}")


def import_libraries(packages: set[str]) -> None:
    """Import the libraries that the cases of packages need, once for all processes. Autotuned
    kernels run with one configuration."""
    from collect import few_configurations

    few_configurations(1)
    for package in packages & set(IMPORTED):
        with suppress(ImportError):
            import_module(IMPORTED[package])
    if "unsloth" in packages:
        with suppress(ImportError):
            import_module("cases_unsloth").kernels("rms_layernorm")


def warm_up() -> None:
    """Import the modules that processes of torch.compile need, by compiling a program that is not
    run."""
    import torch  # type: ignore[import-not-found]

    from tileir.frontends.triton_backend.cpu import programs  # noqa: F401
    from tileir.frontends.triton_backend.cpu.launcher import CpuLauncher

    torch.set_num_threads(1)
    with mock.patch.object(CpuLauncher, "__call__", lambda *_: None), inductor_for_triton():
        a = torch.ones(64, requires_grad=True)
        torch.compile(lambda a: (a @ a.t()).sin().softmax(-1).sum())(a.view(8, 8)).backward()
    torch._dynamo.reset()


def warm_up_launches() -> None:
    """Import the modules that processes of libraries need, by running a kernel."""
    import torch  # type: ignore[import-not-found]
    import triton  # type: ignore[import-not-found]
    import triton.language as tl  # type: ignore[import-not-found]

    @triton.jit
    def normalise(x, size: tl.constexpr):
        places = x + tl.arange(0, size)
        value = tl.exp(tl.load(places))
        tl.store(places, value / tl.sum(value))

    torch.set_num_threads(1)
    normalise[(1,)](torch.randn(64), 64)


@contextmanager
def inductor_for_triton():
    """Let Inductor generate Triton kernels for the CPU and take the first configuration of each.
    Random numbers are those of torch."""
    import torch._inductor.config as config  # type: ignore[import-not-found]
    from torch._inductor.runtime.triton_heuristics import (  # type: ignore[import-not-found]
        CachingAutotuner,
    )

    settings = {"cpu_backend": "triton", "compile_threads": 1, "fx_graph_cache": False}
    one = mock.patch.object(CachingAutotuner, "bench", lambda *_, **__: 1.0)
    with one, config.patch(fallback_random=True, **settings):
        yield


def package_of(case: str) -> str:
    return case.partition("/")[0]


def read(log: Path | None) -> dict[str, dict[str, Any]]:
    """The rows of a log, by case."""
    lines = log.read_text().splitlines() if log is not None and log.exists() else []
    return {row["case"]: row for row in map(json.loads, lines)}


# A case, in a process of its own ------------------------------------------------------------------


def run(name: str, make, limit: int) -> dict[str, Any]:
    """The outcome of a case."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_child, args=(name, make, limit, theirs))
    process.start()
    theirs.close()
    row: dict[str, Any] = {"case": name, "outcome": "failed", "kernels": {}}
    try:
        while True:
            row.update(ours.recv())
    except EOFError:
        process.join()
    if process.exitcode:
        over = process.exitcode in (-24, -9)
        reason = f"longer than {limit} s" if over else f"the process ended: {process.exitcode}"
        row.update(outcome="failed", reason=reason)
    return row


def _child(name: str, make, limit: int, pipe) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    kernels = watch_kernels()
    try:
        row = check(name, make)
    except Exception as error:
        refused = "error[TIR" in str(error)
        row = {
            "outcome": "refused" if refused else "failed",
            "reason": f"{type(error).__name__}: {error}"[:1500],
            "where": traceback.format_exc().splitlines()[-9:],
        }
    pipe.send({**row, "kernels": kernels})
    pipe.close()


def watch_kernels() -> dict[str, str]:
    """The kernels that are loaded from now on, each with the way it runs: `native`, or the reason
    why the interpreter runs it."""
    from tileir.errors import TileirError
    from tileir.frontends.triton_backend.cpu import programs

    kernels: dict[str, str] = {}
    own, compiler = programs.CpuProgram._native, programs.compile_for_cpu

    def note_error(module, name, **options):
        try:
            return compiler(module, name, **options)
        except TileirError as error:
            kernels[name] = str(error)[:300]
            raise

    def native(program):
        launch = own(program)
        kernels[program.name] = (
            "native" if launch else kernels.get(program.name, "instances wait for each other")
        )
        return launch

    programs.compile_for_cpu, programs.CpuProgram._native = note_error, native
    return kernels


def check(name: str, make) -> dict[str, Any]:
    """Compare the results of a case with its reference."""
    import torch  # type: ignore[import-not-found]
    from cases import tensors

    torch.set_num_threads(1)
    if package_of(name) not in COMPILED:
        step = with_seed(name, lambda: make("cuda"))
        expected = None  # first: kernels may write to their arguments
        if step.reference is not None:
            expected = [
                t.detach().clone() for t in tensors(with_seed(f"{name} run", step.reference))
            ]
        results = [t.detach().clone() for t in tensors(with_seed(f"{name} run", step.run))]
        if expected is None:
            if any(t.isnan().any() for t in results if t.is_floating_point()):
                return {"outcome": "wrong", "reason": "not a number"}
            return {"outcome": "no reference"}
        return verdict(results, expected, step.exactly)
    results = run_compiled(name, make)
    with mock.patch.object(torch, "compile", lambda function, **_: function):
        step = with_seed(name, lambda: make("cpu"))
        plain = [t.detach().clone() for t in tensors(with_seed(f"{name} run", step.run))]
    row = verdict(results, plain, step.exactly)
    if row["outcome"] == "wrong" and step.reference is not None:
        exact = [t.detach() for t in tensors(with_seed(f"{name} run", step.reference))]
        closer = verdict(results, exact, step.exactly, plain)
        return {**closer, "torch": row["errors"]}
    return row


def run_compiled(name: str, make) -> list[Any]:
    """The result of a program compiled by torch.compile."""
    from cases import tensors

    with inductor_for_triton():
        step = with_seed(name, lambda: make("cpu"))
        return [t.detach().clone() for t in tensors(with_seed(f"{name} run", step.run))]


def with_seed(name: str, call):
    """The result of `call` with random numbers that depend only on the name. The seeds of a case
    and of its run differ: gradients of results that are drawn like the inputs are near 0, so that
    only rounding errors would be left."""
    import torch  # type: ignore[import-not-found]

    torch.manual_seed(zlib.crc32(name.encode()))
    return call()


def verdict(results, expected, exactly: bool, other=None) -> dict[str, Any]:
    """`right` if results are as close to `expected` as the types of both allow, or half as close as
    the results `other`."""
    from worker import error

    if [t.shape for t in results] != [t.shape for t in expected]:
        shapes = [[tuple(t.shape) for t in ts] for ts in (results, expected)]
        return {"outcome": "wrong", "reason": f"shapes {shapes}", "errors": []}
    errors = [error(a, b) for a, b in zip(results, expected, strict=True)]
    floats = [str(t.dtype).split(".")[1] for t in results if t.is_floating_point()]
    allowed = max((TOLERANCES.get(name, 2.0**-3) for name in floats), default=0.0)
    bounds = [0.0 if exactly or not t.is_floating_point() else allowed for t in results]
    if other is not None:
        bounds = [max(b, 2 * error(o, e)) for b, o, e in zip(bounds, other, expected, strict=True)]
    wrong = [
        f"result {i}: {e:.2e}" for i, (e, b) in enumerate(zip(errors, bounds, strict=True)) if e > b
    ]
    row: dict[str, Any] = {"outcome": "wrong" if wrong else "right", "errors": errors}
    return {**row, "reason": ", ".join(wrong)} if wrong else row


# Tables -------------------------------------------------------------------------------------------


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Totals by package: cases by outcome, kernels, and native kernels."""
    counts: dict[str, Counter[str]] = {}
    kernels: dict[str, dict[str, str]] = {}
    for case, row in rows.items():
        package = package_of(case)
        counts.setdefault(package, Counter())[row["outcome"]] += 1
        prefix = f"{case}: " if package in COMPILED else ""
        kernels.setdefault(package, {}).update(
            {prefix + name: how for name, how in row["kernels"].items()}
        )
    return {
        package: {
            **{o: count[o] for o in OUTCOMES},
            "kernels": len(kernels[package]),
            "native": sum(how == "native" for how in kernels[package].values()),
        }
        for package, count in sorted(counts.items())
    }


def table_rows(packages: dict[str, dict[str, int]]):
    """Yield a row for each package."""
    yield ("package", "programs", *OUTCOMES, "kernels", "native")
    for package, counts in packages.items():
        total = sum(counts[o] for o in OUTCOMES)
        rest = (counts[k] for k in (*OUTCOMES, "kernels", "native"))
        yield (package, *map(str, (total, *rest)))


def write(packages: dict[str, dict[str, int]]) -> None:
    """Write the counts and the table of the documentation."""
    from tables import END, mark, markdown, replace_between

    RESULTS.write_text(json.dumps(packages, indent=1) + "\n")
    table = markdown(table_rows(packages))
    PAGE.write_text(replace_between(PAGE.read_text(), mark(NAME), END, table))


if __name__ == "__main__":
    raise SystemExit(main())
