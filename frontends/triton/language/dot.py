"""Matrix multiplication."""

from __future__ import annotations

import math
from typing import Any

from tileir.builder import Expr
from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.building import options_of
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import CompileScope, builtin, static
from tileir.frontends.triton.tensor import Tensor, describe


@builtin
def dot(
    s: CompileScope, input: Tensor, other: Tensor, acc: Any = None, input_precision: Any = None,
    allow_tf32: Any = None, max_num_imprecise_acc: Any = None, out_dtype: Any = dtypes.float32,
) -> Tensor:  # fmt: skip
    """Return the matmul of `input` and `other`, plus `acc` if given.

    float32 operands are rounded to tf32 unless `input_precision` states otherwise, as in Triton.
    """
    rank = len(input.shape)
    fits = rank >= 2 and len(other.shape) == rank and input.shape[:-2] == other.shape[:-2]
    if not fits or input.shape[-1] != other.shape[-2]:
        operands = f"{describe(input)} and {describe(other)}"
        raise KernelError(f"dot takes tiles of shapes (M, K) and (K, N), not {operands}")
    kind = _accumulator(input, out_dtype)
    shape = (*input.shape[:-1], other.shape[-1])
    if acc is None:
        start = tensor.literal(s.b, 0, kind, shape)
    else:
        start = semantic.broadcast_to(tensor.of(s.b, acc), shape)
        kind = start.dtype  # type: ignore[assignment]
    options: dict[str, Any] = {}
    if input.dtype is dtypes.float32:
        options["precision"] = _precision(s, input_precision, allow_tf32)
    if input.dtype.is_int():
        options["lhs_signed"] = input.dtype.signed  # type: ignore[union-attr]
        options["rhs_signed"] = other.dtype.signed  # type: ignore[union-attr]
    imprecise = static(max_num_imprecise_acc, "max_num_imprecise_acc")
    if imprecise and input.dtype.is_fp8() and other.dtype.is_fp8():
        options["max_imprecise"] = int(imprecise)
    result = s.b.dot(*(_merge_batch_dimensions(x) for x in (input, other, start)), **options)
    return Tensor(result.reshape(*shape), kind)


def _merge_batch_dimensions(x: Tensor) -> Expr:
    """Merge several batch dimensions into one."""
    if len(x.shape) <= _DEEPEST:
        return x.expr
    return x.expr.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


_DEEPEST = 3
"""Dimensions of the op's operands."""


def _accumulator(x: Tensor, required: Any) -> dtypes.DType:
    if x.dtype.is_int():
        return dtypes.int32
    if x.dtype is dtypes.float64:
        return dtypes.float64
    return dtypes.float32 if x.dtype is dtypes.bfloat16 else required


def _precision(s: CompileScope, requested: Any, allow_tf32: Any) -> str:
    precision = static(requested, "input_precision")
    if precision is not None:
        return str(precision).lower()
    allowed = static(allow_tf32, "allow_tf32")
    if allowed is None:
        return options_of(s.b).default_dot_input_precision.lower()
    return "tf32" if allowed else "ieee"


@builtin
def dot_scaled(
    s: CompileScope, lhs: Tensor, lhs_scale: Any, lhs_format: Any, rhs: Tensor, rhs_scale: Any,
    rhs_format: Any, acc: Any = None, fast_math: Any = False, lhs_k_pack: Any = True,
    rhs_k_pack: Any = True, out_dtype: Any = dtypes.float32,
) -> Tensor:  # fmt: skip
    """The matmul of operands in OCP microscaling formats, or in e4m3, e5m2, bf16 and fp16, whose
    bits may be unsigned integers."""
    formats = [static(f, "a format") for f in (lhs_format, rhs_format)]
    a, b = (_in_format(x, f) for x, f in zip((lhs, rhs), formats, strict=True))
    packed = [static(k, "k_pack") for k in (lhs_k_pack, rhs_k_pack)]
    if acc is None:
        rows = a.shape[-2] * (1 if packed[0] or formats[0] != "e2m1" else 2)
        columns = b.shape[-1] * (1 if packed[1] or formats[1] != "e2m1" else 2)
        start = tensor.literal(s.b, 0, out_dtype, (*a.shape[:-2], rows, columns))
    else:
        start = tensor.of(s.b, acc)
    scales = [None if x is None else x.expr for x in (lhs_scale, rhs_scale)]
    words: list[Any] = [_WORDS.get(f, str(f)) for f in formats]
    result = s.b.dot_scaled(
        a.expr, b.expr, start.expr, *scales, lhs=words[0], rhs=words[1],
        lhs_k_pack=packed[0], rhs_k_pack=packed[1],
    )  # fmt: skip
    return Tensor(result, start.dtype)


_FORMATS = {
    "e4m3": dtypes.float8e4nv, "e5m2": dtypes.float8e5, "bf16": dtypes.bfloat16,
    "fp16": dtypes.float16,
}  # fmt: skip
_WORDS: dict[Any, str] = {"fp16": "f16"}
"""Formats with another name in the op."""


def _in_format(x: Tensor, format: Any) -> Tensor:
    """An operand whose elements, or whose bits, are of a format. Raises KernelError."""
    if format != "e2m1" and format not in _FORMATS:
        names = ", ".join(("e2m1", *_FORMATS))
        raise KernelError(f"there is no format {format!r}; there are {names}")
    kind = _FORMATS.get(format)
    if kind is None or x.dtype == kind:
        return x
    if not x.dtype.is_int() or x.dtype.element.bits != kind.primitive_bitwidth:
        raise KernelError(f"{format} operands are {kind} or their bits, not {describe(x)}")
    return semantic.bitcast(x, kind)
