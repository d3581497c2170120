"""The meaning of an algorithm, computed by numpy in f64: the oracle of kernels, whatever their
schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tileir.frontends.decoupled.fusion import groups
from tileir.frontends.decoupled.model import Definitions
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
    Reshape,
    ScalarInput,
    Unary,
)
from tileir.frontends.decoupled.shapes import shape_of


def reference(
    definitions: Definitions, name: str, inputs: Mapping[str, Any], sizes: Mapping[str, int]
) -> Any:
    """The tensor of a Func. `program_id` is 0. Numbers are f64; integers of arrays are converted,
    and quotients are those of real numbers."""
    values = {n: _wide(v) for n, v in inputs.items()}
    with np.errstate(all="ignore"):
        for group in groups(definitions, name):
            for func in group.funcs:
                value = _Evaluator(definitions, values, sizes).align(func.value, func.labels)
                shape = tuple(sizes[label] for label in func.labels)
                values[func.name] = np.broadcast_to(np.asarray(value, np.float64), shape)
    return values[name]


def _wide(value: Any) -> Any:
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value).astype(np.float64)


class _Evaluator:
    """The values of expressions with the shapes of `shape_of`."""

    def __init__(
        self, defined: Definitions, values: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        self.definitions, self.values, self.sizes = defined, values, sizes

    def value(self, node: Node) -> Any:
        """The value of `node`."""
        return _RULES[type(node)](self, node)

    def shape(self, node: Node) -> tuple[str | None, ...]:
        """The dimensions of an expression."""
        return shape_of(node, self.definitions.shapes)

    def extents(self, labels: tuple[str | None, ...]) -> tuple[int, ...]:
        """Their sizes."""
        return tuple(self.sizes[label] if label else 1 for label in labels)

    def align(self, node: Node, target_shape: tuple[str | None, ...]) -> Any:
        """The value, as a number, where it is combined with others to the shape `target_shape`."""
        shape = self.shape(node)
        if len(shape) <= len(target_shape) and all(
            a in (None, b) for a, b in zip(reversed(shape), reversed(target_shape), strict=False)
        ):
            return self.value(node) * 1.0
        labels = [label if label in shape else None for label in target_shape]
        return np.reshape(self.full(node), self.extents(tuple(labels))) * 1.0

    def operands(self, node: Node) -> list[Any]:
        """The values of the operands aligned with each other."""
        return [self.align(n, self.shape(node)) for n in node.operands]

    def full(self, node: Node) -> Any:
        """The value at every place of its shape."""
        return np.broadcast_to(self.value(node), self.extents(self.shape(node)))


def _reduction(e: _Evaluator, node: Reduction) -> Any:
    if node.op == "rdot":
        return np.matmul(*(e.full(v) for v in node.values))
    axis = e.shape(node.values[0]).index(node.label)
    reduce = {"rsum": np.sum, "rmax": np.max, "rmin": np.min}[node.op]
    return reduce(e.full(node.values[0]), axis=axis)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "%": np.fmod,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip

NUMPY: dict[str, Callable[..., Any]] = {
    **{n: getattr(np, n) for n in ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sqrt",
                                   "floor", "ceil", "log10", "log1p", "expm1", "tan", "abs",
                                   "maximum", "minimum")},
    "erf": np.vectorize(math.erf, otypes=[np.float64]), "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt_rn": np.sqrt, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "pow": np.power,
    "fdiv": np.divide, "div_rn": np.divide, "cdiv": lambda x, y: np.ceil(x / y),
    "umulhi": lambda x, y: np.floor((x % 2**32) * (y % 2**32) / 2**32),
    "fma": lambda x, y, z: x * y + z,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "where": lambda c, x, y: np.where(np.asarray(c) != 0, x, y),
}  # fmt: skip
"""The functions of `FUNCTIONS`."""

_RULES: dict[type[Node], Callable[[_Evaluator, Any], Any]] = {
    Number: lambda e, n: np.float64(n.value),
    ScalarInput: lambda e, n: e.values[n.name],
    Label: lambda e, n: np.arange(e.sizes[n.name], dtype=np.float64),
    ProgramId: lambda e, n: np.float64(0),
    Length: lambda e, n: np.float64(e.sizes[n.label]),
    Access: lambda e, n: e.values[n.name],
    Unary: lambda e, n: -(e.value(n.value) * 1.0) if n.op == "-" else e.value(n.value),
    Binary: lambda e, n: _OPERATORS[n.op](*e.operands(n)),
    Call: lambda e, n: NUMPY[n.name](*e.operands(n)),
    Reshape: lambda e, n: np.reshape(e.full(n.value), e.extents(n.shape)),
    Reduction: _reduction,
}
