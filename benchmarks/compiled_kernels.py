"""The kernels whose code `tools/compiled_code.py` records: every example and every file of the
corpus, for two GPUs and the CPU, and the kernels of the benchmarks that need neither PyTorch nor
Triton.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # the folder, also under `python -P`

import compile_time_kernels
import memory_kernels

from tileir import textual
from tileir.builder import BF16, F8E4M3, F16
from tileir.errors import TileirError
from tileir.ir import Module
from tileir.testing import kernels_backward
from tileir.testing.attention import attention
from tileir.testing.workloads import convolution, matmuls, shifts, sparse

ROOT = Path(__file__).resolve().parents[1]
FILES = ("examples/*.tir", "tests/corpus/**/*.tir")

Kernel = tuple[str, Callable[[], Module], str, str | None, dict[str, Any]]
"""The fields of `tileir.tools.compiled_code.Kernel`. A tuple, so that releases without that module
can read this file."""


def kernels() -> Iterator[Kernel]:
    """Yield every kernel, with a unique name."""
    yield from from_files()
    for name, make, options in with_dots():
        yield f"benchmarks/{name}", make, "sm_90a", None, options
    for name, make in memory_bound():
        for target in ("sm_90a", "cpu"):
            yield f"benchmarks/{name} {target}", make, target, None, {}


def from_files() -> Iterator[Kernel]:
    """Yield the kernels of files, for two GPUs and the CPU."""
    paths = sorted({path for pattern in FILES for path in ROOT.glob(pattern)})
    for path in paths:
        read = partial(parse_file, path)
        try:
            names = [f.name for f in read().functions.values() if f.kernel]
        except TileirError:
            continue  # files with errors
        for kernel in names:
            for target in ("sm_90a", "sm_80", "cpu"):
                place = path.relative_to(ROOT).with_suffix("")
                yield f"{place}/{kernel or 'unnamed'} {target}", read, target, kernel, {}


def parse_file(path: Path) -> Module:
    return textual.parse(path.read_text("utf-8"), path.name)


def with_dots() -> Iterator[tuple[str, Callable[[], Module], dict[str, Any]]]:
    """Yield kernels with dots, with the options that the benchmarks use."""
    for d, m, n in ((64, 192, 128), (64, 128, 128), (96, 128, 96), (128, 128, 128), (256, 128, 64)):
        for causal in (False, True):
            make = partial(attention, m, n, d, BF16, causal=causal, arranged=causal)
            options = {"warp_specialize": True, "persistent": True}
            yield f"attention {m}x{n} {d}{' causal' if causal else ''}", make, options
    eight = partial(attention, 128, 128, 128, F8E4M3, BF16, v_transposed=True)
    yield "attention f8", eight, {"warp_specialize": True, "persistent": True}
    unordered = {"warp_specialize": True, "persistent": True, "ordered_softmax": False}
    yield "attention unordered", partial(attention, 128, 128, 128, F16), unordered
    for d, m, n in ((64, 64, 128), (128, 64, 128)):
        keys = partial(kernels_backward.attention_keys, m, n, d, BF16)
        yield f"attention keys {d}", keys, {"persistent": True}
        yield f"attention keys {d} fused", partial(keys, fused=True), {"persistent": True}
        queries = partial(kernels_backward.attention_queries, 128, 64, d, BF16, causal=True)
        yield f"attention queries {d}", queries, {"persistent": True}
    yield "attention delta", partial(kernels_backward.attention_delta, 64, 64), {}
    for size in ((128, 256, 64), (128, 128, 64), (64, 64, 64), (16, 64, 128)):
        tile, text = matmuls.TileShape(*size), "x".join(map(str, size))
        for persistent in (True, False):
            options, once = {"persistent": persistent}, "" if persistent else " once"
            for kind in ("leaky", "gelu", "sigmoid"):
                make = partial(matmuls.with_activation, tile, kind)
                yield f"matmul {kind} {text}{once}", make, options
            yield f"matmul int8 {text}{once}", partial(matmuls.int8, tile), options
        yield f"matmul slices {text}", partial(matmuls.of_slices, tile), {}
        split = {"persistent": False, "split_k": 2, "num_stages": 4}
        yield f"matmul int4 {text}", partial(matmuls.int4_weights, tile, 128), split
        yield f"matmul mxfp8 {text}", partial(matmuls.mxfp8_weights, tile), split
    for name in ("matmul", "softmax", "add"):
        yield f"compile time {name}", getattr(compile_time_kernels, name), {}
    three, one = convolution.Filter(3, 3), convolution.Filter(1, 1)
    yield "convolution boxes", partial(convolution.boxes, 16, 16, 64, 64, three), {}
    yield "convolution gemm", partial(convolution.implicit_gemm, 128, 64, 32, three), {}
    yield "convolution gemm 1x1", partial(convolution.implicit_gemm, 128, 128, 64, one), {}
    table = partial(convolution.with_increment_table, 128, 64, 32, three)
    yield "convolution table", table, {}
    yield "convolution transposition", partial(convolution.channels_last, 64, 64), {}
    for size in (128, 64):
        yield f"sparse sdd {size}", partial(sparse.sdd, size, 64), {}
        yield f"sparse sdd rows {size}", partial(sparse.sdd_rows, size, 64, 2), {}
        yield f"sparse dsd {size}", partial(sparse.dsd, size, 128, 64), {}
        yield f"sparse dds {size}", partial(sparse.dds, 128, size, 64), {}
        yield f"sparse softmax {size}", partial(sparse.softmax, size, 8, 1), {}
    yield "shift convolution", partial(shifts.shift_convolution, 64, 64, 64), {}
    yield "shift uniform", partial(shifts.uniform_shift_convolution, 16, 16, 64, 64), {}
    yield "shift", partial(shifts.shift, 1024), {}


def memory_bound() -> Iterator[tuple[str, Callable[[], Module]]]:
    """Yield kernels without dots."""
    by_rows = ("softmax", "rms_norm", "layer_norm", "tvd", "kl_div")
    for columns, block in ((1024, 4), (4096, 1), (1000, 3)):
        for name in by_rows:
            make = partial(getattr(memory_kernels, name), 4096, columns, block)
            yield f"{name} {columns}x{block}", make
    yield "geglu", partial(memory_kernels.geglu, 1 << 20, 1024)
    yield "swiglu", partial(memory_kernels.swiglu, 1 << 20, 1024)
    yield "dyt", partial(memory_kernels.dyt, 4096, 4096, 8, 1024)
    yield "norm looped", partial(memory_kernels.norm_looped, 64, 65536, 4096, centred=True)
    yield "group norm", partial(memory_kernels.group_norm, 512, 32, 1024)
