"""The kernel definitions of the thesis (Pham 2025), whatever their schedule, and those that it
measures and does not print. Blocks need not divide sizes."""

from __future__ import annotations

from typing import Any

from tileir.frontends.decoupled import parse

from ..decoupled import definitions as d
from .model import Listing, Size, sizes


def listing(
    number: str, what: str, source: str, schedule: str, allowed: tuple[Size, ...]
) -> Listing:
    """A definition and more of its schedule, checked by the generated test function."""

    def check(on: str, **size: int) -> None:
        parse(source).with_schedule(schedule).function().test(on, **size)()

    return Listing("Pham 2025", number, what, "Decoupled Triton", check, allowed)


SMALL = sizes("x y", (3, 5), (4, 8), (1, 17))
ROWS = sizes("x k", (3, 64), (2, 37), (1, 75))

PRINTED = (
    ("3.1", "scaled sum", d.ADD, "", sizes("x y", (2, 512), (3, 517))),
    ("3.3", "softmax", d.SOFTMAX, "", sizes("x y", (8, 128), (7, 131))),
    ("3.4", "RMSNorm", d.RMS_NORM, "", sizes("x y", (2, 5), (3, 8))),
    ("3.5", "relu", d.RELU, "", SMALL),
    ("3.8", "relu", d.RELU, "relu_out.block(x:16, y:64);", sizes("x y", (16, 64), (17, 65))),
    ("3.9", "relu", d.RELU, "relu_out.tensorize(x:64, y:0);", sizes("x y", (128, 32), (67, 33))),
    ("3.10", "relu", d.RELU, "relu_out.block(x:4, y:128); relu_out.tensorize(x:0, y:16);",
     sizes("x y", (8, 128), (5, 131))),
    ("3.11", "relu", d.RELU, "relu_out.block(x:8, y:16); relu_out.map(x:xi/4, y, xi);",
     sizes("x y", (32, 32), (41, 17))),
    ("3.12", "swish", d.SWISH, "", SMALL),
    ("3.13", "swish", d.SWISH, "tmp.fuse_at(swish_out, y);", SMALL),
    ("3.14", "swish", d.SWISH, "tmp.fuse_at(swish_out, x);", SMALL),
    ("3.15", "swish", d.SWISH, "swish_out.tensorize(y:0); tmp.fuse_at(swish_out, x);",
     sizes("x y", (3, 16), (2, 13))),
    ("3.16", "relu", d.RELU, "relu_out.num_warps(8); relu_out.num_stages(4);", SMALL),
    ("3.17", "sum", d.ROW_TOTALS, "", sizes("x k", (3, 7), (2, 16), (1, 1))),
    ("3.19", "sum", d.ROW_TOTALS, "sum_out.tensorize(k:16);", ROWS),
    ("3.20", "sum", d.ROW_TOTALS, "sum_out.block(k:32);", ROWS),
    ("4.1", "GeGLU", d.GEGLU, "", sizes("x y", (2, 1024), (3, 517))),
    ("4.2", "softmax", d.FUSED_SOFTMAX, "", sizes("x y", (8, 512), (5, 600))),
    ("4.3", "2mm, outer loop", d.TWO_MATMULS, "",
     sizes("m n k l", (32, 128, 32, 32), (17, 65, 33, 20))),
    ("4.4", "attention", d.ATTENTION, "", sizes("m n k l", (32, 64, 64, 64), (17, 65, 19, 33))),
)  # fmt: skip

MEASURED: tuple[Any, ...] = (
    ("RMSNorm, tiles", d.RMS_NORM,
     "rms_norm_out.block(x:2); rms_norm_out.tensorize(x:0, y:32, k:0);",
     sizes("x y", (4, 64), (5, 65))),
    ("DyT", d.DYT, "dyt.block(x:2, y:32); dyt.tensorize(x:0, y:0);",
     sizes("x y", (4, 64), (5, 65))),
    ("SwiGLU", d.SWIGLU, "swiglu.block(y:64); swiglu.tensorize(y:0);",
     sizes("x y", (2, 128), (3, 65))),
    ("TVD", d.TVD, "tvd.block(x:2); tvd.tensorize(x:0, y:32);", sizes("x y", (4, 64), (5, 65))),
    ("KL divergence", d.KL, "kl.block(x:2); kl.tensorize(x:0, y:32);",
     sizes("x y", (4, 64), (5, 65))),
    ("matmul", d.MATMUL,
     "matmul.block(m:16, n:32); matmul.tensorize(m:0, n:0, k:16); matmul.map(n:ni/2, m, ni);",
     sizes("m n k", (32, 64, 32), (17, 70, 21))),
    ("mmsigmoid", d.MMSIGMOID,
     "mmsigmoid.block(m:16, n:16); mmsigmoid.tensorize(m:0, n:0, k:16);",
     sizes("m n k", (32, 32, 32), (17, 20, 21))),
    ("2mm, inner loop", d.INNER_2MM,
     "_2mm.block(m:16, n:32); _2mm.tensorize(m:0, n:0, k:0, l:16);",
     sizes("m n k l", (32, 64, 16, 32), (17, 33, 19, 40))),
    ("FlashAttention", d.FLASH, d.FLASH_SCHEDULE,
     sizes("h m n k l", (1, 32, 16, 16, 64), (2, 17, 16, 16, 50))),
)  # fmt: skip

LISTINGS = (
    *(listing(f"Listing {number}", *rest) for number, *rest in PRINTED),
    *(listing(f"chapter 4, {what}", what, *rest) for what, *rest in MEASURED),
)
