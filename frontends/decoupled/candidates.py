"""Candidate schedules, by the kind of the kernel: matmuls, reductions of rows, elementwise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tileir.frontends.decoupled.fusion import Group, reductions
from tileir.frontends.decoupled.grid import instances, levels
from tileir.frontends.decoupled.load_balance import limit_of, steps_per_instance, together
from tileir.frontends.decoupled.nodes import (
    Reduction,
    accesses,
)
from tileir.frontends.decoupled.schedule import MapLevel, Schedule
from tileir.frontends.decoupled.tensors import Tensor

_WIDTHS = (512, 1024, 2048, 4096)
_PROCESSORS, _WARPS = 132, 64
"""The multiprocessors of an H200, and the warps that one of them runs at once."""
_STEPS = 4
"""The steps of a matmul that take as long as writing its result."""
_SIDE_BY_SIDE = 4
"""Blocks of a matmul of small K that a processor runs at once."""
_TOGETHER = 64
"""The most batches that are interleaved."""
_ROWS = 8192
"""The most elements of several rows that are reduced at once."""
_FEW = 128 << 20
"""Bytes that are not many times those of the cache."""
_LONG = 32 << 10
"""Bytes of a row from which on those of a wave fill the cache."""


def candidates(
    group: Group, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
) -> Iterator[Schedule]:
    """Schedules for a kernel."""
    dots = [r for f in group.funcs for r in reductions(f) if r.op == "rdot"]
    result = _matmul_schedules(group, sizes, dots) if dots else _elements(group, sizes, tensors)
    online = _online(group)
    for schedule in result:
        yield schedule
        for labels in online:
            looped = any(0 < schedule.tensor(n) < sizes[n] for n in labels)
            if looped and not schedule.blocks.keys() & labels:
                yield from _longest_first(group, sizes, attrs.evolve(schedule, online=labels))


def _longest_first(
    group: Group, sizes: Mapping[str, int], schedule: Schedule
) -> Iterator[Schedule]:
    """Grid orders that start with the longest instances.

    Under a causal mask, later blocks of rows iterate over more keys. They come first: those of all
    batches, those of one batch after the other, or those of as many batches at a time as balance
    the load.
    """
    own = attrs.evolve(group, root=attrs.evolve(group.root, schedule=schedule))
    limit = limit_of(own, sizes)
    if limit is None or limit.row not in schedule.blocks:
        yield schedule
        return
    labels = [n for n in group.root.labels if n != limit.row and n in schedule.blocks]
    after = [MapLevel(n) for n in labels if n == group.root.labels[-1]]
    before, rows = [MapLevel(n) for n in labels if n != group.root.labels[-1]], MapLevel(limit.row)
    first = attrs.evolve(schedule, reverse=frozenset((limit.row,)))
    yield attrs.evolve(first, order=(rows, *before, *after))
    if not before or instances(levels(schedule, sizes)) <= _PROCESSORS:
        return
    yield attrs.evolve(first, order=(*before, rows, *after))
    *outer, split = before
    steps, _ = steps_per_instance(limit, schedule.blocks, schedule.tensors, sizes)
    batches = -(-sizes[split.label] // schedule.blocks[split.label])
    many, inner = together(batches, steps, _PROCESSORS, _TOGETHER), f"{split.label}_in_group"
    if 1 < many < batches:
        grouped = MapLevel(split.label, inner, many)
        yield attrs.evolve(first, order=(*outer, grouped, rows, MapLevel(inner), *after))


def _online(group: Group) -> list[frozenset[str]]:
    """Labels over which a maximum and another value are reduced."""
    ops: dict[str, set[str]] = {}
    for func in group.funcs:
        for reduction in reductions(func):
            ops.setdefault(reduction.label, set()).add(reduction.op)
    result = [n for n, kinds in ops.items() if "rmax" in kinds and kinds & {"rsum", "rdot"}]
    return [frozenset([n]) for n in result]


def _fitting(options: Sequence[int], size: int) -> list[int]:
    """The sizes that do not exceed the power of two that `size` requires."""
    most = 1 << max(0, (size - 1).bit_length())
    return [n for n in options if n <= most] or [most]


# Matmuls ----------------------------------------------------------------------------------


def _matmul_schedules(
    group: Group, sizes: Mapping[str, int], dots: Sequence[Reduction]
) -> Iterator[Schedule]:
    root = group.root
    if len(root.labels) < 2:
        yield from _vectors(group, sizes)
        return
    *batch, rows, columns = root.labels
    inner = tuple(dict.fromkeys(r.label for r in dots))
    outer = [n for n in group.reductions if n not in inner]
    single = len(inner) == 1
    m, n = (_fitting((16, 32, 64, 128, 256), sizes[label]) for label in (rows, columns))
    depths = [_depths(sizes[label], single) for label in inner]
    nested = not single or any(sizes[columns] <= w for w in (256,))
    for bm, bn, warps, stages in itertools.product(m, n, (4, 8), (4, 3, 2) if single else (3, 2)):
        if bm * bn > 128 * 32 * warps or (warps == 8 and bm * bn < 64 * 64) or bm < min(m[-1], 32):
            continue
        for chosen in itertools.product(*depths):
            tensors = {rows: 0, columns: 0, **dict(zip(inner, chosen, strict=True))}
            tensors.update(dict.fromkeys(outer, 0))
            blocks = {**dict.fromkeys(batch, 1), rows: bm}
            blocks[columns] = bn
            schedule = Schedule(blocks, tensors, num_warps=warps, num_stages=stages)
            for order in _orders(schedule, root.labels, sizes, inner):
                ordered = attrs.evolve(schedule, order=order)
                yield from _once(ordered, sizes)
                alternates = single and (bm, bn, warps) == (128, 128, 4)
                if alternates and _few_steps(ordered, inner, sizes):
                    yield attrs.evolve(ordered, persistent="pingpong")
            if nested and sizes[columns] > bn:
                tensor_sizes = {**tensors, columns: bn}
                block_sizes = {k: v for k, v in blocks.items() if k != columns}
                yield from _once(
                    Schedule(block_sizes, tensor_sizes, num_warps=warps, num_stages=stages), sizes
                )
            if single and inner[0] not in root.labels:
                yield from _split(schedule, inner[0], sizes)


def _depths(size: int, single: bool) -> list[int]:
    result = [n for n in (16, 32, 64, 128) if n < size]
    unsplit = [0] if size <= (128 if single else 256) else []
    return [*result[-3:], *unsplit]


def _once(schedule: Schedule, sizes: Mapping[str, int]) -> Iterator[Schedule]:
    """Blocks need no loop over program instances where every processor has one at most; where it
    has few, whose matmuls have one step, several blocks side by side may hide what each waits
    for."""
    count = instances(levels(schedule, sizes))
    if count > _PROCESSORS:
        yield schedule
    if count <= _PROCESSORS or (count <= _SIDE_BY_SIDE * _PROCESSORS and _shallow(schedule, sizes)):
        yield attrs.evolve(schedule, persistent="off")


def _few_steps(schedule: Schedule, inner: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether a matmul takes so few steps that one warpgroup writes for about as long as another
    multiplies, but more than one."""
    steps = [sizes[n] / (schedule.tensor(n) or sizes[n]) for n in inner]
    return all(1 < n <= _STEPS for n in steps)


