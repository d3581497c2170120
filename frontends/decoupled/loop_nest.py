"""The loop nest of a kernel (section 3.3.1): blocks, loops, fused tensors in memory."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import attrs

from tileir.builder import Builder, Expr, arg, pointer
from tileir.frontends.decoupled.evaluate import evaluate, hoist
from tileir.frontends.decoupled.fusion import Group, reductions
from tileir.frontends.decoupled.grid import Level, instances, levels, places
from tileir.frontends.decoupled.kernel import Env, KernelState
from tileir.frontends.decoupled.model import Func
from tileir.frontends.decoupled.nodes import Node, ScalarInput, Shape, accesses, walk as nodes
from tileir.frontends.decoupled.ranges import DimensionWalk, Range, at_once, positions
from tileir.frontends.decoupled.schedule import Schedule
from tileir.frontends.decoupled.tensors import Tensor, row_major
from tileir.frontends.decoupled.values import spread
from tileir.types import Scalar


@attrs.frozen
class Launch:
    """A kernel, the number of its program instances, its parameters, and its `arguments`:
    the names of the plan's tensors and numbers."""

    kernel: str
    instances: int
    parameters: tuple[str, ...]
    arguments: tuple[str, ...] = ()


def build(
    b: Builder,
    name: str,
    group: Group,
    sizes: Mapping[str, int],
    tensors: Mapping[str, Tensor],
    scalars: Mapping[str, Scalar],
    shapes: dict[Node, Shape],
) -> Launch:
    """Make the kernel of a group. Raises CompilationError and BuildError."""
    root = group.root
    stored = stored_in(group, sizes)
    used = {n.name for f in group.funcs for n in nodes(f.value) if isinstance(n, ScalarInput)}
    reads = [n for n in group.reads if n in tensors]
    written = [f.name for f in group.members if f.name in stored]
    pointers = [*reads, *written, root.name]
    numbers = [n for n in scalars if n in used]
    parameters: dict[str, Any] = {
        **{n: _pointer(tensors[n], readonly=n in reads) for n in pointers},
        **{n: scalars[n] for n in numbers},
    }
    kernel = KernelState(b, group, sizes, tensors, scalars, shapes, stored)
    kernel.chunk_labels = {
        f.name: tuple(f"{n}.block" for n in _private(group, f, sizes))
        for f in group.members
        if f.name in stored
    }
    place = root.place
    with (
        b.at_location(place) if place else nullcontext(),
        b.kernel(name, **parameters) as arguments,
    ):
        result = dict(zip(parameters, arguments, strict=True))
        kernel.pointers.update({n: result[n] for n in pointers})
        kernel.numbers.update({n: result[n] for n in numbers})
        _configure(b, root.schedule)
        instances = _body(kernel)
    return Launch(name, instances, tuple(parameters))


def _configure(b: Builder, schedule: Schedule) -> None:
    """Set the attributes for warps, roles and blocks of a schedule."""
    if schedule.num_warps:
        b.configure(num_warps=schedule.num_warps)
    if schedule.roles == "off":
        b.configure(warp_specialize=False)
    if schedule.persistent == "off":
        b.configure(persistent=False)
    if schedule.persistent == "pingpong":
        b.configure(pingpong=True)


def _pointer(tensor: Tensor, *, readonly: bool) -> Any:
    aligned = 16 if tensor.aligned else 0
    return arg(pointer(tensor.element), aligned=aligned, readonly=readonly, noalias=not readonly)


def _body(k: KernelState) -> int:
    root = k.group.root
    found_levels = levels(root.schedule, k.sizes)
    blocks = _blocks(k, found_levels)
    k.outer.update({f"{n}.block": Range(index) for n, index in blocks.items()})
    k.prepare()
    env: dict[str, Range] = {}
    walks: dict[str, DimensionWalk] = {}
    for label in dict.fromkeys((*root.labels, *_counters(k))):
        walks[label] = walk = _walk(k, label, blocks)
        if walk.whole:
            same = walk.block == walk.size and isinstance(walk.start, int)
            env[label] = k.full_range(label) if same else at_once(k.b, walk)
    _emit(k, env, [n for n in root.labels if not walks[n].whole], walks, frozenset())
    return instances(found_levels)


