"""Benchmark of layout conversions through shared memory on one GPU, compared with the counted
wavefronts.

    python benchmarks/conversions.py [--out FILE.json]

A kernel converts a tile from a row-major to a column-major layout and back in a loop, with several
blocks on a multiprocessor, so that shared memory is the bottleneck: a wavefront takes a cycle. The
table has the cycles of a multiprocessor for the two conversions, the wavefronts counted from
addresses, and the number of bank conflicts among them: once with the computed swizzle, which has
none, and once without a swizzle (LLVM then makes some accesses wider than counted). The counts are
confirmed if the cycles are close to them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from typing import Any

import torch

from tileir.backend.compile import CompiledKernel, compile as compile_module
from tileir.backend.driver.launch import LoadedKernel
from tileir.backend.metadata import metadata_of
from tileir.backend.nvptx.emit import KernelUnit, emit
from tileir.backend.nvptx.llvm_codegen import to_ptx
from tileir.backend.shared_memory import conversion_staging as stagings, swizzle as swizzles
from tileir.backend.shared_memory.allocate import allocate_function
from tileir.backend.shared_memory.bank_conflicts import conflicts, wavefronts
from tileir.backend.shared_memory.barriers import insert_barriers_into
from tileir.backend.shared_memory.conversion_plan import conversion
from tileir.backend.shared_memory.requirements import SharedMemoryPlan
from tileir.backend.shared_memory.swizzle import Columns, Swizzle, swizzle
from tileir.backend.target import target
from tileir.layout_tilings import blocked_layout
from tileir.textual import parse

TILES = (("f32", 4, (64, 64)), ("f16", 2, (128, 64)), ("i8", 1, (128, 128)))
WARPS, BLOCKS, ITERATIONS, REPETITIONS = 4, 4, 400, 5

TEXT = """tir 1.0
stage "layouts"
#rows = {rows}
#columns = {columns}
define kernel void @convert({element}* aligned(16) %x, i32 %n) {{num_warps = {warps}}} {{
entry:
  %i = make_range i32<{m}, {i}>
  %j = make_range i32<{n}, {j}>
  %r = expand_dims i32<{m}, 1, {i1}> %i {{axis = 1}}
  %c = expand_dims i32<1, {n}, {j1}> %j {{axis = 0}}
  %rs = mul i32<{m}, 1, {i1}> %r, {n}
  %a = broadcast i32<{m}, {n}, #rows> %rs
  %b = broadcast i32<{m}, {n}, #rows> %c
  %offs = add i32<{m}, {n}, #rows> %a, %b
  %xs = splat {element}*<{m}, {n}, #rows> %x
  %p = getelementptr {element}*<{m}, {n}, #rows> %xs, %offs
  %v = load {element}<{m}, {n}, #rows> %p
  br loop
loop:
  %k = phi i32 [0, entry], [%k1, loop]
  %t = phi {element}<{m}, {n}, #rows> [%v, entry], [%u, loop]
  %w = gpu.convert_layout {element}<{m}, {n}, #columns> %t {{layout = #columns}}
  %u = gpu.convert_layout {element}<{m}, {n}, #rows> %w {{layout = #rows}}
  %k1 = add i32 %k, 1
  %more, _ = icmp (i1, i1) %k1, %n {{predicate = slt}}
  cond_br %more, loop, exit
exit:
  store %p, %u
  ret
}}
"""


def compile_kernel(element: str, size: int, shape: tuple[int, int], machine: str) -> CompiledKernel:
    """The kernel that converts a tile to a column-major layout and back."""
    rows, columns = (blocked_layout(shape, order, 16 // size, WARPS) for order in ((1, 0), (0, 1)))
    text = TEXT.format(
        rows=rows, columns=columns, element=element, warps=WARPS, m=shape[0], n=shape[1],
        i=rows.slice(1), j=rows.slice(0), i1=rows.collapse(1), j1=rows.collapse(0),
    )  # fmt: skip
    module, chosen = parse(text), target(machine)
    function = module.functions["convert"]
    function = insert_barriers_into(allocate_function(function, chosen.shared_bytes))
    memory, placed = SharedMemoryPlan.of(function), module.evolve(functions={"convert": function})
    llvm = emit(KernelUnit(placed, "convert", memory, WARPS), chosen)
    ptx = to_ptx(llvm, chosen, 3)
    about = metadata_of(function, function, placed, machine, WARPS, memory.size, memory.dynamic)
    return CompiledKernel({"barriers": placed}, llvm, ptx, about, recompile=compile_module)


def plain(source: Columns, target: Columns, bits: int, size: int) -> Swizzle:
    """Column-major offsets without a swizzle, one element at a time."""
    return Swizzle(tuple(1 << i for i in range(bits)), 0, 0)


def count_wavefronts(size: int, shape: tuple[int, int]) -> tuple[int, int]:
    """The wavefronts of a block for both conversions, and the number of those caused by bank
    conflicts."""
    rows, columns = (blocked_layout(shape, order, 16 // size, WARPS) for order in ((1, 0), (0, 1)))
    total = more = 0
    for source, target_ in ((rows, columns), (columns, rows)):
        plan = stagings.staging(source, target_, shape, size)
        for side in (plan.source, plan.target):
            wide = size * side.vector
            for warp, group in itertools.product(range(WARPS), side.groups):
                at = [plan.offset(side.layout.coordinate(group[0], k, warp)) for k in range(32)]
                total += wavefronts(at, wide)
                more += conflicts(at, wide)
    return total, more


def cycles(kernel: LoadedKernel, element: str, shape: tuple[int, int]) -> float:
    """The cycles of a multiprocessor for both conversions, at the clock that the driver currently
    reports."""
    properties = torch.cuda.get_device_properties(0)
    blocks = properties.multi_processor_count * BLOCKS
    kind = {"f32": torch.float32, "f16": torch.float16, "i8": torch.int8}[element]
    x = torch.randint(0, 100, shape, device="cuda").to(kind)
    before, times = x.clone(), list[float]()
    for _ in range(REPETITIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        kernel[blocks](x, ITERATIONS)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    assert torch.equal(x, before), "the two conversions changed the tile"
    return statistics.median(times) * torch.cuda.clock_rate() * 1e6 / (ITERATIONS * BLOCKS)


def main() -> None:
    """Print a table, and write it as JSON if requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    options = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    machine = f"sm_{major}{minor}" + ("a" if major == 9 else "")
    table: list[dict[str, Any]] = []
    for name, choose in (("swizzled", swizzle), ("plain", plain)):
        swizzles.swizzle = choose
        stagings.staging.cache_clear()
        conversion.cache_clear()
        for element, size, shape in TILES:
            kernel = LoadedKernel(compile_kernel(element, size, shape, machine))
            measured, (waves, more) = cycles(kernel, element, shape), count_wavefronts(size, shape)
            table.append({"way": name, "element": element, "shape": list(shape), "cycles": measured,
                          "wavefronts": waves, "conflicts": more})  # fmt: skip
            print(f"{name:9}{element:4}{shape!s:11} {measured:8.0f} cycles {waves:6} wavefronts "
                  f"{more:6} conflicts")  # fmt: skip
    if options.out:
        with open(options.out, "w") as file:
            json.dump(table, file, indent=2)


if __name__ == "__main__":
    main()