def _shallow(schedule: Schedule, sizes: Mapping[str, int]) -> bool:
    """Whether each reduction covers its whole label in one step."""
    inner = (n for n in schedule.tensors if n not in schedule.blocks)
    return all(schedule.tensor(n) in (0, sizes[n]) for n in inner)


def _orders(
    schedule: Schedule, labels: Sequence[str], sizes: Mapping[str, int], inner: Sequence[str]
) -> Iterator[tuple[MapLevel, ...]]:
    """Neighbouring instances share columns, so that the cache holds them; or, of a single matmul,
    whose result may be most of what moves, they write rows. Where it is, rows come before what
    is estimated to take as long."""
    *batch, rows, columns = labels
    counts = {n: -(-sizes[n] // schedule.blocks[n]) for n in labels if n in schedule.blocks}
    outer = [MapLevel(n) for n in batch]
    if counts.get(rows, 1) < 16 or counts.get(columns, 1) < 16:
        yield (*outer, MapLevel(columns), MapLevel(rows))
        return
    group = f"{columns}_in_group"
    grouped = (*outer, MapLevel(columns, group, 8), MapLevel(rows), MapLevel(group))
    if len(inner) > 1:
        yield grouped
        return
    m, n, depth = (sizes[label] for label in (rows, columns, *inner))
    by_rows = (*outer, MapLevel(rows), MapLevel(columns))
    yield from (by_rows, grouped) if m * n > depth * (m + n) else (grouped, by_rows)


def _split(schedule: Schedule, label: str, sizes: Mapping[str, int]) -> Iterator[Schedule]:
    """The inner dimension split into blocks, if there are few other blocks."""
    instances = math.prod(-(-sizes[n] // b) for n, b in schedule.blocks.items())
    for target in (_PROCESSORS, 2 * _PROCESSORS):
        parts = target // max(1, instances)
        size = max(256, 1 << math.ceil(math.log2(max(1, sizes[label] / max(1, parts)))))
        if parts > 1 and size < sizes[label]:
            yield attrs.evolve(schedule, blocks={**schedule.blocks, label: size}, order=())


def _vectors(group: Group, sizes: Mapping[str, int]) -> Iterator[Schedule]:
    tensors = {n: 0 if sizes[n] <= 256 else 64 for n in group.labels}
    yield Schedule({}, tensors, num_warps=4)


# Elements and rows --------------------------------------------------------------------------------


def _elements(
    group: Group, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
) -> Iterator[Schedule]:
    """Kernels without matmuls: `wide` labels run along memory."""
    root = group.root
    wide = _wide(group, tensors)
    reduced = [n for n in group.reductions if n not in root.labels]
    outer = [n for n in root.labels if n not in wide]
    whole_rows = bool(group.reductions) and any(n in wide for n in group.reductions)
    lanes = [n for n in root.labels if n in wide]
    for block, width, warps in itertools.product(
        (1, 2, 4, 8, 16), _widths(group, wide, sizes), (1, 2, 4, 8, 16, 32)
    ):
        blocks, tensor = dict.fromkeys(outer, 1), dict.fromkeys(outer, 0)
        if outer:
            blocks[outer[-1]] = min(block, sizes[outer[-1]])
        if not whole_rows:
            blocks.update({n: width or sizes[n] for n in lanes[-1:]})
            tensor.update(dict.fromkeys(lanes[-1:], 0))
        else:
            tensor.update(dict.fromkeys(lanes, width))
        deep = {n: width if n in wide else _narrow(width, block) for n in reduced}
        deep.update({n: width for n in group.reductions if n in wide})
        row = width or max(sizes[n] for n in wide or root.labels)
        if _sensible(block, row, warps, whole_rows, whole_rows and not width):
            schedule = Schedule(blocks, {**tensor, **_cap(deep, sizes)}, num_warps=warps)
            if len(blocks) > 1:  # neighbours go along memory
                order = sorted(blocks, key=lambda n: (n in wide, root.labels.index(n)))
                schedule = attrs.evolve(schedule, order=tuple(map(MapLevel, order)))
            evicting = _rows_evicting if whole_rows else _flat_evicting
            yield evicting(group, schedule, sizes, tensors)
            yield from _split_rows(schedule, reduced, sizes)


def _flat_evicting(
    group: Group, schedule: Schedule, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
) -> Schedule:
    """The eviction priorities of elements that are read or written once. If the tensors are not
    many times as large as the cache, writing back the lines that they displace takes a part of the
    time."""
    root, fused = group.root, {f.name for f in group.members}
    read = {a.name for f in group.funcs for a in accesses(f.value)} - fused
    once = {a.name for f in group.funcs for a in accesses(f.value)
            if a.name in read and set(a.labels) == set(root.labels)}  # fmt: skip
    bytes_read = sum(tensors[n].bytes for n in (*read, root.name))
    few = bytes_read <= _FEW and not group.reductions
    return attrs.evolve(schedule, evict_first=frozenset({*once, root.name})) if few else schedule


def _rows_evicting(
    group: Group, schedule: Schedule, sizes: Mapping[str, int], tensors: Mapping[str, Tensor]
) -> Schedule:
    """The eviction priorities of rows that are reduced.

    If all program instances run at once, each line is needed once and should displace no other
    line. If long rows are read and written wave by wave, lines that are read should stay until
    lines that were written have left.
    """
    root, fused = group.root, {f.name for f in group.members}
    reduced = set(group.reductions)
    rows = {a.name for f in group.funcs for a in accesses(f.value)
            if a.name not in fused and len(a.labels) > 1 and reduced & set(a.labels)}  # fmt: skip
    written = {root.name} if root.labels[1:] else set[str]()
    warps = instances(levels(schedule, sizes)) * (schedule.num_warps or 4)
    if warps <= _PROCESSORS * _WARPS:
        return attrs.evolve(schedule, evict_first=frozenset(rows | written))
    row = math.prod(sizes[n] for n in root.labels[1:]) * tensors[root.name].element.bits // 8
    if written and row >= _LONG:
        return attrs.evolve(schedule, evict_last=frozenset(rows))
    return schedule


def _narrow(width: int, block: int) -> int:
    """Rows at a time of a reduction across rows."""
    return max(1, min(32, 4096 // max(1, width * block)))


def _cap(deep: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    return {n: 0 if size >= sizes[n] else size for n, size in deep.items()}


def _widths(group: Group, wide: Sequence[str], sizes: Mapping[str, int]) -> list[int]:
    """Tensor sizes along memory; 0 for all of a row."""
    size = max((sizes[n] for n in wide), default=1)
    rows = any(n in wide for n in group.reductions)
    options = [n for n in ((2048, 4096, 8192) if rows else _WIDTHS) if n < size]
    return [*options, 0] if rows or size <= _WIDTHS[-1] else options


def _sensible(block: int, width: int, warps: int, reduced: bool, has_full_rows: bool) -> bool:
    """Between 4 and 32 elements of a tile for each thread, but for the least warps and the most,
    and of whole rows, which stay in registers as far as they fit. Several rows where they are
    short. Where nothing is reduced warps share nothing, and those of small blocks begin and end at
    different times."""
    each = block * width / (warps * 32)
    if not reduced:
        fills = 4 <= each and warps > 1  # a processor has as many blocks as half of its warps
        return warps <= 4 and each <= 16 and (fills or (warps == 1 and block * width < 512))
    if block > 1 and block * width > _ROWS:
        return False
    most = 32 if not has_full_rows else 64 if warps < 16 else 128
    return (each >= 4 or warps == 1) and (each <= most or warps == 32)


def _split_rows(
    schedule: Schedule, reduced: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[Schedule]:
    """Long reductions split into blocks, if there are few rows."""
    instances = math.prod(-(-sizes[n] // b) for n, b in schedule.blocks.items())
    for label in reduced[:1]:
        for parts in (2, 4, 8, 16, 32):
            size = -(-sizes[label] // parts)
            tensor = schedule.tensor(label) or size
            if instances * parts <= 32 * _PROCESSORS and size >= 1024:
                tensors = {**schedule.tensors, label: min(tensor, size)}
                yield Schedule(
                    {**schedule.blocks, label: size}, tensors, num_warps=schedule.num_warps
                )


def _wide(group: Group, tensors: Mapping[str, Tensor]) -> list[str]:
    """Labels of dimensions whose elements are contiguous."""
    result: dict[str, None] = {}
    fused = {f.name for f in group.members}
    for func in group.funcs:
        for access in accesses(func.value):
            if access.name not in fused and access.labels:
                strides = tensors[access.name].strides
                result.update(
                    {n: None for n, s in zip(access.labels, strides, strict=True) if s == 1}
                )
    if not result and group.root.labels:
        result[group.root.labels[-1]] = None
    return [n for n in result if n in group.labels]
