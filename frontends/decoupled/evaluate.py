"""Evaluation of expressions at the positions of their labels, as ops."""

from __future__ import annotations

from typing import Any

from tileir.builder import Expr
from tileir.frontends.decoupled import online, values
from tileir.frontends.decoupled.causal_skip import holds
from tileir.frontends.decoupled.element_types import Kind, accumulator, dot_operand_type
from tileir.frontends.decoupled.errors import error_at
from tileir.frontends.decoupled.kernel import Env, KernelState, inner_env, reads_member
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
from tileir.frontends.decoupled.ranges import at_once, positions
from tileir.frontends.decoupled.shapes import moves
from tileir.frontends.decoupled.values import TileValue, align_axes, element, spread, widen
from tileir.types import Scalar, tile

_COMBINE = {"rsum": ("add", "fadd"), "rmax": ("smax", "fmaximum"), "rmin": ("smin", "fminimum")}


def evaluate(k: KernelState, node: Node, env: Env) -> TileValue:
    """The value of `node`. Raises CompilationError and BuildError."""
    if isinstance(node, Access):
        return _read_once(k, node, env)
    key = k.key(node, env)
    result = k.recall(key)
    if result is None:
        try:
            result = _evaluate(k, node, env)
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            what = node.name if isinstance(node, Call) else "the expression"
            raise error_at(f"{what} has no value: {error}", node.place, "TIR1203") from None
        k.remember(key, result)
    return result


def _read_once(k: KernelState, node: Access, env: Env) -> TileValue:
    """A tensor at positions, regardless of the names of their labels."""
    places = [f"{node.name}.{i}" for i in range(len(node.labels))]
    key = node.name, tuple(env[label] for label in node.labels)
    result = k.recall(key)
    if result is None:
        result = _evaluate(k, node, env).rename(dict(zip(node.labels, places, strict=True)))
        k.remember(key, result)
    return result.rename(dict(zip(places, node.labels, strict=True)))


def _evaluate(k: KernelState, node: Node, env: Env) -> TileValue:
    if isinstance(node, Reduction) and k.online(node.label):
        return online.evaluate_together(k, node, env)
    if node.place is None:
        return _RULES[type(node)](k, node, env)
    with k.b.at_location(node.place):
        return _RULES[type(node)](k, node, env)


def hoist(k: KernelState, node: Node, env: Env) -> None:
    """Evaluate the reductions and fused Funcs below `node` for which `env` has all positions, so
    that they are computed outside of the loops that are still to come."""
    func = reads_member(k, node)
    ready = all(label in env for label in k.free(node))
    if ready and (func or isinstance(node, Reduction)):
        evaluate(k, node, env)
    elif func:
        assert isinstance(node, Access)
        hoist(k, func.value, inner_env(node, func.labels, env))
    else:
        for operand in node.operands:
            hoist(k, operand, _below(k, node, env))


def hoist_dot_operands(k: KernelState, node: Node, env: Env) -> None:
    """Load the operands of matmuls below `node` for which `env` has all positions."""
    func = reads_member(k, node)
    if func:
        assert isinstance(node, Access)
        hoist_dot_operands(k, func.value, inner_env(node, func.labels, env))
        return
    inner = _below(k, node, env)
    for operand in node.operands:
        is_operand = (
            isinstance(node, Reduction) and node.op == "rdot" and isinstance(operand, Access)
        )
        is_available = all(label in inner for label in k.free(operand))
        if is_operand and is_available and not reads_member(k, operand):
            evaluate(k, operand, inner)
        else:
            hoist_dot_operands(k, operand, inner)


def _below(k: KernelState, node: Node, env: Env) -> Env:
    """The positions known to the operands of `node`."""
    if not isinstance(node, Reduction):
        return env
    inner = {label: r for label, r in env.items() if label != node.label}
    if node.part is None and k.is_whole(node.label) and not k.online(node.label):
        inner[node.label] = k.full_range(node.label)
    return inner


# Rules --------------------------------------------------------------------------------------------


def _access(k: KernelState, node: Access, env: Env) -> TileValue:
    func = k.inlined_func(node.name)
    if func is None:
        extra = k.chunk_labels.get(node.name, ())
        return k.load(node.name, (*extra, *node.labels), {**k.outer, **env})
    result = evaluate(k, func.value, inner_env(node, func.labels, env))
    return result.rename(dict(zip(func.labels, node.labels, strict=True)))


