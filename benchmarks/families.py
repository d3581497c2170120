"""Benchmark of functions, reductions, scans, sorts, random numbers and atomics against Triton.

    python benchmarks/families.py --out FOLDER [--case NAME ...] [--seconds 150] [--commit HASH]
    python benchmarks/families.py --out FOLDER --functions [--seconds 100]

Needs a GPU and torch; Triton is timed where it is installed. The first form compiles each kernel of
`families_kernels` with both compilers, compares the outputs with f64 and times them with a cold L2
cache, in microseconds: `families.json`. The second form evaluates functions of one float at all
2^32 inputs of f32 and writes `functions.json`: the largest error in ulp of the f64 result,
separately for normal and subnormal results. Every case has its own process and time limit. Cases
compile at the same time, and use the GPU one after the other.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import attrs
import checks
import timing
import torch

HERE = Path(__file__).parent
TOGETHER = 6
"""Cases that compile at the same time."""
CASE_SECONDS, FUNCTION_SECONDS = 40, 60
IMPORTS = {
    "import triton.language as tl": "import tileir.frontends.triton.language as tl",
    "import triton  #": "import tileir.frontends.triton as triton  #",
    "from triton.language.extra": "from tileir.frontends.triton.language.extra",
}
COMPILERS = ("tileir", "triton")


def kernels(compiler: str, folder: Path) -> Any:
    """The module `families_kernels` for a compiler; None if the compiler is not installed."""
    if compiler == "triton" and importlib.util.find_spec("triton") is None:
        return None
    text = (HERE / "families_kernels.py").read_text()
    if compiler == "tileir":
        for old, new in IMPORTS.items():
            text = text.replace(old, new)
    path = folder / f"families_{compiler}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@attrs.frozen
class Case:
    """A kernel on a shape. `make` returns the arguments, the first of which is the output; `launch`
    runs a kernel on them; `exact` computes the output in f64. Outputs may differ by `within` times
    the largest magnitude of `exact`, and must be equal if `within` is 0."""

    kernel: str
    make: Callable[[], list[Any]]
    launch: Callable[[Any, list[Any]], None]
    exact: Callable[[list[Any]], torch.Tensor]
    within: float = 1e-5
    accumulates: bool = False
    """Whether the kernel adds to the output, or replaces an input."""


def _rows(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator(device="cuda").manual_seed(rows * 7919 + columns)
    x = torch.randn(rows, columns, generator=generator, device="cuda", dtype=torch.float32)
    return x.to(dtype)


def _softmax(rows: int, columns: int, dtype: torch.dtype, within: float, online: bool) -> Case:
    def launch(kernel: Any, arguments: list[Any]) -> None:
        block = 4096 if online else 1 << (columns - 1).bit_length()
        kernel[(rows,)](*arguments, BLOCK=block, num_warps=8)

    def make() -> list[Any]:
        x = _rows(rows, columns, dtype)
        return [torch.empty_like(x), x, columns]

    name = "online_softmax" if online else "softmax"
    return Case(name, make, launch, lambda args: torch.softmax(args[1].double(), 1), within)


def _cross_entropy(rows: int, columns: int) -> Case:
    def make() -> list[Any]:
        labels = torch.arange(rows, device="cuda") * 37 % columns
        loss = torch.empty(rows, device="cuda")
        return [loss, _rows(rows, columns, torch.bfloat16), labels, columns]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(rows,)](*arguments, BLOCK=4096, num_warps=8)

    def exact(arguments: list[Any]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(
            arguments[1].double(), arguments[2], reduction="none"
        )

    return Case("cross_entropy", make, launch, exact, accumulates=True)


def _layer_norm(rows: int, columns: int, dtype: torch.dtype, within: float) -> Case:
    def make() -> list[Any]:
        x = _rows(rows, columns, dtype)
        w, b = _rows(2, columns, dtype)
        return [torch.empty_like(x), x, w, b, columns, 1e-5]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        block = 1 << (columns - 1).bit_length()
        kernel[(rows,)](*arguments, BLOCK=block, num_warps=min(max(block // 256, 1), 8))

    def exact(arguments: list[Any]) -> torch.Tensor:
        x, w, b = (v.double() for v in arguments[1:4])
        return torch.nn.functional.layer_norm(x, (columns,), w, b, 1e-5)

    return Case("layer_norm", make, launch, exact, within)


def _var_mean(rows: int, columns: int, together: int, block: int) -> Case:
    def make() -> list[Any]:
        variance = torch.empty(rows, device="cuda")
        return [variance, torch.empty_like(variance), _rows(rows, columns), columns]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(rows // together,)](*arguments, ROWS=together, BLOCK=block, num_warps=8)

    return Case("var_mean", make, launch, lambda args: torch.var(args[2].double(), 1))


def _argmax(rows: int, columns: int, together: int) -> Case:
    def make() -> list[Any]:
        return [torch.empty(rows, dtype=torch.int64, device="cuda"), _rows(rows, columns), columns]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        if together:
            kernel[(rows // together,)](*arguments, ROWS=together, BLOCK=2048, num_warps=8)
        else:
            kernel[(rows,)](*arguments, BLOCK=1 << (columns - 1).bit_length(), num_warps=4)

    name = "argmax" if together else "row_argmax"
    return Case(name, make, launch, lambda args: torch.argmax(args[1], 1), 0)


def _scan_reference(a: torch.Tensor, b: torch.Tensor, axis: int) -> torch.Tensor:
    a, b = (v.double().movedim(axis, 0) for v in (a, b))
    h, steps = torch.zeros_like(b[0]), list[torch.Tensor]()
    for x, y in zip(a, b, strict=True):
        h = x * h + y
        steps.append(h)
    return torch.stack(steps).movedim(0, axis)


def _scan(rows: int, columns: int, axis: int) -> Case:
    def make() -> list[Any]:
        a = torch.sigmoid(_rows(rows, columns))
        return [torch.empty_like(a), a, _rows(columns, rows).T.contiguous()]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        if axis:
            kernel[(rows,)](*arguments, ROWS=1, BLOCK=columns, num_warps=4)
        else:
            grid = (columns // 32, rows // 256)
            kernel[grid](*arguments, columns, STEPS=256, BLOCK=32, num_warps=4)

    def exact(arguments: list[Any]) -> torch.Tensor:
        a, b = arguments[1:]
        if axis:
            return _scan_reference(a, b, 1)
        parts = [v.reshape(rows // 256, 256, columns) for v in (a, b)]
        return _scan_reference(*parts, 1).reshape(rows, columns)

    return Case("scan_rows" if axis else "scan_columns", make, launch, exact)


def _in_order(name: str, rows: int, columns: int, count: int = 0, together: int = 0) -> Case:
    def make() -> list[Any]:
        x = _rows(rows, columns)
        return [torch.empty(rows, count or columns, device="cuda"), x]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        more = {"K": count} if count else {"ROWS": together} if together else {}
        kernel[(rows // (together or 1),)](*arguments, **more, BLOCK=columns, num_warps=4)

    def exact(arguments: list[Any]) -> torch.Tensor:
        ordered = torch.sort(arguments[1], 1, descending=bool(count))[0]
        return ordered[:, : count or columns].double()

    return Case(name, make, launch, exact, 0)


def _cumsum(rows: int, columns: int) -> Case:
    def make() -> list[Any]:
        x = _rows(rows, columns)
        return [torch.empty_like(x), x]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(rows,)](*arguments, BLOCK=columns, num_warps=8)

    return Case("cumsum", make, launch, lambda args: torch.cumsum(args[1].double(), 1))


def _flat(name: str, count: int, dtype: torch.dtype, within: float, exact: Any) -> Case:
    def make() -> list[Any]:
        x = _rows(1, count, dtype)[0]
        return [torch.empty_like(x), x, count]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(-(-count // 1024),)](*arguments, BLOCK=1024, num_warps=4)

    return Case(name, make, launch, lambda args: exact(args[1].double()), within)


def _dropout(count: int) -> Case:
    def make() -> list[Any]:
        x = _rows(1, count, torch.bfloat16)[0]
        return [torch.empty_like(x), x, count, 0.25, 123]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(-(-count // 1024),)](*arguments, BLOCK=1024, num_warps=4)

    def exact(arguments: list[Any]) -> torch.Tensor:
        word = checks.philox([torch.arange(count, device="cuda"), 0, 0, 0], [123, 0])[0]
        word = torch.where(word >= 1 << 31, (1 << 32) - 1 - word, word)
        kept = word.float() * 4.6566127342e-10 > 0.25
        return torch.where(kept, arguments[1].double() / 0.75, 0.0)

    return Case("dropout", make, launch, exact, 4e-3)


def _add_rows(rows: int, columns: int, size: int, dtype: torch.dtype, within: float) -> Case:
    def make() -> list[Any]:
        table = torch.zeros(size, columns, device="cuda", dtype=dtype)
        places = torch.arange(rows, device="cuda") * 7919 % size
        return [table, places, _rows(rows, columns, dtype), columns]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(rows, -(-columns // 1024))](*arguments, BLOCK=1024, num_warps=4)

    def exact(arguments: list[Any]) -> torch.Tensor:
        table, places, x = arguments[:3]
        return torch.zeros_like(table, dtype=torch.float64).index_add_(0, places, x.double())

    return Case("add_rows", make, launch, exact, within, accumulates=True)


def _histogram(count: int, bins: int) -> Case:
    def make() -> list[Any]:
        generator = torch.Generator(device="cuda").manual_seed(5)
        x = torch.randint(bins, (count,), generator=generator, device="cuda", dtype=torch.int32)
        return [torch.zeros(bins, dtype=torch.int32, device="cuda"), x, count]

    def launch(kernel: Any, arguments: list[Any]) -> None:
        kernel[(-(-count // 1024),)](*arguments, BINS=bins, BLOCK=1024, num_warps=4)

    def exact(arguments: list[Any]) -> torch.Tensor:
        return torch.bincount(arguments[1], minlength=bins).double()

    return Case("histogram", make, launch, exact, 0, accumulates=True)


F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
CASES: dict[str, Callable[[], Case]] = {
    "softmax f32 3333x2053": lambda: _softmax(3333, 2053, F32, 5e-6, online=False),
    "softmax bf16 20000x6000": lambda: _softmax(20000, 6000, BF16, 1e-2, online=False),
    "online softmax f32 64x200001": lambda: _softmax(64, 200001, F32, 1e-5, online=True),
    "cross entropy bf16 4096x32000": lambda: _cross_entropy(4096, 32000),
    "layer norm f16 4096x1000": lambda: _layer_norm(4096, 1000, F16, 2e-3),
    "layer norm f32 8192x5120": lambda: _layer_norm(8192, 5120, F32, 1e-5),
    "var_mean 4096x4096": lambda: _var_mean(4096, 4096, 1, 2048),
    "var_mean 32768x1024": lambda: _var_mean(32768, 1024, 8, 256),
    "argmax 4096x4096": lambda: _argmax(4096, 4096, 1),
    "tl.argmax 8192x4000": lambda: _argmax(8192, 4000, 0),
    "scan pairs, rows 8192x1024": lambda: _scan(8192, 1024, 1),
    "scan pairs, columns 8192x1024": lambda: _scan(8192, 1024, 0),
    "cumsum 4096x4096": lambda: _cumsum(4096, 4096),
    "tl.sort 16384x1024": lambda: _in_order("sort", 16384, 1024),
    "tl.sort 65536x128": lambda: _in_order("sort_rows", 65536, 128, together=8),
    "tl.topk 16384x1024, 8": lambda: _in_order("topk", 16384, 1024, 8),
    "dropout bf16 2^26": lambda: _dropout(1 << 26),
    "add rows f32": lambda: _add_rows(16384, 1024, 5000, F32, 1e-5),
    "add rows bf16": lambda: _add_rows(16384, 1024, 5000, BF16, 3e-2),
    "histogram 2^24 of 256": lambda: _histogram(1 << 24, 256),
    "silu(x) sin(x) bf16 2^25": lambda: _flat(
        "silu_sine", 1 << 25, BF16, 1e-2, lambda x: x * torch.sigmoid(x) * torch.sin(x)),
    "tanh(x) + erf(x) abs(x)^1.5 2^25": lambda: _flat(
        "functions", 1 << 25, F32, 1e-5,
        lambda x: torch.tanh(x) + torch.erf(x) * x.abs() ** 1.5),
}  # fmt: skip


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """A context in which no other case uses the GPU."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_case(name: str, folder: Path) -> dict[str, Any]:
    """Times and errors of both compilers for one case."""
    case, row = CASES[name](), dict[str, Any]()
    launches: dict[str, Callable[..., None]] = {}
    arguments = case.make()
    for compiler in COMPILERS:
        module = kernels(compiler, folder)
        if module is None:
            continue
        kernel = getattr(module, case.kernel)
        try:
            case.launch(kernel, [x.clone() if torch.is_tensor(x) else x for x in arguments])
            torch.cuda.synchronize()
        except Exception as error:
            row[compiler] = {"error": "".join(traceback.format_exception_only(error))[:500]}
            continue
        launches[compiler] = lambda *args, kernel=kernel: case.launch(kernel, list(args))
    with _alone(folder):
        expected = case.exact(arguments).double()
        for compiler, launch in launches.items():
            fresh = [x.clone() if torch.is_tensor(x) else x for x in arguments]
            launch(*fresh)
            off = (fresh[0].double() - expected).abs().max().item()
            largest = expected.abs().max().item()
            some, exact = checks.some_rows(fresh[0], expected)
            why = checks.fault(some, *checks.near(exact, case.within, largest))
            row[compiler] = {"error_max": off, "right": off <= case.within * largest and not why}
        del expected
        for compiler, time_us in timing.measure(launches, arguments).items():
            row[compiler]["us"] = round(time_us, 2)
    if all("us" in row.get(c, {}) for c in COMPILERS):
        row["ratio"] = round(row["triton"]["us"] / row["tileir"]["us"], 3)
    return row