def _counters(k: KernelState) -> tuple[str, ...]:
    """Labels that count parts of reductions."""
    return tuple(n for n in k.group.root.schedule.blocks if n not in k.group.root.labels)


def _walk(k: KernelState, label: str, blocks: Mapping[str, Expr]) -> DimensionWalk:
    size, block = k.sizes[label], k.block(label)
    start: Expr | int = blocks[label] * block if label in blocks else 0
    return DimensionWalk(size, block, k.tensor(label), start)


# Blocks -------------------------------------------------------------------------------------------


def _blocks(k: KernelState, grid: Sequence[Level]) -> dict[str, Expr]:
    """The block of each label that this program instance computes."""
    if instances(grid) == 1:
        return {}
    return places(grid, k.b.program_id(axis=0), k.group.root.schedule.reverse)


# Loops --------------------------------------------------------------------------------------------


def _emit(
    k: KernelState,
    env: Env,
    pending: list[str],
    walks: Mapping[str, DimensionWalk],
    done: frozenset[str],
) -> None:
    root = k.group.root
    for func in k.group.members:
        if func.name in k.stored and func.name not in done:
            prefix = _prefix(k.group, func)
            if all(label in env for label in prefix):
                _store_fused(k, func, {n: env[n] for n in prefix}, env)
                done |= {func.name}
    hoist(k, root.value, env)
    if not pending:
        k.last = True
        _write(k, root.name, root.labels, root.value, env, root.combine)
        return
    label, *inner_labels = pending
    with positions(k.b, walks[label], k.stages) as place, k.scope():
        _emit(k, {**env, label: place}, inner_labels, walks, done)


def _write(
    k: KernelState,
    name: str,
    labels: tuple[str, ...],
    value: Node,
    env: Env,
    combine: str | None = None,
) -> None:
    """Store the value of an expression in a tensor at the positions of its labels."""
    result = evaluate(k, value, env)
    where = {**k.outer, **env}
    ranges, strides = [where[n] for n in labels], k.tensors[name].strides
    tiled = [i for i, r in enumerate(ranges) if r.extent]
    order = sorted(tiled, key=lambda i: -abs(strides[i]))
    axes, shape = tuple(labels[i] for i in order), tuple(ranges[i].extent for i in order)
    place = k.pointers[name] + k.offsets(name, ranges, order)
    expr, mask = spread(result, axes, shape, k.b), k.mask(ranges, order)
    if combine is None:
        place.store(expr, mask, eviction=k.eviction(name))
    else:
        place.atomic(combine, expr, mask, sem="relaxed")


# Fused tensors in memory --------------------------------------------------------------------------


def stored_in(group: Group, sizes: Mapping[str, int]) -> frozenset[str]:
    """Fused Funcs whose values pass through memory: those with a dimension, within the loop that
    they are fused at, which is not worked on whole (section 3.3.1.5)."""
    if group.inline:
        return frozenset()
    return frozenset(f.name for f in group.members if _is_stored(group, f, sizes))


def _is_stored(group: Group, func: Func, sizes: Mapping[str, int]) -> bool:
    fusion = func.schedule.fusion
    assert fusion is not None
    if {r.label for r in reductions(func)} & group.root.schedule.online:
        return False
    if fusion.label not in _level_labels(group, func):
        return False
    inner = func.labels.index(fusion.label) + 1
    labels = set(func.labels[inner:])
    for reader in group.funcs:
        for access in accesses(reader.value):
            labels |= set(access.labels[inner:]) if access.name == func.name else set()
    return not all(_fused_walk(group, func, label, sizes).whole for label in labels)


def _level_labels(group: Group, func: Func) -> tuple[str, ...]:
    """Labels at which a Func is fused by the nesting of loops, not into a reduction."""
    assert func.schedule.fusion is not None
    target = next(f for f in group.funcs if f.name == func.schedule.fusion.into)
    return target.labels


