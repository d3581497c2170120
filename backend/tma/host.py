"""What the host can compute of a kernel before it is launched: scalars made of its parameters."""

from __future__ import annotations

from tileir.analysis.cache import cached
from tileir.ir import Function
from tileir.op import Op
from tileir.types import Pointer, Scalar
from tileir.values import Value


@cached
def host_values(function: Function) -> frozenset[Value]:
    """The scalars of the entry block, integers and pointers, that follow from parameters alone."""
    found = {p.value for p in function.parameters if isinstance(p.type, (Scalar, Pointer))}
    for op in function.entry.ops:
        if _computable(op) and all(v in found for v in op.operands if isinstance(v, Value)):
            found.update(op.results)
    return frozenset(found)


def _computable(op: Op) -> bool:
    """Whether `op` makes scalars of scalars, the same in every program instance."""
    scalars = all(isinstance(v.type, (Scalar, Pointer)) for v in (*op.operands, *op.results))
    return op.elementwise and scalars and not op.effects