# Functions over all inputs ------------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp, "exact exp": torch.exp, "log": torch.log, "division": lambda x: 1 / x,
    "exact division": lambda x: 1 / x, "sqrt": torch.sqrt, "exact sqrt": torch.sqrt,
    "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "tanh": torch.tanh, "erf": torch.erf,
    "exp2": torch.exp2, "log2": torch.log2, "sinh": torch.sinh, "cosh": torch.cosh,
    "asin": torch.asin, "acos": torch.acos, "rsqrt": torch.rsqrt,
}  # fmt: skip
"""In f64. `exp`, `division`, `sqrt` and `rsqrt` are the approximate instructions."""
BOUNDS = {
    "exact exp": 2, "log": 2, "exact division": 0.5, "exact sqrt": 0.5, "sin": 2, "cos": 2,
    "tan": 4, "tanh": 3, "erf": 2, "log2": 2, "sinh": 3, "cosh": 2, "asin": 3, "acos": 3,
}  # fmt: skip
"""The error bounds that the ops state, in ulp."""
CHUNK = 1 << 26
BLOCK = 1024


def _worst(actual: torch.Tensor, exact: torch.Tensor) -> dict[str, float]:
    """The largest errors in ulp of normal and of subnormal results, and the number of results that
    are wrongly NaN or infinite, or wrongly finite."""
    nearest = exact.float()
    usual = torch.isfinite(nearest) & torch.isfinite(actual)
    same = (actual == nearest) | (actual.isnan() & nearest.isnan())
    beyond = exact.abs() > 3.4028234e38
    normal = nearest.abs() >= 2.0**-126
    _, exponent = torch.frexp(torch.where(usual, exact, 1.0))
    biased = torch.clamp(exponent.long() - 24, min=-149) + 1023
    unit = (biased << 52).view(torch.float64)
    off = torch.where(usual, (actual.double() - exact).abs() / unit, 0.0)
    return {
        "ulp": torch.where(normal, off, 0.0).max().item(),
        "ulp_subnormal": torch.where(normal, 0.0, off).max().item(),
        "wrong": int((~usual & ~same & ~(beyond & ~actual.isnan())).sum().item()),
    }


