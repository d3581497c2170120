"""`tl`: what a kernel may call."""

# pyright: reportUnusedImport=false

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tileir.frontends.triton.dtypes import (
    DType as dtype,
    PointerType as pointer_type,
    bfloat16,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tileir.frontends.triton.language import arithmetic as _arithmetic
from tileir.frontends.triton.language.arithmetic import (
    PropagateNan,
    abs_ as abs,
    cdiv,
    clamp,
    div_rn,
    fdiv,
    fma,
    isinf,
    isnan,
    maximum,
    minimum,
    sigmoid,
    umulhi,
)
from tileir.frontends.triton.language.control import constexpr, range, static_range
from tileir.frontends.triton.language.core import (
    arange,
    assume,
    broadcast,
    broadcast_to,
    cast,
    cat,
    debug_barrier,
    expand_dims,
    extract_slice,
    flip,
    full,
    full_like,
    gather,
    histogram,
    insert_slice,
    interleave,
    join,
    max_constancy,
    max_contiguous,
    multiple_of,
    num_programs,
    permute,
    program_id,
    ravel,
    reshape,
    split,
    trans,
    view,
    where,
    zeros,
    zeros_like,
)
from tileir.frontends.triton.language.debugging import (
    clock,
    device_assert,
    device_print,
    globaltimer,
    inline_asm_elementwise,
    static_assert,
    static_print,
)
from tileir.frontends.triton.language.memory import (
    advance,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    load,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    store,
    store_tensor_descriptor,
)
from tileir.frontends.triton.language.products import dot, dot_scaled
from tileir.frontends.triton.language.random import (
    philox,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
)
from tileir.frontends.triton.language.reductions import (
    argmax,
    argmin,
    associative_scan,
    cumprod,
    cumsum,
    max_ as max,
    min_ as min,
    reduce_ as reduce,
    softmax,
    sum_ as sum,
    xor_sum,
)
from tileir.frontends.triton.language.sorting import sort, topk
from tileir.frontends.triton.tensor import Tensor as tensor

math = SimpleNamespace(
    **_arithmetic.FUNCTIONS, abs=abs, fma=fma, fdiv=fdiv, div_rn=div_rn, umulhi=umulhi,
    sigmoid=sigmoid, softmax=softmax, cdiv=cdiv, max=maximum, min=minimum, isnan=isnan,
    isinf=isinf,
)  # fmt: skip
"""`tl.math`, and the functions of libdevice under their names without `__nv_`."""

libdevice = math
extra = SimpleNamespace(
    libdevice=math, cuda=SimpleNamespace(libdevice=math, globaltimer=globaltimer)
)


def __getattr__(name: str) -> Any:
    found = _arithmetic.FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(f"the language has no {name}")
    return found
