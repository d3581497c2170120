"""Tests of the op by type by shape matrix: the SIMT simulator against the interpreter, assembly for
all targets, and runs on the GPU.

    python -m tileir.testing.matrix                 a fixed sample
    python -m tileir.testing.matrix --all           every cell; --out writes the table
    python -m tileir.testing.matrix --on gpu        on the GPU too, many kernels per module
    python -m tileir.testing.matrix --on cpu        as native code of this machine
    python -m tileir.testing.matrix --only fadd,exp
    python -m tileir.testing.matrix --variants      predicates, constant operands and promises, by
                                                    pairs; with --all in every combination
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import tileir
from tileir.errors import CompileError, TileirError
from tileir.op import Op, all_ops
from tileir.ops.matrix import SHAPES, cells
from tileir.testing.matrix_compare import differences
from tileir.testing.matrix_kernels import FOLLOWED, MatrixCase
from tileir.testing.matrix_variants import OPERANDS, Variant, all_variants, pairwise

WARPS = (1, 2, 4, 8)
TARGETS = ("sm_80", "sm_90")
BATCH = 128
"""Kernels per module of machine code."""
SAMPLE = 10
"""A sample is one cell of this many, and the first of every op at every shape."""


@attrs.define
class Tally:
    """The counts of the cells of one op."""

    cells: int = 0
    refused: int = 0
    equal: int = 0
    assembled: dict[str, int] = attrs.field(factory=dict)
    on_gpu: int = 0
    failures: list[str] = attrs.field(factory=list)

    def add(self, other: Tally) -> None:
        """Add the counts of `other`."""
        self.cells += other.cells
        self.refused += other.refused
        self.equal += other.equal
        self.on_gpu += other.on_gpu
        self.failures += other.failures
        for target, count in other.assembled.items():
            self.assembled[target] = self.assembled.get(target, 0) + count


def is_sampled(name: str, number: int, first: bool, every: bool) -> bool:
    """Whether a cell is in the fixed sample, which depends on the op's name and the cell's
    number."""
    return every or first or zlib.crc32(f"{name} {number}".encode()) % SAMPLE == 0


def cases(only: Sequence[str], every: bool) -> Iterator[MatrixCase]:
    """Yield the cells that the interpreter can run, each as a kernel with a unique name."""
    total = 0
    for kind in all_ops():
        if kind.mnemonic.startswith("gpu.") or (only and kind.mnemonic not in only):
            continue
        number = 0
        for shape in SHAPES:
            for index, op in enumerate(cells(kind, shape)):
                number += 1
                if is_sampled(kind.mnemonic, number, index == 0, every) and _means_something(op):
                    total += 1
                    yield MatrixCase(op, number, f"cell{total}")


def variant_cases(only: Sequence[str], every: bool) -> Iterator[MatrixCase]:
    """Yield uses of ops. For each op there are variants with every pair of a predicate, constant
    operands and a promise, each on one cell; with `every`, all variants on all cells."""
    total = 0
    for kind in all_ops():
        if kind.mnemonic.startswith("gpu.") or (only and kind.mnemonic not in only):
            continue
        followed = FOLLOWED.get(kind.mnemonic, ())
        ops = [op for shape in SHAPES for op in cells(kind, shape) if _means_something(op)]
        for number, (op, variant) in enumerate(_uses(ops, followed, every)):
            total += 1
            yield MatrixCase(op, number, f"use{total}", variant=variant)


def _uses(ops: list[Op], followed: Sequence[str], every: bool) -> Iterator[tuple[Op, Variant]]:
    """Yield pairs of a cell and a variant."""
    if every:
        yield from ((op, variant) for op in ops for variant in all_variants(op, followed))
        return
    if not ops:
        return
    most = max(ops, key=lambda op: len(all_variants(op, followed)))
    names = {name for name, value in _operands(most).items() if value}
    alike = [op for op in ops if {n for n, v in _operands(op).items() if v} == names]
    for variant in pairwise(most, followed):
        yield alike[zlib.crc32(f"{most.mnemonic} {variant}".encode()) % len(alike)], variant


def _operands(op: Op) -> dict[str, Any]:
    return {f.name: getattr(op, f.name) for f in op.fields() if f.kind in OPERANDS}


def _means_something(op: Op) -> bool:
    """Whether the cell is meaningful: a function of libdevice supports only its own types."""
    from tileir.backend.codegen.rules.math import libdevice  # naming cells needs no LLVM

    return op.mnemonic != "extern_elementwise" or libdevice(op) is not None


def interpreter_results(case: MatrixCase) -> list[Any]:
    """The contents of the arguments after a run of the interpreter."""
    arguments = case.arguments()
    tileir.interpret(case.module(), case.kernel, (1,), arguments, allow_undef=True)
    return arguments


def simt_difference(case: MatrixCase, warps: int) -> str:
    """The difference between the SIMT simulator and the interpreter, "" if there is none. The
    number of the cell selects the target."""
    from tileir.backend.executors import SimtExecutor

    arguments = case.arguments()
    target = TARGETS[case.number // len(WARPS) % len(TARGETS)]
    SimtExecutor().launch(case.module(), case.kernel, 1, arguments, num_warps=warps, target=target)
    return differences(case, interpreter_results(case), arguments)


def cpu_difference(case: MatrixCase) -> str:
    """The difference between native code of this machine's CPU and the interpreter, "" if there is
    none."""
    from tileir.backend.cpu.executor import CpuExecutor

    arguments = case.arguments()
    options = {"opt_level": 1, "threads": 1, "output": []}
    CpuExecutor().launch(case.module(), case.kernel, 1, arguments, **options)
    return differences(case, interpreter_results(case), arguments)


def warps_of(case: MatrixCase) -> int:
    """The number of warps of a cell that is run with a single number of warps."""
    return WARPS[case.number % len(WARPS)]


def check(case: MatrixCase, tally: Tally, warps: Sequence[int], cpu: bool = False) -> None:
    """Check one cell in the SIMT simulator, with each number of warps, and as native code if
    `cpu`."""
    tally.cells += 1
    try:
        result = [f"{n} warps: {d}" for n in warps if (d := simt_difference(case, n))]
        result += [f"cpu: {d}"] if cpu and (d := cpu_difference(case)) else []
    except CompileError as error:
        tally.refused += 1
        result = [str(error).splitlines()[0]]
    except (TileirError, AssertionError) as error:
        result = [f"{type(error).__name__}: {error}"]
    tally.equal += not result
    tally.failures += [f"{case.name}: {text}" for text in result[:1]]


def assemble(batch: Sequence[MatrixCase], tallies: dict[str, Tally], target: str) -> list[Any]:
    """Compile a batch for `target` and count the cells that assemble. If the batch does not
    assemble, its halves are tried, down to the kernels that cause the failure. Returns the machine
    code of the parts."""
    from tileir.backend.compile import Options
    from tileir.backend.driver.batch import compile_batch

    options = [Options(num_warps=warps_of(c)) for c in batch]
    try:
        result = compile_batch([c.module() for c in batch], target, options)
        assert not result.plans or len(result.machine_code.cubin) > 0
    except CompileError as error:
        if len(batch) == 1:
            text = f"{batch[0].name} for {target}: {str(error)[:300]}"
            tallies[batch[0].op.mnemonic].failures.append(text)
            return []
        middle = len(batch) // 2
        parts = (batch[:middle], batch[middle:])
        return [assembled for part in parts for assembled in assemble(part, tallies, target)]
    for case in batch:
        counts = tallies[case.op.mnemonic].assembled
        counts[target] = counts.get(target, 0) + (case.kernel in result.plans)
    return [result]


def on_gpu(batch: Sequence[MatrixCase], tallies: dict[str, Tally]) -> None:
    """Run a batch on the GPU and count the cells whose results are correct."""
    from tileir.backend.driver.batch import Loaded
    from tileir.backend.executors import gpu_target

    for loaded in map(Loaded, assemble(batch, tallies, gpu_target())):
        for case in (c for c in batch if c.kernel in loaded.batch.plans):
            arguments = case.arguments()
            loaded.launch(case.kernel, (1,), arguments)
            text = differences(case, interpreter_results(case), arguments)
            tally = tallies[case.op.mnemonic]
            tally.on_gpu += not text
            tally.failures += [f"{case.name} on the GPU: {text}"] if text else []


def campaign(arguments: argparse.Namespace) -> dict[str, Tally]:
    """Check every selected cell by all requested methods, in several processes if requested."""
    if arguments.jobs == 1:
        return share(arguments, 0)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        parts = list(pool.map(share, [arguments] * arguments.jobs, range(arguments.jobs)))
    tallies: dict[str, Tally] = {}
    for part in parts:
        for name, tally in part.items():
            tallies.setdefault(name, Tally()).add(tally)
    return tallies


def share(arguments: argparse.Namespace, part: int) -> dict[str, Tally]:
    """Check the cells of process number `part`."""
    tallies: dict[str, Tally] = {}
    batch: list[MatrixCase] = []
    start = time.monotonic()
    only = [n for n in arguments.only.split(",") if n]
    source = variant_cases if arguments.variants else cases
    mine = itertools.islice(source(only, arguments.all), part, None, arguments.jobs)
    for count, case in enumerate(mine, 1):
        tally = tallies.setdefault(case.op.mnemonic, Tally())
        warps = WARPS if arguments.all_warps else (warps_of(case),)
        if "simt" in arguments.on or "cpu" in arguments.on:
            check(case, tally, warps if "simt" in arguments.on else (), "cpu" in arguments.on)
        else:
            tally.cells += 1
        batch.append(case)
        if len(batch) == BATCH:
            _finish(batch, tallies, arguments)
            batch = []
        if count % 1000 == 0:
            sys.stderr.write(f"{count} cells, {time.monotonic() - start:.0f} s\n")
    if batch:
        _finish(batch, tallies, arguments)
    return tallies


def _finish(
    batch: list[MatrixCase], tallies: dict[str, Tally], arguments: argparse.Namespace
) -> None:
    if "assemble" in arguments.on:
        for target in TARGETS:
            assemble(batch, tallies, target)
    if "gpu" in arguments.on:
        on_gpu(batch, tallies)


def table(tallies: dict[str, Tally]) -> str:
    """The counts of every op as JSON, one line per op."""
    lines = (f' "{name}": {json.dumps(_row(tally))}' for name, tally in sorted(tallies.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _row(tally: Tally) -> dict[str, int]:
    counts = {"cells": tally.cells, "agree": tally.equal, **tally.assembled}
    return counts | ({"on_gpu": tally.on_gpu} if tally.on_gpu else {})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 if a cell fails."""
    parser = argparse.ArgumentParser(prog="tileir.testing.matrix", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every cell, not a sample")
    parser.add_argument(
        "--variants", action="store_true", help="predicates, constant operands and promises, too"
    )
    parser.add_argument("--all-warps", action="store_true", help="every number of warps per cell")
    parser.add_argument("--only", default="", help="mnemonics, with commas between")
    parser.add_argument("--on", default="simt,assemble", help="of simt, cpu, assemble, gpu")
    parser.add_argument("--jobs", type=int, default=1, help="processes, without a GPU")
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    arguments = parser.parse_args(argv)
    with np.errstate(all="ignore"):
        tallies = campaign(arguments)
    if arguments.out:
        arguments.out.write_text(table(tallies))
    failures = [text for tally in tallies.values() for text in tally.failures]
    sys.stdout.write("".join(f"{text}\n" for text in failures[:100]))
    total = sum(t.cells for t in tallies.values())
    equal = sum(t.equal for t in tallies.values())
    sys.stdout.write(f"{total} cells, {equal} agree, {len(failures)} failures\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
