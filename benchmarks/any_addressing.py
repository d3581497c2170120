"""Benchmark of matmuls without tensor maps on one H100: correctness and time.

    python benchmarks/any_addressing.py --out FOLDER [--seconds 145] [--only matmul,experts]
                                        [--compile]

Writes FOLDER/any_addressing.json. Needs torch; tileir need not be installed. Triton is measured if
it is installed. Kernels are those of `any_addressing_kernels.py`, compiled by tileir for sm_90a
without warp specialization.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import checks
from triton_backend import importable_tree  # type: ignore[import-not-found]

HERE = Path(__file__).resolve().parent
CASE_SECONDS = 30
"""The most that one case may take."""


class Config(NamedTuple):
    """The extents of a block, the number of warps, and the number of stages."""

    m: int
    n: int
    k: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} w{self.warps} s{self.stages}"


class Case(NamedTuple):
    """A kernel with certain extents. `sizes` are the extents in the order that its family
    defines."""

    family: str
    element: str
    sizes: tuple[Any, ...]
    configs: tuple[Config, ...]

    @property
    def name(self) -> str:
        return " ".join((self.family, self.element, "x".join(map(str, self.sizes))))


WIDE, SQUARE = Config(128, 256, 64, 8, 3), Config(128, 128, 64, 8, 3)
SLIM, SMALL = Config(128, 128, 64, 4, 3), Config(64, 128, 64, 4, 4)


def cases() -> tuple[Case, ...]:
    halves = (WIDE, SQUARE, SLIM)
    tf32 = (Config(128, 128, 32, 8, 3), Config(128, 256, 32, 8, 3))
    return (
        Case("matmul", "bf16", ("NN", 4096, 4096, 4096), (*halves, Config(128, 256, 64, 8, 4))),
        Case("attention", "f16", (64, 4096, 64), (
            Config(128, 64, 0, 4, 2), Config(128, 128, 0, 8, 2), Config(64, 64, 0, 4, 3))),
        Case("attention", "bf16", (16, 4096, 128), (
            Config(128, 64, 0, 8, 2), Config(128, 128, 0, 8, 2))),
        Case("experts", "bf16", (4096, 2048, 1024, 8, 2), (SQUARE, SLIM, SMALL)),
        Case("experts", "bf16", (512, 4096, 14336, 8, 2), (SMALL, Config(64, 256, 64, 4, 3))),
        Case("paged", "bf16", (64, 8, 16, 4096, 128), (Config(16, 64, 0, 4, 2),)),
        Case("paged", "bf16", (64, 8, 64, 4096, 128), (
            Config(64, 64, 0, 4, 2), Config(64, 128, 0, 4, 2))),
        Case("matmul", "bf16", ("NT", 4096, 4096, 4096), halves),
        Case("matmul", "f16", ("TN", 4096, 4096, 4096), halves),
        Case("matmul", "f16", ("NN", 2048, 2048, 8192), halves),
        Case("matmul", "f16", ("NN", 8192, 1024, 1024), (SQUARE, SMALL)),
        Case("matmul", "f8", ("NT", 4096, 4096, 4096), (
            Config(128, 256, 128, 8, 3), Config(128, 128, 128, 8, 3))),
        Case("matmul", "tf32", ("NT", 4096, 4096, 4096), tf32),
        Case("matmul", "tf32", ("NN", 4096, 4096, 4096), tf32),
    )  # fmt: skip


_POINTEES = {"bf16": "bf16", "f16": "fp16", "f8": "fp8e4nv", "tf32": "fp32"}


def strides(way: str, m: int, n: int, k: int) -> tuple[int, int, int, int]:
    """The strides of rows and steps of A, and of steps and columns of B. In `way`, N stands for an
    operand whose last dimension is contiguous."""
    return (*((k, 1) if way[0] == "N" else (1, m)), *((n, 1) if way[1] == "N" else (1, k)))


class Launch(NamedTuple):
    """A kernel of the module of kernels, the types of its parameters, its compile-time constants,
    and its grid."""

    kernel: str
    signature: dict[str, str]
    constants: dict[str, Any]
    grid: tuple[int, ...]


def launch_of(case: Case, config: Config) -> Launch:
    """The launch of `case`."""
    kind, sizes = _POINTEES[case.element], case.sizes
    if case.family == "matmul":
        way, m, n, k = sizes
        out = {"f8": "bf16"}.get(case.element, kind)
        steps = dict(zip(("sam", "sak", "sbk", "sbn"), strides(way, m, n, k), strict=True))
        fixed = {name: 1 for name, step in steps.items() if step == 1}
        signature = {"a": f"*{kind}:16", "b": f"*{kind}:16", "c": f"*{out}:16"}
        signature |= {name: "i32:16" for name in ("m", "n", "k", *steps) if name not in fixed}
        constants = {"M": config.m, "N": config.n, "K": config.k, "G": 8,
                     "TF32": case.element == "tf32", **fixed}  # fmt: skip
        grid = (math.ceil(m / config.m) * math.ceil(n / config.n),)
        return Launch("matmul_kernel", signature, constants, grid)
    if case.family == "experts":
        tokens, n, k, experts, top = sizes
        signature = dict.fromkeys("abc", f"*{kind}:16") | {"weights": "*fp32:16"}
        signature |= dict.fromkeys(("order", "expert_of"), "*i32:16")
        signature |= dict.fromkeys(("n", "k", "tokens"), "i32:16")
        constants = {"M": config.m, "N": config.n, "K": config.k, "TOP": top}
        blocks = experts + tokens * top // config.m
        return Launch("experts_kernel", signature, constants, (blocks * math.ceil(n / config.n),))
    if case.family == "paged":
        seqs, heads, rows, _, d = sizes
        signature = dict.fromkeys(("q", "kc", "vc", "out"), f"*{kind}:16")
        signature |= {"table": "*i32:16", "lengths": "*i32:16", "pages": "i32:16", "scale": "fp32"}
        constants = {"M": rows, "N": config.n, "D": d, "PAGE": 16, "H": heads}
        return Launch("paged_kernel", signature, constants, (seqs, heads))
    heads, n, d = sizes
    signature = dict.fromkeys(("q", "k", "v", "out"), f"*{kind}:16") | {
        "n": "i32:16",
        "scale": "fp32",
    }
    constants = {"M": config.m, "N": config.n, "D": d}
    return Launch("attention_kernel", signature, constants, (n // config.m, heads))


# tileir ------------------------------------------------------------------------------------------


def kernels_of(triton: Any, language: Any) -> ModuleType:
    """The module of kernels, imported with `triton` and `language` in place of Triton."""
    before = {name: sys.modules.get(name) for name in ("triton", "triton.language")}
    sys.modules.update({"triton": triton, "triton.language": language})
    try:
        path = HERE / "any_addressing_kernels.py"
        spec = importlib.util.spec_from_file_location("any_addressing_kernels", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old


def module_of_case(case: Case, config: Config) -> Any:
    """The module of the kernel of `case`. It imports the kernels under another name, so only one
    thread may call it at a time."""
    from tileir.frontends import triton as ours
    from tileir.frontends.triton import language
    from tileir.frontends.triton.kernel import from_signature, module_of

    launch = launch_of(case, config)
    source = getattr(kernels_of(ours, language), launch.kernel).source
    special = from_signature(
        source, launch.signature, launch.constants, num_warps=config.warps,
        num_stages=config.stages,
    )  # fmt: skip
    return module_of(source, special)


def compile_module(module: Any, config: Config, target: str) -> Any:
    """The kernel compiled without tensor maps, and assembled."""
    import tileir.backend

    options = {"num_warps": config.warps, "num_stages": config.stages, "warp_specialize": False}
    kernel = tileir.backend.compile(module, target, options, isolate=True)
    assert kernel.metadata.registers is not None
    return kernel


def facts(kernel: Any) -> dict[str, Any]:
    """Properties of a compiled kernel that show its schedule."""
    plan, ptx = kernel.metadata, kernel.ptx
    return {
        "registers": plan.registers, "spills": plan.spills, "shared": plan.shared,
        "wgmma": ptx.count("wgmma.mma_async"), "mma": ptx.count("mma.sync"),
        "copies": ptx.count("cp.async.c"), "loads": ptx.count("ld.global"),
    }  # fmt: skip


# A case on the GPU -------------------------------------------------------------------------------


class Data(NamedTuple):
    """The arguments of the kernel by name, the result of torch, a function that returns the error
    of the result (None if there is none), and the number of operations."""

    arguments: dict[str, Any]
    peer: Callable[[], Any] | None
    fault: Callable[[], str | None]
    operations: float

    @property
    def result(self) -> Any:
        """The tensor that the kernel writes."""
        return self.arguments["c" if "c" in self.arguments else "out"]


def data_of(case: Case, config: Config) -> Data:
    """Random data for `case`."""
    import torch

    torch.manual_seed(0)
    kind = {"bf16": torch.bfloat16, "f16": torch.float16, "f8": torch.float8_e4m3fn,
            "tf32": torch.float32}[case.element]  # fmt: skip
    return {
        "matmul": _matmul, "experts": _experts, "paged": _pages, "attention": _attention,
    }[case.family](torch, case, config, kind)  # fmt: skip


def _units(case: Case) -> tuple[float, float]:
    """The unit roundoffs of results and of operands."""
    result = {"f8": "bf16", "tf32": "f32"}.get(case.element, case.element)
    return checks.UNITS[result], checks.UNITS[case.element]


def _matmul(torch: Any, case: Case, config: Config, kind: Any) -> Data:
    way, m, n, k = case.sizes
    a, b = torch.randn(m, k, device="cuda").to(kind), torch.randn(k, n, device="cuda").to(kind)
    at = a if way[0] == "N" else a.t().contiguous()
    bt = b if way[1] == "N" else b.t().contiguous()
    out = torch.full((m, n), math.nan, device="cuda",
                     dtype=torch.bfloat16 if case.element == "f8" else kind)  # fmt: skip
    arguments = {"a": at, "b": bt, "c": out, "m": m, "n": n, "k": k}
    arguments |= zip(("sam", "sak", "sbk", "sbn"), strides(way, m, n, k), strict=True)

    rows, columns = checks.sample(m), checks.sample(n, seed=1)
    unit, rounding = _units(case)
    exact, bound = checks.matmul(
        a.float()[rows], b.float()[:, columns], unit,
        checks.F8_ACCUMULATED if case.element == "f8" else checks.ACCUMULATED,
        2 * rounding if case.element == "tf32" else 0.0,
    )  # fmt: skip

    def fault() -> str | None:
        return checks.fault(out[rows][:, columns], exact, bound)

    left = at if way[0] == "N" else at.t()
    right = bt if way[1] == "N" else bt.t()
    if case.element == "f8":
        one = torch.ones((), device="cuda")
        peer = lambda: torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)  # noqa: E731
    else:
        torch.backends.cuda.matmul.allow_tf32 = True
        peer = lambda: torch.mm(left, right)  # noqa: E731
    return Data(arguments, peer, fault, 2.0 * m * n * k)


def _experts(torch: Any, case: Case, config: Config, kind: Any) -> Data:
    tokens, n, k, experts, top = case.sizes
    x = torch.randn(tokens, k, device="cuda").to(kind)
    matrices = (torch.randn(experts, n, k, device="cuda") / 8).to(kind)
    slots = tokens * top
    chosen = torch.rand(tokens, experts, device="cuda").argsort(1)[:, :top]
    weights = torch.rand(slots, device="cuda")
    blocks = experts + slots // config.m
    order = torch.full((blocks * config.m,), slots, device="cuda", dtype=torch.int32)
    expert_of = torch.zeros(blocks, device="cuda", dtype=torch.int32)
    first = 0
    for expert in range(experts):
        mine = (chosen.flatten() == expert).nonzero().flatten()
        order[first * config.m : first * config.m + len(mine)] = mine.int()
        used = -(-len(mine) // config.m)
        expert_of[first : first + used] = expert
        first += used
    out = torch.full((slots, n), math.nan, device="cuda", dtype=kind)
    arguments = {"a": x, "b": matrices, "c": out, "order": order, "expert_of": expert_of,
                 "weights": weights, "n": n, "k": k, "tokens": slots}  # fmt: skip

    rows, columns = checks.sample(slots, 24), checks.sample(n, seed=1)
    tokens_of = [x[row // top].double() * float(weights[row]) for row in rows]
    matrices_of = [matrices[expert][columns].double().t() for expert in chosen.flatten()[rows]]
    exact, bound = checks.matmul(
        torch.stack(tokens_of)[:, None], torch.stack(matrices_of), _units(case)[0]
    )

    def fault() -> str | None:
        return checks.fault(out[rows][:, columns], exact[:, 0], bound[:, 0])

    def peer() -> Any:
        for expert in range(experts):
            torch.mm(x[: slots // experts], matrices[expert].t())

    return Data(arguments, peer, fault, 2.0 * slots * n * k)


def _exact_attention(case: Case, q: Any, k: Any, v: Any, rows: list[int]) -> tuple[Any, Any]:
    """Attention of [heads, t, d] at sampled rows, and the error bound."""
    unit, weights = _units(case)
    exact, bound = checks.attention(
        q[None], k[None], v[None], rows, causal=False, unit=unit, weights=weights
    )
    return exact[0], bound[0]


def _pages(torch: Any, case: Case, config: Config, kind: Any) -> Data:
    seqs, heads, rows, longest, d = case.sizes
    pages = longest // 16
    q = torch.randn(seqs, heads, rows, d, device="cuda").to(kind)
    kc, vc = (torch.randn(seqs * pages, 16, heads, d, device="cuda").to(kind) for _ in range(2))
    table = torch.randperm(seqs * pages, device="cuda").int().view(seqs, pages)
    lengths = torch.randint(longest // 2, longest + 1, (seqs,), device="cuda").int()
    out = torch.full_like(q, math.nan)
    arguments = {"q": q, "kc": kc, "vc": vc, "table": table, "lengths": lengths, "out": out,
                 "pages": pages, "scale": d**-0.5 * math.log2(math.e)}  # fmt: skip

    def reference_at(seq: int, head: int) -> tuple[Any, Any]:
        cached = (x[table[seq].long()].reshape(-1, heads, d)[: int(lengths[seq]), head, None]
                  for x in (kc, vc))  # fmt: skip
        keys, values = (x.transpose(0, 1) for x in cached)
        return _exact_attention(case, q[seq, head, None], keys, values, list(range(rows)))

    places = ((0, 0), (seqs // 2, heads - 1), (seqs - 1, 1))
    references = {place: reference_at(*place) for place in places}

    def fault() -> str | None:
        faults = (checks.fault(out[place][None], *pair) for place, pair in references.items())
        return next(filter(None, faults), None)

    return Data(arguments, None, fault, 4.0 * int(lengths.sum()) * heads * rows * d)


def _attention(torch: Any, case: Case, config: Config, kind: Any) -> Data:
    heads, n, d = case.sizes
    q, k, v = (torch.randn(heads, n, d, device="cuda").to(kind) for _ in range(3))
    out = torch.full_like(q, math.nan)
    arguments = {"q": q, "k": k, "v": v, "out": out, "n": n, "scale": d**-0.5 * math.log2(math.e)}

    some, rows = [0, heads - 1], checks.sample(n)
    exact, bound = _exact_attention(case, q[some], k[some], v[some], rows)

    def fault() -> str | None:
        return checks.fault(out[some][:, rows], exact, bound)

    peer = lambda: torch.nn.functional.scaled_dot_product_attention(  # noqa: E731
        q[None], k[None], v[None]
    )
    return Data(arguments, peer, fault, 4.0 * heads * n * n * d)


def measure_case(case: Case) -> dict[str, Any]:
    """Microseconds of all variants of `case` with correct results, and the errors of the others."""
    import timing

    triton = importlib.util.find_spec("triton") is not None
    row: dict[str, Any] = {"variants": {}}
    ours = [("wgmma", "sm_90a", x) for x in case.configs] + [("mma", "sm_90", case.configs[0])]
    pool = ThreadPoolExecutor(len(ours))
    modules = {x: module_of_case(case, x) for x in case.configs}
    built = {(way, x): pool.submit(compile_module, modules[x], x, chip) for way, chip, x in ours}
    calls: dict[str, Callable[[], Any]] = {}
    data_by_m: dict[int, Data] = {}
    for config in case.configs:
        data = data_by_m.setdefault(config.m, data_of(case, config))
        row["operations"] = data.operations
        launch = launch_of(case, config)
        variants = {
            f"{way} {config}": partial(_tileir, kernel, launch, data)
            for (way, x), kernel in built.items() if x == config
        }  # fmt: skip
        if triton:
            variants[f"triton {config}"] = partial(_triton, launch, data, config)
        for name, variant in variants.items():
            entry = row["variants"][name] = {}
            call = _checked_call(variant, data, entry)
            if call is not None:
                calls[name] = call
        if data.peer is not None:
            calls.setdefault("torch", data.peer)
            row["variants"].setdefault("torch", {})
    for name, spent in timing.measure(calls, ()).items():
        row["variants"][name]["us"] = spent
        row["variants"][name]["tflops"] = row["operations"] / spent / 1e6
    return row


Variant: TypeAlias = Callable[[], tuple[Callable[[], Any], dict[str, Any]]]
"""Gives a launch, and what is known of its kernel."""


def _checked_call(variant: Variant, data: Data, entry: dict[str, Any]) -> Callable[[], Any] | None:
    """The launch of a variant; None if its result is wrong or it fails, which is recorded in
    `entry`. Raises RuntimeError if the failure has ended the CUDA context."""
    import torch

    data.result.fill_(math.nan)
    try:
        call, resources = variant()
        entry |= resources
        call()
        torch.cuda.synchronize()
    except Exception as error:
        entry["failed"] = f"{type(error).__name__}: {error}"[:400]
        torch.cuda.synchronize()
        return None
    why = "elements are not written" if data.result.isnan().any() else data.fault()
    if why is not None:
        entry["failed"] = why
    return call if why is None else None


def _tileir(kernel: Future[Any], launch: Launch, data: Data) -> Any:
    """The launch of a kernel that is being compiled (a `Variant`)."""
    import torch

    from tileir.backend.driver.launch import LoadedKernel

    start = LoadedKernel(kernel.result())[launch.grid]
    values = list(_argument_values(launch, data))
    run = lambda: start(*values, stream=torch.cuda.current_stream().cuda_stream)  # noqa: E731
    return run, facts(kernel.result())


def _argument_values(launch: Launch, data: Data) -> Iterator[Any]:
    """The arguments in the order of the kernel's parameters."""
    from tileir.frontends import triton as ours
    from tileir.frontends.triton import language

    source = getattr(kernels_of(ours, language), launch.kernel).source
    return (data.arguments[p.arg] for p in source.parameters if p.arg not in launch.constants)


