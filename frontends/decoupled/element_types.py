"""Types of expressions, before they are evaluated: what accumulators are made of.

Elements narrower than 32 bits are widened before they are computed with (f16 to f32, i8 to i32),
as loaded they are operands of `rdot` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tileir.builder import F32, F64, I1, I32, I64
from tileir.frontends.decoupled.functions import FUNCTIONS
from tileir.frontends.decoupled.nodes import (
    Access,
    Binary,
    Call,
    Label,
    Length,
    Node,
    Number,
    ProgramId,
    Reduction,
    ScalarInput,
)
from tileir.types import Scalar

Kind: TypeAlias = "Scalar | type[int] | type[float]"
"""An element type, or Python's type of a number known while compiling."""

_DOT = {"f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"}
RELATIONS = ("<", "<=", ">", ">=", "==", "!=")


def wide(kind: Scalar) -> Scalar:
    """The type that elements are computed in."""
    if kind.is_float:
        return kind if kind.bits >= 32 else F32
    return kind if kind.bits >= 32 else I32


def dot_operand_type(left: Scalar, right: Scalar) -> Scalar | None:
    """The type of a matmul's operands: the narrower float. None where no matrix instruction has
    such operands, and multiply-adds compute it."""
    if left is right and str(left) in ("i8", *_DOT):
        return left
    floats = [k for k in (left, right) if k.is_float]
    if len(floats) < 2 or not {str(k) for k in floats} <= _DOT:
        return None
    narrow = min(floats, key=lambda k: k.bits)
    return narrow if left.bits != right.bits else F32


def accumulator(node: Reduction, kinds: tuple[Kind, ...]) -> Scalar:
    """The type a reduction is formed in."""
    result = [wide(_scalar(k)) for k in kinds]
    if node.op == "rdot" and (narrow := dot_operand_type(*map(_scalar, kinds))) is not None:
        return {"f64": F64, "i8": I32}.get(str(narrow), F32)
    joined = result[0]
    for kind in result[1:]:
        joined = _scalar(common_kind(joined, kind))
    return joined


def _scalar(kind: Kind) -> Scalar:
    if isinstance(kind, Scalar):
        return kind
    return I32 if kind is int else F32


def common_kind(left: Kind, right: Kind) -> Kind:
    """The type of an operation between wide operands, by the builder's rules."""
    if isinstance(left, type) and isinstance(right, type):
        return float if float in (left, right) else int
    if isinstance(left, type):
        left, right = right, left
    assert isinstance(left, Scalar)
    if isinstance(right, type):
        return left if right is int or left.is_float else F32
    if left.is_float != right.is_float:
        return left if left.is_float else right
    return left if left.bits >= right.bits else right


def kind_of(
    node: Node,
    scalars: Mapping[str, Scalar],
    functions: Mapping[str, Node],
) -> Kind:
    """The type of an expression. `scalars` are types of tensors and scalars, `functions` the
    algorithms of fused Funcs."""

    def kind(n: Node) -> Kind:
        return kind_of(n, scalars, functions)

    if isinstance(node, Access):
        return kind(functions[node.name]) if node.name in functions else scalars[node.name]
    if isinstance(node, ScalarInput):
        return scalars[node.name]
    if isinstance(node, Number):
        return type(node.value)
    if isinstance(node, (Label, ProgramId)):
        return I32
    if isinstance(node, Length):
        return int
    if isinstance(node, Reduction):
        return accumulator(node, tuple(kind(v) for v in node.values))
    if isinstance(node, Binary):
        return _binary(node.op, kind(node.left), kind(node.right))
    if isinstance(node, Call):
        return _call(node.name, [_widen(kind(a)) for a in node.arguments])
    return _widen(kind(node.operands[0])) if node.operands else I32


def _widen(kind: Kind) -> Kind:
    return kind if isinstance(kind, type) else wide(kind)


def _binary(op: str, left: Kind, right: Kind) -> Kind:
    left, right = _widen(left), _widen(right)
    if op in RELATIONS:
        return I1 if isinstance(left, Scalar) or isinstance(right, Scalar) else int
    result = common_kind(left, right)
    return _quotient_kind(result) if op == "/" else result


def _quotient_kind(kind: Kind) -> Kind:
    if kind is int:
        return float
    if isinstance(kind, Scalar) and kind.is_integer:
        return F64 if kind is I64 else F32
    return kind


def _call(name: str, kinds: list[Kind]) -> Kind:
    function = FUNCTIONS[name]
    if function.kind == "float":
        kinds = [_floating(k) for k in kinds]
    result = kinds[-1]
    for kind in kinds[1 if function.kind == "choice" else 0 : -1]:
        result = common_kind(result, kind)
    return result if isinstance(result, Scalar) else I32 if result is int else F32


def _floating(kind: Kind) -> Kind:
    if isinstance(kind, type):
        return float
    return kind if kind.is_float else F32