def _label(k: KernelState, node: Label, env: Env) -> TileValue:
    place = env[node.name]
    return TileValue(place.index, (node.name,) if place.extent else ())


def _operands(k: KernelState, node: Node, env: Env) -> tuple[list[Any], tuple[str, ...]]:
    """The operands aligned with each other, and the axes they then have."""
    return _align(k, node, [evaluate(k, n, env) for n in node.operands])


def _align(k: KernelState, node: Node, tiles: list[TileValue]) -> tuple[list[Any], tuple[str, ...]]:
    """Tiles, of the shape of `node`, aligned with each other, and the axes they then have."""
    tile_axes = {a for t in tiles for a in t.axes}
    axes = tuple(label for label in k.shape(node) if label in tile_axes)
    return [align_axes(t, axes) for t in tiles], axes


def _multiply_and_reduce(k: KernelState, node: Binary) -> tuple[Node, Node, Node] | None:
    """x, y and z of a float expression x * y + z or a difference of this form; else None."""
    kind = k.kind(node)
    if node.op not in ("+", "-") or not isinstance(kind, Scalar) or not kind.is_float:
        return None
    for product, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(product, Binary) and product.op == "*":
            return product.left, product.right, other
    return None


def _unary(k: KernelState, node: Unary, env: Env) -> TileValue:
    items, axes = _operands(k, node, env)
    return TileValue(values.unary(node.op, items[0]), axes)


def _binary(k: KernelState, node: Binary, env: Env) -> TileValue:
    if k.fast and (parts := _multiply_and_reduce(k, node)) is not None:
        items, axes = _align(k, node, [evaluate(k, n, env) for n in parts])
        if node.op == "-":
            subtracted = 0 if parts[2] is node.left else 2
            items[subtracted] = values.unary("-", items[subtracted])
        return TileValue(values.call(k.b, "fma", items), axes)
    items, axes = _operands(k, node, env)
    if node.op == "%":
        items[1] = _divisor(k, items[1], axes, env)
    return TileValue(values.binary(k.b, node.op, items[0], items[1], k.fast), axes)


def _call(k: KernelState, node: Call, env: Env) -> TileValue:
    if node.name == "where" and (masked := _masked_at_the_edge(k, node, env)) is not None:
        return masked
    items, axes = _operands(k, node, env)
    if node.name == "cdiv":
        items[1] = _divisor(k, items[1], axes, env)
    return TileValue(values.call(k.b, node.name, items, k.fast), axes)


def _masked_at_the_edge(k: KernelState, node: Call, env: Env) -> TileValue | None:
    """`where(l <= m, x, number)` in a pass over `l`: x, masked only where the condition does not
    hold throughout; None for any other choice."""
    test, x, other = node.arguments
    labels = k.free(test)
    if not any(k.online(n) for n in labels) or not isinstance(other, (Number, Unary)):
        return None
    sure = holds(k, test, env)
    number, result = evaluate(k, other, env).item, evaluate(k, x, env)
    tile_axes = {*result.axes, *(n for n in labels if env[n].extent)}
    axes = tuple(label for label in k.shape(node) if label in tile_axes)
    if sure is None or not axes or isinstance(number, Expr) or not isinstance(result.item, Expr):
        return None
    shape = tuple(env[a].extent for a in axes)
    value = k.b.var(spread(TileValue(widen(result.item), result.axes), axes, shape, k.b))
    if not element(value.get()).is_float:
        return None
    with k.b.if_(~sure), k.scope():
        mask = align_axes(evaluate(k, test, env), axes)
        value.set(values.call(k.b, "where", [mask, value.get(), float(number)]))
    return TileValue(value.get(), axes)


def _divisor(k: KernelState, item: Any, axes: tuple[str, ...], env: Env) -> Any:
    """A divisor with 1 in lanes outside of the tensor, so that these do not trap."""
    if not isinstance(item, Expr) or element(item).is_float:
        return item
    for axis in axes:
        mask = env[axis].mask
        if mask is not None and item.shape:
            item = k.b.where(align_axes(TileValue(mask, (axis,)), axes), item, 1)
    return item