def _triton(launch: Launch, data: Data, config: Config) -> Any:
    """The launch of Triton's kernel (a `Variant`)."""
    import triton
    import triton.language

    kernel = getattr(kernels_of(triton, triton.language), launch.kernel)
    fixed = {k: v for k, v in launch.constants.items() if k not in data.arguments}
    named = {**data.arguments, **fixed, "num_warps": config.warps, "num_stages": config.stages}
    return lambda: kernel[launch.grid](**named), {}


# Processes ---------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--seconds", type=float, default=145.0, help="for everything")
    parser.add_argument("--only", default="", help="families or elements, with commas between them")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--child", type=int, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options.out, options.child)
    words = set(filter(None, options.only.split(",")))
    numbers = [i for i, x in enumerate(cases()) if not words or words & {x.family, x.element}]
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tree:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(importable_tree(Path(tree))), str(HERE)])
        if options.compile:
            return subprocess.run([sys.executable, "-c", _COMPILE], check=False).returncode
        rows = _all(options.out, numbers, time.monotonic() + options.seconds)
    (options.out / "any_addressing.json").write_text(json.dumps(rows, indent=1) + "\n")
    return _print_rows(rows)


_COMPILE = """
import any_addressing as a
for case in a.cases():
    for config in case.configs:
        kernel = a.compile_module(a.module_of_case(case, config), config, "sm_90a")
        print(case.name, config, a.facts(kernel), flush=True)
        for note in kernel.remarks:
            if note.code == "TIR0653":
                print("   ", note)
"""


