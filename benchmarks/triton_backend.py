"""Test and benchmark of stock Triton with and without tileir as its compiler.

    python benchmarks/triton_backend.py [--out triton_backend.json] [--device cuda] [--seconds 280]

Needs torch and Triton; tileir need not be installed. The kernels of `triton_backend_kernels.py` and
the programs of `triton_backend_programs.py` run in one process for each compiler, with caches of
their own. The results of each are: whether it is correct, seconds of the first call, milliseconds
of a launch, and for tileir which compiler built its kernels, with the reason if it was Triton. The
exit status is 1 if a result is wrong that is correct with Triton.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PARTS = ("builder", "textual", "backend", "frontends", "tools", "testing")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="triton_backend.json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=280.0, help="for everything")
    parser.add_argument("--only", default="", help="names, with commas between them")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _measure(options)
        return 0
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for compiler in ("tileir", "triton") if options.device != "cpu" else ("tileir",):
            results[compiler] = _child(compiler, Path(folder), options)
    Path(options.out).write_text(json.dumps(results, indent=1) + "\n")
    return _print_table(results)


def _child(compiler: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The results of a process whose kernels `compiler` builds."""
    tree, results = importable_tree(folder / "tree"), folder / f"{compiler}.json"
    variables = {k: v for k, v in os.environ.items() if not k.startswith("TILEIR_")}
    environment = {
        **variables,
        "PYTHONPATH": os.pathsep.join([str(tree), str(HERE)]),
        "TILEIR_IN_TRITON": "1" if compiler == "tileir" else "0",
        "TRITON_CACHE_DIR": str(folder / compiler / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / compiler / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    command = [sys.executable, "-P", __file__, "--child", "--out", str(results)]
    command += ["--device", options.device, "--only", options.only]
    command += ["--seconds", str(options.seconds / (1 if options.device == "cpu" else 2))]
    done = subprocess.run(command, env=environment, check=False)
    results = json.loads(results.read_text()) if results.exists() else {}
    return {**results, "exit_status": done.returncode}


def importable_tree(tree: Path) -> Path:
    """A folder from which this checkout can be imported, with its entry points.

    Several processes may make it at the same time.
    """
    root, information = HERE.parent, tree / "tileir-0.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (tree / "tileir").mkdir(exist_ok=True)
    _write(information / "METADATA", "Name: tileir\nVersion: 0.1.0\n")
    _write(information / "entry_points.txt", _entry_points(root))
    for link in (tree / "tileir").iterdir():  # modules may have gone or come since
        if not link.exists():
            link.unlink(missing_ok=True)
    links = {tree / "tileir_triton": root / "tileir_triton"}
    links |= {tree / "tileir" / path.name: path for path in (root / "tileir").iterdir()}
    links |= {tree / "tileir" / part: root / part for part in PARTS}
    for link, path in links.items():
        with contextlib.suppress(FileExistsError):
            link.symlink_to(path)
    return tree


def _write(path: Path, text: str) -> None:
    """Write a file atomically, so that no process reads a partial file."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


def _entry_points(root: Path) -> str:
    """The entry points of `pyproject.toml`, as an installed distribution lists them."""
    with (root / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["entry-points"]
    lines: list[str] = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    return "\n".join([*lines, ""])


# In a process of one compiler --------------------------------------------------------------------


def _measure(options: argparse.Namespace) -> None:
    import torch  # type: ignore[import-not-found]
    import triton  # type: ignore[import-not-found]

    import tileir.frontends.triton_backend as backend

    end = time.monotonic() + options.seconds
    results: dict[str, Any] = {
        "torch": torch.__version__, "triton": triton.__version__, "cases": {},
        "device": torch.cuda.get_device_name() if options.device == "cuda" else options.device,
    }  # fmt: skip
    only = set(filter(None, options.only.split(",")))
    for name, run in _cases(options.device):
        if only and name not in only:
            continue
        if time.monotonic() > end:
            results["cases"][name] = {"right": None, "error": "no time was left"}
            continue
        before = len(backend.report())
        row = _row(run)
        records = backend.report().records[before:]
        row["kernels"] = [
            {"kernel": r.kernel, "compiler": r.compiler, "reason": r.reason[:300],
             "milliseconds": round(r.milliseconds, 1)} for r in records
        ]  # fmt: skip
        results["cases"][name] = row
        Path(options.out).write_text(json.dumps(results))


def _row(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"right": True, **run()}
    except Exception as error:
        return {"right": False, "error": f"{type(error).__name__}: {error}"[:600]}


def _cases(device: str) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    from triton_backend_kernels import CASES  # type: ignore[import-not-found]
    from triton_backend_programs import PROGRAMS  # type: ignore[import-not-found]

    for name, make in CASES.items():
        yield f"kernel {name}", lambda make=make: _kernel(make, device)
    if device == "cuda":
        yield "launch cuda_graph", lambda: _graph(CASES["softmax"])
    for name, make in PROGRAMS.items():
        yield f"inductor {name}", lambda make=make: _program(make, device)


def _kernel(make: Any, device: str) -> dict[str, Any]:
    import torch  # type: ignore[import-not-found]

    torch.manual_seed(0)
    start, check = make(device, device == "cuda")
    begin = time.perf_counter()
    start()
    _wait(device)
    first = time.perf_counter() - begin
    check()
    return {"first_call_s": round(first, 3), "ms": _milliseconds(start)}


def _graph(make: Any) -> dict[str, Any]:
    """A launch that is captured and replayed."""
    import torch  # type: ignore[import-not-found]

    start, check = make("cuda", True)
    start()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        start()
    graph.replay()
    torch.cuda.synchronize()
    check()
    return {"ms": _milliseconds(graph.replay)}


def _program(make: Any, device: str) -> dict[str, Any]:
    import torch  # type: ignore[import-not-found]
    from triton_backend_kernels import close  # type: ignore[import-not-found]

    if device == "cpu":
        import torch._inductor.config as config  # type: ignore[import-not-found]

        config.cpu_backend = "triton"
    torch.manual_seed(0)
    torch._dynamo.reset()
    function, arguments = make(device)
    expected, compiled = function(*arguments), torch.compile(function)
    begin = time.perf_counter()
    result = compiled(*arguments)
    _wait(device)
    first = time.perf_counter() - begin
    if not isinstance(expected, (tuple, list)):
        result, expected = [result], [expected]
    for mine, exact in zip(result, expected, strict=True):
        close(mine, exact, 2e-2, 2e-2)
    return {
        "first_call_s": round(first, 3),
        "ms": _milliseconds(lambda: compiled(*arguments)),
    }


def _milliseconds(call: Callable[[], Any]) -> float:
    from triton.testing import do_bench  # type: ignore[import-not-found]

    return round(float(do_bench(call, warmup=10, rep=40, return_mode="median")), 5)


def _wait(device: str) -> None:
    if device == "cuda":
        import torch  # type: ignore[import-not-found]

        torch.cuda.synchronize()


def _print_table(results: dict[str, Any]) -> int:
    """Print the table. Returns 1 if a result of tileir is wrong and that of Triton is not."""
    ours = results["tileir"].get("cases", {})
    theirs = results.get("triton", {}).get("cases", {})
    bad, kernels = [], [k for row in ours.values() for k in row.get("kernels", [])]
    titles = ("right", "tileir ms", "triton ms", "first s", "first s")
    print(f"{'case':34} " + " ".join(f"{t:>10}" for t in titles))
    for name, row in ours.items():
        other = theirs.get(name, {})
        cells = [str(row["right"])]
        cells += [str(r.get(key, "")) for key in ("ms", "first_call_s") for r in (row, other)]
        print(f"{name:34} " + " ".join(f"{c:>10}" for c in cells))
        if row["right"] is False:
            print(f"    {row['error'][:300]}")
            bad += [name] if other.get("right", True) else []
        for k in row.get("kernels", []):
            if k["compiler"] != "tileir":
                print(f"    {k['kernel']} by Triton: {k['reason'][:200]}")
    by_tileir = sum(k["compiler"] == "tileir" for k in kernels)
    print(f"kernels built: {len(kernels)}, by tileir: {by_tileir}; wrong: {bad or 'none'}")
    return 1 if bad or results["tileir"]["exit_status"] else 0


if __name__ == "__main__":
    sys.exit(main())
