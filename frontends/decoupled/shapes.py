"""Shapes of expressions: labels of dimensions, by the broadcasting rules of numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tileir.frontends.decoupled.errors import CompilationError, error_at
from tileir.frontends.decoupled.nodes import (
    Access,
    Label,
    Node,
    Reduction,
    Reshape,
    Shape,
)


def shape_of(node: Node, shapes: dict[Node, Shape] | None = None) -> Shape:
    """The shape of an expression; `shapes` remembers those below. Raises CompilationError."""
    shape = (shapes if shapes is not None else {}).get(node)
    if shape is None:
        rule = _RULES.get(type(node), _elementwise)
        shape = rule(node, lambda n: shape_of(n, shapes))
        if shapes is not None:
            shapes[node] = shape
    return shape


def shape_text(shape: Shape) -> str:
    """The text of a shape in messages and kernel definitions."""
    return f"[{', '.join(label or '1' for label in shape)}]"


def broadcast(left: Shape, right: Shape, node: Node) -> Shape:
    """The shape of an operation on both (section 3.2). Raises CompilationError."""
    rank = max(len(left), len(right))
    padded = [(None,) * (rank - len(s)) + s for s in (left, right)]
    for a, b in zip(*padded, strict=True):
        if a != b and a is not None and b is not None:
            shapes = f"{shape_text(left)} and {shape_text(right)}"
            raise error_at(
                f"shapes {shapes} do not broadcast: {a} is not {b}", node.place, "TIR1203"
            )
    result = tuple(a or b for a, b in zip(*padded, strict=True))
    return _distinct(result, node)


def _distinct(shape: Shape, node: Node) -> Shape:
    labels = [label for label in shape if label]
    for label in labels:
        if labels.count(label) > 1:
            raise error_at(
                f"{label} is two dimensions of {shape_text(shape)}", node.place, "TIR1203"
            )
    return shape


def _access(node: Access, _: Callable[[Node], Shape]) -> Shape:
    return _distinct(node.labels, node)


def _elementwise(node: Node, shape: Callable[[Node], Shape]) -> Shape:
    result: Shape = ()
    loose = True
    for operand in node.operands:
        other, reduced = shape(operand), is_reduced(operand)
        joined = (
            by_labels(result, other) if reduced else by_labels(other, result) if loose else None
        )
        result = joined or broadcast(result, other, node)
        loose = loose and reduced
    return result


def by_labels(shape: Shape, part: Shape) -> Shape | None:
    """`shape`, where it has the labels of `part` in their order."""
    remaining_labels = iter(shape)
    return shape if None not in part and all(label in remaining_labels for label in part) else None


def is_reduced(node: Node) -> bool:
    """Whether all tensors that `node` reads are reduced in it. Such a value stands along the
    dimensions it keeps by their labels, as Listing 3.4 has it; others broadcast by position."""
    if isinstance(node, (Access, Reshape)):
        return False
    return isinstance(node, Reduction) or all(is_reduced(n) for n in node.operands)


def _reduction(node: Reduction, shape: Callable[[Node], Shape]) -> Shape:
    if node.op == "rdot":
        return _dot(node, *(shape(v) for v in node.values))
    result = shape(node.values[0])
    if node.label not in result:
        message = f"{node.label} is not a dimension of {shape_text(result)}, which is reduced"
        raise error_at(message, node.place, "TIR1203")
    return tuple(label for label in result if label != node.label)


def _dot(node: Reduction, left: Shape, right: Shape) -> Shape:
    shapes = f"{shape_text(left)} and {shape_text(right)}"
    if len(left) < 2 or len(right) < 2:
        raise error_at(f"a matmul needs two matrices, not {shapes}", node.place, "TIR1203")
    if left[-1] != node.label or right[-2] != node.label:
        message = f"the inner dimensions of {shapes} are not {node.label}"
        raise error_at(message, node.place, "TIR1203")
    batch = broadcast(left[:-2], right[:-2], node)
    return _distinct((*batch, left[-2], right[-1]), node)


def _reshape(node: Reshape, shape: Callable[[Node], Shape]) -> Shape:
    old = shape(node.value)
    if sorted(filter(None, old)) != sorted(filter(None, node.shape)):
        message = f"{shape_text(old)} has not as many elements as {shape_text(node.shape)}"
        raise error_at(message, node.place, "TIR1203")
    if list(filter(None, old)) != list(filter(None, node.shape)) and not _is_stored(node.value):
        message = (
            f"reshape of {shape_text(old)} to {shape_text(node.shape)} moves elements, which it "
            "does for a tensor, not for an expression: make it a Func first"
        )
        raise error_at(message, node.place, "TIR1203")
    return node.shape


def _is_stored(node: Node) -> bool:
    return isinstance(node, Access)


_RULES: Mapping[type[Node], Callable[..., Shape]] = {
    Access: _access,
    Label: lambda node, _: (node.name,),
    Reduction: _reduction,
    Reshape: _reshape,
}


def moves(node: Reshape, old: Shape) -> bool:
    """Whether the reshape changes the order of dimensions, so that elements move."""
    return list(filter(None, old)) != list(filter(None, node.shape))


def free(node: Node) -> tuple[str, ...]:
    """Labels whose positions the value of an expression depends on, in a fixed order."""
    result: dict[str, None] = {}
    if isinstance(node, Access):
        result.update(dict.fromkeys(node.labels))
    elif isinstance(node, Label):
        result[node.name] = None
    for operand in node.operands:
        result.update(dict.fromkeys(free(operand)))
    if isinstance(node, Reduction):
        result.pop(node.label, None)
        if node.part:
            result[node.part.label] = None
    if isinstance(node, Reshape):
        result.update(dict.fromkeys(filter(None, node.shape)))
    return tuple(result)


def check_result(value: Node, labels: tuple[str, ...], shapes: dict[Node, Shape]) -> None:
    """Refuse an algorithm whose tensor does not fit the shape defined. Raises CompilationError."""
    shape = shape_of(value, shapes)
    try:
        loose = is_reduced(value) and by_labels(labels, shape)
        fits = bool(loose) or broadcast(shape, labels, value) == labels
    except CompilationError:
        fits = False
    if not fits:
        message = f"an expression of shape {shape_text(shape)} does not define {shape_text(labels)}"
        raise error_at(message, value.place, "TIR1203")