def _all(folder: Path, numbers: list[int], end: float) -> dict[str, Any]:
    """The rows by name. A process measures cases until one crashes or takes too long; then another
    process continues."""
    rows: dict[str, Any] = {}
    left = list(numbers)
    while left and time.monotonic() < end - 5:
        for number in left:
            _row_of(folder, number).unlink(missing_ok=True)
        command = [sys.executable, "-P", __file__, "--out", str(folder), "--child", *map(str, left)]
        process = subprocess.Popen(command)
        done, begun = 0, time.monotonic()
        while process.poll() is None:
            time.sleep(0.1)
            ready = sum(_row_of(folder, n).exists() for n in left)
            if ready > done:
                done, begun = ready, time.monotonic()
            if time.monotonic() > end or time.monotonic() - begun > CASE_SECONDS:
                process.kill()
                process.wait()
        for number in left:
            path = _row_of(folder, number)
            if path.exists():
                rows[cases()[number].name] = json.loads(path.read_text())
        ready = [n for n in left if _row_of(folder, n).exists()]
        pending = [n for n in left if n not in ready]
        if pending:
            why = f"the process ended with {process.returncode}"
            rows[cases()[pending[0]].name] = {"variants": {}, "failed": why}
        left = pending[1:]
    for number in left:
        rows[cases()[number].name] = {"variants": {}, "failed": "no time was left"}
    return rows


def _row_of(folder: Path, number: int) -> Path:
    return folder / f"any_addressing.{number}.json"


def _child(folder: Path, numbers: list[int]) -> int:
    for number in numbers:
        row = measure_case(cases()[number])
        partial = folder / f"any_addressing.{number}.partial"
        partial.write_text(json.dumps(row))
        partial.rename(_row_of(folder, number))
    return 0


def _print_rows(rows: dict[str, Any]) -> int:
    """Print the rows. Returns 1 if a result of tileir is wrong or missing."""
    wrong = 0
    for name, row in rows.items():
        print(f"\n{name}: {row.get('failed', '')}")
        wrong += "failed" in row
        for variant, entry in row["variants"].items():
            bad = "failed" in entry
            wrong += bad and not variant.startswith(("triton", "torch"))
            spent = f"{entry['us']:9.1f} us {entry['tflops']:7.1f} TFLOP/s" if "us" in entry else ""
            used = " ".join(f"{k}={entry[k]}" for k in ("registers", "spills", "shared", "wgmma")
                            if k in entry)  # fmt: skip
            print(f"  {variant:26} {spent:34} {used} {entry.get('failed', '')}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
