"""Building programs from Python.

    from tileir.builder import F32, I32, Builder, pointer

    b = Builder()
    with b.kernel("relu", x=pointer(F32), n=I32) as (x, n):
        i = b.program_id(axis=0) * 128 + b.arange(128)
        (x + i).store(b.maximum((x + i).load(i < n), 0.0), i < n)
    module = b.module()

See `docs/reference/builder.md`.
"""

if __name__ != "tileir.builder":
    raise ImportError(f"import tileir.builder, not {__name__}")

from tileir.builder.blocks import BlockRef, BranchTarget
from tileir.builder.builder import Builder
from tileir.builder.caller_location import source_name
from tileir.builder.expr import Expr
from tileir.builder.functions import ParameterSpec, arg
from tileir.builder.variables import Var
from tileir.errors import BuildError, Location
from tileir.types import (
    BF16,
    F4E2M1,
    F8E4M3,
    F8E5M2,
    F8E8M0,
    F16,
    F32,
    F64,
    I1,
    I4,
    I8,
    I16,
    I32,
    I64,
    pointer,
    tile,
)

__all__ = [
    "BF16", "F4E2M1", "F8E4M3", "F8E5M2", "F8E8M0", "F16", "F32", "F64", "I1", "I4", "I8", "I16",
    "I32", "I64", "BlockRef", "BranchTarget", "BuildError", "Builder", "Expr", "Location",
    "ParameterSpec", "Var", "arg", "pointer", "source_name", "tile",
]  # fmt: skip
