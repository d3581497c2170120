"""`tl`: the functions that a kernel may call."""

# pyright: reportUnusedImport=false

from __future__ import annotations

from typing import Any

from tileir.frontends.triton.dtypes import (
    BlockType as block_type,
    Named as dtype,
    PointerType as pointer_type,
    bfloat16,
    const,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    get_int_dtype,
    int1,
    int8,
    int16,
    int32,
    int64,
    pi32_t,
    uint8,
    uint16,
    uint32,
    uint64,
)
from tileir.frontends.triton.language import (
    arithmetic as _arithmetic,
    core,
    extra,
    math,
    random,
    standard,
)
from tileir.frontends.triton.language.arithmetic import (
    PropagateNan,
    abs_ as abs,
    add,
    cdiv,
    clamp,
    div_rn,
    fdiv,
    fma,
    isinf,
    isnan,
    maximum,
    minimum,
    mul,
    sigmoid,
    sub,
    umulhi,
)
from tileir.frontends.triton.language.control import constexpr, range, static_range
from tileir.frontends.triton.language.debugging import (
    clock,
    device_assert,
    device_print,
    globaltimer,
    inline_asm_elementwise,
    static_assert,
    static_print,
)
from tileir.frontends.triton.language.dot import dot, dot_scaled
from tileir.frontends.triton.language.memory import (
    TensorDescriptor as tensor_descriptor,
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
from tileir.frontends.triton.language.random import (
    pair_uniform_to_normal,
    philox,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    uint_to_uniform_float,
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
    reduce_or,
    softmax,
    sum_ as sum,
    xor_sum,
)
from tileir.frontends.triton.language.shape_ops import (
    arange,
    assume,
    broadcast,
    broadcast_to,
    cast,
    cat,
    condition,
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
    map_elementwise,
    max_constancy,
    max_contiguous,
    multiple_of,
    num_programs,
    permute,
    program_id,
    ravel,
    reshape,
    split,
    squeeze,
    swizzle2d,
    to_tensor,
    trans,
    unsqueeze,
    view,
    where,
    zeros,
    zeros_like,
)
from tileir.frontends.triton.language.sorting import bitonic_merge, sort, topk
from tileir.frontends.triton.tensor import Tensor as tensor

libdevice = extra.libdevice
TRITON_MAX_TENSOR_NUMEL = 1048576
tuple = tuple
slice = slice


def __getattr__(name: str) -> Any:
    result = _arithmetic.FUNCTIONS.get(name)
    if result is None:
        from difflib import get_close_matches  # for errors

        names = [n for n in (*globals(), *_arithmetic.FUNCTIONS) if not n.startswith("_")]
        near = get_close_matches(name[:60], names, n=1)
        raise AttributeError(
            f"the language has no {name}" + "".join(f"; did you mean {n}?" for n in near)
        )
    return result
