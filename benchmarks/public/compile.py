"""Benchmark of compiling kernels in TTIR by tileir and by Triton: rejected kernels, and compile
times.

    python benchmarks/public/compile.py DIRECTORY [--jobs 2] [--limit 60] [--only PATTERN,...]

Reads the files that `collect.py` wrote, and writes `compiled.jsonl` there, a line for each kernel:
whether tileir compiled it for sm_90a, the reason otherwise, milliseconds of both compilers from the
text to the cubin (`maps_ms`: of the version with tensor maps, which the first launch compiles),
registers, spills and shared memory of both, and bits of accesses to global memory. Kernels that the
file already contains are skipped; a kernel that takes longer than `--limit` seconds is stopped.
"""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import re
import resource
import sys
import tempfile
import time
import zlib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent


def importable() -> Path:
    """A folder in which this checkout is importable as tileir, with its entry points."""
    sys.path.insert(0, str(HERE.parent))
    from triton_backend import importable_tree  # type: ignore[import-not-found]

    tree = Path(tempfile.gettempdir()) / f"tileir_tree_{os.getuid()}_{zlib.crc32(bytes(HERE)):x}"
    return importable_tree(tree)


def cpu_seconds() -> float:
    """Processor seconds of this process and of its finished children."""
    own, children = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def tileir_row(text: str, options: dict[str, Any]) -> dict[str, Any]:
    """Compile by the hook, with the text of the first stage as Triton's cache has it."""
    from tileir.frontends.triton_backend import launcher
    from tileir.frontends.triton_backend.stages import compile_ttir
    from tileir_triton.launching import TENSOR_MAPS
    from tileir_triton.settings import Settings

    def compile_once(with_maps: bool) -> tuple[Any, dict[str, Any], float]:
        metadata = {"num_ctas": options["num_ctas"]}
        launcher.compiles_for_others = lambda: with_maps
        begin = cpu_seconds()
        compiled = compile_ttir(
            Settings(True, strict=True), text, metadata, SimpleNamespace(**options), 90
        )
        str(compiled)
        return compiled, metadata, round((cpu_seconds() - begin) * 1e3, 1)

    begin = cpu_seconds()
    try:
        compiled, metadata, milliseconds = compile_once(with_maps=False)
        assert compiled is not None
        kernel, row = compiled.tileir_kernel, {"compiled": True}
    except Exception as error:
        return {
            "compiled": False, "reason": f"{type(error).__name__}: {error}"[:600],
            "ms": round((cpu_seconds() - begin) * 1e3, 1),
        }  # fmt: skip
    row["ms"] = milliseconds
    launched = metadata[TENSOR_MAPS]
    if launched and launched.get("warp_specialize", True):
        row["maps_ms"] = round(compile_once(with_maps=True)[2] - milliseconds, 1)
    code = kernel.code
    if code is not None:
        row.update(machine_code(code.cubin))
    row["warps"], row["shared"] = kernel.plan.num_warps, kernel.plan.shared
    return {**row, **accesses(kernel.ptx)}


def triton_row(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    import triton  # type: ignore[import-not-found]
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]

    names = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl", "enable_fp_fusion")
    chosen = {k: options[k] for k in names if options.get(k) is not None}
    begin = cpu_seconds()
    try:
        kernel = triton.compile(str(path), target=GPUTarget("cuda", 90, 32), options=chosen)
    except Exception as error:
        return {"compiled": False, "reason": f"{type(error).__name__}: {error}"[:300]}
    row = {"compiled": True, "ms": round((cpu_seconds() - begin) * 1e3, 1)}
    row.update(machine_code(kernel.asm["cubin"]))
    row["warps"], row["shared"] = kernel.metadata.num_warps, kernel.metadata.shared
    return {**row, **accesses(kernel.asm["ptx"])}


_REGISTERS, _STACK = 0x2F, 0x12
"""Attributes of the section `.nv.info`, as `cuobjdump -elf` names them: EIATTR_REGCOUNT and
EIATTR_MIN_STACK_SIZE. Their values are a symbol and a number, in 4 bytes each."""


