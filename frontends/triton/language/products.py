"""Products of matrices."""

from __future__ import annotations

from typing import Any

from tileir.frontends.triton import dtypes, semantic, tensor
from tileir.frontends.triton.errors import KernelError
from tileir.frontends.triton.language.builtin import Scope, builtin, static
from tileir.frontends.triton.tensor import Tensor, described


@builtin
def dot(
    s: Scope, input: Tensor, other: Tensor, acc: Any = None, input_precision: Any = None,
    allow_tf32: Any = None, max_num_imprecise_acc: Any = None, out_dtype: Any = dtypes.float32,
) -> Tensor:  # fmt: skip
    """`input` times `other`, onto `acc` where there is one; of float32 in tf32 unless
    `input_precision` says otherwise, as in Triton."""
    kind = _accumulator(input, out_dtype)
    shape = (*input.shape[:-1], other.shape[-1]) if other.shape else ()
    if len(input.shape) < 2 or len(input.shape) != len(other.shape):
        raise KernelError(f"dot of {described(input)} and {described(other)}")
    if acc is None:
        start = tensor.literal(s.b, 0, kind, shape)
    else:
        start = semantic.broadcast_to(tensor.of(s.b, acc), shape)
        kind = start.dtype  # type: ignore[assignment]
    options: dict[str, Any] = {}
    if input.dtype is dtypes.float32:
        options["precision"] = _precision(input_precision, allow_tf32)
    if input.dtype.is_int():
        options["lhs_signed"] = input.dtype.signed  # type: ignore[union-attr]
        options["rhs_signed"] = other.dtype.signed  # type: ignore[union-attr]
    return Tensor(s.b.dot(input.expr, other.expr, start.expr, **options), kind)


def _accumulator(x: Tensor, wanted: Any) -> dtypes.DType:
    if x.dtype.is_int():
        return dtypes.int32
    if x.dtype is dtypes.float64:
        return dtypes.float64
    return dtypes.float32 if x.dtype is dtypes.bfloat16 else wanted


def _precision(given: Any, allow_tf32: Any) -> str:
    named = static(given, "input_precision")
    if named is not None:
        return str(named).lower()
    allowed = static(allow_tf32, "allow_tf32")
    return "tf32" if allowed is None or allowed else "ieee"


@builtin
def dot_scaled(
    s: Scope, lhs: Tensor, lhs_scale: Any, lhs_format: Any, rhs: Tensor, rhs_scale: Any,
    rhs_format: Any, acc: Any = None, fast_math: Any = False, lhs_k_pack: Any = True,
    rhs_k_pack: Any = True, out_dtype: Any = dtypes.float32,
) -> Tensor:  # fmt: skip
    """A product of factors in OCP microscaling formats."""
    if acc is None:
        start = tensor.literal(s.b, 0, out_dtype, (lhs.shape[0], rhs.shape[-1]))
    else:
        start = tensor.of(s.b, acc)
    scales = [None if x is None else x.expr for x in (lhs_scale, rhs_scale)]
    found = s.b.dot_scaled(
        lhs.expr, rhs.expr, start.expr, *scales,
        lhs=static(lhs_format, "lhs_format"), rhs=static(rhs_format, "rhs_format"),
        lhs_k_pack=static(lhs_k_pack, "lhs_k_pack"), rhs_k_pack=static(rhs_k_pack, "rhs_k_pack"),
    )  # fmt: skip
    return Tensor(found, start.dtype)
