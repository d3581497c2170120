"""Registers per thread by tileir and by Triton, for the same kernels and the same assemblers.

    python benchmarks/registers.py [--out FILE.json]

Needs Triton, but no GPU. The PTX of both compilers is assembled by Triton's `ptxas` and by
nvJitLink, for sm_90a. Both compilers know that `n` is a multiple of 16. A cell is
`registers/spilled bytes`.
"""
# ruff: noqa: ANN001, ANN201

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]
from triton.compiler import ASTSource  # type: ignore[import-not-found]

import tileir.backend
from tileir.backend.assembler import assemble
from tileir.backend.target import target
from tileir.builder import F16, F32, I32, Builder, arg, pointer
from tileir.ir import Module

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
SIZE = arg(I32, multiple_of=16)


@triton.jit
def triton_add(x, y, z, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < n
    tl.store(z + place, tl.load(x + place, mask=mask) + tl.load(y + place, mask=mask), mask=mask)


@triton.jit
def triton_softmax(y, x, stride_y, stride_x, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < n
    value = tl.load(x + row * stride_x + column, mask=mask, other=-float("inf"))
    top = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * stride_y + column, top / tl.sum(top, axis=0), mask=mask)


@triton.jit
def triton_layer_norm(y, x, w, v, n, epsilon, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    place, mask = tl.program_id(0) * n + column, column < n
    value = tl.load(x + place, mask=mask, other=0.0)
    centred = tl.where(mask, value - tl.sum(value, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + epsilon)
    result = centred * scale * tl.load(w + column, mask=mask) + tl.load(v + column, mask=mask)
    tl.store(y + place, result, mask=mask)


@triton.jit
def triton_matmul(a, b, c, m, n, k, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, 32):
        along = start + tl.arange(0, 32)
        left_in = (i[:, None] < m) & (along[None, :] < k)
        left = tl.load(a + i[:, None] * k + along[None, :], mask=left_in, other=0.0)
        right_in = (along[:, None] < k) & (j[None, :] < n)
        right = tl.load(b + along[:, None] * n + j[None, :], mask=right_in, other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * n + j[None, :], acc, mask=(i[:, None] < m) & (j[None, :] < n))


def add(block: int) -> Module:
    b, data = Builder(), arg(pointer(F32), aligned=16)
    with b.kernel("add", x=data, y=data, z=data, n=SIZE) as (x, y, z, n):
        place = b.program_id(axis=0) * block + b.arange(block)
        mask = place < n
        (z + place).store((x + place).load(mask) + (y + place).load(mask), mask)
    return b.module()


def softmax(block: int) -> Module:
    b, data = Builder(), arg(pointer(F32), aligned=16)
    sizes = dict.fromkeys(("stride_y", "stride_x", "n"), SIZE)
    with b.kernel("softmax", y=data, x=data, **sizes) as (y, x, stride_y, stride_x, n):
        row, column = b.program_id(axis=0), b.arange(block)
        value = (x + row * stride_x + column).load(column < n, float("-inf"))
        top = (value - value.max(axis=0)).exp(fast="approx")
        total = b.splat(top.sum(axis=0), to=top.type)
        (y + row * stride_y + column).store(b.fdiv(top, total, fast="approx"), column < n)
    return b.module()


def layer_norm(block: int) -> Module:
    b, data = Builder(), arg(pointer(F32), aligned=16)
    data_of = dict.fromkeys("yxwv", data)
    with b.kernel("layer_norm", **data_of, n=SIZE, epsilon=F32) as (y, x, w, v, n, epsilon):
        column, count = b.arange(block), n.to(F32)
        place, mask = b.program_id(axis=0) * n + column, column < n
        value = (x + place).load(mask, 0.0)
        mean = b.fdiv(value.sum(axis=0), count, fast="approx")
        centred = b.select(mask, value - mean, 0.0)
        variance = b.fdiv((centred * centred).sum(axis=0), count, fast="approx")
        scale = (variance + epsilon).rsqrt(fast="approx")
        result = centred * scale * (w + column).load(mask) + (v + column).load(mask)
        (y + place).store(result, mask)
    return b.module()


def matmul(block: int) -> Module:
    b, data = Builder(), arg(pointer(F16), aligned=16)
    sizes = dict.fromkeys("mnk", SIZE)
    out = arg(pointer(F32), aligned=16)
    with b.kernel("matmul", a=data, b=data, c=out, **sizes) as (x, y, z, m, n, k):
        i = b.program_id(axis=0) * block + b.arange(block)
        j = b.program_id(axis=1) * block + b.arange(block)
        step, acc = b.arange(32), b.var(b.zeros((block, block)), name="acc")
        with b.for_(0, k, 32) as start:
            along = start + step
            left = (x + i[:, None] * k + along).load((i[:, None] < m) & (along < k), 0.0)
            right = (y + along[:, None] * n + j).load((along[:, None] < k) & (j < n), 0.0)
            acc.set(left.dot(right, acc))
        (z + i[:, None] * n + j).store(acc, (i[:, None] < m) & (j < n))
    return b.module()


@attrs.frozen
class Case:
    """A kernel in both languages, for tiles of `block` on `warps`."""

    name: str
    ours: Callable[[int], Module]
    triton: Any
    element: str
    block: int
    warps: int


def cases() -> Iterator[Case]:
    rows = (("add", add, triton_add), ("softmax", softmax, triton_softmax),
            ("layer_norm", layer_norm, triton_layer_norm))  # fmt: skip
    for name, ours, theirs in rows:
        for block in (1024, 2048, 4096):
            for warps in (4, 8):
                yield Case(name, ours, theirs, "fp32", block, warps)
    yield Case("matmul 32", matmul, triton_matmul, "fp16", 128, 4)


def triton_ptx(case: Case) -> str:
    names = case.triton.arg_names
    kinds = dict.fromkeys("abxywv", f"*{case.element}")
    kinds |= {"c": "*fp32", "z": "*fp32", "epsilon": "fp32", "BLOCK": "constexpr"}
    signature = {n: kinds.get(n, "i32") for n in names}
    even = [i for i, n in enumerate(names) if n not in ("BLOCK", "epsilon")]
    source = ASTSource(
        case.triton, signature, {(names.index("BLOCK"),): case.block},
        {(i,): [["tt.divisibility", 16]] for i in even},
    )  # fmt: skip
    machine = GPUTarget("cuda", 90, 32)
    return triton.compile(source, target=machine, options={"num_warps": case.warps}).asm["ptx"]


def by_ptxas(ptx: str) -> tuple[int, int]:
    """Registers and spilled bytes by Triton's assembler."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(ptx)
        file.flush()
        command = [PTXAS, "-v", "-arch=sm_90a", file.name, "-o", "/dev/null"]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    counts = (re.search(p, log) for p in (r"Used (\d+) registers", r"(\d+) bytes spill stores"))
    used, spilled = (0 if match is None else int(match[1]) for match in counts)
    return used, spilled


def by_nvjitlink(ptx: str) -> tuple[int, int]:
    """Registers and spilled bytes by nvJitLink."""
    assembled = assemble(ptx, "kernel", target("sm_90a"))
    return assembled.registers, assembled.spills


def line(case: Case) -> dict[str, Any]:
    compiled = tileir.backend.compile(case.ours(case.block), options={"num_warps": case.warps})
    texts = {"tileir": compiled.ptx, "triton": triton_ptx(case)}
    result: dict[str, Any] = {"name": case.name, "block": case.block, "warps": case.warps}
    for compiler, ptx in texts.items():
        result[compiler] = {"ptxas": by_ptxas(ptx), "nvjitlink": by_nvjitlink(ptx)}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write every figure there, as JSON")
    options = parser.parse_args()
    lines = []
    for case in cases():
        lines.append(line(case))
        shown = (
            f"{'/'.join(map(str, lines[-1][compiler][assembler])):>8}"
            for assembler in ("ptxas", "nvjitlink")
            for compiler in ("tileir", "triton")
        )
        print(f"{case.name:10} {case.block:5} w{case.warps}", *shown, flush=True)
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"triton": triton.__version__, "lines": lines}, file, indent=1)


if __name__ == "__main__":
    main()