def machine_code(cubin: bytes) -> dict[str, int]:
    """The bytes of code, the registers of a thread and the bytes of its stack, from the sections of
    a cubin."""
    import struct

    from tileir.backend.machine_code import code_bytes, sections

    largest: Counter[int] = Counter()
    body, at = dict(sections(cubin)).get(".nv.info", b""), 0
    while at + 4 <= len(body):
        form, attribute, length = struct.unpack_from("<BBH", body, at)
        if form == 4 and attribute in (_REGISTERS, _STACK):
            (number,) = struct.unpack_from("<I", body, at + 8)
            largest[attribute] = max(largest[attribute], number)
        at += 4 + (length if form == 4 else 0)
    return {"bytes": code_bytes(cubin), "registers": largest[_REGISTERS], "stack": largest[_STACK]}


_ACCESS = re.compile(r"\b(ld|st)\.global((?:\.[\w:]+)*?)(\.v\d)?\.[bfus](\d+)\b")


def accesses(ptx: str) -> dict[str, Any]:
    """Counts of instructions in a PTX text: accesses to global memory by direction and bits,
    barriers, shuffles, and accesses to shared and local memory."""
    counts: Counter[str] = Counter()
    for kind, _, vector, bits in _ACCESS.findall(ptx):
        counts[f"{kind}{int(vector[2:] or 1) * int(bits) if vector else int(bits)}"] += 1
    words = {
        "barriers": r"\bbar(?:rier)?\.(?:cta\.)?sync", "shuffles": r"\bshfl\.sync",
        "shared_loads": r"\bld(?:matrix\S*)?\.shared",
        "shared_stores": r"\bst(?:matrix\S*)?\.shared",
        "copies": r"\bcp\.async\.c[ag]", "mma": r"\bmma\.sync", "wgmma": r"\bwgmma\.mma_async",
        "ex2": r"\bex2\.", "divisions": r"\bdiv\.",
    }  # fmt: skip
    return {
        "global": dict(counts),
        "instructions": len(
            re.findall(r"^\s+(?:@%?!?\w+\s+)?[a-z][\w.:]*\s.*;", ptx, re.MULTILINE)
        ),
        **{name: len(re.findall(word, ptx)) for name, word in words.items()},
    }


def one(path: Path, first: Path, pipe, with_triton: bool) -> None:
    """Compile a kernel by both compilers in a separate process, after another kernel by both: the
    first compilation in a forked process includes the cost of copying shared memory pages."""
    warm([first])
    meta = json.loads(path.with_suffix(".json").read_text())
    text = path.read_text()
    row = {"key": path.stem, **meta, "tileir": tileir_row(text, meta["options"])}
    pipe.send(row)
    if not with_triton:
        return
    row["triton"] = triton_row(path, meta["options"])
    pipe.send(row)


_FIRST = 12
"""Kernels that are compiled before processes are forked."""