def _reshape(k: KernelState, node: Reshape, env: Env) -> TileValue:
    if not moves(node, k.shape(node.value)):
        return evaluate(k, node.value, env)
    assert isinstance(node.value, Access)
    if k.inlined_func(node.value.name):
        message = f"{node.value.name} is fused, and its elements are moved by reshape"
        raise error_at(message, node.place, "TIR1204")
    labels = [label for label in node.shape if label]
    linear: Any = 0
    for i, label in enumerate(labels):
        place = env[label]
        index = place.index
        if isinstance(index, Expr) and place.extent:
            index = align_axes(
                TileValue(index, (label,)), tuple(n for n in labels if env[n].extent)
            )
        linear = linear * k.sizes[label] + index if i else index
    return _gather(k, node.value, linear, tuple(n for n in labels if env[n].extent), env)


def _gather(
    k: KernelState, node: Access, linear: Any, axes: tuple[str, ...], env: Env
) -> TileValue:
    """A tensor at places counted in row-major order."""
    strides = k.tensors[node.name].strides
    offset: Any = 0
    for label, stride in reversed(list(zip(node.labels, strides, strict=True))):
        offset = linear % k.sizes[label] * stride + offset
        linear = linear // k.sizes[label]
    ranges = [env[a] for a in axes]
    mask = k.mask(ranges, list(range(len(axes))))
    other, eviction = None if mask is None else 0, k.eviction(node.name)
    expr = (k.pointers[node.name] + offset).load(mask, other, eviction=eviction)
    return TileValue(expr, axes, frozenset(axes))


def _reduction(k: KernelState, node: Reduction, env: Env) -> TileValue:
    walk = k.walk(node.label, env, node)
    kinds = tuple(k.kind(v) for v in node.values)
    into = accumulator(node, kinds)
    if walk.whole:
        place = at_once(k.b, walk) if node.part else k.full_range(node.label)
        return collapse(k, node, *term(k, node, {**env, node.label: place}, into))
    axes = term_axes(k, node, env, walk.extent)
    shape = tuple(env[a].extent if a != node.label else walk.extent for a in axes)
    total = k.b.var(k.b.constant(tile(into, shape), identity(node.op, into)), name=node.label)
    hoist_dot_operands(k, node, {label: r for label, r in env.items() if label != node.label})
    with positions(k.b, walk, k.stages) as place, k.scope():
        inner = {**env, node.label: place}
        if is_dot(k, node, inner, kinds):
            total.set(product(k, node, inner, kinds, total.get()))
        else:
            result, _ = term(k, node, inner, into)
            total.set(combine(k, node.op, total.get(), spread(result, axes, shape, k.b)))
    left = node.label in axes
    return collapse(k, node, TileValue(total.get(), axes), left)


def term(k: KernelState, node: Reduction, env: Env, into: Scalar) -> tuple[TileValue, bool]:
    """The summand of a reduction, and whether its axis is still there: matmuls have already reduced
    it."""
    kinds = tuple(k.kind(v) for v in node.values)
    if is_dot(k, node, env, kinds):
        axes = term_axes(k, node, env, env[node.label].extent)
        return TileValue(product(k, node, env, kinds, None), axes), False
    axes = term_axes(k, node, env, env[node.label].extent)
    shape = tuple(env[a].extent for a in axes)
    place = env[node.label]
    if node.op == "rdot":
        sides = [values.widen(align_axes(evaluate(k, v, env), axes)) for v in node.values]
        result = TileValue(values.binary(k.b, "*", sides[0], sides[1]), axes)
    else:
        result = evaluate(k, node.values[0], env)
    expr = spread(TileValue(widen(result.item), result.axes), axes, shape, k.b).to(into)
    if place.mask is not None and not (node.op == "rsum" and node.label in result.zeroed):
        inside = align_axes(TileValue(place.mask, (node.label,)), axes)
        expr = k.b.where(inside, expr, k.b.constant(expr.type, identity(node.op, into)))
    return TileValue(expr, axes), bool(place.extent)