def run_function(name: str, folder: Path) -> dict[str, Any]:
    """The largest errors of one function over all inputs, by compiler."""
    row: dict[str, Any] = {}
    for compiler in COMPILERS:
        module = kernels(compiler, folder)
        if module is None:
            continue
        worst = {"ulp": 0.0, "ulp_subnormal": 0.0, "wrong": 0.0}
        y = torch.empty(CHUNK, device="cuda")
        module.one_function[(1,)](y, y.clone(), NAME=name, BLOCK=BLOCK)
        with _alone(folder):
            for start in range(-(1 << 31), 1 << 31, CHUNK):
                bits = torch.arange(start, start + CHUNK, device="cuda")
                x = bits.to(torch.int32).view(torch.float32)
                module.one_function[(CHUNK // BLOCK,)](y, x, NAME=name, BLOCK=BLOCK)
                part = _worst(y, FUNCTIONS[name](x.double()))
                worst = {k: v + part[k] if k == "wrong" else max(v, part[k])
                         for k, v in worst.items()}  # fmt: skip
        row[compiler] = worst
    if "tileir" in row and name in BOUNDS:
        ours = row["tileir"]
        row["bound"] = BOUNDS[name]
        row["right"] = max(ours["ulp"], ours["ulp_subnormal"]) <= BOUNDS[name] and not ours["wrong"]
    return row


# Processes ----------------------------------------------------------------------------------------


def _child(run: Callable[[str, Path], dict[str, Any]], name: str, folder: Path, out: Path) -> None:
    try:
        row = run(name, folder)
    except BaseException as error:
        row = {"error": "".join(traceback.format_exception(error))[-1500:]}
    out.write_text(json.dumps(row))
    os._exit(0)


def run_all(
    run: Callable[[str, Path], dict[str, Any]], names: Sequence[str], limit: float, total: float
) -> dict[str, Any]:
    """The result of `run` for each name, each in its own process. A process that does not finish in
    time yields an error. The processes are forked from one that has imported torch and not
    initialized CUDA."""
    context, start = multiprocessing.get_context("fork"), time.monotonic()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as text:
        shared = Path(text)
        waiting, running = list(names), dict[str, tuple[BaseProcess, float, Path]]()
        while waiting or running:
            expired = time.monotonic() - start > total
            while waiting and len(running) < TOGETHER and not expired:
                name = waiting.pop(0)
                folder = shared / str(len(waiting))
                folder.mkdir()
                (folder / "lock").symlink_to(shared / "lock")
                out = folder / "row.json"
                child = context.Process(target=_child, args=(run, name, folder, out))
                child.start()
                running[name] = child, time.monotonic(), out
            for name, (child, began, out) in list(running.items()):
                child.join(0.02)
                slow = time.monotonic() - began > limit or expired
                if child.is_alive() and not slow:
                    continue
                if child.is_alive():
                    child.kill()
                    child.join()
                ended = {"error": f"no result after {time.monotonic() - began:.0f} s"}
                rows[name] = json.loads(out.read_text()) if out.exists() else ended
                del running[name]
                print(name, json.dumps(rows[name]), flush=True)
            if expired:
                rows.update({name: {"error": "not begun in time"} for name in waiting})
                waiting = []
    return {name: rows[name] for name in names}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the cases or the functions and write the file."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--case", action="append")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--commit", help="what is measured, for the results")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    table: Mapping[str, Any] = FUNCTIONS if options.functions else CASES
    names = options.case or list(table)
    if options.functions:
        rows = run_all(run_function, names, FUNCTION_SECONDS, options.seconds or 95)
    else:
        rows = run_all(run_case, names, CASE_SECONDS, options.seconds or 145)
    versions = {name: _version(name) for name in ("torch", "triton", "tileir")}
    head = {"device": _device(), **versions, "commit": options.commit, "rows": rows}
    name = "functions.json" if options.functions else "families.json"
    (options.out / name).write_text(json.dumps(head, indent=1))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _device() -> str:
    """The name of the GPU. It is called after the forks, which must not inherit an initialized
    CUDA."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


if __name__ == "__main__":
    main()