def warm(paths: list[Path]) -> None:
    """Compile some of the kernels by both compilers before processes are forked. The first
    compilations in a process include imports and, with Triton, a hash of its files. tileir imports
    a pass when a kernel first needs it; here all are imported, since Triton loads its whole library
    at once."""
    import_all()
    for path in paths[:: max(1, len(paths) // _FIRST)]:
        options = json.loads(path.with_suffix(".json").read_text())["options"]
        tileir_row(path.read_text(), options)
        triton_row(path, options)


def import_all() -> None:
    """Import the modules of tileir that a compilation may need, except those whose dependencies are
    not installed."""
    import tileir

    modules = [m for m in pkgutil.iter_modules(tileir.__path__, "tileir.") if not m.ispkg]
    for package in (
        "tileir.ops", "tileir.analysis", "tileir.passes", "tileir.backend",
        "tileir.frontends.ttir", "tileir.frontends.triton.language",
    ):  # fmt: skip
        folder = importlib.import_module(package).__path__
        modules += pkgutil.walk_packages(folder, f"{package}.", onerror=lambda name: None)
    for module in modules:
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--seconds", type=float, default=1e9, help="for everything")
    parser.add_argument("--only", default="*")
    parser.add_argument("--tileir", action="store_true", help="not by Triton")
    parser.add_argument("--one", action="store_true", help="one configuration of each kernel")
    options = parser.parse_args()
    sys.path.insert(0, str(importable()))
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TRITON_ALWAYS_COMPILE"], os.environ["TILEIR_CACHE"] = "1", "off"
    out = options.directory / "compiled.jsonl"
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {row["key"] for row in rows}
    selected = [p for p in sorted(options.directory.rglob("*.ttir")) if p.stem not in done]
    patterns = options.only.split(",")
    named = {p: str(json.loads(p.with_suffix(".json").read_text())["kernel"]) for p in selected}
    selected = [p for p in selected if any(fnmatchcase(named[p], x) for x in patterns)]
    if options.one:
        selected = list({named[p]: p for p in selected}.values())
    warm(selected)
    end = time.monotonic() + options.seconds
    with out.open("a") as file:
        for row in compile_all(selected, options.jobs, options.limit, end, not options.tileir):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows.append(row)
    show(rows)
    return 0


def compile_all(paths: list[Path], jobs: int, limit: float, end: float, with_triton: bool):
    """Yield the rows of the kernels of `paths`. `jobs` kernels are compiled at once, each in a
    separate process."""
    waiting, running = list(reversed(paths)), []
    context = multiprocessing.get_context("fork")
    while (waiting or running) and time.monotonic() < end:
        while waiting and len(running) < jobs:
            path = waiting.pop()
            ours, theirs = context.Pipe()
            process = context.Process(target=one, args=(path, paths[0], theirs, with_triton))
            process.start()
            theirs.close()
            running.append([path, process, ours, time.monotonic(), None])
        for entry in list(running):
            path, process, pipe, began, row = entry
            try:
                while pipe.poll(0.005):
                    entry[4] = row = pipe.recv()
            except EOFError:
                pass
            too_long = time.monotonic() - began > limit
            if too_long:
                process.kill()
            if too_long or not process.is_alive() or (row and "triton" in row):
                process.join()
                meta = json.loads(path.with_suffix(".json").read_text())
                reason = f"longer than {limit:.0f} s" if too_long else f"died: {process.exitcode}"
                row = row or {
                    "key": path.stem,
                    **meta,
                    "tileir": {"compiled": False, "reason": reason},
                }
                row.setdefault("triton", {"compiled": not with_triton, "reason": reason})
                running.remove(entry)
                yield row
    for entry in running:
        entry[1].kill()


def show(rows: list[dict[str, Any]]) -> None:
    """Print the number of compiled kernels, the failures with their reasons, and the times."""
    ours = [r for r in rows if r["tileir"]["compiled"]]
    only = [r for r in rows if r["tileir"]["compiled"] and "ms" in r["triton"]]
    reasons = Counter(
        re.sub(r"[\w./-]*?:\d+:\d+|%\w+|\d+", "#", r["tileir"]["reason"].split("\n")[0])[:150]
        for r in rows if not r["tileir"]["compiled"]
    )  # fmt: skip
    print(
        f"{len(rows)} kernels, {len(ours)} compiled by tileir ({100 * len(ours) / len(rows):.1f} %)"
    )
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    for r in rows:
        if not r["tileir"]["compiled"] and r["triton"]["compiled"]:
            reason = r["tileir"]["reason"].splitlines()[0][:160]
            print(f"    {r['key']} {r['kernel']} {r['cases'][0]}: {reason}")
    if only:
        a, b = (sum(r[k]["ms"] for r in only) for k in ("tileir", "triton"))
        print(f"compile time: tileir {a / 1e3:.1f} s, Triton {b / 1e3:.1f} s, {a / b:.2f}")


if __name__ == "__main__":
    sys.exit(main())
