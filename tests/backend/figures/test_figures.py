"""What kernels cost, as far as their code tells: none costs more than it did.

`figures.json` has, per kernel and options, bytes of shared memory, accesses, shuffles, barriers
and instructions of the LLVM IR that is written. A change for the better, or one that is meant, is
kept by `--bless`.
"""

import json
import re
from pathlib import Path

import pytest

from tileir import textual
from tileir.backend import Options
from tileir.backend.compile import compile as compile_kernel
from tileir.builder import BF16, F16, F32, F64, I8, I32, Builder, arg, pointer

from ..convolutions import Convolution
from ..test_async_pipeline import matmul
from ..test_strip_mine import softmax
from ..test_strip_mine_staging import softmax as staged_softmax

ROOT, FILE = Path(__file__).parents[3], Path(__file__).with_name("figures.json")
FOUND = (
    "both_results_of_a_comparison", "copies_after_a_loop",
    "descriptor_as_a_factor_in_registers", "dot_before_the_loads", "halves_in_two_layouts",
    "lanes_that_hold_the_same", "products_of_one_slot", "results_by_columns",
    "second_result_alone", "two_bytes_per_thread", "warps_as_repetitions",
)  # fmt: skip
FILES = [
    *sorted((ROOT / "examples").glob("*.tir")),
    *sorted((ROOT / "tests/corpus/triton_ptx_2023").glob("*.tir")),
    *sorted((ROOT / "tests/corpus/lamont_conv2d").glob("*.tir")),
    *(ROOT / "tests/corpus/found" / f"{name}.tir" for name in FOUND),
]
PATTERNS = {
    "global": r'asm sideeffect "[^"]*(ld|st|red|atom)\.(global|[a-z.]*global)',
    "wide": r"\.v[248]\.",
    "shared": r"(load|store|atomicrmw) .*addrspace\(3\)|ldmatrix|stmatrix",
    "copies": r"cp\.async",
    "shuffles": r"call i32 @llvm\.nvvm\.shfl",
    "barriers": r"call void @llvm\.nvvm\.bar",
    "products": r"mma\.sync|wgmma\.mma_async",
    "divisions": r" = [us](div|rem) ",
    "instructions": r"^  ",
}
GAINS = ("wide", "copies")
"""Of which there may be more, but no fewer."""


def matmuls():
    for name, (element, total, block, more) in {
        "f16": (F16, F32, (64, 64, 32), {}),
        "f16, two halves": (F16, F32, (128, 64, 64), {"transposed": True}),
        "bf16, tested last": (BF16, F32, (32, 64, 32), {"tested_last": True}),
        "tf32": (F32, F32, (64, 64, 32), {"precision": "tf32"}),
        "f32": (F32, F32, (64, 64, 16), {}),
        "f32, transposed": (F32, F32, (32, 64, 32), {"transposed": True}),
        "i8": (I8, I32, (64, 64, 64), {"transposed": True}),
        "f64": (F64, F64, (32, 32, 16), {}),
        "few stages": (F16, F32, (64, 64, 32), {"stages": 2}),
        "odd": (F32, F32, (24, 40, 12), {"multiple": 1}),
    }.items():
        yield f"product, {name}", lambda e=element, t=total, b=block, m=more: matmul(e, t, b, **m)


def powers():
    b = Builder()
    pointers = {name: arg(pointer(F32), aligned=16) for name in "xyz"}
    with b.kernel("k", **pointers) as (x, y, z):
        i = b.arange(128)
        (z + i).store((x + i).load() ** (y + i).load())
    return b.module()


def kernels():
    for path in FILES:
        yield path.stem, lambda p=path: textual.parse(p.read_text(), p.name)
    yield from matmuls()
    for size in ((1, 4096), (4, 300), (2, 20000)):
        yield f"softmax {size}", lambda s=size: softmax(*s)
    yield "softmax (4, 65536), staged", lambda: staged_softmax(4, 65536)
    for name, c in {"flat": Convolution(loops="flat"), "strided": Convolution(stride=2),
                    "none": Convolution(loops="none", width=64)}.items():  # fmt: skip
        yield f"convolution, {name}", lambda c=c: textual.parse(c.text())

    yield "powers", powers


KERNELS = dict(kernels())
HOW = [("sm_80", None), ("sm_90", 4)]


def figures(module, target, warps):
    compiled = compile_kernel(module, target, Options(num_warps=warps))
    lines = compiled.llvm.splitlines()
    by_name = {name: sum(bool(re.search(p, x)) for x in lines) for name, p in PATTERNS.items()}
    return {"bytes": compiled.plan.shared, "warps": compiled.plan.num_warps, **by_name}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", KERNELS)
def test_no_kernel_costs_more_than_it_did(name, request):
    measured = {f"{t}, {w or 'any'}": figures(KERNELS[name](), t, w) for t, w in HOW}
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    if request.config.getoption("bless"):
        FILE.write_text(json.dumps({**kept, name: measured}, indent=1, sort_keys=True) + "\n")
        return
    for how, costs in measured.items():
        for what, cost in costs.items():
            before = kept[name][how][what]
            worse = cost < before if what in GAINS else cost > before
            assert not worse, f"{name}, {how}: {what} {before} -> {cost}"
