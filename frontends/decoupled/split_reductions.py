"""Reductions cut into blocks (section 3.3.2): a kernel of parts and one that joins them, or atomic
operations on the result.

    sum_out[x] = rsum(A[x, k], k);    sum_out.block(k:32);
becomes
    sum_out.k[kb, x] = rsum(A[x, k] of block kb, k);    sum_out[x] = rsum(sum_out.k[kb, x], kb);
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from tileir.frontends.decoupled.fusion import Group, dependencies
from tileir.frontends.decoupled.model import Func, with_operands
from tileir.frontends.decoupled.nodes import (
    Access,
    Node,
    Number,
    Reduction,
    ReductionPart,
    Reshape,
    Shape,
)
from tileir.frontends.decoupled.schedule import Schedule
from tileir.frontends.decoupled.shapes import shape_of

IDENTITY = {"rsum": 0.0, "rdot": 0.0, "rmax": float("-inf"), "rmin": float("inf")}
"""The initial values of reductions."""
_ATOMIC = {"rsum": "fadd", "rdot": "fadd", "rmax": "fmax", "rmin": "fmin"}


@attrs.frozen
class Cut:
    """The groups that a group becomes, and the sizes of the labels that count blocks."""

    groups: tuple[Group, ...]
    sizes: Mapping[str, int]


def cut(own: Group, sizes: Mapping[str, int], shapes: dict[Node, Shape]) -> Cut:
    """`own` without blocks of reductions that one kernel would have to join."""
    groups, extra = [own], dict[str, int]()
    for label, size in own.root.schedule.blocks.items():
        if label in own.root.labels:
            continue
        count = -(-sizes[label] // size)
        counter = f"{label}.block"
        extra[counter] = count
        *before, last = groups
        result = _cut(last, label, ReductionPart(counter, size), shapes, count)
        groups = [*before, *result]
    return Cut(tuple(groups), extra)


def _cut(
    own: Group, label: str, part: ReductionPart, shapes: dict[Node, Shape], count: int
) -> Iterator[Group]:
    root = own.root
    if count == 1:
        yield attrs.evolve(own, root=_without(root, label, root.value))
        return
    if label in root.schedule.atomic:
        yield from _joined_by_atomics(own, label, part)
        return
    funcs: list[Func] = []

    def replace(node: Node) -> Node:
        inner = with_operands(node, [replace(n) for n in node.operands])
        if not isinstance(inner, Reduction) or inner.label != label:
            return inner
        shape = shape_of(inner, shapes)
        partial = _partial(root, inner, part, shape, len(funcs))
        if partial not in funcs:
            funcs.append(partial)
        access = Access(partial.name, partial.labels)
        joined = Reduction("rsum" if inner.op == "rdot" else inner.op, (access,), part.label)
        return joined if None not in shape else Reshape(joined, shape)

    value = replace(root.value)
    for partial in funcs:
        yield Group(partial, dependencies(partial, own.members), inline=True)
    schedule = _without(root, label, value).schedule
    tensors = {**schedule.tensors, part.label: 0}
    joining = attrs.evolve(schedule, tensors=tensors)
    joined = attrs.evolve(root, value=value, schedule=joining)
    yield attrs.evolve(own, root=joined, members=dependencies(joined, own.members))


def _partial(root: Func, node: Reduction, part: ReductionPart, shape: Shape, number: int) -> Func:
    labels = (part.label, *filter(None, shape))
    value = attrs.evolve(node, part=part)
    schedule = root.schedule
    blocks = {n: size for n, size in schedule.blocks.items() if n in labels}
    order = schedule.order if set(labels[1:]) >= set(_levels(schedule)) else ()
    changed = attrs.evolve(
        schedule, blocks={**blocks, part.label: 1}, order=order, online=frozenset[str]()
    )
    name = f"{root.name}.{node.label}{number or ''}"
    return Func(name, labels, value, root.place, changed)


def _levels(schedule: Schedule) -> list[str]:
    """Labels that `map` places."""
    return [level.label for level in schedule.order if level.label in schedule.blocks]


def _without(root: Func, label: str, value: Node) -> Func:
    schedule = root.schedule
    blocks = {n: size for n, size in schedule.blocks.items() if n != label}
    inner = {label}
    order = []
    for level in schedule.order:
        if level.label in inner:
            inner |= {level.inner} if level.inner else set()
        else:
            order.append(level)
    changed = attrs.evolve(schedule, blocks=blocks, order=tuple(order))
    return attrs.evolve(root, value=value, schedule=changed)


def _joined_by_atomics(own: Group, label: str, part: ReductionPart) -> Iterator[Group]:
    root, node = own.root, own.root.value
    assert isinstance(node, Reduction)
    start = attrs.evolve(
        root, value=Number(IDENTITY[node.op]), schedule=_start_schedule(root.schedule)
    )
    yield Group(start)
    bare = _without(root, label, attrs.evolve(node, part=part))
    schedule = attrs.evolve(bare.schedule, blocks={**bare.schedule.blocks, part.label: 1})
    func = attrs.evolve(bare, schedule=schedule, combine=_ATOMIC[node.op])
    yield attrs.evolve(own, root=func)


def _start_schedule(schedule: Schedule) -> Schedule:
    """The result is filled in the blocks in which it is computed, as whole tensors."""
    blocks = {n: s for n, s in schedule.blocks.items() if n not in schedule.atomic}
    return Schedule(blocks=blocks, tensors=dict.fromkeys(blocks, 0))
