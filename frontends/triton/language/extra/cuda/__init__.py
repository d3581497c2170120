"""`triton.language.extra.cuda`: what belongs to NVIDIA's GPUs."""

from tileir.frontends.triton.language.debugging import globaltimer
from tileir.frontends.triton.language.extra.cuda import libdevice
from tileir.frontends.triton.language.launches import (
    gdc_launch_dependents,
    gdc_wait,
    num_threads,
    num_warps,
    smid,
)

__all__ = [
    "gdc_launch_dependents",
    "gdc_wait",
    "globaltimer",
    "libdevice",
    "num_threads",
    "num_warps",
    "smid",
]
