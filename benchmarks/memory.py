"""Benchmark of memory-bound kernels against torch, torch.compile and Triton, on one GPU in one run.

    python benchmarks/memory.py [--out FILE.json] [--only NAME ...] [--tune] [--no-compile]

`--only` takes names, or names with a shape: `softmax:128x65536`. Lines that are already in `--out`
stay there, each with the commit it was measured on.

Every result is checked against a float64 reference on random inputs; outputs are poisoned before.
`timing.py` describes the measurement. `peer` is the ratio to the fastest peer: above 1, tileir is
faster. `of copy` is the bandwidth of tileir relative to that of a device-to-device copy. `--tune`
tries more configurations than the model's choice.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import checks
import memory_kernels as ours
import memory_peers as peers
import merge
import timing
import torch
import triton

import tileir
import tileir.backend
from tileir.backend import Options
from tileir.backend.driver.launch import LoadedKernel
from tileir.builder import BF16, F32
from tileir.ir import Module

WAVE = 132 * 64
"""Warps that an H200 runs at once."""
STREAMED, KEPT = ours.Policy("first", "first"), ours.Policy("last")
SQUARE, WIDE = (16384, 16384), (128, 65536)
SOFTMAXES = ((583, 931), (1823, 781), (4096, 1024), (16384, 512), (2048, 32768), (8192, 4096))
ELEMENTS = {torch.float32: F32, torch.bfloat16: BF16}


@attrs.frozen
class Config:
    """A configuration of a kernel: `size` rows or elements, `warps`, at most `registers` per
    thread, the eviction `policy` of loads and stores. A `width` that is not 0 is the number of
    elements per iteration of a loop over a row."""

    size: int
    warps: int
    registers: int | None = None
    policy: ours.Policy = ours.USUAL
    width: int = 0

    def __str__(self) -> str:
        limit = f" r{self.registers}" if self.registers else ""
        policy = "" if self.policy == ours.USUAL else f" {self.policy.read}/{self.policy.write}"
        return f"{self.size} w{self.warps}{limit}{policy}{f' in {self.width}' * bool(self.width)}"


@attrs.frozen
class Row:
    """One row of the table. `ours` returns the module and the grid of a configuration; `triton`
    contains calls that fill an output, with the arguments (output, inputs); `plain` is torch's
    function of the inputs."""

    name: str
    shape: tuple[int, ...]
    inputs: Callable[[], list[torch.Tensor]]
    output: tuple[int, ...]
    configs: list[Config]
    ours: Callable[[Config], tuple[Module, tuple[int, ...]]]
    triton: dict[str, Callable[..., Any]]
    plain: Callable[..., torch.Tensor]
    dtype: torch.dtype = torch.float32
    numbers: tuple[float, ...] = ()


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


# Rows of the table -------------------------------------------------------------------------------


def table() -> Iterator[Row]:
    """Yield every row."""
    for shape in (SQUARE, WIDE):
        yield from flat_rows(shape)
        yield from norm_rows(shape)
        yield from loss_rows(shape)
        yield softmax_row(shape, torch.float32)
    yield group_row(32, 256, 32, 4096)
    for shape in SOFTMAXES:
        for dtype in (torch.float32, torch.bfloat16):
            yield softmax_row(shape, dtype)


def flat_rows(shape: tuple[int, int]) -> Iterator[Row]:
    rows, columns = shape
    count = rows * columns
    small = Config(1024, 2), Config(512, 2), Config(1024, 4)
    configs = [*small] if count < 1 << 26 else [Config(1024, 8), Config(512, 4), Config(1024, 4)]
    for name in ("geglu", "swiglu"):
        make = getattr(ours, name)
        yield Row(
            name, shape, lambda: [normal(*shape), normal(*shape)], shape, configs,
            lambda c, make=make: (make(count, c.size), (-(-count // c.size),)),
            {
                f"triton {block} w{warps}": lambda y, a, c, block=block, warps=warps, name=name: (
                    peers.triton_flat[(triton.cdiv(count, block),)](
                        y, a, c, count, GELU=name == "geglu", BLOCK=block, num_warps=warps))
                for block, warps in ((1024, 4), (2048, 8))
            },
            getattr(peers, name),
        )  # fmt: skip
    yield Row(
        "dyt", shape, lambda: [normal(*shape), normal(columns), normal(columns)], shape,
        [Config(4, 4), Config(2, 4)] if count < 1 << 26 else [Config(2, 4), Config(1, 4)],
        lambda c: (
            ours.dyt(rows, columns, c.size, 256 * c.warps),
            (-(-columns // (256 * c.warps)), rows // c.size),
        ),
        {
            f"triton {block}": lambda y, x, w, v, alpha, block=block: (
                peers.triton_dyt[(triton.cdiv(columns, block), rows)](
                    y, x, w, v, alpha, columns, BLOCK=block))
            for block in (1024, 4096)
        },
        peers.dyt, numbers=(0.5,),
    )  # fmt: skip


def norm_rows(shape: tuple[int, int]) -> Iterator[Row]:
    rows, columns = shape
    for name, centred in (("rms_norm", False), ("layer_norm", True)):
        make, bias = getattr(ours, name), 1 + centred
        kernel = peers.triton_norm if columns <= 16384 else peers.triton_norm_looped
        block = columns if columns <= 16384 else 8192

        def call(y: Any, x: Any, w: Any, *v: Any, k: Any = kernel, c: bool = centred,
                 block: int = block, warps: int = 16) -> None:  # fmt: skip
            k[(rows,)](y, x, w, *(v or (w,)), columns, 1e-5 if c else 1e-6, CENTRED=c,
                       BLOCK=block, num_warps=warps)  # fmt: skip

        yield Row(
            name, shape,
            lambda bias=bias: [normal(*shape), *(normal(columns) for _ in range(bias))], shape,
            norm_configs(rows, columns, centred),
            lambda c, make=make, centred=centred: (
                ours.norm_looped(rows, columns, c.width, centred) if c.width
                else make(rows, columns, c.size, c.policy), (-(-rows // c.size),)),
            {f"triton w{w}": lambda *a, call=call, w=w: call(*a, warps=w) for w in (16, 32)},
            getattr(peers, name),
        )  # fmt: skip


def loss_rows(shape: tuple[int, int]) -> Iterator[Row]:
    rows, columns = shape
    for name in ("tvd", "kl_div"):
        make = getattr(ours, name)

        def inputs(name: str = name) -> list[torch.Tensor]:
            p, q = torch.softmax(normal(*shape), 1), torch.softmax(normal(*shape), 1)
            return [p.log(), q] if name == "kl_div" else [p, q]

        yield Row(
            name, shape, inputs, (rows,), row_configs(rows, columns, writes=False),
            lambda c, make=make: (make(rows, columns, c.size, c.policy), (-(-rows // c.size),)),
            {
                f"triton {block} w{w}": lambda y, a, c, block=block, w=w, name=name: (
                    peers.triton_loss[(rows,)](
                        y, a, c, columns, KL=name == "kl_div", BLOCK=block, num_warps=w))
                for block, w in ((4096, 8), (8192, 16))
            },
            getattr(peers, name),
        )  # fmt: skip


def softmax_row(shape: tuple[int, int], dtype: torch.dtype) -> Row:
    rows, columns = shape
    looped = columns > 32768
    kernel = peers.triton_softmax_looped if looped else peers.triton_softmax
    block = 8192 if looped else triton.next_power_of_2(columns)
    return Row(
        "softmax", shape, lambda: [normal(*shape, dtype=dtype)], shape,
        row_configs(rows, columns, dtype.itemsize),
        lambda c: (
            ours.softmax(rows, columns, c.size, c.policy, ELEMENTS[dtype]),
            (-(-rows // c.size),),
        ),
        {
            f"triton w{w}": lambda y, x, w=w: (
                kernel[(rows,)](y, x, columns, BLOCK=block, num_warps=w))
            for w in (4, 8, 16, 32) if block >= 64 * w
        } or {"triton w1": lambda y, x: kernel[(rows,)](y, x, columns, BLOCK=block, num_warps=1)},
        peers.softmax, dtype,
    )  # fmt: skip


def group_row(images: int, channels: int, groups: int, area: int) -> Row:
    shape = (images, channels, area)
    each = channels // groups
    return Row(
        "group_norm", shape, lambda: [normal(*shape), normal(channels), normal(channels)], shape,
        [Config(1, 16), Config(1, 32)],
        lambda c: (ours.group_norm(channels, groups, area), (images * groups,)),
        {
            f"triton w{warps}": lambda y, x, w, v, warps=warps: (
                peers.triton_group_norm[(images * groups,)](
                    y, x, w, v, 1e-5, GROUPS=groups, EACH=each, AREA=area, num_warps=warps))
            for warps in (16, 32)
        },
        peers.group_norm(groups),
    )  # fmt: skip


def row_configs(rows: int, columns: int, size: int = 4, writes: bool = True) -> list[Config]:
    """Configurations for rows of elements of `size` bytes, which are written too if `writes`, the
    model's choice first: 32 elements a thread where rows are many, fewer where they are few and
    latency counts; short rows side by side.

    Where all rows are read at once, each line is needed once and shall displace no other; where
    long rows are read and written wave by wave, what is read stays until what was written left."""
    each = 32 if rows >= 4096 else 16 if rows >= 1024 else 8
    warps = min(4 * size, max(1, 1 << max(0, round(math.log2(columns / (32 * each))))))
    block = 2 if columns <= 512 and rows >= 4096 else 1
    policy = ours.USUAL
    if rows * warps <= WAVE:
        policy = STREAMED
    elif columns >= 4096 and writes:
        policy = KEPT
    configs = [Config(block, block * warps, policy=policy), Config(block, block * warps)]
    for other in (2 * warps, warps // 2):
        if 1 <= other <= 32:
            configs.append(Config(1, other, policy=policy))
    return list(dict.fromkeys(configs))


def norm_configs(rows: int, columns: int, centred: bool) -> list[Config]:
    """Configurations as in `row_configs`. For many rows of 16384, a norm of one reduction loops
    over a row twice, and a norm of two keeps the row in registers and leaves space for two
    instances."""
    if rows * 16 <= WAVE:
        return row_configs(rows, columns)
    limit = 64 if centred else None
    looped = [Config(1, 16, width=8192), Config(1, 32, 32, width=4096),
              Config(1, 32, 32, width=8192), Config(1, 32, width=4096)]  # fmt: skip
    configs = [Config(1, 16, limit, KEPT), Config(1, 16, limit)]
    return configs + looped if centred else looped + configs


# Measuring them --------------------------------------------------------------------------------


def variants(row: Row, tune: bool, compiled: bool) -> dict[str, Callable[..., torch.Tensor]]:
    """Functions by name. Each takes (output, inputs) and returns the output that it filled."""
    calls: dict[str, Callable[..., torch.Tensor]] = {}
    for place, config in enumerate(row.configs if tune else row.configs[:1]):
        name = f"tileir {config}" if place else "tileir"
        try:
            calls[name] = mine(row, config)
        except tileir.TileirError as error:
            print(f"  {name} on {row.name}: {error}")
    return calls | others(row, compiled)


def others(row: Row, compiled: bool) -> dict[str, Callable[..., torch.Tensor]]:
    """The functions of the peers, as `variants`."""
    calls: dict[str, Callable[..., torch.Tensor]] = {}
    for name, call in row.triton.items():
        calls[name] = lambda y, *a, call=call: (call(y, *a, *row.numbers), y)[1]
    calls["torch"] = lambda y, *a: row.plain(*a, *row.numbers)
    if compiled:
        torch._dynamo.reset()
        function = torch.compile(row.plain, mode="max-autotune-no-cudagraphs", dynamic=False)
        calls["compile"] = lambda y, *a: function(*a, *row.numbers)
    return calls


def mine(row: Row, config: Config) -> Callable[..., torch.Tensor]:
    """The function of a configuration of tileir, as `variants`. Raises TileirError if it does not
    compile."""
    module, grid = row.ours(config)
    options = Options(num_warps=config.warps, max_registers=config.registers)
    compiled = tileir.backend.compile(module, options=options)
    launch = LoadedKernel(compiled)[grid]

    def call(y: torch.Tensor, *a: torch.Tensor) -> torch.Tensor:
        launch(y, *a, *row.numbers, stream=torch.cuda.current_stream().cuda_stream)
        return y

    return call


def wrong(row: Row, call: Callable[..., torch.Tensor]) -> str | None:
    """The error of a result on fresh inputs, or None."""
    inputs = row.inputs()
    poisoned = torch.full(row.output, float("nan"), device="cuda", dtype=row.dtype)
    try:
        result = call(poisoned, *inputs)
        torch.cuda.synchronize()
    except Exception as error:  # a peer may raise any exception
        return f"{type(error).__name__}: {str(error)[:120]}"
    if not result.isfinite().all():
        return "elements are not written"
    rows = checks.sample(len(inputs[0]))
    part = [x[rows] if x.ndim == inputs[0].ndim else x for x in inputs]
    exact = checks.host(row.plain(*(x.double() for x in part), *row.numbers))
    relative = 2 * checks.UNITS["bf16"] if row.dtype is torch.bfloat16 else 2e-5
    return checks.fault(result[rows], exact, relative * abs(exact) + 1e-6)


def line(row: Row, copy: float, tune: bool, compiled: bool) -> dict[str, Any]:
    """One row of the table: microseconds of every variant with correct results, and the ratios."""
    calls = variants(row, tune, compiled)
    bad = {name: why for name, call in calls.items() if (why := wrong(row, call))}
    inputs = row.inputs()
    y = torch.empty(row.output, device="cuda", dtype=row.dtype)
    times = timing.measure({n: c for n, c in calls.items() if n not in bad}, (y, *inputs))
    moved = sum(x.nbytes for x in inputs) + y.nbytes
    mine = {n: t for n, t in times.items() if n.startswith("tileir")}
    peers = {n: t for n, t in times.items() if not n.startswith("tileir")}
    peer = min(peers, key=lambda n: peers[n])
    best = min(mine, key=lambda n: mine[n], default="none")
    chosen = times.get("tileir", float("inf"))
    return {
        "name": row.name, "shape": row.shape, "dtype": str(row.dtype).removeprefix("torch."),
        "microseconds": times, "wrong": bad, "peer": peer, "best": best,
        "terabytes_per_second": moved / chosen / 1e6, "of_copy": moved / chosen / 1e6 / copy,
        "ratio": peers[peer] / chosen, "ratio_best": peers[peer] / mine.get(best, float("inf")),
    }  # fmt: skip


def copy_bandwidth() -> float:
    """Terabytes per second of a device-to-device copy of 1 GiB, counting reads and writes."""
    x = torch.empty(1 << 28, device="cuda")
    y = torch.empty_like(x)
    seconds = timing.measure({"copy": lambda y, x: y.copy_(x)}, (y, x))["copy"]
    return 2 * x.nbytes / seconds / 1e6


def versions() -> dict[str, str]:
    """The GPU, the versions, the commit and the date."""
    here = Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True)
    return {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "triton": triton.__version__, "tileir": tileir.__version__,
        "commit": commit.stdout.strip() or "unknown", "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip


def key(name: str, shape: Sequence[int]) -> str:
    return f"{name}:{'x'.join(map(str, shape))}"


def write(path: Path, where: dict[str, Any], lines: list[dict[str, Any]]) -> None:
    """Merge `lines` into those of the file `path`."""
    old = json.loads(path.read_text()) if path.exists() else {"lines": []}
    content = merge.merge_rows(old, {**where, "lines": lines}, where["commit"])
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> int:
    """Measure the table. The exit status states whether every result of tileir was correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    parser.add_argument("--only", nargs="*", help="lines to run")
    parser.add_argument("--tune", action="store_true", help="try every configuration")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile")
    options = parser.parse_args()
    copy = copy_bandwidth()
    print(f"copy: {copy:.2f} TB/s")
    print(f"{'':10} {'shape':>16} {'us':>8} {'TB/s':>5} {'of copy':>7} {'/peer':>6} {'best':>6}")
    lines, where = [], {**versions(), "copy": copy}
    for row in table():
        if options.only and not {row.name, key(row.name, row.shape)}.intersection(options.only):
            continue
        entry = line(row, copy, options.tune, not options.no_compile)
        lines.append({**entry, **{k: where[k] for k in ("commit", "copy")}})
        shape = "x".join(map(str, row.shape)) + " " + entry["dtype"].replace("float", "f")
        print(
            f"{row.name:10} {shape:>16} {entry['microseconds'].get('tileir', float('nan')):8.2f} "
            f"{entry['terabytes_per_second']:5.2f} {entry['of_copy']:7.3f} {entry['ratio']:6.3f} "
            f"{entry['ratio_best']:6.3f} {entry['best']} | {entry['peer']} "
            f"{entry['wrong'] or ''}",
            flush=True,
        )
        if options.out:
            write(Path(options.out), where, lines)
    return any(name.startswith("tileir") for each in lines for name in each["wrong"])


if __name__ == "__main__":
    sys.exit(main())