def term_axes(k: KernelState, node: Reduction, env: Env, extent: int) -> tuple[str, ...]:
    """The axes of the summand; the reduced label has `extent`. Matmuls have already reduced it."""
    if node.op != "rdot":
        labels = [label for label in k.shape(node.values[0]) if label]
        return tuple(n for n in labels if (extent if n == node.label else env[n].extent))
    outer = tuple(label for label in k.shape(node) if label and env[label].extent)
    return (*outer, node.label) if extent and not dot_axes(k, node, env) else outer


def dot_axes(k: KernelState, node: Reduction, env: Env) -> bool:
    """Whether rows and columns of a matmul are tiles of a type that matmuls are of."""
    rows, columns = k.shape(node)[-2:]
    kinds = [k.kind(v) for v in node.values]
    if not all(isinstance(kind, Scalar) for kind in kinds) or not dot_operand_type(*kinds):  # type: ignore[arg-type]
        return False
    batch = sum(1 for n in k.shape(node)[:-2] if n and env[n].extent)
    return bool(rows and columns and env[rows].extent and env[columns].extent and batch < 2)


def is_dot(k: KernelState, node: Reduction, env: Env, kinds: tuple[Kind, ...]) -> bool:
    """Whether the reduction is a matmul of tiles."""
    return node.op == "rdot" and bool(env[node.label].extent) and dot_axes(k, node, env)


def product(
    k: KernelState, node: Reduction, env: Env, kinds: tuple[Kind, ...], onto: Expr | None
) -> Expr:
    """The matmul of both tiles, added to `onto`."""
    shape, label = k.shape(node), node.label
    batch = tuple(n for n in shape[:-2] if n and env[n].extent)
    kind = dot_operand_type(*kinds)  # type: ignore[arg-type]
    assert kind is not None
    sides = [
        _dot_operand(k, value, (*batch, *pair), env, label, kind)
        for value, pair in zip(node.values, ((shape[-2], label), (label, shape[-1])), strict=True)
    ]
    return sides[0].dot(sides[1], onto, precision=k.group.root.schedule.precision)


def _dot_operand(
    k: KernelState, node: Node, axes: tuple[Any, ...], env: Env, label: str, kind: Scalar
) -> Expr:
    result = evaluate(k, node, env)
    shape = tuple(env[a].extent for a in axes)
    expr, mask = spread(result, axes, shape, k.b), env[label].mask
    expr = (expr if element(expr).is_float or kind is element(expr) else widen(expr)).to(kind)  # type: ignore[union-attr]
    if mask is not None and label not in result.zeroed:
        inside = align_axes(TileValue(mask, (label,)), axes)
        expr = k.b.where(inside, expr, k.b.constant(expr.type, 0))
    return expr


def combine(k: KernelState, op: str, left: Expr, right: Expr) -> Expr:
    """Combine two parts of a reduction."""
    if op in ("rsum", "rdot"):
        return left + right
    return k.b.maximum(left, right) if op == "rmax" else k.b.minimum(left, right)


def identity(op: str, kind: Scalar) -> Any:
    """The initial value of a reduction."""
    if op in ("rsum", "rdot"):
        return 0
    sign = -1 if op == "rmax" else 1
    if kind.is_float:
        return sign * float("inf")
    return -(1 << (kind.bits - 1)) if sign < 0 else (1 << (kind.bits - 1)) - 1


def collapse(k: KernelState, node: Reduction, total: TileValue, left: bool) -> TileValue:
    """Reduce the elements along the label, where the axis is still there."""
    if not left or node.label not in total.axes:
        return total
    assert isinstance(total.item, Expr)
    at = total.axes.index(node.label)
    op = "rsum" if node.op == "rdot" else node.op
    combine = _COMBINE[op][element(total.item).is_float]
    axes = tuple(a for a in total.axes if a != node.label)
    return TileValue(total.item.reduce(at, combine), axes)


_RULES: dict[type[Node], Any] = {
    Number: lambda k, node, env: TileValue(node.value),
    ScalarInput: lambda k, node, env: TileValue(k.numbers[node.name]),
    Length: lambda k, node, env: TileValue(k.sizes[node.label]),
    ProgramId: lambda k, node, env: TileValue(k.b.program_id(axis=0)),
    Access: _access, Label: _label, Unary: _unary, Binary: _binary, Call: _call,
    Reshape: _reshape, Reduction: _reduction,
}  # fmt: skip