def _fused_walk(group: Group, func: Func, label: str, sizes: Mapping[str, int]) -> DimensionWalk:
    """The iteration of a fused Func over a dimension within the loop it is fused at: the block of
    the kernel if nothing else of it is read, else all of it."""
    schedule = group.root.schedule
    size = sizes[label]
    tensor = next(
        (f.schedule.tensors[label] for f in (group.root, *group.members)
         if label in f.schedule.tensors), 1)  # fmt: skip
    block = schedule.blocks.get(label, size) if _own(group, label) else size
    return DimensionWalk(size, min(block, size), tensor)


def _own(group: Group, label: str) -> bool:
    """Whether every value along a label is needed by the block that computes it alone."""
    if label not in group.root.labels or label in group.reductions:
        return False
    members = {f.name: f.labels for f in group.members}
    return all(
        members.get(a.name, a.labels) == a.labels for f in group.funcs for a in accesses(f.value)
    )


def _prefix(group: Group, func: Func) -> tuple[str, ...]:
    """Dimensions that a stored Func shares with the loops of the kernel: only the positions at hand
    are read, and computed, in each iteration."""
    assert func.schedule.fusion is not None
    outer = func.labels[: func.labels.index(func.schedule.fusion.label) + 1]
    shared = 0
    for label, looped in zip(outer, group.root.labels, strict=False):
        if label != looped or not _reads_at_hand(group, label):
            break
        shared += 1
    return outer[:shared]


def _reads_at_hand(group: Group, label: str) -> bool:
    """Whether every Func that is fused is read at the current position along `label` alone."""
    members = {f.name: f.labels for f in group.members}
    read = (a for f in group.funcs for a in accesses(f.value) if a.name in members)
    return all(
        at == label for a in read for own, at in zip(members[a.name], a.labels, strict=True)
        if own == label
    )  # fmt: skip


def buffers(group: Group, sizes: Mapping[str, int], element: Scalar) -> dict[str, Tensor]:
    """The memory of the fused Funcs that are stored: a part for every block that computes its
    own."""
    tensors: dict[str, Tensor] = {}
    for func in group.members:
        if func.name in stored_in(group, sizes):
            extents = [_blocks_of(group, n, sizes) for n in _private(group, func, sizes)]
            shape = (*extents, *(sizes[label] for label in func.labels))
            tensors[func.name] = row_major(element, shape)
    return tensors


def _blocks_of(group: Group, label: str, sizes: Mapping[str, int]) -> int:
    return -(-sizes[label] // group.root.schedule.blocks[label])


def _private(group: Group, func: Func, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Labels of the grid that the blocks of a stored Func do not depend on."""
    prefix = _prefix(group, func)
    own = [n for n in func.labels if n in prefix or _own(group, n)]
    blocks = group.root.schedule.blocks
    return tuple(n for n in blocks if n not in own and _blocks_of(group, n, sizes) > 1)


def _store_fused(k: KernelState, func: Func, prefix: Env, env: Env) -> None:
    """Compute a fused Func at the current positions, and store it to its memory."""
    inner_labels = [n for n in func.labels if n not in prefix]

    def loops(inner: Env, pending: list[str]) -> None:
        hoist(k, func.value, inner)
        if not pending:
            labels = (*k.chunk_labels[func.name], *func.labels)
            _write(k, func.name, labels, func.value, inner)
            return
        label, *deeper_labels = pending
        with _fused_positions(k, func, label, env) as place, k.scope():
            loops({**inner, label: place}, deeper_labels)

    loops(prefix, inner_labels)


@contextmanager
def _fused_positions(k: KernelState, func: Func, label: str, env: Env) -> Generator[Range]:
    walk = _fused_walk(k.group, func, label, k.sizes)
    index = k.outer.get(f"{label}.block")
    if index is not None and walk.block < walk.size:
        walk = attrs.evolve(walk, start=index.index * walk.block)
    if walk.whole and label in env and walk.block == k.block(label):
        yield env[label]
    else:
        with positions(k.b, walk, k.stages) as place:
            yield place
